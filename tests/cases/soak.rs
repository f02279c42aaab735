//! Everything at once, for a while: shapes, threads, streams, graphs, and memory that runs short. What kernels see is held against what
//! they were to see; whoever runs it looks at what is left behind.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use marshal::backend::BackendStream;
use marshal::{
    ArgCache, CacheOptions, CapturedGraph, CopyBatch, CopyStaging, DeviceArgs, DevicePointer, Error, ErrorKind,
    Scratch, Uploaded, WhenExhausted,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Rig;

/// What a soak needs of a rig besides.
pub(crate) trait Soaked: Rig + Sync {
    /// Where kernels of one stream leave digests, on the device. It takes no memory that may run short.
    type Notes: Send;

    /// Room for so many digests.
    fn notes(&self, stream: &Self::Stream, room: usize) -> Self::Notes;

    /// Lets a kernel on `stream` note the [`digest`] of `len` bytes at `from` when it runs. Captured, each launch of the graph notes.
    fn note(&self, stream: &Self::Stream, from: DevicePointer<u8>, len: usize, notes: &Self::Notes);

    /// Waits for `stream`, and takes what was noted, in order.
    fn take_notes(&self, stream: &Self::Stream, notes: &Self::Notes) -> Vec<u64>;

    /// Lets a call of the driver fail before long, where that can be had; `draw` says which.
    fn trouble(&self, draw: u64);

    /// Whether the driver may say that.
    fn may_fail(&self, error: &Error) -> bool;
}

/// Changes with every byte and with the order of them.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    (0_u64..).zip(bytes).fold(0, |sum, (i, &byte)| {
        sum.wrapping_add((u64::from(byte) + 1).wrapping_mul(2 * i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

pub(crate) struct Options {
    pub(crate) takes: Duration,
    pub(crate) threads: u64,
    pub(crate) seed: u64,
    /// Device memory that there is for uploads, in bytes: too little for all that is asked for.
    pub(crate) device_bytes: u64,
    /// The largest column, in bytes.
    pub(crate) largest: usize,
}

/// What was done, and what was refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) uploads: u64,
    pub(crate) shared: u64,
    pub(crate) one_shot: u64,
    pub(crate) lent: u64,
    pub(crate) captures: u64,
    pub(crate) launches: u64,
    pub(crate) refreshes: u64,
    pub(crate) batches: u64,
    pub(crate) checked: u64,
    /// Refused by a cache: its caps, or no room in a capture.
    pub(crate) refused: u64,
    /// Refused by the driver.
    pub(crate) failed: u64,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            uploads: self.uploads + other.uploads,
            shared: self.shared + other.shared,
            one_shot: self.one_shot + other.one_shot,
            lent: self.lent + other.lent,
            captures: self.captures + other.captures,
            launches: self.launches + other.launches,
            refreshes: self.refreshes + other.refreshes,
            batches: self.batches + other.batches,
            checked: self.checked + other.checked,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
        }
    }

    /// Nothing that was to be mixed is missing.
    pub(crate) fn is_mixed(&self) -> bool {
        let all = [self.uploads, self.shared, self.one_shot, self.lent, self.captures, self.launches, self.refreshes];
        let others = [self.batches, self.checked, self.refused, self.failed];
        all.iter().chain(&others).all(|&times| times != 0)
    }
}

#[derive(DeviceArgs)]
struct Mixed {
    bytes: Vec<u8>,
    #[device(align = 64)]
    words: Vec<u32>,
    triples: Vec<[u16; 3]>,
    counts: Scratch<u32>,
    work: Scratch<u8>,
}

type BackendOf<R> = <<R as Rig>::Stream as BackendStream>::Backend;
type Set<R> = Uploaded<MixedPointers, BackendOf<R>>;
type Graph<R> = CapturedGraph<Vec<Set<R>>, BackendOf<R>>;

/// Arguments, and what their block has to hold.
struct Sample {
    args: Mixed,
    image: Vec<u8>,
    digest: u64,
}

/// Arguments of one shape differ in every byte, or in the last of some column alone.
const FILLS: usize = 4;
const SHAPES: usize = 14;

