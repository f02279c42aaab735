//! CUTLASS's grouped GEMM from the cubin of the example, launched with plain addresses, as each way has them.

use std::error::Error;
use std::path::{Path, PathBuf};

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::args::COLUMNS;
use super::gpu::Gpu;

const KERNEL: &str = "cutlass_grouped_gemm";
const CUBIN: &str = "cutlass_grouped_gemm.cubin";

pub(crate) struct Cutlass {
    function: CudaFunction,
    config: LaunchConfig,
}

impl Cutlass {
    /// # Errors
    /// Says that there is no cubin, or what is wrong with it.
    pub(crate) fn load(gpu: &Gpu, wanted: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let path = find(wanted).ok_or("no cubin was found: ci/build-cutlass.sh makes it")?;
        let module = gpu.context.load_module(Ptx::from_file(path))?;
        let function = module.load_function(KERNEL)?;
        // The kernel's own numbers: shared memory, threads, alignments. `Problem`'s shapes keep the last two.
        let bytes: Vec<u8> = gpu.stream.clone_dtoh(&module.get_global(&format!("{KERNEL}_config"), &gpu.stream)?)?;
        gpu.settle();
        let numbers: [i32; 4] =
            bytemuck::try_pod_read_unaligned(&bytes).map_err(|_| "the cubin is of another version")?;
        let [shared_bytes, threads, ..] = numbers;
        function.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)?;
        let (shared_bytes, threads) = (u32::try_from(shared_bytes)?, u32::try_from(threads)?);
        let processors = gpu.context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.unsigned_abs();
        let resident =
            function.occupancy_max_active_blocks_per_multiprocessor(threads, usize::try_from(shared_bytes)?, None)?;
        let config = LaunchConfig {
            grid_dim: ((processors * resident).max(1), 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: shared_bytes,
        };
        Ok(Self { function, config })
    }

    /// Computes `problems` products from the columns at these addresses.
    pub(crate) fn launch(&self, gpu: &Gpu, addresses: [u64; COLUMNS], problems: i32) {
        let mut launch = gpu.stream.launch_builder(&self.function);
        for address in &addresses {
            launch.arg(address);
        }
        launch.arg(&problems);
        // SAFETY: the arguments are those of the kernel, in its order; every way gives addresses of columns with `problems` entries,
        // and frees them behind this launch; the matrices that they lead to live as long as the step, and have its alignments.
        unsafe { launch.launch(self.config) }.expect("launched");
    }
}

/// The file that is asked for, else the first that is there.
fn find(wanted: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = wanted {
        return path.is_file().then(|| path.to_owned());
    }
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent).map(|folder| folder.join(CUBIN));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kernels").join(CUBIN);
    beside.into_iter().chain([built]).find(|path| path.is_file())
}
