//! The CUDA backend: uploads on streams of [`cudarc`], whose libraries are loaded at run time.
//!
//! An upload on an `&Arc<CudaStream>` is three calls of the driver, all ordered on that stream: a stream-ordered allocation,
//! one asynchronous copy, and, when the set is dropped, a stream-ordered free. Nothing waits on the host. Where the device has
//! no memory pools, allocation and free are the plain ones and the free waits for the stream.
//!
//! # What holds
//! - **The context.** Every call makes the stream's context current on the calling thread, and then the one again that was before,
//!   where there was one.
//! - **Errors.** An error is what the very call returned. An error that cudarc has parked in the context (from a `Drop` that
//!   could not return it) is neither reported as ours nor cleared: it stays for whoever asks with `check_err`.
//! - **The source of a copy.** Of a copy from pageable memory CUDA says only that it ["might be synchronous with respect to
//!   host"](https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html). So the bytes are kept until an event behind
//!   the copy has been reached: at most 64 MiB of them in a process, and the newest; past that an upload waits for the oldest.
//!   Their memory serves later images, again at most 64 MiB of it.
//! - **Capture.** On a stream that is being captured a one-shot upload is refused, and the capture stays valid. What an upload to a
//!   cache adds to a graph, the graph keeps: a [`CapturedGraph`](crate::CapturedGraph) by itself, a graph that was captured
//!   otherwise through a [user object](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html), which it releases when it
//!   and its launches are gone; the next allocation then takes it back. What is dropped while its stream is captured is freed once
//!   the capture is over.
//! - **Events of cudarc.** In multi-stream mode cudarc lets a launch wait for the events of its `CudaSlice` arguments, which a capture
//!   refuses when they were recorded outside of it. In a capture pass pointers ([`pointer_to`]), or turn event tracking off.
//!
//! - **Batches.** `cuMemcpyBatchAsync` is looked up in the driver when the first batch is submitted, under both of its signatures,
//!   whatever toolkit version cudarc was built for; it is never linked.
//!
//! # Which streams
//! All: created, borrowed ([`wrap_borrowed_stream`](cudarc::driver::CudaContext::wrap_borrowed_stream)), the legacy default
//! stream, and the per-thread default stream. The last is another stream on each thread, under one handle. A set that was
//! uploaded on it may go to another thread; what is done with the set there (drop, `read_back`) and every
//! [`on`](crate::Uploaded::on) from or to a per-thread stream goes through the legacy default stream, which
//! [waits for every blocking stream of the context, and they for it](https://docs.nvidia.com/cuda/cuda-driver-api/stream-sync-behavior.html).
//! That is right on every thread, and orders more than is needed: threads that share sets are better off with created streams.
//!
//! # Pointers to memory of cudarc
//! [`pointer_to`] and [`pointer_to_mut`] make a [`DevicePointer`](crate::DevicePointer) of a `CudaSlice` or a view of one.
//! [`Buffers`] makes a column of many, which stay borrowed as long as a set has their addresses. A pointer or a column goes to a
//! kernel as `T*` with [`arg`](cudarc::driver::PushKernelArg::arg). A batch of copies takes the slice itself.

mod batch;
mod block;
mod buffers;
mod driver;
mod event;
mod graph;
mod images;
mod launch;
mod postponed;
mod retired;
mod slice;
mod source;
mod staging;
mod stream;

use core::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, SyncOnDrop, result};

use crate::alignment::Alignment;
use crate::backend::{Backend, BackendStream, BatchCopy, BatchFailure, BatchMemory, Keeper};
use crate::error::Error;

pub use self::block::Block;
pub use self::buffers::{BufferColumn, Buffers};
pub use self::driver::is_available;
pub use self::event::Fence;
pub use self::graph::Graph;
pub use self::slice::{pointer_to, pointer_to_mut};
pub use self::staging::Region;

/// The CUDA backend; its streams are cudarc's `Arc<CudaStream>`.
#[derive(Debug)]
pub enum Cuda {}

impl BackendStream for Arc<CudaStream> {
    type Backend = Cuda;
}

impl Backend for Cuda {
    type Stream = Arc<CudaStream>;
    type Block = Block;
    type Region = Region;
    type Fence = Fence;
    type Graph = Graph;

    fn block_alignment(_: &Arc<CudaStream>) -> Alignment {
        Alignment::ALLOCATION
    }

    fn is_capturing(stream: &Arc<CudaStream>) -> Result<bool, Error> {
        // A created stream knows its context: where another one is current the driver says so at worst, and is asked again. The
        // question is on the way of every cached upload, and to bind first makes it half as dear again.
        if !stream::is_default(stream)
            && let Ok(is_capturing) = stream::is_capturing(stream::own_handle(stream))
        {
            return Ok(is_capturing);
        }
        driver::bind(stream.context())
            .and_then(|_bound| stream::is_capturing(stream::own_handle(stream)))
            .map_err(driver::failed("cuStreamIsCapturing"))
    }

    fn allocate(stream: &Arc<CudaStream>, size_bytes: u64) -> Result<Block, Error> {
        Block::allocate(stream, size_bytes)
    }

    fn address(block: &Block) -> u64 {
        block.address()
    }

    fn image(len: usize) -> Vec<u8> {
        images::take(len)
    }

