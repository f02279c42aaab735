//! From memory of cudarc to typed pointers, and to what a batch of copies uses.

use core::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, DriverError, SyncOnDrop, sys,
};

use super::{Cuda, driver, stream};
use crate::backend::{Backend, Tracked};
use crate::copies::{DeviceRange, DeviceRangeMut, Memory};
use crate::error::{Error, ErrorKind};
use crate::pointer::DevicePointer;

/// The pointer to the first element of a `CudaSlice` or a view of one, for kernels on `stream` that read it.
///
/// `stream` waits for the writes that are pending on the slice, as it does when cudarc is given the slice as a launch's
/// argument; the host does not. A pointer keeps nothing alive: the slice must live until the kernels that use the pointer have
/// been launched, and where it is freed or written on another stream, that stream must wait for them
/// ([`CudaStream::join`]).
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use marshal::{DeviceArgs, DevicePointer};
///
/// #[derive(DeviceArgs)]
/// struct Sums {
///     input: Vec<DevicePointer<f32>>,
///     output: Vec<DevicePointer<f32>>,
///     len: Vec<u32>,
/// }
///
/// let stream = CudaContext::new(0)?.default_stream();
/// let input = stream.clone_htod(&[1.0_f32, 2.0, 3.0])?;
/// let mut output = stream.alloc_zeros::<f32>(1)?;
/// let args = Sums {
///     input: vec![marshal::cuda::pointer_to(&input, &stream)?],
///     output: vec![marshal::cuda::pointer_to_mut(&mut output, &stream)?],
///     len: vec![3],
/// };
/// let dev = args.upload(&stream)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the slice belongs to another context than the stream, has no memory (address 0), or the stream cannot wait for it.
pub fn pointer_to<T, S: DevicePtr<T>>(slice: &S, stream: &Arc<CudaStream>) -> Result<DevicePointer<T>, Error> {
    same_context(slice, stream)?;
    let (pointer, ()) = ordered(stream, || recorded(slice.device_ptr(stream)))?;
    Ok(pointer)
}

/// The pointer to the first element of a `CudaSlice` or a mutable view of one, for kernels on `stream` that write it.
///
/// As [`pointer_to`], but `stream` waits for pending reads too, and other streams that read the slice afterwards must wait for
/// the kernels that write it.
///
/// # Errors
/// As for [`pointer_to`].
pub fn pointer_to_mut<T, S: DevicePtrMut<T>>(
    slice: &mut S,
    stream: &Arc<CudaStream>,
) -> Result<DevicePointer<T>, Error> {
    same_context(slice, stream)?;
    let (pointer, ()) = ordered(stream, || recorded(slice.device_ptr_mut(stream)))?;
    Ok(pointer)
}

pub(super) fn same_context<T>(slice: &impl DeviceSlice<T>, stream: &Arc<CudaStream>) -> Result<(), Error> {
    if slice.stream().context() == stream.context() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::WrongDevice {
        expected: Cuda::device_name(slice.stream()),
        found: Cuda::device_name(stream),
    }))
}

/// The address, with the use recorded on the slice's event.
fn recorded((address, use_of_slice): (sys::CUdeviceptr, SyncOnDrop<'_>)) -> (sys::CUdeviceptr, ()) {
    drop(use_of_slice);
    (address, ())
}

/// The pointer that `order` returns, and the use of it.
pub(super) fn ordered<T, U>(
    stream: &CudaStream,
    order: impl FnOnce() -> (sys::CUdeviceptr, U),
) -> Result<(DevicePointer<T>, U), Error> {
    let (address, uses) = begun(stream, order)?;
    match DevicePointer::from_raw(address) {
        Some(pointer) => Ok((pointer, uses)),
        None => {
            end(stream, uses);
            Err(Error::new(ErrorKind::NoMemory))
        }
    }
}

/// What a use of a slice waits for is given to the stream. Where that fails the use is over.
fn begun<U>(stream: &CudaStream, order: impl FnOnce() -> (u64, U)) -> Result<(u64, U), Error> {
    let ((address, uses), waited) = apart(stream, order);
    match waited {
        Ok(()) => Ok((address, uses)),
        Err(error) => {
            end(stream, uses);
            Err(driver::failed("cuStreamWaitEvent")(error))
        }
    }
}

/// Records uses on their slices' events, behind the work that the stream has been given.
pub(super) fn end<U>(stream: &CudaStream, uses: U) {
    // An error is parked, as cudarc does; one that is parked already must not keep the events from being recorded.
    let ((), failed) = apart(stream, || drop(uses));
    if failed.is_err() {
        // What comes after the use would not wait for it: it is waited for here.
        let handle = stream::shared_handle(stream);
        let _ = driver::insist(|| driver::bind(stream.context())).and_then(|_bound| {
            stream::refuse_capture(handle)?;
            driver::synchronize(handle)
        });
    }
    stream.context().record_err(failed);
}

/// Runs `calls` of cudarc, and returns the error that they have parked in the context.
///
/// While an error is parked, cudarc's calls return it in place of being made: an older one is taken out first, so that the calls
/// happen and are not blamed for it, and is parked again afterwards.
fn apart<R>(stream: &CudaStream, calls: impl FnOnce() -> R) -> (R, Result<(), DriverError>) {
    let context = stream.context();
    // cudarc makes the slice's context current, and leaves it so.
    let _bound = driver::insist(|| driver::bind(context));
    let parked = context.check_err();
    let result = calls();
    let failed = context.check_err();
    context.record_err(parked);
    (result, failed)
}

/// A slice that is read, or a mutable one that is written.
struct Slice<S, T> {
    slice: S,
    element: PhantomData<fn() -> T>,
}

impl<T, S: DevicePtr<T> + Sync> Tracked<Cuda> for Slice<&S, T> {
    fn begin<'s>(&'s mut self, stream: &'s Arc<CudaStream>) -> Result<(u64, SyncOnDrop<'s>), Error> {
        same_context(self.slice, stream)?;
        begun(stream, || self.slice.device_ptr(stream))
    }
}

impl<T, S: DevicePtrMut<T> + Send> Tracked<Cuda> for Slice<&mut S, T> {
    fn begin<'s>(&'s mut self, stream: &'s Arc<CudaStream>) -> Result<(u64, SyncOnDrop<'s>), Error> {
        same_context(self.slice, stream)?;
        begun(stream, || self.slice.device_ptr_mut(stream))
    }
}

// Not for every `DevicePtr`: anyone may implement that, with any address.
macro_rules! ranges_of {
    ($range:ident, $($slice:ty),*) => {$(
        /// The batch's stream waits for what is pending on the slice, and cudarc lets later uses of it wait for the copies.
        impl<'a, T: Send + Sync> From<$slice> for $range<'a, T, Cuda> {
            fn from(slice: $slice) -> Self {
                let len = slice.len();
                Self::of(Memory::Tracked(Box::new(Slice { slice, element: PhantomData::<fn() -> T> })), len)
            }
        }
    )*};
}

ranges_of!(DeviceRange, &'a CudaSlice<T>, &'a CudaView<'_, T>, &'a CudaViewMut<'_, T>);
ranges_of!(DeviceRangeMut, &'a mut CudaSlice<T>, &'a mut CudaViewMut<'_, T>);

/// Records the uses on the slices' events, behind the copies.
pub(super) fn end_uses(stream: &CudaStream, uses: Vec<SyncOnDrop<'_>>) {
    if !uses.is_empty() {
        end(stream, uses);
    }
}
