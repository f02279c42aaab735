//! The one copy of an upload, and what becomes of its source.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use cudarc::driver::{CudaStream, DriverError, result, sys};

use super::block::Block;
use super::event::Event;
use super::images::Image;
use super::postponed::{self, Postponed};
use super::retired::{Fence, Retired, State};
use super::staging::Region;
use super::{driver, retired, stream};
use crate::error::Error;

/// The sources of copies that may not have run.
///
/// Such a source outlives its block, its stream and its set, so nothing that a user holds can own it. Nothing is looked up in
/// here, and no context is kept by it. When a context ends while sources of its copies are still here (fewer than a sweep
/// begins with), nobody can say whether their copies have run, and they are leaked.
static RETIRED: Mutex<Retired<Line, Event, Source>> = Mutex::new(Retired::new());

/// The streams whose events are reached in the order in which they were recorded: one stream, on one thread if it is the
/// per-thread default stream.
struct Line {
    // Keeps the address from being given to another stream, and nothing else.
    stream: Weak<CudaStream>,
    home: Option<ThreadId>,
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.stream.ptr_eq(&other.stream) && self.home == other.home
    }
}

/// What a copy may still read.
enum Source {
    Pageable(Image),
    PageLocked(#[expect(dead_code, reason = "held for its drop")] Vec<Region>),
    Owned(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send>),
}

impl retired::Source for Source {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Pageable(image) => image.size_bytes(),
            // The caches' own caps bound these: an upload does not wait for them.
            Self::PageLocked(_) => 0,
            // Whoever gave them away bounds these.
            Self::Owned(_) => 0,
        }
    }
}

/// Keeps page-locked regions until the work that the stream has been given is done.
pub(super) fn retire_regions(stream: &Arc<CudaStream>, regions: Vec<Region>) {
    if regions.is_empty() {
        return;
    }
    let handle = stream::shared_handle(stream);
    let is_capturing = || driver::bind(stream.context()).and_then(|_bound| stream::is_capturing(handle));
    if driver::insist(is_capturing) == Ok(true) {
        return postponed::postpone(Postponed::Regions(Arc::clone(stream), regions));
    }
    keep(stream, Source::PageLocked(regions));
}

/// Keeps what copies read until the work that the stream has been given is done.
pub(super) fn keep_owned(stream: &Arc<CudaStream>, owned: Box<dyn Send>) {
    keep(stream, Source::Owned(owned));
}

fn keep(stream: &Arc<CudaStream>, source: Source) {
    match driver::insist(|| driver::bind(stream.context())) {
        Ok(_bound) => {
            // Nobody is there to be told, and nothing is lost: what could not be retired in time was waited for or leaked.
            let _ = retire(stream, stream::shared_handle(stream), source);
        }
        // The driver may still read it.
        Err(_) => core::mem::forget(source),
    }
}

/// Copies `source` to `offset` of `block`, in the order of `stream`.
pub(super) fn copy(stream: &Arc<CudaStream>, source: Vec<u8>, block: &Block, offset: u64) -> Result<(), Error> {
    if source.is_empty() {
        return Ok(());
    }
    let source = Image::new(source);
    // usize is at most 64 bits wide on every target of Rust.
    let destination = block.range(offset, source.bytes().len() as u64)?;
    let handle = block.handle_of(stream);
    let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
    // A copy from pageable memory may be synchronous, which CUDA may hold against a capture of some other stream.
    let _relaxed = driver::Relaxed::enter();
    // SAFETY: the range lies inside the block, as checked; the block is borrowed, and its free comes behind the work of its
    // stream. `source` is given to `retire` or `settle` next, which keep it until the copy has run, or leak it.
    let copied = unsafe { result::memcpy_htod_async(destination, source.bytes(), handle) };
    match copied {
        Ok(()) => retire(stream, handle, Source::Pageable(source)),
        Err(error) => {
            // The code may be that of earlier work, and the copy on its way all the same. Whether or not it is, the call failed.
            let _ = settle(handle, Source::Pageable(source));
            Err(driver::failed("cuMemcpyHtoDAsync_v2")(error))
        }
    }
}

/// Keeps `source` until the work that the stream has been given is done.
fn retire(stream: &Arc<CudaStream>, handle: sys::CUstream, source: Source) -> Result<(), Error> {
    let context = stream.context();
    let spare = retired().take_spare(|event| event.belongs_to(context));
    let event = spare.map_or_else(|| Event::new(context), Ok).and_then(|event| {
        event.record(handle)?;
        // Where another thread has begun a capture since the upload asked, the copy is a node of its graph, and reads the
        // source at every replay.
        stream::refuse_capture(handle)?;
        Ok(event)
    });
    let Ok(event) = event else { return settle(handle, source).map_err(driver::failed("cuEventRecord")) };

    let line = Line { stream: Arc::downgrade(stream), home: stream::home(stream) };
    let mut list = retired();
    list.park(line, event, source);
    if list.wants_sweep() {
        list.sweep();
        drop(list);
        wait_for_oldest();
    }
    Ok(())
}

/// Waits, outside the lock, until the sources are under their cap.
fn wait_for_oldest() {
    loop {
        let Some((event, source)) = retired().take_over_cap() else { return };
        if event.wait() != State::Reached {
            core::mem::forget(source);
        }
    }
}

/// Without an event: waits for the stream. Where even that fails the context is lost, or the copy belongs to a capture: the
/// driver may still read the source, which is leaked.
#[cold]
fn settle(handle: sys::CUstream, source: Source) -> Result<(), DriverError> {
    let settled = stream::refuse_capture(handle).and_then(|()| driver::synchronize(handle));
    if settled.is_err() {
        core::mem::forget(source);
    }
    settled
}

fn retired() -> MutexGuard<'static, Retired<Line, Event, Source>> {
    // Nothing in the list panics half way through a change.
    RETIRED.lock().unwrap_or_else(PoisonError::into_inner)
}
