//! What went wrong is told.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use marshal::host::HostDevice;
use marshal::{Error, ErrorKind};

use super::{assert_contains, fault, read_in_kernel};

#[test]
fn a_kernels_panic_is_returned_by_every_wait_and_ends_the_streams_work() {
    let device = HostDevice::new();
    let stream = device.stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    let column = buffer.column();
    let ran = Arc::new(AtomicBool::new(false));
    let in_kernel = ran.clone();
    stream.launch(move |memory| assert_eq!(memory.read(column), [2], "as {} said", "nobody")).unwrap();
    stream.launch(move |_| in_kernel.store(true, Ordering::Relaxed)).unwrap();
    let fence = stream.record().unwrap();
    let report = fault(stream.synchronize());
    assert_contains(&report, &["stream 0 panicked", "as nobody said", "left: [1]", "right: [2]"]);
    assert_eq!(fault(stream.synchronize()), report);
    assert_eq!(fault(device.synchronize()), report);
    assert_eq!(fault(fence.query().map(drop)), report);
    assert_eq!(fault(buffer.to_vec().map(drop)), report);
    assert!(!ran.load(Ordering::Relaxed));
    device.stream().synchronize().unwrap();
}

#[test]
fn an_error_that_nobody_waited_for_is_printed_and_one_that_was_returned_is_not() {
    let printed = |name: &str| {
        let test = std::env::current_exe().unwrap();
        let output = Command::new(test).args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let report = printed("reports::child_drops_a_device_with_an_error");
    assert_contains(&report, &["nobody waited for this error", "passes the end"]);
    assert!(!report.contains("panicked"), "{report}");
    assert_eq!(printed("reports::child_waits_for_its_error"), "");
}

#[test]
#[ignore = "run by another test, which reads what this prints"]
fn child_drops_a_device_with_an_error() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    drop(read_in_kernel(&stream, buffer.pointer(), 2));
}

#[test]
#[ignore = "run by another test, which reads what this prints"]
fn child_waits_for_its_error() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    drop(read_in_kernel(&stream, buffer.pointer(), 2));
    stream.synchronize().unwrap_err();
}

#[test]
fn a_kernel_may_not_call_the_device() {
    let device = HostDevice::new();
    let stream = device.stream();
    let (kernels_device, kernels_stream) = (device.clone(), stream.clone());
    let fence = stream.record().unwrap();
    let refused = |result: Result<(), Error>| match result.unwrap_err().kind() {
        ErrorKind::Driver { code, .. } => assert_eq!(*code, 800),
        other => panic!("{other:?}"),
    };
    stream
        .launch(move |_| {
            refused(kernels_stream.synchronize());
            refused(kernels_device.synchronize());
            refused(kernels_stream.alloc::<u8>(1).map(drop));
            refused(kernels_stream.launch(|_| {}));
            refused(kernels_stream.record().map(drop));
            refused(fence.query().map(drop));
            refused(kernels_device.alloc_staging(1).map(drop));
        })
        .unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn staging_may_not_be_freed_by_a_kernel_and_a_block_may() {
    let device = HostDevice::new();
    let stream = device.stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    stream.launch(move |memory| assert_eq!(memory.read(buffer.column()), [1])).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(device.counters().live_device_blocks, 0);

    let mut staging = Some(device.alloc_staging(1).unwrap());
    stream.launch(move |_| drop(staging.take())).unwrap();
    assert_contains(&stream.synchronize().unwrap_err().to_string(), &["cuMemFreeHost", "NOT_PERMITTED"]);
}
