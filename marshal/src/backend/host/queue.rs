//! The work that a stream was given and has not done.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::capture::{Capture, Kept};
use super::clock::{Clock, Point};
use super::fault::Failure;
use super::kernel::DeviceMemory;
use super::memory::Snapshot;
use super::staging::{Retired, Source, Target};
use crate::error::Error;

/// A kernel, which a graph launches many times.
pub(super) type Kernel = Arc<Mutex<dyn FnMut(&DeviceMemory) + Send>>;

/// One piece of work. A new kind of work is a variant here and an arm in the worker.
pub(super) enum Task {
    /// A point and nothing else: an allocation, an event.
    Mark,
    Free {
        address: u64,
    },
    Copy {
        source: Source,
        destination: u64,
    },
    CopyDtoh {
        source: u64,
        size_bytes: usize,
        reply: Sender<Snapshot>,
    },
    CopyToStaging {
        source: u64,
        target: Target,
    },
    CopyDtod {
        source: u64,
        destination: u64,
        size_bytes: usize,
    },
    /// Copies, in the order in which they are done.
    Batch(Vec<Self>),
    Memset {
        address: u64,
        size_bytes: usize,
        value: u8,
    },
    Launch(Kernel),
    /// Frees staging.
    Retire(Retired),
    /// Drops what somebody handed over.
    Drop(Arc<Mutex<dyn Send>>),
    Wait(Point),
    /// The end of a graph's launch, which keeps what the graph keeps.
    Keep(Arc<Kept>),
}

impl Task {
    /// The same work once more, with its source as it is now.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Mark => Self::Mark,
            Self::Free { address } => Self::Free { address: *address },
            Self::Copy { source, destination } => Self::Copy { source: source.again(), destination: *destination },
            Self::CopyDtoh { source, size_bytes, reply } => {
                Self::CopyDtoh { source: *source, size_bytes: *size_bytes, reply: reply.clone() }
            }
            Self::CopyToStaging { source, target } => Self::CopyToStaging { source: *source, target: target.clone() },
            Self::CopyDtod { source, destination, size_bytes } => {
                Self::CopyDtod { source: *source, destination: *destination, size_bytes: *size_bytes }
            }
            Self::Batch(copies) => Self::Batch(copies.iter().map(Self::again).collect()),
            Self::Memset { address, size_bytes, value } => {
                Self::Memset { address: *address, size_bytes: *size_bytes, value: *value }
            }
            Self::Launch(kernel) => Self::Launch(kernel.clone()),
            Self::Retire(retired) => Self::Retire(retired.clone()),
            Self::Drop(owned) => Self::Drop(owned.clone()),
            Self::Wait(point) => Self::Wait(point.clone()),
            Self::Keep(kept) => Self::Keep(kept.clone()),
        }
    }

    /// Host memory that is kept until the work has run.
    fn held_bytes(&self) -> u64 {
        match self {
            Self::Copy { source, .. } => source.size_bytes(),
            Self::Batch(copies) => copies.iter().map(Self::held_bytes).sum(),
            _ => 0,
        }
    }
}

pub(super) struct Queued {
    pub(super) task: Task,
    pub(super) point: Point,
    // None: no patience of a program's length ends.
    due: Option<Instant>,
}

/// What the worker does next.
pub(super) enum Next {
    Run(Queued),
    Sleep(Option<Duration>),
    End,
}

/// A stream's work, in order. Work stays here until somebody demands it, its patience is over, or too much of it is here.
pub(super) struct Queue {
    tasks: VecDeque<Queued>,
    held_bytes: u64,
    submitted: u64,
    done: u64,
    demanded: u64,
    closing: bool,
    pub(super) has_worker: bool,
    pub(super) wake: Arc<Condvar>,
    // Ordered before whatever is submitted next.
    before: Arc<Clock>,
    failure: Option<Failure>,
    /// A rule was broken here: kernels and copies are thrown away.
    pub(super) broken: bool,
    /// Takes the work while the stream is capturing.
    pub(super) capture: Option<Capture>,
}

