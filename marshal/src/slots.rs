//! What a cache keeps: blocks by shape, staging by size, and who goes when room is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::block::Block;
use crate::compare::Shape;
use crate::layout::Layout;
use crate::policy::{CacheStats, Tenant};
use crate::staging::{Image, Pool, Timeline};

/// A block, and the staging region that holds what was sent to it last.
pub(crate) struct Slot<B: Backend> {
    pub(crate) block: Arc<Block<B>>,
    /// `None` until the first copy, and where nothing is copied. In a graph: what its next launch sends.
    pub(crate) image: Option<Image<B>>,
    /// In a graph: the region that its copy reads from now on, where that is not the image's.
    pub(crate) next: Option<Image<B>>,
    pub(crate) region_bytes: usize,
    last_used: u64,
    // Of the cache's blocks, when this one was taken into a graph: see `State::generation`.
    generation: u64,
}

impl<B: Backend> Slot<B> {
    fn new(block: Block<B>, region_bytes: usize, last_used: u64) -> Self {
        Self { block: Arc::new(block), image: None, next: None, region_bytes, last_used, generation: 0 }
    }

    /// Lends the block, and the image that stands in it; `None` where none does.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Block<B>, Option<&[u8]>) -> R) -> R {
        match &self.image {
            Some(image) => image.read(|bytes| read(&self.block, Some(bytes))),
            // Nothing is copied, and nothing can differ.
            None if self.block.layout().copy_bytes() == 0 => read(&self.block, Some(&[])),
            None => read(&self.block, None),
        }
    }

    /// Whether a set of the same bytes may have the block. Where kernels write into it, only while nobody else has it.
    #[inline]
    pub(crate) fn is_shareable(&mut self) -> bool {
        !self.block.layout().bounds().has_scratch() || !self.is_held()
    }

    /// Whether a set, or work on another stream, needs the bytes as they are.
    #[inline]
    pub(crate) fn is_held(&mut self) -> bool {
        Arc::get_mut(&mut self.block).is_none_or(|block| block.is_lent())
    }
}

pub(crate) type Shapes<B> = BTreeMap<u64, Vec<Box<Slot<B>>>>;
pub(crate) type Pools<B> = BTreeMap<usize, Pool<B>>;

pub(crate) struct State<B: Backend> {
    /// By the folded shape; in each, the slot used last stands first.
    pub(crate) shapes: Shapes<B>,
    /// By the size of their regions.
    pub(crate) pools: Pools<B>,
    pub(crate) timeline: Timeline<B>,
    pub(crate) stats: CacheStats,
    // Counts what makes a slot the one used last.
    uses: u64,
    /// While `ArgCache::capture` runs: the slots that were taken into its graph.
    pub(crate) recording: Option<Vec<Recorded<B>>>,
    // Device bytes of the slots that are in graphs.
    captured_bytes: u64,
    // Counts `clear`: a slot that comes back from a graph and is older is let go.
    generation: u64,
}

/// A slot that was taken into a graph.
pub(crate) struct Recorded<B: Backend> {
    pub(crate) slot: Box<Slot<B>>,
    /// The graph has its copy. Where a call has failed it may have it, or not.
    pub(crate) is_certain: bool,
}

impl<B: Backend> Default for State<B> {
    fn default() -> Self {
        Self {
            shapes: BTreeMap::new(),
            pools: BTreeMap::new(),
            timeline: Timeline::default(),
            stats: CacheStats::default(),
            uses: 0,
            recording: None,
            captured_bytes: 0,
            generation: 0,
        }
    }
}

