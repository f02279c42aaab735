//! The row form.

use crate::*;

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
struct Gemm {
    m: i32,
    #[device(align = 64)]
    a: Option<DevicePointer<f32>>,
    #[device(skip)]
    _host: &'static str,
    n: u8,
}

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    value: u64,
}

#[derive(DeviceArgs)]
#[device(row, align = 1)]
struct Pair<T: Pod, const N: usize>(T, [T; N]);

#[test]
fn rows_become_columns() {
    let row = Gemm { m: 1, a: None, _host: "x", n: 2 };
    let rows = vec![row; 5];
    let columns = vec![("m", 0, 5), ("a", 64, 5), ("n", 112, 5)];
    assert_eq!(places(&rows), (columns.clone(), 128));
    assert_eq!(places(&rows[..]), (columns.clone(), 128));
    assert_eq!(places(&[row; 5]), (columns, 128));
    let dev: GemmPointers = *rows.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!((dev.m.len(), dev.a.len(), dev.n.len()), (5, 5, 5));
}

#[test]
fn packed_rows_are_read_by_value() {
    let rows = [Packed { tag: 1, value: 2 }, Packed { tag: 3, value: 4 }];
    let mut expected = [0; 32];
    (expected[0], expected[1], expected[16], expected[24]) = (1, 3, 2, 4);
    assert_eq!(image(&rows), expected);
}

#[test]
fn rows_are_generic_and_tuples_too() {
    let rows = [Pair(1_u16, [2, 3]), Pair(4, [5, 6])];
    assert_eq!(places(&rows), (vec![("0", 0, 2), ("1", 4, 2)], 12));
    let PairPointers(first, second) = *rows.upload(&HostDevice::new().stream()).unwrap();
    let (_, _): (DeviceColumn<u16>, DeviceColumn<[u16; 2]>) = (first, second);
}
