//! Host memory that pending copies still read, and when it may be written again.
//!
//! A copy from page-locked memory reads it when the copy runs, not when it is submitted, however small it is. So a region is
//! not handed out again before its copy has run. To know that costs a driver call, and the calls are spread thin:
//!
//! - The copies of a cache are numbered. All are given to one stream, so they run in that order.
//! - A [`Pool`] has many regions of one size, which take turns.
//! - Every so many copies a fence is recorded ([`Timeline::mark`]), half of the pool's length apart.
//! - Only when a region comes up again whose copy is not known to have run, the driver is asked ([`Timeline::has_run`]). One
//!   answer frees all regions before the fence: half of the pool.
//!
//! The region that a block was written from last is its image, which the next upload is compared with: it is ordinary cached
//! memory, fast to read, and needs no second copy of the bytes. A block keeps that one region; when it is written anew, the
//! region goes back to the pool.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::backend::Backend;
use crate::block::Block;
use crate::error::{Error, ErrorKind};

/// How far the copies of one stream are known to have run.
pub(crate) struct Timeline<B: Backend> {
    // Number of the last copy that was submitted; the first is 1.
    submitted: u64,
    // All copies up to this one are known to have run.
    done: u64,
    // Fences by the copy that they stand behind, in that order.
    marks: VecDeque<(u64, B::Fence)>,
    // Events are not created anew.
    spare: Vec<B::Fence>,
}

impl<B: Backend> Default for Timeline<B> {
    fn default() -> Self {
        // Room for the fences of a few pools: the first uploads allocate no more than later ones.
        Self { submitted: 0, done: 0, marks: VecDeque::with_capacity(64), spare: Vec::with_capacity(64) }
    }
}

