//! Every call of the driver fails once, at every point of every public operation: an error with its cause or none at all, bytes that are
//! right, the next operation as ever, and nothing left behind.
//!
//! Only where the failing driver stands in front of the real one.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUcontext, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode};
use marshal::backend::Backend;
use marshal::cuda::{Buffers, Cuda, pointer_to, pointer_to_mut};
use marshal::{
    ArgCache, Batch, CacheOptions, CopyBatch, CopyBatchError, CopyStaging, DeviceArgs, DevicePointer, DeviceRange,
    DeviceRangeMut, Error, FetchedCopies, PendingCopies, Scratch, Uploaded, WhenExhausted, upload_each,
};

use super::device::{Gpu, Log, Words, fill, read, value};
use super::failing::{CODE, FailingDriver};

type Scenario = fn(&Point<'_>, &Arc<CudaStream>);

type Test = (&'static str, fn(&Gpu, &FailingDriver));

pub(crate) const ALL: &[Test] = &[
    // The first of the process.
    ("the_first_batch_of_copies", the_first_batch),
    ("a_one_shot_upload", |gpu, driver| on_every_stream(gpu, driver, one_shot)),
    ("many_one_shot_uploads", |gpu, driver| on_created(gpu, driver, many_one_shots)),
    ("sources_that_are_waited_for", |gpu, driver| on_created(gpu, driver, large_one_shots)),
    ("a_cache", |gpu, driver| on_two_streams(gpu, driver, cached)),
    ("a_cache_whose_staging_is_exhausted", |gpu, driver| on_two_streams(gpu, driver, exhausted)),
    ("a_cache_that_goes_before_its_copies", |gpu, driver| on_two_streams(gpu, driver, dropped_early)),
    ("scratch", |gpu, driver| on_two_streams(gpu, driver, scratch)),
    ("a_set_lent_to_another_stream", |gpu, driver| on_every_stream(gpu, driver, lent)),
    ("a_captured_graph", |gpu, driver| on_created(gpu, driver, captured)),
    ("a_graph_of_cudarc", |gpu, driver| on_created(gpu, driver, captured_by_hand)),
    ("sets_dropped_in_a_capture", |gpu, driver| on_created(gpu, driver, dropped_in_a_capture)),
    ("a_batch_of_copies", |gpu, driver| on_every_stream(gpu, driver, copies)),
    ("a_captured_batch_of_copies", |gpu, driver| on_created(gpu, driver, captured_copies)),
    ("sets_for_each_cache", |gpu, driver| on_created(gpu, driver, each)),
    ("slices_of_cudarc", |gpu, driver| on_every_stream(gpu, driver, slices)),
    ("a_device_without_memory_pools", without_pools),
];

/// One run of a scenario.
struct Point<'t> {
    gpu: &'t Gpu,
    driver: &'t FailingDriver,
    other_context: &'t OtherContext,
}

/// A context of the user's own, beside the device's.
struct OtherContext(CUcontext);

impl OtherContext {
    fn new() -> Self {
        type Create = unsafe extern "C" fn(*mut CUcontext, u32, i32) -> CUresult;
        // SAFETY: the driver's initialisers have no preconditions.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
        // SAFETY: the driver exports the function under this name and with this signature.
        let create = unsafe { library.get::<Create>(c"cuCtxCreate_v2") }.unwrap();
        let mut context = std::ptr::null_mut();
        // SAFETY: the handle goes to a local; flags are none, and there is a device 0.
        unsafe { create(&raw mut context, 0, 0) }.result().unwrap();
        Self(context)
    }

    fn make_current(&self) {
        // SAFETY: the context is live.
        unsafe { result::ctx::set_current(self.0) }.unwrap();
    }
}

impl Drop for OtherContext {
    fn drop(&mut self) {
        // SAFETY: destroyed once, here; nothing was made in it.
        unsafe { sys::cuCtxDestroy_v2(self.0) }.result().unwrap();
    }
}

impl Point<'_> {
    /// As `FailingDriver::attempt`; and the context that was current before is current again.
    fn attempt<T>(&self, call: impl FnMut() -> Result<T, Error>) -> T {
        self.in_another_context(|| self.driver.attempt(call))
    }

    /// As `FailingDriver::during`, with what `attempt` looks after.
    fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.in_another_context(|| self.driver.during(call))
    }

    /// The test's own work, in the midst of a call.
    fn apart<T>(&self, call: impl FnOnce() -> T) -> T {
        self.driver.apart(|| {
            let result = call();
            // cudarc leaves its own current.
            self.other_context.make_current();
            result
        })
    }

    /// `call`, while a context is current that is not marshal's, and has to be afterwards.
    fn in_another_context<T>(&self, call: impl FnOnce() -> T) -> T {
        self.other_context.make_current();
        let result = call();
        assert_eq!(result::ctx::get_current().unwrap(), Some(self.other_context.0));
        self.gpu.context.bind_to_thread().or_else(|_| self.gpu.context.bind_to_thread()).unwrap();
        self.clear();
        result
    }

    /// A drop tells nobody of a failure.
    fn drop<T>(&self, value: T) {
        self.during(|| drop(value));
    }

    /// What a drop cannot say is parked in the context, for whoever asks.
    fn clear(&self) {
        if let Err(parked) = self.gpu.context.check_err() {
            assert!(format!("{parked:?}").contains(CODE), "{parked:?}");
        }
    }

    fn upload(&self, seed: u32, stream: &Arc<CudaStream>) {
        let args = Words::new(4096, seed);
        let dev = self.attempt(|| args.upload(stream));
        assert_eq!(read(stream, dev.words.pointer().cast(), 4096), args.bytes());
        self.drop(dev);
    }
}

