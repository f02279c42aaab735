use marshal::DeviceArgs;

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
struct Row {
    x: u32,
}

#[derive(DeviceArgs)]
struct NotMarked {
    rows: Vec<Row>,
    y: Vec<u32>,
}

#[derive(DeviceArgs)]
struct NotASet {
    #[device(nested)]
    x: u32,
    y: Vec<u32>,
}

#[derive(DeviceArgs)]
struct LastIsNotASet {
    y: Vec<u32>,
    #[device(nested)]
    x: String,
}

#[derive(DeviceArgs)]
struct Ignored<'a> {
    #[device(nested, align = 64)]
    aligned: Vec<Row>,
    #[device(nested, c_type = "Row")]
    named: &'a [Row],
}

#[derive(DeviceArgs)]
#[device(align = 64)]
struct IgnoredOnStruct {
    #[device(nested)]
    rows: Vec<Row>,
}

fn main() {}
