//! The cached mode: what only counters, the journal, injected failures and a counting allocator show.

use marshal::host::{Call, Counters, HostDevice, HostStream, Op};
use marshal::{ArgCache, CacheOptions, DeviceArgs, Error, ErrorKind, Uploaded, WhenExhausted};

use crate::cases::Rig;
use crate::heap::ALLOCATIONS;
use crate::rig::HostRig;

pub(crate) const ALL: &[(&str, fn())] = &[
    ("changing_bytes_cost_one_copy_and_no_allocation", changing_bytes_cost_one_copy_and_no_allocation),
    ("a_host_that_runs_ahead_allocates_nothing_either", a_host_that_runs_ahead_allocates_nothing_either),
    ("unchanged_bytes_cost_no_call", unchanged_bytes_cost_no_call),
    ("calls_are_made_on_the_stream_of_the_cache", calls_are_made_on_the_stream_of_the_cache),
    ("every_call_may_fail_once_at_every_point", every_call_may_fail_once_at_every_point),
    ("a_failure_leaves_the_cache_as_it_was", a_failure_leaves_the_cache_as_it_was),
    (
        "regions_of_evicted_blocks_are_not_written_while_they_are_read",
        regions_of_evicted_blocks_are_not_written_while_they_are_read,
    ),
    ("a_thousand_sets_may_be_held", a_thousand_sets_may_be_held),
    ("staging_takes_what_its_cap_leaves", staging_takes_what_its_cap_leaves),
    ("the_slack_of_an_alignment_counts_under_the_cap", the_slack_of_an_alignment_counts_under_the_cap),
    ("fences_that_failed_are_made_up_for", fences_that_failed_are_made_up_for),
    ("a_walk_cannot_use_the_cache_that_it_is_uploaded_to", a_walk_cannot_use_the_cache_that_it_is_uploaded_to),
    ("a_reserved_block_is_as_good_as_a_used_one", a_reserved_block_is_as_good_as_a_used_one),
    ("behind_a_failed_copy_the_last_image_is_sent_again", behind_a_failed_copy_the_last_image_is_sent_again),
    ("events_that_fail_for_ever_never_let_a_region_be_reused", events_that_fail_for_ever_never_let_a_region_be_reused),
    ("a_panic_in_the_walk_leaves_the_cache_usable", a_panic_in_the_walk_leaves_the_cache_usable),
    ("a_set_that_stays_lent_is_never_written_nor_freed", a_set_that_stays_lent_is_never_written_nor_freed),
    ("ten_thousand_shapes_leave_nothing", ten_thousand_shapes_leave_nothing),
    ("a_cache_is_send_and_sync_and_so_are_its_sets", a_cache_is_send_and_sync_and_so_are_its_sets),
    ("eviction_and_reuse_keep_the_columns_right", eviction_and_reuse_keep_the_columns_right),
    ("a_drop_while_unwinding_is_no_second_panic", a_drop_while_unwinding_is_no_second_panic),
];

#[derive(DeviceArgs)]
struct Args {
    sizes: Vec<[i32; 3]>,
    pointers: Vec<u64>,
}

impl Args {
    fn new(value: u64) -> Self {
        Self { sizes: vec![[1, 2, 3]; 64], pointers: vec![value; 64] }
    }

    fn image(&self) -> Vec<u8> {
        let mut image: Vec<u8> = bytemuck::cast_slice(&self.sizes).to_vec();
        image.extend_from_slice(bytemuck::cast_slice(&self.pointers));
        assert_eq!(image.len(), 1280);
        image
    }
}

