use marshal::DeviceArgs;

#[derive(DeviceArgs)]
#[device(rows)]
struct UnknownOnStruct {
    x: u32,
}

#[derive(DeviceArgs)]
#[device(align = 16, align = 32)]
#[device(scalar)]
struct Struct {
    x: Vec<u32>,
}

#[derive(DeviceArgs)]
#[device]
struct Fields {
    #[device(scaler)]
    unknown: u32,
    #[device(row)]
    of_struct: Vec<u32>,
    #[device(scalar, scalar)]
    twice: u32,
    #[device(skip)]
    #[device(skip)]
    twice_apart: u32,
    #[device(scalar = true)]
    value: u32,
    #[device = "scalar"]
    not_a_list: u32,
    #[device(16)]
    literal: Vec<u32>,
    #[device(, align = 16,)]
    comma: Vec<u32>,
}

#[derive(DeviceArgs)]
#[device(crate)]
struct NoPath {
    x: Vec<u32>,
}

#[derive(DeviceArgs)]
#[device(crate = "not a path")]
struct BadPath {
    x: Vec<u32>,
}

fn main() {}
