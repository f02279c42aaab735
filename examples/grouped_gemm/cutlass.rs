//! CUTLASS's own grouped GEMM, from the cubin that `ci/build-cutlass.sh` makes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::cuda::{Consumer, Set, Written};
use super::problem::GroupedGemm;
use super::report::Outcome;

const KERNEL: &str = "cutlass_grouped_gemm";
const CUBIN: &str = "cutlass_grouped_gemm.cubin";

/// `kernels/cutlass_grouped_gemm.cu`.
pub(crate) struct CutlassKernel {
    function: CudaFunction,
    config: LaunchConfig,
    alignment_ab: usize,
    alignment_d: usize,
}

impl CutlassKernel {
    pub(crate) fn load(stream: &Arc<CudaStream>, wanted: Option<&Path>) -> Result<Self, Outcome> {
        let Some(path) = find_cubin(wanted) else {
            return Err(Outcome::NotRun("cubin not found, build it with ci/build-cutlass.sh".to_owned()));
        };
        let path = path.display().to_string();
        Self::from_cubin(stream, &path).map_err(|error| Outcome::Failed(format!("{path}: {error}")))
    }

    fn from_cubin(stream: &Arc<CudaStream>, path: &str) -> Result<Self, Box<dyn Error>> {
        let context = stream.context();
        let module = context.load_module(Ptx::from_file(path))?;
        let function = module.load_function(KERNEL)?;
        // The kernel's own numbers, which only its compiler knows.
        let bytes: Vec<u8> = stream.clone_dtoh(&module.get_global(&format!("{KERNEL}_config"), stream)?)?;
        stream.synchronize()?;
        let numbers: [i32; 4] =
            bytemuck::try_pod_read_unaligned(&bytes).map_err(|_| "the cubin is of another version")?;
        let [shared_bytes, threads, alignment_ab, alignment_d] = numbers;
        function.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)?;
        Ok(Self {
            config: launch_config(context, &function, threads.try_into()?, shared_bytes.try_into()?)?,
            function,
            alignment_ab: alignment_ab.try_into()?,
            alignment_d: alignment_d.try_into()?,
        })
    }
}

impl Consumer for CutlassKernel {
    fn launch(&self, stream: &Arc<CudaStream>, dev: &Set, args: &GroupedGemm<'_>) -> Result<Written, Box<dyn Error>> {
        args.check_alignment(self.alignment_ab, self.alignment_d)?;
        let problem_count = i32::try_from(args.problem_sizes.len())?;
        let mut launch = stream.launch_builder(&self.function);
        launch.arg(&dev.problem_sizes).arg(&dev.ptr_a).arg(&dev.ptr_b).arg(&dev.ptr_c).arg(&dev.ptr_d);
        launch.arg(&dev.lda).arg(&dev.ldb).arg(&dev.ldc).arg(&dev.ldd).arg(&problem_count);
        // SAFETY: the arguments are those of the kernel, in its order; the columns live as long as `dev`, and the matrices
        // that they lead to as long as the caller's buffers, both of which are freed behind this launch on the same stream.
        // Threads and shared memory are what the kernel says, and its alignments have been checked above.
        unsafe { launch.launch(self.config) }?;
        Ok(Written::F32)
    }
}

/// As many blocks as run at a time: they share all tiles.
fn launch_config(
    context: &Arc<CudaContext>,
    function: &CudaFunction,
    threads: u32,
    shared_bytes: u32,
) -> Result<LaunchConfig, Box<dyn Error>> {
    let processors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.unsigned_abs();
    let resident = function.occupancy_max_active_blocks_per_multiprocessor(threads, shared_bytes.try_into()?, None)?;
    if resident == 0 {
        return Err(
            format!("{threads} threads with {shared_bytes} bytes of shared memory do not fit this device").into()
        );
    }
    Ok(LaunchConfig {
        grid_dim: (processors * resident, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared_bytes,
    })
}

/// The file that is asked for, else the first that is there.
fn find_cubin(wanted: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = wanted {
        return path.is_file().then(|| path.to_owned());
    }
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent).map(|folder| folder.join(CUBIN));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kernels").join(CUBIN);
    beside.into_iter().chain([built]).find(|path| path.is_file())
}
