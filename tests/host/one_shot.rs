//! One-shot uploads: what only the journal and injected failures can show.

use std::sync::mpsc;

use marshal::host::{Call, HostDevice, HostOptions, Op};
use marshal::{ColumnSpec, DeviceArgs, DevicePointer, Error, ErrorKind, Visitor};

use crate::cases::{self, Rig};
use crate::rig::HostRig;

pub(crate) const ALL: &[(&str, fn())] = &[
    (
        "any_number_of_columns_is_one_allocation_one_copy_one_free",
        any_number_of_columns_is_one_allocation_one_copy_one_free,
    ),
    ("every_call_is_made_on_the_stream_of_the_upload", every_call_is_made_on_the_stream_of_the_upload),
    ("a_failing_call_leaves_nothing_behind", a_failing_call_leaves_nothing_behind),
    ("a_failing_free_is_no_panic", a_failing_free_is_no_panic),
    ("a_base_that_is_little_aligned_never_misaligns_a_column", a_base_that_is_little_aligned_never_misaligns_a_column),
    ("lending_to_another_stream_orders_both_ways", lending_to_another_stream_orders_both_ways),
    (
        "a_lost_event_makes_the_host_wait_instead_of_freeing_early",
        a_lost_event_makes_the_host_wait_instead_of_freeing_early,
    ),
    ("a_stream_of_another_device_is_refused_by_name", a_stream_of_another_device_is_refused_by_name),
    ("handles_may_go_in_every_order", handles_may_go_in_every_order),
    ("an_image_of_ones_own_is_refused_where_it_does_not_fit", an_image_of_ones_own_is_refused_where_it_does_not_fit),
];

/// As many columns as asked for, of growing lengths.
struct Columns(usize);

impl DeviceArgs for Columns {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        for i in 0..self.0 {
            visitor.column(ColumnSpec::new("column"), &vec![i as u64; i + 1])?;
        }
        Ok(())
    }
}

fn any_number_of_columns_is_one_allocation_one_copy_one_free() {
    for columns in 0..=32 {
        let device = HostDevice::new();
        let stream = device.stream();
        let dev = Columns(columns).upload(&stream).unwrap();
        let bytes = dev.layout().copy_bytes();
        let counters = device.counters();
        let once = u64::from(columns != 0);
        assert_eq!((counters.device_allocs, counters.copies, counters.copied_bytes), (once, once, bytes));
        assert_eq!((counters.host_allocs, counters.memsets, counters.synchronizes), (0, 0, 0));
        drop(dev);
        stream.synchronize().unwrap();
        let counters = device.counters();
        assert_eq!((counters.device_frees, counters.live_device_blocks), (once, 0));
    }
}

fn every_call_is_made_on_the_stream_of_the_upload() {
    let device = HostDevice::new();
    let (_idle, stream) = (device.stream(), device.stream());
    drop(Columns(3).upload(&stream).unwrap());
    stream.synchronize().unwrap();
    let id = stream.id();
    let mut calls = Vec::new();
    for op in device.journal() {
        match op {
            Op::DeviceAlloc { stream, .. } => calls.push(("alloc", stream)),
            Op::Copy { stream, .. } => calls.push(("copy", stream)),
            Op::DeviceFree { stream, .. } => calls.push(("free", stream)),
            _ => {}
        }
    }
    assert_eq!(calls, [("alloc", id), ("copy", id), ("free", id)]);
}

fn a_failing_call_leaves_nothing_behind() {
    for call in [Call::DeviceAlloc, Call::Copy] {
        let device = HostDevice::new();
        let stream = device.stream();
        device.fail(call, 1);
        let error = Columns(3).upload(&stream).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Driver { .. }), "{error}");
        stream.synchronize().unwrap();
        assert_eq!(device.counters().live_device_blocks, 0, "{call:?}");
        assert_eq!(Columns(1).upload(&stream).unwrap().read_back().unwrap(), [0; 16]);
    }
}

fn a_failing_free_is_no_panic() {
    let device = HostDevice::new();
    let stream = device.stream();
    let dev = Columns(3).upload(&stream).unwrap();
    device.fail(Call::DeviceFree, 1);
    drop(dev);
    // Reported once, where the stream is next waited for; the stream is usable again then or says that it is not.
    let _ = stream.synchronize();
    assert_eq!(Columns(1).upload(&device.stream()).unwrap().read_back().unwrap(), [0; 16]);
}

