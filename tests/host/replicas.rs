//! The same arguments for several devices.

use std::sync::Arc;

use marshal::backend::Backend;
use marshal::host::{Call, Host, HostDevice, HostOptions, HostStream};
use marshal::{
    ArgCache, ColumnSpec, Content, CopyBatch, CopyStaging, DeviceArgs, DevicePointer, Error, ErrorKind, Scratch,
    Uploaded, Visitor, upload_each,
};

use crate::cases::permutations;
use crate::heap::ALLOCATIONS;

pub(crate) const ALL: &[(&str, fn())] = &[
    ("each_set_is_on_its_own_device", each_set_is_on_its_own_device),
    (
        "sets_of_other_lengths_are_refused_before_any_device_is_touched",
        sets_of_other_lengths_are_refused_before_any_device_is_touched,
    ),
    ("sets_that_differ_in_a_name_or_a_purpose_are_refused", sets_that_differ_in_a_name_or_a_purpose_are_refused),
    ("each_set_needs_a_cache_of_its_own", each_set_needs_a_cache_of_its_own),
    (
        "a_call_that_fails_on_one_device_leaves_both_as_they_were",
        a_call_that_fails_on_one_device_leaves_both_as_they_were,
    ),
    ("arguments_that_refuse_are_named_by_their_set", arguments_that_refuse_are_named_by_their_set),
    ("a_warm_call_allocates_its_vector_alone", a_warm_call_allocates_its_vector_alone),
    ("held_sets_on_both_devices_never_go_stale", held_sets_on_both_devices_never_go_stale),
    ("replicas_may_go_in_every_order", replicas_may_go_in_every_order),
    ("replicas_are_captured_into_a_graph_on_each_device", replicas_are_captured_into_a_graph_on_each_device),
    (
        "a_device_without_reserved_memory_leaves_both_captures_valid",
        a_device_without_reserved_memory_leaves_both_captures_valid,
    ),
    (
        "caches_of_one_device_and_one_cache_twice_are_caches_too",
        caches_of_one_device_and_one_cache_twice_are_caches_too,
    ),
    ("any_number_of_devices_shares_one_layout", any_number_of_devices_shares_one_layout),
    ("threads_may_name_the_caches_in_any_order", threads_may_name_the_caches_in_any_order),
];

/// What a rank is given: its own pointers, everybody's sizes.
#[derive(DeviceArgs)]
struct Shard {
    m: Vec<u32>,
    weights: Vec<DevicePointer<f32>>,
    sums: Scratch<u32>,
}

const M: [u32; 3] = [7, 0, 9];

impl Shard {
    fn new(rank: u64, step: u64) -> Self {
        let weights =
            (1..=3).map(|i| DevicePointer::from_raw(0x7000_0000_0000 + (rank << 32) + (step << 16) + i * 256));
        Self { m: M.to_vec(), weights: weights.map(Option::unwrap).collect(), sums: Scratch::zeroed(2) }
    }

    /// The image: twelve bytes of sizes, four of padding, three addresses, and eight bytes of padding.
    fn image(rank: u64, step: u64) -> Vec<u8> {
        let mut image: Vec<u8> = [7_u32, 0, 9, 0].iter().flat_map(|m| m.to_le_bytes()).collect();
        let first = 0x7000_0000_0000_u64 + (rank << 32) + (step << 16);
        image.extend([first + 256, first + 512, first + 768, 0].iter().flat_map(|address| address.to_le_bytes()));
        image
    }
}

fn shards(step: u64) -> [Shard; 2] {
    [Shard::new(0, step), Shard::new(1, step)]
}

/// Two devices whose addresses cannot be mixed up, with a stream and a cache on each.
fn pair() -> ([HostDevice; 2], [HostStream; 2], [ArgCache<Host>; 2]) {
    let devices = [512, 4096 + 512]
        .map(|base_offset| HostDevice::with_options(HostOptions { base_offset, ..HostOptions::default() }));
    let streams = devices.each_ref().map(HostDevice::stream);
    let caches = streams.each_ref().map(|stream| ArgCache::new(stream).unwrap());
    (devices, streams, caches)
}