/// Streams of the kinds on which a call goes another way.
fn on_every_stream(gpu: &Gpu, driver: &FailingDriver, scenario: Scenario) {
    for stream in [gpu.context.new_stream().unwrap(), gpu.context.default_stream(), gpu.context.per_thread_stream()] {
        on(gpu, driver, &stream, scenario);
    }
}

/// As above, but for the one that has no cache.
fn on_two_streams(gpu: &Gpu, driver: &FailingDriver, scenario: Scenario) {
    for stream in [gpu.context.new_stream().unwrap(), gpu.context.default_stream()] {
        on(gpu, driver, &stream, scenario);
    }
}

fn on_created(gpu: &Gpu, driver: &FailingDriver, scenario: Scenario) {
    on(gpu, driver, &gpu.context.new_stream().unwrap(), scenario);
}

fn on(gpu: &Gpu, driver: &FailingDriver, stream: &Arc<CudaStream>, scenario: Scenario) {
    let (other, other_context) = (gpu.context.new_stream().unwrap(), OtherContext::new());
    gpu.context.bind_to_thread().unwrap();
    let settle = || {
        // What was kept for copies that have run is looked through at every sixteenth.
        for seed in 0..40 {
            drop(Words::new(64, seed).upload(&other).unwrap());
            if seed % 8 == 0 {
                gpu.context.synchronize().unwrap();
            }
        }
        gpu.context.synchronize().unwrap();
        // What a drop could not say is parked.
        let _ = gpu.context.check_err();
    };
    let run = || {
        scenario(&Point { gpu, driver, other_context: &other_context }, stream);
        gpu.context.synchronize().unwrap();
    };
    report(&driver.at_every_point(run, settle));
}

fn report(failures: &BTreeMap<&str, u64>) {
    let points: u64 = failures.values().sum();
    let calls: Vec<_> = failures.iter().map(|(call, failures)| format!("{call} {failures}")).collect();
    println!("{points} failures, each alone: {}", calls.join(", "));
    assert!(points > 0);
}

