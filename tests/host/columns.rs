//! Ragged and scratch columns and batches: what only counters, the journal, injected failures and a counting allocator show.

use marshal::backend::Backend;
use marshal::host::{Call, Host, HostDevice, Op};
use marshal::{
    ArgCache, Batch, CacheOptions, ColumnSpec, Content, DeviceArgs, DevicePointer, Error, ErrorKind, Ragged, Scratch,
    Visitor,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::cases::Rig;
use crate::heap::ALLOCATIONS;
use crate::rig::HostRig;

pub(crate) const ALL: &[(&str, fn())] = &[
    ("all_zeroed_columns_are_one_memset_and_others_none", all_zeroed_columns_are_one_memset_and_others_none),
    ("a_fill_without_a_copy_runs_before_the_free", a_fill_without_a_copy_runs_before_the_free),
    ("a_failing_fill_leaves_nothing_behind", a_failing_fill_leaves_nothing_behind),
    ("a_failing_fill_leaves_the_cache_as_it_was", a_failing_fill_leaves_the_cache_as_it_was),
    ("an_unchanged_cached_upload_costs_one_fill_and_no_heap", an_unchanged_cached_upload_costs_one_fill_and_no_heap),
    ("a_kept_batch_allocates_nothing_on_the_heap", a_kept_batch_allocates_nothing_on_the_heap),
    ("a_batch_is_one_allocation_and_one_copy", a_batch_is_one_allocation_and_one_copy),
    ("scratch_is_counted_under_the_cap_and_evicted", scratch_is_counted_under_the_cap_and_evicted),
    (
        "uninitialised_scratch_is_poison_until_a_kernel_writes_it",
        uninitialised_scratch_is_poison_until_a_kernel_writes_it,
    ),
    ("scratch_that_changes_under_the_upload_is_refused", scratch_that_changes_under_the_upload_is_refused),
    ("an_upload_of_scratch_alone_is_refused_in_a_capture", an_upload_of_scratch_alone_is_refused_in_a_capture),
    (
        "sets_held_in_any_order_keep_their_scratch_to_themselves",
        sets_held_in_any_order_keep_their_scratch_to_themselves,
    ),
    ("zeroing_in_a_capture_is_a_node", zeroing_in_a_capture_is_a_node),
    ("an_image_of_ones_own_has_no_room_for_scratch", an_image_of_ones_own_has_no_room_for_scratch),
];

#[derive(DeviceArgs)]
struct Work {
    first: Scratch<u32>,
    sizes: Vec<u32>,
    rows: Ragged<u16>,
    second: Scratch<u64>,
    output: Scratch<f32>,
}

impl Work {
    fn new(size: u32) -> Self {
        Self {
            first: Scratch::zeroed(10),
            sizes: vec![size; 4],
            rows: Ragged::from_rows([&[1, 2][..], &[], &[3]]).unwrap(),
            second: Scratch::zeroed(3),
            output: Scratch::uninit(100),
        }
    }
}

#[derive(DeviceArgs)]
struct Fill {
    empty: Vec<u64>,
    zeros: Scratch<u64>,
}

fn fill(zeros: Scratch<u64>) -> Fill {
    Fill { empty: vec![], zeros }
}

fn all_zeroed_columns_are_one_memset_and_others_none() {
    let device = HostDevice::new();
    let stream = device.stream();
    let dev = Work::new(1).upload(&stream).unwrap();
    let memsets: Vec<_> = device
        .journal()
        .into_iter()
        .filter_map(|op| match op {
            Op::Memset { stream, address, size_bytes, value } => Some((stream, address, size_bytes, value)),
            _ => None,
        })
        .collect();
    assert_eq!(memsets, [(stream.id(), dev.first.pointer().address(), 48 + 32, 0)]);
    assert_eq!(dev.second.pointer().address(), dev.first.pointer().address() + 48);
    let counters = device.counters();
    assert_eq!((counters.device_allocs, counters.copies, counters.copied_bytes), (1, 1, 80));

    drop(Fill { empty: vec![1], zeros: Scratch::uninit(9) }.upload(&stream).unwrap());
    drop(Fill { empty: vec![1], zeros: Scratch::zeroed(0) }.upload(&stream).unwrap());
    assert_eq!(device.counters().memsets, 1);
}

fn a_fill_without_a_copy_runs_before_the_free() {
    let rig = HostRig { device: HostDevice::new() };
    let stream = rig.stream();
    let busy = rig.block(&stream);
    drop(fill(Scratch::zeroed(100)).upload(&stream).unwrap());
    let calls: Vec<_> = rig
        .device
        .journal()
        .into_iter()
        .filter_map(|op| match op {
            Op::DeviceAlloc { .. } => Some("alloc"),
            Op::Copy { .. } => Some("copy"),
            Op::Memset { .. } => Some("memset"),
            Op::DeviceFree { .. } => Some("free"),
            Op::Synchronize { .. } => Some("synchronize"),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["alloc", "memset", "free"]);
    drop(busy);
    // The backend reports a fill of memory that is gone.
    stream.synchronize().unwrap();
    assert_eq!(rig.device.counters().live_device_blocks, 0);
}

fn a_failing_fill_leaves_nothing_behind() {
    for call in [Call::DeviceAlloc, Call::Memset, Call::Copy] {
        let device = HostDevice::new();
        let stream = device.stream();
        device.fail(call, 1);
        let error = Work::new(1).upload(&stream).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Driver { .. }), "{error}");
        stream.synchronize().unwrap();
        assert_eq!(device.counters().live_device_blocks, 0, "{call:?}");
        let dev = Work::new(1).upload(&stream).unwrap();
        assert_eq!(dev.fetch(&dev.first).unwrap(), [0; 10]);
    }
}

