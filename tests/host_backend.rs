//! The host backend finds each mistake that it is made to find, and lets what is right pass.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use marshal::host::{HostDevice, HostOptions, HostStaging, HostStream};
use marshal::{DevicePointer, Error, ErrorKind};

#[path = "host_backend/calls.rs"]
mod calls;
#[path = "host_backend/capture.rs"]
mod capture;
#[path = "host_backend/ends.rs"]
mod ends;
#[path = "host_backend/memory.rs"]
mod memory;
#[path = "host_backend/order.rs"]
mod order;
#[path = "host_backend/reports.rs"]
mod reports;
#[path = "host_backend/schedule.rs"]
mod schedule;
#[path = "host_backend/staging.rs"]
mod staging;

/// A device on which nothing runs before it is demanded.
fn patient_device() -> HostDevice {
    HostDevice::with_options(HostOptions { patience: Duration::MAX, ..Default::default() })
}

fn fault(result: Result<(), Error>) -> String {
    let error = result.expect_err("the mistake was not found");
    match error.kind() {
        ErrorKind::Fault { report } => report.clone(),
        other => panic!("not a fault: {other:?}"),
    }
}

#[track_caller]
fn assert_contains(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "`{part}` is not in: {report}");
    }
}

/// What a kernel on `stream` reads, without a wait for the stream.
fn read_in_kernel(stream: &HostStream, pointer: DevicePointer<u32>, len: usize) -> Receiver<Vec<u32>> {
    let (sender, receiver) = channel();
    stream.launch(move |memory| sender.send(memory.read_at(pointer, len).to_vec()).unwrap()).unwrap();
    receiver
}

fn staged(device: &HostDevice, bytes: &[u8]) -> HostStaging {
    let staging = device.alloc_staging(bytes.len()).unwrap();
    staging.write(0, bytes);
    staging
}
