//! The device.

use std::sync::Arc;
use std::time::Duration;

use super::fault::Call;
use super::journal::{Counters, Op};
use super::staging::HostStaging;
use super::state::{DeviceHandle, Shared};
use super::stream::HostStream;
use crate::error::Error;

/// How a [`HostDevice`] behaves.
///
/// ```
/// use marshal::host::{HostDevice, HostOptions};
///
/// let device = HostDevice::with_options(HostOptions { base_offset: 16, ..Default::default() });
/// let block = device.stream().alloc::<u8>(1)?;
/// assert_eq!(block.pointer().address() % 512, 16);
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Each block's address is a multiple of 512 bytes plus this. 0 if left out.
    pub base_offset: u64,
    /// Bytes of device memory; an allocation that passes them fails. 16 GiB if left out.
    pub memory_bytes: u64,
    /// Work that nobody demands is begun so long after it was submitted. 200 ms if left out.
    pub patience: Duration,
    /// The work before a fence is begun, and waited for while it moves, when the fence was asked so often. 1 if left out.
    pub polls: u32,
    /// What the order inside a batch of copies is drawn from. 0 if left out.
    pub seed: u64,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { base_offset: 0, memory_bytes: 16 << 30, patience: Duration::from_millis(200), polls: 1, seed: 0 }
    }
}

/// A device that lives on the CPU. Clones are handles of one device.
///
/// ```
/// use marshal::host::{Counters, HostDevice, Op};
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let numbers = stream.clone_htod(&[1_u64, 2])?;
/// let address = numbers.pointer().address();
/// drop(numbers);
/// assert_eq!(device.counters(), Counters { device_allocs: 1, device_frees: 1, copies: 1, copied_bytes: 16, ..Default::default() });
/// assert_eq!(device.journal()[0], Op::DeviceAlloc { stream: 0, address, size_bytes: 16 });
/// assert_eq!(device.journal()[2], Op::DeviceFree { stream: 0, address, size_bytes: 16 });
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostDevice {
    handle: Arc<DeviceHandle>,
}

impl HostDevice {
    /// A device with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A device of its own: it shares no memory and no stream with another.
    #[must_use]
    pub fn with_options(options: HostOptions) -> Self {
        Self { handle: Arc::new(DeviceHandle { shared: Arc::new(Shared::new(options)) }) }
    }

    pub(super) fn from_handle(handle: Arc<DeviceHandle>) -> Self {
        Self { handle }
    }

    /// A new stream. It is ordered with no other.
    #[must_use]
    pub fn stream(&self) -> HostStream {
        HostStream::open(&self.handle)
    }

    /// Waits for all work of all streams.
    ///
    /// # Errors
    /// When work broke a rule; where it did on several streams, the report of the first stream. When a stream is capturing.
    pub fn synchronize(&self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        state.admit(Call::Synchronize, None)?;
        state.journal.enter(Op::Synchronize { stream: None });
        let mut result = Ok(());
        for stream in state.streams() {
            let submitted = state.queue(stream).submitted();
            state.queue(stream).demand(submitted);
        }
        for stream in state.streams() {
            let last = state.last_point(stream);
            state = shared.wait_for(state, stream, last.sequence);
            state.host_passed(&last);
            result = result.and(state.report(stream, last.sequence));
        }
        drop(state);
        shared.drop_released();
        result
    }

    /// Page-locked host memory.
    ///
    /// # Errors
    /// When [`fail`](Self::fail) says so, a stream is capturing, or a kernel asks.
    pub fn alloc_staging(&self, size_bytes: usize) -> Result<HostStaging, Error> {
        HostStaging::allocate(&self.handle, size_bytes, None)
    }

    /// How often what was called, by all streams.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.handle.lock().journal.counters()
    }

    /// Every call that succeeded, in the order of submission.
    #[must_use]
    pub fn journal(&self) -> Vec<Op> {
        self.handle.lock().journal.ops().to_vec()
    }

    /// Lets the `nth` next call of that kind fail, once, with [`ErrorKind::Driver`](crate::ErrorKind::Driver). A call that
    /// fails has no effect.
    ///
    /// ```
    /// use marshal::host::{Call, HostDevice};
    ///
    /// let device = HostDevice::new();
    /// let stream = device.stream();
    /// device.fail(Call::DeviceAlloc, 2);
    /// let first = stream.alloc::<u8>(64)?;
    /// assert!(stream.alloc::<u8>(64).is_err());
    /// assert!(stream.alloc::<u8>(64).is_ok());
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Panics
    /// When `nth` is 0: it counts from 1.
    pub fn fail(&self, call: Call, nth: u64) {
        assert_ne!(nth, 0, "nth counts from 1");
        self.handle.lock().failures.arm(call, nth);
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::with_options(HostOptions::default())
    }
}