fn assert_no_leak(devices: &[HostDevice], streams: &[HostStream], what: &str) {
    for (device, stream) in devices.iter().zip(streams) {
        stream.synchronize().unwrap();
        let counters = device.counters();
        assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0), "{what}");
    }
}

/// The set, as a kernel on its own device reads it.
fn assert_holds(dev: &Uploaded<ShardPointers, Host>, stream: &HostStream, rank: u64, step: u64) {
    let pointers = **dev;
    stream
        .launch(move |memory| {
            assert_eq!(memory.read(pointers.m), M);
            assert_eq!(memory.read(pointers.weights), Shard::new(rank, step).weights);
            assert_eq!(memory.read(pointers.sums), [0, 0]);
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(dev.read_back().unwrap(), Shard::image(rank, step));
}

fn each_set_is_on_its_own_device() {
    let (devices, streams, caches) = pair();
    for step in 0..20 {
        let sets = upload_each(&shards(step), &caches).unwrap();
        assert_eq!(sets.len(), 2);
        for ((rank, dev), stream) in (0..).zip(&sets).zip(&streams) {
            assert_holds(dev, stream, rank, step);
            let sums = dev.sums.pointer();
            stream.launch(move |memory| memory.write_at(sums, &[1, 2])).unwrap();
        }
        // Each device refuses what is the other's.
        assert!(matches!(sets[0].on(&streams[1]).unwrap_err().kind(), ErrorKind::WrongDevice { .. }));
    }
    let sets = upload_each(&shards(19), &caches).unwrap();
    let mut batch = CopyBatch::new(&CopyStaging::new(&streams[1]));
    let _ticket = batch.dtoh_owned(sets[0].range(sets[0].m).unwrap()).unwrap();
    let error = batch.submit().unwrap_err();
    let names = streams.each_ref().map(Host::device_name);
    let wrong =
        |from: usize, to: usize| ErrorKind::WrongDevice { expected: names[from].clone(), found: names[to].clone() };
    assert_eq!(*error.error().kind(), wrong(0, 1));
    let mut batch = CopyBatch::new(&CopyStaging::new(&streams[1]));
    let _ticket = batch.dtoh_owned(sets[1].range(sets[1].m).unwrap()).unwrap();
    let pending = batch.submit().unwrap();
    assert_eq!(*pending.order_before(&streams[0]).unwrap_err().kind(), wrong(1, 0));
    drop((pending, error));
    drop(sets);
    for (device, cache) in devices.iter().zip(&caches) {
        let (counters, stats) = (device.counters(), cache.stats());
        assert_eq!((counters.device_allocs, stats.uploads, stats.copies, stats.copied_bytes), (1, 21, 20, 20 * 48));
    }
    drop(caches);
    assert_no_leak(&devices, &streams, "after all steps");
}

fn sets_of_other_lengths_are_refused_before_any_device_is_touched() {
    let (devices, streams, caches) = pair();
    let journals = || devices.each_ref().map(|device| device.journal().len());
    for is_warm in [false, true] {
        let before = journals();
        let mut uneven = shards(1);
        uneven[1].weights.pop();
        let error = upload_each(&uneven, &caches).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::UnequalShapes { set: 1, column: "weights", expected: 3, found: 2 });
        assert_eq!(
            error.to_string(),
            "set 1 has another shape than set 0: column `weights` has 2 elements in it, 3 in set 0"
        );
        uneven = shards(1);
        uneven[0].sums = Scratch::zeroed(5);
        let error = upload_each(&uneven, &caches).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::UnequalShapes { set: 1, column: "sums", expected: 5, found: 2 });
        assert_eq!(journals(), before, "no call was made");
        if !is_warm {
            upload_each(&shards(1), &caches).unwrap();
        }
    }
    for (rank, (dev, stream)) in (0..).zip(upload_each(&shards(1), &caches).unwrap().iter().zip(&streams)) {
        assert_holds(dev, stream, rank, 1);
    }
}

