//! Named, tuple, unit and empty structs, and raw names.

use crate::*;

#[derive(DeviceArgs)]
struct Tuple(Vec<u8>, #[device(skip)] String, Box<[u64]>);

#[derive(DeviceArgs)]
struct Unit;

#[derive(DeviceArgs)]
struct Empty {}

#[derive(DeviceArgs)]
struct EmptyTuple();

#[derive(DeviceArgs)]
struct OneField {
    x: Vec<u8>,
}

#[derive(DeviceArgs)]
struct Raw<'r#in> {
    r#type: &'r#in [u8],
    r#struct: Vec<u8>,
    r#fn: Vec<u8>,
}

#[allow(non_camel_case_types, reason = "the name is the case")]
#[derive(DeviceArgs)]
struct r#match {
    x: Vec<u8>,
}

#[test]
fn tuple_structs_have_tuples_of_pointers() {
    let args = Tuple(vec![1], "host".to_owned(), Box::new([2]));
    assert_eq!(places(&args), (vec![("0", 0, 1), ("2", 16, 1)], 32));
    let TuplePointers(first, second) = *args.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!(second.pointer().address() - first.pointer().address(), 16);
    assert_eq!(args.1, "host");
}

#[test]
fn structs_without_columns_are_zero_bytes() {
    assert_eq!(places(&Unit), (vec![], 0));
    assert_eq!(places(&Empty {}), (vec![], 0));
    assert_eq!(places(&EmptyTuple()), (vec![], 0));
    assert_eq!([size_of::<UnitPointers>(), size_of::<EmptyPointers>(), size_of::<EmptyTuplePointers>()], [0; 3]);
}

#[test]
fn one_field_is_enough() {
    assert_eq!(places(&OneField { x: vec![1] }), (vec![("x", 0, 1)], 16));
    assert_eq!(size_of::<OneFieldPointers>(), 16);
}

#[test]
fn raw_names_lose_their_mark() {
    let args = Raw { r#type: &[1], r#struct: vec![2], r#fn: vec![3] };
    assert_eq!(places(&args), (vec![("type", 0, 1), ("struct", 16, 1), ("fn", 32, 1)], 48));
    let dev: RawPointers = *args.upload(&HostDevice::new().stream()).unwrap();
    assert!(format!("{dev:?}").starts_with("RawPointers { type: 0x"), "{dev:?}");
    let _: matchPointers = *r#match { x: vec![1] }.upload(&HostDevice::new().stream()).unwrap();
}
