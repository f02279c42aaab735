//! Work runs apart, and as late as the rules allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use marshal::backend::Backend;
use marshal::host::{DeviceMemory, Host, HostDevice, HostOptions};

use super::patient_device;

#[test]
fn streams_run_apart() {
    let device = HostDevice::new();
    let (blocked, free) = (device.stream(), device.stream());
    let (started, has_started) = channel();
    let (release, released) = channel::<()>();
    blocked
        .launch(move |_| {
            started.send(()).unwrap();
            released.recv().unwrap();
        })
        .unwrap();
    // Nobody demands the kernel: its patience ends.
    has_started.recv_timeout(Duration::from_secs(60)).unwrap();
    let buffer = free.clone_htod(&[1_u32]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1]);
    let fence = blocked.record().unwrap();
    assert!(!fence.query().unwrap());
    release.send(()).unwrap();
    blocked.synchronize().unwrap();
    assert!(fence.query().unwrap());
}

#[test]
fn work_runs_when_it_is_demanded_and_not_before() {
    let device = patient_device();
    let (first, second) = (device.stream(), device.stream());
    let ran = Arc::new(AtomicU32::new(0));
    let count = |ran: &Arc<AtomicU32>| {
        let ran = ran.clone();
        move |_: &DeviceMemory| {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    first.launch(count(&ran)).unwrap();
    let fence = first.record().unwrap();
    first.launch(count(&ran)).unwrap();
    second.synchronize().unwrap();
    thread::sleep(Duration::from_millis(20));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    second.wait(&fence).unwrap();
    second.synchronize().unwrap();
    thread::sleep(Duration::from_millis(20));
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    first.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

#[test]
fn the_devices_wait_is_for_all_streams() {
    let device = patient_device();
    let streams = [device.stream(), device.stream(), device.stream()];
    let (ran, has_run) = channel();
    for stream in &streams {
        let ran = ran.clone();
        stream
            .launch(move |_| {
                thread::sleep(Duration::from_millis(20));
                ran.send(()).unwrap();
            })
            .unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(has_run.try_iter().count(), 3);
}

#[test]
fn work_runs_when_its_patience_is_over() {
    let patience = Duration::from_millis(5);
    let device = HostDevice::with_options(HostOptions { patience, ..Default::default() });
    let (ran, has_run) = channel();
    let stream = device.stream();
    stream.launch(move |_| ran.send(1).unwrap()).unwrap();
    assert_eq!(has_run.recv_timeout(Duration::from_secs(60)).unwrap(), 1);
}

#[test]
fn work_runs_when_its_fence_was_asked_often_enough() {
    let device = HostDevice::with_options(HostOptions { patience: Duration::MAX, polls: 3, ..Default::default() });
    let stream = device.stream();
    let (ran, has_run) = channel();
    stream.launch(move |_| ran.send(1).unwrap()).unwrap();
    let fence = stream.record().unwrap();
    assert_eq!([fence.query().unwrap(), fence.query().unwrap()], [false, false]);
    thread::sleep(Duration::from_millis(20));
    assert!(has_run.try_recv().is_err());
    fence.query().unwrap();
    assert_eq!(has_run.recv_timeout(Duration::from_secs(60)).unwrap(), 1);
    while !fence.query().unwrap() {
        thread::yield_now();
    }
}

#[test]
fn the_oldest_work_is_begun_when_a_stream_has_more_than_a_driver_holds() {
    let stream = patient_device().stream();
    let (ran, has_run) = channel();
    for launch in 0..1027 {
        let ran = ran.clone();
        stream.launch(move |_| ran.send(launch).unwrap()).unwrap();
    }
    for launch in 0..3 {
        assert_eq!(has_run.recv_timeout(Duration::from_secs(60)).unwrap(), launch);
    }
    thread::sleep(Duration::from_millis(20));
    assert!(has_run.try_recv().is_err());
    stream.synchronize().unwrap();
    drop(ran);
    assert_eq!(has_run.iter().last(), Some(1026));
}

#[test]
fn work_is_begun_when_pending_copies_hold_too_much_memory() {
    let device =
        HostDevice::with_options(HostOptions { patience: Duration::MAX, polls: u32::MAX, ..Default::default() });
    let stream = device.stream();
    let block = Host::allocate(&stream, 64 << 20).unwrap();
    let copy = || Host::copy_htod(&stream, vec![1; 64 << 20], &block, 0).unwrap();
    (0..4).for_each(|_| copy());
    let fence = stream.record().unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(!fence.query().unwrap());
    copy();
    while !fence.query().unwrap() {
        thread::yield_now();
    }
}
