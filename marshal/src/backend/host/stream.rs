//! Streams.

use std::fmt;
use std::ops::Range;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::block::HostBlock;
use super::device::HostDevice;
use super::fault::{Call, Code, fault};
use super::fence::{HostFence, Position};
use super::journal::Op;
use super::kernel::DeviceMemory;
use super::memory::Snapshot;
use super::queue::Task;
use super::staging::{HostRegion, HostStaging, Retired, Source};
use super::state::{DeviceHandle, Shared, State, free_postponed, on_worker, submit};
use crate::error::{Error, ErrorKind};
use crate::pointer::DevicePointer;

/// A stream of work. Clones are handles of one stream.
///
/// Its work runs in order, on a thread of its own, as late as the rules allow. When the last handle goes, what is left is
/// done; blocks hold a handle of their stream.
///
/// ```
/// use marshal::host::HostDevice;
///
/// let stream = HostDevice::new().stream();
/// stream.launch(|_| assert_eq!(1 + 1, 3))?;
/// assert!(stream.synchronize().unwrap_err().to_string().contains("panicked"));
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Clone)]
pub struct HostStream {
    handle: Arc<StreamHandle>,
}

struct StreamHandle {
    device: Arc<DeviceHandle>,
    id: u64,
}

impl StreamHandle {
    // How long the last handle waits for what is left. A kernel may be held up by whoever drops the handle.
    const LINGER: Duration = Duration::from_secs(1);
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let unfinished = {
            let mut state = self.device.lock();
            let unfinished = state.queue(self.id).capture.take();
            free_postponed(&self.device.shared, &mut state, self.id);
            state.queue(self.id).close();
            unfinished
        };
        // Outside of the lock: it may own handles.
        drop(unfinished);
        if !thread::panicking() && !on_worker() {
            self.device.shared.linger(self.id, Self::LINGER);
        }
    }
}

impl HostStream {
    pub(super) fn open(device: &Arc<DeviceHandle>) -> Self {
        let id = device.lock().open_stream();
        Self { handle: Arc::new(StreamHandle { device: device.clone(), id }) }
    }

