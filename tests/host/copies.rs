//! Batches of copies: what only the journal, injected failures and a seed can show.

use std::sync::Arc;
use std::time::Duration;

use marshal::backend::{Backend, BatchCopy, BatchMemory, Place};
use marshal::host::{Call, Host, HostBuffer, HostDevice, HostOptions, HostStream, Op};
use marshal::{CopyBatch, CopyBatchError, CopyStaging, DeviceRange, DeviceRangeMut, Error, ErrorKind, PendingCopies};

use crate::heap::ALLOCATIONS;

pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_failure_at_any_copy_tells_how_far_it_came", a_failure_at_any_copy_tells_how_far_it_came),
    ("a_failing_call_around_the_copies_loses_nothing", a_failing_call_around_the_copies_loses_nothing),
    ("staging_of_a_failed_batch_is_not_used_too_early", staging_of_a_failed_batch_is_not_used_too_early),
    ("the_order_inside_a_batch_is_drawn_from_the_seed", the_order_inside_a_batch_is_drawn_from_the_seed),
    ("random_batches_are_right_whatever_the_seed", random_batches_are_right_whatever_the_seed),
    ("neighbours_are_one_copy", neighbours_are_one_copy),
    ("a_thousand_batches_take_one_staging", a_thousand_batches_take_one_staging),
    ("a_stream_far_behind_is_waited_for_at_the_cap", a_stream_far_behind_is_waited_for_at_the_cap),
    ("staging_is_allocated_ahead_of_a_host_that_runs_ahead", staging_is_allocated_ahead_of_a_host_that_runs_ahead),
    ("small_batches_ask_rarely_how_far_the_stream_is", small_batches_ask_rarely_how_far_the_stream_is),
    ("a_batch_uses_the_lists_of_the_last", a_batch_uses_the_lists_of_the_last),
    ("owned_memory_goes_with_later_batches", owned_memory_goes_with_later_batches),
    ("a_captured_batch_is_a_node_a_copy", a_captured_batch_is_a_node_a_copy),
    ("what_cannot_be_captured_leaves_the_capture_valid", what_cannot_be_captured_leaves_the_capture_valid),
    ("a_broken_stream_hands_out_nothing", a_broken_stream_hands_out_nothing),
    ("a_buffer_freed_on_another_stream_is_found", a_buffer_freed_on_another_stream_is_found),
];

/// Threads collect a batch, wait for it, and share its staging.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    is_send::<CopyBatch<'static, Host>>();
    is_send::<PendingCopies<'static, Host>>();
    is_send::<CopyBatchError<Host>>();
    is_shared::<CopyStaging<Host>>();
};

fn bytes_of(buffer: &mut HostBuffer<u8>, start: usize, len: usize) -> DeviceRangeMut<'_, u8, Host> {
    // SAFETY: the host backend reports what is wrong with a range.
    unsafe { DeviceRangeMut::from_raw(buffer.pointer().checked_add(start).unwrap(), len) }
}

/// A batch of six copies that are no neighbours: two of each direction, and in the order of submission the requests `order`.
struct Six {
    up: HostBuffer<u8>,
    down: HostBuffer<u8>,
    across: HostBuffer<u8>,
}

impl Six {
    /// Borrowed sources by address, fetches, and owned sources as they were given: what the batch submits first comes first.
    const ORDER: [usize; 6] = [2, 0, 4, 1, 3, 5];

    fn new(stream: &HostStream) -> Self {
        Self {
            up: stream.clone_htod(&[0; 64]).unwrap(),
            down: stream.clone_htod(&[7; 64]).unwrap(),
            across: stream.clone_htod(&[0; 64]).unwrap(),
        }
    }

