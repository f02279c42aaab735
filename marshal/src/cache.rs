//! The cached mode: blocks and staging that outlive an upload, so that the next one of the same shape allocates nothing.
//!
//! # The protocol
//!
//! The cache belongs to one stream. For each shape it keeps *slots*: a device block, and a ring of staging whose last written
//! region is the image that stands in the block. An upload
//!
//! 1. takes the cache's lock, and asks whether the stream is being captured;
//! 2. folds the shape, and holds each slot of that number against the arguments, last used first: the same columns, the same
//!    bytes? Then the set shares that block, held or not, and no call is made;
//! 3. else takes the first slot of the same columns that no set holds, packs the arguments into its ring's next region, and
//!    copies. The region is one that no pending copy reads: see [`staging`](crate::staging);
//! 4. else allocates a slot, after evicting what [`policy`](crate::policy) says, and does the same with it. An evicted slot of
//!    the right size is used as it is.
//!
//! A slot's state changes only after its copy was submitted; a new slot joins the cache only then. So an error leaves the
//! cache as it was.
//!
//! # Why nothing is stale and nothing races
//!
//! - A set holds its block through an `Arc`; the cache writes a block only while it has the only one. So the bytes that a held
//!   set points to never change.
//! - Work that a set was used for was given to the stream before the set was dropped, and the cache's copies come after the
//!   drop on the same stream: the old work reads the old bytes. `Arc` orders the two for threads.
//! - Work on another stream goes through `on`, which makes the cache's stream wait for it. A block for which that failed
//!   counts as held for ever.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, BackendStream};
use crate::block::Block;
use crate::compare::Shape;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{CacheOptions, Room, Tenant, WhenExhausted, capacity, evict};
use crate::staging::{Ring, Timeline, regions_for};

/// Device blocks and staging, reused from upload to upload. Bound to the stream that it is made with; shared between threads.
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

/// A block, and the staging that it is written from.
pub(crate) struct Slot<B: Backend> {
    block: Arc<Block<B>>,
    ring: Ring<B>,
    last_used: u64,
}

impl<B: Backend> Slot<B> {
    fn allocate(stream: &B::Stream, layout: &Layout, regions: usize) -> Result<Self, Error> {
        let capacity = capacity(layout.size_bytes());
        let block = Block::allocate(stream, layout.clone(), capacity)?;
        let ring = Ring::allocate(stream, region_bytes(layout)?, regions)?;
        Ok(Self { block: Arc::new(block), ring, last_used: 0 })
    }

    /// Lends the block, and the image that stands in it; `None` where none does.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Block<B>, Option<&[u8]>) -> R) -> R {
        self.ring.read_image(|image| read(&self.block, image))
    }

    /// Whether a set, or work on another stream, needs the bytes as they are.
    pub(crate) fn is_held(&mut self) -> bool {
        Arc::get_mut(&mut self.block).is_none_or(|block| block.is_lent())
    }

    fn room(&self) -> Room {
        Room { device: self.block.allocated(), staging: self.ring.size_bytes() }
    }

    /// Uses the slot for another layout, where it fits; nobody holds it.
    fn refit(&mut self, layout: &Layout) -> bool {
        let fits = region_bytes(layout).is_ok_and(|bytes| bytes == self.ring.region_bytes());
        let refit = fits && Arc::get_mut(&mut self.block).is_some_and(|block| block.refit(layout));
        if refit {
            self.ring.forget_image();
        }
        refit
    }
}

/// Bytes of a staging region for `layout`.
fn region_bytes(layout: &Layout) -> Result<usize, Error> {
    let bytes = capacity(layout.copy_bytes());
    usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::TooLarge { needed: bytes, available: usize::MAX as u64 }))
}

