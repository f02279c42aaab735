//! The cached mode, whichever backend runs it.

use marshal::{ArgCache, CacheOptions, DeviceArgs, DevicePointer, ErrorKind, WhenExhausted};

use super::{Case, Gemm, GemmColumns, GemmCoord, Rig, at, pattern, permutations};

/// The race tests' sizes: small ones pass by luck.
const SIZES: [usize; 3] = [64, 64 << 10, 4 << 20];

pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("the_same_shape_reuses_the_block", the_same_shape_reuses_the_block),
        ("the_same_bytes_are_not_copied_again", the_same_bytes_are_not_copied_again),
        ("a_change_of_any_last_element_is_copied", a_change_of_any_last_element_is_copied),
        ("each_kernel_sees_the_arguments_it_was_launched_with", each_kernel_sees_the_arguments_it_was_launched_with),
        ("a_thousand_uploads_back_to_back_arrive_one_by_one", a_thousand_uploads_back_to_back_arrive_one_by_one),
        ("a_held_set_is_never_rewritten", a_held_set_is_never_rewritten),
        ("sets_of_the_same_bytes_share_a_block", sets_of_the_same_bytes_share_a_block),
        ("work_on_another_stream_is_never_overwritten", work_on_another_stream_is_never_overwritten),
        ("equal_totals_of_other_columns_are_other_shapes", equal_totals_of_other_columns_are_other_shapes),
        ("rows_and_columns_share_a_block", rows_and_columns_share_a_block),
        ("arguments_may_become_empty_and_full_again", arguments_may_become_empty_and_full_again),
        ("ten_thousand_shapes_stay_under_the_cap", ten_thousand_shapes_stay_under_the_cap),
        ("held_sets_fill_the_cap_and_are_named_in_the_error", held_sets_fill_the_cap_and_are_named_in_the_error),
        ("clearing_keeps_what_is_held", clearing_keeps_what_is_held),
        ("a_reserved_shape_allocates_nothing_more", a_reserved_shape_allocates_nothing_more),
        ("exhausted_staging_waits_grows_or_is_an_error", exhausted_staging_waits_grows_or_is_an_error),
        ("eight_threads_share_a_cache", eight_threads_share_a_cache),
        ("eight_caches_share_a_device", eight_caches_share_a_device),
        ("cache_stream_and_set_may_go_in_every_order", cache_stream_and_set_may_go_in_every_order),
        ("everything_may_be_dropped_under_a_blocked_stream", everything_may_be_dropped_under_a_blocked_stream),
    ]
}

#[derive(DeviceArgs)]
struct Bytes {
    data: Vec<u8>,
}

fn bytes(byte: u8, len: usize) -> Bytes {
    Bytes { data: vec![byte; len] }
}

fn the_same_shape_reuses_the_block<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let first = bytes(1, 100).upload(&cache).unwrap().base();
    for byte in 2..=200 {
        let dev = bytes(byte, 100).upload(&cache).unwrap();
        assert_eq!(dev.base(), first);
        assert_eq!(rig.read_device(&stream, dev.data.pointer(), 100), [byte; 100]);
    }
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.copies, stats.copied_bytes), (200, 200, 200 * 112));
    assert_eq!((stats.allocations, stats.shape_hits, stats.byte_hits, stats.evictions), (1, 199, 0, 0));
}

fn the_same_bytes_are_not_copied_again<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    for _ in 0..1000 {
        let dev = bytes(7, 5000).upload(&cache).unwrap();
        assert_eq!(dev.data.len(), 5000);
    }
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.copies, stats.byte_hits, stats.allocations), (1000, 1, 999, 1));
    let dev = bytes(7, 5000).upload(&cache).unwrap();
    assert_eq!(rig.read_device(&stream, dev.data.pointer(), 5000), [7; 5000]);
}

