//! Ways through a cache that a program seldom takes: staging at its cap, memory that comes back from graphs in between, and work of
//! which only a part has run.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use marshal::host::{Call, HostDevice, HostOptions, HostStream};
use marshal::{
    ArgCache, CacheOptions, ColumnSpec, Content, CopyBatch, CopyStaging, DeviceArgs, DeviceRange, DeviceRangeMut,
    Error, ErrorKind, Scratch, Visitor, WhenExhausted,
};

pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_region_that_a_graph_has_left_is_written_before_an_upload_fails", {
        a_region_that_a_graph_has_left_is_written_before_an_upload_fails
    }),
    ("a_refresh_takes_the_region_that_a_graph_has_left", a_refresh_takes_the_region_that_a_graph_has_left),
    (
        "a_refresh_takes_the_region_of_a_block_that_nobody_holds",
        a_refresh_takes_the_region_of_a_block_that_nobody_holds,
    ),
    (
        "a_block_of_scratch_comes_back_from_a_graph_and_is_zeroed",
        a_block_of_scratch_comes_back_from_a_graph_and_is_zeroed,
    ),
    ("the_one_region_goes_from_an_upload_into_a_graph", the_one_region_goes_from_an_upload_into_a_graph),
    ("the_one_region_is_written_again_once_its_copy_has_run", the_one_region_is_written_again_once_its_copy_has_run),
    ("reserve_finds_the_copies_that_have_run_before_the_last", reserve_finds_the_copies_that_have_run_before_the_last),
    ("a_region_without_a_fence_behind_its_copy_is_waited_for", a_region_without_a_fence_behind_its_copy_is_waited_for),
    ("a_set_on_its_own_stream_is_a_range_there", a_set_on_its_own_stream_is_a_range_there),
    ("what_is_fetched_at_an_odd_offset_is_read_all_the_same", what_is_fetched_at_an_odd_offset_is_read_all_the_same),
    ("blocks_of_a_capture_that_was_ended_under_it_count_no_more", {
        blocks_of_a_capture_that_was_ended_under_it_count_no_more
    }),
    ("staging_of_which_a_graph_has_a_part_stays", staging_of_which_a_graph_has_a_part_stays),
    ("a_block_without_an_image_takes_the_region_of_another", a_block_without_an_image_takes_the_region_of_another),
    ("shapes_of_one_size_are_reserved_staging_together", shapes_of_one_size_are_reserved_staging_together),
    ("what_a_graph_refuses_to_keep_is_not_captured", what_a_graph_refuses_to_keep_is_not_captured),
    ("a_launch_counts_the_copies_of_its_graph_alone", a_launch_counts_the_copies_of_its_graph_alone),
    ("scratch_alone_that_changes_under_the_upload_is_refused", scratch_alone_that_changes_under_the_upload_is_refused),
    ("staging_that_no_block_needs_makes_room", staging_that_no_block_needs_makes_room),
    ("a_block_that_goes_leaves_its_region_to_the_next", a_block_that_goes_leaves_its_region_to_the_next),
];

#[derive(DeviceArgs)]
struct Bytes {
    bytes: Vec<u8>,
}

fn bytes(byte: u8) -> Bytes {
    Bytes { bytes: vec![byte; 256] }
}

/// A cache that may have so many regions of the least size, 512 bytes, and refuses where all are being read.
fn with_regions(stream: &HostStream, regions: u64) -> ArgCache<marshal::host::Host> {
    let options =
        CacheOptions { staging_bytes: 512 * regions, when_exhausted: WhenExhausted::Error, ..CacheOptions::default() };
    ArgCache::with_options(stream, options).unwrap()
}

#[derive(DeviceArgs)]
struct Empty {
    bytes: Scratch<u8>,
}

/// As `bytes(7)`, but longer in the walk that packs.
struct Lengthened(Cell<usize>);

impl DeviceArgs for Lengthened {
    type Pointers = BytesPointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<BytesPointers, Error> {
        self.0.set(self.0.get() + 1);
        Bytes { bytes: vec![7; if self.0.get() == 3 { 257 } else { 256 }] }.walk(visitor)
    }
}

