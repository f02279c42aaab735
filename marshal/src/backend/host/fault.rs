//! Failing calls, and mistakes found while work runs.

use crate::error::{Error, ErrorKind};

/// A kind of call that [`HostDevice::fail`](super::HostDevice::fail) can let fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Allocation of device memory.
    DeviceAlloc,
    /// Release of device memory.
    DeviceFree,
    /// Allocation of staging.
    HostAlloc,
    /// Release of staging.
    HostFree,
    /// A copy, in either direction.
    Copy,
    /// A fill of device memory.
    Memset,
    /// Creation of an event.
    EventCreate,
    /// Record of an event.
    EventRecord,
    /// The question whether an event has been reached.
    EventQuery,
    /// A stream's wait for an event.
    StreamWait,
    /// Launch of a kernel.
    Launch,
    /// The host's wait for a stream or the device.
    Synchronize,
    /// The question whether a stream is being captured.
    CaptureQuery,
    /// Beginning of a capture.
    CaptureBegin,
    /// End of a capture, which is over then, without a graph.
    CaptureEnd,
    /// A graph's promise to keep something.
    GraphKeep,
}

impl Call {
    /// The name in the driver's reference.
    const fn name(self) -> &'static str {
        match self {
            Self::DeviceAlloc => "cuMemAllocAsync",
            Self::DeviceFree => "cuMemFreeAsync",
            Self::HostAlloc => "cuMemHostAlloc",
            Self::HostFree => "cuMemFreeHost",
            Self::Copy => "cuMemcpyAsync",
            Self::Memset => "cuMemsetD8Async",
            Self::EventCreate => "cuEventCreate",
            Self::EventRecord => "cuEventRecord",
            Self::EventQuery => "cuEventQuery",
            Self::StreamWait => "cuStreamWaitEvent",
            Self::Launch => "cuLaunchKernel",
            Self::Synchronize => "cuStreamSynchronize",
            Self::CaptureQuery => "cuStreamIsCapturing",
            Self::CaptureBegin => "cuStreamBeginCapture",
            Self::CaptureEnd => "cuStreamEndCapture",
            Self::GraphKeep => "cuGraphRetainUserObject",
        }
    }

    pub(super) fn error(self, code: Code) -> Error {
        self.memory_error(code, None, None)
    }

    pub(super) fn memory_error(self, code: Code, needed: Option<u64>, available: Option<u64>) -> Error {
        driver_error(self.name(), code, needed, available)
    }
}

/// The driver's codes that the emulation returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code {
    InvalidValue,
    OutOfMemory,
    IllegalState,
    NotPermitted,
    CaptureUnsupported,
    CaptureInvalidated,
    CaptureIsolation,
    CapturedEvent,
    Unknown,
}

impl Code {
    /// The error of a call that no plan lets fail.
    pub(super) fn of(self, call: &'static str) -> Error {
        driver_error(call, self, None, None)
    }

    const fn parts(self) -> (i32, &'static str) {
        match self {
            Self::InvalidValue => (1, "CUDA_ERROR_INVALID_VALUE"),
            Self::OutOfMemory => (2, "CUDA_ERROR_OUT_OF_MEMORY"),
            Self::IllegalState => (401, "CUDA_ERROR_ILLEGAL_STATE"),
            Self::NotPermitted => (800, "CUDA_ERROR_NOT_PERMITTED"),
            Self::CaptureUnsupported => (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
            Self::CaptureInvalidated => (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
            Self::CaptureIsolation => (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
            Self::CapturedEvent => (907, "CUDA_ERROR_CAPTURED_EVENT"),
            Self::Unknown => (999, "CUDA_ERROR_UNKNOWN"),
        }
    }
}

fn driver_error(call: &'static str, code: Code, needed: Option<u64>, available: Option<u64>) -> Error {
    let (code, name) = code.parts();
    Error::new(ErrorKind::Driver { call, code, name: name.to_owned(), needed, available })
}

/// The calls that are to fail.
#[derive(Debug, Default)]
pub(super) struct FailurePlan {
    // How many calls of the kind are left, the failing one included.
    armed: Vec<(Call, u64)>,
}

impl FailurePlan {
    pub(super) fn arm(&mut self, call: Call, nth: u64) {
        self.armed.push((call, nth));
    }

    /// Counts one call of the kind, and says whether it fails.
    pub(super) fn strikes(&mut self, call: Call) -> bool {
        let mut strikes = false;
        self.armed.retain_mut(|(armed, left)| {
            if *armed != call {
                return true;
            }
            *left -= 1;
            strikes |= *left == 0;
            *left != 0
        });
        strikes
    }
}

/// What a stream remembers of the first thing that went wrong on it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// The work at which it was found.
    pub(super) sequence: u64,
    pub(super) reported: bool,
    /// A broken rule stays, as CUDA's illegal address does. A failed free is said once.
    pub(super) sticky: bool,
}

pub(super) fn fault(report: String) -> Error {
    Error::new(ErrorKind::Fault { report })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_of_the_kind_fails_and_no_other() {
        let mut plan = FailurePlan::default();
        plan.arm(Call::Copy, 2);
        plan.arm(Call::Copy, 3);
        let calls = [Call::Copy, Call::Memset, Call::Copy, Call::Copy, Call::Copy];
        assert_eq!(calls.map(|call| plan.strikes(call)), [false, false, true, true, false]);
    }
}
