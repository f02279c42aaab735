//! Device memory, allocated and freed in the order of a stream.

use std::sync::Arc;
use std::thread::ThreadId;

use cudarc::driver::{CudaStream, DriverError, result, sys};

use super::postponed::{self, Postponed};
use super::{driver, graph, stream};
use crate::error::{Error, ErrorKind};

/// Device memory of the CUDA backend. Dropping it frees it behind the work of its stream, as the [module](super) tells.
pub struct Block {
    allocation: Allocation,
    size_bytes: u64,
}

/// What it takes to free: the address, and the stream whose work the free stands behind.
#[derive(Clone)]
pub(super) struct Allocation {
    address: u64,
    stream: Arc<CudaStream>,
    // The thread whose per-thread default stream `stream` means.
    home: Option<ThreadId>,
}

impl Block {
    pub(super) fn allocate(stream: &Arc<CudaStream>, size_bytes: u64) -> Result<Self, Error> {
        postponed::settle();
        graph::drop_released();
        let size = to_usize(size_bytes)?;
        let context = stream.context();
        let _bound = driver::bind(context).map_err(driver::failed("cuCtxSetCurrent"))?;
        // Beside another stream's capture in global mode CUDA refuses either allocation, as a mistake that this is not.
        let _relaxed = driver::Relaxed::enter();
        let (call, allocated) = if context.has_async_alloc() {
            // SAFETY: the stream is borrowed, so live. The memory is used on this stream, or ordered behind it. That it is not
            // initialised matters to no Rust value: it is written by a copy before a kernel reads it.
            ("cuMemAllocAsync", unsafe { result::malloc_async(stream::own_handle(stream), size) })
        } else {
            // SAFETY: that the memory is not initialised matters to no Rust value, as above.
            ("cuMemAlloc_v2", unsafe { result::malloc_sync(size) })
        };
        let address = allocated.map_err(|error| driver::failed_allocation(call, error, size_bytes))?;
        Ok(Self {
            allocation: Allocation { address, stream: Arc::clone(stream), home: stream::home(stream) },
            size_bytes,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.allocation.address
    }

    /// The address of `len` bytes at `offset`, all inside the block.
    pub(super) fn range(&self, offset: u64, len: u64) -> Result<u64, Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size_bytes => Ok(self.address() + offset),
            end => {
                let needed = end.unwrap_or(u64::MAX);
                Err(Error::new(ErrorKind::TooLarge { needed, available: self.size_bytes }))
            }
        }
    }

    /// The handle for work of `stream` on this block.
    pub(super) fn handle_of(&self, stream: &CudaStream) -> sys::CUstream {
        stream::handle_from(stream, self.allocation.home)
    }

    /// Zeroes `len` bytes at `offset`, in the order of `stream`; in a capture as a node of the graph.
    pub(super) fn zero(&self, stream: &CudaStream, offset: u64, len: u64) -> Result<(), Error> {
        let target = self.range(offset, len)?;
        let size = to_usize(len)?;
        let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
        // SAFETY: the range lies inside this block, as checked, which is borrowed, and whose free comes behind this work. Zero
        // bytes are written where kernels write: no Rust value lives there.
        let zeroed = unsafe { result::memset_d8_async(target, 0, size, self.handle_of(stream)) };
        zeroed.map_err(driver::failed("cuMemsetD8Async"))
    }

    /// Copies to the host, and waits.
    pub(super) fn read(&self, stream: &CudaStream, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; to_usize(len)?];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let source = self.range(offset, len)?;
        let handle = self.handle_of(stream);
        let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
        stream::refuse_capture(handle).map_err(driver::failed("cuMemcpyDtoHAsync_v2"))?;
        // The wait may be held against a capture of some other stream.
        let _relaxed = driver::Relaxed::enter();
        // SAFETY: `bytes` lives until the stream is synchronised below, or is leaked. The range lies inside this block, as
        // checked, which is borrowed until the copy is done.
        let copied = unsafe { result::memcpy_dtoh_async(&mut bytes, source, handle) };
        if let Err(error) = driver::synchronize(handle) {
            if driver::synchronize(handle).is_err() {
                // The driver may still write.
                core::mem::forget(bytes);
            }
            return Err(driver::failed("cuStreamSynchronize")(error));
        }
        copied.map_err(driver::failed("cuMemcpyDtoHAsync_v2"))?;
        Ok(bytes)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.allocation.clone().release();
    }
}

impl Allocation {
    /// Frees behind the stream's work, now or when the capture of the stream is over.
    pub(super) fn release(self) {
        match self.free() {
            Ok(true) => {}
            Ok(false) => postponed::postpone(Postponed::Allocation(self)),
            // As cudarc's own drops do.
            Err(error) => self.stream.context().record_err(Err::<(), _>(error)),
        }
    }

    /// Frees behind the stream's work; `false`, with nothing done, while the stream is captured.
    fn free(&self) -> Result<bool, DriverError> {
        let context = self.stream.context();
        let handle = stream::handle_from(&self.stream, self.home);
        let _bound = driver::insist(|| driver::bind(context))?;
        if driver::insist(|| stream::is_capturing(handle))? {
            return Ok(false);
        }
        let _relaxed = driver::Relaxed::enter();
        if context.has_async_alloc() {
            // SAFETY: the address came from `cuMemAllocAsync` and is freed once: `release` consumes it, or postpones it as
            // it is. The free is ordered behind all work that the stream has been given.
            unsafe { result::free_async(self.address, handle) }?;
            return Ok(true);
        }
        if stream::is_home(self.home) {
            driver::insist(|| driver::synchronize(handle))?;
        } else {
            driver::insist(result::ctx::synchronize)?;
        }
        // SAFETY: the address came from `cuMemAlloc` and is freed once, as above; the work that used it is done.
        unsafe { result::free_sync(self.address) }?;
        Ok(true)
    }
}

fn to_usize(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::TooLarge { needed: bytes, available: usize::MAX as u64 }))
}
