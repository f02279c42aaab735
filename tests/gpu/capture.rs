//! Streams that are being captured into a graph: an upload is refused, and the capture stays valid.

use std::sync::Arc;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::CUgraphInstantiate_flags;
use cudarc::driver::sys::CUstreamCaptureMode::{
    self, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
};
use cudarc::driver::{CudaSlice, CudaStream, PushKernelArg};
use marshal::backend::Backend;
use marshal::cuda::Cuda;
use marshal::{DeviceArgs, DeviceColumn, ErrorKind};

use super::Test;
use super::device::{Gpu, Words, one_thread, value};

pub(crate) const ALL: &[Test] = &[
    ("an_upload_on_a_capturing_stream_is_refused", an_upload_on_a_capturing_stream_is_refused),
    ("the_legacy_stream_beside_a_capture_is_refused", the_legacy_stream_beside_a_capture_is_refused),
    ("other_streams_upload_beside_a_capture", other_streams_upload_beside_a_capture),
    ("a_set_dropped_during_a_capture_is_freed_after_it", a_set_dropped_during_a_capture_is_freed_after_it),
];

const MODES: [CUstreamCaptureMode; 3] =
    [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED];

/// Captures one checksum of `column` around `during`, and shows that the graph is valid: two replays add the sum twice.
fn captured(
    gpu: &Gpu,
    stream: &Arc<CudaStream>,
    mode: CUstreamCaptureMode,
    args: &Words,
    column: DeviceColumn<u32>,
    during: impl FnOnce(),
) {
    // Waits on cudarc's own events have no place in a capture: the address is passed as a number.
    let sum: CudaSlice<u64> = stream.alloc_zeros(1).unwrap();
    let address = marshal::cuda::pointer_to(&sum, stream).unwrap();
    let function = gpu.function("checksum");
    let len = u64::try_from(column.len()).unwrap();
    // Once outside of the capture: the first launch may have to load the kernel.
    assert_eq!(value(stream, &gpu.checksum(stream, column)), args.sum());

    stream.begin_capture(mode).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&column).arg(&len).arg(&address);
    // SAFETY: the kernel takes `const unsigned*`, u64 and `u64*`; set and sum live until the replays have run.
    unsafe { launch.launch(one_thread()) }.unwrap();
    during();
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("a graph with one kernel");
    graph.launch().unwrap();
    graph.launch().unwrap();
    assert_eq!(value(stream, &sum), args.sum().wrapping_mul(2));
}

fn an_upload_on_a_capturing_stream_is_refused(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        if stream.cu_stream().is_null() {
            continue; // The legacy default stream cannot be captured.
        }
        for mode in MODES {
            let args = Words::new(4096, 41);
            let dev = args.upload(&stream).unwrap();
            captured(gpu, &stream, mode, &args, dev.words, || {
                assert!(Cuda::is_capturing(&stream).unwrap(), "{name}, {mode:?}");
                for _ in 0..40 {
                    let error = args.upload(&stream).unwrap_err();
                    assert_eq!(*error.kind(), ErrorKind::Capturing { needed: 4096 }, "{name}, {mode:?}");
                }
                dev.read_back().unwrap_err();
            });
            assert!(!Cuda::is_capturing(&stream).unwrap());
            assert_eq!(args.upload(&stream).unwrap().read_back().unwrap(), args.bytes());
        }
    }
    gpu.context.check_err().unwrap();
}

fn the_legacy_stream_beside_a_capture_is_refused(gpu: &Gpu) {
    let (blocking, legacy) = (gpu.borrowed_stream(StreamKind::Default), gpu.context.default_stream());
    for mode in MODES {
        let args = Words::new(4096, 42);
        let dev = args.upload(&blocking).unwrap();
        captured(gpu, &blocking, mode, &args, dev.words, || {
            assert!(Cuda::is_capturing(&legacy).unwrap(), "{mode:?}");
            let error = args.upload(&legacy).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Capturing { needed: 4096 }, "{mode:?}");
        });
        assert!(!Cuda::is_capturing(&legacy).unwrap());
    }
    gpu.context.check_err().unwrap();
}

fn other_streams_upload_beside_a_capture(gpu: &Gpu) {
    let (stream, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    // Grown beforehand: what a memory pool does to grow is not under test.
    drop(Words::new(4096, 0).upload(&other).unwrap());
    for mode in MODES {
        let args = Words::new(4096, 43);
        let dev = args.upload(&stream).unwrap();
        captured(gpu, &stream, mode, &args, dev.words, || {
            // Enough for several sweeps of the sources.
            let sets: Vec<_> = (0..40).map(|seed| (seed, Words::new(4096, seed).upload(&other).unwrap())).collect();
            drop(sets);
            let on_thread = std::thread::scope(|scope| scope.spawn(|| args.upload(&other).unwrap()).join().unwrap());
            drop(on_thread);
        });
        assert_eq!(args.upload(&other).unwrap().read_back().unwrap(), args.bytes(), "{mode:?}");
    }
    gpu.context.check_err().unwrap();
}

fn a_set_dropped_during_a_capture_is_freed_after_it(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    for mode in MODES {
        let args = Words::new(4096, 44);
        let dev = args.upload(&stream).unwrap();
        let large = Words::new(256 << 20, 45).upload(&stream).unwrap();
        stream.synchronize().unwrap();
        let before = gpu.free_bytes();
        captured(gpu, &stream, mode, &args, dev.words, || drop(large));
        // The next upload frees it.
        drop(args.upload(&stream).unwrap());
        stream.synchronize().unwrap();
        let after = gpu.free_bytes();
        if let (Some(before), Some(after)) = (before, after) {
            assert!(after >= before + (200 << 20), "{mode:?}: {before} bytes were free, now {after}");
        }
    }
    gpu.context.check_err().unwrap();
}
