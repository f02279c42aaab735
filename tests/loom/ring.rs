//! Loom models of staging: regions that take turns, and the regions of a graph that is refreshed. As in the other file, a model: the same
//! steps in the same order (`staging.rs` and `graph.rs` tell the protocols). A region's bytes are a cell that loom watches, so that a
//! write beside the read of a copy fails; and each copy says which bytes it had to find.

use std::collections::VecDeque;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex, mpsc};
use loom::thread;

/// What is given to the stream, which runs it in order and as late as it likes.
enum Task {
    /// A copy, or that of a graph's launch.
    Copy {
        region: Shared,
        expected: u64,
    },
    Fence(Arc<AtomicBool>),
    End,
}

/// A region's bytes. Its own `Arc` is none of loom's: a copy that is under way holds nothing.
type Shared = std::sync::Arc<Bytes>;

struct Bytes(UnsafeCell<u64>);

fn bytes() -> Shared {
    #[expect(clippy::arc_with_non_send_sync, reason = "loom checks who reaches the cell, and when")]
    std::sync::Arc::new(Bytes(UnsafeCell::new(0)))
}

fn run(tasks: &mpsc::Receiver<Task>) {
    loop {
        match tasks.recv().unwrap() {
            Task::End => return,
            Task::Copy { region, expected } => {
                let found = region.0.with(|bytes| {
                    // SAFETY: loom checks that nobody writes meanwhile.
                    unsafe { *bytes }
                });
                assert_eq!(found, expected, "a copy has read bytes that were written after it was submitted");
            }
            Task::Fence(passed) => passed.store(true, Ordering::Release),
        }
    }
}

/// A region, and the number of the last copy that reads it.
struct Image {
    bytes: Shared,
    copy: u64,
}

impl Image {
    fn write(&self, timeline: &Timeline, value: u64) {
        assert!(self.copy <= timeline.done, "a region that a copy reads was handed out");
        self.bytes.0.with_mut(|bytes| {
            // SAFETY: loom checks that nobody reads or writes meanwhile.
            unsafe { *bytes = value }
        });
    }

    fn read(&self) -> u64 {
        self.bytes.0.with(|bytes| {
            // SAFETY: loom checks that nobody writes meanwhile.
            unsafe { *bytes }
        })
    }
}

struct Timeline {
    stream: mpsc::Sender<Task>,
    submitted: u64,
    done: u64,
    marks: VecDeque<(u64, Arc<AtomicBool>)>,
}

impl Timeline {
    fn submit(&mut self, image: &mut Image, expected: u64) {
        self.stream.send(Task::Copy { region: std::sync::Arc::clone(&image.bytes), expected }).unwrap();
        self.submitted += 1;
        image.copy = self.submitted;
    }

    fn mark(&mut self) {
        let passed = Arc::new(AtomicBool::new(false));
        self.stream.send(Task::Fence(Arc::clone(&passed))).unwrap();
        self.marks.push_back((self.submitted, passed));
    }

    /// Waits until `copy` has run.
    fn wait(&mut self, copy: u64) {
        if copy <= self.done {
            return;
        }
        if self.marks.back().is_none_or(|&(at, _)| at < copy) {
            self.mark();
        }
        let first = self.marks.partition_point(|&(at, _)| at < copy);
        while !self.marks[first].1.load(Ordering::Acquire) {
            thread::yield_now();
        }
        for (at, _) in self.marks.drain(..=first) {
            self.done = at;
        }
    }
}

/// A cache's staging, under its lock.
struct Ring {
    timeline: Timeline,
    free: VecDeque<Image>,
    /// Of the one block: what was sent to it last.
    image: Option<Image>,
}

impl Ring {
    fn new(regions: usize, stream: mpsc::Sender<Task>) -> Self {
        let free = (0..regions).map(|_| Image { bytes: bytes(), copy: 0 }).collect();
        Self { timeline: Timeline { stream, submitted: 0, done: 0, marks: VecDeque::new() }, free, image: None }
    }

    fn take(&mut self) -> Image {
        let copy = self.free.front().unwrap().copy;
        self.timeline.wait(copy);
        self.free.pop_front().unwrap()
    }

    fn give_back(&mut self, image: Image) {
        if image.copy <= self.timeline.done { self.free.push_front(image) } else { self.free.push_back(image) }
    }

    fn upload(&mut self, value: u64) {
        if self.image.as_ref().is_some_and(|image| image.read() == value) {
            return;
        }
        let mut next = self.take();
        next.write(&self.timeline, value);
        self.timeline.submit(&mut next, value);
        if let Some(before) = self.image.replace(next) {
            self.give_back(before);
        }
    }
}

/// A graph with one set: its copy reads the region that `source` names when it is launched.
struct Graph {
    image: Image,
    next: Option<Image>,
}

impl Graph {
    fn refresh(&mut self, ring: &mut Ring, value: u64) {
        if self.image.read() == value {
            return;
        }
        let region = self.next.take().unwrap_or_else(|| ring.take());
        region.write(&ring.timeline, value);
        let before = core::mem::replace(&mut self.image, region);
        ring.give_back(before);
    }

    fn launch(&mut self, ring: &mut Ring, expected: u64) {
        // Pointed ahead already, and nobody has refreshed: the bytes move over.
        if let Some(next) = self.next.take() {
            next.write(&ring.timeline, self.image.read());
            let before = core::mem::replace(&mut self.image, next);
            ring.give_back(before);
        }
        ring.timeline.submit(&mut self.image, expected);
        if ring.free.front().is_some_and(|next| next.copy <= ring.timeline.done) {
            self.next = ring.free.pop_front();
        }
    }
}

fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

#[test]
fn a_region_is_written_only_behind_the_copy_that_reads_it() {
    model(3, || {
        let (stream, tasks) = mpsc::channel();
        let device = thread::spawn(move || run(&tasks));
        let ring = Arc::new(Mutex::new(Ring::new(2, stream)));
        let other = Arc::clone(&ring);
        let worker = thread::spawn(move || other.lock().unwrap().upload(1));
        for value in [2, 3] {
            ring.lock().unwrap().upload(value);
        }
        worker.join().unwrap();
        ring.lock().unwrap().timeline.stream.send(Task::End).unwrap();
        device.join().unwrap();
    });
}

#[test]
fn each_launch_reads_what_the_last_refresh_before_it_wrote() {
    model(3, || {
        let (stream, tasks) = mpsc::channel();
        let device = thread::spawn(move || run(&tasks));
        let mut ring = Ring::new(3, stream);
        let image = ring.take();
        let both = Arc::new(Mutex::new((ring, Graph { image, next: None })));
        let other = Arc::clone(&both);
        // An eager upload takes a region of the same ring in between.
        let worker = thread::spawn(move || other.lock().unwrap().0.upload(9));
        let mut now = 0;
        for refresh in [Some(1), None, Some(2)] {
            let (ring, graph) = &mut *both.lock().unwrap();
            if let Some(value) = refresh {
                graph.refresh(ring, value);
                now = value;
            }
            graph.launch(ring, now);
        }
        worker.join().unwrap();
        both.lock().unwrap().0.timeline.stream.send(Task::End).unwrap();
        device.join().unwrap();
    });
}
