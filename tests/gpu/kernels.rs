//! What a kernel reads: the device compiler's layout beside Rust's, wide loads, and columns as `T*`.

use core::mem::offset_of;

use bytemuck::{Pod, Zeroable};
use cudarc::driver::PushKernelArg;
use marshal::{DeviceArgs, DevicePointer, Ragged, vector};

use super::Test;
use super::device::{Gpu, one_thread};

pub(crate) const ALL: &[Test] = &[
    ("pairs_behind_a_small_column_load_as_128_bits", pairs_behind_a_small_column_load_as_128_bits),
    ("both_compilers_lay_out_a_mixed_struct_alike", both_compilers_lay_out_a_mixed_struct_alike),
    ("a_padded_struct_is_read_at_its_padded_offset", a_padded_struct_is_read_at_its_padded_offset),
    ("over_aligned_columns_are_aligned", over_aligned_columns_are_aligned),
    ("a_kernel_follows_a_column_of_pointers", a_kernel_follows_a_column_of_pointers),
    ("a_kernel_follows_the_rows_of_a_ragged_column", a_kernel_follows_the_rows_of_a_ragged_column),
    ("both_compilers_lay_out_vectors_alike", both_compilers_lay_out_vectors_alike),
];

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct Pair(u64, u64);

#[derive(DeviceArgs)]
struct Pairs {
    small: [u32; 1],
    pairs: Vec<Pair>,
}

fn pairs_behind_a_small_column_load_as_128_bits(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let pairs: Vec<Pair> = (0..100).map(|i| Pair(i, u64::MAX - i)).collect();
    let expected: Vec<u64> = pairs.iter().flat_map(|pair| [pair.0, pair.1]).collect();
    let dev = Pairs { small: [7], pairs }.upload(&stream).unwrap();
    assert_eq!(dev.pairs.pointer().address() % 16, 0);
    let mut out = stream.alloc_zeros::<u64>(200).unwrap();
    let (function, len) = (gpu.function("load_pairs"), 100_u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.pairs).arg(&len).arg(&mut out);
    // SAFETY: the kernel takes `const ulonglong2*`, `unsigned` and `u64*`, and writes twice `len` words.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct Float4([f32; 4]);

/// `struct Particle` of kernels.cu, with its padding spelled out.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    velocity: [f32; 3],
    force: [f32; 3],
    padding0: [u8; 12],
    color: Float4,
    trail: Option<DevicePointer<f32>>,
    kind: i32,
    padding1: [u8; 4],
    next: Option<DevicePointer<f32>>,
    previous: Option<DevicePointer<f32>>,
    flags: i32,
    padding2: [u8; 12],
}

#[derive(DeviceArgs)]
struct Particles {
    small: [u8; 1],
    particles: Vec<Particle>,
}

fn both_compilers_lay_out_a_mixed_struct_alike(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let last = Particle {
        position: [1.0, 2.0, 3.0],
        force: [4.0, 5.0, 6.0],
        color: Float4([7.0, 8.0, 9.0, 10.0]),
        trail: DevicePointer::from_raw(0x1000),
        kind: -11,
        previous: DevicePointer::from_raw(0x2000),
        flags: 12,
        ..Particle::zeroed()
    };
    let dev = Particles { small: [1], particles: vec![Particle::zeroed(), Particle::zeroed(), last] }
        .upload(&stream)
        .unwrap();
    let mut offsets = stream.alloc_zeros::<u64>(11).unwrap();
    let mut values = stream.alloc_zeros::<f64>(7).unwrap();
    let (function, len) = (gpu.function("describe_particles"), 3_u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.particles).arg(&len).arg(&mut offsets).arg(&mut values);
    // SAFETY: the kernel takes `const Particle*`, `unsigned`, `u64*` and `double*`, and writes 11 and 7 words.
    unsafe { launch.launch(one_thread()) }.unwrap();

    let rust = [
        offset_of!(Particle, position),
        offset_of!(Particle, velocity),
        offset_of!(Particle, force),
        offset_of!(Particle, color),
        offset_of!(Particle, trail),
        offset_of!(Particle, kind),
        offset_of!(Particle, next),
        offset_of!(Particle, previous),
        offset_of!(Particle, flags),
        size_of::<Particle>(),
        align_of::<Particle>(),
    ];
    let device: Vec<usize> =
        stream.clone_dtoh(&offsets).unwrap().into_iter().map(|offset| usize::try_from(offset).unwrap()).collect();
    assert_eq!(device, rust);
    assert_eq!(device[9..], [112, 16]);
    assert_eq!(stream.clone_dtoh(&values).unwrap(), [3.0, 4.0, 10.0, 4096.0, -11.0, 8192.0, 12.0]);
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Tagged {
    tag: u8,
    padding: [u8; 7],
    value: u64,
}

#[derive(DeviceArgs)]
struct TaggedArgs {
    small: [u8; 1],
    tagged: Vec<Tagged>,
}

fn a_padded_struct_is_read_at_its_padded_offset(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let tagged = (1..=3).map(|i| Tagged { tag: i, padding: [0; 7], value: u64::from(i) << 40 }).collect();
    let dev = TaggedArgs { small: [9], tagged }.upload(&stream).unwrap();
    let mut out = stream.alloc_zeros::<u64>(6).unwrap();
    let (function, len) = (gpu.function("read_tagged"), 3_u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.tagged).arg(&len).arg(&mut out);
    // SAFETY: the kernel takes `const Tagged*`, `unsigned` and `u64*`, and writes twice `len` words.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), [1, 1 << 40, 2, 2 << 40, 3, 3 << 40]);
}

#[derive(DeviceArgs)]
struct OverAligned {
    first: [u8; 1],
    #[device(align = 512)]
    wide: [u32; 3],
    #[device(align = 4096)]
    page: [u64; 2],
}

fn over_aligned_columns_are_aligned(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let sets: Vec<_> = (0..20)
            .map(|_| OverAligned { first: [1], wide: [2, 3, 4], page: [5, 6] }.upload(&stream).unwrap())
            .collect();
        for dev in &sets {
            assert_eq!(dev.base().address() % 4096, 0, "{name}");
            assert_eq!(dev.wide.pointer().address() % 512, 0, "{name}");
            assert_eq!(dev.page.pointer().address() % 4096, 0, "{name}");
            assert_eq!(dev.read_back().unwrap()[4096..4104], 5_u64.to_le_bytes(), "{name}");
        }
    }
}

