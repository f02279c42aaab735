//! The cached mode: what the driver alone can show.

use std::sync::Arc;
use std::thread;

use cudarc::driver::{CudaContext, result};
use marshal::{ArgCache, CacheOptions, DeviceArgs, ErrorKind};

use super::Test;
use super::device::{Gpu, Words, lost, value};

pub(crate) const ALL: &[Test] = &[
    ("the_memory_of_ten_thousand_shapes_returns", the_memory_of_ten_thousand_shapes_returns),
    ("a_per_thread_stream_is_refused", a_per_thread_stream_is_refused),
    ("kernels_see_their_own_arguments_without_a_host_sync", kernels_see_their_own_arguments_without_a_host_sync),
    ("handles_may_go_in_every_order", handles_may_go_in_every_order),
    ("any_thread_uploads_whatever_context_is_current", any_thread_uploads_whatever_context_is_current),
    (
        "an_upload_in_a_capture_is_refused_and_the_capture_stays_valid",
        an_upload_in_a_capture_is_refused_and_the_capture_stays_valid,
    ),
];

fn the_memory_of_ten_thousand_shapes_returns(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    stream.synchronize().unwrap();
    let before = gpu.free_bytes();
    let cap = 256 << 20;
    let options = CacheOptions { device_bytes: cap, staging_bytes: 64 << 20, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for words in 1..=10_000_usize {
        drop(Words::new(words * 64, 1).upload(&cache).unwrap());
    }
    let stats = cache.stats();
    assert!(stats.device_bytes <= cap && stats.staging_bytes <= 64 << 20, "{stats:?}");
    assert!(stats.evictions > 1000, "{stats:?}");
    drop(cache);
    stream.synchronize().unwrap();
    gpu.context.synchronize().unwrap();
    let after = gpu.free_bytes();
    // A memory pool grows by 32 MiB.
    assert!(lost(before, after) <= 64 << 20, "{before:?} bytes were free, now {after:?}");
    gpu.context.check_err().unwrap();
}

fn a_per_thread_stream_is_refused(gpu: &Gpu) {
    let error = ArgCache::new(&gpu.context.per_thread_stream()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PerThreadStream { .. }), "{error}");
}

fn kernels_see_their_own_arguments_without_a_host_sync(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let Ok(cache) = ArgCache::new(&stream) else {
            assert!(name.starts_with("per-thread"), "{name}");
            continue;
        };
        for bytes in [64, 64 << 10, 2 << 20] {
            let sums: Vec<_> = (0..50)
                .map(|seed| {
                    let args = Words::new(bytes, seed);
                    let dev = args.upload(&cache).unwrap();
                    (gpu.checksum(&stream, dev.words), args.sum())
                })
                .collect();
            for (seed, (sum, expected)) in sums.into_iter().enumerate() {
                assert_eq!(value(&stream, &sum), expected, "{name}, {bytes} bytes, upload {seed}");
            }
        }
    }
    gpu.context.check_err().unwrap();
}

fn handles_may_go_in_every_order(_: &Gpu) {
    for order in crate::cases::permutations(&[0, 1, 2, 3]) {
        let context = CudaContext::new(0).unwrap();
        let observer = Arc::clone(&context);
        let stream = context.new_stream().unwrap();
        let cache = ArgCache::new(&stream).unwrap();
        let set = Words::new(4096, 3).upload(&cache).unwrap();
        let (mut context, mut stream, mut cache, mut set) = (Some(context), Some(stream), Some(cache), Some(set));
        for handle in &order {
            match handle {
                0 => drop(context.take()),
                1 => drop(stream.take()),
                2 => drop(cache.take()),
                _ => drop(set.take()),
            }
            if let Some(set) = &set {
                assert_eq!(set.read_back().unwrap(), Words::new(4096, 3).bytes(), "{order:?}");
            }
        }
        observer.check_err().unwrap();
    }
}

fn any_thread_uploads_whatever_context_is_current(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let cache = ArgCache::new(&stream).unwrap();
    for seed in 0..50 {
        thread::scope(|scope| {
            scope.spawn(|| {
                // A fresh thread has no context; every other one makes none current on purpose.
                if seed % 2 == 0 {
                    // SAFETY: no context is current afterwards, which every call that follows has to cope with.
                    unsafe { result::ctx::set_current(std::ptr::null_mut()) }.unwrap();
                }
                let args = Words::new(4096, seed);
                assert_eq!(args.upload(&cache).unwrap().read_back().unwrap(), args.bytes());
                // The same bytes: no call, from a thread that has made none.
                assert_eq!(args.upload(&cache).unwrap().words.len(), 1024);
            });
        });
    }
    let stats = cache.stats();
    assert_eq!((stats.copies, stats.byte_hits, stats.allocations), (50, 50, 1));
    gpu.context.check_err().unwrap();
}

fn an_upload_in_a_capture_is_refused_and_the_capture_stays_valid(gpu: &Gpu) {
    use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
    let stream = gpu.context.new_stream().unwrap();
    let cache = ArgCache::new(&stream).unwrap();
    let (args, other) = (Words::new(4096, 5), Words::new(4096, 6));
    let held = args.upload(&cache).unwrap();
    stream.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    // Other bytes, and equal ones: a set of the cache may be rewritten after it is dropped, and a graph would read that.
    for captured in [&other, &args] {
        let error = captured.upload(&cache).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotReserved { needed: 4096 }), "{error}");
    }
    let graph = stream.end_capture(CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH).unwrap();
    drop(graph);
    assert_eq!(other.upload(&cache).unwrap().read_back().unwrap(), other.bytes());
    assert_eq!(held.read_back().unwrap(), args.bytes());
    gpu.context.check_err().unwrap();
}
