/* Attention of packed sequences by fa512. Memory comes from the driver API.
 *
 *     cc varlen.c -I../include -L../lib -lfa512 -lcuda -Wl,-rpath,$PWD/../lib -o varlen && ./varlen */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "fa512.h"

enum { HEADS = 2, ROWS = 90, SEQUENCES = 3, HEAD_DIM = 64, ELEMENTS = ROWS * HEADS * HEAD_DIM };

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

int main(void) {
    /* 1.0, 2.0 and 3.0 in fp16: what V holds in each sequence. */
    static const uint16_t constants[SEQUENCES] = {0x3c00, 0x4000, 0x4200};
    static const int32_t cu_seqlens[SEQUENCES + 1] = {0, 20, 21, ROWS};
    static uint16_t values[ELEMENTS], o[ELEMENTS];
    CUdevice device;
    CUcontext context;
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");

    for (int i = 0; i < ELEMENTS; i++) values[i] = (uint16_t)(0x3800 | rand() % 0x400);
    CUdeviceptr q = memory(values, sizeof values), k = memory(values, sizeof values), out = memory(o, sizeof o);
    for (int s = 0; s < SEQUENCES; s++)
        for (int i = cu_seqlens[s] * HEADS * HEAD_DIM; i < cu_seqlens[s + 1] * HEADS * HEAD_DIM; i++) values[i] = constants[s];
    CUdeviceptr v = memory(values, sizeof values), lengths = memory(cu_seqlens, sizeof cu_seqlens);

    fa512_problem problem = {0};
    problem.size = sizeof problem;
    problem.batch = 1;
    problem.heads = HEADS;
    problem.sequence = ROWS;
    problem.head_dim = HEAD_DIM;
    problem.q = problem.k = problem.v = problem.o = fa512_strides_bshd(HEADS, ROWS, HEAD_DIM);
    problem.sequences = SEQUENCES;
    problem.longest = 69;
    check(fa512_warm_up(&problem, 1), "fa512_warm_up", fa512_last_error_message());
    int32_t status = fa512_forward_varlen(&problem, pointer(q), pointer(k), pointer(v), pointer(lengths), pointer(out), NULL,
                                          NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());

    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    /* V is constant within a sequence, so O is too, whatever the scores. */
    for (int i = 0; i < ELEMENTS; i++)
        check(o[i] + 2 < values[i] || o[i] > values[i] + 1, "O", "is not that of its sequence");
    printf("O is right\n");
    return 0;
}
