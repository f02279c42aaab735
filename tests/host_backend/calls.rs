//! Calls are told, and fail, as they say.

use std::time::Duration;

use marshal::backend::Backend;
use marshal::host::{Call, Counters, Host, HostBuffer, HostDevice, HostOptions, HostStream, Op};
use marshal::{Alignment, DevicePointer, Error, ErrorKind};

use super::{assert_contains, fault, patient_device, read_in_kernel, staged};

#[test]
fn counters_and_journal_say_what_was_called_in_order() {
    // The first question is answered before the work is begun.
    let device = HostDevice::with_options(HostOptions { patience: Duration::MAX, polls: 2, ..Default::default() });
    let (home, other) = (device.stream(), device.stream());
    let block = Host::allocate(&home, 24).unwrap();
    let address = block.address();
    let image = vec![7; 16];
    let source = image.as_ptr().addr() as u64;
    Host::copy_htod(&home, image, &block, 8).unwrap();
    home.memset(DevicePointer::<u8>::from_raw(address).unwrap(), 8, 1).unwrap();
    let staging = staged(&device, &[5; 4]);
    let staged_at = staging.address();
    home.copy_staging(&staging, 1..3, DevicePointer::from_raw(address + 20).unwrap()).unwrap();
    let fence = Host::record(&home).unwrap();
    Host::wait(&other, &fence).unwrap();
    assert!(!fence.query().unwrap());
    other.launch(|_| {}).unwrap();
    other.synchronize().unwrap();
    assert_eq!(Host::copy_dtoh(&home, &block, 6, 3).unwrap(), [1, 1, 7]);
    assert_eq!(Host::copy_dtoh(&home, &block, 19, 4).unwrap(), [7, 5, 5, 7]);
    drop(staging);
    drop(block);
    device.synchronize().unwrap();

    assert_eq!(
        device.journal(),
        [
            Op::DeviceAlloc { stream: 0, address, size_bytes: 24 },
            Op::Copy { stream: 0, source, destination: address + 8, size_bytes: 16 },
            Op::Memset { stream: 0, address, size_bytes: 8, value: 1 },
            Op::HostAlloc { address: staged_at, size_bytes: 4 },
            Op::Copy { stream: 0, source: staged_at + 1, destination: address + 20, size_bytes: 2 },
            Op::EventCreate { event: 0 },
            Op::EventRecord { stream: 0, event: 0 },
            Op::StreamWait { stream: 1, event: 0 },
            Op::EventQuery { event: 0, reached: false },
            Op::Launch { stream: 1 },
            Op::Synchronize { stream: Some(1) },
            Op::CopyDtoh { stream: 0, source: address + 6, size_bytes: 3 },
            Op::CopyDtoh { stream: 0, source: address + 19, size_bytes: 4 },
            Op::HostFree { address: staged_at, size_bytes: 4 },
            Op::DeviceFree { stream: 0, address, size_bytes: 24 },
            Op::Synchronize { stream: None },
        ]
    );
    let counters = Counters {
        device_allocs: 1,
        device_frees: 1,
        live_device_blocks: 0,
        host_allocs: 1,
        host_frees: 1,
        live_host_blocks: 0,
        copies: 2,
        copied_bytes: 18,
        memsets: 1,
        events: 1,
        queries: 1,
        synchronizes: 2,
    };
    assert_eq!(device.counters(), counters);
}

#[test]
fn the_nth_call_fails_once_by_name_and_has_no_effect() {
    type Act = fn(&HostDevice, &HostStream, &HostBuffer<u8>) -> Result<(), Error>;
    let calls: [(Call, &str, Act); 10] = [
        (Call::DeviceAlloc, "cuMemAllocAsync", |_, stream, _| stream.alloc::<u8>(8).map(std::mem::forget)),
        (Call::HostAlloc, "cuMemHostAlloc", |device, _, _| device.alloc_staging(8).map(std::mem::forget)),
        (Call::Copy, "cuMemcpyAsync", |_, stream, _| {
            let block = Host::allocate(stream, 1)?;
            Host::copy_htod(stream, vec![1], &block, 0)
        }),
        (Call::Copy, "cuMemcpyAsync", |_, _, buffer| buffer.to_vec().map(drop)),
        (Call::Memset, "cuMemsetD8Async", |_, stream, buffer| stream.memset(buffer.pointer(), 4, 9)),
        (Call::EventCreate, "cuEventCreate", |_, stream, _| stream.record().map(drop)),
        (Call::EventRecord, "cuEventRecord", |_, stream, _| stream.record().map(drop)),
        (Call::StreamWait, "cuStreamWaitEvent", |device, stream, _| device.stream().wait(&stream.record()?)),
        (Call::Launch, "cuLaunchKernel", |_, stream, buffer| {
            let pointer = buffer.pointer();
            stream.launch(move |memory| memory.write_at(pointer, &[9]))
        }),
        (Call::Synchronize, "cuStreamSynchronize", |_, stream, _| stream.synchronize()),
    ];
    for (call, name, act) in calls {
        let device = patient_device();
        let stream = device.stream();
        let buffer = stream.clone_htod(&[1_u8; 4]).unwrap();
        device.fail(call, 2);
        act(&device, &stream, &buffer).unwrap();
        let (counters, ops) = (device.counters(), device.journal().len());
        let error = act(&device, &stream, &buffer).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Driver { call, .. } if *call == name), "{error}");
        assert_eq!(device.counters().live_device_blocks, counters.live_device_blocks);
        let undone = device.journal()[ops..].iter().filter(|op| is_of(call, op)).count();
        assert_eq!(undone, 0, "{call:?} has had an effect: {:?}", &device.journal()[ops..]);
        act(&device, &stream, &buffer).unwrap();
        stream.synchronize().unwrap();
    }
}

