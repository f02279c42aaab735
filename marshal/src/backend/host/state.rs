//! What the handles and the workers of one device share, behind one lock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::clock::{Clock, Point};
use super::device::HostOptions;
use super::fault::{Call, Code, Failure, FailurePlan, fault};
use super::journal::{Journal, Op};
use super::memory::{Memory, Violation};
use super::queue::{Queue, Task};
use super::worker;
use crate::backend::Keeper;
use crate::error::Error;

thread_local! {
    static ON_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is a thread that runs kernels. Like a driver's callback, it may not call the device, and must never wait.
pub(super) fn on_worker() -> bool {
    ON_WORKER.try_with(Cell::get).unwrap_or(false)
}

pub(super) fn become_worker() {
    ON_WORKER.set(true);
}

/// One lock for all, which is never held while a kernel runs or its closure is dropped.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: u64,
    pub(super) options: HostOptions,
    state: Mutex<State>,
    /// Some work is done.
    progress: Condvar,
}

pub(super) struct State {
    pub(super) memory: Memory,
    pub(super) journal: Journal,
    pub(super) failures: FailurePlan,
    pub(super) events: u64,
    /// Blocks that were dropped while their stream was captured.
    pub(super) postponed: Vec<Freed>,
    /// What graphs kept that are gone, to be dropped by a thread that may call the device.
    pub(super) released: Vec<Keeper>,
    /// Device memory that live graphs write: by graph, address and bytes.
    pub(super) graph_writes: Vec<(u64, u64, u64)>,
    pub(super) graphs: u64,
    queues: BTreeMap<u64, Queue>,
    // What the host has waited for: it comes before all that the host submits from now on.
    host: Arc<Clock>,
    // What went wrong on no stream.
    failure: Option<Error>,
}

/// A block that is freed on its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    pub(super) stream: u64,
    pub(super) address: u64,
    pub(super) size_bytes: u64,
}

impl Shared {
    /// Drops what graphs kept that are gone.
    pub(super) fn drop_released(&self) {
        let released = std::mem::take(&mut self.lock().released);
        // Outside of the lock: it owns handles.
        drop(released);
    }

