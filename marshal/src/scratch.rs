//! Columns that kernels write: they are allocated with the set and never travel.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;

use crate::column::Column;
use crate::element::Element;
use crate::error::Error;
use crate::pointer::DeviceColumn;
use crate::spec::{ColumnSpec, Content};
use crate::walk::Visitor;

/// A column of so many elements that does not travel: outputs, workspaces, semaphores.
///
/// It stands in the set's block behind the copied columns, and is allocated with them. [`Uploaded::fetch`](crate::Uploaded::fetch)
/// copies it back.
///
/// Kernels write into it, so a cached set with scratch belongs to one holder: while it is held, an upload of the same bytes
/// gets another block. A block that is free is used again, without a copy where the bytes are the same; what kernels left in
/// it is still there then, unless the column is [`zeroed`](Self::zeroed).
///
/// ```
/// use marshal::{ArgCache, DeviceArgs, Scratch, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Histogram<'a> { keys: &'a [u8], counts: Scratch<u32> }
///
/// let stream = HostDevice::new().stream();
/// let cache = ArgCache::new(&stream)?;
/// for _ in 0..3 {
///     let dev = Histogram { keys: &[2, 0, 2], counts: Scratch::zeroed(3) }.upload(&cache)?;
///     let (keys, counts) = (dev.keys, dev.counts);
///     stream.launch(move |memory| {
///         let mut sums = memory.read(counts).to_vec();
///         memory.read(keys).iter().for_each(|&key| sums[usize::from(key)] += 1);
///         memory.write_at(counts.pointer(), &sums);
///     })?;
///     assert_eq!(dev.fetch(&dev.counts)?, [1, 0, 2]);
/// }
/// assert_eq!((cache.stats().copies, cache.stats().allocations), (1, 1));
/// # Ok::<(), marshal::Error>(())
/// ```
pub struct Scratch<T> {
    len: usize,
    content: Content,
    element: PhantomData<fn() -> T>,
}

impl<T> Scratch<T> {
    /// `len` elements whose bytes are whatever stood in the memory before.
    #[must_use]
    pub const fn uninit(len: usize) -> Self {
        Self { len, content: Content::Uninit, element: PhantomData }
    }

    /// `len` elements of zero bytes. The device zeroes all zeroed columns of a set with one memset, ordered on the stream, at
    /// every upload; also at one that copies nothing.
    #[must_use]
    pub const fn zeroed(len: usize) -> Self {
        Self { len, content: Content::Zeroed, element: PhantomData }
    }

    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Element> Column for Scratch<T> {
    type Pointers = DeviceColumn<T>;

    const ELEMENT: Layout = Layout::new::<T>();

    #[inline]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        visitor.scratch(spec, self.content, self.len)
    }
}

// The derives would ask T for the same traits.
impl<T> Clone for Scratch<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Scratch<T> {}
impl<T> fmt::Debug for Scratch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({} x {}, {:?})", self.len, core::any::type_name::<T>(), self.content)
    }
}
