"""Checks and times fa512's own backward on a machine with a GPU, in under five minutes:

    python backward.py --out FOLDER

Needs fa512 and PyTorch 2.11. Prints a line per section; FOLDER/backward.json has everything. `--dry-run` runs on the CPU, with PyTorch's
arithmetic in place of the kernels.
"""

import functools
import math
import random
import statistics
import time

import torch

import fa512
import fa512.torch
from common import TYPES, device, inputs, require, run_of
from fa512 import _native
from fa512.torch import _batched, _own_backward, _packed

from packed import cu_seqlens, log_normal

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
        yield draw.choice([1, 2]), heads_k * group, heads_k, rows, keys, 8 * draw.randrange(1, 33), options


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
            arguments = (options["causal"], None, *(options.get("window") or (None, None)))
            scores = (options.get("softcap"), None, None)
            peer = None
            if not run.dry and _batched._can_pytorch(q, k, (*arguments, options["align"]), scores):
                peer = _batched.flash_backward(grad, q, k, v, out, lse, *arguments)
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
    for shape in [(2, 3, 200, 64), (1, 2, 333, 128), (1, 2, 200, 256), (9, 2, 2100, 64), (3, 8, 2100, 128)]:
        for options in ({"causal": True}, {"causal": False}):
            q, k, v = inputs(shape, "cuda")
            out, lse = fa512.torch.attention(q, k, v, return_lse=True, **options)
            first = own((q, k, v), q, out, lse, options)
            for _ in range(100):
                require(all(map(torch.equal, first, own((q, k, v), q, out, lse, options))), f"{shape} {options}: other bits")


def in_f64(grad, q, k, v, causal):
    """Gradients of Q, K and V of one length, which are f64."""
    tensors = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    scores = tensors[0] @ tensors[1].mT / q.shape[-1] ** 0.5
    scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).triu(1).bool(), float("-inf")) if causal else scores
    return torch.autograd.grad(scores.softmax(-1) @ tensors[2], tensors, grad)


def long_sequences(run):
    """Gradients that are summed in a workspace, against f64: at most twice the error of PyTorch's flash backward."""
    for shape, causal in [((9, 2, 2100, 64), True), ((9, 2, 2100, 64), False), ((3, 3, 2500, 72), True), ((9, 3, 2300, 128), True), ((6, 20, 1100, 128), False)]:
        for dtype in TYPES:
            (q, grad, _), (k, v, _) = (inputs(shape, "cuda", seed, dtype) for seed in (1, 2))
            out, lse = fa512.torch.attention(q, k, v, causal=causal, return_lse=True)
            found, peer = own((q, k, v), grad, out, lse, {"causal": causal}), _batched.flash_backward(grad, q, k, v, out, lse, causal)
            right = in_f64(*(tensor.double() for tensor in (grad, q, k, v)), causal)
            for name, one, other, exactly in zip(("dq", "dk", "dv"), found, peer, right):
                error, limit = ((gradient.double() - exactly).norm().item() for gradient in (one, other))
                run.found[name] = max(run.found.get(name, 0), error / limit)
                require(error <= 2 * limit, f"{name} of {shape}, causal {causal}, {dtype}: {error:.3g}, FlashAttention-2 {limit:.3g}")
    return run.found


def without_workspace(tensors, causal):
    grad, q, k, v, out, lse = tensors
    _native.attention_backward(grad, q, k, v, out, lse, *map(torch.empty_like, (q, k, v)), causal=causal)


