//! Kernels compiled at run time: ours, and the reference in double precision.

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};

use super::cuda::{Consumer, Set, Written};
use super::problem::{GroupedGemm, Problem};
use super::report::Outcome;

/// Threads a block of the grouped kernel.
const THREADS: u32 = 256;
/// Halves that the grouped kernel loads at a time.
const VECTOR: usize = 8;
/// Rows and columns that a block of the reference kernel computes.
const TILE: u32 = 16;

/// `kernels/grouped_gemm.cu`.
pub(crate) struct GroupedKernel {
    function: CudaFunction,
    blocks_per_problem: u32,
}

impl GroupedKernel {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, Outcome> {
        let function =
            compile(context, "grouped_gemm", include_str!("../kernels/grouped_gemm.cu"), "THREADS", THREADS)?;
        let processors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(failed)?;
        Ok(Self { function, blocks_per_problem: processors.unsigned_abs() })
    }
}

impl Consumer for GroupedKernel {
    fn launch(&self, stream: &Arc<CudaStream>, dev: &Set, args: &GroupedGemm<'_>) -> Result<Written, Box<dyn Error>> {
        args.check_alignment(VECTOR, 1)?;
        let config = LaunchConfig {
            grid_dim: (self.blocks_per_problem, u32::try_from(args.problem_sizes.len())?, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&self.function);
        launch.arg(&dev.problem_sizes).arg(&dev.ptr_a).arg(&dev.ptr_b).arg(&dev.ptr_d);
        launch.arg(&dev.lda).arg(&dev.ldb).arg(&dev.ldd);
        // SAFETY: the arguments are those of the kernel, in its order; the columns live as long as `dev`, and the matrices
        // that they lead to as long as the caller's buffers, both of which are freed behind this launch on the same stream.
        // What else the kernel assumes has been checked above.
        unsafe { launch.launch(config) }?;
        Ok(Written::F32)
    }
}

/// `kernels/reference.cu`.
pub(crate) struct ReferenceKernel {
    function: CudaFunction,
}

impl ReferenceKernel {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, Outcome> {
        let function = compile(context, "reference_gemm", include_str!("../kernels/reference.cu"), "TILE", TILE)?;
        Ok(Self { function })
    }

    /// The products of all experts, rows one behind the other, without padding.
    pub(crate) fn compute(
        &self,
        stream: &Arc<CudaStream>,
        problem: &Problem,
        a: &CudaSlice<u16>,
        b: &CudaSlice<u16>,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let stride = problem.stride_ab();
        let lda = i64::try_from(stride)?;
        let mut products = stream.alloc_zeros::<f64>(problem.rows() * problem.intermediate)?;
        for expert in problem.experts.iter().filter(|expert| expert.rows > 0) {
            let size = problem.sizes[expert.index];
            let a = a.slice(expert.first_row * stride..);
            let b = b.slice(expert.index * problem.intermediate * stride..);
            let mut products = products.slice_mut(expert.first_row * problem.intermediate..);
            let config = LaunchConfig {
                grid_dim: (size.n.unsigned_abs().div_ceil(TILE), size.m.unsigned_abs().div_ceil(TILE), 1),
                block_dim: (TILE, TILE, 1),
                shared_mem_bytes: 0,
            };
            let mut launch = stream.launch_builder(&self.function);
            launch.arg(&size.m).arg(&size.n).arg(&size.k).arg(&a).arg(&lda).arg(&b).arg(&lda).arg(&mut products);
            // SAFETY: the arguments are those of the kernel, in its order; each slice reaches to the end of its buffer, which
            // holds at least this expert's rows.
            unsafe { launch.launch(config) }?;
        }
        Ok(stream.clone_dtoh(&products)?)
    }
}

/// Compiles a kernel for the device of `context`, with a number that the host decides.
fn compile(
    context: &Arc<CudaContext>,
    name: &str,
    source: &str,
    define: &str,
    value: u32,
) -> Result<CudaFunction, Outcome> {
    // SAFETY: asks the loader for a library of NVIDIA's, whose initialisers have no requirement of their own.
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Err(Outcome::NotRun("NVRTC's library was not found".to_owned()));
    }
    let (major, minor) = context.compute_capability().map_err(failed)?;
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture=compute_{major}{minor}"), format!("-D{define}={value}")],
        name: Some(format!("{name}.cu")),
        ..CompileOptions::default()
    };
    let ptx = compile_ptx_with_opts(source, options).map_err(|error| match error {
        CompileError::CompileError { log, .. } => failed(log.to_string_lossy()),
        other => failed(other),
    })?;
    let module = context.load_module(ptx).map_err(failed)?;
    module.load_function(name).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Outcome {
    Outcome::Failed(error.to_string())
}
