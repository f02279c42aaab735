use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Columns<'a> {
    #[device(align = 4)]
    x: &'a [u64],
    #[device(align = 2)]
    y: Vec<f32>,
    #[device(scalar, align = 8)]
    z: u128,
}

#[derive(DeviceArgs)]
#[device(row, align = 1)]
struct Row {
    #[device(align = 1)]
    x: u16,
    y: u64,
}

fn main() {}