fn a_failing_fill_leaves_the_cache_as_it_was() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let counts = || {
        let stats = cache.stats();
        (stats.uploads, stats.copies, stats.allocations, stats.byte_hits, stats.device_bytes)
    };
    let fails = |upload: &dyn Fn() -> Option<Error>| {
        let before = counts();
        device.fail(Call::Memset, 1);
        let error = upload().unwrap();
        assert!(error.to_string().contains("cuMemsetD8Async"), "{error}");
        assert_eq!(counts(), before);
    };
    // A new block, one with the same bytes, one with others, and one of scratch alone.
    fails(&|| Work::new(1).upload(&cache).err());
    drop(Work::new(1).upload(&cache).unwrap());
    fails(&|| Work::new(1).upload(&cache).err());
    fails(&|| Work::new(2).upload(&cache).err());
    fails(&|| fill(Scratch::zeroed(5)).upload(&cache).err());
    let dev = Work::new(1).upload(&cache).unwrap();
    assert_eq!(cache.stats().byte_hits, 1, "the image was kept");
    assert_eq!((dev.fetch(&dev.sizes).unwrap(), dev.fetch(&dev.second).unwrap()), (vec![1; 4], vec![0; 3]));
    drop(dev);
    // The copy may fail behind a fill that was made.
    device.fail(Call::Copy, 1);
    assert!(Work::new(2).upload(&cache).is_err());
    let dev = Work::new(1).upload(&cache).unwrap();
    assert_eq!(dev.fetch(&dev.sizes).unwrap(), [1; 4]);
    drop((dev, cache));
    stream.synchronize().unwrap();
    assert_eq!(device.counters().live_device_blocks, 0);
}

fn an_unchanged_cached_upload_costs_one_fill_and_no_heap() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Work::new(1);
    drop(args.upload(&cache).unwrap());
    let (before, heap) = (device.counters(), ALLOCATIONS.get());
    for _ in 0..100 {
        drop(args.upload(&cache).unwrap());
    }
    let (after, heap) = (device.counters(), ALLOCATIONS.get() - heap);
    assert_eq!(after.memsets - before.memsets, 100);
    assert_eq!((after.copies, after.device_allocs, after.events), (before.copies, before.device_allocs, before.events));
    // The journal and the queue of the host backend grow with each call: by doubling, not by the upload.
    assert!(heap < 20, "{heap} heap allocations in 100 uploads");
}

