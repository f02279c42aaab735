//! Two devices in one process.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, result, sys};
use marshal::backend::Backend;
use marshal::cuda::{Cuda, pointer_to};
use marshal::{ArgCache, CacheOptions, CopyBatch, CopyStaging, DeviceArgs, DevicePointer, ErrorKind, upload_each};

use super::Test;
use super::device::{Gpu, Log, Words};

/// These need a second device.
pub(crate) const ALL: &[Test] = &[
    ("a_cache_on_each_device_leaves_the_current_one_current", a_cache_on_each_device_leaves_the_current_one_current),
    ("a_fresh_thread_takes_turns_on_both_devices", a_fresh_thread_takes_turns_on_both_devices),
    ("eight_threads_use_caches_of_both_devices", eight_threads_use_caches_of_both_devices),
    ("what_is_of_both_devices_may_go_in_every_order", what_is_of_both_devices_may_go_in_every_order),
    ("a_graph_on_each_device_replays_its_own", a_graph_on_each_device_replays_its_own),
    ("the_same_shapes_with_other_pointers_go_to_both", the_same_shapes_with_other_pointers_go_to_both),
    (
        "a_set_that_fails_on_one_device_is_named_and_the_other_stays",
        a_set_that_fails_on_one_device_is_named_and_the_other_stays,
    ),
    ("contexts_take_turns_on_one_thread", contexts_take_turns_on_one_thread),
    (
        "streams_and_slices_of_another_device_are_refused_by_name",
        streams_and_slices_of_another_device_are_refused_by_name,
    ),
];

fn second() -> (Arc<CudaContext>, Arc<CudaStream>) {
    let context = CudaContext::new(1).unwrap();
    let stream = context.new_stream().unwrap();
    (context, stream)
}

/// The device that the memory at `pointer` is on.
fn ordinal(pointer: DevicePointer<u8>) -> i32 {
    let mut ordinal: i32 = -1;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is an int, written to a local that outlives the call.
    let status = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer.address()) };
    status.result().unwrap();
    ordinal
}

fn contexts_take_turns_on_one_thread(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let mut sets = Vec::new();
    for seed in 0..50 {
        for (device, stream, foreign) in [(0, &here, &other), (1, &there, &gpu.context)] {
            // What other code left current.
            foreign.bind_to_thread().unwrap();
            let args = Words::new(4096, seed);
            let dev = args.upload(stream).unwrap();
            assert_eq!(ordinal(dev.base()), device);
            foreign.bind_to_thread().unwrap();
            assert_eq!(dev.read_back().unwrap(), args.bytes());
            foreign.bind_to_thread().unwrap();
            sets.push(dev);
        }
    }
    drop(sets);
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

/// Makes `foreign` current, calls, and looks that it still is.
fn beside<R>(foreign: &Arc<CudaContext>, call: impl FnOnce() -> R) -> R {
    foreign.bind_to_thread().unwrap();
    let returned = call();
    assert_eq!(result::ctx::get_current().unwrap(), Some(foreign.cu_ctx()), "another context was left current");
    returned
}

fn a_cache_on_each_device_leaves_the_current_one_current(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let sides = [(0, &here, &other), (1, &there, &gpu.context)];
    let caches = sides.map(|(_, stream, foreign)| beside(foreign, || ArgCache::new(stream).unwrap()));
    for seed in 0..200 {
        for ((device, _, foreign), cache) in sides.iter().zip(&caches) {
            // Cold, warm, the same bytes, and more in flight than one ring holds.
            let args = Words::new(4096 + 64 * (seed as usize % 3), seed / 2);
            let dev = beside(foreign, || args.upload(cache).unwrap());
            assert_eq!(ordinal(dev.base()), *device);
            if seed % 10 == 0 {
                assert_eq!(beside(foreign, || dev.read_back().unwrap()), args.bytes());
            }
            beside(foreign, || drop(dev));
        }
    }
    for ((_, stream, foreign), cache) in sides.iter().zip(caches) {
        let third = stream.context().new_stream().unwrap();
        let args = Words::new(4096, 7);
        let dev = beside(foreign, || args.upload(&cache).unwrap());
        beside(foreign, || drop(dev.on(&third).unwrap()));
        beside(foreign, || cache.reserve(&Words::new(999_936, 1).layout().unwrap()).unwrap());
        beside(foreign, || cache.clear());
        beside(foreign, || drop((dev, cache)));
    }
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn a_fresh_thread_takes_turns_on_both_devices(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let caches = [ArgCache::new(&here).unwrap(), ArgCache::new(&there).unwrap()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // No context is current here.
            for seed in 0..50 {
                for (device, cache) in (0..).zip(&caches) {
                    let args = Words::new(64 << 10, seed);
                    let dev = args.upload(cache).unwrap();
                    assert_eq!(ordinal(dev.base()), device);
                    assert_eq!(dev.read_back().unwrap(), args.bytes());
                }
            }
        });
    });
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn eight_threads_use_caches_of_both_devices(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let caches = [ArgCache::new(&here).unwrap(), ArgCache::new(&there).unwrap()];
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let caches = &caches;
            scope.spawn(move || {
                for i in 0..300 {
                    let device = (thread + i) % 2;
                    let args = Words::new(4096, 1000 * thread + i);
                    let dev = args.upload(&caches[device as usize]).unwrap();
                    assert_eq!(ordinal(dev.base()), i32::try_from(device).unwrap());
                    if i % 20 == 0 {
                        assert_eq!(dev.read_back().unwrap(), args.bytes());
                    }
                }
            });
        }
    });
    for cache in &caches {
        assert_eq!(cache.stats().uploads, 1200);
    }
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn what_is_of_both_devices_may_go_in_every_order(gpu: &Gpu) {
    let args = Words::new(4096, 5);
    for order in crate::cases::permutations(&[0, 1, 2, 3]) {
        let (_other, there) = second();
        let here = gpu.context.new_stream().unwrap();
        let caches = [ArgCache::new(&here).unwrap(), ArgCache::new(&there).unwrap()];
        let sets = [args.upload(&caches[0]).unwrap(), args.upload(&caches[1]).unwrap()];
        let (mut sets, mut caches) = (sets.map(Some), caches.map(Some));
        for handle in order {
            match handle {
                0 | 1 => drop(sets[handle].take()),
                _ => drop(caches[handle - 2].take()),
            }
            for set in sets.iter().flatten() {
                assert_eq!(set.read_back().unwrap(), args.bytes());
            }
        }
        here.synchronize().unwrap();
        there.synchronize().unwrap();
        there.context().check_err().unwrap();
    }
    gpu.context.check_err().unwrap();
}

