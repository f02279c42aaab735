//! An upload in a graph: captured once, refreshed, replayed.
//!
//! # The protocol
//!
//! A captured copy reads its source at each replay, and writes the same block each time. So the set that an upload returns while
//! the stream is captured has a block and a staging region of its own, taken out of the cache, and the graph keeps both. Nothing
//! is asked of the driver and nothing allocated while the capture runs: both have to be there.
//!
//! Of a graph that [`ArgCache::capture`] made, the arguments can be refreshed:
//!
//! - [`refresh`](CapturedGraph::refresh) packs into a region that no launch reads, and points the graph's copy at it. Launches
//!   that are under way read the region that they were launched with, so nothing waits for them; a launch is numbered as a copy
//!   of the cache is, and its region returns to the pool, to be written again behind a fence.
//! - [`launch`](CapturedGraph::launch), after a refresh, points the copy at the next region already, while the device is at work: the
//!   driver's call is then off the way from fresh arguments to a running kernel. Should the graph be launched again without a
//!   refresh, the bytes move over first.
//!
//! When the graph is gone, its blocks and regions return to the cache, behind the launches.

use core::fmt;
use std::sync::Arc;

use crate::args::{DeviceArgs, pack};
use crate::backend::Backend;
use crate::block::Block;
use crate::cache::ArgCache;
use crate::compare::{Compare, Comparison};
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::lock::{Guard, Lock};
use crate::policy::CacheStats;
use crate::session::Session;
use crate::shared::Shared;
use crate::slots::{Recorded, Slot, State};
use crate::upload::Uploaded;

impl<B: Backend> ArgCache<B> {
    /// Captures what `f` gives to the cache's stream into a graph. Uploads to this cache become part of it: they need a free block
    /// and staging of their shape, which [`reserve`](Self::reserve) makes. Kernels must not wait for events from outside of the
    /// capture.
    ///
    /// The graph owns what `f` returned: the sets most of all, and whatever else a replay needs, as a kernel's function, whose module is
    /// unloaded otherwise when its last handle goes. On CUDA the capture is thread-local: what this thread calls in `f`
    /// may invalidate it, other threads may not upload to this cache meanwhile, or they upload into the graph.
    ///
    /// ```
    /// use marshal::{ArgCache, DeviceArgs, host::HostDevice};
    ///
    /// #[derive(DeviceArgs)]
    /// struct Step { token: Vec<u32> }
    ///
    /// let stream = HostDevice::new().stream();
    /// let cache = ArgCache::new(&stream)?;
    /// let first = Step { token: vec![1, 2, 3] };
    /// cache.reserve(&first.layout()?)?;
    /// let sum = stream.clone_htod(&[0_u32])?;
    /// let sum_at = sum.pointer();
    ///
    /// let graph = cache.capture(|stream| {
    ///     let dev = first.upload(&cache)?;
    ///     let token = dev.token;
    ///     stream.launch(move |memory| memory.write_at(sum_at, &[memory.read(token).iter().sum::<u32>()]))?;
    ///     Ok(dev)
    /// })?;
    /// graph.launch()?;
    /// assert_eq!(sum.to_vec()?, [6]);
    /// graph.refresh(|dev| dev, &Step { token: vec![4, 5, 6] })?;
    /// graph.launch()?;
    /// assert_eq!(sum.to_vec()?, [15]);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` says; when the stream is being captured already, or cannot be; when a call in `f` has invalidated the capture. The
    /// stream does not capture any more then, and the cache is as before.
    pub fn capture<R>(&self, f: impl FnOnce(&B::Stream) -> Result<R, Error>) -> Result<CapturedGraph<R, B>, Error> {
        let mut recording = Recording::begin(self.shared())?;
        let value = f(self.stream())?;
        Ok(CapturedGraph { replay: Lock::new(recording.end()?), value, shared: Arc::clone(self.shared()) })
    }
}

/// A capture under way. Dropped, it is ended and thrown away.
struct Recording<'c, B: Backend> {
    shared: &'c Arc<Shared<B>>,
    is_over: bool,
}

impl<'c, B: Backend> Recording<'c, B> {
    fn begin(shared: &'c Arc<Shared<B>>) -> Result<Self, Error> {
        let mut session = Session::begin(shared)?;
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::NotInCapture { call: "a capture" }));
        }
        session.prepare_for_capture();
        // Under the lock: an upload of another thread goes before the capture, or into it.
        B::begin_capture(&shared.stream)?;
        session.state().recording = Some(Vec::new());
        Ok(Self { shared, is_over: false })
    }

    /// Ends the capture. Where that fails, the slots return to the cache.
    fn end(&mut self) -> Result<Replay<B>, Error> {
        self.is_over = true;
        let mut session = Session::begin(self.shared)?;
        let is_lost = B::is_capturing(&self.shared.stream) == Ok(false);
        let graph = B::end_capture(&self.shared.stream);
        let recorded = session.state().recording.take().unwrap_or_default();
        if is_lost {
            // The closure has ended the capture itself, and may have its graph, which reads what the slots own.
            session.state().leak(recorded);
            return Err(graph
                .err()
                .unwrap_or_else(|| Error::new(ErrorKind::NotInCapture { call: "the end of it in the closure" })));
        }
        drop(session);
        let set = |Recorded { slot, is_certain }| Set { slot, is_certain, is_fresh: false };
        let sets = recorded.into_iter().map(set).collect();
        let mut replay = Replay { graph: None, sets, moved: Vec::new(), shared: Arc::clone(self.shared) };
        replay.graph = Some(graph?);
        Ok(replay)
    }
}

