//! The thread that does a stream's work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread;

use super::clock::Point;
use super::fault::fault;
use super::kernel::DeviceMemory;
use super::memory::Violation;
use super::queue::{Kernel, Next, Task};
use super::staging::Source;
use super::state::{Shared, State, become_worker};
use crate::error::Error;

/// Starts the worker of `stream`. It ends when the last handle of the stream is gone and all work is done.
pub(super) fn start(shared: &Arc<Shared>, stream: u64) -> Result<(), Error> {
    let shared = shared.clone();
    thread::Builder::new()
        .name(format!("device {} stream {stream}", shared.id))
        .spawn(move || work(&shared, stream))
        .map(drop)
        .map_err(|error| fault(format!("no thread for stream {stream}: {error}")))
}

fn work(shared: &Arc<Shared>, stream: u64) {
    become_worker();
    let mut state = shared.lock();
    loop {
        let queue = state.queue(stream);
        let wake = queue.wake.clone();
        match queue.next() {
            Next::Run(queued) => {
                drop(state);
                run(shared, queued.task, &queued.point);
                state = shared.lock();
                state.queue(stream).finish(queued.point.sequence);
                shared.announce_progress();
            }
            Next::Sleep(None) => state = wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            Next::Sleep(Some(patience)) => {
                state = wake.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
            }
            Next::End => {
                state.queue(stream).has_worker = false;
                return;
            }
        }
    }
}

/// Does one piece of work. The lock is not held: dropping what the work owns may take it.
fn run(shared: &Arc<Shared>, task: Task, at: &Point) {
    match task {
        Task::Mark => {}
        Task::Retire(retired) => drop(retired),
        Task::Keep(kept) => drop(kept),
        Task::Drop(owned) => drop(owned),
        Task::Batch(copies) => copies.into_iter().for_each(|copy| run(shared, copy, at)),
        Task::Free { address } => {
            let mut state = shared.lock();
            let freed = state.memory.free(address, at);
            settle(&mut state, at, freed);
        }
        Task::Wait(point) => wait(shared, &point, at),
        Task::Launch(kernel) => launch(shared, kernel, at),
        Task::Copy { source, destination } => copy(shared, &source, destination, at),
        Task::CopyDtoh { source, size_bytes, reply } => {
            let mut state = shared.lock();
            if !state.queue(at.stream).broken {
                let read = state.memory.read(at, source, size_bytes).map(|snapshot| {
                    // Nobody waits for it where the receiver is gone.
                    let _ = reply.send(snapshot);
                });
                settle(&mut state, at, read);
            }
        }
        Task::CopyToStaging { source, target } => {
            let read = if_sound(shared, at, |state| state.memory.read(at, source, target.len()));
            if let Some(snapshot) = read {
                snapshot.with_bytes(|bytes| target.write(bytes));
            }
        }
        Task::CopyDtod { source, destination, size_bytes } => {
            if_sound(shared, at, |state| {
                // Let go of before the write, which would copy the whole block for its sake.
                let bytes = state.memory.read(at, source, size_bytes)?.with_bytes(<[u8]>::to_vec);
                state.memory.write(at, destination, &bytes)
            });
        }
        Task::Memset { address, size_bytes, value } => {
            let mut state = shared.lock();
            if !state.queue(at.stream).broken {
                let filled = state.memory.fill(at, address, size_bytes, value);
                settle(&mut state, at, filled);
            }
        }
    }
}

/// Works on the memory unless the stream is broken, and breaks it where that breaks a rule.
fn if_sound<T>(shared: &Shared, at: &Point, work: impl FnOnce(&mut State) -> Result<T, Violation>) -> Option<T> {
    let mut state = shared.lock();
    if state.queue(at.stream).broken {
        return None;
    }
    match work(&mut state) {
        Ok(done) => Some(done),
        Err(violation) => {
            settle(&mut state, at, Err(violation));
            None
        }
    }
}

/// Breaks the stream, and blames the other one, where a rule was broken.
fn settle(state: &mut State, at: &Point, done: Result<(), Violation>) {
    if let Err(violation) = done {
        state.blame_other(&violation);
        state.break_stream(at, fault(violation.report));
    }
}

fn copy(shared: &Arc<Shared>, source: &Source, destination: u64, at: &Point) {
    if is_broken(shared, at) {
        return;
    }
    let copied = source.read(|bytes| shared.lock().memory.write(at, destination, bytes));
    settle(&mut shared.lock(), at, copied);
}

/// Waits for another stream's work, and inherits what is broken there.
fn wait(shared: &Arc<Shared>, awaited: &Point, at: &Point) {
    let mut state = shared.wait_for(shared.lock(), awaited.stream, awaited.sequence);
    if let Some(error) = state.queue(awaited.stream).broken_at(awaited.sequence) {
        state.break_stream(at, error);
    }
}

fn launch(shared: &Arc<Shared>, kernel: Kernel, at: &Point) {
    let broken = is_broken(shared, at);
    let memory = DeviceMemory::new(shared.clone(), at.clone());
    // The kernel may leave its own captures half changed; they are dropped here, and nobody sees them.
    let ran = catch_unwind(AssertUnwindSafe(move || if broken { drop(kernel) } else { call(&kernel, &memory) }));
    if let Err(payload) = ran {
        let report = match payload.downcast::<Violation>() {
            Ok(violation) => violation.report,
            Err(payload) => {
                format!("a kernel on stream {} panicked: {}", at.stream, panic_message(payload.as_ref()))
            }
        };
        shared.lock().break_stream(at, fault(report));
    }
}

fn call(kernel: &Kernel, memory: &DeviceMemory) {
    let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
    kernel(memory);
}

fn is_broken(shared: &Shared, at: &Point) -> bool {
    shared.lock().queue(at.stream).broken
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    if let Some(message) = payload.downcast_ref::<&str>() {
        message
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message
    } else {
        "no message"
    }
}
