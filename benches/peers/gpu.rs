//! The device of a run, and the few calls of the driver that the peers make, each under the name of the call.
//!
//! The peers call CUDA's runtime; here the driver is called, which the runtime's functions map to: `cudaMalloc` is `cuMemAlloc`,
//! `cudaMemcpy` `cuMemcpyHtoD`, `cudaMemcpyAsync` `cuMemcpyHtoDAsync`, `cudaFree` `cuMemFree`. The runtime's own work on top is not
//! counted, in the peers' favour.
//!
//! One blocking stream is used: `cudaMemcpy` works on the legacy default stream, which such a stream waits for, as a kernel on the
//! default stream does in the originals.

use std::error::Error;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::{CudaContext, CudaStream, result, sys};

use super::args::COLUMNS;

pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    // While a stream of cudarc's own exists its slices are tracked by events, as in every program that makes one.
    _tracking: Arc<CudaStream>,
}

impl Gpu {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        let tracking = context.new_stream()?;
        let raw = result::stream::create(StreamKind::Default)?;
        // SAFETY: the stream was made in this context just now, and lives until the process ends.
        let stream = unsafe { context.wrap_borrowed_stream(raw) };
        Ok(Self { context, stream, _tracking: tracking })
    }

    /// Waits until the device has done all it was given.
    pub(crate) fn settle(&self) {
        self.stream.synchronize().expect("the work was right");
    }

    /// Device bytes that are free, as the driver counts them.
    pub(crate) fn free_bytes(&self) -> usize {
        self.context.bind_to_thread().expect("the context is alive");
        result::mem_get_info().expect("the context is current").0
    }
}

/// `cudaMalloc`, and `cudaFree` when it is dropped.
pub(crate) struct Device {
    pub(crate) address: u64,
    bytes: usize,
}

impl Device {
    pub(crate) fn new(bytes: usize) -> Self {
        // SAFETY: nothing reads the memory before a copy has written it.
        let address = unsafe { result::malloc_sync(bytes) }.expect("device memory");
        Self { address, bytes }
    }

    /// `cudaMemcpy` from ordinary memory: the source is free again when it returns.
    pub(crate) fn copy_now(&self, offset: usize, source: &[u8]) {
        self.check(offset, source.len());
        // SAFETY: the range lies inside the allocation; the call has read the source when it returns.
        unsafe { result::memcpy_htod_sync(self.address + offset as u64, source) }.expect("copied");
    }

    /// `cudaMemcpyAsync` from ordinary memory.
    pub(crate) fn copy_pageable(&self, source: &[u8], gpu: &Gpu) {
        self.check(0, source.len());
        // SAFETY: the range lies inside the allocation, and the ways keep their sources until the stream has been settled.
        unsafe { result::memcpy_htod_async(self.address, source, gpu.stream.cu_stream()) }.expect("submitted");
    }

    /// `cudaMemcpyAsync` from the first `len` bytes of page-locked memory.
    pub(crate) fn copy(&self, source: &Pinned, len: usize, gpu: &Gpu) {
        self.check(0, len);
        // SAFETY: the range lies inside the allocation; page-locked memory waits for the device before it is freed. That it may
        // be written again before the copy runs makes wrong bytes at worst: it is what unguarded ways do.
        unsafe { result::memcpy_htod_async(self.address, &source.read()[..len], gpu.stream.cu_stream()) }
            .expect("submitted");
    }

    /// `cudaMemcpy` back, of as many bytes as `into` has, once the device is idle.
    pub(crate) fn read(&self, into: &mut [u8]) {
        self.check(0, into.len());
        // SAFETY: the range lies inside the allocation; the call has written the target when it returns.
        unsafe { result::memcpy_dtoh_sync(into, self.address) }.expect("copied");
    }

