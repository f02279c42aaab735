//! Batches of copies: every kind of stream and source, slices of cudarc, and captures.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::CUstreamCaptureMode::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
};
use cudarc::driver::sys::{self, CUgraphInstantiate_flags};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, result};
use marshal::cuda::Cuda;
use marshal::{CopyBatch, CopyBatchError, CopyStaging, DeviceRange, DeviceRangeMut, ErrorKind, PendingCopies};

use super::Test;
use super::device::{Gpu, SIZES};

pub(crate) const ALL: &[Test] = &[
    ("slices_and_views_are_copied_on_every_stream", slices_and_views_are_copied_on_every_stream),
    ("page_locked_owners_are_read_where_they_are", page_locked_owners_are_read_where_they_are),
    ("pageable_owners_are_right_behind_a_blocked_stream", pageable_owners_are_right_behind_a_blocked_stream),
    ("a_leaked_batch_keeps_cudarc_from_freeing_too_early", a_leaked_batch_keeps_cudarc_from_freeing_too_early),
    ("a_batch_waits_for_what_another_stream_writes", a_batch_waits_for_what_another_stream_writes),
    ("blocks_side_by_side_are_copied_apart", blocks_side_by_side_are_copied_apart),
    ("a_captured_batch_is_a_node_a_copy", a_captured_batch_is_a_node_a_copy),
    ("what_cannot_be_captured_leaves_the_capture_valid", what_cannot_be_captured_leaves_the_capture_valid),
    ("the_legacy_stream_beside_a_capture_is_refused", the_legacy_stream_beside_a_capture_is_refused),
];

/// As on the host backend.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    is_send::<CopyBatch<'static, Cuda>>();
    is_send::<PendingCopies<'static, Cuda>>();
    is_send::<CopyBatchError<Cuda>>();
    is_shared::<CopyStaging<Cuda>>();
};

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..=u8::MAX).cycle().map(|byte| byte.wrapping_mul(31) ^ seed).take(len).collect()
}

fn slices_and_views_are_copied_on_every_stream(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        // Below and above the number from which one call does it, and beyond what one call takes.
        for (copies, len) in [(1, 4096), (3, 100), (4, 100), (300, 1000), (2500, 24), (8, 1 << 20)] {
            let staging = CopyStaging::new(&stream);
            let slices = || -> Vec<CudaSlice<u8>> { (0..copies).map(|_| stream.alloc_zeros(len).unwrap()).collect() };
            let (mut targets, mut moved) = (slices(), slices());
            let (source, owned) = (pattern(copies * len, 1), pattern(len, 2));
            let mut batch = CopyBatch::new(&staging);
            // Every other one by value; from the last to the first.
            for (index, target) in targets.iter_mut().enumerate().rev() {
                if index % 2 == 0 {
                    batch.htod(&source[index * len..][..len], target).unwrap();
                } else {
                    batch.htod_owned(owned.clone(), target).unwrap();
                }
            }
            drop(batch.submit().unwrap());
            let mut batch = CopyBatch::new(&staging);
            targets.iter().zip(&mut moved).for_each(|(from, to)| batch.dtod(from, to).unwrap());
            drop(batch.submit().unwrap());
            let views: Vec<CudaView<'_, u8>> = moved.iter().map(|slice| slice.slice(..)).collect();
            let mut back = vec![vec![0; len]; copies];
            let mut batch = CopyBatch::new(&staging);
            views.iter().zip(&mut back).for_each(|(view, back)| batch.dtoh(view, back).unwrap());
            let tickets: Vec<_> = views.iter().map(|view| batch.dtoh_owned(view).unwrap()).collect();
            let fetched = batch.submit().unwrap().wait().unwrap();
            for (index, (back, ticket)) in back.iter().zip(&tickets).enumerate() {
                let expected = if index % 2 == 0 { &source[index * len..][..len] } else { &owned };
                assert!(back == expected, "{name}: copy {index} of {copies}, {len} bytes");
                assert!(fetched.to_vec(ticket) == *back, "{name}: ticket {index} of {copies}, {len} bytes");
            }
        }
    }
    gpu.context.check_err().unwrap();
}

