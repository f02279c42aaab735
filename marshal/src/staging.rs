//! Host memory that pending copies still read, and when it may be written again.
//!
//! A copy from page-locked memory reads it when the copy runs, not when it is submitted, however small it is. So a region is
//! not handed out again before its copy has run. To know that costs a driver call, and the calls are spread thin:
//!
//! - The copies of a cache are numbered. All are given to one stream, so they run in that order.
//! - A [`Ring`] has several regions that take turns: the next upload never writes the region of the last.
//! - Every so many copies a fence is recorded ([`Timeline::mark`]), a fraction of the ring's length apart.
//! - Only when a region comes up again whose copy is not known to have run, the driver is asked ([`Timeline::has_run`]). One
//!   answer frees all regions before the fence: half of the ring.
//!
//! The region that was written last also is the last image, which the next upload is compared with: it is ordinary cached
//! memory, fast to read, and needs no second copy of the bytes.

use std::collections::VecDeque;

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
        // Room for the fences of a few rings: the first uploads allocate no more than later ones.
        Self { submitted: 0, done: 0, marks: VecDeque::with_capacity(64), spare: Vec::with_capacity(64) }
    }
}

impl<B: Backend> Timeline<B> {
    /// Records a fence behind the last copy, where none stands within `distance` copies.
    ///
    /// # Errors
    /// When the driver has no event; nothing has changed then, and the copies count as running.
    fn mark(&mut self, stream: &B::Stream, distance: u64) -> Result<(), Error> {
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

    /// Whether `copy` is known to have run. Where it is not, asks the driver for the first fence behind it.
    fn has_run(&mut self, copy: u64) -> Result<bool, Error> {
        if copy <= self.done {
            return Ok(true);
        }
        let first = self.marks.partition_point(|&(at, _)| at < copy);
        match self.marks.get(first) {
            Some((_, fence)) if B::is_done(fence)? => {
                self.advance(first);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Waits until `copy` has run.
    fn wait(&mut self, stream: &B::Stream, copy: u64) -> Result<(), Error> {
        if self.marks.back().is_none_or(|&(at, _)| at < copy) {
            self.mark(stream, 1)?;
        }
        let first = self.marks.partition_point(|&(at, _)| at < copy);
        if let Some((_, fence)) = self.marks.get(first) {
            B::wait_on_host(fence)?;
            self.advance(first);
        }
        Ok(())
    }

    /// The mark at `index` has passed, and so have all before it.
    fn advance(&mut self, index: usize) {
        for (copy, fence) in self.marks.drain(..=index) {
            self.done = copy;
            self.spare.push(fence);
        }
    }
}

/// Staging regions that take turns.
pub(crate) struct Ring<B: Backend> {
    regions: Vec<(B::Region, u64)>,
    region_bytes: usize,
    // The region that holds the last image.
    last: Option<usize>,
    stream: B::Stream,
}

/// The regions of one shape take about this much together, so that they stay in a core's second-level cache.
const RING_BYTES: usize = 1024 * 1024;

/// Regions of a ring: two, so that the last image is whole while the next is written, or as many as make a fence and its query
/// rare beside small copies.
const REGIONS: core::ops::RangeInclusive<usize> = 2..=128;

/// The number of regions of `region_bytes` that a ring begins with.
pub(crate) fn regions_for(region_bytes: usize) -> usize {
    (RING_BYTES / region_bytes.max(1)).clamp(*REGIONS.start(), *REGIONS.end())
}

impl<B: Backend> Ring<B> {
    /// `regions` of `region_bytes` each.
    pub(crate) fn allocate(stream: &B::Stream, region_bytes: usize, regions: usize) -> Result<Self, Error> {
        let regions = match region_bytes {
            0 => Vec::new(),
            _ => B::allocate_staging(stream, region_bytes, regions)?,
        };
        let regions = regions.into_iter().map(|region| (region, 0)).collect();
        Ok(Self { regions, region_bytes, last: None, stream: stream.clone() })
    }

    /// Bytes of all regions.
    pub(crate) fn size_bytes(&self) -> u64 {
        (self.region_bytes as u64) * (self.regions.len() as u64)
    }

    /// Bytes of one region.
    pub(crate) fn region_bytes(&self) -> usize {
        self.region_bytes
    }

    /// Lends the image that was sent last; `None` where nothing was.
    #[inline]
    pub(crate) fn read_image<R>(&self, read: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self.last {
            Some(last) => B::read_region(&self.regions[last].0, |image| read(Some(image))),
            None => read(None),
        }
    }

    /// The regions serve another block now: what was sent last is nobody's image.
    pub(crate) fn forget_image(&mut self) {
        // The next region in turn is the same all the same.
        if let Some(last) = self.last.take() {
            self.regions.rotate_left(last + 1);
        }
    }

    fn next(&self) -> usize {
        self.last.map_or(0, |last| (last + 1) % self.regions.len())
    }

    /// Whether the next region may be written.
    pub(crate) fn is_ready(&self, timeline: &mut Timeline<B>) -> Result<bool, Error> {
        timeline.has_run(self.regions[self.next()].1)
    }

    /// Waits until the next region may be written.
    pub(crate) fn wait(&self, timeline: &mut Timeline<B>) -> Result<(), Error> {
        timeline.wait(&self.stream, self.regions[self.next()].1)
    }

    /// As many regions again, next in turn.
    pub(crate) fn grow(&mut self) -> Result<(), Error> {
        let more = B::allocate_staging(&self.stream, self.region_bytes, self.regions.len())?;
        let next = self.next();
        // Behind the last image, which keeps its place.
        let at = if next == 0 { self.regions.len() } else { next };
        self.regions.splice(at..at, more.into_iter().map(|region| (region, 0)));
        Ok(())
    }

    /// Lets `pack` write the next region, which is ready, and copies it to `block`. The image is the last one then.
    ///
    /// After an error the last image is what it was, and the device too.
    #[inline]
    pub(crate) fn send<P>(
        &mut self,
        timeline: &mut Timeline<B>,
        block: &Block<B>,
        pack: impl FnOnce(&mut [u8]) -> Result<P, Error>,
    ) -> Result<P, Error> {
        let too_large = |needed| Error::new(ErrorKind::TooLarge { needed, available: self.region_bytes as u64 });
        let copy_bytes = block.layout().copy_bytes();
        let Some((memory, offset)) = block.target() else { return Err(too_large(copy_bytes)) };
        let len = usize::try_from(copy_bytes).ok().filter(|&len| len <= self.region_bytes);
        let len = len.ok_or_else(|| too_large(copy_bytes))?;
        let next = self.next();
        let (region, copy) = &mut self.regions[next];
        let packed = B::write_region(region, |bytes| pack(&mut bytes[..len]))?;
        // SAFETY: the region is written again only by this function, which is called after `is_ready` or `wait` said that
        // this copy has run, by a fence that was recorded behind it; and it is dropped only by `drop`, which retires it.
        unsafe { B::copy_staged(&self.stream, region, len, memory, offset)? };
        timeline.submitted += 1;
        *copy = timeline.submitted;
        self.last = Some(next);
        // A fence that is not recorded now is recorded by a later upload: until then the regions count as being read.
        let _ = timeline.mark(&self.stream, (self.regions.len() as u64 / 2).max(1));
        Ok(packed)
    }
}

impl<B: Backend> Drop for Ring<B> {
    fn drop(&mut self) {
        B::retire(&self.stream, self.regions.drain(..).map(|(region, _)| region).collect());
    }
}