impl Sample {
    fn new(lens: [usize; 5], fill: usize) -> Self {
        let [bytes, words, triples, counts, work] = lens;
        let seed = u8::try_from(1 + fill / 2 * 90).unwrap();
        let mut args = Mixed {
            bytes: (0..bytes).map(|i| seed.wrapping_add(u8::try_from(i % 251).unwrap())).collect(),
            words: (0..u32::try_from(words).unwrap())
                .map(|i| i.wrapping_mul(2_654_435_761) ^ u32::from(seed))
                .collect(),
            triples: (0..triples).map(|i| [u16::try_from(i % 65_536).unwrap(), seed.into(), 7]).collect(),
            counts: Scratch::zeroed(counts),
            work: Scratch::uninit(work),
        };
        if let Some(last) = args.words.last_mut() {
            *last ^= u32::try_from(fill % 2).unwrap();
        }
        let mut image = args.bytes.clone();
        image.resize(image.len().next_multiple_of(64), 0);
        image.extend(args.words.iter().flat_map(|word| word.to_le_bytes()));
        image.resize(image.len().next_multiple_of(16), 0);
        image.extend(args.triples.iter().flatten().flat_map(|lane| lane.to_le_bytes()));
        image.resize(image.len().next_multiple_of(64), 0);
        let digest = digest(&image);
        Self { args, image, digest }
    }

    fn all(options: &Options) -> Vec<[Self; FILLS]> {
        let mut random = StdRng::seed_from_u64(options.seed);
        let mut lens = move |index: usize| {
            let most = if index < 10 { 1000 } else { options.largest >> (SHAPES - 1 - index) };
            let mut len = |size: usize| random.random_range(1..=most / size + 1);
            [len(1), len(4), len(6), len(4).min(1000), len(1)]
        };
        (0..SHAPES).map(&mut lens).map(|lens| core::array::from_fn(|fill| Self::new(lens, fill))).collect()
    }
}

/// What kernels of one stream have noted, and what they had to.
struct Watch<R: Soaked> {
    stream: R::Stream,
    notes: R::Notes,
    expected: VecDeque<u64>,
}

const ROOM: usize = 256;

impl<R: Soaked> Watch<R> {
    fn new(rig: &R) -> Self {
        let stream = rig.stream();
        let notes = rig.notes(&stream, ROOM);
        Self { stream, notes, expected: VecDeque::new() }
    }

    /// Lets a kernel look at the set's bytes.
    fn look(&mut self, rig: &R, set: &Set<R>, sample: &Sample) {
        rig.note(&self.stream, set.base(), sample.image.len(), &self.notes);
        self.expected.push_back(sample.digest);
    }

    fn check(&mut self, rig: &R) -> u64 {
        let noted = rig.take_notes(&self.stream, &self.notes);
        assert_eq!(noted, Vec::from(core::mem::take(&mut self.expected)), "kernels read other bytes than they had to");
        noted.len() as u64
    }

    /// Before there is no room for a few more.
    fn check_in_time(&mut self, rig: &R) -> u64 {
        if self.expected.len() < ROOM - 8 { 0 } else { self.check(rig) }
    }
}

/// A graph, and what its next launch brings, by set.
struct Replay<R: Soaked> {
    graph: Graph<R>,
    next: Vec<(usize, usize)>,
}

struct Worker<'s, R: Soaked> {
    rig: &'s R,
    samples: &'s [[Sample; FILLS]],
    shared: &'s ArgCache<BackendOf<R>>,
    device_bytes: u64,
    // Before the streams' owners: graphs and sets go first.
    graphs: Vec<Replay<R>>,
    held: Vec<(usize, usize, Set<R>)>,
    hogs: VecDeque<Uploaded<WorkPointers, BackendOf<R>>>,
    cache: ArgCache<BackendOf<R>>,
    staging: CopyStaging<BackendOf<R>>,
    home: Watch<R>,
    side: Watch<R>,
    random: StdRng,
    tally: Tally,
}

#[derive(DeviceArgs)]
struct Work {
    work: Scratch<u8>,
}