fn a_base_that_is_little_aligned_never_misaligns_a_column() {
    for base_offset in [0, 8, 16, 48, 64, 128, 256, 4096 + 16] {
        let rig = HostRig { device: HostDevice::with_options(HostOptions { base_offset, ..HostOptions::default() }) };
        for (name, case) in cases::upload::all::<HostRig>() {
            if name.contains("align") || name.contains("order") || name.contains("map") {
                case(&rig);
            }
        }
        let bytes = Columns(3).layout().unwrap().copy_bytes();
        let before = rig.device.counters();
        drop(Columns(3).upload(&rig.stream()).unwrap());
        let after = rig.device.counters();
        assert_eq!(after.device_allocs - before.device_allocs, 1);
        assert_eq!(after.copied_bytes - before.copied_bytes, bytes);
    }
}

fn lending_to_another_stream_orders_both_ways() {
    let device = HostDevice::new();
    let (home, other) = (device.stream(), device.stream());
    let dev = Columns(2).upload(&home).unwrap();
    let base = dev.base();
    let lent = dev.on(&other).unwrap();
    let (sender, receiver) = mpsc::channel();
    other
        .launch(move |memory| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            sender.send(memory.read_at(base, 16).to_vec()).unwrap();
        })
        .unwrap();
    drop(lent);
    drop(dev);
    // The home stream runs first as far as it may: the free waits for the other stream's kernel all the same.
    home.synchronize().unwrap();
    other.synchronize().unwrap();
    assert_eq!(receiver.recv().unwrap(), [0; 16]);
    assert_eq!(device.counters().live_device_blocks, 0);
}

fn a_lost_event_makes_the_host_wait_instead_of_freeing_early() {
    for call in [Call::EventCreate, Call::EventRecord, Call::StreamWait] {
        let device = HostDevice::new();
        let (home, other) = (device.stream(), device.stream());
        let dev = Columns(2).upload(&home).unwrap();
        let base = dev.base();
        device.fail(call, 1);
        assert!(dev.on(&other).is_err(), "{call:?}");
        let lent = dev.on(&other).unwrap();
        other
            .launch(move |memory| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert_eq!(memory.read_at(base, 16), [0; 16]);
            })
            .unwrap();
        device.fail(call, 1);
        drop(lent);
        drop(dev);
        home.synchronize().unwrap();
        other.synchronize().unwrap();
    }
}

fn a_stream_of_another_device_is_refused_by_name() {
    let (here, there) = (HostDevice::new().stream(), HostDevice::new().stream());
    let dev = Columns(1).upload(&here).unwrap();
    let error = dev.on(&there).unwrap_err();
    let ErrorKind::WrongDevice { expected, found } = error.kind() else { panic!("{error:?}") };
    assert_ne!(expected, found);
    assert!(error.to_string().contains(expected) && error.to_string().contains(found));
}

fn handles_may_go_in_every_order() {
    for order in cases::permutations(&[0, 1, 2]) {
        let device = HostDevice::new();
        let stream = device.stream();
        let set = Columns(2).upload(&stream).unwrap();
        let observer = device.clone();
        let (mut device, mut stream, mut set) = (Some(device), Some(stream), Some(set));
        for handle in order {
            match handle {
                0 => drop(device.take()),
                1 => drop(stream.take()),
                _ => drop(set.take()),
            }
        }
        observer.synchronize().unwrap();
        assert_eq!(observer.counters().live_device_blocks, 0);
    }
}

#[derive(DeviceArgs)]
struct TwoColumns {
    first: Vec<u8>,
    second: Vec<u8>,
}

fn an_image_of_ones_own_is_refused_where_it_does_not_fit() {
    let args = TwoColumns { first: vec![1; 10], second: vec![2; 10] };
    let base = DevicePointer::from_raw(0x1000).unwrap();
    // The raw bytes would fit, their padding does not.
    let mut image = [0xee; 20];
    let error = args.pack_into(base, &mut image).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooShort { column: "second", needed: 32, available: 20 });
    assert_eq!(image, [0xee; 20], "nothing was written");
    let error = args.pack_into(base, &mut image[..16]).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooShort { column: "second", needed: 32, available: 16 });

    let error = args.pack_into(DevicePointer::from_raw(0x1008).unwrap(), &mut [0; 32]).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Misaligned { needed: 16, found: 8 });

    let mut image = [0xee; 40];
    let pointers = args.pack_into(base, &mut image).unwrap();
    assert_eq!(pointers.second.pointer().address(), 0x1010);
    assert_eq!(image[..32], [[1; 10].as_slice(), &[0; 6], &[2; 10], &[0; 6]].concat());
    assert_eq!(image[32..], [0xee; 8], "behind the copied part nothing is written");
}
