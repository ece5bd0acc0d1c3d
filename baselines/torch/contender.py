#!/usr/bin/env python3
"""PyTorch's attention as a contender of `fa512 bench`: computes and times on request.

One JSON object for each line of standard input is answered by one on standard output; what libraries print goes to
standard error. A request is {"command": NAME, ...}; an answer is {"ok": true, ...} or

    {"ok": false, "kind": "unavailable" | "invalid" | "failed", "error": TEXT}

unavailable: something is missing on this machine; invalid: the backend does not compute this problem; failed: the rest.

    hello                                      versions, device, and for each backend null or why it cannot be used
    prepare  id, backend, q, k, v, layout,     reads Q, K, V (.npy, fp16, or the bits of bf16 as uint16; [B,H,S,D] for
             rows_around, scale, element,      layout bhsd, [B,S,H,D] for bshd) and computes once, so that everything is
             bias, slopes, softcap,            compiled; element is f16 or bf16; rows_around is how many rows before its own
             first_position                    and behind it a query's keys begin and end, null for no limit; bias is a
                                               file of [B or 1,H or 1,S_q or 1,S_k], slopes are ALiBi's for one or all batch
                                               entries, softcap caps scores, each null for none; first_position is the key
                                               at which query 0 is
    answer   id, path                          writes O, likewise, to the .npy file at path
    warm_up  id, input_sets, milliseconds,     copies the inputs to so many sets, runs that long; answers with call_us,
             host_launch                       the time of a call, and host_launch_us, what issuing one costs the host, or
                                               null unless host_launch
    capture  id, calls                         records so many calls, on the next set of inputs each, as a CUDA graph
    sample   id                                replays the graph between two events: µs per call
    release  id                                forgets what was prepared

To try it by hand: echo '{"command": "hello"}' | python3 contender.py
"""

import json
import os
import sys
import time
import traceback
import warnings

PROTOCOL = 4
# How files hold elements of each type, and what PyTorch calls it.
ELEMENTS = {"f16": ("float16", "float16"), "bf16": ("uint16", "bfloat16")}
# Shapes, layouts and masks of one process that FlexAttention is compiled for.
MAXIMUM_SHAPES = 4096


class Refusal(Exception):
    """A request that cannot be granted, and of which kind the reason is."""

    def __init__(self, kind, error):
        super().__init__(error)
        self.kind = kind


def import_torch():
    """PyTorch with a GPU that it can use, or the one thing that is missing."""
    try:
        import torch
    except ImportError as error:
        raise Refusal("unavailable", f"{sys.executable} has no PyTorch ({error}); `pip install torch`") from error
    if torch.version.cuda is None:
        raise Refusal("unavailable", f"PyTorch {torch.__version__} is built without CUDA")
    try:
        torch.cuda.init()
        torch.cuda.get_device_properties(0)
    except (RuntimeError, AssertionError) as error:
        raise Refusal("unavailable", f"PyTorch {torch.__version__} sees no GPU: {error}") from error
    return torch


class Problem:
    """What is to be computed of Q, K and V, besides their sizes."""

    def __init__(self, request):
        self.rows_around = request["rows_around"]
        self.scale = request["scale"]
        self.slopes = request["slopes"]
        self.softcap = request["softcap"]
        self.first_position = request["first_position"]

    def distance(self, query, key):
        """Keys from the one that the query is at, of index tensors."""
        return (query + self.first_position - key).abs()

    def attends(self, query, key):
        """Whether the query attends to the key, of index tensors that are broadcast."""
        left, right = self.rows_around
        begins = True if left is None else query - key <= left
        return begins if right is None else (key - query <= right) & begins

    def mask(self, torch, q, k, bias):
        """All that is added to scores, as one tensor of Q's type; None for nothing."""
        if self.slopes is None:
            mask = bias
        else:
            query, key = (torch.arange(rows.shape[2], device="cuda") for rows in (q, k))
            distance = self.distance(query[:, None], key[None, :])
            mask = -torch.tensor(self.slopes, device="cuda")[:, :, None, None] * distance
            mask = (mask if bias is None else mask + bias).to(q.dtype)
        if mask is None or self.rows_around == [None, None]:
            return mask
        query, key = (torch.arange(rows.shape[2], device="cuda") for rows in (q, k))
        return mask.masked_fill(~self.attends(query[:, None], key[None, :]), float("-inf"))


