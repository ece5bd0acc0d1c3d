"""Kernels of numba: those that are right, or the one that the argument names."""

import sys
import warnings

import numpy as np
from numba import cuda, float32

warnings.simplefilter("ignore")


@cuda.jit(lineinfo=True)
def add(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + y[i]


@cuda.jit(lineinfo=True)
def total(x, out):
    tile = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    n = 64
    while n > 0:
        if t < n:
            tile[t] += tile[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


@cuda.jit(lineinfo=True)
def product(a, b, c):
    left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    sum = float32(0)
    for k in range(0, a.shape[1], 16):
        left[ty, tx], right[ty, tx] = a[y, k + tx], b[k + ty, x]
        cuda.syncthreads()
        for j in range(16):
            sum += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    c[y, x] = sum


@cuda.jit(lineinfo=True)
def without_a_guard(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


@cuda.jit(lineinfo=True)
def without_a_barrier(x, out):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[127 - t]


@cuda.jit(lineinfo=True)
def without_an_atomic(x, out):
    out[0] += x[cuda.grid(1)]


def right():
    rng = np.random.default_rng(0)
    x, y = (rng.random(1000, dtype=np.float32) for _ in range(2))
    out, sum = np.zeros_like(x), np.zeros(1, np.float32)
    add[8, 128](x, y, out)
    assert (out == x + y).all()
    total[8, 128](x, sum)
    np.testing.assert_allclose(sum[0], x.sum(), rtol=1e-5)
    a, b = (rng.random((32, 32), dtype=np.float32) for _ in range(2))
    c = cuda.device_array((32, 32), np.float32)
    product[(2, 2), (16, 16)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-5)


def streams(is_ordered):
    one, other, event = cuda.stream(), cuda.stream(), cuda.event()
    x = cuda.to_device(np.ones(1000, np.float32), stream=one)
    add[8, 128, one](x, x, x)
    event.record(one)
    if is_ordered:
        event.wait(other)
    add[8, 128, other](x, x, x)
    x.copy_to_host(stream=other)
    cuda.synchronize()


x = np.ones(128, np.float32)
match sys.argv[1]:
    case "right":
        right()
        streams(is_ordered=True)
    case "bounds":
        without_a_guard[1, 128](cuda.to_device(x), cuda.device_array(100, np.float32))
        cuda.synchronize()
    case "barrier":
        without_a_barrier[1, 128](x, np.zeros(128, np.float32))
    case "race":
        without_an_atomic[1, 128](x, np.zeros(1, np.float32))
    case "streams":
        streams(is_ordered=False)
