//! The page-locked memory that batches go through, and what keeps host memory until its copies have run.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, BackendStream, BatchCopy, BatchFailure, BatchMemory, HostMemory, Keeper};
use crate::error::{Error, ErrorKind};
use crate::staging::Timeline;

/// Page-locked memory for batches of copies on one stream, used again from batch to batch. Clones are handles of one; threads share
/// it.
///
/// It grows with what is in flight, up to 64 MiB; beyond, a batch waits for an older one, and one that is larger by itself takes
/// what it needs and gives it back. When the last handle is gone, the memory is freed behind the stream's work.
pub struct CopyStaging<B: Backend> {
    shared: Arc<Shared<B>>,
}

struct Shared<B: Backend> {
    stream: B::Stream,
    pool: Mutex<Pool<B>>,
}

struct Pool<B: Backend> {
    timeline: Timeline<B>,
    // The one that was used last stands last.
    idle: Vec<Idle<B>>,
    // Of all regions, the leased ones among them.
    bytes: usize,
}

struct Idle<B: Backend> {
    region: Region<B>,
    // The last batch that uses the region.
    batch: u64,
}

struct Region<B: Backend> {
    memory: B::Region,
    bytes: usize,
}

/// Sizes of regions are multiples of this.
const REGION_BYTES: usize = 64 << 10;
/// Regions take no more than this together, unless a batch needs it.
const MOST_BYTES: usize = 64 << 20;
/// A fence is recorded every so many batches: it costs a tenth of a copy, and the question for it more.
const MARK_DISTANCE: u64 = 8;

impl<B: Backend> CopyStaging<B> {
    /// Staging for batches on `stream`. Allocates nothing yet.
    #[must_use]
    pub fn new<S: BackendStream<Backend = B>>(stream: &S) -> Self
    where
        B: Backend<Stream = S>,
    {
        let pool = Pool { timeline: Timeline::default(), idle: Vec::new(), bytes: 0 };
        Self { shared: Arc::new(Shared { stream: stream.clone(), pool: Mutex::new(pool) }) }
    }

    /// Sees to it that one batch with `bytes` bytes of borrowed host memory finds its staging allocated. A batch that is captured
    /// allocates none. Copies to places that are no neighbours take up to 63 bytes more each.
    ///
    /// # Errors
    /// When the memory is not to be had, or the stream is being captured.
    pub fn reserve(&self, bytes: usize) -> Result<(), Error> {
        drop(self.lease(bytes, B::is_capturing(self.stream())?)?);
        Ok(())
    }

    /// The stream that the batches go to.
    #[must_use]
    pub fn stream(&self) -> &B::Stream {
        &self.shared.stream
    }

    /// A region of `bytes` bytes at least that no copy uses, or none for 0 bytes. On a stream that is being captured the driver is
    /// not asked for anything.
    pub(crate) fn lease(&self, bytes: usize, is_capturing: bool) -> Result<Lease<B>, Error> {
        let region = if bytes == 0 { None } else { Some(self.shared.take(bytes, is_capturing)?) };
        Ok(Lease { staging: self.clone(), region, owned: Vec::new(), batch: 0, use_: Use::Done })
    }
}

impl<B: Backend> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, Pool<B>> {
        // Nothing in the pool panics half way through a change.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize, is_capturing: bool) -> Result<Region<B>, Error> {
        let (mut guard, stream) = (self.lock(), &self.stream);
        let pool = &mut *guard;
        let is_ready = |idle: &Idle<B>| idle.region.bytes >= bytes && pool.timeline.is_known_done(idle.batch);
        if let Some(ready) = pool.idle.iter().rposition(is_ready) {
            return Ok(pool.idle.remove(ready).region);
        }
        if is_capturing {
            return Err(Error::new(ErrorKind::Capturing { needed: bytes as u64 }));
        }
        let oldest = pool.idle.iter().position(|idle| idle.region.bytes >= bytes);
        let too_large = || Error::new(ErrorKind::TooLarge { needed: bytes as u64, available: usize::MAX as u64 });
        let size = bytes.checked_next_multiple_of(REGION_BYTES).ok_or_else(too_large)?;
        let has_room = pool.bytes.saturating_add(size) <= MOST_BYTES;
        if let Some(oldest) = oldest {
            let batch = pool.idle[oldest].batch;
            if !has_room {
                pool.timeline.wait(stream, batch)?;
            }
            if pool.timeline.has_run(stream, batch)? {
                return Ok(pool.idle.remove(oldest).region);
            }
        } else if !has_room {
            // All too small.
            pool.retire_all(stream);
        }
        let memory = B::allocate_staging(stream, size, 1)?.pop().ok_or_else(too_large)?;
        pool.bytes += size;
        Ok(Region { memory, bytes: size })
    }
}

impl<B: Backend> Pool<B> {
    fn retire_all(&mut self, stream: &B::Stream) {
        self.bytes -= self.idle.iter().map(|idle| idle.region.bytes).sum::<usize>();
        B::retire(stream, self.idle.drain(..).map(|idle| idle.region.memory).collect());
    }
}

impl<B: Backend> Drop for Shared<B> {
    fn drop(&mut self) {
        let stream = self.stream.clone();
        self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).retire_all(&stream);
    }
}

/// The host memory of one batch. Dropped, what pending copies use goes when they have run; forgotten, never.
pub(crate) struct Lease<B: Backend> {
    staging: CopyStaging<B>,
    region: Option<Region<B>>,
    pub(crate) owned: Vec<Arc<dyn HostMemory>>,
    // 0 before it is submitted.
    batch: u64,
    use_: Use,
}

