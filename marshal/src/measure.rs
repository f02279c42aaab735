//! Two visitors that learn where the columns stand, and touch no element.

use crate::cursor::{Bounds, Cursor};
use crate::element::Element;
use crate::error::Error;
use crate::layout::{Layout, LayoutBuilder};
use crate::pointer::DeviceColumn;
use crate::spec::{ColumnSpec, Content};
use crate::walk::{ByLength, LengthsAlone, sealed, unbound};

/// Learns the layout.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    plan: LayoutBuilder,
}

impl Measure {
    /// The layout of what was walked over.
    pub(crate) fn finish(self) -> Result<Layout, Error> {
        self.plan.finish()
    }
}

impl sealed::Sealed for Measure {}
impl LengthsAlone for Measure {}

impl ByLength for Measure {
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        self.plan.place::<T>(spec, content, len as u64)?;
        unbound(spec, len)
    }
}

/// Learns only where the sections stand: measure without a map, and without memory.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    cursor: Cursor,
}

impl Extent {
    /// `None` past `u64::MAX`.
    #[inline]
    pub(crate) fn finish(self) -> Option<Bounds> {
        self.cursor.bounds()
    }
}

impl sealed::Sealed for Extent {}
impl LengthsAlone for Extent {}

impl ByLength for Extent {
    #[inline]
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        self.cursor.place::<T>(spec, content, len as u64)?;
        unbound(spec, len)
    }
}
