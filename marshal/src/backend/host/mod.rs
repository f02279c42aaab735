//! The host backend: a device that lives on the CPU and keeps CUDA's rules of streams and memory to the letter, so that code
//! which breaks one fails here every time, and not on a GPU now and then.
//!
//! - **Late.** Work that is given to a stream waits in its queue until somebody demands it: a wait of the host, a copy back, a
//!   stream that waits for an event and is demanded itself. It is also begun when its [patience](HostOptions::patience) is
//!   over, when its fence was [asked](HostOptions::polls) often enough, and when the queue is as full as a driver lets it become. A
//!   copy reads its source when it runs. Staging that was rewritten or freed before is found by its checksum.
//! - **Apart.** A stream is a thread, and streams meet at events only. Device memory is ordered by them: each piece of work
//!   knows what the program has ordered before it (a vector clock, fixed at submission). An access that races with another
//!   stream's, or a free that races with a use, is found even where the threads happened to run in the right order. What the
//!   host has waited for comes before all that it submits later.
//! - **Elsewhere.** Device memory is a range of addresses that the host cannot reach. No address is used twice, and wide gaps
//!   lie between blocks: every access is bounds-checked. Fresh memory is poison (`0xFE`), and no bool, `NonZero` or pointer
//!   is read that is not valid.
//! - **Strict.** A kernel is a closure over [`DeviceMemory`]. When it breaks a rule, or panics, its stream is broken as after
//!   an illegal address: kernels and copies behind it are thrown away, frees and events are kept, streams that wait for it
//!   break too, and every wait for the stream returns the report. What nobody has waited for is printed to stderr when
//!   the device goes. A kernel that calls the device gets an error, as a driver's callback does.
//! - **Captured.** A stream can [capture](HostStream::begin_capture) its work into a [`HostGraph`]. Every call that CUDA forbids
//!   meanwhile fails, and makes the capture invalid. A replay reads its sources anew. Memory that a live graph uses and that is freed
//!   is reported.
//! - **Shuffled.** The copies of a [batch](crate::CopyBatch) run in an order that is drawn from a [seed](HostOptions::seed).
//! - **On the record.** [`HostDevice::counters`] and [`HostDevice::journal`] tell every call, in the order of submission;
//!   [`HostDevice::fail`] lets calls fail.
//!
//! ```
//! use marshal::host::HostDevice;
//!
//! let device = HostDevice::new();
//! let (producer, consumer) = (device.stream(), device.stream());
//! let values = producer.clone_htod(&[1_u32, 2, 3])?;
//! let column = values.column();
//!
//! consumer.launch(move |memory| assert_eq!(memory.read(column), [1, 2, 3]))?;
//! assert!(consumer.synchronize().is_err()); // it did not wait for the producer
//!
//! let consumer = device.stream();
//! consumer.wait(&producer.record()?)?;
//! consumer.launch(move |memory| assert_eq!(memory.read(column), [1, 2, 3]))?;
//! consumer.synchronize()?;
//! # producer.wait(&consumer.record()?)?;
//! # Ok::<(), marshal::Error>(())
//! ```
//!
//! In the code: a handle ([`HostDevice`], [`HostStream`], [`HostBlock`], ..) takes the one lock of the device (`state`), enters
//! the call in the `journal`, and puts a task into the stream's `queue`. The stream's `worker` takes it out and does it, on
//! `memory`. The lock is never held while a kernel runs or what it owns is dropped.

mod batch;
mod block;
mod capture;
mod clock;
mod device;
mod elements;
mod fault;
mod fence;
mod journal;
mod kernel;
mod memory;
mod queue;
mod staging;
mod state;
mod stream;
mod worker;

use core::ops::Range;

pub use self::block::{HostBlock, HostBuffer};
pub use self::capture::HostGraph;
pub use self::device::{HostDevice, HostOptions};
pub use self::fault::Call;
pub use self::fence::HostFence;
pub use self::journal::{Counters, Op};
pub use self::kernel::DeviceMemory;
pub use self::staging::{HostRegion, HostStaging};
pub use self::stream::HostStream;

use self::fault::Code;
use self::stream::device_name;
use super::{Backend, BackendStream, BatchCopy, BatchFailure, BatchMemory, Keeper};
use crate::alignment::Alignment;
use crate::error::Error;

/// The host backend, as the library sees it.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl BackendStream for HostStream {
    type Backend = Host;
}

impl Backend for Host {
    type Stream = HostStream;
    type Block = HostBlock;
    type Region = HostRegion;
    type Fence = HostFence;
    type Graph = HostGraph;

    fn block_alignment(stream: &HostStream) -> Alignment {
        Alignment::of_address(memory::GRANULE | stream.shared().options.base_offset)
    }

