//! Uploads in graphs: what only counters, the journal, injected failures and a counting allocator show.

use marshal::backend::Backend;
use marshal::host::{Call, Counters, Host, HostDevice, HostStream, Op};
use marshal::{ArgCache, CapturedGraph, DeviceArgs, Error, ErrorKind, Uploaded, WhenExhausted};

use crate::cases::Rig;
use crate::heap::ALLOCATIONS;
use crate::rig::{HostLog, HostRig};

pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_refreshed_replay_is_one_copy_and_no_allocation", a_refreshed_replay_is_one_copy_and_no_allocation),
    ("a_captured_upload_makes_no_call_but_the_copy", a_captured_upload_makes_no_call_but_the_copy),
    ("every_call_may_fail_once_at_every_point", every_call_may_fail_once_at_every_point),
    ("a_failure_leaves_the_next_replay_as_it_was", a_failure_leaves_the_next_replay_as_it_was),
    ("nothing_is_left_whatever_goes_last", nothing_is_left_whatever_goes_last),
    ("exhausted_staging_refuses_a_refresh_and_keeps_the_last", exhausted_staging_refuses_a_refresh_and_keeps_the_last),
    ("a_graph_may_go_in_a_walk", a_graph_may_go_in_a_walk),
    ("reserving_for_several_sets_holds_the_cap", reserving_for_several_sets_holds_the_cap),
    ("a_panic_in_a_refresh_changes_nothing", a_panic_in_a_refresh_changes_nothing),
    ("a_finished_graph_of_the_users_own_makes_room", a_finished_graph_of_the_users_own_makes_room),
    ("graphs_leave_each_other_a_region", graphs_leave_each_other_a_region),
    ("a_walk_that_uses_its_graph_is_refused", a_walk_that_uses_its_graph_is_refused),
    ("a_lent_set_is_not_launched_over", a_lent_set_is_not_launched_over),
    ("graphs_without_a_cache_go_one_by_one", graphs_without_a_cache_go_one_by_one),
    ("a_capture_that_its_closure_ends_keeps_what_it_reads", a_capture_that_its_closure_ends_keeps_what_it_reads),
];

#[derive(DeviceArgs)]
struct Args {
    values: Vec<u64>,
}

fn args(value: u64) -> Args {
    Args { values: vec![value; 100] }
}

type Graph = CapturedGraph<Uploaded<ArgsPointers, Host>, Host>;

fn log_of(rig: &HostRig, stream: &HostStream) -> HostLog {
    rig.log(stream, 8, 1000, false)
}

fn capture(rig: &HostRig, cache: &ArgCache<Host>, value: u64, log: &HostLog) -> Result<Graph, Error> {
    let args = args(value);
    cache.reserve(&args.layout()?)?;
    cache.capture(|stream| {
        let dev = args.upload(cache)?;
        rig.append(stream, dev.base(), log);
        Ok(dev)
    })
}

fn logged(rig: &HostRig, stream: &HostStream, log: &HostLog) -> Vec<u64> {
    let entries = rig.read_log(stream, log);
    entries.into_iter().map(|entry| u64::from_le_bytes(entry.try_into().unwrap())).collect()
}

fn a_refreshed_replay_is_one_copy_and_no_allocation() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = args(0);
    cache.reserve(&args.layout().unwrap()).unwrap();
    // No kernel: those of a test allocate.
    let graph = cache.capture(|_| args.upload(&cache)).unwrap();
    let round = |value: u64| {
        let args = Args { values: vec![value; 100] };
        let heap = ALLOCATIONS.get();
        graph.refresh(|dev| dev, &args).unwrap();
        graph.launch().unwrap();
        // Every third is launched again: the bytes move over.
        if value.is_multiple_of(3) {
            graph.launch().unwrap();
        }
        ALLOCATIONS.get() - heap
    };
    for value in 1..300 {
        round(value);
        stream.synchronize().unwrap();
    }
    let (before, entered) = (rig.device.counters(), rig.device.journal().len());
    let mut heap = 0;
    for value in 1000..1900 {
        heap += round(value);
        stream.synchronize().unwrap();
    }
    let after = rig.device.counters();
    assert_eq!((after.copies - before.copies, after.copied_bytes - before.copied_bytes), (1200, 1200 * 800));
    let allocations = |c: &Counters| [c.device_allocs, c.device_frees, c.host_allocs, c.host_frees];
    assert_eq!(allocations(&after), allocations(&before));
    assert_eq!(after.synchronizes - before.synchronizes, 900, "only the test's own");
    // A fence each half of a ring of 64, and a question each time it is needed.
    assert!(after.events - before.events <= 1200 / 32 + 1, "{} events", after.events - before.events);
    assert!(after.queries - before.queries <= 1200 / 32 + 1, "{} queries", after.queries - before.queries);
    // The host backend's own launch keeps a list of the graph's work: an allocation each, and no other.
    assert_eq!(heap, 1200, "heap allocations in 900 refreshes and 1200 launches");
    for op in &rig.device.journal()[entered..] {
        assert!(
            matches!(op, Op::Copy { .. } | Op::Synchronize { .. } | Op::EventRecord { .. } | Op::EventQuery { .. }),
            "{op:?}"
        );
    }
}

