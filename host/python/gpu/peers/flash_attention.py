"""flash-attention's own tests with fa512's functions in place of its own, on a machine with a GPU:

    python flash_attention.py FOLDER --out RECORDS --seconds 500 --processes 8
    python flash_attention.py FOLDER --out RECORDS --sets 60000 --processes 8

FOLDER has its tests/test_flash_attn.py, and flash_attn/bert_padding.py in a folder `fetched`. Needs fa512, PyTorch, pytest and einops. Each
process draws a test and its parameters at random: head sizes up to 256, without dropout and paging. RECORDS/flash_attention.json counts
for each test what passed, what fa512 refused, by reason, and what failed, with its parameters.

`--lenient` leaves out `return_attn_probs` and `deterministic`. `--dry-run` runs small sets on the CPU, with PyTorch's arithmetic in place
of the kernels.
"""

import argparse
import importlib.util
import os
import pathlib
import random
import re
import sys
import time
import traceback
import types
import unittest.mock

from counts import reason_of, run, take_gpu

MAXIMUM_HEAD_DIM = 256
# Of a parameter's values, those that are drawn.
DRAWN = {
    "d": lambda head_dim: head_dim <= MAXIMUM_HEAD_DIM,
    "dropout_p": lambda probability: probability == 0,
    "paged_kv_block_size": lambda size: size is None,
}
# On the CPU, small ones alone.
SMALL = {name: lambda value: value <= 256 for name in ("seqlen", "seqlen_q", "seqlen_k")}
# What has no counterpart here: caches that are written, pages, dropout's random numbers.
LEFT_OUT = re.compile("kvcache|paged|generator")
# They call the same hundreds of times.
REPEATED = re.compile("race_condition|deterministic")
# Tests with most parameters, which are drawn more often.
OFTEN = re.compile("test_flash_attn(_varlen)?_(output|qkvpacked|causal)|test_flash_attn_splitkv")
FUNCTIONS = [f"flash_attn_{kind}func" for kind in ("", "qkvpacked_", "kvpacked_", "varlen_", "varlen_qkvpacked_", "varlen_kvpacked_")]


class Refused(Exception):
    """fa512 does not compute this."""


class Peer:
    """The tests, calling fa512."""

    def __init__(self, folder, lenient):
        self.lenient = lenient
        self.module = self._load(pathlib.Path(folder))

    def _load(self, folder):
        import fa512

        names = {name: self._wrapped(getattr(fa512, name)) for name in FUNCTIONS}
        for name, contents in {
            "flash_attn": {"__path__": [], **names, "flash_attn_with_kvcache": None},
            "flash_attn.flash_attn_interface": {"_get_block_size_n": None, "USE_TRITON_ROCM": False},
            "flash_attn.layers": {"__path__": []},
            "flash_attn.layers.rotary": {"apply_rotary_emb": None},
        }.items():
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(contents)
        self._execute("flash_attn.bert_padding", folder / "fetched/bert_padding.py")
        return self._execute("peer", folder / "test_flash_attn.py")

    @staticmethod
    def _execute(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _wrapped(self, function):
        def call(*arguments, **options):
            wants_both = self.lenient and options.pop("return_attn_probs", False)
            if self.lenient:
                options.pop("deterministic", None)
            try:
                result = function(*arguments, **options)
            except (ValueError, TypeError, NotImplementedError) as error:
                raise Refused(reason_of(error)) from error
            return (result, None, None) if wants_both else result

        return call

    def tests(self, drawn, only):
        """Names of tests, their parameters as lists of {name: value}, and how often each is drawn."""
        for name, function in vars(self.module).items():
            if not name.startswith("test_") or LEFT_OUT.search(name) or (only and not re.search(only, name)):
                continue
            if drawn is not DRAWN and REPEATED.search(name):
                continue
            parameters = [list(values_of(mark, drawn)) for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
            if all(parameters):
                yield name, parameters, 8 if OFTEN.fullmatch(name) else 1

    def outcome(self, name, parameters):
        """What comes of a test, and why."""
        import pytest
        import torch

        try:
            with open(os.devnull, "w") as nothing, unittest.mock.patch("sys.stdout", nothing):
                getattr(self.module, name)(**parameters)
        except Refused as error:
            return "refused", str(error)
        except pytest.skip.Exception as error:
            return "skipped", str(error)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return "out of memory", ""
        except AssertionError:
            return "failed", traceback.format_exc()[-2000:]
        except Exception:
            return "error", traceback.format_exc()[-4000:]
        return "passed", ""


def values_of(mark, drawn):
    """The values of one mark that are drawn, as {name: value}."""
    names = [name.strip() for name in mark.args[0].split(",")]
    for value in mark.args[1]:
        one = dict(zip(names, value if len(names) > 1 else [value]))
        if all(drawn.get(name, lambda _: True)(each) for name, each in one.items()):
            yield one


def run_on_the_cpu():
    """The tests' "cuda" is the CPU, whose arithmetic is that of tests/with_torch."""
    import torch
    from torch.overrides import TorchFunctionMode

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/with_torch"))
    import cpu

    cpu.install()
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(total_memory=2**40)

    class OnTheCpu(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            args = ["cpu" if isinstance(each, str) and each == "cuda" else each for each in args]
            options = {key: "cpu" if key == "device" else value for key, value in (kwargs or {}).items()}
            return function(*args, **options)

    OnTheCpu().__enter__()


def work(options, number, results):
    """Draws tests until this process's share of sets is run, or the time is over."""
    if options.dry_run:
        run_on_the_cpu()
    take_gpu(number)
    peer = Peer(options.folder, options.lenient)
    tests = list(peer.tests({**DRAWN, **SMALL} if options.dry_run else DRAWN, options.only))
    draw, end, left = random.Random(options.seed + number), time.monotonic() + options.seconds, -(-options.sets // options.processes)
    while time.monotonic() < end and left > 0:
        left -= 1
        name, parameters, _ = draw.choices(tests, [weight for *_, weight in tests])[0]
        one = {key: value for values in parameters for key, value in draw.choice(values).items()}
        found, why = peer.outcome(name, one)
        results.put((name, {key: str(value) for key, value in one.items()}, found, why))
        if "CUDA error" in why:
            # Nothing can be computed in this process any more.
            break
    results.put(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where flash-attention's two files are")
    parser.add_argument("--out", required=True, help="folder for the record")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no test begins after so many")
    parser.add_argument("--sets", type=int, default=sys.maxsize, help="so many sets of parameters, by all processes together")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the first process; that of each other is one more")
    parser.add_argument("--only", help="a regular expression that a test's name contains")
    parser.add_argument("--lenient", action="store_true", help="leave out return_attn_probs and deterministic")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, without the kernels")
    options = parser.parse_args()
    if options.seconds == float("inf") and options.sets == sys.maxsize:
        parser.error("give --seconds or --sets")
    return run(work, options, "flash_attention")


if __name__ == "__main__":
    sys.exit(main())
