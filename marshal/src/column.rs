//! What a field may be to become a column: the standard library's containers of elements.

use core::alloc::Layout;
use core::fmt;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use crate::element::Element;
use crate::error::Error;
use crate::kernel_struct::{KernelStruct, Member};
use crate::pointer::DeviceColumn;
use crate::spec::ColumnSpec;
use crate::walk::Visitor;

/// A field type that becomes a column: `Vec<T>`, `&[T]`, `[T; N]`, `Box<[T]>`, `Arc<[T]>`, `Cow<[T]>` with an
/// [`Element`] `T`; a [`Ragged`](crate::Ragged), a [`Scratch`](crate::Scratch).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a column",
    label = "not a column",
    note = "a column is a `Vec<T>`, `&[T]`, `[T; N]`, `Box<[T]>`, `Arc<[T]>` or `Cow<[T]>` of plain values, a `Ragged<T>` or a `Scratch<T>`",
    note = "for one plain value write `#[device(scalar)]`, to keep the field on the host `#[device(skip)]`",
    note = "for a set of arguments within this one (another derived struct, a `Vec` of rows, a tuple of sets) write `#[device(nested)]`"
)]
pub trait Column {
    /// What the field is in the generated pointer struct.
    type Pointers: KernelStruct + fmt::Debug;

    /// Size and alignment of the element, where the column has one. The derive checks `align` against it.
    #[doc(hidden)]
    const ELEMENT: Layout = Layout::new::<u8>();

    /// What the derive makes the member of the pointer struct of.
    #[doc(hidden)]
    const MEMBER: Member = Member::new::<Self::Pointers>("").with_element(Self::ELEMENT);

    /// Shows the column to `visitor`.
    ///
    /// # Errors
    /// What the visitor says.
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<Self::Pointers, Error>;
}

// Always inlined, as the visitors' columns are: left to itself the compiler stops in the middle of a walk.
impl<T: Element> Column for [T] {
    type Pointers = DeviceColumn<T>;

    const ELEMENT: Layout = Layout::new::<T>();

    #[inline(always)]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        visitor.column(spec, self)
    }
}

impl<T: Element> Column for Vec<T> {
    type Pointers = DeviceColumn<T>;

    const ELEMENT: Layout = Layout::new::<T>();

    #[inline(always)]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        visitor.column(spec, self)
    }
}

impl<T: Element, const N: usize> Column for [T; N] {
    type Pointers = DeviceColumn<T>;

    const ELEMENT: Layout = Layout::new::<T>();

    #[inline(always)]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        visitor.column(spec, self)
    }
}

impl<T: Element> Column for Cow<'_, [T]> {
    type Pointers = DeviceColumn<T>;

    const ELEMENT: Layout = Layout::new::<T>();

    #[inline(always)]
    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        visitor.column(spec, self)
    }
}

macro_rules! column_behind {
    ($($pointer:ty),*) => {$(
        impl<C: Column + ?Sized> Column for $pointer {
            type Pointers = C::Pointers;

            const ELEMENT: Layout = C::ELEMENT;

            #[inline(always)]
            fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<C::Pointers, Error> {
                C::visit(self, spec, visitor)
            }
        }
    )*};
}

column_behind!(&C, &mut C, Box<C>, Arc<C>, Rc<C>);