fn a_captured_upload_makes_no_call_but_the_copy() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let busy = rig.block(&stream);
    for value in 0..200 {
        drop(args(value).upload(&cache).unwrap());
    }
    cache.reserve(&args(0).layout().unwrap()).unwrap();
    // As others capture, who do not use `ArgCache::capture`.
    let before = (rig.device.counters(), rig.device.journal().len());
    stream.begin_capture().unwrap();
    let dev = args(7).upload(&cache).unwrap();
    assert_eq!((rig.device.counters(), rig.device.journal().len()), before);
    let graph = stream.end_capture().unwrap();
    let nodes = graph.nodes();
    let [Op::Copy { destination, size_bytes: 800, .. }] = nodes[..] else { panic!("{nodes:?}") };
    assert_eq!(destination, dev.base().address());
    graph.launch(&stream).unwrap();
    drop(busy);
    let snapshot = rig.snapshot(&stream, dev.base(), 8);
    assert_eq!(snapshot(), 7_u64.to_le_bytes());
}

/// What is tried under a failure. What was launched, by value, goes to `launched`.
fn scenario(rig: &HostRig, cache: &ArgCache<Host>, log: &HostLog, launched: &mut Vec<u64>) -> Result<(), Error> {
    let mut launch = |graph: &Graph, value: u64| -> Result<(), Error> {
        graph.launch()?;
        launched.push(value);
        Ok(())
    };
    let graph = capture(rig, cache, 1, log)?;
    launch(&graph, 1)?;
    for value in 2..80 {
        graph.refresh(|dev| dev, &args(value))?;
        launch(&graph, value)?;
        if value % 5 == 0 {
            launch(&graph, value)?;
            drop(args(1000 + value).upload(cache)?);
        }
    }
    let second = capture(rig, cache, 90, log)?;
    drop(graph);
    launch(&second, 90)?;
    Ok(())
}

fn every_call_may_fail_once_at_every_point() {
    for call in [
        Call::DeviceAlloc,
        Call::HostAlloc,
        Call::Copy,
        Call::Launch,
        Call::EventCreate,
        Call::EventRecord,
        Call::EventQuery,
        Call::CaptureQuery,
        Call::CaptureBegin,
        Call::CaptureEnd,
    ] {
        let mut failures = 0;
        for nth in 1..240 {
            let rig = HostRig { device: HostDevice::new() };
            let stream = rig.stream();
            let cache = ArgCache::new(&stream).unwrap();
            let log = log_of(&rig, &stream);
            rig.device.fail(call, nth);
            let mut launched = Vec::new();
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(&rig, &cache, &log, &mut launched)));
            // The rig's own kernel launch, in the capture, says so by a panic: one more way out of a capture.
            let Ok(outcome) = outcome else {
                assert_eq!(call, Call::Launch);
                failures += 1;
                assert!(!stream.is_capturing());
                continue;
            };
            if let Err(error) = &outcome {
                failures += 1;
                assert!(error.to_string().contains("failed"), "{error}");
            }
            assert!(!stream.is_capturing(), "{call:?} {nth}");
            assert_eq!(logged(&rig, &stream, &log), launched, "{call:?} {nth}");
            // The next operations are right, whatever failed. The call may be still to come that fails.
            let mut may_fail = outcome.is_ok();
            let mut again = |tried: &mut dyn FnMut() -> Result<(), Error>| {
                tried().or_else(|error| {
                    assert!(core::mem::take(&mut may_fail), "{call:?} {nth}: {error}");
                    tried()
                })
            };
            if call != Call::Launch {
                let mut graph = None;
                again(&mut || {
                    graph = Some(capture(&rig, &cache, 7, &log)?);
                    Ok(())
                })
                .unwrap();
                let graph = graph.unwrap();
                for value in 500..560 {
                    again(&mut || graph.refresh(|dev| dev, &args(value))).unwrap();
                    again(&mut || graph.launch()).unwrap();
                    launched.push(value);
                }
                assert_eq!(logged(&rig, &stream, &log), launched, "{call:?} {nth}");
            }
            drop(cache);
            stream.synchronize().unwrap();
            let counters = rig.device.counters();
            assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0), "{call:?} {nth}");
            if outcome.is_ok() {
                break;
            }
        }
        // An event that is not recorded in time is recorded later: no call fails for it.
        assert!(failures > 0 || matches!(call, Call::EventCreate | Call::EventRecord | Call::EventQuery), "{call:?}");
    }
}