fn one_shot(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let args = Words::new(4096, 7);
    let dev = point.attempt(|| args.upload(stream));
    assert_eq!(point.attempt(|| dev.read_back()), args.bytes());
    assert_eq!(point.attempt(|| dev.fetch(&dev.words)), args.words);
    assert_eq!(value(stream, &point.gpu.checksum(stream, dev.words)), args.sum());
    point.attempt(|| Cuda::synchronize(stream));
    point.drop(dev);
    // More than there is, whatever the driver says of what is free.
    let error = point.during(|| Cuda::allocate(stream, 1 << 46)).err().unwrap();
    assert!(error.to_string().contains(CODE) || error.to_string().contains("OUT_OF_MEMORY"), "{error}");
    assert!(point.during(|| Cuda::device_name(stream)).starts_with("CUDA device 0 ("));
    point.upload(8, stream);
}

fn many_one_shots(point: &Point<'_>, stream: &Arc<CudaStream>) {
    for seed in 0..20 {
        point.upload(seed, stream);
    }
}

/// More than may be kept for copies that have not run.
fn large_one_shots(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let args = Words::new(40 << 20, 1);
    let log = Log::new(stream, 64, 20, true);
    let small = Words::new(64, 2).upload(stream).unwrap();
    // Two milliseconds of work, so that the copies have not run when the last of them is given to the stream.
    (0..20).for_each(|_| log.append(point.gpu, stream, small.words.pointer().cast()));
    let sets = [(); 2].map(|()| point.attempt(|| args.upload(stream)));
    let sums = sets.each_ref().map(|set| point.gpu.checksum(stream, set.words));
    assert_eq!(sums.map(|sum| value(stream, &sum)), [args.sum(); 2]);
    sets.into_iter().for_each(|set| point.drop(set));
}

fn cached(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let options = CacheOptions { device_bytes: 32 << 10, ..CacheOptions::default() };
    let cache = point.attempt(|| ArgCache::with_options(stream, options));
    let held = Words::new(4096, 1);
    let held_set = point.attempt(|| held.upload(&cache));
    // Misses, and then regions in turn.
    for seed in 2..8 {
        let args = Words::new(4096, seed);
        for _ in 0..2 {
            let dev = point.attempt(|| args.upload(&cache));
            assert_eq!(point.attempt(|| dev.read_back()), args.bytes());
            point.drop(dev);
        }
    }
    // What failed may be on its way: bytes that were sent before it are sent again.
    for seed in [20, 22] {
        let (args, others) = (Words::new(4096, seed), Words::new(4096, seed + 1));
        let dev = point.attempt(|| args.upload(&cache));
        point.drop(dev);
        let _ = point.during(|| others.upload(&cache).map(drop));
        let dev = point.attempt(|| args.upload(&cache));
        assert_eq!(read(stream, dev.words.pointer().cast(), 4096), args.bytes());
        point.drop(dev);
    }
    let large = Words::new(28 << 10, 9);
    point.attempt(|| cache.reserve(&large.layout()?));
    let dev = point.attempt(|| large.upload(&cache));
    assert_eq!(value(stream, &point.gpu.checksum(stream, dev.words)), large.sum());
    point.drop(dev);
    let layers: Batch<_> = (0..3).map(|seed| Words::new(64, seed)).collect();
    let dev = point.attempt(|| layers.upload(&cache));
    for (pointers, layer) in dev.iter().zip(layers.sets()) {
        assert_eq!(read(stream, pointers.words.pointer().cast(), 64), layer.bytes());
    }
    point.drop(dev);
    assert_eq!(read(stream, held_set.words.pointer().cast(), 4096), held.bytes());
    point.drop(held_set);
    point.during(|| cache.clear());
    let dev = point.attempt(|| held.upload(&cache));
    assert_eq!(read(stream, dev.words.pointer().cast(), 4096), held.bytes());
    point.drop(cache);
    point.drop(dev);
}