    fn copy_htod(stream: &Arc<CudaStream>, source: Vec<u8>, block: &Block, offset: u64) -> Result<(), Error> {
        source::copy(stream, source, block, offset)
    }

    fn zero(stream: &Arc<CudaStream>, block: &Block, offset: u64, len: u64) -> Result<(), Error> {
        block.zero(stream, offset, len)
    }

    fn allocate_staging(stream: &Arc<CudaStream>, region_bytes: usize, regions: usize) -> Result<Vec<Region>, Error> {
        Region::allocate(stream, region_bytes, regions)
    }

    #[inline]
    unsafe fn read_region<R>(region: &Region, read: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: the caller keeps the context alive, and with it the memory.
        read(unsafe { region.bytes() })
    }

    #[inline]
    unsafe fn write_region<R>(region: &mut Region, write: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: as above; and no copy reads the region any more.
        write(unsafe { region.bytes_mut() })
    }

    #[inline]
    unsafe fn copy_staged(
        stream: &Arc<CudaStream>,
        region: &Region,
        len: usize,
        block: &Block,
        offset: u64,
    ) -> Result<(), Error> {
        // SAFETY: the caller promises what `copy` asks.
        unsafe { region.copy(stream, len, block, offset) }
    }

    fn retire(stream: &Arc<CudaStream>, regions: Vec<Region>) {
        source::retire_regions(stream, regions);
    }

    fn copy_dtoh(stream: &Arc<CudaStream>, block: &Block, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        block.read(stream, offset, len)
    }

    fn record(stream: &Arc<CudaStream>) -> Result<Fence, Error> {
        Fence::record(stream)
    }

    fn record_again(stream: &Arc<CudaStream>, fence: &mut Fence) -> Result<(), Error> {
        fence.record_again(stream)
    }

    fn is_done(fence: &Fence) -> Result<bool, Error> {
        fence.is_done()
    }

    fn wait_on_host(fence: &Fence) -> Result<(), Error> {
        fence.wait_on_host()
    }

    fn wait(stream: &Arc<CudaStream>, fence: &Fence) -> Result<(), Error> {
        fence.wait_on(stream)
    }

    fn synchronize(stream: &Arc<CudaStream>) -> Result<(), Error> {
        if stream::is_per_thread(stream) {
            // The handle may have been used on another thread: wait for the work of all.
            return driver::bind(stream.context())
                .and_then(|_bound| result::ctx::synchronize())
                .map_err(driver::failed("cuCtxSynchronize"));
        }
        // The wait may be held against a capture of some other stream.
        let _relaxed = driver::Relaxed::enter();
        driver::bind(stream.context())
            .and_then(|_bound| driver::synchronize(stream::own_handle(stream)))
            .map_err(driver::failed("cuStreamSynchronize"))
    }

    fn begin_capture(stream: &Arc<CudaStream>) -> Result<(), Error> {
        graph::begin_capture(stream)
    }

    fn end_capture(stream: &Arc<CudaStream>) -> Result<Graph, Error> {
        Graph::end_capture(stream)
    }

    fn launch(stream: &Arc<CudaStream>, graph: &mut Graph) -> Result<(), Error> {
        graph.launch(stream)
    }

    unsafe fn set_source(
        graph: &mut Graph,
        region: &Region,
        len: usize,
        block: &Block,
        offset: u64,
    ) -> Result<(), Error> {
        // SAFETY: the caller promises what `set_source` asks.
        unsafe { graph.set_source(region, len, block, offset) }
    }

    fn keeper(stream: &Arc<CudaStream>) -> Result<Keeper, Error> {
        graph::keeper(stream)
    }

    fn reclaim(_: &Arc<CudaStream>) {
        postponed::settle();
        graph::drop_released();
    }

    fn is_per_thread(stream: &Arc<CudaStream>) -> bool {
        stream::is_per_thread(stream)
    }

    fn is_same_stream(a: &Arc<CudaStream>, b: &Arc<CudaStream>) -> bool {
        stream::is_same(a, b)
    }

    fn device_name(stream: &Arc<CudaStream>) -> String {
        let context = stream.context();
        // Not `CudaContext::name`: it would clear an error that is parked in the context.
        let name = result::device::get_name(context.cu_device()).unwrap_or_else(|_| "name unknown".to_owned());
        format!("CUDA device {} ({name})", context.ordinal())
    }

    fn is_same_device(a: &Arc<CudaStream>, b: &Arc<CudaStream>) -> bool {
        a.context() == b.context()
    }

    type Use<'s> = SyncOnDrop<'s>;

    fn end_uses<'s>(stream: &'s Arc<CudaStream>, uses: Vec<SyncOnDrop<'s>>) {
        slice::end_uses(stream, uses);
    }

    fn allocation_of(stream: &Arc<CudaStream>, address: u64) -> Option<Range<u64>> {
        batch::allocation_of(stream, address)
    }

    unsafe fn copy_batch(
        stream: &Arc<CudaStream>,
        memory: &BatchMemory<'_, Self>,
        copies: &[BatchCopy],
        is_capturing: bool,
    ) -> Result<bool, BatchFailure> {
        // SAFETY: the caller promises what `submit` asks.
        unsafe { batch::submit(stream, memory, copies, is_capturing) }
    }

    fn keep(stream: &Arc<CudaStream>, owned: Box<dyn Send>) {
        source::keep_owned(stream, owned);
    }
}
