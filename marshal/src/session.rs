//! One upload to a cache: from the lock to the copy. The protocol is told in [`cache`](crate::cache).

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::backend::Backend;
use crate::block::Block;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{self, CacheOptions, CacheStats, WhenExhausted};
use crate::slots::{Pools, Slot, Slots, State, staging_bytes};
use crate::staging::{Image, Pool, Timeline, regions_for};

/// One upload's hold on the cache.
pub(crate) struct Session<'c, B: Backend> {
    stream: &'c B::Stream,
    options: &'c CacheOptions,
    // Cleared when the upload is over: see `ArgCache`.
    owner: &'c AtomicUsize,
    state: MutexGuard<'c, State<B>>,
}

impl<B: Backend> Drop for Session<'_, B> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl<'c, B: Backend> Session<'c, B> {
    /// Of the cache of `stream`, whose lock is `state`. `owner` is cleared at the end.
    #[inline]
    pub(crate) fn new(
        stream: &'c B::Stream,
        options: &'c CacheOptions,
        owner: &'c AtomicUsize,
        state: MutexGuard<'c, State<B>>,
    ) -> Self {
        Self { stream, options, owner, state }
    }

    /// Whether the cache's stream is being captured.
    #[inline]
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        B::is_capturing(self.stream)
    }

    /// A set without bytes: it needs no slot.
    pub(crate) fn without_bytes(&mut self, layout: Layout) -> Result<Arc<Block<B>>, Error> {
        let block = Block::allocate(self.stream, layout)?;
        self.state.stats.uploads += 1;
        Ok(Arc::new(block))
    }

    /// The slots of that folded shape, the one used last first.
    #[inline]
    pub(crate) fn slots(&mut self, key: u64) -> Slots<'_, B> {
        self.state.slots(key)
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
        let (stream, options) = (self.stream, self.options);
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
            slot.block.zero()?;
            if slot.region_bytes == 0 {
                // Scratch alone: there is nothing to copy.
                return Ok((pack(slot.block.base(), &mut [])?, Arc::clone(&slot.block)));
            }
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
    pub(crate) fn with_new_slot<R>(
        &mut self,
        key: u64,
        layout: &Layout,
        fill: impl FnOnce(&mut State<B>, &mut Slot<B>, &CacheOptions) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (stream, options) = (self.stream, self.options);
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
                let mut slot = Box::new(Slot::new(block, region_bytes, last_used));
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

/// Sees to it that there is a region for a new block of this size, if it needs any: one more where the cap allows it, else one
/// that a block gives up which nobody holds.
#[cold]
fn make_staging<B: Backend>(
    state: &mut State<B>,
    stream: &B::Stream,
    region_bytes: usize,
    options: &CacheOptions,
) -> Result<(), Error> {
    if region_bytes == 0 {
        return Ok(());
    }
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
    let room = options.staging_bytes.saturating_sub(staging_bytes(pools));
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
