use marshal::DeviceArgs;

#[derive(DeviceArgs)]
#[device(name = "two words")]
struct Spaced {
    #[device(c_type = "int; int y")]
    statement: Vec<u32>,
    #[device(c_type = "")]
    empty: Vec<u32>,
    #[device(c_type = int)]
    bare: Vec<u32>,
    #[device(c_type)]
    nothing: Vec<u32>,
    #[device(name = "x")]
    of_struct: Vec<u32>,
}

#[derive(DeviceArgs)]
#[device(name = "")]
struct Empty;

#[derive(DeviceArgs)]
#[device(name = Bare)]
struct Bare;

fn main() {}
