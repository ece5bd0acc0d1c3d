"""Kernels by cuda.core, compiled by NVRTC: those that are right, or the one that the argument names."""

import ctypes
import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reverse(const float* x, float* y) {
    __shared__ float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[127 - threadIdx.x];
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
compiled = Program(SOURCE, "c++", options=ProgramOptions(arch="sm_90", lineinfo=True)).compile(
    "cubin" if sys.argv[1] == "cubin" else "ptx"
)
x = np.arange(1024, dtype=np.float32)
buffers = [device.allocate(x.nbytes, stream=stream) for _ in range(2)]
for buffer in buffers:
    driver.cuMemcpyHtoDAsync(int(buffer.handle), x.ctypes.data, x.nbytes, stream.handle)
if sys.argv[1] == "barrier":
    launch(stream, LaunchConfig(grid=1, block=128), compiled.get_kernel("reverse"), *buffers)
else:
    # As numba links.
    linked = compiled if sys.argv[1] == "cubin" else Linker(compiled, options=LinkerOptions(arch="sm_90")).link("cubin")
    count = 1100 if sys.argv[1] == "bounds" else 1000
    config = LaunchConfig(grid=9, block=128)
    launch(stream, config, linked.get_kernel("axpy"), ctypes.c_float(2), *buffers, ctypes.c_int(count))
out = np.zeros_like(x)
driver.cuMemcpyDtoHAsync(out.ctypes.data, int(buffers[1].handle), x.nbytes, stream.handle)
stream.sync()
if sys.argv[1] == "right":
    assert (out[:1000] == 3 * x[:1000]).all() and (out[1000:] == x[1000:]).all()
for buffer in buffers:
    buffer.close(stream)
