"""Checks packed sequences whose K and V have other lengths than Q, padded batches and boolean masks in PyTorch on a machine with a
GPU, in under two minutes:

    python lengths.py --out FOLDER

Needs fa512 and PyTorch 2.11. Prints a line per section; FOLDER/lengths.json has everything. `--dry-run` runs on a machine without a
GPU whatever can run there, with PyTorch's arithmetic in place of the kernels.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import fa512
import fa512.torch
from common import TYPES, device, inputs, require, require_close, run_of
from keys import ALIGNMENTS, LIMITS, compare_gradients, compare_results, make, reference
from packed import cu_seqlens

# More keys than queries, fewer, none, and no queries.
PACKED = [([17, 0, 100, 1, 200, 30], [40, 9, 100, 130, 70, 0])]
LARGE_PACKED = [([512, 1, 700, 64], [300, 2048, 700, 0])]
# Rows, keys, and how many of each are used.
PADDED = [(100, 150, [100, 0, 33, 64], [150, 70, 0, 20])]
LARGE_PADDED = [(512, 1024, [512, 100, 300], [512, 1000, 1024])]
HEADS, SHARED = 8, 2


def packed_cases(run):
    for queries, keys in PACKED if run.dry else PACKED + LARGE_PACKED:
        shapes = [(sum(queries), HEADS, 64), *[(sum(keys), SHARED, 64)] * 2]
        place = device(run.dry)
        lengths = {"cu_seqlens_k": cu_seqlens(keys, place), "max_seqlen_k": max(keys)}
        positional = (cu_seqlens(queries, place), max(queries))
        yield f"packed {queries} of {keys}", shapes, lambda x: packed_reference(x, queries, keys), (positional, lengths)


def padded_cases(run):
    for rows, keys, used_q, used_k in PADDED if run.dry else PADDED + LARGE_PADDED:
        shapes = [(len(used_q), rows, HEADS, 64), *[(len(used_q), keys, SHARED, 64)] * 2]
        given = {"seqused_q": used_q, "seqused_k": used_k}
        lengths = {name: torch.tensor(of, dtype=torch.int32, device=device(run.dry)) for name, of in given.items()}
        yield f"padded {used_q} of {used_k}", shapes, lambda x: padded_reference(x, used_q, used_k), ((), lengths)


def limits():
    for causal, window in LIMITS:
        for align in ALIGNMENTS:
            yield {"causal": causal, "window": window, "align": align}


def attend(one, causal=False, window=(None, None), align="top-left"):
    """O [rows, heads, 64] and LSE [heads, rows] of a sequence in f64; zeros and -inf for queries without keys."""
    q, k, v = one
    if len(k) == 0:
        return q.double() * 0, q.new_full((q.shape[1], q.shape[0]), -torch.inf).double()
    out, lse = reference(*(x.transpose(0, 1)[None] for x in one), causal, window, align)
    return out[0].transpose(0, 1), lse[0]


def packed_reference(tensors, queries, keys):
    q, k, v = tensors
    return zip(q.split(queries), k.split(keys), v.split(keys)), lambda outs, lses: (torch.cat(outs), torch.cat(lses, 1))


def padded_reference(tensors, used_q, used_k):
    q, k, v = tensors
    rows = q.shape[1]

    def whole(outs, lses):
        pad = torch.nn.functional.pad
        padded = [pad(out, (0, 0, 0, 0, 0, rows - len(out))) for out in outs]
        return torch.stack(padded), torch.stack([pad(lse, (0, rows - lse.shape[1]), value=-torch.inf) for lse in lses])

    return [(q[at, :m], k[at, :n], v[at, :n]) for at, (m, n) in enumerate(zip(used_q, used_k))], whole


def exactly(split, options):
    """The sequences of `split`, computed in f64 and concatenated."""
    sequences, whole = split
    results = [attend(one, **options) for one in sequences]
    return whole([out for out, _ in results], [lse for _, lse in results])


def calls(run):
    for case in packed_cases(run):
        yield fa512.torch.attention_varlen, *case
    for case in padded_cases(run):
        yield fa512.torch.attention_padded, *case


def results(run):
    """O and LSE against f64, with both alignments."""
    worst = {}
    run.found = {"largest_difference": worst}
    for call, name, shapes, split, (positional, lengths) in calls(run):
        for dtype in TYPES:
            for options in limits():
                tensors = make(shapes, device(run.dry), dtype)
                ours = call(*tensors, *positional, **lengths, **options, return_lse=True)
                compare_results(f"{name}, {dtype}, {options}", dtype, ours, exactly(split(tensors), options), worst)
    return {"largest_difference": worst}


def gradients(run):
    """Gradients against f64; unused rows have none, and none is NaN."""
    found = {}
    run.found = {"largest_difference": found}
    for call, name, shapes, split, (positional, lengths) in calls(run):
        for dtype in TYPES:
            for options in limits():
                is_limited = options["causal"] or options["window"] != (None, None)
                if is_limited and options["align"] == "top-left":
                    continue
                tensors = make(shapes, device(run.dry), dtype, requires_grad=True)
                ours = lambda x: call(*x, *positional, **lengths, **options)
                what = f"{name} {dtype} {options}"
                found.update(compare_gradients(what, dtype, tensors, ours, lambda x: exactly(split(x), options)[0]))
    return {"largest_difference": found}


def beside_flash_attention(run):
    """flash_attn_varlen_func against PyTorch's FlashAttention-2 with the same lengths, gradients too; LSE of rows without keys differs."""
    worst = 0.0
    for name, shapes, _, ((queries, longest), lengths) in packed_cases(run):
        keys, longest_k = lengths["cu_seqlens_k"], lengths["max_seqlen_k"]
        for causal in (False, True):
            tensors = make(shapes, "cuda", requires_grad=True)
            upstream = make(shapes[:1], "cuda", seed=9)[0]
            ours = fa512.flash_attn_varlen_func(*tensors, queries, keys, longest, longest_k, causal=causal)
            own = torch.autograd.grad(ours, tensors, upstream)
            sizes = (queries, keys, longest, longest_k)
            theirs = torch.ops.aten._flash_attention_forward(*tensors, *sizes, 0.0, causal, False)[0]
            other = torch.autograd.grad(theirs, tensors, upstream)
            for what, first, second in zip(("o", "dq", "dk", "dv"), (ours, *own), (theirs, *other)):
                worst = max(worst, require_close(first, second, f"{what} of {name}, causal {causal}", 4e-2, 2e-2))
    return {"largest_difference": worst}


