//! What was dropped while its stream was captured.
//!
//! A free in a capture would become a node of the graph, which CUDA allows for memory of the graph alone (reference of
//! `cuMemFreeAsync`); and no event can say when the work before the capture is done. So what is dropped meanwhile waits here for
//! a later call, and keeps its stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaStream;

use super::block::Allocation;
use super::source;
use super::staging::Region;

/// In a static because it has no owner any more; nothing is looked up in it.
static POSTPONED: Mutex<Vec<Postponed>> = Mutex::new(Vec::new());

pub(super) enum Postponed {
    Allocation(Allocation),
    Regions(Arc<CudaStream>, Vec<Region>),
}

/// Keeps `what` until its stream is not captured any more.
pub(super) fn postpone(what: Postponed) {
    postponed().push(what);
}

/// Frees what was dropped during captures that are over.
pub(super) fn settle() {
    // Outside of the lock: what is still too early comes back.
    let all = core::mem::take(&mut *postponed());
    for what in all {
        match what {
            Postponed::Allocation(allocation) => allocation.release(),
            Postponed::Regions(stream, regions) => source::retire_regions(&stream, regions),
        }
    }
}

fn postponed() -> MutexGuard<'static, Vec<Postponed>> {
    // Pushing and taking leave a list all the same.
    POSTPONED.lock().unwrap_or_else(PoisonError::into_inner)
}
