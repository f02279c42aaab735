//! Where every column stands: pure arithmetic in u64, checked, without memory.

use core::any::TypeId;
use core::fmt;
use std::sync::Arc;

use crate::alignment::Alignment;
use crate::cursor::{Bounds, Cursor};
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use crate::spec::{ColumnSpec, Content};

/// Where one column stands. All sizes are bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnLayout {
    /// The field's name.
    pub name: &'static str,
    /// Which of the field's columns it is, where the field becomes several: a [`Ragged`](crate::Ragged) has `offsets` and `rows`
    /// beside its values.
    pub part: Option<&'static str>,
    /// The element type's name.
    pub element: &'static str,
    /// Bytes of one element, and the stride from one to the next.
    pub element_bytes: u64,
    /// `offset` is a multiple of it.
    pub alignment: u64,
    /// What stands in it when the upload is done.
    pub content: Content,
    /// Elements.
    pub len: u64,
    /// From the block's base to the first element.
    pub offset: u64,
    /// Bytes of all elements.
    pub size_bytes: u64,
    /// Bytes behind the last element, up to the next column of the same content, or to where these columns end. Behind a copied
    /// column and a zeroed one they are zero.
    pub padding: u64,
    // Elements of another type are another shape, whatever their size.
    element_type: TypeId,
}

impl ColumnLayout {
    /// Whether a column of `len` elements `T` that is specified so would stand here.
    #[inline]
    pub(crate) fn is_for<T: Element>(&self, spec: ColumnSpec, content: Content, len: u64) -> bool {
        self.len == len
            && self.content == content
            && self.element_type == TypeId::of::<T>()
            && self.alignment == spec.alignment_of::<T>().bytes()
            && self.part == spec.part()
            && (core::ptr::eq(self.name, spec.name()) || self.name == spec.name())
    }

    /// Whether both are the same column of two layouts, as far as it says so itself: offset and padding follow from the others.
    #[inline]
    fn is_like(&self, other: &Self) -> bool {
        self.len == other.len
            && self.content == other.content
            && self.element_type == other.element_type
            && self.alignment == other.alignment
            && self.part == other.part
            && (core::ptr::eq(self.name, other.name) || self.name == other.name)
    }

    /// Whether `name` is `field` or `field.part`.
    fn is_named(&self, name: &str) -> bool {
        match (self.part, name.strip_prefix(self.name)) {
            (None, Some("")) => true,
            (Some(part), Some(rest)) => rest.strip_prefix('.') == Some(part),
            _ => false,
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.size_bytes
    }
}

impl fmt::Debug for ColumnLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, element, element_bytes, alignment, content, len, offset, size_bytes, padding, .. } = self;
        let (dot, part) = self.part.map_or(("", ""), |part| (".", part));
        write!(
            f,
            "{name}{dot}{part} ({content:?}): {len} x {element} of {element_bytes} bytes at {offset}, {size_bytes} bytes and {padding} of padding, alignment {alignment}"
        )
    }
}

