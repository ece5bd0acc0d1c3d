/* fa512: FlashAttention on NVIDIA GPUs. O = softmax(scale * Q K^T + mask) V, optionally
 * LSE = ln sum exp(scale * q.k), and gradients, on tensors in device memory.
 *
 * A call launches one kernel on the caller's stream. It does not allocate, copy, synchronise or keep anything, and frees
 * nothing of the caller's. Every function may be called from any thread. It uses the GPU of the calling thread's current
 * CUDA context (cuCtxSetCurrent, cudaSetDevice). The stream and all memory must belong to that context.
 *
 * Needs an NVIDIA driver for CUDA 12.0 or later, opened at run time, and a GPU of compute capability 8.0 or later. Needs no
 * CUDA toolkit and no CUDA headers. */
#ifndef FA512_H
#define FA512_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; fa512_abi_version returns the library's. A library of the same version accepts
 * problems from programs that were compiled with an older header. */
#define FA512_ABI_VERSION 0

/* CUstream and cudaStream_t are pointers to this. NULL is the legacy default stream; CU_STREAM_LEGACY and
 * CU_STREAM_PER_THREAD are accepted too. */
struct CUstream_st;

typedef enum fa512_status {
    FA512_OK = 0,
    FA512_ERROR_INVALID = 1,     /* the problem or an argument is not acceptable */
    FA512_ERROR_UNSUPPORTED = 2, /* no kernel computes the problem on this GPU */
    FA512_ERROR_DRIVER = 3,      /* no CUDA driver, or the driver is too old */
    FA512_ERROR_NO_GPU = 4,      /* the driver has no GPU, or not that GPU */
    FA512_ERROR_CONTEXT = 5,     /* no current context, or a stream or memory of another context */
    FA512_ERROR_MEMORY = 6,      /* an address does not point to device memory of the tensor's size */
    FA512_ERROR_NOT_LOADED = 7,  /* the stream is capturing; call fa512_warm_up before the capture */
    FA512_ERROR_NO_KERNELS = 8,  /* the library was built without kernels, or with kernels of another version */
    FA512_ERROR_CUDA = 9,        /* the CUDA driver returned an error; the message has its name */
    FA512_ERROR_INTERNAL = 10    /* a bug in this library */
} fa512_status;

/* Element type of Q, K, V and O. */
enum { FA512_FLOAT16 = 0, FA512_BFLOAT16 = 1 };

/* Which keys a query attends to. */
enum {
    FA512_MASK_FULL = 0,   /* all */
    FA512_MASK_CAUSAL = 1, /* keys at or before its own position */
    FA512_MASK_WINDOW = 2  /* keys from window_left before its own position to window_right after it */
};

/* A window_left or window_right without a limit. */
enum { FA512_UNLIMITED = -1 };

/* Flags of a problem. */
enum {
    FA512_NO_OVERLAP = 1,        /* do not begin before the previous launch on the stream has ended */
    FA512_NO_POINTER_CHECKS = 2, /* do not ask the driver what the addresses point to */
    FA512_BOTTOM_RIGHT = 4,      /* align the last query with the last key; default: the first with the first */
    FA512_KEY_LENGTHS = 8,       /* packed sequences whose K and V have their own lengths: fa512_forward_lengths */
    FA512_PADDED = 16,           /* batch entries may use fewer rows than they have: fa512_forward_lengths */
    FA512_SLOPES_PER_BATCH = 32  /* alibi_slopes are [batch, heads], or [sequences, heads] of packed sequences; default: [heads] */
};

/* Strides of a tensor [batch, heads, sequence, head_dim], in elements. The last dimension is contiguous; strides are
 * multiples of 8. If all three are 0, the tensor is contiguous. Strides of an input may be 0 (broadcast), but not all
 * three. */
typedef struct fa512_strides {
    uint64_t batch;
    uint64_t head;
    uint64_t row;
} fa512_strides;

/* An attention problem. First set it to 0, then set `size`, the dimensions, and every field that differs from its default:
 *
 *     fa512_problem problem = {0};
 *     problem.size = sizeof problem;
 *
 * Later versions may add fields. With 0 in these, they behave as this version does. */