impl Queue {
    // What the driver holds before a launch blocks, roughly. Older work is begun then; nobody waits.
    const MOST_TASKS: u64 = 1024;
    const MOST_HELD_BYTES: u64 = 256 << 20;
    // Room from the start, as in the journal.
    const ROOM: usize = 1024;

    pub(super) fn new() -> Self {
        Self {
            tasks: VecDeque::with_capacity(Self::ROOM),
            held_bytes: 0,
            submitted: 0,
            done: 0,
            demanded: 0,
            closing: false,
            has_worker: false,
            wake: Arc::new(Condvar::new()),
            before: Arc::default(),
            failure: None,
            broken: false,
            capture: None,
        }
    }

    /// Where work of stream `id` stands that is submitted next, when the host knows `host` to be done.
    pub(super) fn next_point(&mut self, id: u64, host: &Clock) -> Point {
        Clock::join(&mut self.before, host, Some(id));
        Point { stream: id, sequence: self.submitted + 1, before: self.before.clone() }
    }

    pub(super) fn push(&mut self, task: Task, point: Point, patience: Duration) {
        if let Task::Wait(awaited) = &task {
            Clock::join_point(&mut self.before, awaited);
        }
        // A worker that has work already knows when to begin it.
        let is_news = self.tasks.is_empty();
        self.submitted = point.sequence;
        self.held_bytes += task.held_bytes();
        self.tasks.push_back(Queued { task, point, due: Instant::now().checked_add(patience) });
        if self.held_bytes > Self::MOST_HELD_BYTES {
            self.demand(self.submitted);
        } else {
            self.demand(self.submitted.saturating_sub(Self::MOST_TASKS));
        }
        if is_news {
            self.wake.notify_one();
        }
    }

    pub(super) fn demand(&mut self, sequence: u64) {
        if sequence > self.demanded {
            self.demanded = sequence;
            self.wake.notify_one();
        }
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
        self.wake.notify_one();
    }

    pub(super) fn next(&mut self) -> Next {
        let Some(head) = self.tasks.front() else {
            return if self.closing { Next::End } else { Next::Sleep(None) };
        };
        let patience = head.due.map(|due| due.saturating_duration_since(Instant::now()));
        let is_due = self.closing || head.point.sequence <= self.demanded || patience == Some(Duration::ZERO);
        if !is_due {
            return Next::Sleep(patience);
        }
        match self.tasks.pop_front() {
            Some(queued) => {
                self.held_bytes -= queued.task.held_bytes();
                Next::Run(queued)
            }
            None => Next::Sleep(None),
        }
    }

    pub(super) fn finish(&mut self, sequence: u64) {
        self.done = sequence;
    }

    pub(super) fn submitted(&self) -> u64 {
        self.submitted
    }

    pub(super) fn has_done(&self, sequence: u64) -> bool {
        self.done >= sequence
    }

    /// Remembers what went wrong; the first thing counts.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// What went wrong up to `sequence`, for somebody who waits for it.
    pub(super) fn report(&mut self, sequence: u64) -> Result<(), Error> {
        let Some(failure) = self.failure.as_mut().filter(|failure| failure.sequence <= sequence) else { return Ok(()) };
        failure.reported = true;
        let error = failure.error.clone();
        if !failure.sticky {
            self.failure = None;
        }
        Err(error)
    }

    /// The rule that was broken up to `sequence`, for a stream that waits for it.
    pub(super) fn broken_at(&self, sequence: u64) -> Option<Error> {
        let failure = self.failure.as_ref()?;
        (self.broken && failure.sequence <= sequence).then(|| failure.error.clone())
    }

    /// What nobody has been told of.
    pub(super) fn unreported(&mut self) -> Option<&Error> {
        let failure = self.failure.as_mut().filter(|failure| !failure.reported)?;
        failure.reported = true;
        Some(&failure.error)
    }
}
