//! Device memory that a batch of copies may use, and who vouches for it.

use core::fmt;
use core::marker::PhantomData;

use crate::backend::{Backend, Tracked};
use crate::error::{Error, ErrorKind};
use crate::pointer::DevicePointer;

/// Device memory that a batch reads: `&HostBuffer`, `&CudaSlice` or `&CudaView` of cudarc, a column of a set
/// ([`Uploaded::range`](crate::Uploaded::range)), or an address for which you answer.
pub struct DeviceRange<'a, T, B: Backend> {
    memory: Memory<'a, B>,
    len: usize,
    element: PhantomData<fn() -> T>,
}

/// Device memory that a batch writes: `&mut HostBuffer`, `&mut CudaSlice` or `&mut CudaViewMut` of cudarc, or an address for which
/// you answer. No column of a set: sets may share a block, whose bytes never change.
pub struct DeviceRangeMut<'a, T, B: Backend> {
    range: DeviceRange<'a, T, B>,
}

/// How the work on a range is ordered.
pub(crate) enum Memory<'a, B: Backend> {
    /// By whoever gave the address.
    Address(u64),
    /// By a stream: the memory is freed or rewritten behind its work alone.
    Ordered(u64, &'a B::Stream),
    /// By the stream that it was lent to. The per-thread default stream of any thread is ordered then.
    Lent(u64, &'a B::Stream),
    /// By an owner that is told of the use.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only slices of cudarc are tracked"))]
    Tracked(Box<dyn Tracked<B> + 'a>),
}

impl<'a, T, B: Backend> DeviceRange<'a, T, B> {
    /// `len` elements from `pointer` on.
    ///
    /// ```
    /// use marshal::DeviceRange;
    /// use marshal::host::{Host, HostDevice};
    ///
    /// let buffer = HostDevice::new().stream().clone_htod(&[1_u32, 2, 3])?;
    /// // SAFETY: the buffer is not used on another stream, and outlives the copies.
    /// let tail: DeviceRange<'_, u32, Host> = unsafe { DeviceRange::from_raw(buffer.pointer().checked_add(1).unwrap(), 2) };
    /// assert_eq!(tail.len(), 2);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Safety
    /// All of it is device memory that may be read in the order of the batch's stream, and stays so until the copies have run.
    #[must_use]
    pub unsafe fn from_raw(pointer: DevicePointer<T>, len: usize) -> Self {
        Self::of(Memory::Address(pointer.address()), len)
    }

    pub(crate) fn of(memory: Memory<'a, B>, len: usize) -> Self {
        Self { memory, len, element: PhantomData }
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn into_memory(self) -> Memory<'a, B> {
        self.memory
    }
}

impl<'a, T, B: Backend> DeviceRangeMut<'a, T, B> {
    /// `len` elements from `pointer` on.
    ///
    /// # Safety
    /// All of it is device memory that may be written in the order of the batch's stream, and stays so until the copies have run.
    /// Nothing reads it beside them, a host reference to memory that the device shares included.
    #[must_use]
    pub unsafe fn from_raw(pointer: DevicePointer<T>, len: usize) -> Self {
        Self::of(Memory::Address(pointer.address()), len)
    }

    pub(crate) fn of(memory: Memory<'a, B>, len: usize) -> Self {
        Self { range: DeviceRange::of(memory, len) }
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.len == 0
    }

    pub(crate) fn into_memory(self) -> Memory<'a, B> {
        self.range.memory
    }
}

/// Device memory of a copy on a stream that may use it.
pub(crate) enum On<'a, B: Backend> {
    Address(u64),
    Tracked(Box<dyn Tracked<B> + 'a>),
}

impl<'a, B: Backend> Memory<'a, B> {
    /// The address for work on `stream`, or who gives it once that is about to be submitted.
    pub(crate) fn on(self, stream: &B::Stream) -> Result<On<'a, B>, Error> {
        match self {
            Self::Address(address) => Ok(On::Address(address)),
            Self::Ordered(address, home) if B::is_same_stream(home, stream) => Ok(On::Address(address)),
            Self::Lent(address, lent) if B::is_same_stream(lent, stream) || is_any_thread::<B>(lent, stream) => {
                Ok(On::Address(address))
            }
            Self::Ordered(_, home) | Self::Lent(_, home) => Err(Error::new(wrong_stream::<B>(home, stream))),
            Self::Tracked(owner) => Ok(On::Tracked(owner)),
        }
    }
}

/// `home` orders the memory, and the batch is on `stream`.
#[cold]
fn wrong_stream<B: Backend>(home: &B::Stream, stream: &B::Stream) -> ErrorKind {
    if B::is_same_device(home, stream) {
        ErrorKind::WrongStream { device: B::device_name(stream) }
    } else {
        ErrorKind::WrongDevice { expected: B::device_name(home), found: B::device_name(stream) }
    }
}

/// Whether both are per-thread default streams of one device, be it of two threads.
fn is_any_thread<B: Backend>(a: &B::Stream, b: &B::Stream) -> bool {
    B::is_per_thread(a) && B::is_per_thread(b) && B::is_same_device(a, b)
}

impl<T, B: Backend> fmt::Debug for DeviceRange<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRange").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T, B: Backend> fmt::Debug for DeviceRangeMut<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRangeMut").field("len", &self.range.len).finish_non_exhaustive()
    }
}
