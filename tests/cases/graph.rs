//! Uploads in graphs, whichever backend runs them: captured once, refreshed, replayed.

use marshal::backend::{Backend, BackendStream};
use marshal::{ArgCache, CacheOptions, CapturedGraph, DeviceArgs, Error, ErrorKind, Scratch, Uploaded};

use super::{Case, Rig, permutations};

/// The race tests' sizes: small ones pass by luck.
const SIZES: [usize; 3] = [64, 64 << 10, 4 << 20];

pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("a_graph_replays_its_own_arguments", a_graph_replays_its_own_arguments),
        ("a_thousand_refreshes_arrive_one_by_one", a_thousand_refreshes_arrive_one_by_one),
        ("a_replay_without_a_refresh_repeats_the_last_one", a_replay_without_a_refresh_repeats_the_last_one),
        ("the_last_of_several_refreshes_wins", the_last_of_several_refreshes_wins),
        ("equal_bytes_refresh_nothing", equal_bytes_refresh_nothing),
        ("another_shape_is_refused_and_changes_nothing", another_shape_is_refused_and_changes_nothing),
        ("the_sets_of_a_graph_are_refreshed_one_by_one", the_sets_of_a_graph_are_refreshed_one_by_one),
        ("a_set_of_another_graph_is_refused", a_set_of_another_graph_is_refused),
        ("every_replay_zeroes_its_scratch", every_replay_zeroes_its_scratch),
        ("a_cold_cache_is_an_error_and_the_capture_stays_valid", a_cold_cache_is_an_error_and_the_capture_stays_valid),
        ("an_upload_beside_copies_in_flight_is_captured", an_upload_beside_copies_in_flight_is_captured),
        ("what_was_only_captured_is_not_taken_for_sent", what_was_only_captured_is_not_taken_for_sent),
        ("a_one_shot_upload_in_a_capture_is_refused", a_one_shot_upload_in_a_capture_is_refused),
        ("what_is_dropped_during_a_capture_goes_after_it", what_is_dropped_during_a_capture_goes_after_it),
        ("a_capture_that_fails_leaves_the_cache_as_it_was", a_capture_that_fails_leaves_the_cache_as_it_was),
        ("graphs_and_eager_uploads_share_a_cache", graphs_and_eager_uploads_share_a_cache),
        ("a_graph_that_goes_returns_its_memory", a_graph_that_goes_returns_its_memory),
        ("captured_blocks_count_and_never_go", captured_blocks_count_and_never_go),
        ("everything_but_the_graph_may_go_before_it", everything_but_the_graph_may_go_before_it),
        ("a_graph_of_the_users_own_keeps_what_it_reads", a_graph_of_the_users_own_keeps_what_it_reads),
        ("calls_that_have_no_place_in_a_capture_are_refused", calls_that_have_no_place_in_a_capture_are_refused),
        ("a_set_that_is_lent_may_come_back_in_a_capture", a_set_that_is_lent_may_come_back_in_a_capture),
        ("a_graph_may_be_used_from_several_threads", a_graph_may_be_used_from_several_threads),
    ]
}

#[derive(DeviceArgs)]
struct Bytes {
    data: Vec<u8>,
}

fn bytes(byte: u8, len: usize) -> Bytes {
    Bytes { data: vec![byte; len] }
}

type BackendOf<R> = <<R as Rig>::Stream as BackendStream>::Backend;
type Set<R> = Uploaded<BytesPointers, BackendOf<R>>;
type Graph<R> = CapturedGraph<Set<R>, BackendOf<R>>;

fn byte_of(round: usize) -> u8 {
    u8::try_from(1 + round % 251).unwrap()
}

/// Captures an upload of `len` bytes and a kernel that appends them to `log`.
fn captured<R: Rig>(rig: &R, cache: &ArgCache<BackendOf<R>>, byte: u8, len: usize, log: &R::Log) -> Graph<R> {
    let args = bytes(byte, len);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache.capture(|stream| {
        let dev = args.upload(cache)?;
        rig.append(stream, dev.data.pointer(), log);
        Ok(dev)
    });
    graph.unwrap()
}

