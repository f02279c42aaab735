//! The cases on a GPU, and what only a GPU can show. Without one every test is reported as not run.

mod cases;
mod gpu;
mod header;

use std::sync::Arc;

use cases::{Rig, Snapshot};
use cudarc::driver::{CudaContext, CudaStream};
use gpu::device::{self, Gpu};
use gpu::failing::FailingDriver;
use gpu::failures;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use marshal::DevicePointer;

type OpenStream = fn(&Gpu) -> Arc<CudaStream>;

/// Runs the cases on streams of one kind.
struct CudaRig {
    gpu: Gpu,
    open: OpenStream,
}

impl Rig for CudaRig {
    type Stream = Arc<CudaStream>;
    type Log = device::Log;

    fn log(&self, stream: &Arc<CudaStream>, len: usize, entries: usize, is_slow: bool) -> device::Log {
        device::Log::new(stream, len, entries, is_slow)
    }

    fn append(&self, stream: &Arc<CudaStream>, from: DevicePointer<u8>, log: &device::Log) {
        log.append(&self.gpu, stream, from);
    }

    fn read_log(&self, stream: &Arc<CudaStream>, log: &device::Log) -> Vec<Vec<u8>> {
        log.read(stream)
    }

    fn stream(&self) -> Arc<CudaStream> {
        (self.open)(&self.gpu)
    }

    fn poison(&self, stream: &Arc<CudaStream>, bytes: usize) {
        device::poison(stream, bytes);
    }

    fn snapshot(&self, stream: &Arc<CudaStream>, pointer: DevicePointer<u8>, len: usize) -> Snapshot {
        device::snapshot(stream, pointer, len)
    }

    fn fill(&self, stream: &Arc<CudaStream>, pointer: DevicePointer<u8>, len: usize, byte: u8) {
        device::fill(stream, pointer, len, byte);
    }

    fn block(&self, stream: &Arc<CudaStream>) -> Box<dyn Send> {
        Box::new(self.gpu.gate(stream))
    }
}

/// A test on so many GPUs; ignored, with a line that says so, where they are not.
fn on_gpus(name: String, needed: i32, available: i32, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
        if available < needed {
            return Ok(Completion::ignored_with(format!("not run: {needed} CUDA devices needed, {available} here")));
        }
        test();
        Ok(Completion::Completed)
    })
}

fn main() {
    let mut arguments = Arguments::from_args();
    // One after the other: some look at the device's free memory, and each has the device's context begin and end.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let devices = if marshal::cuda::is_available() { CudaContext::device_count().unwrap_or(0) } else { 0 };
    if devices == 0 {
        println!("not run: no CUDA device");
    }

    let kinds: [(&str, OpenStream); 3] = [
        ("created", |gpu| gpu.context.new_stream().unwrap()),
        ("default", |gpu| gpu.context.default_stream()),
        ("per_thread", |gpu| gpu.context.per_thread_stream()),
    ];
    let mut trials = Vec::new();
    for (kind, open) in kinds {
        // A cache needs one stream, and the per-thread default stream is many: `streams` shows that it is refused.
        let cached = match kind {
            "per_thread" => Vec::new(),
            _ => [cases::cache::all::<CudaRig>(), cases::columns::cached()].concat(),
        };
        // The default streams: a cache has none of the one, and CUDA captures none of the other.
        let graphs = if kind == "created" { cases::graph::all::<CudaRig>() } else { Vec::new() };
        let one_shot = [cases::upload::all::<CudaRig>(), cases::elements::all(), cases::columns::all()].concat();
        for (name, case) in [one_shot, cached, graphs, cases::copies::all()].concat() {
            trials.push(on_gpus(format!("cuda::{kind}::{name}"), 1, devices, move || {
                case(&CudaRig { gpu: Gpu::new(), open });
            }));
        }
    }
    for (name, needed, test) in gpu::all() {
        trials.push(on_gpus(format!("cuda::{name}"), needed, devices, move || test(&Gpu::new())));
    }
    for (name, test) in failures::ALL {
        trials.push(Trial::ignorable_test(format!("cuda::failures::{name}"), move || -> Result<Completion, Failed> {
            match FailingDriver::find().filter(|_| devices > 0) {
                Some(driver) => test(&Gpu::new(), &driver),
                None => return Ok(Completion::ignored_with("not run: no failing driver in front of a device's")),
            }
            Ok(Completion::Completed)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
