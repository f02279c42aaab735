//! Is it what was sent before? Two more visitors, for the cached mode.
//!
//! [`Shape`] folds the columns' lengths into a number by which a shape is looked up: a hint, never a proof. [`Compare`] is the
//! proof: it holds each column against a layout and each byte against the last image, and binds each column on the way, since one may hold
//! addresses of others.

use crate::element::Element;
use crate::error::Error;
use crate::layout::{ColumnLayout, Layout};
use crate::pack::tile_rows;
use crate::pointer::DeviceColumn;
use crate::spec::{ColumnSpec, Content};
use crate::walk::{ByLength, LengthsAlone, Row, RowVisitor, Visitor, bind, fields_by_length, sealed, unbound};

/// Folds lengths and element sizes.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    folded: u64,
}

impl Shape {
    /// The number of a planned layout: the same that its arguments have.
    pub(crate) fn of(layout: &Layout) -> u64 {
        let mut shape = Self::default();
        for column in layout.columns() {
            shape.fold(column.len, column.element_bytes);
        }
        shape.finish()
    }

    pub(crate) fn finish(self) -> u64 {
        self.folded
    }

    #[inline]
    fn fold(&mut self, len: u64, element_bytes: u64) {
        // The golden ratio in 64 bits: spreads small numbers over the word.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        // Multiplied at each step: what is only turned round meets itself again after 64 columns, and goes.
        self.folded = (self.folded.rotate_left(7) ^ len ^ element_bytes.rotate_left(32)).wrapping_mul(SPREAD);
    }
}

impl sealed::Sealed for Shape {}
impl LengthsAlone for Shape {}

impl ByLength for Shape {
    #[inline]
    fn by_length<T: Element>(&mut self, spec: ColumnSpec, _: Content, len: usize) -> Result<DeviceColumn<T>, Error> {
        self.fold(len as u64, T::SIZE_BYTES);
        unbound(spec, len)
    }
}

/// What [`Compare`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The same columns and the same bytes.
    Equal,
    /// The same columns, other bytes.
    OtherBytes,
    /// Other columns.
    OtherShape,
}

/// Holds the columns against a layout, and their bytes against an image of it.
#[derive(Debug)]
pub(crate) struct Compare<'a> {
    base: u64,
    columns: core::slice::Iter<'a, ColumnLayout>,
    image: &'a [u8],
    found: Comparison,
}

impl<'a> Compare<'a> {
    /// `image` is what was sent last to the block at `base`; `None` where nothing was.
    pub(crate) fn new(base: u64, layout: &'a Layout, image: Option<&'a [u8]>) -> Self {
        let found = if image.is_some() { Comparison::Equal } else { Comparison::OtherBytes };
        Self { base, columns: layout.columns().iter(), image: image.unwrap_or_default(), found }
    }

    pub(crate) fn finish(mut self) -> Comparison {
        if self.columns.next().is_some() { Comparison::OtherShape } else { self.found }
    }

    /// The next column, where the layout has such a column there.
    #[inline]
    fn next<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: usize) -> Option<&'a ColumnLayout> {
        match self.columns.next() {
            Some(column) if column.is_for::<T>(spec, content, len as u64) => Some(column),
            _ => {
                self.found = Comparison::OtherShape;
                None
            }
        }
    }

    /// The column's bytes in the image, while no difference was found.
    #[inline]
    fn bytes_of(&self, column: &ColumnLayout) -> Option<&'a [u8]> {
        if self.found != Comparison::Equal {
            return None;
        }
        let start = usize::try_from(column.offset).ok()?;
        let len = usize::try_from(column.size_bytes).ok()?;
        self.image.get(start..)?.get(..len)
    }
}

impl sealed::Sealed for Compare<'_> {}

