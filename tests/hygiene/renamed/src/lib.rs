//! A crate that depends on the library under another name.

use device_arguments::DeviceArgs;

/// A column struct.
#[derive(DeviceArgs)]
#[device(crate = device_arguments)]
pub struct Columns<'a> {
    /// Values.
    pub values: &'a [u32],
}

/// A row.
#[derive(DeviceArgs)]
#[device(crate = ::device_arguments, row)]
pub struct Row {
    /// A value.
    pub value: u32,
}
