/* What the test programs use of the CUDA driver API, declared from its documentation. */
#ifndef CUDA_H
#define CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUlibrary, *CUkernel, *CUstream, *CUevent, *CUgraph, *CUgraphExec, *CUgraphNode;

typedef struct {
    unsigned id;
    unsigned padding;
    unsigned value[16];
} CUlaunchAttribute;

typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

CUresult cuInit(unsigned);
CUresult cuDriverGetVersion(int *);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, unsigned *);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetAttribute(int *, unsigned, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext *);
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetLimit(size_t *, unsigned);
CUresult cuCtxSetLimit(unsigned, size_t);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuIpcGetMemHandle(void *, CUdeviceptr);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuPointerGetAttribute(void *, unsigned, CUdeviceptr);
CUresult cuPointerGetAttributes(unsigned, unsigned *, void **, CUdeviceptr);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamBeginCapture_v2(CUstream, unsigned);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuStreamIsCapturing(CUstream, unsigned *);
CUresult cuStreamGetCaptureInfo_v2(CUstream, unsigned *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *);
CUresult cuEventCreate(CUevent *, unsigned);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuEventElapsedTime(float *, CUevent, CUevent);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleLoadDataEx(CUmodule *, const void *, unsigned, unsigned *, void **);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
CUresult cuLibraryLoadData(CUlibrary *, const void *, unsigned *, void **, unsigned, unsigned *, void **, unsigned);
CUresult cuLibraryGetKernel(CUkernel *, CUlibrary, const char *);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuKernelGetFunction(CUfunction *, CUkernel);
CUresult cuKernelGetName(const char **, CUkernel);
CUresult cuKernelSetAttribute(unsigned, int, CUkernel, CUdevice);
CUresult cuFuncGetAttribute(int *, unsigned, CUfunction);
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchHostFunc(CUstream, void (*)(void *), void *);
CUresult cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, size_t (*)(int), size_t, int);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetType(CUgraphNode, unsigned *);
CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuTensorMapEncodeTiled(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *,
                                const unsigned *, unsigned, unsigned, unsigned, unsigned);

static const char *name_of(CUresult code)
{
    const char *name = NULL;
    return cuGetErrorName(code, &name) == 0 ? name : "no code";
}

/* Ends the program unless a call returns the code that is expected. */
#define EXPECT(code, call)                                                                                                 \
    do {                                                                                                                   \
        CUresult got_ = (call);                                                                                            \
        if (strcmp(name_of(got_), "CUDA_" #code)) {                                                                        \
            fprintf(stderr, "%s:%d: %s returns %s, not CUDA_%s\n", __FILE__, __LINE__, #call, name_of(got_), #code);       \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
#define OK(call) EXPECT(SUCCESS, call)

/* Ends the program unless something holds. */
#define HOLDS(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* values[i] *= values[i] for i < n, one thread each. */
static const char PTX[] = ".version 8.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".const .align 4 .u32 table[2] = {5, 6};\n"
                          ".visible .entry square(.param .u64 values, .param .u32 n)\n"
                          "{\n"
                          "    .reg .pred %p;\n"
                          "    .reg .b32 %r<3>;\n"
                          "    .reg .b64 %rd<2>;\n"
                          "    ld.param.u64 %rd0, [values];\n"
                          "    ld.param.u32 %r0, [n];\n"
                          "    mov.u32 %r1, %tid.x;\n"
                          "    setp.ge.u32 %p, %r1, %r0;\n"
                          "    @%p ret;\n"
                          "    mul.wide.u32 %rd1, %r1, 4;\n"
                          "    add.u64 %rd0, %rd0, %rd1;\n"
                          "    ld.global.u32 %r2, [%rd0];\n"
                          "    mul.lo.u32 %r2, %r2, %r2;\n"
                          "    st.global.u32 [%rd0], %r2;\n"
                          "    ret;\n"
                          "}\n";

static inline CUresult launch(CUfunction function, CUstream stream, CUdeviceptr values, unsigned n)
{
    void *parameters[] = {&values, &n};
    return cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL);
}

#endif
