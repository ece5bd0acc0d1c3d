"""Checks sliding windows in PyTorch on a machine with a GPU, in under two minutes:

    python windows.py --out FOLDER

Needs fa512, PyTorch 2.11 and transformers. Prints a line per section; FOLDER/windows.json has everything. `--dry-run` runs on the CPU,
with PyTorch's arithmetic in place of the kernels.
"""

import torch

import fa512
import fa512.torch
from common import TYPES, device, inputs, reference, require, require_close, require_close_lse, run_of
from packed import cu_seqlens

WINDOWS = [
    (False, (64, 64)),
    (False, (10, 2)),
    (False, (None, 9)),
    (False, (200, None)),
    (False, (0, 0)),
    (True, (128, None)),
    (True, (5, 7)),
]
LENGTHS = [17, 0, 100, 1, 200]


def cases(dry):
    for dtype in TYPES:
        for causal, window in WINDOWS:
            for lengths in ([300], [1], LENGTHS) if dry else ([300], [1], [512], [2048], LENGTHS, [130, 700, 64]):
                yield dtype, causal, window, lengths


def by_sequence(tensors, lengths, causal, window):
    """Attention and LSE of each sequence of [rows, heads, 64], in f64."""
    parts = [tensor.split(lengths) for tensor in tensors]
    results = [reference(*(x.transpose(0, 1)[None] for x in one), causal, 0.125, window) for one in zip(*parts)]
    return torch.cat([out[0].transpose(0, 1) for out, _ in results]), torch.cat([lse[0] for _, lse in results], dim=1)


def attend(tensors, lengths, causal, window, **more):
    """O of [rows, heads, 64] and, on request, LSE; one sequence is computed by the call for one length."""
    if len(lengths) > 1:
        one = cu_seqlens(lengths, tensors[0].device)
        return fa512.torch.attention_varlen(*tensors, one, max(lengths), causal=causal, window=window, **more)
    made = fa512.torch.attention(*(x.transpose(0, 1)[None] for x in tensors), causal=causal, window=window, **more)
    out, *lse = made if isinstance(made, tuple) else (made,)
    out = out[0].transpose(0, 1)
    return (out, lse[0][0]) if lse else out


def results(run):
    """O and LSE against f64, for one length and packed."""
    worst = {}
    run.found = {"largest_difference": worst}
    for dtype, causal, window, lengths in cases(run.dry):
        what, coarseness = f"{lengths}, {dtype}, causal {causal}, window {window}", TYPES[dtype]
        tensors = inputs((sum(lengths), 3, 64), device(run.dry), dtype=dtype)
        expected, expected_lse = by_sequence(tensors, lengths, causal, window)
        out, lse = attend(tensors, lengths, causal, window, return_lse=True)
        found = require_close(out, expected, what, 2e-3 * coarseness, 1e-3 * coarseness)
        worst[str(dtype)] = max(found, worst.get(str(dtype), 0))
        require_close_lse(lse, expected_lse, what, dtype)
    return {"largest_difference": worst}


def flash_attn(run):
    """The functions with flash-attn's signature agree."""
    sizes, place = (10, 2), device(run.dry)
    tensors, one = inputs((sum(LENGTHS), 3, 64), place), cu_seqlens(LENGTHS, place)
    longest = max(LENGTHS)
    out = fa512.flash_attn_varlen_func(*tensors, one, one, longest, longest, window_size=sizes)
    require(torch.equal(out, attend(tensors, LENGTHS, False, sizes)), "flash_attn_varlen_func")
    out = fa512.flash_attn_func(*(x[None] for x in tensors), window_size=sizes)[0]
    require(torch.equal(out, attend(tensors, [sum(LENGTHS)], False, sizes)), "flash_attn_func")


def outside(run):
    """NaN and infinity in keys outside a row's window do not affect it, nor do values in tiles that are in no row's window.

    Its bits may change: if one of 16 rows that are computed together is rescaled, all are.
    """
    for lengths in ([600], [300, 300]):
        tensors = inputs((600, 3, 64), "cuda")
        clean = attend(tensors, lengths, False, (20, 5))
        q, k, v = (x.clone() for x in tensors)
        k[:100], k[140:160], k[500:] = float("nan"), float("inf"), float("nan")
        # A masked value in a tile that is multiplied gives 0 · NaN.
        v[:64], v[560:] = float("nan"), float("inf")
        for spoilt, rows in (((q, k, tensors[2]), [(120, 135), (180, 495)]), ((q, tensors[1], v), [(256, 384)])):
            out = attend(spoilt, lengths, False, (20, 5))
            for begin, end in rows:
                require_close(out[begin:end], clean[begin:end], f"{lengths}, rows {begin} to {end}")


def gradients(run):
    """Gradients against f64; PyTorch's backward computes them in the inputs' type."""
    found = {}
    run.found = {"largest_difference": found}
    for dtype, causal, window, lengths in cases(run.dry):
        tensors = inputs((sum(lengths), 3, 64), device(run.dry), dtype=dtype, requires_grad=True)
        upstream = inputs((sum(lengths), 3, 64), device(run.dry), 9, dtype)[0]
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        wanted = torch.autograd.grad(by_sequence(exact, lengths, causal, window)[0], exact, upstream.double())
        own = torch.autograd.grad(attend(tensors, lengths, causal, window), tensors, upstream)
        for name, gradient, right in zip("qkv", own, wanted):
            what = f"d{name} {lengths} {dtype} causal {causal} window {window}"
            error, limit = (gradient.double() - right).norm().item(), 2e-3 * TYPES[dtype] * (1 + right.norm().item())
            found[what] = {"error": error, "limit": limit}
            require(error <= limit, f"{what}: {error:.3g}; limit {limit:.3g}")
    return {"largest_difference": found}


def encoder(run):
    """ModernBERT's layers on padded texts, against SDPA."""
    import fa512.transformers
    from transformers import ModernBertConfig, ModernBertModel

    fa512.transformers.register("fa512_flash_strict", strict=True)
    place, layers = device(run.dry), 3 if run.dry else 22
    lengths = [40, 200] if run.dry else [40, 1000, 200, 512, 7, 300]
    mask = torch.arange(max(lengths), device=place)[None, :] < torch.tensor(lengths, device=place)[:, None]
    ids = torch.randint(5, 1000, mask.shape, device=place) * mask
    outputs = []
    for attention in ("fa512_flash_strict", "sdpa"):
        torch.manual_seed(0)
        config = ModernBertConfig(num_hidden_layers=layers, initializer_range=0.05)
        model = ModernBertModel._from_config(config, attn_implementation=attention, dtype=torch.bfloat16).eval().to(place)
        with torch.inference_mode():
            outputs.append(model(ids, attention_mask=mask.long()).last_hidden_state[mask].double())
    own, sdpa = outputs
    error = ((own - sdpa).norm() / sdpa.norm()).item()
    require(error < 0.05, f"the relative difference from SDPA is {error:.3g}")
    return {"relative_difference": error}


def main():
    run = run_of(__doc__, 110)
    if run.dry:
        import cpu

        cpu.install()
        fa512.torch.why_not_here, fa512.torch.why_not_varlen_here = fa512.torch.why_not, fa512.torch.why_not_varlen
    for function in (results, flash_attn, gradients, encoder):
        run.section(function)
    run.section(outside, needs_gpu=True)
    return run.close(run.write("windows.json"))


if __name__ == "__main__":
    raise SystemExit(main())
