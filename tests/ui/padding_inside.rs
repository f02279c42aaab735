use bytemuck::NoUninit;
use marshal::DeviceArgs;

#[derive(Clone, Copy)]
enum DefaultRepr {
    A,
    B,
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct WithAnEnum {
    a: i32,
    b: u16,
    c: DefaultRepr,
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct InnerPadding {
    a: u8,
    b: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct NotDerived {
    a: u8,
    b: u64,
}

#[derive(DeviceArgs)]
struct Columns {
    padded: Vec<InnerPadding>,
    not_derived: Vec<NotDerived>,
    last: Vec<u32>,
}

fn main() {}
