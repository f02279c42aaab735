use std::marker::PhantomData;

use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Columns {
    x: Vec<()>,
    y: Vec<[u32; 0]>,
    p: Vec<PhantomData<u8>>,
    #[device(scalar)]
    z: (),
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row {
    x: [u8; 0],
    y: u32,
}

fn main() {}
