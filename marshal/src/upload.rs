//! From arguments to typed device pointers: where an upload goes, and what it returns.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use bytemuck::CheckedBitPattern;

use crate::args::{DeviceArgs, bind, pack};
use crate::backend::{Backend, BackendStream};
use crate::block::Block;
use crate::cache::ArgCache;
use crate::compare::{Compare, Comparison, Shape};
use crate::copies::{DeviceRange, Memory};
use crate::cursor::Bounds;
use crate::element::elements;
use crate::error::{Error, ErrorKind};
use crate::kernel_arg::KernelArg;
use crate::kernel_struct::KernelStruct;
use crate::layout::Layout;
use crate::pointer::{DeviceColumn, DevicePointer};
use crate::session::Session;

/// Where an upload goes: a stream (`&Arc<CudaStream>` of cudarc, [`&HostStream`](crate::host::HostStream)), for a one-shot
/// upload, or an [`&ArgCache`](ArgCache). This crate alone implements it.
pub trait UploadTarget: sealed::Sealed {
    /// The backend that the target belongs to.
    type Backend: Backend;

    #[doc(hidden)]
    fn upload_args<A: DeviceArgs + ?Sized>(&self, args: &A) -> Result<Uploaded<A::Pointers, Self::Backend>, Error>;
}

mod sealed {
    pub trait Sealed {}
    impl<S: super::BackendStream> Sealed for S {}
    impl<B: super::Backend> Sealed for super::ArgCache<B> {}
}

impl<B: Backend> UploadTarget for ArgCache<B> {
    type Backend = B;

    #[inline]
    fn upload_args<A: DeviceArgs + ?Sized>(&self, args: &A) -> Result<Uploaded<A::Pointers, B>, Error> {
        self.upload_shaped(fold(args)?, args, None)
    }
}

/// The number by which the arguments' shape is looked up.
#[inline]
pub(crate) fn fold<A: DeviceArgs + ?Sized>(args: &A) -> Result<u64, Error> {
    let mut shape = Shape::default();
    args.walk(&mut shape)?;
    Ok(shape.finish())
}

impl<B: Backend> ArgCache<B> {
    /// Uploads arguments whose folded shape is `key`. Where a block has to be allocated for the layout `like`, it shares that one.
    #[inline]
    pub(crate) fn upload_shaped<A: DeviceArgs + ?Sized>(
        &self,
        key: u64,
        args: &A,
        like: Option<&Layout>,
    ) -> Result<Uploaded<A::Pointers, B>, Error> {
        let mut session = self.begin()?;
        let pack = |base, bounds: &Bounds, image: &mut [u8]| pack(args, base, bounds, image);
        if session.is_capturing()? {
            return Uploaded::bind(args, capture(&mut session, key, args)?);
        }
        let mut free = None;
        let mut slots = session.slots(key);
        for index in 0..slots.len() {
            let slot = slots.slot(index);
            let comparison = slot.read(|block, image| {
                let mut compare = Compare::new(block.base(), block.layout(), image);
                args.walk(&mut compare).map(|_| compare.finish())
            })?;
            match comparison {
                Comparison::Equal if slot.is_shareable() => {
                    slot.block.zero()?;
                    return Uploaded::bind(args, slots.share(index));
                }
                Comparison::OtherBytes if free.is_none() && !slot.is_held() => free = Some(index),
                Comparison::Equal | Comparison::OtherBytes | Comparison::OtherShape => {}
            }
        }
        let block = match free {
            Some(index) => session.rewrite(key, index, pack)?,
            None => {
                let own = args.layout()?;
                let layout = like.filter(|like| **like == own).cloned().unwrap_or(own);
                if layout.size_bytes() == 0 {
                    session.without_bytes(layout)?
                } else if let Some(index) = session.find_returned(key, &layout) {
                    session.rewrite(key, index, pack)?
                } else {
                    session.write_new(key, &layout, pack)?
                }
            }
        };
        Uploaded::bind(args, block)
    }
}