/// The first byte of each entry, all of whose bytes are equal.
fn logged<R: Rig>(rig: &R, stream: &R::Stream, log: &R::Log) -> Vec<u8> {
    let entries = rig.read_log(stream, log);
    entries
        .iter()
        .map(|entry| {
            assert!(entry.iter().all(|&byte| byte == entry[0]), "an entry of mixed bytes");
            entry[0]
        })
        .collect()
}

fn a_graph_replays_its_own_arguments<R: Rig>(rig: &R) {
    for (len, uploads) in SIZES.into_iter().zip([100, 100, 4]) {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        let log = rig.log(&stream, len, 4, false);
        let graph = captured(rig, &cache, 0x11, len, &log);
        for i in 0..uploads {
            // Other shapes, larger ones among them, and the same.
            drop(bytes(0x80, len / 2 + i * len / 50 + 1).upload(&cache).unwrap());
            drop(bytes(byte_of(i), len).upload(&cache).unwrap());
        }
        graph.launch().unwrap();
        graph.refresh(|dev| dev, &bytes(0x22, len)).unwrap();
        for i in 0..uploads {
            drop(bytes(byte_of(i), len).upload(&cache).unwrap());
        }
        for _ in 0..3 {
            graph.launch().unwrap();
        }
        assert_eq!(logged(rig, &stream, &log), [0x11, 0x22, 0x22, 0x22], "{len} bytes");
    }
}

fn a_thousand_refreshes_arrive_one_by_one<R: Rig>(rig: &R) {
    for (len, rounds) in SIZES.into_iter().zip([1000, 200, 20]) {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        // The kernel is slow: the host runs ahead as far as it is let.
        let log = rig.log(&stream, len, rounds, true);
        let graph = captured(rig, &cache, 0, len, &log);
        for round in 0..rounds {
            graph.refresh(|dev| dev, &bytes(byte_of(round), len)).unwrap();
            graph.launch().unwrap();
        }
        let expected: Vec<u8> = (0..rounds).map(byte_of).collect();
        assert_eq!(logged(rig, &stream, &log), expected, "{len} bytes");
        let stats = cache.stats();
        assert_eq!((stats.copies, stats.allocations), (rounds as u64, 1));
    }
}

fn a_replay_without_a_refresh_repeats_the_last_one<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 4096, 200, true);
    let graph = captured(rig, &cache, 9, 4096, &log);
    let mut expected = Vec::new();
    let mut current = 9;
    for round in 0..200 {
        if round % 3 == 1 || round % 7 == 0 {
            current = byte_of(round);
            graph.refresh(|dev| dev, &bytes(current, 4096)).unwrap();
        }
        graph.launch().unwrap();
        expected.push(current);
    }
    assert_eq!(logged(rig, &stream, &log), expected);
}

fn the_last_of_several_refreshes_wins<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 512, 60, true);
    let graph = captured(rig, &cache, 1, 512, &log);
    let mut expected = Vec::new();
    for round in 0..60 {
        for last in 0..=round % 4 {
            graph.refresh(|dev| dev, &bytes(byte_of(round * 4 + last), 512)).unwrap();
        }
        graph.launch().unwrap();
        expected.push(byte_of(round * 4 + round % 4));
    }
    assert_eq!(logged(rig, &stream, &log), expected);
}

fn equal_bytes_refresh_nothing<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 512, 4, false);
    let graph = captured(rig, &cache, 1, 512, &log);
    for byte in [1, 1, 2, 2] {
        graph.refresh(|dev| dev, &bytes(byte, 512)).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(logged(rig, &stream, &log), [1, 1, 2, 2]);
}

fn another_shape_is_refused_and_changes_nothing<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 512, 2, false);
    let graph = captured(rig, &cache, 1, 512, &log);
    for len in [0, 1, 511, 513, 4096] {
        let error = graph.refresh(|dev| dev, &bytes(7, len)).unwrap_err();
        let found = len as u64;
        assert_eq!(*error.kind(), ErrorKind::OtherShape { column: "data", expected: 512, found });
    }
    graph.launch().unwrap();
    graph.refresh(|dev| dev, &bytes(2, 512)).unwrap();
    graph.refresh(|dev| dev, &bytes(7, 100)).unwrap_err();
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [1, 2]);
}

#[derive(DeviceArgs)]
struct Words {
    words: Vec<u32>,
}

