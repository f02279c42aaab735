//! The cached mode: blocks and staging that outlive an upload, so that the next one of the same shape allocates nothing.
//!
//! # The protocol
//!
//! The cache belongs to one stream. For each shape it keeps *slots*: a device block, and the staging region that holds what was
//! sent to it last, its image. Regions come from *pools*, one for each size. An upload
//!
//! 1. takes the cache's lock, and asks whether the stream is being captured;
//! 2. holds each slot of the shape against the arguments, last used first: the same columns, the same bytes? Then the set
//!    shares that block, held or not, and no call is made;
//! 3. else takes the first slot of the same columns that no set holds, packs the arguments into a region that no pending copy
//!    reads (see [`staging`](crate::staging)), and copies; that region is the image then, and the old one returns to its pool;
//! 4. else allocates a block, and does the same with it. What has to go to make room, [`policy`](crate::policy) says; it goes
//!    when the new block has been written.
//!
//! A slot's state changes only after its copy was submitted; a new slot joins the cache only then, and the evicted leave it. So
//! after an error the cache is as it was, but for two things when staging is at its cap: a slot may have lost its image, and is
//! copied again then; and slots may have gone to make room for staging.
//!
//! The lock is held while the arguments are walked over. A walk that uses the same cache is refused.
//!
//! # Why nothing is stale and nothing races
//!
//! - A set holds its block through an `Arc`; the cache writes a block only while it has the only one. So the bytes that a held
//!   set points to never change.
//! - Work that a set was used for was given to the stream before the set was dropped, and the cache's copies come after the
//!   drop on the same stream: the old work reads the old bytes. `Arc` orders the two for threads.
//! - Work on another stream goes through `on`, which makes the cache's stream wait for it. A block for which that failed
//!   counts as held for ever.
//! - Kernels only read columns: what a kernel wrote into one, a later upload of the same bytes would not notice.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, BackendStream};
use crate::block::Block;
use crate::compare::Shape;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{self, CacheOptions, Tenant, WhenExhausted};
use crate::staging::{Image, Pool, Timeline, regions_for};

/// Device blocks and staging, reused from upload to upload. Bound to the stream that it is made with; shared between threads.
///
/// Kernels must not write into the columns of a cached set: an upload whose bytes equal those of the last one makes no copy,
/// and would not notice. Each upload is compared with every block of its shape, so the cost of a miss grows with the number of
/// held sets of one shape whose bytes begin alike.
///
/// ```
/// use marshal::{ArgCache, DeviceArgs, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Sizes { m: Vec<i32> }
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let cache = ArgCache::new(&stream)?;
///
/// let first = Sizes { m: vec![1, 2] }.upload(&cache)?.base();
/// // The same shape: the same block, copied again.
/// let second = Sizes { m: vec![3, 4] }.upload(&cache)?.base();
/// assert_eq!(first, second);
/// // The same bytes: no call at all.
/// let held = Sizes { m: vec![3, 4] }.upload(&cache)?;
/// // A held set is never rewritten: other bytes get another block.
/// let other = Sizes { m: vec![5, 6] }.upload(&cache)?;
/// assert_ne!(held.base(), other.base());
///
/// let stats = cache.stats();
/// assert_eq!((stats.uploads, stats.copies, stats.allocations), (4, 3, 2));
/// assert_eq!((stats.shape_hits, stats.byte_hits), (1, 1));
/// # Ok::<(), marshal::Error>(())
/// ```
pub struct ArgCache<B: Backend> {
    stream: B::Stream,
    options: CacheOptions,
    state: Mutex<State<B>>,
    // The thread that has the lock, by `here`; 0 for none.
    owner: AtomicUsize,
}

/// What a cache did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Uploads that returned a set.
    pub uploads: u64,
    /// Copies to the device.
    pub copies: u64,
    /// Bytes of those copies.
    pub copied_bytes: u64,
    /// Device blocks that were allocated.
    pub allocations: u64,
    /// Uploads that wrote a block of the same shape again.
    pub shape_hits: u64,
    /// Uploads whose bytes stood in a block already: nothing was copied.
    pub byte_hits: u64,
    /// Blocks that went to make room.
    pub evictions: u64,
    /// Uploads that waited, on the host, for a staging region.
    pub waits: u64,
    /// Device bytes of all blocks now, those left out that only a set still holds.
    pub device_bytes: u64,
    /// Page-locked host bytes of all staging now.
    pub staging_bytes: u64,
}

