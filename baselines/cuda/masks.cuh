// Sequence lengths and masks as types (kernel-gpu/src/device/sequence/mod.rs, mask.rs).
#pragma once

#include <cstdint>

#include "forward_args.h"

namespace fa512 {

/// Exactly LENGTH, a multiple of every tile: trip counts are constants and nothing is masked at the end.
template <uint32_t LENGTH>
struct Exact {
    static constexpr bool HAS_TAIL = false;

    static __device__ __forceinline__ uint32_t length(const ForwardArgs&) {
        return LENGTH;
    }

    static __device__ __forceinline__ uint32_t kv_length(const ForwardArgs&) {
        return LENGTH;
    }
};

/// Any length from 1 up.
struct Any {
    static constexpr bool HAS_TAIL = true;

    static __device__ __forceinline__ uint32_t length(const ForwardArgs& args) {
        return args.sequence;
    }

    static __device__ __forceinline__ uint32_t kv_length(const ForwardArgs& args) {
        return args.kv_sequence;
    }
};

/// Every key.
struct Full {
    /// End of the keys that any of the rows before `rows_end` attends to, out of `length`. With `row + 1` that is the end
    /// of what `row` itself attends to, since no row attends to fewer keys than those before it.
    static __device__ __forceinline__ uint32_t keys_end(uint32_t, uint32_t length) {
        return length;
    }

    /// Whether the keys from `keys_start` on have any that a row from `rows_start` on does not attend to.
    template <typename Sequence>
    static __device__ __forceinline__ bool touches(uint32_t, uint32_t keys_start, uint32_t keys, uint32_t length) {
        return Sequence::HAS_TAIL && keys_start + keys > length;
    }
};

/// Keys at or before the row's own position (top-left aligned).
struct Causal {
    static __device__ __forceinline__ uint32_t keys_end(uint32_t rows_end, uint32_t length) {
        return min(rows_end, length);
    }

    template <typename Sequence>
    static __device__ __forceinline__ bool touches(uint32_t rows_start, uint32_t keys_start, uint32_t keys,
                                                   uint32_t length) {
        return keys_start + keys > rows_start + 1 || Full::touches<Sequence>(rows_start, keys_start, keys, length);
    }
};

}  // namespace fa512