/// Who uses the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Nobody.
    Done,
    /// Copies on the stream.
    Pending,
    /// A graph, which keeps the memory.
    Captured,
}

impl<B: Backend> Lease<B> {
    pub(crate) fn stream(&self) -> &B::Stream {
        &self.staging.shared.stream
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.use_ == Use::Captured
    }

    /// Lends the staging, to be written, before anything is submitted.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut [u8])) {
        if let Some(region) = self.region.as_mut().filter(|_| self.use_ == Use::Done) {
            // SAFETY: the stream is one of the region's device. No copy uses the region: it was leased when its last batch had
            // run, and this one has not been submitted.
            unsafe { B::write_region(&mut region.memory, write) }
        }
    }

    /// Lends the staging, to be read when the copies have run.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match &self.region {
            // SAFETY: the stream is one of the region's device.
            Some(region) => unsafe { B::read_region(&region.memory, read) },
            None => read(&[]),
        }
    }

    /// Submits `copies` between this memory and the device.
    ///
    /// The device ranges were checked: they do not overlap, and whoever made them vouches for them.
    pub(crate) fn submit(&mut self, copies: &[BatchCopy], is_capturing: bool) -> Result<(), BatchFailure> {
        if copies.is_empty() {
            return Ok(());
        }
        let before = |error| BatchFailure { error, failed: None, submitted: 0 };
        // Before there is anything to keep: that can fail.
        let keeper = if is_capturing { Some(B::keeper(self.stream()).map_err(before)?) } else { None };
        let memory = BatchMemory { region: self.region.as_ref().map(|region| &region.memory), owned: &self.owned };
        // SAFETY: a device range is made by an owner who orders its use, or by an unsafe call that promises it. `memory` belongs to
        // this lease, which is marked as used right below: it then gives the region back under the number of this batch, to be
        // taken again only when a fence behind it has passed, and lets the owned memory go behind the stream's work; or, captured,
        // leaves both to the graph.
        let submitted = unsafe { B::copy_batch(self.stream(), &memory, copies, is_capturing) };
        if submitted.as_ref().err().is_none_or(|failure| failure.submitted != 0) {
            let is_captured = match submitted {
                Ok(is_captured) => is_captured,
                // Which of them a graph has, nobody says.
                Err(_) => is_capturing || B::is_capturing(self.stream()).unwrap_or(true),
            };
            self.use_ = if is_captured { Use::Captured } else { Use::Pending };
            if is_captured {
                self.leave_to_graph(keeper);
            } else {
                let mut pool = self.staging.shared.lock();
                self.batch = pool.timeline.submitted();
                if self.region.is_some() {
                    // A fence that is not recorded now is recorded when it is needed.
                    let _ = pool.timeline.mark(&self.staging.shared.stream, MARK_DISTANCE);
                }
            }
        }
        submitted.map(drop)
    }

    /// Gives the memory to the graph that the copies were captured into.
    fn leave_to_graph(&mut self, keeper: Option<Keeper>) {
        let (region, owned) = (self.region.take(), core::mem::take(&mut self.owned));
        let shared = &self.staging.shared;
        shared.lock().bytes -= region.as_ref().map_or(0, |region| region.bytes);
        let kept = Kept::<B> { region: region.map(|region| region.memory), owned, stream: shared.stream.clone() };
        match keeper.map_or_else(|| B::keeper(&shared.stream), Ok) {
            Ok(keeper) => keeper.keep(Box::new(kept)),
            // Another thread has begun the capture meanwhile, and its graph reads what it cannot keep.
            Err(_) => core::mem::forget(kept),
        }
    }

    /// Waits until the copies have run.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        match self.use_ {
            Use::Done => return Ok(()),
            Use::Captured => return Err(Error::new(ErrorKind::Captured)),
            Use::Pending => {}
        }
        let shared = &self.staging.shared;
        let spare = shared.lock().timeline.take_spare();
        // Not under the lock: others go on meanwhile.
        let fence = match spare {
            Some(mut fence) => B::record_again(&shared.stream, &mut fence).map(|()| fence)?,
            None => B::record(&shared.stream)?,
        };
        B::wait_on_host(&fence)?;
        shared.lock().timeline.passed(self.batch, fence);
        self.use_ = Use::Done;
        Ok(())
    }
}

/// What the copies of a graph read.
struct Kept<B: Backend> {
    region: Option<B::Region>,
    // None but where another thread has begun the capture: then some copies may have run outside of the graph.
    owned: Vec<Arc<dyn HostMemory>>,
    stream: B::Stream,
}

impl<B: Backend> Drop for Kept<B> {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            B::retire(&self.stream, vec![region]);
        }
        if !self.owned.is_empty() {
            B::keep(&self.stream, Box::new(core::mem::take(&mut self.owned)));
        }
    }
}

impl<B: Backend> Drop for Lease<B> {
    fn drop(&mut self) {
        let (region, owned) = (self.region.take(), core::mem::take(&mut self.owned));
        if self.use_ == Use::Pending && !owned.is_empty() {
            B::keep(self.stream(), Box::new(owned));
        }
        let Some(region) = region else { return };
        let shared = &self.staging.shared;
        let mut pool = shared.lock();
        let batch = if self.use_ == Use::Pending { self.batch } else { 0 };
        if region.bytes > MOST_BYTES {
            pool.bytes -= region.bytes;
            B::retire(&shared.stream, vec![region.memory]);
        } else {
            pool.idle.push(Idle { region, batch });
        }
    }
}

// The derive would ask B for the same.
impl<B: Backend> Clone for CopyStaging<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B: Backend> fmt::Debug for CopyStaging<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyStaging").field("stream", &B::device_name(self.stream())).finish_non_exhaustive()
    }
}