def masks(run):
    """Boolean masks against PyTorch's math backend; its backends differ for a query that sees no key."""
    q, k, v = inputs((2, 4, 130, 64), device(run.dry))
    seen = torch.rand(2, 1, 130, 130, generator=torch.Generator().manual_seed(1)).to(q.device) > 0.4
    padding = torch.arange(130, device=q.device) < torch.tensor([130, 70], device=q.device)[:, None, None, None]
    blind = seen.clone()
    blind[:, :, 5] = False
    worst = 0.0
    for what, mask in {"random": seen, "padding": padding, "a blind query": blind, "of columns": seen.transpose(2, 3)}.items():
        with sdpa_kernel(SDPBackend.MATH):
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = fa512.scaled_dot_product_attention(q, k, v, mask)
        worst = max(worst, require_close(out, expected, what, 4e-3, 2e-3))
    require(not fa512.scaled_dot_product_attention(q, k, v, blind)[:, :, 5].any(), "the blind query has zeros")
    return {"largest_difference": worst}


def opcheck(run):
    for call, _, shapes, _, (positional, lengths) in calls(run):
        name = call.__name__
        for requires_grad in (False, True):
            tensors = make(shapes, device(run.dry), requires_grad=requires_grad)
            options = {"is_causal": True, "align": "bottom-right", **lengths}
            for operator in (name, f"{name}_with_lse"):
                torch.library.opcheck(getattr(torch.ops.fa512, operator).default, (*tensors, *positional), options)


