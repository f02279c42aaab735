//! Alignments: powers of two, with the levels that GPU code asks for and where each comes from.

use core::fmt;
use core::num::NonZeroU64;

use crate::error::{Error, ErrorKind};

/// A power of two, in bytes.
///
/// ```
/// use marshal::Alignment;
///
/// assert_eq!(Alignment::VECTOR_LOAD.align_up(17), Some(32));
/// assert_eq!(Alignment::VECTOR_LOAD.padding_for(17), 15);
/// assert!(Alignment::VECTOR_LOAD.is_aligned(48));
/// assert_eq!(Alignment::new(24), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Alignment(NonZeroU64);

impl Alignment {
    /// 1: every address.
    pub const BYTE: Self = Self::literal(1);
    /// 16: the widest load of one thread (`ld.global.v4.b32`), and the least alignment that CUTLASS gives a workspace
    /// (`MinWorkspaceAlignment`). What a column has when nothing else is said.
    pub const VECTOR_LOAD: Self = Self::literal(16);
    /// 64: what Hopper's grouped GEMM needs of the workspace that holds its TMA descriptors (NVIDIA/cutlass issue 2042);
    /// also the size of a `CUtensorMap`'s alignment before CUDA 13.
    pub const GROUPED_TMA: Self = Self::literal(64);
    /// 128: the alignment of a `CUtensorMap` since CUDA 13.
    pub const TENSOR_MAP: Self = Self::literal(128);
    /// 256: the least alignment of an address that the driver's allocator returns (CUDA C++ Programming Guide, "Device
    /// Memory Accesses").
    pub const ALLOCATION: Self = Self::literal(256);

    /// The alignment of `bytes`, or `None` where `bytes` is no power of two.
    #[inline]
    #[must_use]
    pub const fn new(bytes: u64) -> Option<Self> {
        match NonZeroU64::new(bytes) {
            Some(bytes) if bytes.is_power_of_two() => Some(Self(bytes)),
            _ => None,
        }
    }

    /// For constants: a value that is no power of two does not compile in a `const`.
    #[inline]
    const fn literal(bytes: u64) -> Self {
        match Self::new(bytes) {
            Some(alignment) => alignment,
            None => panic!("an alignment is a power of two"),
        }
    }

    /// The alignment of `T` on the host, which is its alignment on the device too: CUDA's compilers follow the host's ABI.
    #[inline]
    #[must_use]
    pub const fn of<T>() -> Self {
        // usize is at most 64 bits wide on every target of Rust.
        Self::literal(align_of::<T>() as u64)
    }

    /// In bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0.get()
    }

    /// The larger of the two, which satisfies both.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.bytes() >= other.bytes() { self } else { other }
    }

    /// The least multiple at or after `offset`, or `None` where that passes `u64::MAX`.
    #[inline]
    #[must_use]
    pub const fn align_up(self, offset: u64) -> Option<u64> {
        offset.checked_add(self.padding_for(offset))
    }

    /// The bytes from `offset` to the least multiple at or after it.
    #[inline]
    #[must_use]
    pub const fn padding_for(self, offset: u64) -> u64 {
        offset.wrapping_neg() & (self.bytes() - 1)
    }

    /// Whether `address` (or an offset) is a multiple.
    #[inline]
    #[must_use]
    pub const fn is_aligned(self, address: u64) -> bool {
        self.padding_for(address) == 0
    }

    /// An error with both alignments where `address` is no multiple.
    pub(crate) fn check(self, address: u64) -> Result<(), Error> {
        if self.is_aligned(address) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Misaligned { needed: self.bytes(), found: Self::of_address(address).bytes() }))
    }

    /// The largest alignment that `address` has; 2^63 for 0.
    #[inline]
    #[must_use]
    pub const fn of_address(address: u64) -> Self {
        match NonZeroU64::new(address & address.wrapping_neg()) {
            Some(lowest_bit) => Self(lowest_bit),
            None => Self::literal(1 << 63),
        }
    }
}

impl TryFrom<u64> for Alignment {
    type Error = Error;

    fn try_from(bytes: u64) -> Result<Self, Error> {
        Self::new(bytes).ok_or_else(|| Error::new(ErrorKind::NotAnAlignment { bytes }))
    }
}

impl fmt::Debug for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alignment({})", self.bytes())
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn align_up_keeps_what_is_aligned_and_adds_no_whole_unit() {
        let sixteen = Alignment::VECTOR_LOAD;
        let up: Vec<_> = [0, 1, 15, 16, 17, 32].map(|x| sixteen.align_up(x)).into();
        assert_eq!(up, [Some(0), Some(16), Some(16), Some(16), Some(32), Some(32)]);
    }

    #[test]
    fn align_up_reports_what_passes_the_last_address() {
        assert_eq!(Alignment::VECTOR_LOAD.align_up(u64::MAX), None);
        assert_eq!(Alignment::VECTOR_LOAD.align_up(u64::MAX - 15), Some(u64::MAX - 15));
        assert_eq!(Alignment::BYTE.align_up(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn only_powers_of_two_are_alignments() {
        for bytes in [0, 3, 24, 12, u64::MAX] {
            assert_eq!(Alignment::new(bytes), None);
            let message = Alignment::try_from(bytes).unwrap_err().to_string();
            assert!(message.contains(&bytes.to_string()), "{message}");
        }
        for shift in 0..64 {
            assert_eq!(Alignment::new(1 << shift).map(Alignment::bytes), Some(1 << shift));
        }
    }

    #[test]
    fn the_alignment_of_an_address_is_its_lowest_set_bit() {
        assert_eq!(Alignment::of_address(520).bytes(), 8);
        assert_eq!(Alignment::of_address(512).bytes(), 512);
        assert_eq!(Alignment::of_address(1).bytes(), 1);
    }
}
