//! The page-locked memory that batches go through, and what keeps host memory until its copies have run.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lists::Lists;
use super::plan::Plan;
use super::pool::{Pool, Region};
use crate::backend::{Backend, BackendStream, BatchFailure, BatchMemory, HostMemory, Keeper};
use crate::error::{Error, ErrorKind};

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

impl<B: Backend> CopyStaging<B> {
    /// Staging for batches on `stream`. Allocates nothing yet.
    #[must_use]
    pub fn new<S: BackendStream<Backend = B>>(stream: &S) -> Self
    where
        B: Backend<Stream = S>,
    {
        Self { shared: Arc::new(Shared { stream: stream.clone(), pool: Mutex::default() }) }
    }

    /// Sees to it that one batch with `bytes` bytes of borrowed host memory finds its staging allocated. A batch that is captured
    /// allocates none. Copies to places that are no neighbours take up to 63 bytes more each.
    ///
    /// # Errors
    /// When the memory is not to be had, or the stream is being captured.
    pub fn reserve(&self, bytes: usize) -> Result<(), Error> {
        let stream = self.stream();
        let is_capturing = B::is_capturing(stream)?;
        if bytes != 0 {
            let mut pool = self.shared.lock();
            let region = pool.take(stream, bytes, is_capturing)?;
            pool.give_back(stream, region, 0);
        }
        Ok(())
    }

    /// The stream that the batches go to.
    #[must_use]
    pub fn stream(&self) -> &B::Stream {
        &self.shared.stream
    }

    /// Lists for a batch, empty.
    pub(crate) fn lists<'a>(&self) -> Lists<'a> {
        let lists = self.shared.lock().lists();
        lists.emptied()
    }

    /// What a batch goes by from now on. Has no staging yet.
    pub(crate) fn lease(self, plan: Plan, owned: Vec<Arc<dyn HostMemory>>) -> Lease<B> {
        let lists = Lists { plan, owned, sources: Vec::new(), targets: Vec::new() };
        Lease { staging: self, region: None, lists, batch: 0, use_: Use::Done }
    }
}

impl<B: Backend> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, Pool<B>> {
        // Nothing in the pool panics half way through a change.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what batches owned, not under the lock: what a user's value does then is open.
    fn drop_run(&self, run: Option<Vec<Arc<dyn HostMemory>>>) {
        if let Some(mut run) = run {
            run.clear();
            self.lock().parked.keep_run(run);
        }
    }
}

impl<B: Backend> Drop for Shared<B> {
    fn drop(&mut self) {
        let stream = self.stream.clone();
        let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
        pool.retire_all(&stream);
        let waiting = pool.parked.take_waiting();
        if !waiting.is_empty() {
            B::keep(&stream, Box::new(waiting));
        }
    }
}

/// The host memory and the lists of one batch. Dropped, what pending copies use goes when they have run; forgotten, never.
pub(crate) struct Lease<B: Backend> {
    staging: CopyStaging<B>,
    region: Option<Region<B>>,
    /// Its copies, and what it owns.
    pub(crate) lists: Lists<'static>,
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

    /// Takes the staging that the plan asks for: none that a copy uses. On a stream that is being captured the driver is not asked for
    /// anything.
    pub(crate) fn take_region(&mut self, is_capturing: bool) -> Result<(), Error> {
        let (shared, bytes) = (&self.staging.shared, self.lists.plan.staging_bytes);
        if bytes != 0 {
            self.region = Some(shared.lock().take(&shared.stream, bytes, is_capturing)?);
        }
        Ok(())
    }

    /// Lends the staging, to be written, and the lists, before anything is submitted.
    pub(crate) fn write(&mut self, write: impl FnOnce(&Lists<'_>, &mut [u8])) {
        let lists = &self.lists;
        if let Some(region) = self.region.as_mut().filter(|_| self.use_ == Use::Done) {
            // SAFETY: the stream is one of the region's device. No copy uses the region: it was leased when its last batch had
            // run, and this one has not been submitted.
            unsafe { B::write_region(&mut region.memory, |staging| write(lists, staging)) }
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

    /// Submits the plan's copies between this memory and the device.
    ///
    /// The device ranges were checked: they do not overlap, and whoever made them vouches for them.
    pub(crate) fn submit(&mut self, is_capturing: bool) -> Result<(), BatchFailure> {
        let Lists { plan: Plan { copies, .. }, owned, .. } = &self.lists;
        if copies.is_empty() {
            return Ok(());
        }
        let before = |error| BatchFailure { error, failed: None, submitted: 0 };
        // Before there is anything to keep: that can fail.
        let keeper = if is_capturing { Some(B::keeper(self.stream()).map_err(before)?) } else { None };
        let memory = BatchMemory { region: self.region.as_ref().map(|region| &region.memory), owned };
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
                let shared = &self.staging.shared;
                let is_on_device = self.region.is_none() && owned.is_empty();
                let host_bytes = if is_on_device { 0 } else { copies.iter().map(|copy| copy.len).sum() };
                self.batch = shared.lock().submitted(&shared.stream, host_bytes);
            }
        }
        submitted.map(drop)
    }

    /// Gives the memory to the graph that the copies were captured into.
    fn leave_to_graph(&mut self, keeper: Option<Keeper>) {
        let (region, owned) = (self.region.take(), core::mem::take(&mut self.lists.owned));
        let shared = &self.staging.shared;
        let region = region.map(|region| shared.lock().forget(region));
        let kept = Kept::<B> { region, owned, stream: shared.stream.clone() };
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
        let mut pool = shared.lock();
        pool.timeline.passed(self.batch, fence);
        self.use_ = Use::Done;
        let run = pool.take_run(&shared.stream);
        drop(pool);
        shared.drop_run(run);
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
        let (shared, mut lists) = (&self.staging.shared, core::mem::take(&mut self.lists));
        let is_pending = self.use_ == Use::Pending;
        let mut pool = shared.lock();
        if let Some(region) = self.region.take() {
            pool.give_back(&shared.stream, region, if is_pending { self.batch } else { 0 });
        }
        if !is_pending {
            pool.parked.add_run(&mut lists.owned);
        }
        let run = pool.take_run(&shared.stream);
        // Behind the question, which it would be in vain for.
        pool.parked.park(self.batch, &mut lists.owned);
        pool.keep_lists(lists);
        drop(pool);
        shared.drop_run(run);
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