def captured(call, sets):
    """A graph of a call of each set of tensors, which together do not fit into L2."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(*sets[0])
        call(*sets[0])
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for tensors in sets:
                call(*tensors)
    return graph


def sets_of(elements):
    """How many sets of so many elements a tensor do not fit into L2."""
    return max(2, min(12, -(-120_000_000 // (16 * elements))))


def sets_with(shape, dtype, attention):
    """Tensors of so many backward calls that they do not fit into L2 together: dO, Q, K, V, and O and LSE by `attention`."""
    sets = []
    for seed in range(sets_of(math.prod(shape))):
        q, k, v = inputs(shape, "cuda", seed, dtype)
        grad = inputs(shape, "cuda", seed + 100, dtype)[0]
        sets.append((grad, q, k, v, *attention(q, k, v, return_lse=True)))
    return sets


def medians(graphs, count, rounds):
    """Median of a call by each of the graphs, which make `count` of them, in turns, in µs."""
    samples = {name: [] for name in graphs}
    for _ in range(rounds):
        for name in random.sample(list(graphs), len(graphs)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            samples[name].append(1000 * begin.elapsed_time(end) / count)
    return {name: statistics.median(times[3:]) for name, times in samples.items()}


def microseconds(shape, causal, dtype, rounds=20):
    """Medians of a call by each of us, PyTorch's flash backward and cuDNN's, in turns, and the ratio of the best of the others to us."""
    aten = torch.ops.aten
    sets = sets_with(shape, dtype, functools.partial(fa512.torch.attention, causal=causal))

    def of_cudnn(grad, q, k, v, *_):
        made = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)
        rest = (made[0], made[1], made[6], made[7], None, None, None, q.shape[2], k.shape[2], 0.0, causal)
        return lambda: aten._scaled_dot_product_cudnn_attention_backward(grad, q, k, v, *rest)

    prepared = [of_cudnn(*tensors) for tensors in sets]
    graphs = {
        "fa512": captured(lambda grad, q, k, v, out, lse: own((q, k, v), grad, out, lse, {"causal": causal}), sets),
        "flash": captured(lambda grad, q, k, v, out, lse: _batched.flash_backward(grad, q, k, v, out, lse, causal), sets),
        "cudnn": captured(lambda call: call(), [(call,) for call in prepared]),
    }
    if shape[2] > 512:
        graphs["without a workspace"] = captured(lambda *tensors: without_workspace(tensors, causal), sets)
    found = medians(graphs, len(sets), rounds)
    return {**found, "ratio": min(found["flash"], found["cudnn"]) / found["fa512"]}


def times(run):
    """The named shapes, bf16, µs."""
    for shape in SHAPES:
        for causal in (False, True):
            measured = run.found[f"{shape}, causal {causal}"] = microseconds(shape, causal, torch.bfloat16)
            print(shape, causal, {name: round(time, 2) for name, time in measured.items()}, flush=True)
    return run.found


# Batch, heads, rows, columns, and the bias of encoders of texts (T5), of windows of images (Swin), and of rows of an alignment (AlphaFold).
WITH_BIAS = [
    ((32, 12, 512, 64), (1, 12, 512, 512)),
    ((8, 12, 512, 64), (1, 12, 512, 512)),
    ((8, 12, 512, 64), (8, 12, 512, 512)),
    ((2048, 3, 49, 32), (1, 3, 49, 49)),
    ((256, 8, 256, 32), (1, 8, 256, 256)),
    ((4, 16, 1024, 128), (4, 1, 1, 1024)),
]


def with_dbias(attention, tensors, grad):
    """Gradients of Q, K, V and of a bias."""
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(attention(*tensors), tensors, grad)


def ours_with_bias(q, k, v, bias):
    return fa512.torch.attention(q, k, v, bias=bias)


def efficient(q, k, v, bias):
    """PyTorch's only attention that computes dBias, of a bias of all dimensions."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(*q.shape[:3], k.shape[2]))


def drawn_bias(draw, sizes):
    """A bias of which any dimension but the last may be 1."""
    return [1 if draw.random() < 0.5 else size for size in sizes[:3]] + [sizes[3]]


