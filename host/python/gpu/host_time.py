#!/usr/bin/env python3
"""Host time of calls, and wall time of models where the host may be the bottleneck: fa512 beside PyTorch's attention, in turns.

Sections (--only, with commas between): gradients (are they right), backwards, calls, parts, transformers, training, inference. Writes host_time.json.
"""

import contextlib
import functools
import statistics
import time
import unittest.mock

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import fa512
import fa512.torch
from common import device, host_microseconds, inputs, own_backwards, reference, require, require_close, run_of, synchronize
from fa512.torch import _batched, _direct, _recorded

BACKENDS = {"SDPA": None, "SDPA, flash": SDPBackend.FLASH_ATTENTION, "SDPA, cuDNN": SDPBackend.CUDNN_ATTENTION}
SHAPES = {"1,1,64": (1, 1, 64, 64), "4,8,128": (4, 8, 128, 64)}
MODES = {"no gradient": contextlib.nullcontext, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


def backend(name, dry):
    """The context in which SDPA uses this backend."""
    return contextlib.nullcontext() if dry or BACKENDS.get(name) is None else sdpa_kernel(BACKENDS[name])


def in_turns(calls, rounds, per_round, dry):
    """Median host time of each named call, µs. Contexts are entered outside what is timed."""
    samples = {name: [] for name in calls}
    for turn in range(-1, rounds):
        for name, call in calls.items():
            with backend(name, dry):
                call()
                synchronize()
                begun = time.perf_counter_ns()
                for _ in range(per_round):
                    call()
                taken = (time.perf_counter_ns() - begun) / per_round / 1000
                synchronize()
            if turn >= 0:
                samples[name].append(taken)
    return {name: statistics.median(times) for name, times in samples.items()}


def with_backward(call, tensors):
    grad = torch.randn_like(call())
    return lambda: torch.autograd.grad(call(), tensors, grad)


def functions(q, k, v):
    """Every public function on these [batch, heads, sequence, head size], by name."""
    batch, heads, sequence, _ = q.shape
    with torch.no_grad():
        own = [tensor.transpose(1, 2).contiguous().requires_grad_(tensor.requires_grad) for tensor in (q, k, v)]
        rows = [tensor.detach().flatten(0, 1).requires_grad_(tensor.requires_grad) for tensor in own]
    cu = torch.arange(0, (batch + 1) * sequence, sequence, dtype=torch.int32, device=q.device)
    used = torch.full((batch,), sequence, dtype=torch.int32, device=q.device)
    calls = {name: (lambda: functional.scaled_dot_product_attention(q, k, v), (q, k, v)) for name in BACKENDS}
    lengths = (cu, cu, sequence, sequence)
    mask = torch.ones(batch, 1, 1, sequence, dtype=torch.bool, device=q.device)
    window = {"window_size_left": 9, "window_size_right": 9}

    def flash_window():
        """What there is for [batch, heads, sequence, head size]."""
        rows = [tensor.transpose(1, 2) for tensor in (q, k, v)]
        found = torch.ops.aten._flash_attention_forward(*rows, None, None, sequence, sequence, 0.0, False, False, **window)
        return found[0].transpose(1, 2)

    calls.update(
        {
            "SDPA, mask of padding": (lambda: functional.scaled_dot_product_attention(q, k, v, mask), (q, k, v)),
            "PyTorch's flash, window": (flash_window, (q, k, v)),
            "scaled_dot_product_attention": (lambda: fa512.scaled_dot_product_attention(q, k, v), (q, k, v)),
            "attention": (lambda: fa512.torch.attention(q, k, v), (q, k, v)),
            "attention, causal": (lambda: fa512.torch.attention(q, k, v, causal=True), (q, k, v)),
            "attention, window": (lambda: fa512.torch.attention(q, k, v, window=(9, 9)), (q, k, v)),
            "flash_attn_func": (lambda: fa512.flash_attn_func(*own), own),
            "attention_padded": (lambda: fa512.torch.attention_padded(*own, seqused_q=used, seqused_k=used), own),
            "PyTorch's flash, packed": (lambda: torch.ops.aten._flash_attention_forward(*rows, *lengths, 0.0, False, False)[0], rows),
            "attention_varlen": (lambda: fa512.torch.attention_varlen(*rows, cu, sequence), rows),
            "flash_attn_varlen_func": (lambda: fa512.flash_attn_varlen_func(*rows, *lengths), rows),
            "torch.ops.fa512.attention": (lambda: torch.ops.fa512.attention(q, k, v), (q, k, v)),
        }
    )
    if q.device.type == "cpu":
        del calls["PyTorch's flash, packed"], calls["PyTorch's flash, window"]
    return calls


def calls(run):
    """Host time of each public function, µs."""
    found = {}
    rounds, per_round = (1, 1) if run.dry else (30, 50)
    for name, shape in SHAPES.items():
        plain = functions(*inputs(shape, device(run.dry)))
        for mode, context in MODES.items():
            with context():
                found[f"{name}, {mode}"] = in_turns({key: call for key, (call, _) in plain.items()}, rounds, per_round, run.dry)
        trained = functions(*inputs(shape, device(run.dry), requires_grad=True))
        found[f"{name}, forward with gradient"] = in_turns(
            {key: call for key, (call, _) in trained.items()}, rounds, per_round, run.dry
        )
        both = {key: with_backward(*each) for key, each in trained.items()}
        for key, call in both.items():
            with own_backwards() as called:
                call()
            run.found.setdefault("own", {})[key] = called
        found[f"{name}, forward and backward"] = in_turns(both, rounds, per_round, run.dry)
        run.found["microseconds"] = found
    return run.found


def parts(run):
    """Where the host time of `scaled_dot_product_attention` goes, µs."""
    found = {}
    for name, shape in SHAPES.items():
        q, k, v = inputs(shape, device(run.dry))
        out, lse = torch.empty_like(q), q.new_empty(shape[:3], dtype=torch.float32)
        inner = {
            "native, out=": lambda: fa512.attention(q, k, v, out=out),
            "native, out= and lse=": lambda: fa512.attention(q, k, v, out=out, lse=lse),
            "native": lambda: fa512.attention(q, k, v),
            "native, LSE": lambda: fa512.attention(q, k, v, return_lse=True),
            "forward_cuda": lambda: _batched.forward_cuda(q, k, v, False, None),
            "way_of": lambda: _direct.way_of((q, k, v, False, None)),
            "_forward": lambda: _batched._forward(q, k, v, False, None),
            "fa512.torch.scaled_dot_product_attention": lambda: fa512.torch.scaled_dot_product_attention(q, k, v),
            "fa512.scaled_dot_product_attention": lambda: fa512.scaled_dot_product_attention(q, k, v),
            "new_empty_strided": lambda: q.new_empty_strided(q.shape, q.stride()),
            "empty_like": lambda: torch.empty_like(q),
            "SDPA": lambda: functional.scaled_dot_product_attention(q, k, v),
        }
        found[name] = host_microseconds(inner, *((1, 1) if run.dry else (40, 200)))
    return {"microseconds": found}


def saved_on_the_cpu(call, pin_memory=False):
    with torch.autograd.graph.save_on_cpu(pin_memory):
        return call()


WAYS = {
    "nodes": lambda call: call(),
    "saved on the CPU": saved_on_the_cpu,
    "saved in pinned memory": functools.partial(saved_on_the_cpu, pin_memory=torch.cuda.is_available()),
    "checkpoint": functools.partial(checkpoint, use_reentrant=False),
}


def of_backward(call, leaves, grad, own, way="nodes"):
    """O, gradients and the node's name. It requires the backwards `own` of fa512's."""
    with own_backwards() as called:
        out = WAYS[way](call)
        found = torch.autograd.grad(out, leaves, grad)
    require(called == own, f"{called} of fa512's backwards were called, not {own}, {way}")
    return out, found, type(out.grad_fn).__name__


def gradients(run):
    """Gradients against f64, and what computes them: fa512's own backward, or PyTorch's of wider heads."""
    found = {}
    for dtype, factor in ((torch.float16, 1), (torch.bfloat16, 8)):
        for head_dim, way in [(32, "nodes"), *((64, way) for way in WAYS), (72, "nodes"), (128, "nodes"), (136, "nodes")]:
            own = ["attention_backward"] if head_dim <= 128 else []
            for causal, window, layout in [
                (False, None, "bhsd"),
                (True, None, "bshd"),
                (False, None, "bshd"),
                (True, (20, None), "bhsd"),
                (False, (20, 5), "bshd"),
            ]:
                shape = (2, 4, 77, head_dim) if layout == "bhsd" else (2, 77, 4, head_dim)
                leaves = inputs(shape, device(run.dry), dtype=dtype, requires_grad=True)
                q, k, v = leaves if layout == "bhsd" else [tensor.transpose(1, 2) for tensor in leaves]
                k, v = k[:, :2], v[:, :2]
                name = f"{dtype} {head_dim} {causal} {window} {layout} {way}"
                grad = torch.randn_like(q)
                out, by_us, node = of_backward(lambda: fa512.torch.attention(q, k, v, causal=causal, window=window), leaves, grad, own, way)
                scale = head_dim**-0.5
                repeated = (tensor.repeat_interleave(2, 1) for tensor in (k, v))
                expected, _ = reference(q, *repeated, causal, scale, window or (None, None))
                exact = torch.autograd.grad(expected, leaves, grad.double())
                require_close(out, expected, f"O of {name}", 2e-3 * factor, 2e-3 * factor)
                worst = [
                    require_close(a, b, f"gradient {index} of {name}", 6e-3 * factor, 6e-3 * factor)
                    for index, (a, b) in enumerate(zip(by_us, exact))
                ]
                found[name] = {"node": node, "worst": worst}
                run.found = {"cases": found}
    for causal, window in [(False, None), (True, None), (True, (20, None)), (False, (20, 5))]:
        for way in WAYS:
            found[f"packed {causal} {window} {way}"] = packed_gradients(run, causal, window, way=way)
        found[f"packed {causal} {window} 136"] = packed_gradients(run, causal, window, 136)
        found[f"padded {causal} {window}"] = padded_gradients(run, causal, window)
    deterministic_gradients(run)
    for rows in (2048, 2560):
        found[f"{rows} rows"] = gradients_of_long_rows(run, rows)
    return {"is_possible": _recorded.IS_POSSIBLE, "is_own": _recorded.IS_OWN, "cases": found}


def backwards(run):
    """Which backward is the better one of so many scores: time on the GPU of its kernels and host time of forward and backward, µs."""
    found = {}
    shapes = [(64, 12, 64), (16, 12, 128), (64, 12, 128), (32, 12, 256), (8, 12, 512), (32, 12, 512), (8, 12, 1024), (2, 12, 2048)]
    for batch, heads, sequence in [(1, 2, 16)] if run.dry else shapes:
        leaves = inputs((batch, sequence, heads, 64), device(run.dry), dtype=torch.bfloat16, requires_grad=True)
        call = with_backward(lambda: fa512.torch.attention(*(tensor.transpose(1, 2) for tensor in leaves)), leaves)
        found[f"{batch},{heads},{sequence}"] = row = {"scores": batch * heads * sequence**2}
        names = ("fa512", "cuDNN")

        @contextlib.contextmanager
        def by(name):
            own = _recorded.IS_OWN and name == "fa512"
            with unittest.mock.patch.multiple(_recorded, IS_OWN=own, _SCORES_FOR_CUDNN=0):
                with own_backwards() as called:
                    call()
                require(run.dry or len(called) == (name == "fa512"), f"{called}: the backward is not {name}'s")
                yield

        host = {name: [] for name in names}
        for _ in range(1 if run.dry else 15):
            for name in names:
                with by(name):
                    host[name].append(in_turns({name: call}, 1, 1 if run.dry else 5, run.dry)[name])
        for name in names:
            with by(name):
                row[name] = {"gpu": None if run.dry else graph_time(call), "host": statistics.median(host[name])}
        run.found = {"microseconds": found}
    return {"microseconds": found}


def graph_time(call, replays=20):
    """Time of a call on the GPU, µs: of a graph that is replayed, so that the host does not matter."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(replays):
        begin.record()
        graph.replay()
        end.record()
        synchronize()
        times.append(1000 * begin.elapsed_time(end))
    return statistics.median(times)


def packed_gradients(run, causal, window, head_dim=64, way="nodes"):
    """Of sequences of different lengths, with rows of NaN that belong to none."""
    bounds = [5, 40, 41, 141, 205]
    cu = torch.tensor(bounds, dtype=torch.int32, device=device(run.dry))
    with torch.no_grad():
        leaves = inputs((220, 4, head_dim), device(run.dry))
        for tensor in leaves:
            tensor[:5], tensor[205:] = float("nan"), float("nan")
    leaves = [tensor.requires_grad_() for tensor in leaves]
    grad, worst = torch.randn_like(leaves[0]).nan_to_num(), 0.0
    own = ["attention_varlen_backward"] if head_dim <= 128 else []
    call = functools.partial(fa512.torch.attention_varlen, *leaves, cu, 100, causal=causal, window=window)
    out, by_us, node = of_backward(call, leaves, grad, own, way)
    for begin, end in zip(bounds, bounds[1:]):
        parts = [tensor.detach()[begin:end].transpose(0, 1)[None].double().requires_grad_() for tensor in leaves]
        expected, _ = reference(*parts, causal, head_dim**-0.5, window or (None, None))
        exact = torch.autograd.grad(expected, parts, grad[begin:end].transpose(0, 1)[None].double())
        for index, (a, b) in enumerate(zip((out, *by_us), (expected, *exact))):
            what = f"packed rows {begin} to {end}, {index}, {causal} {window}"
            worst = max(worst, require_close(a[begin:end].transpose(0, 1)[None], b, what, 6e-3, 6e-3))
    for tensor in by_us:
        require(not tensor[:5].any() and not tensor[205:].any(), f"rows of no sequence have a gradient, {causal} {window}")
    return {"node": node, "worst": [worst]}


def padded_gradients(run, causal, window):
    """Of entries that use some of their rows, and hold NaN in the others."""
    used = torch.tensor([100, 1, 0, 64], dtype=torch.int32, device=device(run.dry))
    leaves = inputs((4, 100, 4, 64), device(run.dry))
    unused = torch.arange(100, device=used.device) >= used[:, None]
    for tensor in leaves:
        tensor[unused] = float("nan")
        tensor.requires_grad_()
    limits = {"causal": causal, "window": window, "align": "bottom-right"}
    call = functools.partial(fa512.torch.attention_padded, *leaves, seqused_q=used, seqused_k=used, **limits)
    grad, worst = torch.randn_like(leaves[0]).nan_to_num(), 0.0
    out, by_us, node = of_backward(call, leaves, grad, ["attention_padded_backward"])
    for entry, rows in enumerate(used.tolist()):
        for tensor in (out, *by_us):
            require(not tensor[entry, rows:].any(), f"padding has a gradient, {causal} {window}")
        parts = [tensor.detach()[entry, :rows].transpose(0, 1)[None].double().requires_grad_() for tensor in leaves]
        expected, _ = reference(*parts, causal, 0.125, window or (None, None))
        exact = torch.autograd.grad(expected, parts, grad[entry, :rows].transpose(0, 1)[None].double())
        for a, b in zip((out, *by_us), (expected, *exact)):
            if rows:
                worst = max(worst, require_close(a[entry, :rows].transpose(0, 1)[None], b, f"padded {entry} {causal} {window}", 6e-3, 6e-3))
    return {"node": node, "worst": [worst]}


def gradients_of_long_rows(run, rows):
    """Of sequences for which the backward may take a workspace."""
    leaves = inputs((2, 8, 32 if run.dry else rows, 64), device(run.dry), dtype=torch.bfloat16, requires_grad=True)
    out, by_us, node = of_backward(lambda: fa512.torch.attention(*leaves), leaves, leaves[0], ["attention_backward"])
    exact = torch.autograd.grad(reference(*leaves)[0], leaves, leaves[0].detach().double())
    return {"node": node, "worst": [require_close(a, b, f"gradient of {rows} rows", 5e-2, 5e-2) for a, b in zip(by_us, exact)]}


def deterministic_gradients(run):
    """Equal inputs give equal bits, if asked for of wide heads, too."""
    for head_dim in (64, 136):
        q, k, v = leaves = inputs((2, 77 if run.dry else 700, 4, head_dim), device(run.dry), requires_grad=True)
        call = functools.partial(fa512.flash_attn_func, q, k, v, causal=True, deterministic=True)
        first, *others = (of_backward(call, leaves, q, ["attention_backward"] * (head_dim <= 128))[1] for _ in range(2 if run.dry else 20))
        require(all(torch.equal(a, b) for other in others for a, b in zip(first, other)), f"other bits, {head_dim}")


def transformers(run):
    """Host time of one attention as transformers calls it, 12 heads of 64, four sequences of 64, µs."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    import fa512.transformers  # noqa: F401

    module = torch.nn.Module()
    module.is_causal = False
    found = {}
    rounds, per_round = (1, 1) if run.dry else (30, 50)

    def of(tensors):
        def call_of(name):
            function = ALL_ATTENTION_FUNCTIONS[name]
            return lambda: function(module, *(tensor.transpose(1, 2) for tensor in tensors), None, dropout=0.0, scaling=0.125)[0]

        return {**dict.fromkeys(BACKENDS, call_of("sdpa")), "fa512": call_of("fa512_flash")}

    plain = inputs((4, 64, 12, 64), device(run.dry))
    for mode, context in MODES.items():
        with context():
            found[mode] = in_turns(of(plain), rounds, per_round, run.dry)
    trained = inputs((4, 64, 12, 64), device(run.dry), requires_grad=True)
    found["forward with gradient"] = in_turns(of(trained), rounds, per_round, run.dry)
    both = {name: with_backward(call, trained) for name, call in of(trained).items()}
    found["forward and backward"] = in_turns(both, rounds, per_round, run.dry)
    return {"microseconds": found}


def in_model_turns(model, step, seconds, dry, without=()):
    """Median wall time of the step with each attention, ms, its quartiles, and the host's part of it: until the step returns. All compute with
    the same model, and each has had a step before the one that is timed: what another left cold is not its."""
    samples = {name: ([], []) for name in (*BACKENDS, "fa512") if name not in without}
    end = time.monotonic() + seconds
    turn = 0
    while turn < 2 or (not dry and (turn < 8 or time.monotonic() < end)):
        for name, (walls, hosts) in samples.items():
            model.set_attn_implementation("fa512_flash" if name == "fa512" else "sdpa")
            with backend(name, dry):
                step()
                synchronize()
                begun = time.perf_counter()
                step()
                returned = time.perf_counter()
                synchronize()
                finished = time.perf_counter()
            if turn:
                walls.append(1000 * (finished - begun))
                hosts.append(1000 * (returned - begun))
        turn += 1
    return {
        name: {"wall": statistics.median(walls), "quartiles": quartiles(walls), "host": statistics.median(hosts)}
        for name, (walls, hosts) in samples.items()
    }


def quartiles(times):
    return statistics.quantiles(times, n=4)[::2] if len(times) > 1 else times


SIZES = {
    "BERT-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "MiniLM": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
}


def model_of(kind, size, dry):
    """A model with random weights."""
    import transformers as library

    import fa512.transformers  # noqa: F401

    sizes = {**SIZES[size], **({"num_hidden_layers": 1} if dry else {})}
    torch.manual_seed(0)
    config = library.BertConfig(**sizes, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    return getattr(library, kind)(config).to(device(dry), torch.bfloat16)


def training(run):
    """One step, forward and backward, bf16, dropout 0: ms."""
    found = {}
    for size, batch, length in [("BERT-base", 32, 512), ("BERT-base", 64, 128), ("MiniLM", 32, 512), ("MiniLM", 64, 128)]:
        if run.dry:
            batch, length = 2, 16
        model = model_of("BertForSequenceClassification", size, run.dry).train()
        ids = torch.randint(0, 30000, (batch, length), device=device(run.dry))
        labels = torch.zeros(batch, dtype=torch.long, device=device(run.dry))

        def step():
            model.zero_grad(set_to_none=True)
            model(input_ids=ids, labels=labels).loss.backward()

        model.set_attn_implementation("fa512_flash")
        with own_backwards() as called:
            step()
        run.found.setdefault("own", {})[f"{size} {batch} × {length}"] = len(called)
        found[f"{size} {batch} × {length}"] = in_model_turns(model, step, 8, run.dry)
        run.found["milliseconds"] = found
    return run.found


def inference(run):
    """One forward pass, bf16, inference_mode: ms."""
    found = {}
    for size, batch, length in [("BERT-base", 64, 512), ("MiniLM", 64, 512), ("MiniLM", 64, 128)]:
        if run.dry:
            batch, length = 2, 16
        model = model_of("BertModel", size, run.dry).eval()
        ids = torch.randint(0, 30000, (batch, length), device=device(run.dry))
        used = torch.linspace(length // 4, length, batch, device=device(run.dry)).long()[:, None]
        place = torch.arange(length, device=device(run.dry))
        masks = {"no padding": None, "right": (place < used).long(), "left": (place >= length - used).long()}
        for padding, mask in masks.items():
            # Flash takes no mask.
            without = () if mask is None else ("SDPA, flash",)
            with torch.inference_mode():
                step = functools.partial(model, input_ids=ids, attention_mask=mask)
                found[f"{size} {batch} × {length}, {padding}"] = in_model_turns(model, step, 3, run.dry, without)
            run.found["milliseconds"] = found
    return {"milliseconds": found}


def table(run):
    for section in ("parts", "transformers", "calls"):
        for row, times in run.records.get(section, {}).get("microseconds", {}).items():
            sdpa = times["SDPA"]
            print(f"\n{section}, {row}: µs of host (of SDPA's)")
            print("  " + "\n  ".join(f"{name:42} {value:8.2f} ({value / sdpa:.2f})" for name, value in times.items()))
    for section in ("calls", "training"):
        print(f"{section}: fa512's own backwards that were called: {run.records.get(section, {}).get('own')}")
    for row, times in run.records.get("backwards", {}).get("microseconds", {}).items():
        print(f"backward {row}: {times}")
    for section in ("training", "inference"):
        print(f"\n{section}: wall ms (host ms)")
        for row, times in run.records.get(section, {}).get("milliseconds", {}).items():
            each = (f"{name} {value['wall']:.2f} ({value['host']:.2f})" for name, value in times.items())
            print(f"  {row:34} " + ", ".join(each))


def main():
    run = run_of(__doc__, 230)
    if run.dry:
        simulate()
    for section in (gradients, backwards, parts, calls, transformers, training, inference):
        run.section(section)
        path = run.write("host_time.json")
    table(run)
    return run.close(path)


def simulate():
    """PyTorch's arithmetic on the CPU in place of the kernels."""
    import as_gpu
    import cpu

    cpu.install()
    as_gpu.install()
    fa512.attention = fa512._native.attention
    fa512.torch.why_not_here = fa512.torch.why_not


if __name__ == "__main__":
    raise SystemExit(main())
