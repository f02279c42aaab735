//! Every container of elements is a column.

use crate::*;

#[derive(DeviceArgs)]
struct Containers<'a> {
    vec: Vec<u32>,
    slice: &'a [u32],
    array: [u32; 3],
    boxed: Box<[u32]>,
    shared: Arc<[u32]>,
    local: Rc<[u32]>,
    cow: Cow<'a, [u32]>,
    vec_behind: &'a Vec<u32>,
    exclusive: &'a mut [u32],
}

#[test]
fn every_container_is_a_column() {
    let args = Containers {
        vec: vec![1],
        slice: &[2],
        array: [3, 3, 3],
        boxed: Box::new([4]),
        shared: Arc::new([5]),
        local: Rc::new([6]),
        cow: Cow::Borrowed(&[7]),
        vec_behind: &vec![8],
        exclusive: &mut [9],
    };
    let columns = [
        ("vec", 0, 1),
        ("slice", 16, 1),
        ("array", 32, 3),
        ("boxed", 48, 1),
        ("shared", 64, 1),
        ("local", 80, 1),
        ("cow", 96, 1),
        ("vec_behind", 112, 1),
        ("exclusive", 128, 1),
    ];
    assert_eq!(places(&args), (columns.to_vec(), 144));
}

#[test]
fn a_set_does_not_borrow_its_arguments() {
    let stream = HostDevice::new().stream();
    let dev = {
        let (vec, mut exclusive) = (vec![8], [9]);
        let slice = [2_u32];
        let args = Containers {
            vec: vec![1],
            slice: &slice,
            array: [3; 3],
            boxed: Box::new([4]),
            shared: Arc::new([5]),
            local: Rc::new([6]),
            cow: Cow::Borrowed(&slice),
            vec_behind: &vec,
            exclusive: &mut exclusive,
        };
        args.upload(&stream).unwrap()
    };
    let pointers: ContainersPointers = *dev;
    assert_eq!(pointers.cow.pointer().address() - dev.base().address(), 96);
}
