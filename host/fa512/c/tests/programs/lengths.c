/* Sequences whose K and V have other lengths than Q, packed and padded, under a causal mask. Q is 0, so a row of O is the
 * mean of the rows of V that it attends to; V holds positions. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/driver.h"
#include "fa512.h"

enum { HEADS = 2, SEQUENCES = 4, HEAD_DIM = 64 };

static void check(int failed, const char *action, const char *message) {
    if (failed) {
        fprintf(stderr, "%s: %s\n", action, message);
        exit(1);
    }
}

static CUdeviceptr memory(const void *values, size_t bytes) {
    CUdeviceptr address;
    check(cuMemAlloc_v2(&address, bytes) != 0, "cuMemAlloc", "no memory");
    check(cuMemcpyHtoD_v2(address, values, bytes) != 0, "cuMemcpyHtoD", "not copied");
    return address;
}

static void *pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

/* `number`, from 0 to 1023, in fp16. */
static uint16_t half(int number) {
    int exponent = 0;
    if (number == 0) return 0;
    while (number >> (exponent + 1)) exponent++;
    return (uint16_t)((exponent + 15) << 10 | ((number << 10 >> exponent) & 0x3ff));
}

/* The value of an fp16 that is normal or 0. */
static double number(uint16_t bits) { return bits == 0 ? 0 : ldexp(1024 + (bits & 0x3ff), (bits >> 10) - 25); }

/* Rows of Q, and rows of K and V, of each sequence. */
static const int queries[SEQUENCES] = {30, 70, 0, 5}, keys[SEQUENCES] = {80, 20, 9, 0};

/* Checks O and LSE of sequence `s`, which begins at `row` of `rows`. */
static void require_sequence(const uint16_t *o, const float *lse, int s, int row, int rows, int bottom_right) {
    int i, head;
    for (i = 0; i < queries[s]; i++)
        for (head = 0; head < HEADS; head++) {
            int end = i + 1 + (bottom_right ? keys[s] - queries[s] : 0);
            end = end < 0 ? 0 : end > keys[s] ? keys[s] : end;
            double mean = end == 0 ? 0 : 0.5 * (end - 1), found = lse[head * rows + row + i];
            check(!(fabs(number(o[((row + i) * HEADS + head) * HEAD_DIM]) - mean) < 0.1), "O", "is another mean");
            check(end == 0 ? !(found < -1e30) : !(fabs(found - log(end)) < 1e-3), "LSE", "is another");
        }
}

/* Computes sequences that begin at `begins`, and checks the result. */
static void require(fa512_problem problem, const fa512_lengths *lengths, const int *begins, const int *key_begins, int rows,
                    int key_rows) {
    static uint16_t zeros[400 * HEADS * HEAD_DIM], values[400 * HEADS * HEAD_DIM], o[400 * HEADS * HEAD_DIM];
    static float lse[400 * HEADS];
    int s, row, column, bottom_right;
    for (s = 0; s < SEQUENCES; s++)
        for (row = 0; row < keys[s]; row++)
            for (column = 0; column < HEADS * HEAD_DIM; column++)
                values[(key_begins[s] + row) * HEADS * HEAD_DIM + column] = half(row);
    CUdeviceptr q = memory(zeros, (size_t)rows * HEADS * HEAD_DIM * 2), k = memory(zeros, (size_t)key_rows * HEADS * HEAD_DIM * 2);
    CUdeviceptr v = memory(values, (size_t)key_rows * HEADS * HEAD_DIM * 2);
    for (bottom_right = 0; bottom_right < 2; bottom_right++) {
        CUdeviceptr out = memory(zeros, (size_t)rows * HEADS * HEAD_DIM * 2), out_lse = memory(lse, (size_t)rows * HEADS * 4);
        problem.flags = (problem.flags & ~(uint32_t)FA512_BOTTOM_RIGHT) | (bottom_right ? FA512_BOTTOM_RIGHT : 0);
        int32_t status = fa512_forward_lengths(&problem, pointer(q), pointer(k), pointer(v), lengths, pointer(out),
                                               (float *)pointer(out_lse), NULL);
        check(status, fa512_error_name(status), fa512_last_error_message());
        check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
        check(cuMemcpyDtoH_v2(o, out, (size_t)rows * HEADS * HEAD_DIM * 2) != 0, "cuMemcpyDtoH", "not copied");
        check(cuMemcpyDtoH_v2(lse, out_lse, (size_t)rows * HEADS * 4) != 0, "cuMemcpyDtoH", "not copied");
        for (s = 0; s < SEQUENCES; s++) require_sequence(o, lse, s, begins[s], rows, bottom_right);
    }
}

int main(void) {
    static const int begins[SEQUENCES + 1] = {0, 30, 100, 100, 105}, key_begins[SEQUENCES + 1] = {0, 80, 100, 109, 109};
    static const int rooms[SEQUENCES] = {0, 70, 140, 210}, key_rooms[SEQUENCES] = {0, 80, 160, 240};
    CUdevice device;
    CUcontext context;
    fa512_problem problem = {0};
    fa512_lengths lengths = {0};
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    problem.size = sizeof problem;
    problem.heads = HEADS;
    problem.head_dim = HEAD_DIM;
    problem.mask = FA512_MASK_CAUSAL;
    lengths.size = sizeof lengths;

    problem.batch = 1;
    problem.sequence = 105;
    problem.kv_sequence = 109;
    problem.sequences = SEQUENCES;
    problem.flags = FA512_KEY_LENGTHS;
    problem.q = problem.o = fa512_strides_bshd(HEADS, 105, HEAD_DIM);
    problem.k = problem.v = fa512_strides_bshd(HEADS, 109, HEAD_DIM);
    check(fa512_forward_lengths(&problem, &problem, &problem, &problem, &lengths, &problem, NULL, NULL) == FA512_OK, "lengths",
          "none were accepted");
    lengths.cu_seqlens = (const int32_t *)pointer(memory(begins, sizeof begins));
    lengths.cu_seqlens_k = (const int32_t *)pointer(memory(key_begins, sizeof key_begins));
    require(problem, &lengths, begins, key_begins, 105, 109);

    problem.batch = SEQUENCES;
    problem.sequence = 70;
    problem.kv_sequence = 80;
    problem.sequences = 0;
    problem.flags = FA512_PADDED;
    problem.q = problem.o = fa512_strides_bshd(HEADS, 70, HEAD_DIM);
    problem.k = problem.v = fa512_strides_bshd(HEADS, 80, HEAD_DIM);
    lengths.cu_seqlens = lengths.cu_seqlens_k = NULL;
    lengths.seqused_q = (const int32_t *)pointer(memory(queries, sizeof queries));
    lengths.seqused_k = (const int32_t *)pointer(memory(keys, sizeof keys));
    require(problem, &lengths, rooms, key_rooms, 280, 320);
    printf("O and LSE are right\n");
    return 0;
}
