/* How the C interface handles invalid arguments, without a context. C99 and C++. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fa512.h"

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: not so: %s; the last message is: %s\n", __LINE__, #condition,                    \
                    fa512_last_error_message());                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int said(const char *words) { return strstr(fa512_last_error_message(), words) != NULL; }

static fa512_problem acceptable(void) {
    fa512_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.size = sizeof problem;
    problem.batch = 1;
    problem.heads = 1;
    problem.sequence = 64;
    problem.head_dim = 64;
    return problem;
}

static int32_t forward(fa512_problem problem) {
    return fa512_forward(&problem, (void *)64, (void *)64, (void *)64, (void *)64, NULL, NULL);
}

static int32_t supported(fa512_problem problem) { return fa512_supports(&problem, -1, NULL, 0); }

/* A struct of a later version, with one more field. */
typedef struct later_problem {
    fa512_problem known;
    uint64_t field;
} later_problem;

int main(void) {
    fa512_problem problem = acceptable();
    later_problem later;
    char text[8];
    int32_t status;

    EXPECT(sizeof(fa512_problem) == 224);
    EXPECT(fa512_abi_version() == FA512_ABI_VERSION);
    EXPECT(strcmp(fa512_error_name(FA512_OK), "FA512_OK") == 0);
    EXPECT(strcmp(fa512_error_name(FA512_ERROR_MEMORY), "FA512_ERROR_MEMORY") == 0);
    EXPECT(strcmp(fa512_error_name(FA512_ERROR_INTERNAL), "FA512_ERROR_INTERNAL") == 0);
    EXPECT(strcmp(fa512_error_name(-1), "unknown status of fa512") == 0);
    EXPECT(strcmp(fa512_last_error_message(), "") == 0);

    EXPECT(fa512_forward(NULL, NULL, NULL, NULL, NULL, NULL, NULL) == FA512_ERROR_INVALID && said("problem is NULL"));
    EXPECT(fa512_supports(NULL, 0, NULL, 0) == FA512_ERROR_INVALID && said("problem is NULL"));
    EXPECT(fa512_warm_up(NULL, 1) == FA512_ERROR_INVALID && said("problem is NULL"));
    EXPECT(fa512_warm_up(NULL, 0) == FA512_OK);
    EXPECT(fa512_warm_up((fa512_problem *)3, 1) == FA512_ERROR_INVALID && said("where no struct can be"));

    problem.size = 0;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("size is 0; it must be sizeof(fa512_problem)"));
    problem.size = (size_t)-1;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("size is 18446744073709551615"));
    problem = acceptable(), problem.head_dim = 0;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("head_dim is 0; it must be a multiple of 8 from 8 to 256"));
    problem = acceptable(), problem.head_dim = 264, problem.batch = 0;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("head_dim is 264; it must be a multiple of 8 from 8 to 256"));
    problem = acceptable(), problem.dtype = 7;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("dtype is 7; it must be FA512_FLOAT16 (0) or FA512_BFLOAT16 (1)"));
    problem = acceptable(), problem.mask = 3;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("mask is 3") && said("FA512_MASK_WINDOW (2)"));
    problem = acceptable(), problem.window_left = 4;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("window_left is 4 and mask 0; a window needs FA512_MASK_WINDOW"));
    problem.mask = FA512_MASK_CAUSAL, problem.window_left = 0, problem.window_right = FA512_UNLIMITED;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("window_right is -1 and mask 1"));
    problem.mask = FA512_MASK_WINDOW, problem.window_left = -2;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("window_left is -2; it must be") && said("FA512_UNLIMITED (-1)"));
    problem.window_left = 0, problem.window_right = INT32_MIN;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("window_right is -2147483648; it must be"));
    problem = acceptable(), problem.flags = 64;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("flags are 0x40"));
    problem = acceptable(), problem.flags = FA512_SLOPES_PER_BATCH;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("FA512_SLOPES_PER_BATCH is set, and alibi_slopes is NULL"));
    problem = acceptable(), problem.softcap = -1.0;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("softcap is -1; it must be from 0.001 to 1000"));
    problem.softcap = NAN;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("softcap is NaN"));
    problem = acceptable(), problem.bias_strides.row = 64;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("bias_strides are given, and bias is NULL"));
    problem.bias = (void *)64, problem.bias_strides.row = UINT64_MAX;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("does not fit 64-bit addresses"));
    problem.bias_strides.row = 64, problem.sequences = 1;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("packed sequences cannot have a bias"));
    problem = acceptable(), problem.kv_heads = 2 * problem.heads;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("the heads of Q must be a multiple of those of K and V"));
    problem = acceptable(), problem.kv_sequence = UINT32_MAX;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("kv_sequence is 4294967295; it must be at most"));
    problem = acceptable(), problem.batch = 1, problem.sequences = 1, problem.kv_sequence = problem.sequence + 1;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("packed sequences with one cu_seqlens, need equal numbers"));
    problem = acceptable(), problem.reserved = 1;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("reserved is 1"));
    problem = acceptable(), problem.scale = -2.0;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("scale is -2"));
    problem = acceptable(), problem.scale = INFINITY;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("must be finite"));
    problem = acceptable(), problem.k.row = 65;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("K has a row stride of 65"));
    problem = acceptable(), problem.o.row = 8;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("its rows overlap"));
    problem = acceptable(), problem.sequence = 0xffffffff;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("sequence is 4294967295"));

    /* With nothing to compute, no pointer is needed. */
    problem = acceptable(), problem.batch = 0;
    EXPECT(fa512_forward(&problem, NULL, NULL, NULL, NULL, NULL, NULL) == FA512_OK);
    EXPECT(fa512_forward_varlen(&problem, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == FA512_OK);

    problem = acceptable();
    problem.longest = 3;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("longest is 3 and sequences 0"));
    problem.sequences = 2;
    problem.batch = 5;
    EXPECT(forward(problem) == FA512_ERROR_INVALID && said("batch"));
    problem = acceptable(), problem.sequence = 0;
    EXPECT(fa512_supports(&problem, -1, text, sizeof text) == FA512_OK && strcmp(text, "nothing") == 0);

    later.known = acceptable();
    later.known.size = sizeof later;
    later.known.batch = 0;
    later.field = 0;
    EXPECT(fa512_warm_up(&later.known, 1) == FA512_OK);
    later.field = 1;
    EXPECT(fa512_warm_up(&later.known, 1) == FA512_ERROR_UNSUPPORTED && said("does not know"));

    /* NaN means the default scale; the call fails only for lack of a context or driver. */
    problem = acceptable(), problem.scale = NAN;
    status = supported(problem);
    EXPECT(status == FA512_ERROR_DRIVER || status == FA512_ERROR_CONTEXT || status == FA512_ERROR_NO_GPU);
    EXPECT(forward(acceptable()) == status);
    EXPECT(status != FA512_ERROR_DRIVER || (said("no CUDA driver: libcuda.so.1") && said("LD_LIBRARY_PATH")));
    EXPECT(fa512_supports(&problem, -7, NULL, 0) == FA512_ERROR_INVALID && said("device is -7"));
    puts("as declared");
    return 0;
}
