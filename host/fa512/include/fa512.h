/* fa512: FlashAttention forward on NVIDIA GPUs. O = softmax(scale * Q K^T + mask) V, and optionally
 * LSE = ln sum exp(scale * q.k), on device memory that is already there.
 *
 * A call puts one kernel on the caller's stream. Nothing is allocated, copied, synchronised or kept, and nothing of the
 * caller's is freed. Every function may be called from any thread. The GPU is that of the calling thread's current CUDA
 * context (cuCtxSetCurrent, cudaSetDevice), to which the stream and all memory must belong.
 *
 * Needs an NVIDIA driver for CUDA 12.0 or later, opened at run time, and a GPU of compute capability 8.0 or later; no CUDA
 * toolkit, and no header of it. */
#ifndef FA512_H
#define FA512_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; fa512_abi_version tells that of the library. A library of the same version accepts
 * problems of programs that were compiled with an older header. */
#define FA512_ABI_VERSION 0

/* CUstream and cudaStream_t are pointers to this. NULL is the legacy default stream; CU_STREAM_LEGACY and
 * CU_STREAM_PER_THREAD are accepted, too. */
struct CUstream_st;

typedef enum fa512_status {
    FA512_OK = 0,
    FA512_ERROR_INVALID = 1,     /* the problem or an argument is not acceptable */
    FA512_ERROR_UNSUPPORTED = 2, /* no kernel computes the problem on this GPU */
    FA512_ERROR_DRIVER = 3,      /* no CUDA driver, or one that is too old */
    FA512_ERROR_NO_GPU = 4,      /* the driver shows no GPU, or not that one */
    FA512_ERROR_CONTEXT = 5,     /* no current context, or a stream or memory of another one */
    FA512_ERROR_MEMORY = 6,      /* an address does not point to device memory of the tensor's size */
    FA512_ERROR_NOT_LOADED = 7,  /* the stream captures; call fa512_warm_up before the capture begins */
    FA512_ERROR_NO_KERNELS = 8,  /* the library was built without kernels, or with those of another version */
    FA512_ERROR_CUDA = 9,        /* the CUDA driver returned an error; the message has its name */
    FA512_ERROR_INTERNAL = 10    /* a bug of this library */
} fa512_status;

/* Element type of Q, K, V and O. */
enum { FA512_FLOAT16 = 0, FA512_BFLOAT16 = 1 };

/* Which keys a query attends to. */
enum {
    FA512_MASK_FULL = 0,   /* all */
    FA512_MASK_CAUSAL = 1, /* those at or before its own position */
    FA512_MASK_WINDOW = 2  /* those from window_left before its own position to window_right behind it */
};

/* window_left or window_right without a limit. */
enum { FA512_UNLIMITED = -1 };

/* Flags of a problem. */
enum {
    FA512_NO_OVERLAP = 1,        /* do not begin before the launch in front on the stream has ended */
    FA512_NO_POINTER_CHECKS = 2, /* do not ask the driver what the addresses point to */
    FA512_BOTTOM_RIGHT = 4,      /* the last query is at the position of the last key; else the first at that of the first */
    FA512_KEY_LENGTHS = 8,       /* packed sequences whose K and V have lengths of their own: fa512_forward_lengths */
    FA512_PADDED = 16,           /* batch entries may use less than all of their rows: fa512_forward_lengths */
    FA512_SLOPES_PER_BATCH = 32  /* alibi_slopes are [batch, heads]; else [heads] */
};

/* How a tensor [batch, heads, sequence, head_dim] lies in memory, in elements from one entry of a dimension to the next.
 * The last dimension is contiguous; strides are multiples of 8. All three 0: [batch, heads, sequence, head_dim] without
 * gaps. An input may have strides that are 0 (broadcast), but for all three. */
typedef struct fa512_strides {
    uint64_t batch;
    uint64_t head;
    uint64_t row;
} fa512_strides;

/* An attention problem. Set all of it to 0 first, then `size`, the dimensions, and what shall differ from 0:
 *
 *     fa512_problem problem = {0};
 *     problem.size = sizeof problem;
 *
 * Fields that a later version adds mean with 0 what this version does. */
typedef struct fa512_problem {
    size_t size;        /* sizeof(fa512_problem) */
    uint32_t batch;     /* with 0 there is nothing to compute: calls succeed and do nothing */
    uint32_t heads;     /* of Q and O; as batch */
    uint32_t sequence;  /* rows of a head of Q and O; as batch */
    uint32_t head_dim;  /* a multiple of 8, at most 128 */
    uint32_t dtype;     /* FA512_FLOAT16, FA512_BFLOAT16 */
    uint32_t mask;      /* FA512_MASK_FULL, FA512_MASK_CAUSAL, FA512_MASK_WINDOW */
    uint32_t flags;     /* FA512_NO_OVERLAP and the others, or several of them */
    uint32_t reserved;  /* 0 */
    double scale;       /* factor on the scores; 0 and NaN: 1/sqrt(head_dim) */
    fa512_strides q;
    fa512_strides k;
    fa512_strides v;
    fa512_strides o;    /* no two rows may overlap */
    uint32_t sequences; /* of fa512_forward_varlen: how many sequences the rows are; 0: all are of one length */
    uint32_t longest;   /* the length of the longest of them, or a bound; it helps to choose a kernel, and may be 0 */
    int32_t window_left;  /* of FA512_MASK_WINDOW: keys before a query's own position, or FA512_UNLIMITED; else 0 */
    int32_t window_right; /* as window_left, behind its own position; 0 with an unlimited left is the causal mask */
    uint32_t kv_heads;    /* heads of K and V, of which heads is a multiple; 0: as many as of Q */
    uint32_t kv_sequence; /* rows of a head of K and V; 0: as many as of Q. Packed sequences that have others need FA512_KEY_LENGTHS */
    double softcap;       /* scores s = scale * q.k become softcap * tanh(s / softcap); from 1e-3 to 1e3; 0: they do not */
    const void *bias;     /* device address of what is added to scores, [batch, heads, sequence, kv_sequence] of the type of Q,
                           * at a multiple of 2; NULL: none, as packed sequences have always */
    fa512_strides bias_strides; /* any of them may be 0 (broadcast), all three too; the last dimension is contiguous */
    const float *alibi_slopes;  /* device address of ALiBi slopes: scores become less by slope * |i - j| for the query at
                                 * position i and the key at j, behind softcap and before bias; NULL: none */
} fa512_problem;

