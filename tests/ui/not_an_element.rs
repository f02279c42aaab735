use marshal::DeviceArgs;

#[derive(Clone, Copy)]
struct NotDerived(u32);

#[derive(DeviceArgs)]
struct Elements<'a> {
    own: Vec<NotDerived>,
    references: Vec<&'a u32>,
    pointers: Box<[*const f32]>,
    strings: [String; 2],
    #[device(scalar)]
    scalar: Vec<u32>,
    last: &'a [u32],
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row {
    name: String,
    x: u32,
    list: Vec<u32>,
}

#[derive(DeviceArgs)]
struct Unbounded<T> {
    x: Vec<T>,
    y: Vec<u32>,
}

fn main() {}
