//! When the source of a copy may go: the policy, apart from the events that it asks.
//!
//! A source is parked with a fence behind its copy. Asking a fence costs about as much as a small copy, so it is done rarely:
//! when enough is parked, and then for each stream from the newest fence on, since the fences of one stream are reached in
//! order and one that is reached releases all before it.

use std::collections::VecDeque;

/// A sweep begins with this many parked sources: one question (1.5 us) is then a few percent of a copy (2.6 us) each.
const SWEEP_ENTRIES: usize = 16;
/// A sweep begins with this many parked bytes: a copy of so many takes far longer than a question.
const SWEEP_BYTES: usize = 1 << 20;
/// Past this many parked bytes the oldest source is waited for. The newest is not: it may be larger than this by itself.
const CAP_BYTES: usize = 64 << 20;
/// Fences kept for reuse: creating one costs more than recording it.
const SPARES: usize = 32;

/// A point behind a copy.
pub(super) trait Fence {
    /// Asks, and does not wait.
    fn state(&self) -> State;

    /// Waits for it.
    fn wait(&self) -> State;

    /// Whether it can be used again.
    fn is_live(&self) -> bool;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The copy has run.
    Reached,
    /// It has not.
    Pending,
    /// Nobody can say any more: the source must never be freed.
    Lost,
}

/// What a copy reads.
pub(super) trait Source {
    /// Host memory that it takes.
    fn size_bytes(&self) -> usize;
}

/// Parked sources, by line: `L` tells the streams apart whose fences are reached in order.
pub(super) struct Retired<L, F, S> {
    lines: Vec<Line<L, F, S>>,
    spares: Vec<F>,
    entries: usize,
    bytes: usize,
    // Grow with what a sweep leaves, so that a stream far behind is not asked at every copy.
    sweep_entries: usize,
    sweep_bytes: usize,
    next_age: u64,
}

struct Line<L, F, S> {
    key: L,
    // Oldest first.
    queue: VecDeque<Entry<F, S>>,
}

struct Entry<F, S> {
    age: u64,
    fence: F,
    source: S,
}

impl<L: PartialEq, F: Fence, S: Source> Retired<L, F, S> {
    pub(super) const fn new() -> Self {
        Self {
            lines: Vec::new(),
            spares: Vec::new(),
            entries: 0,
            bytes: 0,
            sweep_entries: SWEEP_ENTRIES,
            sweep_bytes: SWEEP_BYTES,
            next_age: 0,
        }
    }

    /// A fence to record again.
    pub(super) fn take_spare(&mut self, fits: impl Fn(&F) -> bool) -> Option<F> {
        let index = self.spares.iter().rposition(fits)?;
        Some(self.spares.swap_remove(index))
    }

    /// Keeps `source` until `fence`, the newest of its line, is reached.
    pub(super) fn park(&mut self, line: L, fence: F, source: S) {
        self.entries += 1;
        self.bytes += source.size_bytes();
        let entry = Entry { age: self.next_age, fence, source };
        self.next_age += 1;
        match self.lines.iter_mut().find(|known| known.key == line) {
            Some(known) => known.queue.push_back(entry),
            None => self.lines.push(Line { key: line, queue: VecDeque::from([entry]) }),
        }
    }

    pub(super) fn wants_sweep(&self) -> bool {
        self.entries >= self.sweep_entries || self.bytes >= self.sweep_bytes
    }

    /// Frees every source whose copy has run.
    pub(super) fn sweep(&mut self) {
        for line in &mut self.lines {
            let reached = line.reached();
            for Entry { fence, source, .. } in line.queue.drain(..reached) {
                self.entries -= 1;
                self.bytes -= source.size_bytes();
                if self.spares.len() < SPARES {
                    self.spares.push(fence);
                }
            }
            while line.queue.front().is_some_and(|oldest| oldest.fence.state() == State::Lost) {
                let Some(Entry { source, .. }) = line.queue.pop_front() else { break };
                self.entries -= 1;
                self.bytes -= source.size_bytes();
                core::mem::forget(source);
            }
        }
        self.lines.retain(|line| !line.queue.is_empty());
        self.spares.retain(Fence::is_live);
        self.sweep_entries = SWEEP_ENTRIES.max(2 * self.entries);
        self.sweep_bytes = SWEEP_BYTES.max(2 * self.bytes).min(CAP_BYTES);
    }