    fn submit<'a>(
        &mut self,
        staging: &CopyStaging<Host>,
        target: &'a mut [u8],
    ) -> Result<PendingCopies<'a, Host>, CopyBatchError<Host>> {
        let up = self.up.pointer();
        let pointer = |start| up.checked_add(start).unwrap();
        let (source, (first, second)) = (&[1_u8, 2, 3, 4], target.split_at_mut(4));
        // SAFETY: the ranges are apart, and the buffers used on one stream.
        let to = |start| unsafe { DeviceRangeMut::from_raw(pointer(start), 4) };
        let down = self.down.pointer();
        // SAFETY: as above.
        let from = |start| unsafe { DeviceRange::from_raw(down.checked_add(start).unwrap(), 4) };
        let across = self.across.pointer();
        // SAFETY: as above.
        let over = |start| unsafe { DeviceRangeMut::from_raw(across.checked_add(start).unwrap(), 4) };
        let mut batch = CopyBatch::new(staging);
        batch.htod(source, to(32)).unwrap();
        batch.dtoh(from(32), second).unwrap();
        batch.htod(source, to(16)).unwrap();
        batch.dtod(from(0), over(0)).unwrap();
        batch.dtoh(from(16), first).unwrap();
        batch.htod_owned(vec![9; 4], to(48)).unwrap();
        batch.submit()
    }

    /// Submits, waits, and says whether all went well.
    fn run(&mut self, staging: &CopyStaging<Host>, target: &mut [u8]) -> Result<(), Error> {
        self.submit(staging, target)?.wait().map(drop)
    }

    /// What each request is to have written on the device, where it wrote.
    fn written(&self) -> [bool; 6] {
        let (up, across) = (self.up.to_vec().unwrap(), self.across.to_vec().unwrap());
        let is = |bytes: &[u8], start: usize, expected: [u8; 4]| {
            assert!(bytes[start..start + 4] == expected || bytes[start..start + 4] == [0; 4]);
            bytes[start..start + 4] == expected
        };
        [
            is(&up, 32, [1, 2, 3, 4]),
            false,
            is(&up, 16, [1, 2, 3, 4]),
            is(&across, 0, [7; 4]),
            false,
            is(&up, 48, [9; 4]),
        ]
    }
}

fn a_failure_at_any_copy_tells_how_far_it_came() {
    for nth in 1..=6 {
        let device = HostDevice::new();
        let stream = device.stream();
        let staging = CopyStaging::new(&stream);
        let mut six = Six::new(&stream);
        let mut target = [0; 8];
        device.fail(Call::Copy, nth);
        let mut error = six.submit(&staging, &mut target).unwrap_err();
        let done = usize::try_from(nth).unwrap() - 1;
        let mut submitted = Six::ORDER[..done].to_vec();
        submitted.sort_unstable();
        assert_eq!((error.failed(), error.submitted()), (&[Six::ORDER[done]][..], &submitted[..]));
        assert!(matches!(error.error().kind(), ErrorKind::Driver { call: "cuMemcpyAsync", .. }), "{error}");

        error.wait().unwrap();
        assert_eq!(target, [0; 8]);
        let expected: Vec<bool> = (0..6).map(|entry| entry != 1 && entry != 4 && submitted.contains(&entry)).collect();
        assert_eq!(six.written().to_vec(), expected);
        drop(error);
        // The next batch is right, and nothing is left behind.
        six.run(&staging, &mut target).unwrap();
        assert_eq!((target, six.written()), ([7; 8], [true, false, true, true, false, true]));
        drop((six, staging));
        device.synchronize().unwrap();
        let counters = device.counters();
        assert_eq!((counters.live_host_blocks, counters.live_device_blocks), (0, 0), "{nth}");
    }
}

fn a_failing_call_around_the_copies_loses_nothing() {
    for call in [Call::HostAlloc, Call::EventCreate, Call::EventRecord, Call::Synchronize, Call::HostFree] {
        let device = HostDevice::new();
        let stream = device.stream();
        let staging = CopyStaging::new(&stream);
        let mut six = Six::new(&stream);
        let mut target = [0; 8];
        device.fail(call, 1);
        let failed = six.run(&staging, &mut target);
        assert_eq!(failed.is_err(), call != Call::HostFree, "{call:?}");
        six.run(&staging, &mut target).unwrap();
        assert_eq!((target, six.written()), ([7; 8], [true, false, true, true, false, true]));
        drop((six, staging));
        // A release that failed is reported once, and the memory stays.
        assert_eq!(device.synchronize().is_err(), call == Call::HostFree);
        assert_eq!(device.counters().live_host_blocks, u64::from(call == Call::HostFree), "{call:?}");
    }
}

