//! Threads, drop orders, and memory that returns.

use std::sync::Arc;
use std::thread;

use cudarc::driver::{CudaContext, result};
use marshal::DeviceArgs;

use super::Test;
use super::device::{Gpu, Words, lost};

pub(crate) const ALL: &[Test] = &[
    ("a_fresh_thread_uploads_and_another_drops", a_fresh_thread_uploads_and_another_drops),
    ("handles_may_go_in_every_order", handles_may_go_in_every_order),
    ("a_context_may_end_with_sources_in_flight", a_context_may_end_with_sources_in_flight),
    ("the_memory_of_ten_thousand_uploads_returns", the_memory_of_ten_thousand_uploads_returns),
    ("a_foreign_current_context_changes_nothing", a_foreign_current_context_changes_nothing),
];

fn a_fresh_thread_uploads_and_another_drops(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let args = Words::new(4096, 21);
        let dev = thread::scope(|scope| scope.spawn(|| args.upload(&stream).unwrap()).join().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(dev.read_back().unwrap(), args.bytes(), "{name}");
                drop(dev);
            });
        });
    }
    gpu.context.check_err().unwrap();
}

fn handles_may_go_in_every_order(gpu: &Gpu) {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    // With an observer that can be asked for errors, and with the context ending in the middle.
    for observed in [true, false] {
        for order in orders {
            for kind in 0..3 {
                let context = CudaContext::new(0).unwrap();
                let observer = observed.then(|| Arc::clone(&context));
                let stream = match kind {
                    0 => context.default_stream(),
                    1 => context.per_thread_stream(),
                    _ => context.new_stream().unwrap(),
                };
                let set = Words::new(64 << 10, 22).upload(&stream).unwrap();
                let (mut context, mut stream, mut set) = (Some(context), Some(stream), Some(set));
                for handle in order {
                    match handle {
                        0 => drop(context.take()),
                        1 => drop(stream.take()),
                        _ => drop(set.take()),
                    }
                }
                if let Some(observer) = observer {
                    observer.synchronize().unwrap();
                    observer.check_err().unwrap();
                    // The observer is all that is left: nothing of ours keeps the context.
                    assert_eq!(Arc::strong_count(&observer), 1, "order {order:?}, stream {kind}");
                }
            }
        }
    }
    gpu.context.check_err().unwrap();
}

fn a_context_may_end_with_sources_in_flight(gpu: &Gpu) {
    for _ in 0..5 {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let gate = gpu.gate(&stream);
        let sets: Vec<_> = (0..9).map(|seed| Words::new(4096, seed).upload(&stream).unwrap()).collect();
        drop((sets, stream, context));
        drop(gate);
        // The next uploads sweep what the ended context left.
        let stream = gpu.context.default_stream();
        for seed in 0..40 {
            let args = Words::new(4096, seed);
            assert_eq!(args.upload(&stream).unwrap().read_back().unwrap(), args.bytes());
        }
    }
    gpu.context.synchronize().unwrap();
    gpu.context.check_err().unwrap();
}

fn the_memory_of_ten_thousand_uploads_returns(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let args = Words::new(64 << 10, 23);
        drop(args.upload(&stream).unwrap());
        stream.synchronize().unwrap();
        let before = gpu.free_bytes();
        for _ in 0..10_000 {
            drop(args.upload(&stream).unwrap());
        }
        stream.synchronize().unwrap();
        gpu.context.synchronize().unwrap();
        let after = gpu.free_bytes();
        // 640 MB went through; a memory pool grows by 32 MiB.
        assert!(lost(before, after) <= 64 << 20, "{name}: {before:?} bytes were free, now {after:?}");
    }
    gpu.context.check_err().unwrap();
}

fn a_foreign_current_context_changes_nothing(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    // SAFETY: no context is current afterwards, which every call that follows has to cope with.
    unsafe { result::ctx::set_current(std::ptr::null_mut()) }.unwrap();
    let args = Words::new(4096, 24);
    let dev = args.upload(&stream).unwrap();
    // SAFETY: as above.
    unsafe { result::ctx::set_current(std::ptr::null_mut()) }.unwrap();
    assert_eq!(dev.read_back().unwrap(), args.bytes());
    // SAFETY: as above.
    unsafe { result::ctx::set_current(std::ptr::null_mut()) }.unwrap();
    drop(dev);
    gpu.context.check_err().unwrap();
}
