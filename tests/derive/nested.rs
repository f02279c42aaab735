//! Sets within sets.

use crate::*;

#[derive(Clone, Copy, DeviceArgs)]
#[device(row, align = 4)]
struct Problem {
    m: i32,
    n: i32,
    #[device(align = 64)]
    a: Option<DevicePointer<f32>>,
}

#[derive(DeviceArgs)]
struct Inner<'a, T: Pod> {
    values: &'a [T],
    #[device(scalar)]
    alpha: f32,
}

#[derive(DeviceArgs)]
struct Outer<'a> {
    before: Vec<u8>,
    #[device(nested)]
    problems: Vec<Problem>,
    #[device(nested)]
    inner: Inner<'a, u16>,
    #[device(nested)]
    slice: &'a [Problem],
    after: Vec<u8>,
}

#[derive(DeviceArgs)]
struct Of<A: DeviceArgs>
where
    A::Pointers: marshal::KernelStruct + std::fmt::Debug,
{
    #[device(nested)]
    set: A,
    #[device(nested)]
    shared: Arc<A>,
}

#[derive(DeviceArgs)]
struct Last<'a>(#[device(nested)] &'a Outer<'a>);

const ROW: Problem = Problem { m: 1, n: 2, a: None };

fn outer(rows: &[Problem]) -> Outer<'_> {
    Outer {
        before: vec![1],
        problems: vec![ROW; 3],
        inner: Inner { values: &[5, 6], alpha: 1.0 },
        slice: rows,
        after: vec![7],
    }
}

#[test]
fn the_columns_of_a_nested_set_stand_in_its_place() {
    let rows = [ROW; 2];
    let args = outer(&rows);
    let columns = [
        ("before", 0, 1),
        ("m", 4, 3),
        ("n", 16, 3),
        ("a", 64, 3),
        ("values", 96, 2),
        ("alpha", 112, 1),
        ("m", 116, 2),
        ("n", 124, 2),
        ("a", 192, 2),
        ("after", 208, 1),
    ];
    assert_eq!(places(&args), (columns.to_vec(), 256));
    assert_eq!(image(&args)[..24], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn the_pointers_of_a_nested_set_are_a_member() {
    let rows = [ROW; 2];
    let dev: OuterPointers = *outer(&rows).upload(&HostDevice::new().stream()).unwrap();
    let _: (ProblemPointers, InnerPointers<u16>, ProblemPointers) = (dev.problems, dev.inner, dev.slice);
    assert_eq!(dev.slice.a.pointer().address() - dev.before.pointer().address(), 192);
    assert_eq!(dev.inner.values.len(), 2);
    assert!(format!("{dev:?}").contains("inner: InnerPointers { values: 0x"), "{dev:?}");
}

#[test]
fn a_nested_set_may_be_a_parameter_or_the_last() {
    let args = Of { set: vec![ROW], shared: Arc::new(vec![ROW; 2]) };
    let columns = [("m", 0, 1), ("n", 4, 1), ("a", 64, 1), ("m", 72, 2), ("n", 80, 2), ("a", 128, 2)];
    assert_eq!(places(&args), (columns.to_vec(), 192));
    let _: OfPointers<Vec<Problem>> = *args.upload(&HostDevice::new().stream()).unwrap();
    let rows = [];
    assert_eq!(places(&Last(&outer(&rows))).0.len(), 10);
}
