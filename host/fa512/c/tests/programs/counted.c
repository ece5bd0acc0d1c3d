/* Prints which driver functions one fa512_forward calls once its kernel is loaded. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../examples/driver.h"
#include "fa512.h"

void counting_driver_forget(void);
void counting_driver_print(void);

static void check(int failed, const char *message) {
    if (failed) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

int main(void) {
    enum { BYTES = 2 * 512 * 64 * 2 };
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr tensors[5];
    fa512_problem problem = {0};

    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "no context");
    check(cuStreamCreate(&stream, 0) != 0, "no stream");
    static char zeros[BYTES];
    for (int i = 0; i < 5; i++) {
        check(cuMemAlloc_v2(&tensors[i], BYTES) != 0, "no memory");
        check(cuMemcpyHtoD_v2(tensors[i], zeros, BYTES) != 0, "not copied");
    }
    problem.size = sizeof problem;
    problem.batch = 1;
    problem.heads = 2;
    problem.head_dim = 64;
    for (int unchecked = 0; unchecked < 2; unchecked++) {
        /* On Hopper, sequences of one length use kernels with tensor maps. */
        problem.sequence = 500;
        problem.flags = unchecked ? FA512_NO_POINTER_CHECKS : 0;
        check(fa512_warm_up(&problem, 1), fa512_last_error_message());
        counting_driver_forget();
        int32_t status = fa512_forward(&problem, (void *)(uintptr_t)tensors[0], (void *)(uintptr_t)tensors[1],
                                       (void *)(uintptr_t)tensors[2], (void *)(uintptr_t)tensors[3],
                                       (void *)(uintptr_t)tensors[4], stream);
        check(status, fa512_last_error_message());
        printf("%s\n", unchecked ? "without pointer checks" : "with pointer checks");
        counting_driver_print();
    }
    check(cuStreamSynchronize(stream) != 0, "the kernel failed");
    return 0;
}
