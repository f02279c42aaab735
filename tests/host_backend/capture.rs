//! A capture forbids what CUDA forbids, and a graph does its work anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marshal::backend::Backend;
use marshal::host::{Call, Counters, Host, HostDevice, HostStream, Op};
use marshal::{Error, ErrorKind};

use super::{assert_contains, fault, patient_device, staged};

fn code<T>(result: Result<T, Error>) -> i32 {
    match result.map(drop).expect_err("the call was not refused").kind() {
        ErrorKind::Driver { code, .. } => *code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn captured_work_is_not_done_before_a_replay_and_every_replay_reads_its_source_anew() {
    let device = patient_device();
    let stream = device.stream();
    let block = stream.alloc::<u8>(4).unwrap();
    let staging = staged(&device, &[1, 2]);
    let before = device.counters();

    assert!(!Host::is_capturing(&stream).unwrap());
    stream.begin_capture().unwrap();
    assert!(Host::is_capturing(&stream).unwrap());
    stream.memset(block.pointer(), 2, 7).unwrap();
    stream.copy_staging(&staging, 0..2, block.pointer().checked_add(2).unwrap()).unwrap();
    let graph = stream.end_capture().unwrap();
    assert!(!Host::is_capturing(&stream).unwrap());
    assert_eq!(device.counters(), before);
    assert_eq!(block.to_vec().unwrap(), [0xFE; 4]);

    let address = block.pointer().address();
    let nodes = [
        Op::Memset { stream: 0, address, size_bytes: 2, value: 7 },
        Op::Copy { stream: 0, source: staging.address(), destination: address + 2, size_bytes: 2 },
    ];
    assert_eq!(graph.nodes(), nodes);
    for round in 1..4 {
        staging.write(0, &[round, 2]);
        graph.launch(&stream).unwrap();
        assert_eq!(block.to_vec().unwrap(), [7, 7, round, 2]);
    }
    assert_eq!(device.counters(), Counters { copies: 3, copied_bytes: 6, memsets: 3, ..before });
}

#[test]
fn staging_that_a_replay_still_reads_may_be_neither_rewritten_nor_freed() {
    for is_freed in [false, true] {
        let device = patient_device();
        let stream = device.stream();
        let block = stream.alloc::<u8>(2).unwrap();
        let staging = staged(&device, &[1, 2]);
        stream.begin_capture().unwrap();
        stream.copy_staging(&staging, 0..2, block.pointer()).unwrap();
        let graph = stream.end_capture().unwrap();
        graph.launch(&stream).unwrap();
        if is_freed {
            stream.synchronize().unwrap();
            drop(staging);
            graph.launch(&stream).unwrap();
            assert_contains(&fault(stream.synchronize()), &["was freed before"]);
        } else {
            staging.write(0, &[3]);
            assert_contains(&fault(stream.synchronize()), &["was rewritten before"]);
        }
    }
}

#[test]
fn a_block_that_a_replay_writes_may_not_be_freed() {
    let device = patient_device();
    let stream = device.stream();
    let block = stream.alloc::<u8>(2).unwrap();
    stream.begin_capture().unwrap();
    stream.memset(block.pointer(), 2, 0).unwrap();
    let graph = stream.end_capture().unwrap();
    drop(block);
    graph.launch(&stream).unwrap();
    assert_contains(&fault(stream.synchronize()), &["writing 2 bytes", "was freed"]);
}

#[test]
fn every_launch_of_a_graph_runs_its_kernels() {
    let device = patient_device();
    let stream = device.stream();
    let runs = Arc::new(AtomicU32::new(0));
    let in_kernel = runs.clone();
    stream.begin_capture().unwrap();
    stream
        .launch(move |_| {
            in_kernel.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let graph = stream.end_capture().unwrap();
    assert_eq!(graph.nodes(), [Op::Launch { stream: 0 }]);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    for launches in 1..4 {
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), launches);
    }
}

#[test]
fn a_call_that_a_capture_forbids_fails_and_makes_it_invalid() {
    type Act = fn(&HostDevice, &HostStream) -> Result<(), Error>;
    let forbidden: [(&str, i32, Act); 7] = [
        ("allocation", 900, |_, stream| stream.alloc::<u8>(1).map(drop)),
        ("synchronize", 900, |_, stream| stream.synchronize()),
        ("synchronize the device", 900, |device, _| device.synchronize()),
        ("staging", 900, |device, _| device.alloc_staging(1).map(drop)),
        ("query from elsewhere", 900, |device, _| device.stream().record()?.query().map(drop)),
        ("query", 900, |_, stream| stream.record()?.query().map(drop)),
        ("wait for what is outside", 905, |device, stream| stream.wait(&device.stream().record()?)),
    ];
    for (name, refusal, act) in forbidden {
        let device = patient_device();
        let stream = device.stream();
        stream.begin_capture().unwrap();
        assert_eq!(code(act(&device, &stream)), refusal, "{name}");
        assert!(stream.is_capturing(), "{name}");
        assert_eq!(code(stream.launch(|_| {})), 901, "{name}");
        assert_eq!(code(stream.end_capture()), 901, "{name}");
        stream.alloc::<u8>(1).unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_copy_back_and_a_drop_in_a_capture_make_it_invalid() {
    let stream = patient_device().stream();
    let block = stream.clone_htod(&[1_u8]).unwrap();
    stream.begin_capture().unwrap();
    assert_eq!(code(block.to_vec()), 900);
    assert_eq!(code(stream.end_capture()), 901);
    assert_eq!(block.to_vec().unwrap(), [1]);

    stream.begin_capture().unwrap();
    drop(block);
    assert_eq!(code(stream.end_capture()), 901);
    assert_eq!(code(stream.synchronize()), 900);

    let device = stream.device();
    let staging = device.alloc_staging(1).unwrap();
    stream.begin_capture().unwrap();
    drop(staging);
    assert_eq!(code(stream.end_capture()), 901);
    assert_eq!(code(stream.synchronize()), 900);
    assert_eq!((device.counters().live_device_blocks, device.counters().live_host_blocks), (1, 1));
}

#[test]
fn other_streams_go_on_while_one_captures() {
    let device = patient_device();
    let (capturing, other) = (device.stream(), device.stream());
    capturing.begin_capture().unwrap();
    assert_eq!(other.clone_htod(&[1_u8]).unwrap().to_vec().unwrap(), [1]);
    let fence = capturing.record().unwrap();
    capturing.wait(&fence).unwrap();
    assert_eq!(code(other.wait(&fence)), 905);
    other.synchronize().unwrap();
    device.fail(Call::Launch, 1);
    assert_eq!(code(capturing.launch(|_| {})), 999);
    // None of it was forbidden.
    let graph = capturing.end_capture().unwrap();
    assert!(graph.nodes().is_empty());
    assert_eq!(code(fence.query()), 907);
}

#[test]
fn captures_begin_and_end_in_pairs() {
    let stream = patient_device().stream();
    assert_eq!(code(stream.end_capture()), 401);
    stream.begin_capture().unwrap();
    assert_eq!(code(stream.begin_capture()), 401);
    let graph = stream.end_capture().unwrap();
    stream.begin_capture().unwrap();
    assert_eq!(code(graph.launch(&stream)), 900);
    stream.end_capture().unwrap();
    assert!(matches!(graph.launch(&HostDevice::new().stream()).unwrap_err().kind(), ErrorKind::WrongDevice { .. }));
}

#[test]
fn a_captured_copy_owns_its_bytes_and_runs_on_the_stream_that_it_is_launched_on() {
    let device = patient_device();
    let (home, other) = (device.stream(), device.stream());
    let block = Host::allocate(&home, 2).unwrap();
    home.begin_capture().unwrap();
    Host::copy_htod(&home, vec![4, 5], &block, 0).unwrap();
    let graph = home.end_capture().unwrap();
    other.wait(&home.record().unwrap()).unwrap();
    graph.launch(&other).unwrap();
    graph.launch(&other).unwrap();
    home.wait(&other.record().unwrap()).unwrap();
    assert_eq!(Host::copy_dtoh(&home, &block, 0, 2).unwrap(), [4, 5]);
    let copies = device.journal().into_iter().filter(|op| matches!(op, Op::Copy { stream: 1, size_bytes: 2, .. }));
    assert_eq!(copies.count(), 2);
}

#[test]
fn memory_that_a_live_graph_copies_is_missed_when_it_is_freed() {
    for frees_staging in [false, true] {
        let device = patient_device();
        let stream = device.stream();
        let block = stream.alloc::<u8>(2).unwrap();
        let staging = staged(&device, &[1, 2]);
        stream.begin_capture().unwrap();
        stream.copy_staging(&staging, 0..2, block.pointer()).unwrap();
        let graph = stream.end_capture().unwrap();
        // Launched once or never: the graph could be launched again.
        let mut memory = (Some(block), Some(staging));
        if frees_staging {
            drop(memory.1.take());
        } else {
            drop(memory.0.take());
        }
        assert_contains(&fault(stream.synchronize()), &["2 bytes", "was freed while", "as long as the graph"]);
        drop(graph);
        // Without the graph nobody is left to be told.
        drop(memory);
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_graph_reads_the_source_that_it_was_given_last_and_launches_under_way_their_own() {
    let device = patient_device();
    let stream = device.stream();
    let block = Host::allocate(&stream, 2).unwrap();
    let mut regions = Host::allocate_staging(&stream, 2, 2).unwrap();
    let (mut second, mut first) = (regions.pop().unwrap(), regions.pop().unwrap());
    // SAFETY: no copy reads the regions yet; the device lives.
    unsafe {
        Host::write_region(&mut first, |bytes| bytes.copy_from_slice(&[1, 1]));
        Host::write_region(&mut second, |bytes| bytes.copy_from_slice(&[2, 2]));
    }
    Host::begin_capture(&stream).unwrap();
    // SAFETY: the regions are retired at the end.
    unsafe { Host::copy_staged(&stream, &first, 2, &block, 0) }.unwrap();
    let address = Host::address(&block);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let in_kernel = seen.clone();
    let pointer = marshal::DevicePointer::<u8>::from_raw(address).unwrap();
    stream.launch(move |memory| in_kernel.lock().unwrap().push(memory.read_at(pointer, 1)[0])).unwrap();
    let mut graph = Host::end_capture(&stream).unwrap();
    Host::launch(&stream, &mut graph).unwrap();
    // SAFETY: as above.
    unsafe { Host::set_source(&mut graph, &second, 2, &block, 0) }.unwrap();
    Host::launch(&stream, &mut graph).unwrap();
    // SAFETY: as above.
    let refused = unsafe { Host::set_source(&mut graph, &first, 1, &block, 0) };
    assert_eq!(code(refused), 1);
    Host::launch(&stream, &mut graph).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 2]);
    drop(graph);
    Host::retire(&stream, vec![first, second]);
    stream.synchronize().unwrap();
}

/// Says when it is dropped, and by which thread.
struct Dropped(std::sync::mpsc::Sender<std::thread::ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

#[test]
fn what_a_graph_keeps_goes_behind_its_last_launch_and_on_a_thread_that_may_call() {
    let stream = patient_device().stream();
    let (sender, dropped) = std::sync::mpsc::channel();
    Host::begin_capture(&stream).unwrap();
    Host::keeper(&stream).unwrap().keep(Box::new(Dropped(sender)));
    let mut graph = Host::end_capture(&stream).unwrap();
    let (gate, blocked) = std::sync::mpsc::channel::<()>();
    stream.launch(move |_| assert!(blocked.recv().is_err())).unwrap();
    Host::launch(&stream, &mut graph).unwrap();
    drop(graph);
    drop(stream.alloc::<u8>(1).unwrap());
    assert!(dropped.try_recv().is_err(), "a launch is under way");
    drop(gate);
    stream.synchronize().unwrap();
    assert_eq!(dropped.try_recv(), Ok(std::thread::current().id()));
}

#[test]
fn nothing_is_kept_for_no_graph_and_an_invalid_one_keeps_nothing() {
    let stream = patient_device().stream();
    let (sender, dropped) = std::sync::mpsc::channel();
    assert_eq!(code(Host::keeper(&stream).map(drop)), 401);
    Host::begin_capture(&stream).unwrap();
    Host::keeper(&stream).unwrap().keep(Box::new(Dropped(sender)));
    stream.synchronize().unwrap_err();
    assert_eq!(code(Host::end_capture(&stream)), 901);
    assert!(dropped.try_recv().is_ok());
}

#[test]
fn a_block_of_the_backend_that_is_dropped_in_a_capture_is_freed_when_it_ends() {
    let device = patient_device();
    let stream = device.stream();
    let block = Host::allocate(&stream, 8).unwrap();
    stream.begin_capture().unwrap();
    drop(block);
    assert_eq!(device.counters().live_device_blocks, 1);
    stream.end_capture().unwrap();
    assert_eq!(device.counters().live_device_blocks, 0);
    // Nobody ends it: the stream's end does.
    let block = Host::allocate(&stream, 8).unwrap();
    stream.begin_capture().unwrap();
    drop((block, stream));
    assert_eq!(device.counters().live_device_blocks, 0);
    device.synchronize().unwrap();
}