fn changing_bytes_cost_one_copy_and_no_allocation() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut args = Args::new(0);
    // A ring's length and more: every fence that the steady state needs is there.
    for value in 0..300 {
        args.pointers[63] = value;
        drop(args.upload(&cache).unwrap());
        if value % 10 == 0 {
            stream.synchronize().unwrap();
        }
    }
    stream.synchronize().unwrap();
    let before = device.counters();
    let mut heap = 0;
    for value in 1000..2000 {
        args.pointers[63] = value;
        let heap_before = ALLOCATIONS.get();
        drop(args.upload(&cache).unwrap());
        heap += ALLOCATIONS.get() - heap_before;
        if value % 10 == 0 {
            stream.synchronize().unwrap();
        }
    }
    let after = device.counters();
    assert_eq!(after.copies - before.copies, 1000);
    assert_eq!(after.copied_bytes - before.copied_bytes, 1000 * 1280);
    assert_eq!(allocations(&after), allocations(&before));
    assert_eq!(after.synchronizes - before.synchronizes, 100, "only the test's own");
    // A fence each half of a ring of 64, and a question each time it is needed.
    assert!(after.events - before.events <= 1000 / 32 + 1, "{} events", after.events - before.events);
    assert!(after.queries - before.queries <= 1000 / 32 + 1, "{} queries", after.queries - before.queries);
    assert_eq!(heap, 0, "heap allocations in 1000 uploads");
}

fn a_host_that_runs_ahead_allocates_nothing_either() {
    let device = HostDevice::new();
    let stream = device.stream();
    // On a machine with much else to do the stream falls behind, and staging would grow.
    let options = CacheOptions { when_exhausted: WhenExhausted::Wait, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let mut args = Args::new(0);
    drop(args.upload(&cache).unwrap());
    let before = device.counters();
    let mut heap = 0;
    for value in 1..=1000 {
        args.pointers[0] = value;
        let heap_before = ALLOCATIONS.get();
        drop(args.upload(&cache).unwrap());
        heap += ALLOCATIONS.get() - heap_before;
    }
    let after = device.counters();
    assert_eq!((after.copies - before.copies, after.copied_bytes - before.copied_bytes), (1000, 1000 * 1280));
    assert_eq!(allocations(&after), allocations(&before));
    assert_eq!(after.synchronizes - before.synchronizes, cache.stats().waits);
    assert_eq!(heap, 0, "heap allocations in 1000 uploads");
    assert_eq!(args.upload(&cache).unwrap().read_back().unwrap(), args.image());
}

fn allocations(counters: &Counters) -> [u64; 4] {
    [counters.device_allocs, counters.device_frees, counters.host_allocs, counters.host_frees]
}

fn unchanged_bytes_cost_no_call() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = Args::new(5);
    drop(args.upload(&cache).unwrap());
    let (before, journal, heap) = (device.counters(), device.journal().len(), ALLOCATIONS.get());
    for _ in 0..1000 {
        drop(args.upload(&cache).unwrap());
    }
    assert_eq!(ALLOCATIONS.get(), heap);
    assert_eq!(device.counters(), before);
    assert_eq!(device.journal().len(), journal);
    // Equal, not the same memory.
    drop(Args::new(5).upload(&cache).unwrap());
    assert_eq!(device.counters(), before);
}

fn calls_are_made_on_the_stream_of_the_cache() {
    let device = HostDevice::new();
    let (_idle, stream) = (device.stream(), device.stream());
    let cache =
        ArgCache::with_options(&stream, CacheOptions { device_bytes: 4096, ..CacheOptions::default() }).unwrap();
    for value in 0..200 {
        // Cold, warm, and evicting.
        drop(Args::new(value).upload(&cache).unwrap());
        drop(Args { sizes: vec![[0; 3]; usize::try_from(value).unwrap()], pointers: vec![] }.upload(&cache).unwrap());
    }
    cache.clear();
    stream.synchronize().unwrap();
    let mut seen = 0;
    for op in device.journal() {
        let on = match op {
            Op::DeviceAlloc { stream, .. }
            | Op::DeviceFree { stream, .. }
            | Op::Copy { stream, .. }
            | Op::EventRecord { stream, .. } => stream,
            _ => continue,
        };
        assert_eq!(on, stream.id(), "{op:?}");
        seen += 1;
    }
    assert!(seen > 400, "{seen}");
}