fn words(value: u32) -> Words {
    Words { words: vec![value; 128] }
}

fn the_sets_of_a_graph_are_refreshed_one_by_one<R: Rig>(rig: &R) {
    struct Sets<R: Rig> {
        first: Set<R>,
        second: Set<R>,
        words: Uploaded<WordsPointers, BackendOf<R>>,
    }
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let logs = [(); 3].map(|()| rig.log(&stream, 512, 4, false));
    cache.reserve_sets(&bytes(0, 512).layout().unwrap(), 2).unwrap();
    cache.reserve(&words(0).layout().unwrap()).unwrap();
    let graph = cache
        .capture(|stream| {
            // Equal bytes too: each set has a block of its own.
            let (first, second) = (bytes(1, 512).upload(&cache)?, bytes(1, 512).upload(&cache)?);
            let words = words(0x0303_0303).upload(&cache)?;
            for (pointer, log) in [first.data.pointer(), second.data.pointer(), words.base()].into_iter().zip(&logs) {
                rig.append(stream, pointer, log);
            }
            Ok(Sets::<R> { first, second, words })
        })
        .unwrap();
    assert_ne!(graph.sets().first.base(), graph.sets().second.base());
    graph.launch().unwrap();
    graph.refresh(|sets| &sets.second, &bytes(2, 512)).unwrap();
    graph.launch().unwrap();
    graph.refresh(|sets| &sets.words, &words(0x0404_0404)).unwrap();
    graph.refresh(|sets| &sets.first, &bytes(5, 512)).unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    let seen = logs.map(|log| logged(rig, &stream, &log));
    assert_eq!(seen, [vec![1, 1, 5, 5], vec![1, 2, 2, 2], vec![3, 3, 4, 4]]);
}

fn a_set_of_another_graph_is_refused<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 2, false);
    let eager = bytes(8, 64).upload(&cache).unwrap();
    let args = bytes(1, 64);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache
        .capture(|stream| {
            let dev = args.upload(&cache)?;
            rig.append(stream, dev.data.pointer(), &log);
            Ok((dev, eager))
        })
        .unwrap();
    let error = graph.refresh(|sets| &sets.1, &bytes(2, 64)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotInGraph { sets: 1 });
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [1]);
    assert_eq!(graph.sets().1.read_back().unwrap(), [8; 64]);
}

#[derive(DeviceArgs)]
struct Counting {
    data: Vec<u8>,
    counts: Scratch<u8>,
}

#[derive(DeviceArgs)]
struct Workspace {
    bytes: Scratch<u8>,
}

fn every_replay_zeroes_its_scratch<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let (data, counts, alone) =
        (rig.log(&stream, 32, 4, false), rig.log(&stream, 32, 4, false), rig.log(&stream, 32, 4, false));
    let args = |byte| Counting { data: vec![byte; 32], counts: Scratch::zeroed(32) };
    let workspace = Workspace { bytes: Scratch::zeroed(32) };
    cache.reserve(&args(0).layout().unwrap()).unwrap();
    cache.reserve(&workspace.layout().unwrap()).unwrap();
    let graph = cache
        .capture(|stream| {
            let (dev, workspace) = (args(1).upload(&cache)?, workspace.upload(&cache)?);
            rig.append(stream, dev.data.pointer(), &data);
            for (scratch, log) in [(dev.counts.pointer(), &counts), (workspace.bytes.pointer(), &alone)] {
                rig.append(stream, scratch, log);
                rig.fill(stream, scratch, 32, 9);
            }
            Ok((dev, workspace))
        })
        .unwrap();
    for byte in 1..5 {
        graph.refresh(|sets| &sets.0, &args(byte)).unwrap();
        graph.refresh(|sets| &sets.1, &workspace).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(logged(rig, &stream, &data), [1, 2, 3, 4]);
    assert_eq!(logged(rig, &stream, &counts), [0; 4]);
    assert_eq!(logged(rig, &stream, &alone), [0; 4]);
    assert_eq!(graph.sets().0.fetch(&graph.sets().0.counts).unwrap(), [9; 32]);
    // Free again, they are zeroed for whoever comes next.
    drop(graph);
    let (dev, workspace) = (args(7).upload(&cache).unwrap(), workspace.upload(&cache).unwrap());
    assert_eq!(dev.fetch(&dev.counts).unwrap(), [0; 32]);
    assert_eq!(workspace.fetch(&workspace.bytes).unwrap(), [0; 32]);
    assert_eq!(cache.stats().allocations, 2);
}