fn exhausted(point: &Point<'_>, stream: &Arc<CudaStream>) {
    for when_exhausted in [WhenExhausted::Wait, WhenExhausted::Grow] {
        let options = CacheOptions { staging_bytes: 16 << 10, when_exhausted, ..CacheOptions::default() };
        let cache = point.attempt(|| ArgCache::with_options(stream, options));
        let log = Log::new(stream, 4096, 8, true);
        for seed in 0..8 {
            let args = Words::new(4096, seed);
            let dev = point.attempt(|| args.upload(&cache));
            log.append(point.gpu, stream, dev.words.pointer().cast());
            point.drop(dev);
        }
        let expected: Vec<_> = (0..8).map(|seed| Words::new(4096, seed).bytes().to_vec()).collect();
        assert_eq!(log.read(stream), expected);
        point.drop(cache);
    }
}

fn dropped_early(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let cache = point.attempt(|| ArgCache::new(stream));
    let log = Log::new(stream, 64 << 10, 4, true);
    for seed in 0..4 {
        let dev = point.attempt(|| Words::new(64 << 10, seed).upload(&cache));
        log.append(point.gpu, stream, dev.words.pointer().cast());
        point.drop(dev);
    }
    point.drop(cache);
    let expected: Vec<_> = (0..4).map(|seed| Words::new(64 << 10, seed).bytes().to_vec()).collect();
    assert_eq!(log.read(stream), expected);
}

#[derive(DeviceArgs)]
struct Sums<'a> {
    words: &'a [u32],
    sums: Scratch<u64>,
}

fn scratch(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let cache = point.attempt(|| ArgCache::new(stream));
    let words = Words::new(4096, 3);
    let args = Sums { words: &words.words, sums: Scratch::zeroed(32) };
    for _ in 0..3 {
        let dev = point.attempt(|| args.upload(&cache));
        assert_eq!(point.attempt(|| dev.fetch(&dev.sums)), [0; 32]);
        fill(stream, dev.sums.pointer().cast(), 256, 0xa5);
        point.drop(dev);
    }
    let dev = point.attempt(|| args.upload(stream));
    assert_eq!(point.attempt(|| dev.fetch(&dev.sums)), [0; 32]);
    point.drop(dev);
    point.drop(cache);
}

fn lent(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let other = point.gpu.context.new_stream().unwrap();
    let log = Log::new(&other, 4096, 4, true);
    let args = Words::new(4096, 5);
    // A cache of its own stream where that can have one.
    let cache = ArgCache::new(stream).ok();
    for _ in 0..2 {
        let dev = match &cache {
            Some(cache) => point.attempt(|| args.upload(cache)),
            None => point.attempt(|| args.upload(stream)),
        };
        let lent = point.attempt(|| dev.on(&other));
        log.append(point.gpu, &other, lent.words.pointer().cast());
        point.drop(lent);
        point.drop(dev);
        // In its place, where it was let go too early.
        let next = Words::new(4096, 6);
        let dev = match &cache {
            Some(cache) => point.attempt(|| next.upload(cache)),
            None => point.attempt(|| next.upload(stream)),
        };
        point.drop(dev);
    }
    assert_eq!(log.read(&other), vec![args.bytes(); 2]);
    point.drop(cache);
}

