// Groups of several warps, which CUDA's cooperative groups keep in shared memory of their own.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// The sum of the values of each 64 threads of a block of 128; each thread writes that of the other half.
extern "C" __global__ void sums_of_64(int* out, const int* in) {
    __shared__ int sums[128];
    __shared__ cg::block_tile_memory<128> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    unsigned rank = block.thread_rank();
    sums[rank] = cg::reduce(tile, in[rank], cg::plus<int>());
    block.sync();
    out[rank] = sums[(rank + 64) % 128];
}