struct State<B: Backend> {
    // By the folded shape; in each, the slot used last stands first.
    shapes: Shapes<B>,
    timeline: Timeline<B>,
    stats: CacheStats,
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
        let state = State { shapes: BTreeMap::new(), timeline: Timeline::default(), stats: CacheStats::default() };
        Ok(Self { stream: stream.clone(), options, state: Mutex::new(state) })
    }

    /// Allocates block and staging for `layout`, so that the next upload of that shape allocates nothing. Where a block of that
    /// shape is free already, nothing is done.
    ///
    /// # Errors
    /// When the memory is not to be had, or the stream is being captured.
    pub fn reserve(&self, layout: &Layout) -> Result<(), Error> {
        let mut session = self.begin();
        let key = Shape::of(layout);
        let is_free = |slot: &mut Box<Slot<B>>| slot.block.layout() == layout && !slot.is_held();
        if layout.size_bytes() == 0 || session.slots(key).slots.iter_mut().any(is_free) {
            return Ok(());
        }
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::Capturing { needed: layout.size_bytes() }));
        }
        let slot = session.new_slot(layout)?;
        session.insert(key, slot);
        Ok(())
    }

    /// What the cache did so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let state = self.lock();
        let mut stats = state.stats;
        for slot in state.shapes.values().flatten() {
            let Room { device, staging } = slot.room();
            stats.device_bytes = stats.device_bytes.saturating_add(device);
            stats.staging_bytes = stats.staging_bytes.saturating_add(staging);
        }
        stats
    }

    /// Lets go of all blocks and staging. What a set holds is freed when the set is dropped; staging that a pending copy reads
    /// is freed behind it. Does not wait.
    pub fn clear(&self) {
        self.lock().shapes.clear();
    }

    /// The stream that the cache belongs to.
    #[must_use]
    pub fn stream(&self) -> &B::Stream {
        &self.stream
    }

    // A walk that panicked has changed no state: see the protocol.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the cache for one upload.
    #[inline]
    pub(crate) fn begin(&self) -> Session<'_, B> {
        Session { cache: self, state: self.lock() }
    }
}

impl<B: Backend> fmt::Debug for ArgCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgCache")
            .field("stream", &B::device_name(&self.stream))
            .field("options", &self.options)
            .field("stats", &self.stats())
            .finish()
    }
}

/// One upload's hold on the cache.
pub(crate) struct Session<'c, B: Backend> {
    cache: &'c ArgCache<B>,
    state: MutexGuard<'c, State<B>>,
}