typedef struct fa512_problem {
    size_t size;        /* sizeof(fa512_problem) */
    uint32_t batch;     /* if 0, there is nothing to compute: calls succeed and do nothing */
    uint32_t heads;     /* of Q and O; 0 as for batch */
    uint32_t sequence;  /* rows per head of Q and O; 0 as for batch */
    uint32_t head_dim;  /* a multiple of 8, at most 256 */
    uint32_t dtype;     /* FA512_FLOAT16, FA512_BFLOAT16 */
    uint32_t mask;      /* FA512_MASK_FULL, FA512_MASK_CAUSAL, FA512_MASK_WINDOW */
    uint32_t flags;     /* FA512_NO_OVERLAP and the other flags, combined by | */
    uint32_t reserved;  /* 0 */
    double scale;       /* factor on the scores; 0 or NaN: 1/sqrt(head_dim) */
    fa512_strides q;
    fa512_strides k;
    fa512_strides v;
    fa512_strides o;    /* no two rows may overlap */
    uint32_t sequences; /* for fa512_forward_varlen: number of packed sequences; 0: not packed, all have the same length */
    uint32_t longest;   /* length of the longest sequence, or an upper bound; helps to choose a kernel, and may be 0 */
    int32_t window_left;  /* for FA512_MASK_WINDOW: keys before a query's own position, or FA512_UNLIMITED; else 0 */
    int32_t window_right; /* like window_left, after its own position; 0 with an unlimited left is the causal mask */
    uint32_t kv_heads;    /* heads of K and V; heads must be a multiple of it; 0: as many as Q */
    uint32_t kv_sequence; /* rows per head of K and V; 0: as many as Q. If they differ in packed sequences: FA512_KEY_LENGTHS */
    double softcap;       /* scores s = scale * q.k become softcap * tanh(s / softcap); from 1e-3 to 1e3; 0: no softcap */
    const void *bias;     /* device address of a bias to add to scores, [batch, heads, sequence, kv_sequence] of the type of
                           * Q, at a multiple of 2; NULL: none. Packed sequences take no bias */
    fa512_strides bias_strides; /* any may be 0 (broadcast), also all three; the last dimension is contiguous */
    const float *alibi_slopes;  /* device address of ALiBi slopes: slope * |i - j| is subtracted from the score of the query
                                 * at position i and the key at j, after softcap and before bias; NULL: none */
    void *workspace; /* device address of fa512_workspace_bytes() bytes at a multiple of 16, with any contents, which nothing else
                      * uses until the call has completed; NULL: none, and few queries with many keys may take longer */
} fa512_problem;

/* Strides of a contiguous tensor [batch, sequence, heads, head_dim], as in flash-attn. */
static inline fa512_strides fa512_strides_bshd(uint32_t heads, uint32_t sequence, uint32_t head_dim) {
    fa512_strides strides;
    strides.head = head_dim;
    strides.row = (uint64_t)heads * head_dim;
    strides.batch = strides.row * sequence;
    return strides;
}

/* FA512_ABI_VERSION that the library was built with. */
uint32_t fa512_abi_version(void);

/* Version of the library, such as "0.1.0". */
const char *fa512_version(void);

/* Name of a status, such as "FA512_ERROR_MEMORY". */
const char *fa512_error_name(int32_t status);

/* Message of the calling thread's last call that did not return FA512_OK: what was wrong and what to do; "" if there was
 * none. UTF-8; valid until the thread's next call of this library. */
const char *fa512_last_error_message(void);

/* Whether a kernel computes the problem on GPU `device` (the driver's index; -1: the GPU of the current context). Writes
 * which kernel and why to `text`, truncated to `text_size` bytes including the NUL; `text` may be NULL. Returns
 * FA512_ERROR_UNSUPPORTED if there is no kernel. */
int32_t fa512_supports(const fa512_problem *problem, int32_t device, char *text, size_t text_size);

/* Loads the kernels for `count` problems on the GPU of the current context. Without it, the first call of each waits until
 * the driver has compiled the kernel, and cannot be captured into a graph. */
int32_t fa512_warm_up(const fa512_problem *problems, size_t count);

/* Writes how large a workspace can be of use for the problem on the GPU of the current context; 0 for most problems, and for all
 * that Hopper's kernels compute. It need not be given. `problem->workspace` may be NULL here. */
int32_t fa512_workspace_bytes(const fa512_problem *problem, uint64_t *bytes);

/* Computes O on `stream`, and LSE if `lse` is not NULL. The tensors are device addresses at multiples of 16. LSE is
 * contiguous float [batch, heads, sequence], natural logarithm. O and LSE must not overlap any other tensor. The memory must
 * stay valid until the stream has executed the call. */
int32_t fa512_forward(const fa512_problem *problem, const void *q, const void *k, const void *v, void *o, float *lse,
                      struct CUstream_st *stream);

