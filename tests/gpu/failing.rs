//! What the tests say to the driver that fails when it is told to (`tests/failing-driver`), where it stands in front of the real one.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::fmt::Display;

use libloading::Library;

type Fail = unsafe extern "C" fn(u64, bool);
type Count = unsafe extern "C" fn(bool);
type Only = unsafe extern "C" fn(*const c_char);
type Failed = unsafe extern "C" fn() -> *const c_char;
type Counts = unsafe extern "C" fn(&mut [u64; 6]);

/// The name of the code that it fails with.
pub(crate) const CODE: &str = "CUDA_ERROR_EXTERNAL_DEVICE";

pub(crate) struct FailingDriver {
    fail: Fail,
    count: Count,
    only: Only,
    failed: Failed,
    ledger: Counts,
    hide_pools: Count,
    // The functions are its own.
    _library: Library,
}

/// What has been made and not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ledger {
    pub(crate) device_memory: u64,
    pub(crate) page_locked_memory: u64,
    pub(crate) events: u64,
    pub(crate) graphs: u64,
    pub(crate) executable_graphs: u64,
    /// Ended twice, or never made.
    pub(crate) strays: u64,
}

impl FailingDriver {
    /// The driver that is loaded under the driver's name, if it is the one.
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: the driver's initialisers have no preconditions.
        let library = unsafe { Library::new("libcuda.so") }.ok()?;
        // SAFETY: the functions of these names have these signatures; whoever has them has the library.
        unsafe {
            Some(Self {
                fail: *library.get::<Fail>(c"failing_driver_fail").ok()?,
                count: *library.get::<Count>(c"failing_driver_count").ok()?,
                only: *library.get::<Only>(c"failing_driver_only").ok()?,
                failed: *library.get::<Failed>(c"failing_driver_failed").ok()?,
                ledger: *library.get::<Counts>(c"failing_driver_ledger").ok()?,
                hide_pools: *library.get::<Count>(c"failing_driver_hides_pools").ok()?,
                _library: library,
            })
        }
    }

    /// The nth call of this thread that counts fails, once; a `blamed` one is made all the same.
    pub(crate) fn fail(&self, nth: u64, blamed: bool) {
        // SAFETY: the function has no preconditions.
        unsafe { (self.fail)(nth, blamed) };
    }

    /// From now on calls of this name alone count; of every name without one.
    pub(crate) fn only(&self, name: Option<&CStr>) {
        // SAFETY: the name is null or a C string.
        unsafe { (self.only)(name.map_or(std::ptr::null(), CStr::as_ptr)) };
    }

    /// The call that has failed.
    pub(crate) fn failed(&self) -> Option<&'static CStr> {
        // SAFETY: the function has no preconditions; what it returns is null or a static string of a library that stays loaded.
        let name = unsafe { (self.failed)().as_ref() }?;
        // SAFETY: as above.
        Some(unsafe { CStr::from_ptr(name) })
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let mut counts = [0; 6];
        // SAFETY: the function writes the six counts.
        unsafe { (self.ledger)(&mut counts) };
        let [device_memory, page_locked_memory, events, graphs, executable_graphs, strays] = counts;
        Ledger { device_memory, page_locked_memory, events, graphs, executable_graphs, strays }
    }

    /// Contexts that are made while it returns `true` have no memory pools.
    pub(crate) fn hide_pools(&self, hides: bool) {
        // SAFETY: the function has no preconditions.
        unsafe { (self.hide_pools)(hides) };
    }

    /// `call`, whose calls of the driver count.
    pub(crate) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        /// A panic is one way out.
        struct Counting<'d>(&'d FailingDriver);
        impl Drop for Counting<'_> {
            fn drop(&mut self) {
                // SAFETY: the function has no preconditions.
                unsafe { (self.0.count)(false) };
            }
        }
        // SAFETY: the function has no preconditions.
        unsafe { (self.count)(true) };
        let _counting = Counting(self);
        call()
    }

    /// `call`, in the midst of what counts, whose calls of the driver do not.
    pub(crate) fn apart<T>(&self, call: impl FnOnce() -> T) -> T {
        // SAFETY: the function has no preconditions.
        unsafe { (self.count)(false) };
        let result = call();
        // SAFETY: as above.
        unsafe { (self.count)(true) };
        result
    }

    /// `call`; where it fails, as it may once, another time, which has to go well.
    pub(crate) fn attempt<T, E: Display>(&self, mut call: impl FnMut() -> Result<T, E>) -> T {
        self.during(&mut call).unwrap_or_else(|error| {
            let failed = self.failed();
            assert!(
                failed.is_some() && error.to_string().contains(CODE),
                "{failed:?} failed, and the error is: {error}"
            );
            call().unwrap_or_else(|error| panic!("{failed:?} had failed, and the call after that: {error}"))
        })
    }

    /// Runs `scenario` with each of its calls failing once, in both ways where there are two; `settle` after each, before what is left is counted. Returns how
    /// often which call has failed.
    pub(crate) fn at_every_point(&self, scenario: impl Fn(), settle: impl Fn()) -> BTreeMap<&'static str, u64> {
        let mut failures = BTreeMap::new();
        // The first run makes what is kept for good.
        scenario();
        settle();
        let first = self.ledger();
        for blamed in [false, true] {
            for nth in 1.. {
                let before = self.ledger();
                self.fail(nth, blamed);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&scenario));
                let failed = self.failed().map(|name| name.to_str().expect("a name is ASCII"));
                self.fail(0, false);
                if let Err(panic) = outcome {
                    eprintln!("call {nth}, {failed:?}, blamed {blamed}: what follows was wrong");
                    std::panic::resume_unwind(panic);
                }
                settle();
                let after = self.ledger();
                let at = || format!("call {nth}, {failed:?}, blamed {blamed}");
                // Events are kept for the next uploads, some dozens.
                assert_eq!(Ledger { events: 0, ..after }, Ledger { events: 0, ..before }, "{}", at());
                assert!(after.events <= first.events + 64, "{}: {first:?}, {after:?}", at());
                let Some(failed) = failed else { break };
                *failures.entry(failed).or_default() += 1;
            }
        }
        failures
    }
}
