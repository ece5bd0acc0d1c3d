__constant__ float weights[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int launches = 3;

extern "C" __global__ void weighted_sum(const float* __restrict__ values, float* sum, int* count, int size) {
    __shared__ float partial[8];
    float own = 0;
    for (int index = threadIdx.x; index < size; index += blockDim.x) own += values[index] * weights[index & 3];
    for (int offset = 16; offset; offset >>= 1) own += __shfl_xor_sync(~0u, own, offset);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x < 32) {
        own = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.f;
        for (int offset = 4; offset; offset >>= 1) own += __shfl_down_sync(~0u, own, offset);
        if (threadIdx.x == 0) {
            *sum = own;
            *count = atomicAdd(&launches, 1);
        }
    }
}
