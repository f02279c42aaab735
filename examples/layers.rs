//! A decode loop through one [`ArgCache`]: 32 layers, several steps, and what each kind of reuse saves.
//!
//! Each layer launches one kernel, whose arguments live in three sets:
//! - the pointers to its experts' weights: they never change. The layer *holds* the set: no call after the first step;
//! - the sequences' block tables: the same for all layers of a step. *Same bytes*: one copy a step, the other 31 uploads find it;
//! - the tokens' routing: new in every layer of every step. *Same shape*: one copy each, into the same block.
//!
//! Run with `cargo run --release --example layers`. It uses the GPU where there is one, else the host backend, checks every kernel's
//! result, and exits with 1 where one is wrong.

use std::error::Error;
use std::process::ExitCode;

use marshal::backend::{Backend, BackendStream};
use marshal::host::{HostBuffer, HostDevice, HostStream};
use marshal::{ArgCache, CacheStats, DeviceArgs, DeviceColumn, DevicePointer, Uploaded};

const LAYERS: usize = 32;
const STEPS: usize = 5;
const EXPERTS: usize = 8;
const SEQUENCES: usize = 16;

/// The pointers to one layer's weights: one entry an expert.
#[derive(DeviceArgs)]
struct Weights {
    gate_up: Vec<DevicePointer<u16>>,
    down: Vec<DevicePointer<u16>>,
}

/// Which blocks of the key-value cache belong to which sequence.
#[derive(DeviceArgs)]
struct Tables<'a> {
    first_block: &'a [i32],
    len: &'a [i32],
}

/// Where each expert's tokens begin.
#[derive(DeviceArgs)]
struct Routing {
    offset: Vec<i64>,
}

impl Weights {
    fn of_layer(layer: usize) -> Self {
        let pointer = |matrix: usize, expert: usize| {
            let address = 0x7f00_0000_0000 + (((layer * 2 + matrix) * EXPERTS + expert) << 20) as u64;
            DevicePointer::from_raw(address).expect("the address is not 0")
        };
        Self {
            gate_up: (0..EXPERTS).map(|e| pointer(0, e)).collect(),
            down: (0..EXPERTS).map(|e| pointer(1, e)).collect(),
        }
    }
}

impl Routing {
    fn of(step: usize, layer: usize) -> Self {
        let mut offset = vec![0];
        for expert in 0..EXPERTS {
            // Uneven, and other for every layer and step.
            let tokens = i64::try_from((step * 31 + layer * 7 + expert * 13) % 5).expect("below 5");
            offset.push(offset[expert] + tokens);
        }
        Self { offset }
    }
}

/// What the kernel adds up: every number that it was given, so that a stale argument is a wrong sum.
fn expected(weights: &Weights, tables: &Tables<'_>, routing: &Routing) -> u64 {
    let pointers = weights.gate_up.iter().chain(&weights.down).map(|p| p.address());
    let tables = tables.first_block.iter().chain(tables.len).map(|&n| n.unsigned_abs().into());
    let routing = routing.offset.iter().map(|n| n.unsigned_abs());
    pointers.chain(tables).chain(routing).fold(0, u64::wrapping_add)
}

/// One backend's part: a kernel, and where its results go.
trait Device {
    type Stream: BackendStream;

    fn stream(&self) -> &Self::Stream;
    fn launch(
        &self,
        index: usize,
        weights: &WeightsPointers,
        tables: &TablesPointers,
        routing: &RoutingPointers,
    ) -> Result<(), Box<dyn Error>>;
    fn results(&self) -> Result<Vec<u64>, Box<dyn Error>>;
}

fn run<D: Device>(device: &D) -> Result<bool, Box<dyn Error>> {
    let cache = ArgCache::new(device.stream())?;
    let held: Vec<Uploaded<WeightsPointers, <D::Stream as BackendStream>::Backend>> =
        (0..LAYERS).map(|layer| Weights::of_layer(layer).upload(&cache)).collect::<Result<_, _>>()?;
    report("32 layers upload their weights' pointers and hold the sets", CacheStats::default(), cache.stats());

    let mut sums = Vec::new();
    for step in 0..STEPS {
        let before = cache.stats();
        let first_block: Vec<i32> = (0..SEQUENCES).map(|s| i32::try_from(s * 64).expect("small")).collect();
        let len: Vec<i32> = (0..SEQUENCES).map(|s| i32::try_from(100 + s + step).expect("small")).collect();
        for (layer, weights) in held.iter().enumerate() {
            let (tables, routing) = (Tables { first_block: &first_block, len: &len }, Routing::of(step, layer));
            let dev_tables = tables.upload(&cache)?;
            let dev_routing = routing.upload(&cache)?;
            device.launch(step * LAYERS + layer, weights, &dev_tables, &dev_routing)?;
            sums.push(expected(&Weights::of_layer(layer), &tables, &routing));
        }
        report(&format!("step {step}: 32 layers, 64 uploads, 32 held sets"), before, cache.stats());
    }
    let right = device.results()? == sums;
    println!("{} kernels: {}", sums.len(), if right { "each saw its own arguments" } else { "WRONG RESULTS" });
    Ok(right)
}