/// Page-locked memory with an owner. It is overwritten before it is freed.
struct PageLocked {
    memory: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the value alone, and to no thread.
unsafe impl Send for PageLocked {}
// SAFETY: as above; `&PageLocked` only reads.
unsafe impl Sync for PageLocked {}

impl PageLocked {
    fn new(bytes: &[u8]) -> Self {
        // SAFETY: flags are none; initialised next, freed once by `drop`.
        let memory: *mut u8 = unsafe { result::malloc_host(bytes.len(), 0) }.unwrap().cast();
        // SAFETY: the memory is that long and ours alone.
        unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Self { memory, len: bytes.len() }
    }
}

impl AsRef<[u8]> for PageLocked {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: initialised, that long, and not written before `drop`.
        unsafe { core::slice::from_raw_parts(self.memory, self.len) }
    }
}

impl Drop for PageLocked {
    fn drop(&mut self) {
        // SAFETY: nobody reads it any more, or the test is to find out.
        unsafe { self.memory.write_bytes(0xee, self.len) };
        // SAFETY: from `malloc_host`, freed once. An error shows in the next call.
        let _ = unsafe { result::free_host(self.memory.cast::<c_void>()) };
    }
}

fn owners_are_right<S: AsRef<[u8]> + Send + Sync + 'static>(gpu: &Gpu, owner: fn(&[u8]) -> S) {
    for (name, stream) in gpu.streams() {
        for len in SIZES {
            for copies in [2, 9] {
                let staging = CopyStaging::new(&stream);
                let mut targets: Vec<CudaSlice<u8>> = (0..copies).map(|_| stream.alloc_zeros(len).unwrap()).collect();
                stream.synchronize().unwrap();
                let gate = gpu.gate(&stream);
                let mut batch = CopyBatch::new(&staging);
                for (seed, target) in (0..).zip(&mut targets) {
                    batch.htod_owned(owner(&pattern(len, seed)), target).unwrap();
                }
                drop(batch.submit().unwrap());
                drop(staging);
                // The host's allocator hands out what was freed last.
                let scribbles: Vec<Vec<u8>> = (0..copies).map(|_| vec![0xdd; len]).collect();
                drop(gate);
                for (seed, target) in (0..).zip(&targets) {
                    assert!(
                        stream.clone_dtoh(target).unwrap() == pattern(len, seed),
                        "{name}, {copies} of {len} bytes"
                    );
                }
                drop(scribbles);
            }
        }
    }
}

fn page_locked_owners_are_read_where_they_are(gpu: &Gpu) {
    owners_are_right(gpu, PageLocked::new);
}

fn pageable_owners_are_right_behind_a_blocked_stream(gpu: &Gpu) {
    owners_are_right(gpu, <[u8]>::to_vec);
}

fn a_leaked_batch_keeps_cudarc_from_freeing_too_early(gpu: &Gpu) {
    let (home, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let staging = CopyStaging::new(&other);
    for len in SIZES {
        let source = pattern(len, 3);
        let mut target: CudaSlice<u8> = home.alloc_zeros(len).unwrap();
        home.synchronize().unwrap();
        let gate = gpu.gate(&other);
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, &mut target).unwrap();
        core::mem::forget(batch.submit().unwrap());
        // Freed and given out again on its own stream: behind the copy, or the copy would land in the new slices.
        drop(target);
        let news: Vec<CudaSlice<u8>> = (0..4).map(|_| home.clone_htod(&vec![7; len]).unwrap()).collect();
        drop(gate);
        other.synchronize().unwrap();
        for new in &news {
            assert!(home.clone_dtoh(new).unwrap().iter().all(|&byte| byte == 7), "{len} bytes");
        }
    }
}