    /// While too much is parked: the oldest source, to be waited for, and never freed if that fails.
    pub(super) fn take_over_cap(&mut self) -> Option<(F, S)> {
        if self.bytes <= CAP_BYTES || self.entries <= 1 {
            return None;
        }
        let oldest = |line: &Line<L, F, S>| line.queue.front().map_or(u64::MAX, |entry| entry.age);
        let line = self.lines.iter_mut().min_by_key(|line| oldest(line))?;
        let Entry { fence, source, .. } = line.queue.pop_front()?;
        self.entries -= 1;
        self.bytes -= source.size_bytes();
        Some((fence, source))
    }
}

impl<L, F: Fence, S> Line<L, F, S> {
    /// How many of the oldest fences are reached: one question where all are, else as many as a binary search takes.
    fn reached(&self) -> usize {
        let is_reached = |index: usize| self.queue[index].fence.state() == State::Reached;
        let Some(newest) = self.queue.len().checked_sub(1) else { return 0 };
        if is_reached(newest) {
            return self.queue.len();
        }
        // All before `low` are reached, `high` is not.
        let (mut low, mut high) = (0, newest);
        while low < high {
            let middle = low.midpoint(high);
            if is_reached(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A stream whose work is done up to a number, and how often it was asked.
    #[derive(Default)]
    struct FakeStream {
        done: Cell<u64>,
        lost: Cell<bool>,
        asked: Cell<u64>,
        waited: Cell<u64>,
    }

    struct FakeFence {
        stream: Rc<FakeStream>,
        point: u64,
    }

    impl Fence for FakeFence {
        fn state(&self) -> State {
            self.stream.asked.set(self.stream.asked.get() + 1);
            match (self.stream.lost.get(), self.point <= self.stream.done.get()) {
                (true, _) => State::Lost,
                (false, true) => State::Reached,
                (false, false) => State::Pending,
            }
        }

        fn wait(&self) -> State {
            self.stream.waited.set(self.stream.waited.get() + 1);
            self.stream.done.set(self.point.max(self.stream.done.get()));
            State::Reached
        }

        fn is_live(&self) -> bool {
            !self.stream.lost.get()
        }
    }

    impl Source for Vec<u8> {
        fn size_bytes(&self) -> usize {
            self.capacity()
        }
    }

    fn park(
        retired: &mut Retired<u8, FakeFence, Vec<u8>>,
        line: u8,
        stream: &Rc<FakeStream>,
        point: u64,
        bytes: usize,
    ) {
        retired.park(line, FakeFence { stream: Rc::clone(stream), point }, vec![7; bytes]);
    }

    #[test]
    fn nothing_is_asked_below_sixteen_small_sources() {
        let (mut retired, stream) = (Retired::new(), Rc::default());
        for point in 1..=15 {
            park(&mut retired, 0, &stream, point, 64);
            assert!(!retired.wants_sweep());
        }
        park(&mut retired, 0, &stream, 16, 64);
        assert!(retired.wants_sweep());
        assert_eq!(stream.asked.get(), 0);
    }

    #[test]
    fn one_question_releases_an_idle_stream() {
        let (mut retired, stream) = (Retired::new(), Rc::<FakeStream>::default());
        stream.done.set(16);
        (1..=16).for_each(|point| park(&mut retired, 0, &stream, point, 64));
        retired.sweep();
        assert_eq!((retired.entries, retired.bytes, stream.asked.get()), (0, 0, 1));
        assert!(retired.lines.is_empty());
    }

    #[test]
    fn a_busy_stream_releases_what_is_done_and_nothing_else() {
        for done in 0..=16 {
            let (mut retired, stream) = (Retired::new(), Rc::<FakeStream>::default());
            stream.done.set(done);
            (1..=16).for_each(|point| park(&mut retired, 0, &stream, point, 64));
            retired.sweep();
            let left: Vec<u64> =
                retired.lines.iter().flat_map(|line| line.queue.iter().map(|entry| entry.fence.point)).collect();
            assert_eq!(left, (done + 1..=16).collect::<Vec<_>>());
            assert_eq!(retired.bytes, left.len() * 64);
            assert!(stream.asked.get() <= 7, "{} questions", stream.asked.get());
        }
    }

    #[test]
    fn an_idle_stream_says_nothing_about_a_busy_one() {
        let (mut retired, idle, busy) = (Retired::new(), Rc::<FakeStream>::default(), Rc::<FakeStream>::default());
        idle.done.set(100);
        for point in 1..=8 {
            park(&mut retired, 0, &busy, point, 64);
            park(&mut retired, 1, &idle, point, 64);
        }
        retired.sweep();
        assert_eq!(retired.entries, 8);
        assert!(retired.lines.iter().all(|line| line.key == 0));
    }

    #[test]
    fn a_stream_that_is_far_behind_is_asked_ever_more_rarely() {
        let (mut retired, stream) = (Retired::new(), Rc::<FakeStream>::default());
        let mut sweeps = 0;
        for point in 1..=10_000 {
            park(&mut retired, 0, &stream, point, 64);
            if retired.wants_sweep() {
                retired.sweep();
                sweeps += 1;
            }
        }
        assert_eq!(sweeps, 10); // at 16, 32, .. 8192
        assert_eq!(retired.entries, 10_000);
    }

    #[test]
    fn past_the_cap_the_oldest_go_and_the_newest_stays() {
        let (mut retired, stream) = (Retired::new(), Rc::default());
        for point in 1..=5 {
            park(&mut retired, 0, &stream, point, 20 << 20);
        }
        let mut waited = Vec::new();
        while let Some((fence, _source)) = retired.take_over_cap() {
            waited.push(fence.point);
        }
        assert_eq!(waited, [1, 2]);
        assert_eq!(retired.bytes, 60 << 20);

        let mut retired = Retired::new();
        park(&mut retired, 0, &stream, 6, 65 << 20);
        assert!(retired.take_over_cap().is_none());
    }

    #[test]
    fn the_oldest_is_found_across_streams() {
        let (mut retired, stream) = (Retired::new(), Rc::default());
        park(&mut retired, 0, &stream, 1, 64);
        retired.sweep();
        for (line, point) in [(1, 2), (0, 3), (1, 4)] {
            park(&mut retired, line, &stream, point, 30 << 20);
        }
        let (first, _) = retired.take_over_cap().unwrap();
        let (second, _) = retired.take_over_cap().unwrap();
        assert_eq!((first.point, second.point), (1, 2));
        assert!(retired.take_over_cap().is_none());
    }

    #[test]
    fn a_lost_context_empties_the_list_and_leaves_no_spares() {
        let (mut retired, stream) = (Retired::new(), Rc::<FakeStream>::default());
        stream.done.set(3);
        (1..=3).for_each(|point| park(&mut retired, 0, &stream, point, 64));
        retired.sweep();
        assert_eq!(retired.spares.len(), 3);
        (4..=6).for_each(|point| park(&mut retired, 0, &stream, point, 64));
        stream.lost.set(true);
        retired.sweep();
        assert_eq!((retired.entries, retired.bytes, retired.spares.len()), (0, 0, 0));
    }

    #[test]
    fn fences_are_used_again() {
        let (mut retired, stream) = (Retired::new(), Rc::<FakeStream>::default());
        stream.done.set(u64::MAX);
        let mut created = 0;
        for point in 1..=1_000 {
            let mut fence = retired.take_spare(|_| true).unwrap_or_else(|| {
                created += 1;
                FakeFence { stream: Rc::clone(&stream), point: 0 }
            });
            fence.point = point;
            retired.park(0_u8, fence, vec![0; 64]);
            if retired.wants_sweep() {
                retired.sweep();
            }
        }
        assert_eq!(created, 16);
        assert_eq!(stream.waited.get(), 0);
    }
}
