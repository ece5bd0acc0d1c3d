/* One fault, named by the first argument; prints the code that waiting returns. */

#include "cuda.h"

int main(int count, char **arguments)
{
    const char *fault = count > 1 ? arguments[1] : "";
    CUcontext context, other;
    CUdeviceptr memory, foreign = 0;
    CUlibrary library;
    CUkernel kernel;
    CUresult code;
    int gpus, last;
    unsigned n = 16, values[16] = {0};
    OK(cuInit(0));
    OK(cuDeviceGetCount(&gpus));
    last = gpus - 1;
    OK(cuCtxCreate_v2(&other, 0, strcmp(fault, "other-gpu") ? 0 : last));
    OK(cuMemAlloc_v2(&foreign, 4096));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    OK(cuMemcpyHtoD_v2(memory, values, sizeof values));
    OK(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "square"));
    if (!strcmp(fault, "short-buffer"))
        n = 17;
    else if (!strcmp(fault, "freed-buffer"))
        OK(cuMemFree_v2(memory));
    else if (!strcmp(fault, "null"))
        memory = 0;
    else if (!strcmp(fault, "misaligned"))
        memory += 2, n = 1;
    else if (strncmp(fault, "other-", 6) == 0)
        memory = foreign;
    OK(launch(kernel, NULL, memory, n));
    code = cuCtxSynchronize();
    HOLDS(cuCtxSynchronize() == code);
    HOLDS(cuMemAlloc_v2(&memory, 4) == code);
    printf("%s\n", name_of(code));
    /* A new context knows nothing of it. */
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    OK(cuMemcpyHtoD_v2(memory, values, sizeof values));
    OK(launch(kernel, NULL, memory, 16));
    OK(cuCtxSynchronize());
    return 0;
}
