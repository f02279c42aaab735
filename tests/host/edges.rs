//! Where one condition decides: what would go unnoticed if it were turned round, or were not there.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use marshal::host::{Host, HostDevice};
use marshal::{
    ArgCache, CacheOptions, ColumnSpec, Content, CopyBatch, CopyStaging, DeviceArgs, Error, ErrorKind, Visitor,
    WhenExhausted,
};

pub(crate) const ALL: &[(&str, fn())] = &[
    ("scratch_that_comes_or_goes_under_the_upload_is_refused", scratch_that_comes_or_goes_under_the_upload_is_refused),
    ("the_first_column_that_differs_is_named", the_first_column_that_differs_is_named),
    ("a_set_without_bytes_is_refreshed_by_one_alone", a_set_without_bytes_is_refreshed_by_one_alone),
    ("each_launch_counts_as_its_copies", each_launch_counts_as_its_copies),
    ("launches_leave_fences_behind_them", launches_leave_fences_behind_them),
    ("a_cache_that_goes_before_its_graph_lets_go_of_the_rest", a_cache_that_goes_before_its_graph_lets_go_of_the_rest),
    ("a_batch_that_fails_says_how_far_it_came", a_batch_that_fails_says_how_far_it_came),
    ("an_upload_waits_for_a_region_where_it_was_told_to", an_upload_waits_for_a_region_where_it_was_told_to),
    ("a_read_of_more_than_there_can_be_is_reported", a_read_of_more_than_there_can_be_is_reported),
    ("a_kernel_may_panic_with_any_value", a_kernel_may_panic_with_any_value),
    ("the_block_that_was_used_last_stays_whichever_it_is", the_block_that_was_used_last_stays_whichever_it_is),
    ("of_free_blocks_the_one_that_was_used_last_is_written", of_free_blocks_the_one_that_was_used_last_is_written),
    ("rows_that_differ_before_their_last_tile_are_copied", rows_that_differ_before_their_last_tile_are_copied),
];

/// Its walks differ: each has one byte that travels, and as many of either kind of scratch as the list says.
struct Unsteady {
    walks: Cell<usize>,
    scratch: [(usize, usize); 2],
}

impl DeviceArgs for Unsteady {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        let walk = self.walks.get();
        self.walks.set(walk + 1);
        let (zeroed, uninit) = self.scratch[walk % 2];
        visitor.column(ColumnSpec::new("fixed"), &[1_u8])?;
        visitor.scratch::<u8>(ColumnSpec::new("zeroed"), Content::Zeroed, zeroed)?;
        visitor.scratch::<u8>(ColumnSpec::new("uninit"), Content::Uninit, uninit)?;
        Ok(())
    }
}

fn scratch_that_comes_or_goes_under_the_upload_is_refused() {
    let stream = HostDevice::new().stream();
    let amounts = [(0, 0), (16, 0), (0, 16), (16, 16), (32, 0), (0, 32)];
    for first in amounts {
        for second in amounts {
            let args = Unsteady { walks: Cell::new(0), scratch: [first, second] };
            let uploaded = args.upload(&stream).map(drop).map_err(|error| error.kind().clone());
            if first == second {
                assert_eq!(uploaded, Ok(()));
            } else {
                assert!(matches!(uploaded, Err(ErrorKind::Changed { .. })), "{first:?} {second:?}: {uploaded:?}");
            }
        }
    }
}

/// Columns of one byte an element, by their names and lengths.
struct Named(Vec<(&'static str, usize)>);

impl DeviceArgs for Named {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        for &(name, len) in &self.0 {
            visitor.column(ColumnSpec::new(name), &vec![1_u8; len])?;
        }
        Ok(())
    }
}

fn the_first_column_that_differs_is_named() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Named(vec![("a", 3), ("b", 4), ("c", 5)]);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache.capture(|_| args.upload(&cache)).unwrap();
    // Columns by name and length; the one that differs, its elements in the graph and in the arguments.
    type Other = (&'static [(&'static str, usize)], &'static str, u64, u64);
    let others: [Other; 5] = [
        (&[("a", 3), ("b", 9), ("c", 5)], "b", 4, 9),
        (&[("a", 3), ("b", 4), ("c", 0)], "c", 5, 0),
        (&[("a", 3), ("x", 4), ("c", 5)], "x", 0, 4),
        (&[("a", 3), ("b", 4)], "c", 5, 0),
        (&[("a", 3), ("b", 4), ("c", 5), ("d", 6)], "d", 0, 6),
    ];
    for (columns, column, expected, found) in others {
        let error = graph.refresh(|set| set, &Named(columns.to_vec())).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::OtherShape { column, expected, found });
    }
}

