/* A libcuda.so.1 that counts calls and forwards them to the driver named by COUNTED_DRIVER. It exports the functions that
 * libfa512 and the examples call, and those that a call must not make: allocation, copies, synchronisation.
 *
 *     cc -shared -fPIC -Wl,-soname,libcuda.so.1 counting_driver.c -o libcuda.so.1 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                                              \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute)                                      \
    X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize)            \
    X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2)                                                                       \
    X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamGetCtx) X(cuStreamIsCapturing) X(cuStreamWaitEvent)             \
    X(cuEventRecord) X(cuEventSynchronize) X(cuThreadExchangeStreamCaptureMode) X(cuPointerGetAttributes)              \
    X(cuMemAlloc_v2) X(cuMemAllocAsync) X(cuMemAllocHost_v2) X(cuMemFree_v2) X(cuMemFreeAsync)                         \
    X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemsetD8Async)           \
    X(cuMemsetD2D32Async)                                                                                              \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLibraryLoadData) X(cuLibraryGetKernel) X(cuLibraryUnload)           \
    X(cuKernelGetFunction) X(cuKernelSetAttribute) X(cuKernelGetParamInfo) X(cuLibraryGetModule)                       \
    X(cuTensorMapEncodeTiled) X(cuLaunchKernel) X(cuLaunchKernelEx)

typedef long word;
typedef word function(word, word, word, word, word, word, word, word, word, word, word, word);

static function *real(const char *name) {
    static void *driver;
    if (!driver && !(driver = dlopen(getenv("COUNTED_DRIVER"), RTLD_NOW))) {
        fprintf(stderr, "COUNTED_DRIVER: %s\n", dlerror());
        abort();
    }
    return (function *)dlsym(driver, name);
}

/* All arguments of these functions are integers or addresses, twelve at most; forwarding too many is harmless. */
#define DEFINE(name)                                                                                                   \
    static unsigned long count_##name;                                                                                 \
    word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l) {        \
        static function *next;                                                                                         \
        count_##name++;                                                                                                \
        if (!next && !(next = real(#name))) return 801;                                                                \
        return next(a, b, c, d, e, f, g, h, i, j, k, l);                                                               \
    }
FUNCTIONS(DEFINE)

#define FORGET(name) count_##name = 0;
void counting_driver_forget(void) { FUNCTIONS(FORGET) }

#define PRINT(name) if (count_##name) printf("%lu %s\n", count_##name, #name);
void counting_driver_print(void) { FUNCTIONS(PRINT) }
