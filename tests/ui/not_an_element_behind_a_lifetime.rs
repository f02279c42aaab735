use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct First<'a> {
    x: Vec<&'a u32>,
    y: &'a [u32],
}

#[derive(DeviceArgs)]
struct Last<'a> {
    x: &'a [u32],
    y: Vec<&'a u32>,
}

fn main() {}
