//! The source of a copy: never reused before the copy has run, whatever the driver does with it.

use cudarc::driver::result;
use marshal::DeviceArgs;

use super::Test;
use super::device::{Gpu, SIZES, Words, read, value};

pub(crate) const ALL: &[Test] = &[
    ("everything_may_be_dropped_behind_a_blocked_stream", everything_may_be_dropped_behind_a_blocked_stream),
    ("a_thousand_uploads_back_to_back_are_each_right", a_thousand_uploads_back_to_back_are_each_right),
    ("kernels_of_a_non_blocking_stream_see_their_upload", kernels_of_a_non_blocking_stream_see_their_upload),
    ("more_in_flight_than_is_kept_waits_and_is_right", more_in_flight_than_is_kept_waits_and_is_right),
];

fn everything_may_be_dropped_behind_a_blocked_stream(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        for bytes in SIZES {
            let expected = Words::new(bytes, 11);
            let gate = gpu.gate(&stream);
            let sum = {
                let mut args = Words::new(bytes, 11);
                let dev = args.upload(&stream).unwrap();
                args.words.fill(0xbbbb_bbbb);
                gpu.checksum(&stream, dev.words)
            };
            // The host's allocator hands out what was freed last.
            let scribbles: Vec<Vec<u8>> = (1..=8).map(|i| vec![i; bytes]).collect();
            drop(gate);
            assert_eq!(value(&stream, &sum), expected.sum(), "{name}, {bytes} bytes");
            drop(scribbles);
        }
    }
}

fn a_thousand_uploads_back_to_back_are_each_right(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        for (bytes, uploads) in [(64, 1000), (64 << 10, 1000), (4 << 20, 50)] {
            // SAFETY: every byte is written by the copies below before it is read.
            let snapshots = unsafe { result::malloc_sync(bytes * uploads) }.unwrap();
            for i in 0..uploads {
                let dev = Words { words: vec![u32::try_from(i).unwrap(); bytes / 4] }.upload(&stream).unwrap();
                let to = snapshots + u64::try_from(i * bytes).unwrap();
                // SAFETY: both ranges are `bytes` long; the set is freed behind this copy.
                unsafe { result::memcpy_dtod_async(to, dev.base().address(), bytes, stream.cu_stream()) }.unwrap();
            }
            let pointer = marshal::DevicePointer::from_raw(snapshots).unwrap();
            let image = read(&stream, pointer, bytes * uploads);
            for (i, snapshot) in image.chunks_exact(bytes).enumerate() {
                let word = u32::try_from(i).unwrap().to_le_bytes();
                assert!(snapshot.chunks_exact(4).all(|found| found == word), "{name}, {bytes} bytes, upload {i}");
            }
            // SAFETY: allocated above, freed once, and the stream is idle.
            unsafe { result::free_sync(snapshots) }.unwrap();
        }
    }
}

fn kernels_of_a_non_blocking_stream_see_their_upload(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let bytes = 2 << 20;
    let rounds: Vec<Words> = (0..8).map(|seed| Words::new(bytes, seed)).collect();
    let sums: Vec<_> = (0..200)
        .map(|round| {
            let dev = rounds[round % 8].upload(&stream).unwrap();
            gpu.checksum(&stream, dev.words)
        })
        .collect();
    let expected: Vec<u64> = rounds.iter().map(Words::sum).collect();
    for (round, sum) in sums.iter().enumerate() {
        assert_eq!(value(&stream, sum), expected[round % 8], "round {round}");
    }
}

fn more_in_flight_than_is_kept_waits_and_is_right(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let gate = gpu.gate(&stream);
    let all: Vec<Words> = (0..12).map(|seed| Words::new(8 << 20, seed)).collect();
    let sums: Vec<_> = all
        .iter()
        .map(|args| {
            let dev = args.upload(&stream).unwrap();
            gpu.checksum(&stream, dev.words)
        })
        .collect();
    drop(gate);
    for (args, sum) in all.iter().zip(&sums) {
        assert_eq!(value(&stream, sum), args.sum());
    }
}
