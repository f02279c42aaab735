//! A way or a part that fails says so, and the rest of the run goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `make` returns, or what it panicked with. A call of the driver that a way cannot do without is an `expect` there.
pub(crate) fn attempt<T>(make: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What is half done is dropped with `make`.
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("FAILED: {}", said.unwrap_or("a panic without a message")))
    })
}

/// Whether `why` tells of a failure, where it could tell of something that is not here.
pub(crate) fn is_failure(why: &str) -> bool {
    why.contains("FAILED") || why.contains("WRONG")
}
