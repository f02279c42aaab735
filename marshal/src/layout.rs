//! Where every column stands: pure arithmetic in u64, checked, without memory.

use core::any::TypeId;
use core::fmt;
use std::sync::Arc;

use crate::alignment::Alignment;
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// What is known of a column before its length: its name and the least alignment asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    name: &'static str,
    alignment: Alignment,
}

impl ColumnSpec {
    /// A column with the default alignment, [`Alignment::VECTOR_LOAD`].
    #[inline]
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, alignment: Alignment::VECTOR_LOAD }
    }

    /// The same column with `alignment` as the least alignment. The element's own still holds where it is larger.
    #[inline]
    #[must_use]
    pub const fn with_alignment(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// The alignment of a column of `T`: what was asked for, and the element's own.
    #[inline]
    pub(crate) const fn alignment_of<T>(self) -> Alignment {
        self.alignment.max(Alignment::of::<T>())
    }

    /// What was asked for.
    #[inline]
    pub(crate) const fn alignment(self) -> Alignment {
        self.alignment
    }

    /// The column's name.
    #[inline]
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Where one column stands. All sizes are bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnLayout {
    /// The field's name.
    pub name: &'static str,
    /// The element type's name.
    pub element: &'static str,
    /// Bytes of one element, and the stride from one to the next.
    pub element_bytes: u64,
    /// `offset` is a multiple of it.
    pub alignment: u64,
    /// Elements.
    pub len: u64,
    /// From the block's base to the first element.
    pub offset: u64,
    /// Bytes of all elements.
    pub size_bytes: u64,
    /// Zero bytes behind the last element, up to the next column or the end of the copied part.
    pub padding: u64,
    // Elements of another type are another shape, whatever their size.
    element_type: TypeId,
}

impl ColumnLayout {
    /// Whether a column of `len` elements `T` that is specified so would stand here.
    #[inline]
    pub(crate) fn is_for<T: Element>(&self, spec: ColumnSpec, len: u64) -> bool {
        self.len == len
            && self.element_type == TypeId::of::<T>()
            && self.alignment == spec.alignment_of::<T>().bytes()
            && (core::ptr::eq(self.name, spec.name) || self.name == spec.name)
    }

    fn end(&self) -> u64 {
        self.offset + self.size_bytes
    }
}

impl fmt::Debug for ColumnLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, element, element_bytes, alignment, len, offset, size_bytes, padding, element_type: _ } = self;
        write!(
            f,
            "{name}: {len} x {element} of {element_bytes} bytes at {offset}, {size_bytes} bytes and {padding} of padding, alignment {alignment}"
        )
    }
}

/// Where every column of an argument set stands: offsets, lengths, alignments, padding and the total.
///
/// Columns stand in declared order. An offset is the least multiple of the column's alignment at or after the end of the
/// last column; the total is rounded up to the largest alignment, so that a vector load of the last element stays inside.
/// Two sets with equal layouts have the same *shape*.
///
/// Planning needs no memory: [`Layout::builder`] takes lengths, and `Display` draws the map.
///
/// ```
/// use marshal::Layout;
///
/// let mut plan = Layout::builder();
/// plan.column::<[i32; 3]>("problem_sizes", 5)?;
/// plan.column::<u64>("ptr_a", 5)?;
/// let layout = plan.finish()?;
///
/// assert_eq!(layout.column("ptr_a").unwrap().offset, 64);
/// assert_eq!(layout.size_bytes(), 112);
/// assert_eq!(layout.to_string(), "\
/// column         element   align  len  offset  bytes  padding
/// problem_sizes  [i32; 3]     16    5       0     60        4
/// ptr_a          u64          16    5      64     40        8
/// total 112 bytes, alignment 16
/// ");
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    // Shared: a layout is handed out with every set.
    columns: Arc<[ColumnLayout]>,
    size_bytes: u64,
    alignment: Alignment,
}

impl Layout {
    /// Begins a plan without columns.
    #[must_use]
    pub fn builder() -> LayoutBuilder {
        LayoutBuilder::default()
    }

