//! Times in turns: every subject once a round, so that a clock that drifts hits all alike.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::gpu::Gpu;
use super::kernel::Kernel;
use super::way::Way;

/// Microseconds: the median, and where the middle four fifths lie.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
}

impl Spread {
    /// None where nothing was measured.
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let at =
            |tenths: usize| samples.get((samples.len() * tenths / 10).min(samples.len().saturating_sub(1))).copied();
        Some(Self { median: at(5)?, p10: at(1)?, p90: at(9)? })
    }
}

/// What is measured of one subject. None: not measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Timings {
    /// Host time a call while the calls follow each other without a wait.
    pub(crate) back_to_back: Option<Spread>,
    /// Host time of one call on an idle stream.
    pub(crate) host: Option<Spread>,
    /// The same until the stream is idle again.
    pub(crate) to_idle: Option<Spread>,
    /// One call and the kernel that reads the arguments, until both are done.
    pub(crate) to_kernel: Option<Spread>,
    /// A step of many that are given without a wait: until all are done, divided by their number.
    pub(crate) pipelined: Option<Spread>,
}

/// The samples of one subject, in microseconds.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) back_to_back: Vec<f64>,
    pub(crate) host: Vec<f64>,
    pub(crate) to_idle: Vec<f64>,
    pub(crate) to_kernel: Vec<f64>,
    pub(crate) pipelined: Vec<f64>,
}

impl From<Samples> for Timings {
    fn from(samples: Samples) -> Self {
        Self {
            back_to_back: Spread::of(samples.back_to_back),
            host: Spread::of(samples.host),
            to_idle: Spread::of(samples.to_idle),
            to_kernel: Spread::of(samples.to_kernel),
            pipelined: Spread::of(samples.pipelined),
        }
    }
}

/// How often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Calls back to back in each round.
    pub(crate) calls: u64,
    /// Calls on an idle stream in each round.
    pub(crate) singles: u64,
}

impl Effort {
    /// Enough for steady medians where calls are short, and few where a call takes milliseconds.
    pub(crate) fn for_bytes(bytes: usize, rounds: Option<usize>, quick: bool) -> Self {
        let (bytes_a_round, rounds_by_size) = if quick { (1_000_000, 5) } else { (16_000_000, 20) };
        let calls = (bytes_a_round / bytes.max(1) as u64).clamp(2, if quick { 100 } else { 500 });
        let few = bytes > 16 << 20;
        let rounds = rounds.unwrap_or(if few { 5 } else { rounds_by_size });
        Self { rounds, calls, singles: if few { 1 } else { 5 } }
    }
}

/// Something that takes its turn: makes its calls and keeps what they took.
pub(crate) type Subject<'s> = Box<dyn FnMut(&mut Samples) + 's>;

/// Lets all subjects take turns in one round more than asked for: the first warms up, and does not count.
pub(crate) fn in_turns(subjects: &mut [Subject<'_>], rounds: usize) -> Vec<Timings> {
    let mut samples: Vec<Samples> = subjects.iter().map(|_| Samples::default()).collect();
    for round in 0..=rounds {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            if round == 0 {
                subject(&mut Samples::default());
            } else {
                subject(samples);
            }
        }
    }
    samples.into_iter().map(Timings::from).collect()
}

pub(crate) fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Calls `call` back to back, from an idle stream on; the last wait is not counted.
pub(crate) fn back_to_back(gpu: &Gpu, calls: u64, mut call: impl FnMut()) -> f64 {
    gpu.settle();
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    let each = micros(start) / calls as f64;
    gpu.settle();
    each
}

/// The same until the device has done all of it.
pub(crate) fn pipelined(gpu: &Gpu, calls: u64, mut call: impl FnMut()) -> f64 {
    gpu.settle();
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    gpu.settle();
    micros(start) / calls as f64
}

/// Calls `call` once on an idle stream: until it returns, and until the stream is idle.
pub(crate) fn single(gpu: &Gpu, call: impl FnOnce()) -> (f64, f64) {
    gpu.settle();
    let start = Instant::now();
    call();
    let host = micros(start);
    gpu.settle();
    (host, micros(start))
}

/// The subject that a way is: alone, and with the kernel.
pub(crate) fn subject<'s>(way: &'s mut dyn Way, gpu: &'s Gpu, kernel: &'s Kernel, effort: Effort) -> Subject<'s> {
    let groups = way.args().groups();
    let mut number = 0;
    Box::new(move |samples| {
        samples.back_to_back.push(back_to_back(gpu, effort.calls, || {
            number += 1;
            way.call(number, None);
        }));
        for _ in 0..effort.singles {
            number += 1;
            let (host, to_idle) = single(gpu, || way.call(number, None));
            samples.host.push(host);
            samples.to_idle.push(to_idle);
            number += 1;
            let mut consume = |addresses| kernel.launch(gpu, addresses, groups);
            samples.to_kernel.push(single(gpu, || way.call(number, Some(&mut consume))).1);
        }
    })
}
