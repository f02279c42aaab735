//! What was asked of the device, in the order in which it was asked.

/// One call that succeeded. Streams and events are named by number, in the order of their creation on the device;
/// addresses and sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Device memory was allocated, ordered on a stream.
    DeviceAlloc {
        /// The stream.
        stream: u64,
        /// The block's first device address.
        address: u64,
        /// The block's size.
        size_bytes: u64,
    },
    /// Device memory was freed, ordered on a stream.
    DeviceFree {
        /// The stream.
        stream: u64,
        /// The block's first device address.
        address: u64,
        /// The block's size.
        size_bytes: u64,
    },
    /// Staging was allocated.
    HostAlloc {
        /// Its first host address.
        address: u64,
        /// Its size.
        size_bytes: u64,
    },
    /// Staging was freed.
    HostFree {
        /// Its first host address.
        address: u64,
        /// Its size.
        size_bytes: u64,
    },
    /// Bytes go from the host to the device.
    Copy {
        /// The stream.
        stream: u64,
        /// Host address that is read.
        source: u64,
        /// Device address that is written.
        destination: u64,
        /// How many bytes.
        size_bytes: u64,
    },
    /// Bytes go from the device to device memory.
    CopyDtod {
        /// The stream.
        stream: u64,
        /// Device address that is read.
        source: u64,
        /// Device address that is written.
        destination: u64,
        /// How many bytes.
        size_bytes: u64,
    },
    /// Bytes go from the device to the host.
    CopyDtoh {
        /// The stream.
        stream: u64,
        /// Device address that is read.
        source: u64,
        /// How many bytes.
        size_bytes: u64,
    },
    /// Device memory is filled with one byte.
    Memset {
        /// The stream.
        stream: u64,
        /// Device address of the first byte.
        address: u64,
        /// How many bytes.
        size_bytes: u64,
        /// The byte.
        value: u8,
    },
    /// A kernel was launched.
    Launch {
        /// The stream.
        stream: u64,
    },
    /// An event was created.
    EventCreate {
        /// The event.
        event: u64,
    },
    /// An event was recorded behind the stream's work.
    EventRecord {
        /// The stream.
        stream: u64,
        /// The event.
        event: u64,
    },
    /// It was asked whether an event has been reached.
    EventQuery {
        /// The event.
        event: u64,
        /// The answer.
        reached: bool,
    },
    /// A stream waits for an event.
    StreamWait {
        /// The stream that waits.
        stream: u64,
        /// The event.
        event: u64,
    },
    /// The host waited for a stream.
    Synchronize {
        /// The stream; `None` for the whole device.
        stream: Option<u64>,
    },
}

impl Op {
    /// The same call on another stream.
    pub(super) fn on_stream(&self, other: u64) -> Self {
        let mut op = self.clone();
        match &mut op {
            Self::Copy { stream, .. }
            | Self::CopyDtod { stream, .. }
            | Self::Memset { stream, .. }
            | Self::Launch { stream } => *stream = other,
            _ => {}
        }
        op
    }
}

/// How often what was called. Calls that failed are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations of device memory.
    pub device_allocs: u64,
    /// Releases of device memory, counted when they are given to the stream.
    pub device_frees: u64,
    /// Blocks of device memory that nobody has freed.
    pub live_device_blocks: u64,
    /// Allocations of staging.
    pub host_allocs: u64,
    /// Releases of staging.
    pub host_frees: u64,
    /// Staging that nobody has freed.
    pub live_host_blocks: u64,
    /// Copies from the host to the device.
    pub copies: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Fills of device memory.
    pub memsets: u64,
    /// Events that were recorded, each time counted.
    pub events: u64,
    /// Questions whether an event has been reached.
    pub queries: u64,
    /// Waits of the host for a stream or the device.
    pub synchronizes: u64,
}

impl Counters {
    fn count(&mut self, op: &Op) {
        match op {
            Op::DeviceAlloc { .. } => {
                self.device_allocs += 1;
                self.live_device_blocks += 1;
            }
            Op::DeviceFree { .. } => {
                self.device_frees += 1;
                self.live_device_blocks -= 1;
            }
            Op::HostAlloc { .. } => {
                self.host_allocs += 1;
                self.live_host_blocks += 1;
            }
            Op::HostFree { .. } => {
                self.host_frees += 1;
                self.live_host_blocks -= 1;
            }
            Op::Copy { size_bytes, .. } => {
                self.copies += 1;
                self.copied_bytes += size_bytes;
            }
            Op::Memset { .. } => self.memsets += 1,
            Op::EventRecord { .. } => self.events += 1,
            Op::EventQuery { .. } => self.queries += 1,
            Op::Synchronize { .. } => self.synchronizes += 1,
            Op::CopyDtod { .. }
            | Op::CopyDtoh { .. }
            | Op::Launch { .. }
            | Op::EventCreate { .. }
            | Op::StreamWait { .. } => {}
        }
    }
}

/// Every call that succeeded, and how often each kind did.
#[derive(Debug)]
pub(super) struct Journal {
    ops: Vec<Op>,
    counters: Counters,
}

impl Journal {
    /// Room for so many calls is there from the start: a test that counts heap allocations counts the library's, not ours.
    const ROOM: usize = 16 * 1024;

    pub(super) fn new() -> Self {
        Self { ops: Vec::with_capacity(Self::ROOM), counters: Counters::default() }
    }

    pub(super) fn enter(&mut self, op: Op) {
        self.counters.count(&op);
        self.ops.push(op);
    }

    pub(super) fn ops(&self) -> &[Op] {
        &self.ops
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }
}
