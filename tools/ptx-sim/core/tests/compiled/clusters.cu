// Clusters of blocks, by cooperative groups: distributed shared memory, and sums of a histogram of which each block has a part.
// nvcc -ptx -O3 -arch=sm_90 clusters.cu -o clusters.ptx
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each block of two reads what its neighbour has written.
extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(const int *in, int *out) {
    __shared__ int mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = in[index];
    cluster.sync();
    const int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[index] = theirs[threadIdx.x] + 1000 * (int)cluster.block_rank();
    cluster.sync();
}

// The same without the last barrier.
extern "C" __global__ void __cluster_dims__(2, 1, 1) leaving(const int *in, int *out) {
    __shared__ int mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = in[index];
    cluster.sync();
    const int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[index] = theirs[threadIdx.x];
}

// A histogram whose bins lie in the blocks of the cluster, as many in each.
extern "C" __global__ void histogram(const int *in, int n, int *bins, int bins_of_block) {
    extern __shared__ int own[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) own[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = in[i] % (bins_of_block * (int)cluster.num_blocks());
        int *there = cluster.map_shared_rank(own, bin / bins_of_block);
        atomicAdd(there + bin % bins_of_block, 1);
    }
    cluster.sync();
    int *mine = bins + cluster.block_rank() * bins_of_block;
    for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) atomicAdd(mine + i, own[i]);
}