fn a_graph_on_each_device_replays_its_own(gpu: &Gpu) {
    let there = Gpu::on(1);
    let sides = [gpu, &there].map(|side| {
        let stream = side.context.new_stream().unwrap();
        let log = Log::new(&stream, 4096, 20, false);
        let cache = ArgCache::new(&stream).unwrap();
        let args = Words::new(4096, 0);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let graph = cache.capture(|stream| {
            let dev = args.upload(&cache)?;
            log.append(side, stream, dev.words.pointer().cast());
            Ok(dev)
        });
        (stream, log, graph.unwrap())
    });
    for seed in 0..20 {
        for ((_, _, graph), foreign) in sides.iter().zip([&there.context, &gpu.context]) {
            beside(foreign, || graph.refresh(|dev| dev, &Words::new(4096, seed)).unwrap());
            beside(foreign, || graph.launch().unwrap());
        }
    }
    let expected: Vec<_> = (0..20).map(|seed| Words::new(4096, seed).bytes().to_vec()).collect();
    for (stream, log, graph) in &sides {
        assert_eq!(log.read(stream), expected);
        assert_eq!(ordinal(graph.sets().base()), i32::try_from(stream.context().ordinal()).unwrap());
    }
    let [(_, _, here), (_, _, elsewhere)] = sides;
    beside(&there.context, || drop(here));
    beside(&gpu.context, || drop(elsewhere));
    gpu.context.check_err().unwrap();
    there.context.check_err().unwrap();
}

/// What a rank of a tensor-parallel group is given.
#[derive(DeviceArgs)]
struct Shard {
    m: Vec<i32>,
    weights: Vec<DevicePointer<f32>>,
}

impl Shard {
    /// So many groups on the device of `stream`, and the memory that they point to.
    fn new(stream: &Arc<CudaStream>, groups: i32) -> (CudaSlice<f32>, Self) {
        let weights = stream.alloc_zeros::<f32>(64).unwrap();
        let first = pointer_to(&weights, stream).unwrap();
        let pointers = (0..groups).map(|_| first).collect();
        (weights, Self { m: (0..groups).collect(), weights: pointers })
    }
}

