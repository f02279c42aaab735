//! A crate that denies all that it can.
#![forbid(unsafe_code, missing_docs)]
#![deny(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::missing_docs_in_private_items,
    clippy::missing_inline_in_public_items,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::arithmetic_side_effects,
    clippy::shadow_reuse,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    let_underscore_drop,
    missing_debug_implementations,
    private_bounds,
    private_interfaces,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![expect(clippy::missing_inline_in_public_items, reason = "of this crate's own functions")]

use std::borrow::Cow;
use std::marker::PhantomData;

use bytemuck::Pod;
use marshal::DeviceArgs;

/// An element that nobody else sees.
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
#[repr(C)]
struct Private {
    /// A value.
    value: u32,
}

/// One column: sums of one term and lists of one entry.
#[derive(Debug, DeviceArgs)]
pub struct One {
    /// Values.
    pub values: Vec<u8>,
}

/// Every word and each visibility.
#[derive(Debug, DeviceArgs)]
#[device(align = 32)]
pub struct All<'a, T: Pod, const N: usize> {
    /// Slices.
    pub slices: &'a [T],
    /// Arrays.
    pub(crate) arrays: Vec<[T; N]>,
    /// Private elements, last but some.
    private: Vec<Private>,
    /// A factor.
    #[device(scalar, align = 64)]
    pub alpha: f32,
    /// A name.
    #[device(skip)]
    pub name: String,
    /// A type.
    pub marker: PhantomData<&'a T>,
    /// Either.
    either: Cow<'a, [Private]>,
}

/// A tuple.
#[derive(Debug, DeviceArgs)]
pub struct Tuple(
    /// Values.
    pub Box<[u64]>,
    Vec<Private>,
);

/// A row.
#[derive(Clone, Copy, Debug, DeviceArgs)]
#[device(row)]
pub struct Row {
    /// A value.
    pub value: u32,
    /// A private element.
    private: Private,
}

/// A tuple of one.
#[derive(Clone, Copy, Debug, DeviceArgs)]
#[device(row, align = 8)]
pub struct TupleRow(
    /// A value.
    pub f32,
);

/// Lints that the user has spoken about.
#[expect(non_snake_case, reason = "the names of BLAS")]
#[derive(Debug, DeviceArgs)]
pub struct Blas {
    /// A matrix.
    pub A: Vec<f32>,
    /// No longer in use.
    #[deprecated]
    pub lda: Vec<i32>,
}

/// Sets within a set, and names in C++.
#[derive(Debug, DeviceArgs)]
#[device(name = "Composed")]
pub struct Composed<'a> {
    /// Rows.
    #[device(nested)]
    pub rows: &'a [Row],
    /// Another set.
    #[device(nested)]
    one: One,
    /// Elements with a name in C++.
    #[device(c_type = "Private")]
    named: Vec<Private>,
}

/// Nothing.
#[derive(Clone, Copy, Debug, DeviceArgs)]
pub struct Nothing;

/// A struct that nobody else sees.
#[derive(Debug, DeviceArgs)]
struct Inner {
    /// Values.
    values: Vec<Private>,
}

/// The bytes of each.
///
/// # Errors
/// When a layout passes `u64::MAX`.
pub fn bytes() -> Result<[u64; 7], marshal::Error> {
    let private = Private { value: 1 };
    let one = One { values: vec![1] };
    let all = All {
        slices: &[1_u16],
        arrays: vec![[1; 3]],
        private: vec![private],
        alpha: 1.0,
        name: private.value.to_string(),
        marker: PhantomData,
        either: Cow::Owned(vec![private]),
    };
    let tuple = Tuple(Box::new([1]), vec![private]);
    let rows = [Row { value: 1, private }];
    let composed = Composed { rows: &rows, one: One { values: vec![1] }, named: vec![private] };
    let tuple_rows = [TupleRow(1.0)];
    let inner = Inner { values: vec![private] };
    Ok([
        one.layout()?.size_bytes(),
        all.layout()?.size_bytes(),
        tuple.layout()?.size_bytes(),
        rows.layout()?.size_bytes(),
        composed.layout()?.size_bytes(),
        tuple_rows.layout()?.size_bytes(),
        inner.layout()?.size_bytes(),
    ])
}