fn a_failure_leaves_the_next_replay_as_it_was() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 1, &log).unwrap();
    graph.launch().unwrap();
    // The first refresh points the graph at its region by a call; the next one finds it pointed there already.
    rig.device.fail(Call::Copy, 1);
    graph.refresh(|dev| dev, &args(2)).unwrap_err();
    graph.launch().unwrap();
    graph.refresh(|dev| dev, &args(3)).unwrap();
    // The launch goes, what it does ahead does not.
    rig.device.fail(Call::Copy, 1);
    graph.launch().unwrap();
    graph.refresh(|dev| dev, &args(4)).unwrap();
    rig.device.fail(Call::Launch, 1);
    graph.launch().unwrap_err();
    graph.launch().unwrap();
    assert_eq!(logged(&rig, &stream, &log), [1, 1, 3, 4]);

    /// Says more in the walk that packs than in the one that measures.
    struct Growing(std::cell::Cell<usize>);
    impl DeviceArgs for Growing {
        type Pointers = ArgsPointers;
        fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<ArgsPointers, Error> {
            self.0.set(self.0.get() + 1);
            let len = if self.0.get() > 1 { 101 } else { 100 };
            Args { values: vec![9; len] }.walk(visitor)
        }
    }
    for _ in 0..2 {
        let error = graph.refresh(|dev| dev, &Growing(std::cell::Cell::new(0))).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Changed { column: "values", .. }), "{error}");
        graph.launch().unwrap();
    }
    graph.refresh(|dev| dev, &args(5)).unwrap();
    graph.launch().unwrap();
    assert_eq!(logged(&rig, &stream, &log)[4..], [4, 4, 5]);
}

fn nothing_is_left_whatever_goes_last() {
    for order in crate::cases::permutations(&[0, 1, 2, 3]) {
        for by_hand in [false, true] {
            let device = HostDevice::new();
            let rig = HostRig { device: device.clone() };
            let stream = rig.stream();
            let cache = ArgCache::new(&stream).unwrap();
            cache.reserve(&args(0).layout().unwrap()).unwrap();
            let (mut set, mut by_cache, mut raw) = (None, None, None);
            if by_hand {
                stream.begin_capture().unwrap();
                set = Some(args(1).upload(&cache).unwrap());
                raw = Some(stream.end_capture().unwrap());
            } else {
                let graph = cache.capture(|_| {
                    set = Some(args(1).upload(&cache)?);
                    Ok(())
                });
                by_cache = Some(graph.unwrap());
            }
            let launch = |by_cache: &Option<CapturedGraph<(), Host>>, raw: &Option<marshal::host::HostGraph>| {
                if let Some(graph) = by_cache {
                    graph.launch().unwrap();
                }
                raw.is_some()
            };
            let look = stream.clone();
            let (mut stream, mut cache) = (Some(stream), Some(cache));
            for handle in &order {
                if launch(&by_cache, &raw)
                    && let Some(graph) = &raw
                {
                    graph.launch(&look).unwrap();
                }
                match handle {
                    0 => drop(stream.take()),
                    1 => drop(cache.take()),
                    2 => drop(set.take()),
                    // With a launch under way.
                    _ => drop((by_cache.take(), raw.take())),
                }
            }
            look.synchronize().unwrap();
            let counters = device.counters();
            assert_eq!(
                (counters.live_device_blocks, counters.live_host_blocks),
                (0, 0),
                "{order:?}, by hand {by_hand}"
            );
        }
    }
}

