//! Events: points in the work of a stream.

use std::sync::{Arc, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::{driver, retired, stream};
use crate::error::Error;

/// A point in the work of a CUDA stream.
///
/// Not cudarc's `CudaEvent`, whose calls return errors that are parked in the context as their own.
pub struct Fence {
    event: Event,
    // Keeps the event's context.
    _context: Arc<CudaContext>,
}

impl Fence {
    pub(super) fn record(stream: &CudaStream) -> Result<Self, Error> {
        let context = stream.context();
        let _bound = driver::bind(context).map_err(driver::failed("cuCtxSetCurrent"))?;
        let event = Event::new(context).map_err(driver::failed("cuEventCreate"))?;
        let recorded = usable_handle(stream).and_then(|handle| event.record(handle));
        recorded.map_err(driver::failed("cuEventRecord"))?;
        Ok(Self { event, _context: Arc::clone(context) })
    }

    pub(super) fn record_again(&mut self, stream: &CudaStream) -> Result<(), Error> {
        let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
        let recorded = usable_handle(stream).and_then(|handle| self.event.record(handle));
        recorded.map_err(driver::failed("cuEventRecord"))
    }

    pub(super) fn is_done(&self) -> Result<bool, Error> {
        match self.event.query() {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(driver::failed("cuEventQuery")(error)),
        }
    }

    pub(super) fn wait_on_host(&self) -> Result<(), Error> {
        self.event.synchronize().map_err(driver::failed("cuEventSynchronize"))
    }

    pub(super) fn wait_on(&self, stream: &CudaStream) -> Result<(), Error> {
        let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
        let waits = usable_handle(stream).and_then(|handle| self.event.wait_on(handle));
        waits.map_err(driver::failed("cuStreamWaitEvent"))
    }
}

/// The handle that orders `stream` on every thread. Where that is the legacy stream in place of a per-thread one, and it is
/// unusable because of a capture, an error: using it would invalidate the capture.
fn usable_handle(stream: &CudaStream) -> Result<sys::CUstream, DriverError> {
    let handle = stream::shared_handle(stream);
    if stream::is_per_thread(stream) {
        stream::refuse_capture(handle)?;
    }
    Ok(handle)
}

/// An event without timing. It does not keep its context; when the context is gone, so is the event.
pub(super) struct Event {
    raw: sys::CUevent,
    context: Weak<CudaContext>,
}

// SAFETY: an event handle may be used from any thread: the driver's calls on events are thread-safe.
unsafe impl Send for Event {}
// SAFETY: as above; `&Event` only gives the handle to such calls.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event. The context is bound.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        Ok(Self { raw, context: Arc::downgrade(context) })
    }

    /// Moves the event behind the work that the stream has been given. The caller borrows a stream of the event's context, which
    /// is bound.
    pub(super) fn record(&self, handle: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: the event is live, since its context is, and is destroyed only in `drop`; the stream is live, since the caller
        // borrows it.
        unsafe { result::event::record(self.raw, handle) }
    }

    /// Lets the stream wait for the event. The caller borrows the stream, whose context is bound, and holds the event's context.
    fn wait_on(&self, handle: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: as for `record`; stream and event may be of different contexts.
        unsafe { result::stream::wait_event(handle, self.raw, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
    }

    /// Whether the event can be recorded on streams of `context`.
    pub(super) fn belongs_to(&self, context: &Arc<CudaContext>) -> bool {
        // The weak reference keeps the address from being given to another context.
        core::ptr::eq(self.context.as_ptr(), Arc::as_ptr(context))
    }

    /// Asks, and does not wait.
    fn query(&self) -> Result<(), DriverError> {
        self.with_context(|raw| {
            // SAFETY: the event is live: its context is held, and it is destroyed only in `drop`.
            unsafe { result::event::query(raw) }
        })
    }

    /// Waits.
    fn synchronize(&self) -> Result<(), DriverError> {
        self.with_context(|raw| {
            // SAFETY: the event is live: its context is held, and it is destroyed only in `drop`.
            unsafe { result::event::synchronize(raw) }
        })
    }

    /// Makes `call` with the event's context kept and bound; without a context the event is gone.
    fn with_context(&self, call: impl FnOnce(sys::CUevent) -> Result<(), DriverError>) -> Result<(), DriverError> {
        let Some(context) = self.context.upgrade() else {
            return Err(DriverError(sys::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED));
        };
        // Beside a capture in global mode CUDA forbids to ask for events, lest the captured work be meant.
        let _relaxed = driver::Relaxed::enter();
        let _bound = driver::bind(&context)?;
        call(self.raw)
    }
}

fn state(answer: Result<(), DriverError>) -> retired::State {
    match answer {
        Ok(()) => retired::State::Reached,
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => retired::State::Pending,
        Err(_) => retired::State::Lost,
    }
}

/// What is lost is never freed: so it is asked for once more.
fn insist(ask: impl Fn() -> retired::State) -> retired::State {
    match ask() {
        retired::State::Lost => ask(),
        known => known,
    }
}

impl retired::Fence for Event {
    fn state(&self) -> retired::State {
        insist(|| state(self.query()))
    }

    fn wait(&self) -> retired::State {
        insist(|| state(self.synchronize()))
    }

    fn is_live(&self) -> bool {
        self.context.strong_count() != 0
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // Without its context the event is gone already.
        let Some(context) = self.context.upgrade() else { return };
        let destroyed = driver::insist(|| driver::bind(&context)).and_then(|_bound| {
            // SAFETY: the event is live, since its context is, and this is its owner's only destroy. The driver releases an
            // event that is still waited for when that is over.
            unsafe { result::event::destroy(self.raw) }
        });
        context.record_err(destroyed);
    }
}
