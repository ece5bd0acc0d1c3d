"""Checks and times fa512's own backward on a machine with a GPU, in under five minutes:

    python backward.py --out FOLDER

Needs fa512 and PyTorch 2.11. Prints a line per section; FOLDER/backward.json has everything. `--dry-run` runs on the CPU, with PyTorch's
arithmetic in place of the kernels.
"""

import random

import torch

import fa512
import fa512.torch
from common import TYPES, device, gpu_milliseconds, inputs, require, run_of
from fa512.torch import _batched, _own_backward

import cpu  # Of the tests, which `common` finds.

# Batch, heads, rows, columns: those of whose times are required.
SHAPES = [(32, 8, 512, 64), (64, 12, 128, 64), (64, 12, 197, 64), (4, 8, 512, 64), (16, 16, 512, 128), (4, 16, 2048, 64), (2, 16, 4096, 128)]


def problems(dry, count):
    """Random problems: batch, heads, heads of K, rows, keys, columns, options."""
    draw = random.Random(0)
    for _ in range(count):
        heads_k, group = draw.choice([1, 2, 3]), draw.choice([1, 1, 2])
        rows = draw.randrange(1, 70 if dry else 700)
        keys = rows if draw.random() < 0.5 else draw.randrange(1, 70 if dry else 700)
        options = {"causal": draw.random() < 0.4, "align": draw.choice(["top-left", "bottom-right"])}
        if draw.random() < 0.3:
            options["window"] = (draw.choice([None, 0, 5, 64]), draw.choice([None, 0, 9, 64]))
        if draw.random() < 0.3:
            options["softcap"] = draw.choice([1.0, 20.0])
        yield draw.choice([1, 2]), heads_k * group, heads_k, rows, keys, 8 * draw.randrange(1, 17), options


def own(tensors, grad, out, lse, options):
    given = {"causal": False, "scale": None, "window": None, "align": "top-left", "softcap": None, **options}
    return _own_backward.of_batch(grad, *tensors, out, lse, alibi_slopes=None, bias=None, **given)


def exact(tensors, grad, options):
    """Gradients in f64."""
    window = options.get("window") or (None, None)
    order = (options["causal"], None, *window, options["align"], options.get("softcap"), None, None)
    return cpu.own_gradients(grad.double().cpu(), *(tensor.double().cpu() for tensor in tensors), *order)


def gradients(run):
    """Random problems against f64; where PyTorch's flash backward computes them, at most twice its error."""
    worst = run.found
    for number, (batch, heads, heads_k, rows, keys, columns, options) in enumerate(problems(run.dry, 20 if run.dry else 400)):
        for dtype in TYPES:
            place = device(run.dry)
            q, grad, _ = inputs((batch, heads, rows, columns), place, number, dtype)
            k, v, _ = inputs((batch, heads_k, keys, columns), place, number + 1, dtype)
            out, lse = fa512.torch.attention(q, k, v, return_lse=True, **options)
            found, right = own((q, k, v), grad, out, lse, options), exact((q, k, v), grad, options)
            arguments = (options["causal"], None, *(options.get("window") or (None, None)), options["align"])
            scores = (options.get("softcap"), None, None)
            peer = None
            if not run.dry and _batched._why_not_pytorch(q, k, arguments, scores) is None:
                peer = _batched._backward(grad, q, k, v, out, lse, None, None, *arguments)
            for index, name in enumerate(("dq", "dk", "dv")):
                error = (found[index].double().cpu() - right[index]).norm().item()
                limit = 2e-3 * TYPES[dtype] * (1 + right[index].norm().item())
                if peer is not None:
                    limit = min(limit, 1e-6 + 2 * (peer[index].double().cpu() - right[index]).norm().item())
                worst[name] = max(worst.get(name, 0), error / limit)
                require(error <= limit, f"{name} of {number}, {dtype}: {error:.3g}, limit {limit:.3g}; {rows} x {keys} x {columns} {options}")
    return worst


def same_bits(run):
    """A hundred calls give the same bits."""
    for shape in [(2, 3, 200, 64), (1, 2, 333, 128)]:
        q, k, v = inputs(shape, "cuda")
        out, lse = fa512.torch.attention(q, k, v, causal=True, return_lse=True)
        first = own((q, k, v), q, out, lse, {"causal": True})
        for _ in range(100):
            require(all(map(torch.equal, first, own((q, k, v), q, out, lse, {"causal": True}))), f"{shape}: other bits")


def times(run):
    """Beside PyTorch's flash backward and cuDNN's, in turns, µs."""
    aten, found = torch.ops.aten, run.found
    for shape in SHAPES:
        for causal in (False, True):
            q, k, v = inputs(shape, "cuda", dtype=torch.bfloat16)
            out, lse = fa512.torch.attention(q, k, v, causal=causal, return_lse=True)
            calls = {
                "fa512": lambda: own((q, k, v), q, out, lse, {"causal": causal}),
                "flash": lambda: _batched._backward(q, q, k, v, out, lse, None, None, causal),
            }
            made = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)
            of_cudnn = (made[0], made[1], made[6], made[7], None, None, None, q.shape[2], k.shape[2], 0.0, causal)
            calls["cudnn"] = lambda: aten._scaled_dot_product_cudnn_attention_backward(q, q, k, v, *of_cudnn)
            measured = {name: 1000 * time for name, time in gpu_milliseconds(calls, 4, False).items()}
            found[f"{shape}, causal {causal}"] = measured
            print(shape, causal, {name: round(time, 1) for name, time in measured.items()}, flush=True)
    return found


def main():
    run = run_of(__doc__, 280)
    if run.dry:
        cpu.install()
        _own_backward._native.attention_backward = cpu.native_backward
    run.section(gradients)
    run.section(same_bits, needs_gpu=True)
    run.section(times, needs_gpu=True)
    return run.close(run.write("backward.json"))


if __name__ == "__main__":
    raise SystemExit(main())