/// Uploads into the graph that the stream is being captured into.
#[cold]
fn capture<A: DeviceArgs + ?Sized, B: Backend>(
    session: &mut Session<'_, B>,
    key: u64,
    args: &A,
) -> Result<Arc<Block<B>>, Error> {
    let layout = args.layout()?;
    if layout.size_bytes() == 0 {
        return session.without_bytes(layout);
    }
    session.capture(key, &layout, |base, bounds, image| pack(args, base, bounds, image))
}

impl<S: BackendStream> UploadTarget for S {
    type Backend = S::Backend;

    fn upload_args<A: DeviceArgs + ?Sized>(&self, args: &A) -> Result<Uploaded<A::Pointers, S::Backend>, Error> {
        let layout = args.layout()?;
        let image_bytes = usize::try_from(layout.copy_bytes()).map_err(|_| {
            Error::new(ErrorKind::TooLarge { needed: layout.copy_bytes(), available: usize::MAX as u64 })
        })?;
        if layout.size_bytes() != 0 && S::Backend::is_capturing(self)? {
            return Err(Error::new(ErrorKind::Capturing { needed: layout.size_bytes() }));
        }
        let block = Block::allocate(self, layout)?;
        let mut image = S::Backend::image(image_bytes);
        pack(args, block.base(), block.layout().bounds(), &mut image)?;
        block.zero()?;
        block.write(image)?;
        Uploaded::bind(args, Arc::new(block))
    }
}

/// A set: the typed pointers into its block, and what keeps the block.
///
/// Dereferences to the generated pointer struct. The pointers are plain addresses and may be copied out, but are valid only
/// while the set lives: dropping it frees the block, or returns it to its cache to be written again, behind all work that its
/// stream was given before the drop. What a kernel reads through a pointer of a set that is gone, nobody can say. Work on
/// another stream goes through [`on`](Self::on).
///
/// ```
/// use marshal::{DeviceArgs, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Sizes { m: Vec<i32>, n: Vec<i32> }
///
/// let stream = HostDevice::new().stream();
/// let dev = Sizes { m: vec![1, 2], n: vec![3, 4] }.upload(&stream)?;
/// assert_eq!(dev.layout().column("n").unwrap().offset, 16);
/// assert_eq!(dev.read_back()?[16..24], [3, 0, 0, 0, 4, 0, 0, 0]);
/// # Ok::<(), marshal::Error>(())
/// ```
#[must_use = "the block is freed when the set is dropped"]
pub struct Uploaded<P, B: Backend> {
    pointers: KernelArg<P>,
    block: Arc<Block<B>>,
}

impl<P, B: Backend> Uploaded<P, B> {
    /// The set of `args`, whose bytes stand in `block` or are on their way there.
    #[inline]
    fn bind<A: DeviceArgs<Pointers = P> + ?Sized>(args: &A, block: Arc<Block<B>>) -> Result<Self, Error> {
        let pointers = KernelArg(bind(args, block.base(), block.layout().bounds())?);
        Ok(Self { pointers, block })
    }

    /// The block's base: column addresses are this plus the layout's offsets. A set of 0 bytes has an aligned base that is
    /// not null and not to be read.
    #[must_use]
    pub fn base(&self) -> DevicePointer<u8> {
        DevicePointer::from_raw(self.block.base()).expect("a block's base is not null: bind has refused it")
    }