fn exhausted_staging_refuses_a_refresh_and_keeps_the_last() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let options = marshal::CacheOptions { when_exhausted: WhenExhausted::Error, ..Default::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 0, &log).unwrap();
    let busy = rig.block(&stream);
    let mut expected = Vec::new();
    let refused = (1..200).find(|&value| match graph.refresh(|dev| dev, &args(value)) {
        Ok(()) => {
            graph.launch().unwrap();
            expected.push(value);
            false
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::StagingExhausted { .. }), "{error}");
            true
        }
    });
    assert!(refused.is_some_and(|value| value > 10), "{refused:?}");
    graph.launch().unwrap();
    expected.push(refused.unwrap() - 1);
    drop(busy);
    stream.synchronize().unwrap();
    graph.refresh(|dev| dev, &args(777)).unwrap();
    graph.launch().unwrap();
    expected.push(777);
    assert_eq!(logged(&rig, &stream, &log), expected);
}

fn a_graph_may_go_in_a_walk() {
    /// Drops a graph of the cache while it is walked over, under that cache's lock.
    struct Dropping(std::cell::RefCell<Option<Graph>>);
    impl DeviceArgs for Dropping {
        type Pointers = ArgsPointers;
        fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<ArgsPointers, Error> {
            drop(self.0.take());
            args(3).walk(visitor)
        }
    }
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 1, &log).unwrap();
    graph.launch().unwrap();
    let dev = Dropping(std::cell::RefCell::new(Some(graph))).upload(&cache).unwrap();
    assert_eq!(dev.read_back().unwrap()[..8], 3_u64.to_le_bytes());
    let again = args(4).upload(&cache).unwrap();
    assert_eq!(again.read_back().unwrap()[..8], 4_u64.to_le_bytes());
    // The graph's block was found again.
    assert_eq!(cache.stats().device_bytes, 1600);
    assert_eq!(logged(&rig, &stream, &log), [1]);
}

fn reserving_for_several_sets_holds_the_cap() {
    let stream = HostDevice::new().stream();
    let options = marshal::CacheOptions { device_bytes: 3000, ..Default::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let layout = args(0).layout().unwrap();
    cache.reserve_sets(&layout, 3).unwrap();
    assert_eq!(cache.stats().allocations, 3);
    cache.reserve_sets(&layout, 3).unwrap();
    cache.reserve(&layout).unwrap();
    assert_eq!(cache.stats().allocations, 3);
    let error = cache.reserve_sets(&layout, 4).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheFull { needed: 3200, available: 3000 });
    assert!(cache.stats().device_bytes <= 3000);
    let mut graph = Host::begin_capture(&stream).and_then(|()| {
        drop(args(1).upload(&cache)?);
        Host::end_capture(&stream)
    });
    Host::launch(&stream, graph.as_mut().unwrap()).unwrap();
    stream.synchronize().unwrap();
}

/// Walks as `args(value)` does, and calls `then` before each walk, with its number.
struct Watched<F>(u64, std::cell::Cell<u32>, F);

impl<F: Fn(u32)> Watched<F> {
    fn new(value: u64, then: F) -> Self {
        Self(value, std::cell::Cell::new(0), then)
    }
}

impl<F: Fn(u32)> DeviceArgs for Watched<F> {
    type Pointers = ArgsPointers;
    fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<ArgsPointers, Error> {
        self.1.set(self.1.get() + 1);
        (self.2)(self.1.get());
        args(self.0).walk(visitor)
    }
}

fn a_panic_in_a_refresh_changes_nothing() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 1, &log).unwrap();
    graph.launch().unwrap();
    // With and without a region that the graph is pointed at ahead.
    for value in [2, 3] {
        let panicking = Watched::new(9, |walk| {
            if walk == 2 {
                std::panic::resume_unwind(Box::new("in the walk that packs"));
            }
        });
        let refreshed = std::panic::AssertUnwindSafe(|| graph.refresh(|dev| dev, &panicking));
        assert!(std::panic::catch_unwind(refreshed).is_err());
        graph.launch().unwrap();
        graph.refresh(|dev| dev, &args(value)).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(logged(&rig, &stream, &log), [1, 1, 2, 2, 3]);
    drop((graph, cache));
    stream.synchronize().unwrap();
    assert_eq!(rig.device.counters().live_host_blocks, 0);
}