fn a_change_of_any_last_element_is_copied<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut args = GemmColumns {
        size: vec![GemmCoord { m: 1, n: 1, k: 1 }; 65],
        a: vec![at(1); 65],
        c: vec![None; 65],
        tag: vec![1; 65],
        lda: vec![1; 65],
    };
    drop(args.upload(&cache).unwrap());
    for column in 0..5 {
        match column {
            0 => args.size[64].k = 2,
            1 => args.a[64] = at(2),
            2 => args.c[64] = Some(at(2)),
            3 => args.tag[64] = 2,
            _ => args.lda[64] = 2,
        }
        let copies = cache.stats().copies;
        let image = args.upload(&cache).unwrap().read_back().unwrap();
        assert_eq!(cache.stats().copies, copies + 1, "column {column}");
        let fresh = args.upload(&stream).unwrap().read_back().unwrap();
        assert_eq!(image, fresh, "column {column}");
    }
}

fn each_kernel_sees_the_arguments_it_was_launched_with<R: Rig>(rig: &R) {
    for len in SIZES {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        // Warm: the block and its staging are there.
        drop(bytes(9, len).upload(&cache).unwrap());
        let busy = rig.block(&stream);
        let snapshots: Vec<_> = (1..=4)
            .map(|byte| {
                let dev = bytes(byte, len).upload(&cache).unwrap();
                rig.snapshot(&stream, dev.data.pointer(), len)
            })
            .collect();
        assert_eq!(cache.stats().allocations, 1);
        drop(busy);
        for (snapshot, byte) in snapshots.into_iter().zip(1..) {
            assert!(snapshot().iter().all(|&seen| seen == byte), "{len} bytes, upload {byte}");
        }
    }
}

fn a_thousand_uploads_back_to_back_arrive_one_by_one<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    for len in [64, 4096] {
        let mut snapshots = Vec::new();
        for i in 0..1000_u32 {
            let args = Bytes { data: i.to_le_bytes().repeat(len / 4) };
            let dev = args.upload(&cache).unwrap();
            snapshots.push(rig.snapshot(&stream, dev.data.pointer(), len));
        }
        for (snapshot, i) in snapshots.into_iter().zip(0_u32..) {
            assert_eq!(snapshot(), i.to_le_bytes().repeat(len / 4), "upload {i} of {len} bytes");
        }
    }
    assert_eq!(cache.stats().allocations, 2);
}

fn a_held_set_is_never_rewritten<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let held = bytes(1, 1000).upload(&cache).unwrap();
    let also_held = bytes(2, 1000).upload(&cache).unwrap();
    assert_ne!(held.base(), also_held.base());
    for byte in 3..=100 {
        let dev = bytes(byte, 1000).upload(&cache).unwrap();
        assert!(dev.base() != held.base() && dev.base() != also_held.base());
    }
    assert_eq!(cache.stats().allocations, 3);
    assert_eq!(rig.read_device(&stream, held.data.pointer(), 1000), [1; 1000]);
    assert_eq!(rig.read_device(&stream, also_held.data.pointer(), 1000), [2; 1000]);

    let bases = [held.base(), also_held.base()];
    drop((held, also_held));
    let third = bytes(100, 1000).upload(&cache).unwrap();
    let next = bytes(101, 1000).upload(&cache).unwrap();
    let after = bytes(102, 1000).upload(&cache).unwrap();
    assert!(bases.contains(&next.base()) && bases.contains(&after.base()) && !bases.contains(&third.base()));
    assert_eq!(cache.stats().allocations, 3);
}

fn sets_of_the_same_bytes_share_a_block<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let layers: Vec<_> = (0..32).map(|byte| bytes(byte, 500).upload(&cache).unwrap()).collect();
    for (byte, layer) in (0..).zip(&layers) {
        let again = bytes(byte, 500).upload(&cache).unwrap();
        assert_eq!(again.base(), layer.base());
    }
    let stats = cache.stats();
    assert_eq!((stats.copies, stats.byte_hits, stats.allocations), (32, 32, 32));
}

