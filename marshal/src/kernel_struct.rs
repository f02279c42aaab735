//! What a kernel can take: the members of a struct of device pointers, as the library knows them.

use core::alloc::Layout;
use core::fmt;

use crate::alignment::Alignment;
use crate::declarations::Declarations;
use crate::pointer::DeviceColumn;
use crate::spec::ColumnSpec;

/// A struct of typed device pointers that knows its members: [`DeviceColumn`] and every generated pointer struct.
///
/// [`cuda_header`](fn@crate::cuda_header) and [`Uploaded::as_kernel_arg`](crate::Uploaded::as_kernel_arg) build on it. The derive
/// implements it; for a `repr(C)` struct of your own that a hand-written [`Column`](crate::Column) gives, write the name that it
/// has in C++ and its members in declared order:
///
/// ```
/// use marshal::{DeviceColumn, KernelStruct, Member};
///
/// #[derive(Clone, Copy, Debug)]
/// #[repr(C)]
/// struct Pairs { first: DeviceColumn<u32>, second: DeviceColumn<f32> }
///
/// impl KernelStruct for Pairs {
///     const NAME: &'static str = "Pairs";
///     const MEMBERS: &'static [Member] =
///         &[Member::new::<DeviceColumn<u32>>("first"), Member::new::<DeviceColumn<f32>>("second")];
/// }
/// ```
pub trait KernelStruct: Copy {
    /// The name in C++.
    const NAME: &'static str;

    /// In declared order.
    const MEMBERS: &'static [Member];

    /// Whether the layout is that of C, so that C++ can declare the struct and a kernel take it by value.
    #[doc(hidden)]
    const IS_C: bool = all_are_c(Self::MEMBERS);

    /// Writes the declaration into `header`, once. Gives the name to use there.
    #[doc(hidden)]
    fn declare(header: &mut Declarations, _c_type: Option<&str>) -> String {
        header.structure::<Self>()
    }
}

/// A member of a [`KernelStruct`].
#[derive(Clone, Copy)]
pub struct Member {
    spec: ColumnSpec,
    layout: Layout,
    /// Size and alignment of what stands in the column.
    element: Layout,
    c_type: Option<&'static str>,
    is_c: bool,
    declare: fn(&mut Declarations, Option<&str>) -> String,
}

impl Member {
    /// A member of the type `P`.
    #[must_use]
    pub const fn new<P: KernelStruct>(name: &'static str) -> Self {
        Self {
            spec: ColumnSpec::new(name),
            layout: Layout::new::<P>(),
            element: Layout::new::<u8>(),
            c_type: None,
            is_c: P::IS_C,
            declare: P::declare,
        }
    }

    /// The same, with the elements called `c_type` in C++.
    #[must_use]
    pub const fn with_c_type(self, c_type: &'static str) -> Self {
        Self { c_type: Some(c_type), ..self }
    }

    /// The same under another name.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { spec: ColumnSpec::new(name).with_alignment(self.spec.alignment()), ..self }
    }

    /// The member of a column with such an element.
    pub(crate) const fn with_element(self, element: Layout) -> Self {
        Self { element, ..self }
    }

    /// Size and alignment of what stands in the column.
    pub(crate) const fn element(&self) -> Layout {
        self.element
    }

    /// The same, of a column that asks for `alignment`.
    pub(crate) const fn with_alignment(self, alignment: Alignment) -> Self {
        Self { spec: self.spec.with_alignment(alignment), ..self }
    }

    /// The column that the member points to.
    #[inline]
    pub(crate) const fn spec(&self) -> ColumnSpec {
        self.spec
    }

    /// Size and alignment of the member itself.
    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Declares the member's type in `header`, and gives its name there.
    pub(crate) fn declare(&self, header: &mut Declarations) -> String {
        (self.declare)(header, self.c_type)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.spec.name(), self.layout.size())
    }
}

const fn all_are_c(members: &[Member]) -> bool {
    let mut rest = members;
    while let [first, others @ ..] = rest {
        if !first.is_c {
            return false;
        }
        rest = others;
    }
    true
}

impl<T: 'static> KernelStruct for DeviceColumn<T> {
    const NAME: &'static str = "DeviceColumn";
    const MEMBERS: &'static [Member] = &[];

    fn declare(header: &mut Declarations, c_type: Option<&str>) -> String {
        header.column::<T>(c_type)
    }
}

/// Tuples of sets: Rust orders the members of a tuple as it likes.
macro_rules! tuples {
    ($($member:ident)*) => {
        impl<$($member: KernelStruct),*> KernelStruct for ($($member,)*) {
            const NAME: &'static str = "";
            const MEMBERS: &'static [Member] = &[];
            const IS_C: bool = false;
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
