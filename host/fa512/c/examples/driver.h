/* The functions of the CUDA driver API that the examples call. Your program includes <cuda.h> instead. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

int cuInit(unsigned flags);
int cuDeviceGet(CUdevice *device, int ordinal);
int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
int cuCtxSetCurrent(CUcontext context);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamSynchronize(CUstream stream);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);
int cuMemcpyHtoD_v2(CUdeviceptr destination, const void *source, size_t bytes);
int cuMemcpyDtoH_v2(void *destination, CUdeviceptr source, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