fn is_of(call: Call, op: &Op) -> bool {
    match op {
        Op::DeviceAlloc { .. } => call == Call::DeviceAlloc,
        Op::HostAlloc { .. } => call == Call::HostAlloc,
        Op::Copy { .. } | Op::CopyDtoh { .. } => call == Call::Copy,
        Op::Memset { .. } => call == Call::Memset,
        Op::EventCreate { .. } => call == Call::EventCreate,
        Op::EventRecord { .. } => call == Call::EventRecord,
        Op::EventQuery { .. } => call == Call::EventQuery,
        Op::StreamWait { .. } => call == Call::StreamWait,
        Op::Launch { .. } => call == Call::Launch,
        Op::Synchronize { .. } => call == Call::Synchronize,
        _ => false,
    }
}

#[test]
fn a_work_item_that_failed_by_plan_does_not_run() {
    let device = HostDevice::new();
    let stream = device.stream();
    let buffer = stream.clone_htod(&[1_u8]).unwrap();
    let pointer = buffer.pointer();
    device.fail(Call::Launch, 1);
    stream.launch(move |memory| memory.write_at(pointer, &[9])).unwrap_err();
    device.fail(Call::Memset, 1);
    stream.memset(pointer, 1, 8).unwrap_err();
    device.fail(Call::EventQuery, 1);
    stream.record().unwrap().query().unwrap_err();
    assert_eq!(buffer.to_vec().unwrap(), [1]);
}

#[test]
fn a_free_that_fails_is_said_once_by_the_next_wait() {
    let device = HostDevice::new();
    let stream = device.stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    let pointer = buffer.pointer();
    device.fail(Call::DeviceFree, 1);
    drop(buffer);
    assert_eq!((device.counters().device_frees, device.counters().live_device_blocks), (0, 1));
    assert_contains(&stream.synchronize().unwrap_err().to_string(), &["cuMemFreeAsync"]);
    stream.synchronize().unwrap();
    // The block is still there: the call has had no effect.
    let read = read_in_kernel(&stream, pointer, 1);
    stream.synchronize().unwrap();
    assert_eq!(read.recv().unwrap(), [1]);

    let staging = device.alloc_staging(1).unwrap();
    device.fail(Call::HostFree, 1);
    drop(staging);
    assert_eq!((device.counters().host_frees, device.counters().live_host_blocks), (0, 1));
    assert_contains(&stream.synchronize().unwrap_err().to_string(), &["cuMemFreeHost"]);
    stream.synchronize().unwrap();
}

#[test]
fn a_blocks_address_has_the_alignment_that_is_promised_and_no_more() {
    for (base_offset, alignment) in [(0, 512), (1, 1), (16, 16), (256, 256), (384, 128), (512, 512), (4096, 512)] {
        let device = HostDevice::with_options(HostOptions { base_offset, ..Default::default() });
        let stream = device.stream();
        assert_eq!(Host::block_alignment(&stream).bytes(), alignment);
        for size_bytes in [1, 511, 512, 513, 5 << 20] {
            let block = Host::allocate(&stream, size_bytes).unwrap();
            assert_eq!(Alignment::of_address(block.address()).bytes(), alignment);
            assert_eq!(block.address() % 512, base_offset % 512);
        }
    }
}

#[test]
fn an_allocation_of_nothing_or_too_much_is_an_error_with_its_numbers() {
    let device = HostDevice::with_options(HostOptions { memory_bytes: 100, ..Default::default() });
    let stream = device.stream();
    assert_eq!(driver_code(&Host::allocate(&stream, 0).unwrap_err()), (1, None, None));
    let block = Host::allocate(&stream, 60).unwrap();
    assert_eq!(driver_code(&Host::allocate(&stream, 41).unwrap_err()), (2, Some(41), Some(40)));
    assert_eq!(driver_code(&Host::allocate(&stream, u64::MAX).unwrap_err()), (2, Some(u64::MAX), Some(40)));
    drop(block);
    stream.synchronize().unwrap();
    drop(Host::allocate(&stream, 100).unwrap());
    assert_eq!((device.counters().device_allocs, device.counters().live_device_blocks), (2, 0));
}

fn driver_code(error: &Error) -> (i32, Option<u64>, Option<u64>) {
    match error.kind() {
        ErrorKind::Driver { call: "cuMemAllocAsync", code, needed, available, .. } => (*code, *needed, *available),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_that_passes_its_block_is_refused_and_has_no_effect() {
    let device = HostDevice::new();
    let stream = device.stream();
    let block = Host::allocate(&stream, 8).unwrap();
    let before = device.counters();
    for (len, offset) in [(9, 0), (1, 8), (4, 5), (1, u64::MAX)] {
        let refused = Host::copy_htod(&stream, vec![0; len], &block, offset);
        assert_contains(&fault(refused), &["passes the end of the block of 8 bytes", &offset.to_string()]);
        assert!(Host::copy_dtoh(&stream, &block, offset, len as u64).is_err());
    }
    assert_eq!(device.counters(), before);
    assert_eq!(Host::copy_dtoh(&stream, &block, 0, 8).unwrap(), [0xFE; 8]);
}

#[test]
fn devices_share_nothing() {
    let (first, second) = (HostDevice::new().stream(), HostDevice::new().stream());
    assert!(!Host::is_same_device(&first, &second));
    assert!(Host::is_same_device(&first, &first.device().stream()));
    assert!(!Host::is_same_stream(&first, &first.device().stream()));
    assert!(Host::is_same_stream(&first, &first.clone()));
    assert_ne!(Host::device_name(&first), Host::device_name(&second));
    let fence = first.record().unwrap();
    assert!(matches!(second.wait(&fence).unwrap_err().kind(), ErrorKind::WrongDevice { .. }));
}