fn what_a_graph_refuses_to_keep_is_not_captured() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    cache.reserve(&bytes(0).layout().unwrap()).unwrap();
    let staging = CopyStaging::new(&stream);
    staging.reserve(256).unwrap();
    let target = bytes(0).upload(&stream).unwrap();
    let batch = |source: &'static [u8]| {
        let mut batch = CopyBatch::new(&staging);
        // SAFETY: the range lies in the set, which outlives the graph.
        batch.htod(source, unsafe { DeviceRangeMut::from_raw(target.base(), 256) }).unwrap();
        batch.submit()
    };

    stream.begin_capture().unwrap();
    device.fail(Call::GraphKeep, 1);
    let error = bytes(1).upload(&cache).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { call: "cuGraphRetainUserObject", .. }), "{error}");
    let error = Lengthened(Cell::new(0)).upload(&cache).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    device.fail(Call::GraphKeep, 1);
    let error = batch(&[1; 256]).unwrap_err();
    assert_eq!((error.submitted(), error.failed()), (&[][..], &[][..]));
    drop(error);
    // The one block and the one region of each are there still.
    let set = bytes(3).upload(&cache).unwrap();
    drop(batch(&[4; 256]).unwrap());
    let graph = stream.end_capture().unwrap();
    assert_eq!(graph.nodes().len(), 2);
    graph.launch(&stream).unwrap();
    assert_eq!((set.read_back().unwrap(), target.read_back().unwrap()), (vec![3; 256], vec![4; 256]));
}

fn a_launch_counts_the_copies_of_its_graph_alone() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let scratch = Empty { bytes: Scratch::uninit(64) };
    cache.reserve(&bytes(0).layout().unwrap()).unwrap();
    cache.reserve(&scratch.layout().unwrap()).unwrap();
    device.fail(Call::Copy, 1);
    // A copy that has failed, and a set without one.
    let graph = cache.capture(|_| {
        assert!(bytes(1).upload(&cache).is_err());
        scratch.upload(&cache)
    });
    let graph = graph.unwrap();
    graph.launch().unwrap();
    assert_eq!((cache.stats().copies, cache.stats().copied_bytes), (0, 0));
    stream.synchronize().unwrap();
    drop(graph);
    // Both blocks are there again.
    drop(bytes(2).upload(&cache).unwrap());
    assert_eq!((cache.stats().copies, cache.stats().allocations), (1, 2));
}

/// Its scratch is longer in the walk that packs than in those before.
struct Longer(Cell<usize>);

impl DeviceArgs for Longer {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        let walk = self.0.get() + 1;
        self.0.set(walk);
        visitor.scratch::<u8>(ColumnSpec::new("growing"), Content::Uninit, if walk == 3 { 32 } else { 16 })?;
        Ok(())
    }
}

fn scratch_alone_that_changes_under_the_upload_is_refused() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    // It is walked over for its shape, for its layout, and to be packed.
    let error = Longer(Cell::new(0)).upload(&cache).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed { found: 32, .. }), "{error}");
    drop(Longer(Cell::new(3)).upload(&cache).unwrap());
}

#[derive(DeviceArgs)]
struct Two {
    first: Vec<u8>,
    second: Vec<u8>,
}

fn staging_that_no_block_needs_makes_room() {
    let stream = HostDevice::new().stream();
    // 64 regions of 512 bytes and two of 2048; blocks of 512 and 2048 bytes, then two of 512 and one of 1024.
    let options =
        CacheOptions { device_bytes: 2560, staging_bytes: 64 * 512 + 2 * 2048, when_exhausted: WhenExhausted::Error };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let of = |len| Bytes { bytes: vec![1; len] };
    let held = of(512).upload(&cache).unwrap();
    drop(of(2048).upload(&cache).unwrap());
    let other = Two { first: vec![1; 256], second: vec![2; 256] }.upload(&cache).unwrap();
    assert_eq!((cache.stats().evictions, cache.stats().staging_bytes), (1, options.staging_bytes));
    // No block is left of 2048 bytes: their staging goes, though blocks of other sizes are held.
    assert_eq!(of(1024).upload(&cache).unwrap().read_back().unwrap(), [1; 1024]);
    assert!(cache.stats().staging_bytes <= options.staging_bytes);
    drop((held, other));
}

