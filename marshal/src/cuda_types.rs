//! The elements that have a name in C++. One row a type in [`names`]; pointers to it and arrays of it follow.

use core::any::{TypeId, type_name};
use core::num::NonZero;

use bytemuck::{NoUninit, PodInOption, ZeroableInOption};

use crate::pointer::DevicePointer;

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
    // What stands behind a pointer need not be an element.
    find.pointers::<()>("void", "");
    find.pointers::<usize>("unsigned long long", "");
    find.pointers::<isize>("long long", "");
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