fn a_cold_cache_is_an_error_and_the_capture_stays_valid<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 3, false);
    let outside = bytes(4, 64).upload(&stream).unwrap();
    let pointer = outside.data.pointer();
    let graph = cache
        .capture(|stream| {
            rig.append(stream, pointer, &log);
            for _ in 0..3 {
                let error = bytes(1, 64).upload(&cache).unwrap_err();
                assert_eq!(*error.kind(), ErrorKind::NotReserved { needed: 64 });
                assert!(error.to_string().contains("`reserve`"), "{error}");
            }
            Ok(())
        })
        .unwrap();
    graph.launch().unwrap();
    // What is held is not free.
    let held = bytes(1, 64).upload(&cache).unwrap();
    let refused = cache.capture(|_| bytes(1, 64).upload(&cache));
    assert_eq!(*refused.unwrap_err().kind(), ErrorKind::NotReserved { needed: 64 });
    cache.reserve(&held.layout()).unwrap();
    let graph = captured(rig, &cache, 5, 64, &log);
    graph.launch().unwrap();
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [4, 5, 5]);
    assert_eq!(held.read_back().unwrap(), [1; 64]);
}

fn an_upload_beside_copies_in_flight_is_captured<R: Rig>(rig: &R) {
    for len in SIZES {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        let log = rig.log(&stream, len, 1, false);
        drop(bytes(0, len).upload(&cache).unwrap());
        let snapshots: Vec<_> = {
            let _busy = rig.block(&stream);
            // All of the staging that there is, in flight.
            let snapshots = (1..20).map(|byte| {
                let dev = bytes(byte, len).upload(&cache).unwrap();
                (byte, rig.snapshot(&stream, dev.data.pointer(), len))
            });
            let snapshots = snapshots.collect();
            let graph = captured(rig, &cache, 0x77, len, &log);
            graph.launch().unwrap();
            snapshots
        };
        for (byte, snapshot) in snapshots {
            assert_eq!(snapshot(), vec![byte; len]);
        }
        assert_eq!(logged(rig, &stream, &log), [0x77], "{len} bytes");
    }
}

fn what_was_only_captured_is_not_taken_for_sent<R: Rig>(rig: &R) {
    type B<R> = BackendOf<R>;
    for by_hand in [false, true] {
        let stream = rig.stream();
        let cache = ArgCache::new(&stream).unwrap();
        let args = bytes(0x5a, 1000);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let eager = if by_hand {
            B::<R>::begin_capture(&stream).unwrap();
            let captured = args.upload(&cache).unwrap();
            let graph = B::<R>::end_capture(&stream).unwrap();
            let eager = args.upload(&cache).unwrap();
            drop((captured, graph));
            eager
        } else {
            let graph = cache.capture(|_| args.upload(&cache)).unwrap();
            let eager = args.upload(&cache).unwrap();
            assert_ne!(graph.sets().base(), eager.base());
            drop(graph);
            eager
        };
        assert_eq!(rig.read_device(&stream, eager.data.pointer(), 1000), [0x5a; 1000]);
        // The block of the graph is free now, and nobody knows what stands in it.
        let other = bytes(0x5b, 1000).upload(&cache).unwrap();
        let again = args.upload(&cache).unwrap();
        assert_eq!(rig.read_device(&stream, other.data.pointer(), 1000), [0x5b; 1000]);
        assert_eq!(rig.read_device(&stream, again.data.pointer(), 1000), [0x5a; 1000]);
    }
}

fn a_one_shot_upload_in_a_capture_is_refused<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 1, false);
    let args = bytes(3, 64);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache
        .capture(|stream| {
            let error = args.upload(stream).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Capturing { needed: 64 });
            assert!(error.to_string().contains("ArgCache"), "{error}");
            // Without bytes there is nothing to allocate.
            assert!(bytes(0, 0).upload(stream)?.data.is_empty());
            assert!(bytes(0, 0).upload(&cache)?.data.is_empty());
            let dev = args.upload(&cache)?;
            rig.append(stream, dev.data.pointer(), &log);
            Ok(dev)
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [3]);
}

