"""Shared by the scripts for GPU machines: sections that fail independently, records, and a dry run on the CPU."""

import argparse
import contextlib
import functools
import json
import pathlib
import statistics
import sys
import time
import traceback
import unittest.mock
import warnings

import torch

import fa512._native
from fa512.torch import _recorded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "with_torch"))


# Element types, and the factor on float16's rounding error.
TYPES = {torch.float16: 1, torch.bfloat16: 8}


class Run:
    """Sections, each with its record; a section that fails does not end the others."""

    def __init__(self, out, seconds, dry, only=None):
        self.out, self.dry, self.only = pathlib.Path(out), dry, only
        self.out.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + seconds
        self.records = {}
        # What a section has found so far; recorded even if the section fails later.
        self.found = {}

    def left(self):
        return self.end - time.monotonic()

    def section(self, function, needs_gpu=False):
        name = function.__name__
        if self.only is not None and name not in self.only:
            return
        begun = time.monotonic()
        self.found = {}
        if self.left() <= 0:
            record = {"outcome": "not run: the time is over"}
        elif needs_gpu and self.dry:
            record = {"outcome": "not run: it needs a GPU"}
        else:
            try:
                record = {**(function(self) or {}), "outcome": "passed"}
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                error_text = f"{type(error).__name__}: {error}"[:2000]
                record = {**self.found, "outcome": "FAILED", "error": error_text}
                record["traceback"] = traceback.format_exc()[-4000:]
        record["seconds"] = round(time.monotonic() - begun, 2)
        self.records[name] = record
        print(f"{name:28} {record['outcome']:10} {record['seconds']:7.1f} s  {record.get('error', '')[:160]}", flush=True)

    def write(self, name):
        path = self.out / name
        path.write_text(json.dumps(self.records, indent=1, default=str))
        return path

    def close(self, path):
        """Reports how many sections passed, and returns the script's exit code."""
        outcomes = [record["outcome"] for record in self.records.values()]
        passed, failed = outcomes.count("passed"), outcomes.count("FAILED")
        print(f"\n{path}\n{passed} passed, {failed} failed, {len(outcomes) - passed - failed} skipped")
        return 1 if failed else 0


def run_of(description, seconds):
    """The run that the command line describes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for the records")
    parser.add_argument("--seconds", type=float, default=seconds, help="no section begins after so many")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, without the kernels")
    parser.add_argument("--only", type=lambda names: names.split(","), help="sections to run, with commas between")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    return Run(options.out, options.seconds, options.dry_run, options.only)


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def device(dry):
    return "cpu" if dry else "cuda"


def inputs(shape, device, seed=0, dtype=torch.float16, requires_grad=False):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, generator=generator, device=device, dtype=dtype).requires_grad_(requires_grad) for _ in range(3)
    ]


def seen(length, causal=False, window=(None, None), device="cpu"):
    """Mask of the keys that each query of a sequence attends to."""
    position = torch.arange(length, device=device)
    back = position[:, None] - position[None, :]
    left, right = window[0], 0 if causal else window[1]
    return (back <= (length if left is None else left)) & (-back <= (length if right is None else right))


def reference(q, k, v, causal=False, scale=0.125, window=(None, None)):
    """Attention and LSE of [B, H, S, 64] in f64."""
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    scores = scores.masked_fill(~seen(q.shape[-2], causal, window, q.device), float("-inf"))
    return scores.softmax(-1) @ v.double(), scores.logsumexp(-1)


def require_close(found, expected, what, absolute=2e-3, relative=1e-3):
    """Requires |found - expected| within absolute + relative·|expected|. Returns the largest difference."""
    difference = (found.double() - expected.double()).abs()
    if not bool((difference <= absolute + relative * expected.double().abs()).all()):
        raise AssertionError(f"{what}: the largest difference is {difference.max().item():.3g}")
    return difference.max().item()


def require_close_lse(found, expected, what, dtype):
    """Requires LSE to be as close as all checks of the kernels require: most of them sum weights that are rounded to the type of Q."""
    return require_close(found, expected, f"LSE of {what}", 1e-3 * TYPES[dtype], 0)


@contextlib.contextmanager
def own_backwards():
    """A list that gets the name of each of fa512's own backwards that is called meanwhile, by nodes of gradients recorded meanwhile or not."""
    called, by_nodes = [], []
    computed = _recorded._computed

    def native(name, function, *tensors, **options):
        # The kernel of a node may call Python's.
        by_nodes.pop() if by_nodes else called.append(name)
        return function(*tensors, **options)

    def begin(name):
        called.append(name)
        by_nodes.append(name)

    def noted(results):
        out, lse = computed(results)
        states = [getattr(out.grad_fn, f"_saved_{name}", None) for name in ("rng_state", "philox_seed")]
        if any(state is not None and state.is_sparse for state in states):
            is_padded = getattr(out.grad_fn, "_saved_custom_mask_type", 0) & 3 == 3
            name = "attention_padded_backward" if is_padded else "attention_varlen_backward" if out.dim() == 3 else "attention_backward"
            out.grad_fn.register_prehook(lambda *_: begin(name))
            out.grad_fn.register_hook(lambda *_: by_nodes.clear())
        return out, lse

    with contextlib.ExitStack() as patches:
        patches.enter_context(unittest.mock.patch.object(_recorded, "_computed", noted))
        for name in ("attention_backward", "attention_varlen_backward", "attention_padded_backward"):
            counting = functools.partial(native, name, getattr(fa512._native, name))
            patches.enter_context(unittest.mock.patch.object(fa512._native, name, counting))
        yield called


def require(condition, what):
    if not condition:
        raise AssertionError(what)


@contextlib.contextmanager
def raises(error, words):
    """Requires an error of this type whose message contains these words."""
    try:
        yield
    except error as raised:
        require(words in str(raised), f"the error says {str(raised)!r}, not {words!r}")
    else:
        raise AssertionError(f"there is no {error.__name__} that says {words!r}")


def host_microseconds(calls, batches, per_batch):
    """Median host time of each named call, µs, interleaved."""
    samples = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(20):
            call()
    synchronize()
    for _ in range(batches):
        for name, call in calls.items():
            begun = time.perf_counter_ns()
            for _ in range(per_batch):
                call()
            samples[name].append((time.perf_counter_ns() - begun) / per_batch / 1000)
            synchronize()
    return {name: statistics.median(times) for name, times in samples.items()}


def gpu_milliseconds(calls, seconds, dry):
    """Median GPU time of each named call, ms, interleaved for about `seconds`."""
    if dry:
        return {name: host_microseconds({name: call}, 1, 1)[name] / 1000 for name, call in calls.items()}
    samples = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    torch.cuda.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(next(iter(samples.values()))) < 5:
        for name, call in calls.items():
            begin, finish = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            finish.record()
            finish.synchronize()
            samples[name].append(begin.elapsed_time(finish))
    return {name: statistics.median(times) for name, times in samples.items()}
