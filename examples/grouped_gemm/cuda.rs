//! The step on a GPU: one block of arguments, three consumers.

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut, result};
use half::f16;
use marshal::cuda::{Cuda, pointer_to, pointer_to_mut};
use marshal::{DeviceArgs, Uploaded};

use super::check::{self, POISON, check};
use super::cublas::Cublas;
use super::cutlass::CutlassKernel;
use super::nvrtc::{GroupedKernel, ReferenceKernel};
use super::options::Options;
use super::problem::{Cut, GroupedGemm, Problem, SMALLEST};
use super::report::{Outcome, Report, describe};

/// The step that is compared, whole, with the reference of the CPU: the same as on the host backend.
const SMALL: Cut = Cut { divisor: 8, tokens: 512 };
/// The model's own shapes.
const FULL: Cut = Cut { divisor: 1, tokens: 2048 };

/// The uploaded arguments.
pub(crate) type Set = Uploaded<<GroupedGemm<'static> as DeviceArgs>::Pointers, Cuda>;

/// What a consumer has written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written {
    F32,
    F16,
}

/// Computes the step from the columns of a set.
pub(crate) trait Consumer {
    /// Gives the step to the stream. `args` is what was uploaded to `dev`.
    fn launch(&self, stream: &Arc<CudaStream>, dev: &Set, args: &GroupedGemm<'_>) -> Result<Written, Box<dyn Error>>;
}

/// The device, and what was found to run on it.
struct Gpu {
    stream: Arc<CudaStream>,
    consumers: Vec<(&'static str, Box<dyn Consumer>)>,
}

/// Runs the small step, and the full one unless only a small one is asked for.
///
/// # Errors
/// When a call of the driver fails outside a consumer.
pub(crate) fn run(options: &Options, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let (major, minor) = context.compute_capability()?;
    println!("device: {}, compute capability {major}.{minor}", context.name()?);
    let gpu = Gpu::new(&context, options, report)?;
    if options.small {
        return gpu.small_step(SMALLEST, options.seed, None, report);
    }
    match ReferenceKernel::load(&context) {
        Ok(reference) => {
            gpu.small_step(SMALL, options.seed, Some(&reference), report)?;
            gpu.full_step(options.seed, &reference, report)
        }
        Err(outcome) => {
            gpu.small_step(SMALL, options.seed, None, report)?;
            report.add("the full size, whose reference needs NVRTC", &outcome);
            Ok(())
        }
    }
}

impl Gpu {
    /// Loads the consumers that are asked for, and reports those that cannot run.
    fn new(context: &Arc<CudaContext>, options: &Options, report: &mut Report) -> Result<Self, Box<dyn Error>> {
        let stream = context.new_stream()?;
        let mut consumers = Vec::new();
        let mut add = |name, load: &dyn Fn() -> Result<Box<dyn Consumer>, Outcome>| {
            if options.wants(name) {
                match load() {
                    Ok(consumer) => consumers.push((name, consumer)),
                    Err(outcome) => report.add(name, &outcome),
                }
            }
        };
        add("nvrtc", &|| Ok(Box::new(GroupedKernel::load(context)?)));
        add("cutlass", &|| Ok(Box::new(CutlassKernel::load(&stream, options.cubin.as_deref())?)));
        add("cublas", &|| Ok(Box::new(Cublas::load(&stream)?)));
        if options.wants("host") && options.consumers.is_some() {
            report.add("host", &Outcome::NotRun("it belongs to the host backend: --backend host".to_owned()));
        }
        Ok(Self { stream, consumers })
    }

    /// Every element against the reference of the CPU, and the reference kernel against it too.
    fn small_step(
        &self,
        cut: Cut,
        seed: u64,
        kernel: Option<&ReferenceKernel>,
        report: &mut Report,
    ) -> Result<(), Box<dyn Error>> {
        let problem = Problem::draw(cut, seed);
        describe(&problem, cut.divisor);
        let matrices = Matrices::new(&self.stream, &problem)?;
        println!("  reference: in f64 on the CPU, every element");
        let reference = check::reference(&problem);
        if let Some(kernel) = kernel {
            let products = kernel.compute(&self.stream, &problem, &matrices.a, &matrices.b)?;
            let all = products.iter().copied().zip(reference.iter().copied());
            check::agree(all).map_err(|why| format!("the reference kernel is wrong: {why}"))?;
            println!("  the reference kernel agrees with it");
        }
        self.consume(&problem, matrices, &reference, report)
    }

