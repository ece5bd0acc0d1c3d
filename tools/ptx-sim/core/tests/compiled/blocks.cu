// Blocks that tell each other what they did, with the fences that takes (FENCE) or without.

#ifdef FENCED
#define FENCE() __threadfence()
#else
#define FENCE()
#endif

// The block that comes last adds up what all blocks left.
extern "C" __global__ void last_block(const float* in, float* partial, float* out, unsigned* count) {
    __shared__ float tile[64];
    __shared__ bool is_last;
    tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int n = 32; n; n /= 2) {
        if (threadIdx.x < n) tile[threadIdx.x] += tile[threadIdx.x + n];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = tile[0];
        FENCE();
        is_last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += partial[i];
        *out = sum;
        *count = 0;
    }
}

// A counter behind a lock.
extern "C" __global__ void locked(int* lock, int* counter) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *counter += 1;
        FENCE();
        atomicExch(lock, 0);
    }
}

// A scan in one pass: each block waits for what the one before it left.
extern "C" __global__ void look_back(const int* in, int* sums, volatile int* flags, int* out) {
    __shared__ int before;
    int value = in[blockIdx.x * 32 + threadIdx.x];
    for (int n = 1; n < 32; n *= 2) {
        int other = __shfl_up_sync(~0u, value, n);
        if (threadIdx.x >= n) value += other;
    }
    if (threadIdx.x == 31) {
        int sum = 0;
        if (blockIdx.x > 0) {
            while (flags[blockIdx.x - 1] == 0) {}
            __threadfence();
            sum = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = sum + value;
        FENCE();
        flags[blockIdx.x] = 1;
        before = sum;
    }
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = before + value;
}

// A barrier of all blocks.
extern "C" __global__ void grid_barrier(unsigned* arrived, int* a, int* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    for (int round = 1; round <= 4; round++) {
        FENCE();
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1);
            while (*(volatile unsigned*)arrived < round * gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
        int* from = round % 2 ? a : b;
        int* to = round % 2 ? b : a;
        to[i] = from[(i + blockDim.x) % n] + 1;
    }
}

#ifdef FENCED
#define WARP_SYNC() __syncwarp()
#else
#define WARP_SYNC()
#endif

// The sum of a warp by shared memory.
extern "C" __global__ void warp_reduce(const float* in, float* out) {
    __shared__ volatile float tile[64];
    int lane = threadIdx.x;
    tile[lane] = in[lane];
    tile[lane + 32] = 0;
    WARP_SYNC();
    for (int n = 16; n; n /= 2) {
        float other = tile[lane + n];
        WARP_SYNC();
        tile[lane] += other;
        WARP_SYNC();
    }
    if (lane == 0) *out = tile[0];
}