fn a_set_without_bytes_is_refreshed_by_one_alone() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let graph = cache.capture(|_| Named(vec![("a", 0)]).upload(&cache)).unwrap();
    assert_eq!(graph.refresh(|set| set, &Named(vec![("a", 0)])), Ok(()));
    for other in [vec![("a", 1)], vec![("b", 0)], vec![("a", 0), ("b", 0)]] {
        let error = graph.refresh(|set| set, &Named(other)).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::NotInGraph { sets: 0 });
    }
    graph.launch().unwrap();
    // A set with bytes that is of no graph, with arguments of its very shape.
    let eager = Named(vec![("a", 1)]).upload(&cache).unwrap();
    let graph = cache.capture(|_| Ok(eager)).unwrap();
    let error = graph.refresh(|eager| eager, &Named(vec![("a", 1)])).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotInGraph { sets: 0 });
}

fn each_launch_counts_as_its_copies() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Named(vec![("a", 100)]);
    cache.reserve_sets(&args.layout().unwrap(), 2).unwrap();
    let graph = cache.capture(|_| Ok((args.upload(&cache)?, args.upload(&cache)?))).unwrap();
    assert_eq!((cache.stats().copies, cache.stats().copied_bytes), (0, 0));
    for launches in 1..=3 {
        graph.launch().unwrap();
        // 100 bytes, rounded up to 16.
        assert_eq!((cache.stats().copies, cache.stats().copied_bytes), (2 * launches, 224 * launches));
    }
    drop(args.upload(&cache).unwrap());
    assert_eq!((cache.stats().copies, cache.stats().copied_bytes), (7, 784));
}

fn launches_leave_fences_behind_them() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Named(vec![("a", 100)]);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache.capture(|_| args.upload(&cache)).unwrap();
    let before = device.counters().events;
    (0..64).for_each(|_| graph.launch().unwrap());
    // One each half of the 64 regions that staging of this size has.
    assert_eq!(device.counters().events - before, 2);

    let other = ArgCache::new(&stream).unwrap();
    other.reserve_sets(&args.layout().unwrap(), 2).unwrap();
    let pair = other.capture(|_| Ok((args.upload(&other)?, args.upload(&other)?))).unwrap();
    let before = device.counters().events;
    (0..64).for_each(|_| pair.launch().unwrap());
    assert_eq!(device.counters().events - before, 4, "each launch takes two regions");

    let empty = cache.capture(|_| Ok(())).unwrap();
    let before = device.counters().events;
    (0..64).for_each(|_| empty.launch().unwrap());
    assert_eq!(device.counters().events, before, "a graph that reads no region needs no fence");
}

fn a_cache_that_goes_before_its_graph_lets_go_of_the_rest() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Named(vec![("a", 100)]);
    cache.reserve(&args.layout().unwrap()).unwrap();
    let graph = cache.capture(|_| args.upload(&cache)).unwrap();
    drop(Named(vec![("b", 5000)]).upload(&cache).unwrap());
    assert_eq!(device.counters().live_device_blocks, 2);
    drop(cache);
    stream.synchronize().unwrap();
    assert_eq!(device.counters().live_device_blocks, 1, "the graph's own");
    graph.launch().unwrap();
    drop(graph);
    stream.synchronize().unwrap();
    let counters = device.counters();
    assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0));
}

fn a_batch_that_fails_says_how_far_it_came() {
    use marshal::host::Call;

    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::<Host>::new(&stream);
    let mut buffers = [stream.alloc::<u8>(4).unwrap(), stream.alloc::<u8>(4).unwrap()];
    let mut submit = |fail: Option<Call>| {
        let [first, second] = &mut buffers;
        let mut batch = CopyBatch::new(&staging);
        assert!(batch.is_empty());
        batch.htod(&[1; 4], first).unwrap();
        batch.htod(&[2; 4], second).unwrap();
        assert_eq!(batch.len(), 2);
        if let Some(call) = fail {
            device.fail(call, 2);
        }
        batch.submit().map(drop)
    };
    submit(None).unwrap();
    let mut error = submit(Some(Call::Copy)).unwrap_err();
    assert_eq!((error.failed().len(), error.submitted().len()), (1, 1));
    let told = error.to_string();
    assert!(told.starts_with(&format!("copies {:?} failed, 1 may have been submitted: ", error.failed())), "{told}");
    let shown = format!("{error:?}");
    assert!(shown.starts_with("CopyBatchError { error: ") && shown.contains("failed: ["), "{shown}");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), error.error().to_string());
    error.wait().unwrap();
    assert_eq!(Error::from(error).to_string(), told.split_once("submitted: ").unwrap().1);

    let mut short = stream.alloc::<u8>(4).unwrap();
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 3], &mut short).map(drop).unwrap_err();
}

