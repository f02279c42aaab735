use bytemuck::NoUninit;
use marshal::DeviceArgs;

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct TailPadding {
    a: u32,
    b: u16,
}

#[derive(Clone, Copy, NoUninit)]
struct NoRepr {
    a: u32,
}

#[derive(Clone, Copy, NoUninit)]
enum NoReprEnum {
    A,
}

#[derive(DeviceArgs)]
struct Padded {
    x: Vec<TailPadding>,
    y: Vec<u32>,
}

fn main() {}
