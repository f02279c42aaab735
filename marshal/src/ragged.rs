//! Rows of different lengths: their values in one column, where each begins in another, and a table of pointers to them.

use core::alloc::Layout;
use core::fmt;

use crate::column::Column;
use crate::declarations::Declarations;
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use crate::kernel_struct::{KernelStruct, Member};
use crate::narrow::does_not_fit;
use crate::pointer::{DeviceColumn, DevicePointer};
use crate::spec::ColumnSpec;
use crate::walk::Visitor;

/// Rows of different lengths, some of them empty: tokens of sequences, neighbours of nodes.
///
/// On the device it is three columns of one block, [`RaggedPointers`]: the values of all rows, one behind the other; the
/// offsets, one more than rows, in elements, from 0 to the number of values; and for each row the pointer to its first value.
/// The map names them after the field: `tokens`, `tokens.offsets` and `tokens.rows`. An alignment of the field holds for each.
///
/// The offsets are `i32`, as attention kernels take them (FlashAttention's `cu_seqlens`, FlashInfer's `indptr`, cuDNN's ragged
/// offsets), unless `O` says otherwise. The pointer of an empty row is where its values would stand: not null, and not to be
/// read.
///
/// ```
/// use marshal::{DeviceArgs, Ragged, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Batch { tokens: Ragged<u32> }
///
/// let tokens = Ragged::from_rows(&[vec![7, 8, 9], vec![], vec![10]])?;
/// assert_eq!((tokens.len(), tokens.row(2)), (3, Some(&[10][..])));
///
/// let stream = HostDevice::new().stream();
/// let dev = Batch { tokens }.upload(&stream)?;
/// let tokens = dev.tokens;
/// stream.launch(move |memory| {
///     assert_eq!(memory.read(tokens.values), [7, 8, 9, 10]);
///     assert_eq!(memory.read(tokens.offsets), [0, 3, 3, 4]);
///     let rows = memory.read(tokens.rows);
///     assert_eq!(memory.read_at(rows[2], 1), [10]);
/// })?;
/// # stream.synchronize()?;
/// assert_eq!(dev.layout().column("tokens.offsets").unwrap().len, 4);
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Ragged<T, O = i32> {
    values: Vec<T>,
    // From 0 to `values.len()`, ascending, one more than rows.
    offsets: Vec<O>,
}

impl<T, O: Offset> Ragged<T, O> {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self { values: Vec::new(), offsets: vec![O::ZERO] }
    }

    /// The rows that `rows` gives, whose values are copied: of a `&[Vec<T>]`, an iterator of slices, or the like.
    ///
    /// # Errors
    /// When the number of values does not fit an offset; the error names the row.
    pub fn from_rows<R: AsRef<[T]>>(rows: impl IntoIterator<Item = R>) -> Result<Self, Error>
    where
        T: Copy,
    {
        let mut ragged = Self::new();
        for row in rows {
            ragged.push(row.as_ref())?;
        }
        Ok(ragged)
    }

    /// Rows whose values stand one behind the other already. `offsets` are one more than rows: row `i` is
    /// `values[offsets[i]..offsets[i + 1]]`.
    ///
    /// ```
    /// use marshal::{ErrorKind, Ragged};
    ///
    /// let ragged = Ragged::from_parts(vec!['a', 'b', 'c'], vec![0_i64, 2, 3])?;
    /// assert_eq!(ragged.row(0), Some(&['a', 'b'][..]));
    ///
    /// let error = Ragged::from_parts(vec!['a', 'b', 'c'], vec![0_i64, 4, 3]).unwrap_err();
    /// assert_eq!(*error.kind(), ErrorKind::RaggedOffset { index: 1, offset: Some(4), least: 0, most: 3 });
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the offsets do not ascend from 0 to the number of values; the error names the first that is wrong.
    pub fn from_parts(values: Vec<T>, offsets: Vec<O>) -> Result<Self, Error> {
        let len = values.len() as u64;
        let wrong = |index: usize, offset: Option<O>, least, most| {
            let (index, offset) = (index as u64, offset.map(Into::into));
            Error::new(ErrorKind::RaggedOffset { index, offset, least, most })
        };
        let mut before = 0;
        for (index, &offset) in offsets.iter().enumerate() {
            let (least, most) = match index {
                0 => (0, 0),
                _ if index + 1 == offsets.len() => (len, len),
                _ => (before, len),
            };
            let found = offset.to_u64().filter(|found| (least..=most).contains(found));
            before = found.ok_or_else(|| wrong(index, Some(offset), least, most))?;
        }
        if offsets.is_empty() || before != len {
            return Err(wrong(offsets.len(), None, before, len));
        }
        Ok(Self { values, offsets })
    }

    /// Adds a row behind the others.
    ///
    /// # Errors
    /// When the number of values does not fit an offset; nothing is added then.
    pub fn push(&mut self, row: &[T]) -> Result<(), Error>
    where
        T: Copy,
    {
        let end = self.values.len().saturating_add(row.len());
        let Ok(offset) = O::try_from(end) else {
            return Err(does_not_fit::<O>("offsets", self.offsets.len(), end));
        };
        self.values.extend_from_slice(row);
        self.offsets.push(offset);
        Ok(())
    }

    /// Takes all rows out, and keeps the memory for the next.
    pub fn clear(&mut self) {
        self.values.clear();
        self.offsets.truncate(1);
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of row `index`.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<&[T]> {
        let (start, end) = (self.offsets.get(index)?, self.offsets.get(index.checked_add(1)?)?);
        self.values.get(start.to_usize()..end.to_usize())
    }

    /// The values of all rows, one behind the other.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Where each row begins among the values, and where the last ends.
    #[must_use]
    pub fn offsets(&self) -> &[O] {
        &self.offsets
    }
}