impl<B: Backend> State<B> {
    /// The slots of that folded shape, the one used last first.
    #[inline]
    pub(crate) fn slots(&mut self, key: u64) -> Slots<'_, B> {
        Slots {
            slots: self.shapes.get_mut(&key).map_or(&mut [], Vec::as_mut_slice),
            stats: &mut self.stats,
            uses: &mut self.uses,
        }
    }

    /// A slot whose block nothing was sent to, later in use than all others.
    pub(crate) fn new_slot(&mut self, block: Block<B>, region_bytes: usize) -> Box<Slot<B>> {
        self.uses += 1;
        Box::new(Slot::new(block, region_bytes, self.uses))
    }

    /// Lets go of everything but what is in graphs.
    pub(crate) fn clear(&mut self) {
        for mut slot in core::mem::take(&mut self.shapes).into_values().flatten() {
            self.release(&mut slot);
        }
        self.pools.clear();
        self.captured_bytes = 0;
        self.generation += 1;
    }

    /// Returns a slot's staging regions to their pool.
    pub(crate) fn release(&mut self, slot: &mut Slot<B>) {
        for image in [slot.image.take(), slot.next.take()].into_iter().flatten() {
            self.give_back(image, slot.region_bytes);
        }
    }

    /// Returns a region to its pool.
    pub(crate) fn give_back(&mut self, image: Image<B>, region_bytes: usize) {
        if let Some(pool) = self.pools.get_mut(&region_bytes) {
            pool.give_back(image, &self.timeline);
        }
    }

    /// A slot of exactly these columns that nobody holds: its key and index.
    pub(crate) fn find_free(&mut self, key: u64, layout: &Layout) -> Option<usize> {
        self.shapes.get_mut(&key)?.iter_mut().position(|slot| slot.block.layout() == layout && !slot.is_held())
    }

    /// Takes slot `index` out, into a graph, whose copy reads `image`.
    pub(crate) fn take_into_graph(&mut self, key: u64, index: usize, image: Option<Image<B>>) -> Option<Box<Slot<B>>> {
        let slots = self.shapes.get_mut(&key)?;
        let mut slot = slots.remove(index);
        if slots.is_empty() {
            self.shapes.remove(&key);
        }
        self.release(&mut slot);
        slot.image = image;
        slot.generation = self.generation;
        self.captured_bytes += slot.block.allocated();
        Some(slot)
    }

    /// Takes a slot back whose graph is gone: free, and without an image, since nobody knows what the last replay left there.
    pub(crate) fn take_back(&mut self, mut slot: Box<Slot<B>>) {
        if slot.generation != self.generation {
            return;
        }
        self.captured_bytes -= slot.block.allocated();
        self.release(&mut slot);
        let key = Shape::of(slot.block.layout());
        self.shapes.entry(key).or_default().push(slot);
    }

    /// Never lets go of slots that a graph reads which nobody here has.
    #[cold]
    pub(crate) fn leak(&mut self, recorded: Vec<Recorded<B>>) {
        for Recorded { slot, .. } in &recorded {
            self.captured_bytes -= slot.block.allocated();
        }
        core::mem::forget(recorded);
    }

    /// Device bytes of the slots that are in graphs.
    pub(crate) fn captured_bytes(&self) -> u64 {
        self.captured_bytes
    }

    /// Every slot, and where it is.
    pub(crate) fn tenants(&mut self) -> (Vec<Tenant>, Vec<(u64, usize)>) {
        let (mut tenants, mut places) = (Vec::new(), Vec::new());
        for (&key, slots) in &mut self.shapes {
            for (index, slot) in slots.iter_mut().enumerate() {
                tenants.push(Tenant {
                    device: slot.block.allocated(),
                    region_bytes: slot.region_bytes,
                    has_region: slot.image.is_some(),
                    last_used: slot.last_used,
                    is_held: slot.is_held(),
                });
                places.push((key, index));
            }
        }
        (tenants, places)
    }

    /// Takes slots out, to be put back or released.
    pub(crate) fn take(&mut self, gone: &[usize], places: &[(u64, usize)]) -> Vec<(u64, Box<Slot<B>>)> {
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

    /// Lets slots go that were taken out; their staging returns to its pools.
    pub(crate) fn let_go(&mut self, gone: Vec<(u64, Box<Slot<B>>)>) {
        for (_, mut slot) in gone {
            self.release(&mut slot);
            self.stats.evictions += 1;
        }
    }

    /// Device bytes of all blocks, those in graphs among them.
    pub(crate) fn device_bytes(&self) -> u64 {
        let blocks = self.shapes.values().flatten();
        blocks.map(|slot| slot.block.allocated()).fold(self.captured_bytes, u64::saturating_add)
    }

    /// Host bytes of all staging.
    pub(crate) fn staging_bytes(&self) -> u64 {
        staging_bytes(&self.pools)
    }
}

/// Host bytes of all regions.
pub(crate) fn staging_bytes<B: Backend>(pools: &Pools<B>) -> u64 {
    pools.values().map(Pool::size_bytes).fold(0, u64::saturating_add)
}

impl<B: Backend> Drop for State<B> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The slots of one folded shape.
pub(crate) struct Slots<'s, B: Backend> {
    pub(crate) slots: &'s mut [Box<Slot<B>>],
    stats: &'s mut CacheStats,
    uses: &'s mut u64,
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
    pub(crate) fn used(&mut self, index: usize) {
        self.stats.uploads += 1;
        *self.uses += 1;
        self.slots[index].last_used = *self.uses;
        if index != 0 {
            self.slots[..=index].rotate_right(1);
        }
    }
}