#[derive(DeviceArgs)]
struct Rows {
    rows: Vec<Option<DevicePointer<i32>>>,
    lens: Vec<u32>,
}

fn a_kernel_follows_a_column_of_pointers(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let values = stream.clone_htod(&[1, 2, 3, 40, 50, -600]).unwrap();
    let first = marshal::cuda::pointer_to(&values, &stream).unwrap();
    let args =
        Rows { rows: vec![Some(first), None, first.checked_add(3), first.checked_add(5)], lens: vec![3, 0, 2, 1] };
    let dev = args.upload(&stream).unwrap();
    let mut sums = stream.alloc_zeros::<i64>(4).unwrap();
    let function = gpu.function("sum_rows");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.rows).arg(&dev.lens).arg(&mut sums);
    // SAFETY: the kernel takes `const int* const*`, a column of u32 by value and `long long*`; rows and lengths fit together,
    // and `sums` has one element for each.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&sums).unwrap(), [6, 0, 90, -600]);
}

#[derive(DeviceArgs)]
struct RaggedRows {
    rows: Ragged<i32>,
    lens: Vec<u32>,
}

fn a_kernel_follows_the_rows_of_a_ragged_column(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let rows = Ragged::from_rows([&[1, 2, 3][..], &[], &[40, 50], &[-600]]).unwrap();
    let dev = RaggedRows { rows, lens: vec![3, 0, 2, 1] }.upload(&stream).unwrap();
    let mut sums = stream.alloc_zeros::<i64>(4).unwrap();
    let function = gpu.function("sum_rows");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.rows.rows).arg(&dev.lens).arg(&mut sums);
    // SAFETY: as in the test above.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&sums).unwrap(), [6, 0, 90, -600]);
}

/// Size and alignment.
fn describe<T>() -> [u32; 2] {
    [size_of::<T>(), align_of::<T>()].map(|number| number.try_into().unwrap())
}

fn both_compilers_lay_out_vectors_alike(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let mut out = stream.alloc_zeros::<u32>(60).unwrap();
    let function = gpu.function("describe_vectors");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // SAFETY: the kernel takes `unsigned*` and writes 60 of them.
    unsafe { launch.launch(one_thread()) }.unwrap();
    let ours = [
        [describe::<vector::Char2>(), describe::<[i8; 3]>(), describe::<vector::Char4>()],
        [describe::<vector::UChar2>(), describe::<[u8; 3]>(), describe::<vector::UChar4>()],
        [describe::<vector::Short2>(), describe::<[i16; 3]>(), describe::<vector::Short4>()],
        [describe::<vector::UShort2>(), describe::<[u16; 3]>(), describe::<vector::UShort4>()],
        [describe::<vector::Int2>(), describe::<[i32; 3]>(), describe::<vector::Int4>()],
        [describe::<vector::UInt2>(), describe::<[u32; 3]>(), describe::<vector::UInt4>()],
        [describe::<vector::LongLong2>(), describe::<[i64; 3]>(), describe::<vector::LongLong4>()],
        [describe::<vector::ULongLong2>(), describe::<[u64; 3]>(), describe::<vector::ULongLong4>()],
        [describe::<vector::Float2>(), describe::<[f32; 3]>(), describe::<vector::Float4>()],
        [describe::<vector::Double2>(), describe::<[f64; 3]>(), describe::<vector::Double4>()],
    ];
    assert_eq!(stream.clone_dtoh(&out).unwrap(), ours.as_flattened().as_flattened());
}
