//! What batches on one stream use again: regions of staging, lists, and the question how far the stream has come.

use std::sync::Arc;

use super::lists::Lists;
use super::parked::Parked;
use crate::backend::{Backend, HostMemory};
use crate::error::{Error, ErrorKind};
use crate::staging::Timeline;

pub(crate) struct Pool<B: Backend> {
    pub(crate) timeline: Timeline<B>,
    pub(crate) parked: Parked,
    // The one that was used last stands last.
    idle: Vec<Idle<B>>,
    // Of all regions, the leased ones among them.
    bytes: usize,
    // Since the last fence that bytes were the reason for.
    unmarked_bytes: usize,
    lists: Vec<Lists<'static>>,
}

pub(crate) struct Region<B: Backend> {
    pub(crate) memory: B::Region,
    bytes: usize,
}

struct Idle<B: Backend> {
    region: Region<B>,
    // The last batch that uses the region.
    batch: u64,
}

/// Sizes of regions are multiples of this.
const REGION_BYTES: usize = 64 << 10;
/// Regions take no more than this together, unless a batch needs it.
const MOST_BYTES: usize = 64 << 20;
/// Before they take so much, none is asked for: a question costs as much as a copy, and among few regions each batch would ask.
const LEAST_BYTES: usize = 2 << 20;
/// So much is allocated ahead of need at once.
const AHEAD_BYTES: usize = 16 << 20;
/// A fence is recorded every so many batches, half of the smallest regions that make up [`LEAST_BYTES`]: one answer frees the other half.
const MARK_DISTANCE: u64 = 16;
/// Or behind so many bytes: whoever waits for their memory should not wait for much more.
const MARK_BYTES: usize = 4 << 20;
/// The lists of so many batches are kept for those to come.
const MOST_LISTS: usize = 4;

impl<B: Backend> Default for Pool<B> {
    fn default() -> Self {
        Self {
            timeline: Timeline::default(),
            parked: Parked::default(),
            idle: Vec::new(),
            bytes: 0,
            unmarked_bytes: 0,
            lists: Vec::new(),
        }
    }
}

impl<B: Backend> Pool<B> {
    /// A region that no copy uses. On a stream that is being captured the driver is not asked for anything.
    pub(crate) fn take(&mut self, stream: &B::Stream, bytes: usize, is_capturing: bool) -> Result<Region<B>, Error> {
        let is_ready = |idle: &Idle<B>| idle.region.bytes >= bytes && self.timeline.is_known_done(idle.batch);
        if let Some(ready) = self.idle.iter().rposition(is_ready) {
            return Ok(self.idle.remove(ready).region);
        }
        if is_capturing {
            return Err(Error::new(ErrorKind::Capturing { needed: bytes as u64 }));
        }
        let oldest = self.idle.iter().position(|idle| idle.region.bytes >= bytes);
        let size = bytes.checked_next_multiple_of(REGION_BYTES).ok_or_else(|| too_large(bytes))?;
        if let Some(oldest) = oldest.filter(|_| self.bytes >= LEAST_BYTES) {
            let batch = self.idle[oldest].batch;
            if !self.has_room(size) {
                self.timeline.wait(stream, batch)?;
            }
            if self.timeline.has_run(stream, batch)? {
                return Ok(self.idle.remove(oldest).region);
            }
        } else if !self.has_room(size) {
            // All too small.
            self.retire_all(stream);
        }
        let region = self.allocate(stream, size)?;
        self.allocate_ahead(stream, size);
        Ok(region)
    }

    /// Takes the region back. `batch` is the last one that uses it.
    pub(crate) fn give_back(&mut self, stream: &B::Stream, region: Region<B>, batch: u64) {
        if region.bytes > MOST_BYTES {
            B::retire(stream, vec![self.forget(region)]);
        } else {
            self.idle.push(Idle { region, batch });
        }
    }

    /// Leaves the region to somebody else.
    pub(crate) fn forget(&mut self, region: Region<B>) -> B::Region {
        self.bytes -= region.bytes;
        region.memory
    }

    pub(crate) fn retire_all(&mut self, stream: &B::Stream) {
        self.bytes -= self.idle.iter().map(|idle| idle.region.bytes).sum::<usize>();
        B::retire(stream, self.idle.drain(..).map(|idle| idle.region.memory).collect());
    }

    fn has_room(&self, size: usize) -> bool {
        self.bytes.saturating_add(size) <= MOST_BYTES
    }

    fn allocate(&mut self, stream: &B::Stream, size: usize) -> Result<Region<B>, Error> {
        let memory = B::allocate_staging(stream, size, 1)?.pop().ok_or_else(|| too_large(size))?;
        self.bytes += size;
        Ok(Region { memory, bytes: size })
    }

    /// Has as many regions again as are in flight, where there is room. To page-lock one takes half a millisecond a MiB, long enough
    /// for the device to catch up: allocated one by one, they would be one too few whenever the host runs ahead.
    fn allocate_ahead(&mut self, stream: &B::Stream, size: usize) {
        let in_flight = self.idle.iter().filter(|idle| idle.region.bytes >= size).count();
        for _ in 1..in_flight.min(AHEAD_BYTES / size) {
            // Nobody needs it yet.
            let Some(region) = self.has_room(size).then(|| self.allocate(stream, size).ok()).flatten() else { break };
            self.idle.push(Idle { region, batch: 0 });
        }
    }

    /// Counts a batch, which uses so many bytes of host memory, and records a fence now and then. One that is not recorded now
    /// is recorded when it is needed.
    pub(crate) fn submitted(&mut self, stream: &B::Stream, host_bytes: usize) -> u64 {
        let batch = self.timeline.submitted();
        // Of a batch without host memory nobody asks whether it has run.
        if host_bytes != 0 {
            self.parked.count(host_bytes);
            self.unmarked_bytes = self.unmarked_bytes.saturating_add(host_bytes);
            let distance = if self.unmarked_bytes < MARK_BYTES { MARK_DISTANCE } else { 1 };
            if self.timeline.mark(stream, distance).is_ok() && distance == 1 {
                self.unmarked_bytes = 0;
            }
        }
        batch
    }

    /// What batches owned that are known to have run, to be dropped without the pool. Asks the driver now and then.
    pub(crate) fn take_run(&mut self, stream: &B::Stream) -> Option<Vec<Arc<dyn HostMemory>>> {
        self.parked.take_run(&mut self.timeline, stream)
    }

    /// Lists for a batch, empty.
    pub(crate) fn lists(&mut self) -> Lists<'static> {
        self.lists.pop().unwrap_or_default()
    }

    /// Keeps the lists for a batch to come.
    pub(crate) fn keep_lists(&mut self, lists: Lists<'static>) {
        if self.lists.len() < MOST_LISTS && lists.are_worth_keeping() {
            self.lists.push(lists);
        }
    }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    Error::new(ErrorKind::TooLarge { needed: bytes as u64, available: usize::MAX as u64 })
}
