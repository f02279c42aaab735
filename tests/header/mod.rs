//! A set with a column of every element type that has a name in C++, and a kernel that describes its pointer struct.

use core::mem::offset_of;
use core::num::{NonZeroI64, NonZeroU32};

use bytemuck::NoUninit;
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

macro_rules! every_element {
    ($($(#[$attribute:meta])* $name:ident: $element:ty = $value:expr, $cxx:literal;)*) => {
        #[derive(DeviceArgs)]
        #[device(name = "EveryElement")]
        pub(crate) struct Every {
            $($(#[$attribute])* pub(crate) $name: Vec<$element>,)*
            #[device(nested)]
            pub(crate) nested: Inner,
        }

        /// Column number i has i + 1 elements.
        pub(crate) fn every() -> Every {
            let mut len = 0;
            $(len += 1; let $name: Vec<$element> = vec![$value; len];)*
            Every { $($name,)* nested: Inner { values: vec![7; 3] } }
        }

        /// What `describe` is to write: of the struct its size and alignment, of each column its offset, the element's size and the length;
        /// and the last element.
        pub(crate) fn description() -> Vec<u64> {
            let mut described = vec![size_of::<EveryPointers>(), align_of::<EveryPointers>()];
            let mut len = 0;
            $(len += 1; described.extend([offset_of!(EveryPointers, $name), size_of::<$element>(), len]);)*
            described.extend([offset_of!(EveryPointers, nested), 2, 3, 7]);
            described.into_iter().map(|number| u64::try_from(number).unwrap()).collect()
        }

        /// Each column and its element in C++, as a person would write it.
        const COLUMNS: &[(&str, &str)] = &[$((stringify!($name), $cxx)),*];
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
    class: u32 = 1, "unsigned int";
}

/// A kernel `describe(EveryElement set, u64* out)` behind `#include "every.h"`, which it takes twice.
pub(crate) fn source() -> String {
    let mut source = String::from(
        "struct Coord { int m, n, k; };\n\
         #include \"every.h\"\n\
         #include \"every.h\"\n\
         template <class A, class B> struct Same { static const bool value = false; };\n\
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
    source + "*out++ = set.nested.values[2];\n}\n"
}

fn member(name: &str) -> String {
    if name == "class" { "class_".to_owned() } else { name.to_owned() }
}