    /// Where each column stands in the block.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.block.layout().clone()
    }

    /// The set for use on another stream of the same device. `other` waits for the work that the set's stream has been given
    /// so far, the upload among it. When the returned value is dropped, the set's stream waits for the work that `other` has
    /// been given by then; so the block is neither freed nor rewritten before that work is done. Nothing waits on the host.
    ///
    /// ```
    /// use marshal::{DeviceArgs, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sizes { m: Vec<i32> }
    ///
    /// let device = HostDevice::new();
    /// let (home, other) = (device.stream(), device.stream());
    /// let dev = Sizes { m: vec![1, 2] }.upload(&home)?;
    /// {
    ///     let lent = dev.on(&other)?;
    ///     let m = lent.m;
    ///     other.launch(move |memory| assert_eq!(memory.read(m), [1, 2]))?;
    /// } // given back once the work has been given to the stream
    /// drop(dev);
    /// other.synchronize()?;
    /// # home.synchronize()?;
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When `other` belongs to another device, one of the two streams is being captured (there, fork and join with events of your
    /// own, and use the pointers), or the driver has no event.
    pub fn on<'a>(&'a self, other: &B::Stream) -> Result<OnStream<'a, P, B>, Error> {
        let home = self.block.stream();
        if !B::is_same_device(home, other) {
            return Err(Error::new(ErrorKind::WrongDevice {
                expected: B::device_name(home),
                found: B::device_name(other),
            }));
        }
        let stream = if B::is_same_stream(home, other) {
            None
        } else {
            if B::is_capturing(home)? || B::is_capturing(other)? {
                return Err(Error::new(ErrorKind::NotInCapture { call: "lending a set to another stream" }));
            }
            let uploaded = B::record(home)?;
            B::wait(other, &uploaded)?;
            self.block.lend();
            Some(other.clone())
        };
        Ok(OnStream { set: self, stream })
    }

    pub(crate) fn block(&self) -> &Arc<Block<B>> {
        &self.block
    }

    /// A column of this set, or any part of its block, for a batch of copies on the set's own stream.
    ///
    /// ```
    /// use marshal::{CopyBatch, CopyStaging, DeviceArgs, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sizes { m: Vec<i32> }
    ///
    /// let stream = HostDevice::new().stream();
    /// let sets = [Sizes { m: vec![1, 2] }.upload(&stream)?, Sizes { m: vec![3] }.upload(&stream)?];
    /// let mut batch = CopyBatch::new(&CopyStaging::new(&stream));
    /// let tickets = [batch.dtoh_owned(sets[0].range(sets[0].m)?)?, batch.dtoh_owned(sets[1].range(sets[1].m)?)?];
    /// let fetched = batch.submit()?.wait()?;
    /// assert_eq!(tickets.map(|ticket| fetched.to_vec(&ticket)), [vec![1, 2], vec![3]]);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the column does not lie in this set's block.
    pub fn range<T>(&self, column: DeviceColumn<T>) -> Result<DeviceRange<'_, T, B>, Error> {
        let memory = Memory::Ordered(self.address_of(column)?, self.block.stream());
        Ok(DeviceRange::of(memory, column.len()))
    }

    /// The column's address, when it lies in the block.
    fn address_of<T>(&self, column: DeviceColumn<T>) -> Result<u64, Error> {
        let address = column.pointer().address();
        self.block.offset_of(address, (column.len() as u64).saturating_mul(size_of::<T>() as u64))?;
        Ok(address)
    }

    /// Copies the whole image back to the host, padding included: `layout().copy_bytes()` bytes. Ordered on the set's stream,
    /// and waits for it.
    ///
    /// # Errors
    /// When the copy, or work before it on the stream, failed.
    pub fn read_back(&self) -> Result<Vec<u8>, Error> {
        self.block.read(0, self.block.layout().copy_bytes())
    }

    /// Copies a column of this set back to the host: what kernels wrote into a [`Scratch`](crate::Scratch), or any other. Ordered
    /// on the set's stream, and waits for it.
    ///
    /// ```
    /// use marshal::{DeviceArgs, Scratch, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sums { input: Vec<u32>, total: Scratch<u32> }
    ///
    /// let stream = HostDevice::new().stream();
    /// let dev = Sums { input: vec![1, 2, 3], total: Scratch::uninit(1) }.upload(&stream)?;
    /// let (input, total) = (dev.input, dev.total);
    /// stream.launch(move |memory| {
    ///     let sum: u32 = memory.read(input).iter().sum();
    ///     memory.write_at(total.pointer(), &[sum]);
    /// })?;
    /// assert_eq!(dev.fetch(&dev.total)?, [6]);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the column lies outside of this set's block, an element's bytes are not valid for its type, or the copy, or work
    /// before it on the stream, failed.
    pub fn fetch<T: CheckedBitPattern>(&self, column: &DeviceColumn<T>) -> Result<Vec<T>, Error> {
        let address = column.pointer().address();
        // usize is at most 64 bits wide on every target of Rust.
        let size_bytes = (column.len() as u64).saturating_mul(size_of::<T>() as u64);
        let offset = self.block.offset_of(address, size_bytes)?;
        let bytes = self.block.read(offset, size_bytes)?;
        let elements = elements(&bytes, column.len()).map_err(|index| {
            Error::new(ErrorKind::InvalidElement { index: index as u64, element: core::any::type_name::<T>() })
        })?;
        Ok(elements.into_owned())
    }
}

