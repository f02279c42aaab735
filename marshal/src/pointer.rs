//! Typed device addresses.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::num::NonZeroU64;

use bytemuck::{CheckedBitPattern, NoUninit, PodInOption, ZeroableInOption};

/// The address of a `T` in device memory; never null. `Option<DevicePointer<T>>` is the nullable pointer, 8 bytes too.
///
/// It is a number, as a pointer in CUDA C++ is: it owns nothing and keeps nothing alive. The pointers of a set stay valid as
/// long as its [`Uploaded`](crate::Uploaded) lives. It does not move memory by itself, and the host cannot read through it.
///
/// ```
/// use marshal::DevicePointer;
///
/// let weights = DevicePointer::<f32>::from_raw(0x7000_0000_0000).unwrap();
/// let second = weights.checked_add(1).unwrap();
/// assert_eq!(second.address(), 0x7000_0000_0004);
/// assert_eq!(DevicePointer::<f32>::from_raw(0), None);
/// assert_eq!(size_of::<Option<DevicePointer<f32>>>(), 8);
/// ```
#[repr(transparent)]
pub struct DevicePointer<T> {
    address: NonZeroU64,
    // `fn() -> T`: the pointer is Send and Sync whatever T is, and owns no T.
    pointee: PhantomData<fn() -> T>,
}

impl<T> DevicePointer<T> {
    /// The pointer to a device address, as a driver call or another library gives it; `None` for 0.
    #[inline]
    #[must_use]
    pub const fn from_raw(address: u64) -> Option<Self> {
        match NonZeroU64::new(address) {
            Some(address) => Some(Self { address, pointee: PhantomData }),
            None => None,
        }
    }

    /// The address, as kernels see it.
    #[inline]
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address.get()
    }

    /// The pointer `n` elements further on; `None` where that passes the last address.
    #[must_use]
    pub const fn checked_add(self, n: usize) -> Option<Self> {
        // usize is at most 64 bits wide on every target of Rust.
        match (n as u64).checked_mul(size_of::<T>() as u64) {
            Some(bytes) => match self.address.checked_add(bytes) {
                Some(address) => Some(Self { address, pointee: PhantomData }),
                None => None,
            },
            None => None,
        }
    }

    /// The same address with another pointee.
    #[inline]
    #[must_use]
    pub const fn cast<U>(self) -> DevicePointer<U> {
        DevicePointer { address: self.address, pointee: PhantomData }
    }
}

/// A column on the device: its first element's address and its length.
///
/// A kernel takes it as `T*` (the first 8 bytes), or by value as `struct { T* pointer; uint64_t len; }`.
///
/// ```
/// use marshal::{DeviceArgs, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Sizes { m: Vec<i32> }
///
/// let stream = HostDevice::new().stream();
/// let dev = Sizes { m: vec![3, 0, 5] }.upload(&stream)?;
/// assert_eq!(dev.m.len(), 3);
/// assert_eq!(dev.m.pointer().address(), dev.base().address());
/// # Ok::<(), marshal::Error>(())
/// ```
#[repr(C)]
pub struct DeviceColumn<T> {
    pointer: DevicePointer<T>,
    len: u64,
}

impl<T> DeviceColumn<T> {
    #[inline]
    pub(crate) const fn new(pointer: DevicePointer<T>, len: u64) -> Self {
        Self { pointer, len }
    }

    /// The first element. Of an empty column: an aligned address that is not null, and not to be read.
    #[inline]
    #[must_use]
    pub const fn pointer(self) -> DevicePointer<T> {
        self.pointer
    }

    /// Elements.
    #[must_use]
    pub fn len(self) -> usize {
        usize::try_from(self.len).expect("a column is measured from a slice, whose length is a usize")
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

const _: () = assert!(size_of::<DevicePointer<u8>>() == 8 && align_of::<DevicePointer<u8>>() == 8);
const _: () = assert!(size_of::<Option<DevicePointer<u8>>>() == 8);
const _: () = assert!(size_of::<DeviceColumn<u8>>() == 16 && core::mem::offset_of!(DeviceColumn<u8>, len) == 8);

// The derives would ask T for the same traits.
impl<T> Clone for DevicePointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DevicePointer<T> {}
impl<T> PartialEq for DevicePointer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}
impl<T> Eq for DevicePointer<T> {}
impl<T> PartialOrd for DevicePointer<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for DevicePointer<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.address.cmp(&other.address)
    }
}
impl<T> Hash for DevicePointer<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}
impl<T> fmt::Debug for DevicePointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}
impl<T> fmt::Pointer for DevicePointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

impl<T> Clone for DeviceColumn<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DeviceColumn<T> {}
impl<T> PartialEq for DeviceColumn<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.pointer, self.len) == (other.pointer, other.len)
    }
}
impl<T> Eq for DeviceColumn<T> {}
impl<T> fmt::Debug for DeviceColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} x {}", self.pointer, self.len)
    }
}

// SAFETY: repr(transparent) over NonZeroU64, which is inhabited, has no padding, no interior mutability and no
// uninitialised bytes; PhantomData adds none.
unsafe impl<T: 'static> NoUninit for DevicePointer<T> {}
// SAFETY: repr(transparent) over NonZeroU64, so `Option` of it has the size of u64 and all-zero bytes are `None`
// (std's documented guarantee for NonZero integers and transparent wrappers of them).
unsafe impl<T: 'static> ZeroableInOption for DevicePointer<T> {}
// SAFETY: as above; every bit pattern of the 8 bytes is either `None` or a valid non-zero address.
unsafe impl<T: 'static> PodInOption for DevicePointer<T> {}
// SAFETY: `Bits` is u64, of the same size and alignment as the transparent NonZeroU64; the only invalid pattern is 0, which
// `is_valid_bit_pattern` refuses.
unsafe impl<T: 'static> CheckedBitPattern for DevicePointer<T> {
    type Bits = u64;

    fn is_valid_bit_pattern(bits: &u64) -> bool {
        *bits != 0
    }
}
