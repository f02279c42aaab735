//! A decode step in a graph: captured once, its arguments refreshed a thousand times, beside the same step launched eagerly.
//!
//! A step has eight layers, each one kernel. All of them read the step's arguments (which block of the key-value cache each sequence
//! has come to, and its length), which are new in every step; and each reads the pointers to its own weights, which stay.
//! - in the graph: `refresh` and one launch a step;
//! - eagerly: one upload to the cache, and eight launches a step.
//!
//! Run with `cargo run --release --example decode`. It uses the GPU where there is one, else the host backend, compares every result
//! of both with what the host computes, and exits with 1 where one is wrong.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use marshal::backend::{Backend, BackendStream};
use marshal::host::{DeviceMemory, HostBuffer, HostDevice, HostStream};
use marshal::{ArgCache, DeviceArgs, DevicePointer, Uploaded};

const LAYERS: usize = 8;
const STEPS: usize = 1000;
const EXPERTS: usize = 8;
const SEQUENCES: usize = 64;

/// The pointers to one layer's weights: one entry an expert.
#[derive(DeviceArgs)]
struct Weights {
    expert: Vec<DevicePointer<u16>>,
}

/// What changes from step to step.
#[derive(DeviceArgs)]
struct Step {
    block: Vec<i32>,
    len: Vec<i32>,
}

impl Weights {
    fn of_layer(layer: usize) -> Self {
        let pointer = |expert| {
            let address = 0x7f00_0000_0000 + ((layer * EXPERTS + expert) << 20) as u64;
            DevicePointer::from_raw(address).expect("the address is not 0")
        };
        Self { expert: (0..EXPERTS).map(pointer).collect() }
    }
}

impl Step {
    fn new(step: usize) -> Self {
        let number = |n: usize| i32::try_from(n).expect("small");
        Self {
            block: (0..SEQUENCES).map(|s| number(s * 64 + (step + s) / 16)).collect(),
            len: (0..SEQUENCES).map(|s| number(100 + s + step)).collect(),
        }
    }
}

/// What the kernels of one step add up: every number that they were given, so that a stale argument is a wrong sum.
fn expected(step: &Step) -> u64 {
    let numbers = step.block.iter().chain(&step.len).map(|n| u64::from(n.unsigned_abs()));
    let of_step = numbers.fold(0, u64::wrapping_add).wrapping_mul(LAYERS as u64);
    (0..LAYERS).flat_map(|layer| Weights::of_layer(layer).expert).fold(of_step, |sum, p| sum.wrapping_add(p.address()))
}

/// One backend's part: a kernel, and where its results go.
trait Device {
    type Stream: BackendStream;

    fn stream(&self) -> &Self::Stream;

    /// Launches a layer, which adds to the result of the step that it is in. The last layer goes on to the next step.
    fn layer(
        &self,
        stream: &Self::Stream,
        weights: &WeightsPointers,
        step: &StepPointers,
        is_last: bool,
    ) -> Result<(), marshal::Error>;

    /// The results of all steps so far, once they are there. The next step is the first again.
    fn take_results(&self) -> Result<Vec<u64>, Box<dyn Error>>;
}

type BackendOf<D> = <<D as Device>::Stream as BackendStream>::Backend;
type WeightSets<D> = [Uploaded<WeightsPointers, BackendOf<D>>];

fn layers<D: Device>(
    device: &D,
    stream: &D::Stream,
    weights: &WeightSets<D>,
    step: &StepPointers,
) -> Result<(), marshal::Error> {
    for (layer, weights) in weights.iter().enumerate() {
        device.layer(stream, weights, step, layer + 1 == LAYERS)?;
    }
    Ok(())
}

fn run<D: Device>(device: &D) -> Result<bool, Box<dyn Error>> {
    let cache = ArgCache::new(device.stream())?;
    let weights: Vec<_> = (0..LAYERS).map(|layer| Weights::of_layer(layer).upload(&cache)).collect::<Result<_, _>>()?;
    let steps: Vec<Step> = (0..STEPS).map(Step::new).collect();
    let right: Vec<u64> = steps.iter().map(expected).collect();

    // A step before the capture: the first launch of a kernel may have to load it.
    layers(device, device.stream(), &weights, &*steps[0].upload(&cache)?)?;
    device.take_results()?;

    let start = Instant::now();
    for step in &steps {
        let dev = step.upload(&cache)?;
        layers(device, device.stream(), &weights, &dev)?;
    }
    let submitted = start.elapsed();
    let eager = device.take_results()?;
    report("eager: upload, and eight launches", submitted, start.elapsed());

    cache.reserve(&steps[0].layout()?)?;
    let graph = cache.capture(|stream| {
        let dev = steps[0].upload(&cache)?;
        layers(device, stream, &weights, &dev)?;
        Ok(dev)
    })?;
    let start = Instant::now();
    for step in &steps {
        graph.refresh(|dev| dev, step)?;
        graph.launch()?;
    }
    let submitted = start.elapsed();
    let replayed = device.take_results()?;
    report("graph: refresh, and one launch", submitted, start.elapsed());

    let is_right = eager == right && replayed == right;
    println!("{STEPS} steps: {}", if is_right { "both right, every one" } else { "WRONG RESULTS" });
    Ok(is_right)
}

fn report(what: &str, submitted: Duration, done: Duration) {
    let a_step = |time: Duration| time.as_secs_f64() * 1e6 / STEPS as f64;
    println!(
        "{what:34} {:8.2} us a step on the host, {:8.2} us a step until all are done",
        a_step(submitted),
        a_step(done)
    );
}

