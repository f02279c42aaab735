//! The host backend as a device to run the cases on.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use marshal::DevicePointer;
use marshal::host::{HostDevice, HostStream};

use crate::cases::{Rig, Snapshot};

pub(crate) struct HostRig {
    pub(crate) device: HostDevice,
}

/// Entries that kernels have read, and how long each takes for it.
#[derive(Clone)]
pub(crate) struct HostLog {
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    len: usize,
    takes: Duration,
}

impl Rig for HostRig {
    type Stream = HostStream;
    type Log = HostLog;

    fn log(&self, _: &HostStream, len: usize, entries: usize, is_slow: bool) -> HostLog {
        let takes = if is_slow { Duration::from_micros(500) } else { Duration::ZERO };
        HostLog { seen: Arc::new(Mutex::new(Vec::with_capacity(entries))), len, takes }
    }

    fn append(&self, stream: &HostStream, from: DevicePointer<u8>, log: &HostLog) {
        let log = log.clone();
        let kernel = move |memory: &marshal::host::DeviceMemory| {
            std::thread::sleep(log.takes);
            log.seen.lock().unwrap().push(memory.read_at(from, log.len).to_vec());
        };
        stream.launch(kernel).unwrap();
    }

    fn read_log(&self, stream: &HostStream, log: &HostLog) -> Vec<Vec<u8>> {
        stream.synchronize().unwrap();
        log.seen.lock().unwrap().clone()
    }

    fn stream(&self) -> HostStream {
        self.device.stream()
    }

    // Fresh memory of the host backend is poison already.
    fn poison(&self, _: &HostStream, _: usize) {}

    fn snapshot(&self, stream: &HostStream, pointer: DevicePointer<u8>, len: usize) -> Snapshot {
        let (sender, receiver) = mpsc::channel();
        stream.launch(move |memory| sender.send(memory.read_at(pointer, len).to_vec()).unwrap()).unwrap();
        let stream = stream.clone();
        Box::new(move || {
            stream.synchronize().unwrap();
            receiver.recv().unwrap()
        })
    }

    fn fill(&self, stream: &HostStream, pointer: DevicePointer<u8>, len: usize, byte: u8) {
        stream.launch(move |memory| memory.write_at(pointer, &vec![byte; len])).unwrap();
    }

    fn block(&self, stream: &HostStream) -> Box<dyn Send> {
        let (gate, blocked) = mpsc::channel::<()>();
        stream
            .launch(move |_| {
                // Ends when the gate is dropped.
                let _ = blocked.recv();
            })
            .unwrap();
        Box::new(gate)
    }
}