#[derive(DeviceArgs)]
struct Bytes {
    bytes: Vec<u8>,
}

fn an_upload_waits_for_a_region_where_it_was_told_to() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { when_exhausted: WhenExhausted::Wait, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let (gate, blocked) = mpsc::channel::<()>();
    stream.launch(move |_| assert!(blocked.recv().is_err())).unwrap();
    // Staging of this size has two regions.
    let upload = |byte| drop(Bytes { bytes: vec![byte; 1 << 20] }.upload(&cache).unwrap());
    upload(1);
    upload(2);
    assert_eq!(cache.stats().waits, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The wait is in the journal before it begins. Without one, the test ends all the same, and fails below.
            let late = Instant::now() + Duration::from_secs(20);
            while device.counters().synchronizes == 0 && Instant::now() < late {
                std::thread::yield_now();
            }
            drop(gate);
        });
        upload(3);
    });
    assert_eq!((cache.stats().waits, device.counters().synchronizes), (1, 1));
    assert_eq!(cache.stats().staging_bytes, 2 << 20);
}

fn a_read_of_more_than_there_can_be_is_reported() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u64]).unwrap();
    let at = buffer.pointer();
    stream.launch(move |memory| drop(memory.read_at(at, usize::MAX / 4).to_vec())).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.to_string().contains("passes the last address: check the length"), "{error}");
}

fn a_kernel_may_panic_with_any_value() {
    let stream = HostDevice::new().stream();
    stream.launch(|_| std::panic::panic_any(5)).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.to_string().contains("no message"), "{error}");
}

fn the_block_that_was_used_last_stays_whichever_it_is() {
    let stream = HostDevice::new().stream();
    let args = |index: usize| Bytes { bytes: vec![1; 512 - 16 * index] };
    for oldest in 0..3 {
        // Room for three of them and no fourth.
        let options = CacheOptions { device_bytes: 3 * 512, ..CacheOptions::default() };
        let cache = ArgCache::with_options(&stream, options).unwrap();
        (0..3).for_each(|index| drop(args(index).upload(&cache).unwrap()));
        let used = (0..3).filter(|&index| index != oldest);
        used.clone().for_each(|index| drop(args(index).upload(&cache).unwrap()));
        drop(args(3).upload(&cache).unwrap());
        assert_eq!((cache.stats().evictions, cache.stats().byte_hits), (1, 2));
        used.for_each(|index| drop(args(index).upload(&cache).unwrap()));
        assert_eq!((cache.stats().evictions, cache.stats().byte_hits), (1, 4), "{oldest} was the one to go");
    }
}

fn of_free_blocks_the_one_that_was_used_last_is_written() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = |byte| Bytes { bytes: vec![byte; 100] };
    let sets = [1, 2, 3].map(|byte| args(byte).upload(&cache).unwrap());
    let bases = sets.each_ref().map(|set| set.base());
    drop(sets);
    // Found by their bytes, each in turn; what comes next goes where they are.
    for (byte, base) in [1, 2, 3].into_iter().zip(bases) {
        assert_eq!(args(byte).upload(&cache).unwrap().base(), base);
        assert_eq!(args(10 + byte).upload(&cache).unwrap().base(), base);
    }
    assert_eq!(cache.stats().allocations, 3);
}

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
struct Row {
    size: [u64; 16],
    tag: u8,
}

fn rows_that_differ_before_their_last_tile_are_copied() {
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    // A tile stays in the first-level cache: these are many.
    let mut rows = vec![Row { size: [7; 16], tag: 1 }; 4000];
    drop(rows.upload(&cache).unwrap());
    for (changed, copies) in [(0, 2), (2000, 3), (3999, 4)] {
        rows[changed].size[15] = 8;
        let dev = rows.upload(&cache).unwrap();
        assert_eq!(cache.stats().copies, copies);
        assert_eq!(dev.read_back().unwrap()[changed * 128 + 120], 8);
    }
    drop(rows.upload(&cache).unwrap());
    assert_eq!((cache.stats().copies, cache.stats().byte_hits), (4, 1));
}
