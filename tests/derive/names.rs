//! Names that the user's code may have, whatever the expansion calls its own things.

#![deny(private_interfaces, private_bounds, unreachable_pub, non_snake_case, non_camel_case_types)]

use crate::*;

#[derive(DeviceArgs)]
struct Fields {
    len: Vec<u8>,
    ptr: Vec<u8>,
    base: Vec<u8>,
    offset: Vec<u8>,
    total: Vec<u8>,
    stream: Vec<u8>,
    plan: Vec<u8>,
    dst: Vec<u8>,
    src: Vec<u8>,
    self_: Vec<u8>,
    i: Vec<u8>,
    n: Vec<u8>,
    align: Vec<u8>,
    visitor: Vec<u8>,
    __visitor: Vec<u8>,
    __column_len: Vec<u8>,
    formatter: Vec<u8>,
    f: Vec<u8>,
    spec: Vec<u8>,
    clone: Vec<u8>,
    walk: Vec<u8>,
}

#[derive(DeviceArgs)]
#[device(row)]
struct RowFields {
    row: u8,
    visitor: u8,
    __row: u8,
    fields: u8,
    pointers: u8,
}

#[derive(DeviceArgs)]
struct Params<V: Pod, T: Pod, Pointers: Pod, const N: usize> {
    visitor: Vec<V>,
    t: Vec<T>,
    pointers: Vec<Pointers>,
    n: [u8; N],
}

/// Constants and unit structs would be patterns where a variable is meant.
mod constants {
    #![allow(non_upper_case_globals, non_camel_case_types, dead_code, reason = "lower case is the case")]
    use super::*;

    const visitor: u8 = 0;
    const spec: u8 = 0;
    struct x;
    struct row;

    #[derive(DeviceArgs)]
    pub(super) struct BesideConstants {
        pub(super) x: Vec<u8>,
    }
}

/// Modules, types, traits and macros with the names of the standard library's.
mod shadowed {
    #![allow(dead_code, unused_macros, unused_imports, reason = "nothing uses them, which is the case")]

    mod core {}
    mod std {}
    mod alloc {}
    mod bytemuck {}
    mod marshal {}
    mod __private {}

    struct Result;
    struct Option;
    struct Vec;
    struct Formatter;
    struct Ok;
    trait Clone {}
    trait Copy {}
    trait Debug {}
    trait Column {}
    trait Visitor {}
    trait Row {}
    #[derive(::marshal::DeviceArgs)]
    pub(super) struct Beside<'a> {
        pub(super) x: &'a [u32],
        #[device(scalar, align = 32)]
        pub(super) y: u64,
    }

    #[derive(::marshal::DeviceArgs)]
    #[device(row)]
    pub(super) struct RowBeside {
        pub(super) x: u32,
    }
}

/// Nothing is in scope but what a path from the root names.
mod no_prelude {
    #![no_implicit_prelude]

    #[derive(::marshal::DeviceArgs)]
    pub(super) struct Bare<'a> {
        pub(super) x: &'a [u32],
        pub(super) c: ::std::borrow::Cow<'a, [u8]>,
        #[device(scalar)]
        pub(super) y: u64,
        #[device(skip)]
        pub(super) z: (),
    }

    #[derive(::marshal::DeviceArgs)]
    #[device(row)]
    pub(super) struct BareRow(pub(super) u32, pub(super) [u8; 3]);

    #[derive(::marshal::DeviceArgs)]
    #[device(name = "Bare")]
    pub(super) struct BareSet<'a> {
        #[device(nested)]
        pub(super) rows: &'a [BareRow],
        #[device(c_type = "int")]
        pub(super) x: [i32; 1],
    }
}

/// A trait whose methods every type has.
mod blanket {
    #![allow(dead_code, reason = "nothing calls its methods, which is the case")]
    use super::*;

    pub(super) trait Everything {
        fn visit(&self) {}
        fn walk(&self) {}
        fn field(&self) {}
        fn finish(&self) {}
        fn with_alignment(&self) {}
        fn clone(&self) {}
    }
    impl<T: ?Sized> Everything for T {}

