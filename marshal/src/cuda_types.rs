//! The elements that have a name in C++. One row a type in [`names`]; pointers to it and arrays of it follow.

use core::any::{TypeId, type_name};
use core::num::NonZero;

use bytemuck::{NoUninit, PodInOption, ZeroableInOption};

use crate::pointer::DevicePointer;
use crate::vector::{
    Char2, Char4, Double2, Double4, Float2, Float4, Int2, Int4, LongLong2, LongLong4, Short2, Short4, UChar2, UChar4,
    UInt2, UInt4, ULongLong2, ULongLong4, UShort2, UShort4,
};

/// A type of C++.
#[derive(Clone, Debug)]
pub(crate) struct CudaType {
    pub(crate) name: String,
    /// CUDA's header that declares it, empty for what the language has.
    pub(crate) include: &'static str,
}

/// What `T` is in C++, where this library knows. A pointer to what has no name is a `void*`.
pub(crate) fn find<T: 'static>() -> Option<CudaType> {
    let mut find = Find { wanted: TypeId::of::<T>(), found: None };
    names(&mut find);
    let is_pointer = [type_name::<DevicePointer<()>>(), type_name::<Option<DevicePointer<()>>>()]
        .iter()
        .any(|unit| unit.split_once("()").is_some_and(|(before, _)| type_name::<T>().starts_with(before)));
    find.found.or_else(|| is_pointer.then(|| CudaType { name: "void*".to_owned(), include: "" }))
}

/// Every element that has a name. 64-bit integers are `long long`, as CUDA's own are.
fn names(find: &mut Find) {
    find.integer::<u8>("unsigned char");
    find.integer::<i8>("signed char");
    find.integer::<u16>("unsigned short");
    find.integer::<i16>("short");
    find.integer::<u32>("unsigned int");
    find.integer::<i32>("int");
    find.integer::<u64>("unsigned long long");
    find.integer::<i64>("long long");
    find.integer::<u128>("marshal::uint128");
    find.integer::<i128>("marshal::int128");
    find.element::<f32>("float", "");
    find.element::<f64>("double", "");
    find.element::<bool>("bool", "");
    find.element::<char>("char32_t", "");
    vectors(find);
    #[cfg(feature = "half")]
    halves(find);
    #[cfg(feature = "float8")]
    quarters(find);
    // What stands behind a pointer need not be an element.
    find.pointers::<()>("void", "");
    find.pointers::<usize>("unsigned long long", "");
    find.pointers::<isize>("long long", "");
}

/// CUDA's vectors, which its compilers know without a header.
fn vectors(find: &mut Find) {
    find.element::<Char2>("char2", "");
    find.element::<Char4>("char4", "");
    find.element::<UChar2>("uchar2", "");
    find.element::<UChar4>("uchar4", "");
    find.element::<Short2>("short2", "");
    find.element::<Short4>("short4", "");
    find.element::<UShort2>("ushort2", "");
    find.element::<UShort4>("ushort4", "");
    find.element::<Int2>("int2", "");
    find.element::<Int4>("int4", "");
    find.element::<UInt2>("uint2", "");
    find.element::<UInt4>("uint4", "");
    find.element::<LongLong2>("longlong2", "");
    find.element::<ULongLong2>("ulonglong2", "");
    find.element::<Float2>("float2", "");
    find.element::<Float4>("float4", "");
    find.element::<Double2>("double2", "");
    // Names of the prelude: CUDA 13 deprecates `double4`, and CUDA 12 has no `double4_16a`.
    find.element::<LongLong4>("marshal::longlong4", "");
    find.element::<ULongLong4>("marshal::ulonglong4", "");
    find.element::<Double4>("marshal::double4", "");
}

/// Floats of 16 bits, which CUDA declares in headers of their own.
#[cfg(feature = "half")]
fn halves(find: &mut Find) {
    use crate::vector::{Bfloat162, Half2};

    find.element::<half::f16>("__half", "cuda_fp16.h");
    find.element::<Half2>("__half2", "cuda_fp16.h");
    find.element::<half::bf16>("__nv_bfloat16", "cuda_bf16.h");
    find.element::<Bfloat162>("__nv_bfloat162", "cuda_bf16.h");
}

/// Floats of 8 bits, in another.
#[cfg(feature = "float8")]
fn quarters(find: &mut Find) {
    find.element::<float8::F8E4M3>("__nv_fp8_e4m3", "cuda_fp8.h");
    find.element::<float8::F8E5M2>("__nv_fp8_e5m2", "cuda_fp8.h");
}

/// Compares one type after the other with the wanted one.
struct Find {
    wanted: TypeId,
    found: Option<CudaType>,
}

impl Find {
    fn integer<T: Integer>(&mut self, name: &str) {
        self.element::<T>(name, "");
        self.plain::<T::NonZero>(name, "");
        self.plain::<Option<T::NonZero>>(name, "");
    }

    /// `T`, pointers to it, and short arrays of both.
    fn element<T: NoUninit>(&mut self, name: &str, include: &'static str) {
        self.plain::<T>(name, include);
        self.arrays::<T>(name, include);
        self.pointers::<T>(name, include);
    }

    /// Pointers to `T`, pointers to those, and arrays of them; nullable or not.
    fn pointers<T: 'static>(&mut self, name: &str, include: &'static str) {
        self.nullable::<DevicePointer<T>>(&format!("{name}*"), include);
        self.nullable::<DevicePointer<DevicePointer<T>>>(&format!("{name}**"), include);
        self.nullable::<DevicePointer<Option<DevicePointer<T>>>>(&format!("{name}**"), include);
    }

    fn nullable<P: NoUninit + ZeroableInOption + PodInOption>(&mut self, name: &str, include: &'static str) {
        self.plain::<P>(name, include);
        self.plain::<Option<P>>(name, include);
        macro_rules! of_len {
            ($($len:literal)*) => {$(
                self.plain::<[P; $len]>(&format!("{name}[{}]", $len), include);
                self.plain::<[Option<P>; $len]>(&format!("{name}[{}]", $len), include);
            )*};
        }
        of_len!(2 3 4 8);
    }

    fn arrays<T: 'static>(&mut self, name: &str, include: &'static str) {
        macro_rules! of_len {
            ($($len:literal)*) => {$( self.plain::<[T; $len]>(&format!("{name}[{}]", $len), include); )*};
        }
        of_len!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 32 64);
        macro_rules! square {
            ($($rows:literal)*) => {$(
                self.plain::<[[T; $rows]; $rows]>(&format!("{name}[{}][{}]", $rows, $rows), include);
            )*};
        }
        square!(2 3 4);
    }

    fn plain<T: 'static>(&mut self, name: &str, include: &'static str) {
        if self.wanted == TypeId::of::<T>() {
            self.found = Some(CudaType { name: name.to_owned(), include });
        }
    }
}

/// An integer, with its twin that is never 0.
trait Integer: NoUninit {
    type NonZero: 'static;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Integer for $integer {
            type NonZero = NonZero<$integer>;
        }
    )*};
}

integers!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128);