fn a_batch_waits_for_what_another_stream_writes(gpu: &Gpu) {
    let (home, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let staging = CopyStaging::new(&other);
    let mut slice: CudaSlice<u8> = home.alloc_zeros(4096).unwrap();
    home.synchronize().unwrap();
    let gate = gpu.gate(&home);
    // Page-locked by cudarc: the copy runs behind the gate.
    // SAFETY: written next.
    let mut pinned = unsafe { gpu.context.alloc_pinned::<u8>(4096) }.unwrap();
    pinned.as_mut_slice().unwrap().fill(4);
    home.memcpy_htod(&pinned, &mut slice).unwrap();
    let mut batch = CopyBatch::new(&staging);
    let ticket = batch.dtoh_owned(&slice).unwrap();
    let pending = batch.submit().unwrap();
    drop(gate);
    assert!(pending.wait().unwrap().to_vec(&ticket).iter().all(|&byte| byte == 4));
}

fn blocks_side_by_side_are_copied_apart(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let staging = CopyStaging::new(&stream);
    // As small as they come, so that many lie side by side.
    let blocks: Vec<CudaSlice<u8>> = (0..64).map(|_| stream.alloc_zeros(512).unwrap()).collect();
    let addresses: Vec<u64> = blocks.iter().map(|block| block.device_ptr(&stream).0).collect();
    let side_by_side = addresses.iter().filter(|&&address| addresses.contains(&(address + 512))).count();
    println!("{side_by_side} of 64 blocks have a neighbour");
    let sources: Vec<Vec<u8>> = (0..64).map(|seed| pattern(512, seed)).collect();
    let mut batch = CopyBatch::new(&staging);
    for (source, &address) in sources.iter().zip(&addresses) {
        for half in [0, 256] {
            let pointer = marshal::DevicePointer::from_raw(address + half).unwrap();
            let start = usize::try_from(half).unwrap();
            // SAFETY: the block is 512 bytes long, and used on this stream.
            batch.htod(&source[start..start + 256], unsafe { DeviceRangeMut::from_raw(pointer, 256) }).unwrap();
        }
    }
    batch.submit().unwrap().wait().unwrap();
    for (block, source) in blocks.iter().zip(&sources) {
        assert!(stream.clone_dtoh(block).unwrap() == *source);
    }
}

/// `len` bytes of `slice` from `start` on, for a graph.
fn address(slice: &CudaSlice<u8>, stream: &Arc<CudaStream>, start: usize) -> marshal::DevicePointer<u8> {
    marshal::cuda::pointer_to(slice, stream).unwrap().checked_add(start).unwrap()
}

fn a_captured_batch_is_a_node_a_copy(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        if name.starts_with("legacy") {
            continue; // It cannot be captured.
        }
        for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED]
        {
            let staging = CopyStaging::new(&stream);
            let input = stream.clone_htod(&pattern(64, 5)).unwrap();
            let mut output: CudaSlice<u8> = stream.alloc_zeros(1024).unwrap();
            staging.reserve(4096).unwrap();
            let (from, to) = (address(&input, &stream, 0), address(&output, &stream, 0));
            stream.synchronize().unwrap();
            let source = pattern(128, 6);

            stream.begin_capture(mode).unwrap();
            let mut batch = CopyBatch::new(&staging);
            for index in 0..5 {
                let to = to.checked_add(200 * index).unwrap();
                // SAFETY: the slices live until the replays have run, on this stream; the ranges are apart.
                batch.htod(&source[..100 + index], unsafe { DeviceRangeMut::from_raw(to, 100 + index) }).unwrap();
            }
            // SAFETY: as above.
            let (from, end) = unsafe {
                (DeviceRange::from_raw(from, 64), DeviceRangeMut::from_raw(to.checked_add(120).unwrap(), 64))
            };
            batch.dtod(from, end).unwrap();
            drop(batch.submit().unwrap());
            let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("a graph");
            let mut nodes = 0;
            // SAFETY: the graph is live; without a list the driver writes the number alone.
            unsafe { sys::cuGraphGetNodes(graph.cu_graph(), core::ptr::null_mut(), &raw mut nodes) }.result().unwrap();
            assert_eq!(nodes, 6, "{name}, {mode:?}");

            // What the graph reads is not given to a later batch, nor freed.
            let other: CudaSlice<u8> = stream.alloc_zeros(128).unwrap();
            let mut batch = CopyBatch::new(&staging);
            let scribble = [0xdd; 128];
            // SAFETY: the slice is that long, and used on this stream.
            batch.htod(&scribble, unsafe { DeviceRangeMut::from_raw(address(&other, &stream, 0), 128) }).unwrap();
            batch.submit().unwrap().wait().unwrap();
            drop(staging);
            for _ in 0..3 {
                stream.memset_zeros(&mut output).unwrap();
                graph.launch().unwrap();
                let back = stream.clone_dtoh(&output).unwrap();
                for index in 0..5 {
                    assert!(back[200 * index..][..100 + index] == source[..100 + index], "{name}, {mode:?}, {index}");
                }
                assert!(back[120..184] == pattern(64, 5), "{name}, {mode:?}");
            }
        }
    }
    gpu.context.check_err().unwrap();
}

