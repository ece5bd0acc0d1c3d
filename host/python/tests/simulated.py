"""A machine without a GPU: the simulated driver, and arrays in its memory that speak each of the protocols.

`FA512_SIMULATED_DRIVER` names the shared library; its name for the linker is libcuda.so.1, so that whoever opens that gets this one.
"""

import ctypes
import os
import unittest

import numpy

DRIVER = os.environ.get("FA512_SIMULATED_DRIVER")
NO_DRIVER = "FA512_SIMULATED_DRIVER names no simulated driver"


def load():
    """The simulated driver with two GPUs of sm_90."""
    if DRIVER is None:
        raise unittest.SkipTest(NO_DRIVER)
    for name, value in {"GPUS": "2", "ARCH": "90", "MULTIPROCESSORS": "2", "THREADS": "1"}.items():
        os.environ[f"PTX_SIM_{name}"] = value
    driver = ctypes.CDLL(DRIVER)
    check(driver.cuInit(0))
    return driver


def check(code):
    if code != 0:
        raise RuntimeError(f"the simulated driver returned {code}")


class Machine:
    """Contexts and memory."""

    def __init__(self):
        self.driver = load()
        self.contexts = [self._context(gpu) for gpu in range(2)]

    def _context(self, gpu):
        context = ctypes.c_void_p()
        check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu))
        return context

    def use(self, gpu):
        check(self.driver.cuCtxSetCurrent(self.contexts[gpu]))

    def use_none(self):
        check(self.driver.cuCtxSetCurrent(None))

    def stream(self):
        stream = ctypes.c_void_p()
        check(self.driver.cuStreamCreate(ctypes.byref(stream), 1))
        return stream.value

    def array(self, values, kind=None, gpu=0, **more):
        """`values` on a GPU, in the strides that they have."""
        return (kind or Interface)(self, values, gpu, **more)


class Base:
    """Elements on a GPU. The address is that of the first one of `values`, which may be a view of a larger array."""

    def __init__(self, machine, values, gpu, gap=0):
        self.machine, self.gpu, self.dtype, self.shape = machine, gpu, values.dtype, values.shape
        whole = values if values.base is None else _owner(values)
        self.strides = values.strides
        self.offset = values.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.bytes = whole.nbytes
        address = ctypes.c_uint64()
        machine.use(gpu)
        check(machine.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(self.bytes + gap)))
        self.base = address.value + gap
        flat = numpy.ascontiguousarray(whole)
        check(
            machine.driver.cuMemcpyHtoD_v2(
                ctypes.c_uint64(self.base), ctypes.c_void_p(flat.ctypes.data), ctypes.c_size_t(self.bytes)
            )
        )
        self.address = self.base + self.offset

    def numpy(self):
        """The elements, when all that was launched is done."""
        self.machine.use(self.gpu)
        check(self.machine.driver.cuCtxSynchronize())
        memory = numpy.empty(self.bytes, numpy.uint8)
        check(
            self.machine.driver.cuMemcpyDtoH_v2(
                ctypes.c_void_p(memory.ctypes.data), ctypes.c_uint64(self.base), ctypes.c_size_t(self.bytes)
            )
        )
        return numpy.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


def _owner(values):
    while values.base is not None:
        values = values.base
    return values


class Interface(Base):
    """By `__cuda_array_interface__`."""

    stream = None
    changes = {}

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "stream": self.stream,
            "version": 3,
            **self.changes,
        }


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


# A capsule points to its name, and does not copy it.
_NAME, _NAME_VERSIONED, _NAME_EXCHANGE = b"dltensor", b"dltensor_versioned", b"dlpack_exchange_api"


def _describe(array, tensor, kind):
    rank = len(array.shape)
    size = array.dtype.itemsize
    array.sizes = (ctypes.c_int64 * rank)(*array.shape)
    array.steps = (ctypes.c_int64 * rank)(*(stride // size for stride in array.strides))
    tensor.data, tensor.byte_offset = array.base, array.offset
    tensor.device = _Device(kind, array.gpu)
    tensor.rank, tensor.bits, tensor.lanes = rank, 8 * size, 1
    tensor.code = {"f": 2, "i": 0, "u": 1, "V": 4}[array.dtype.kind]
    tensor.shape, tensor.strides = array.sizes, array.steps


class Capsule(Base):
    """By `__dlpack__`."""

    device_kind = 2
    is_read_only = False
    versioned = False
    asked = "nothing"

    def __dlpack_device__(self):
        return (self.device_kind, self.gpu)

    def __dlpack__(self, stream=None):
        self.asked = stream
        if self.versioned:
            self.managed = _ManagedVersioned(1, 1)
            self.managed.flags = 1 if self.is_read_only else 0
        else:
            self.managed = _Managed()
        _describe(self, self.managed.tensor, self.device_kind)
        name = _NAME_VERSIONED if self.versioned else _NAME
        return _new_capsule(ctypes.addressof(self.managed), name, None)


class Versioned(Capsule):
    """By `__dlpack__`, with DLPack's newer struct."""

    versioned = True


_TensorOf = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
_CurrentStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from", ctypes.c_void_p),
        ("managed_to", ctypes.c_void_p),
        ("tensor_of", _TensorOf),
        ("current_stream", _CurrentStream),
    ]


@_TensorOf
def _tensor_of(array, tensor):
    _describe(array, tensor.contents, array.device_kind)
    return 0


@_CurrentStream
def _current_stream(_, gpu, stream):
    stream[0] = Exchanged.current.get(gpu)
    Exchanged.asked.append(gpu)
    return 0


_EXCHANGE = _Exchange(1, 3, None, None, None, None, _tensor_of, _current_stream)


class Exchanged(Base):
    """By DLPack's table of C functions, as PyTorch's tensors."""

    device_kind = 2
    current = {}
    asked = []
    __dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(_EXCHANGE), _NAME_EXCHANGE, None)


PROTOCOLS = [Interface, Capsule, Versioned, Exchanged]


BFLOAT16 = numpy.dtype("V2")
"""What NumPy calls the bfloat16 of ml_dtypes."""


def to_bfloat16(values):
    """The nearest bfloat16 of finite numbers, the even one of two."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16).view(BFLOAT16)


def from_bfloat16(values):
    return (values.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)


def reference(q, k, v, causal=False, scale=0.125, window=(None, None), first=0, softcap=None, slopes=None, bias=0):
    """Attention and LSE of [B, H, S, 64], in float64; the first query is at key `first`, and groups of heads share K and V. Slopes are
    [H] or [B, H]."""
    q, k, v = (x.astype(numpy.float64) for x in (q, k, v))
    k, v = (x.repeat(q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if softcap is not None:
        scores = softcap * numpy.tanh(scores / softcap)
    back = first + numpy.arange(q.shape[-2])[:, None] - numpy.arange(k.shape[-2])[None, :]
    if slopes is not None:
        scores = scores - slopes.astype(numpy.float64)[..., None, None] * numpy.abs(back)
    scores = scores + bias
    left, right = window
    for side, distance in zip((left, 0 if causal else right), (back, -back)):
        if side is not None:
            scores[..., distance > side] = -numpy.inf
    most = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - most)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, (most + numpy.log(total))[..., 0]
