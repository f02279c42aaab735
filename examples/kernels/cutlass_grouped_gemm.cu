// CUTLASS's own grouped GEMM, as the library ships it, behind an `extern "C"` entry: problem g computes
//     D[g] = A[g] * B[g],   A: m x k row-major,   B: k x n column-major,   D: m x n row-major,
// halves in, f32 accumulation on the tensor cores and f32 out. Its nine arrays are the columns of one marshal block.
// `ci/build-cutlass.sh` compiles it to a cubin.
//
// Assumes, and the host checks before it launches, with the numbers of `cutlass_grouped_gemm_config`:
// - k, lda and ldb are multiples of ALIGNMENT_AB elements, n, ldc and ldd of ALIGNMENT_D, and every matrix begins at a
//   multiple of 16 bytes: CUTLASS accesses whole vectors, and faults on a misaligned one. m may be 0.
// - blockDim is (threads, 1, 1), with shared_bytes of dynamic shared memory. gridDim.x is free: the blocks share all tiles.
// - beta is 0, and then no C is read: every ptr_c may be null.

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/kernel/default_gemm_grouped.h"
#include "cutlass/gemm/kernel/gemm_grouped.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "cutlass/layout/matrix.h"

constexpr int ALIGNMENT_AB = 8;
constexpr int ALIGNMENT_D = 4;

using Half = cutlass::half_t;
using Gemm = cutlass::gemm::kernel::DefaultGemmGrouped<
    Half, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, ALIGNMENT_AB,
    Half, cutlass::layout::ColumnMajor, cutlass::ComplexTransform::kNone, ALIGNMENT_AB,
    float, cutlass::layout::RowMajor,
    float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<128, 128, 32>, cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, ALIGNMENT_D, float, float>,
    cutlass::gemm::threadblock::GemmBatchedIdentityThreadblockSwizzle,
    4,
    cutlass::gemm::kernel::GroupScheduleMode::kDeviceOnly>::GemmKernel;

// What the host's elements are, and what the kernel takes.
static_assert(sizeof(cutlass::gemm::GemmCoord) == 12 && alignof(cutlass::gemm::GemmCoord) == 4);
static_assert(sizeof(Gemm::LayoutA::Stride::LongIndex) == 8 && sizeof(Gemm::LayoutC::Stride::LongIndex) == 8);
static_assert(Gemm::kAlignmentA == ALIGNMENT_AB && Gemm::kAlignmentB == ALIGNMENT_AB && Gemm::kAlignmentC == ALIGNMENT_D);

// The launch's numbers, for the host to read: dynamic shared memory in bytes, threads a block, then the alignments in
// elements of A and B and of D.
extern "C" __constant__ int cutlass_grouped_gemm_config[4] = {
    sizeof(Gemm::SharedStorage), Gemm::kThreadCount, ALIGNMENT_AB, ALIGNMENT_D};

extern "C" __global__ void __launch_bounds__(Gemm::kThreadCount)
    cutlass_grouped_gemm(cutlass::gemm::GemmCoord* problem_sizes, Half** ptr_a, Half** ptr_b, float** ptr_c, float** ptr_d,
                         int64_t* lda, int64_t* ldb, int64_t* ldc, int64_t* ldd, int problem_count) {
    extern __shared__ __align__(16) unsigned char shared[];
    const Gemm::Arguments arguments(problem_sizes, problem_count, static_cast<int>(gridDim.x),
                                    Gemm::EpilogueOutputOp::Params(1.0f, 0.0f), ptr_a, ptr_b, ptr_c, ptr_d, lda, ldb, ldc,
                                    ldd);
    Gemm()(Gemm::Params(arguments), *reinterpret_cast<Gemm::SharedStorage*>(shared));
}
