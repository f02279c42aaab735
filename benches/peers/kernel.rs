//! The kernel that consumes the arguments, and the proof that it saw the right ones.

use std::error::Error;

use cudarc::driver::{CudaFunction, DeviceRepr, LaunchConfig, PushKernelArg};

use super::args::{COLUMNS, GroupedGemm};
use super::gpu::{Device, Gpu};

const THREADS: u32 = 256;

/// 32-bit words of each column, a group.
const WORDS: [u64; COLUMNS] = [3, 2, 2, 2, 2, 2, 2, 2, 2];

/// `Columns` of `checksum.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Columns {
    words: [u64; COLUMNS],
    len: [u64; COLUMNS],
}

// SAFETY: it is the kernel's own struct: eighteen 64-bit numbers, in its order.
unsafe impl DeviceRepr for Columns {}

pub(crate) struct Kernel {
    function: CudaFunction,
    // Not a slice of cudarc: its events would be waited for in a capture, which refuses them.
    sums: Device,
}

impl Kernel {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, Box<dyn Error>> {
        // SAFETY: asks the loader for a library of NVIDIA's, whose initialisers have no requirement of their own.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            return Err("NVRTC's library was not found, and without the kernel no way is checked".into());
        }
        let ptx = cudarc::nvrtc::compile_ptx(include_str!("checksum.cu"))?;
        let function = gpu.context.load_module(ptx)?.load_function("checksum")?;
        Ok(Self { function, sums: Device::new(size_of::<[u64; COLUMNS]>()) })
    }

    /// Reads the columns of `groups` groups at these addresses.
    pub(crate) fn launch(&self, gpu: &Gpu, addresses: [u64; COLUMNS], groups: usize) {
        let columns = Columns { words: addresses, len: WORDS.map(|words| words * groups as u64) };
        // Enough blocks to fill a large GPU at the largest sizes, and one a column at the smallest.
        let blocks = u32::try_from(groups).unwrap_or(u32::MAX).div_ceil(4 * THREADS).clamp(1, 128);
        let shape = LaunchConfig { grid_dim: (blocks, 9, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        let mut launch = gpu.stream.launch_builder(&self.function);
        launch.arg(&columns).arg(&self.sums.address);
        // SAFETY: the arguments are those of the kernel, in its order; every way gives addresses of columns that are as long, and
        // frees them behind this launch; the sums are as many as the columns.
        unsafe { launch.launch(shape) }.expect("launched");
    }

    /// Forgets what was read so far.
    pub(crate) fn reset(&self, gpu: &Gpu) {
        gpu.settle();
        self.sums.copy_now(0, &[0; size_of::<[u64; COLUMNS]>()]);
    }

    /// Compares what was read since the reset with the columns of all of `sets`.
    pub(crate) fn verdict<'a>(&self, gpu: &Gpu, sets: impl IntoIterator<Item = &'a GroupedGemm>) -> Result<(), String> {
        gpu.settle();
        let mut bytes = [0; size_of::<[u64; COLUMNS]>()];
        self.sums.read(&mut bytes);
        let found: [u64; COLUMNS] = bytemuck::cast(bytes);
        let mut expected = [0_u64; COLUMNS];
        for args in sets {
            for (expected, column) in expected.iter_mut().zip(args.columns()) {
                *expected = expected.wrapping_add(sum(column));
            }
        }
        match (0..COLUMNS).find(|&column| found[column] != expected[column]) {
            Some(column) => Err(format!("WRONG BYTES: column {column} on the device is not that of the host")),
            None => Ok(()),
        }
    }
}

/// What the kernel makes of a column.
fn sum(column: &[u8]) -> u64 {
    let words = column.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
    (1_u64..).zip(words).fold(0, |sum, (place, word)| sum.wrapping_add(place.wrapping_mul(word.into())))
}