def compiled(run):
    """Compiles into one graph, without waiting for the lengths."""
    for call, name, shapes, _, (positional, lengths) in calls(run):

        def model(q, k, v, positional, lengths):
            return call(q * 2, k, v, *positional, **lengths, causal=True, align="bottom-right").flatten(1)

        tensors = make(shapes, device(run.dry))
        for mode in ["default"] if run.dry else ["default", "reduce-overhead"]:
            torch._dynamo.reset()
            backend = {"backend": "aot_eager"} if run.dry else {"mode": mode}
            function = torch.compile(model, fullgraph=True, **backend)
            for _ in range(3):
                out = function(*tensors, positional, lengths)
                require_close(out, model(*tensors, positional, lengths), f"{name}, {mode}", 0, 0)


def graphs(run):
    """A captured call reads the lengths anew on replay."""
    tensors = make([(3, 100, 4, 64), *[(3, 140, 2, 64)] * 2], "cuda")
    lengths = [torch.tensor(of, dtype=torch.int32, device="cuda") for of in ([100, 50, 7], [140, 3, 60])]
    fa512.warm_up(3, 4, 100, kv_heads=2, kv_sequence=140, lengths="padded")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.ops.fa512.attention_padded(*tensors, *lengths)
    for used_q, used_k in (([100, 50, 7], [140, 3, 60]), ([1, 0, 99], [0, 140, 139])):
        for length, numbers in zip(lengths, (used_q, used_k)):
            length.copy_(torch.tensor(numbers, dtype=torch.int32))
        graph.replay()
        torch.cuda.synchronize()
        require_close(out, exactly(padded_reference(tensors, used_q, used_k), {})[0], f"replayed with {used_q}, {used_k}")


def lengths_that_are_none(run):
    """With garbage lengths, the call returns, with finite results."""
    wild = [[0, 2**31 - 1, -(2**31), 7], [10**6, 2 * 10**6, 5, 5], [90, 60, 30, 0], [0, -5, 80, 1000]]
    q, k = inputs((90, 2, 64), "cuda")[0], inputs((70, 2, 64), "cuda")[0]
    for queries in wild:
        for keys in wild:
            first, second = (torch.tensor(numbers, dtype=torch.int32, device="cuda") for numbers in (queries, keys))
            fa512.attention_varlen(q, k, k, first, cu_seqlens_k=second, seqused_k=second[:3], causal=True, align="bottom-right")
            batch = q[:88].view(4, 22, 2, 64), k[:68].view(4, 17, 2, 64)
            out = fa512.torch.attention_padded(batch[0], batch[1], batch[1], seqused_q=first, seqused_k=second)
            require(bool(out.isfinite().all()), f"{queries} of {keys}")
    torch.cuda.synchronize()


def unused(run):
    """NaN in unused rows changes no bit of results or gradients."""
    for name, shapes, _, (_, lengths) in padded_cases(run):
        found = []
        for garbage in (0.0, torch.nan):
            tensors = make(shapes, device(run.dry))
            for tensor, used in zip(tensors, (lengths["seqused_q"], lengths["seqused_k"], lengths["seqused_k"])):
                rows = torch.arange(tensor.shape[1], device=tensor.device)
                tensor.masked_fill_((rows >= used[:, None])[..., None, None], garbage)
            tensors = [tensor.requires_grad_() for tensor in tensors]
            out = fa512.torch.attention_padded(*tensors, **lengths, causal=True, align="bottom-right")
            found.append((out, *torch.autograd.grad(out, tensors, torch.ones_like(out))))
        # The order in which PyTorch adds up dQ is not fixed.
        for what, first, second in zip(("o", "dq", "dk", "dv"), *found):
            require_close(first, second, f"{what} of {name}", 1e-3 if what == "dq" else 0, 1e-3 if what == "dq" else 0)


def main():
    run = run_of(__doc__, 110)
    if run.dry:
        import cpu

        cpu.install()
    for function in (results, gradients, masks, opcheck, compiled, unused):
        run.section(function)
    for function in (beside_flash_attention, graphs, lengths_that_are_none):
        run.section(function, needs_gpu=True)
    return run.close(run.write("lengths.json"))


if __name__ == "__main__":
    raise SystemExit(main())