/// Columns of as many bytes, by name, and what stands in them.
struct Columns([(&'static str, Content); 2]);

impl DeviceArgs for Columns {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        for (name, content) in self.0 {
            let spec = ColumnSpec::new(name);
            match content {
                Content::Copied => visitor.column(spec, &[1_u8; 16]).map(drop)?,
                Content::Zeroed | Content::Uninit => visitor.scratch::<u8>(spec, content, 16).map(drop)?,
            }
        }
        Ok(())
    }
}

fn sets_that_differ_in_a_name_or_a_purpose_are_refused() {
    let (a, b, c) = (("a", Content::Copied), ("b", Content::Copied), ("c", Content::Copied));
    let (zeroed, uninit) = (("b", Content::Zeroed), ("b", Content::Uninit));
    for (other, column, expected) in
        [([a, c], "c", 0), ([a, zeroed], "b", 16), ([a, uninit], "b", 16), ([c, b], "c", 0)]
    {
        for is_warm in [false, true] {
            let (devices, streams, caches) = pair();
            if is_warm {
                // Blocks of both shapes are there.
                for cache in &caches {
                    drop([Columns([a, b]).upload(cache).unwrap(), Columns(other).upload(cache).unwrap()]);
                }
            }
            let error = upload_each(&[Columns([a, b]), Columns(other)], &caches).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::UnequalShapes { set: 1, column, expected, found: 16 });
            // Nothing is held.
            drop(caches);
            assert_no_leak(&devices, &streams, column);
        }
    }
}

fn each_set_needs_a_cache_of_its_own() {
    let (devices, _, caches) = pair();
    let error = upload_each(&shards(0), &caches[..1]).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheForEach { sets: 2, caches: 1 });
    let error = upload_each::<Shard, Host>(&[], &caches).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheForEach { sets: 0, caches: 2 });
    assert!(upload_each::<Shard, Host>(&[], &caches[..0]).unwrap().is_empty());
    assert!(devices.iter().all(|device| device.journal().is_empty()));
}

fn a_call_that_fails_on_one_device_leaves_both_as_they_were() {
    for failing in [0, 1] {
        for call in [Call::DeviceAlloc, Call::HostAlloc, Call::Copy, Call::Memset] {
            for is_warm in [false, true] {
                let (devices, streams, caches) = pair();
                let what = format!("{call:?} on device {failing}, warm {is_warm}");
                if is_warm {
                    drop(upload_each(&shards(1), &caches).unwrap());
                }
                // A warm upload allocates nothing: with the first sets held, it has to.
                let held = is_warm.then(|| upload_each(&shards(2), &caches).unwrap());
                devices[failing].fail(call, 1);
                let uploaded = upload_each(&shards(3), &caches);
                if is_warm && call == Call::HostAlloc {
                    // There are regions left from the first.
                    drop(uploaded.expect(&what));
                } else {
                    let error = uploaded.unwrap_err();
                    let ErrorKind::InSet { set, device, error: inner } = error.kind() else {
                        panic!("{what}: {error:?}")
                    };
                    assert_eq!(*set, failing as u64, "{what}");
                    assert!(matches!(inner.kind(), ErrorKind::Driver { .. }), "{what}: {inner:?}");
                    assert!(error.to_string().starts_with(&format!("set {failing}, for {device}: ")), "{error}");
                    let uploads: Vec<u64> = caches.iter().map(|cache| cache.stats().uploads).collect();
                    let before = if is_warm { 2 } else { 0 };
                    // What came before it was uploaded, and let go; what came behind it was never begun.
                    assert_eq!(uploads, [before + failing as u64, before], "{what}");
                }
                for (rank, dev) in (0..).zip(held.iter().flatten()) {
                    assert_eq!(dev.read_back().unwrap(), Shard::image(rank, 2), "{what}");
                }
                // Each device is usable, together and alone.
                for (rank, (dev, stream)) in (0..).zip(upload_each(&shards(4), &caches).unwrap().iter().zip(&streams)) {
                    assert_holds(dev, stream, rank, 4);
                }
                for (rank, (cache, stream)) in (0..).zip(caches.iter().zip(&streams)) {
                    assert_holds(&Shard::new(rank, 5).upload(cache).unwrap(), stream, rank, 5);
                }
                drop((held, caches));
                assert_no_leak(&devices, &streams, &what);
            }
        }
    }
}

