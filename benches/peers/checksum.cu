// Reads every word of the nine columns: what a kernel that consumes the arguments must at least do. Compiled at run time by NVRTC.
//
// The sum of a column weighs each 32-bit word with its place, so that a word that is missing, stale or misplaced changes it.
// Assumes: blockDim is (256, 1, 1), gridDim.y is the number of columns; gridDim.x is free.

struct Columns {
    const unsigned int* words[9];
    unsigned long long len[9];
};

extern "C" __global__ void checksum(const Columns columns, unsigned long long* sums) {
    const unsigned int* words = columns.words[blockIdx.y];
    unsigned long long sum = 0;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < columns.len[blockIdx.y]; i += gridDim.x * blockDim.x) {
        sum += (i + 1) * words[i];
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[blockIdx.y], sum);
    }
}
