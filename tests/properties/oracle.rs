//! What is right, the slow way: one byte at a time.

use core::ops::Range;

use marshal::Content;

use crate::columns::Column;

/// Where columns stand, and the bytes of those that are copied.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) offsets: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
    /// What has to be zero besides.
    pub(crate) zeroed: Range<usize>,
    /// All of the block.
    pub(crate) size: usize,
    pub(crate) alignment: u64,
}

/// Columns in declared order, each at the next multiple of its alignment, zeroes between them and up to a multiple of the largest. What
/// is zeroed stands behind what is copied, in the same way, and what is neither behind that.
pub(crate) fn image(columns: &[Column]) -> Image {
    let mut block = Vec::new();
    let mut offsets = vec![0; columns.len()];
    let mut ends = Vec::new();
    for content in [Content::Copied, Content::Zeroed, Content::Uninit] {
        let section = || columns.iter().zip(0..).filter(|(column, _)| column.content == content);
        let alignment = section().map(|(column, _)| column.alignment()).max().unwrap_or(1);
        pad(&mut block, alignment);
        let start = block.len();
        for (column, index) in section() {
            pad(&mut block, column.alignment());
            offsets[index] = block.len();
            block.extend(column.bytes());
        }
        pad(&mut block, alignment);
        ends.push(start..block.len());
    }
    let alignment = columns.iter().map(Column::alignment).max().unwrap_or(1);
    let size = block.len();
    block.truncate(ends[0].end);
    Image { offsets, bytes: block, zeroed: ends[1].clone(), size, alignment }
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