impl<B: Backend> Drop for Recording<'_, B> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.end());
        }
    }
}

/// A graph with the sets that were uploaded while it was captured, as [`ArgCache::capture`] returns it.
///
/// It owns what the closure returned, so that nothing that a replay reads is dropped before it. Dropping it waits for nothing:
/// launches that are under way go on, and its blocks and staging are used again behind them. Memory of the user's own that
/// its kernels use has to outlive the launches.
#[must_use = "the graph is gone when this is dropped"]
pub struct CapturedGraph<R, B: Backend> {
    // Before the value: what a replay reads goes after the graph.
    replay: Lock<Replay<B>>,
    value: R,
    shared: Arc<Shared<B>>,
}

struct Replay<B: Backend> {
    // None while it is dropped, and where the capture has failed.
    graph: Option<B::Graph>,
    sets: Vec<Set<B>>,
    // See `move_over`.
    moved: Vec<u8>,
    shared: Arc<Shared<B>>,
}

struct Set<B: Backend> {
    slot: Box<Slot<B>>,
    // The graph has its copy for certain.
    is_certain: bool,
    // Refreshed since the last launch.
    is_fresh: bool,
}

impl<R, B: Backend> CapturedGraph<R, B> {
    /// What the closure of the capture returned. The columns of its sets hold their bytes from the first launch on.
    pub fn sets(&self) -> &R {
        &self.value
    }

    /// Launches the graph on the cache's stream. Returns at once.
    ///
    /// # Errors
    /// When the stream is being captured, a set of the graph is lent to another stream by [`on`](Uploaded::on), which the launch would
    /// write, or the driver refuses.
    pub fn launch(&self) -> Result<(), Error> {
        self.lock()?.launch()
    }

    /// Writes the arguments of the launches to come, in the place of a set that was uploaded in the capture: the pointers stay.
    /// Launches before it are not affected, and are not waited for. The last refresh before a launch counts; one with the same
    /// bytes does nothing.
    ///
    /// Waits only when every staging region of the shape is still to be read by a launch and
    /// [`CacheOptions`](crate::CacheOptions) say so.
    ///
    /// # Errors
    /// When the arguments have another shape than the set, the set is not one of this graph, or the stream is being captured.
    /// The next launch sends what it would have sent.
    pub fn refresh<A: DeviceArgs + ?Sized>(
        &self,
        pick: impl FnOnce(&R) -> &Uploaded<A::Pointers, B>,
        args: &A,
    ) -> Result<(), Error> {
        let set = pick(&self.value);
        self.lock()?.refresh(set, args)
    }

    /// The graph's lock goes before the cache's: refused to a walk that runs under either.
    fn lock(&self) -> Result<Guard<'_, Replay<B>>, Error> {
        if self.shared.is_mine() {
            return Err(Error::new(ErrorKind::Reentrant));
        }
        self.replay.lock()
    }
}

impl<B: Backend> Replay<B> {
    fn launch(&mut self) -> Result<(), Error> {
        let mut session = Session::begin(&self.shared)?;
        let Some(graph) = &mut self.graph else { return Ok(()) };
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::NotInCapture { call: "a launch of another graph" }));
        }
        if self.sets.iter().any(|set| set.slot.block.is_lent()) {
            return Err(Error::new(ErrorKind::StillLent));
        }
        for set in &mut self.sets {
            move_over(session.state(), &mut set.slot, &mut self.moved)?;
        }
        let launched = B::launch(&self.shared.stream, graph);
        // Whatever the call says: its error may be that of earlier work, and the launch on its way.
        number(session.state(), &self.shared.stream, &mut self.sets);
        launched?;
        count(&mut session.state().stats, &self.sets);
        for set in &mut self.sets {
            if core::mem::take(&mut set.is_fresh) {
                point_ahead(session.state(), graph, &mut set.slot);
            }
        }
        Ok(())
    }

    fn refresh<A: DeviceArgs + ?Sized>(&mut self, set: &Uploaded<A::Pointers, B>, args: &A) -> Result<(), Error> {
        let sets = self.sets.len() as u64;
        let picked = self.sets.iter_mut().find(|own| Arc::ptr_eq(&own.slot.block, set.block()));
        let (Some(Set { slot, is_fresh, .. }), Some(graph)) = (picked, &mut self.graph) else {
            // A set without bytes is in no graph, and has nothing to write.
            return if set.layout() == args.layout()? && set.layout().size_bytes() == 0 {
                Ok(())
            } else {
                Err(Error::new(ErrorKind::NotInGraph { sets }))
            };
        };
        let comparison = slot.read(|block, image| {
            let mut compare = Compare::new(block.base(), block.layout(), image);
            args.walk(&mut compare).map(|_| compare.finish())
        })?;
        match comparison {
            Comparison::Equal => return Ok(()),
            Comparison::OtherShape => return Err(other_shape(slot.block.layout(), &args.layout()?)),
            Comparison::OtherBytes => {}
        }
        let mut session = Session::begin(&self.shared)?;
        if session.is_capturing()? {
            return Err(Error::new(ErrorKind::NotInCapture { call: "a refresh" }));
        }
        let pack = |block: &Block<B>, bytes: &mut [u8]| pack(args, block.base(), block.layout().bounds(), bytes);
        // Where the graph's copy reads the next region already, it stays where it is until it is written: a walk may panic.
        let region = if let Some(next) = &mut slot.next {
            next.write(&session.state().timeline, &slot.block, |bytes| pack(&slot.block, bytes))?;
            slot.next.take()
        } else {
            let mut region = session.take_region(slot.region_bytes)?;
            let timeline = &session.state().timeline;
            let written = region.write(timeline, &slot.block, |bytes| pack(&slot.block, bytes));
            if let Err(error) = written.and_then(|()| region.feed(graph, &slot.block)) {
                session.state().give_back(region, slot.region_bytes);
                return Err(error);
            }
            Some(region)
        };
        *is_fresh = true;
        if let Some(before) = core::mem::replace(&mut slot.image, region) {
            session.state().give_back(before, slot.region_bytes);
        }
        Ok(())
    }
}

