"""PyTorch's own tests of scaled_dot_product_attention with fa512's in its place, on a machine with a GPU:

    python pytorch_sdpa.py --tests FOLDER/test_transformers.py --out RECORDS --seconds 500 --processes 8

The file is test/test_transformers.py of the PyTorch that is installed. Needs fa512, PyTorch, expecttest and numpy. Tests run in a
random order. Where a test asks for a fused kernel of float16 or bfloat16 tensors, fa512 is called; where it asks for the math kernel, which
is what it compares with, and for other types, PyTorch is. RECORDS/pytorch_sdpa.json counts what passed, what fa512 refused, by reason,
what failed, and what did not call fa512, which says nothing about it. Tests with dropout are left out.

The samples of inputs that PyTorch has for the function are computed too, as float16 and bfloat16, with and without gradients, and compared
with float64; they need no file. What fa512 refuses for its gradient is run again without it: what a test requires of O must hold.
`--dry-run` runs on the CPU, with PyTorch's arithmetic in place of the kernels.
"""

import argparse
import importlib.util
import pathlib
import random
import re
import sys
import time
import traceback
import types
import unittest

from counts import NO_GRADIENT, reason_of, run, take_gpu, with_gradient_of_nan

# Tests of PyTorch's choice among its kernels and of its errors, those without a kernel for a GPU, and those with dropout.
LEFT_OUT = re.compile(
    "FailureModes|sdp_choice|dispatch|priority|invalid|fails|throws|Transformers|_cpu|registration|privateuse|warning|context_manager"
    r"|dropout(_p)?_0_[1-9]"
)


OF_GRADIENTS = re.compile(r"in test_\w+\n.*\.grad\b|AssertionError: d[QKV] of")


class Replaced:
    """`scaled_dot_product_attention` by fa512, where a test asks for a fused kernel that fa512 may have."""

    def __init__(self):
        import torch

        self.original = torch.nn.functional.scaled_dot_product_attention
        self.calls, self.refused, self.without_gradient = 0, None, False
        torch.nn.functional.scaled_dot_product_attention = self

    def __call__(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        import torch

        import fa512

        options = {"scale": scale, "enable_gqa": enable_gqa}
        backends = torch.backends.cuda
        fused = backends.flash_sdp_enabled() or backends.mem_efficient_sdp_enabled() or backends.cudnn_sdp_enabled()
        half = query.dtype in (torch.float16, torch.bfloat16)
        if not (fused and half) or query.is_nested or (query.device.type == "cpu") != (not torch.cuda.is_available()):
            return self.original(query, key, value, attn_mask, dropout_p, is_causal, **options)
        self.calls += 1
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.without_gradient):
                out = fa512.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **options)
        except (ValueError, TypeError, NotImplementedError) as error:
            self.refused = reason_of(error)
            raise unittest.SkipTest("refused") from error
        return with_gradient_of_nan(out, (query, key, value, attn_mask)) if self.without_gradient else out

    def run(self, test):
        self.calls, self.refused = 0, None
        result = unittest.TestResult()
        test.run(result)
        return result, [text for _, text in result.failures + result.errors]

    def outcome(self, test):
        """What comes of a test, and why."""
        result, wrong = self.run(test)
        if self.refused is not None:
            return self.outcome_without_gradient(test, self.refused)
        if wrong:
            return ("failed" if self.calls else "without fa512"), wrong[0][-3000:]
        if result.skipped:
            return "skipped", result.skipped[0][1]
        return ("passed" if self.calls else "without fa512"), ""

    def outcome_without_gradient(self, test, why):
        """"refused", unless what the test requires of O does not hold."""
        if not NO_GRADIENT.search(why):
            return "refused", why
        self.without_gradient = True
        try:
            _, wrong = self.run(test)
        finally:
            self.without_gradient = False
        wrong = [text for text in wrong if not OF_GRADIENTS.search(text)]
        return ("failed", f"without a gradient: {wrong[0][-3000:]}") if wrong and self.refused is None else ("refused", why)


