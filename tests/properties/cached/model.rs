//! What a kernel has to see, what may fail, and what the statistics have to say: the cache without its cleverness.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use marshal::host::{Call, DeviceMemory};
use marshal::{CacheStats, DevicePointer, Error, ErrorKind, WhenExhausted};

use super::ops::Options;

/// What kernels read, in the order in which they ran; by whose kernel it was.
type Seen = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

pub(crate) struct Model {
    options: Options,
    seen: Seen,
    // By kernel: what each of its runs has to read.
    expected: Vec<VecDeque<Vec<u8>>>,
    // Calls that were told to fail and have not said so.
    armed: Vec<Call>,
    /// Counts `clear`.
    pub(crate) generation: u64,
    /// Uploads that returned a set.
    pub(crate) uploads: u64,
    /// Uploads out of a capture, of sets that have bytes: a copy each, or a byte hit.
    pub(crate) eager: u64,
    /// Copies by launches of graphs.
    pub(crate) launched: u64,
    pub(crate) launched_bytes: u64,
}

impl Model {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            seen: Seen::default(),
            expected: Vec::new(),
            armed: Vec::new(),
            generation: 0,
            uploads: 0,
            eager: 0,
            launched: 0,
            launched_bytes: 0,
        }
    }

    /// A kernel that reads so many bytes, and what to tell [`expect`](Self::expect) of its runs.
    pub(crate) fn kernel(
        &mut self,
        from: DevicePointer<u8>,
        len: usize,
    ) -> (usize, impl FnMut(&DeviceMemory) + Send + 'static) {
        let (kernel, seen) = (self.expected.len(), Arc::clone(&self.seen));
        self.expected.push(VecDeque::new());
        let read = move |memory: &DeviceMemory| {
            let bytes = memory.read_at(from, len).to_vec();
            seen.lock().unwrap().push((kernel, bytes));
        };
        (kernel, read)
    }

    /// A kernel that writes over all of that scratch.
    pub(crate) fn dirt(from: DevicePointer<u8>, len: usize) -> impl FnMut(&DeviceMemory) + Send + 'static {
        move |memory: &DeviceMemory| memory.write_at(from, &vec![0xd1_u8; len])
    }

    /// The kernel runs once more, and has to read `bytes`.
    pub(crate) fn expect(&mut self, kernel: usize, bytes: &[u8]) {
        self.expected[kernel].push_back(bytes.to_vec());
    }

    /// Holds what kernels have seen by now against what they had to.
    pub(crate) fn compare(&mut self) {
        for (kernel, bytes) in self.seen.lock().unwrap().drain(..) {
            let expected = self.expected[kernel].pop_front();
            assert_eq!(Some(bytes), expected, "kernel {kernel} read other bytes than it had to");
        }
    }

    /// All streams have run: nothing is left that has to be seen.
    pub(crate) fn finish(&mut self) {
        self.compare();
        let missing = self.expected.iter().position(|runs| !runs.is_empty());
        assert_eq!(missing, None, "a kernel has not run as often as it was launched");
    }

    pub(crate) fn arm(&mut self, call: Call) {
        self.armed.push(call);
    }

    /// No call is going to fail any more.
    pub(crate) fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Whether nothing may fail for want of memory, nor by plan.
    pub(crate) fn is_calm(&self) -> bool {
        self.armed.is_empty() && self.options.device_bytes.is_none() && self.options.staging_bytes.is_none()
    }

    /// A call of the driver has failed: by plan, and each plan once.
    pub(crate) fn expect_failure(&mut self, error: &Error) {
        let ErrorKind::Driver { call, .. } = error.kind() else { panic!("unexpected: {error}") };
        let by = |armed: &Call| match armed {
            Call::DeviceAlloc => "cuMemAllocAsync",
            Call::HostAlloc => "cuMemHostAlloc",
            Call::Copy => "cuMemcpyAsync",
            Call::EventCreate => "cuEventCreate",
            Call::EventRecord => "cuEventRecord",
            Call::EventQuery => "cuEventQuery",
            Call::StreamWait => "cuStreamWaitEvent",
            Call::Launch => "cuLaunchKernel",
            _ => "another",
        };
        let plan = self.armed.iter().position(|armed| by(armed) == *call);
        self.armed.swap_remove(plan.unwrap_or_else(|| panic!("nobody let this call fail: {error}")));
    }

    /// An upload or a refresh was refused: for want of memory, as the options allow, or since a call has failed.
    pub(crate) fn expect_refusal(&mut self, error: &Error, held_bytes: Option<u64>) {
        match *error.kind() {
            ErrorKind::CacheFull { needed, available } => {
                let cap = self.options.device_bytes.expect("without a cap there is always room");
                assert!(needed > available, "{error}");
                if let Some(held) = held_bytes {
                    assert_eq!(available, cap.saturating_sub(held), "{error}: the cap is {cap}");
                }
            }
            ErrorKind::StagingFull { needed, available } => {
                assert!(self.options.staging_bytes.is_some() && needed > available, "{error}");
            }
            ErrorKind::StagingExhausted { .. } => assert_eq!(self.options.when_exhausted, WhenExhausted::Error),
            _ => self.expect_failure(error),
        }
    }

    /// The statistics add up, and the caps hold.
    pub(crate) fn check_stats(&self, stats: &CacheStats) {
        assert_eq!(stats.uploads, self.uploads, "{stats:?}");
        assert_eq!(stats.copies + stats.byte_hits, self.eager + self.launched, "{stats:?}");
        assert!(stats.copies >= self.launched && stats.copied_bytes >= self.launched_bytes, "{stats:?}");
        let eager_copies = stats.copies - self.launched;
        assert!(stats.shape_hits <= eager_copies, "{stats:?}");
        assert!(stats.evictions <= stats.allocations, "{stats:?}");
        assert!(self.options.device_bytes.is_none_or(|cap| stats.device_bytes <= cap), "{stats:?}");
        assert!(self.options.staging_bytes.is_none_or(|cap| stats.staging_bytes <= cap), "{stats:?}");
    }
}
