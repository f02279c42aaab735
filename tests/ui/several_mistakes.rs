use marshal::DeviceArgs;

#[derive(DeviceArgs)]
#[device(align = 12, crat = marshal)]
struct Args {
    #[device(align = 3, scala)]
    x: Vec<u32>,
    y: Vec<u32>,
}

#[derive(DeviceArgs)]
struct More<'a> {
    #[device(align = 3)]
    x: Vec<u32>,
    #[device(scala)]
    y: u32,
    count: u32,
    borrowed: &'a [u32],
}

// A struct with mistakes is a set of arguments all the same, so that its users are not told too.
fn uses(args: &Args, more: &More<'_>) {
    let (_, _) = (args.layout(), more.layout());
}

fn main() {}