def sdpa(name):
    """scaled_dot_product_attention, held to one backend."""

    def make(torch, q, k, bias, problem):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, name)
        if problem.softcap is not None:
            raise Refusal("invalid", "scaled_dot_product_attention has no softcap")
        options = {"scale": problem.scale, "enable_gqa": q.shape[1] != k.shape[1]}
        mask = problem.mask(torch, q, k, bias)
        if mask is None:
            masks = {(None, None): False, (None, 0): True}
            if tuple(problem.rows_around) not in masks:
                raise Refusal("invalid", "scaled_dot_product_attention has no windows")
            options["is_causal"] = masks[tuple(problem.rows_around)]

        def attention(q, k, v, mask=mask):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)

        return attention, mask

    return make


def flex(torch, q, k, bias, problem):
    """FlexAttention, compiled for these sequence lengths. It reads one bias, whichever set of inputs it computes."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    queries, keys = q.shape[2], k.shape[2]
    mask = None
    if problem.rows_around != [None, None]:
        attends = lambda _batch, _head, query, key: problem.attends(query, key)
        mask = create_block_mask(attends, None, None, queries, keys, device="cuda")
    slopes = None if problem.slopes is None else torch.tensor(problem.slopes, device="cuda").expand(q.shape[0], -1)
    bias = None if bias is None else bias.expand(q.shape[0], q.shape[1], queries, keys)

    def change(score, batch, head, query, key):
        if problem.softcap is not None:
            score = problem.softcap * torch.tanh(score / problem.softcap)
        if slopes is not None:
            score = score - slopes[batch, head] * problem.distance(query, key)
        return score if bias is None else score + bias[batch, head, query, key]

    changes = any(part is not None for part in (problem.softcap, slopes, bias))
    options = {"scale": problem.scale, "enable_gqa": q.shape[1] != k.shape[1], "score_mod": change if changes else None}
    # fullgraph: beyond its limit of shapes, the compiler must not fall back to slow code without a word.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = MAXIMUM_SHAPES
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask, **options), None


# One without masks and changes of scores.
PLAIN = Problem(
    {"rows_around": [None, None], "scale": 0.125, "slopes": None, "softcap": None, "first_position": 0}
)
BACKENDS = {
    "flash": sdpa("FLASH_ATTENTION"),
    "cudnn": sdpa("CUDNN_ATTENTION"),
    "efficient": sdpa("EFFICIENT_ATTENTION"),
    "flex": flex,
}


def call(attention, *tensors):
    """One call; where the backend refuses, the reasons it gives as warnings become the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return attention(*tensors)
        except RuntimeError as error:
            reasons = [str(warning.message).split(" (Triggered internally")[0] for warning in caught]
            text = "; ".join([str(error).strip().splitlines()[0], *reasons])
            raise Refusal("invalid" if "No available kernel" in text else "failed", text) from error


