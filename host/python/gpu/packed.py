"""Checks and times packed sequences in PyTorch on a machine with an H100 or H200, in under seven minutes:

    python packed.py --out FOLDER

Needs fa512, PyTorch 2.11 and transformers. Prints a line per section, then the times; FOLDER/packed.json has everything. `--dry-run`
runs on a machine without a GPU whatever can run there, with PyTorch's arithmetic in place of the kernels.
"""

import itertools
import random
import statistics

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import fa512
import fa512.torch
from common import TYPES, device, gpu_milliseconds, inputs, reference, require, require_close, require_close_lse, run_of
from encoders import encoder, packed_by_fa2

OPERATOR = torch.ops.fa512.attention_varlen.default


def uniform(seed, sequences, least, most):
    draw = random.Random(seed)
    return [draw.randint(least, most) for _ in range(sequences)]


def log_normal(seed, sequences, mean=4.6, deviation=0.8, after=0):
    """Text lengths, at most 512; those behind the first `after` of the seed."""
    draw = random.Random(seed)
    lengths = [min(512, max(4, int(draw.lognormvariate(mean, deviation)))) for _ in range(after + sequences)]
    return lengths[after:]


WORK = {
    "64 of 32 to 512, 12 heads": (12, uniform(1, 64, 32, 512)),
    "256 of 8 to 128, 12 heads": (12, uniform(1, 256, 8, 128)),
    "64 of 512, 12 heads": (12, [512] * 64),
    "64 of 384 to 512, 16 heads": (16, uniform(1, 64, 384, 512)),
    "64 texts, 12 heads": (12, log_normal(3, 64)),
    "256 texts, 12 heads": (12, log_normal(3, 256, after=64)),
    "1 of 512, 12 heads": (12, [512]),
    "2048 of 1 to 32, 8 heads": (8, uniform(6, 2048, 1, 32)),
    "8 of 1024 to 4096, 8 heads": (8, uniform(7, 8, 1024, 4096)),
    "64 of 0 to 512, 7 heads": (7, [0, *uniform(9, 62, 1, 512), 0]),
}


# Element types and head dimensions that are timed.
TIMED = [(torch.float16, 64), (torch.bfloat16, 64), *((torch.float16, columns) for columns in (128, 96, 32))]


def cu_seqlens(lengths, place):
    return functional.pad(torch.tensor(lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32), (1, 0)).to(place)


def by_sequence(tensors, lengths, causal=False):
    """Attention and LSE of each sequence, in f64."""
    parts = [tensor.split(lengths) for tensor in tensors]
    results = [reference(*(x.transpose(0, 1)[None] for x in one), causal) for one in zip(*parts)]
    return torch.cat([out[0].transpose(0, 1) for out, _ in results]), torch.cat([lse[0] for _, lse in results], dim=1)


def fa2(q, k, v, lengths, longest, causal):
    return torch.ops.aten._flash_attention_forward(q, k, v, lengths, lengths, longest, longest, 0.0, causal, False)


def results(run):
    """Against f64: lengths, masks, views, LSE, element types."""
    place, worst = device(run.dry), {}
    run.found = {"largest_difference": worst}
    for lengths in ([5], [3, 0, 1, 64], [64, 65, 127, 1], uniform(8, 40, 1, 90), [130, 512]):
        rows, one = sum(lengths), cu_seqlens(lengths, place)
        for dtype, coarseness in TYPES.items():
            fused, odd = inputs((rows, 3, 4, 64), place, dtype=dtype)[0], inputs((rows, 2, 3, 64), place, dtype=dtype)
            views = [fused[:, part] for part in range(3)], [tensor[:, 1] for tensor in odd]
            whole = (inputs((rows, heads, 64), place, dtype=dtype) for heads in (4, 1))
            for tensors in (*whole, *views):
                for causal in (False, True):
                    what = f"{lengths}, {dtype}, causal {causal}"
                    expected, expected_lse = by_sequence(tensors, lengths, causal)
                    out, lse = fa512.torch.attention_varlen(*tensors, one, max(lengths), causal=causal, return_lse=True)
                    found = require_close(out, expected, what, 2e-3 * coarseness, 1e-3 * coarseness)
                    worst[str(dtype)] = max(found, worst.get(str(dtype), 0))
                    require_close_lse(lse, expected_lse, what, dtype)
                    again = fa512.flash_attn_varlen_func(*tensors, one, one, max(lengths), max(lengths), causal=causal)
                    require(torch.equal(out, again), "flash_attn_varlen_func")
    return {"largest_difference": worst}