fn a_finished_graph_of_the_users_own_makes_room() {
    let stream = HostDevice::new().stream();
    let options = marshal::CacheOptions { device_bytes: 800, ..Default::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for value in 0..5 {
        cache.reserve(&args(0).layout().unwrap()).unwrap();
        stream.begin_capture().unwrap();
        drop(args(value).upload(&cache).unwrap());
        let graph = stream.end_capture().unwrap();
        graph.launch(&stream).unwrap();
        drop(graph);
        // Waits for the work by other means than the stream's own.
        stream.record().unwrap().synchronize().unwrap();
    }
    drop(args(9).upload(&cache).unwrap());
}

fn graphs_leave_each_other_a_region() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    // 800 bytes in regions of 1024: one for each graph, and one in turn.
    let options = marshal::CacheOptions { staging_bytes: 3 * 1024, ..Default::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let logs = [log_of(&rig, &stream), log_of(&rig, &stream)];
    let graphs = [capture(&rig, &cache, 0, &logs[0]).unwrap(), capture(&rig, &cache, 0, &logs[1]).unwrap()];
    for value in 1..50 {
        for graph in &graphs {
            graph.refresh(|dev| dev, &args(value)).unwrap();
            graph.launch().unwrap();
        }
    }
    for log in &logs {
        assert_eq!(logged(&rig, &stream, log), (1..50).collect::<Vec<_>>());
    }
}

fn a_walk_that_uses_its_graph_is_refused() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 1, &log).unwrap();
    let launching = Watched::new(2, |_| {
        assert_eq!(*graph.launch().unwrap_err().kind(), ErrorKind::Reentrant);
        assert_eq!(*graph.refresh(|dev| dev, &args(3)).unwrap_err().kind(), ErrorKind::Reentrant);
    });
    graph.refresh(|dev| dev, &launching).unwrap();
    // The first walk of an upload is not under the lock yet.
    let uploaded = Watched::new(4, |walk| {
        if walk > 1 {
            assert_eq!(*graph.launch().unwrap_err().kind(), ErrorKind::Reentrant);
        }
    });
    drop(uploaded.upload(&cache).unwrap());
    graph.launch().unwrap();
    assert_eq!(logged(&rig, &stream, &log), [2]);
}

fn a_lent_set_is_not_launched_over() {
    let rig = HostRig { device: HostDevice::new() };
    let (stream, other) = (rig.stream(), rig.stream());
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let graph = capture(&rig, &cache, 1, &log).unwrap();
    graph.launch().unwrap();
    let lent = graph.sets().on(&other).unwrap();
    let seen = rig.snapshot(&other, graph.sets().base(), 8);
    graph.refresh(|dev| dev, &args(2)).unwrap();
    assert_eq!(*graph.launch().unwrap_err().kind(), ErrorKind::StillLent);
    drop(lent);
    graph.launch().unwrap();
    assert_eq!(seen(), 1_u64.to_le_bytes());
    assert_eq!(logged(&rig, &stream, &log), [1, 2]);
}

fn graphs_without_a_cache_go_one_by_one() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    let mut graphs: Vec<_> = (0..4).map(|value| capture(&rig, &cache, value, &log).unwrap()).collect();
    drop(cache);
    for left in (0..4).rev() {
        graphs.pop();
        assert_eq!(rig.device.counters().live_device_blocks, left);
        graphs.iter().for_each(|graph| graph.launch().unwrap());
    }
    assert_eq!(logged(&rig, &stream, &log), [0, 1, 2, 0, 1, 0]);
}

fn a_capture_that_its_closure_ends_keeps_what_it_reads() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let log = log_of(&rig, &stream);
    cache.reserve(&args(0).layout().unwrap()).unwrap();
    let mut stolen = None;
    let ended = cache.capture(|stream| {
        let dev = args(5).upload(&cache)?;
        rig.append(stream, dev.base(), &log);
        stolen = Some(stream.end_capture()?);
        Ok(())
    });
    ended.unwrap_err();
    for value in 0..200 {
        drop(args(value).upload(&cache).unwrap());
    }
    stolen.unwrap().launch(&stream).unwrap();
    assert_eq!(logged(&rig, &stream, &log), [5]);
}
