/* Windows, for sequences of one length and packed ones. Q is 0, so a row of O is the mean of the rows of V in its window; V
 * holds the positions of its rows, so the mean tells where the window begins and ends. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "fa512.h"

enum { HEADS = 2, ROWS = 150, SEQUENCES = 3, HEAD_DIM = 64, ELEMENTS = ROWS * HEADS * HEAD_DIM };

static const int32_t cu_seqlens[SEQUENCES + 1] = {0, 20, 21, ROWS};

/* Checks O and LSE of a window from `left` keys before a query to `right` keys after it. */
static void require(fa512_problem problem, int packed, int left, int right) {
    static uint16_t values[ELEMENTS], o[ELEMENTS];
    static float lse[HEADS * ROWS];
    const int32_t whole[2] = {0, ROWS};
    const int32_t *bounds = packed ? cu_seqlens : whole;
    int sequence, row, head, column;
    char name[64];

    memset(values, 0, sizeof values);
    CUdeviceptr q = memory(values, sizeof values), out = memory(o, sizeof o), out_lse = memory(lse, sizeof lse);
    for (sequence = 0; sequence < (packed ? SEQUENCES : 1); sequence++)
        for (row = bounds[sequence]; row < bounds[sequence + 1]; row++)
            for (column = 0; column < HEADS * HEAD_DIM; column++)
                values[row * HEADS * HEAD_DIM + column] = half(row - bounds[sequence]);
    CUdeviceptr v = memory(values, sizeof values), lengths = memory(cu_seqlens, sizeof cu_seqlens);

    problem.q = problem.k = problem.v = problem.o = fa512_strides_bshd(HEADS, ROWS, HEAD_DIM);
    problem.sequences = packed ? SEQUENCES : 0;
    int32_t status = packed ? fa512_forward_varlen(&problem, pointer(q), pointer(q), pointer(v), pointer(lengths), pointer(out),
                                                   (float *)pointer(out_lse), NULL)
                            : fa512_forward(&problem, pointer(q), pointer(q), pointer(v), pointer(out),
                                            (float *)pointer(out_lse), NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    check(cuMemcpyDtoH_v2(lse, out_lse, sizeof lse) != 0, "cuMemcpyDtoH", "not copied");

    for (sequence = 0; sequence < (packed ? SEQUENCES : 1); sequence++)
        for (row = bounds[sequence]; row < bounds[sequence + 1]; row++) {
            int position = row - bounds[sequence], last = bounds[sequence + 1] - bounds[sequence] - 1;
            int begin = position - left < 0 ? 0 : position - left, end = position + right > last ? last : position + right;
            sprintf(name, "window %d, %d, packed %d, row %d", left, right, packed, row);
            for (head = 0; head < HEADS; head++) {
                for (column = 0; column < HEAD_DIM; column++)
                    check(!(fabs(number(o[(row * HEADS + head) * HEAD_DIM + column]) - 0.5 * (begin + end)) < 0.1), name,
                          "O is not the mean of the window");
                check(!(fabs(lse[head * ROWS + row] - log(end - begin + 1)) < 1e-3), name, "LSE is another");
            }
        }
}

/* Checks O of four query heads that share two heads of K and V, with bottom-right or top-left alignment. V holds the
 * position of its row plus 100 times its head. */
static void require_shared(fa512_problem problem, int bottom_right) {
    enum { QUERY_HEADS = 4, QUERIES = 50, KEYS = 70 };
    static uint16_t zeros[QUERY_HEADS * KEYS * HEAD_DIM], values[HEADS * KEYS * HEAD_DIM], o[QUERY_HEADS * QUERIES * HEAD_DIM];
    int head, row, column;
    for (head = 0; head < HEADS; head++)
        for (row = 0; row < KEYS; row++)
            for (column = 0; column < HEAD_DIM; column++)
                values[(head * KEYS + row) * HEAD_DIM + column] = half(row + 100 * head);
    CUdeviceptr q = memory(zeros, sizeof zeros), v = memory(values, sizeof values), out = memory(o, sizeof o);

    problem.heads = QUERY_HEADS;
    problem.kv_heads = HEADS;
    problem.sequence = QUERIES;
    problem.kv_sequence = KEYS;
    problem.mask = FA512_MASK_CAUSAL;
    problem.flags = bottom_right ? FA512_BOTTOM_RIGHT : 0;
    int32_t status = fa512_forward(&problem, pointer(q), pointer(q), pointer(v), pointer(out), NULL, NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    for (head = 0; head < QUERY_HEADS; head++)
        for (row = 0; row < QUERIES; row++) {
            double expected = 100 * (head / 2) + 0.5 * (row + (bottom_right ? KEYS - QUERIES : 0));
            check(!(fabs(number(o[(head * QUERIES + row) * HEAD_DIM]) - expected) < 0.1), "shared heads", "O is another");
        }
}

int main(void) {
    static const int32_t windows[][2] = {{10, 2}, {0, 0}, {64, FA512_UNLIMITED}, {FA512_UNLIMITED, 9}, {FA512_UNLIMITED, 0}};
    CUdevice device;
    CUcontext context;
    char text[512];
    int packed, index;
    fa512_problem problem = {0};
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    problem.size = sizeof problem;
    problem.batch = 1;
    problem.heads = HEADS;
    problem.sequence = ROWS;
    problem.head_dim = HEAD_DIM;
    problem.mask = FA512_MASK_WINDOW;
    for (packed = 0; packed < 2; packed++)
        for (index = 0; index < (int)(sizeof windows / sizeof windows[0]); index++) {
            int left = windows[index][0], right = windows[index][1];
            problem.window_left = left;
            problem.window_right = right;
            require(problem, packed, left < 0 ? ROWS : left, right < 0 ? ROWS : right);
        }
    problem.window_left = problem.window_right = 64;
    check(fa512_supports(&problem, -1, text, sizeof text), "fa512_supports", fa512_last_error_message());
    check(strstr(text, "_window_") == NULL, "fa512_supports", text);

    problem.window_left = problem.window_right = 0;
    require_shared(problem, 0);
    require_shared(problem, 1);

    /* A program compiled with an older header: its struct ends before the window. */
    problem.mask = FA512_MASK_CAUSAL;
    problem.size = offsetof(fa512_problem, window_left);
    require(problem, 0, ROWS, 0);
    require(problem, 1, ROWS, 0);
    printf("O and LSE are right\n");
    return 0;
}
