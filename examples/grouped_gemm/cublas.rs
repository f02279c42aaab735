//! `cublasGemmGroupedBatchedEx`: the pointer arrays are device arrays, the sizes are host arrays.

use std::error::Error;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublas::CudaBlas;
use cudarc::cublas::sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED;
use cudarc::cublas::sys::cudaDataType_t::{self, CUDA_R_16F, CUDA_R_32F};
use cudarc::cublas::sys::{cublasGemmGroupedBatchedEx, cublasStatus_t};
use cudarc::driver::CudaStream;
use marshal::{DeviceColumn, DevicePointer};

use super::cuda::{Consumer, Set, Written};
use super::problem::GroupedGemm;
use super::report::Outcome;

/// Halves in 16 bytes: cuBLAS asks for such pointers where rows are multiples of that, too.
const VECTOR: usize = 8;

pub(crate) struct Cublas {
    handle: CudaBlas,
}

impl Cublas {
    pub(crate) fn load(stream: &Arc<CudaStream>) -> Result<Self, Outcome> {
        // SAFETY: asks the loader for a library of NVIDIA's, whose initialisers have no requirement of their own.
        if !unsafe { cudarc::cublas::sys::is_culib_present() } {
            return Err(Outcome::NotRun("cuBLAS's library was not found".to_owned()));
        }
        let handle = CudaBlas::new(stream.clone()).map_err(|error| Outcome::Failed(error.to_string()))?;
        Ok(Self { handle })
    }

    /// D in column-major order is D transposed in row-major order, and so for A and B: cuBLAS computes D' = B' A', with m and n
    /// exchanged. B is column-major already, so it is the one to transpose.
    fn gemm(
        &self,
        dev: &Set,
        args: &GroupedGemm<'_>,
        c_type: cudaDataType_t,
    ) -> Result<cublasStatus_t, Box<dyn Error>> {
        let groups = args.problem_sizes.len();
        let [n, m, k]: [Vec<i32>; 3] = [
            args.problem_sizes.iter().map(|size| size.n).collect(),
            args.problem_sizes.iter().map(|size| size.m).collect(),
            args.problem_sizes.iter().map(|size| size.k).collect(),
        ];
        let [lda, ldb, ldd] = [to_i32(&args.lda)?, to_i32(&args.ldb)?, to_i32(&args.ldd)?];
        // Every problem is a group of its own. An idle expert is one with no column.
        let group_size = vec![1_i32; groups];
        let (alpha, beta) = (vec![1.0_f32; groups], vec![0.0_f32; groups]);
        // SAFETY: every host array has `groups` entries, every device array one for each problem; cuBLAS reads the host arrays
        // before it returns. The device arrays live as long as `dev`, the matrices as long as the caller's buffers, both of
        // which are freed behind this call on the same stream. D is large enough for its elements in f32 and so in f16.
        let status = unsafe {
            cublasGemmGroupedBatchedEx(
                *self.handle.handle(),
                vec![CUBLAS_OP_T; groups].as_ptr(),
                vec![CUBLAS_OP_N; groups].as_ptr(),
                n.as_ptr(),
                m.as_ptr(),
                k.as_ptr(),
                alpha.as_ptr().cast(),
                device_array(dev.ptr_b).cast(),
                CUDA_R_16F,
                ldb.as_ptr(),
                device_array(dev.ptr_a).cast(),
                CUDA_R_16F,
                lda.as_ptr(),
                beta.as_ptr().cast(),
                device_array(dev.ptr_d).cast(),
                c_type,
                ldd.as_ptr(),
                i32::try_from(groups)?,
                group_size.as_ptr(),
                CUBLAS_COMPUTE_32F,
            )
        };
        Ok(status)
    }
}

impl Consumer for Cublas {
    /// cuBLAS's table of types has no f32 output for f16 inputs, as of 13.0. Where this version refuses it too, the same
    /// buffers take the sums rounded to f16.
    fn launch(&self, _: &Arc<CudaStream>, dev: &Set, args: &GroupedGemm<'_>) -> Result<Written, Box<dyn Error>> {
        args.check_alignment(VECTOR, 1)?;
        match self.gemm(dev, args, CUDA_R_32F)? {
            CUBLAS_STATUS_NOT_SUPPORTED => {
                self.gemm(dev, args, CUDA_R_16F)?.result()?;
                Ok(Written::F16)
            }
            status => {
                status.result()?;
                Ok(Written::F32)
            }
        }
    }
}

fn device_array<T>(column: DeviceColumn<DevicePointer<T>>) -> *const c_void {
    column.pointer().address() as *const c_void
}

fn to_i32(leading_dimensions: &[i64]) -> Result<Vec<i32>, Box<dyn Error>> {
    Ok(leading_dimensions.iter().map(|&stride| i32::try_from(stride)).collect::<Result<_, _>>()?)
}