fn work_on_another_stream_is_never_overwritten<R: Rig>(rig: &R) {
    let (home, other) = (rig.stream(), rig.stream());
    let cache = ArgCache::new(&home).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..100_u8 {
        let dev = bytes(round, 64 << 10).upload(&cache).unwrap();
        let lent = dev.on(&other).unwrap();
        // A slow kernel, that reads the arguments late.
        let busy = rig.block(&other);
        snapshots.push(rig.snapshot(&other, lent.data.pointer(), 64 << 10));
        drop(lent);
        drop(dev);
        // Some rounds let the other stream go before the next upload, some after.
        if round % 3 == 0 {
            drop(busy);
            drop(bytes(255, 64 << 10).upload(&cache).unwrap());
        } else {
            drop(bytes(255, 64 << 10).upload(&cache).unwrap());
            drop(busy);
        }
    }
    for (snapshot, round) in snapshots.into_iter().zip(0..) {
        assert!(snapshot().iter().all(|&seen| seen == round), "round {round}");
    }
    assert_eq!(cache.stats().allocations, 1);
}

#[derive(DeviceArgs)]
struct Words {
    a: Vec<u64>,
    b: Vec<u64>,
}

#[derive(DeviceArgs)]
struct Floats {
    a: Vec<f64>,
    b: Vec<f64>,
}

#[derive(DeviceArgs)]
struct Halves {
    a: Vec<f32>,
    b: Vec<f32>,
}

fn equal_totals_of_other_columns_are_other_shapes<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let words = Words { a: vec![0; 3], b: vec![0; 5] }.upload(&cache).unwrap();
    let swapped = Words { a: vec![0; 5], b: vec![0; 3] }.upload(&cache).unwrap();
    assert_eq!(words.layout().copy_bytes(), swapped.layout().copy_bytes());
    assert_eq!(words.b.pointer().address() - words.base().address(), 32);
    assert_eq!(swapped.b.pointer().address() - swapped.base().address(), 48);
    // The same sizes and the same bytes, but other types: another shape.
    let floats = Floats { a: vec![0.0; 3], b: vec![0.0; 5] }.upload(&cache).unwrap();
    assert_ne!(floats.base(), words.base());
    let halves = Halves { a: vec![0.0; 8], b: vec![0.0; 10] }.upload(&cache).unwrap();
    assert_eq!(halves.layout().copy_bytes(), 80);
    assert_eq!(cache.stats().allocations, 4);
}

fn rows_and_columns_share_a_block<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    for len in [1, 341, 342, 1000] {
        let mut rows: Vec<Gemm> = (0..len)
            .map(|i| Gemm { size: pattern(i), a: at(1 + i), c: None, tag: pattern(i), lda: pattern(i), _host: 0 })
            .collect();
        let columns = |rows: &[Gemm]| GemmColumns {
            size: rows.iter().map(|r| r.size).collect(),
            a: rows.iter().map(|r| r.a).collect(),
            c: rows.iter().map(|r| r.c).collect(),
            tag: rows.iter().map(|r| r.tag).collect(),
            lda: rows.iter().map(|r| r.lda).collect(),
        };
        drop(columns(&rows).upload(&cache).unwrap());
        let hits = cache.stats().byte_hits;
        let dev = rows.upload(&cache).unwrap();
        assert_eq!(cache.stats().byte_hits, hits + 1);
        drop(dev);
        rows.last_mut().unwrap().lda = -1;
        let dev = rows.upload(&cache).unwrap();
        assert_eq!(cache.stats().byte_hits, hits + 1);
        assert_eq!(dev.read_back().unwrap(), columns(&rows).upload(&stream).unwrap().read_back().unwrap());
    }
}

fn arguments_may_become_empty_and_full_again<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    for len in [0, 10, 0, 10, 0] {
        let dev = bytes(3, len).upload(&cache).unwrap();
        assert_eq!((dev.data.len(), dev.data.is_empty()), (len, len == 0));
        assert_ne!(dev.data.pointer().address(), 0);
        assert_eq!(dev.read_back().unwrap().len(), len.next_multiple_of(16));
    }
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.copies, stats.allocations), (5, 1, 1));
}