impl<B: Backend> Drop for Replay<B> {
    fn drop(&mut self) {
        // The graph first: then nothing reads the regions but launches that are numbered.
        drop(self.graph.take());
        self.shared.return_slots(self.sets.drain(..).map(|set| set.slot));
        // In a walk under the cache's lock, the next call that looks for them takes them back.
        if let Ok(mut locked) = self.shared.lock() {
            locked.take_returned();
        }
    }
}

/// Where the graph's copy reads the next region already and no refresh has written it: writes what the next launch sends. The bytes
/// go by way of `moved`: no two regions are lent at a time.
fn move_over<B: Backend>(state: &mut State<B>, slot: &mut Slot<B>, moved: &mut Vec<u8>) -> Result<(), Error> {
    let (Some(next), Some(image)) = (&mut slot.next, &slot.image) else { return Ok(()) };
    moved.clear();
    image.read(|from| moved.extend_from_slice(from));
    next.write(&state.timeline, &slot.block, |to| {
        to.copy_from_slice(&moved[..to.len()]);
        Ok(())
    })?;
    let next = slot.next.take();
    if let Some(before) = core::mem::replace(&mut slot.image, next) {
        state.give_back(before, slot.region_bytes);
    }
    Ok(())
}

/// Numbers a launch, which reads the images of all sets.
fn number<B: Backend>(state: &mut State<B>, stream: &B::Stream, sets: &mut [Set<B>]) {
    let launch = state.timeline.launch();
    let mut distance = u64::MAX;
    let regions = sets.len();
    for Set { slot, .. } in sets {
        if let Some(image) = &mut slot.image {
            image.launched(launch);
        }
        if let Some(pool) = state.pools.get(&slot.region_bytes) {
            distance = distance.min(pool.fence_distance(regions));
        }
    }
    if regions != 0 {
        // A fence that is not recorded now is recorded when it is needed: until then the regions count as being read.
        let _ = state.timeline.mark(stream, distance);
    }
}

/// Counts the copies of a launch.
fn count<B: Backend>(stats: &mut CacheStats, sets: &[Set<B>]) {
    for Set { slot, .. } in sets.iter().filter(|set| set.is_certain && set.slot.image.is_some()) {
        stats.copies += 1;
        stats.copied_bytes += slot.block.layout().copy_bytes();
    }
}

/// Points the graph's copy at the region that the next refresh is going to write, where one is ready. Where none is, that refresh
/// does it.
fn point_ahead<B: Backend>(state: &mut State<B>, graph: &mut B::Graph, slot: &mut Slot<B>) {
    let State { pools, timeline, .. } = state;
    let Some(pool) = pools.get_mut(&slot.region_bytes) else { return };
    // One region stays for others: for them this is no mere head start.
    if pool.free_regions() < 2 || !pool.is_ready(timeline).unwrap_or(false) {
        return;
    }
    let Some(next) = pool.take_next() else { return };
    match next.feed(graph, &slot.block) {
        Ok(()) => slot.next = Some(next),
        Err(_) => pool.give_back(next, timeline),
    }
}

/// The error that names the first column in which two layouts differ.
fn other_shape(expected: &Layout, found: &Layout) -> Error {
    Error::new(match expected.first_difference(found) {
        Some((column, expected, found)) => ErrorKind::OtherShape { column, expected, found },
        // They are of one shape: the arguments are others than a moment ago.
        None => ErrorKind::Changed { column: "(last)", expected: expected.copy_bytes(), found: found.copy_bytes() },
    })
}

impl<R: fmt::Debug, B: Backend> fmt::Debug for CapturedGraph<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedGraph").field("sets", &self.value).finish_non_exhaustive()
    }
}