impl<T, O: Offset> Default for Ragged<T, O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, O: Offset> fmt::Debug for Ragged<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len()).filter_map(|index| self.row(index))).finish()
    }
}

impl<T: Element, O: Offset> Column for Ragged<T, O> {
    type Pointers = RaggedPointers<T, O>;

    const ELEMENT: Layout = Layout::new::<T>();

    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<RaggedPointers<T, O>, Error> {
        let values = visitor.column(spec, &self.values)?;
        let offsets = visitor.column(spec.with_part("offsets"), &self.offsets)?;
        let first = values.pointer();
        // A row begins in the block or at its end: the sum passes the last address in no memory that there is.
        let pointer = |start: &O| first.checked_add(start.to_usize()).unwrap_or(first);
        let rows = visitor.column_with(spec.with_part("rows"), &self.offsets[..self.len()], pointer)?;
        Ok(RaggedPointers { values, offsets, rows })
    }
}

/// A [`Ragged`] on the device. A kernel takes one of the columns as `T*`, or all by value.
#[repr(C)]
pub struct RaggedPointers<T, O = i32> {
    /// The values of all rows, one behind the other.
    pub values: DeviceColumn<T>,
    /// Where each row begins among the values, and where the last ends: one more than rows.
    pub offsets: DeviceColumn<O>,
    /// Each row's first value.
    pub rows: DeviceColumn<DevicePointer<T>>,
}

const _: () = assert!(size_of::<RaggedPointers<u8>>() == 48);

impl<T: 'static, O: 'static> KernelStruct for RaggedPointers<T, O> {
    const NAME: &'static str = "RaggedPointers";
    const MEMBERS: &'static [Member] = &[
        Member::new::<DeviceColumn<T>>("values"),
        Member::new::<DeviceColumn<O>>("offsets"),
        Member::new::<DeviceColumn<DevicePointer<T>>>("rows"),
    ];

    fn declare(header: &mut Declarations, c_type: Option<&str>) -> String {
        header.ragged::<T, O>(c_type)
    }
}

// The derives would ask T and O for the same traits.
impl<T, O> Clone for RaggedPointers<T, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, O> Copy for RaggedPointers<T, O> {}
impl<T, O> fmt::Debug for RaggedPointers<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { values, offsets, rows } = self;
        f.debug_struct("RaggedPointers").field("values", values).field("offsets", offsets).field("rows", rows).finish()
    }
}

/// An integer that counts a [`Ragged`]'s values: `i32`, `u32`, `i64` or `u64`. This crate alone implements it.
pub trait Offset: Element + TryFrom<usize> + Into<i128> + sealed::Sealed {}

mod sealed {
    pub trait Sealed {
        const ZERO: Self;

        /// `None` for a negative one.
        fn to_u64(self) -> Option<u64>;

        /// Of an offset that was checked against a length.
        fn to_usize(self) -> usize;
    }
}

macro_rules! offsets {
    ($($integer:ty),*) => {$(
        impl Offset for $integer {}

        impl sealed::Sealed for $integer {
            const ZERO: Self = 0;

            #[inline]
            fn to_u64(self) -> Option<u64> {
                self.try_into().ok()
            }

            #[inline]
            fn to_usize(self) -> usize {
                self.try_into().unwrap_or(usize::MAX)
            }
        }
    )*};
}

offsets!(i32, u32, i64, u64);
