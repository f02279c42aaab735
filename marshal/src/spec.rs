//! What is known of a column before its length.

use crate::alignment::Alignment;

/// What is known of a column before its length: its name and the least alignment asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    name: &'static str,
    part: Option<&'static str>,
    alignment: Alignment,
}

impl ColumnSpec {
    /// A column with the default alignment, [`Alignment::VECTOR_LOAD`].
    #[inline]
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, part: None, alignment: Alignment::VECTOR_LOAD }
    }

    /// The same column with `alignment` as the least alignment. The element's own still holds where it is larger.
    #[inline]
    #[must_use]
    pub const fn with_alignment(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// One of several columns that a field becomes: the map names it `name.part`.
    #[inline]
    #[must_use]
    pub const fn with_part(self, part: &'static str) -> Self {
        Self { part: Some(part), ..self }
    }

    /// What was asked for.
    #[inline]
    pub(crate) const fn alignment(self) -> Alignment {
        self.alignment
    }

    /// The alignment of a column of `T`: what was asked for, and the element's own.
    #[inline]
    pub(crate) const fn alignment_of<T>(self) -> Alignment {
        self.alignment.max(Alignment::of::<T>())
    }

    /// The column's name.
    #[inline]
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Which of the field's columns it is, where there are several.
    #[inline]
    #[must_use]
    pub const fn part(self) -> Option<&'static str> {
        self.part
    }
}

/// What stands in a column when the upload is done. Columns of one content stand side by side in the block, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// The arguments' elements, which travel with the one copy.
    Copied,
    /// Zero bytes, which one memset of the device writes at every upload. See [`Scratch::zeroed`](crate::Scratch::zeroed).
    Zeroed,
    /// Whatever stood in the memory before. See [`Scratch::uninit`](crate::Scratch::uninit).
    Uninit,
}

impl Content {
    /// All, in the order of the block.
    pub(crate) const ALL: [Self; 3] = [Self::Copied, Self::Zeroed, Self::Uninit];

    /// The place in [`ALL`](Self::ALL).
    #[inline]
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Copied => 0,
            Self::Zeroed => 1,
            Self::Uninit => 2,
        }
    }
}
