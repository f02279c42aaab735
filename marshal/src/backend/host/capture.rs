//! Capture of a stream's work into a graph, and its replay.

use std::sync::{Arc, Mutex, PoisonError};

use super::fault::{Call, Code};
use super::journal::Op;
use super::queue::Task;
use super::staging::Source;
use super::state::{DeviceHandle, Shared, free_postponed, on_worker, submit};
use super::stream::HostStream;
use crate::backend::Keeper;
use crate::error::Error;

/// Work that was given to a capturing stream, in order. It has not been done.
pub(super) struct Capture {
    nodes: Vec<Node>,
    kept: Vec<Keeper>,
    /// No call has been made that a capture forbids.
    pub(super) is_valid: bool,
}

struct Node {
    task: Task,
    op: Op,
}

impl Capture {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), kept: Vec::new(), is_valid: true }
    }

    pub(super) fn push(&mut self, task: Task, op: Op) {
        self.nodes.push(Node { task, op });
    }
}

/// What a graph keeps, and each of its launches. When the last of them is gone, it is left to a thread that may call the device.
pub(super) struct Kept {
    // Never locked: it makes the launches' handles of it Sync.
    what: Mutex<Vec<Keeper>>,
    shared: Arc<Shared>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let what = self.what.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.shared.lock().released.append(what);
    }
}

/// A captured graph, as [`HostStream::end_capture`] returns it. Each launch does all of its work again; a copy reads its source
/// anew.
///
/// The graph keeps no block and no staging alive: whoever frees one that it copies from or to while it lives is reported, and so is
/// a replay that finds memory freed.
///
/// ```
/// use marshal::host::HostDevice;
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let block = stream.alloc::<u8>(4)?;
/// let staging = device.alloc_staging(4)?;
///
/// stream.begin_capture()?;
/// stream.copy_staging(&staging, 0..4, block.pointer())?;
/// let graph = stream.end_capture()?;
/// for round in 0..3 {
///     staging.write(0, &[round; 4]);
///     graph.launch(&stream)?;
///     assert_eq!(block.to_vec()?, [round; 4]);
/// }
/// # Ok::<(), marshal::Error>(())
/// ```
pub struct HostGraph {
    device: Arc<DeviceHandle>,
    id: u64,
    nodes: Vec<Node>,
    kept: Option<Arc<Kept>>,
}

impl HostGraph {
    /// What each launch does, as the journal will tell it; the streams are those of the capture.
    #[must_use]
    pub fn nodes(&self) -> Vec<Op> {
        self.nodes.iter().map(|node| node.op.clone()).collect()
    }

    /// Does the graph's work behind the work that `stream` was given. Returns at once.
    ///
    /// # Errors
    /// When the call fails by plan, `stream` is capturing, or belongs to another device.
    pub fn launch(&self, stream: &HostStream) -> Result<(), Error> {
        stream.expect_device(&self.device)?;
        // Sources are looked at before the device is locked: whoever writes staging may call the device meanwhile.
        let work: Vec<_> = self.nodes.iter().map(|node| (node.task.again(), node.op.on_stream(stream.id()))).collect();
        let mut state = stream.lock();
        state.admit(Call::Launch, Some(stream.id()))?;
        if state.queue(stream.id()).capture.is_some() {
            return Err(Call::Launch.error(Code::CaptureUnsupported));
        }
        for (task, op) in work {
            submit(stream.shared(), &mut state, stream.id(), task)?;
            state.journal.enter(op);
        }
        if let Some(kept) = &self.kept {
            submit(stream.shared(), &mut state, stream.id(), Task::Keep(kept.clone()))?;
        }
        Ok(())
    }

