"""Checks and times fa512 in Python on a machine with an H100 or H200, in under seven minutes:

    python check.py --out FOLDER

Needs fa512 and PyTorch 2.11; transformers, sentence-transformers, CuPy and JAX for the sections that test them. Prints a line per
section, then a table; FOLDER/check.json has everything. `--dry-run` runs on a machine without a GPU whatever can run there, with
PyTorch's arithmetic in place of the kernels.
"""

import tempfile
import threading

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import fa512
import fa512.torch
from common import (
    TYPES,
    device,
    host_microseconds,
    inputs,
    own_backwards,
    raises,
    reference,
    require,
    require_close,
    require_close_lse,
    run_of,
    synchronize,
)
from encoders import (
    BACKENDS,
    bert_base,
    bert_base_bfloat16,
    documents,
    host_time_in_models,
    large_heads_fall_back,
    minilm_stand_in,
    sentences,
    training_step,
)

OPERATOR = torch.ops.fa512.attention.default
attention = fa512.attention


def simulate():
    """PyTorch's arithmetic on the CPU in place of the kernels."""
    global attention
    import cpu

    cpu.install()
    fa512.torch.why_not_here = fa512.torch.why_not

    def attention(q, k, v, *, causal=False, scale=None, layout="bhsd", out=None, return_lse=False):
        if layout == "bshd":
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        made, lse = torch.ops.fa512.attention_with_lse(q, k, v, causal, scale)
        made = made.transpose(1, 2) if layout == "bshd" else made
        out = made if out is None else out.copy_(made)
        return (out, lse) if return_lse else out


def machine(run):
    found = {"fa512": fa512.info(), "torch": torch.__version__}
    if not run.dry:
        require(found["fa512"]["why_not"] is None, found["fa512"]["why_not"])
        found["gpu"] = torch.cuda.get_device_name()
    for name in ("transformers", "sentence_transformers", "cupy", "jax"):
        try:
            found[name] = __import__(name).__version__
        except Exception as error:
            found[name] = f"not there: {error}"
    return found


def view_cases(batch, heads, sequence, make):
    """Q, K and V of one shape in various memory layouts; `make` makes three tensors of a shape."""
    q, k, v = make((batch, heads, sequence, 64))
    fused = make((batch, sequence, 3, heads, 64))[0]
    return {
        "bhsd": [q, k, v],
        "bshd": [x.transpose(1, 2) for x in make((batch, sequence, heads, 64))],
        "fused qkv": [fused[:, :, part].transpose(1, 2) for part in range(3)],
        "expanded": [q, k[:1].expand_as(q), v[:, :1].expand_as(q)],
        "sliced": [x[:, :, 3 : 3 + sequence] for x in make((batch, heads, sequence + 9, 64))],
        "padded rows": [x[..., 8:72] for x in make((batch, heads, sequence, 80))],
    }


def check_every_call(tensors, causal, what, coarseness):
    """Every function on the same tensors: correct, with identical bits. Returns the largest difference."""
    limits = (2e-3 * coarseness, 1e-3 * coarseness)
    expected, expected_lse = reference(*tensors, causal)
    out, lse = attention(*tensors, causal=causal, return_lse=True)
    require_close_lse(lse, expected_lse, what, tensors[0].dtype)
    found = require_close(out, expected, what, *limits)
    require_close(OPERATOR(*tensors, causal, None), expected, f"operator, {what}", *limits)
    given = torch.full_like(out, float("nan"))
    require(attention(*tensors, causal=causal, out=given) is given, "out= comes back")
    require(torch.equal(given, out), f"out= of {what}")
    swapped = [x.transpose(1, 2) for x in tensors]
    require(torch.equal(attention(*swapped, causal=causal, layout="bshd").transpose(1, 2), out), f"layout, {what}")
    require(torch.equal(fa512.flash_attn_func(*swapped, causal=causal).transpose(1, 2), out), f"flash_attn_func, {what}")
    return found