/// What is tried under a failure: from a cold cache to a warm one, with a held set and an eviction.
fn scenario(stream: &HostStream, cache: &ArgCache<marshal::host::Host>) -> Result<(), Error> {
    let other = stream.device().stream();
    let held: Uploaded<_, _> = Args::new(1).upload(cache)?;
    for value in 2..80 {
        let dev = Args::new(value).upload(cache)?;
        if value % 20 == 0 {
            let lent = dev.on(&other)?;
            drop(lent);
        }
    }
    drop(held);
    cache.reserve(&Args { sizes: vec![[0; 3]; 500], pointers: vec![] }.layout()?)?;
    drop(Args { sizes: vec![[0; 3]; 400], pointers: vec![0; 3] }.upload(cache)?);
    Ok(())
}

fn every_call_may_fail_once_at_every_point() {
    for call in [
        Call::DeviceAlloc,
        Call::HostAlloc,
        Call::Copy,
        Call::EventCreate,
        Call::EventRecord,
        Call::EventQuery,
        Call::StreamWait,
        Call::CaptureQuery,
    ] {
        let mut failures = 0;
        for nth in 1..200 {
            let device = HostDevice::new();
            let stream = device.stream();
            let options = CacheOptions { device_bytes: 16 << 10, ..CacheOptions::default() };
            let cache = ArgCache::with_options(&stream, options).unwrap();
            device.fail(call, nth);
            let outcome = scenario(&stream, &cache);
            if let Err(error) = &outcome {
                failures += 1;
                assert!(error.to_string().contains("failed"), "{error}");
            }
            // The next operations are right, whatever failed. The call may be still to come that fails; none fails after it.
            let mut may_fail = outcome.is_ok();
            for value in 500..600 {
                let args = Args::new(value);
                let dev = args.upload(&cache).or_else(|error| {
                    assert!(core::mem::take(&mut may_fail), "{call:?} {nth}: {error}");
                    args.upload(&cache)
                });
                let dev = dev.unwrap_or_else(|error| panic!("{call:?} {nth}: {error}"));
                let image = dev.read_back().or_else(|_| dev.read_back()).unwrap();
                assert_eq!(image, args.image(), "{call:?} {nth}");
            }
            stream.synchronize().unwrap();
            drop(cache);
            stream.synchronize().unwrap();
            let counters = device.counters();
            assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0), "{call:?} {nth}");
            if outcome.is_ok() && nth > 120 {
                break;
            }
        }
        // An event that is not recorded in time is recorded later: no upload fails for it.
        assert!(failures > 0 || matches!(call, Call::EventCreate | Call::EventRecord | Call::EventQuery), "{call:?}");
    }
}

fn a_failure_leaves_the_cache_as_it_was() {
    for call in [Call::DeviceAlloc, Call::HostAlloc, Call::Copy] {
        let device = HostDevice::new();
        let stream = device.stream();
        let options = CacheOptions { device_bytes: 64_000, ..CacheOptions::default() };
        let cache = ArgCache::with_options(&stream, options).unwrap();
        let held = Args::new(1).upload(&cache).unwrap();
        // It would have to go for the next, which is of another size, so that it needs staging too.
        drop(Args::new(2).upload(&cache).unwrap());
        let large = Args { sizes: vec![[7; 3]; 5200], pointers: vec![] };
        let (before, stats) = (device.counters().live_device_blocks, cache.stats());
        device.fail(call, 1);
        let error = large.upload(&cache).unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
        stream.synchronize().unwrap();
        assert_eq!(device.counters().live_device_blocks, before, "{call:?}");
        let after = cache.stats();
        let counts = |stats: marshal::CacheStats| (stats.uploads, stats.copies, stats.allocations, stats.evictions);
        assert_eq!(counts(after), counts(stats), "{call:?}");
        assert_eq!(held.read_back().unwrap(), Args::new(1).image());
        assert_eq!(Args::new(2).upload(&cache).unwrap().read_back().unwrap(), Args::new(2).image());
        assert_eq!(cache.stats().byte_hits, stats.byte_hits + 1, "{call:?}");
        assert_eq!(large.upload(&cache).unwrap().read_back().unwrap(), bytemuck::cast_slice::<_, u8>(&large.sizes));
        assert_eq!(cache.stats().evictions, 1);
    }
}