fn what_is_dropped_during_a_capture_goes_after_it<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let doomed = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 256, 2, false);
    let args = bytes(6, 256);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let one_shot = bytes(1, 1 << 20).upload(&stream).unwrap();
    let (held, cleared) = (bytes(2, 5000).upload(&doomed).unwrap(), bytes(3, 9000).upload(&cache).unwrap());
    let mut dropped = Some((one_shot, held, doomed, cleared));
    let graph = cache
        .capture(|stream| {
            let dev = args.upload(&cache)?;
            drop(dropped.take());
            cache.clear();
            rig.append(stream, dev.data.pointer(), &log);
            Ok(dev)
        })
        .unwrap();
    graph.launch().unwrap();
    graph.refresh(|dev| dev, &bytes(7, 256)).unwrap();
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [6, 7]);
    drop(bytes(1, 64).upload(&cache).unwrap());
}

fn a_capture_that_fails_leaves_the_cache_as_it_was<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 1, false);
    let args = bytes(3, 64);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let taken = cache.stats().device_bytes;

    let refused = cache.capture(|_| {
        let dev = args.upload(&cache)?;
        drop(bytes(1, 65).upload(&cache)?);
        Ok(dev)
    });
    assert_eq!(*refused.unwrap_err().kind(), ErrorKind::NotReserved { needed: 80 });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.capture(|_| -> Result<(), Error> {
            let _dev = args.upload(&cache)?;
            std::panic::resume_unwind(Box::new("in a capture"));
        })
    }));
    assert!(panicked.is_err());

    assert_eq!(cache.stats().device_bytes, taken);
    assert_eq!(rig.read_device(&stream, args.upload(&cache).unwrap().data.pointer(), 64), [3; 64]);
    let graph = captured(rig, &cache, 4, 64, &log);
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [4]);
    assert_eq!(cache.stats().allocations, 1);
}

/// A graph that is alive, and what its log has to hold.
struct Live<R: Rig> {
    graph: Graph<R>,
    log: R::Log,
    len: usize,
    current: u8,
    expected: Vec<u8>,
}

fn graphs_and_eager_uploads_share_a_cache<R: Rig>(rig: &R) {
    const LENS: [usize; 3] = [64, 3000, 70_000];
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    // A fixed sequence of draws: the steps are many, and the same in every run.
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut graphs: Vec<Live<R>> = Vec::new();
    let mut held = Vec::new();
    let mut snapshots = Vec::new();
    for step in 0..600 {
        let (byte, len) = (byte_of(step), LENS[draw(3)]);
        match draw(8) {
            0 if graphs.len() < 5 => {
                let log = rig.log(&stream, len, 600, step % 2 == 0);
                let graph = captured(rig, &cache, byte, len, &log);
                graphs.push(Live { graph, log, len, current: byte, expected: Vec::new() });
            }
            1 | 2 if !graphs.is_empty() => {
                let index = draw(graphs.len());
                let live = &mut graphs[index];
                live.graph.refresh(|dev| dev, &bytes(byte, live.len)).unwrap();
                live.current = byte;
            }
            3 | 4 if !graphs.is_empty() => {
                let index = draw(graphs.len());
                let live = &mut graphs[index];
                live.graph.launch().unwrap();
                live.expected.push(live.current);
            }
            5 if graphs.len() > 3 => {
                let Live { graph, log, expected, .. } = graphs.remove(draw(graphs.len()));
                drop(graph);
                drop(bytes(byte, len).upload(&cache).unwrap());
                assert_eq!(logged(rig, &stream, &log), expected);
            }
            6 => held.push((bytes(byte, len).upload(&cache).unwrap(), byte, len)),
            7 if !held.is_empty() => {
                let (set, byte, len) = held.swap_remove(draw(held.len()));
                snapshots.push((rig.snapshot(&stream, set.data.pointer(), len), byte, len));
            }
            _ => {
                let set = bytes(byte, len).upload(&cache).unwrap();
                snapshots.push((rig.snapshot(&stream, set.data.pointer(), len), byte, len));
            }
        }
    }
    for (snapshot, byte, len) in snapshots {
        assert_eq!(snapshot(), vec![byte; len]);
    }
    for (set, byte, len) in held {
        assert_eq!(rig.read_device(&stream, set.data.pointer(), len), vec![byte; len]);
    }
    assert!(graphs.len() >= 3);
    for mut live in graphs {
        live.graph.launch().unwrap();
        live.expected.push(live.current);
        assert_eq!(logged(rig, &stream, &live.log), live.expected);
    }
}