fn captured(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let cache = point.attempt(|| ArgCache::new(stream));
    let log = Log::new(stream, 4096, 40, false);
    let first = Words::new(4096, 0);
    point.attempt(|| cache.reserve(&first.layout()?));
    let graph = point.attempt(|| {
        cache.capture(|stream| {
            let dev = first.upload(&cache)?;
            point.apart(|| log.append(point.gpu, stream, dev.words.pointer().cast()));
            Ok(dev)
        })
    });
    let mut launched = Vec::new();
    launch(point, &log, stream, || graph.launch(), &mut launched, &first);
    for seed in 1..8 {
        let args = Words::new(4096, seed);
        point.attempt(|| graph.refresh(|dev| dev, &args));
        for _ in 0..seed % 3 {
            launch(point, &log, stream, || graph.launch(), &mut launched, &args);
        }
    }
    point.drop(graph);
    // A captured set on a cold cache is refused, and the next capture is right.
    let second = Words::new(4096, 50);
    let graph = point.attempt(|| {
        cache.capture(|stream| {
            let dev = second.upload(&cache)?;
            point.apart(|| log.append(point.gpu, stream, dev.words.pointer().cast()));
            Ok(())
        })
    });
    launch(point, &log, stream, || graph.launch(), &mut launched, &second);
    point.drop(cache);
    launch(point, &log, stream, || graph.launch(), &mut launched, &second);
    point.drop(graph);
    assert_eq!(log.read(stream), launched);
}

/// A launch that was blamed has run; one more would be right too, but counts.
fn launch(
    point: &Point<'_>,
    log: &Log,
    stream: &Arc<CudaStream>,
    call: impl Fn() -> Result<(), Error>,
    launched: &mut Vec<Vec<u8>>,
    args: &Words,
) {
    if point.during(&call).is_err() && log.read(stream).len() == launched.len() {
        call().unwrap();
    }
    launched.push(args.bytes().to_vec());
}

fn captured_by_hand(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let cache = point.attempt(|| ArgCache::new(stream));
    let log = Log::new(stream, 4096, 8, false);
    let args = Words::new(4096, 4);
    point.attempt(|| cache.reserve_sets(&args.layout()?, 2));
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let dev = point.attempt(|| args.upload(&cache));
    log.append(point.gpu, stream, dev.words.pointer().cast());
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
    point.drop(dev);
    point.drop(cache);
    for _ in 0..3 {
        graph.launch().unwrap();
    }
    assert_eq!(log.read(stream), vec![args.bytes(); 3]);
    drop(graph);
    wait_for_release();
    point.during(|| Cuda::reclaim(stream));
}

/// The driver says in its own time that a graph is gone.
fn wait_for_release() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

fn dropped_in_a_capture(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let args = Words::new(4096, 4);
    let cache = point.attempt(|| ArgCache::new(stream));
    let kept = point.attempt(|| args.upload(stream));
    let cached = point.attempt(|| args.upload(&cache));
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    point.drop(kept);
    point.drop(cached);
    point.drop(cache);
    drop(stream.end_capture(CUgraphInstantiate_flags(0)).unwrap());
    point.during(|| Cuda::reclaim(stream));
    point.upload(5, stream);
}

type Batched<'a> = Result<CopyBatch<'a, Cuda>, Error>;

/// The batch that `make` makes. One that fails is submitted again whole, once what it has begun is over.
fn submit<'a>(point: &Point<'_>, mut make: impl FnMut() -> Batched<'a>) -> PendingCopies<'a, Cuda> {
    let batch = point.attempt(&mut make);
    let submitted = point.during(|| batch.submit());
    submitted.unwrap_or_else(|mut error: CopyBatchError<Cuda>| {
        assert!(error.to_string().contains(CODE), "{error}");
        error.wait().unwrap();
        drop(error);
        make().unwrap().submit().unwrap()
    })
}