fn report(what: &str, before: CacheStats, after: CacheStats) {
    println!(
        "{what}\n    {:3} byte hits (no call)  {:3} shape hits (one copy)  {:3} new blocks  {:3} copies, {} bytes",
        after.byte_hits - before.byte_hits,
        after.shape_hits - before.shape_hits,
        after.allocations - before.allocations,
        after.copies - before.copies,
        after.copied_bytes - before.copied_bytes,
    );
}

struct OnHost {
    stream: HostStream,
    results: HostBuffer<u64>,
}

impl Device for OnHost {
    type Stream = HostStream;

    fn stream(&self) -> &HostStream {
        &self.stream
    }

    fn launch(
        &self,
        index: usize,
        weights: &WeightsPointers,
        tables: &TablesPointers,
        routing: &RoutingPointers,
    ) -> Result<(), Box<dyn Error>> {
        let (weights, tables, routing) = (*weights, *tables, *routing);
        let result = self.results.pointer().checked_add(index).ok_or("the results are too few")?;
        self.stream.launch(move |memory| {
            let pointers =
                |column: DeviceColumn<DevicePointer<u16>>| memory.read(column).iter().map(|p| p.address()).sum::<u64>();
            let numbers = |column: DeviceColumn<i32>| {
                memory.read(column).iter().map(|n| u64::from(n.unsigned_abs())).sum::<u64>()
            };
            let offsets: u64 = memory.read(routing.offset).iter().map(|n| n.unsigned_abs()).sum();
            let sum = pointers(weights.gate_up)
                + pointers(weights.down)
                + numbers(tables.first_block)
                + numbers(tables.len)
                + offsets;
            memory.write_at(result, &[sum]);
        })?;
        Ok(())
    }

    fn results(&self) -> Result<Vec<u64>, Box<dyn Error>> {
        Ok(self.results.to_vec()?)
    }
}

#[cfg(feature = "cuda")]
mod on_cuda {
    use std::cell::RefCell;
    use std::error::Error;
    use std::sync::Arc;

    use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};

    use super::{Device, EXPERTS, LAYERS, RoutingPointers, SEQUENCES, STEPS, TablesPointers, WeightsPointers};

    const KERNEL: &str = r#"
extern "C" __global__ void add_up(const unsigned long long* gate_up, const unsigned long long* down, int experts,
                                  const int* first_block, const int* len, int sequences,
                                  const long long* offset, unsigned long long* result) {
    unsigned long long sum = 0;
    for (int e = 0; e < experts; ++e) sum += gate_up[e] + down[e];
    for (int s = 0; s < sequences; ++s) sum += first_block[s] + len[s];
    for (int e = 0; e <= experts; ++e) sum += offset[e];
    *result = sum;
}
"#;

    pub(super) struct OnCuda {
        stream: Arc<CudaStream>,
        kernel: CudaFunction,
        results: RefCell<CudaSlice<u64>>,
    }

    impl OnCuda {
        pub(super) fn new() -> Result<Self, Box<dyn Error>> {
            let context = CudaContext::new(0)?;
            let stream = context.new_stream()?;
            let kernel = context.load_module(cudarc::nvrtc::compile_ptx(KERNEL)?)?.load_function("add_up")?;
            let results = RefCell::new(stream.alloc_zeros(LAYERS * STEPS)?);
            Ok(Self { stream, kernel, results })
        }
    }

    impl Device for OnCuda {
        type Stream = Arc<CudaStream>;

        fn stream(&self) -> &Arc<CudaStream> {
            &self.stream
        }

        fn launch(
            &self,
            index: usize,
            weights: &WeightsPointers,
            tables: &TablesPointers,
            routing: &RoutingPointers,
        ) -> Result<(), Box<dyn Error>> {
            let (experts, sequences) = (i32::try_from(EXPERTS)?, i32::try_from(SEQUENCES)?);
            let mut results = self.results.borrow_mut();
            let mut result = results.slice_mut(index..=index);
            let mut launch = self.stream.launch_builder(&self.kernel);
            launch.arg(&weights.gate_up).arg(&weights.down).arg(&experts);
            launch.arg(&tables.first_block).arg(&tables.len).arg(&sequences);
            launch.arg(&routing.offset).arg(&mut result);
            let one_thread = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: the arguments are those that the kernel declares, in order; the columns are as long as it reads, and the
            // sets live until the launch is submitted; one thread writes one element of the results.
            unsafe { launch.launch(one_thread) }?;
            Ok(())
        }

        fn results(&self) -> Result<Vec<u64>, Box<dyn Error>> {
            Ok(self.stream.clone_dtoh(&*self.results.borrow())?)
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
    let results = stream.alloc(LAYERS * STEPS)?;
    run(&OnHost { stream, results })
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