def lengths_that_are_none(run):
    """With garbage lengths, the call returns, and rows that belong to no sequence become zeros."""
    q, k, v = inputs((90, 2, 64), "cuda")
    for numbers in ([0, 2**31 - 1, -(2**31), 7], [10**6, 2 * 10**6], [90, 60, 30, 0], [0, -5, 80, 1000], [0, 20, 10, 30]):
        fa512.attention_varlen(q, k, v, torch.tensor(numbers, dtype=torch.int32, device="cuda"))
        torch.cuda.synchronize()
    out = torch.full_like(q, 7.0)
    fa512.attention_varlen(q, k, v, torch.tensor([20, 30, 70], dtype=torch.int32, device="cuda"), out=out)
    require((out[:20] == 0).all() and (out[70:] == 0).all(), "rows of no sequence are not zeros")


def neighbours(run):
    """NaN and infinity in all other sequences change no bit of a sequence's result."""
    lengths = [70, 3, 129, 64]
    one = cu_seqlens(lengths, "cuda")
    for causal in (False, True):
        tensors = inputs((sum(lengths), 4, 64), "cuda")
        clean = fa512.attention_varlen(*tensors, one, causal=causal)
        for tensor in tensors:
            tensor[:73] = float("nan")
            tensor[202:] = float("inf")
        spoilt = fa512.attention_varlen(*tensors, one, causal=causal)
        require(torch.equal(clean[73:202], spoilt[73:202]), f"causal {causal}")


def gradient_errors(dtype, lengths, causal, dry):
    """Errors of dQ, dK, dV against f64, and those of FlashAttention-2 on its own forward (on a GPU)."""
    place, longest = device(dry), max(lengths)
    rows, one = sum(lengths), cu_seqlens(lengths, place)
    tensors = inputs((rows, 4, 64), place, dtype=dtype, requires_grad=True)
    upstream = inputs((rows, 4, 64), place, 9, dtype)[0]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    wanted = torch.autograd.grad(by_sequence(exact, lengths, causal)[0], exact, upstream.double())
    own = torch.autograd.grad(fa512.torch.attention_varlen(*tensors, one, longest, causal=causal), tensors, upstream)
    theirs = [right + 0.01 for right in wanted]
    if not dry:
        out, lse, *_ = fa2(*tensors, one, longest, causal)
        require(lse.shape == (4, rows), f"FlashAttention-2's LSE has the shape {list(lse.shape)}")
        theirs = torch.autograd.grad(out, tensors, upstream)
    for name, gradient, other, right in zip("qkv", own, theirs, wanted):
        yield name, *((x.double() - right).abs().max().item() for x in (gradient, other))


def gradients(run):
    """Errors against f64, beside those of FlashAttention-2 on its own forward, whose LSE has the same layout."""
    found = {}
    run.found = {"largest_difference": found}
    for lengths, causal in [([17, 100], False), ([17, 100, 1], True)] + ([] if run.dry else [([512, 200, 380], False)]):
        for dtype, coarseness in TYPES.items():
            for name, error, other in gradient_errors(dtype, lengths, causal, run.dry):
                what, limit = f"d{name} {lengths} {dtype} causal {causal}", 2 * other + 1e-3 * coarseness
                found[what] = {"fa512": error, "limit": limit}
                require(error <= limit, f"{what}: {error:.3g}; limit {limit:.3g}")
    return {"largest_difference": found}


