//! Scratch that kernels write, and its zeroing beside captures and in them.

use cudarc::driver::sys::CUgraphInstantiate_flags;
use cudarc::driver::sys::CUstreamCaptureMode::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use marshal::backend::Backend;
use marshal::cuda::Cuda;
use marshal::{ArgCache, DeviceArgs, DevicePointer, Scratch};

use super::Test;
use super::device::{Gpu, Words, fill, read};

pub(crate) const ALL: &[Test] = &[
    ("a_kernel_sums_into_zeroed_scratch_again_and_again", a_kernel_sums_into_zeroed_scratch_again_and_again),
    ("scratch_is_zeroed_beside_a_capture", scratch_is_zeroed_beside_a_capture),
    ("zeroing_in_a_capture_is_a_node", zeroing_in_a_capture_is_a_node),
];

#[derive(DeviceArgs)]
struct Sum<'a> {
    words: &'a [u32],
    sum: Scratch<u64>,
    unused: Scratch<u8>,
}

impl<'a> Sum<'a> {
    fn of(words: &'a Words) -> Self {
        Self { words: &words.words, sum: Scratch::zeroed(1), unused: Scratch::uninit(100) }
    }
}

fn a_kernel_sums_into_zeroed_scratch_again_and_again(gpu: &Gpu) {
    let function = gpu.function("checksum");
    for stream in [gpu.context.new_stream().unwrap(), gpu.context.default_stream()] {
        let cache = ArgCache::new(&stream).unwrap();
        let launched: Vec<_> = (0..60)
            .map(|round| {
                // The same bytes three times, and others.
                let words = Words::new(64 << 10, round / 3);
                let dev = Sum::of(&words).upload(&cache).unwrap();
                let len = u64::try_from(words.words.len()).unwrap();
                let mut launch = stream.launch_builder(&function);
                launch.arg(&dev.words).arg(&len).arg(&dev.sum);
                let shape = LaunchConfig { grid_dim: (64, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
                // SAFETY: the kernel takes `const unsigned*`, u64 and `u64*`; the set lives until it was launched, and its block is
                // written again behind the kernel.
                unsafe { launch.launch(shape) }.unwrap();
                (words.sum(), super::device::snapshot(&stream, dev.sum.pointer().cast(), 8))
            })
            .collect();
        for (sum, snapshot) in launched {
            assert_eq!(snapshot(), sum.to_ne_bytes());
        }
        let stats = cache.stats();
        assert_eq!((stats.uploads, stats.copies, stats.allocations), (60, 20, 1));
    }
}

fn scratch_is_zeroed_beside_a_capture(gpu: &Gpu) {
    for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED] {
        let (captured, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
        let cache = ArgCache::new(&other).unwrap();
        let words = Words::new(4096, 1);
        drop(Sum::of(&words).upload(&cache).unwrap());
        captured.begin_capture(mode).unwrap();
        for _ in 0..3 {
            drop(Sum::of(&words).upload(&cache).unwrap());
            drop(Sum::of(&words).upload(&other).unwrap());
        }
        assert!(captured.end_capture(CUgraphInstantiate_flags(0)).is_ok(), "{mode:?}");
        let dev = Sum::of(&words).upload(&cache).unwrap();
        assert_eq!(dev.fetch(&dev.sum).unwrap(), [0], "{mode:?}");
    }
    gpu.context.check_err().unwrap();
}

fn zeroing_in_a_capture_is_a_node(gpu: &Gpu) {
    for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED] {
        let stream = gpu.context.new_stream().unwrap();
        let block = Cuda::allocate(&stream, 64).unwrap();
        let address = DevicePointer::from_raw(Cuda::address(&block)).unwrap();
        stream.begin_capture(mode).unwrap();
        Cuda::zero(&stream, &block, 16, 32).unwrap();
        let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("a graph with one node");
        for _ in 0..2 {
            fill(&stream, address, 64, 0xa5);
            graph.launch().unwrap();
            let expected = [[0xa5; 16], [0; 16], [0; 16], [0xa5; 16]].concat();
            assert_eq!(read(&stream, address, 64), expected, "{mode:?}");
        }
        assert!(Cuda::zero(&stream, &block, 33, 32).is_err());
    }
}
