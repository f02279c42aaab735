//! What a backend is: bytes, streams and fences. It knows nothing of columns.

use core::ops::Range;

use crate::alignment::Alignment;
use crate::error::Error;

mod batch;
pub mod host;
mod keeper;

#[cfg(feature = "cuda")]
pub mod cuda;

pub use self::batch::{BatchCopy, BatchFailure, BatchMemory, HostMemory, Place, Tracked};
pub use self::keeper::Keeper;

/// A stream that arguments are uploaded on. Its type says which backend it belongs to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a stream nor a cache",
    label = "nothing uploads to this",
    note = "an upload goes to `&Arc<CudaStream>` of cudarc, `&HostStream` or `&ArgCache`"
)]
pub trait BackendStream: Clone + Send + Sync + 'static {
    /// The backend.
    type Backend: Backend<Stream = Self>;
}

/// The calls that an upload needs, with static dispatch. [`host::Host`] and [`cuda::Cuda`] implement it.
///
/// All calls but [`copy_dtoh`](Self::copy_dtoh) return without waiting for the device. After an error a call has had no effect; but
/// one that gives work to a stream may have given it all the same, since CUDA reports what earlier work did by any later call.
pub trait Backend: Sized + Send + Sync + 'static {
    /// A stream of work: what is given to it runs in order.
    type Stream: BackendStream<Backend = Self>;

    /// Device memory. Dropping it frees it behind the work that its stream was given before the drop.
    type Block: Send + Sync;

    /// Host memory that copies are made from: page-locked where the device reads it directly.
    type Region: Send;

    /// A point in the work of a stream.
    type Fence: Send + Sync;

    /// A captured graph that can be launched. Dropping it leaves launches alone that are under way.
    type Graph: Send;

    /// The alignment that every block of this stream's device has at least.
    fn block_alignment(stream: &Self::Stream) -> Alignment;

    /// Whether the stream is being captured into a graph.
    ///
    /// # Errors
    /// When the driver cannot say.
    fn is_capturing(stream: &Self::Stream) -> Result<bool, Error>;

    /// Allocates `size_bytes > 0` of device memory, ordered on `stream`.
    ///
    /// # Errors
    /// When the device has no such memory.
    fn allocate(stream: &Self::Stream, size_bytes: u64) -> Result<Self::Block, Error>;

    /// The block's first device address; never 0.
    fn address(block: &Self::Block) -> u64;

    /// Host memory for an image of `len` bytes that [`copy_htod`](Self::copy_htod) is to send, whatever stands in it.
    fn image(len: usize) -> Vec<u8> {
        vec![0; len]
    }

    /// Copies `source` to `offset` of `block`, ordered on `stream`. The backend keeps `source` until the copy has run.
    ///
    /// # Errors
    /// When the copy was not submitted.
    fn copy_htod(stream: &Self::Stream, source: Vec<u8>, block: &Self::Block, offset: u64) -> Result<(), Error>;

    /// Zeroes `len` bytes at `offset` of `block`, ordered on `stream`. In a capture it becomes a node of the graph.
    ///
    /// # Errors
    /// When the range passes the block's end, or the call was not submitted.
    fn zero(stream: &Self::Stream, block: &Self::Block, offset: u64, len: u64) -> Result<(), Error>;

    /// Allocates `regions` pieces of staging of `region_bytes` each, with one call of the driver.
    ///
    /// # Errors
    /// When the host has no such memory.
    fn allocate_staging(stream: &Self::Stream, region_bytes: usize, regions: usize)
    -> Result<Vec<Self::Region>, Error>;

    /// Lends the region's bytes, to be read. Pending copies may read them meanwhile. `read` lends no other region.
    ///
    /// # Safety
    /// A stream of the device that the region was allocated on is alive.
    unsafe fn read_region<R>(region: &Self::Region, read: impl FnOnce(&[u8]) -> R) -> R;

    /// Lends the region's bytes, to be written. `write` lends no other region.
    ///
    /// # Safety
    /// As for [`read_region`](Self::read_region), and every copy from the region has run.
    unsafe fn write_region<R>(region: &mut Self::Region, write: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Copies the first `len` bytes of `region` to `offset` of `block`, ordered on `stream`.
    ///
    /// # Safety
    /// `stream`, `region` and `block` are of one device, and `offset + len` lies inside the block. The region is neither
    /// written nor dropped before a fence recorded on `stream` after this call has passed; or it is
    /// [retired](Self::retire) to `stream`.
    ///
    /// # Errors
    /// When the copy was not submitted; then nothing reads the region.
    unsafe fn copy_staged(
        stream: &Self::Stream,
        region: &Self::Region,
        len: usize,
        block: &Self::Block,
        offset: u64,
    ) -> Result<(), Error>;

    /// Frees `regions` behind the work that `stream` has been given so far.
    fn retire(stream: &Self::Stream, regions: Vec<Self::Region>);

    /// Copies `len` bytes from `offset` of `block` to the host, ordered on `stream`, and waits for them.
    ///
    /// # Errors
    /// When the copy, or work before it on the stream, failed. While the stream is being captured, before anything is done: the capture
    /// stays valid.
    fn copy_dtoh(stream: &Self::Stream, block: &Self::Block, offset: u64, len: u64) -> Result<Vec<u8>, Error>;

    /// The point behind all work that `stream` has been given so far.
    ///
    /// # Errors
    /// When the driver has no event, or does not record it.
    fn record(stream: &Self::Stream) -> Result<Self::Fence, Error>;

    /// Records `fence` anew, behind all work that `stream` has been given so far.
    ///
    /// # Errors
    /// When the driver does not record it; then the fence stands where it stood.
    fn record_again(stream: &Self::Stream, fence: &mut Self::Fence) -> Result<(), Error>;

    /// Whether the work before the fence is done. Asks the driver, and does not wait.
    ///
    /// # Errors
    /// When that work failed.
    fn is_done(fence: &Self::Fence) -> Result<bool, Error>;

    /// Waits, on the host, for the work before the fence.
    ///
    /// # Errors
    /// When that work failed.
    fn wait_on_host(fence: &Self::Fence) -> Result<(), Error>;

    /// Lets the work that `stream` is given from now on wait for `fence`. The host does not wait.
    ///
    /// # Errors
    /// When the driver refuses.
    fn wait(stream: &Self::Stream, fence: &Self::Fence) -> Result<(), Error>;

    /// Waits, on the host, for all work that `stream` has been given so far.
    ///
    /// # Errors
    /// When that work failed.
    fn synchronize(stream: &Self::Stream) -> Result<(), Error>;

    /// Begins to capture what this thread gives to the stream.
    ///
    /// # Errors
    /// When the stream is being captured already, or cannot be.
    fn begin_capture(stream: &Self::Stream) -> Result<(), Error>;

    /// Ends the capture, and makes a graph of it that can be launched.
    ///
    /// # Errors
    /// When a call has made the capture invalid, or the graph cannot be made. The stream does not capture any more then either.
    fn end_capture(stream: &Self::Stream) -> Result<Self::Graph, Error>;

    /// Launches the graph, ordered on `stream`, the one that it was captured on.
    ///
    /// # Errors
    /// When it was not launched.
    fn launch(stream: &Self::Stream, graph: &mut Self::Graph) -> Result<(), Error>;

    /// Lets the launches of `graph` to come read `region` in the copy that was captured to `offset` of `block`. Launches before are
    /// not affected.
    ///
    /// # Safety
    /// As for [`copy_staged`](Self::copy_staged), where each launch is a call that reads the region, until another source is set or
    /// the graph is dropped.
    ///
    /// # Errors
    /// When the graph has no such copy, or the driver refuses; then the launches read what they read before.
    unsafe fn set_source(
        graph: &mut Self::Graph,
        region: &Self::Region,
        len: usize,
        block: &Self::Block,
        offset: u64,
    ) -> Result<(), Error>;

    /// A place in the graph that `stream` is being captured into. What is put there is dropped at some time after the graph and its
    /// launches are gone, by a call of this crate, [`reclaim`](Self::reclaim) at the latest. It is made before the graph is given
    /// anything that has to be kept: to put something there cannot fail.
    ///
    /// # Errors
    /// When the stream is not captured, or the graph cannot keep anything.
    fn keeper(stream: &Self::Stream) -> Result<Keeper, Error>;

    /// Drops what graphs kept that are gone, and frees what was dropped during captures that are over.
    fn reclaim(stream: &Self::Stream);

    /// Whether the handle names another stream on every thread.
    fn is_per_thread(stream: &Self::Stream) -> bool;

    /// Whether both handles name one stream.
    fn is_same_stream(a: &Self::Stream, b: &Self::Stream) -> bool;

    /// The stream's device, in words, for errors; equal for streams that can share memory.
    fn device_name(stream: &Self::Stream) -> String;

    /// Whether memory of one stream's device can be used on the other.
    fn is_same_device(a: &Self::Stream, b: &Self::Stream) -> bool;

    /// A use of [tracked](Tracked) device memory by copies that are being submitted.
    type Use<'s>;

    /// Tells the owners of tracked memory that `stream` was given the copies. They keep the memory from whoever would get in their
    /// way.
    fn end_uses<'s>(stream: &'s Self::Stream, uses: Vec<Self::Use<'s>>);

    /// The device addresses of the allocation that `address` lies in, where the driver knows.
    fn allocation_of(stream: &Self::Stream, address: u64) -> Option<Range<u64>>;

    /// Copies that depend on no other of them, in any order, and as a whole ordered on `stream`. On a stream that is being
    /// captured each becomes a node of the graph: whether they did. `is_capturing` is what the stream was asked before; another
    /// thread may have begun a capture since.
    ///
    /// # Safety
    /// The device ranges may be used on `stream`, and those that are written overlap no other. The host memory is neither written
    /// nor dropped before a fence recorded on `stream` after this call has passed, be it that the call fails; where the stream is
    /// being captured, never.
    ///
    /// # Errors
    /// When not all copies were submitted. Stops at the first that was not.
    unsafe fn copy_batch(
        stream: &Self::Stream,
        memory: &BatchMemory<'_, Self>,
        copies: &[BatchCopy],
        is_capturing: bool,
    ) -> Result<bool, BatchFailure>;

    /// Drops `owned` behind the work that `stream` has been given so far.
    fn keep(stream: &Self::Stream, owned: Box<dyn Send>);
}