/// Where every column of an argument set stands: offsets, lengths, alignments, padding and the total.
///
/// Columns stand in declared order. An offset is the least multiple of the column's alignment at or after the end of the
/// last column; the total is rounded up to the largest alignment, so that a vector load of the last element stays inside.
/// [Scratch](crate::Scratch) columns stand behind the copied ones: first those that are zeroed, then those that are not; each
/// section begins at a multiple of its largest alignment, and ends at one. Two sets with equal layouts have the same *shape*.
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
    bounds: Bounds,
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

    /// The first column of that name: a field's, or `field.part` where the field becomes several columns.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnLayout> {
        self.columns.iter().find(|column| column.is_named(name))
    }

    /// Bytes of the block.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.bounds.size_bytes()
    }

    /// Bytes that travel: the one copy's size. They stand at the block's begin, before all scratch columns.
    #[must_use]
    pub fn copy_bytes(&self) -> u64 {
        self.bounds.copy_bytes()
    }

    /// The largest alignment of any column, in bytes: the block's base is a multiple of it. 1 without columns.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.bounds.alignment().bytes()
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Whether both are of one shape: equality, by what all else follows from, and at once where they are one and the same.
    #[inline]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.columns, &other.columns);
        Arc::ptr_eq(ours, theirs)
            || ours.len() == theirs.len() && ours.iter().zip(&**theirs).all(|(ours, theirs)| ours.is_like(theirs))
    }

    /// The first column that differs, and its elements here and in `other`; 0 where there is no such column.
    #[cold]
    pub(crate) fn first_difference(&self, other: &Self) -> Option<(&'static str, u64, u64)> {
        let (mut ours, mut theirs) = (self.columns.iter(), other.columns.iter());
        loop {
            match (ours.next(), theirs.next()) {
                (Some(ours), Some(theirs)) if ours == theirs => {}
                (Some(ours), Some(theirs)) if ours.name == theirs.name => {
                    return Some((ours.name, ours.len, theirs.len));
                }
                (_, Some(theirs)) => return Some((theirs.name, 0, theirs.len)),
                (Some(ours), None) => return Some((ours.name, ours.len, 0)),
                (None, None) => return None,
            }
        }
    }

    /// The error of an image of `available` bytes, which are too few: it names the first column that does not fit with its padding.
    #[cold]
    pub(crate) fn too_short(&self, available: u64) -> Error {
        let does_not_fit =
            |column: &&ColumnLayout| column.content == Content::Copied && column.end() + column.padding > available;
        let needed = self.copy_bytes();
        Error::new(match self.columns.iter().find(does_not_fit) {
            Some(column) => ErrorKind::TooShort { column: column.name, needed, available },
            // It fits now: the arguments are others than a moment ago.
            None => ErrorKind::Changed { column: "(last)", expected: available, found: needed },
        })
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("columns", &self.columns)
            .field("copy_bytes", &self.copy_bytes())
            .field("size_bytes", &self.size_bytes())
            .field("alignment", &self.alignment())
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
        self.place::<T>(ColumnSpec::new(name), Content::Copied, len)?;
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
        self.place::<T>(ColumnSpec::new(name).with_alignment(alignment), Content::Copied, len)?;
        Ok(self)
    }

    /// Places a [scratch](crate::Scratch) column of `len` elements `T`, as `spec` says: of [`Content::Zeroed`] or
    /// [`Content::Uninit`]. With [`Content::Copied`] it is a column like any other.
    ///
    /// ```
    /// use marshal::{ColumnSpec, Content, Layout};
    ///
    /// let mut plan = Layout::builder();
    /// plan.scratch::<f32>(ColumnSpec::new("sums"), Content::Uninit, 64)?;
    /// plan.scratch::<u32>(ColumnSpec::new("semaphores"), Content::Zeroed, 2)?;
    /// plan.column::<i32>("m", 5)?;
    /// let layout = plan.finish()?;
    /// assert_eq!((layout.copy_bytes(), layout.size_bytes()), (32, 304));
    /// assert_eq!(layout.to_string(), "\
    /// column      element  align  len  offset  bytes  padding
    /// sums        f32         16   64      48    256        0
    /// semaphores  u32         16    2      32      8        8
    /// m           i32         16    5       0     20       12
    /// total 304 bytes, alignment 16, 32 copied, 16 zeroed
    /// ");
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the column would pass `u64::MAX` bytes; the plan stands as before.
    pub fn scratch<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: u64) -> Result<&mut Self, Error> {
        self.place::<T>(spec, content, len)?;
        Ok(self)
    }

    pub(crate) fn place<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: u64) -> Result<(), Error> {
        let place = self.cursor.place::<T>(spec, content, len)?;
        if self.columns.is_empty() {
            // As many as most sets have: the list does not grow step by step.
            self.columns.reserve(16);
        }
        self.columns.push(ColumnLayout {
            name: spec.name(),
            part: spec.part(),
            element: core::any::type_name::<T>(),
            element_bytes: T::SIZE_BYTES,
            alignment: place.alignment.bytes(),
            content,
            len,
            // From its section's start, until that is known.
            offset: place.offset,
            size_bytes: place.size_bytes,
            padding: 0,
            element_type: TypeId::of::<T>(),
        });
        Ok(())
    }

    /// Closes the plan: gives each section its place, and rounds the totals up to the largest alignments.
    ///
    /// # Errors
    /// When a rounded total passes `u64::MAX`.
    pub fn finish(mut self) -> Result<Layout, Error> {
        let Some(bounds) = self.cursor.bounds() else {
            let last = self.columns.last();
            return Err(Error::new(ErrorKind::Overflow {
                column: last.map_or("(none)", |last| last.name),
                len: last.map_or(0, |last| last.len),
                element_bytes: last.map_or(0, |last| last.element_bytes),
                offset: last.map_or(0, |last| last.offset),
            }));
        };
        // From the back: where the next column of each content begins.
        let mut next = Content::ALL.map(|content| bounds.range(content).end);
        for column in self.columns.iter_mut().rev() {
            let next = &mut next[column.content.index()];
            column.offset += bounds.range(column.content).start;
            column.padding = *next - column.end();
            *next = column.offset;
        }
        Ok(Layout { columns: self.columns.into(), bounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