fn arguments_that_refuse_are_named_by_their_set() {
    /// Refuses to be walked over.
    struct Refusing(bool);

    impl DeviceArgs for Refusing {
        type Pointers = ();

        fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
            if self.0 {
                marshal::narrow::<u8>("m", &[256_u32])?;
            }
            visitor.column(ColumnSpec::new("m"), &[1_u8]).map(drop)
        }
    }
    let (devices, _, caches) = pair();
    for refusing in [0, 1] {
        let error = upload_each(&[Refusing(refusing == 0), Refusing(refusing == 1)], &caches).unwrap_err();
        let ErrorKind::InSet { set, error, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!(*set, refusing);
        assert!(matches!(error.kind(), ErrorKind::DoesNotFit { column: "m", value: 256, .. }), "{error:?}");
    }
    assert!(devices.iter().all(|device| device.journal().is_empty()));
}

fn a_warm_call_allocates_its_vector_alone() {
    let (_, _, caches) = pair();
    let mut steps = [shards(0), shards(1)];
    // Scratch is zeroed by a call of the emulation, which keeps it on the heap.
    steps.iter_mut().flatten().for_each(|shard| shard.sums = Scratch::uninit(2));
    for step in &steps {
        drop(upload_each(step, &caches).unwrap());
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        // The same bytes: the emulation's copies are on the heap too.
        drop(upload_each(&steps[1], &caches).unwrap());
    }
    assert_eq!(ALLOCATIONS.get() - before, 100);
    assert!(caches.iter().all(|cache| cache.stats().byte_hits == 100 && cache.stats().copies == 2));
}

fn held_sets_on_both_devices_never_go_stale() {
    let (_, streams, caches) = pair();
    let held: Vec<_> = (0..10).map(|step| upload_each(&shards(step), &caches).unwrap()).collect();
    for (step, sets) in (0..).zip(&held) {
        for (rank, (dev, stream)) in (0..).zip(sets.iter().zip(&streams)) {
            let (m, weights) = (dev.m, dev.weights);
            stream
                .launch(move |memory| {
                    assert_eq!(memory.read(m), M);
                    assert_eq!(memory.read(weights), Shard::new(rank, step).weights);
                })
                .unwrap();
        }
    }
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
}

fn replicas_may_go_in_every_order() {
    // The sets, the caches, and the devices' streams.
    for order in permutations(&[0, 1, 2, 3, 4, 5]) {
        let (devices, streams, caches) = pair();
        let [first, second]: [_; 2] = upload_each(&shards(3), &caches).unwrap().try_into().unwrap();
        let (mut sets, mut caches) = ([Some(first), Some(second)], caches.map(Some));
        let mut handles = streams.clone().map(Some);
        for handle in order {
            match handle {
                0 | 1 => drop(sets[handle].take()),
                2 | 3 => drop(caches[handle - 2].take()),
                _ => drop(handles[handle - 4].take()),
            }
            for (rank, set) in (0..).zip(&sets) {
                assert!(set.as_ref().is_none_or(|set| set.read_back().unwrap() == Shard::image(rank, 3)));
            }
        }
        assert_no_leak(&devices, &streams, "all is gone");
    }
}

