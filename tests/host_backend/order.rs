//! What the program has not ordered is found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marshal::host::{HostBuffer, HostDevice, HostStream};

use super::{assert_contains, fault, patient_device, read_in_kernel, staged};

#[test]
fn a_block_that_was_freed_is_found_and_work_before_the_free_still_sees_it() {
    let stream = patient_device().stream();
    let buffer = stream.clone_htod(&[1_u32, 2]).unwrap();
    let pointer = buffer.pointer();
    let before = read_in_kernel(&stream, pointer, 2);
    drop(buffer);
    let after = read_in_kernel(&stream, pointer, 2);
    assert_contains(&fault(stream.synchronize()), &["reading 8 bytes", "was freed on stream 0"]);
    assert_eq!(before.recv().unwrap(), [1, 2]);
    assert!(after.recv().is_err());
}

#[test]
fn without_an_event_another_stream_reads_poison_and_with_one_the_value() {
    let device = patient_device();
    let (home, other) = (device.stream(), device.stream());
    let buffer = home.clone_htod(&[1_u32, 2]).unwrap();
    let early = read_in_kernel(&other, buffer.pointer(), 2);
    other.synchronize().unwrap();
    assert_eq!(early.recv().unwrap(), [0xFEFE_FEFE, 0xFEFE_FEFE]);

    other.wait(&home.record().unwrap()).unwrap();
    let late = read_in_kernel(&other, buffer.pointer(), 2);
    other.synchronize().unwrap();
    assert_eq!(late.recv().unwrap(), [1, 2]);
    // The early read was the other stream's mistake.
    home.wait(&other.record().unwrap()).unwrap();
    drop(buffer);
    home.synchronize().unwrap();
}

#[test]
fn a_missing_event_is_found_where_the_bytes_arrived_by_luck() {
    let device = patient_device();
    let (home, other) = (device.stream(), device.stream());
    let buffer = home.clone_htod(&[1_u32]).unwrap();
    let read = read_in_kernel(&other, buffer.pointer(), 1);
    home.synchronize().unwrap();
    assert_contains(&fault(other.synchronize()), &["reading 4 bytes", "races with stream 0", "stream 1 wait"]);
    assert!(read.recv().is_err());
}

#[test]
fn whatever_the_host_has_waited_for_comes_before_what_it_submits_later() {
    type Wait = fn(&HostDevice, &HostStream, &HostBuffer<u32>);
    let waits: [(&str, Wait); 4] = [
        ("stream", |_, home, _| home.synchronize().unwrap()),
        ("device", |device, _, _| device.synchronize().unwrap()),
        ("copy", |_, _, buffer| assert_eq!(buffer.to_vec().unwrap(), [1])),
        ("query", |_, home, _| {
            let fence = home.record().unwrap();
            while !fence.query().unwrap() {
                thread::yield_now();
            }
        }),
    ];
    for (name, wait) in waits {
        let device = patient_device();
        let (home, other) = (device.stream(), device.stream());
        let buffer = home.clone_htod(&[1_u32]).unwrap();
        wait(&device, &home, &buffer);
        let read = read_in_kernel(&other, buffer.pointer(), 1);
        other.synchronize().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.recv().unwrap(), [1]);
        drop(buffer);
        device.synchronize().unwrap();
    }
}

#[test]
fn a_free_that_is_not_ordered_behind_another_streams_use_is_found_whichever_runs_first() {
    for free_first in [true, false] {
        let device = patient_device();
        let (home, other) = (device.stream(), device.stream());
        let buffer = home.clone_htod(&[1_u32]).unwrap();
        other.wait(&home.record().unwrap()).unwrap();
        let _read = read_in_kernel(&other, buffer.pointer(), 1);
        drop(buffer);
        if free_first {
            home.synchronize().unwrap();
            assert_contains(&fault(other.synchronize()), &["was freed on stream 0"]);
        } else {
            other.synchronize().unwrap();
            let report = fault(home.synchronize());
            assert_contains(&report, &["block of 4 bytes", "freed on stream 0 while stream 1 used it"]);
            assert_eq!(fault(other.synchronize()), report);
        }
    }
}

#[test]
fn a_block_that_is_rewritten_while_another_stream_reads_it_is_found_whichever_runs_first() {
    for ordered in [true, false] {
        let device = patient_device();
        let (home, other) = (device.stream(), device.stream());
        let buffer = home.clone_htod(&[1_u8; 4]).unwrap();
        other.wait(&home.record().unwrap()).unwrap();
        let column = buffer.column();
        other.launch(move |memory| assert_eq!(memory.read(column), [1; 4])).unwrap();
        if ordered {
            home.wait(&other.record().unwrap()).unwrap();
        }
        let staging = staged(&device, &[2; 4]);
        home.copy_staging(&staging, 0..4, buffer.pointer()).unwrap();
        if ordered {
            home.synchronize().unwrap();
            other.synchronize().unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [2; 4]);
        } else {
            other.synchronize().unwrap();
            assert_contains(&fault(home.synchronize()), &["writing 4 bytes", "races with stream 1"]);
            assert_contains(&fault(other.synchronize()), &["writing 4 bytes", "races with stream 1"]);
        }
    }
    let device = patient_device();
    let (home, other) = (device.stream(), device.stream());
    let buffer = home.clone_htod(&[1_u8; 4]).unwrap();
    other.wait(&home.record().unwrap()).unwrap();
    let column = buffer.column();
    other.launch(move |memory| drop(memory.read(column).to_vec())).unwrap();
    home.memset(buffer.pointer(), 4, 2).unwrap();
    home.synchronize().unwrap();
    assert_contains(&fault(other.synchronize()), &["reading 4 bytes", "races with stream 0"]);
}

#[test]
fn a_broken_rule_reaches_the_streams_that_wait_for_it() {
    let device = patient_device();
    let (first, second) = (device.stream(), device.stream());
    let sound = first.record().unwrap();
    first.launch(|_| panic!("the cause")).unwrap();
    let broken = first.record().unwrap();
    second.wait(&sound).unwrap();
    second.synchronize().unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let in_kernel = ran.clone();
    second.wait(&broken).unwrap();
    second.launch(move |_| in_kernel.store(true, Ordering::Relaxed)).unwrap();
    assert_contains(&fault(second.synchronize()), &["stream 0", "the cause"]);
    first.synchronize().unwrap_err();
    let third = device.stream();
    third.wait(&sound).unwrap();
    third.synchronize().unwrap();
    assert!(!ran.load(Ordering::Relaxed));
}