fn ten_thousand_shapes_stay_under_the_cap<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let options = CacheOptions { device_bytes: 1 << 20, staging_bytes: 16 << 20, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for len in 1..=10_000 {
        let dev = bytes(5, len).upload(&cache).unwrap();
        if len % 997 == 0 {
            assert_eq!(rig.read_device(&stream, dev.data.pointer(), len), vec![5; len]);
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.copies), (10_000, 10_000));
    assert!(stats.evictions > 9_000 && stats.device_bytes <= 1 << 20 && stats.staging_bytes <= 16 << 20, "{stats:?}");
}

fn held_sets_fill_the_cap_and_are_named_in_the_error<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let options = CacheOptions { device_bytes: 4096, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let first = bytes(1, 2048).upload(&cache).unwrap();
    let second = bytes(2, 2048).upload(&cache).unwrap();
    let error = bytes(3, 2048).upload(&cache).unwrap_err();
    let ErrorKind::CacheFull { needed: 2048, available: 0 } = *error.kind() else { panic!("{error:?}") };
    drop(first);
    let third = bytes(3, 2048).upload(&cache).unwrap();
    assert_eq!(rig.read_device(&stream, third.data.pointer(), 2048), [3; 2048]);
    assert_eq!(rig.read_device(&stream, second.data.pointer(), 2048), [2; 2048]);
    drop(third);
    // Another shape of the size takes the room of the set that is not held.
    let other = Words { a: vec![9; 128], b: vec![9; 128] }.upload(&cache).unwrap();
    assert_eq!(other.read_back().unwrap()[..8], 9_u64.to_le_bytes());
    assert_eq!(cache.stats().evictions, 1);
    assert!(bytes(3, 1 << 20).upload(&cache).is_err());
}

fn clearing_keeps_what_is_held<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let held = bytes(1, 3000).upload(&cache).unwrap();
    drop(bytes(2, 3000).upload(&cache).unwrap());
    cache.clear();
    for byte in 10..20 {
        assert_ne!(bytes(byte, 3000).upload(&cache).unwrap().base(), held.base());
    }
    assert_eq!(rig.read_device(&stream, held.data.pointer(), 3000), [1; 3000]);
    cache.clear();
    cache.clear();
}

fn a_reserved_shape_allocates_nothing_more<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let layout = bytes(0, 700).layout().unwrap();
    cache.reserve(&layout).unwrap();
    cache.reserve(&layout).unwrap();
    assert_eq!((cache.stats().allocations, cache.stats().copies), (1, 0));
    let held = bytes(0, 700).upload(&cache).unwrap();
    assert_eq!((cache.stats().allocations, cache.stats().copies), (1, 1));
    assert_eq!(rig.read_device(&stream, held.data.pointer(), 700), [0; 700]);
    // The shape's only block is held: reserve means one that an upload can have.
    cache.reserve(&layout).unwrap();
    assert_eq!(cache.stats().allocations, 2);
}

fn exhausted_staging_waits_grows_or_is_an_error<R: Rig>(rig: &R) {
    let len = 1 << 20;
    for when_exhausted in [WhenExhausted::Wait, WhenExhausted::Grow, WhenExhausted::Error] {
        let stream = rig.stream();
        let cache =
            ArgCache::with_options(&stream, CacheOptions { when_exhausted, ..CacheOptions::default() }).unwrap();
        let busy = rig.block(&stream);
        let mut refused = 0;
        let mut snapshots = Vec::new();
        // Nobody lets the stream go: an upload may not wait for it here.
        let uploads = if when_exhausted == WhenExhausted::Wait { 2 } else { 20 };
        for byte in 0..uploads {
            match bytes(byte, len).upload(&cache) {
                Ok(dev) => snapshots.push((byte, rig.snapshot(&stream, dev.data.pointer(), len))),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::StagingExhausted { .. }), "{error}");
                    refused += 1;
                }
            }
        }
        drop(busy);
        // Now it may.
        for byte in uploads..uploads + 20 {
            match bytes(byte, len).upload(&cache) {
                Ok(dev) => snapshots.push((byte, rig.snapshot(&stream, dev.data.pointer(), len))),
                Err(_) => refused += 1,
            }
        }
        for (byte, snapshot) in snapshots {
            assert!(snapshot().iter().all(|&seen| seen == byte), "{when_exhausted:?}, upload {byte}");
        }
        assert_eq!(refused != 0, when_exhausted == WhenExhausted::Error);
        assert_eq!(cache.stats().allocations, 1);
    }
}