/// A device on which nothing runs before it is waited for.
fn late_device() -> HostDevice {
    HostDevice::with_options(HostOptions { patience: Duration::MAX, polls: u32::MAX, ..HostOptions::default() })
}

fn staging_of_a_failed_batch_is_not_used_too_early() {
    let device = late_device();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.alloc::<u8>(64).unwrap();
    let pointer = buffer.pointer();
    // SAFETY: the ranges are apart, and the buffer is used on one stream.
    let at = |start| unsafe { DeviceRangeMut::from_raw(pointer.checked_add(start).unwrap(), 8) };
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 8], at(0)).unwrap();
    batch.htod(&[1; 8], at(16)).unwrap();
    device.fail(Call::Copy, 2);
    let error = batch.submit().unwrap_err();
    assert_eq!(error.submitted(), [0]);
    drop(error);
    // The copy that was submitted has not run: this batch gets other staging, or the late copy would find it rewritten.
    for round in 2..10 {
        let mut batch = CopyBatch::new(&staging);
        let source = [round; 8];
        batch.htod(&source, at(32)).unwrap();
        drop(batch.submit().unwrap());
    }
    stream.synchronize().unwrap();
    let mut back = [0; 8];
    let mut batch = CopyBatch::new(&staging);
    // SAFETY: as above.
    batch.dtoh(unsafe { DeviceRange::from_raw(pointer, 8) }, &mut back).unwrap();
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(back, [1; 8]);
    let _ = bytes_of(&mut buffer, 0, 1);
}

fn the_order_inside_a_batch_is_drawn_from_the_seed() {
    let last = |seed| {
        let device = HostDevice::with_options(HostOptions { seed, ..HostOptions::default() });
        let stream = device.stream();
        let (sources, target) = (stream.clone_htod(&[1_u8, 2, 3, 4]).unwrap(), stream.alloc::<u8>(1).unwrap());
        let copy = |offset| BatchCopy {
            source: Place::Device(sources.pointer().address() + offset),
            destination: Place::Device(target.pointer().address()),
            len: 1,
        };
        // What a batch refuses: four copies to one place.
        let copies: Vec<_> = (0..4).map(copy).collect();
        // SAFETY: of the host backend's memory, and the last copy wins.
        unsafe { Host::copy_batch(&stream, &BatchMemory { region: None, owned: &[] }, &copies, false) }.unwrap();
        target.to_vec().unwrap()[0]
    };
    let winners: Vec<u8> = (0..50).map(last).collect();
    assert_eq!(winners, (0..50).map(last).collect::<Vec<_>>());
    assert!((1..=4).all(|source| winners.contains(&source)), "{winners:?}");
}

fn random_batches_are_right_whatever_the_seed() {
    for seed in 1..4 {
        let device = HostDevice::with_options(HostOptions { seed, base_offset: 24, ..HostOptions::default() });
        let rig = crate::rig::HostRig { device };
        for (name, case) in crate::cases::copies::all() {
            if name.contains("random") || name.contains("sets") {
                case(&rig);
            }
        }
    }
}

fn copies_of(device: &HostDevice) -> Vec<(u64, u64)> {
    let copy = |op: &Op| match *op {
        Op::Copy { destination, size_bytes, .. } => Some((destination, size_bytes)),
        Op::CopyDtoh { source, size_bytes, .. } => Some((source, size_bytes)),
        _ => None,
    };
    device.journal().iter().filter_map(copy).collect()
}

