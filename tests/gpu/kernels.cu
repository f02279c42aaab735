// Kernels of the GPU tests, compiled by NVRTC where they run.

// Keeps its stream busy until the flag is set. The time limit is for host calls that wait for the stream while they hold up
// the thread that would set the flag.
extern "C" __global__ void gate(const volatile unsigned* flag, unsigned long long limit_ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (*flag == 0 && now - start < limit_ns);
}

// Adds (i + 1) * words[i] for all i to *sum: a swapped, lost or stale word changes it.
extern "C" __global__ void checksum(const unsigned* words, unsigned long long len, unsigned long long* sum) {
    unsigned long long mine = 0;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < len; i += gridDim.x * blockDim.x) {
        mine += (i + 1) * words[i];
    }
    atomicAdd(sum, mine);
}

// One 128-bit load an element.
extern "C" __global__ void load_pairs(const ulonglong2* pairs, unsigned len, unsigned long long* out) {
    for (unsigned i = threadIdx.x; i < len; i += blockDim.x) {
        ulonglong2 pair = pairs[i];
        out[2 * i] = pair.x;
        out[2 * i + 1] = pair.y;
    }
}

struct Particle {
    float3 position, velocity, force;
    float4 color;
    const float* trail;
    int kind;
    const float* next;
    const float* previous;
    int flags;
};

// The device compiler's own layout of Particle, and what stands in the last of `len` elements.
extern "C" __global__ void describe_particles(const Particle* particles, unsigned len, unsigned long long* offsets, double* values) {
    const Particle* last = particles + len - 1;
    const char* base = reinterpret_cast<const char*>(last);
    const void* members[] = {&last->position, &last->velocity, &last->force,    &last->color, &last->trail,
                             &last->kind,     &last->next,     &last->previous, &last->flags};
    for (int i = 0; i < 9; ++i) {
        offsets[i] = reinterpret_cast<const char*>(members[i]) - base;
    }
    offsets[9] = sizeof(Particle);
    offsets[10] = alignof(Particle);
    values[0] = last->position.z;
    values[1] = last->force.x;
    values[2] = last->color.w;
    values[3] = reinterpret_cast<unsigned long long>(last->trail);
    values[4] = last->kind;
    values[5] = reinterpret_cast<unsigned long long>(last->previous);
    values[6] = last->flags;
}

struct Tagged {
    unsigned char tag;
    unsigned long long value;
};

extern "C" __global__ void read_tagged(const Tagged* tagged, unsigned len, unsigned long long* out) {
    for (unsigned i = 0; i < len; ++i) {
        out[2 * i] = tagged[i].tag;
        out[2 * i + 1] = tagged[i].value;
    }
}

template <class T>
struct Column {
    T* pointer;
    unsigned long long len;
};

// Sums each row. The rows come as `T*`, their lengths as a column by value; a row of no elements may be null.
extern "C" __global__ void sum_rows(const int* const* rows, Column<const unsigned> lens, long long* sums) {
    for (unsigned long long row = 0; row < lens.len; ++row) {
        long long sum = 0;
        for (unsigned i = 0; i < lens.pointer[row]; ++i) {
            sum += rows[row][i];
        }
        sums[row] = sum;
    }
}

// Appends `len` bytes at `from` to a log: entry *count, which goes up by one. Takes `takes_ns` at least. One block.
extern "C" __global__ void append(const unsigned char* from, unsigned long long len, unsigned char* log, unsigned long long* count,
                                  unsigned long long takes_ns) {
    __shared__ unsigned long long entry;
    if (threadIdx.x == 0) {
        entry = *count;
        unsigned long long start, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
        do {
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (now - start < takes_ns);
    }
    __syncthreads();
    for (unsigned long long i = threadIdx.x; i < len; i += blockDim.x) {
        log[entry * len + i] = from[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *count = entry + 1;
    }
}

// Size and alignment of the built-in vector types, in the order of the test.
extern "C" __global__ void describe_vectors(unsigned* out) {
    unsigned i = 0;
#define DESCRIBE(type)          \
    out[i++] = sizeof(type##2);  \
    out[i++] = alignof(type##2); \
    out[i++] = sizeof(type##3);  \
    out[i++] = alignof(type##3); \
    out[i++] = sizeof(type##4);  \
    out[i++] = alignof(type##4);
    DESCRIBE(char)
    DESCRIBE(uchar)
    DESCRIBE(short)
    DESCRIBE(ushort)
    DESCRIBE(int)
    DESCRIBE(uint)
    DESCRIBE(longlong)
    DESCRIBE(ulonglong)
    DESCRIBE(float)
    DESCRIBE(double)
#undef DESCRIBE
}

// Notes a digest of `len` bytes at `from`: note *count, which goes up by one. It changes with every byte and with their order. One block.
extern "C" __global__ void note(const unsigned char* from, unsigned long long len, unsigned long long* notes,
                                unsigned long long* count) {
    __shared__ unsigned long long sum;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    unsigned long long mine = 0;
    for (unsigned long long i = threadIdx.x; i < len; i += blockDim.x) {
        mine += (from[i] + 1ull) * (2 * i + 1) * 0x9e3779b97f4a7c15ull;
    }
    atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0) {
        notes[*count] = sum;
        *count += 1;
    }
}