fn a_graph_that_goes_returns_its_memory<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 4096, 300, true);
    let mut expected = Vec::new();
    for round in 0..100 {
        let graph = captured(rig, &cache, byte_of(round), 4096, &log);
        graph.launch().unwrap();
        graph.refresh(|dev| dev, &bytes(byte_of(round + 1), 4096)).unwrap();
        graph.launch().unwrap();
        expected.extend([byte_of(round), byte_of(round + 1)]);
        // Under way still.
        drop(graph);
        let eager = bytes(byte_of(round + 2), 4096).upload(&cache).unwrap();
        rig.append(&stream, eager.data.pointer(), &log);
        expected.push(byte_of(round + 2));
    }
    assert_eq!(logged(rig, &stream, &log), expected);
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.device_bytes), (1, 4096), "{stats:?}");
}

fn captured_blocks_count_and_never_go<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let options = CacheOptions { device_bytes: 10_000, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let log = rig.log(&stream, 4000, 1, false);
    let graph = captured(rig, &cache, 1, 4000, &log);
    assert_eq!(cache.stats().device_bytes, 4000);
    for len in 4001..4100 {
        drop(bytes(2, len).upload(&cache).unwrap());
    }
    assert!(cache.stats().device_bytes <= 10_000);
    let error = bytes(2, 6016).upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheFull { needed: 6016, available: 6000 });
    graph.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [1]);
    drop(graph);
    drop(bytes(2, 6016).upload(&cache).unwrap());
    let stats = cache.stats();
    assert!(stats.device_bytes <= 10_000, "{stats:?}");
    cache.clear();
    assert_eq!((cache.stats().device_bytes, cache.stats().staging_bytes), (0, 0));
}

