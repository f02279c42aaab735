//! One walk over the columns, for whoever has a question about them.
//!
//! An argument set says its columns once, in [`DeviceArgs::walk`](crate::DeviceArgs::walk). The visitors of
//! [`measure`](crate::measure) learn from it where the columns stand, and make the typed pointers; [`Pack`] writes the image. All
//! place columns through one cursor. The cached mode's visitors are in [`compare`](crate::compare).

use crate::cursor::{Bounds, Cursor};
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use crate::pack::{Packer, tile_rows};
use crate::pointer::{DeviceColumn, DevicePointer};
use crate::spec::{ColumnSpec, Content};

/// What goes over the columns of an argument set. This crate alone implements it.
pub trait Visitor: sealed::Sealed {
    /// Whether anybody uses the pointers that the walk gives. Where nobody does, a walk need not gather them.
    const BINDS: bool = false;

    /// The next column, whole.
    ///
    /// # Errors
    /// When the column does not fit.
    fn column<T: Element>(&mut self, spec: ColumnSpec, elements: &[T]) -> Result<DeviceColumn<T>, Error>;

    /// The next column, one element an item, which `get` makes of it. May be asked more than once for an item, or not at all.
    ///
    /// # Errors
    /// When the column does not fit.
    fn column_with<S, T: Element>(
        &mut self,
        spec: ColumnSpec,
        items: &[S],
        get: impl Fn(&S) -> T,
    ) -> Result<DeviceColumn<T>, Error>;

    /// The next column, of `len` elements that do not travel.
    ///
    /// # Errors
    /// When the column does not fit.
    fn scratch<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: usize)
    -> Result<DeviceColumn<T>, Error>;

    /// The next columns, one a field of the rows.
    ///
    /// # Errors
    /// When a column does not fit.
    fn rows<R: Row>(&mut self, rows: &[R]) -> Result<R::Pointers, Error>;
}

/// A struct of plain values: one problem of the group. Slices of rows upload as columns, one a field.
///
/// `#[derive(DeviceArgs)]` with `#[device(row)]` implements it.
#[diagnostic::on_unimplemented(
    message = "a slice of `{Self}` does not upload as columns",
    label = "not a row",
    note = "a row is a struct of plain values with `#[derive(DeviceArgs)] #[device(row)]`"
)]
pub trait Row: Sized {
    /// One [`DeviceColumn`] a field.
    type Pointers: Copy;

    /// Shows each field to `visitor`, in declared order.
    ///
    /// # Errors
    /// What the visitor says.
    fn fields<V: RowVisitor<Self>>(visitor: &mut V) -> Result<Self::Pointers, Error>;
}

/// What goes over the fields of rows. This crate alone implements it.
pub trait RowVisitor<R>: sealed::Sealed {
    /// The next field, read by `get`.
    ///
    /// # Errors
    /// When the column does not fit.
    fn field<T: Element>(&mut self, spec: ColumnSpec, get: impl Fn(&R) -> T) -> Result<DeviceColumn<T>, Error>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A visitor, or a step of one, that asks no more of a column than its length. For it rows are columns of one length.
pub(crate) trait ByLength: sealed::Sealed {
    /// The next column, of `len` elements.
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error>;
}

/// A visitor that is never shown an element.
pub(crate) trait LengthsAlone: ByLength {
    /// As [`Visitor::BINDS`].
    const BINDS: bool = false;
}

impl<V: LengthsAlone> Visitor for V {
    const BINDS: bool = <V as LengthsAlone>::BINDS;

    #[inline]
    fn column<T: Element>(&mut self, spec: ColumnSpec, elements: &[T]) -> Result<DeviceColumn<T>, Error> {
        self.by_length(spec, Content::Copied, elements.len())
    }

    #[inline]
    fn column_with<S, T: Element>(
        &mut self,
        spec: ColumnSpec,
        items: &[S],
        _: impl Fn(&S) -> T,
    ) -> Result<DeviceColumn<T>, Error> {
        self.by_length(spec, Content::Copied, items.len())
    }

    #[inline]
    fn scratch<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        self.by_length(spec, content, len)
    }

    fn rows<R: Row>(&mut self, rows: &[R]) -> Result<R::Pointers, Error> {
        fields_by_length::<R, _>(self, rows.len())
    }
}

/// Shows each field of so many rows to `visitor`, as a column.
#[inline]
pub(crate) fn fields_by_length<R: Row, V: ByLength>(visitor: &mut V, rows: usize) -> Result<R::Pointers, Error> {
    R::fields(&mut FieldsByLength { visitor, rows })
}

struct FieldsByLength<'v, V> {
    visitor: &'v mut V,
    rows: usize,
}

impl<V> sealed::Sealed for FieldsByLength<'_, V> {}

impl<R, V: ByLength> RowVisitor<R> for FieldsByLength<'_, V> {
    #[inline]
    fn field<T: Element>(&mut self, spec: ColumnSpec, _: impl Fn(&R) -> T) -> Result<DeviceColumn<T>, Error> {
        self.visitor.by_length(spec, Content::Copied, self.rows)
    }
}

