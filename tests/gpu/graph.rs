//! Uploads in CUDA graphs: what the driver says of the graph, of its memory, and of errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUgraphNodeType, CUstreamCaptureMode};
use cudarc::driver::{CudaStream, result};
use marshal::{ArgCache, DeviceArgs, DevicePointer, ErrorKind};

use super::Test;
use super::device::{Gpu, Log, Words, lost};

pub(crate) const ALL: &[Test] = &[
    ("a_graph_has_one_copy_and_no_allocation", a_graph_has_one_copy_and_no_allocation),
    ("every_capture_mode_stays_valid", every_capture_mode_stays_valid),
    ("handles_may_go_in_every_order", handles_may_go_in_every_order),
    ("a_graph_of_cudarc_keeps_its_set", a_graph_of_cudarc_keeps_its_set),
    ("graphs_that_go_leave_no_memory_and_no_error", graphs_that_go_leave_no_memory_and_no_error),
    ("a_capture_on_the_legacy_stream_is_refused", a_capture_on_the_legacy_stream_is_refused),
    ("a_broken_capture_is_an_error_and_nothing_is_lost", a_broken_capture_is_an_error_and_nothing_is_lost),
    ("other_caches_work_beside_a_capture", other_caches_work_beside_a_capture),
];

const MODES: [CUstreamCaptureMode; 3] = [
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
];

fn bytes_of(words: DevicePointer<u32>) -> DevicePointer<u8> {
    words.cast()
}

/// A graph captured by raw calls, as one does who does not use `ArgCache::capture`.
struct RawGraph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

impl RawGraph {
    fn capture(stream: &Arc<CudaStream>, mode: CUstreamCaptureMode, work: impl FnOnce()) -> Self {
        stream.context().bind_to_thread().unwrap();
        // SAFETY: the stream is live.
        unsafe { result::stream::begin_capture(stream.cu_stream(), mode) }.unwrap();
        work();
        // SAFETY: the stream is live, and captures.
        let graph = unsafe { result::stream::end_capture(stream.cu_stream()) }.unwrap();
        // SAFETY: the graph was made just now.
        let exec = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }.unwrap();
        Self { graph, exec }
    }

    fn node_kinds(&self) -> Vec<CUgraphNodeType> {
        let mut count = 0;
        // SAFETY: the graph is live; without an array the driver writes the number of nodes.
        unsafe { sys::cuGraphGetNodes(self.graph, std::ptr::null_mut(), &raw mut count) }.result().unwrap();
        let mut nodes = vec![std::ptr::null_mut(); count];
        // SAFETY: the array has room for so many.
        unsafe { sys::cuGraphGetNodes(self.graph, nodes.as_mut_ptr(), &raw mut count) }.result().unwrap();
        let kind = |node| {
            let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: the node is one of a live graph.
            unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }.result().unwrap();
            kind
        };
        nodes.into_iter().map(kind).collect()
    }

    fn launch(&self, stream: &CudaStream) {
        // SAFETY: graph and stream are live.
        unsafe { result::graph::launch(self.exec, stream.cu_stream()) }.unwrap();
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        // SAFETY: destroyed once, here.
        unsafe { result::graph::exec_destroy(self.exec) }.unwrap();
        // SAFETY: as above.
        unsafe { result::graph::destroy(self.graph) }.unwrap();
    }
}

fn a_graph_has_one_copy_and_no_allocation(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let cache = ArgCache::new(&stream).unwrap();
    let log = Log::new(&stream, 4096, 5, false);
    let args = Words::new(4096, 7);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let mut set = None;
    let graph = RawGraph::capture(&stream, MODES[1], || {
        let dev = args.upload(&cache).unwrap();
        log.append(gpu, &stream, bytes_of(dev.words.pointer()));
        set = Some(dev);
    });
    let mut kinds = graph.node_kinds();
    kinds.sort_unstable();
    assert_eq!(kinds, [CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL, CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY]);
    for _ in 0..5 {
        graph.launch(&stream);
    }
    assert_eq!(log.read(&stream), vec![args.bytes(); 5]);
    gpu.context.check_err().unwrap();
}

fn every_capture_mode_stays_valid(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    for mode in MODES {
        let cache = ArgCache::new(&stream).unwrap();
        let log = Log::new(&stream, 64 << 10, 3, false);
        let args = Words::new(64 << 10, 9);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let held = Words::new(5000, 1).upload(&cache).unwrap();
        let mut dropped = Some((held, Words::new(4096, 1).upload(&stream).unwrap()));
        let graph = RawGraph::capture(&stream, mode, || {
            let cold = Words::new(400, 1).upload(&cache).unwrap_err();
            assert!(matches!(cold.kind(), ErrorKind::NotReserved { .. }), "{cold}");
            let dev = args.upload(&cache).unwrap();
            drop(dropped.take());
            cache.clear();
            log.append(gpu, &stream, bytes_of(dev.words.pointer()));
        });
        for _ in 0..3 {
            graph.launch(&stream);
        }
        assert_eq!(log.read(&stream), vec![args.bytes(); 3], "{mode:?}");
    }
    gpu.context.check_err().unwrap();
}