/* fa512_forward for packed sequences. Sequence s has rows cu_seqlens[s] up to cu_seqlens[s + 1] of Q, K, V and O, and attends
 * only to itself. In the problem, batch is 1, `sequence` is the total number of rows, and `sequences` is set. cu_seqlens is
 * the device address of int32_t [sequences + 1]. Only the kernel reads it, so the host does not wait. Whatever it holds,
 * nothing outside the tensors is read or written, and no sequence affects another's result. Rows before the first sequence
 * and behind the last get zeros in O and -infinity in LSE (float [heads, rows]). */
int32_t fa512_forward_varlen(const fa512_problem *problem, const void *q, const void *k, const void *v,
                             const int32_t *cu_seqlens, void *o, float *lse, struct CUstream_st *stream);

/* The lengths of sequences for fa512_forward_lengths: device addresses of int32_t, which only the kernel reads. Set the struct
 * to 0 first. */
typedef struct fa512_lengths {
    size_t size;                 /* sizeof(fa512_lengths) */
    const int32_t *cu_seqlens;   /* FA512_KEY_LENGTHS, [sequences + 1]: where each sequence begins in Q and O, and the last ends */
    const int32_t *cu_seqlens_k; /* the same for K and V */
    const int32_t *seqused_q;    /* [sequences], or [batch] with FA512_PADDED: how many of its rows of Q it uses; NULL: all */
    const int32_t *seqused_k;    /* the same for K and V */
} fa512_lengths;

/* fa512_forward for
 *
 *   - packed sequences whose K and V have their own lengths (FA512_KEY_LENGTHS): batch is 1, `sequence` and `kv_sequence` are
 *     the total rows of Q and of K;
 *   - a padded batch (FA512_PADDED): the batch stride is `sequence` times the row stride, as in contiguous
 *     [batch, sequence, heads, head_dim].
 *
 * A row whose sequence has no key gets zeros, and an LSE of -infinity. Rows of O and LSE from seqused_q on are not written.
 * LSE is float [heads, rows], or [heads, batch, sequence] for a padded batch. Everything else is as in fa512_forward_varlen. */
int32_t fa512_forward_lengths(const fa512_problem *problem, const void *q, const void *k, const void *v,
                              const fa512_lengths *lengths, void *o, float *lse, struct CUstream_st *stream);

/* The tensors of a gradient: device addresses at multiples of 16. Set the struct to 0 first. */
typedef struct fa512_gradient {
    size_t size;      /* sizeof(fa512_gradient) */
    const void *o;    /* O and LSE of the forward call; both are required */
    const float *lse;
    const void *d_o;  /* the gradient with respect to O */
    void *dq;         /* receive the gradients with respect to Q, K and V, which may not overlap one another or anything else */
    void *dk;
    void *dv;
    fa512_strides d_o_strides; /* as those of a problem; if all three are 0, the tensor is contiguous */
    fa512_strides dq_strides;
    fa512_strides dk_strides;
    fa512_strides dv_strides;
    void *d_bias; /* receives the gradient with respect to the bias, of the type of Q, at a multiple of 2; NULL: it is not computed */
    fa512_strides d_bias_strides; /* where one is 0, what shares an element is added up; the last dimension is contiguous */
} fa512_gradient;

/* Computes dQ, dK, dV and dBias on `stream`, of the problem that a forward call computed O and LSE of. Equal inputs give equal bits.
 * `problem->workspace`, if given, has fa512_backward_workspace_bytes(). `lengths` is that of fa512_forward_lengths; of fa512_forward_varlen it has cu_seqlens alone; else NULL. Rows that belong to
 * no sequence get zeros; rows from seqused_q and seqused_k on are not written. */
int32_t fa512_backward(const fa512_problem *problem, const void *q, const void *k, const void *v, const fa512_lengths *lengths,
                       const fa512_gradient *gradient, struct CUstream_st *stream);

/* fa512_workspace_bytes for fa512_backward: without dBias, 0 up to 512 queries a head. Of `gradient`, only the strides are read, and
 * whether there is a d_bias; NULL: contiguous tensors, and no dBias. */
int32_t fa512_backward_workspace_bytes(const fa512_problem *problem, const fa512_gradient *gradient, uint64_t *bytes);

/* fa512_warm_up for fa512_backward; FA512_ERROR_UNSUPPORTED if no kernel computes the gradient of the problem. */
int32_t fa512_warm_up_backward(const fa512_problem *problem);

#ifdef __cplusplus
}
#endif

#endif
