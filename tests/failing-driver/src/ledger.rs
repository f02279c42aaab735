//! What has been made and not ended.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    DeviceMemory,
    PageLockedMemory,
    Event,
    Graph,
    ExecutableGraph,
}

#[derive(Default)]
struct Ledger {
    live: HashSet<(Kind, usize)>,
    strays: u64,
}

static LEDGER: LazyLock<Mutex<Ledger>> = LazyLock::new(Mutex::default);

pub(crate) fn begin(kind: Kind, handle: usize) {
    ledger().live.insert((kind, handle));
}

pub(crate) fn end(kind: Kind, handle: usize) {
    let mut ledger = ledger();
    if !ledger.live.remove(&(kind, handle)) {
        ledger.strays += 1;
    }
}

/// By kind, and how often something was ended that was not there.
pub(crate) fn counts() -> [u64; 6] {
    let ledger = ledger();
    let mut counts = [0; 6];
    for (kind, _) in &ledger.live {
        counts[*kind as usize] += 1;
    }
    counts[5] = ledger.strays;
    counts
}

fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}