/// The visitor that writes the image. A column may hold addresses of others, so each is bound to the block as it goes.
#[derive(Debug)]
pub(crate) struct Pack<'a> {
    base: u64,
    bounds: &'a Bounds,
    cursor: Cursor,
    packer: Packer<'a>,
}

impl<'a> Pack<'a> {
    /// Fills `image`, which is `bounds.copy_bytes()` long and goes to the device address `base`, where a block of those bounds
    /// begins.
    #[inline]
    pub(crate) fn new(base: u64, bounds: &'a Bounds, image: &'a mut [u8]) -> Self {
        Self { base, bounds, cursor: Cursor::within(bounds), packer: Packer::new(image) }
    }

    /// Zeroes the bytes behind the last column. Every section ends where an earlier walk found it to end.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.packer.finish(self.cursor.copied_end())?;
        ends_at(&self.cursor, self.bounds)
    }
}

impl sealed::Sealed for Pack<'_> {}

impl Visitor for Pack<'_> {
    // Always: left to itself the compiler stops in the middle of a walk, and a small set costs half as much again.
    #[inline(always)]
    fn column<T: Element>(&mut self, spec: ColumnSpec, elements: &[T]) -> Result<DeviceColumn<T>, Error> {
        let place = self.cursor.place::<T>(spec, Content::Copied, elements.len() as u64)?;
        self.packer.column(spec.name(), place, elements)?;
        bind(self.base, place.offset, elements.len())
    }

    #[inline]
    fn column_with<S, T: Element>(
        &mut self,
        spec: ColumnSpec,
        items: &[S],
        get: impl Fn(&S) -> T,
    ) -> Result<DeviceColumn<T>, Error> {
        let place = self.cursor.place::<T>(spec, Content::Copied, items.len() as u64)?;
        self.packer.advance(spec.name(), place)?;
        self.packer.elements(spec.name(), place, 0, items, get)?;
        bind(self.base, place.offset, items.len())
    }

    fn scratch<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        self.by_length(spec, content, len)
    }

    /// A transpose in one pass over the rows: tile by tile, each tile's fields one after the other.
    fn rows<R: Row>(&mut self, rows: &[R]) -> Result<R::Pointers, Error> {
        let start = self.cursor;
        let pointers = fields_by_length::<R, _>(self, rows.len())?;
        let tile_rows = tile_rows::<R>();
        for (index, tile) in rows.chunks(tile_rows).enumerate() {
            R::fields(&mut PackTile {
                base: self.base,
                cursor: start,
                packer: &mut self.packer,
                first: (index * tile_rows) as u64,
                tile,
                rows: rows.len(),
            })?;
        }
        Ok(pointers)
    }
}

/// Reserves a column: for the tiles to fill, or, where it is no part of the image, for the device.
impl ByLength for Pack<'_> {
    #[inline]
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        let place = self.cursor.place::<T>(spec, content, len as u64)?;
        if content == Content::Copied {
            self.packer.advance(spec.name(), place)?;
        }
        bind(self.base, place.offset, len)
    }
}

struct PackTile<'p, 'a, R> {
    base: u64,
    cursor: Cursor,
    packer: &'p mut Packer<'a>,
    first: u64,
    tile: &'p [R],
    rows: usize,
}

impl<R> sealed::Sealed for PackTile<'_, '_, R> {}

impl<R> RowVisitor<R> for PackTile<'_, '_, R> {
    #[inline]
    fn field<T: Element>(&mut self, spec: ColumnSpec, get: impl Fn(&R) -> T) -> Result<DeviceColumn<T>, Error> {
        let place = self.cursor.place::<T>(spec, Content::Copied, self.rows as u64)?;
        self.packer.elements(spec.name(), place, self.first, self.tile, get)?;
        bind(self.base, place.offset, self.rows)
    }
}

/// Whether the columns are those that an earlier walk has found.
#[inline]
pub(crate) fn ends_at(cursor: &Cursor, bounds: &Bounds) -> Result<(), Error> {
    if cursor.ends_at(bounds) {
        return Ok(());
    }
    let found = cursor.bounds().map_or(u64::MAX, |bounds| bounds.size_bytes());
    Err(Error::new(ErrorKind::Changed { column: "(last scratch)", expected: bounds.size_bytes(), found }))
}

/// The pointer to a column that stands at `offset` of the block at `base`.
#[inline]
pub(crate) fn bind<T: Element>(base: u64, offset: u64, len: usize) -> Result<DeviceColumn<T>, Error> {
    match base.checked_add(offset).and_then(DevicePointer::from_raw) {
        Some(pointer) => Ok(DeviceColumn::new(pointer, len as u64)),
        None => Err(out_of_range(base, offset)),
    }
}

#[cold]
fn out_of_range(base: u64, offset: u64) -> Error {
    Error::new(ErrorKind::TooLarge { needed: offset, available: u64::MAX - base })
}

/// A column of no block, for a walk whose pointers are thrown away.
#[inline]
pub(crate) fn unbound<T: Element>(spec: ColumnSpec, len: usize) -> Result<DeviceColumn<T>, Error> {
    bind(spec.alignment_of::<T>().bytes(), 0, len)
}