#[derive(DeviceArgs)]
struct Layer {
    sizes: Vec<u32>,
    rows: Ragged<u16>,
}

fn layers() -> Vec<Layer> {
    (0..32).map(|i| Layer { sizes: vec![i; 9], rows: Ragged::from_rows([&[1, 2][..], &[3]]).unwrap() }).collect()
}

fn a_kept_batch_allocates_nothing_on_the_heap() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut batch = Batch::new(layers());
    for value in 0..300 {
        batch.sets_mut()[31].sizes[8] = value;
        drop(batch.upload(&cache).unwrap());
        stream.synchronize().unwrap();
    }
    let (before, mut heap) = (device.counters(), ALLOCATIONS.get());
    for _ in 0..100 {
        let dev = batch.upload(&cache).unwrap();
        assert_eq!(dev.len(), 32);
    }
    assert_eq!(ALLOCATIONS.get() - heap, 0, "unchanged");
    assert_eq!(device.counters(), before);
    heap = ALLOCATIONS.get();
    for value in 1000..1010 {
        batch.sets_mut()[31].sizes[8] = value;
        drop(batch.upload(&cache).unwrap());
    }
    assert_eq!(ALLOCATIONS.get() - heap, 0, "changed");
    // While a set is held its pointers are its own.
    let held = batch.upload(&cache).unwrap();
    let first = held[0].sizes;
    batch.sets_mut()[0].sizes[0] = 77;
    let other = batch.upload(&cache).unwrap();
    assert_ne!(other[0].sizes, first);
    assert_eq!(held[0].sizes, first);
}

fn a_batch_is_one_allocation_and_one_copy() {
    let device = HostDevice::new();
    let stream = device.stream();
    let layers = layers();
    let dev = layers.iter().collect::<Batch<_>>().upload(&stream).unwrap();
    let counters = device.counters();
    assert_eq!((counters.device_allocs, counters.copies, counters.memsets), (1, 1, 0));
    assert_eq!(counters.copied_bytes, dev.layout().size_bytes());
}

fn scratch_is_counted_under_the_cap_and_evicted() {
    let stream = HostDevice::new().stream();
    let options = CacheOptions { device_bytes: 4096, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let held = fill(Scratch::uninit(250)).upload(&cache).unwrap();
    let error = fill(Scratch::uninit(300)).upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheFull { needed: 2400, available: 2096 });
    drop(held);
    let dev = fill(Scratch::uninit(300)).upload(&cache).unwrap();
    assert_eq!((dev.zeros.len(), cache.stats().evictions), (300, 1));
}

fn uninitialised_scratch_is_poison_until_a_kernel_writes_it() {
    let stream = HostDevice::new().stream();
    let dev = Work::new(1).upload(&stream).unwrap();
    let output = dev.output;
    stream.launch(move |memory| memory.write_at(output.pointer(), &[1.0_f32])).unwrap();
    let fetched = dev.fetch(&dev.output).unwrap();
    assert_eq!((fetched[0], fetched[1].to_bits()), (1.0, 0xfefe_fefe));
}

/// Its scratch is longer at the second walk than at the first.
struct Growing {
    walks: std::cell::Cell<usize>,
}

impl DeviceArgs for Growing {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        let walk = self.walks.get();
        self.walks.set(walk + 1);
        visitor.column(ColumnSpec::new("fixed"), &[1_u8])?;
        visitor.scratch::<u8>(ColumnSpec::new("growing"), Content::Uninit, 16 * (1 + walk % 2))?;
        Ok(())
    }
}

fn scratch_that_changes_under_the_upload_is_refused() {
    let stream = HostDevice::new().stream();
    for walks in [0, 1] {
        let error = Growing { walks: walks.into() }.upload(&stream).unwrap_err();
        assert!(error.to_string().contains("changed during the upload"), "{error}");
    }
}