struct OnHost {
    stream: HostStream,
    results: HostBuffer<u64>,
    // Steps that are done.
    step: HostBuffer<u64>,
}

impl OnHost {
    fn new(stream: HostStream) -> Result<Self, marshal::Error> {
        let results = stream.clone_htod(&[0; STEPS])?;
        let step = stream.clone_htod(&[0])?;
        Ok(Self { stream, results, step })
    }
}

impl Device for OnHost {
    type Stream = HostStream;

    fn stream(&self) -> &HostStream {
        &self.stream
    }

    fn layer(
        &self,
        stream: &HostStream,
        weights: &WeightsPointers,
        step: &StepPointers,
        is_last: bool,
    ) -> Result<(), marshal::Error> {
        let (weights, step) = (*weights, *step);
        let (results, counter) = (self.results.pointer(), self.step.pointer());
        stream.launch(move |memory: &DeviceMemory| {
            let numbers = memory.read(step.block).iter().chain(memory.read(step.len));
            let of_step = numbers.map(|n| u64::from(n.unsigned_abs())).fold(0, u64::wrapping_add);
            let sum = memory.read(weights.expert).iter().fold(of_step, |sum, p| sum.wrapping_add(p.address()));
            let done = memory.read_at(counter, 1)[0];
            let result = usize::try_from(done).ok().and_then(|done| results.checked_add(done)).expect("few steps");
            memory.write_at(result, &[memory.read_at(result, 1)[0].wrapping_add(sum)]);
            if is_last {
                memory.write_at(counter, &[done + 1]);
            }
        })
    }

    fn take_results(&self) -> Result<Vec<u64>, Box<dyn Error>> {
        let results = self.results.to_vec()?;
        let (all, first) = (self.results.pointer(), self.step.pointer());
        self.stream.memset(all, size_of::<u64>() * STEPS, 0)?;
        self.stream.memset(first, size_of::<u64>(), 0)?;
        Ok(results)
    }
}

#[cfg(feature = "cuda")]
mod on_cuda {
    use std::cell::RefCell;
    use std::error::Error;
    use std::sync::Arc;

    use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
    use marshal::DevicePointer;
    use marshal::cuda::pointer_to;

    use super::{Device, EXPERTS, SEQUENCES, STEPS, StepPointers, WeightsPointers};

    const KERNEL: &str = r#"
extern "C" __global__ void layer(const unsigned long long* expert, unsigned long long experts, const int* block, const int* len,
                                 unsigned long long sequences, int is_last, unsigned long long* results, unsigned long long* step) {
    unsigned long long sum = 0;
    for (unsigned e = 0; e < experts; ++e) sum += expert[e];
    for (unsigned s = 0; s < sequences; ++s) sum += block[s] + len[s];
    results[*step] += sum;
    if (is_last) *step += 1;
}
"#;

    pub(super) struct OnCuda {
        stream: Arc<CudaStream>,
        kernel: CudaFunction,
        // Results, and the steps that are done: behind the last.
        results: RefCell<CudaSlice<u64>>,
        // Its address: a capture does not wait for the events that a slice as an argument brings along.
        results_at: DevicePointer<u64>,
    }

    impl OnCuda {
        pub(super) fn new() -> Result<Self, Box<dyn Error>> {
            let context = CudaContext::new(0)?;
            let stream = context.new_stream()?;
            let kernel = context.load_module(cudarc::nvrtc::compile_ptx(KERNEL)?)?.load_function("layer")?;
            let results = stream.alloc_zeros(STEPS + 1)?;
            let results_at = pointer_to(&results, &stream)?;
            Ok(Self { stream, kernel, results: RefCell::new(results), results_at })
        }
    }

    impl Device for OnCuda {
        type Stream = Arc<CudaStream>;

        fn stream(&self) -> &Arc<CudaStream> {
            &self.stream
        }

        fn layer(
            &self,
            stream: &Arc<CudaStream>,
            weights: &WeightsPointers,
            step: &StepPointers,
            is_last: bool,
        ) -> Result<(), marshal::Error> {
            let (experts, sequences, is_last) = (EXPERTS as u64, SEQUENCES as u64, u32::from(is_last));
            let counter = self.results_at.checked_add(STEPS).expect("behind the last result");
            let mut launch = stream.launch_builder(&self.kernel);
            launch.arg(&weights.expert).arg(&experts).arg(&step.block).arg(&step.len).arg(&sequences);
            launch.arg(&is_last).arg(&self.results_at).arg(&counter);
            let one_thread = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: the arguments are those that the kernel declares, in order; the columns are as long as it reads; the sets live
            // until the launch is submitted, or are kept by the graph; the results live as long as this.
            unsafe { launch.launch(one_thread) }?;
            Ok(())
        }

        fn take_results(&self) -> Result<Vec<u64>, Box<dyn Error>> {
            let mut device = self.results.borrow_mut();
            let mut results = self.stream.clone_dtoh(&*device)?;
            self.stream.memset_zeros(&mut *device)?;
            results.truncate(STEPS);
            Ok(results)
        }
    }
}

fn on_the_device_that_is_here() -> Result<bool, Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() {
        let device = on_cuda::OnCuda::new()?;
        println!("backend: {}", <marshal::cuda::Cuda as Backend>::device_name(device.stream()));
        return run(&device);
    }
    let stream = HostDevice::new().stream();
    println!("backend: {} (no CUDA device was found)", <marshal::host::Host as Backend>::device_name(&stream));
    run(&OnHost::new(stream)?)
}

fn main() -> ExitCode {
    match on_the_device_that_is_here() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
