//! Bounds, alignment, validity.

use std::num::NonZeroU32;

use marshal::DevicePointer;
use marshal::host::HostDevice;

use super::{assert_contains, fault};

#[test]
fn fresh_memory_is_poison() {
    let stream = HostDevice::new().stream();
    let buffer = stream.alloc::<u32>(2).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0xFEFE_FEFE, 0xFEFE_FEFE]);
    stream.memset(buffer.pointer(), 4, 0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0, 0xFEFE_FEFE]);
    assert_contains(
        &fault(stream.memset(buffer.pointer(), 9, 1)),
        &["passes the end", "block of 8 bytes", "by 1 bytes"],
    );
    assert_eq!(buffer.to_vec().unwrap(), [0, 0xFEFE_FEFE]);
}

#[test]
fn a_read_past_a_block_is_found_from_either_side() {
    for (skip, len, excess) in [(0, 4, "by 4 bytes"), (3, 1, "by 4 bytes"), (400, 2, "by 8 bytes")] {
        let stream = HostDevice::new().stream();
        let buffer = stream.clone_htod(&[1_u32, 2, 3]).unwrap();
        let pointer = buffer.pointer().checked_add(skip).unwrap();
        stream.launch(move |memory| drop(memory.read_at(pointer, len).to_vec())).unwrap();
        assert_contains(&fault(stream.synchronize()), &["reading", "passes the end", "block of 12 bytes", excess]);
    }
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u32]).unwrap();
    let before = DevicePointer::<u32>::from_raw(buffer.pointer().address() - 4).unwrap();
    stream.launch(move |memory| drop(memory.read_at(before, 1).to_vec())).unwrap();
    assert_contains(&fault(stream.synchronize()), &["reading 4 bytes", "no block"]);
}

#[test]
fn a_write_past_a_block_is_found() {
    let stream = HostDevice::new().stream();
    let pointer = stream.alloc::<u8>(3).unwrap();
    let first = pointer.pointer();
    stream.launch(move |memory| memory.write_at(first, &[0; 4])).unwrap();
    assert_contains(&fault(stream.synchronize()), &["writing 4 bytes", "passes the end", "by 1 bytes"]);
}

#[test]
fn a_host_address_is_not_device_memory() {
    let stream = HostDevice::new().stream();
    let on_host = [7_u32];
    let pointer = DevicePointer::<u32>::from_raw(on_host.as_ptr().addr() as u64).unwrap();
    stream.launch(move |memory| drop(memory.read_at(pointer, 1).to_vec())).unwrap();
    assert_contains(&fault(stream.synchronize()), &["no block", "host address"]);
}

#[test]
fn a_misaligned_read_is_found() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[0_u32; 4]).unwrap();
    let pointer = buffer.pointer().checked_add(1).unwrap().cast::<u64>();
    stream.launch(move |memory| drop(memory.read_at(pointer, 1).to_vec())).unwrap();
    assert_contains(&fault(stream.synchronize()), &["u64", "misaligned", "multiple of 4", "needs 8"]);
}

#[test]
fn an_element_that_is_not_valid_for_its_type_is_reported_with_its_place() {
    fn read_as<T: bytemuck::CheckedBitPattern + 'static>(bytes: &[u8]) -> String {
        let stream = HostDevice::new().stream();
        let buffer = stream.clone_htod(bytes).unwrap();
        let (pointer, len) = (buffer.pointer().cast::<T>(), bytes.len() / size_of::<T>());
        stream.launch(move |memory| drop(memory.read_at(pointer, len).to_vec())).unwrap();
        fault(stream.synchronize())
    }
    assert_contains(&read_as::<bool>(&[1, 0, 2]), &["element 2", "bool", "[02]"]);
    assert_contains(&read_as::<NonZeroU32>(&[1, 0, 0, 0, 0, 0, 0, 0]), &["element 1", "NonZero", "[00, 00, 00, 00]"]);
    assert_contains(&read_as::<char>(&[0, 0xD8, 0, 0]), &["element 0", "char"]);
    assert_contains(&read_as::<DevicePointer<u8>>(&[0; 8]), &["element 0", "DevicePointer"]);
}

#[test]
fn a_bool_that_was_never_written_is_reported() {
    let stream = HostDevice::new().stream();
    let buffer = stream.alloc::<bool>(1).unwrap();
    let column = buffer.column();
    stream.launch(move |memory| drop(memory.read(column).to_vec())).unwrap();
    assert_contains(&fault(stream.synchronize()), &["element 0", "bool", "[fe]"]);
}

#[test]
fn valid_elements_and_empty_columns_are_read() {
    let stream = HostDevice::new().stream();
    let flags = stream.clone_htod(&[true, false]).unwrap();
    let wide = stream.clone_htod(&[1_u128, u128::MAX]).unwrap();
    let empty = stream.clone_htod::<u64>(&[]).unwrap();
    let pointers = stream.clone_htod(&[Some(wide.pointer()), None]).unwrap();
    let (flags, wide, empty, pointers) = (flags.column(), wide.column(), empty.column(), pointers.column());
    stream
        .launch(move |memory| {
            assert_eq!(memory.read(flags), [true, false]);
            assert_eq!(memory.read(wide), [1, u128::MAX]);
            assert_eq!(memory.read(empty), [0_u64; 0]);
            assert_eq!(memory.read(pointers), [Some(wide.pointer()), None]);
            assert_eq!(memory.read_at(memory.read(pointers)[0].unwrap(), 1), [1]);
        })
        .unwrap();
    // The buffers are gone, but not before the kernel that was given to the stream first.
    stream.synchronize().unwrap();
}

#[test]
fn a_slice_that_was_read_is_not_changed_by_a_write() {
    let stream = HostDevice::new().stream();
    let buffer = stream.clone_htod(&[1_u32, 2]).unwrap();
    let column = buffer.column();
    stream
        .launch(move |memory| {
            let before = memory.read(column);
            memory.write_at(column.pointer(), &[3]);
            assert_eq!((before, memory.read(column)), (&[1, 2][..], &[3, 2][..]));
        })
        .unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3, 2]);
}
