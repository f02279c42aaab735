use marshal::DeviceArgs;

#[derive(DeviceArgs)]
enum Either {
    A(Vec<u32>),
    B(#[device(unknown)] u32),
}

#[derive(DeviceArgs)]
#[device(row)]
union Both {
    x: u32,
    y: f32,
}

fn uses(args: &Either, pointers: EitherPointers) {
    let _ = (args.layout(), pointers);
}

fn main() {}
