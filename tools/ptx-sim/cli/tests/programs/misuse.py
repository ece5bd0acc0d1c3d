"""Calls the driver from Python, without any package: frees twice what `allocate` gave."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def allocate(size):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


assert cuda.cuInit(0) == 0
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
memory = allocate(64)
assert cuda.cuMemFree_v2(memory) == 0
cuda.cuMemFree_v2(memory)
allocate(128)
# As packages look for it that have linked with it; it is in the driver's file, which is loaded.
assert ctypes.CDLL("libnvJitLink.so.13", mode=4).nvJitLinkVersion
