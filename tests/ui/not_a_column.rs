use marshal::DeviceArgs;

struct Host;

#[derive(DeviceArgs)]
struct First {
    x: u32,
    y: Vec<u32>,
}

#[derive(DeviceArgs)]
struct Last<'a> {
    x: &'a [u32],
    y: &'a Host,
}

#[derive(DeviceArgs)]
struct Only {
    x: Option<Vec<u32>>,
}

#[derive(DeviceArgs)]
struct Tuple(Vec<u32>, String, Vec<u32>);

#[derive(DeviceArgs)]
struct Generic<T: bytemuck::Pod> {
    x: T,
    y: Vec<T>,
}

fn main() {}