/// Keeps the stream busy until the returned value is dropped.
fn gate(stream: &HostStream) -> mpsc::Sender<()> {
    let (gate, blocked) = mpsc::channel::<()>();
    stream.launch(move |_| assert!(blocked.recv().is_err())).unwrap();
    gate
}

/// Uploads into a graph of the stream's own, and lets both go: what they had is nobody's, and not in the cache yet.
fn leave_behind_a_graph(cache: &ArgCache<marshal::host::Host>, args: &impl DeviceArgs) {
    let stream = cache.stream();
    stream.begin_capture().unwrap();
    let set = args.upload(cache).unwrap();
    let graph = stream.end_capture().unwrap();
    drop((set, graph));
}

fn a_region_that_a_graph_has_left_is_written_before_an_upload_fails() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 2);
    cache.reserve_sets(&bytes(0).layout().unwrap(), 2).unwrap();
    leave_behind_a_graph(&cache, &bytes(9));
    let busy = gate(&stream);
    drop(bytes(1).upload(&cache).unwrap());
    // The region of the first is being read, and the cap allows no other: the graph's is free.
    let second = bytes(2).upload(&cache).unwrap();
    let error = bytes(3).upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingExhausted { in_flight: 1024 });
    drop(busy);
    assert_eq!(second.read_back().unwrap(), [2; 256]);
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.copies, stats.staging_bytes), (2, 2, 1024));
}

fn a_refresh_takes_the_region_that_a_graph_has_left() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 2);
    cache.reserve_sets(&bytes(0).layout().unwrap(), 2).unwrap();
    let graph = cache.capture(|_| bytes(1).upload(&cache)).unwrap();
    leave_behind_a_graph(&cache, &bytes(9));
    graph.refresh(|set| set, &bytes(2)).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.sets().read_back().unwrap(), [2; 256]);
    let stats = cache.stats();
    assert_eq!((stats.evictions, stats.allocations, stats.staging_bytes), (0, 2, 1024));
}

fn a_refresh_takes_the_region_of_a_block_that_nobody_holds() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 2);
    cache.reserve_sets(&bytes(0).layout().unwrap(), 2).unwrap();
    let graph = cache.capture(|_| bytes(1).upload(&cache)).unwrap();
    let held = bytes(3).upload(&cache).unwrap();
    let error = graph.refresh(|set| set, &bytes(2)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingFull { needed: 512, available: 0 });
    drop(held);
    stream.synchronize().unwrap();
    graph.refresh(|set| set, &bytes(2)).unwrap();
    assert_eq!(cache.stats().evictions, 1);
    graph.launch().unwrap();
    assert_eq!(graph.sets().read_back().unwrap(), [2; 256]);
}

fn a_block_without_an_image_takes_the_region_of_another() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 2);
    cache.reserve(&bytes(0).layout().unwrap()).unwrap();
    // It comes back from the graph without an image.
    drop(cache.capture(|_| bytes(1).upload(&cache)).unwrap());
    let others = [1, 2].map(|byte| Bytes { bytes: vec![byte; 192] }.upload(&cache).unwrap());
    let error = bytes(2).upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingFull { needed: 512, available: 0 });
    drop(others);
    stream.synchronize().unwrap();
    assert_eq!(bytes(3).upload(&cache).unwrap().read_back().unwrap(), [3; 256]);
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.evictions, stats.staging_bytes), (3, 1, 1024));
}

fn a_block_that_goes_leaves_its_region_to_the_next() {
    let stream = HostDevice::new().stream();
    let options = CacheOptions { device_bytes: 256, staging_bytes: 512, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for (byte, len) in [(1, 256), (2, 192), (3, 256)] {
        let set = Bytes { bytes: vec![byte; len] }.upload(&cache).unwrap();
        assert_eq!(set.read_back().unwrap(), vec![byte; len]);
    }
    assert_eq!((cache.stats().evictions, cache.stats().staging_bytes), (2, 512));
}

fn staging_of_which_a_graph_has_a_part_stays() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 4);
    cache.reserve(&bytes(0).layout().unwrap()).unwrap();
    let graph = cache.capture(|_| bytes(1).upload(&cache)).unwrap();
    // All four regions are of the graph's size, and three of them are nobody's: they go together or not at all.
    let larger = Bytes { bytes: vec![5; 1024] };
    let error = larger.upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingFull { needed: 1024, available: 0 });
    assert_eq!(cache.stats().staging_bytes, 2048);
    drop(graph);
    assert_eq!(larger.upload(&cache).unwrap().read_back().unwrap(), [5; 1024]);
    assert_eq!(cache.stats().staging_bytes, 2048);
}

