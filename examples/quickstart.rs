//! The smallest complete use: three arrays of arguments, one block, one copy. Runs anywhere, on the host backend.

use marshal::{DeviceArgs, Error, host::HostDevice};

/// Each field is an array, and becomes a column of the block.
#[derive(DeviceArgs)]
struct Scales<'a> {
    len: &'a [u32],
    offset: Vec<u64>,
    factor: [f32; 3],
}

/// One problem. A slice of rows uploads as columns, one a field.
#[derive(DeviceArgs)]
#[device(row)]
struct Scale {
    len: u32,
    offset: u64,
    factor: f32,
}

fn main() -> Result<(), Error> {
    let stream = HostDevice::new().stream();

    let columns = Scales { len: &[4, 0, 9], offset: vec![0, 4, 4], factor: [1.0, 0.5, 2.0] }.upload(&stream)?;
    print!("{}", columns.layout());

    let row = |len, offset, factor| Scale { len, offset, factor };
    let rows = [row(4, 0, 1.0), row(0, 4, 0.5), row(9, 4, 2.0)].upload(&stream)?;
    assert_eq!(rows.read_back()?, columns.read_back()?);

    // A kernel on this backend is a closure; on a GPU it is `launch.arg(&columns.len).arg(&columns.offset)`.
    let (len, offset) = (columns.len, columns.offset);
    stream.launch(move |memory| {
        for (len, offset) in memory.read(len).iter().zip(memory.read(offset)) {
            println!("{len} elements from {offset}");
        }
    })?;
    stream.synchronize()
}