/// A shape of `words` words.
fn words(value: u64, words: usize) -> Args {
    Args { sizes: vec![], pointers: vec![value; words] }
}

fn regions_of_evicted_blocks_are_not_written_while_they_are_read() {
    for when_exhausted in [WhenExhausted::Grow, WhenExhausted::Error] {
        let device = HostDevice::new();
        let stream = device.stream();
        let rig = HostRig { device: device.clone() };
        let options = CacheOptions { device_bytes: 1 << 20, when_exhausted, ..CacheOptions::default() };
        let cache = ArgCache::with_options(&stream, options).unwrap();
        let busy = rig.block(&stream);
        let synchronizes = device.counters().synchronizes;
        let mut snapshots = Vec::new();
        // Two shapes of one size class, of which the cap holds one: each takes the other's staging, all of it in flight.
        for round in 0..6 {
            for len in [100_000, 99_999] {
                let args = words(round * 2 + len as u64, len);
                match args.upload(&cache) {
                    Ok(dev) => {
                        snapshots.push((rig.snapshot(&stream, dev.pointers.pointer().cast(), 8), args.pointers[0]))
                    }
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::StagingExhausted { .. }), "{error}");
                        assert_eq!(when_exhausted, WhenExhausted::Error);
                    }
                }
                let reserved = cache.reserve(&words(0, len - 1000).layout().unwrap());
                assert!(reserved.is_ok(), "{reserved:?}");
            }
        }
        assert_eq!(device.counters().synchronizes, synchronizes, "nothing may wait for the stream here");
        drop(busy);
        stream.synchronize().unwrap();
        assert!(snapshots.len() >= 2);
        for (snapshot, value) in snapshots {
            assert_eq!(snapshot(), value.to_le_bytes());
        }
    }
}

fn a_thousand_sets_may_be_held() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let sets: Vec<_> = (0..1000).map(|value| words(value, 1024).upload(&cache).unwrap()).collect();
    for (value, set) in (0_u64..).zip(&sets).step_by(97) {
        assert_eq!(set.read_back().unwrap()[..8], value.to_le_bytes());
    }
    let stats = cache.stats();
    assert_eq!(stats.device_bytes, 1000 * 8192);
    // One region each, and what is in turns.
    assert!(stats.staging_bytes <= 1200 * 8192, "{stats:?}");
}

fn staging_takes_what_its_cap_leaves() {
    let device = HostDevice::new();
    let stream = device.stream();
    let upload = |staging_bytes: u64, uploads: u64| {
        let options = CacheOptions { staging_bytes, ..CacheOptions::default() };
        let cache = ArgCache::with_options(&stream, options).unwrap();
        for value in 0..uploads {
            let args = words(value, 100);
            let dev = args.upload(&cache)?;
            assert_eq!(dev.read_back().unwrap()[..8], value.to_le_bytes());
        }
        assert!(cache.stats().staging_bytes <= staging_bytes);
        Ok::<_, Error>(cache.stats().copies)
    };
    // 800 bytes in regions of 1024: three, two, and the one that is there.
    for regions in [3, 2, 1] {
        assert_eq!(upload(regions * 1024, 50).unwrap(), 50, "{regions} regions");
    }
    let error = upload(1023, 1).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StagingFull { needed: 1024, available: 1023 });
}

#[derive(DeviceArgs)]
struct OverAligned {
    #[device(align = 1_048_576)]
    value: [u32; 1],
}