    /// The columns in declared order.
    #[must_use]
    pub fn columns(&self) -> &[ColumnLayout] {
        &self.columns
    }

    /// The first column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnLayout> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Bytes of the block.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes that travel: the one copy's size.
    #[must_use]
    pub fn copy_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The largest alignment of any column, in bytes: the block's base is a multiple of it. 1 without columns.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment.bytes()
    }

    /// The error of an image of `available` bytes, which are too few: it names the first column that does not fit with its padding.
    #[cold]
    pub(crate) fn too_short(&self, available: u64) -> Error {
        let does_not_fit = |column: &&ColumnLayout| column.end() + column.padding > available;
        let needed = self.copy_bytes();
        Error::new(match self.columns.iter().find(does_not_fit) {
            Some(column) => ErrorKind::TooShort { column: column.name, needed, available },
            // It fits now: the arguments are others than a moment ago.
            None => ErrorKind::Changed { column: "(last)", expected: available, found: needed },
        })
    }

    pub(crate) fn base_alignment(&self) -> Alignment {
        self.alignment
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("columns", &self.columns)
            .field("size_bytes", &self.size_bytes)
            .field("alignment", &self.alignment)
            .finish()
    }
}

/// A plan in the making: each column is placed as it comes. See [`Layout`].
#[derive(Clone, Debug, Default)]
pub struct LayoutBuilder {
    cursor: Cursor,
    columns: Vec<ColumnLayout>,
}

impl LayoutBuilder {
    /// Places a column of `len` elements `T` with the default alignment.
    ///
    /// # Errors
    /// When the column would pass `u64::MAX` bytes; the plan stands as before.
    pub fn column<T: Element>(&mut self, name: &'static str, len: u64) -> Result<&mut Self, Error> {
        self.place::<T>(ColumnSpec::new(name), len)?;
        Ok(self)
    }

    /// Places a column of `len` elements `T` at a multiple of `alignment`, and of the element's own.
    ///
    /// # Errors
    /// When the column would pass `u64::MAX` bytes; the plan stands as before.
    pub fn column_aligned<T: Element>(
        &mut self,
        name: &'static str,
        len: u64,
        alignment: Alignment,
    ) -> Result<&mut Self, Error> {
        self.place::<T>(ColumnSpec::new(name).with_alignment(alignment), len)?;
        Ok(self)
    }

    pub(crate) fn place<T: Element>(&mut self, spec: ColumnSpec, len: u64) -> Result<Place, Error> {
        let place = self.cursor.place::<T>(spec, len)?;
        if let Some(last) = self.columns.last_mut() {
            last.padding = place.offset - last.end();
        }
        self.columns.push(ColumnLayout {
            name: spec.name,
            element: core::any::type_name::<T>(),
            element_bytes: T::SIZE_BYTES,
            alignment: place.alignment.bytes(),
            len,
            offset: place.offset,
            size_bytes: place.size_bytes,
            padding: 0,
            element_type: TypeId::of::<T>(),
        });
        Ok(place)
    }

    /// Closes the plan: rounds the total up to the largest alignment.
    ///
    /// # Errors
    /// When the rounded total passes `u64::MAX`.
    pub fn finish(mut self) -> Result<Layout, Error> {
        let Cursor { end, alignment } = self.cursor;
        let mut size_bytes = end;
        if let Some(last) = self.columns.last_mut() {
            size_bytes = self.cursor.padded_end().ok_or_else(|| {
                Error::new(ErrorKind::Overflow {
                    column: last.name,
                    len: last.len,
                    element_bytes: last.element_bytes,
                    offset: last.offset,
                })
            })?;
            last.padding = size_bytes - last.end();
        }
        Ok(Layout { columns: self.columns.into(), size_bytes, alignment })
    }
}

/// Where a column goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) size_bytes: u64,
    pub(crate) alignment: Alignment,
}

/// The running end of a walk over the columns. Measure, pack and bind place each column through it: offsets have no other
/// implementation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    end: u64,
    alignment: Alignment,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { end: 0, alignment: Alignment::BYTE }
    }
}

