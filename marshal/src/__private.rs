//! What the expansion of `#[derive(DeviceArgs)]` calls. Nothing here is for users, and all of it may change in any version.
//!
//! The less an expansion says, the less there is to compile in each struct: what all structs have in common stands here.

pub use core::clone::Clone;
pub use core::fmt::{Debug, Formatter, Result as FmtResult};
pub use core::marker::Copy;
pub use core::result::Result::{self, Err, Ok};
pub use core::slice::from_ref;

pub use crate::columns::*;

use core::marker::PhantomData;
use core::num::NonZero;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use crate::alignment::Alignment;
use crate::args::DeviceArgs;
use crate::column::Column;
use crate::error::Error;
use crate::kernel_struct::{KernelStruct, Member};
use crate::spec::ColumnSpec;
use crate::walk::Visitor;

/// The alignment of `bytes`, which the derive has checked.
const fn alignment(bytes: u64) -> Alignment {
    match Alignment::new(bytes) {
        Some(alignment) => alignment,
        None => panic!("an alignment is a power of two"),
    }
}

/// The same members under the names of their fields.
#[must_use]
pub const fn named<const N: usize>(mut members: [Member; N], names: [&'static str; N]) -> [Member; N] {
    let mut index = 0;
    while index < N {
        members[index] = members[index].named(names[index]);
        index += 1;
    }
    members
}

/// The same member. Does not compile in a `const` for elements of zero bytes.
#[must_use]
#[track_caller]
pub const fn has_bytes(of: Member) -> Member {
    assert!(of.element().size() != 0, "a zero-sized type cannot stand in a device column: it has no bytes to send");
    of
}

/// Does not compile in a `const` for elements of zero bytes, and for those whose width is the host's business.
#[track_caller]
pub const fn is_element(of: Member, is_host_word: bool) {
    let _ = has_bytes(of);
    assert!(
        !is_host_word,
        "`usize` and `isize` have the width of the host's addresses, and kernels mean a fixed one: make the elements `u64` or `i64`, \
         or convert them with a check, as `marshal::narrow` does"
    );
}

/// The same member, of a column that asks for an alignment of `bytes`.
#[must_use]
pub const fn aligned(member: Member, bytes: u64) -> Member {
    member.with_alignment(alignment(bytes))
}

/// Does not compile in a `const` where `bytes` is below the alignment of the member's element; `message`
/// says what to do.
#[track_caller]
pub const fn is_aligned(member: Member, bytes: u64, message: &str) -> Member {
    // usize is at most 64 bits wide on every target of Rust.
    assert!(bytes >= member.element().align() as u64, "{}", message);
    member
}

/// The column of the member `index` of `P`.
#[inline]
#[must_use]
pub const fn spec<P: KernelStruct>(index: usize) -> ColumnSpec {
    P::MEMBERS[index].spec()
}

/// As `#[derive(Debug)]` prints a struct of these members, without a bound on the elements.
///
/// # Errors
/// What the formatter says.
pub fn debug(f: &mut Formatter<'_>, name: &str, members: &[Member], values: &[&dyn Debug]) -> FmtResult {
    let is_tuple = members.iter().any(|member| member.spec().name().starts_with(|c: char| c.is_ascii_digit()));
    if is_tuple {
        let mut tuple = f.debug_tuple(name);
        values.iter().for_each(|value| {
            tuple.field(value);
        });
        return tuple.finish();
    }
    let mut fields = f.debug_struct(name);
    members.iter().zip(values).for_each(|(member, value)| {
        fields.field(member.spec().name(), value);
    });
    fields.finish()
}

/// A set that can stand within a set. The derive asks for it in place of [`DeviceArgs`], for one message where there would be three.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of device arguments",
    label = "not device arguments",
    note = "write `#[derive(marshal::DeviceArgs)]` on the struct"
)]
pub trait Set {
    /// The pointers of the set.
    type Pointers: KernelStruct + Debug;

    /// The member that they are.
    const MEMBER: Member;
}

