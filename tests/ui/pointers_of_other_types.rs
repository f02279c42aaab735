use marshal::{DeviceArgs, DeviceColumn};

#[derive(DeviceArgs)]
struct Columns {
    floats: Vec<f32>,
}

fn main() {
    let stream = marshal::host::HostDevice::new().stream();
    let dev = Columns { floats: vec![1.0] }.upload(&stream).unwrap();
    let _: DeviceColumn<f64> = dev.floats;
    let _: marshal::DevicePointer<i32> = dev.floats.pointer();
}
