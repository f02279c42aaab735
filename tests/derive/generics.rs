//! Parameters, bounds and `Self`.

use bytemuck::Zeroable;

use crate::*;

#[derive(DeviceArgs)]
struct OfElement<T: Pod> {
    x: Vec<T>,
    n: Vec<u32>,
}

#[derive(DeviceArgs)]
struct OfConst<const N: usize> {
    m: Vec<[f32; N]>,
}

trait Proto {
    type Elem;
}
struct NotPod(#[allow(dead_code, reason = "it makes the type no Pod")] String);
impl Proto for NotPod {
    type Elem = u16;
}

#[derive(DeviceArgs)]
struct OfProto<P: Proto>
where
    P::Elem: Pod,
    for<'x> &'x P: Sized,
{
    x: Vec<P::Elem>,
}

#[derive(DeviceArgs)]
struct OfPhantom<'a, T> {
    x: Vec<u32>,
    _p: PhantomData<&'a T>,
}

#[derive(DeviceArgs)]
struct OfColumn<'a, C: Column + ?Sized, D: Column> {
    c: &'a C,
    d: Cow<'a, [u8]>,
    e: Box<D>,
}

#[derive(DeviceArgs)]
struct Defaults<'a, T: Pod = f32, U = Vec<T>, const N: usize = 2>
where
    U: Clone,
    T: Into<f64> + 'a,
{
    x: &'a [[T; N]],
    #[device(skip)]
    y: U,
}

#[derive(DeviceArgs)]
struct Fenced<'a, 'b: 'a, T>
where
    T: Pod + PartialEq<&'a str>,
    'b: 'a,
{
    x: Vec<T>,
    y: &'a [u8],
    z: &'b [T],
}

trait Width {
    type Word: Pod;
    const WORDS: usize;
}

#[derive(DeviceArgs)]
struct OfItself {
    x: Vec<<Self as Width>::Word>,
    y: [u8; <Self as Width>::WORDS],
    z: [u8; Self::BYTES],
}
impl Width for OfItself {
    type Word = u16;
    const WORDS: usize = 3;
}
impl OfItself {
    const BYTES: usize = 5;
}

#[derive(DeviceArgs)]
struct AlignedGeneric<T: Pod> {
    #[device(align = 8)]
    x: Vec<T>,
}

#[test]
fn two_instances_have_two_layouts() {
    assert_eq!(places(&OfElement { x: vec![1_f32; 5], n: vec![1] }), (vec![("x", 0, 5), ("n", 32, 1)], 48));
    assert_eq!(places(&OfElement { x: vec![1_f64; 5], n: vec![1] }), (vec![("x", 0, 5), ("n", 48, 1)], 64));
    let dev: OfElementPointers<f64> =
        *OfElement { x: vec![1.0], n: vec![] }.upload(&HostDevice::new().stream()).unwrap();
    let _: DeviceColumn<f64> = dev.x;
}

#[test]
fn the_stride_follows_a_const_parameter() {
    let strides = |layout: Layout| layout.columns()[0].element_bytes;
    assert_eq!(strides(OfConst { m: vec![[0.0; 1]] }.layout().unwrap()), 4);
    assert_eq!(strides(OfConst { m: vec![[0.0; 3]] }.layout().unwrap()), 12);
    assert_eq!(strides(OfConst { m: vec![[0.0; 4]] }.layout().unwrap()), 16);
}

#[test]
fn an_associated_type_is_an_element_where_its_owner_is_none() {
    let args = OfProto::<NotPod> { x: vec![1, 2] };
    assert_eq!(places(&args), (vec![("x", 0, 2)], 16));
    let _: OfProtoPointers<NotPod> = *args.upload(&HostDevice::new().stream()).unwrap();
}

#[test]
fn unused_parameters_are_not_in_the_pointers() {
    let args = OfPhantom::<NotPod> { x: vec![1], _p: PhantomData };
    let _: OfPhantomPointers = *args.upload(&HostDevice::new().stream()).unwrap();
}

#[test]
fn columns_may_be_parameters_themselves() {
    let args = OfColumn { c: &[1_u32, 2][..], d: Cow::Borrowed(&[3]), e: Box::new(vec![4_u64]) };
    assert_eq!(places(&args), (vec![("c", 0, 2), ("d", 16, 1), ("e", 32, 1)], 48));
    let dev: OfColumnPointers<[u32], Vec<u64>> = *args.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!(dev.c.len(), 2);
}

#[test]
fn defaults_and_bounds_are_kept_where_they_mean_something() {
    let args: Defaults<'_> = Defaults { x: &[[1.0, 2.0]], y: vec![] };
    assert_eq!(places(&args), (vec![("x", 0, 1)], 16));
    let _: DefaultsPointers = *args.upload(&HostDevice::new().stream()).unwrap();
    let _ = args.y;
}

#[test]
fn a_bound_with_a_lifetime_stays_with_the_arguments() {
    let args = Fenced { x: vec![Comparable(1)], y: &[], z: &[Comparable(2), Comparable(3)] };
    assert_eq!(places(&args), (vec![("x", 0, 1), ("y", 16, 0), ("z", 16, 2)], 32));
    let _: FencedPointers<Comparable> = *args.upload(&HostDevice::new().stream()).unwrap();
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Comparable(u8);
impl PartialEq<&str> for Comparable {
    fn eq(&self, _: &&str) -> bool {
        false
    }
}

#[test]
fn self_in_a_field_is_the_argument_struct() {
    let args = OfItself { x: vec![1], y: [0; 3], z: [0; 5] };
    assert_eq!(places(&args), (vec![("x", 0, 1), ("y", 16, 3), ("z", 32, 5)], 48));
    let _: DeviceColumn<u16> = args.upload(&HostDevice::new().stream()).unwrap().x;
}

#[test]
fn an_alignment_on_a_generic_column_holds_where_the_element_allows_it() {
    assert_eq!(alignments(&AlignedGeneric { x: vec![1_u64] }.layout().unwrap()), [16]);
}