impl Cursor {
    /// Places the next column behind the last, and moves on to its end.
    #[inline]
    pub(crate) fn place<T: Element>(&mut self, spec: ColumnSpec, len: u64) -> Result<Place, Error> {
        let alignment = spec.alignment_of::<T>();
        let place = alignment.align_up(self.end).and_then(|offset| {
            let size_bytes = T::SIZE_BYTES.checked_mul(len)?;
            let end = offset.checked_add(size_bytes)?;
            Some((Place { offset, size_bytes, alignment }, end))
        });
        let Some((place, end)) = place else {
            return Err(Error::new(ErrorKind::Overflow {
                column: spec.name,
                len,
                element_bytes: T::SIZE_BYTES,
                offset: self.end,
            }));
        };
        *self = Self { end, alignment: self.alignment.max(alignment) };
        Ok(place)
    }

    /// The largest alignment of the columns so far.
    pub(crate) fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// The end of the last column, rounded up to the largest alignment; `None` past `u64::MAX`.
    pub(crate) fn padded_end(&self) -> Option<u64> {
        self.alignment.align_up(self.end)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TITLES: [&str; 7] = ["column", "element", "align", "len", "offset", "bytes", "padding"];
        let rows: Vec<[String; 7]> = self
            .columns
            .iter()
            .map(|c| {
                let numbers = [c.alignment, c.len, c.offset, c.size_bytes, c.padding];
                let [alignment, len, offset, bytes, padding] = numbers.map(|n| n.to_string());
                [c.name.to_owned(), short_type_name(c.element), alignment, len, offset, bytes, padding]
            })
            .collect();
        let mut widths = TITLES.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut line = |row: [&str; 7]| {
            let [column, element, numbers @ ..] = row;
            let [w0, w1, number_widths @ ..] = widths;
            write!(f, "{column:w0$}  {element:w1$}")?;
            for (number, width) in numbers.into_iter().zip(number_widths) {
                write!(f, "  {number:>width$}")?;
            }
            writeln!(f)
        };
        line(TITLES)?;
        for row in &rows {
            line(row.each_ref().map(String::as_str))?;
        }
        writeln!(f, "total {} bytes, alignment {}", self.size_bytes, self.alignment)
    }
}

/// `half::binary16::f16` as `f16`, inside generics and arrays too.
fn short_type_name(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut segment = 0;
    for c in full.chars() {
        short.push(c);
        if short.ends_with("::") {
            short.truncate(segment);
        } else if !(c.is_alphanumeric() || c == '_' || c == ':') {
            segment = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_type_names_lose_their_paths_and_keep_their_structure() {
        for (full, short) in [
            ("u64", "u64"),
            ("half::binary16::f16", "f16"),
            ("[a::b::C; 3]", "[C; 3]"),
            (
                "core::option::Option<marshal::pointer::DevicePointer<half::binary16::f16>>",
                "Option<DevicePointer<f16>>",
            ),
        ] {
            assert_eq!(short_type_name(full), short);
        }
    }

    #[test]
    fn a_column_that_does_not_fit_leaves_the_plan_as_it_was() {
        let mut plan = Layout::builder();
        plan.column::<u64>("a", 2).unwrap();
        let error = plan.column::<u64>("b", u64::MAX / 8 + 1).unwrap_err();
        assert!(error.to_string().contains("`b`"), "{error}");
        plan.column::<u8>("c", 1).unwrap();
        let layout = plan.finish().unwrap();
        let places: Vec<_> = layout.columns().iter().map(|c| (c.name, c.offset, c.size_bytes, c.padding)).collect();
        assert_eq!(places, [("a", 0, 16, 0), ("c", 16, 1, 15)]);
    }

    #[test]
    fn a_total_that_cannot_be_rounded_up_is_an_error() {
        let mut plan = Layout::builder();
        plan.column::<u8>("all", u64::MAX).unwrap();
        assert!(plan.finish().unwrap_err().to_string().contains("`all`"));
    }
}
