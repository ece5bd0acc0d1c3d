// Copies of tiles from global to shared memory by all threads of a block, 16 bytes each at a time
// (kernel-gpu/src/device/forward/sm80/copy.rs, head_rows.rs).
#pragma once

#include "layout.cuh"
#include "ptx.cuh"

namespace fa512 {

/// The rows of one head of a tensor in global memory. All offsets are 64-bit.
struct HeadRows {
    uint64_t base;
    uint64_t pitch;
    /// Chunks of a row, at most those of a tile's.
    uint32_t chunks;

    static __device__ __forceinline__ HeadRows of(uint64_t tensor, const Strides& strides, const BlockWork& work,
                                                  uint32_t head_dim) {
        uint64_t elements = work.batch * strides.batch + work.head * strides.head;
        return {tensor + elements * HALF_BYTES, strides.row * HALF_BYTES, head_dim * HALF_BYTES / CHUNK_BYTES};
    }

    __device__ __forceinline__ uint64_t chunk(uint32_t row, uint32_t chunk) const {
        return base + row * pitch + chunk * CHUNK_BYTES;
    }

    /// Where the rows end that have chunk `chunk` of a tile's row.
    __device__ __forceinline__ uint32_t end(uint32_t chunk, uint32_t length) const { return chunk < chunks ? length : 0; }
};

/// Starts copying rows [first_row, first_row + ROWS) to `tile`, with neighbouring threads on neighbouring chunks; rows
/// from `length` on and what is beyond the end of a row become zeros.
template <typename Sequence, uint32_t THREADS, uint32_t ROWS>
__device__ __forceinline__ void start_copy(Tile<ROWS> tile, HeadRows rows, uint32_t first_row, uint32_t length,
                                           Lane lane) {
    constexpr uint32_t CHUNKS = Tile<ROWS>::CHUNKS_PER_ROW;
    const uint32_t row = lane.thread / CHUNKS, chunk = lane.thread % CHUNKS;
    constexpr uint32_t ROWS_PER_PASS = THREADS / CHUNKS;
    const uint32_t end = rows.end(chunk, length);
    uint64_t global = rows.chunk(first_row + row, chunk);
    for (uint32_t pass_row = row; pass_row < row + ROWS; pass_row += ROWS_PER_PASS) {
        const uint32_t shared = tile.chunk(pass_row, chunk);
        if constexpr (Sequence::HAS_TAIL) {
            ptx::copy_16_or_zeros(shared, global, first_row + pass_row < end);
        } else {
            ptx::copy_16(shared, global);
        }
        global += ROWS_PER_PASS * rows.pitch;
    }
}

}  // namespace fa512