#[diagnostic::do_not_recommend]
impl<A: DeviceArgs + ?Sized> Set for A
where
    A::Pointers: KernelStruct + Debug,
{
    type Pointers = A::Pointers;

    const MEMBER: Member = Member::new::<A::Pointers>("");
}

/// A set within a set, walked over where a column would be.
#[derive(Debug)]
pub struct Nested<'a, A: ?Sized>(&'a A);

impl<A: DeviceArgs + ?Sized> Column for Nested<'_, A>
where
    A::Pointers: KernelStruct + Debug,
{
    type Pointers = A::Pointers;

    #[inline]
    fn visit<V: Visitor>(&self, _: ColumnSpec, visitor: &mut V) -> Result<A::Pointers, Error> {
        self.0.walk(visitor)
    }
}

/// Asks of what may not be: an inherent item goes before a trait's. `<Probe<C>>::column` is `C` where that is a column, else
/// [`Otherwise`]'s stand-in: the derive says what is no column in one place, and this adds no second error to it.
#[derive(Debug)]
pub struct Probe<C: ?Sized>(PhantomData<C>);

impl<C: Column + ?Sized> Probe<C> {
    /// The member of the column.
    pub const MEMBER: Member = C::MEMBER;

    /// The column.
    #[inline]
    pub const fn column(column: &C) -> &C {
        column
    }
}

impl<A: DeviceArgs + ?Sized> Probe<A>
where
    A::Pointers: KernelStruct + Debug,
{
    /// The set.
    #[inline]
    pub const fn nested(set: &A) -> Nested<'_, A> {
        Nested(set)
    }
}

macro_rules! host_words {
    (@const $($column:ty)*) => {$(
        impl<const N: usize> Probe<$column> {
            /// The width is the host's.
            pub const IS_HOST_WORD: bool = true;
        }
    )*};
    (@ $($column:ty)*) => {$(
        impl Probe<$column> {
            /// The width is the host's.
            pub const IS_HOST_WORD: bool = true;
        }
    )*};
    ($($word:ty)*) => {$(
        host_words!(@ [$word] Vec<$word> Box<[$word]> Arc<[$word]> Rc<[$word]> Cow<'_, [$word]>);
        host_words!(@const [[$word; 2]; N] [[$word; 3]; N] [[$word; 4]; N] [$word; N] [[$word; N]] Vec<[$word; N]> Box<[[$word; N]]> Arc<[[$word; N]]>);
    )*};
}

host_words!(usize isize NonZero<usize> NonZero<isize>);

/// What every type has. See [`Probe`].
pub trait Otherwise {
    /// Not known to be one.
    const IS_HOST_WORD: bool = false;

    /// Passes every check.
    const MEMBER: Member = Malformed::MEMBER;

    /// Stands for what is no set.
    fn nested<C: ?Sized, P>(_: &C) -> Anything<P> {
        malformed()
    }

    /// Stands for what is no column.
    fn column<C: ?Sized, P>(_: &C) -> &Anything<P> {
        malformed()
    }
}

impl<C: ?Sized> Otherwise for Probe<C> {}

/// A column with any pointers, in code that does not compile anyway.
#[derive(Debug)]
pub struct Anything<P>(PhantomData<P>);

impl<P: KernelStruct + Debug> Column for Anything<P> {
    type Pointers = P;

    fn visit<V: Visitor>(&self, _: ColumnSpec, _: &mut V) -> Result<P, Error> {
        malformed()
    }
}

/// Stands in for a column whose attributes the derive does not understand. It has said so, and nothing of this runs.
#[derive(Clone, Copy, Debug)]
pub struct Malformed;

impl KernelStruct for Malformed {
    const NAME: &'static str = "";
    const MEMBERS: &'static [Member] = &[];
}

impl Column for Malformed {
    type Pointers = Self;

    fn visit<V: Visitor>(&self, _: ColumnSpec, _: &mut V) -> Result<Self, Error> {
        malformed()
    }
}

/// A value of any type, in code that does not compile anyway.
#[must_use]
pub fn malformed<T>() -> T {
    unreachable!("the derive has reported an error")
}
