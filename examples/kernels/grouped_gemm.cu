// A grouped GEMM through the columns of one marshal block: problem g computes
//     D[g] = A[g] * B[g],   A: m x k row-major,   B: k x n column-major,   D: m x n row-major,
// with 16-bit floats in and f32 accumulation and output. Compiled at run time by NVRTC, needs no header.
//
// Assumes, and the host checks before it launches:
// - lda, ldb and k are multiples of 8, and every A and B begins at a multiple of 16 bytes: a vector of 8 halves never
//   straddles the end of a row, and never faults. No other extent needs to be a multiple of anything; m may be 0.
// - blockDim is (THREADS, 1, 1), with the THREADS that it was compiled for, and gridDim.y is the number of problems.
//   gridDim.x is free: the blocks of a problem share its tiles.
// - no D overlaps another matrix.

struct GemmCoord {
    int m;
    int n;
    int k;
};
static_assert(sizeof(GemmCoord) == 12, "the host's element is 12 bytes");

constexpr int TILE = 64;   // rows and columns of D a block computes at a time
constexpr int DEPTH = 32;  // how far along k it goes between two barriers
constexpr int EACH = 4;    // rows and columns of D a thread computes
constexpr int LANES = TILE / EACH;
constexpr int VECTOR = 8;  // halves in 16 bytes
static_assert(THREADS == LANES * LANES, "each thread computes EACH x EACH of the tile");
static_assert(THREADS * VECTOR == TILE * DEPTH, "each thread loads one vector of A and one of B");

struct alignas(16) Halves {
    unsigned short bits[VECTOR];
};

__device__ float to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Brings rows [first, first + TILE) of a matrix whose rows run along k into shared memory, transposed, zero where the
// matrix ends: a zero adds nothing to any product.
__device__ void load(float (&tile)[DEPTH][TILE + 1], const unsigned short* matrix, long long stride, int rows, int depth,
                     int first, int from) {
    const int row = threadIdx.x / (DEPTH / VECTOR);
    const int column = threadIdx.x % (DEPTH / VECTOR) * VECTOR;
    Halves halves = {};
    if (first + row < rows && from + column < depth) {
        halves = *reinterpret_cast<const Halves*>(matrix + (first + row) * stride + from + column);
    }
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        tile[column + i][row] = to_float(halves.bits[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    grouped_gemm(const GemmCoord* problem_sizes, const unsigned short* const* ptr_a, const unsigned short* const* ptr_b,
                 float* const* ptr_d, const long long* lda, const long long* ldb, const long long* ldd) {
    __shared__ float tile_a[DEPTH][TILE + 1];
    __shared__ float tile_b[DEPTH][TILE + 1];

    const int problem = blockIdx.y;
    const GemmCoord size = problem_sizes[problem];
    const int tiles_n = (size.n + TILE - 1) / TILE;
    const int tiles = (size.m + TILE - 1) / TILE * tiles_n;
    const int lane_m = threadIdx.x / LANES;
    const int lane_n = threadIdx.x % LANES;

    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_m = tile / tiles_n * TILE;
        const int first_n = tile % tiles_n * TILE;
        float sum[EACH][EACH] = {};

        for (int from = 0; from < size.k; from += DEPTH) {
            load(tile_a, ptr_a[problem], lda[problem], size.m, size.k, first_m, from);
            load(tile_b, ptr_b[problem], ldb[problem], size.n, size.k, first_n, from);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                float a[EACH], b[EACH];
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
                    a[i] = tile_a[k][lane_m + i * LANES];
                    b[i] = tile_b[k][lane_n + i * LANES];
                }
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
#pragma unroll
                    for (int j = 0; j < EACH; ++j) {
                        sum[i][j] += a[i] * b[j];
                    }
                }
            }
            // The next round overwrites the tiles: all threads must have read them.
            __syncthreads();
        }

        for (int i = 0; i < EACH; ++i) {
            for (int j = 0; j < EACH; ++j) {
                const int m = first_m + lane_m + i * LANES;
                const int n = first_n + lane_n + j * LANES;
                if (m < size.m && n < size.n) {
                    ptr_d[problem][m * ldd[problem] + n] = sum[i][j];
                }
            }
        }
    }
}