fn an_upload_of_scratch_alone_is_refused_in_a_capture() {
    let device = HostDevice::new();
    let stream = device.stream();
    stream.begin_capture().unwrap();
    let error = fill(Scratch::uninit(3)).upload(&stream).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Capturing { needed: 32 });
    // The capture is still valid.
    stream.end_capture().unwrap();
}

/// Uploads, writes and drops in an order that is drawn, under a cap that lets blocks go, beside what each held set should hold.
fn sets_held_in_any_order_keep_their_scratch_to_themselves() {
    let stream = HostDevice::new().stream();
    let options = CacheOptions { device_bytes: 8 << 10, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut held = Vec::new();
    let mut byte_hits_with_others_held = 0;
    for step in 0..2000_u32 {
        if held.len() == 6 || (!held.is_empty() && rng.random_bool(0.45)) {
            let index = rng.random_range(0..held.len());
            drop(held.swap_remove(index));
        } else {
            let size = rng.random_range(0..3);
            let hits = cache.stats().byte_hits;
            let dev = Work::new(size).upload(&cache).unwrap();
            byte_hits_with_others_held += u64::from(!held.is_empty()) * (cache.stats().byte_hits - hits);
            assert_eq!(dev.fetch(&dev.first).unwrap(), [0; 10], "step {step}");
            assert_eq!(dev.fetch(&dev.second).unwrap(), [0; 3], "step {step}");
            let (first, output) = (dev.first.pointer(), dev.output.pointer());
            stream
                .launch(move |memory| {
                    memory.write_at(first, &[step + 1; 10]);
                    memory.write_at(output, &[0.5_f32; 100]);
                })
                .unwrap();
            held.push((step, size, dev));
        }
        for (step, size, dev) in &held {
            assert_eq!(dev.fetch(&dev.first).unwrap(), [step + 1; 10]);
            assert_eq!(dev.fetch(&dev.sizes).unwrap(), [*size; 4]);
            assert_eq!(dev.fetch(&dev.rows.values).unwrap(), [1, 2, 3]);
            let values = dev.rows.values.pointer();
            let expected = [0, 2, 2].map(|index| values.checked_add(index).unwrap());
            assert_eq!(dev.fetch(&dev.rows.rows).unwrap(), expected);
        }
        for (index, (.., dev)) in held.iter().enumerate() {
            assert!(held[..index].iter().all(|(.., other)| other.base() != dev.base()), "step {step}");
        }
    }
    let stats = cache.stats();
    assert!(byte_hits_with_others_held > 100 && stats.shape_hits > 50 && stats.allocations < 20, "{stats:?}");
}

fn zeroing_in_a_capture_is_a_node() {
    let device = HostDevice::new();
    let stream = device.stream();
    let block = Host::allocate(&stream, 64).unwrap();
    let pointer = DevicePointer::from_raw(Host::address(&block)).unwrap();
    stream.begin_capture().unwrap();
    Host::zero(&stream, &block, 16, 32).unwrap();
    let graph = stream.end_capture().unwrap();
    for _ in 0..2 {
        stream.launch(move |memory| memory.write_at(pointer, &[0xa5_u8; 64])).unwrap();
        graph.launch(&stream).unwrap();
        let expected = [[0xa5; 16], [0; 16], [0; 16], [0xa5; 16]].concat();
        assert_eq!(Host::copy_dtoh(&stream, &block, 0, 64).unwrap(), expected);
    }
    assert!(Host::zero(&stream, &block, 33, 32).is_err());
}

fn an_image_of_ones_own_has_no_room_for_scratch() {
    let args = Work::new(5);
    let mut image = [0xee; 96];
    let base = DevicePointer::from_raw(0x1000).unwrap();
    let pointers = args.pack_into(base, &mut image).unwrap();
    assert_eq!(pointers.first.pointer().address(), 0x1000 + 80);
    assert_eq!(pointers.output.pointer().address(), 0x1000 + 80 + 48 + 32);
    assert_eq!(image[80..], [0xee; 16]);
    let error = args.pack_into(base, &mut [0; 79]).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooShort { column: "rows", needed: 80, available: 79 });
}