fn neighbours_are_one_copy() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let buffer = stream.alloc::<u8>(100).unwrap();
    let base = buffer.pointer().address();
    let sources: Vec<[u8; 10]> = (0..10).map(|i| [i; 10]).collect();
    let mut back = vec![[0_u8; 10]; 10];
    let mut batch = CopyBatch::new(&staging);
    for i in [3, 1, 4, 0, 5, 9, 2, 6, 8, 7] {
        // SAFETY: the ranges are apart, and the buffer is used on one stream.
        batch
            .htod(&sources[i], unsafe { DeviceRangeMut::from_raw(buffer.pointer().checked_add(10 * i).unwrap(), 10) })
            .unwrap();
    }
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(copies_of(&device), [(base, 100)]);
    let mut batch = CopyBatch::new(&staging);
    for (i, target) in back.iter_mut().enumerate().filter(|(i, _)| *i != 5) {
        // SAFETY: as above.
        batch
            .dtoh(unsafe { DeviceRange::from_raw(buffer.pointer().checked_add(10 * i).unwrap(), 10) }, target)
            .unwrap();
    }
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(copies_of(&device)[1..], [(base, 50), (base + 60, 40)]);
    back[5] = [5; 10];
    assert_eq!(back, sources);
}

fn a_thousand_batches_take_one_staging() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.alloc::<u32>(16).unwrap();
    for round in 0..1000 {
        let source = [round; 16];
        let mut back = [0; 16];
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, &mut buffer).unwrap();
        batch.submit().unwrap().wait().unwrap();
        let mut batch = CopyBatch::new(&staging);
        batch.dtoh(&buffer, &mut back).unwrap();
        batch.submit().unwrap().wait().unwrap();
        assert_eq!(back, source);
    }
    assert_eq!(device.counters().host_allocs, 1);
}

fn a_stream_far_behind_is_waited_for_at_the_cap() {
    let device = late_device();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.alloc::<u8>(1 << 20).unwrap();
    let source = vec![1; 1 << 20];
    for _ in 0..100 {
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, &mut buffer).unwrap();
        drop(batch.submit().unwrap());
    }
    // 64 MiB of staging, and no more.
    let counters = device.counters();
    assert!((1..=64).contains(&counters.live_host_blocks), "{counters:?}");
    // One that is larger by itself takes what it needs, and gives it back.
    let mut large = stream.alloc::<u8>(65 << 20).unwrap();
    let source = vec![2; 65 << 20];
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&source, &mut large).unwrap();
    batch.submit().unwrap().wait().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(device.counters().live_host_blocks, 0);
    assert_eq!(large.to_vec().unwrap(), source);
}

fn staging_is_allocated_ahead_of_a_host_that_runs_ahead() {
    let device = late_device();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.alloc::<u8>(1 << 20).unwrap();
    let source = vec![1; 1 << 20];
    let mut submit = || {
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, &mut buffer).unwrap();
        drop(batch.submit().unwrap());
        device.counters().live_host_blocks
    };
    let regions: Vec<u64> = (0..9).map(|_| submit()).collect();
    assert_eq!(regions, [1, 2, 4, 4, 8, 8, 8, 8, 16]);
    (9..16).for_each(|_| assert_eq!(submit(), 16));
    // What is not needed yet may not be had. No more than 16 MiB come at once.
    device.fail(Call::HostAlloc, 3);
    assert_eq!(submit(), 18);
    assert_eq!((submit(), submit()), (18, 34));
    (0..100).for_each(|_| assert!(submit() <= 64));
    stream.synchronize().unwrap();
}

fn small_batches_ask_rarely_how_far_the_stream_is() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let buffer = stream.alloc::<u8>(64).unwrap();
    let source: Arc<[u8]> = Arc::from([7; 8]);
    let submit = |by_value: bool| {
        // SAFETY: the ranges are apart, and the buffer is used on one stream.
        let to = |start| unsafe { DeviceRangeMut::from_raw(buffer.pointer().checked_add(start).unwrap(), 8) };
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, to(0)).unwrap();
        if by_value {
            batch.htod_owned(source.clone(), to(16)).unwrap();
        }
        drop(batch.submit().unwrap());
        stream.synchronize().unwrap();
    };
    (0..200).for_each(|_| submit(false));
    for by_value in [false, true] {
        let before = device.counters();
        (0..1600).for_each(|_| submit(by_value));
        let after = device.counters();
        assert_eq!(after.host_allocs, before.host_allocs);
        assert!(after.events - before.events <= 101, "{} events", after.events - before.events);
        // Owned memory is asked for besides.
        let queries = after.queries - before.queries;
        assert!(queries <= if by_value { 101 + 26 } else { 101 }, "{queries} queries");
    }
    // 32 of 64 KiB.
    assert_eq!(device.counters().live_host_blocks, 32);
}