def bias_gradients(run):
    """Gradients with dBias of random problems: dBias is near that in f64, and a second call gives the same bits."""
    draw = random.Random(1)
    for number in range(20 if run.dry else 300):
        most = 70 if run.dry else 500
        sizes = draw.randrange(1, 5), draw.randrange(1, 4), draw.randrange(1, most), draw.randrange(1, most)
        columns, place, dtype = 8 * draw.randrange(1, 33), device(run.dry), draw.choice(list(TYPES))
        q, grad, _ = inputs((*sizes[:3], columns), place, number, dtype)
        k, v, _ = inputs((*sizes[:2], sizes[3], columns), place, number + 1, dtype)
        bias = torch.randn(drawn_bias(draw, sizes), device=place).to(dtype)
        found, again = (with_dbias(ours_with_bias, (q, k, v, bias), grad) for _ in range(2))
        what = f"dBias {list(bias.shape)} of {number}, {dtype}: {sizes} x {columns}"
        require(all(map(torch.equal, found, again)), f"{what}: other bits")
        options = (False, None, None, None, "top-left", None, None, bias.double().cpu())
        right = cpu.own_dbias(options[-1], *(tensor.double().cpu() for tensor in (grad, q, k, v)), *options)
        error = (found[-1].double().cpu() - right).norm().item()
        limit = 2e-3 * TYPES[dtype] * (0.1 + right.norm().item())
        run.found["dbias"] = max(run.found.get("dbias", 0), error / limit)
        require(error <= limit, f"{what}: {error:.3g}, limit {limit:.3g}")
    return run.found


def bias_times(run):
    """Forward and backward with dBias beside PyTorch's efficient attention, bf16, in turns; at most twice the errors of its gradients."""
    for shape, of_bias in WITH_BIAS:
        sets = []
        for seed in range(sets_of(shape[0] * shape[1] * shape[2] * shape[3])):
            q, k, v = inputs(shape, "cuda", seed, torch.bfloat16)
            generator = torch.Generator("cuda").manual_seed(seed)
            bias = torch.randn(of_bias, device="cuda", generator=generator).bfloat16()
            sets.append(((q, k, v, bias), inputs(shape, "cuda", seed + 100, torch.bfloat16)[0]))
        tensors, grad = sets[0]
        exactly = with_dbias(efficient_in_f64, [tensor.double() for tensor in tensors], grad.double())
        made = [with_dbias(attention, tensors, grad) for attention in (ours_with_bias, efficient)]
        for name, one, other, right in zip(("dq", "dk", "dv", "dbias"), *made, exactly):
            error, limit = ((gradient.double() - right).norm().item() for gradient in (one, other))
            require(error <= 2 * limit + 1e-6, f"{name} of {shape}, {of_bias}: {error:.3g}, PyTorch {limit:.3g}")
        of = {"fa512": ours_with_bias, "efficient": efficient}
        graphs = {name: captured(lambda tensors, grad, of=each: with_dbias(of, tensors, grad), sets) for name, each in of.items()}
        fixed = [((*tensors[:3], tensors[3].detach()), grad) for tensors, grad in sets]
        graphs["without dBias"] = captured(lambda tensors, grad: without_dbias(tensors, grad), fixed)
        found = medians(graphs, len(sets), 13)
        run.found[f"{shape}, {of_bias}"] = {**found, "ratio": found["efficient"] / found["fa512"]}
        print(shape, of_bias, {name: round(time, 2) for name, time in run.found[f"{shape}, {of_bias}"].items()}, flush=True)
    return run.found


def without_dbias(tensors, grad):
    *own_tensors, bias = tensors
    own_tensors = [tensor.detach().requires_grad_() for tensor in own_tensors]
    return torch.autograd.grad(ours_with_bias(*own_tensors, bias), own_tensors, grad)


