use marshal::DeviceArgs;

const SIXTEEN: usize = 16;

#[derive(DeviceArgs)]
#[device(align = 0)]
struct Container {
    #[device(align = 0)]
    zero: Vec<u32>,
    #[device(align = 3)]
    three: Vec<u32>,
    #[device(align = 24)]
    twenty_four: Vec<u32>,
    #[device(align = 18446744073709551615)]
    largest: Vec<u32>,
}

#[derive(DeviceArgs)]
struct Literals {
    #[device(align)]
    nothing: Vec<u32>,
    #[device(align = )]
    no_value: Vec<u32>,
    #[device(align = "16")]
    string: Vec<u32>,
    #[device(align = SIXTEEN)]
    constant: Vec<u32>,
    #[device(align = -16)]
    negative: Vec<u32>,
    #[device(align = 16i8)]
    signed: Vec<u32>,
    #[device(align = 18446744073709551616)]
    too_large: Vec<u32>,
    #[device(align(16))]
    called: Vec<u32>,
}

fn main() {}