def views(run):
    """All memory layouts and element types, against f64."""
    place, worst = device(run.dry), {}
    run.found = {"largest_difference": worst}
    for batch, heads, sequence in [(1, 1, 1), (2, 3, 17), (3, 4, 129), (2, 4, 512)] + ([] if run.dry else [(4, 8, 700)]):
        for dtype, coarseness in TYPES.items():
            cases = view_cases(batch, heads, sequence, lambda shape: inputs(shape, place, dtype=dtype))
            for name, tensors in cases.items():
                for causal in (False, True):
                    what = f"{name}, {batch},{heads},{sequence}, {dtype}, causal {causal}"
                    key = f"{name}, {dtype}"
                    worst[key] = max(worst.get(key, 0), check_every_call(tensors, causal, what, coarseness))
    scaled = inputs((2, 2, 100, 64), place)
    require_close(fa512.scaled_dot_product_attention(*scaled, scale=0.3), reference(*scaled, scale=0.3)[0], "scale")
    return {"largest_difference": worst}


def refusals(run):
    """Errors name what is not supported. Misaligned rows are refused, not copied."""
    q, k, v = inputs((2, 2, 32, 64), "cuda")
    odd = inputs((2, 2, 32, 65), "cuda")[0][..., :64]
    off = inputs((2, 2, 32, 80), "cuda")[0][..., 4:68]
    with raises(ValueError, "Q has a row stride of 65"):
        attention(odd, k, v)
    with raises(ValueError, "Q is at address"):
        OPERATOR(off, k, v, False, None)
    with raises(TypeError, "k is bfloat16; it must be float16"):
        attention(q, k.bfloat16(), v)
    with raises(TypeError, "q is float32; it must be float16 or bfloat16"):
        attention(*(x.float() for x in (q, k, v)))
    with raises(ValueError, "k is on the CPU"):
        attention(q, k.cpu(), v)
    with raises(ValueError, "head_dim is 264"):
        attention(*inputs((2, 2, 32, 264), "cuda"))
    with raises(ValueError, "q requires grad"):
        attention(q.clone().requires_grad_(), k, v)


def threads(run):
    """Eight threads on their own streams compute bitwise what one thread computes."""
    place = device(run.dry)
    expected = [OPERATOR(*inputs((2, 4, 200 + number, 64), place, number), False, None) for number in range(8)]
    failures = []

    def work(number):
        try:
            stream = None if run.dry else torch.cuda.Stream()
            with torch.cuda.stream(stream):
                tensors = inputs((2, 4, 200 + number, 64), place, number)
                for _ in range(3 if run.dry else 50):
                    out = attention(*tensors)
                    again = OPERATOR(*tensors, False, None)
                if stream is not None:
                    stream.synchronize()
            require(torch.equal(out, expected[number]) and torch.equal(again, out), f"thread {number}")
        except BaseException as error:
            failures.append(repr(error))

    started = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    synchronize()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    require(not failures, failures)