fn everything_but_the_graph_may_go_before_it<R: Rig>(rig: &R) {
    for order in permutations(&[0, 1, 2]) {
        let stream = rig.stream();
        // A handle of the test's own, to look at the log with.
        let look = stream.clone();
        let log = rig.log(&look, 512, 8, false);
        let cache = ArgCache::new(&stream).unwrap();
        let args = bytes(1, 512);
        cache.reserve(&args.layout().unwrap()).unwrap();
        let mut set = None;
        let graph = cache
            .capture(|stream| {
                let dev = args.upload(&cache)?;
                rig.append(stream, dev.data.pointer(), &log);
                set = Some(dev);
                Ok(())
            })
            .unwrap();
        let (mut stream, mut cache) = (Some(stream), Some(cache));
        for handle in order {
            match handle {
                0 => drop(stream.take()),
                1 => drop(cache.take()),
                _ => drop(set.take()),
            }
            graph.launch().unwrap();
        }
        // What was let go too early is overwritten.
        let scribble = bytes(0xee, 512).upload(&look).unwrap();
        graph.launch().unwrap();
        assert_eq!(logged(rig, &look, &log), [1; 4]);
        drop(scribble);
    }
    // With the set in the graph, which can be refreshed when all else is gone.
    let stream = rig.stream();
    let log = rig.log(&stream, 512, 3, false);
    let cache = ArgCache::new(&stream).unwrap();
    let graph = captured(rig, &cache, 1, 512, &log);
    drop(cache);
    graph.launch().unwrap();
    for byte in 2..4 {
        graph.refresh(|dev| dev, &bytes(byte, 512)).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(logged(rig, &stream, &log), [1, 2, 3]);
}

fn a_graph_of_the_users_own_keeps_what_it_reads<R: Rig>(rig: &R) {
    type B<R> = BackendOf<R>;
    for order in permutations(&[0, 1, 2]) {
        let stream = rig.stream();
        let log = rig.log(&stream, 4096, 5, true);
        let cache = ArgCache::new(&stream).unwrap();
        let args = bytes(0x21, 4096);
        cache.reserve(&args.layout().unwrap()).unwrap();
        B::<R>::begin_capture(&stream).unwrap();
        let set = args.upload(&cache).unwrap();
        rig.append(&stream, set.data.pointer(), &log);
        let mut graph = B::<R>::end_capture(&stream).unwrap();
        B::<R>::launch(&stream, &mut graph).unwrap();
        let (mut cache, mut set, mut graph) = (Some(cache), Some(set), Some(graph));
        let mut launches = 1;
        for handle in order {
            match handle {
                0 => drop(cache.take()),
                1 => drop(set.take()),
                _ => drop(graph.take()),
            }
            if let Some(graph) = &mut graph {
                // Of what was let go too early, this overwrites the block, the staging, or both.
                let scribbles = ArgCache::new(&stream).unwrap();
                drop(bytes(0xee, 4096).upload(&scribbles).unwrap());
                B::<R>::launch(&stream, graph).unwrap();
                launches += 1;
            }
        }
        assert_eq!(logged(rig, &stream, &log), vec![0x21; launches]);
    }
}

fn calls_that_have_no_place_in_a_capture_are_refused<R: Rig>(rig: &R) {
    let (stream, other) = (rig.stream(), rig.stream());
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 2, false);
    let first = captured(rig, &cache, 1, 64, &log);
    let args = bytes(2, 64);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache.capture(|stream| {
        let dev = args.upload(&cache)?;
        let refusals = [
            first.launch().unwrap_err(),
            first.refresh(|dev| dev, &bytes(9, 64)).unwrap_err(),
            cache.capture(|_| Ok(())).unwrap_err(),
            dev.on(&other).map(drop).unwrap_err(),
        ];
        for refusal in refusals {
            assert!(matches!(refusal.kind(), ErrorKind::NotInCapture { .. }), "{refusal}");
        }
        let refusal = cache.reserve(&bytes(0, 4097).layout()?).unwrap_err();
        assert!(matches!(refusal.kind(), ErrorKind::NotInCapture { .. }), "{refusal}");
        dev.read_back().unwrap_err();
        rig.append(stream, dev.data.pointer(), &log);
        Ok(dev)
    });
    let graph = graph.unwrap();
    graph.launch().unwrap();
    first.launch().unwrap();
    assert_eq!(logged(rig, &stream, &log), [2, 1]);
}

fn a_set_that_is_lent_may_come_back_in_a_capture<R: Rig>(rig: &R) {
    let (stream, other) = (rig.stream(), rig.stream());
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 64, 1, false);
    let args = bytes(2, 64);
    cache.reserve_sets(&args.layout().unwrap(), 2).unwrap();
    let lent = bytes(1, 64).upload(&cache).unwrap();
    let on_other = lent.on(&other).unwrap();
    let snapshot = rig.snapshot(&other, on_other.data.pointer(), 64);
    let mut on_other = Some(on_other);
    let graph = cache
        .capture(|stream| {
            let dev = args.upload(&cache)?;
            rig.append(stream, dev.data.pointer(), &log);
            drop(on_other.take());
            Ok(dev)
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(snapshot(), [1; 64]);
    assert_eq!(logged(rig, &stream, &log), [2]);
    // It came back: the block is written again.
    let base = lent.base();
    drop(on_other);
    drop(lent);
    assert_eq!(bytes(3, 64).upload(&cache).unwrap().base(), base);
}

fn a_graph_may_be_used_from_several_threads<R: Rig>(rig: &R) {
    const EACH: usize = 100;
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = rig.log(&stream, 256, 4 * EACH, false);
    let graph = captured(rig, &cache, 200, 256, &log);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (graph, cache) = (&graph, &cache);
            scope.spawn(move || {
                for i in 0..EACH {
                    if i % 2 == 0 {
                        graph.refresh(|dev| dev, &bytes(thread, 256)).unwrap();
                    }
                    graph.launch().unwrap();
                    drop(bytes(thread + 10, 256).upload(cache).unwrap());
                }
            });
        }
    });
    let seen = logged(rig, &stream, &log);
    assert_eq!(seen.len(), 4 * EACH);
    assert!(seen.iter().all(|&byte| byte < 4), "an eager upload's bytes in a replay");
}
