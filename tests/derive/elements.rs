//! What stands in a column, of every size.

use std::num::NonZeroU64;

use crate::*;

#[derive(Clone, Copy, NoUninit)]
#[repr(u8)]
enum Op {
    A = 3,
    B,
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct WithoutPadding {
    tag: u8,
    _pad: [u8; 7],
    value: u64,
}

#[derive(DeviceArgs)]
#[device(align = 1)]
struct Elements<'a> {
    op: Vec<Op>,
    flag: Vec<bool>,
    letter: &'a [char],
    non_zero: [NonZeroU64; 1],
    maybe: Vec<Option<NonZeroU64>>,
    own: Vec<WithoutPadding>,
    wide: Vec<u128>,
    array: Vec<[u128; 4]>,
    pointer: Vec<DevicePointer<f32>>,
    null: Vec<Option<DevicePointer<WithoutPadding>>>,
}

#[test]
fn plain_values_without_padding_are_elements() {
    let args = Elements {
        op: vec![Op::A, Op::B],
        flag: vec![true, false, true],
        letter: &['x'],
        non_zero: [NonZeroU64::MIN],
        maybe: vec![None],
        own: vec![WithoutPadding { tag: 1, _pad: [0; 7], value: 2 }],
        wide: vec![1],
        array: vec![[2; 4]],
        pointer: vec![DevicePointer::from_raw(64).unwrap()],
        null: vec![None],
    };
    let columns = [
        ("op", 0, 2),
        ("flag", 2, 3),
        ("letter", 8, 1),
        ("non_zero", 16, 1),
        ("maybe", 24, 1),
        ("own", 32, 1),
        ("wide", 48, 1),
        ("array", 64, 1),
        ("pointer", 128, 1),
        ("null", 136, 1),
    ];
    assert_eq!(places(&args), (columns.to_vec(), 144));
    assert_eq!(image(&args)[..5], [3, 4, 1, 0, 1]);
}
