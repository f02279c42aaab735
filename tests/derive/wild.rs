//! Structs that other crates define, as elements: as they are where they are plain data to `bytemuck`, mirrored where they are not.

use cudarc::driver::sys;
use euclid::{Point2D, Rect, Size3D, UnknownUnit, Vector3D};
use half::{bf16, f16};
use num_complex::Complex;
use rgb::{Bgr, Bgra, Gray, Rgb, Rgba};

use crate::*;

/// A unit of length, which has no bytes and stands behind none.
struct Metre;

/// As cudarc's, whose pointers are the host's: here they are the device's.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct LaunchParams {
    function: u64,
    grid_dim: [u32; 3],
    block_dim: [u32; 3],
    shared_mem_bytes: u32,
    _padding: u32,
    stream: u64,
    kernel_params: Option<DevicePointer<Option<DevicePointer<u8>>>>,
}

/// As cudarc's, whose `usize` are 64 bits on the device.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct AccessPolicyWindow {
    base: Option<DevicePointer<()>>,
    num_bytes: u64,
    hit_ratio: f32,
    hit_property: i32,
    miss_property: i32,
    _padding: u32,
}

/// As cudarc's descriptor for the tensor memory accelerator: aligned to 64 before CUDA 13, to 128 since.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C, align(128))]
struct TensorMap([u64; 16]);

#[derive(Clone, Copy, Default, NoUninit)]
#[repr(transparent)]
struct Uuid([u8; 16]);

const _: () = assert!(size_of::<LaunchParams>() == size_of::<sys::CUDA_LAUNCH_PARAMS_st>());
const _: () = assert!(size_of::<AccessPolicyWindow>() == size_of::<sys::CUaccessPolicyWindow_st>());
const _: () = assert!(size_of::<TensorMap>() == size_of::<sys::CUtensorMap_st>());
const _: () = assert!(size_of::<Uuid>() == size_of::<sys::CUuuid_st>());

macro_rules! wild {
    ($($name:ident: $element:ty, $size:literal, $align:literal;)*) => {
        #[derive(DeviceArgs)]
        struct Columns<'a> { $($name: &'a [$element]),* }

        #[derive(Clone, Copy, DeviceArgs)]
        #[device(row, align = 1)]
        struct Row { $($name: $element),* }

        /// Name, size and alignment, written by hand.
        const EXPECTED: &[(&str, u64, u64)] = &[$((stringify!($name), $size, $align)),*];

        fn row() -> Row {
            Row { $($name: <$element>::default()),* }
        }

        fn with_columns<R>(see: impl FnOnce(&Columns<'_>) -> R) -> R {
            let row = row();
            see(&Columns { $($name: &[row.$name; 3]),* })
        }
    };
}

wild! {
    vec2: glam::Vec2, 8, 4;
    vec3: glam::Vec3, 12, 4;
    vec4: glam::Vec4, 16, 16;
    quat: glam::Quat, 16, 16;
    mat3: glam::Mat3, 36, 4;
    mat4: glam::Mat4, 64, 16;
    dvec2: glam::DVec2, 16, 8;
    dvec3: glam::DVec3, 24, 8;
    dquat: glam::DQuat, 32, 8;
    dmat4: glam::DMat4, 128, 8;
    ivec3: glam::IVec3, 12, 4;
    uvec4: glam::UVec4, 16, 4;
    i64vec2: glam::I64Vec2, 16, 8;
    u16vec3: glam::U16Vec3, 6, 2;
    half: f16, 2, 2;
    brain: bf16, 2, 2;
    halves: [f16; 2], 4, 2;
    rgb: Rgb<u8>, 3, 1;
    rgba: Rgba<f32>, 16, 4;
    bgr: Bgr<u16>, 6, 2;
    bgra: Bgra<u8>, 4, 1;
    gray: Gray<f64>, 8, 8;
    point: Point2D<f32, Metre>, 8, 4;
    vector: Vector3D<f64, Metre>, 24, 8;
    extent: Size3D<u32, UnknownUnit>, 12, 4;
    rect: Rect<i32, UnknownUnit>, 16, 4;
    complex: Complex<f32>, 8, 4;
    complex64: Complex<f64>, 16, 8;
    launch: LaunchParams, 56, 8;
    window: AccessPolicyWindow, 32, 8;
    map: TensorMap, 128, 128;
    uuid: Uuid, 16, 1;
}

#[test]
fn structs_of_other_crates_are_elements_of_columns_and_of_rows() {
    let layout = with_columns(|args| args.layout().unwrap());
    let of_rows = [row(); 3].layout().unwrap();
    assert_eq!((layout.columns().len(), of_rows.columns().len(), EXPECTED.len()), (32, 32, 32));
    for (column, (of_row, &(name, size, align))) in layout.columns().iter().zip(of_rows.columns().iter().zip(EXPECTED))
    {
        assert_eq!((column.name, column.element_bytes, column.alignment, column.len), (name, size, align.max(16), 3));
        assert_eq!((of_row.name, of_row.element_bytes, of_row.alignment, of_row.len), (name, size, align, 3));
    }
}

#[test]
fn what_stands_on_the_device_is_what_stood_in_the_struct() {
    let (columns, rows) = with_columns(|args| {
        let dev = args.upload(&HostDevice::new().stream()).unwrap();
        let bytes = dev.read_back().unwrap();
        let at = |column: &marshal::ColumnLayout| {
            let start = usize::try_from(column.offset).unwrap();
            bytes[start..][..usize::try_from(column.size_bytes).unwrap()].to_vec()
        };
        let layout = dev.layout();
        (at(layout.column("mat4").unwrap()), at(layout.column("quat").unwrap()))
    });
    let identity: Vec<u8> = glam::Mat4::IDENTITY.to_cols_array().iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(columns, identity.repeat(3));
    let upright: Vec<u8> = [0.0_f32, 0.0, 0.0, 1.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(rows, upright.repeat(3));
}

#[test]
fn each_of_them_has_a_place_in_the_header() {
    let header = marshal::cuda_header::<Columns<'_>>();
    for &(name, size, align) in EXPECTED {
        assert!(header.contains(&format!("> {name};\n")), "{name}");
        let asserted = format!(") == {size} && alignof(");
        assert!(header.contains(&asserted) && header.contains(&format!("aligned to {align}\"")), "{name}");
    }
    assert!(header.contains("struct alignas(16) Mat4 { unsigned char bytes[64]; };"), "{header}");
}
