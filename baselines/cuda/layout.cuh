// What the files of the kernel share: sizes, where a lane stands, the shared tile, the block's part of the problem
// (kernel-gpu/src: device/lane.rs, shared_tile.rs; kernel-gpu/contract/src: geometry.rs, dealing.rs).
#pragma once

#include <cstdint>

#include "forward_args.h"

namespace fa512 {

constexpr uint32_t HEAD_DIM = 64;
constexpr uint32_t WARP_SIZE = 32;
constexpr uint32_t MMA_M = 16;
constexpr uint32_t MMA_N = 8;
constexpr uint32_t MMA_K = 16;
constexpr uint32_t CHUNK_BYTES = 16;
constexpr uint32_t HALF_BYTES = 2;

/// 16-column steps of the head dimension: the depth of Q·Kᵀ.
constexpr int HEAD_K_STEPS = HEAD_DIM / MMA_K;
/// 8-column tiles of the head dimension: the width of O.
constexpr int HEAD_N_TILES = HEAD_DIM / MMA_N;
/// Rows of an accumulator tile that one lane holds parts of: g and g + 8.
constexpr int ROWS_PER_LANE = 2;

/// Where a lane stands in its warp and block.
struct Lane {
    uint32_t thread;
    uint32_t warp;
    uint32_t index;

    static __device__ __forceinline__ Lane current() {
        uint32_t thread = threadIdx.x;
        return {thread, thread / WARP_SIZE, thread % WARP_SIZE};
    }

    /// g: the row of an accumulator tile that this lane holds, besides g + 8.
    __device__ __forceinline__ uint32_t group() const {
        return index / 4;
    }

    /// The row of part `r` (g or g + 8) of strip `m`, counted like the warp's `first_row`.
    __device__ __forceinline__ uint32_t row(uint32_t first_row, int m, int r) const {
        return first_row + m * MMA_M + r * 8 + group();
    }

    /// 2t: the first of the two columns of an accumulator tile that this lane holds.
    __device__ __forceinline__ uint32_t pair_column() const {
        return index % 4 * 2;
    }
};

/// A tile of ROWS rows of Q, K, V or O in shared memory. Chunk c of row r is stored at position c XOR (r mod 8), so that
/// the 8 rows of a matrix lie in 8 different bank groups.
template <uint32_t ROWS>
struct Tile {
    static constexpr uint32_t PITCH = HEAD_DIM * HALF_BYTES;
    static constexpr uint32_t BYTES = ROWS * PITCH;
    static constexpr uint32_t CHUNKS_PER_ROW = PITCH / CHUNK_BYTES;

    uint32_t base;

    /// Shared-memory address of 16-byte chunk `chunk` of row `row`.
    __device__ __forceinline__ uint32_t chunk(uint32_t row, uint32_t chunk) const {
        return base + row * PITCH + (chunk ^ (row & 7)) * CHUNK_BYTES;
    }

    /// Part `index` of the tile's parts of COUNT rows (a multiple of 8), a tile of its own.
    template <uint32_t COUNT>
    __device__ __forceinline__ Tile<COUNT> part(uint32_t index) const {
        static_assert(COUNT % 8 == 0 && ROWS % COUNT == 0);
        return {base + index * Tile<COUNT>::BYTES};
    }
};

/// The part of the problem that one block computes.
struct BlockWork {
    uint32_t batch;
    uint32_t head;
    uint32_t query_tile;

    /// Tiles of one head are neighbours, so that they share its K and V in L2; the last tile comes first.
    static __device__ __forceinline__ BlockWork of(uint32_t block, const ForwardArgs& args) {
        const uint32_t tiles = args.query_tiles.value, heads = args.heads.value;
        const uint32_t batch_head = block / tiles;
        return {batch_head / heads, batch_head % heads, tiles - 1 - block % tiles};
    }

    /// The same with the head of K and V that its head of Q attends to.
    __device__ __forceinline__ BlockWork of_keys(const ForwardArgs& args) const {
        return {batch, head / args.group.value, query_tile};
    }
};

}  // namespace fa512
