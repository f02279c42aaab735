//! Columns into bytes: the packer, and the transpose from rows to columns.
//!
//! The image is written front to back. What no element covers is zeroed, so the image is a pure function of the arguments,
//! whatever the memory held before.

use crate::cursor::Place;
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// Bytes of rows in one tile of a transpose: small enough that a tile, read once for each of its columns, stays in the
/// first-level cache.
const TILE_BYTES: usize = 16 * 1024;

/// Rows in one tile.
pub(crate) const fn tile_rows<R>() -> usize {
    let rows = TILE_BYTES / if size_of::<R>() == 0 { 1 } else { size_of::<R>() };
    if rows == 0 { 1 } else { rows }
}

/// The image in the making.
#[derive(Debug)]
pub(crate) struct Packer<'a> {
    image: &'a mut [u8],
    // Bytes before it are final.
    written: usize,
}

impl<'a> Packer<'a> {
    /// A packer that fills `image`, all of it.
    pub(crate) fn new(image: &'a mut [u8]) -> Self {
        Self { image, written: 0 }
    }

    /// Writes a whole column at its place, behind all that was written before.
    // Always: left to itself the compiler stops in the middle of a walk, and a small set costs half as much again.
    #[inline(always)]
    pub(crate) fn column<T: Element>(&mut self, name: &'static str, place: Place, elements: &[T]) -> Result<(), Error> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        self.advance(name, place)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Reserves a column that [`elements`](Self::elements) fills piece by piece: zeroes the padding before it and moves past it.
    #[inline]
    pub(crate) fn advance(&mut self, name: &'static str, place: Place) -> Result<&mut [u8], Error> {
        let written = self.written;
        let Some(range) = self.range(place.offset, place.size_bytes).filter(|range| range.start >= written) else {
            return Err(changed(name, self.image.len(), place.offset.saturating_add(place.size_bytes)));
        };
        // Most columns end where the next begins; to call memset for nothing is not for nothing.
        if range.start != written {
            self.image[written..range.start].fill(0);
        }
        self.written = range.end;
        Ok(&mut self.image[range])
    }

    /// Writes one element a row at `first` and after, into a column that was reserved before.
    #[inline]
    pub(crate) fn elements<R, T: Element>(
        &mut self,
        name: &'static str,
        place: Place,
        first: u64,
        rows: &[R],
        get: impl Fn(&R) -> T,
    ) -> Result<(), Error> {
        let bytes = (rows.len() as u64).saturating_mul(T::SIZE_BYTES);
        let offset = place.offset.saturating_add(first.saturating_mul(T::SIZE_BYTES));
        let range = self.range(offset, bytes).filter(|range| range.end <= self.written);
        let Some(range) = range else {
            return Err(changed(name, self.written, offset.saturating_add(bytes)));
        };
        let slots = self.image[range].chunks_exact_mut(size_of::<T>());
        for (slot, row) in slots.zip(rows) {
            slot.copy_from_slice(bytemuck::bytes_of(&get(row)));
        }
        Ok(())
    }

    /// Zeroes what is left behind the last column. `end` is where the columns end with their padding: the image's end, where they
    /// are those that it was made for.
    pub(crate) fn finish(self, end: Option<u64>) -> Result<(), Error> {
        if end != Some(self.image.len() as u64) {
            return Err(changed("(last)", self.image.len(), end.unwrap_or(u64::MAX)));
        }
        if self.written != self.image.len() {
            self.image[self.written..].fill(0);
        }
        Ok(())
    }

    #[inline]
    fn range(&self, offset: u64, bytes: u64) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.image.len()).then_some(start..end)
    }
}

#[cold]
fn changed(column: &'static str, expected: usize, found: u64) -> Error {
    Error::new(ErrorKind::Changed { column, expected: expected as u64, found })
}