fn copies(point: &Point<'_>, stream: &Arc<CudaStream>) {
    const LEN: usize = 1000;
    let staging = CopyStaging::new(stream);
    let source: Vec<Vec<u8>> = (0..6).map(|seed| Words::new(LEN, seed).bytes().to_vec()).collect();
    let arena = |seed| point.attempt(|| Words::new(6 * 1024, seed).upload(stream));
    let (from, to) = (arena(90), arena(91));
    let part = |arena: &Uploaded<_, _>, index: usize| base(arena, index);
    let to_device = || {
        let mut batch = CopyBatch::new(&staging);
        for (index, bytes) in source.iter().enumerate() {
            // SAFETY: the range lies in the arena, which is freed behind the copies on the same stream.
            let target = unsafe { DeviceRangeMut::from_raw(part(&from, index), LEN) };
            if index % 2 == 0 { batch.htod(bytes, target)? } else { batch.htod_owned(bytes.clone(), target)? }
        }
        Ok(batch)
    };
    let pending = submit(point, to_device);
    point.wait(pending);
    let across = || {
        let mut batch = CopyBatch::new(&staging);
        for index in 0..6 {
            // SAFETY: as above.
            let (source, target) = unsafe {
                (
                    DeviceRange::<u8, Cuda>::from_raw(part(&from, index), LEN),
                    DeviceRangeMut::from_raw(part(&to, index), LEN),
                )
            };
            batch.dtod(source, target)?;
        }
        Ok(batch)
    };
    let pending = submit(point, across);
    let other = point.gpu.context.new_stream().unwrap();
    point.attempt(|| pending.order_before(&other));
    point.drop(pending);
    for (index, bytes) in source.iter().enumerate() {
        assert_eq!(read(stream, part(&to, index), LEN), *bytes);
    }
    let mut tickets = Vec::new();
    let back = || {
        tickets.clear();
        let mut batch = CopyBatch::new(&staging);
        for index in 0..6 {
            // SAFETY: as above.
            let source = unsafe { DeviceRange::<u8, Cuda>::from_raw(part(&to, index), LEN) };
            tickets.push(batch.dtoh_owned(source)?);
        }
        Ok(batch)
    };
    let pending = submit(point, back);
    if let Some(fetched) = point.wait(pending) {
        for (ticket, bytes) in tickets.iter().zip(&source) {
            assert_eq!(fetched.to_vec(ticket), *bytes);
        }
        point.drop(fetched);
    }
    point.drop(staging);
    point.drop((from, to));
}

/// Whether the device knows host addresses is asked once a process: as long as it does not say, copies go one by one.
fn the_first_batch(gpu: &Gpu, driver: &FailingDriver) {
    let stream = gpu.context.new_stream().unwrap();
    driver.only(Some(c"cuDeviceGetAttribute"));
    let mut asked = 0;
    for nth in 1.. {
        let staging = CopyStaging::new(&stream);
        let args = Words::new(2048, u32::try_from(nth).unwrap());
        let target = Words::new(2048, 0).upload(&stream).unwrap();
        driver.fail(nth, false);
        let mut batch = CopyBatch::new(&staging);
        for index in 0..2 {
            // SAFETY: the range lies in the set, which is freed behind the copies on the same stream.
            let to = unsafe { DeviceRangeMut::from_raw(base(&target, index), 1024) };
            batch.htod(&args.bytes()[index * 1024..][..1024], to).unwrap();
        }
        driver.during(|| batch.submit().map(drop)).unwrap();
        assert_eq!(read(&stream, target.base(), 2048), args.bytes());
        if driver.failed().is_none() {
            break;
        }
        asked += 1;
    }
    driver.fail(0, false);
    driver.only(None);
    assert_eq!(asked, 2, "it was asked before: run the tests of failures alone");
}

fn base<P>(arena: &Uploaded<P, Cuda>, index: usize) -> DevicePointer<u8> {
    arena.base().checked_add(index * 1024).unwrap()
}

impl Point<'_> {
    /// Waits for the copies. A wait takes them; where it fails, they are over as far as anybody can say.
    fn wait(&self, pending: PendingCopies<'_, Cuda>) -> Option<FetchedCopies<Cuda>> {
        let waited = self.during(|| pending.wait());
        waited.inspect_err(|error| assert!(error.to_string().contains(CODE), "{error}")).ok()
    }
}

