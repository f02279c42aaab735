//! Three visitors that touch no element: two learn where the columns stand, one makes the pointers.

use crate::cursor::{Bounds, Cursor};
use crate::element::Element;
use crate::error::Error;
use crate::layout::{Layout, LayoutBuilder};
use crate::pointer::DeviceColumn;
use crate::spec::{ColumnSpec, Content};
use crate::walk::{ByLength, LengthsAlone, bind, ends_at, sealed, unbound};

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

/// Makes the typed pointers to the columns of a block.
#[derive(Debug)]
pub(crate) struct Bind<'a> {
    base: u64,
    bounds: &'a Bounds,
    cursor: Cursor,
}

impl<'a> Bind<'a> {
    /// For the block at `base`, whose bounds an earlier walk has found.
    #[inline]
    pub(crate) fn new(base: u64, bounds: &'a Bounds) -> Self {
        Self { base, bounds, cursor: Cursor::within(bounds) }
    }

    /// Whether the walk ended where the block does: else a pointer may point elsewhere.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), Error> {
        ends_at(&self.cursor, self.bounds)
    }
}

impl sealed::Sealed for Bind<'_> {}

impl LengthsAlone for Bind<'_> {
    const BINDS: bool = true;
}

impl ByLength for Bind<'_> {
    #[inline]
    fn by_length<T: Element>(
        &mut self,
        spec: ColumnSpec,
        content: Content,
        len: usize,
    ) -> Result<DeviceColumn<T>, Error> {
        let place = self.cursor.place::<T>(spec, content, len as u64)?;
        bind(self.base, place.offset, len)
    }
}
