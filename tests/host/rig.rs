//! The host backend as a device to run the cases on.

use std::sync::mpsc;

use marshal::DevicePointer;
use marshal::host::{HostDevice, HostStream};

use crate::cases::{Rig, Snapshot};

pub(crate) struct HostRig {
    pub(crate) device: HostDevice,
}

impl Rig for HostRig {
    type Stream = HostStream;

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
