//! The cached mode: blocks and staging that outlive an upload, so that the next one of the same shape allocates nothing.
//!
//! # The protocol
//!
//! The cache belongs to one stream. For each shape it keeps *slots*: a device block, and the staging region that holds what was
//! sent to it last, its image. Regions come from *pools*, one for each size. An upload
//!
//! 1. takes the cache's lock, and asks whether the stream is being captured;
//! 2. holds each slot of the shape against the arguments, last used first: the same columns, the same bytes? Then the set
//!    shares that block, held or not, and no call is made. Where the block has scratch, which kernels write into, the set takes
//!    it only if nobody holds it;
//! 3. else takes the first slot of the same columns that no set holds, packs the arguments into a region that no pending copy
//!    reads (see [`staging`](crate::staging)), and copies; that region is the image then, and the old one returns to its pool;
//! 4. else allocates a block, and does the same with it. What has to go to make room, [`policy`](crate::policy) says; it goes
//!    when the new block has been written.
//!
//! Scratch that is to be zeroed is zeroed before the set is returned, whichever way it went: behind the work that used the block
//! before, in the order of the stream. A block of scratch alone has no image and no staging.
//!
//! [`slots`](crate::slots) has what is kept, [`session`](crate::session) the steps from the lock to the copy.
//!
//! A slot's state changes only after its copy was submitted; a new slot joins the cache only then, and the evicted leave it. So
//! after an error the cache is as it was, but for two things when staging is at its cap: a slot may have lost its image, and is
//! copied again then; and slots may have gone to make room for staging.
//!
//! While the stream is captured, the set takes a free slot out of the cache for good, as long as the graph lives: see
//! [`graph`](crate::graph).
//!
//! The lock is held while the arguments are walked over. A walk that uses the same cache is refused.
//!
//! # Why nothing is stale and nothing races
//!
//! - A set holds its block through an `Arc`; the cache writes a block only while it has the only one. So the bytes that a held
//!   set points to never change.
//! - Work that a set was used for was given to the stream before the set was dropped, and the cache's copies come after the
//!   drop on the same stream: the old work reads the old bytes. `Arc` orders the two for threads.
//! - Work on another stream goes through `on`, which makes the cache's stream wait for it. A block for which that failed
//!   counts as held for ever.
//! - Kernels only read copied columns: what a kernel wrote into one, a later upload of the same bytes would not notice. What they
//!   write into scratch, no other set has.

use core::fmt;
use std::sync::Arc;

use crate::backend::{Backend, BackendStream};
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{CacheOptions, CacheStats};
use crate::session::Session;
use crate::shared::{Locked, Shared};

/// Device blocks and staging, reused from upload to upload. Bound to the stream that it is made with; shared between threads.
///
/// Kernels must not write into the columns of a cached set, but for [scratch](crate::Scratch): an upload whose bytes equal those
/// of the last one makes no copy, and would not notice. Each upload is compared with every block of its shape, so the cost of a
/// miss grows with the number of held sets of one shape whose bytes begin alike.
///
/// ```
/// use marshal::{ArgCache, DeviceArgs, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Sizes { m: Vec<i32> }
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let cache = ArgCache::new(&stream)?;
///
/// let first = Sizes { m: vec![1, 2] }.upload(&cache)?.base();
/// // The same shape: the same block, copied again.
/// let second = Sizes { m: vec![3, 4] }.upload(&cache)?.base();
/// assert_eq!(first, second);
/// // The same bytes: no call at all.
/// let held = Sizes { m: vec![3, 4] }.upload(&cache)?;
/// // A held set is never rewritten: other bytes get another block.
/// let other = Sizes { m: vec![5, 6] }.upload(&cache)?;
/// assert_ne!(held.base(), other.base());
///
/// let stats = cache.stats();
/// assert_eq!((stats.uploads, stats.copies, stats.allocations), (4, 3, 2));
/// assert_eq!((stats.shape_hits, stats.byte_hits), (1, 1));
/// # Ok::<(), marshal::Error>(())
/// ```
pub struct ArgCache<B: Backend> {
    shared: Arc<Shared<B>>,
}

impl<B: Backend> ArgCache<B> {
    /// A cache for `stream`, with the default options. Allocates nothing yet.
    ///
    /// # Errors
    /// When the stream cannot have a cache: the per-thread default stream is another stream on every thread.
    pub fn new<S: BackendStream<Backend = B>>(stream: &S) -> Result<Self, Error>
    where
        B: Backend<Stream = S>,
    {
        Self::with_options(stream, CacheOptions::default())
    }

