//! Batches of copies, in an order that nobody should rely on.

use std::sync::{Arc, Mutex};

use super::block::HostBuffer;
use super::fault::{Call, Code, fault};
use super::journal::Op;
use super::queue::Task;
use super::state::submit as give;
use super::stream::HostStream;
use super::{Host, staging::Source};
use crate::backend::{BatchCopy, BatchFailure, BatchMemory, Place};
use crate::copies::{DeviceRange, DeviceRangeMut, Memory};
use crate::error::Error;

/// The elements of the buffer. That it is freed on another stream than the copies' is found, as for a kernel.
impl<'a, T> From<&'a HostBuffer<T>> for DeviceRange<'a, T, Host> {
    fn from(buffer: &'a HostBuffer<T>) -> Self {
        Self::of(Memory::Address(buffer.pointer().address()), buffer.len())
    }
}

/// The elements of the buffer. That it is freed on another stream than the copies' is found, as for a kernel.
impl<'a, T> From<&'a mut HostBuffer<T>> for DeviceRangeMut<'a, T, Host> {
    fn from(buffer: &'a mut HostBuffer<T>) -> Self {
        Self::of(Memory::Address(buffer.pointer().address()), buffer.len())
    }
}

/// Submits the copies up to the first that fails by plan, as one piece of work; or captures them, one node each, and says so.
pub(super) fn submit(
    stream: &HostStream,
    memory: &BatchMemory<'_, Host>,
    copies: &[BatchCopy],
) -> Result<bool, BatchFailure> {
    // Sources are looked at before the device is locked: whoever writes staging may call the device meanwhile.
    let mut work = Vec::with_capacity(copies.len());
    for (index, copy) in copies.iter().enumerate() {
        let task = task(stream.id(), memory, copy);
        work.push(task.map_err(|error| BatchFailure { error, failed: Some(index), submitted: 0 })?);
    }
    let mut state = stream.lock();
    let admitted = (0..work.len()).try_for_each(|index| {
        let admitted = state.admit(Call::Copy, Some(stream.id()));
        admitted.map_err(|error| BatchFailure { error, failed: Some(index), submitted: index })
    });
    if let Err(failure) = &admitted {
        work.truncate(failure.submitted);
    }
    if let Some(capture) = &mut state.queue(stream.id()).capture {
        work.into_iter().for_each(|(task, op)| capture.push(task, op));
        return admitted.map(|()| true);
    }
    if work.is_empty() {
        return admitted.map(|()| false);
    }
    let seed = stream.shared().options.seed ^ state.next_point(stream.id()).sequence;
    let (mut tasks, ops): (Vec<_>, Vec<_>) = work.into_iter().unzip();
    shuffle(&mut tasks, seed);
    let given = give(stream.shared(), &mut state, stream.id(), Task::Batch(tasks));
    given.map_err(|error| BatchFailure { error, failed: None, submitted: 0 })?;
    ops.into_iter().for_each(|op| state.journal.enter(op));
    admitted.map(|()| false)
}

/// Drops `owned` behind the work that the stream was given.
pub(super) fn keep(stream: &HostStream, owned: Box<dyn Send>) {
    let mut state = stream.lock();
    let task = Task::Drop(Arc::new(Mutex::new(owned)));
    if let Err(error) = give(stream.shared(), &mut state, stream.id(), task) {
        state.fail_stream(stream.id(), error);
    }
}

fn task(stream: u64, memory: &BatchMemory<'_, Host>, copy: &BatchCopy) -> Result<(Task, Op), Error> {
    let (len, size_bytes) = (copy.len, copy.len as u64);
    let outside = || fault(format!("a copy of {len} bytes passes the end of the batch's host memory: {copy:?}"));
    let region = || memory.region.ok_or_else(outside);
    match (copy.source, copy.destination) {
        (Place::Device(source), Place::Device(destination)) => Ok((
            Task::CopyDtod { source, destination, size_bytes: len },
            Op::CopyDtod { stream, source, destination, size_bytes },
        )),
        (Place::Device(source), Place::Staging(offset)) => {
            let target = region()?.target_at(offset, len).ok_or_else(outside)?;
            Ok((Task::CopyToStaging { source, target }, Op::CopyDtoh { stream, source, size_bytes }))
        }
        (host, Place::Device(destination)) => {
            let source = match host {
                Place::Staging(offset) => region()?.source_at(offset, len),
                // Nobody can change it: read now or later, it is the same.
                Place::Owned(owner) => memory
                    .owned
                    .get(owner)
                    .and_then(|owner| Some(Source::Owned(Arc::new(owner.bytes().get(..len)?.to_vec())))),
                Place::Device(_) => None,
            };
            let source = source.ok_or_else(outside)?;
            let op = Op::Copy { stream, source: source.address(), destination, size_bytes };
            Ok((Task::Copy { source, destination }, op))
        }
        (_, Place::Staging(_) | Place::Owned(_)) => Err(Call::Copy.error(Code::InvalidValue)),
    }
}

/// Fisher and Yates, with the numbers of SplitMix64.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for left in (2..=items.len()).rev() {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^= drawn >> 31;
        // Below `left`, which is a usize.
        items.swap(left - 1, usize::try_from(drawn % left as u64).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_drawn_and_one_seed_draws_one() {
        let order = |seed| {
            let mut items = [0, 1, 2];
            shuffle(&mut items, seed);
            items
        };
        let mut orders: Vec<_> = (0..100).map(order).collect();
        assert_eq!(orders, (0..100).map(order).collect::<Vec<_>>());
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }
}