def tests_of(path):
    """The tests in this file that are about the function, with their names without parameters."""
    names = re.findall(r"def (test_\w+)", pathlib.Path(path).read_text())
    # It would be of the tests.
    sys.argv = sys.argv[:1]
    name = "test_cpp_extensions_open_device_registration"
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(remove_build_path=None, generate_faked_module=None)
    spec = importlib.util.spec_from_file_location("peer", path)
    sys.modules["peer"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for suite in unittest.defaultTestLoader.loadTestsFromModule(module):
        for test in suite:
            if not LEFT_OUT.search(test.id()):
                yield max((name for name in names if test._testMethodName.startswith(name)), key=len), test


def samples(seed):
    """PyTorch's samples of inputs, each as a test."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    operator = next(each for each in op_db if each.name == "nn.functional.scaled_dot_product_attention")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for dtype in (torch.float16, torch.bfloat16):
        for requires_grad in (False, True):
            torch.manual_seed(seed)
            for sample in operator.sample_inputs(device, dtype, requires_grad=requires_grad):
                if sample.kwargs.get("dropout_p"):
                    continue
                yield unittest.FunctionTestCase(lambda sample=sample: compare(sample))


def compare(sample):
    """Requires O and gradients of a sample to be as close to float64 as PyTorch's math in the sample's type is, within a factor of 2, or as
    PyTorch's own FlashAttention-2 is."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    function = torch.nn.functional.scaled_dot_product_attention
    tensors = (sample.input, *sample.args)

    def results(dtype, *backends, function=function, keys=None):
        inputs = [tensor.detach().to(dtype).requires_grad_(tensor.requires_grad) for tensor in tensors]
        mask = sample.kwargs.get("attn_mask")
        own = {"attn_mask": mask.detach().to(dtype)} if mask is not None and mask.is_floating_point() else {}
        q, k, v = inputs
        with sdpa_kernel(list(backends)):
            out = function(q, k[..., :keys, :], v[..., :keys, :], **{**sample.kwargs, **own})
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        return [out, *(torch.autograd.grad(out.sum(), wanted) if wanted else ())]

    fused = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
    own = results(sample.input.dtype, *fused)
    exact, plain = results(torch.float64, SDPBackend.MATH), results(sample.input.dtype, SDPBackend.MATH)
    for index, (name, found, right, other) in enumerate(zip(("O", "dQ", "dK", "dV"), own, exact, plain)):
        error, limit = ((each.double() - right).abs().max().item() for each in (found, other))
        smallest = torch.finfo(sample.input.dtype).eps * right.abs().max().item()
        if error <= 2 * limit + smallest:
            continue
        of_flash = 0.0
        if sample.kwargs.get("attn_mask") is None:
            # FlashAttention-2 takes a causal mask of as many keys as queries alone; the first queries attend to no others.
            keys = sample.input.shape[-2] if sample.kwargs.get("is_causal") else None
            original = getattr(function, "original", function)
            flash = results(sample.input.dtype, SDPBackend.FLASH_ATTENTION, function=original, keys=keys)[index]
            of_flash = (flash.double() - right).abs().max().item()
        if not error <= of_flash:
            limits = f"limits 2 · {limit:.3g} + {smallest:.3g} and {of_flash:.3g} of FlashAttention-2"
            raise AssertionError(f"{name} of {sample.summary()}: {error:.3g}; {limits}")


def run_on_the_cpu():
    """Tests for a GPU are made for the CPU, whose arithmetic is that of tests/with_torch."""
    import torch
    from torch.testing._internal import common_cuda, common_device_type

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/with_torch"))
    import cpu

    cpu.install()
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(total_memory=2**30)
    for name in ("FLASH", "MEM_EFF", "FUSED"):
        setattr(common_cuda, f"PLATFORM_SUPPORTS_{name}_ATTENTION", True)
    common_cuda.SM80OrLater = True
    common_device_type.onlyCUDA = lambda function: function
    instantiate = common_device_type.instantiate_device_type_tests
    common_device_type.instantiate_device_type_tests = lambda tests, scope, **_: instantiate(tests, scope, only_for="cpu")
    global LEFT_OUT
    LEFT_OUT = re.compile(LEFT_OUT.pattern.replace("|_cpu", ""))


def work(options, number, results):
    """Runs this process's share of the tests, in a random order, until the time is over."""
    try:
        if options.dry_run:
            run_on_the_cpu()
        take_gpu(number)
        replaced = Replaced()
        tests = list(tests_of(options.tests)) if options.tests else []
        random.Random(options.seed).shuffle(tests)
        begin = [test for seed in range(options.samples) for test in samples(seed)]
        named = [("samples", test) for test in begin] + tests
        end = time.monotonic() + options.seconds
        for name, test in named[number :: options.processes]:
            if time.monotonic() > end:
                break
            if not options.only or re.search(options.only, name):
                found, why = replaced.outcome(test)
                results.put((name, test.id(), found, why))
                if "CUDA error" in why:
                    # Nothing can be computed in this process any more.
                    break
    except BaseException:
        results.put(("start", "", "failed", traceback.format_exc()[-3000:]))
    results.put(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", help="PyTorch's test/test_transformers.py; without it, samples alone are computed")
    parser.add_argument("--out", required=True, help="folder for the record")
    parser.add_argument("--seconds", type=float, default=500, help="no test begins after so many")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--samples", type=int, default=4, help="seeds of PyTorch's samples of inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--only", help="a regular expression that a test's name contains")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, without the kernels")
    options = parser.parse_args()
    return run(work, options, "pytorch_sdpa")


if __name__ == "__main__":
    sys.exit(main())
