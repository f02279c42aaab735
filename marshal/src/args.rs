//! What users upload.

use crate::cursor::Bounds;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::measure::{Bind, Extent, Measure};
use crate::pointer::DevicePointer;
use crate::upload::{UploadTarget, Uploaded};
use crate::walk::{Pack, Row, Visitor};

/// A set of kernel arguments that live in arrays: it uploads as one block with one asynchronous copy.
///
/// `#[derive(DeviceArgs)]` implements it for a struct whose fields are [columns](crate::Column), and, with
/// `#[device(row)]`, for slices of a struct of plain values.
///
/// ```
/// use marshal::{DeviceArgs, DevicePointer, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Copies<'a> {
///     source: Vec<DevicePointer<f32>>,
///     len: &'a [u32],
/// }
///
/// let stream = HostDevice::new().stream();
/// let source = DevicePointer::from_raw(0x7000_0000_0000).unwrap();
/// let args = Copies { source: vec![source; 3], len: &[4, 0, 9] };
/// assert_eq!(args.layout()?.copy_bytes(), 48);
///
/// let dev = args.upload(&stream)?;
/// let (sources, lens) = (dev.source, dev.len);
/// stream.launch(move |memory| {
///     assert_eq!(memory.read(lens), [4, 0, 9]);
///     assert_eq!(memory.read(sources), [source; 3]);
/// })?;
/// stream.synchronize()?;
/// # Ok::<(), marshal::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of device arguments",
    label = "not device arguments",
    note = "write `#[derive(marshal::DeviceArgs)]` on the struct"
)]
pub trait DeviceArgs {
    /// The typed device pointers: for a derived struct `<Name>Pointers`, one [`DeviceColumn`](crate::DeviceColumn) a field.
    type Pointers;

    /// Shows every column to `visitor`, in declared order. Derived; the other methods are made of it, and walk more than once.
    /// A walk that does not end where the layout that an earlier one gave does is refused. While a walk is on its way to a cache, that
    /// cache is locked: a hand-written walk must not use it.
    ///
    /// # Errors
    /// What the visitor says.
    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Self::Pointers, Error>;

    /// Where each column will stand. Needs no device and no memory on it.
    ///
    /// # Errors
    /// When the columns pass `u64::MAX` bytes; the error names the column.
    fn layout(&self) -> Result<Layout, Error> {
        let mut measure = Measure::default();
        self.walk(&mut measure)?;
        measure.finish()
    }

    /// Writes the image of all columns into memory of your own, and binds the pointers to `base`, the device address that you
    /// are going to copy it to. For those who bring staging, block and copy themselves. Writes the first
    /// `layout().copy_bytes()` bytes of `image`, padding included. Where there are scratch columns, the memory at `base` is
    /// `layout().size_bytes()` long, and the zeroed ones are yours to zero.
    ///
    /// ```
    /// use marshal::{DeviceArgs, DevicePointer};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sizes { m: Vec<u16>, n: Vec<u16> }
    ///
    /// let args = Sizes { m: vec![1, 2], n: vec![3, 4] };
    /// let mut image = [0xff; 32];
    /// let base = DevicePointer::from_raw(0x7000_0000_0000).unwrap();
    /// let pointers = args.pack_into(base, &mut image)?;
    /// assert_eq!(pointers.n.pointer().address(), 0x7000_0000_0010);
    /// assert_eq!(image[..8], [1, 0, 2, 0, 0, 0, 0, 0]);
    ///
    /// let error = args.pack_into(base, &mut [0; 20]).unwrap_err();
    /// assert!(error.to_string().contains("column `n`"));
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When `base` lacks the layout's alignment, the last address comes before the block's end, or `image` is shorter than the
    /// copied part; that error names the column that does not fit. Nothing is written then.
    fn pack_into(&self, base: DevicePointer<u8>, image: &mut [u8]) -> Result<Self::Pointers, Error> {
        let mut extent = Extent::default();
        self.walk(&mut extent)?;
        let Some(bounds) = extent.finish() else { return Err(self.layout()?.too_short(image.len() as u64)) };
        bounds.alignment().check(base.address())?;
        let (needed, room) = (bounds.size_bytes(), u64::MAX - base.address());
        if needed > room {
            return Err(Error::new(ErrorKind::TooLarge { needed, available: room }));
        }
        let available = image.len() as u64;
        match usize::try_from(bounds.copy_bytes()).ok().and_then(|end| image.get_mut(..end)) {
            Some(image) => {
                pack(self, base.address(), &bounds, image)?;
                bind(self, base.address(), &bounds)
            }
            None => Err(self.layout()?.too_short(available)),
        }
    }

    /// Packs all columns and sends them with one asynchronous copy.
    ///
    /// The target is `&Arc<CudaStream>` of cudarc, [`&HostStream`](crate::host::HostStream), or [`&ArgCache`](crate::ArgCache).
    /// With a stream the upload is one-shot: one allocation, one copy, one free when the set is dropped, all ordered on the
    /// stream. Kernels launched on the stream afterwards see the arguments; nothing waits on the host. The arguments may be
    /// changed or dropped as soon as the call returns. A set of 0 bytes allocates and copies nothing.
    ///
    /// # Errors
    /// When the layout overflows, the stream is being captured into a graph, or a call of the driver fails. Nothing is left
    /// behind then.
    #[inline]
    fn upload<T: UploadTarget>(&self, target: &T) -> Result<Uploaded<Self::Pointers, T::Backend>, Error> {
        target.upload_args(self)
    }
}

/// Fills `image`, which goes to the block at `base`, whose bounds an earlier walk has found.
#[inline]
pub(crate) fn pack<A: DeviceArgs + ?Sized>(
    args: &A,
    base: u64,
    bounds: &Bounds,
    image: &mut [u8],
) -> Result<(), Error> {
    let mut pack = Pack::new(base, bounds, image);
    args.walk(&mut pack)?;
    pack.finish()
}

/// Makes the pointers to the columns in the block at `base`. A walk of its own, behind the copy: pointers that are made beside the
/// bytes are moved when the bytes are still on their way to the cache, and that waits for them.
#[inline]
pub(crate) fn bind<A: DeviceArgs + ?Sized>(args: &A, base: u64, bounds: &Bounds) -> Result<A::Pointers, Error> {
    let mut bind = Bind::new(base, bounds);
    let pointers = args.walk(&mut bind)?;
    bind.finish()?;
    Ok(pointers)
}

impl<R: Row> DeviceArgs for [R] {
    type Pointers = R::Pointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<R::Pointers, Error> {
        visitor.rows(self)
    }
}

impl<R: Row> DeviceArgs for Vec<R> {
    type Pointers = R::Pointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<R::Pointers, Error> {
        visitor.rows(self)
    }
}

impl<R: Row, const N: usize> DeviceArgs for [R; N] {
    type Pointers = R::Pointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<R::Pointers, Error> {
        visitor.rows(self)
    }
}