fn handles_may_go_in_every_order(_: &Gpu) {
    // The context's handle too: the graph keeps what it needs. The kernel's module is the user's own: its function is given to the
    // graph.
    for order in crate::cases::permutations(&[0, 1, 2, 3]) {
        let other = Gpu::new();
        let stream = other.context.new_stream().unwrap();
        let log = Log::new(&stream, 4096, 8, false);
        let cache = ArgCache::new(&stream).unwrap();
        let args = Words::new(4096, 3);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let mut set = None;
        let graph = cache
            .capture(|stream| {
                let dev = args.upload(&cache)?;
                log.append(&other, stream, bytes_of(dev.words.pointer()));
                set = Some(dev);
                Ok(other.function("append"))
            })
            .unwrap();
        let look = stream.clone();
        let (mut stream, mut cache, mut other) = (Some(stream), Some(cache), Some(other));
        for handle in order {
            match handle {
                0 => drop(stream.take()),
                1 => drop(cache.take()),
                2 => drop(set.take()),
                _ => drop(other.take()),
            }
            graph.launch().unwrap();
        }
        drop(Words::new(4096, 0xbad).upload(&look).unwrap());
        graph.launch().unwrap();
        assert_eq!(log.read(&look), vec![args.bytes(); 5]);
        drop(graph);
        look.synchronize().unwrap();
        look.context().check_err().unwrap();
    }
}

fn a_graph_of_cudarc_keeps_its_set(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let log = Log::new(&stream, 4096, 4, false);
    let args = Words::new(4096, 5);
    let cache = ArgCache::new(&stream).unwrap();
    cache.reserve(&args.layout().unwrap()).unwrap();
    stream.begin_capture(MODES[1]).unwrap();
    let dev = args.upload(&cache).unwrap();
    log.append(gpu, &stream, bytes_of(dev.words.pointer()));
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap();
    graph.launch().unwrap();
    drop((dev, cache));
    // What was let go too early is overwritten.
    let scribbles: Vec<_> = (0..8).map(|seed| Words::new(4096, 0xbad + seed).upload(&stream).unwrap()).collect();
    for _ in 0..3 {
        graph.launch().unwrap();
    }
    drop(scribbles);
    drop(graph);
    assert_eq!(log.read(&stream), vec![args.bytes(); 4]);
    gpu.context.check_err().unwrap();
}

fn graphs_that_go_leave_no_memory_and_no_error(gpu: &Gpu) {
    const BYTES: usize = 8 << 20;
    let stream = gpu.context.new_stream().unwrap();
    let round = |seed: u32, by_hand: bool| {
        let cache = ArgCache::new(&stream).unwrap();
        let log = Log::new(&stream, BYTES, 1, false);
        let args = Words::new(BYTES, seed);
        cache.reserve(&args.layout().unwrap()).unwrap();
        if by_hand {
            let graph = RawGraph::capture(&stream, MODES[1], || {
                let dev = args.upload(&cache).unwrap();
                log.append(gpu, &stream, bytes_of(dev.words.pointer()));
            });
            graph.launch(&stream);
        } else {
            let graph = cache.capture(|stream| {
                let dev = args.upload(&cache)?;
                log.append(gpu, stream, bytes_of(dev.words.pointer()));
                Ok(dev)
            });
            graph.unwrap().launch().unwrap();
        }
        drop(cache);
        assert_eq!(log.read(&stream), [args.bytes()]);
    };
    for by_hand in [false, true] {
        round(0, by_hand);
        stream.synchronize().unwrap();
        let before = gpu.free_bytes();
        for seed in 1..20 {
            round(seed, by_hand);
        }
        // The driver says in its own time that a graph is gone; the next allocation after that frees.
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            drop(Words::new(64, 0).upload(&stream).unwrap());
            stream.synchronize().unwrap();
            let after = gpu.free_bytes();
            if lost(before, after) <= 3 * BYTES {
                break;
            }
            assert!(Instant::now() < end, "by hand {by_hand}: {before:?} bytes were free before, {after:?} are now");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    gpu.context.check_err().unwrap();
}

fn a_capture_on_the_legacy_stream_is_refused(gpu: &Gpu) {
    let cache = ArgCache::new(&gpu.context.default_stream()).unwrap();
    let error = cache.capture(|_| Ok(())).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { call: "cuStreamBeginCapture", .. }), "{error}");
    drop(Words::new(64, 1).upload(&cache).unwrap());
    gpu.context.check_err().unwrap();
}

fn a_broken_capture_is_an_error_and_nothing_is_lost(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Words::new(4096, 11);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let broken = cache.capture(|stream| {
        let dev = args.upload(&cache)?;
        // The user's own mistake.
        assert!(stream.synchronize().is_err());
        Ok(dev)
    });
    let error = broken.map(drop).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { call: "cuStreamEndCapture", .. }), "{error}");
    let dev = args.upload(&cache).unwrap();
    assert_eq!(dev.read_back().unwrap(), args.bytes());
    assert_eq!(cache.stats().allocations, 1);
    gpu.context.check_err().unwrap();
}

fn other_caches_work_beside_a_capture(gpu: &Gpu) {
    let (stream, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    for mode in MODES {
        let (cache, beside) = (ArgCache::new(&stream).unwrap(), ArgCache::new(&other).unwrap());
        let log = Log::new(&stream, 4096, 1, false);
        let args = Words::new(4096, 13);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let graph = RawGraph::capture(&stream, mode, || {
            let dev = args.upload(&cache).unwrap();
            // Cold, warm, growing, and from another thread.
            for seed in 0..300 {
                drop(Words::new(4096 + 64 * (seed as usize % 7), seed).upload(&beside).unwrap());
            }
            std::thread::scope(|scope| {
                scope.spawn(|| drop(Words::new(9000, 1).upload(&beside).unwrap()));
            });
            log.append(gpu, &stream, bytes_of(dev.words.pointer()));
        });
        graph.launch(&stream);
        assert_eq!(log.read(&stream), [args.bytes()], "{mode:?}");
        let dev = args.upload(&beside).unwrap();
        assert_eq!(dev.read_back().unwrap(), args.bytes());
    }
    gpu.context.check_err().unwrap();
}
