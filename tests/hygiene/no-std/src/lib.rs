//! A crate without the standard library and without `alloc`: its columns are slices.
#![no_std]

use marshal::DeviceArgs;

/// A column struct.
#[derive(DeviceArgs)]
pub struct Columns<'a, const N: usize> {
    /// Values.
    pub values: &'a [[f32; N]],
    /// Flags.
    #[device(align = 32)]
    pub flags: [u8; 3],
    /// A factor.
    #[device(scalar)]
    pub alpha: f32,
}

/// A row.
#[derive(DeviceArgs)]
#[device(row)]
pub struct Row {
    /// A value.
    pub value: u32,
}