class Prepared:
    """One backend with the inputs of one problem."""

    def __init__(self, torch, request):
        self.torch = torch
        backend = request["backend"]
        if backend not in BACKENDS:
            raise Refusal("invalid", f"there is no backend {backend}; there are {', '.join(BACKENDS)}")
        self.layout = request["layout"]
        if request["element"] not in ELEMENTS:
            raise Refusal("invalid", f"there is no element type {request['element']}; there are {', '.join(ELEMENTS)}")
        self.element = request["element"]
        q, k, v = (self.ordered(self.load(request[name])) for name in "qkv")
        bias = None if request["bias"] is None else self.load(request["bias"])
        self.attention, mask = BACKENDS[backend](torch, q, k, bias, Problem(request))
        self.sets = [(q, k, v) if mask is None else (q, k, v, mask)]
        self.output = call(self.attention, *self.sets[0])
        torch.cuda.synchronize()
        self.graph = None

    def ordered(self, tensor):
        """A tensor of dimensions [B,H,S,D], whatever its order in memory."""
        return tensor.transpose(1, 2) if self.layout == "bshd" else tensor

    def load(self, path):
        """The tensor of a file, on the GPU."""
        import numpy

        array = numpy.load(path, allow_pickle=False)
        stored, element = ELEMENTS[self.element]
        if array.dtype != stored or array.ndim != 4:
            raise Refusal("invalid", f"{path} is {array.dtype} {array.shape}, not {stored} of four dimensions")
        # NumPy has no bf16, and PyTorch turns no unsigned numbers into it: its bits go from one to the other as int16.
        return self.torch.from_numpy(array.view(numpy.int16)).view(getattr(self.torch, element)).cuda()

    def answer(self, path):
        import numpy

        output = self.output.transpose(1, 2) if self.layout == "bshd" else self.output
        stored, _ = ELEMENTS[self.element]
        bits = output.contiguous().cpu().view(self.torch.int16).numpy()
        numpy.save(path, bits.view(stored), allow_pickle=False)
        return {}

    def warm_up(self, input_sets, milliseconds, host_launch=True):
        while len(self.sets) < input_sets:
            # Preserves the order in memory.
            self.sets.append(tuple(tensor.clone() for tensor in self.sets[0]))
        self.outputs = [None] * input_sets
        for index in range(input_sets):
            self.call_next(index)
        host_launch_us = self.host_launch_us() if host_launch else None
        # A graph, since issuing the calls one by one may take longer than executing them.
        self.capture(input_sets)
        begun = time.perf_counter()
        while (time.perf_counter() - begun) * 1e3 < milliseconds:
            self.sample()
        return {"call_us": self.sample()["us"], "host_launch_us": host_launch_us}

    def host_launch_us(self, calls=32):
        """What issuing a call costs the host, when the GPU does not keep it waiting."""
        self.torch.cuda.synchronize()
        begun = time.perf_counter()
        for index in range(calls):
            self.call_next(index)
        microseconds = (time.perf_counter() - begun) * 1e6 / calls
        self.torch.cuda.synchronize()
        return microseconds

    def call_next(self, index):
        # Outputs are kept until their set's next turn, so that they too lie at changing addresses.
        index %= len(self.sets)
        self.outputs[index] = self.attention(*self.sets[index])

    def capture(self, calls):
        torch = self.torch
        self.graph, self.calls = torch.cuda.CUDAGraph(), calls
        with torch.cuda.graph(self.graph):
            for index in range(calls):
                self.call_next(index)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.sample()
        return {}

    def sample(self):
        if self.graph is None:
            raise Refusal("failed", "nothing was captured before the sample")
        start, end = self.events
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return {"us": start.elapsed_time(end) * 1e3 / self.calls}


class Contender:
    """Answers requests."""

    def __init__(self):
        self.prepared = {}
        self.torch = None

    def hello(self):
        torch = self.torch = import_torch()
        torch.set_grad_enabled(False)
        q = torch.zeros(1, 1, 128, 64, dtype=torch.float16, device="cuda")
        versions = {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda}
        if torch.backends.cudnn.is_available():
            versions["cudnn"] = str(torch.backends.cudnn.version())
        try:
            import triton

            versions["triton"] = triton.__version__
        except ImportError:
            pass
        backends = {name: self.refusal(name, versions, q) for name in BACKENDS}
        device = torch.cuda.get_device_properties(0)
        return {
            "protocol": PROTOCOL,
            "versions": versions,
            "device": device.name,
            "architecture": device.major * 10 + device.minor,
            "backends": backends,
        }

    def refusal(self, name, versions, q):
        """Why a backend cannot be used here; None when it can."""
        if name == "flex":
            # Compiling it takes seconds, which only those should wait for who ask for it.
            return None if "triton" in versions else "FlexAttention is compiled with Triton, which is not installed"
        try:
            attention, _ = BACKENDS[name](self.torch, q, q, None, PLAIN)
            call(attention, q, q, q)
        except Exception as error:
            return str(error)
        return None

    def answer_to(self, request):
        command = request.pop("command", None)
        if command == "hello":
            return self.hello()
        if self.torch is None:
            raise Refusal("failed", "the first request must be hello")
        identifier = request.pop("id")
        if command == "prepare":
            self.prepared[identifier] = Prepared(self.torch, request)
            return {}
        if command == "release":
            self.prepared.pop(identifier, None)
            self.torch.cuda.empty_cache()
            return {}
        if command not in ("answer", "warm_up", "capture", "sample"):
            raise Refusal("failed", f"there is no command {command}")
        if identifier not in self.prepared:
            raise Refusal("failed", f"nothing is prepared under id {identifier}")
        return getattr(self.prepared[identifier], command)(**request)


def reply(contender, line):
    """The answer to one line, whatever happens."""
    try:
        return {"ok": True, **contender.answer_to(json.loads(line))}
    except Refusal as refusal:
        return {"ok": False, "kind": refusal.kind, "error": str(refusal)}
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())
        return {"ok": False, "kind": "failed", "error": f"{type(error).__name__}: {text[:500]}"}


def main():
    # Answers go where standard output was; whatever else is printed joins standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    contender = Contender()
    for line in sys.stdin:
        print(json.dumps(reply(contender, line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