fn captured_copies(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let staging = CopyStaging::new(stream);
    let (args, target) = (Words::new(4096, 4), Words::new(4096, 5));
    point.attempt(|| staging.reserve(1 << 16));
    let target = point.attempt(|| target.upload(stream));
    stream.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let make = || {
        let mut batch = CopyBatch::new(&staging);
        for index in 0..2 {
            // SAFETY: the range lies in the set, which outlives the graph.
            let to = unsafe { DeviceRangeMut::from_raw(base(&target, index), 1024) };
            batch.htod(&args.bytes()[index * 1024..][..1024], to)?;
        }
        Ok::<_, Error>(batch)
    };
    let batch = point.attempt(make);
    let graph = match point.during(|| batch.submit()) {
        Ok(pending) => {
            point.drop(pending);
            stream.end_capture(CUgraphInstantiate_flags(0)).unwrap()
        }
        Err(error) => {
            assert!(error.to_string().contains(CODE), "{error}");
            // Its graph has what may have been captured.
            drop(error);
            drop(stream.end_capture(CUgraphInstantiate_flags(0)));
            point.attempt(|| staging.reserve(1 << 16));
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
            drop(make().unwrap().submit().unwrap());
            stream.end_capture(CUgraphInstantiate_flags(0)).unwrap()
        }
    };
    let graph = graph.unwrap();
    point.drop(staging);
    graph.launch().unwrap();
    assert_eq!(read(stream, target.base(), 2048), args.bytes()[..2048]);
    drop(graph);
    wait_for_release();
    point.during(|| Cuda::reclaim(stream));
    point.drop(target);
}

fn each(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let other = point.gpu.context.new_stream().unwrap();
    let caches = [point.attempt(|| ArgCache::new(stream)), point.attempt(|| ArgCache::new(&other))];
    for seed in 0..3 {
        let sets = [Words::new(4096, seed), Words::new(4096, 100 + seed)];
        let uploaded = point.attempt(|| upload_each(&sets, &caches.each_ref()));
        for (set, args) in uploaded.iter().zip(&sets) {
            assert_eq!(point.attempt(|| set.read_back()), args.bytes());
        }
        point.drop(uploaded);
    }
    point.drop(caches);
}

fn slices(point: &Point<'_>, stream: &Arc<CudaStream>) {
    let writer = point.gpu.context.new_stream().unwrap();
    let mut slices = [writer.clone_htod(&[1_u32; 64]).unwrap(), writer.clone_htod(&[2_u32; 64]).unwrap()];
    let pointer = point.attempt(|| pointer_to(&slices[0], stream));
    assert_eq!(read(stream, pointer.cast(), 256), [1, 0, 0, 0].repeat(64));
    let pointer = point.attempt(|| pointer_to_mut(&mut slices[1], stream));
    assert_eq!(read(stream, pointer.cast(), 256), [2, 0, 0, 0].repeat(64));
    let buffers = point.attempt(|| Buffers::new(stream, &slices));
    assert_eq!(buffers.len(), 2);
    point.drop(buffers);
    let staging = CopyStaging::new(stream);
    let mut back = vec![0_u32; 64];
    // A slice's use begins with the submit: where that fails, nothing was submitted.
    let mut batch = CopyBatch::new(&staging);
    batch.dtoh(&slices[1], &mut back).unwrap();
    let waited = point.during(|| batch.submit().map_err(Error::from).and_then(PendingCopies::wait).map(drop));
    match waited {
        Ok(()) => assert_eq!(back, [2; 64]),
        Err(error) => assert!(error.to_string().contains(CODE), "{error}"),
    }
    point.drop(staging);
    writer.synchronize().unwrap();
    drop(slices);
}

fn without_pools(gpu: &Gpu, driver: &FailingDriver) {
    let _ = gpu;
    driver.hide_pools(true);
    let other = Gpu::new();
    driver.hide_pools(false);
    assert!(!other.context.has_async_alloc());
    on_every_stream(&other, driver, one_shot);
    on_created(&other, driver, cached);
    on_created(&other, driver, captured);
}