fn replicas_are_captured_into_a_graph_on_each_device() {
    let (devices, streams, caches) = pair();
    let layout = Shard::new(0, 0).layout().unwrap();
    caches.iter().for_each(|cache| cache.reserve(&layout).unwrap());
    let mut there = None;
    let here = caches[0]
        .capture(|_| {
            let mut here = None;
            there = Some(caches[1].capture(|_| {
                let [first, second]: [_; 2] = upload_each(&shards(1), &caches)?.try_into().expect("two sets");
                here = Some(first);
                Ok(second)
            })?);
            Ok(here)
        })
        .unwrap();
    let there = there.unwrap();
    for step in 1..10 {
        here.refresh(|dev| dev.as_ref().unwrap(), &Shard::new(0, step)).unwrap();
        there.refresh(|dev| dev, &Shard::new(1, step)).unwrap();
        here.launch().unwrap();
        there.launch().unwrap();
        assert_holds(here.sets().as_ref().unwrap(), &streams[0], 0, step);
        assert_holds(there.sets(), &streams[1], 1, step);
    }
    drop((here, there, caches));
    assert_no_leak(&devices, &streams, "the graphs are gone");
}

fn a_device_without_reserved_memory_leaves_both_captures_valid() {
    let (devices, streams, caches) = pair();
    caches[0].reserve(&Shard::new(0, 0).layout().unwrap()).unwrap();
    let mut refused = None;
    let graph = caches[0].capture(|_| {
        caches[1].capture(|_| {
            refused = upload_each(&shards(1), &caches).err();
            Ok(())
        })
    });
    drop(graph.unwrap());
    let refused = refused.unwrap();
    let ErrorKind::InSet { set: 1, error, .. } = refused.kind() else { panic!("{refused:?}") };
    assert_eq!(*error.kind(), ErrorKind::NotReserved { needed: 64 });
    for (rank, (dev, stream)) in (0..).zip(upload_each(&shards(2), &caches).unwrap().iter().zip(&streams)) {
        assert_holds(dev, stream, rank, 2);
    }
    drop(caches);
    assert_no_leak(&devices, &streams, "the graph is gone");
}

fn caches_of_one_device_and_one_cache_twice_are_caches_too() {
    let device = HostDevice::new();
    let streams = [device.stream(), device.stream()];
    let caches = streams.each_ref().map(|stream| ArgCache::new(stream).unwrap());
    for cache in [[&caches[0], &caches[1]], [&caches[0], &caches[0]]] {
        let sets = upload_each(&shards(1), &cache).unwrap();
        assert_ne!(sets[0].base(), sets[1].base());
        for (rank, (dev, cache)) in (0..).zip(sets.iter().zip(cache)) {
            assert_holds(dev, cache.stream(), rank, 1);
        }
    }
}

fn any_number_of_devices_shares_one_layout() {
    let devices: Vec<_> = (0..8).map(|_| HostDevice::new()).collect();
    let streams: Vec<_> = devices.iter().map(HostDevice::stream).collect();
    let caches: Vec<_> = streams.iter().map(|stream| Arc::new(ArgCache::new(stream).unwrap())).collect();
    let shards: Vec<_> = (0..8).map(|rank| Shard::new(rank, 6)).collect();
    let borrowed: Vec<&Shard> = shards.iter().collect();
    let sets = upload_each(&borrowed, &caches).unwrap();
    for (rank, (dev, stream)) in (0..).zip(sets.iter().zip(&streams)) {
        assert_holds(dev, stream, rank, 6);
    }
    let layouts: Vec<_> = sets.iter().map(Uploaded::layout).collect();
    assert!(layouts.iter().all(|layout| core::ptr::eq(layout.columns(), layouts[0].columns())));
}

fn threads_may_name_the_caches_in_any_order() {
    let (_, _, caches) = pair();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let caches = &caches;
            scope.spawn(move || {
                for step in 0..50 {
                    let (order, ranks) = if thread % 2 == 0 { ([0, 1], [0, 1]) } else { ([1, 0], [1, 0]) };
                    let step = 100 * thread + step;
                    let shards = ranks.map(|rank| Shard::new(rank, step));
                    let sets = upload_each(&shards, &order.map(|index: usize| &caches[index])).unwrap();
                    for (rank, dev) in ranks.into_iter().zip(&sets) {
                        assert_eq!(dev.read_back().unwrap(), Shard::image(rank, step));
                    }
                }
            });
        }
    });
    assert!(caches.iter().all(|cache| cache.stats().uploads == 400));
}
