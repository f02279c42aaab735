use bytemuck::Pod;
use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Columns<T: Pod> {
    #[device(align = 4)]
    x: Vec<T>,
}

fn main() {
    let _ = Columns { x: vec![1_u32] }.layout();
    let _ = Columns { x: vec![1_u64] }.layout();
}