/// Tensor parallel: the same shapes on both devices, other base pointers. What one call for both costs the host beside a call for each.
fn the_same_shapes_with_other_pointers_go_to_both(gpu: &Gpu) {
    const GROUPS: i32 = 64;
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let caches = [ArgCache::new(&here).unwrap(), ArgCache::new(&there).unwrap()];
    let (_weights, mut shards): (Vec<_>, Vec<_>) =
        [&here, &there].map(|stream| Shard::new(stream, GROUPS)).into_iter().unzip();
    let mut time = |upload: &dyn Fn(&[Shard])| {
        let start = Instant::now();
        for round in 0..2000 {
            shards.iter_mut().for_each(|shard| shard.m[0] = round);
            upload(&shards);
        }
        let elapsed = start.elapsed();
        here.synchronize().unwrap();
        there.synchronize().unwrap();
        elapsed.as_secs_f64() * 1e6 / 2000.0
    };
    let one = |device: usize, shards: &[Shard]| shards[device].upload(&caches[device]).unwrap();
    let together = |shards: &[Shard]| drop(black_box(upload_each(shards, &caches).unwrap()));
    let in_turn = |shards: &[Shard]| drop(black_box([one(0, shards), one(1, shards)]));
    time(&together);
    let alone = [0, 1].map(|device| time(&|shards| drop(black_box(one(device, shards)))));
    // In turns: a clock that drifts hits both alike.
    let pairs: Vec<_> = (0..5).map(|_| (time(&in_turn), time(&together))).collect();
    let least = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).fold(f64::INFINITY, f64::min);
    println!(
        "changed upload of {GROUPS} groups: device 0 {:.2} us, device 1 {:.2} us, both in two calls {:.2} us, in one {:.2} us",
        alone[0],
        alone[1],
        least(|pair| pair.0),
        least(|pair| pair.1)
    );
    for foreign in [&other, &gpu.context] {
        let sets = beside(foreign, || upload_each(&shards, &caches).unwrap());
        for (device, (dev, shard)) in (0..).zip(sets.iter().zip(&shards)) {
            assert_eq!(ordinal(dev.base()), device);
            assert_eq!(ordinal(dev.fetch(&dev.weights).unwrap()[0].cast()), device);
            assert_eq!(dev.fetch(&dev.m).unwrap(), shard.m);
            assert_eq!(dev.fetch(&dev.weights).unwrap(), shard.weights);
        }
        assert!(core::ptr::eq(sets[0].layout().columns(), sets[1].layout().columns()));
    }
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn a_set_that_fails_on_one_device_is_named_and_the_other_stays(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    // One block fits there, and it is held.
    let tight = CacheOptions { device_bytes: 1024, ..CacheOptions::default() };
    let caches = [ArgCache::new(&here).unwrap(), ArgCache::with_options(&there, tight).unwrap()];
    let held = Words::new(1024, 1).upload(&caches[1]).unwrap();
    for order in [[0, 1], [1, 0]] {
        let named = order.map(|index: usize| &caches[index]);
        let error = upload_each(&[Words::new(1024, 2), Words::new(1024, 3)], &named).unwrap_err();
        let ErrorKind::InSet { set, device, error } = error.kind() else { panic!("{error:?}") };
        assert_eq!((named[usize::try_from(*set).unwrap()].stream(), device), (&there, &Cuda::device_name(&there)));
        assert!(matches!(error.kind(), ErrorKind::CacheFull { needed: 1024, available: 0 }), "{error:?}");
    }
    let error = upload_each(&[Words::new(1024, 2), Words::new(960, 3)], &caches).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnequalShapes { set: 1, .. }), "{error:?}");
    assert_eq!(held.read_back().unwrap(), Words::new(1024, 1).bytes());
    drop(held);
    let args = [Words::new(1024, 4), Words::new(1024, 5)];
    let sets = upload_each(&args, &caches).unwrap();
    for (device, (dev, args)) in (0..).zip(sets.iter().zip(&args)) {
        assert_eq!(ordinal(dev.base()), device);
        assert_eq!(dev.read_back().unwrap(), args.bytes());
    }
    assert_eq!(caches[0].stats().allocations, 1, "what was let go was used again");
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn streams_and_slices_of_another_device_are_refused_by_name(gpu: &Gpu) {
    let (_other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let named = |kind: &ErrorKind| {
        let ErrorKind::WrongDevice { expected, found } = kind else { panic!("{kind:?}") };
        assert_eq!((expected, found), (&Cuda::device_name(&here), &Cuda::device_name(&there)));
        assert!(expected.starts_with("CUDA device 0 (") && found.starts_with("CUDA device 1 ("));
    };
    let dev = Words::new(64, 1).upload(&here).unwrap();
    named(dev.on(&there).unwrap_err().kind());
    let slice = here.alloc_zeros::<u32>(4).unwrap();
    named(pointer_to(&slice, &there).unwrap_err().kind());
    let mut target = there.alloc_zeros::<u32>(4).unwrap();
    let mut batch = CopyBatch::new(&CopyStaging::new(&there));
    batch.dtod(&slice, &mut target).unwrap();
    named(batch.submit().unwrap_err().error().kind());
    let mut batch = CopyBatch::new(&CopyStaging::new(&there));
    let _ticket = batch.dtoh_owned(dev.range(dev.words).unwrap()).unwrap();
    named(batch.submit().unwrap_err().error().kind());
    let mut target = here.alloc_zeros::<u32>(4).unwrap();
    let mut batch = CopyBatch::new(&CopyStaging::new(&here));
    batch.htod(&[1, 2, 3, 4], &mut target).unwrap();
    let pending = batch.submit().unwrap();
    named(pending.order_before(&there).unwrap_err().kind());
    let _ = pending.wait().unwrap();
}
