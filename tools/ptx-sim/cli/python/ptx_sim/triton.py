"""Launches Triton's kernels under `ptx-sim run` without PyTorch.

    import numpy, triton, triton.language as tl
    from ptx_sim.triton import Array

    x = Array(numpy.ones(1000, numpy.float32))
    kernel[(8,)](x, ...)
    print(x.numpy())

Importing it makes the simulated GPU the one that Triton compiles for and launches on. Programs that have PyTorch's tensors on a GPU
do not need it.
"""

import ctypes

import numpy
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher, CudaUtils
from triton.runtime.driver import driver

_cuda = ctypes.CDLL("libcuda.so.1")
# Those of numpy's types that Triton names otherwise than by its letter and bits.
_TYPES = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "i1"}
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_CAPABILITY = (75, 76)


def _check(code):
    if code:
        raise RuntimeError(f"the CUDA driver returns {code}; see what ptx-sim says")


def _capability():
    numbers = [ctypes.c_int() for _ in _CAPABILITY]
    for number, attribute in zip(numbers, _CAPABILITY):
        _check(_cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0))
    return tuple(number.value for number in numbers)


class _Simulated(CudaDriver):
    """The first GPU and its legacy default stream."""

    def __init__(self):
        self.utils = CudaUtils()
        self.launcher_cls = CudaLauncher
        self.get_current_device = lambda: 0
        self.set_current_device = lambda device: None
        self.get_current_stream = lambda device: 0
        self.get_device_capability = lambda device=0: _capability()

    def get_current_target(self):
        major, minor = _capability()
        return GPUTarget("cuda", 10 * major + minor, 32)


def _activate():
    context = ctypes.c_void_p()
    _check(_cuda.cuInit(0))
    _check(_cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    _check(_cuda.cuCtxSetCurrent(context))
    driver.set_active(_Simulated())


class Array:
    """Memory of the GPU with the shape and type of an array of numpy; `empty` ones were never written."""

    def __init__(self, values):
        values = numpy.ascontiguousarray(values)
        self._allocate(values.shape, values.dtype)
        _check(_cuda.cuMemcpyHtoD_v2(self._address, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)))

    @classmethod
    def empty(cls, shape, dtype):
        """One that nothing was written to."""
        array = cls.__new__(cls)
        array._allocate(tuple(shape), numpy.dtype(dtype))
        return array

    def _allocate(self, shape, dtype):
        self._address = ctypes.c_uint64()
        self.shape, self._numpy_type = shape, dtype
        self.dtype = _TYPES.get(dtype.name, f"{dtype.kind}{8 * dtype.itemsize}")
        size = int(numpy.prod(shape)) * dtype.itemsize
        _check(_cuda.cuMemAlloc_v2(ctypes.byref(self._address), ctypes.c_size_t(size)))

    def data_ptr(self):
        """Its address, as Triton asks for it."""
        return self._address.value

    def numpy(self):
        """A copy of it."""
        values = numpy.empty(self.shape, self._numpy_type)
        _check(_cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(values.ctypes.data), self._address, ctypes.c_size_t(values.nbytes)))
        return values

    def __del__(self):
        if getattr(self, "_address", None):
            _cuda.cuMemFree_v2(self._address)


_activate()