fn what_cannot_be_captured_leaves_the_capture_valid(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let (staging, empty) = (CopyStaging::new(&stream), CopyStaging::new(&stream));
    let (slice, mut back) = (stream.clone_htod(&[1_u8; 64]).unwrap(), [0; 64]);
    let (source, mut output) = (pattern(64, 7), stream.alloc_zeros::<u8>(64).unwrap());
    let to = address(&output, &stream, 0);
    staging.reserve(64).unwrap();
    stream.synchronize().unwrap();
    let kind = |batch: CopyBatch<'_, Cuda>| batch.submit().unwrap_err().error().kind().clone();

    stream.begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let mut batch = CopyBatch::new(&staging);
    batch.dtoh(&slice, &mut back).unwrap();
    assert_eq!(kind(batch), ErrorKind::NotCapturable { entry: 0 });
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&source, &mut output).unwrap();
    assert_eq!(kind(batch), ErrorKind::NotCapturable { entry: 0 });
    let mut batch = CopyBatch::new(&empty);
    // SAFETY: the output lives until the replay has run, on this stream.
    batch.htod(&source, unsafe { DeviceRangeMut::from_raw(to, 64) }).unwrap();
    assert_eq!(kind(batch), ErrorKind::Capturing { needed: 64 });
    let mut batch = CopyBatch::new(&staging);
    // SAFETY: as above.
    batch.htod(&source, unsafe { DeviceRangeMut::from_raw(to, 64) }).unwrap();
    drop(batch.submit().unwrap());
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("a graph");
    graph.launch().unwrap();
    assert!(stream.clone_dtoh(&output).unwrap() == source);
    gpu.context.check_err().unwrap();
}

fn the_legacy_stream_beside_a_capture_is_refused(gpu: &Gpu) {
    let (blocking, legacy) = (gpu.borrowed_stream(StreamKind::Default), gpu.context.default_stream());
    let staging = CopyStaging::new(&legacy);
    let output: CudaSlice<u8> = legacy.alloc_zeros(64).unwrap();
    let to = address(&output, &legacy, 0);
    staging.reserve(64).unwrap();
    legacy.synchronize().unwrap();
    let source = pattern(64, 8);
    blocking.begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let mut batch = CopyBatch::new(&staging);
    // SAFETY: the output is used on this stream.
    batch.htod(&source, unsafe { DeviceRangeMut::from_raw(to, 64) }).unwrap();
    let error = batch.submit().unwrap_err();
    assert!(error.submitted().is_empty(), "{error}");
    blocking.end_capture(CUgraphInstantiate_flags(0)).unwrap();
    let mut batch = CopyBatch::new(&staging);
    // SAFETY: as above.
    batch.htod(&source, unsafe { DeviceRangeMut::from_raw(to, 64) }).unwrap();
    batch.submit().unwrap().wait().unwrap();
    assert!(legacy.clone_dtoh(&output).unwrap() == source);
}