fn the_slack_of_an_alignment_counts_under_the_cap() {
    let device = HostDevice::new();
    let stream = device.stream();
    let needed = (1 << 20) + (1 << 20) - 512;
    for (device_bytes, fits) in [(needed, true), (needed - 1, false)] {
        let options = CacheOptions { device_bytes, ..CacheOptions::default() };
        let cache = ArgCache::with_options(&stream, options).unwrap();
        let outcome = OverAligned { value: [1] }.upload(&cache);
        match outcome {
            Ok(_) => assert!(fits && cache.stats().device_bytes == needed),
            Err(error) => {
                assert!(!fits);
                assert_eq!(*error.kind(), ErrorKind::CacheFull { needed, available: needed - 1 });
            }
        }
    }
}

fn fences_that_failed_are_made_up_for() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { when_exhausted: WhenExhausted::Error, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    device.fail(Call::EventRecord, 1);
    device.fail(Call::EventRecord, 2);
    for value in 0..20 {
        let args = words(value, 100_000);
        assert_eq!(args.upload(&cache).unwrap().read_back().unwrap()[..8], value.to_le_bytes());
    }
    assert_eq!(cache.stats().staging_bytes, 2 * 917_504, "an idle stream needs no more");
}

fn a_walk_cannot_use_the_cache_that_it_is_uploaded_to() {
    struct Reentrant<'c>(&'c ArgCache<marshal::host::Host>, bool);
    impl DeviceArgs for Reentrant<'_> {
        type Pointers = ();
        fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
            if self.1 {
                let _ = self.0.stats();
            }
            // The first walk folds the shape, before the lock.
            if let Err(error) = Args::new(1).upload(self.0) {
                assert_eq!(*error.kind(), ErrorKind::Reentrant);
                return Err(error);
            }
            visitor.column(marshal::ColumnSpec::new("fine"), &[1_u8; 8])?;
            Ok(())
        }
    }
    let stream = HostDevice::new().stream();
    let cache = ArgCache::new(&stream).unwrap();
    assert_eq!(*Reentrant(&cache, false).upload(&cache).unwrap_err().kind(), ErrorKind::Reentrant);
    let other = ArgCache::new(&stream).unwrap();
    drop(Reentrant(&cache, true).upload(&other).unwrap());
    assert_eq!(Args::new(3).upload(&cache).unwrap().read_back().unwrap(), Args::new(3).image());
}

fn a_reserved_block_is_as_good_as_a_used_one() {
    let stream = HostDevice::new().stream();
    let options = CacheOptions { device_bytes: 3 * 8000, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for value in 0..3 {
        drop(words(value, 998).upload(&cache).unwrap());
    }
    cache.reserve(&words(0, 999).layout().unwrap()).unwrap();
    cache.reserve(&words(0, 1000).layout().unwrap()).unwrap();
    assert_eq!((cache.stats().allocations, cache.stats().evictions), (3, 0));
    cache.reserve(&words(0, 997).layout().unwrap()).unwrap();
    assert_eq!((cache.stats().allocations, cache.stats().evictions), (4, 1));
    drop(words(1, 999).upload(&cache).unwrap());
    drop(words(1, 1000).upload(&cache).unwrap());
    assert_eq!(cache.stats().allocations, 4, "the block that was used before the reserving went");
}

fn behind_a_failed_copy_the_last_image_is_sent_again() {
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    drop(Args::new(1).upload(&cache).unwrap());
    device.fail(Call::Copy, 1);
    assert!(Args::new(2).upload(&cache).is_err());
    let copies = device.counters().copies;
    let dev = Args::new(1).upload(&cache).unwrap();
    assert_eq!(device.counters().copies, copies + 1, "the failed copy may be on its way");
    assert_eq!(dev.read_back().unwrap(), Args::new(1).image());
}

fn events_that_fail_for_ever_never_let_a_region_be_reused() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { when_exhausted: WhenExhausted::Wait, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    for nth in 1..=400 {
        device.fail(Call::EventRecord, nth);
    }
    let mut snapshots = Vec::new();
    let mut refused = 0;
    let rig = HostRig { device: device.clone() };
    for value in 0..400 {
        let args = Args::new(value);
        match args.upload(&cache) {
            Ok(dev) => snapshots.push((rig.snapshot(&stream, dev.base(), 1280), args.image())),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && !snapshots.is_empty());
    for (snapshot, image) in snapshots {
        assert_eq!(snapshot(), image);
    }
}

fn a_panic_in_the_walk_leaves_the_cache_usable() {
    struct Panics;
    impl DeviceArgs for Panics {
        type Pointers = ();
        fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
            visitor.column(marshal::ColumnSpec::new("fine"), &[1_u8; 8])?;
            panic!("in the walk")
        }
    }
    let device = HostDevice::new();
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    drop(Args::new(1).upload(&cache).unwrap());
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Panics.upload(&cache).map(drop)));
    std::panic::set_hook(hook);
    assert!(caught.is_err());
    let dev = Args::new(2).upload(&cache).unwrap();
    assert_eq!(dev.read_back().unwrap(), Args::new(2).image());
}