impl Visitor for Compare<'_> {
    // Always: left to itself the compiler stops in the middle of a walk, and a small set costs half as much again.
    #[inline(always)]
    fn column<T: Element>(&mut self, spec: ColumnSpec, elements: &[T]) -> Result<DeviceColumn<T>, Error> {
        let Some(column) = self.next::<T>(spec, Content::Copied, elements.len()) else {
            return unbound(spec, elements.len());
        };
        if let Some(bytes) = self.bytes_of(column)
            && bytes != bytemuck::cast_slice::<T, u8>(elements)
        {
            self.found = Comparison::OtherBytes;
        }
        bind(self.base, column.offset, elements.len())
    }

    #[inline]
    fn column_with<S, T: Element>(
        &mut self,
        spec: ColumnSpec,
        items: &[S],
        get: impl Fn(&S) -> T,
    ) -> Result<DeviceColumn<T>, Error> {
        let Some(column) = self.next::<T>(spec, Content::Copied, items.len()) else {
            return unbound(spec, items.len());
        };
        if self.bytes_of(column).is_some_and(|bytes| !holds(bytes, items, get)) {
            self.found = Comparison::OtherBytes;
        }
        bind(self.base, column.offset, items.len())
    }

    fn scratch<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        self.by_length(spec, content, len)
    }

    fn rows<R: Row>(&mut self, rows: &[R]) -> Result<R::Pointers, Error> {
        let fields = self.columns.clone();
        let pointers = fields_by_length::<R, _>(self, rows.len())?;
        let tile_rows = tile_rows::<R>();
        for (index, tile) in rows.chunks(tile_rows).enumerate() {
            if self.found != Comparison::Equal {
                break;
            }
            let first = index * tile_rows;
            R::fields(&mut CompareTile { compare: self, fields: fields.clone(), first, tile })?;
        }
        Ok(pointers)
    }
}

/// Holds a column against the layout: for the tiles to compare, or because it has no bytes in the image.
impl ByLength for Compare<'_> {
    #[inline]
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        match self.next::<T>(spec, content, len) {
            Some(column) => bind(self.base, column.offset, len),
            None => unbound(spec, len),
        }
    }
}

struct CompareTile<'c, 'a, R> {
    compare: &'c mut Compare<'a>,
    fields: core::slice::Iter<'a, ColumnLayout>,
    first: usize,
    tile: &'c [R],
}

impl<R> sealed::Sealed for CompareTile<'_, '_, R> {}

impl<R> RowVisitor<R> for CompareTile<'_, '_, R> {
    #[inline]
    fn field<T: Element>(&mut self, spec: ColumnSpec, get: impl Fn(&R) -> T) -> Result<DeviceColumn<T>, Error> {
        let bytes = self.fields.next().and_then(|column| self.compare.bytes_of(column));
        let of_tile = bytes.and_then(|bytes| bytes.get(self.first * size_of::<T>()..));
        if of_tile.is_some_and(|bytes| !holds(bytes, self.tile, get)) {
            self.compare.found = Comparison::OtherBytes;
        }
        unbound(spec, self.tile.len())
    }
}

/// Whether `bytes` begin with what `get` makes of the items.
#[inline]
fn holds<S, T: Element>(bytes: &[u8], items: &[S], get: impl Fn(&S) -> T) -> bool {
    let mut elements = bytes.chunks_exact(size_of::<T>()).zip(items);
    elements.all(|(bytes, item)| bytes == bytemuck::bytes_of(&get(item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folded shape of columns of 8 bytes with these lengths.
    fn folded(lens: impl IntoIterator<Item = u64>) -> u64 {
        let mut shape = Shape::default();
        lens.into_iter().for_each(|len| shape.fold(len, 8));
        shape.finish()
    }

    #[test]
    fn columns_far_apart_do_not_cancel_each_other() {
        let of = |len| folded([len; 128]);
        assert_ne!(of(8), of(64));
        assert_ne!(of(8), folded([]));
        assert_ne!(of(8), folded([8; 192]));
        let swapped = |at: usize| folded((0..128).map(|index| if index == at { 9 } else { 8 }));
        assert_ne!(swapped(3), swapped(67));
    }
}
