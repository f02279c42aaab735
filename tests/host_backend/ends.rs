//! Many threads, and drops in every order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use marshal::backend::Backend;
use marshal::host::{Call, Host, HostBuffer, HostDevice, HostStaging, HostStream};

use super::{patient_device, read_in_kernel};

#[test]
fn eight_threads_share_a_device_and_a_stream() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<(HostDevice, HostStream, HostBuffer<*const u8>, HostStaging)>();

    let device = HostDevice::new();
    let shared = device.stream();
    thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (device, shared) = (&device, &shared);
            scope.spawn(move || {
                let own = device.stream();
                for round in 0..100 {
                    for stream in [shared, &own] {
                        let buffer = stream.clone_htod(&[thread, round]).unwrap();
                        let column = buffer.column();
                        stream.launch(move |memory| assert_eq!(memory.read(column), [thread, round])).unwrap();
                    }
                }
                own.synchronize().unwrap();
            });
        }
    });
    device.synchronize().unwrap();
    let counters = device.counters();
    assert_eq!((counters.device_allocs, counters.device_frees, counters.live_device_blocks), (1600, 1600, 0));
    assert_eq!((counters.copies, counters.copied_bytes), (1600, 12800));
}

#[test]
fn handles_are_dropped_in_every_order_and_what_is_left_is_done() {
    for order in permutations(5) {
        let device = patient_device();
        let stream = device.stream();
        let buffer = stream.clone_htod(&[3_u32]).unwrap();
        let staging = device.alloc_staging(1).unwrap();
        let fence = stream.record().unwrap();
        let read = read_in_kernel(&stream, buffer.pointer(), 1);
        let mut handles: [Option<Box<dyn Send>>; 5] = [
            Some(Box::new(device)),
            Some(Box::new(stream)),
            Some(Box::new(buffer)),
            Some(Box::new(staging)),
            Some(Box::new(fence)),
        ];
        for handle in order {
            handles[handle] = None;
        }
        assert_eq!(read.try_recv(), Ok(vec![3]));
    }
}

fn permutations(len: usize) -> Vec<Vec<usize>> {
    if len == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(len - 1);
    let longer = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, len - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..len).map(move |at| longer(order, at))).collect()
}

#[test]
fn a_drop_while_unwinding_panics_no_second_time() {
    let device = HostDevice::new();
    device.fail(Call::DeviceFree, 1);
    device.fail(Call::HostFree, 1);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let stream = device.stream();
        let _buffer = stream.clone_htod(&[1_u32]).unwrap();
        let _staging = device.alloc_staging(1).unwrap();
        let (_sender, never) = channel::<()>();
        stream.launch(move |_| assert!(never.recv().is_err())).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    // One error of the stream, and one of the device.
    assert!(device.synchronize().is_err());
    assert!(device.synchronize().is_err());
}

#[test]
fn a_drop_while_unwinding_does_not_wait_for_a_kernel_that_is_held_up() {
    let (release, released) = channel::<()>();
    let begin = Instant::now();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let stream = HostDevice::new().stream();
        stream.launch(move |_| assert!(released.recv().is_err())).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(unwound.is_err());
    // Otherwise the last handle lingers for a second.
    assert!(begin.elapsed() < Duration::from_millis(900));
    drop(release);
}

#[cfg(target_os = "linux")]
#[test]
fn a_streams_thread_ends_with_its_last_handle() {
    let device = HostDevice::new();
    let threads = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        tasks
            .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it.starts_with(name)))
            .count()
    };
    let stream = device.stream();
    let name = format!("{} ", Host::device_name(&stream).trim_start_matches("host "));
    assert_eq!(threads(&name), 0);
    let others: Vec<_> = (0..4).map(|_| device.stream()).collect();
    for stream in others.iter().chain([&stream]) {
        stream.launch(|_| {}).unwrap();
        stream.synchronize().unwrap();
    }
    // Threads of other tests come and go while the folder is read: a look may miss one.
    let becomes = |count| {
        (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            threads(&name) == count
        })
    };
    assert!(becomes(5), "{} threads have begun", threads(&name));
    drop(others);
    assert!(becomes(1), "{} threads are left", threads(&name));
}