/* Strides of a tensor [batch, sequence, heads, head_dim] without gaps, as flash-attn has it. */
static inline fa512_strides fa512_strides_bshd(uint32_t heads, uint32_t sequence, uint32_t head_dim) {
    fa512_strides strides;
    strides.head = head_dim;
    strides.row = (uint64_t)heads * head_dim;
    strides.batch = strides.row * sequence;
    return strides;
}

/* FA512_ABI_VERSION of the library. */
uint32_t fa512_abi_version(void);

/* Version of the library, as in "0.1.0". */
const char *fa512_version(void);

/* Name of a status, as in "FA512_ERROR_MEMORY". */
const char *fa512_error_name(int32_t status);

/* What was wrong with the calling thread's last call that did not return FA512_OK, and what to do about it; "" before the
 * first. UTF-8; valid until the thread's next call of this library. */
const char *fa512_last_error_message(void);

/* Whether a kernel computes the problem on GPU `device`, as the driver counts them, or, with -1, on that of the current
 * context. Which one, and why, is written to `text` as far as `text_size` bytes reach, the last of them NUL; `text` may be
 * NULL. Returns FA512_ERROR_UNSUPPORTED where there is none. */
int32_t fa512_supports(const fa512_problem *problem, int32_t device, char *text, size_t text_size);

/* Loads the kernels that `count` problems take on the GPU of the current context. Without it, the first call of each takes
 * the time that the driver needs to compile the kernel, and cannot be captured into a graph. */
int32_t fa512_warm_up(const fa512_problem *problems, size_t count);

/* Puts O and, where `lse` is not NULL, LSE of the problem on `stream`. All arguments are device addresses at multiples of
 * 16. LSE is float [batch, heads, sequence] without gaps, natural logarithm. O and LSE share memory with nothing.
 * The memory must stay until the stream has come this far. */
int32_t fa512_forward(const fa512_problem *problem, const void *q, const void *k, const void *v, void *o, float *lse,
                      struct CUstream_st *stream);

/* fa512_forward for packed sequences: rows cu_seqlens[s] up to cu_seqlens[s + 1] of Q, K, V and O are sequence s, and attend to
 * their own sequence only. The problem has batch 1, all rows together as `sequence`, and the number of sequences. cu_seqlens is
 * the device address of int32_t [sequences + 1], which the kernel reads: the host waits for nothing, and knows no length.
 * Whatever it holds, nothing outside the tensors is read or written, and no sequence reaches another's result. Rows of O and LSE
 * (float [heads, rows]) that belong to no sequence are not written. */
int32_t fa512_forward_varlen(const fa512_problem *problem, const void *q, const void *k, const void *v,
                             const int32_t *cu_seqlens, void *o, float *lse, struct CUstream_st *stream);

/* What says where the sequences of a problem are whose K and V have lengths of their own: device addresses of int32_t, which only
 * the kernel reads. Set all of it to 0 first. */
typedef struct fa512_lengths {
    size_t size;                 /* sizeof(fa512_lengths) */
    const int32_t *cu_seqlens;   /* of FA512_KEY_LENGTHS, [sequences + 1]: where each sequence begins in Q and O, and the last ends */
    const int32_t *cu_seqlens_k; /* the same of K and V */
    const int32_t *seqused_q;    /* [sequences], or [batch] of FA512_PADDED: how many of its rows of Q a sequence has; NULL: all */
    const int32_t *seqused_k;    /* the same of K and V */
} fa512_lengths;

/* fa512_forward for packed sequences whose K and V have lengths of their own (FA512_KEY_LENGTHS: batch is 1, `sequence` the rows of
 * Q and `kv_sequence` those of K, each of all sequences), and for a padded batch (FA512_PADDED: its entries lie one behind the
 * other, as in [batch, sequence, heads, head_dim]). A row whose sequence has no key gets zeros, and an LSE of -infinity. Rows of
 * O and LSE beyond seqused_q are not written. LSE is float [heads, rows], of a padded batch [heads, batch, sequence]. Whatever
 * the lengths are, the rest is as for fa512_forward_varlen. */
int32_t fa512_forward_lengths(const fa512_problem *problem, const void *q, const void *k, const void *v,
                              const fa512_lengths *lengths, void *o, float *lse, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