    #[derive(DeviceArgs)]
    pub(super) struct Blanketed {
        #[device(align = 32)]
        pub(super) x: Vec<u8>,
    }
}

/// The struct's and the fields' visibility is the pointers' too.
mod visibility {
    use super::*;

    #[derive(Clone, Copy, NoUninit)]
    #[repr(transparent)]
    struct Private(u8);

    #[derive(DeviceArgs)]
    pub(crate) struct Mixed {
        pub(crate) open: Vec<u8>,
        pub(in crate::names) near: Vec<u8>,
        closed: Vec<Private>,
    }

    impl Mixed {
        pub(crate) fn new() -> Self {
            Self { open: vec![1], near: vec![], closed: vec![Private(1)] }
        }
    }
}

/// A field's documentation is the pointer's, and lints are those of the struct.
#[allow(non_snake_case, non_camel_case_types, reason = "the names of BLAS")]
#[derive(DeviceArgs)]
struct gemm_args {
    A: Vec<u8>,
    lda: Vec<i32>,
}

#[test]
fn fields_may_have_any_name() {
    let columns = [(); 21].map(|()| vec![1_u8]);
    let [len, ptr, base, offset, total, stream, plan, dst, src, self_, i, n, align, visitor, rest @ ..] = columns;
    let [__visitor, __column_len, formatter, f, spec, clone, walk] = rest;
    let args = Fields {
        len,
        ptr,
        base,
        offset,
        total,
        stream,
        plan,
        dst,
        src,
        self_,
        i,
        n,
        align,
        visitor,
        __visitor,
        __column_len,
        formatter,
        f,
        spec,
        clone,
        walk,
    };
    let (columns, total) = places(&args);
    assert_eq!((columns[0], columns[20], total), (("len", 0, 1), ("walk", 320, 1), 336));
    let dev = *args.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!(Clone::clone(&dev).walk, dev.walk);

    let rows = [RowFields { row: 1, visitor: 2, __row: 3, fields: 4, pointers: 5 }];
    assert_eq!(places(&rows).1, 80);
}

#[test]
fn parameters_and_items_may_have_any_name() {
    let args = Params { visitor: vec![1_u8], t: vec![1_u16], pointers: vec![1_u32], n: [0; 3] };
    assert_eq!(places(&args), (vec![("visitor", 0, 1), ("t", 16, 1), ("pointers", 32, 1), ("n", 48, 3)], 64));
    assert_eq!(places(&constants::BesideConstants { x: vec![1] }), (vec![("x", 0, 1)], 16));
    assert_eq!(places(&shadowed::Beside { x: &[1], y: 2 }), (vec![("x", 0, 1), ("y", 32, 1)], 64));
    assert_eq!(places(&[shadowed::RowBeside { x: 1 }]), (vec![("x", 0, 1)], 16));
    assert_eq!(places(&blanket::Blanketed { x: vec![1] }), (vec![("x", 0, 1)], 32));
    assert_eq!(places(&gemm_args { A: vec![1], lda: vec![1] }), (vec![("A", 0, 1), ("lda", 16, 1)], 32));
}

#[test]
fn no_prelude_is_needed() {
    let args = no_prelude::Bare { x: &[1], c: Cow::Borrowed(&[2]), y: 3, z: () };
    assert_eq!(places(&args), (vec![("x", 0, 1), ("c", 16, 1), ("y", 32, 1)], 48));
    assert_eq!(places(&[no_prelude::BareRow(1, [2; 3])]), (vec![("0", 0, 1), ("1", 16, 1)], 32));
    let () = args.z;
    let args = no_prelude::BareSet { rows: &[no_prelude::BareRow(1, [2; 3])], x: [3] };
    assert_eq!(places(&args), (vec![("0", 0, 1), ("1", 16, 1), ("x", 32, 1)], 48));
}

#[test]
fn visibility_is_carried_over() {
    let args = visibility::Mixed::new();
    let dev: visibility::MixedPointers = *args.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!((dev.open.len(), dev.near.len()), (1, 0));
}
