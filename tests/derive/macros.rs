//! Structs that other macros make, and what the compiler resolves before the derive sees it.

use crate::*;

macro_rules! my_vec {
    ($l:lifetime $t:ty) => { &$l [$t] };
    ($t:ty) => { Vec<$t> };
    () => { Vec<u32> };
}

#[derive(DeviceArgs)]
struct TypeMacros<'a, T: Pod> {
    x: my_vec!(),
    y: my_vec!(T),
    z: my_vec!('a u8),
}

macro_rules! args {
    ($name:ident, $field:ident: $ty:ty, $element:ident, $align:literal, $n:expr) => {
        #[derive(DeviceArgs)]
        struct $name<'a> {
            $field: $ty,
            #[device(align = $align)]
            aligned: &'a [$element],
            array: [$element; $n],
        }
    };
    ($name:ident($ty:ident)) => {
        #[derive(DeviceArgs)]
        struct $name(Vec<$ty>, #[device(scalar)] $ty);
    };
    ($name:ident { $($field:tt: $column:ty),* } in $library:path) => {
        #[derive(DeviceArgs)]
        #[device(crate = $library)]
        struct $name { $($field: $column),* }
    };
}
args!(Made, field: Vec<u64>, u16, 128, 1 + 2);
args!(MadeTuple(u32));
args!(MadeThere { x: Vec<u8>, y: [u8; 2] } in ::marshal);

#[derive(DeviceArgs)]
struct Configured {
    #[cfg(any())]
    gone: Missing,
    #[cfg_attr(all(), device(align = 64))]
    x: Vec<Coordinate>,
    #[cfg_attr(any(), device(skip))]
    #[cfg(not(any()))]
    y: Vec<u8>,
}

#[derive(Clone, Copy, NoUninit)]
#[cfg_attr(all(), repr(C))]
struct Coordinate {
    m: i32,
    n: i32,
    k: i32,
}

#[test]
fn macros_in_type_position_are_columns() {
    let args = TypeMacros { x: vec![1], y: vec![2_u16], z: &[3] };
    assert_eq!(places(&args), (vec![("x", 0, 1), ("y", 16, 1), ("z", 32, 1)], 48));
    let _: TypeMacrosPointers<u16> = *args.upload(&HostDevice::new().stream()).unwrap();
}

#[test]
fn structs_may_come_from_macros() {
    let args = Made { field: vec![1], aligned: &[2], array: [3; 3] };
    assert_eq!(places(&args), (vec![("field", 0, 1), ("aligned", 128, 1), ("array", 144, 3)], 256));
    assert_eq!(places(&MadeTuple(vec![1], 2)), (vec![("0", 0, 1), ("1", 16, 1)], 32));
    assert_eq!(places(&MadeThere { x: vec![1], y: [2; 2] }), (vec![("x", 0, 1), ("y", 16, 2)], 32));
}

#[test]
fn configured_attributes_are_as_if_written_plainly() {
    let args = Configured { x: vec![Coordinate { m: 1, n: 2, k: 3 }; 2], y: vec![1] };
    assert_eq!(places(&args), (vec![("x", 0, 2), ("y", 32, 1)], 64));
    assert_eq!(alignments(&args.layout().unwrap()), [64, 16]);
}
