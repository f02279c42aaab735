//! A mixture-of-experts step, split over two devices by expert: each has a cache of its own, and its own share of one list of problems.
//!
//! Eight experts, tokens unevenly spread over them, two experts without any. The first device has all tokens, sorted by expert, and
//! the first four experts' weights; the second has the other weights. The rows of its experts are copied over, each device solves its
//! problems with one grouped kernel, and the second one's results are copied back.
//!
//! Run with `cargo run --release --example two_devices`. It uses two GPUs where they are, else two devices of the host backend, and says
//! which; every element is compared with what the host computes in float64, over several steps, and it exits with 1 where one is wrong.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use marshal::backend::BackendStream;
use marshal::host::{DeviceMemory, HostBuffer, HostDevice, HostStream};
use marshal::{ArgCache, DeviceArgs, DevicePointer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const EXPERTS: usize = 8;
const HIDDEN: usize = 256;
const OUT: usize = 96;
const TOKENS: usize = 200;
const STEPS: usize = 20;

/// `y[g] = x[g] * w[g]`, row-major, one entry an expert: `x` has `m` rows of `HIDDEN`, `y` has `m` rows of `OUT`.
#[derive(DeviceArgs)]
struct Experts {
    m: Vec<i32>,
    x: Vec<DevicePointer<f32>>,
    w: Vec<DevicePointer<f32>>,
    y: Vec<DevicePointer<f32>>,
}

/// One device: memory, the grouped kernel, and copies from the other one.
trait Device {
    type Stream: BackendStream;
    type Buffer;

    fn name(&self) -> String;
    fn stream(&self) -> &Self::Stream;
    fn zeros(&self, len: usize) -> Result<Self::Buffer, Box<dyn Error>>;
    fn write(&self, values: &[f32], to: &mut Self::Buffer) -> Result<(), Box<dyn Error>>;
    fn pointer(&self, buffer: &Self::Buffer, index: usize) -> Result<DevicePointer<f32>, Box<dyn Error>>;
    fn solve(&self, experts: &ExpertsPointers) -> Result<(), Box<dyn Error>>;

    /// Copies the first `len` elements of `from`, which is on `other`, behind what that device does, to `to` from `at` on, before what
    /// this device does next.
    fn copy_over(
        &self,
        other: &Self,
        from: &Self::Buffer,
        len: usize,
        to: &mut Self::Buffer,
        at: usize,
    ) -> Result<(), Box<dyn Error>>;
    fn read(&self, buffer: &Self::Buffer) -> Result<Vec<f32>, Box<dyn Error>>;
}

type BackendOf<D> = <<D as Device>::Stream as BackendStream>::Backend;

/// A device, with its experts and what they work on.
struct Side<'d, D: Device> {
    device: &'d D,
    cache: ArgCache<BackendOf<D>>,
    weights: D::Buffer,
    x: D::Buffer,
    y: D::Buffer,
    experts: std::ops::Range<usize>,
    // In uploads alone, but for the first, which allocates.
    uploading: Duration,
}

impl<'d, D: Device> Side<'d, D> {
    fn new(device: &'d D, experts: std::ops::Range<usize>, weights: &[f32]) -> Result<Self, Box<dyn Error>> {
        let own = &weights[experts.start * HIDDEN * OUT..experts.end * HIDDEN * OUT];
        let mut on_device = device.zeros(own.len())?;
        device.write(own, &mut on_device)?;
        Ok(Self {
            device,
            cache: ArgCache::new(device.stream())?,
            weights: on_device,
            x: device.zeros(TOKENS * HIDDEN)?,
            y: device.zeros(TOKENS * OUT)?,
            experts,
            uploading: Duration::ZERO,
        })
    }

    /// Gives the kernel of this side's experts to its stream. Their rows stand one behind the other in `x`.
    fn solve(&mut self, m: &[usize]) -> Result<(), Box<dyn Error>> {
        let (mut args, mut row) = (Experts { m: vec![], x: vec![], w: vec![], y: vec![] }, 0);
        for (index, expert) in self.experts.clone().enumerate() {
            args.m.push(i32::try_from(m[expert])?);
            args.x.push(self.device.pointer(&self.x, row * HIDDEN)?);
            args.w.push(self.device.pointer(&self.weights, index * HIDDEN * OUT)?);
            args.y.push(self.device.pointer(&self.y, row * OUT)?);
            row += m[expert];
        }
        let is_first = self.cache.stats().uploads == 0;
        let start = Instant::now();
        let dev = args.upload(&self.cache)?;
        if !is_first {
            self.uploading += start.elapsed();
        }
        self.device.solve(&dev)
    }
}

