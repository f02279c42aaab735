//! Page-locked host memory in regions, for copies that read it when they run.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use cudarc::driver::{CudaContext, CudaStream, result};

use super::block::Block;
use super::driver;
use crate::error::{Error, ErrorKind};

/// A part of page-locked memory that one copy is made from.
pub struct Region {
    slab: Arc<Slab>,
    start: usize,
    len: usize,
}

/// One page-locked allocation. When its context is gone, so is the memory; where somebody else retains the device's primary
/// context, the memory stays until that one lets go.
struct Slab {
    memory: NonNull<u8>,
    context: Weak<CudaContext>,
}

// SAFETY: the memory belongs to the slab alone and to no thread; it is reached only through regions, which do not overlap.
unsafe impl Send for Slab {}
// SAFETY: as above; `&Slab` gives nothing but the address.
unsafe impl Sync for Slab {}

impl Region {
    /// `regions` of `region_bytes` each, zeroed, with one allocation.
    pub(super) fn allocate(stream: &CudaStream, region_bytes: usize, regions: usize) -> Result<Vec<Self>, Error> {
        let size_bytes = region_bytes.checked_mul(regions).filter(|&bytes| bytes != 0);
        let size_bytes = size_bytes
            .ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 }))?;
        let context = stream.context();
        let _bound = driver::bind(context).map_err(driver::failed("cuCtxSetCurrent"))?;
        let _relaxed = driver::Relaxed::enter();
        // Not portable: staging belongs to one cache, so to one context.
        // SAFETY: the context is bound; what is allocated is initialised below and freed once, by the slab.
        let allocated = unsafe { result::malloc_host(size_bytes, 0) };
        let memory =
            allocated.map_err(|error| driver::failed_allocation("cuMemHostAlloc", error, size_bytes as u64))?;
        let memory = NonNull::new(memory.cast::<u8>())
            .ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: size_bytes as u64, available: 0 }))?;
        // SAFETY: the memory is `size_bytes` long and nobody else has it yet.
        unsafe { memory.write_bytes(0, size_bytes) };
        let slab = Arc::new(Slab { memory, context: Arc::downgrade(context) });
        let region = |index| Self { slab: Arc::clone(&slab), start: index * region_bytes, len: region_bytes };
        Ok((0..regions).map(region).collect())
    }

    /// Bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.len as u64
    }

    /// Where the first `len` bytes stand; `None` where there are fewer.
    pub(super) fn address(&self, len: usize) -> Option<*const u8> {
        // Inside the slab, whose memory is one allocation: the sum does not wrap.
        (len <= self.len).then(|| self.slab.memory.as_ptr().wrapping_add(self.start).cast_const())
    }

    /// # Safety
    /// The context that the region was allocated in is alive.
    #[inline]
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: `start` lies inside the slab, whose memory is one allocation.
        let first = unsafe { self.slab.memory.add(self.start) };
        // SAFETY: the range lies inside the slab, was initialised by `allocate`, belongs to this region alone, and is not
        // written while the region is borrowed. The caller keeps the context, and with it the memory, alive.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), self.len) }
    }

    /// # Safety
    /// The context that the region was allocated in is alive, and no pending copy reads the region.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` lies inside the slab, whose memory is one allocation.
        let first = unsafe { self.slab.memory.add(self.start) };
        // SAFETY: as in `bytes`; the region is borrowed for this borrow alone, and no copy reads it, as the caller promises.
        unsafe { core::slice::from_raw_parts_mut(first.as_ptr(), self.len) }
    }

    /// The address of `len` bytes at `offset`, all inside the region.
    pub(super) fn address_of(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then(|| self.slab.memory.as_ptr().wrapping_add(self.start + offset))
    }

    /// Copies the first `len` bytes to `offset` of `block`, in the order of `stream`.
    ///
    /// # Safety
    /// The region is neither written nor freed before the copy has run, and its context is alive.
    #[inline]
    pub(super) unsafe fn copy(&self, stream: &CudaStream, len: usize, block: &Block, offset: u64) -> Result<(), Error> {
        let target = block.range(offset, len as u64)?;
        // SAFETY: the caller keeps the context alive.
        let bytes = unsafe { self.bytes() };
        let source = bytes
            .get(..len)
            .ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: len as u64, available: self.len as u64 }))?;
        let handle = block.handle_of(stream);
        let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
        // SAFETY: the target range lies inside the block, which is borrowed, and whose free comes behind this work; the source
        // stays as it is until the copy has run, as the caller promises.
        let copied = unsafe { result::memcpy_htod_async(target, source, handle) };
        copied.map_err(driver::failed("cuMemcpyHtoDAsync_v2"))
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let Some(context) = self.context.upgrade() else { return };
        let _relaxed = driver::Relaxed::enter();
        let freed = driver::insist(|| driver::bind(&context)).and_then(|_bound| {
            // SAFETY: the memory came from `malloc_host` and is freed once, here; no copy reads it any more: regions are dropped
            // only after their last copy has run.
            unsafe { result::free_host(self.memory.as_ptr().cast()) }
        });
        context.record_err(freed);
    }
}