fn a_batch_uses_the_lists_of_the_last() {
    let stream = HostDevice::new().stream();
    let staging = CopyStaging::new(&stream);
    let buffer = stream.alloc::<u8>(16 * 4096).unwrap();
    let (source, mut target) = ([1_u8; 8], vec![[0_u8; 8]; 4096]);
    let mut allocations = |copies: usize| {
        // SAFETY: the ranges are apart, and the buffer is used on one stream.
        let to = |copy: usize| unsafe { DeviceRangeMut::from_raw(buffer.pointer().checked_add(16 * copy).unwrap(), 8) };
        // SAFETY: as above.
        let from = |copy: usize| unsafe { DeviceRange::from_raw(buffer.pointer().checked_add(16 * copy).unwrap(), 8) };
        let mut collected = 0;
        for _ in 0..2 {
            let before = ALLOCATIONS.get();
            let mut batch = CopyBatch::new(&staging);
            (0..copies).for_each(|copy| batch.htod(&source, to(copy)).unwrap());
            collected = ALLOCATIONS.get() - before;
            batch.submit().unwrap().wait().unwrap();
            let before = ALLOCATIONS.get();
            let mut batch = CopyBatch::new(&staging);
            target[..copies].iter_mut().enumerate().for_each(|(copy, target)| batch.dtoh(from(copy), target).unwrap());
            collected += ALLOCATIONS.get() - before;
            batch.submit().unwrap().wait().unwrap();
        }
        collected
    };
    assert_eq!((allocations(100), allocations(4096), allocations(3)), (0, 0, 0));
}

fn owned_memory_goes_with_later_batches() {
    let stream = HostDevice::new().stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.alloc::<u8>(8).unwrap();
    let source: Arc<[u8]> = Arc::from([7; 8]);
    for _ in 0..1000 {
        let mut batch = CopyBatch::new(&staging);
        batch.htod_owned(source.clone(), &mut buffer).unwrap();
        drop(batch.submit().unwrap());
        stream.synchronize().unwrap();
    }
    // Asked for every 128 owners, and some polls late.
    assert!(Arc::strong_count(&source) <= 1 + 256, "{}", Arc::strong_count(&source));
    // A wait knows of all before it.
    let mut batch = CopyBatch::new(&staging);
    batch.htod_owned(source.clone(), &mut buffer).unwrap();
    drop(batch.submit().unwrap().wait().unwrap());
    assert_eq!(Arc::strong_count(&source), 1);
}

fn a_captured_batch_is_a_node_a_copy() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let inputs = stream.clone_htod(&[5_u8; 4]).unwrap();
    let mut outputs = stream.clone_htod(&[0_u8; 64]).unwrap();
    staging.reserve(8).unwrap();
    let pointer = outputs.pointer();
    // SAFETY: the ranges are apart, and the buffer is used on one stream.
    let at = |start| unsafe { DeviceRangeMut::from_raw(pointer.checked_add(start).unwrap(), 4) };

    stream.begin_capture().unwrap();
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 4], at(0)).unwrap();
    batch.htod_owned(vec![2; 4], at(8)).unwrap();
    batch.dtod(&inputs, at(16)).unwrap();
    let pending = batch.submit().unwrap();
    let graph = stream.end_capture().unwrap();
    assert_eq!(graph.nodes().len(), 3);
    assert_eq!(*pending.wait().unwrap_err().kind(), ErrorKind::Captured);
    assert_eq!(outputs.to_vec().unwrap(), [0; 64]);

    // What the graph reads on the host outlives the batch and its staging.
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[9; 4], at(32)).unwrap();
    batch.submit().unwrap().wait().unwrap();
    drop(staging);
    for _ in 0..3 {
        stream.memset(pointer, 24, 0).unwrap();
        graph.launch(&stream).unwrap();
        let back = outputs.to_vec().unwrap();
        assert_eq!((&back[..4], &back[8..12], &back[16..20]), (&[1; 4][..], &[2; 4][..], &[5; 4][..]));
    }
    let _ = bytes_of(&mut outputs, 0, 1);
    assert_ne!(device.counters().live_host_blocks, 0);
    drop(graph);
    stream.synchronize().unwrap();
    assert_eq!(device.counters().live_host_blocks, 0);
}