#[derive(DeviceArgs)]
struct Workspace {
    counts: Scratch<u32>,
}

fn a_block_of_scratch_comes_back_from_a_graph_and_is_zeroed() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Workspace { counts: Scratch::zeroed(64) };
    cache.reserve(&args.layout().unwrap()).unwrap();
    let base = {
        stream.begin_capture().unwrap();
        let set = args.upload(&cache).unwrap();
        let _graph = stream.end_capture().unwrap();
        stream.memset(set.counts.pointer(), 256, 0xff).unwrap();
        set.base()
    };
    let set = args.upload(&cache).unwrap();
    assert_eq!((set.base(), set.fetch(&set.counts).unwrap()), (base, vec![0; 64]));
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.uploads, stats.copies), (1, 2, 0));
}

fn the_one_region_goes_from_an_upload_into_a_graph() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 1);
    drop(bytes(1).upload(&cache).unwrap());
    stream.synchronize().unwrap();
    let graph = cache.capture(|_| bytes(2).upload(&cache)).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.sets().read_back().unwrap(), [2; 256]);
    assert_eq!((cache.stats().allocations, cache.stats().staging_bytes), (1, 512));
}

fn the_one_region_is_written_again_once_its_copy_has_run() {
    let stream = HostDevice::new().stream();
    let cache = with_regions(&stream, 1);
    let busy = gate(&stream);
    drop(bytes(1).upload(&cache).unwrap());
    let error = bytes(2).upload(&cache).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingExhausted { in_flight: 512 });
    drop(busy);
    stream.synchronize().unwrap();
    let set = bytes(3).upload(&cache).unwrap();
    assert_eq!(set.read_back().unwrap(), [3; 256]);
    assert_eq!((cache.stats().waits, cache.stats().staging_bytes), (0, 512));
}

fn reserve_finds_the_copies_that_have_run_before_the_last() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    // Staging of this size has two regions, and a fence behind each copy.
    let large = |byte| Bytes { bytes: vec![byte; 1 << 20] };
    drop(large(1).upload(&cache).unwrap());
    stream.synchronize().unwrap();
    let busy = gate(&stream);
    drop(large(2).upload(&cache).unwrap());
    cache.reserve(&large(0).layout().unwrap()).unwrap();
    assert_eq!(cache.stats().staging_bytes, 2 << 20, "the region of the first copy is free");
    drop(busy);
    stream.synchronize().unwrap();
}

fn shapes_of_one_size_are_reserved_staging_together() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let of = |len| Bytes { bytes: vec![1; len] };
    // 64 regions of the least size at a time, two of this one.
    for len in [100, 200, 1 << 20, (1 << 20) - 100, (1 << 20) - 200] {
        cache.reserve(&of(len).layout().unwrap()).unwrap();
    }
    assert_eq!(cache.stats().staging_bytes, 64 * 512 + (4 << 20));
    stream.begin_capture().unwrap();
    let sets = [1 << 20, (1 << 20) - 100, (1 << 20) - 200].map(|len| of(len).upload(&cache).map(drop));
    assert_eq!(sets, [Ok(()), Ok(()), Ok(())]);
    drop(stream.end_capture().unwrap());
}

