//! Host memory of one-shot uploads' images, used again when their copies have run.
//!
//! An image of more than some 100 KB is new pages from the system each time, and the first touch of each page costs more than
//! packing it does. So what a copy has read serves the next upload of about that size.

use std::sync::{Mutex, PoisonError};

/// Kept for later, all images together. Larger ones go back to the system.
const KEPT_BYTES: usize = 64 << 20;
/// More are no use: so many are on their way at most when the next sweep frees them.
const KEPT_IMAGES: usize = 64;

/// What was read last stands last.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Ordinary memory that a copy reads. Dropped, it is kept for another image.
pub(super) struct Image(Vec<u8>);

/// Memory for an image of `len` bytes, whatever stands in it.
pub(super) fn take(len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut image) = take_from(&mut kept, len) else { return vec![0; len] };
    drop(kept);
    image.resize(len, 0);
    image
}

/// The image that was read last of those with room for `len` bytes, and with not too much.
fn take_from(kept: &mut Vec<Vec<u8>>, len: usize) -> Option<Vec<u8>> {
    let fits = len..=len.saturating_mul(2).max(4096);
    let index = kept.iter().rposition(|image| fits.contains(&image.capacity()))?;
    Some(kept.remove(index))
}

fn keep(kept: &mut Vec<Vec<u8>>, image: Vec<u8>) {
    if image.capacity() > KEPT_BYTES {
        return;
    }
    kept.push(image);
    let mut bytes: usize = kept.iter().map(Vec::capacity).sum();
    let mut gone = kept.len().saturating_sub(KEPT_IMAGES);
    bytes -= kept[..gone].iter().map(Vec::capacity).sum::<usize>();
    while bytes > KEPT_BYTES {
        bytes -= kept[gone].capacity();
        gone += 1;
    }
    kept.drain(..gone);
}

impl Image {
    pub(super) const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let image = core::mem::take(&mut self.0);
        keep(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner), image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacities(kept: &[Vec<u8>]) -> Vec<usize> {
        kept.iter().map(Vec::capacity).collect()
    }

    #[test]
    fn the_image_read_last_that_fits_is_used_again() {
        let mut kept = Vec::new();
        [5000, 9000, 6000, 100].into_iter().for_each(|len| keep(&mut kept, Vec::with_capacity(len)));
        assert_eq!(take_from(&mut kept, 4800).map(|image| image.capacity()), Some(6000));
        assert_eq!(take_from(&mut kept, 4800).map(|image| image.capacity()), Some(9000));
        assert_eq!(take_from(&mut kept, 2000), None); // 5000 is more than twice as much
        assert_eq!(take_from(&mut kept, 50).map(|image| image.capacity()), Some(100));
        assert_eq!(capacities(&kept), [5000]);
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let mut kept = Vec::new();
        keep(&mut kept, Vec::with_capacity(KEPT_BYTES + 1));
        assert!(kept.is_empty());
        [1, 2, 3, 4].into_iter().for_each(|part| keep(&mut kept, Vec::with_capacity(part * (KEPT_BYTES / 8))));
        // 1 + 2 + 3 + 4 of 8 parts is too much by two parts: the first two go.
        assert_eq!(capacities(&kept), [3 * (KEPT_BYTES / 8), 4 * (KEPT_BYTES / 8)]);
        (0..=KEPT_IMAGES).for_each(|_| keep(&mut kept, Vec::with_capacity(64)));
        assert_eq!(kept.len(), KEPT_IMAGES);
        assert!(capacities(&kept).iter().all(|&bytes| bytes == 64));
    }

    #[test]
    fn an_image_has_the_length_that_was_asked_for() {
        drop(Image::new(vec![7; 3_000_001]));
        assert_eq!(take(3_000_000), vec![7; 3_000_000]);
        assert_eq!(take(2_900_000), vec![0; 2_900_000]); // nothing kept fits: new memory
    }
}