/// A block, and the staging region that holds what was sent to it last.
pub(crate) struct Slot<B: Backend> {
    block: Arc<Block<B>>,
    // None until the first copy.
    image: Option<Image<B>>,
    region_bytes: usize,
    last_used: u64,
}

impl<B: Backend> Slot<B> {
    /// Lends the block, and the image that stands in it; `None` where none does.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Block<B>, Option<&[u8]>) -> R) -> R {
        match &self.image {
            Some(image) => image.read(|bytes| read(&self.block, Some(bytes))),
            None => read(&self.block, None),
        }
    }

    /// Whether a set, or work on another stream, needs the bytes as they are.
    #[inline]
    pub(crate) fn is_held(&mut self) -> bool {
        Arc::get_mut(&mut self.block).is_none_or(|block| block.is_lent())
    }
}

type Shapes<B> = BTreeMap<u64, Vec<Box<Slot<B>>>>;
type Pools<B> = BTreeMap<usize, Pool<B>>;

struct State<B: Backend> {
    // By the folded shape; in each, the slot used last stands first.
    shapes: Shapes<B>,
    // By the size of their regions.
    pools: Pools<B>,
    timeline: Timeline<B>,
    stats: CacheStats,
}

impl<B: Backend> State<B> {
    fn clear(&mut self) {
        for mut slot in core::mem::take(&mut self.shapes).into_values().flatten() {
            self.release(&mut slot);
        }
        self.pools.clear();
    }

    /// Returns a slot's staging region to its pool.
    fn release(&mut self, slot: &mut Slot<B>) {
        if let (Some(image), Some(pool)) = (slot.image.take(), self.pools.get_mut(&slot.region_bytes)) {
            pool.give_back(image, &self.timeline);
        }
    }

    /// Every slot, and where it is.
    fn tenants(&mut self) -> (Vec<Tenant>, Vec<(u64, usize)>) {
        let (mut tenants, mut places) = (Vec::new(), Vec::new());
        for (&key, slots) in &mut self.shapes {
            for (index, slot) in slots.iter_mut().enumerate() {
                tenants.push(Tenant {
                    device: slot.block.allocated(),
                    region_bytes: slot.region_bytes,
                    last_used: slot.last_used,
                    is_held: slot.is_held(),
                });
                places.push((key, index));
            }
        }
        (tenants, places)
    }

    /// Takes slots out, to be put back or released.
    fn take(&mut self, gone: &[usize], places: &[(u64, usize)]) -> Vec<(u64, Box<Slot<B>>)> {
        let mut gone: Vec<(u64, usize)> = gone.iter().map(|&index| places[index]).collect();
        // From the back, so that the indices before stay right.
        gone.sort_unstable();
        let mut taken = Vec::with_capacity(gone.len());
        for (key, index) in gone.into_iter().rev() {
            if let Some(slots) = self.shapes.get_mut(&key) {
                taken.push((key, slots.remove(index)));
            }
        }
        self.shapes.retain(|_, slots| !slots.is_empty());
        taken
    }

    /// Lets slots go, and the staging of sizes that none is left of.
    fn let_go(&mut self, gone: Vec<(u64, Box<Slot<B>>)>) {
        for (_, mut slot) in gone {
            self.release(&mut slot);
            self.stats.evictions += 1;
        }
    }

    fn staging_bytes(&self) -> u64 {
        self.pools.values().map(Pool::size_bytes).fold(0, u64::saturating_add)
    }
}

impl<B: Backend> Drop for State<B> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<B: Backend> ArgCache<B> {
    /// A cache for `stream`, with the default options. Allocates nothing yet.
    ///
    /// # Errors
    /// When the stream cannot have a cache: the per-thread default stream is another stream on every thread.
    pub fn new<S: BackendStream<Backend = B>>(stream: &S) -> Result<Self, Error>
    where
        B: Backend<Stream = S>,
    {
        Self::with_options(stream, CacheOptions::default())
    }

