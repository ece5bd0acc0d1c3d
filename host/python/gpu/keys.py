"""Checks fewer heads of K and V than of Q, and different numbers of keys, in PyTorch on a machine with a GPU, in under two minutes:

    python keys.py --out FOLDER

Needs fa512, PyTorch 2.11 and transformers. Prints a line per section; FOLDER/keys.json has everything. `--dry-run` runs on the CPU,
with PyTorch's arithmetic in place of the kernels.
"""

import torch

import fa512
import fa512.torch
from common import TYPES, device, require, require_close, require_close_lse, run_of
from packed import cu_seqlens

# Heads of Q and of K, queries and keys.
SIZES = [(4, 2, 100, 100), (6, 1, 70, 70), (4, 4, 70, 150), (8, 2, 70, 150), (8, 2, 150, 70), (4, 1, 1, 90)]
LARGE = [(32, 8, 1024, 1024), (32, 8, 128, 2048), (32, 8, 1, 4096), (16, 2, 2048, 512)]
LIMITS = [(False, (None, None)), (True, (None, None)), (True, (30, None)), (False, (20, 10)), (False, (None, 5))]
ALIGNMENTS = ("top-left", "bottom-right")
LENGTHS = [17, 0, 100, 1, 200]


def cases(dry):
    for dtype in TYPES:
        for sizes in SIZES if dry else SIZES + LARGE:
            for causal, window in LIMITS:
                for align in ALIGNMENTS:
                    yield dtype, sizes, causal, window, align


def make(shapes, place, dtype=torch.float16, requires_grad=False, seed=0):
    generator = torch.Generator(device=place).manual_seed(seed)
    return [torch.randn(shape, generator=generator, device=place, dtype=dtype).requires_grad_(requires_grad) for shape in shapes]


def shapes(heads, shared, queries, keys):
    return [(2, heads, queries, 64), *[(2, shared, keys, 64)] * 2]


def packed_shapes(heads=8, shared=2):
    return [(sum(LENGTHS), of, 64) for of in (heads, shared, shared)]


def reference(q, k, v, causal, window=(None, None), align="top-left"):
    """Attention and LSE of [B, H, S, 64] in f64; zeros and -inf for a query without keys."""
    q, k, v = q.double(), *(x.double().repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    queries, keys = q.shape[2], k.shape[2]
    first = keys - queries if align == "bottom-right" else 0
    back = first + torch.arange(queries, device=q.device)[:, None] - torch.arange(keys, device=q.device)[None, :]
    hidden = torch.zeros_like(back, dtype=torch.bool)
    for side, distance in ((window[0], back), (0 if causal else window[1], -back)):
        hidden |= distance > (queries + keys if side is None else side)
    scores = (q @ k.transpose(-1, -2) * 0.125).masked_fill(hidden, float("-inf"))
    # For a query without keys, the gradient of softmax would be NaN.
    blind = hidden.all(1)[:, None]
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0) @ v, scores.logsumexp(-1)


def by_sequence(tensors, causal):
    """Attention of each packed sequence, in f64."""
    parts = zip(*(tensor.split(LENGTHS) for tensor in tensors))
    return torch.cat([reference(*(x.transpose(0, 1)[None] for x in one), causal)[0][0].transpose(0, 1) for one in parts])


def compare_results(what, dtype, ours, exact, worst):
    """Compares O and LSE with f64; `worst` keeps the largest difference per type."""
    (out, lse), (expected, expected_lse), coarseness = ours, exact, TYPES[dtype]
    found = require_close(out, expected, what, 2e-3 * coarseness, 1e-3 * coarseness)
    worst[str(dtype)] = max(found, worst.get(str(dtype), 0))
    sees = expected_lse.isfinite()
    require(torch.equal(lse.isfinite(), sees), f"-inf in LSE of {what}")
    require_close_lse(lse[sees], expected_lse[sees], what, dtype)


def results(run):
    """O and LSE against f64, with both alignments."""
    worst = {}
    run.found = {"largest_difference": worst}
    for dtype, sizes, causal, window, align in cases(run.dry):
        what = f"{sizes}, {dtype}, causal {causal}, window {window}, {align}"
        tensors = make(shapes(*sizes), device(run.dry), dtype)
        ours = fa512.torch.attention(*tensors, causal=causal, window=window, align=align, return_lse=True)
        compare_results(what, dtype, ours, reference(*tensors, causal, window, align), worst)
    return {"largest_difference": worst}


