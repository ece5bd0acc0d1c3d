/* The one argument of every forward entry: kernel-gpu/contract/src/launch/args.rs, field by field. C and C++.
 *
 * `cargo xtask baselines` compiles the entries with one assertion for each field's offset and size, and the tests of
 * xtask give this file to the C compiler with the same assertions, so that the two definitions cannot drift apart. */
#ifndef FA512_FORWARD_ARGS_H
#define FA512_FORWARD_ARGS_H

#include <stdint.h>

/* Strides of a [batch, head, sequence, head_dim] view, in elements; the last dimension is contiguous. */
typedef struct Strides {
    uint64_t batch;
    uint64_t head;
    uint64_t row;
} Strides;

/* A divisor d of numbers below 2^31: n / d is (2n * multiplier >> 32) >> shift. The twins divide by the operator. */
typedef struct Divisor {
    uint32_t value;
    uint32_t multiplier;
    uint32_t shift;
} Divisor;

/* How whole heads are dealt out to the blocks of a persistent grid: kernel-gpu/contract/src/schedule/last_round.rs. The twins have no such
 * grid. */
typedef struct LastRound {
    uint32_t round;
    uint32_t first_split;
    uint32_t first_finer;
    Divisor parts;
    Divisor finer_parts;
} LastRound;

/* In which order items of different length come: kernel-gpu/contract/src/schedule/longest_first.rs. The twins take them head by head. */
typedef struct HeadGroups {
    Divisor heads;
    Divisor items;
    Divisor last_heads;
    uint32_t last;
    uint32_t together; /* of kernels without a twin */
} HeadGroups;

/* What is done to scores before their softmax: kernel-gpu/contract/src/launch/args.rs. The twins leave them alone. */
typedef struct ScoreModArgs {
    uint64_t bias;
    uint64_t slopes;
    Strides bias_strides;
    float softcap_exponent;
    float inverse_scale;
    uint32_t slopes_batch;
    int32_t first_position;
} ScoreModArgs;

/* Arguments of a forward entry, passed by value; q, k, v, o and lse are device addresses. */
typedef struct ForwardArgs {
    uint64_t q;   /* fp16, [B,H,S,D] by q_strides, 16-byte aligned; k, v and o likewise */
    uint64_t k;
    uint64_t v;
    uint64_t o;
    uint64_t lse; /* f32, [B,H,S] contiguous, natural logarithm; 0 when it is not wanted */
    ScoreModArgs score_mod;
    uint64_t cu_seqlens; /* this and the next three: of packed sequences, of which the twins compute none */
    uint64_t cu_seqlens_k;
    uint64_t seqused_q;
    uint64_t seqused_k;
    uint64_t part_results;   /* 0: twins compute items whole */
    Strides q_strides;
    Strides k_strides;
    Strides v_strides;
    Strides o_strides;
    float scale_log2;     /* scale * log2(e): the kernels work in base 2 with the scale folded in */
    int32_t window_left;  /* of entries with a window, which have no twin */
    int32_t window_right;
    uint32_t sequence;    /* S, rows of Q and O */
    uint32_t kv_sequence; /* rows of K and V */
    uint32_t sequences;   /* this and the next three: of packed sequences */
    uint32_t room;
    uint32_t kv_room;
    uint32_t bottom_right;
    uint32_t combined_parts; /* 0 */
    uint32_t head_dim;    /* D, at most the 64 columns of the tiles */
    Divisor heads;        /* H, of Q and O */
    Divisor group;        /* heads of Q that share a head of K and V */
    Divisor query_tiles;  /* query tiles of a head: ceil(S / BLOCK_M) */
    uint32_t work_items;  /* query tiles of all heads: B * H * query_tiles */
    LastRound last_round;
    HeadGroups head_groups;
} ForwardArgs;

#endif