    /// A cache for `stream`. Allocates nothing yet.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options<S: BackendStream<Backend = B>>(stream: &S, options: CacheOptions) -> Result<Self, Error>
    where
        B: Backend<Stream = S>,
    {
        if B::is_per_thread(stream) {
            return Err(Error::new(ErrorKind::PerThreadStream { device: B::device_name(stream) }));
        }
        let state = State {
            shapes: BTreeMap::new(),
            pools: BTreeMap::new(),
            timeline: Timeline::default(),
            stats: CacheStats::default(),
        };
        Ok(Self { stream: stream.clone(), options, state: Mutex::new(state), owner: AtomicUsize::new(0) })
    }

    /// Allocates block and staging for `layout`, so that the next upload of that shape allocates nothing. Where a block of that
    /// shape is free already, nothing is done.
    ///
    /// # Errors
    /// When the memory is not to be had, or the stream is being captured.
    pub fn reserve(&self, layout: &Layout) -> Result<(), Error> {
        let mut session = self.begin()?;
        let key = Shape::of(layout);
        let is_free = |slot: &mut Box<Slot<B>>| slot.block.layout() == layout && !slot.is_held();
        if layout.size_bytes() == 0 || session.slots(key).slots.iter_mut().any(is_free) {
            return Ok(());
        }
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::Capturing { needed: layout.size_bytes() }));
        }
        session.with_new_slot(key, layout, |_, _, _| Ok(()))?;
        Ok(())
    }

    /// What the cache did so far.
    ///
    /// # Panics
    /// In a walk over arguments that are being uploaded to this cache.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let state = self.lock();
        let mut stats = state.stats;
        let device = state.shapes.values().flatten().map(|slot| slot.block.allocated());
        stats.device_bytes = device.fold(0, u64::saturating_add);
        stats.staging_bytes = state.staging_bytes();
        stats
    }

    /// Lets go of all blocks and staging. What a set holds is freed when the set is dropped; staging that a pending copy reads
    /// is freed behind it. Does not wait.
    ///
    /// # Panics
    /// In a walk over arguments that are being uploaded to this cache.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The stream that the cache belongs to.
    #[must_use]
    pub fn stream(&self) -> &B::Stream {
        &self.stream
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        assert!(!self.is_mine(), "{}", ErrorKind::Reentrant);
        // A walk that panicked has changed no state: see the protocol.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this very thread has the lock, and would wait for itself.
    #[inline]
    fn is_mine(&self) -> bool {
        // Only this thread stores its own mark.
        self.owner.load(Ordering::Relaxed) == here()
    }

    /// Locks the cache for one upload.
    #[inline]
    pub(crate) fn begin(&self) -> Result<Session<'_, B>, Error> {
        if self.is_mine() {
            return Err(Error::new(ErrorKind::Reentrant));
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(here(), Ordering::Relaxed);
        Ok(Session { cache: self, state })
    }
}

/// A mark of this thread: the address of a thread-local. Never the 0 that means nobody; 1 while the thread ends.
#[inline]
fn here() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|here| core::ptr::from_ref(here).addr()).unwrap_or(1)
}

impl<B: Backend> fmt::Debug for ArgCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgCache")
            .field("stream", &B::device_name(&self.stream))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// One upload's hold on the cache.
pub(crate) struct Session<'c, B: Backend> {
    cache: &'c ArgCache<B>,
    state: MutexGuard<'c, State<B>>,
}

impl<B: Backend> Drop for Session<'_, B> {
    fn drop(&mut self) {
        self.cache.owner.store(0, Ordering::Relaxed);
    }
}

