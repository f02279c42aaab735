//! What batches owned, until their copies have run.

use std::collections::VecDeque;
use std::sync::Arc;

use super::lists::MOST_KEPT;
use crate::backend::{Backend, HostMemory};
use crate::staging::Timeline;

/// Owned memory under the number of its batch. To ask the driver costs as much as a copy: it is asked now and then, and one answer
/// is for many.
#[derive(Default)]
pub(crate) struct Parked {
    // In the order in which the batches were let go.
    waiting: VecDeque<(u64, Arc<dyn HostMemory>)>,
    run: Vec<Arc<dyn HostMemory>>,
    // What has come since the last question: owners, and bytes of all batches.
    owners: usize,
    bytes: usize,
}

/// The driver is asked when so many owners have come, which are still in the cache when they go,
const ASK_OWNERS: usize = 128;
/// or so many bytes, whose copies take far longer than a question.
const ASK_BYTES: usize = 16 << 20;

impl Parked {
    /// Counts the bytes of host memory that a batch uses.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Keeps what `batch` owned until it has run.
    pub(crate) fn park(&mut self, batch: u64, owned: &mut Vec<Arc<dyn HostMemory>>) {
        self.owners += owned.len();
        self.waiting.extend(owned.drain(..).map(|owner| (batch, owner)));
    }

    /// Adds what no copy uses to that which has run.
    pub(crate) fn add_run(&mut self, owned: &mut Vec<Arc<dyn HostMemory>>) {
        self.run.append(owned);
    }

    /// What is known to have run.
    pub(crate) fn take_run<B: Backend>(
        &mut self,
        timeline: &mut Timeline<B>,
        stream: &B::Stream,
    ) -> Option<Vec<Arc<dyn HostMemory>>> {
        if let Some(&(oldest, _)) = self.waiting.front()
            && !timeline.is_known_done(oldest)
            && (self.owners >= ASK_OWNERS || self.bytes >= ASK_BYTES)
            && B::is_capturing(stream) == Ok(false)
        {
            (self.owners, self.bytes) = (0, 0);
            // Where the oldest has run, one question more is for half of those that are left. What nobody can say is kept, and asked
            // again.
            if timeline.has_run(stream, oldest) == Ok(true) {
                let _ = timeline.has_run(stream, self.waiting[self.waiting.len() / 2].0);
            }
        }
        while let Some((_, owner)) = self.waiting.pop_front_if(|&mut (batch, _)| timeline.is_known_done(batch)) {
            self.run.push(owner);
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(MOST_KEPT);
        }
        (!self.run.is_empty()).then(|| core::mem::take(&mut self.run))
    }

    /// Takes back the list that [`take_run`](Self::take_run) gave, emptied.
    pub(crate) fn keep_run(&mut self, run: Vec<Arc<dyn HostMemory>>) {
        if self.run.capacity() == 0 && run.capacity() <= MOST_KEPT {
            self.run = run;
        }
    }

    /// What may not have run.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<(u64, Arc<dyn HostMemory>)> {
        core::mem::take(&mut self.waiting)
    }
}
