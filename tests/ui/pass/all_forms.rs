// With one case that passes, each case is built and not only checked: what the compiler finds out of generic structs is found
// when they are used.
use marshal::DeviceArgs;

#[derive(DeviceArgs)]
struct Columns<'a, T: bytemuck::Pod> {
    #[device(align = 8)]
    x: &'a [T],
}

fn main() {
    let args = Columns { x: &[1_u64] };
    assert_eq!(args.layout().unwrap().size_bytes(), 16);
}