fn a_region_without_a_fence_behind_its_copy_is_waited_for() {
    // Nothing runs before it is waited for.
    let lazy = HostOptions { polls: 1000, patience: Duration::from_secs(60), ..HostOptions::default() };
    let stream = HostDevice::with_options(lazy).stream();
    let options = CacheOptions {
        staging_bytes: 64 * 512 + (2 << 20),
        when_exhausted: WhenExhausted::Wait,
        ..CacheOptions::default()
    };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    // Two of 64 small regions take turns, behind fences that are 32 copies apart.
    let held: Vec<_> = (0..62).map(|byte| bytes(byte).upload(&cache).unwrap()).collect();
    // A large copy has a fence of its own, which says nothing of the copies behind it.
    drop(Bytes { bytes: vec![1; 1 << 20] }.upload(&cache).unwrap());
    for byte in 101..=110 {
        drop(bytes(byte).upload(&cache).unwrap());
    }
    assert_eq!(bytes(111).upload(&cache).unwrap().read_back().unwrap(), [111; 256]);
    let stats = cache.stats();
    assert!(stats.waits != 0 && stats.staging_bytes == 64 * 512 + (2 << 20), "{stats:?}");
    drop(held);
}

fn a_set_on_its_own_stream_is_a_range_there() {
    let device = HostDevice::new();
    let stream = device.stream();
    let set = bytes(7).upload(&stream).unwrap();
    let lent = set.on(&stream).unwrap();
    let range = lent.range(lent.bytes).unwrap();
    assert_eq!((range.len(), range.is_empty()), (256, false));
    let mut batch = CopyBatch::new(&CopyStaging::new(&stream));
    let ticket = batch.dtoh_owned(range).unwrap();
    assert_eq!(batch.submit().unwrap().wait().unwrap().to_vec(&ticket), [7; 256]);

    let other = CopyStaging::new(&device.stream());
    let mut batch = CopyBatch::new(&other);
    let _ = batch.dtoh_owned(lent.range(lent.bytes).unwrap()).unwrap();
    let error = marshal::Error::from(batch.submit().unwrap_err());
    assert!(matches!(error.kind(), ErrorKind::WrongStream { .. }), "{error}");
}

fn what_is_fetched_at_an_odd_offset_is_read_all_the_same() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u8, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let at = |offset| buffer.pointer().checked_add(offset).unwrap();
    let mut batch = CopyBatch::<marshal::host::Host>::new(&CopyStaging::new(&stream));
    // SAFETY: the buffer is not used on another stream, and outlives the copies.
    let (bytes, words) = unsafe { (DeviceRange::from_raw(at(0), 3), DeviceRange::from_raw(at(3).cast::<u32>(), 1)) };
    let (bytes, words) = (batch.dtoh_owned(bytes).unwrap(), batch.dtoh_owned(words).unwrap());
    let pending = batch.submit().unwrap();
    // In the order of its own stream already.
    pending.order_before(&stream).unwrap();
    let fetched = pending.wait().unwrap();
    assert_eq!((fetched.to_vec(&bytes), fetched.to_vec(&words)), (vec![1, 2, 3], vec![0x0706_0504]));
}

/// Ends its stream's capture in the walk of that number.
struct Ending<'s> {
    stream: &'s HostStream,
    left: Cell<usize>,
}

impl DeviceArgs for Ending<'_> {
    type Pointers = BytesPointers;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<BytesPointers, Error> {
        let left = self.left.get();
        self.left.set(left.wrapping_sub(1));
        if left == 1 {
            drop(self.stream.end_capture()?);
        }
        bytes(1).walk(visitor)
    }
}

fn blocks_of_a_capture_that_was_ended_under_it_count_no_more() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    cache.reserve_sets(&bytes(0).layout().unwrap(), 2).unwrap();
    assert_eq!(cache.stats().device_bytes, 512);
    // The closure ends it, and may have its graph: the block is never written again.
    cache
        .capture(|stream| {
            drop(bytes(1).upload(&cache)?);
            stream.end_capture().map(drop)
        })
        .unwrap_err();
    assert_eq!(cache.stats().device_bytes, 256);
    // A walk ends it, and no graph is there to keep the block, which stays in the cache. It is walked over for its shape, for its layout, and to be packed.
    stream.begin_capture().unwrap();
    let error = Ending { stream: &stream, left: Cell::new(3) }.upload(&cache).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { call: "cuGraphRetainUserObject", .. }), "{error}");
    assert_eq!(cache.stats().device_bytes, 256);
    assert_eq!(bytes(2).upload(&cache).unwrap().read_back().unwrap(), [2; 256]);
    assert_eq!((cache.stats().device_bytes, cache.stats().allocations), (256, 2));
}
