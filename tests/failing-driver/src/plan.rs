//! Which call fails.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

/// What becomes of a call.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    Passes,
    Refused,
    Blamed,
}

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    // How many calls are left until one fails: that one is the 1st. 0 for none.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static HOW: Cell<Verdict> = const { Cell::new(Verdict::Refused) };
    static ONLY: RefCell<Option<CString>> = const { RefCell::new(None) };
    static FAILED: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

static HIDES_POOLS: AtomicBool = AtomicBool::new(false);

pub(crate) fn set(nth: u64, how: Verdict) {
    LEFT.set(nth);
    HOW.set(how);
    FAILED.set(None);
}

pub(crate) fn only(name: Option<CString>) {
    ONLY.set(name);
}

pub(crate) fn count(counts: bool) {
    COUNTS.set(counts);
}

pub(crate) fn failed() -> Option<&'static CStr> {
    FAILED.get()
}

/// The verdict on the next call of this thread, which gives work to a stream or does not.
pub(crate) fn next(name: &'static CStr, works: bool) -> Verdict {
    // Not counted where the thread is ending.
    if !COUNTS.try_with(Cell::get).unwrap_or(false) || LEFT.get() == 0 {
        return Verdict::Passes;
    }
    if matches!(HOW.get(), Verdict::Blamed) && !works {
        return Verdict::Passes;
    }
    if ONLY.with_borrow(|only| only.as_ref().is_some_and(|only| only.as_c_str() != name)) {
        return Verdict::Passes;
    }
    LEFT.set(LEFT.get() - 1);
    if LEFT.get() != 0 {
        return Verdict::Passes;
    }
    FAILED.set(Some(name));
    HOW.get()
}

pub(crate) fn hide_pools(hides: bool) {
    HIDES_POOLS.store(hides, Ordering::Relaxed);
}

pub(crate) fn hides_pools() -> bool {
    HIDES_POOLS.load(Ordering::Relaxed)
}
