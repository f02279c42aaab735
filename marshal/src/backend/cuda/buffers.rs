//! Columns of addresses of cudarc's slices, which stay borrowed while a set holds the addresses.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, SyncOnDrop};

use super::slice::{end, ordered, same_context};
use crate::column::Column;
use crate::declarations::Declarations;
use crate::error::Error;
use crate::kernel_struct::{KernelStruct, Member};
use crate::pointer::{DeviceColumn, DevicePointer};
use crate::spec::ColumnSpec;
use crate::walk::Visitor;

/// Slices of cudarc, or views of them, that kernels on one stream reach through a column of their addresses.
///
/// It does for many slices what cudarc's launch does for one that is its argument: when it is made, the stream waits for the
/// writes that are pending on the slices ([`new_mut`](Self::new_mut): for reads too); when it is dropped, the use of each slice is
/// recorded on the stream, so that a write on another stream, or a free, waits for the kernels that were launched until then.
/// The host does not wait.
///
/// A field `&'a Buffers<'a, T>` is a column, and what is uploaded with it borrows it: as long as the set is used, the slices
/// cannot be freed, nor written by safe code. Make and drop it outside of captures: the events that it waits for are recorded
/// outside.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use marshal::DeviceArgs;
/// use marshal::cuda::Buffers;
///
/// #[derive(DeviceArgs)]
/// struct Sums<'a> {
///     #[device(borrow)]
///     inputs: &'a Buffers<'a, f32>,
/// }
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// let layers = [stream.clone_htod(&[1.0_f32, 2.0])?, stream.clone_htod(&[3.0_f32])?];
/// let inputs = Buffers::new(&stream, &layers)?;
/// let dev = Sums { inputs: &inputs }.upload(&stream)?;
/// assert_eq!(dev.inputs.len(), 2);
/// // .. launches that take `&dev.inputs` as `const float* const*` ..
/// drop(dev);
/// drop(inputs);
/// drop(layers);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the slices' use is recorded when it is dropped"]
pub struct Buffers<'a, T> {
    pointers: Vec<DevicePointer<T>>,
    // Record the use when they are dropped.
    uses: Vec<SyncOnDrop<'a>>,
    stream: &'a CudaStream,
}

impl<'a, T> Buffers<'a, T> {
    /// Slices that kernels on `stream` read.
    ///
    /// # Errors
    /// When a slice belongs to another context than the stream, has no memory (address 0), or the stream cannot wait for it.
    pub fn new<S: DevicePtr<T> + 'a>(
        stream: &'a Arc<CudaStream>,
        slices: impl IntoIterator<Item = &'a S>,
    ) -> Result<Self, Error> {
        Self::of(stream, slices, |slice| {
            same_context(slice, stream)?;
            ordered(stream, || slice.device_ptr(stream))
        })
    }

    /// Slices that kernels on `stream` write, or read and write.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn new_mut<S: DevicePtrMut<T> + 'a>(
        stream: &'a Arc<CudaStream>,
        slices: impl IntoIterator<Item = &'a mut S>,
    ) -> Result<Self, Error> {
        Self::of(stream, slices, |slice| {
            same_context(slice, stream)?;
            ordered(stream, || slice.device_ptr_mut(stream))
        })
    }

    fn of<S>(
        stream: &'a CudaStream,
        slices: impl IntoIterator<Item = S>,
        order: impl Fn(S) -> Result<(DevicePointer<T>, SyncOnDrop<'a>), Error>,
    ) -> Result<Self, Error> {
        let mut buffers = Self { pointers: Vec::new(), uses: Vec::new(), stream };
        for slice in slices {
            let (pointer, use_of_slice) = order(slice)?;
            buffers.pointers.push(pointer);
            buffers.uses.push(use_of_slice);
        }
        Ok(buffers)
    }

    /// The addresses, in the order of the slices.
    #[must_use]
    pub fn pointers(&self) -> &[DevicePointer<T>] {
        &self.pointers
    }

    /// Slices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    /// Whether there is no slice.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }
}

impl<T> Drop for Buffers<'_, T> {
    fn drop(&mut self) {
        end(self.stream, core::mem::take(&mut self.uses));
    }
}

impl<T> fmt::Debug for Buffers<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffers").field(&self.pointers).finish()
    }
}

/// Of a reference alone: whoever has the pointers borrows the `Buffers`, not just what that borrows.
// The messages about what is a column are the same with and without this backend.
#[diagnostic::do_not_recommend]
impl<'b, T: 'static> Column for &'b Buffers<'_, T> {
    type Pointers = BufferColumn<'b, T>;

    const ELEMENT: Layout = Layout::new::<DevicePointer<T>>();

    #[inline]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<BufferColumn<'b, T>, Error> {
        let column = visitor.column(spec, &self.pointers)?;
        Ok(BufferColumn { column, buffers: PhantomData })
    }
}

/// The column of a [`Buffers`] on the device, which borrows it. A kernel takes it as `T* const*`.
#[repr(transparent)]
pub struct BufferColumn<'b, T> {
    column: DeviceColumn<DevicePointer<T>>,
    buffers: PhantomData<&'b ()>,
}

impl<T> Deref for BufferColumn<'_, T> {
    type Target = DeviceColumn<DevicePointer<T>>;

    fn deref(&self) -> &Self::Target {
        &self.column
    }
}

impl<T: 'static> KernelStruct for BufferColumn<'_, T> {
    const NAME: &'static str = "DeviceColumn";
    const MEMBERS: &'static [Member] = &[];

    fn declare(header: &mut Declarations, c_type: Option<&str>) -> String {
        DeviceColumn::<DevicePointer<T>>::declare(header, c_type)
    }
}

// SAFETY: repr(transparent) over a `DeviceColumn`, which is one.
unsafe impl<T> DeviceRepr for BufferColumn<'_, T> {}

// The derives would ask T for the same traits.
impl<T> Clone for BufferColumn<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for BufferColumn<'_, T> {}
impl<T> fmt::Debug for BufferColumn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt(f)
    }
}
