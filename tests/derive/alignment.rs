//! What `align` asks for, and what holds.

use crate::*;

#[derive(DeviceArgs)]
#[device(align = 1)]
struct Natural {
    a: Vec<i32>,
    b: Vec<f64>,
    c: Vec<f32>,
}

#[derive(DeviceArgs)]
struct Raised {
    a: Vec<u8>,
    #[device(align = 64)]
    b: Vec<u8>,
    c: Vec<u8>,
    #[device(align = 0x1000_u64)]
    d: Vec<u8>,
    #[device(align = 8)]
    e: Vec<u64>,
}

#[derive(DeviceArgs)]
#[device(align = 32)]
struct Container {
    #[device(align = 4)]
    a: Vec<u32>,
    b: Vec<[u128; 4]>,
    #[device(align = 128)]
    c: Vec<u32>,
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C, align(128))]
struct Descriptor([u8; 128]);

#[derive(DeviceArgs)]
#[device(align = 2)]
struct BelowItsElement {
    a: Vec<u8>,
    b: Vec<Descriptor>,
}

#[test]
fn the_container_may_ask_for_less_than_the_default() {
    let args = Natural { a: vec![1], b: vec![1.0], c: vec![1.0] };
    assert_eq!(places(&args), (vec![("a", 0, 1), ("b", 8, 1), ("c", 16, 1)], 24));
}

#[test]
fn a_field_raises_its_own_alignment_and_no_other() {
    let args = Raised { a: vec![1], b: vec![2], c: vec![3], d: vec![4], e: vec![5] };
    let columns = [("a", 0, 1), ("b", 64, 1), ("c", 80, 1), ("d", 4096, 1), ("e", 4112, 1)];
    assert_eq!(places(&args), (columns.to_vec(), 8192));
    assert_eq!(alignments(&args.layout().unwrap()), [16, 64, 16, 4096, 16]);
}

#[test]
fn the_largest_of_container_field_and_element_holds() {
    let args = Container { a: vec![], b: vec![], c: vec![] };
    assert_eq!(alignments(&args.layout().unwrap()), [32, 32, 128]);
    let args = BelowItsElement { a: vec![1], b: vec![Descriptor([0; 128])] };
    assert_eq!(places(&args), (vec![("a", 0, 1), ("b", 128, 1)], 256));
    assert_eq!(alignments(&args.layout().unwrap()), [2, 128]);
}