impl<B: Backend> Session<'_, B> {
    /// Whether the cache's stream is being captured.
    #[inline]
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        B::is_capturing(&self.cache.stream)
    }

    /// A set without bytes: it needs no slot.
    pub(crate) fn without_bytes(&mut self, layout: Layout) -> Result<Arc<Block<B>>, Error> {
        let block = Block::allocate(&self.cache.stream, layout, 0)?;
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
        let State { shapes, timeline, stats, .. } = &mut *self.state;
        let slot = &mut shapes.get_mut(&key).expect("the slot was found under this key")[index];
        if !slot.ring.is_ready(timeline)? {
            make_ready(shapes, key, index, timeline, stats, &self.cache.options)?;
        }
        let slot = &mut shapes.get_mut(&key).expect("the slot was found under this key")[index];
        let packed = send(slot, timeline, stats, pack)?;
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
        let mut slot = self.new_slot(layout)?;
        let State { timeline, stats, .. } = &mut *self.state;
        if !slot.ring.is_ready(timeline)? {
            // An evicted slot that is still read.
            slot.ring.wait(timeline)?;
            stats.waits += 1;
        }
        let packed = send(&mut slot, timeline, stats, pack)?;
        let block = Arc::clone(&slot.block);
        self.insert(key, slot);
        self.slots(key).used(0);
        Ok((packed, block))
    }

    /// A slot for `layout`: an evicted one, or a new one.
    fn new_slot(&mut self, layout: &Layout) -> Result<Box<Slot<B>>, Error> {
        let region_bytes = region_bytes(layout)?;
        let regions = regions_for(region_bytes);
        let staging = (region_bytes as u64).saturating_mul(regions as u64);
        let needed = Room { device: capacity(layout.size_bytes()), staging };
        if let Some(slot) = self.evict(needed, layout)? {
            return Ok(slot);
        }
        let slot = Slot::allocate(&self.cache.stream, layout, regions)?;
        self.state.stats.allocations += 1;
        Ok(Box::new(slot))
    }

    /// Makes room for `needed`. Where an evicted slot can hold `layout`, returns it.
    fn evict(&mut self, needed: Room, layout: &Layout) -> Result<Option<Box<Slot<B>>>, Error> {
        let State { shapes, stats, .. } = &mut *self.state;
        let mut keys = Vec::new();
        let mut tenants = Vec::new();
        for (&key, slots) in shapes.iter_mut() {
            for (index, slot) in slots.iter_mut().enumerate() {
                keys.push((key, index));
                tenants.push(Tenant { room: slot.room(), last_used: slot.last_used, is_held: slot.is_held() });
            }
        }
        let options = &self.cache.options;
        let Some(mut gone) = evict(&tenants, needed, options) else {
            let sum =
                |of: fn(&Tenant) -> u64| tenants.iter().filter(|t| t.is_held).map(of).fold(0, u64::saturating_add);
            let held = Room { device: sum(|t| t.room.device), staging: sum(|t| t.room.staging) };
            return Err(Error::new(ErrorKind::CacheFull {
                needed_device: needed.device,
                available_device: options.device_bytes.saturating_sub(held.device),
                needed_staging: needed.staging,
                available_staging: options.staging_bytes.saturating_sub(held.staging),
            }));
        };
        // From the back, so that the indices before stay right.
        gone.sort_by_key(|&index| keys[index]);
        let mut reusable = None;
        for index in gone.into_iter().rev() {
            let (key, index) = keys[index];
            let slots = shapes.get_mut(&key).expect("the key was just listed");
            let mut slot = slots.remove(index);
            if slots.is_empty() {
                shapes.remove(&key);
            }
            stats.evictions += 1;
            if reusable.is_none() && slot.refit(layout) {
                reusable = Some(slot);
            }
        }
        Ok(reusable)
    }

    fn insert(&mut self, key: u64, slot: Box<Slot<B>>) {
        self.state.shapes.entry(key).or_default().insert(0, slot);
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

type Shapes<B> = BTreeMap<u64, Vec<Box<Slot<B>>>>;

/// Every region of the slot is read by a pending copy: waits for one, adds some, or refuses, as the options say.
#[cold]
fn make_ready<B: Backend>(
    shapes: &mut Shapes<B>,
    key: u64,
    index: usize,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    options: &CacheOptions,
) -> Result<(), Error> {
    let taken = shapes.values().flatten().map(|slot| slot.ring.size_bytes()).fold(0, u64::saturating_add);
    let ring = &mut shapes.get_mut(&key).expect("the slot was found under this key")[index].ring;
    let may_grow = taken.saturating_add(ring.size_bytes()) <= options.staging_bytes;
    match options.when_exhausted {
        WhenExhausted::Error => Err(Error::new(ErrorKind::StagingExhausted { in_flight: ring.size_bytes() })),
        WhenExhausted::Grow if may_grow => ring.grow(),
        WhenExhausted::Grow | WhenExhausted::Wait => {
            ring.wait(timeline)?;
            stats.waits += 1;
            Ok(())
        }
    }
}

#[inline]
fn send<B: Backend, P>(
    slot: &mut Slot<B>,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    pack: impl FnOnce(u64, &mut [u8]) -> Result<P, Error>,
) -> Result<P, Error> {
    let Slot { block, ring, .. } = slot;
    let packed = ring.send(timeline, block, |image| pack(block.base(), image))?;
    stats.copies += 1;
    stats.copied_bytes += block.layout().copy_bytes();
    Ok(packed)
}