fn eight_threads_share_a_cache<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let cache = &cache;
            scope.spawn(move || {
                for i in 0..1000_u64 {
                    let value = thread * 1000 + i % 10;
                    let dev = Words { a: vec![value; 9], b: vec![!value; 4] }.upload(cache).unwrap();
                    if i % 50 == 0 {
                        let image = dev.read_back().unwrap();
                        assert_eq!(image[..72], value.to_le_bytes().repeat(9));
                        assert_eq!(image[80..112], (!value).to_le_bytes().repeat(4));
                    }
                }
            });
        }
    });
    let stats = cache.stats();
    assert_eq!(stats.uploads, 8000);
    assert_eq!(stats.copies + stats.byte_hits, 8000);
    // One block is being read by each thread at most, and one is written.
    assert!(stats.allocations <= 9, "{stats:?}");
}

fn eight_caches_share_a_device<R: Rig>(rig: &R) {
    let streams: Vec<_> = (0..8).map(|_| rig.stream()).collect();
    std::thread::scope(|scope| {
        for (thread, stream) in (0..8_u64).zip(&streams) {
            scope.spawn(move || {
                let cache = ArgCache::new(stream).unwrap();
                for i in 0..1000_u64 {
                    let value = thread * 1000 + i;
                    let dev = Words { a: vec![value; 9], b: vec![] }.upload(&cache).unwrap();
                    if i % 50 == 0 {
                        assert_eq!(dev.read_back().unwrap()[..72], value.to_le_bytes().repeat(9));
                    }
                }
                assert_eq!(cache.stats().allocations, 1);
            });
        }
    });
}

fn cache_stream_and_set_may_go_in_every_order<R: Rig>(rig: &R) {
    for order in permutations(&[0, 1, 2]) {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        let set = bytes(1, 999).upload(&cache).unwrap();
        let (mut stream, mut cache, mut set) = (Some(stream), Some(cache), Some(set));
        for handle in order {
            match handle {
                0 => drop(stream.take()),
                1 => drop(cache.take()),
                _ => drop(set.take()),
            }
            if let Some(set) = &set {
                assert_eq!(set.read_back().unwrap()[..999], [1; 999]);
            }
        }
    }
}

fn everything_may_be_dropped_under_a_blocked_stream<R: Rig>(rig: &R) {
    for len in SIZES {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        let busy = rig.block(&stream);
        let dev = bytes(0x3c, len).upload(&cache).unwrap();
        let pointer: DevicePointer<u8> = dev.data.pointer();
        let snapshot = rig.snapshot(&stream, pointer, len);
        drop(dev);
        drop(cache);
        // What was let go is overwritten, if it was let go too early.
        let other = ArgCache::new(&stream).unwrap();
        let scribble = bytes(0xc3, len).upload(&other).unwrap();
        let heap: Vec<Vec<u8>> = (0..8).map(|i| vec![i; len]).collect();
        drop(busy);
        assert!(snapshot().iter().all(|&seen| seen == 0x3c), "{len} bytes");
        assert_eq!(rig.read_device(&stream, scribble.data.pointer(), len), vec![0xc3; len]);
        drop(heap);
    }
}
