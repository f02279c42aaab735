use std::num::NonZeroUsize;

use marshal::DeviceArgs;

type Index = usize;

#[derive(DeviceArgs)]
struct Columns<'a> {
    lens: Vec<usize>,
    offsets: &'a [isize],
    indices: Box<[Index]>,
    pairs: [[usize; 2]; 3],
    #[device(scalar)]
    count: NonZeroUsize,
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row {
    len: usize,
}

// Where a parameter decides, nobody can tell.
#[derive(DeviceArgs)]
struct Generic<T: bytemuck::Pod> {
    x: Vec<T>,
}

fn main() {
    let _ = Generic { x: vec![1_usize] }.layout();
}