fn run<D: Device>(devices: [&D; 2]) -> Result<bool, Box<dyn Error>> {
    println!("{} and {}", devices[0].name(), devices[1].name());
    let mut random = StdRng::seed_from_u64(1);
    let weights: Vec<f32> = (0..EXPERTS * HIDDEN * OUT).map(|_| random.random_range(-1.0..1.0)).collect();
    let mut first = Side::new(devices[0], 0..EXPERTS / 2, &weights)?;
    let mut second = Side::new(devices[1], EXPERTS / 2..EXPERTS, &weights)?;
    let mut worst = 0.0_f64;
    for step in 0..STEPS {
        // Two experts of the eight have no token, others in each step.
        let idle = [step % EXPERTS, (step * 3 + 1) % EXPERTS];
        let mut m = [0; EXPERTS];
        while m.iter().sum::<usize>() < TOKENS {
            let expert = random.random_range(0..EXPERTS);
            if !idle.contains(&expert) {
                m[expert] += 1;
            }
        }
        let x: Vec<f32> = (0..TOKENS * HIDDEN).map(|_| random.random_range(-1.0..1.0)).collect();
        let here: usize = m[..EXPERTS / 2].iter().sum();

        devices[0].write(&x, &mut first.x)?;
        // The second device's rows, from a buffer of their own: a peer copy begins where its source does.
        let mut rows = devices[0].zeros((TOKENS - here).max(1) * HIDDEN)?;
        devices[0].write(&x[here * HIDDEN..], &mut rows)?;
        devices[1].copy_over(devices[0], &rows, (TOKENS - here) * HIDDEN, &mut second.x, 0)?;
        first.solve(&m)?;
        second.solve(&m)?;
        devices[0].copy_over(devices[1], &second.y, (TOKENS - here) * OUT, &mut first.y, here * OUT)?;
        worst = worst.max(error(&m, &x, &weights, &devices[0].read(&first.y)?));
    }
    for side in [&first, &second] {
        let stats = side.cache.stats();
        println!(
            "{}: {} uploads, {} copies of {} bytes, {} block, {:.2} us an upload after the first",
            side.device.name(),
            stats.uploads,
            stats.copies,
            stats.copied_bytes / stats.copies.max(1),
            stats.allocations,
            side.uploading.as_secs_f64() * 1e6 / (STEPS - 1) as f64,
        );
    }
    let is_right = worst < 1e-5;
    println!(
        "{STEPS} steps, {} products, worst error {worst:.1e}: {}",
        STEPS * EXPERTS,
        if is_right { "right" } else { "WRONG" }
    );
    Ok(is_right)
}

/// The largest error of a row's element, as a part of the largest element of the right row.
fn error(m: &[usize], x: &[f32], weights: &[f32], y: &[f32]) -> f64 {
    let (mut worst, mut row) = (0.0_f64, 0);
    for (expert, &rows) in m.iter().enumerate() {
        let w = &weights[expert * HIDDEN * OUT..][..HIDDEN * OUT];
        for _ in 0..rows {
            let mut right = [0.0_f64; OUT];
            for (k, &value) in x[row * HIDDEN..][..HIDDEN].iter().enumerate() {
                for (sum, &weight) in right.iter_mut().zip(&w[k * OUT..][..OUT]) {
                    *sum += f64::from(value) * f64::from(weight);
                }
            }
            let scale = right.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
            for (found, right) in y[row * OUT..][..OUT].iter().zip(right) {
                let error = (f64::from(*found) - right).abs() / scale;
                // NaN is the worst of all.
                worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
            }
            row += 1;
        }
    }
    worst
}

struct OnHost {
    stream: HostStream,
}

impl Device for OnHost {
    type Stream = HostStream;
    type Buffer = HostBuffer<f32>;

    fn name(&self) -> String {
        <marshal::host::Host as marshal::backend::Backend>::device_name(&self.stream)
    }

    fn stream(&self) -> &HostStream {
        &self.stream
    }

    fn zeros(&self, len: usize) -> Result<HostBuffer<f32>, Box<dyn Error>> {
        Ok(self.stream.clone_htod(&vec![0.0; len])?)
    }

    fn write(&self, values: &[f32], to: &mut HostBuffer<f32>) -> Result<(), Box<dyn Error>> {
        let (values, to) = (values.to_vec(), to.pointer());
        Ok(self.stream.launch(move |memory| memory.write_at(to, &values))?)
    }

    fn pointer(&self, buffer: &HostBuffer<f32>, index: usize) -> Result<DevicePointer<f32>, Box<dyn Error>> {
        Ok(buffer.pointer().checked_add(index).ok_or("behind the last address")?)
    }

    fn solve(&self, experts: &ExpertsPointers) -> Result<(), Box<dyn Error>> {
        let experts = *experts;
        let kernel = move |memory: &DeviceMemory| {
            let problems = memory.read(experts.m).iter().zip(memory.read(experts.x)).zip(memory.read(experts.w));
            for (((&m, &x), &w), &y) in problems.zip(memory.read(experts.y)) {
                let m = usize::try_from(m).expect("a number of rows");
                let (x, w) = (memory.read_at(x, m * HIDDEN), memory.read_at(w, HIDDEN * OUT));
                let mut product = vec![0.0_f32; m * OUT];
                for (row, sums) in x.chunks_exact(HIDDEN).zip(product.chunks_exact_mut(OUT)) {
                    for (value, weights) in row.iter().zip(w.chunks_exact(OUT)) {
                        sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                    }
                }
                memory.write_at(y, &product);
            }
        };
        Ok(self.stream.launch(kernel)?)
    }