def efficient_in_f64(q, k, v, bias):
    return (q @ k.mT / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v


def packed_microseconds(lengths, heads, columns, causal, dtype, rounds=13):
    """The same of packed sequences, without cuDNN, which has none; refuses gradients with twice the error of PyTorch's flash backward."""
    longest, cu = max(lengths), cu_seqlens(lengths, "cuda")
    attention = functools.partial(fa512.torch.attention_varlen, cu_seqlens=cu, max_seqlen=longest, causal=causal)
    shape = (sum(lengths), heads, columns)
    sets = sets_with(shape, dtype, attention)

    def ours(grad, q, k, v, out, lse):
        options = {"causal": causal, "scale": None, "window": None, "align": "top-left", "softcap": None, "alibi_slopes": None}
        return _own_backward.of_packed(grad, q, k, v, out, lse, cu, cu_seqlens_k=None, max_seqlen=longest, **options)

    def flash(grad, q, k, v, out, lse):
        return _packed._by_pytorch(grad, q, k, v, out, lse, cu, None, longest, None, causal)

    grad, *parts = ([part.transpose(0, 1).double() for part in tensor.split(lengths)] for tensor in sets[0][:4])
    right = [torch.cat(of_all, 1).transpose(0, 1) for of_all in zip(*(in_f64(one, *rest, causal) for one, *rest in zip(grad, *parts)))]
    for name, *gradients in zip(("dq", "dk", "dv"), ours(*sets[0]), flash(*sets[0]), right):
        error, limit = ((one.double() - gradients[-1]).norm().item() for one in gradients[:-1])
        require(error <= 2 * limit, f"{name} of {lengths}, {shape}, causal {causal}, {dtype}: {error:.3g}, FlashAttention-2 {limit:.3g}")
    found = medians({"fa512": captured(ours, sets), "flash": captured(flash, sets)}, len(sets), rounds)
    return {**found, "ratio": found["flash"] / found["fa512"]}


def drawn_lengths(draw):
    """Lengths of sequences of which all are texts, of any length, or nearly equal."""
    rows, longest = round(2 ** draw.uniform(9, 15.5)), round(2 ** draw.uniform(5, 12))
    kind, lengths = draw.choice(["texts", "any", "alike"]), []
    while sum(lengths) < rows:
        of_kind = {"texts": draw.lognormvariate(0, 0.8) * longest / 5, "any": draw.uniform(1, longest), "alike": draw.uniform(0.85, 1) * longest}
        lengths.append(max(1, min(longest, int(of_kind[kind]))))
    return kind, lengths


def show(what, ratios, mean):
    """Prints the mean of the ratios that tuples begin with, and the lowest and highest."""
    ratios.sort()
    print(f"{len(ratios)} {what}, mean {mean([ratio for ratio, *_ in ratios]):.3f}; lowest and highest:")
    for one in ratios[:14] + ratios[-3:]:
        print(one)


def packed_map(run):
    """Packed sequences drawn at random, and 64 texts with 12 heads, for half of the time that is left."""
    seed = run.found["seed"] = time.time_ns() % 1_000_000
    draw, ratios, kept = random.Random(seed), [], run.left() / 2
    named = [("64 texts", log_normal(3, 64), 12, columns, causal, torch.bfloat16) for columns in (64, 128) for causal in (False, True)]
    while run.left() > kept:
        kind, lengths = drawn_lengths(draw)
        any_one = (kind, lengths, draw.randrange(1, 17), draw.choice([32, 64, 64, 96, 128]), draw.random() < 0.5, draw.choice(list(TYPES)))
        kind, lengths, *rest = named.pop() if named else any_one
        what = f"{kind}: {len(lengths)} of {min(lengths)} to {max(lengths)}, {sum(lengths)} rows; heads, columns, causal {rest}"
        measured = run.found[what] = packed_microseconds(lengths, *rest)
        ratios.append((round(measured["ratio"], 3), round(measured["fa512"], 1), what))
        if kind == "64 texts":
            print(ratios[-1])
    show("batches", ratios, statistics.geometric_mean)
    return run.found


def random_map(run):
    """Shapes drawn at random, for half of the time that is left."""
    seed = run.found["seed"] = time.time_ns() % 1_000_000
    draw, ratios, kept = random.Random(seed), [], run.left() / 2
    while run.left() > kept:
        rows, columns = round(16 * 512 ** draw.random()), draw.choice([64, 64, 128])
        heads = draw.randrange(1, 17)
        batch = max(1, min(64, round(2 ** draw.uniform(14, 19) / rows / heads)))
        shape, causal, dtype = (batch, heads, rows, columns), draw.random() < 0.5, draw.choice(list(TYPES))
        measured = run.found[f"{shape}, causal {causal}, {dtype}"] = microseconds(shape, causal, dtype, 13)
        if measured.get("without a workspace", 0) > 1.03 * measured["fa512"] or measured["fa512"] > 1.03 * measured.get("without a workspace", 1e9):
            print("with and without a workspace", shape, causal, *(round(measured[name], 1) for name in ("fa512", "without a workspace")))
        ratios.append((measured["ratio"], shape, causal, str(dtype), round(measured["fa512"], 1)))
    show("shapes", ratios, statistics.mean)
    return run.found


def window_microseconds(shape, lengths, window):
    """Medians of a call by each of us and PyTorch's flash backward with a window, bf16, in turns: of a batch, or of packed sequences of `lengths`."""
    options = {"causal": False, "scale": None, "window": window, "align": "top-left", "softcap": None, "alibi_slopes": None}
    sides = (False, None, *window)
    if lengths:
        longest, cu = max(lengths), cu_seqlens(lengths, "cuda")
        attention = functools.partial(fa512.torch.attention_varlen, cu_seqlens=cu, max_seqlen=longest, window=window)
        ours = functools.partial(_own_backward.of_packed, cu_seqlens=cu, cu_seqlens_k=None, max_seqlen=longest, **options)
        calls = {"fa512": ours, "flash": lambda *tensors: _packed._by_pytorch(*tensors, cu, None, longest, None, *sides)}
    else:
        attention = functools.partial(fa512.torch.attention, window=window)
        ours = functools.partial(_own_backward.of_batch, bias=None, **options)
        calls = {"fa512": ours, "flash": lambda *tensors: _batched.flash_backward(*tensors, *sides)}
    sets = sets_with(shape, torch.bfloat16, attention)
    for one, other in zip(*(call(*sets[0]) for call in calls.values())):
        error, limit = (one.float() - other.float()).norm().item(), 1e-2 * (0.1 + other.float().norm().item())
        require(error <= limit, f"{shape}, {window}: {error:.3g} from FlashAttention-2, limit {limit:.3g}")
    found = medians({name: captured(call, sets) for name, call in calls.items()}, len(sets), 9)
    return {**found, "ratio": found["flash"] / found["fa512"]}


def window_map(run):
    """Windows drawn at random, of batches and of packed sequences, beside FlashAttention-2."""
    seed = run.found["seed"] = time.time_ns() % 1_000_000
    draw, ratios = random.Random(seed), []
    while run.left() > 5:
        left = round(16 * 64 ** draw.random())
        window, lengths = (left, draw.choice([0, left])), drawn_lengths(draw)[1] if draw.random() < 0.4 else None
        heads, rows = draw.randrange(1, 17), round(32 * 128 ** draw.random())
        shape = (sum(lengths), heads) if lengths else (draw.randrange(1, 1 + max(1, min(64, 2**17 // rows // heads))), heads, rows)
        shape += (draw.choice([32, 64, 64, 96, 128, 256]),)
        what = f"{shape}, window {window}" + (f", {len(lengths)} of at most {max(lengths)}" if lengths else "")
        measured = run.found[what] = window_microseconds(shape, lengths, window)
        ratios.append((round(measured["ratio"], 3), round(measured["fa512"], 1), what))
    show("windows", ratios, statistics.geometric_mean)
    return run.found


def main():
    run = run_of(__doc__, 280)
    if run.dry:
        cpu.install()
    run.section(gradients)
    run.section(bias_gradients)
    run.section(bias_times, needs_gpu=True)
    run.section(long_sequences, needs_gpu=True)
    run.section(same_bits, needs_gpu=True)
    run.section(times, needs_gpu=True)
    run.section(random_map, needs_gpu=True)
    run.section(packed_map, needs_gpu=True)
    run.section(window_map, needs_gpu=True)
    return run.close(run.write("backward.json"))


if __name__ == "__main__":
    raise SystemExit(main())
