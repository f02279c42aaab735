//! The soak of [`cases::soak`](crate::cases::soak), on a device with little memory whose calls fail now and then. `SOAK` says for how
//! many seconds; in most runs a few will do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use marshal::DevicePointer;
use marshal::host::{Call, DeviceMemory, HostDevice, HostOptions, HostStream};
use marshal::{Error, ErrorKind};

use crate::cases::soak::{Options, Soaked, digest, soak};
use crate::rig::HostRig;

pub(crate) const ALL: &[(&str, fn())] =
    &[("everything_at_once_is_right_and_leaves_nothing", { everything_at_once_is_right_and_leaves_nothing })];

/// What the harness itself does not call, or where it takes an error for an answer.
const CALLS: [Call; 6] =
    [Call::DeviceAlloc, Call::HostAlloc, Call::EventCreate, Call::EventRecord, Call::EventQuery, Call::StreamWait];

impl Soaked for HostRig {
    type Notes = Arc<Mutex<Vec<u64>>>;

    fn notes(&self, _: &HostStream, _: usize) -> Self::Notes {
        Arc::default()
    }

    fn note(&self, stream: &HostStream, from: DevicePointer<u8>, len: usize, notes: &Self::Notes) {
        let notes = Arc::clone(notes);
        let kernel = move |memory: &DeviceMemory| {
            let noted = digest(memory.read_at(from, len));
            notes.lock().unwrap().push(noted);
        };
        stream.launch(kernel).unwrap();
    }

    fn take_notes(&self, stream: &HostStream, notes: &Self::Notes) -> Vec<u64> {
        stream.synchronize().unwrap();
        core::mem::take(&mut *notes.lock().unwrap())
    }

    fn trouble(&self, draw: u64) {
        let call = CALLS[usize::try_from(draw % 6).unwrap()];
        self.device.fail(call, 1 + draw / 6 % 4);
    }

    fn may_fail(&self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::Driver { .. })
    }
}

fn everything_at_once_is_right_and_leaves_nothing() {
    let seconds = std::env::var("SOAK").map_or(2, |seconds| seconds.parse().unwrap());
    let device_bytes = 1 << 20;
    let device = HostDevice::with_options(HostOptions { memory_bytes: device_bytes, ..HostOptions::default() });
    let rig = HostRig { device };
    let options = Options { takes: Duration::from_secs(seconds), threads: 4, seed: 1, device_bytes, largest: 64 << 10 };
    let tally = soak(&rig, &options);
    println!("{tally:?}");
    assert!(tally.is_mixed(), "{tally:?}");
    rig.device.synchronize().unwrap();
    let counters = rig.device.counters();
    assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0), "memory is left: {tally:?}");
}
