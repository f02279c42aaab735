//! What stands in a column.

use std::borrow::Cow;

use bytemuck::{CheckedBitPattern, NoUninit, checked};

/// A type whose values stand in a column: every [`bytemuck::NoUninit`] type, which is to say a plain value without padding
/// bytes whose bytes mean the same on the device.
///
/// All integers of a fixed width, floats, `bool`, `char`, `NonZero*`, arrays of elements, [`DevicePointer`](crate::DevicePointer) and
/// its `Option`, and CUDA's [vectors](crate::vector) are elements; with the feature `half` `f16` and `bf16`, with `float8` the 8-bit
/// floats. A struct of your own becomes one with `#[derive(bytemuck::NoUninit)]` and `#[repr(C)]`, an enum
/// with `#[derive(bytemuck::NoUninit)]` and `#[repr(u8)]` or the like. References and host pointers are none: they would
/// send an address of the host to the device. The derive refuses columns of `usize` and `isize`, whose width is the host's business;
/// where a type parameter is one, it can't tell.
///
/// ```
/// #[derive(Clone, Copy, bytemuck::NoUninit)]
/// #[repr(C)]
/// struct GemmCoord { m: i32, n: i32, k: i32 }
///
/// fn is_element<T: marshal::Element>() {}
/// is_element::<GemmCoord>();
/// is_element::<Option<marshal::DevicePointer<f32>>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand in a device column",
    label = "not an element",
    note = "an element is a plain value without padding: for a struct of your own write `#[derive(Clone, Copy, bytemuck::NoUninit)] #[repr(C)]`",
    note = "for a `Vec` or slice of rows (`#[device(row)]`) write `#[device(nested)]` on the field",
    note = "references and host pointers mean nothing on the device: use `marshal::DevicePointer<T>`"
)]
pub trait Element: NoUninit {
    /// Bytes of one element, and the distance of two neighbours in a column. Zero-sized elements do not compile.
    #[doc(hidden)]
    const SIZE_BYTES: u64 = {
        assert!(size_of::<Self>() != 0, "a zero-sized type cannot stand in a device column: it has no bytes to send");
        // usize is at most 64 bits wide on every target of Rust.
        size_of::<Self>() as u64
    };
}

// The errors of a missing `NoUninit` would speak of bytemuck's other traits.
#[diagnostic::do_not_recommend]
impl<T: NoUninit> Element for T {}

// The device aligns 128-bit integers to 16 bytes. Hosts with the older ABI, which aligned them to 8, are refused here.
const _: () = assert!(align_of::<u128>() == 16 && align_of::<i128>() == 16);

/// The `len` elements that `bytes` hold, at any alignment; or the index of the first that is not valid for its type.
pub(crate) fn elements<T: CheckedBitPattern>(bytes: &[u8], len: usize) -> Result<Cow<'_, [T]>, usize> {
    // Aligned and valid, nearly always. Where it is not, each element is looked at by itself.
    if let Ok(elements) = checked::try_cast_slice::<u8, T>(bytes)
        && elements.len() == len
    {
        return Ok(Cow::Borrowed(elements));
    }
    let element = |index: usize| {
        let bytes = &bytes[index * size_of::<T>()..][..size_of::<T>()];
        checked::try_pod_read_unaligned(bytes).map_err(|_| index)
    };
    (0..len).map(element).collect::<Result<Vec<T>, _>>().map(Cow::Owned)
}