impl<B: Backend> Timeline<B> {
    /// The number of a graph's launch, which reads the regions of its sets as a copy does.
    pub(crate) fn launch(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    /// Learns how far the copies have run, without waiting.
    pub(crate) fn settle(&mut self, stream: &B::Stream) -> Result<(), Error> {
        if self.has_run(stream, self.submitted)? {
            return Ok(());
        }
        while let Some((_, first)) = self.marks.front()
            && B::is_done(first)?
        {
            self.advance(0);
        }
        Ok(())
    }

    /// Records a fence behind the last copy, where none stands within `distance` copies.
    ///
    /// # Errors
    /// When the driver has no event; nothing has changed then, and the copies count as running.
    pub(crate) fn mark(&mut self, stream: &B::Stream, distance: u64) -> Result<(), Error> {
        let last = self.marks.back().map_or(self.done, |&(copy, _)| copy);
        if self.submitted - last < distance {
            return Ok(());
        }
        let fence = match self.spare.last_mut() {
            Some(fence) => {
                B::record_again(stream, fence)?;
                self.spare.pop().expect("its last was just used")
            }
            None => B::record(stream)?,
        };
        self.marks.push_back((self.submitted, fence));
        Ok(())
    }

    /// Whether `copy` is known to have run. Where it is not, asks the driver for the first fence behind it; where none stands
    /// there, records one first.
    pub(crate) fn has_run(&mut self, stream: &B::Stream, copy: u64) -> Result<bool, Error> {
        if copy <= self.done {
            return Ok(true);
        }
        let first = self.first_mark(stream, copy)?;
        match self.marks.get(first) {
            Some((_, fence)) if B::is_done(fence)? => {
                self.advance(first);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Waits until `copy` has run.
    pub(crate) fn wait(&mut self, stream: &B::Stream, copy: u64) -> Result<(), Error> {
        if copy <= self.done {
            return Ok(());
        }
        let first = self.first_mark(stream, copy)?;
        if let Some((_, fence)) = self.marks.get(first) {
            B::wait_on_host(fence)?;
            self.advance(first);
        }
        Ok(())
    }

    /// Counts what was submitted just now, and gives its number.
    pub(crate) fn submitted(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    /// Whether `copy` is known to have run, without a question.
    pub(crate) fn is_known_done(&self, copy: u64) -> bool {
        copy <= self.done
    }

    /// A fence that was recorded before, for whoever waits without holding the timeline up.
    pub(crate) fn take_spare(&mut self) -> Option<B::Fence> {
        self.spare.pop()
    }

    /// `fence`, which was recorded behind `copy`, has passed.
    pub(crate) fn passed(&mut self, copy: u64, fence: B::Fence) {
        self.done = self.done.max(copy);
        self.spare.push(fence);
        let passed = self.marks.partition_point(|&(at, _)| at <= copy);
        self.spare.extend(self.marks.drain(..passed).map(|(_, fence)| fence));
    }

    /// The index of the first mark behind `copy`, which is made where there is none.
    fn first_mark(&mut self, stream: &B::Stream, copy: u64) -> Result<usize, Error> {
        if self.marks.back().is_none_or(|&(at, _)| at < copy) {
            self.mark(stream, 1)?;
        }
        Ok(self.marks.partition_point(|&(at, _)| at < copy))
    }

    /// The mark at `index` has passed, and so have all before it.
    fn advance(&mut self, index: usize) {
        for (copy, fence) in self.marks.drain(..=index) {
            self.done = copy;
            self.spare.push(fence);
        }
    }
}

/// A region, and the number of the last copy that reads it. Dropped, it is freed behind that copy.
pub(crate) struct Image<B: Backend> {
    // None only while it is dropped.
    region: Option<B::Region>,
    copy: u64,
    stream: B::Stream,
    // Of the pool that it came from: how many regions that has.
    regions: Arc<AtomicUsize>,
}

impl<B: Backend> Image<B> {
    /// Lends the bytes.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let region = self.region.as_ref().expect("an image has its region until it is dropped");
        // SAFETY: `stream` is one of the region's device.
        unsafe { B::read_region(region, read) }
    }

    /// Lets `write` fill as many bytes as are sent to `block`. Refused while a copy may still read the region.
    #[inline]
    pub(crate) fn write<R>(
        &mut self,
        timeline: &Timeline<B>,
        block: &Block<B>,
        write: impl FnOnce(&mut [u8]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let copy_bytes = block.layout().copy_bytes();
        if self.copy > timeline.done {
            return Err(Error::new(ErrorKind::StagingExhausted { in_flight: copy_bytes }));
        }
        let region = self.region.as_mut().expect("an image has its region until it is dropped");
        // SAFETY: `stream` is one of the region's device. The last copy that reads the region has run: its number is not
        // above `done`, which grows only when a fence behind that copy has passed. No graph reads it: a graph's region counts as
        // read by each launch, and one that no graph was launched with is not read yet.
        unsafe {
            B::write_region(region, |bytes| {
                let available = bytes.len() as u64;
                match usize::try_from(copy_bytes).ok().and_then(|len| bytes.get_mut(..len)) {
                    Some(bytes) => write(bytes),
                    None => Err(Error::new(ErrorKind::TooLarge { needed: copy_bytes, available })),
                }
            })
        }
    }

    /// Copies the bytes to `block`, or, while the stream is being captured, makes that copy part of the graph.
    #[inline]
    fn copy_to(&self, block: &Block<B>) -> Result<(), Error> {
        let (memory, offset, len) = target(block)?;
        let region = self.region.as_ref().expect("an image has its region until it is dropped");
        // SAFETY: the range lies inside the block, which was allocated for this layout. The region is written again only by
        // `write`, after a fence behind this copy has passed, and freed only by being retired to this stream. Of a graph's copy the
        // same holds for the launches, which are numbered; and the region is kept until the graph is gone.
        unsafe { B::copy_staged(&self.stream, region, len, memory, offset) }
    }

    /// Copies the bytes to `block`. Numbered whatever the call says: its error may be that of earlier work, and the copy on its way.
    #[inline]
    fn send(&mut self, timeline: &mut Timeline<B>, block: &Block<B>) -> Result<(), Error> {
        timeline.submitted += 1;
        self.copy = timeline.submitted;
        self.copy_to(block)
    }

    /// Makes the copy to `block` part of the graph that the stream is being captured into. Whoever owns the graph keeps this
    /// image, and tells it of each launch.
    pub(crate) fn capture(&self, block: &Block<B>) -> Result<(), Error> {
        self.copy_to(block)
    }

    /// Lets the launches of `graph` from now on read this region in their copy to `block`.
    pub(crate) fn feed(&self, graph: &mut B::Graph, block: &Block<B>) -> Result<(), Error> {
        let (memory, offset, len) = target(block)?;
        let region = self.region.as_ref().expect("an image has its region until it is dropped");
        // SAFETY: as for `copy_to`.
        unsafe { B::set_source(graph, region, len, memory, offset) }
    }

    /// A launch of the number `copy` reads the region.
    pub(crate) fn launched(&mut self, copy: u64) {
        self.copy = copy;
    }
}

/// Where the image of `block` goes, and its bytes.
#[inline]
fn target<B: Backend>(block: &Block<B>) -> Result<(&B::Block, u64, usize), Error> {
    let copy_bytes = block.layout().copy_bytes();
    match (block.target(), usize::try_from(copy_bytes)) {
        (Some((memory, offset)), Ok(len)) => Ok((memory, offset, len)),
        _ => Err(Error::new(ErrorKind::TooLarge { needed: copy_bytes, available: block.allocated() })),
    }
}

impl<B: Backend> Drop for Image<B> {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.regions.fetch_sub(1, Ordering::Relaxed);
            B::retire(&self.stream, vec![region]);
        }
    }
}

/// Regions of one size that take turns.
pub(crate) struct Pool<B: Backend> {
    // The next in turn stands first.
    free: VecDeque<Image<B>>,
    region_bytes: usize,
    // All of them, the images of blocks and graphs among them: one that is dropped there is counted out. Under the cache's lock.
    regions: Arc<AtomicUsize>,
    stream: B::Stream,
}

/// The regions of one size take about this much together, so that they stay in a core's second-level cache.
const POOL_BYTES: usize = 512 * 1024;

/// Regions that are allocated at a time: two, so that the last image is whole while the next is written, or as many as make a
/// fence and its query rare beside small copies.
const REGIONS: core::ops::RangeInclusive<usize> = 2..=64;

/// How many regions of `region_bytes` are allocated at a time, when `room` bytes are left; `None` where not even one fits.
pub(crate) fn regions_for(region_bytes: usize, room: u64) -> Option<usize> {
    let wanted = (POOL_BYTES / region_bytes.max(1)).clamp(*REGIONS.start(), *REGIONS.end());
    let fits = usize::try_from(room / (region_bytes.max(1) as u64)).unwrap_or(usize::MAX);
    Some(wanted.min(fits)).filter(|&regions| regions != 0)
}

impl<B: Backend> Pool<B> {
    /// A pool without regions.
    pub(crate) fn new(stream: &B::Stream, region_bytes: usize) -> Self {
        Self { free: VecDeque::new(), region_bytes, regions: Arc::default(), stream: stream.clone() }
    }

    fn regions(&self) -> usize {
        self.regions.load(Ordering::Relaxed)
    }

    /// Bytes of all regions.
    pub(crate) fn size_bytes(&self) -> u64 {
        (self.region_bytes as u64).saturating_mul(self.regions() as u64)
    }

    /// Regions that are no block's image.
    pub(crate) fn free_regions(&self) -> usize {
        self.free.len()
    }

    /// Allocates so many regions more, next in turn.
    pub(crate) fn add(&mut self, regions: usize) -> Result<(), Error> {
        let added = B::allocate_staging(&self.stream, self.region_bytes, regions)?;
        self.regions.fetch_add(added.len(), Ordering::Relaxed);
        // Every region may come home at once.
        self.free.reserve(self.regions());
        for region in added {
            let (stream, regions) = (self.stream.clone(), Arc::clone(&self.regions));
            self.free.push_front(Image { region: Some(region), copy: 0, stream, regions });
        }
        Ok(())
    }

    /// Whether there is a region that may be written.
    #[inline]
    pub(crate) fn is_ready(&self, timeline: &mut Timeline<B>) -> Result<bool, Error> {
        match self.free.front() {
            Some(next) => timeline.has_run(&self.stream, next.copy),
            None => Ok(false),
        }
    }

    /// Waits until the next region may be written; there is one.
    pub(crate) fn wait(&self, timeline: &mut Timeline<B>) -> Result<(), Error> {
        self.free.front().map_or(Ok(()), |next| timeline.wait(&self.stream, next.copy))
    }

    /// Takes a region back that is no image any more. One of an earlier pool, which a graph has kept past `clear`, is freed.
    pub(crate) fn give_back(&mut self, image: Image<B>, timeline: &Timeline<B>) {
        if !Arc::ptr_eq(&image.regions, &self.regions) {
            return;
        }
        if image.copy <= timeline.done {
            // Ready, and used last: it may still be in a cache.
            self.free.push_front(image);
        } else {
            self.free.push_back(image);
        }
    }

    /// Takes the next region out, which [is ready](Self::is_ready).
    pub(crate) fn take_next(&mut self) -> Option<Image<B>> {
        self.free.pop_front()
    }

    /// Takes out a region that no copy is known to read, and asks nobody.
    pub(crate) fn take_ready(&mut self, timeline: &Timeline<B>) -> Option<Image<B>> {
        let index = self.free.iter().position(|image| image.copy <= timeline.done)?;
        self.free.remove(index)
    }

    /// Regions that no copy is known to read.
    pub(crate) fn ready_regions(&self, timeline: &Timeline<B>) -> usize {
        self.free.iter().filter(|image| image.copy <= timeline.done).count()
    }

    /// Whether no region is anybody's image.
    pub(crate) fn is_whole(&self) -> bool {
        self.free.len() == self.regions()
    }

    /// Copies between two fences: so many that half of the pool is between them when each launch or upload takes `regions`.
    pub(crate) fn fence_distance(&self, regions: usize) -> u64 {
        (self.regions() / 2 / regions.max(1)).max(1) as u64
    }

    /// Lets `pack` write the next region, which [is ready](Self::is_ready), copies it to `block`, and makes it the block's image.
    ///
    /// After an error of the copy nobody knows what the block holds: it has no image then.
    #[inline]
    pub(crate) fn send(
        &mut self,
        timeline: &mut Timeline<B>,
        block: &Block<B>,
        image: &mut Option<Image<B>>,
        pack: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let in_flight = self.size_bytes();
        let next = self.free.front_mut().ok_or_else(|| Error::new(ErrorKind::StagingExhausted { in_flight }))?;
        next.write(timeline, block, pack)?;
        let sent = next.send(timeline, block);
        let before = match self.free.pop_front() {
            Some(region) if sent.is_ok() => image.replace(region),
            Some(region) => {
                self.give_back(region, timeline);
                image.take()
            }
            None => None,
        };
        if let Some(before) = before {
            self.give_back(before, timeline);
        }
        sent?;
        // A fence that is not recorded now is recorded when it is needed: until then the regions count as being read.
        let _ = timeline.mark(&self.stream, self.fence_distance(1));
        Ok(())
    }
}

impl<B: Backend> Drop for Pool<B> {
    fn drop(&mut self) {
        let regions: Vec<_> = self.free.iter_mut().filter_map(|image| image.region.take()).collect();
        B::retire(&self.stream, regions);
    }
}