def graphs(run):
    """Captured calls compute anew on replay."""
    q, k, v = inputs((4, 4, 300, 64), "cuda")
    out = torch.empty_like(q)
    fa512.warm_up(4, 4, 300, causal=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        OPERATOR(q, k, v, False, None)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attention(q, k, v, causal=True, out=out)
        second = OPERATOR(out, k, v, False, None)
    for seed in (1, 2):
        for tensor, new in zip((q, k, v), inputs(q.shape, "cuda", seed)):
            tensor.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        require(torch.equal(out, attention(q, k, v, causal=True)), "the first call in the graph")
        require(torch.equal(second, OPERATOR(out, k, v, False, None)), "the second call in the graph")


def compiled(run):
    """torch.compile without a break, and with CUDA graphs."""

    def model(q, k, v):
        return fa512.scaled_dot_product_attention(q * 2, k, v, is_causal=True).transpose(1, 2).reshape(q.shape[0], -1)

    tensors = inputs((2, 4, 256, 64), device(run.dry))
    expected = model(*tensors)
    for mode in ["default"] if run.dry else ["default", "reduce-overhead"]:
        torch._dynamo.reset()
        backend = {"backend": "aot_eager"} if run.dry else {"mode": mode}
        function = torch.compile(model, fullgraph=True, **backend)
        for _ in range(3):
            require_close(function(*tensors), expected, mode, 0, 0)
    tensors = inputs((2, 4, 128, 64), device(run.dry), requires_grad=True)
    model(*tensors).float().square().sum().backward()
    eager = [tensor.grad.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    torch._dynamo.reset()
    backend = {"backend": "aot_eager"} if run.dry else {}
    torch.compile(model, fullgraph=True, **backend)(*tensors).float().square().sum().backward()
    for tensor, gradient in zip(tensors, eager):
        require_close(tensor.grad, gradient, "gradient of the compiled model", 1e-2, 1e-2)


def opcheck(run):
    for requires_grad in (False, True):
        tensors = inputs((2, 2, 48, 64), device(run.dry), requires_grad=requires_grad)
        torch.library.opcheck(OPERATOR, (*tensors, True, 0.1))
        torch.library.opcheck(torch.ops.fa512.attention_with_lse.default, (*tensors, False, None))
    with torch.no_grad():
        tensors = inputs((2, 2, 48, 64), device(run.dry))
        out, lse = torch.ops.fa512.attention_with_lse(*tensors)
    torch.library.opcheck(
        torch.ops.fa512.attention_backward.default,
        (out, *tensors, out, lse, None, None, False, None),
    )


def autocast(run):
    tensors = inputs((2, 4, 128, 64), "cuda", dtype=torch.float32)
    for dtype, coarseness in TYPES.items():
        with torch.autocast("cuda", dtype=dtype):
            own = fa512.scaled_dot_product_attention(*tensors)
            sdpa = functional.scaled_dot_product_attention(*tensors)
        require(own.dtype == sdpa.dtype == dtype, f"{own.dtype}, SDPA {sdpa.dtype}")
        require_close(own, sdpa, f"autocast to {dtype}", 4e-3 * coarseness, 2e-3 * coarseness)


def gradient_errors(dtype, sequence, causal, dry):
    """Errors of dQ, dK, dV against f64: those of fa512 and those of PyTorch's flash attention."""
    place = device(dry)
    tensors = inputs((2, 4, sequence, 64), place, dtype=dtype, requires_grad=True)
    upstream = inputs((2, 4, sequence, 64), place, 9, dtype)[0]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    wanted = torch.autograd.grad(reference(*exact, causal)[0], exact, upstream.double())
    with own_backwards() as called:
        own = torch.autograd.grad(fa512.torch.attention(*tensors, causal=causal), tensors, upstream)
    require(called == ["attention_backward"], f"{called}: the backward is not fa512's own")
    with sdpa_kernel(SDPBackend.MATH if dry else SDPBackend.FLASH_ATTENTION):
        theirs = torch.autograd.grad(functional.scaled_dot_product_attention(*tensors, is_causal=causal), tensors, upstream)
    for name, gradient, other, right in zip("qkv", own, theirs, wanted):
        yield name, *((x.double() - right).abs().max().item() for x in (gradient, other))


def gradients(run):
    """Errors against f64, beside those of PyTorch's flash backward on its own forward."""
    found = {}
    run.found = {"largest_difference": found}
    for sequence, causal in [(128, False), (200, True)] + ([] if run.dry else [(512, False), (512, True)]):
        for dtype, coarseness in TYPES.items():
            for name, error, limit in gradient_errors(dtype, sequence, causal, run.dry):
                what = f"d{name} {sequence} {dtype} causal {causal}"
                found[what] = {"fa512": error, "sdpa": limit}
                require(error <= 2 * limit + 1e-3 * coarseness, f"{what}: {error:.3g}; SDPA {limit:.3g}")
    return {"largest_difference": found}


def flash_impl(run):
    """Activated as PyTorch's flash attention, then restored."""
    from torch.nn import attention as registry
    from torch.profiler import ProfilerActivity, profile

    fa512.torch.register_flash_attention_impl()
    tensors = inputs((2, 4, 256, 64), "cuda", requires_grad=True)

    def call():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = functional.scaled_dot_product_attention(*tensors, is_causal=True)
            return out, *torch.autograd.grad(out.float().square().sum(), tensors)

    def kernels():
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            call()
            torch.cuda.synchronize()
        return " ".join(event.key for event in seen.key_averages())

    before = call()
    registry.activate_flash_attention_impl("fa512")
    try:
        require("fa512" in kernels(), "activated, the kernel is not ours")
        for own, theirs, what in zip(call(), before, ("O", "dQ", "dK", "dV")):
            require_close(own, theirs, what, 2e-2, 2e-2)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            wide = inputs((1, 2, 64, 128), "cuda")
            functional.scaled_dot_product_attention(*wide)
            functional.scaled_dot_product_attention(*(x.bfloat16() for x in tensors))
            torch.compile(functional.scaled_dot_product_attention, fullgraph=True)(*(x.detach() for x in tensors))
    finally:
        registry.restore_flash_attention_impl()
    require("fa512" not in kernels(), "restored, the kernel is still ours")


def run_by_aot_inductor(model, tensors, *tolerance):
    """What torch.export keeps of a model, and how AOTInductor's result compares; seconds per step."""
    import faulthandler
    import sys
    import time

    # Prints the stack if it takes long or crashes.
    faulthandler.enable()
    faulthandler.dump_traceback_later(60, repeat=True)
    seconds = {}

    def timed(name, call):
        begun = time.monotonic()
        result = call()
        seconds[name] = round(time.monotonic() - begun, 2)
        print(f"  {name}: {seconds[name]} s", file=sys.stderr, flush=True)
        return result

    try:
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.pt2"
            program = timed("export", lambda: torch.export.export(model, tensors))
            timed("compile", lambda: torch._inductor.aoti_compile_and_package(program, package_path=path))
            loaded = timed("load", lambda: torch._inductor.aoti_load_package(path))
            require_close(timed("run", lambda: loaded(*tensors)), model(*tensors), "AOTInductor", *tolerance)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return program.graph_module.code, seconds


class Exported(torch.nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend

    def forward(self, q, k, v):
        return self.attend(q + 1, k, v)


def exported(run):
    """torch.export keeps the operator, and AOTInductor runs it."""
    tensors = tuple(inputs((2, 4, 256, 64), device(run.dry)))
    code, seconds = run_by_aot_inductor(Exported(fa512.torch.attention), tensors, 0, 0)
    require("torch.ops.fa512.attention.default" in code, f"the exported program: {code}")
    return {"seconds_of": seconds}


def exported_by_pytorch(run):
    """The same with PyTorch's own attention, to separate our faults from AOTInductor's."""
    tensors = tuple(inputs((2, 4, 256, 64), device(run.dry)))
    return {"seconds_of": run_by_aot_inductor(Exported(functional.scaled_dot_product_attention), tensors)[1]}


def cupy_arrays(run):
    import cupy

    rng = cupy.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, 100, 64), dtype=cupy.float32).astype(cupy.float16) for _ in range(3))
    expected, _ = reference(*(torch.from_dlpack(x) for x in (q, k, v)))
    out, lse = fa512.attention(q, k, v, return_lse=True)
    require(isinstance(out, cupy.ndarray) and isinstance(lse, cupy.ndarray), f"made {type(out)}")
    require_close(torch.from_dlpack(out), expected, "CuPy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        again = fa512.attention(q, k, v, out=cupy.empty_like(q))
        stream.synchronize()
    require((again == out).all(), "on a stream of CuPy's")


def jax_arrays(run):
    import os

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import numpy

    require(jax.default_backend() == "gpu", f"JAX computes on {jax.default_backend()}")
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (2, 3, 100, 64), jax.numpy.float16) for key in keys)
    expected, _ = reference(*(torch.from_numpy(numpy.array(x)) for x in (q, k, v)))
    out, lse = fa512.attention(q, k, v, return_lse=True)
    require(isinstance(out, jax.Array) and lse.shape == (2, 3, 100), f"made {type(out)}")
    require_close(torch.from_numpy(numpy.array(out)), expected, "JAX")
    doubled = jax.jit(lambda x: 2 * x)(out)
    require_close(torch.from_numpy(numpy.array(doubled)), 2 * expected, "JAX goes on with it", 4e-3, 2e-3)


