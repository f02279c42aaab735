//! A crate that knows the facade alone.

use facade::da::{self, DeviceArgs};

/// The path as a path.
#[derive(DeviceArgs)]
#[device(crate = facade::da)]
pub struct AsPath<'a, T: da::Element> {
    /// Lengths.
    pub len: &'a [u32],
    /// Values.
    #[device(align = 32)]
    pub values: Vec<T>,
    /// A factor.
    #[device(scalar, align = 8)]
    pub alpha: f32,
}

/// The path in a string.
#[derive(DeviceArgs)]
#[device(crate = "facade::gpu::arguments", row)]
pub struct AsString(pub u32, #[device(align = 8)] pub f32);

/// The path through a name that is in scope.
#[derive(DeviceArgs)]
#[device(crate = da)]
pub struct InScope {
    /// Values.
    pub values: [u8; 3],
}

/// The bytes of each.
///
/// # Errors
/// When a layout passes `u64::MAX`.
pub fn bytes() -> Result<[u64; 3], da::Error> {
    let path = AsPath { len: &[1], values: vec![1_u64], alpha: 1.0 };
    let string = [AsString(1, 2.0)];
    let scope = InScope { values: [0; 3] };
    Ok([path.layout()?.size_bytes(), string.layout()?.size_bytes(), scope.layout()?.size_bytes()])
}