impl<P: KernelStruct, B: Backend> Uploaded<P, B> {
    /// The whole pointer struct, to be passed to a kernel by value: `launch.arg(dev.as_kernel_arg())` with cudarc. The kernel
    /// declares the parameter as [`cuda_header`](fn@crate::cuda_header) does. A set of tuples or without columns does not compile here.
    ///
    /// ```
    /// use marshal::{DeviceArgs, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sizes { m: Vec<i32>, n: Vec<i32> }
    ///
    /// let stream = HostDevice::new().stream();
    /// let dev = Sizes { m: vec![1, 2], n: vec![3, 4] }.upload(&stream)?;
    /// let arg = *dev.as_kernel_arg();
    /// stream.launch(move |memory| assert_eq!(memory.read(arg.n), [3, 4]))?;
    /// # stream.synchronize()?;
    /// # Ok::<(), marshal::Error>(())
    /// ```
    #[must_use]
    pub const fn as_kernel_arg(&self) -> &KernelArg<P> {
        const { KernelArg::<P>::CHECK }
        &self.pointers
    }
}

impl<P, B: Backend> Deref for Uploaded<P, B> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.pointers
    }
}

impl<P: fmt::Debug, B: Backend> fmt::Debug for Uploaded<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploaded")
            .field("pointers", &self.pointers.0)
            .field("layout", self.block.layout())
            .finish_non_exhaustive()
    }
}

/// A set lent to another stream by [`Uploaded::on`]. Dereferences to the pointers.
///
/// Drop it after the work that uses the pointers has been given to the stream.
#[must_use = "the set's stream waits for the other stream's work when this is dropped"]
pub struct OnStream<'a, P, B: Backend> {
    set: &'a Uploaded<P, B>,
    // None on the set's own stream, which orders everything by itself.
    stream: Option<B::Stream>,
}

impl<P, B: Backend> OnStream<'_, P, B> {
    /// As [`Uploaded::range`], for a batch of copies on the stream that the set was lent to.
    ///
    /// # Errors
    /// When the column does not lie in this set's block.
    pub fn range<T>(&self, column: DeviceColumn<T>) -> Result<DeviceRange<'_, T, B>, Error> {
        let address = self.set.address_of(column)?;
        let memory = match &self.stream {
            Some(lent) => Memory::Lent(address, lent),
            None => Memory::Ordered(address, self.set.block.stream()),
        };
        Ok(DeviceRange::of(memory, column.len()))
    }
}

impl<P: KernelStruct, B: Backend> OnStream<'_, P, B> {
    /// The whole pointer struct, to be passed to a kernel by value; see [`Uploaded::as_kernel_arg`].
    #[must_use]
    pub const fn as_kernel_arg(&self) -> &KernelArg<P> {
        self.set.as_kernel_arg()
    }
}

impl<P, B: Backend> Deref for OnStream<'_, P, B> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.set.pointers
    }
}

impl<P: fmt::Debug, B: Backend> fmt::Debug for OnStream<'_, P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream").field("pointers", &self.set.pointers.0).finish_non_exhaustive()
    }
}

impl<P, B: Backend> Drop for OnStream<'_, P, B> {
    fn drop(&mut self) {
        let Some(other) = &self.stream else { return };
        let home = self.set.block.stream();
        let ordered = match B::is_capturing(home) {
            Ok(false) => B::record(other).and_then(|done| B::wait(home, &done)),
            // A capture waits for nothing that is outside of it.
            Ok(true) => Err(Error::new(ErrorKind::NotInCapture { call: "the return of a set" })),
            Err(error) => Err(error),
        };
        // Without an event to order the streams by, wait for the work here. Where even that fails the block stays lent: it is
        // neither written nor freed any more.
        if ordered.or_else(|_| B::synchronize(other)).is_ok() {
            self.set.block.give_back();
        }
    }
}