def functions(run):
    """The functions with PyTorch's and flash-attn's signatures, and packed sequences."""
    place = device(run.dry)
    tensors = make(shapes(8, 2, 70, 150), place)
    swapped = [x.transpose(1, 2) for x in tensors]
    for causal in (False, True):
        out = fa512.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)
        require_close(out, reference(*tensors, causal)[0], f"scaled_dot_product_attention, causal {causal}")
        out = fa512.flash_attn_func(*swapped, causal=causal, window_size=(20, 10)).transpose(1, 2)
        require_close(out, reference(*tensors, causal, (20, 10), "bottom-right")[0], f"flash_attn_func, causal {causal}")
        rows, one = make(packed_shapes(), place), cu_seqlens(LENGTHS, place)
        out = fa512.flash_attn_varlen_func(*rows, one, one, max(LENGTHS), max(LENGTHS), causal=causal)
        require_close(out, by_sequence(rows, causal), f"flash_attn_varlen_func, causal {causal}")


def compare_gradients(what, dtype, tensors, ours, exactly):
    """Compares gradients with f64."""
    upstream = make([tensors[0].shape], tensors[0].device, dtype, seed=9)[0]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    wanted = torch.autograd.grad(exactly(exact), exact, upstream.double())
    found = {}
    for name, gradient, right in zip("qkv", torch.autograd.grad(ours(tensors), tensors, upstream), wanted):
        require(gradient.shape == right.shape, f"d{name} of {what} has the shape {list(gradient.shape)}")
        error, limit = (gradient.double() - right).norm().item(), 2e-3 * TYPES[dtype] * (1 + right.norm().item())
        found[f"d{name} {what}"] = {"error": error, "limit": limit}
        require(error <= limit, f"d{name} of {what}: {error:.3g}; limit {limit:.3g}")
    return found


def gradients(run):
    """Gradients of shared heads are summed."""
    found = {}
    run.found = {"largest_difference": found}
    for dtype, sizes, causal, window, align in cases(run.dry):
        what = f"{sizes} {dtype} causal {causal} window {window} {align}"
        tensors = make(shapes(*sizes), device(run.dry), dtype, requires_grad=True)
        options = {"causal": causal, "window": window, "align": align}
        ours, exactly = lambda x: fa512.torch.attention(*x, **options), lambda x: reference(*x, causal, window, align)[0]
        found.update(compare_gradients(what, dtype, tensors, ours, exactly))
    for dtype in TYPES:
        for causal in (False, True):
            tensors = make(packed_shapes(), device(run.dry), dtype, requires_grad=True)
            one = cu_seqlens(LENGTHS, tensors[0].device)
            ours = lambda x: fa512.torch.attention_varlen(*x, one, max(LENGTHS), causal=causal)
            what = f"packed {dtype} causal {causal}"
            found.update(compare_gradients(what, dtype, tensors, ours, lambda x: by_sequence(x, causal)))
    return {"largest_difference": found}


def decoder(run):
    """A model whose heads share K and V generates the same texts as with SDPA."""
    import fa512.transformers
    from transformers import MistralConfig, MistralForCausalLM

    fa512.transformers.register("fa512_flash_strict", strict=True)
    place = device(run.dry)
    ids = torch.randint(5, 50, (2, 12 if run.dry else 700), generator=torch.Generator().manual_seed(1)).to(place)
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 3}
    texts = []
    for attention in ("fa512_flash_strict", "sdpa"):
        torch.manual_seed(0)
        config = MistralConfig(**sizes, intermediate_size=64, vocab_size=50, sliding_window=None, initializer_range=0.1)
        model = MistralForCausalLM._from_config(config, attn_implementation=attention, dtype=torch.float16).eval().to(place)
        made = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
        texts.append(made[:, ids.shape[1] :].tolist())
    require(texts[0] == texts[1], f"the texts are {texts}")
    return {"texts": texts[0]}


def main():
    run = run_of(__doc__, 110)
    if run.dry:
        import cpu

        cpu.install()
        fa512.torch.why_not_here, fa512.torch.why_not_varlen_here = fa512.torch.why_not, fa512.torch.why_not_varlen
    for function in (results, functions, gradients, decoder):
        run.section(function)
    return run.close(run.write("keys.json"))


if __name__ == "__main__":
    raise SystemExit(main())
