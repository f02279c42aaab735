use std::marker::PhantomData;

use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Against {
    #[device(nested, scalar)]
    nested: u32,
    #[device(borrow, scalar)]
    borrow: u32,
    #[device(nested, skip)]
    host: u32,
    #[device(borrow, c_type = "int", skip)]
    host_too: u32,
    #[device(nested)]
    phantom: PhantomData<u32>,
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row {
    #[device(nested)]
    nested: u32,
    #[device(borrow)]
    borrow: u32,
}

fn main() {}
