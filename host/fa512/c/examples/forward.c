/* Attention of random tensors by fa512. Memory comes from the driver API.
 *
 *     cc forward.c -I../include -L../lib -lfa512 -lcuda -Wl,-rpath,$PWD/../lib -o forward && ./forward */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "fa512.h"

enum { BATCH = 2, HEADS = 3, SEQUENCE = 100, HEAD_DIM = 64, ELEMENTS = BATCH * HEADS * SEQUENCE * HEAD_DIM };

static void check(int failed, const char *action, const char *message) {
    if (failed) {
        fprintf(stderr, "%s: %s\n", action, message);
        exit(1);
    }
}

static CUdeviceptr tensor(const uint16_t *values) {
    CUdeviceptr address;
    check(cuMemAlloc_v2(&address, ELEMENTS * sizeof *values) != 0, "cuMemAlloc", "no memory");
    check(cuMemcpyHtoD_v2(address, values, ELEMENTS * sizeof *values) != 0, "cuMemcpyHtoD", "not copied");
    return address;
}

int main(void) {
    static uint16_t values[ELEMENTS], o[ELEMENTS];
    CUdevice device;
    CUcontext context;
    CUstream stream;
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    check(cuStreamCreate(&stream, 0) != 0, "cuStreamCreate", "no stream");

    /* Every V is 1.0 in fp16, so every O is too, whatever the scores. */
    for (int i = 0; i < ELEMENTS; i++) values[i] = (uint16_t)(0x3800 | rand() % 0x400);
    CUdeviceptr q = tensor(values), k = tensor(values), out = tensor(o);
    for (int i = 0; i < ELEMENTS; i++) values[i] = 0x3c00;
    CUdeviceptr v = tensor(values);

    fa512_problem problem = {0};
    problem.size = sizeof problem;
    problem.batch = BATCH;
    problem.heads = HEADS;
    problem.sequence = SEQUENCE;
    problem.head_dim = HEAD_DIM;
    problem.mask = FA512_MASK_CAUSAL;
    char kernel[512];
    check(fa512_supports(&problem, -1, kernel, sizeof kernel), "fa512_supports", fa512_last_error_message());
    check(fa512_warm_up(&problem, 1), "fa512_warm_up", fa512_last_error_message());
    int32_t status = fa512_forward(&problem, (void *)(uintptr_t)q, (void *)(uintptr_t)k, (void *)(uintptr_t)v,
                                   (void *)(uintptr_t)out, NULL, stream);
    check(status, fa512_error_name(status), fa512_last_error_message());

    check(cuStreamSynchronize(stream) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    for (int i = 0; i < ELEMENTS; i++) check(o[i] < 0x3bfe || o[i] > 0x3c01, "O", "is not 1.0");
    printf("fa512 %s, %s\nO is right\n", fa512_version(), kernel);
    return 0;
}
