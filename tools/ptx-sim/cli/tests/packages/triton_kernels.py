"""Kernels of Triton: those that are right, or the one that the argument names."""

import sys

import numpy as np
import triton
import triton.language as tl
from ptx_sim.triton import Array


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i, row = tl.arange(0, BLOCK), tl.program_id(0)
    value = tl.load(x + row * n + i, mask=i < n, other=float("-inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def product(a, b, c, K, BLOCK: tl.constexpr):
    r, m, n = tl.arange(0, BLOCK), tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    N = tl.num_programs(1) * BLOCK
    sum = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        left = tl.load(a + (m + r)[:, None] * K + (k + r)[None, :])
        right = tl.load(b + (k + r)[:, None] * N + (n + r)[None, :])
        sum = tl.dot(left, right, sum)
    tl.store(c + (m + r)[:, None] * N + (n + r)[None, :], sum)


@triton.jit
def without_a_mask(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def without_an_atomic(out):
    tl.store(out, tl.load(out) + tl.program_id(0))


def right():
    rng = np.random.default_rng(0)
    x, y = (rng.random(1000, dtype=np.float32) for _ in range(2))
    out = Array.empty(x.shape, x.dtype)
    add[(8,)](Array(x), Array(y), out, 1000, BLOCK=128)
    assert (out.numpy() == x + y).all()
    x = rng.random((5, 100), dtype=np.float32)
    out = Array.empty(x.shape, x.dtype)
    softmax[(5,)](Array(x), out, 100, BLOCK=128)
    np.testing.assert_allclose(out.numpy(), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    a, b = (rng.random((128, 128), dtype=np.float32).astype(np.float16) for _ in range(2))
    out = Array.empty(a.shape, np.float32)
    product[(2, 2)](Array(a), Array(b), out, 128, BLOCK=64)
    np.testing.assert_allclose(out.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3)


match sys.argv[1]:
    case "right":
        right()
    case "bounds":
        without_a_mask[(8,)](Array(np.ones(1000, np.float32)), Array.empty([1000], np.float32), BLOCK=128)
    case "race":
        without_an_atomic[(4,)](Array(np.zeros(1, np.int32)))