fn what_cannot_be_captured_leaves_the_capture_valid() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let set = {
        use marshal::DeviceArgs;
        #[derive(DeviceArgs)]
        struct Bytes {
            bytes: Vec<u8>,
        }
        Bytes { bytes: vec![1; 4] }.upload(&stream).unwrap()
    };
    let (mut buffer, mut back) = (stream.clone_htod(&[0_u8; 4]).unwrap(), [0; 4]);
    let mut other = stream.clone_htod(&[0_u8; 4]).unwrap();
    stream.begin_capture().unwrap();
    let kind = |batch: CopyBatch<'_, Host>| batch.submit().unwrap_err().error().kind().clone();

    let mut batch = CopyBatch::new(&staging);
    batch.dtoh(&buffer, &mut back).unwrap();
    assert_eq!(kind(batch), ErrorKind::NotCapturable { entry: 0 });
    let mut batch = CopyBatch::new(&staging);
    let _ticket = batch.dtoh_owned(&buffer).unwrap();
    assert_eq!(kind(batch), ErrorKind::NotCapturable { entry: 0 });
    let mut batch = CopyBatch::new(&staging);
    batch.htod::<u8>(&[], bytes_of(&mut buffer, 0, 0)).unwrap();
    batch.dtod(set.range(set.bytes).unwrap(), bytes_of(&mut other, 0, 4)).unwrap();
    assert_eq!(kind(batch), ErrorKind::NotCapturable { entry: 1 });
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 4], &mut buffer).unwrap();
    assert_eq!(kind(batch), ErrorKind::Capturing { needed: 4 });
    assert!(staging.reserve(4).is_err());
    assert!(stream.end_capture().unwrap().nodes().is_empty());

    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 4], &mut buffer).unwrap();
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1; 4]);
}

fn a_broken_stream_hands_out_nothing() {
    let device = HostDevice::new();
    let stream = device.stream();
    let staging = CopyStaging::new(&stream);
    let mut buffer = stream.clone_htod(&[0_u8; 4]).unwrap();
    let mut back = [3; 4];
    stream.launch(|_| panic!("the cause")).unwrap();
    let mut batch = CopyBatch::new(&staging);
    batch.dtoh(&buffer, &mut back).unwrap();
    let error = batch.submit().unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("the cause"), "{error}");
    assert_eq!(back, [3; 4]);
    let _ = bytes_of(&mut buffer, 0, 1);
    drop((buffer, staging));
    let _ = device.synchronize();
    assert_eq!(device.counters().live_host_blocks, 0);
}

fn a_buffer_freed_on_another_stream_is_found() {
    let device = late_device();
    let (home, other) = (device.stream(), device.stream());
    let staging = CopyStaging::new(&other);
    let mut buffer = home.alloc::<u8>(4).unwrap();
    other.wait(&home.record().unwrap()).unwrap();
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[1; 4], &mut buffer).unwrap();
    core::mem::forget(batch.submit().unwrap());
    drop(buffer);
    other.synchronize().unwrap();
    let error = home.synchronize().unwrap_err();
    assert!(error.to_string().contains("was freed on stream 0 while stream 1 used it"), "{error}");
    let _ = other.synchronize();
}
