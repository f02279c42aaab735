//! CUDA's vector types with the alignment that the device gives them, for elements that kernels load at once.
//!
//! `[f32; 4]` has the size of a `float4`, but the alignment of a `float`: as a field of a struct it may stand where a `float4`
//! may not. These types have both, after the table of the CUDA C++ Programming Guide ("Built-in Vector Types"). Vectors of one
//! and of three lanes are aligned as their lanes are: for them take the lane's type and an array of three. What was `double4` up to
//! CUDA 12 is `double4_16a` from CUDA 13 on, and so are `longlong4` and `ulonglong4`: the alignment is the same.
//!
//! ```
//! use marshal::vector::Float4;
//! use marshal::{DeviceArgs, host::HostDevice};
//!
//! #[derive(DeviceArgs)]
//! struct Spheres { spheres: Vec<Float4> }
//!
//! let stream = HostDevice::new().stream();
//! let dev = Spheres { spheres: vec![Float4 { x: 1.0, y: 2.0, z: 3.0, w: 0.5 }; 2] }.upload(&stream)?;
//! assert_eq!(<[f32; 4]>::from(dev.fetch(&dev.spheres)?[1]), [1.0, 2.0, 3.0, 0.5]);
//! # Ok::<(), marshal::Error>(())
//! ```

use bytemuck::{Pod, Zeroable};

macro_rules! vectors {
    ($($name:ident, $cuda:literal: [$lane:ty; $lanes:literal] of $($field:ident)*, align $alignment:literal;)*) => {$(
        #[doc = concat!("`", $cuda, "`, aligned to ", $alignment, " bytes.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        #[repr(C, align($alignment))]
        #[allow(clippy::derive_partial_eq_without_eq, reason = "some lanes are floats")]
        pub struct $name {
            $(
                #[doc = concat!("Lane ", stringify!($field), ".")]
                pub $field: $lane,
            )*
        }

        const _: () = assert!(size_of::<$name>() == size_of::<[$lane; $lanes]>() && align_of::<$name>() == $alignment);

        impl From<[$lane; $lanes]> for $name {
            fn from([$($field),*]: [$lane; $lanes]) -> Self {
                Self { $($field),* }
            }
        }

        impl From<$name> for [$lane; $lanes] {
            fn from($name { $($field),* }: $name) -> Self {
                [$($field),*]
            }
        }
    )*};
}

vectors! {
    Char2, "char2": [i8; 2] of x y, align 2;
    Char4, "char4": [i8; 4] of x y z w, align 4;
    UChar2, "uchar2": [u8; 2] of x y, align 2;
    UChar4, "uchar4": [u8; 4] of x y z w, align 4;
    Short2, "short2": [i16; 2] of x y, align 4;
    Short4, "short4": [i16; 4] of x y z w, align 8;
    UShort2, "ushort2": [u16; 2] of x y, align 4;
    UShort4, "ushort4": [u16; 4] of x y z w, align 8;
    Int2, "int2": [i32; 2] of x y, align 8;
    Int4, "int4": [i32; 4] of x y z w, align 16;
    UInt2, "uint2": [u32; 2] of x y, align 8;
    UInt4, "uint4": [u32; 4] of x y z w, align 16;
    LongLong2, "longlong2": [i64; 2] of x y, align 16;
    LongLong4, "longlong4": [i64; 4] of x y z w, align 16;
    ULongLong2, "ulonglong2": [u64; 2] of x y, align 16;
    ULongLong4, "ulonglong4": [u64; 4] of x y z w, align 16;
    Float2, "float2": [f32; 2] of x y, align 8;
    Float4, "float4": [f32; 4] of x y z w, align 16;
    Double2, "double2": [f64; 2] of x y, align 16;
    Double4, "double4": [f64; 4] of x y z w, align 16;
}

#[cfg(feature = "half")]
vectors! {
    Half2, "__half2": [half::f16; 2] of x y, align 4;
    Bfloat162, "__nv_bfloat162": [half::bf16; 2] of x y, align 4;
}

// The vectors of three lanes.
const _: () = assert!(align_of::<[i8; 3]>() == 1 && align_of::<[i16; 3]>() == 2 && align_of::<[i32; 3]>() == 4);
const _: () = assert!(align_of::<[i64; 3]>() == 8 && align_of::<[f32; 3]>() == 4 && align_of::<[f64; 3]>() == 8);