    /// Lets the launches to come copy to `destination` from `source`.
    pub(super) fn set_source(&mut self, source: Source, destination: u64) -> Result<(), Error> {
        self.device.lock().strike(Call::Copy)?;
        let new = &source;
        let node = self.nodes.iter_mut().find_map(|node| match (&mut node.task, &mut node.op) {
            (Task::Copy { source, destination: at }, Op::Copy { source: address, .. })
                if *at == destination && source.size_bytes() == new.size_bytes() =>
            {
                Some((source, address))
            }
            _ => None,
        });
        let Some((before, address)) = node else {
            return Err(Code::InvalidValue.of("cuGraphExecMemcpyNodeSetParams"));
        };
        before.count_reader(false);
        source.count_reader(true);
        *address = source.address();
        *before = source;
        Ok(())
    }
}

impl Drop for HostGraph {
    fn drop(&mut self) {
        for node in &self.nodes {
            if let Task::Copy { source, .. } = &node.task {
                source.count_reader(false);
            }
        }
        self.device.lock().graph_writes.retain(|(graph, ..)| *graph != self.id);
        drop(self.kept.take());
        if !on_worker() {
            self.device.shared.drop_released();
        }
    }
}

impl std::fmt::Debug for HostGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostGraph").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

impl HostStream {
    /// Begins to capture: copies, fills and kernels given to the stream from now on are not done but become a graph.
    ///
    /// Until [`end_capture`](Self::end_capture) these calls fail, and make the capture invalid, as CUDA has it: allocation and
    /// release on this stream, a copy back or a wait on it or for the device, an event query, allocation and release of
    /// staging, and events that cross the boundary of the capture. The blocks of sets are freed when it is over. Other streams go
    /// on.
    ///
    /// # Errors
    /// When the stream is capturing already.
    pub fn begin_capture(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.strike(Call::CaptureBegin)?;
        let queue = state.queue(self.id());
        if queue.capture.is_some() {
            return Err(Code::IllegalState.of("cuStreamBeginCapture"));
        }
        queue.capture = Some(Capture::new());
        Ok(())
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// When the stream is not capturing, or a call has made the capture invalid. The stream does not capture any more then.
    pub fn end_capture(&self) -> Result<HostGraph, Error> {
        let mut state = self.lock();
        let taken = state.queue(self.id()).capture.take();
        let capture = taken.ok_or_else(|| Code::IllegalState.of("cuStreamEndCapture"))?;
        free_postponed(self.shared(), &mut state, self.id());
        let ended = state.strike(Call::CaptureEnd);
        let is_valid = capture.is_valid && ended.is_ok();
        let id = state.graphs;
        state.graphs += 1;
        if is_valid {
            for node in &capture.nodes {
                if let Task::Copy { source, destination } = &node.task {
                    source.count_reader(true);
                    state.graph_writes.push((id, *destination, source.size_bytes()));
                }
            }
        }
        drop(state);
        let keeps_any = !capture.kept.is_empty();
        let kept = Kept { what: Mutex::new(capture.kept), shared: self.shared().clone() };
        if !is_valid {
            drop(kept);
            self.shared().drop_released();
            return Err(ended.err().unwrap_or_else(|| Code::CaptureInvalidated.of("cuStreamEndCapture")));
        }
        let kept = keeps_any.then(|| Arc::new(kept));
        Ok(HostGraph { device: self.device_handle().clone(), id, nodes: capture.nodes, kept })
    }

    /// A place in the graph that is being captured.
    pub(super) fn keeper(&self) -> Result<Keeper, Error> {
        let mut state = self.lock();
        state.strike(Call::GraphKeep)?;
        match &mut state.queue(self.id()).capture {
            Some(capture) => {
                let keeper = Keeper::default();
                capture.kept.push(keeper.clone());
                Ok(keeper)
            }
            None => Err(Code::IllegalState.of("cuGraphRetainUserObject")),
        }
    }

    /// As [`is_capturing`](Self::is_capturing), by a call that can fail.
    pub(super) fn ask_whether_capturing(&self) -> Result<bool, Error> {
        let mut state = self.lock();
        state.strike(Call::CaptureQuery)?;
        Ok(state.queue(self.id()).capture.is_some())
    }

    /// Whether the stream is capturing, be it that the capture is invalid.
    #[must_use]
    pub fn is_capturing(&self) -> bool {
        self.lock().queue(self.id()).capture.is_some()
    }
}
