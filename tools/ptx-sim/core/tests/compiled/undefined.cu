// Programs that read what nobody wrote: right ones, whose results do not depend on it, and wrong ones, whose results do.

#define ALL 0xffffffffu

// The load lies before the guard that its value is used behind.
extern "C" __global__ void guarded(float* out, int n) {
    __shared__ float tile[64];
    if (threadIdx.x < n) tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    float value = tile[threadIdx.x ^ 1];
    if ((threadIdx.x ^ 1) < n) out[threadIdx.x] = value;
}

// A scan over all lanes of a warp, of which the last ones hold nothing.
extern "C" __global__ void scan_tail(int* out, int n) {
    __shared__ int tile[32];
    int lane = threadIdx.x;
    if (lane < n) tile[lane] = lane + 1;
    __syncwarp();
    int sum = tile[lane];
    for (int offset = 1; offset < 32; offset *= 2) {
        int other = __shfl_up_sync(ALL, sum, offset);
        if (lane >= offset) sum += other;
    }
    int next = __shfl_down_sync(ALL, sum, 1);
    if (lane < n) out[lane] = lane + 1 < n ? next - sum : sum;
}

struct Particle {
    double mass;
    float x;
    char kind;
};

// Copies of structs take the bytes between their members along.
extern "C" __global__ void copy_structs(Particle* out) {
    __shared__ Particle tile[64];
    Particle mine;
    mine.mass = threadIdx.x;
    mine.x = threadIdx.x * 0.5f;
    mine.kind = 'a' + threadIdx.x % 26;
    tile[threadIdx.x] = mine;
    __syncthreads();
    Particle other = tile[63 - threadIdx.x];
    if (other.kind == 'b') other.x = 7;
    out[threadIdx.x] = other;
}

// The sum of values of which the last are missing.
extern "C" __global__ void sum_of_all(float* out, int n) {
    __shared__ float tile[64];
    if (threadIdx.x < n) tile[threadIdx.x] = 1;
    __syncthreads();
    float sum = 0;
    for (int index = 0; index < 64; index++) sum += tile[index];
    out[threadIdx.x] = sum;
}

// A decision by a flag that nobody set.
extern "C" __global__ void flag_never_set(int* out, int n) {
    __shared__ int flag;
    if (n > 100) flag = 1;
    __syncthreads();
    if (flag) out[threadIdx.x] = 1;
    else out[threadIdx.x] = 2;
}

// An index out of an array of which only a part was filled.
extern "C" __global__ void index_never_set(int* out, int n) {
    int order[8];
    for (int index = 0; index < n; index++) order[index] = index;
    out[order[threadIdx.x % 8] & 63] = 1;
}

// A sum over lanes, of which the last ones hold nothing.
extern "C" __global__ void warp_sum(int* out, int n) {
    __shared__ int tile[32];
    int lane = threadIdx.x;
    if (lane < n) tile[lane] = 1;
    __syncwarp();
    int sum = tile[lane];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0) *out = sum;
}

struct __align__(16) TileState {
    long long status;
    int count;
    int value;
};

// Each block publishes what it sums up for the blocks behind it, as a look-back scan does. The last tile is not full: its sum is
// computed from values that nobody loaded, and nobody reads it.
extern "C" __global__ void publish_sums(int* out, TileState* states, int n) {
    __shared__ int tile[128];
    for (int item = threadIdx.x; item < 128; item += 32)
        if (blockIdx.x * 128 + item < n) tile[item] = item;
    __syncwarp();
    int sum = 0;
    for (int item = threadIdx.x; item < 128; item += 32) sum += tile[item];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(ALL, sum, offset);
    if (threadIdx.x == 0) {
        TileState state = {1, 4, sum};
        *(int4*)&states[blockIdx.x] = *(int4*)&state;
        if (blockIdx.x == 0) *out = n;
    }
}

// The sum of what the blocks published.
extern "C" __global__ void sum_states(int* out, const TileState* states, int blocks) {
    int sum = 0;
    for (int block = 0; block < blocks; block++) sum += states[block].value;
    *out = sum;
}