/// Works until the time is over, and lets go of everything.
pub(crate) fn soak<R: Soaked>(rig: &R, options: &Options) -> Tally {
    let samples = Sample::all(options);
    let until = Instant::now() + options.takes;
    let stream = rig.stream();
    let shared = ArgCache::with_options(&stream, caps(options, WhenExhausted::Grow)).unwrap();
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads)
            .map(|thread| {
                let (samples, shared) = (&samples, &shared);
                scope.spawn(move || Worker::new(rig, options, samples, shared, thread).work(until))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    tallies.into_iter().fold(Tally::default(), Tally::plus)
}

/// A quarter of the memory for each cache: together they want more than there is.
fn caps(options: &Options, when_exhausted: WhenExhausted) -> CacheOptions {
    let bytes = options.device_bytes / 4;
    CacheOptions { device_bytes: bytes, staging_bytes: bytes, when_exhausted }
}

impl<'s, R: Soaked> Worker<'s, R> {
    fn new(
        rig: &'s R,
        options: &Options,
        samples: &'s [[Sample; FILLS]],
        shared: &'s ArgCache<BackendOf<R>>,
        thread: u64,
    ) -> Self {
        let (home, side) = (Watch::new(rig), Watch::new(rig));
        let whens = [WhenExhausted::Grow, WhenExhausted::Wait, WhenExhausted::Error];
        let when = whens[usize::try_from(thread % 3).unwrap()];
        Self {
            rig,
            samples,
            shared,
            device_bytes: options.device_bytes,
            graphs: Vec::new(),
            held: Vec::new(),
            hogs: VecDeque::new(),
            cache: ArgCache::with_options(&home.stream, caps(options, when)).unwrap(),
            staging: CopyStaging::new(&home.stream),
            home,
            side,
            random: StdRng::seed_from_u64(options.seed ^ ((thread + 1) << 32)),
            tally: Tally::default(),
        }
    }

    fn work(mut self, until: Instant) -> Tally {
        while Instant::now() < until {
            let step = self.random.random_range(0..100);
            self.step(step);
            self.tally.checked += self.home.check_in_time(self.rig) + self.side.check_in_time(self.rig);
        }
        // What is held has its bytes to the end, and graphs their arguments.
        self.read_back();
        for index in 0..self.graphs.len() {
            self.launch(index);
        }
        self.tally.checked += self.home.check(self.rig) + self.side.check(self.rig);
        self.tally
    }

    fn step(&mut self, step: u32) {
        match step {
            0..=33 => self.upload(),
            34..=42 => self.upload_to_the_shared_cache(),
            43..=50 => self.look_at_what_is_held(),
            51..=53 => self.read_back(),
            54..=61 => self.upload_one_shot(),
            62..=63 => self.take_much(),
            64..=66 => self.capture(),
            67..=86 => self.replay(),
            87..=89 => self.fetch(),
            90..=92 => self.rig.trouble(self.random.random()),
            93 => self.cache.clear(),
            94..=95 => self.held.clear(),
            96 => self.hogs.clear(),
            97 => drop(pick(&mut self.random, &self.graphs).map(|index| self.graphs.swap_remove(index))),
            _ => self.tally.checked += self.home.check(self.rig) + self.side.check(self.rig),
        }
    }

    fn draw(&mut self) -> (usize, usize) {
        // Small shapes more often than large ones.
        let shape = self.random.random_range(0..SHAPES).min(self.random.random_range(0..SHAPES));
        (shape, self.random.random_range(0..FILLS))
    }

    /// What may be refused, was.
    fn refused(&mut self, error: &Error) {
        match error.kind() {
            ErrorKind::CacheFull { .. }
            | ErrorKind::StagingFull { .. }
            | ErrorKind::StagingExhausted { .. }
            | ErrorKind::NotReserved { .. } => self.tally.refused += 1,
            _ if self.rig.may_fail(error) => self.tally.failed += 1,
            _ => panic!("unexpected: {error}"),
        }
    }

    fn upload(&mut self) {
        let (shape, fill) = self.draw();
        let sample = &self.samples[shape][fill];
        let set = match sample.args.upload(&self.cache) {
            Ok(set) => set,
            Err(error) => return self.refused(&error),
        };
        self.tally.uploads += 1;
        assert_eq!(set.layout().copy_bytes(), sample.image.len() as u64);
        self.home.look(self.rig, &set, sample);
        self.use_scratch(&set);
        if self.random.random_range(0..3) == 0 {
            if self.held.len() == 8 {
                let index = self.random.random_range(0..8);
                drop(self.held.swap_remove(index));
            }
            self.held.push((shape, fill, set));
        }
    }

    /// Scratch is zero when a set is new, and is not when its block is used again.
    fn use_scratch(&mut self, set: &Set<R>) {
        let counts = set.counts;
        self.rig.note(&self.home.stream, counts.pointer().cast(), counts.len() * 4, &self.home.notes);
        self.home.expected.push_back(digest(&vec![0; counts.len() * 4]));
        self.rig.fill(&self.home.stream, counts.pointer().cast(), counts.len() * 4, 0xc5);
        self.rig.fill(&self.home.stream, set.work.pointer(), set.work.len(), 0x5c);
    }

    fn upload_to_the_shared_cache(&mut self) {
        let (shape, fill) = self.draw();
        let sample = &self.samples[shape][fill];
        let set = match sample.args.upload(self.shared) {
            Ok(set) => set,
            Err(error) => return self.refused(&error),
        };
        self.tally.shared += 1;
        self.lend(&set, sample);
    }

    /// Lets a kernel of the other stream look.
    fn lend(&mut self, set: &Set<R>, sample: &Sample) {
        match set.on(&self.side.stream) {
            Ok(lent) => {
                self.side.look(self.rig, set, sample);
                drop(lent);
                self.tally.lent += 1;
            }
            Err(error) => self.refused(&error),
        }
    }

    fn look_at_what_is_held(&mut self) {
        let Some(index) = pick(&mut self.random, &self.held) else { return };
        let (shape, fill, set) = self.held.swap_remove(index);
        let sample = &self.samples[shape][fill];
        if self.random.random() {
            self.lend(&set, sample);
        } else {
            self.home.look(self.rig, &set, sample);
        }
        self.held.push((shape, fill, set));
    }

    fn read_back(&mut self) {
        for (shape, fill, set) in &self.held {
            // Whole, and byte by byte.
            assert!(set.read_back().unwrap() == self.samples[*shape][*fill].image, "a held set has other bytes");
            self.tally.checked += 1;
        }
    }

    fn upload_one_shot(&mut self) {
        let (shape, fill) = self.draw();
        let sample = &self.samples[shape][fill];
        let is_home = self.random.random();
        let watch = if is_home { &mut self.home } else { &mut self.side };
        match sample.args.upload(&watch.stream) {
            Ok(set) => {
                watch.look(self.rig, &set, sample);
                self.tally.one_shot += 1;
            }
            Err(error) => self.refused(&error),
        }
    }

    /// So that others find too little: what the driver has not, it refuses.
    fn take_much(&mut self) {
        let bytes = usize::try_from(self.device_bytes / 3).unwrap();
        match (Work { work: Scratch::uninit(bytes) }).upload(&self.home.stream) {
            Ok(set) => {
                if self.hogs.len() == 2 {
                    self.hogs.pop_front();
                }
                self.hogs.push_back(set);
            }
            Err(error) => {
                self.refused(&error);
                self.hogs.clear();
            }
        }
    }

    fn capture(&mut self) {
        if self.graphs.len() == 3 {
            self.graphs.swap_remove(0);
        }
        let next: Vec<_> = (0..self.random.random_range(1..=2)).map(|_| self.draw()).collect();
        let samples: Vec<&Sample> = next.iter().map(|&(shape, fill)| &self.samples[shape][fill]).collect();
        for sample in &samples {
            if let Err(error) = self.cache.reserve_sets(&sample.args.layout().unwrap(), samples.len()) {
                return self.refused(&error);
            }
        }
        let (rig, cache, home) = (self.rig, &self.cache, &self.home);
        let graph = cache.capture(|stream| {
            let sets: Result<Vec<Set<R>>, Error> = samples
                .iter()
                .map(|sample| {
                    let set = sample.args.upload(cache)?;
                    rig.note(stream, set.base(), sample.image.len(), &home.notes);
                    Ok(set)
                })
                .collect();
            sets
        });
        match graph {
            Ok(graph) => {
                self.tally.captures += 1;
                self.graphs.push(Replay { graph, next });
            }
            Err(error) => self.refused(&error),
        }
    }

    fn replay(&mut self) {
        let Some(index) = pick(&mut self.random, &self.graphs) else { return };
        let Replay { graph, next } = &mut self.graphs[index];
        let set = self.random.random_range(0..next.len());
        if self.random.random_range(0..3) != 0 {
            let (shape, fill) = (next[set].0, self.random.random_range(0..FILLS));
            match graph.refresh(|sets| &sets[set], &self.samples[shape][fill].args) {
                Ok(()) => {
                    next[set].1 = fill;
                    self.tally.refreshes += 1;
                }
                Err(error) => self.refused(&error),
            }
        }
        self.launch(index);
    }

    fn launch(&mut self, index: usize) {
        let Replay { graph, next } = &self.graphs[index];
        match graph.launch() {
            Ok(()) => {
                self.tally.launches += 1;
                let digests = next.iter().map(|&(shape, fill)| self.samples[shape][fill].digest);
                self.home.expected.extend(digests);
            }
            Err(error) => self.refused(&error),
        }
    }

    /// Columns of several sets, in one batch of copies to the host.
    fn fetch(&mut self) {
        let mut batch = CopyBatch::new(&self.staging);
        let tickets: Vec<_> =
            self.held.iter().map(|(.., set)| batch.dtoh_owned(set.range(set.words).unwrap()).unwrap()).collect();
        let fetched = match batch.submit() {
            Ok(pending) => pending.wait(),
            Err(error) => Err(error.into()),
        };
        match fetched {
            Ok(fetched) => {
                for (ticket, (shape, fill, _)) in tickets.iter().zip(&self.held) {
                    let right = &self.samples[*shape][*fill].args.words;
                    assert!(fetched.read(ticket, |words| words == right), "a batch has fetched other bytes");
                }
                self.tally.batches += 1;
            }
            Err(error) => self.refused(&error),
        }
    }
}

fn pick<T>(random: &mut StdRng, of: &[T]) -> Option<usize> {
    (!of.is_empty()).then(|| random.random_range(0..of.len()))
}