impl<B: Backend> Session<'_, B> {
    /// Whether the cache's stream is being captured.
    #[inline]
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        B::is_capturing(&self.cache.stream)
    }

    /// A set without bytes: it needs no slot.
    pub(crate) fn without_bytes(&mut self, layout: Layout) -> Result<Arc<Block<B>>, Error> {
        let block = Block::allocate(&self.cache.stream, layout)?;
        self.state.stats.uploads += 1;
        Ok(Arc::new(block))
    }

    /// The slots of that folded shape, the one used last first.
    #[inline]
    pub(crate) fn slots(&mut self, key: u64) -> Slots<'_, B> {
        let State { shapes, stats, .. } = &mut *self.state;
        Slots { slots: shapes.get_mut(&key).map_or(&mut [], Vec::as_mut_slice), stats }
    }

    /// Writes slot `index`, which nobody holds.
    #[inline]
    pub(crate) fn rewrite<P>(
        &mut self,
        key: u64,
        index: usize,
        pack: impl FnOnce(u64, &mut [u8]) -> Result<P, Error>,
    ) -> Result<(P, Arc<Block<B>>), Error> {
        let State { shapes, pools, timeline, stats } = &mut *self.state;
        let slot = &mut shapes.get_mut(&key).expect("the slot was found under this key")[index];
        // Where there is no region to write and no room for one: its own, and its image is lost.
        let own = Some(&mut slot.image);
        let (stream, options) = (&self.cache.stream, &self.cache.options);
        let pool = ready_pool(stream, pools, slot.region_bytes, timeline, stats, options, own)?;
        let packed = send(slot, pool, timeline, stats, pack)?;
        let block = Arc::clone(&slot.block);
        stats.shape_hits += 1;
        self.slots(key).used(index);
        Ok((packed, block))
    }

    /// Writes a slot that the cache did not have.
    pub(crate) fn write_new<P>(
        &mut self,
        key: u64,
        layout: &Layout,
        pack: impl FnOnce(u64, &mut [u8]) -> Result<P, Error>,
    ) -> Result<(P, Arc<Block<B>>), Error> {
        let written = self.with_new_slot(key, layout, |state, slot, options| {
            let State { pools, timeline, stats, .. } = state;
            let stream = slot.block.stream().clone();
            let pool = ready_pool(&stream, pools, slot.region_bytes, timeline, stats, options, None)?;
            let packed = send(slot, pool, timeline, stats, pack)?;
            Ok((packed, Arc::clone(&slot.block)))
        })?;
        self.slots(key).used(0);
        Ok(written)
    }

    /// Makes a slot for `layout`, lets `fill` use it, and has it join the cache, first of its shape. What has to go leaves the
    /// cache then; after an error it is as before.
    fn with_new_slot<R>(
        &mut self,
        key: u64,
        layout: &Layout,
        fill: impl FnOnce(&mut State<B>, &mut Slot<B>, &CacheOptions) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (stream, options) = (&self.cache.stream, &self.cache.options);
        let region_bytes = policy::region_bytes(layout.copy_bytes());
        let region_bytes = usize::try_from(region_bytes)
            .map_err(|_| Error::new(ErrorKind::TooLarge { needed: region_bytes, available: usize::MAX as u64 }))?;
        let needed = Block::<B>::room(stream, layout)?;
        let state = &mut *self.state;
        let (tenants, places) = state.tenants();
        let gone = policy::evict(&tenants, needed, options.device_bytes)
            .map_err(|available| Error::new(ErrorKind::CacheFull { needed, available }))?;
        let gone = state.take(&gone, &places);
        let filled = make_staging(state, stream, region_bytes, options)
            .and_then(|()| Block::allocate(stream, layout.clone()))
            .and_then(|block| {
                // Later than all uploads so far, should this be a block that is reserved.
                let last_used = state.stats.uploads + 1;
                let mut slot = Box::new(Slot { block: Arc::new(block), image: None, region_bytes, last_used });
                let filled = fill(state, &mut slot, options)?;
                Ok((filled, slot))
            });
        match filled {
            Ok((filled, slot)) => {
                state.let_go(gone);
                state.stats.allocations += 1;
                state.shapes.entry(key).or_default().insert(0, slot);
                Ok(filled)
            }
            Err(error) => {
                for (key, slot) in gone {
                    state.shapes.entry(key).or_default().push(slot);
                }
                Err(error)
            }
        }
    }
}

/// The slots of one folded shape.
pub(crate) struct Slots<'s, B: Backend> {
    slots: &'s mut [Box<Slot<B>>],
    stats: &'s mut CacheStats,
}