    /// A cache for `stream`. Allocates nothing yet.
    ///
    /// ```
    /// use marshal::{ArgCache, CacheOptions, DeviceArgs, ErrorKind, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Sizes { m: Vec<u8> }
    ///
    /// let stream = HostDevice::new().stream();
    /// let options = CacheOptions { device_bytes: 4096, ..CacheOptions::default() };
    /// let cache = ArgCache::with_options(&stream, options)?;
    /// let held = Sizes { m: vec![1; 4000] }.upload(&cache)?;
    /// let error = Sizes { m: vec![2; 4000] }.upload(&cache).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::CacheFull { needed: 4000, available: 96 }));
    /// drop(held); // what nobody holds makes room
    /// drop(Sizes { m: vec![2; 4000] }.upload(&cache)?);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options<S: BackendStream<Backend = B>>(stream: &S, options: CacheOptions) -> Result<Self, Error>
    where
        B: Backend<Stream = S>,
    {
        if B::is_per_thread(stream) {
            return Err(Error::new(ErrorKind::PerThreadStream { device: B::device_name(stream) }));
        }
        Ok(Self { shared: Arc::new(Shared::new(stream, options)) })
    }

    /// Allocates block and staging for `layout`, so that the next upload of that shape allocates nothing, be it into a capture.
    /// Where a block of that shape is free already, and staging, nothing is done. Does not wait.
    ///
    /// ```
    /// use marshal::{ArgCache, Layout, host::HostDevice};
    ///
    /// let cache = ArgCache::new(&HostDevice::new().stream())?;
    /// let mut plan = Layout::builder();
    /// plan.column::<i32>("m", 64)?;
    /// cache.reserve(&plan.finish()?)?;
    /// assert_eq!((cache.stats().allocations, cache.stats().copies), (1, 0));
    /// cache.clear();
    /// assert_eq!((cache.stats().device_bytes, cache.stats().staging_bytes), (0, 0));
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the memory is not to be had, or the stream is being captured.
    pub fn reserve(&self, layout: &Layout) -> Result<(), Error> {
        self.reserve_sets(layout, 1)
    }

    /// [`reserve`](Self::reserve) for so many sets of one shape that are held at a time, or captured into one graph: each has a
    /// block and staging of its own. A graph that is refreshed needs one region more than its sets, which its first refresh adds where
    /// [`staging_bytes`](CacheOptions::staging_bytes) leave room.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); what was allocated until then stays, free.
    pub fn reserve_sets(&self, layout: &Layout, sets: usize) -> Result<(), Error> {
        let mut session = self.begin()?;
        if layout.size_bytes() == 0 {
            return Ok(());
        }
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::NotInCapture { call: "`reserve`" }));
        }
        session.reserve(layout, sets)
    }

    /// What the cache did so far.
    ///
    /// # Panics
    /// In a walk over arguments that are being uploaded to this cache.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let mut locked = self.lock();
        locked.take_returned();
        let mut stats = locked.state.stats;
        stats.device_bytes = locked.state.device_bytes();
        stats.staging_bytes = locked.state.staging_bytes();
        stats
    }

    /// Lets go of all blocks and staging. What a set holds is freed when the set is dropped, what a graph reads when the graph is;
    /// staging that a pending copy reads is freed behind it. Does not wait.
    ///
    /// # Panics
    /// In a walk over arguments that are being uploaded to this cache.
    pub fn clear(&self) {
        let mut locked = self.lock();
        locked.take_returned();
        locked.state.clear();
    }

    /// The stream that the cache belongs to.
    #[must_use]
    pub fn stream(&self) -> &B::Stream {
        &self.shared.stream
    }

    fn lock(&self) -> Locked<'_, B> {
        self.shared.lock().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Locks the cache for one upload.
    #[inline]
    pub(crate) fn begin(&self) -> Result<Session<'_, B>, Error> {
        Session::begin(&self.shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<B>> {
        &self.shared
    }
}

impl<B: Backend> Drop for ArgCache<B> {
    fn drop(&mut self) {
        // A graph may still keep what is behind the handle. In a walk under the lock there is nothing to do but leave it to the graph.
        if let Ok(mut locked) = self.shared.lock() {
            locked.take_returned();
            locked.state.clear();
        }
    }
}

impl<B: Backend> fmt::Debug for ArgCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgCache")
            .field("stream", &B::device_name(&self.shared.stream))
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