def host_time(run):
    """Host time per call, µs; medians of interleaved runs."""
    found = {}
    for name, shape in {"1,1,64": (1, 1, 64, 64), "4,8,128": (4, 8, 128, 64)}.items():
        q, k, v = inputs(shape, device(run.dry))
        out = torch.empty_like(q)
        calls = {
            "SDPA": lambda: functional.scaled_dot_product_attention(q, k, v),
            "fa512.attention(out=)": lambda: attention(q, k, v, out=out),
            "fa512.attention": lambda: attention(q, k, v),
            "operator": lambda: OPERATOR(q, k, v, False, None),
            "fa512.scaled_dot_product_attention": lambda: fa512.scaled_dot_product_attention(q, k, v),
            "fa512.flash_attn_func": lambda: fa512.flash_attn_func(q, k, v),
        }
        batches, per_batch = (2, 2) if run.dry else (60, 200)
        with torch.no_grad():
            found[name] = host_microseconds(calls, batches, per_batch)
        with torch.inference_mode():
            found[f"{name}, inference_mode"] = host_microseconds(calls, batches // 2, per_batch)
    return {"microseconds": found}


def table(run):
    print("\nhost time, µs a call")
    for section in ("host_time", "host_time_in_models"):
        for shape, calls in run.records.get(section, {}).get("microseconds", {}).items():
            sdpa = calls["SDPA"]
            print(f"  {shape}: " + ", ".join(f"{name} {time:.2f} ({time / sdpa:.2f})" for name, time in calls.items()))
    for section in ("bert_base", "minilm_stand_in", "bert_base_bfloat16"):
        print(f"\n{section}: length, batch; model ms and attention ms of " + ", ".join(["fa512", *BACKENDS]))
        for row in run.records.get(section, {}).get("rows", []):
            times = " ".join(f"{time:8.3f}" for time in row["model_ms"].values())
            parts = " ".join(f"{time:8.3f}" for time in row.get("attention_ms", {}).values())
            print(f"  {row['length']:4} {row['batch']:4}  {times}  |  {parts}")
    for row in run.records.get("sentences", {}).get("rows", []):
        print(f"\nsentences of {row['lengths']} lengths: {row['milliseconds']}")


def main():
    run = run_of(__doc__, 390)
    if run.dry:
        simulate()
    for section in (machine, views):
        run.section(section)
    run.section(refusals, needs_gpu=True)
    run.section(threads)
    run.section(graphs, needs_gpu=True)
    run.section(host_time)
    run.section(host_time_in_models, needs_gpu=True)
    run.section(opcheck)
    run.section(autocast, needs_gpu=True)
    run.section(gradients)
    run.section(flash_impl, needs_gpu=True)
    run.section(cupy_arrays, needs_gpu=True)
    run.section(training_step)
    run.section(large_heads_fall_back)
    run.section(documents, needs_gpu=True)
    run.write("check.json")
    for section in (bert_base, minilm_stand_in, bert_base_bfloat16, sentences, compiled, exported, exported_by_pytorch):
        run.section(section)
        run.write("check.json")
    run.section(jax_arrays, needs_gpu=True)
    path = run.write("check.json")
    table(run)
    return run.close(path)


if __name__ == "__main__":
    raise SystemExit(main())