    // Devices of the host backend share no memory: by way of the host.
    fn copy_over(
        &self,
        _: &Self,
        from: &HostBuffer<f32>,
        len: usize,
        to: &mut HostBuffer<f32>,
        at: usize,
    ) -> Result<(), Box<dyn Error>> {
        let values = from.to_vec()?;
        let to = self.pointer(to, at)?;
        Ok(self.stream.launch(move |memory| memory.write_at(to, &values[..len]))?)
    }

    fn read(&self, buffer: &HostBuffer<f32>) -> Result<Vec<f32>, Box<dyn Error>> {
        Ok(buffer.to_vec()?)
    }
}

#[cfg(feature = "cuda")]
mod on_cuda {
    use std::error::Error;
    use std::sync::Arc;

    use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
    use marshal::DevicePointer;
    use marshal::backend::Backend;
    use marshal::cuda::{Cuda, pointer_to};

    use super::{Device, ExpertsPointers, HIDDEN, OUT};

    const KERNEL: &str = r#"
extern "C" __global__ void solve(const int* m, const float* const* x, const float* const* w, float* const* y,
                                 unsigned long long hidden, unsigned long long out) {
    unsigned g = blockIdx.x;
    for (int row = blockIdx.y; row < m[g]; row += gridDim.y) {
        for (unsigned long long column = threadIdx.x; column < out; column += blockDim.x) {
            float sum = 0;
            for (unsigned long long k = 0; k < hidden; ++k) sum += x[g][row * hidden + k] * w[g][k * out + column];
            y[g][row * out + column] = sum;
        }
    }
}
"#;

    pub(super) struct OnCuda {
        stream: Arc<CudaStream>,
        kernel: CudaFunction,
    }

    impl OnCuda {
        pub(super) fn new(ordinal: usize) -> Result<Self, Box<dyn Error>> {
            let context = CudaContext::new(ordinal)?;
            let stream = context.new_stream()?;
            let kernel = context.load_module(cudarc::nvrtc::compile_ptx(KERNEL)?)?.load_function("solve")?;
            Ok(Self { stream, kernel })
        }
    }

    impl Device for OnCuda {
        type Stream = Arc<CudaStream>;
        type Buffer = CudaSlice<f32>;

        fn name(&self) -> String {
            Cuda::device_name(&self.stream)
        }

        fn stream(&self) -> &Arc<CudaStream> {
            &self.stream
        }

        fn zeros(&self, len: usize) -> Result<CudaSlice<f32>, Box<dyn Error>> {
            Ok(self.stream.alloc_zeros(len)?)
        }

        fn write(&self, values: &[f32], to: &mut CudaSlice<f32>) -> Result<(), Box<dyn Error>> {
            Ok(self.stream.memcpy_htod(values, to)?)
        }

        fn pointer(&self, buffer: &CudaSlice<f32>, index: usize) -> Result<DevicePointer<f32>, Box<dyn Error>> {
            Ok(pointer_to(buffer, &self.stream)?.checked_add(index).ok_or("behind the last address")?)
        }

        fn solve(&self, experts: &ExpertsPointers) -> Result<(), Box<dyn Error>> {
            let (hidden, out) = (HIDDEN as u64, OUT as u64);
            let mut launch = self.stream.launch_builder(&self.kernel);
            launch.arg(&experts.m).arg(&experts.x).arg(&experts.w).arg(&experts.y).arg(&hidden).arg(&out);
            let groups = u32::try_from(experts.m.len())?;
            let shape = LaunchConfig { grid_dim: (groups, 32, 1), block_dim: (96, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: the arguments are those that the kernel declares, in order; each column has an entry a block of the grid's first
            // dimension, and each pointer has as many rows behind it as `m` says. All of it is of this stream's device.
            unsafe { launch.launch(shape) }?;
            Ok(())
        }

        fn copy_over(
            &self,
            other: &Self,
            from: &CudaSlice<f32>,
            len: usize,
            to: &mut CudaSlice<f32>,
            at: usize,
        ) -> Result<(), Box<dyn Error>> {
            if len == 0 {
                return Ok(());
            }
            // The kernels write and read through pointers, which cudarc does not see: the streams wait for each other here.
            self.stream.wait(&other.stream.record_event(None)?)?;
            self.stream.memcpy_dtod(&from.slice(..len), &mut to.slice_mut(at..at + len))?;
            other.stream.wait(&self.stream.record_event(None)?)?;
            Ok(())
        }

        fn read(&self, buffer: &CudaSlice<f32>) -> Result<Vec<f32>, Box<dyn Error>> {
            Ok(self.stream.clone_dtoh(buffer)?)
        }
    }
}

fn on_the_devices_that_are_here() -> Result<bool, Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() && cudarc::driver::CudaContext::device_count()? >= 2 {
        return run([&on_cuda::OnCuda::new(0)?, &on_cuda::OnCuda::new(1)?]);
    }
    println!("no two CUDA devices were found: two devices of the host backend");
    let devices = [(); 2].map(|()| OnHost { stream: HostDevice::new().stream() });
    run([&devices[0], &devices[1]])
}

fn main() -> ExitCode {
    match on_the_devices_that_are_here() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
