//! What is right, the slow way: one byte at a time.

use crate::columns::Column;

/// Where columns stand, and the bytes of all.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) offsets: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) alignment: u64,
}

/// Columns in declared order, each at the next multiple of its alignment, zeroes between them and up to a multiple of the largest.
pub(crate) fn image(columns: &[Column]) -> Image {
    let mut image = Image { alignment: columns.iter().map(Column::alignment).max().unwrap_or(1), ..Image::default() };
    for column in columns {
        pad(&mut image.bytes, column.alignment());
        image.offsets.push(image.bytes.len());
        image.bytes.extend(column.bytes());
    }
    pad(&mut image.bytes, image.alignment);
    image
}

fn pad(bytes: &mut Vec<u8>, alignment: u64) {
    while !(bytes.len() as u64).is_multiple_of(alignment) {
        bytes.push(0);
    }
}

/// The first multiple at or after, in numbers that cannot overflow here.
pub(crate) fn round_up(offset: u128, alignment: u64) -> u128 {
    offset.div_ceil(u128::from(alignment)) * u128::from(alignment)
}
