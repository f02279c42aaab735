//! Thin calls of the driver: the context made current, and errors from the call's own return code.

use cudarc::driver::{CudaContext, DriverError, result, sys};
use libloading::Library;

use crate::error::{Error, ErrorKind};

/// Whether there is a CUDA driver and a device: `false`, and no panic, where the driver's library is missing.
///
/// ```
/// if marshal::cuda::is_available() {
///     println!("a CUDA device is here");
/// } else {
///     println!("no CUDA device: the host backend is always there");
/// }
/// ```
#[must_use]
pub fn is_available() -> bool {
    library().is_some() && CudaContext::device_count().is_ok_and(|devices| devices > 0)
}

/// The driver's library, where there is one.
pub(super) fn library() -> Option<Library> {
    // cudarc panics at the first call when it finds no library, and its own probe exists only under one of its features. These
    // are the driver's names, all among those that cudarc tries.
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
    names.iter().find_map(|name| {
        // SAFETY: loading a library runs its initialisers. This is the driver that cudarc itself would load and run, and its
        // initialisers have no preconditions.
        unsafe { Library::new(*name) }.ok()
    })
}

/// While it lives, a context is current on this thread. Then the one is again that was before, where there was one.
#[must_use = "the context is current only while this lives"]
pub(super) struct Bound {
    // None where nothing was changed.
    previous: Option<sys::CUcontext>,
}

/// Makes `context` current on this thread.
///
/// Not `CudaContext::bind_to_thread`: that returns an error parked by some earlier `Drop` as if this call had failed, clears
/// it, and does not bind. Here a parked error stays parked for cudarc's own users.
pub(super) fn bind(context: &CudaContext) -> Result<Bound, DriverError> {
    let current = result::ctx::get_current()?;
    if current == Some(context.cu_ctx()) {
        return Ok(Bound { previous: None });
    }
    // SAFETY: the handle is a live context: `context` owns it, and is borrowed during the call.
    unsafe { result::ctx::set_current(context.cu_ctx()) }?;
    Ok(Bound { previous: current })
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // SAFETY: it was current when this was made. Where it has been destroyed since, the driver says so, and there is none to
            // go back to.
            let _ = insist(|| unsafe { result::ctx::set_current(previous) });
        }
    }
}

/// For a drop, which can tell nobody and has one chance: what fails is tried once more. Not for what ends something: the code may be
/// that of earlier work, and the end be done.
pub(super) fn insist<T>(call: impl Fn() -> Result<T, DriverError>) -> Result<T, DriverError> {
    call().or_else(|_| call())
}

/// The error of `call`.
pub(super) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> Error {
    move |error| Error::new(kind(call, error, None, None))
}

/// An error of cudarc's own calls: a kernel's launch in a capture, say.
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::new(kind("a call of cudarc", error, None, None))
    }
}

/// The error of an allocation, with the bytes that were free. The context is bound.
#[cold]
pub(super) fn failed_allocation(call: &'static str, error: DriverError, needed: u64) -> Error {
    let available = result::mem_get_info().ok().and_then(|(free, _)| u64::try_from(free).ok());
    Error::new(kind(call, error, Some(needed), available))
}

fn kind(call: &'static str, error: DriverError, needed: Option<u64>, available: Option<u64>) -> ErrorKind {
    let name = match error.error_name() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", error.0),
    };
    // Codes are small: the largest is CUDA_ERROR_UNKNOWN, 999.
    let code = i32::try_from(error.0 as u32).unwrap_or(i32::MAX);
    ErrorKind::Driver { call, code, name, needed, available }
}

/// Waits for the work that the stream has been given. The stream's context is bound.
pub(super) fn synchronize(handle: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: the handle is that of a `CudaStream` which the caller borrows, or of a default stream: live either way.
    unsafe { result::stream::synchronize(handle) }
}

/// While it lives, this thread may make calls that CUDA forbids beside another thread's capture in global mode because they
/// could be a mistake in it (event queries, plain allocation and free). Ours touch only what belongs to no capture.
pub(super) struct Relaxed {
    // None where the driver refused: then there is nothing to restore.
    previous: Option<sys::CUstreamCaptureMode>,
}

impl Relaxed {
    pub(super) fn enter() -> Self {
        Self { previous: exchange(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            let _ = exchange(previous).or_else(|| exchange(previous));
        }
    }
}

fn exchange(mut mode: sys::CUstreamCaptureMode) -> Option<sys::CUstreamCaptureMode> {
    // SAFETY: the pointer is to a local that outlives the call; the driver writes one of the enum's three values.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result().ok().map(|()| mode)
}
