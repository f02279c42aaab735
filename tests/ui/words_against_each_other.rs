use std::marker::PhantomData;

use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Host {
    #[device(scalar, skip)]
    both: u32,
    #[device(align = 16, skip)]
    aligned: u32,
    #[device(align = 16)]
    phantom: PhantomData<u32>,
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row {
    #[device(scalar)]
    x: u32,
}

fn main() {}