def opcheck(run):
    for requires_grad in (False, True):
        tensors = inputs((48, 2, 64), device(run.dry), requires_grad=requires_grad)
        arguments = (*tensors, cu_seqlens([20, 28], device(run.dry)), 28, True, 0.1)
        torch.library.opcheck(OPERATOR, arguments)
        torch.library.opcheck(torch.ops.fa512.attention_varlen_with_lse.default, arguments)


def graphs(run):
    """A captured call reads the lengths anew on replay."""
    q, k, v = inputs((300, 4, 64), "cuda")
    lengths = cu_seqlens([100, 50, 150], "cuda")
    fa512.warm_up(1, 4, 300, sequences=3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPERATOR(q, k, v, lengths, 300, False, None)
    for numbers in ([100, 50, 150], [1, 298, 1], [300, 0, 0]):
        lengths.copy_(cu_seqlens(numbers, "cuda"))
        graph.replay()
        torch.cuda.synchronize()
        require_close(out, by_sequence((q, k, v), numbers)[0], f"replayed with {numbers}")


def compiled(run):
    def model(q, k, v, lengths):
        return fa512.torch.attention_varlen(q * 2, k, v, lengths, 100, causal=True).flatten(1)

    place = device(run.dry)
    tensors, lengths = inputs((200, 4, 64), place), cu_seqlens([100, 40, 60], place)
    for mode in ["default"] if run.dry else ["default", "reduce-overhead"]:
        torch._dynamo.reset()
        backend = {"backend": "aot_eager"} if run.dry else {"mode": mode}
        function = torch.compile(model, fullgraph=True, **backend)
        for _ in range(3):
            require_close(function(*tensors, lengths), model(*tensors, lengths), mode, 0, 0)


class Contender:
    """Calls on enough sets of inputs that none stays in the L2 cache, in one CUDA graph."""

    def __init__(self, call, sets):
        self.calls = len(sets)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            call(*sets[0])
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for tensors in sets:
                call(*tensors)

    def microseconds(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / self.calls


def contenders(heads, columns, lengths, causal, dtype):
    rows, one, longest = sum(lengths), cu_seqlens(lengths, "cuda"), max(lengths)
    bytes_of_a_set = 4 * rows * heads * columns * 2
    sets = [inputs((rows, heads, columns), "cuda", seed, dtype) for seed in range(max(2, 160_000_000 // bytes_of_a_set + 1))]
    expected, limits = fa2(*sets[0], one, longest, causal)[0], (4e-3 * TYPES[dtype], 2e-3 * TYPES[dtype])
    require_close(OPERATOR(*sets[0], one, longest, causal, None), expected, "beside FlashAttention-2", *limits)
    made = {
        "fa512": Contender(lambda q, k, v: OPERATOR(q, k, v, one, longest, causal, None), sets),
        "FA2": Contender(lambda q, k, v: fa2(q, k, v, one, longest, causal), sets),
    }
    bytes_of_a_set = 4 * len(lengths) * longest * heads * columns * 2
    count = max(2, 160_000_000 // bytes_of_a_set + 1)
    padded = [inputs((len(lengths), heads, longest, columns), "cuda", seed, dtype) for seed in range(count)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        made["cuDNN, padded"] = Contender(
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal), padded
        )
    return made


def interval(ratios, seed=0):
    """95 % interval of the median ratio, by bootstrap."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(400))
    return [medians[10], medians[389]]


def times(run):
    """µs per call, medians of interleaved turns, and the ratio ours/theirs per turn, with 95 % intervals."""
    rows = []
    run.found = {"rows": rows}
    for (dtype, columns), (name, (heads, lengths)), causal in itertools.product(TIMED, WORK.items(), (False, True)):
        if run.left() < 15:
            break
        made = contenders(heads, columns, lengths, causal, dtype)
        for _ in range(5):
            for contender in made.values():
                contender.microseconds()
        turns = [{what: contender.microseconds() for what, contender in made.items()} for _ in range(60)]
        row = {"work": name, "element": str(dtype), "head_dim": columns, "rows": sum(lengths), "causal": causal}
        row["us"] = {what: statistics.median(turn[what] for turn in turns) for what in made}
        row["ratio"] = {}
        for what in ("FA2", "cuDNN, padded"):
            ratios = [turn["fa512"] / turn[what] for turn in turns]
            row["ratio"][what] = [statistics.median(ratios), *interval(ratios)]
        rows.append(row)
        del made
        torch.cuda.empty_cache()
    return {"rows": rows}


def encoders(run):
    """BERT-base and an encoder of MiniLM's size on 64 texts: padded and packed, ours and PyTorch's, model time in ms."""
    from transformers import AttentionInterface

    AttentionInterface.register("fa2_packed", packed_by_fa2)
    place, found = device(run.dry), {}
    run.found = {"milliseconds": found}
    lengths = log_normal(3, 2 if run.dry else 64)
    one, longest, rows = cu_seqlens(lengths, place), max(lengths), sum(lengths)
    mask = torch.arange(longest, device=place)[None, :] < torch.tensor(lengths, device=place)[:, None]
    ids = torch.randint(5, 1000, mask.shape, device=place) * mask
    flat = {
        "input_ids": ids[mask][None],
        "position_ids": torch.cat([torch.arange(length, device=place) for length in lengths])[None],
    }
    sequences = {"cu_seq_lens_q": one, "cu_seq_lens_k": one, "max_length_q": longest, "max_length_k": longest}
    for name, (hidden, heads, layers) in {"BERT-base": (768, 12, 12), "MiniLM's size, 6 heads of 64": (384, 6, 6)}.items():
        sizes = (hidden, heads, 1 if run.dry else layers)
        made = {what: encoder(what, *sizes, place) for what in ("fa512_flash", "sdpa", "fa2_packed")}
        calls = {
            "fa512, packed": lambda: made["fa512_flash"](**flat, **sequences).last_hidden_state[0],
            "fa512, padded": lambda: made["fa512_flash"](ids, attention_mask=mask.long()).last_hidden_state,
            "SDPA, padded": lambda: made["sdpa"](ids, attention_mask=mask.long()).last_hidden_state,
            "FA2, packed": lambda: made["fa2_packed"](**flat, **sequences).last_hidden_state[0],
        }
        with torch.inference_mode():
            outputs = {what: call() for what, call in calls.items()}
            expected = outputs["SDPA, padded"][mask].float()
            for what, out in outputs.items():
                out = out if out.dim() == 2 else out[mask]
                require_close(out.float(), expected, f"{name}, {what}", 6e-2, 6e-2)
            found[name] = gpu_milliseconds(calls, 3.0, run.dry)
    return {"milliseconds": found, "lengths": lengths, "rows": rows, "padded_rows": mask.numel()}


def main():
    run = run_of(__doc__, 400)
    if run.dry:
        import cpu

        cpu.install()
        fa512.torch.why_not_here, fa512.torch.why_not_varlen_here = fa512.torch.why_not, fa512.torch.why_not_varlen
    for function in (results, gradients, opcheck, compiled):
        run.section(function)
    for function in (lengths_that_are_none, neighbours, graphs):
        run.section(function, needs_gpu=True)
    run.section(encoders)
    run.section(times, needs_gpu=True)
    for row in run.records.get("times", {}).get("rows", []):
        figures = ", ".join(f"{what} {time:.1f}" for what, time in row["us"].items())
        ratios = ", ".join(f"/ {what} {low[0]:.3f} ({low[1]:.3f} to {low[2]:.3f})" for what, low in row["ratio"].items())
        print(f"{row['work']:28} {row['element']:14} {row['head_dim']:3} {'causal' if row['causal'] else 'full':6} {figures}  {ratios}")
    for name, row in run.records.get("encoders", {}).get("milliseconds", {}).items():
        print(f"{name:28} " + ", ".join(f"{what} {time:.2f} ms" for what, time in row.items()))
    return run.close(run.write("packed.json"))


if __name__ == "__main__":
    raise SystemExit(main())
