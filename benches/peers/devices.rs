//! The same arguments for two devices, as a tensor-parallel group has them: one call for both beside a call for each.
//!
//! Host time alone, back to back: each device copies its own bytes, behind nobody else's.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaStream};
use marshal::cuda::Cuda;
use marshal::{ArgCache, DeviceArgs, Error, upload_each};

use super::args::{GroupedGemm, Touch};
use super::attempt::attempt;
use super::gpu::Gpu;
use super::measure::{Effort, Subject, in_turns, micros};
use super::record::{Row, Table};
use super::way::Side;

/// Uploads to the caches of the devices, and lets go of the sets.
type Upload = fn(&[GroupedGemm; 2], &[ArgCache<Cuda>; 2]) -> Result<(), Error>;

/// A name, whether an element of each set is new in every call, and what uploads them.
const ENTRIES: [(&str, bool, Upload); 6] = [
    ("device 0 alone, changed", true, |args, caches| one(&args[0], &caches[0])),
    ("device 1 alone, changed", true, |args, caches| one(&args[1], &caches[1])),
    ("both in two calls, changed", true, two_calls),
    ("both in one call, changed", true, one_call),
    ("both in two calls, unchanged", false, two_calls),
    ("both in one call, unchanged", false, one_call),
];

fn one(args: &GroupedGemm, cache: &ArgCache<Cuda>) -> Result<(), Error> {
    drop(black_box(args.upload(cache)?));
    Ok(())
}

fn two_calls(args: &[GroupedGemm; 2], caches: &[ArgCache<Cuda>; 2]) -> Result<(), Error> {
    drop(black_box((args[0].upload(&caches[0])?, args[1].upload(&caches[1])?)));
    Ok(())
}

fn one_call(args: &[GroupedGemm; 2], caches: &[ArgCache<Cuda>; 2]) -> Result<(), Error> {
    drop(black_box(upload_each(args, caches)?));
    Ok(())
}

/// A stream on each device.
pub(crate) struct Pair {
    streams: [Arc<CudaStream>; 2],
}

impl Pair {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, String> {
        let count = CudaContext::device_count().map_err(|error| error.to_string())?;
        if count < 2 {
            return Err(format!("2 CUDA devices needed, {count} here"));
        }
        let other = CudaContext::new(1).map_err(|error| error.to_string())?;
        let streams = [&gpu.context, &other].map(|context| context.new_stream().map_err(|error| error.to_string()));
        // cudarc leaves the context current that it makes; all other ways work in the first device's.
        gpu.context.bind_to_thread().map_err(|error| error.to_string())?;
        let [here, there] = streams;
        Ok(Self { streams: [here?, there?] })
    }

    fn settle(&self) {
        self.streams.iter().for_each(|stream| stream.synchronize().expect("the work was right"));
    }
}

pub(crate) fn run(gpu: &Gpu, pair: &Pair, groups: usize, effort: Effort) -> Result<Table, String> {
    let bytes = 2 * GroupedGemm::new(groups).offsets(16).1;
    let mut ways = ENTRIES.map(|(_, is_changing, upload)| Way::new(pair, groups, is_changing, upload));
    let verdicts = ways.each_mut().map(|way| attempt(|| way.check()).err());
    let mut subjects: Vec<Subject<'_>> = ways.iter_mut().map(|way| subject(way, pair, effort)).collect();
    let timings = in_turns(&mut subjects, effort.rounds);
    drop(subjects);
    drop(ways);
    gpu.context.bind_to_thread().map_err(|error| error.to_string())?;
    let rows = ENTRIES.iter().zip(timings).zip(verdicts).map(|(((name, ..), timings), wrong)| Row {
        name: (*name).into(),
        side: Side::Marshal,
        calls: String::new(),
        note: String::new(),
        timings: if wrong.is_some() { Default::default() } else { timings },
        not_run: wrong,
    });
    Ok(Table { title: format!("{groups} groups, {bytes} bytes on both"), number: groups, bytes, rows: rows.collect() })
}

struct Way {
    caches: [ArgCache<Cuda>; 2],
    args: [GroupedGemm; 2],
    is_changing: bool,
    number: u64,
    upload: Upload,
}

impl Way {
    fn new(pair: &Pair, groups: usize, is_changing: bool, upload: Upload) -> Self {
        let caches = pair.streams.each_ref().map(|stream| ArgCache::new(stream).expect("a stream of its own"));
        let args = [GroupedGemm::new(groups), GroupedGemm::new(groups)];
        let mut way = Self { caches, args, is_changing, number: 0, upload };
        way.touch();
        way
    }

    /// Each device's set other than the other's: a mix-up would be seen.
    fn touch(&mut self) {
        for (device, args) in (0..).zip(&mut self.args) {
            args.touch(Touch::Early, 2 * self.number + device);
        }
    }

    fn call(&mut self) {
        if self.is_changing {
            self.number += 1;
            self.touch();
        }
        (self.upload)(&self.args, &self.caches).expect("uploaded");
    }

    /// Two calls. What the blocks hold then is what the arguments say.
    fn check(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            self.call();
            for (device, (args, cache)) in self.args.iter().zip(&self.caches).enumerate() {
                let mut image = vec![0; args.offsets(16).1];
                args.pack_by_hand(&mut image);
                let found = args.upload(cache).and_then(|dev| dev.read_back()).map_err(|error| error.to_string())?;
                if found != image {
                    return Err(format!("WRONG bytes on device {device}"));
                }
            }
        }
        Ok(())
    }
}

fn subject<'s>(way: &'s mut Way, pair: &'s Pair, effort: Effort) -> Subject<'s> {
    Box::new(move |samples| {
        pair.settle();
        let start = Instant::now();
        for _ in 0..effort.calls {
            way.call();
        }
        samples.back_to_back.push(micros(start) / effort.calls as f64);
        pair.settle();
    })
}
