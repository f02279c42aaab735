//! Device memory as a kernel sees it.

use std::any::type_name;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;

use bumpalo::Bump;
use bytemuck::{CheckedBitPattern, NoUninit};

use super::clock::Point;
use super::elements::elements;
use super::memory::Violation;
use super::state::Shared;
use crate::alignment::Alignment;
use crate::pointer::{DeviceColumn, DevicePointer};

/// Device memory, lent to a kernel's closure by [`HostStream::launch`](super::HostStream::launch).
///
/// Every access is checked: bounds, alignment, whether the block is still there and ordered behind what others do with it,
/// and whether the bytes are valid for the type. A broken rule ends the kernel, as an illegal address does; the next wait for
/// the stream returns the report.
///
/// ```
/// use marshal::host::HostDevice;
///
/// let stream = HostDevice::new().stream();
/// let values = stream.clone_htod(&[1.0_f32, 2.0, 3.0])?;
/// let column = values.column();
/// stream.launch(move |memory| {
///     let doubled: Vec<f32> = memory.read(column).iter().map(|value| 2.0 * value).collect();
///     memory.write_at(column.pointer(), &doubled);
/// })?;
/// assert_eq!(values.to_vec()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), marshal::Error>(())
/// ```
pub struct DeviceMemory {
    shared: Arc<Shared>,
    at: Point,
    // What was read, as long as the kernel runs: a write never changes a slice that was lent.
    snapshots: Bump,
}

impl DeviceMemory {
    pub(super) fn new(shared: Arc<Shared>, at: Point) -> Self {
        Self { shared, at, snapshots: Bump::new() }
    }

    /// The column's elements as they are now; later writes do not change the slice. An empty column is an empty slice.
    pub fn read<T: CheckedBitPattern>(&self, column: DeviceColumn<T>) -> &[T] {
        self.read_at(column.pointer(), column.len())
    }

    /// The `len` elements from `pointer` on as they are now; later writes do not change the slice.
    pub fn read_at<T: CheckedBitPattern>(&self, pointer: DevicePointer<T>, len: usize) -> &[T] {
        self.fetch(pointer.address(), len).unwrap_or_else(|violation| abort(violation))
    }

    /// Writes `elements` from `pointer` on.
    pub fn write_at<T: NoUninit>(&self, pointer: DevicePointer<T>, elements: &[T]) {
        self.store(pointer.address(), elements).unwrap_or_else(|violation| abort(violation));
    }

    fn fetch<T: CheckedBitPattern>(&self, address: u64, len: usize) -> Result<&[T], Violation> {
        if len == 0 {
            return Ok(&[]);
        }
        let size_bytes = self.extent::<T>("reading", address, len)?;
        let snapshot = self.shared.lock().memory.read(&self.at, address, size_bytes)?;
        snapshot.with_bytes(|bytes| match elements(bytes, len, address) {
            Ok(elements) => Ok(&*self.snapshots.alloc_slice_copy(&elements)),
            Err(report) => Err(Violation::new(format!("reading on stream {}: {report}", self.at.stream))),
        })
    }

    fn store<T: NoUninit>(&self, address: u64, elements: &[T]) -> Result<(), Violation> {
        if size_of_val(elements) == 0 {
            return Ok(());
        }
        self.extent::<T>("writing", address, elements.len())?;
        let mut state = self.shared.lock();
        let written = state.memory.write(&self.at, address, bytemuck::cast_slice(elements));
        written.inspect_err(|violation| state.blame_other(violation))
    }

    /// The bytes of `len` elements, whose address must be aligned.
    fn extent<T>(&self, verb: &str, address: u64, len: usize) -> Result<usize, Violation> {
        let (needed, found) = (Alignment::of::<T>(), Alignment::of_address(address));
        if found < needed {
            return Err(Violation::new(format!(
                "{verb} {} at {address:#x} on stream {} is misaligned: the address is a multiple of {found}, the type needs {needed}",
                type_name::<T>(),
                self.at.stream
            )));
        }
        len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Violation::new(format!(
                "{verb} {len} elements of {} at {address:#x} on stream {} passes the last address: check the length",
                type_name::<T>(),
                self.at.stream
            ))
        })
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory").field("stream", &self.at.stream).finish_non_exhaustive()
    }
}

/// Ends the kernel. Resuming, rather than panicking, runs no panic hook: nothing is printed here, the report is returned by
/// the next wait for the stream.
fn abort(violation: Violation) -> ! {
    resume_unwind(Box::new(violation))
}