fn a_set_that_stays_lent_is_never_written_nor_freed() {
    let device = HostDevice::new();
    let (home, other) = (device.stream(), device.stream());
    let cache = ArgCache::new(&home).unwrap();
    let dev = Args::new(1).upload(&cache).unwrap();
    let base = dev.base();
    core::mem::forget(dev.on(&other).unwrap());
    drop(dev);
    for value in 2..50 {
        assert_ne!(Args::new(value).upload(&cache).unwrap().base(), base);
    }
    drop(cache);
    other.launch(move |memory| assert_eq!(memory.read_at(base, 4), 1_i32.to_le_bytes())).unwrap();
    home.synchronize().unwrap();
    other.synchronize().unwrap();
    assert_eq!(device.counters().live_device_blocks, 1);
}

fn ten_thousand_shapes_leave_nothing() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { device_bytes: 1 << 20, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let mut most = 0;
    for len in 1..=10_000_u64 {
        drop(
            Args { sizes: vec![], pointers: vec![len; usize::try_from(len % 3000 + 1).unwrap()] }
                .upload(&cache)
                .unwrap(),
        );
        most = most.max(device.counters().live_device_blocks);
    }
    assert!(most < 2000, "{most}");
    drop(cache);
    // Frees count when they are submitted.
    let counters = device.counters();
    assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0));
}

fn a_cache_is_send_and_sync_and_so_are_its_sets() {
    fn check<T: Send + Sync>() {}
    check::<ArgCache<marshal::host::Host>>();
    check::<Uploaded<ArgsPointers, marshal::host::Host>>();
    #[cfg(feature = "cuda")]
    {
        check::<ArgCache<marshal::cuda::Cuda>>();
        check::<Uploaded<ArgsPointers, marshal::cuda::Cuda>>();
    }
}

fn eviction_and_reuse_keep_the_columns_right() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { device_bytes: 8192, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    // Shapes of one size class: each takes over the room of another.
    for round in 0..20_u64 {
        for split in 1..60 {
            let args =
                Args { sizes: vec![[i32::try_from(split).unwrap(); 3]; split], pointers: vec![round; 60 - split] };
            let dev = args.upload(&cache).unwrap();
            let fresh = args.upload(&stream).unwrap();
            assert_eq!(dev.read_back().unwrap(), fresh.read_back().unwrap(), "{split} sizes");
        }
    }
    assert!(cache.stats().evictions > 500);
}

fn a_drop_while_unwinding_is_no_second_panic() {
    let device = HostDevice::new();
    let stream = device.stream();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for call in [Call::DeviceFree, Call::HostFree, Call::EventRecord, Call::EventCreate, Call::StreamWait] {
        let (device, stream) = (device.clone(), stream.clone());
        let caught = std::panic::catch_unwind(move || {
            let cache = ArgCache::new(&stream).unwrap();
            let dev = Args::new(1).upload(&cache).unwrap();
            let other = device.stream();
            let _lent = dev.on(&other).unwrap();
            device.fail(call, 1);
            panic!("the user's own");
        });
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "the user's own");
    }
    std::panic::set_hook(hook);
}