    /// Fills all of it, in the order of the stream.
    pub(crate) fn fill(&self, byte: u8, gpu: &Gpu) {
        // SAFETY: the range is the allocation; any bytes may stand in it.
        unsafe { result::memset_d8_async(self.address, byte, self.bytes, gpu.stream.cu_stream()) }.expect("submitted");
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.bytes, "{len} bytes at {offset} of {}", self.bytes);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once; the call waits for what still uses it. What fails is found by the next call.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// `cudaHostAlloc`, and `cudaFreeHost` when it is dropped.
pub(crate) struct Pinned {
    memory: *mut c_void,
    bytes: usize,
}

impl Pinned {
    pub(crate) fn new(bytes: usize) -> Self {
        // SAFETY: no flags; the memory is written next, and freed once, by `drop`.
        let memory = unsafe { result::malloc_host(bytes.max(1), 0) }.expect("page-locked memory");
        // SAFETY: the memory is that long, and nobody else has it.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        Self { memory, bytes }
    }

    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let mut pinned = Self::new(bytes.len());
        pinned.write().copy_from_slice(bytes);
        pinned
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.addr() as u64
    }

    pub(crate) fn read(&self) -> &[u8] {
        // SAFETY: the memory is that long, initialised, and borrowed with `self`; the device only reads it.
        unsafe { core::slice::from_raw_parts(self.memory.cast(), self.bytes) }
    }

    pub(crate) fn write(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed for writing with `self`.
        unsafe { core::slice::from_raw_parts_mut(self.memory.cast(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A copy may still read the memory. What fails here failed before, and was reported there.
        let _ = result::ctx::synchronize();
        // SAFETY: the memory came from `malloc_host`, is freed once, and no copy reads it any more.
        let _ = unsafe { result::free_host(self.memory) };
    }
}

/// `cuMemcpyBatchAsync` as CUDA 13 has it. Its types differ between cudarc's versions of CUDA, and older drivers lack it: so it is
/// looked up, and described here.
pub(crate) struct BatchCopy {
    call: BatchCall,
    // Keeps `call` loaded.
    _driver: libloading::Library,
}

type BatchCall = unsafe extern "C" fn(
    *const u64,
    *const u64,
    *const usize,
    usize,
    *const BatchAttributes,
    *const usize,
    usize,
    sys::CUstream,
) -> sys::CUresult;

/// `CUmemcpyAttributes`.
#[repr(C)]
struct BatchAttributes {
    source_order: u32,
    source_location: [i32; 2],
    destination_location: [i32; 2],
    flags: u32,
}

impl BatchCopy {
    const STREAM_ORDER: u32 = 1;

    /// None where the driver has no such call.
    pub(crate) fn find() -> Option<Self> {
        let names = if cfg!(windows) { ["nvcuda.dll"].as_slice() } else { &["libcuda.so.1", "libcuda.so"] };
        // SAFETY: the driver's initialisers have no preconditions; it is loaded already.
        let driver = names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())?;
        // SAFETY: the type is that of CUDA 13's `cuMemcpyBatchAsync`, which this symbol is.
        let call = *unsafe { driver.get::<BatchCall>(b"cuMemcpyBatchAsync_v2\0") }.ok()?;
        Some(Self { call, _driver: driver })
    }

    /// Copies each of `sources`, page-locked and whole, to its destination.
    pub(crate) fn copy(&self, destinations: &[Device], sources: &[Pinned], gpu: &Gpu) {
        let count = sources.len();
        assert_eq!(destinations.len(), count);
        let (mut to, mut from, mut sizes) = ([0; COLUMNS], [0; COLUMNS], [0; COLUMNS]);
        for (i, (destination, source)) in destinations.iter().zip(sources).enumerate() {
            destination.check(0, source.bytes);
            (to[i], from[i], sizes[i]) = (destination.address, source.address(), source.bytes);
        }
        let attributes = BatchAttributes {
            source_order: Self::STREAM_ORDER,
            source_location: [0; 2],
            destination_location: [0; 2],
            flags: 0,
        };
        let first = 0_usize;
        // SAFETY: the three lists have `count` entries, the ranges lie inside live allocations, one set of attributes serves from
        // copy 0 on, and the call has read all lists when it returns. The sources wait for the device before they are freed.
        let result = unsafe {
            (self.call)(
                to.as_ptr(),
                from.as_ptr(),
                sizes.as_ptr(),
                count,
                &raw const attributes,
                &raw const first,
                1,
                gpu.stream.cu_stream(),
            )
        };
        result.result().expect("submitted");
    }
}
