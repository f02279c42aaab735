//! Offsets: where the next column goes, and where the block's sections end. There is no other implementation.
//!
//! A block has a section for each [`Content`]: what is copied, what is zeroed, what is left as it is. A column stands behind
//! the last one of its section, so a walk places columns of all contents in declared order, in one pass. Where a section begins is
//! known when the ones before it are: a cursor that measures counts each from 0, and one that goes over the same columns
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
    sections: [Section; 3],
}

/// The columns of one content.
#[derive(Clone, Copy, Debug)]
struct Section {
    // From the block's base; a multiple of the section's alignment.
    start: u64,
    // From the start to the end of the last column.
    len: u64,
    alignment: Alignment,
}

impl Default for Section {
    fn default() -> Self {
        Self { start: 0, len: 0, alignment: Alignment::BYTE }
    }
}

impl Cursor {
    /// A cursor whose places are offsets in a block of these bounds.
    #[inline]
    pub(crate) fn within(bounds: &Bounds) -> Self {
        let section = |content| Section { start: bounds.range(content).start, ..Section::default() };
        Self { sections: Content::ALL.map(section) }
    }

    /// Places the next column behind the last of its content, and moves on to its end.
    #[inline]
    pub(crate) fn place<T: Element>(&mut self, spec: ColumnSpec, content: Content, len: u64) -> Result<Place, Error> {
        let section = &mut self.sections[content.index()];
        let alignment = spec.alignment_of::<T>();
        let place = alignment.align_up(section.len).and_then(|behind| {
            let size_bytes = T::SIZE_BYTES.checked_mul(len)?;
            let end = behind.checked_add(size_bytes)?;
            section.start.checked_add(end)?;
            Some((Place { offset: section.start + behind, size_bytes, alignment }, end))
        });
        let Some((place, end)) = place else {
            return Err(Error::new(ErrorKind::Overflow {
                column: spec.name(),
                len,
                element_bytes: T::SIZE_BYTES,
                offset: section.start.saturating_add(section.len),
            }));
        };
        section.len = end;
        section.alignment = section.alignment.max(alignment);
        Ok(place)
    }

    /// Where the sections stand, when no column follows; `None` past `u64::MAX`.
    #[inline]
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let mut bounds = Bounds { sections: [(0, 0); 3], alignment: Alignment::BYTE };
        let mut end = 0;
        for (section, bound) in self.sections.iter().zip(&mut bounds.sections) {
            // Places are multiples of their alignments from the section's start, which has the largest of them.
            let start = section.alignment.align_up(end)?;
            end = section.alignment.align_up(start.checked_add(section.len)?)?;
            *bound = (start, end);
            bounds.alignment = bounds.alignment.max(section.alignment);
        }
        Some(bounds)
    }
}

/// Where the sections of a block stand. Each end is rounded up to its section's largest alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    // Start and end: by the content's index.
    sections: [(u64, u64); 3],
    alignment: Alignment,
}

impl Bounds {
    /// The section of the columns of that content.
    #[inline]
    pub(crate) fn range(&self, content: Content) -> Range<u64> {
        let (start, end) = self.sections[content.index()];
        start..end
    }

    /// Bytes that travel.
    #[inline]
    pub(crate) fn copy_bytes(&self) -> u64 {
        self.range(Content::Copied).end
    }

    /// Bytes of the block.
    #[inline]
    pub(crate) fn size_bytes(&self) -> u64 {
        self.range(Content::Uninit).end
    }

    /// The largest alignment of all columns.
    #[inline]
    pub(crate) fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Whether there are bytes that kernels write into.
    #[inline]
    pub(crate) fn has_scratch(&self) -> bool {
        [Content::Zeroed, Content::Uninit].into_iter().any(|content| !self.range(content).is_empty())
    }
}
