//! One upload to a cache: from the lock to the copy. The protocol is told in [`cache`](crate::cache).

use std::sync::Arc;

use crate::backend::Backend;
use crate::block::Block;
use crate::compare::Shape;
use crate::cursor::Bounds;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{self, CacheOptions, CacheStats};
use crate::room::{is_staging_full, make_ready_regions, make_staging, ready_pool, region_bytes_of};
use crate::shared::{Kept, Locked, Shared};
use crate::slots::{Recorded, Slot, Slots, State};
use crate::staging::{Image, Pool, Timeline};

/// One upload's hold on the cache.
pub(crate) struct Session<'c, B: Backend> {
    shared: &'c Arc<Shared<B>>,
    locked: Locked<'c, B>,
}

impl<'c, B: Backend> Session<'c, B> {
    /// Locks the cache.
    #[inline]
    pub(crate) fn begin(shared: &'c Arc<Shared<B>>) -> Result<Self, Error> {
        Ok(Self { shared, locked: shared.lock()? })
    }

    /// Whether the cache's stream is being captured.
    #[inline]
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        B::is_capturing(&self.shared.stream)
    }

    /// What the cache keeps.
    pub(crate) fn state(&mut self) -> &mut State<B> {
        &mut self.locked.state
    }

    /// A set without bytes: it needs no slot.
    pub(crate) fn without_bytes(&mut self, layout: Layout) -> Result<Arc<Block<B>>, Error> {
        let block = Block::allocate(&self.shared.stream, layout)?;
        self.locked.state.stats.uploads += 1;
        Ok(Arc::new(block))
    }

    /// The slots of that folded shape, the one used last first.
    #[inline]
    pub(crate) fn slots(&mut self, key: u64) -> Slots<'_, B> {
        self.locked.state.slots(key)
    }

    /// Writes slot `index`, which nobody holds.
    #[inline]
    pub(crate) fn rewrite(
        &mut self,
        key: u64,
        index: usize,
        pack: impl Fn(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Arc<Block<B>>, Error> {
        let mut written = self.try_rewrite(key, index, &pack);
        if written.is_err() && self.locked.take_returned() {
            // Slots that come back stand behind the others: the index holds.
            written = self.try_rewrite(key, index, &pack);
        }
        if written.as_ref().is_err_and(is_staging_full) {
            self.make_staging_for(key, index)?;
            written = self.try_rewrite(key, 0, &pack);
        }
        written
    }

    /// Sees to it that there is a region for slot `index`, which has none, and moves the slot to the front.
    #[cold]
    fn make_staging_for(&mut self, key: u64, index: usize) -> Result<(), Error> {
        let state = &mut *self.locked.state;
        // It is not among those that give up their region.
        let slot = state.shapes.get_mut(&key).expect("the slot was found under this key").remove(index);
        let made = make_staging(state, &self.shared.stream, slot.region_bytes, &self.shared.options);
        state.shapes.entry(key).or_default().insert(0, slot);
        made
    }

    #[inline]
    fn try_rewrite(
        &mut self,
        key: u64,
        index: usize,
        pack: impl FnOnce(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Arc<Block<B>>, Error> {
        let State { shapes, pools, timeline, stats, .. } = &mut *self.locked.state;
        let slot = &mut shapes.get_mut(&key).expect("the slot was found under this key")[index];
        // Before the copy: where that fails, only what no kernel relies on has changed.
        slot.block.zero()?;
        if slot.region_bytes == 0 {
            pack_nothing(&slot.block, pack)?;
            let block = Arc::clone(&slot.block);
            self.slots(key).used(index);
            return Ok(block);
        }
        // Where there is no region to write and no room for one: its own, and its image is lost.
        let own = Some(&mut slot.image);
        let (stream, options) = (&self.shared.stream, &self.shared.options);
        let pool = ready_pool(stream, pools, slot.region_bytes, timeline, stats, options, own)?;
        send(slot, pool, timeline, stats, pack)?;
        let block = Arc::clone(&slot.block);
        stats.shape_hits += 1;
        self.slots(key).used(index);
        Ok(block)
    }

    /// Writes a slot that the cache did not have.
    pub(crate) fn write_new(
        &mut self,
        key: u64,
        layout: &Layout,
        pack: impl FnOnce(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Arc<Block<B>>, Error> {
        let written = self.with_new_slot(key, layout, |state, slot, options| {
            let State { pools, timeline, stats, .. } = state;
            slot.block.zero()?;
            if slot.region_bytes == 0 {
                // Scratch alone: there is nothing to copy.
                pack_nothing(&slot.block, pack)?;
                return Ok(Arc::clone(&slot.block));
            }
            let stream = slot.block.stream().clone();
            let pool = ready_pool(&stream, pools, slot.region_bytes, timeline, stats, options, None)?;
            send(slot, pool, timeline, stats, pack)?;
            Ok(Arc::clone(&slot.block))
        })?;
        self.slots(key).used(0);
        Ok(written)
    }

    /// Whether a slot of exactly these columns has come back from a graph that is gone: its index.
    #[cold]
    pub(crate) fn find_returned(&mut self, key: u64, layout: &Layout) -> Option<usize> {
        if self.locked.take_returned() { self.locked.state.find_free(key, layout) } else { None }
    }

    /// Makes a set part of the graph that the stream is being captured into: with a block and a staging region of its own, which
    /// the graph keeps. Calls nothing that a capture forbids. What it needs has to be there.
    #[cold]
    pub(crate) fn capture(
        &mut self,
        key: u64,
        layout: &Layout,
        pack: impl FnOnce(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Arc<Block<B>>, Error> {
        let not_reserved = || Error::new(ErrorKind::NotReserved { needed: layout.size_bytes() });
        self.locked.take_returned();
        let state = &mut *self.locked.state;
        let index = state.find_free(key, layout).ok_or_else(not_reserved)?;
        let slot = &mut state.shapes.get_mut(&key).ok_or_else(not_reserved)?[index];
        let (block, region_bytes) = (Arc::clone(&slot.block), slot.region_bytes);
        let image = if region_bytes == 0 {
            pack_nothing(&block, pack)?;
            None
        } else {
            let pool = state.pools.get_mut(&region_bytes).ok_or_else(not_reserved)?;
            if pool.ready_regions(&state.timeline) == 0
                && let Some(own) = slot.image.take()
            {
                pool.give_back(own, &state.timeline);
            }
            let mut image = pool.take_ready(&state.timeline).ok_or_else(not_reserved)?;
            let written =
                image.write(&state.timeline, &block, |bytes| pack(block.base(), block.layout().bounds(), bytes));
            if let Err(error) = written {
                pool.give_back(image, &state.timeline);
                return Err(error);
            }
            Some(image)
        };
        // Behind the walk, which may have ended the capture, and before there is anything to keep: to keep it then cannot fail.
        let keeper = state.recording.is_none().then(|| B::keeper(&self.shared.stream)).transpose();
        let keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                if let (Some(image), Some(pool)) = (image, state.pools.get_mut(&region_bytes)) {
                    pool.give_back(image, &state.timeline);
                }
                return Err(error);
            }
        };
        // From here on the graph has the block, whatever fails: a call that reports an error may have added its node all the same.
        let captured = image.as_ref().map_or(Ok(()), |image| image.capture(&block)).and_then(|()| block.zero());
        let slot = state.take_into_graph(key, index, image).expect("the slot was found under this key");
        match (&mut state.recording, keeper) {
            (Some(recording), _) => recording.push(Recorded { slot, is_certain: captured.is_ok() }),
            (None, Some(keeper)) => keeper.keep(Box::new(Kept::new(self.shared, slot))),
            (None, None) => unreachable!("where nothing is recorded there is a keeper"),
        }
        captured?;
        state.stats.uploads += 1;
        Ok(block)
    }

    /// Sees to it that so many sets of `layout` can be uploaded, held or captured, without an allocation.
    pub(crate) fn reserve(&mut self, layout: &Layout, sets: usize) -> Result<(), Error> {
        self.locked.take_returned();
        let key = Shape::of(layout);
        if self.free_slots(key, layout) < sets {
            let needed = Block::<B>::room(&self.shared.stream, layout)?.saturating_mul(sets as u64);
            let state = &mut *self.locked.state;
            let cap = self.shared.options.device_bytes.saturating_sub(state.captured_bytes());
            policy::evict(&state.tenants().0, needed, cap)
                .map_err(|available| Error::new(ErrorKind::CacheFull { needed, available }))?;
        }
        // A new block may push out a free one of its own shape, which is older: at worst all of them are new.
        for _ in 0..sets {
            if self.free_slots(key, layout) < sets {
                self.with_new_slot(key, layout, |_, _, _| Ok(()))?;
            }
        }
        let region_bytes = region_bytes_of(layout)?;
        let state = &mut *self.locked.state;
        make_ready_regions(self.shared, state, region_bytes, sets)?;
        // Other shapes that were reserved count on these regions too. What the cap does not allow them, their upload says.
        let free =
            state.tenants().0.iter().filter(|tenant| !tenant.is_held && tenant.region_bytes == region_bytes).count();
        let _ = make_ready_regions(self.shared, state, region_bytes, free);
        Ok(())
    }

    fn free_slots(&mut self, key: u64, layout: &Layout) -> usize {
        let slots = self.slots(key).slots.iter_mut();
        slots.filter_map(|slot| (slot.block.layout() == layout && !slot.is_held()).then_some(())).count()
    }

    /// Sees to it, as far as the caps allow, that every free block has a staging region that may be written: the last chance
    /// before a capture forbids to ask and to allocate.
    pub(crate) fn prepare_for_capture(&mut self) {
        self.locked.take_returned();
        let mut free = std::collections::BTreeMap::<usize, usize>::new();
        for tenant in self.locked.state.tenants().0.iter().filter(|tenant| !tenant.is_held) {
            *free.entry(tenant.region_bytes).or_default() += 1;
        }
        for (region_bytes, slots) in free {
            // What is missing then, the upload says that needs it.
            let _ = make_ready_regions(self.shared, &mut self.locked.state, region_bytes, slots);
        }
    }

    /// A region of that size that may be written, out of its pool.
    pub(crate) fn take_region(&mut self, region_bytes: usize) -> Result<Image<B>, Error> {
        let mut taken = self.try_take_region(region_bytes);
        if taken.is_err() && self.locked.take_returned() {
            taken = self.try_take_region(region_bytes);
        }
        if taken.as_ref().is_err_and(is_staging_full) {
            make_staging(&mut self.locked.state, &self.shared.stream, region_bytes, &self.shared.options)?;
            taken = self.try_take_region(region_bytes);
        }
        taken
    }

    fn try_take_region(&mut self, region_bytes: usize) -> Result<Image<B>, Error> {
        let State { pools, timeline, stats, .. } = &mut *self.locked.state;
        let (stream, options) = (&self.shared.stream, &self.shared.options);
        let pool = ready_pool(stream, pools, region_bytes, timeline, stats, options, None)?;
        let in_flight = pool.size_bytes();
        pool.take_next().ok_or_else(|| Error::new(ErrorKind::StagingExhausted { in_flight }))
    }

    /// Makes a slot for `layout`, lets `fill` use it, and has it join the cache, first of its shape. What has to go leaves the
    /// cache then; after an error it is as before.
    pub(crate) fn with_new_slot<R>(
        &mut self,
        key: u64,
        layout: &Layout,
        fill: impl FnOnce(&mut State<B>, &mut Slot<B>, &CacheOptions) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (stream, options) = (&self.shared.stream, &self.shared.options);
        let region_bytes = region_bytes_of(layout)?;
        let needed = Block::<B>::room(stream, layout)?;
        let state = &mut *self.locked.state;
        let (tenants, places) = state.tenants();
        let cap = options.device_bytes.saturating_sub(state.captured_bytes());
        let gone = policy::evict(&tenants, needed, cap)
            .map_err(|available| Error::new(ErrorKind::CacheFull { needed, available }))?;
        let mut gone = state.take(&gone, &places);
        let mut made = make_staging(state, stream, region_bytes, options);
        if made.as_ref().is_err_and(is_staging_full) && !gone.is_empty() {
            // The room is theirs. Should they stay after all, they are copied again.
            gone.iter_mut().for_each(|(_, slot)| state.release(slot));
            made = make_staging(state, stream, region_bytes, options);
        }
        let filled = made.and_then(|()| Block::allocate(stream, layout.clone())).and_then(|block| {
            let mut slot = state.new_slot(block, region_bytes);
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

/// Walks over a set that is scratch alone: there is nothing to copy.
fn pack_nothing<B: Backend>(
    block: &Block<B>,
    pack: impl FnOnce(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    pack(block.base(), block.layout().bounds(), &mut [])
}

#[inline]
fn send<B: Backend>(
    slot: &mut Slot<B>,
    pool: &mut Pool<B>,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    pack: impl FnOnce(u64, &Bounds, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Slot { block, image, .. } = slot;
    pool.send(timeline, block, image, |bytes| pack(block.base(), block.layout().bounds(), bytes))?;
    stats.copies += 1;
    stats.copied_bytes += block.layout().copy_bytes();
    Ok(())
}
