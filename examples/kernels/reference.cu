// One product in double precision, to measure the others by:
//     D = A * B,   A: m x k row-major,   B: k x n column-major,   D: m x n row-major without padding.
// Takes plain pointers, none of them from a marshal block, so that it cannot share a mistake with what it checks. A half and
// a product of two are exact in a double. Compiled at run time by NVRTC.
//
// Assumes: blockDim is (TILE, TILE, 1), with the TILE that it was compiled for, gridDim covers n along x and m along y, and
// D overlaps nothing.

__device__ double to_double(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    reference_gemm(int m, int n, int k, const unsigned short* a, long long lda, const unsigned short* b, long long ldb,
                   double* d) {
    __shared__ double tile_a[TILE][TILE + 1];
    __shared__ double tile_b[TILE][TILE + 1];

    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    // Neighbouring threads load neighbouring elements along k, of A and of B.
    const int b_column = blockIdx.x * TILE + threadIdx.y;

    double sum = 0;
    for (int from = 0; from < k; from += TILE) {
        const int depth = from + threadIdx.x;
        tile_a[threadIdx.y][threadIdx.x] = row < m && depth < k ? to_double(a[row * lda + depth]) : 0;
        tile_b[threadIdx.y][threadIdx.x] = b_column < n && depth < k ? to_double(b[b_column * ldb + depth]) : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            sum += tile_a[threadIdx.y][i] * tile_b[threadIdx.x][i];
        }
        // The next round overwrites the tiles: all threads must have read them.
        __syncthreads();
    }
    if (row < m && column < n) {
        d[static_cast<long long>(row) * n + column] = sum;
    }
}
