//! Which work comes before which: one count a stream.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How far into each stream's work something is known to come after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<u64, u64>);

impl Clock {
    /// Whether `sequence` of `stream` comes before.
    fn covers(&self, stream: u64, sequence: u64) -> bool {
        self.0.get(&stream).is_some_and(|&known| known >= sequence)
    }

    pub(super) fn raise(&mut self, stream: u64, sequence: u64) {
        let known = self.0.entry(stream).or_default();
        *known = (*known).max(sequence);
    }

    /// Both are known to come before. Work of stream `own`, whose clock this is, comes before anyway. Allocates only where
    /// that says more than `clock` says already.
    pub(super) fn join(clock: &mut Arc<Self>, other: &Self, own: Option<u64>) {
        let is_news = |(stream, sequence): &(&u64, &u64)| own != Some(**stream) && !clock.covers(**stream, **sequence);
        if other.0.iter().any(|entry| is_news(&entry)) {
            let clock = Arc::make_mut(clock);
            for (&stream, &sequence) in &other.0 {
                clock.raise(stream, sequence);
            }
        }
    }

    /// The point, and all that comes before it, is known to come before.
    pub(super) fn join_point(clock: &mut Arc<Self>, point: &Point) {
        Self::join(clock, &point.before, None);
        if !clock.covers(point.stream, point.sequence) {
            Arc::make_mut(clock).raise(point.stream, point.sequence);
        }
    }
}

/// One piece of work: where it stands in its stream, and what comes before it on others. Fixed when it is submitted, so it
/// says what the program has ordered, however the work happens to run.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) stream: u64,
    /// Counts from 1.
    pub(super) sequence: u64,
    pub(super) before: Arc<Clock>,
}

impl Point {
    /// Whether `sequence` of `stream` is ordered before this.
    pub(super) fn follows(&self, stream: u64, sequence: u64) -> bool {
        if stream == self.stream { sequence <= self.sequence } else { self.before.covers(stream, sequence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(stream: u64, sequence: u64, before: Arc<Clock>) -> Point {
        Point { stream, sequence, before }
    }

    #[test]
    fn order_within_a_stream_needs_no_clock_and_order_between_streams_does() {
        let nothing = Arc::new(Clock::default());
        let first = point(1, 4, nothing.clone());
        assert!(point(1, 5, nothing.clone()).follows(1, 4));
        assert!(!point(1, 3, nothing.clone()).follows(1, 4));
        assert!(!point(2, 9, nothing).follows(1, 4));

        let mut waited = Arc::new(Clock::default());
        Clock::join_point(&mut waited, &first);
        assert!(point(2, 1, waited.clone()).follows(1, 4));
        assert!(!point(2, 1, waited).follows(1, 5));
    }

    #[test]
    fn order_is_passed_on() {
        let mut second = Arc::new(Clock::default());
        Clock::join_point(&mut second, &point(1, 4, Arc::default()));
        let mut third = Arc::new(Clock::default());
        Clock::join_point(&mut third, &point(2, 7, second));
        assert!(point(3, 1, third).follows(1, 4));
    }
}
