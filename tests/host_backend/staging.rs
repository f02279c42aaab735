//! Staging is read when the copy runs.

use super::{assert_contains, fault, patient_device, staged};

#[test]
fn staging_that_is_rewritten_before_the_copy_has_run_is_found_at_every_size() {
    for size_bytes in [64, 64 << 10, 4 << 20] {
        let device = patient_device();
        let stream = device.stream();
        let block = stream.alloc::<u8>(size_bytes).unwrap();
        let staging = staged(&device, &vec![1; size_bytes]);
        stream.copy_staging(&staging, 0..size_bytes, block.pointer()).unwrap();
        staging.write(size_bytes - 1, &[2]);
        let report = fault(stream.synchronize());
        let address = format!("{:#x}", staging.address());
        assert_contains(&report, &["was rewritten before", &format!("{size_bytes} bytes"), &address]);
    }
}

#[test]
fn staging_that_is_freed_before_the_copy_has_run_is_found() {
    let device = patient_device();
    let stream = device.stream();
    let block = stream.alloc::<u8>(4).unwrap();
    let staging = staged(&device, &[1, 2, 3, 4]);
    stream.copy_staging(&staging, 0..4, block.pointer()).unwrap();
    drop(staging);
    assert_contains(&fault(stream.synchronize()), &["was freed before", "4 bytes"]);
}

#[test]
fn staging_is_free_for_reuse_behind_the_copy() {
    let device = patient_device();
    let stream = device.stream();
    let (first, second) = (stream.alloc::<u8>(4).unwrap(), stream.alloc::<u8>(2).unwrap());
    let staging = staged(&device, &[1, 2, 3, 4]);
    stream.copy_staging(&staging, 0..4, first.pointer()).unwrap();
    stream.synchronize().unwrap();
    staging.write(0, &[5, 6, 7, 8]);
    stream.copy_staging(&staging, 1..3, second.pointer()).unwrap();
    // Not read by the pending copy.
    staging.write(3, &[9]);
    assert_eq!(first.to_vec().unwrap(), [1, 2, 3, 4]);
    assert_eq!(second.to_vec().unwrap(), [6, 7]);
}

#[test]
fn a_copy_from_staging_outside_of_either_memory_is_refused_and_has_no_effect() {
    let device = patient_device();
    let stream = device.stream();
    let block = stream.alloc::<u8>(4).unwrap();
    let staging = staged(&device, &[0; 8]);
    let before = (device.counters(), device.journal());
    assert_contains(
        &fault(stream.copy_staging(&staging, 6..9, block.pointer())),
        &["bytes 6 to 9", "staging of 8 bytes"],
    );
    assert_contains(
        &fault(stream.copy_staging(&staging, 0..5, block.pointer())),
        &["passes the end", "block of 4 bytes", "by 1 bytes"],
    );
    assert_eq!((device.counters(), device.journal()), before);
    stream.synchronize().unwrap();
}