    pub(super) fn new(options: HostOptions) -> Self {
        static DEVICES: AtomicU64 = AtomicU64::new(0);
        let state = State {
            memory: Memory::new(options.base_offset, options.memory_bytes),
            journal: Journal::new(),
            failures: FailurePlan::default(),
            events: 0,
            postponed: Vec::new(),
            released: Vec::new(),
            graph_writes: Vec::new(),
            graphs: 0,
            queues: BTreeMap::new(),
            host: Arc::default(),
            failure: None,
        };
        let id = DEVICES.fetch_add(1, Ordering::Relaxed);
        Self { id, options, state: Mutex::new(state), progress: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn announce_progress(&self) {
        self.progress.notify_all();
    }

    /// Demands the work up to `sequence`, and waits for it.
    pub(super) fn wait_for<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        stream: u64,
        sequence: u64,
    ) -> MutexGuard<'a, State> {
        state.queue(stream).demand(sequence);
        while !state.queue(stream).has_done(sequence) {
            state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Demands the work up to `sequence`, and waits while any work of the device gets done.
    pub(super) fn wait_while_moving<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        stream: u64,
        sequence: u64,
    ) -> MutexGuard<'a, State> {
        // Longer than a copy or a short kernel takes.
        const STILL: Duration = Duration::from_millis(20);
        state.queue(stream).demand(sequence);
        while !state.queue(stream).has_done(sequence) {
            let (guard, timeout) = self.progress.wait_timeout(state, STILL).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                break;
            }
        }
        state
    }

    /// Waits for all of a stream's work, but not for ever.
    pub(super) fn linger(&self, stream: u64, most: Duration) {
        let end = Instant::now() + most;
        let mut state = self.lock();
        loop {
            let submitted = state.queue(stream).submitted();
            let left = end.saturating_duration_since(Instant::now());
            if state.queue(stream).has_done(submitted) || left.is_zero() {
                return;
            }
            state = self.progress.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    pub(super) fn queue(&mut self, stream: u64) -> &mut Queue {
        self.queues.entry(stream).or_insert_with(Queue::new)
    }

    /// The number of a new stream.
    pub(super) fn open_stream(&mut self) -> u64 {
        let id = self.queues.last_key_value().map_or(0, |(last, _)| last + 1);
        self.queues.insert(id, Queue::new());
        // An entry of its own from the start: what the host learns of the stream later allocates nothing.
        Arc::make_mut(&mut self.host).raise(id, 0);
        id
    }

    pub(super) fn streams(&self) -> Vec<u64> {
        self.queues.keys().copied().collect()
    }

    /// Whether a call may be made, on `stream` or on none, and does not fail by plan. Ask before anything is changed.
    pub(super) fn admit(&mut self, call: Call, stream: Option<u64>) -> Result<(), Error> {
        // A kernel may own a block, which it drops.
        if on_worker() && call != Call::DeviceFree {
            return Err(call.error(Code::NotPermitted));
        }
        self.admit_to_capture(call, stream)?;
        self.strike(call)
    }

    /// Whether the call does not fail by plan.
    pub(super) fn strike(&mut self, call: Call) -> Result<(), Error> {
        if !self.failures.strikes(call) {
            return Ok(());
        }
        Err(match call {
            Call::DeviceAlloc | Call::HostAlloc => call.error(Code::OutOfMemory),
            _ => call.error(Code::Unknown),
        })
    }

    /// Whether no capture forbids the call. A call that one forbids makes it invalid.
    fn admit_to_capture(&mut self, call: Call, stream: Option<u64>) -> Result<(), Error> {
        let here = stream.and_then(|stream| self.queue(stream).capture.as_ref());
        if here.is_some_and(|capture| !capture.is_valid) {
            return Err(call.error(Code::CaptureInvalidated));
        }
        let is_forbidden = match call {
            Call::DeviceAlloc | Call::DeviceFree => here.is_some(),
            Call::Synchronize => here.is_some() || (stream.is_none() && self.is_any_capturing()),
            // On no stream: a capture of any stream in global mode. On a stream: relaxed mode, which leaves that stream alone.
            Call::HostAlloc | Call::HostFree | Call::EventQuery => {
                here.is_some() || (stream.is_none() && self.is_any_capturing())
            }
            _ => false,
        };
        if is_forbidden {
            self.invalidate_captures(stream);
            return Err(call.error(Code::CaptureUnsupported));
        }
        Ok(())
    }

    fn is_any_capturing(&self) -> bool {
        self.queues.values().any(|queue| queue.capture.is_some())
    }

    /// Of one stream, or of all.
    pub(super) fn invalidate_captures(&mut self, stream: Option<u64>) {
        for (id, queue) in &mut self.queues {
            if let Some(capture) = queue.capture.as_mut().filter(|_| stream.is_none_or(|stream| stream == *id)) {
                capture.is_valid = false;
            }
        }
    }

    pub(super) fn next_point(&mut self, stream: u64) -> Point {
        let host = self.host.clone();
        self.queue(stream).next_point(stream, &host)
    }

    /// The point behind all that the stream has been given.
    pub(super) fn last_point(&mut self, stream: u64) -> Point {
        let next = self.next_point(stream);
        Point { sequence: next.sequence - 1, ..next }
    }

    /// The host knows that `point` is done.
    pub(super) fn host_passed(&mut self, point: &Point) {
        Clock::join_point(&mut self.host, point);
    }

    /// A rule was broken in the work at `point`: its stream is broken from now on.
    pub(super) fn break_stream(&mut self, point: &Point, error: Error) {
        let queue = self.queue(point.stream);
        queue.broken = true;
        queue.fail(Failure { error, sequence: point.sequence, reported: false, sticky: true });
    }

    /// Says it on the other stream too that had a part in a broken rule.
    pub(super) fn blame_other(&mut self, violation: &Violation) {
        if let Some(other) = violation.other {
            let error = fault(violation.report.clone());
            self.queue(other).fail(Failure { error, sequence: 0, reported: false, sticky: true });
        }
    }

    /// A call failed whose caller cannot be told. The next wait for the stream says so.
    pub(super) fn fail_stream(&mut self, stream: u64, error: Error) {
        self.queue(stream).fail(Failure { error, sequence: 0, reported: false, sticky: false });
    }

    pub(super) fn fail_device(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// What went wrong up to `sequence` of the stream, or on no stream.
    pub(super) fn report(&mut self, stream: u64, sequence: u64) -> Result<(), Error> {
        self.queue(stream).report(sequence)?;
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Says on stderr what nobody has been told of.
    fn print_unreported(&mut self, device: u64) {
        for (stream, queue) in &mut self.queues {
            if let Some(error) = queue.unreported() {
                // Where stderr is closed there is nobody to tell.
                let _ = writeln!(
                    stderr(),
                    "marshal host device {device}, stream {stream}: nobody waited for this error: {error}"
                );
            }
        }
        if let Some(error) = self.failure.take() {
            let _ = writeln!(stderr(), "marshal host device {device}: nobody waited for this error: {error}");
        }
    }
}

/// Frees a block behind the work of its stream.
pub(super) fn free(shared: &Arc<Shared>, state: &mut State, block: Freed) {
    let Freed { stream, address, size_bytes } = block;
    let overlaps = |&&(_, at, len): &&(u64, u64, u64)| at < address + size_bytes && address < at + len;
    if let Some((graph, ..)) = state.graph_writes.iter().find(overlaps) {
        let report = format!(
            "the block of {size_bytes} bytes at {address:#x} was freed while graph {graph} is alive, which copies to it: keep it as long as the graph"
        );
        state.fail_stream(stream, fault(report));
    }
    let freed = state
        .admit(Call::DeviceFree, Some(stream))
        .and_then(|()| submit(shared, state, stream, Task::Free { address }));
    match freed {
        Ok(_) => state.journal.enter(Op::DeviceFree { stream, address, size_bytes }),
        Err(error) => state.fail_stream(stream, error),
    }
}

/// Frees what was dropped while the stream was captured; it is not any more.
pub(super) fn free_postponed(shared: &Arc<Shared>, state: &mut State, stream: u64) {
    let (now, later) =
        std::mem::take(&mut state.postponed).into_iter().partition(|block: &Freed| block.stream == stream);
    state.postponed = later;
    for block in now {
        free(shared, state, block);
    }
}

/// Gives `task` to `stream`, which has a worker from now on.
pub(super) fn submit(shared: &Arc<Shared>, state: &mut State, stream: u64, task: Task) -> Result<Point, Error> {
    if !state.queue(stream).has_worker {
        worker::start(shared, stream)?;
        state.queue(stream).has_worker = true;
    }
    let point = state.next_point(stream);
    state.queue(stream).push(task, point.clone(), shared.options.patience);
    Ok(point)
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("counters", &self.journal.counters()).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let id = self.id;
        self.lock().print_unreported(id);
    }
}

/// What every public handle holds. When the last one goes, errors that nobody has waited for are printed.
#[derive(Debug)]
pub(super) struct DeviceHandle {
    pub(super) shared: Arc<Shared>,
}

impl DeviceHandle {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        self.lock().print_unreported(self.shared.id);
    }
}