    /// The number that the journal names the stream by.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.handle.id
    }

    /// The stream's device.
    #[must_use]
    pub fn device(&self) -> HostDevice {
        HostDevice::from_handle(self.handle.device.clone())
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.handle.device.shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.handle.device.lock()
    }

    pub(super) fn device_handle(&self) -> &Arc<DeviceHandle> {
        &self.handle.device
    }

    pub(super) fn expect_device(&self, expected: &DeviceHandle) -> Result<(), Error> {
        if Arc::ptr_eq(self.shared(), &expected.shared) {
            return Ok(());
        }
        let (expected, found) = (device_name(&expected.shared), device_name(self.shared()));
        Err(Error::new(ErrorKind::WrongDevice { expected, found }))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    pub(super) fn is_same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    /// Runs `kernel` behind the work that the stream was given. Returns at once. A panic in it is an error of the next wait.
    /// Captured, it runs in each launch of the graph.
    ///
    /// # Errors
    /// When the call fails by plan, or comes from a kernel.
    pub fn launch(&self, kernel: impl FnMut(&DeviceMemory) + Send + 'static) -> Result<(), Error> {
        self.give(Call::Launch, Task::Launch(Arc::new(Mutex::new(kernel))), Op::Launch { stream: self.id() })
    }

    /// Waits for all work that the stream has been given so far.
    ///
    /// # Errors
    /// When that work broke a rule or panicked. The report says what, with addresses and sizes; it stays.
    pub fn synchronize(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.admit(Call::Synchronize, Some(self.id()))?;
        state.journal.enter(Op::Synchronize { stream: Some(self.id()) });
        let last = state.last_point(self.id());
        let mut state = self.shared().wait_for(state, self.id(), last.sequence);
        state.host_passed(&last);
        let reported = state.report(self.id(), last.sequence);
        drop(state);
        self.shared().drop_released();
        reported
    }

    /// The point behind all work that the stream has been given so far.
    ///
    /// # Errors
    /// When the event is not created or not recorded.
    pub fn record(&self) -> Result<HostFence, Error> {
        let mut state = self.lock();
        state.admit(Call::EventCreate, None)?;
        let position = self.record_position(&mut state)?;
        let event = state.events;
        state.events += 1;
        state.journal.enter(Op::EventCreate { event });
        state.journal.enter(Op::EventRecord { stream: self.id(), event });
        Ok(HostFence::new(self.handle.device.clone(), event, position))
    }

    /// Records `fence` anew, behind all work that the stream has been given so far.
    ///
    /// # Errors
    /// When the fence belongs to another device, or the event is not recorded; the fence stands where it stood then.
    pub fn record_again(&self, fence: &mut HostFence) -> Result<(), Error> {
        self.expect_device(fence.device())?;
        let mut state = self.lock();
        let position = self.record_position(&mut state)?;
        state.journal.enter(Op::EventRecord { stream: self.id(), event: fence.event() });
        fence.set_position(position);
        Ok(())
    }

    fn record_position(&self, state: &mut State) -> Result<Position, Error> {
        state.admit(Call::EventRecord, Some(self.id()))?;
        Ok(if state.queue(self.id()).capture.is_some() {
            Position::Capture(self.id())
        } else {
            Position::Work(submit(self.shared(), state, self.id(), Task::Mark)?)
        })
    }

    /// Lets the work that this stream is given from now on wait for `fence`.
    ///
    /// # Errors
    /// When the fence belongs to another device, or the call fails by plan.
    pub fn wait(&self, fence: &HostFence) -> Result<(), Error> {
        self.expect_device(fence.device())?;
        let mut state = self.lock();
        state.admit(Call::StreamWait, Some(self.id()))?;
        match (fence.position(), state.queue(self.id()).capture.is_some()) {
            (Position::Work(point), false) => {
                submit(self.shared(), &mut state, self.id(), Task::Wait(point.clone()))?;
            }
            // A stream's captured work is in order anyway.
            (Position::Capture(stream), true) if *stream == self.id() => {}
            _ => {
                state.invalidate_captures(Some(self.id()));
                return Err(Call::StreamWait.error(Code::CaptureIsolation));
            }
        }
        state.journal.enter(Op::StreamWait { stream: self.id(), event: fence.event() });
        Ok(())
    }

    /// Copies `range` of `staging` to `destination`. Returns at once: the staging is read when the copy runs.
    ///
    /// # Errors
    /// When the staging has no such range or belongs to another device, no block holds the destination, or the call fails by
    /// plan.
    pub fn copy_staging(
        &self,
        staging: &HostStaging,
        range: Range<usize>,
        destination: DevicePointer<u8>,
    ) -> Result<(), Error> {
        let (start, end) = (range.start, range.end);
        let source = staging.source(range).ok_or_else(|| {
            fault(format!("bytes {start} to {end} pass the end of the staging of {} bytes", staging.size_bytes()))
        })?;
        self.expect_device(staging.device())?;
        self.check(destination.address(), source.size_bytes())?;
        self.copy(source, destination.address())
    }

    /// Fills `size_bytes` bytes from `pointer` on.
    ///
    /// # Errors
    /// When no block holds all of them, or the call fails by plan.
    pub fn memset<T>(&self, pointer: DevicePointer<T>, size_bytes: usize, value: u8) -> Result<(), Error> {
        let (stream, address) = (self.id(), pointer.address());
        let op = Op::Memset { stream, address, size_bytes: size_bytes as u64, value };
        self.check(address, size_bytes as u64)?;
        self.give(Call::Memset, Task::Memset { address, size_bytes, value }, op)
    }

    pub(super) fn zero(&self, block: &HostBlock, offset: u64, size_bytes: u64) -> Result<(), Error> {
        let address = block.range(offset, size_bytes)?;
        let op = Op::Memset { stream: self.id(), address, size_bytes, value: 0 };
        // No larger than the block, which is at most a usize.
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        self.give(Call::Memset, Task::Memset { address, size_bytes, value: 0 }, op)
    }

    /// Whether a live block holds the range, as far as is known before the work runs.
    fn check(&self, address: u64, size_bytes: u64) -> Result<(), Error> {
        let mut state = self.lock();
        let point = state.next_point(self.id());
        state.memory.check(&point, address, size_bytes).map_err(|violation| fault(violation.report))
    }

    pub(super) fn copy_region(
        &self,
        region: &HostRegion,
        len: usize,
        block: &HostBlock,
        offset: u64,
    ) -> Result<(), Error> {
        let destination = block.range(offset, len as u64)?;
        self.copy(region.source(len)?, destination)
    }

    /// Frees the regions behind the work that the stream was given.
    pub(super) fn retire(&self, regions: Vec<HostRegion>) {
        if regions.is_empty() {
            return;
        }
        let mut state = self.lock();
        for region in &regions {
            region.retire(&mut state);
        }
        if let Err(error) = submit(self.shared(), &mut state, self.id(), Task::Retire(Retired::new(regions))) {
            state.fail_stream(self.id(), error);
        }
    }

    pub(super) fn copy_htod(&self, source: Vec<u8>, block: &HostBlock, offset: u64) -> Result<(), Error> {
        let destination = block.range(offset, source.len() as u64)?;
        self.copy(Source::Owned(Arc::new(source)), destination)
    }

    fn copy(&self, source: Source, destination: u64) -> Result<(), Error> {
        let (stream, size_bytes) = (self.id(), source.size_bytes());
        let op = Op::Copy { stream, source: source.address(), destination, size_bytes };
        self.give(Call::Copy, Task::Copy { source, destination }, op)
    }

    /// Reads device memory behind the work that the stream was given, and waits for it.
    pub(super) fn fetch(&self, block: &HostBlock, offset: u64, size_bytes: u64) -> Result<Snapshot, Error> {
        let source = block.range(offset, size_bytes)?;
        let (reply, snapshot) = channel();
        let mut state = self.lock();
        state.admit(Call::Copy, Some(self.id()))?;
        if state.queue(self.id()).capture.is_some() {
            state.invalidate_captures(Some(self.id()));
            return Err(Call::Copy.error(Code::CaptureUnsupported));
        }
        // No larger than the block, which is at most a usize.
        let task = Task::CopyDtoh { source, size_bytes: usize::try_from(size_bytes).unwrap_or(usize::MAX), reply };
        let point = submit(self.shared(), &mut state, self.id(), task)?;
        state.journal.enter(Op::CopyDtoh { stream: self.id(), source, size_bytes });
        let mut state = self.shared().wait_for(state, self.id(), point.sequence);
        state.host_passed(&point);
        state.report(self.id(), point.sequence)?;
        snapshot.recv().map_err(|_| fault(format!("the copy of {size_bytes} bytes from {source:#x} did not run")))
    }

    /// Submits one call, or captures it. The journal has it when it is submitted.
    fn give(&self, call: Call, task: Task, op: Op) -> Result<(), Error> {
        let mut state = self.lock();
        state.admit(call, Some(self.id()))?;
        if let Some(capture) = &mut state.queue(self.id()).capture {
            capture.push(task, op);
            return Ok(());
        }
        submit(self.shared(), &mut state, self.id(), task)?;
        state.journal.enter(op);
        Ok(())
    }
}

pub(super) fn device_name(shared: &Shared) -> String {
    format!("host device {}", shared.id)
}

impl fmt::Debug for HostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostStream").field("device", &self.shared().id).field("id", &self.id()).finish()
    }
}
