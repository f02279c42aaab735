//! Offsets: where the next column goes, and where the block's sections end. There is no other implementation.
//!
//! A block has a section for each [`Content`]: what is copied, what is zeroed, what is left as it is. A column stands behind
//! the last one of its section, so a walk places columns of all contents in declared order, in one pass. Where a section begins
//! is known when the ones before it are: a cursor that measures counts each from 0, and one that goes over the same columns
//! again is told by the first one's [`Bounds`].

use core::ops::Range;

use crate::alignment::Alignment;
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use crate::spec::{ColumnSpec, Content};

/// Where a column goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) size_bytes: u64,
    pub(crate) alignment: Alignment,
}

/// The running ends of a walk over the columns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    copied: Section,
    zeroed: Section,
    uninit: Section,
    // Where the last two begin; the first does at 0.
    starts: [u64; 2],
}

/// The columns of one content.
#[derive(Clone, Copy, Debug)]
struct Section {
    // From its start to the end of its last column.
    len: u64,
    alignment: Alignment,
}

impl Default for Section {
    fn default() -> Self {
        Self { len: 0, alignment: Alignment::BYTE }
    }
}

impl Section {
    #[inline]
    fn place<T: Element>(&mut self, start: u64, spec: ColumnSpec, len: u64) -> Result<Place, Error> {
        let alignment = spec.alignment_of::<T>();
        let place = alignment.align_up(self.len).and_then(|behind| {
            let size_bytes = T::SIZE_BYTES.checked_mul(len)?;
            let end = behind.checked_add(size_bytes)?;
            start.checked_add(end)?;
            Some((Place { offset: start + behind, size_bytes, alignment }, end))
        });
        let Some((place, end)) = place else {
            return Err(overflow(spec.name(), len, T::SIZE_BYTES, start.saturating_add(self.len)));
        };
        *self = Self { len: end, alignment: self.alignment.max(alignment) };
        Ok(place)
    }

    /// Where the section stands, behind one that ends at `end`. Places are multiples of their alignments from the section's
    /// start, which has the largest of them.
    #[inline]
    fn behind(self, end: u64) -> Option<Range<u64>> {
        let start = self.alignment.align_up(end)?;
        let end = self.alignment.align_up(start.checked_add(self.len)?)?;
        Some(start..end)
    }
}

impl Cursor {
    /// A cursor whose places are offsets in a block of these bounds.
    #[inline]
    pub(crate) fn within(bounds: &Bounds) -> Self {
        Self { starts: [bounds.zeroed.0, bounds.uninit.0], ..Self::default() }
    }

    /// Places the next column behind the last of its content, and moves on to its end.
    #[inline]
    pub(crate) fn place<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: u64) -> Result<Place, Error> {
        match content {
            Content::Copied => self.copied.place::<T>(0, spec, len),
            Content::Zeroed => self.zeroed.place::<T>(self.starts[0], spec, len),
            Content::Uninit => self.uninit.place::<T>(self.starts[1], spec, len),
        }
    }

    /// Where the copied section ends, when no column follows; `None` past `u64::MAX`.
    #[inline]
    pub(crate) fn copied_end(&self) -> Option<u64> {
        self.copied.alignment.align_up(self.copied.len)
    }

    /// Where the sections stand, when no column follows; `None` past `u64::MAX`.
    #[inline]
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let copied = self.copied_end()?;
        let zeroed = self.zeroed.behind(copied)?;
        let uninit = self.uninit.behind(zeroed.end)?;
        Some(Bounds {
            copied,
            zeroed: (zeroed.start, zeroed.end),
            uninit: (uninit.start, uninit.end),
            alignment: self.copied.alignment.max(self.zeroed.alignment).max(self.uninit.alignment),
            has_scratch: self.zeroed.len != 0 || self.uninit.len != 0,
        })
    }

    /// Whether the walk ended where one with these bounds did.
    #[inline]
    pub(crate) fn ends_at(&self, bounds: &Bounds) -> bool {
        let has_scratch = self.zeroed.len != 0 || self.uninit.len != 0;
        if has_scratch || bounds.has_scratch {
            return self.bounds() == Some(*bounds);
        }
        self.copied_end() == Some(bounds.copied)
    }
}

#[cold]
fn overflow(column: &'static str, len: u64, element_bytes: u64, offset: u64) -> Error {
    Error::new(ErrorKind::Overflow { column, len, element_bytes, offset })
}

/// Where the sections of a block stand. Each end is rounded up to its section's largest alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    copied: u64,
    // Start and end.
    zeroed: (u64, u64),
    uninit: (u64, u64),
    alignment: Alignment,
    has_scratch: bool,
}

impl Bounds {
    /// The section of the columns of that content.
    #[inline]
    pub(crate) fn range(&self, content: Content) -> Range<u64> {
        match content {
            Content::Copied => 0..self.copied,
            Content::Zeroed => self.zeroed.0..self.zeroed.1,
            Content::Uninit => self.uninit.0..self.uninit.1,
        }
    }

    /// Bytes that travel.
    #[inline]
    pub(crate) fn copy_bytes(&self) -> u64 {
        self.copied
    }

    /// Bytes of the block.
    #[inline]
    pub(crate) fn size_bytes(&self) -> u64 {
        self.uninit.1
    }

    /// The largest alignment of all columns.
    #[inline]
    pub(crate) fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Whether there are bytes that kernels write into.
    #[inline]
    pub(crate) fn has_scratch(&self) -> bool {
        self.has_scratch
    }
}
