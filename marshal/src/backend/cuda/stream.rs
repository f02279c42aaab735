//! Which handle names a stream, on which thread.
//!
//! The per-thread default stream is another stream on each thread, under one handle. Where it is not certain that this is the
//! thread whose stream is meant, the legacy default stream stands in: an operation on it waits for all earlier work of every
//! blocking stream of the context, and all their later work waits for it (CUDA Driver API, "Stream synchronization behavior").
//! Every thread's per-thread stream is a blocking stream.

use std::thread::{self, ThreadId};

use cudarc::driver::{CudaStream, DriverError, result, sys};

// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD` of cuda.h.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// The stream's handle, as it is meant on this thread.
pub(super) fn own_handle(stream: &CudaStream) -> sys::CUstream {
    stream.cu_stream()
}

/// A handle that is right on every thread.
pub(super) fn shared_handle(stream: &CudaStream) -> sys::CUstream {
    if is_per_thread(stream) { core::ptr::without_provenance_mut(LEGACY) } else { stream.cu_stream() }
}

/// The handle for work on what was made on `stream` by the thread `home`, as [`home`] gave it.
pub(super) fn handle_from(stream: &CudaStream, home: Option<ThreadId>) -> sys::CUstream {
    if is_home(home) { own_handle(stream) } else { shared_handle(stream) }
}

/// The thread that the stream's handle depends on: this one for the per-thread default stream, else none.
pub(super) fn home(stream: &CudaStream) -> Option<ThreadId> {
    is_per_thread(stream).then(|| thread::current().id())
}

/// Whether the stream's own handle is right on this thread.
pub(super) fn is_home(home: Option<ThreadId>) -> bool {
    home.is_none_or(|home| home == thread::current().id())
}

/// Whether both name one stream for certain. Two per-thread default streams may belong to two threads: never.
pub(super) fn is_same(a: &CudaStream, b: &CudaStream) -> bool {
    let number = |stream: &CudaStream| match stream.cu_stream().addr() {
        LEGACY => 0,
        other => other,
    };
    a.context() == b.context() && number(a) == number(b) && !is_per_thread(a)
}

/// Whether work given to `handle` now would go into a capture, or break one. The stream's context is bound.
///
/// The legacy default stream cannot be captured, but while a blocking stream of its context is, it is unusable: the query says
/// so with an error, and the capture stays valid (reference of `cuStreamIsCapturing`).
pub(super) fn is_capturing(handle: sys::CUstream) -> Result<bool, DriverError> {
    // SAFETY: the handle is that of a `CudaStream` which the caller borrows, or of a default stream: live either way.
    match unsafe { result::stream::is_capturing(handle) } {
        Ok(status) => Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
        Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// An error, before anything is done, where work given to `handle` now would go into a capture or break one.
pub(super) fn refuse_capture(handle: sys::CUstream) -> Result<(), DriverError> {
    if is_capturing(handle)? {
        return Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    }
    Ok(())
}

/// Whether the handle names a stream of whatever context is current.
pub(super) fn is_default(stream: &CudaStream) -> bool {
    stream.cu_stream().addr() <= PER_THREAD
}

/// Whether the handle is one of the two of the legacy default stream.
pub(super) fn is_legacy(stream: &CudaStream) -> bool {
    stream.cu_stream().addr() <= LEGACY
}

pub(super) fn is_per_thread(stream: &CudaStream) -> bool {
    stream.cu_stream().addr() == PER_THREAD
}
