#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>

// Copies through a pipeline that all threads of a block share, and whose barriers the last of its warps ends.
extern "C" __global__ void through_pipeline(const int* in, int* out, int rounds) {
    __shared__ int tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    int i = threadIdx.x, sum = 0;
    for (int round = 0; round < rounds + 1; round++) {
        if (round < rounds) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&tile[round % 2][i], &in[round * 64 + i], cuda::aligned_size_t<4>(4), pipeline);
            pipeline.producer_commit();
        }
        if (round > 0) {
            pipeline.consumer_wait();
            sum += tile[(round - 1) % 2][63 - i];
            pipeline.consumer_release();
        }
    }
    out[i] = sum;
}
