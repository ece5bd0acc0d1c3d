"""Calls whose tensors have no memory before or behind them: a fault shows every byte that is touched there.

    python guarded.py

Each of Q, K, V lies at the beginning, then at the end, of a mapping of its own, between pages that are reserved and not mapped.
"""

import ctypes as c
import itertools
import random
import sys
import time

import torch

import fa512
import fa512.torch

MIB = 1 << 20
cuda = c.CDLL("libcuda.so.1")
torch.cuda.init()
torch.zeros(1, device="cuda")


def call(function, *arguments):
    code = getattr(cuda, function)(*arguments)
    if code:
        raise RuntimeError(f"{function}: {code}")


class Guarded:
    """2 MiB-granular memory between unmapped pages."""

    def __init__(self, size=16 * MIB):
        place, memory = c.c_uint64(), c.c_uint64()
        call("cuMemAddressReserve", c.byref(place), c.c_size_t(128 * MIB), c.c_size_t(0), c.c_uint64(0), c.c_uint64(0))
        prop = (c.c_int * 8)(1, 0, 1, 0, 0, 0, 0, 0)
        call("cuMemCreate", c.byref(memory), c.c_size_t(size), prop, c.c_uint64(0))
        self.at, self.size = place.value + 64 * MIB, size
        call("cuMemMap", c.c_uint64(self.at), c.c_size_t(size), c.c_size_t(0), memory, c.c_uint64(0))
        access = (c.c_int * 3)(1, 0, 3)
        call("cuMemSetAccess", c.c_uint64(self.at), c.c_size_t(size), access, c.c_size_t(1))

    def tensor(self, shape, dtype, at_end):
        """A tensor of this shape, [rows, heads, D] or [B, S, H, D], at one end of the memory."""
        count = 2
        for size in shape:
            count *= size
        assert count <= self.size
        address = self.at + (self.size - count if at_end else 0)
        view = {"shape": shape, "typestr": "<f2", "data": (address, False), "version": 3, "strides": None}
        return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": view})(), device="cuda").view(dtype)


def reference(q, k, v, causal, window):
    """[S, H, D] in f64."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], dim=0) for x in (k, v))
    back = torch.arange(q.shape[1], device="cuda")[:, None] - torch.arange(k.shape[1], device="cuda")[None, :]
    hidden = torch.zeros_like(back, dtype=torch.bool)
    for side, distance in ((window[0], back), (0 if causal else window[1], -back)):
        if side is not None:
            hidden |= distance > side
    scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1)


memory = [Guarded() for _ in range(3)]
LENGTHS = [[192, 558, 2, 1, 64, 2, 191, 67, 64, 63, 127], [1], [1, 1, 1], [17, 0, 100, 1, 200], [64, 128, 65], [700], [300, 0, 0, 1]]
done, worst = 0, 0.0
masks = [(False, (None, None)), (True, (None, None)), (False, (64, 64)), (True, (30, None))]
kinds = list(itertools.product(
    (False, True), (torch.float16, torch.bfloat16), ((8, 8), (8, 2), (1, 1)), (8, 32, 40, 64, 72, 80, 96, 128), masks
))
random.Random(1).shuffle(kinds)
end, seen = time.monotonic() + 55, 0
for at_end, dtype, (heads, shared), dim, (causal, window) in kinds:
    if time.monotonic() > end:
        break
    seen += 1
    for lengths in LENGTHS:
        what = f"packed {lengths} {dtype} {heads}/{shared} x {dim} causal {causal} window {window} at end {at_end}"
        rows = sum(lengths)
        q, k, v = (m.tensor((rows, h, dim), dtype, at_end).normal_() for m, h in zip(memory, (heads, shared, shared)))
        cu = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device="cuda")
        try:
            out = fa512.torch.attention_varlen(q, k, v, cu, max(lengths), causal=causal, window=window)
            torch.cuda.synchronize()
            parts = zip(*(x.split(lengths) for x in (q, k, v)))
            error = (out.double() - torch.cat([reference(*one, causal, window) for one in parts])).abs().max().item()
            assert error < (0.005 if dtype == torch.float16 else 0.04), f"error {error}"
        except BaseException as error:
            print(f"{done} calls right; then {what}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            sys.exit(1)
        done, worst = done + 1, max(worst, error)
    for queries, keys in ((1, 1), (1, 300), (100, 100), (300, 1), (257, 640), (512, 512)):
        if queries != keys and (causal or window != (None, None)) and dim % 64:
            continue
        what = f"one length {queries}/{keys} {dtype} {heads}/{shared} x {dim} causal {causal} window {window} at end {at_end}"
        sizes = ((queries, heads), (keys, shared), (keys, shared))
        q, k, v = (m.tensor((s, h, dim), dtype, at_end).normal_() for m, (s, h) in zip(memory, sizes))
        try:
            out = fa512.torch.attention(*(x.transpose(0, 1)[None] for x in (q, k, v)), causal=causal, window=window)
            torch.cuda.synchronize()
            error = (out[0].transpose(0, 1).double() - reference(q, k, v, causal, window)).abs().max().item()
            assert error < (0.005 if dtype == torch.float16 else 0.04), f"error {error}"
        except BaseException as error:
            print(f"{done} calls right; then {what}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            sys.exit(1)
        done, worst = done + 1, max(worst, error)
print(f"all {done} calls of {seen} of {len(kinds)} kinds right, largest error {worst:.3g}")