impl<B: Backend> Slots<'_, B> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn slot(&mut self, index: usize) -> &mut Slot<B> {
        &mut self.slots[index]
    }

    /// The block of slot `index`, whose bytes are those of the arguments.
    #[inline]
    pub(crate) fn share(&mut self, index: usize) -> Arc<Block<B>> {
        let block = Arc::clone(&self.slots[index].block);
        self.stats.byte_hits += 1;
        self.used(index);
        block
    }

    /// Slot `index` was used by an upload that returns a set.
    #[inline]
    fn used(&mut self, index: usize) {
        self.stats.uploads += 1;
        self.slots[index].last_used = self.stats.uploads;
        if index != 0 {
            self.slots[..=index].rotate_right(1);
        }
    }
}

/// Sees to it that there is a region for a new block of this size: one more where the cap allows it, else one that a block gives
/// up which nobody holds.
#[cold]
fn make_staging<B: Backend>(
    state: &mut State<B>,
    stream: &B::Stream,
    region_bytes: usize,
    options: &CacheOptions,
) -> Result<(), Error> {
    loop {
        let room = options.staging_bytes.saturating_sub(state.staging_bytes());
        let pool = state.pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes));
        if pool.free_regions() != 0 {
            return Ok(());
        }
        if let Some(regions) = regions_for(region_bytes, room) {
            return pool.add(regions);
        }
        let (tenants, places) = state.tenants();
        let is_used = |size: usize| size == region_bytes || tenants.iter().any(|tenant| tenant.region_bytes == size);
        if state.pools.keys().any(|&size| !is_used(size)) {
            state.pools.retain(|&size, _| is_used(size));
            continue;
        }
        let Some(gone) = policy::free_staging(&tenants, region_bytes) else {
            return Err(Error::new(ErrorKind::StagingFull { needed: region_bytes as u64, available: room }));
        };
        let of_size = tenants[gone[0]].region_bytes;
        let gone = state.take(&gone, &places);
        state.let_go(gone);
        if of_size != region_bytes {
            state.pools.remove(&of_size);
        }
    }
}

/// The pool of that size, whose next region may be written.
#[inline]
fn ready_pool<'p, B: Backend>(
    stream: &B::Stream,
    pools: &'p mut Pools<B>,
    region_bytes: usize,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    options: &CacheOptions,
    image: Option<&mut Option<Image<B>>>,
) -> Result<&'p mut Pool<B>, Error> {
    let is_ready = match pools.get(&region_bytes) {
        Some(pool) => pool.is_ready(timeline)?,
        None => false,
    };
    if !is_ready {
        make_ready(stream, pools, region_bytes, timeline, stats, options, image)?;
    }
    Ok(pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes)))
}

/// No region is free to be written: adds some, waits for one, or refuses, as the options say.
#[cold]
fn make_ready<B: Backend>(
    stream: &B::Stream,
    pools: &mut Pools<B>,
    region_bytes: usize,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    options: &CacheOptions,
    image: Option<&mut Option<Image<B>>>,
) -> Result<(), Error> {
    let taken = pools.values().map(Pool::size_bytes).fold(0, u64::saturating_add);
    let room = options.staging_bytes.saturating_sub(taken);
    let pool = pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes));
    let is_empty = pool.free_regions() == 0;
    if (is_empty || options.when_exhausted == WhenExhausted::Grow)
        && let Some(regions) = regions_for(region_bytes, room)
    {
        return pool.add(regions);
    }
    if is_empty {
        let Some(image) = image.and_then(Option::take) else {
            return Err(Error::new(ErrorKind::StagingFull { needed: region_bytes as u64, available: room }));
        };
        pool.give_back(image, timeline);
        if pool.is_ready(timeline)? {
            return Ok(());
        }
    }
    if options.when_exhausted == WhenExhausted::Error {
        return Err(Error::new(ErrorKind::StagingExhausted { in_flight: pool.size_bytes() }));
    }
    pool.wait(timeline)?;
    stats.waits += 1;
    Ok(())
}

#[inline]
fn send<B: Backend, P>(
    slot: &mut Slot<B>,
    pool: &mut Pool<B>,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    pack: impl FnOnce(u64, &mut [u8]) -> Result<P, Error>,
) -> Result<P, Error> {
    let Slot { block, image, .. } = slot;
    let packed = pool.send(timeline, block, image, |bytes| pack(block.base(), bytes))?;
    stats.copies += 1;
    stats.copied_bytes += block.layout().copy_bytes();
    Ok(packed)
}
