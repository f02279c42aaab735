//! Every kind of stream, the per-thread default stream across threads, and sets lent to other streams.

use std::sync::Arc;
use std::thread;

use cudarc::driver::result::stream::StreamKind;
use marshal::DeviceArgs;
use marshal::backend::Backend;
use marshal::cuda::Cuda;

use super::Test;
use super::device::{Gpu, SIZES, Words, value};

pub(crate) const ALL: &[Test] = &[
    ("every_kind_of_stream_uploads", every_kind_of_stream_uploads),
    ("handles_name_one_stream_or_two", handles_name_one_stream_or_two),
    ("a_set_goes_from_any_stream_to_any_other", a_set_goes_from_any_stream_to_any_other),
    (
        "a_per_thread_set_dropped_elsewhere_outlives_its_kernels",
        a_per_thread_set_dropped_elsewhere_outlives_its_kernels,
    ),
    ("a_per_thread_set_outlives_its_thread", a_per_thread_set_outlives_its_thread),
    ("a_per_thread_set_is_lent_from_another_thread", a_per_thread_set_is_lent_from_another_thread),
    ("eight_threads_with_streams_of_their_own", eight_threads_with_streams_of_their_own),
];

fn every_kind_of_stream_uploads(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        for bytes in SIZES {
            let args = Words::new(bytes, 1);
            let dev = args.upload(&stream).unwrap();
            let sum = gpu.checksum(&stream, dev.words);
            assert_eq!(dev.read_back().unwrap(), args.bytes(), "{name}, {bytes} bytes");
            drop(dev);
            assert_eq!(value(&stream, &sum), args.sum(), "{name}, {bytes} bytes");
        }
    }
}

fn handles_name_one_stream_or_two(gpu: &Gpu) {
    let context = &gpu.context;
    let created = context.new_stream().unwrap();
    assert!(Cuda::is_same_stream(&created, &Arc::clone(&created)));
    assert!(Cuda::is_same_stream(&context.default_stream(), &context.default_stream()));
    assert!(!Cuda::is_same_stream(&created, &context.default_stream()));
    // SAFETY: the stream is alive as long as `created`.
    let wrapped = unsafe { context.wrap_borrowed_stream(created.cu_stream()) };
    assert!(Cuda::is_same_stream(&created, &wrapped));
    // One handle, which may be meant by two threads.
    assert!(!Cuda::is_same_stream(&context.per_thread_stream(), &context.per_thread_stream()));
    assert!(Cuda::device_name(&created).starts_with("CUDA device 0 ("));
}

fn a_set_goes_from_any_stream_to_any_other(gpu: &Gpu) {
    for (from, home) in gpu.streams() {
        for (to, other) in gpu.streams() {
            let args = Words::new(64 << 10, 3);
            let gate = gpu.gate(&home);
            let dev = args.upload(&home).unwrap();
            let lent = dev.on(&other).unwrap();
            let sum = gpu.checksum(&other, lent.words);
            drop(lent);
            drop(dev);
            // Gets the memory, if that was freed too early.
            let next = Words::new(64 << 10, 4).upload(&home).unwrap();
            drop(gate);
            assert_eq!(value(&other, &sum), args.sum(), "from {from} to {to}");
            drop(next);
        }
    }
}

fn a_per_thread_set_dropped_elsewhere_outlives_its_kernels(gpu: &Gpu) {
    for bytes in SIZES {
        let stream = gpu.context.per_thread_stream();
        let args = Words::new(bytes, 5);
        let dev = args.upload(&stream).unwrap();
        let gate = gpu.gate(&stream);
        let sum = gpu.checksum(&stream, dev.words);
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(dev);
                // This thread's stream, under the same handle; waits for no gate by itself.
                let next = Words::new(bytes, 6).upload(&stream).unwrap();
                drop(gate);
                assert_eq!(next.read_back().unwrap(), Words::new(bytes, 6).bytes());
            });
        });
        assert_eq!(value(&stream, &sum), args.sum(), "{bytes} bytes");
    }
}

fn a_per_thread_set_outlives_its_thread(gpu: &Gpu) {
    for bytes in SIZES {
        let stream = gpu.context.per_thread_stream();
        let args = Words::new(bytes, 7);
        // The thread waits for its work: one that ends before hangs in the driver (580.159, CUDA 13.0).
        let (dev, sum) = thread::scope(|scope| {
            let work = scope.spawn(|| {
                let dev = args.upload(&stream).unwrap();
                let sum = gpu.checksum(&stream, dev.words);
                stream.synchronize().unwrap();
                (dev, sum)
            });
            work.join().unwrap()
        });
        drop(dev);
        let next = Words::new(bytes, 8).upload(&stream).unwrap();
        gpu.context.synchronize().unwrap();
        assert_eq!(value(&stream, &sum), args.sum(), "{bytes} bytes");
        assert_eq!(next.read_back().unwrap(), Words::new(bytes, 8).bytes());
    }
}

fn a_per_thread_set_is_lent_from_another_thread(gpu: &Gpu) {
    let (stream, other) = (gpu.context.per_thread_stream(), gpu.context.new_stream().unwrap());
    for bytes in SIZES {
        let args = Words::new(bytes, 9);
        let gate = gpu.gate(&stream);
        let dev = args.upload(&stream).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let lent = dev.on(&other).unwrap();
                let sum = gpu.checksum(&other, lent.words);
                drop(lent);
                drop(gate);
                assert_eq!(value(&other, &sum), args.sum(), "{bytes} bytes");
                assert_eq!(dev.read_back().unwrap(), args.bytes());
            });
        });
    }
}

fn eight_threads_with_streams_of_their_own(gpu: &Gpu) {
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let stream = match thread % 4 {
                    0 => gpu.context.per_thread_stream(),
                    1 => gpu.context.default_stream(),
                    2 => gpu.borrowed_stream(StreamKind::Default),
                    _ => gpu.context.new_stream().unwrap(),
                };
                for i in 0..200 {
                    let args = Words::new(4096, 1000 * thread + i);
                    let dev = args.upload(&stream).unwrap();
                    assert_eq!(dev.read_back().unwrap(), args.bytes(), "thread {thread}, upload {i}");
                }
            });
        }
    });
}
