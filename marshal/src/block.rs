//! The one device allocation that a set of columns lives in.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::alignment::Alignment;
use crate::backend::Backend;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::spec::Content;

/// Device memory for one layout, with a base that satisfies the layout's alignment.
///
/// A layout of 0 bytes has no memory; its base is an aligned address that is not null and not to be read.
pub(crate) struct Block<B: Backend> {
    memory: Option<B::Block>,
    // Bytes of the memory.
    allocated: u64,
    base: u64,
    // From the memory's first address to the base.
    shift: u64,
    layout: Layout,
    stream: B::Stream,
    // Other streams that work on the block, and that its own stream does not wait for yet.
    lent: AtomicU64,
}

impl<B: Backend> Block<B> {
    /// Bytes that a block for `layout` takes on the device of `stream`.
    ///
    /// Where the layout asks for more alignment than the device's allocator gives, the block is larger by the difference and its
    /// base is shifted: a column is aligned by construction.
    pub(crate) fn room(stream: &B::Stream, layout: &Layout) -> Result<u64, Error> {
        let size_bytes = layout.size_bytes();
        if size_bytes == 0 {
            return Ok(0);
        }
        let slack = layout.alignment().saturating_sub(B::block_alignment(stream).bytes());
        size_bytes
            .checked_add(slack)
            .ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: size_bytes, available: u64::MAX - slack }))
    }

    /// Allocates the block for `layout`, ordered on `stream`.
    pub(crate) fn allocate(stream: &B::Stream, layout: Layout) -> Result<Self, Error> {
        let alignment = layout.bounds().alignment();
        let allocated = Self::room(stream, &layout)?;
        let stream = stream.clone();
        let lent = AtomicU64::new(0);
        if allocated == 0 {
            let base = alignment.bytes();
            return Ok(Self { memory: None, allocated, base, shift: 0, layout, stream, lent });
        }
        let memory = B::allocate(&stream, allocated)?;
        let (base, shift) = aligned_base(B::address(&memory), alignment, allocated - layout.size_bytes())?;
        Ok(Self { memory: Some(memory), allocated, base, shift, layout, stream, lent })
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn stream(&self) -> &B::Stream {
        &self.stream
    }

    /// Bytes taken on the device.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Another stream begins to work on the block.
    pub(crate) fn lend(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// The block's own stream now waits for what another stream did.
    pub(crate) fn give_back(&self) {
        // Release: whoever sees the count go down sees the wait that was submitted before.
        self.lent.fetch_sub(1, Ordering::Release);
    }

    /// Whether another stream works on the block unordered.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire) != 0
    }

    /// Sends the image of all copied columns; nothing where there are no bytes.
    pub(crate) fn write(&self, image: Vec<u8>) -> Result<(), Error> {
        match &self.memory {
            Some(memory) if !image.is_empty() => B::copy_htod(&self.stream, image, memory, self.shift),
            _ => Ok(()),
        }
    }

    /// The memory, and where in it the image goes.
    pub(crate) fn target(&self) -> Option<(&B::Block, u64)> {
        self.memory.as_ref().map(|memory| (memory, self.shift))
    }

    /// Zeroes the scratch columns that ask for it, in the order of the block's stream; no call where none does.
    #[inline]
    pub(crate) fn zero(&self) -> Result<(), Error> {
        if !self.layout.bounds().has_scratch() {
            return Ok(());
        }
        let zeroed = self.layout.bounds().range(Content::Zeroed);
        match &self.memory {
            Some(memory) if !zeroed.is_empty() => {
                B::zero(&self.stream, memory, self.shift + zeroed.start, zeroed.end - zeroed.start)
            }
            _ => Ok(()),
        }
    }

    /// How far behind the base `address` is, when `size_bytes` from there lie inside the block.
    pub(crate) fn offset_of(&self, address: u64, size_bytes: u64) -> Result<u64, Error> {
        let block_bytes = self.layout.size_bytes();
        let offset = address.checked_sub(self.base);
        let end = offset.and_then(|offset| offset.checked_add(size_bytes));
        match (offset, end) {
            (Some(offset), Some(end)) if end <= block_bytes => Ok(offset),
            _ => Err(Error::new(ErrorKind::NotInBlock { address, size_bytes, base: self.base, block_bytes })),
        }
    }

    /// Reads so many bytes back from `offset` on, and waits for them.
    pub(crate) fn read(&self, offset: u64, size_bytes: u64) -> Result<Vec<u8>, Error> {
        match &self.memory {
            Some(memory) if size_bytes != 0 => B::copy_dtoh(&self.stream, memory, self.shift + offset, size_bytes),
            _ => Ok(Vec::new()),
        }
    }
}

impl<B: Backend> Drop for Block<B> {
    fn drop(&mut self) {
        if self.is_lent() {
            // Nothing orders the free behind the other stream's work: rather keep the memory than free it under a kernel.
            core::mem::forget(self.memory.take());
        }
    }
}

/// The first multiple of `alignment` at or after `address`, and its distance, which may not pass `slack`.
fn aligned_base(address: u64, alignment: Alignment, slack: u64) -> Result<(u64, u64), Error> {
    let shift = alignment.padding_for(address);
    match address.checked_add(shift) {
        Some(base) if shift <= slack => Ok((base, shift)),
        _ => Err(alignment.check(address).err().unwrap_or_else(|| {
            Error::new(ErrorKind::TooLarge { needed: alignment.bytes(), available: u64::MAX - address })
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_shifted_within_the_slack_and_refused_beyond_it() {
        let alignment = Alignment::TENSOR_MAP;
        assert_eq!(aligned_base(0x1000, alignment, 0), Ok((0x1000, 0)));
        assert_eq!(aligned_base(0x1010, alignment, 112), Ok((0x1080, 112)));
        let error = aligned_base(0x1010, alignment, 0).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Misaligned { needed: 128, found: 16 });
    }
}