    /// The full size is too large for the CPU: the reference kernel computes every element, the CPU checks samples of that.
    fn full_step(&self, seed: u64, kernel: &ReferenceKernel, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let problem = Problem::draw(FULL, seed);
        describe(&problem, FULL.divisor);
        let matrices = Matrices::new(&self.stream, &problem)?;
        let reference = kernel.compute(&self.stream, &problem, &matrices.a, &matrices.b)?;
        let samples = check::samples(&problem);
        let sampled = samples.iter().map(|&(index, expected)| (reference[index], expected));
        check::agree(sampled).map_err(|why| format!("the reference kernel is wrong: {why}"))?;
        println!("  reference: in f64 on the GPU, every element; it agrees with the CPU on {} samples,", samples.len());
        println!("  {0} rows by {0} columns of each expert with rows, first and last among them", check::SAMPLES);
        self.consume(&problem, matrices, &reference, report)
    }

    /// Uploads the arguments, once, and gives them to each consumer.
    fn consume(
        &self,
        problem: &Problem,
        mut matrices: Matrices,
        reference: &[f64],
        report: &mut Report,
    ) -> Result<(), Box<dyn Error>> {
        let stream = &self.stream;
        let a = pointer_to(&matrices.a, stream)?.cast::<f16>();
        let b = pointer_to(&matrices.b, stream)?.cast::<f16>();
        let d = pointer_to_mut(&mut matrices.d, stream)?;
        let args = problem.arguments(a, b, d);
        let dev = args.upload(stream)?;
        let layout = dev.layout();
        print!("{layout}");
        let (block, copy) = (layout.size_bytes(), layout.copy_bytes());
        println!("upload: 1 block of {block} bytes, 1 copy of {copy} bytes, by construction: CUDA counts neither");
        for (name, consumer) in &self.consumers {
            let outcome = matrices.outcome(stream, problem, reference, || consumer.launch(stream, &dev, &args));
            report.add(name, &outcome.unwrap_or_else(|error| Outcome::Failed(error.to_string())));
        }
        Ok(())
    }
}

/// The matrices in device memory. cudarc has no f16 of its own: u16 are their bits.
struct Matrices {
    a: CudaSlice<u16>,
    b: CudaSlice<u16>,
    d: CudaSlice<f32>,
}

impl Matrices {
    fn new(stream: &Arc<CudaStream>, problem: &Problem) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            a: stream.clone_htod(bytemuck::cast_slice::<f16, u16>(&problem.a))?,
            b: stream.clone_htod(bytemuck::cast_slice::<f16, u16>(&problem.b))?,
            d: stream.alloc_zeros(problem.len_d())?,
        })
    }

    /// Poisons D, lets `launch` write it, and compares it with the reference.
    fn outcome(
        &mut self,
        stream: &Arc<CudaStream>,
        problem: &Problem,
        reference: &[f64],
        launch: impl FnOnce() -> Result<Written, Box<dyn Error>>,
    ) -> Result<Outcome, Box<dyn Error>> {
        let size_bytes = self.d.num_bytes();
        let (address, record) = self.d.device_ptr_mut(stream);
        // SAFETY: the address and the size are those of D, any bytes are f32, and D is used on this stream alone.
        unsafe { result::memset_d8_async(address, POISON, size_bytes, stream.cu_stream()) }?;
        drop(record);
        let written = launch()?;
        stream.synchronize()?;
        let buffer = stream.clone_dtoh(&self.d)?;
        stream.synchronize()?;
        let accuracy = match written {
            Written::F32 => check::<f32>(&buffer, problem, reference),
            Written::F16 => {
                println!("  cuBLAS has no f32 output for f16 inputs in this call: it has rounded its sums to f16");
                check::<f16>(&buffer, problem, reference)
            }
        };
        Ok(accuracy.map_or_else(Outcome::Failed, Outcome::Checked))
    }
}