    fn is_capturing(stream: &HostStream) -> Result<bool, Error> {
        stream.ask_whether_capturing()
    }

    fn allocate(stream: &HostStream, size_bytes: u64) -> Result<HostBlock, Error> {
        HostBlock::allocate(stream, size_bytes)
    }

    fn address(block: &HostBlock) -> u64 {
        block.address()
    }

    fn copy_htod(stream: &HostStream, source: Vec<u8>, block: &HostBlock, offset: u64) -> Result<(), Error> {
        stream.copy_htod(source, block, offset)
    }

    fn zero(stream: &HostStream, block: &HostBlock, offset: u64, len: u64) -> Result<(), Error> {
        stream.zero(block, offset, len)
    }

    fn allocate_staging(stream: &HostStream, region_bytes: usize, regions: usize) -> Result<Vec<HostRegion>, Error> {
        HostRegion::allocate(stream, region_bytes, regions)
    }

    unsafe fn read_region<R>(region: &HostRegion, read: impl FnOnce(&[u8]) -> R) -> R {
        region.with_bytes(|bytes| read(bytes))
    }

    unsafe fn write_region<R>(region: &mut HostRegion, write: impl FnOnce(&mut [u8]) -> R) -> R {
        region.with_bytes(write)
    }

    // Safe here: a region that is written or freed too early is found and reported.
    unsafe fn copy_staged(
        stream: &HostStream,
        region: &HostRegion,
        len: usize,
        block: &HostBlock,
        offset: u64,
    ) -> Result<(), Error> {
        stream.copy_region(region, len, block, offset)
    }

    fn retire(stream: &HostStream, regions: Vec<HostRegion>) {
        stream.retire(regions);
    }

    fn copy_dtoh(stream: &HostStream, block: &HostBlock, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        if stream.is_capturing() {
            return Err(Call::Copy.error(Code::CaptureUnsupported));
        }
        Ok(stream.fetch(block, offset, len)?.with_bytes(<[u8]>::to_vec))
    }

    fn record(stream: &HostStream) -> Result<HostFence, Error> {
        stream.record()
    }

    fn record_again(stream: &HostStream, fence: &mut HostFence) -> Result<(), Error> {
        stream.record_again(fence)
    }

    fn is_done(fence: &HostFence) -> Result<bool, Error> {
        fence.query_relaxed()
    }

    fn wait_on_host(fence: &HostFence) -> Result<(), Error> {
        fence.synchronize()
    }

    fn wait(stream: &HostStream, fence: &HostFence) -> Result<(), Error> {
        stream.wait(fence)
    }

    fn synchronize(stream: &HostStream) -> Result<(), Error> {
        stream.synchronize()
    }

    fn begin_capture(stream: &HostStream) -> Result<(), Error> {
        stream.begin_capture()
    }

    fn end_capture(stream: &HostStream) -> Result<HostGraph, Error> {
        stream.end_capture()
    }

    fn launch(stream: &HostStream, graph: &mut HostGraph) -> Result<(), Error> {
        graph.launch(stream)
    }

    // Safe here, as `copy_staged` is.
    unsafe fn set_source(
        graph: &mut HostGraph,
        region: &HostRegion,
        len: usize,
        block: &HostBlock,
        offset: u64,
    ) -> Result<(), Error> {
        graph.set_source(region.source(len)?, block.range(offset, len as u64)?)
    }

    fn keeper(stream: &HostStream) -> Result<Keeper, Error> {
        stream.keeper()
    }

    // What was dropped during a capture is freed when it ends.
    fn reclaim(stream: &HostStream) {
        stream.shared().drop_released();
    }

    fn is_per_thread(_: &HostStream) -> bool {
        false
    }

    fn is_same_stream(a: &HostStream, b: &HostStream) -> bool {
        a.is_same(b)
    }

    fn device_name(stream: &HostStream) -> String {
        device_name(stream.shared())
    }

    fn is_same_device(a: &HostStream, b: &HostStream) -> bool {
        a.is_same_device(b)
    }

    // Nobody is told: a use that races is found when it happens.
    type Use<'s> = ();

    fn end_uses(_: &HostStream, _: Vec<()>) {}

    fn allocation_of(stream: &HostStream, address: u64) -> Option<Range<u64>> {
        stream.lock().memory.allocation_of(address)
    }

    // Safe here, as `copy_staged` is.
    unsafe fn copy_batch(
        stream: &HostStream,
        memory: &BatchMemory<'_, Self>,
        copies: &[BatchCopy],
        _: bool,
    ) -> Result<bool, BatchFailure> {
        batch::submit(stream, memory, copies)
    }

    fn keep(stream: &HostStream, owned: Box<dyn Send>) {
        batch::keep(stream, owned);
    }
}
