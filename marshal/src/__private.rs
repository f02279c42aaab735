//! What the expansion of `#[derive(DeviceArgs)]` calls. Nothing here is for users, and all of it may change in any version.

pub use core::alloc::Layout;
pub use core::clone::Clone;
pub use core::fmt::{Debug, DebugStruct, DebugTuple, Formatter, Result as FmtResult};
pub use core::marker::Copy;
pub use core::result::Result::{self, Ok};
pub use core::slice::from_ref;

use core::marker::PhantomData;

use crate::alignment::Alignment;
use crate::column::Column;
use crate::error::Error;
use crate::spec::ColumnSpec;
use crate::walk::Visitor;

/// The alignment of `bytes`, which the derive has checked.
#[must_use]
pub const fn alignment(bytes: u64) -> Alignment {
    match Alignment::new(bytes) {
        Some(alignment) => alignment,
        None => panic!("an alignment is a power of two"),
    }
}

/// Does not compile in a `const` for elements of zero bytes.
#[track_caller]
pub const fn has_bytes(element: Layout) {
    assert!(element.size() != 0, "a zero-sized type cannot stand in a device column: it has no bytes to send");
}

/// Does not compile in a `const` where `alignment` is below the element's own; `message` says what to do.
#[track_caller]
pub const fn is_aligned(element: Layout, alignment: u64, message: &str) {
    has_bytes(element);
    // usize is at most 64 bits wide on every target of Rust.
    assert!(alignment >= element.align() as u64, "{}", message);
}

/// Asks for what may be no column. `<Probe<C>>::visit` is the column's where `C` is one, and else [`NoColumn`]'s, as an inherent
/// item goes before a trait's. The derive says what is no column in one place, and this adds no second error to it.
#[derive(Debug)]
pub struct Probe<C: ?Sized>(PhantomData<C>);

impl<C: Column + ?Sized> Probe<C> {
    /// The column's element.
    pub const ELEMENT: Layout = C::ELEMENT;

    /// Shows the column to `visitor`.
    ///
    /// # Errors
    /// What the visitor says.
    #[inline]
    pub fn visit<V: Visitor>(column: &C, spec: ColumnSpec, visitor: &mut V) -> Result<C::Pointers, Error> {
        column.visit(spec, visitor)
    }
}

/// What every type has, in code that does not compile anyway. See [`Probe`].
pub trait NoColumn {
    /// Passes every check.
    const ELEMENT: Layout = Layout::new::<u8>();

    /// Takes and gives anything.
    ///
    /// # Errors
    /// Never: nothing of this runs.
    fn visit<C: ?Sized, V, P>(_: &C, _: ColumnSpec, _: &mut V) -> Result<P, Error> {
        malformed()
    }
}

impl<C: ?Sized> NoColumn for Probe<C> {}

/// Stands in for a column whose attributes the derive does not understand. It has said so, and nothing of this runs.
#[derive(Clone, Copy, Debug)]
pub struct Malformed;

/// A value of any type, in code that does not compile anyway.
#[must_use]
pub fn malformed<T>() -> T {
    unreachable!("the derive has reported an error")
}
