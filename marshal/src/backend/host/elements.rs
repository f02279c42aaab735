//! From bytes to elements, where they are valid.

use std::any::type_name;
use std::borrow::Cow;

use bytemuck::CheckedBitPattern;

use super::memory::POISON;

/// The `len` elements that `bytes`, from device address `address` on, hold.
pub(super) fn elements<T: CheckedBitPattern>(bytes: &[u8], len: usize, address: u64) -> Result<Cow<'_, [T]>, String> {
    let invalid = |index: usize| invalid::<T>(index, &bytes[index * size_of::<T>()..][..size_of::<T>()], address);
    crate::element::elements(bytes, len).map_err(invalid)
}

fn invalid<T>(index: usize, bytes: &[u8], address: u64) -> String {
    format!(
        "element {index} of those at {address:#x} is no valid {}, its bytes are {bytes:02x?}; fresh memory is filled with {POISON:02x}: was it written on this stream, or on one that this stream has waited for?",
        type_name::<T>()
    )
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU16;

    use super::*;

    #[test]
    fn elements_are_read_at_any_alignment_and_the_first_invalid_one_is_named() {
        let bytes = [0, 1, 0, 2, 0, 3, 0];
        for start in [0, 1] {
            let expected = if start == 0 { [0x0100, 0x0200, 0x0300] } else { [1, 2, 3] };
            assert_eq!(*elements::<u16>(&bytes[start..start + 6], 3, 0).unwrap(), expected.map(u16::from_le));
        }
        let report = elements::<NonZeroU16>(&[1, 0, 0, 0, 0, 0], 3, 0x40).unwrap_err();
        assert!(
            report.starts_with("element 1 of those at 0x40 is no valid core::num::nonzero::NonZero<u16>"),
            "{report}"
        );
        assert!(report.contains("its bytes are [00, 00]"), "{report}");
        assert_eq!(elements::<()>(&[], 3, 0).unwrap().len(), 3);
    }
}
