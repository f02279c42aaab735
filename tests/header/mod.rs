//! A set with a column of every element type that has a name in C++, and a kernel that describes its pointer struct.

use core::mem::offset_of;
use core::num::{NonZeroI64, NonZeroU32};

use bytemuck::NoUninit;
#[cfg(feature = "float8")]
use float8::{F8E4M3, F8E5M2};
#[cfg(feature = "half")]
use half::{bf16, f16};
#[cfg(feature = "half")]
use marshal::vector::{Bfloat162, Half2};
use marshal::vector::{
    Char2, Char4, Double2, Double4, Float2, Float4, Int2, Int4, LongLong2, LongLong4, Short2, Short4, UChar2, UChar4,
    UInt2, UInt4, ULongLong2, ULongLong4, UShort2, UShort4,
};
use marshal::{DeviceArgs, DevicePointer};

/// No name in C++ but the one that its field gives.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
pub(crate) struct Coordinate {
    m: i32,
    n: i32,
    k: i32,
}

/// No name in C++, and aligned above what a parameter is.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C, align(64))]
pub(crate) struct Descriptor([u64; 8]);

#[derive(DeviceArgs)]
#[device(name = "Nested")]
pub(crate) struct Inner {
    pub(crate) values: Vec<u16>,
}

/// A row is a column. One with a feature is there where the feature is on.
macro_rules! every_element {
    ($($(#[$attribute:meta])* $name:ident: $element:ty = $value:expr, $cxx:literal $(, feature $feature:literal)?;)*) => {
        #[derive(DeviceArgs)]
        #[device(name = "EveryElement")]
        pub(crate) struct Every {
            $($(#[cfg(feature = $feature)])? $(#[$attribute])* pub(crate) $name: Vec<$element>,)*
            #[device(nested)]
            pub(crate) nested: Inner,
        }

        /// Column number i has i + 1 elements.
        pub(crate) fn every() -> Every {
            let mut len = 0;
            $(
                $(#[cfg(feature = $feature)])?
                let $name: Vec<$element> = { len += 1; vec![$value; len] };
            )*
            Every { $($(#[cfg(feature = $feature)])? $name,)* nested: Inner { values: vec![7; 3] } }
        }

        /// What `describe` is to write: of the struct its size and alignment, of each column its offset, the element's size and the length;
        /// and the last element.
        pub(crate) fn description() -> Vec<u64> {
            let mut described = vec![size_of::<EveryPointers>(), align_of::<EveryPointers>()];
            let mut len = 0;
            $(
                $(#[cfg(feature = $feature)])?
                described.extend([offset_of!(EveryPointers, $name), size_of::<$element>(), { len += 1; len }]);
            )*
            described.extend([offset_of!(EveryPointers, nested), 2, 3, 7]);
            described.into_iter().map(|number| u64::try_from(number).unwrap()).collect()
        }

        /// Each column and its element in C++, as a person would write it.
        const COLUMNS: &[(&str, &str)] = &[$($(#[cfg(feature = $feature)])? (stringify!($name), $cxx)),*];
    };
}

every_element! {
    u8s: u8 = 1, "unsigned char";
    i8s: i8 = 1, "signed char";
    u16s: u16 = 1, "unsigned short";
    i16s: i16 = 1, "short";
    u32s: u32 = 1, "unsigned int";
    i32s: i32 = 1, "int";
    u64s: u64 = 1, "unsigned long long";
    i64s: i64 = 1, "long long";
    u128s: u128 = 1, "marshal::uint128";
    i128s: i128 = 1, "marshal::int128";
    f32s: f32 = 1.0, "float";
    f64s: f64 = 1.0, "double";
    bools: bool = true, "bool";
    chars: char = 'x', "char32_t";
    non_zeros: NonZeroU32 = NonZeroU32::MIN, "unsigned int";
    maybe_zeros: Option<NonZeroI64> = None, "long long";
    pointers: DevicePointer<f32> = DevicePointer::from_raw(64).unwrap(), "float*";
    nullable: Option<DevicePointer<u8>> = None, "unsigned char*";
    tables: DevicePointer<Option<DevicePointer<f64>>> = DevicePointer::from_raw(64).unwrap(), "double**";
    untyped: DevicePointer<()> = DevicePointer::from_raw(64).unwrap(), "void*";
    to_opaque: DevicePointer<Coordinate> = DevicePointer::from_raw(64).unwrap(), "void*";
    triples: [f32; 3] = [1.0; 3], "float[3]";
    matrices: [[f64; 3]; 3] = [[1.0; 3]; 3], "double[3][3]";
    pairs: [Option<DevicePointer<i32>>; 2] = [None; 2], "int*[2]";
    descriptors: Descriptor = Descriptor::default(), "marshal::opaque::Descriptor";
    #[device(c_type = "Coord")]
    coordinates: Coordinate = Coordinate::default(), "Coord";
    char2s: Char2 = Char2::default(), "char2";
    char4s: Char4 = Char4::default(), "char4";
    uchar2s: UChar2 = UChar2::default(), "uchar2";
    uchar4s: UChar4 = UChar4::default(), "uchar4";
    short2s: Short2 = Short2::default(), "short2";
    short4s: Short4 = Short4::default(), "short4";
    ushort2s: UShort2 = UShort2::default(), "ushort2";
    ushort4s: UShort4 = UShort4::default(), "ushort4";
    int2s: Int2 = Int2::default(), "int2";
    int4s: Int4 = Int4::default(), "int4";
    uint2s: UInt2 = UInt2::default(), "uint2";
    uint4s: UInt4 = UInt4::default(), "uint4";
    longlong2s: LongLong2 = LongLong2::default(), "longlong2";
    longlong4s: LongLong4 = LongLong4 { x: 1, y: 2, z: 3, w: -4 }, "marshal::longlong4";
    ulonglong2s: ULongLong2 = ULongLong2::default(), "ulonglong2";
    ulonglong4s: ULongLong4 = ULongLong4 { x: 1, y: 2, z: 3, w: 5 }, "marshal::ulonglong4";
    float2s: Float2 = Float2::default(), "float2";
    float4s: Float4 = Float4::default(), "float4";
    double2s: Double2 = Double2::default(), "double2";
    double4s: Double4 = Double4 { x: 1.0, y: 2.0, z: 3.0, w: 6.5 }, "marshal::double4";
    double4_pointers: DevicePointer<Double4> = DevicePointer::from_raw(64).unwrap(), "marshal::double4*";
    halves: f16 = f16::from_f32(1.5), "__half", feature "half";
    half2s: Half2 = Half2 { x: f16::from_f32(-0.5), y: f16::from_f32(3.0) }, "__half2", feature "half";
    bfloats: bf16 = bf16::from_f32(-2.5), "__nv_bfloat16", feature "half";
    bfloat2s: Bfloat162 = Bfloat162 { x: bf16::from_f32(0.75), y: bf16::from_f32(-6.0) }, "__nv_bfloat162", feature "half";
    half_tables: [Option<DevicePointer<f16>>; 2] = [None; 2], "__half*[2]", feature "half";
    bfloat_triples: [bf16; 3] = [bf16::from_f32(1.0); 3], "__nv_bfloat16[3]", feature "half";
    e4m3s: F8E4M3 = F8E4M3::from_f32(1.75), "__nv_fp8_e4m3", feature "float8";
    e5m2s: F8E5M2 = F8E5M2::from_f32(-0.25), "__nv_fp8_e5m2", feature "float8";
    class: u32 = 1, "unsigned int";
}

/// The last element of columns whose types CUDA converts, as a kernel reads it, and the value.
const VALUES: &[(&str, f64)] = &[
    ("LAST(longlong4s).w", -4.0),
    ("LAST(ulonglong4s).w", 5.0),
    ("LAST(double4s).w", 6.5),
    #[cfg(feature = "half")]
    ("__half2float(LAST(halves))", 1.5),
    #[cfg(feature = "half")]
    ("__low2float(LAST(half2s))", -0.5),
    #[cfg(feature = "half")]
    ("__high2float(LAST(half2s))", 3.0),
    #[cfg(feature = "half")]
    ("__bfloat162float(LAST(bfloats))", -2.5),
    #[cfg(feature = "half")]
    ("__low2float(LAST(bfloat2s))", 0.75),
    #[cfg(feature = "half")]
    ("__high2float(LAST(bfloat2s))", -6.0),
    #[cfg(feature = "float8")]
    ("float(LAST(e4m3s))", 1.75),
    #[cfg(feature = "float8")]
    ("float(LAST(e5m2s))", -0.25),
];

/// What `values` is to write.
pub(crate) fn values() -> Vec<f64> {
    VALUES.iter().map(|&(_, value)| value).collect()
}

/// For the header's `#include`s, the folder of CUDA's headers, which the variable `CUDA_INCLUDE` names. The header of every element
/// includes none unless a feature of small floats is on.
pub(crate) fn include_paths() -> Result<Vec<String>, String> {
    match std::env::var("CUDA_INCLUDE") {
        Ok(folder) => Ok(vec![folder]),
        Err(_) if cfg!(not(any(feature = "half", feature = "float8"))) => Ok(Vec::new()),
        Err(error) => Err(format!("CUDA_INCLUDE, the folder of cuda_fp16.h and cuda_fp8.h: {error}")),
    }
}

/// Two kernels behind the header, which stands there twice: `describe(EveryElement set, u64* out)`, and
/// `values(EveryElement set, double* out)`.
pub(crate) fn source() -> String {
    let mut source = format!("struct Coord {{ int m, n, k; }};\n{0}{0}", marshal::cuda_header::<Every>());
    source.push_str(
        "template <class A, class B> struct Same { static const bool value = false; };\n\
         template <class A> struct Same<A, A> { static const bool value = true; };\n",
    );
    for (name, cxx) in COLUMNS {
        let name = member(name);
        source += &format!(
            "static_assert(Same<decltype(EveryElement::{name}), marshal::DeviceColumn<{cxx}> >::value, \"{name}\");\n"
        );
    }
    source += "extern \"C\" __global__ void describe(EveryElement set, unsigned long long* out) {\n\
               *out++ = sizeof(EveryElement);\n*out++ = alignof(EveryElement);\n";
    let columns = COLUMNS.iter().map(|(name, _)| (member(name), member(name)));
    for (name, column) in columns.chain([("nested".to_owned(), "nested.values".to_owned())]) {
        // Not `MARSHAL_OFFSETOF`, which the header has asserted: where the member of a real parameter stands.
        source += &format!(
            "*out++ = (char*)&set.{name} - (char*)&set;\n*out++ = sizeof(set.{column}[0]);\n*out++ = set.{column}.len;\n"
        );
    }
    source += "*out++ = set.nested.values[2];\n}\n\
               #define LAST(column) set.column[set.column.len - 1]\n\
               extern \"C\" __global__ void values(EveryElement set, double* out) {\n";
    for (value, _) in VALUES {
        source += &format!("*out++ = {value};\n");
    }
    source + "}\n"
}

fn member(name: &str) -> String {
    if name == "class" { "class_".to_owned() } else { name.to_owned() }
}
