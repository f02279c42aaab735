//! Element types beyond the integers and floats of Rust, whichever backend they travel over.

use bytemuck::CheckedBitPattern;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use marshal::vector::{
    Char2, Char4, Double2, Double4, Float2, Float4, Int2, Int4, LongLong2, LongLong4, Short2, Short4, UChar2, UChar4,
    UInt2, UInt4, ULongLong2, ULongLong4, UShort2, UShort4,
};
use marshal::{Column, ColumnSpec, DeviceArgs, DeviceColumn, Element, Error, Visitor};

use super::{Case, Rig};

/// Every case.
pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("small_floats_travel_as_their_bits", small_floats_travel_as_their_bits),
        ("vectors_have_the_size_and_alignment_of_the_device", vectors_have_the_size_and_alignment_of_the_device),
        ("vectors_keep_their_alignment_inside_of_a_struct", vectors_keep_their_alignment_inside_of_a_struct),
        ("wide_integers_are_aligned_to_their_size", wide_integers_are_aligned_to_their_size),
    ]
}

#[derive(DeviceArgs)]
struct SmallFloats {
    half: Vec<f16>,
    brain: Vec<bf16>,
    e4m3: Vec<F8E4M3>,
    e5m2: Vec<F8E5M2>,
}

fn small_floats_travel_as_their_bits<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let args = SmallFloats {
        half: vec![f16::from_f32(1.0), f16::from_f32(-2.0)],
        brain: vec![bf16::from_f32(1.0), bf16::from_f32(-2.0)],
        e4m3: vec![F8E4M3::from_f32(1.0), F8E4M3::from_f32(-2.0)],
        e5m2: vec![F8E5M2::from_f32(1.0), F8E5M2::from_f32(-2.0)],
    };
    let dev = args.upload(&stream).unwrap();
    let strides: Vec<_> = dev.layout().columns().iter().map(|column| column.element_bytes).collect();
    assert_eq!(strides, [2, 2, 1, 1]);
    let image = rig.read_device(&stream, dev.base(), 64);
    // Sign, exponent and mantissa as the device has them.
    assert_eq!(image[..4], [0x00, 0x3c, 0x00, 0xc0]);
    assert_eq!(image[16..20], [0x80, 0x3f, 0x00, 0xc0]);
    assert_eq!(image[32..34], [0x38, 0xc0]);
    assert_eq!(image[48..50], [0x3c, 0xc0]);
    assert_eq!((dev.fetch(&dev.half).unwrap(), dev.fetch(&dev.e4m3).unwrap()), (args.half, args.e4m3));
}

/// A byte, and the column behind it at the least alignment that its element has.
struct Behind<'a, T>(&'a [T]);

impl<T: Element> DeviceArgs for Behind<'_, T> {
    type Pointers = DeviceColumn<T>;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<DeviceColumn<T>, Error> {
        let bytes = |name| ColumnSpec::new(name).with_alignment(marshal::Alignment::BYTE);
        visitor.column(bytes("byte"), &[1_u8])?;
        self.0.visit(bytes("elements"), visitor)
    }
}

/// The column stands at `alignment` behind the byte, `size` bytes an element, and comes back as it was sent.
fn check<R: Rig, T: Element + CheckedBitPattern + PartialEq>(rig: &R, alignment: u64, size: u64, elements: &[T]) {
    let name = std::any::type_name::<T>();
    let dev = Behind(elements).upload(&rig.stream()).unwrap();
    let layout = dev.layout();
    let column = layout.column("elements").unwrap();
    assert_eq!((column.offset, column.alignment, column.element_bytes), (alignment, alignment, size), "{name}");
    assert_eq!(dev.pointer().address() % alignment, 0, "{name}");
    assert!(dev.fetch(&dev).unwrap() == elements, "{name}");
}

fn vectors_have_the_size_and_alignment_of_the_device<R: Rig>(rig: &R) {
    check(rig, 2, 2, &[Char2 { x: -1, y: 2 }; 3]);
    check(rig, 4, 4, &[Char4 { x: -1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 2, 2, &[UChar2 { x: 1, y: 2 }; 3]);
    check(rig, 4, 4, &[UChar4 { x: 1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 4, 4, &[Short2 { x: -1, y: 2 }; 3]);
    check(rig, 8, 8, &[Short4 { x: -1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 4, 4, &[UShort2 { x: 1, y: 2 }; 3]);
    check(rig, 8, 8, &[UShort4 { x: 1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 8, 8, &[Int2 { x: -1, y: 2 }; 3]);
    check(rig, 16, 16, &[Int4 { x: -1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 8, 8, &[UInt2 { x: 1, y: 2 }; 3]);
    check(rig, 16, 16, &[UInt4 { x: 1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 16, 16, &[LongLong2 { x: -1, y: 2 }; 3]);
    check(rig, 16, 32, &[LongLong4 { x: -1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 16, 16, &[ULongLong2 { x: 1, y: 2 }; 3]);
    check(rig, 16, 32, &[ULongLong4 { x: 1, y: 2, z: 3, w: 4 }; 3]);
    check(rig, 8, 8, &[Float2 { x: -1.0, y: 2.0 }; 3]);
    check(rig, 16, 16, &[Float4 { x: -1.0, y: 2.0, z: 3.0, w: 4.0 }; 3]);
    check(rig, 16, 16, &[Double2 { x: -1.0, y: 2.0 }; 3]);
    check(rig, 16, 32, &[Double4 { x: -1.0, y: 2.0, z: 3.0, w: 4.0 }; 3]);
    #[cfg(feature = "half")]
    {
        use marshal::vector::{Bfloat162, Half2};
        check(rig, 4, 4, &[Half2 { x: f16::from_f32(1.0), y: f16::from_f32(2.0) }; 3]);
        check(rig, 4, 4, &[Bfloat162 { x: bf16::from_f32(1.0), y: bf16::from_f32(2.0) }; 3]);
    }
    // Of three lanes: as the lane.
    check(rig, 1, 3, &[[1_i8; 3]; 3]);
    check(rig, 2, 6, &[[1_i16; 3]; 3]);
    check(rig, 4, 12, &[[1.0_f32; 3]; 3]);
    check(rig, 8, 24, &[[1.0_f64; 3]; 3]);
}

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Particle {
    id: u32,
    padding: [u32; 3],
    position: Float4,
}

fn vectors_keep_their_alignment_inside_of_a_struct<R: Rig>(rig: &R) {
    assert_eq!(std::mem::offset_of!(Particle, position), 16);
    let position = Float4::from([1.0, 2.0, 3.0, 4.0]);
    check(rig, 16, 32, &[Particle { id: 7, padding: [0; 3], position }; 2]);
    check(rig, 16, 48, &[[position; 3]; 2]);
}

#[derive(Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
struct Aligned32([u64; 4]);

#[derive(Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Complex {
    re: f64,
    im: f64,
}

fn wide_integers_are_aligned_to_their_size<R: Rig>(rig: &R) {
    check(rig, 16, 16, &[u128::MAX - 1, 2]);
    check(rig, 16, 16, &[i128::MIN, -2]);
    check(rig, 16, 64, &[[1_u128, 2, 3, u128::MAX]; 2]);
    check(rig, 32, 64, &[[Aligned32([1, 2, 3, 4]); 2]; 2]);
    // And not to more than their own, where the size is more.
    check(rig, 8, 16, &[Complex { re: 1.0, im: -1.0 }; 3]);
    check(rig, 8, 8, &[[1_i64; 1]; 3]);
    check(rig, 8, 16, &[[1_i64; 2]; 3]);
}
