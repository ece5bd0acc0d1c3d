"""Every argument of every function: taken as it is meant, or an error that names it. On the CPU."""

import inspect
import math
import re
import unittest

import numpy
import torch

import cpu
import fa512
import fa512.torch


# What is no value of each kind of argument.
NO_TENSOR = [5, 1.5, "q", [1.0], numpy.zeros(3)]
NO_NUMBER = ["1", True, False, 1j, (1.0,), math.nan, math.inf, -math.inf, 10**400, torch.tensor(1.0), torch.ones(2)]
NO_ROWS = [7.5, -1, 2**31, 2**70, "7", True, [7], torch.tensor(7.0), torch.ones(2, dtype=torch.int32), math.nan]
NO_SIDES = [(3,), (3, 2, 1), (3.0, 2), (3, math.nan), ("3", "2"), (True, 2), (-2, 0), (0, -(2**70)), ((3,), 2), torch.ones(2)]
NO_WINDOW = [5, -1, "32", {3, 2}, {"left": 3, "right": 2}, (), [], torch.tensor(3), torch.ones(3, dtype=torch.int64), True, *NO_SIDES]
BAD = {
    "tensor": [None, *NO_TENSOR],
    "tensor or none": NO_TENSOR,
    "flag": [None, 2, -1, 0.5, 1.0, "False", "", (), torch.tensor(True), numpy.zeros(2)],
    "scale": NO_NUMBER,
    "softcap": [*NO_NUMBER, 0, -1.0, 1e-9, 1e9],
    "softcap of flash-attn": [*NO_NUMBER, 1e-9, 1e9],
    "window": [*NO_WINDOW, (-1, 3), (3, -1)],
    "window of flash-attn": NO_WINDOW,
    "rows": [None, *NO_ROWS],
    "rows or none": NO_ROWS,
    "align": [None, 5, "", "left", b"top-left", True, "Top-left", ["top-left"]],
    "dropout": [None, 0.1, 1, -0.1, "0", True, math.nan, torch.tensor(0.1), torch.ones(2)],
    "none": [5, torch.ones(2), "table", False],
}
# Values that mean the same as the first.
SAME = {
    "flag": [(True, 1), (False, 0)],
    "scale": [(0.5, numpy.float32(0.5), numpy.float64(0.5)), (1.0, 1, numpy.int64(1)), (None,)],
    "softcap": [(1.0, 1, numpy.float16(1)), (None,)],
    "softcap of flash-attn": [(1.0, 1, numpy.float16(1)), (0.0, 0, None, -1.0)],
    "window": [
        ((3, 2), [3, 2], numpy.array([3, 2]), torch.tensor([3, 2]), (numpy.int32(3), torch.tensor(2))),
        ((None, None), None, [None, None], (2**31, 2**63), (2**70, None)),
        ((3, None), (3, 2**64)),
    ],
    "window of flash-attn": [
        ((3, 2), [3, 2], numpy.array([3, 2]), torch.tensor([3, 2]), (numpy.int32(3), torch.tensor(2))),
        ((-1, -1), None, (None, None), (None, -1), [-1, -1], torch.tensor([-1, -1]), (2**31, 2**63), (2**70, -1)),
        ((3, -1), (3, 2**64)),
    ],
    "rows": [(11, numpy.int64(11), torch.tensor(11), torch.tensor([11]), 2**31 - 1)],
    "rows or none": [(11, None, numpy.int64(11), torch.tensor(11), 2**31 - 1)],
    "dropout": [(0.0, 0, numpy.float32(0), -0.0)],
}
KINDS = {
    **dict.fromkeys(("query", "key", "value", "q", "k", "v", "qkv", "kv", "cu_seqlens", "cu_seqlens_q"), "tensor"),
    **dict.fromkeys(("alibi_slopes", "bias", "attn_mask", "seqused_q", "seqused_k"), "tensor or none"),
    **dict.fromkeys(("causal", "is_causal", "enable_gqa", "return_lse", "deterministic", "return_attn_probs"), "flag"),
    **dict.fromkeys(("scale", "softmax_scale"), "scale"),
    "softcap": "softcap",
    "window": "window",
    "window_size": "window of flash-attn",
    "align": "align",
    "dropout_p": "dropout",
    "block_table": "none",
}
NOT_COMPUTING = re.compile(r"why_not\w*|register_\w+|info|warm_up")


def kind_of(function, name):
    if name in ("cu_seqlens_k", "max_seqlen", "max_seqlen_q", "max_seqlen_k"):
        kind = "tensor" if name.startswith("cu") else "rows"
        return kind if function.__name__.startswith("flash_attn") else f"{kind} or none"
    if name == "softcap" and function.__name__.startswith("flash_attn"):
        return "softcap of flash-attn"
    return KINDS[name]


def functions():
    """All functions that compute attention of PyTorch's tensors, with good arguments."""
    for module in (fa512, fa512.torch):
        for name in module.__all__:
            function = getattr(module, name)
            # Those around native functions take arrays of any library: see tests/test_attention.py.
            if inspect.isfunction(function) and not hasattr(function, "__wrapped__") and not NOT_COMPUTING.fullmatch(name):
                yield function, good(name)


def good(name):
    """Arguments without which this function cannot be called; 11 queries and keys."""
    generator = torch.Generator().manual_seed(0)

    def half(*shape):
        return torch.randn(*shape, generator=generator).half()

    bounds = {"cu_seqlens_q": torch.tensor([0, 4, 11], dtype=torch.int32), "max_seqlen_q": 7, "max_seqlen_k": 7}
    bounds["cu_seqlens_k"] = bounds["cu_seqlens_q"]
    one = {"cu_seqlens": bounds["cu_seqlens_q"]}
    return {
        "attention": {key: half(2, 2, 11, 64) for key in ("query", "key", "value")},
        "scaled_dot_product_attention": {key: half(2, 2, 11, 64) for key in ("query", "key", "value")},
        "attention_padded": {key: half(2, 11, 2, 64) for key in ("query", "key", "value")},
        "attention_varlen": {**{key: half(11, 2, 64) for key in ("query", "key", "value")}, **one},
        "flash_attn_func": {key: half(2, 11, 2, 64) for key in "qkv"},
        "flash_attn_qkvpacked_func": {"qkv": half(2, 11, 3, 2, 64)},
        "flash_attn_kvpacked_func": {"q": half(2, 11, 2, 64), "kv": half(2, 11, 2, 2, 64)},
        "flash_attn_varlen_func": {**{key: half(11, 2, 64) for key in "qkv"}, **bounds},
        "flash_attn_varlen_qkvpacked_func": {"qkv": half(11, 3, 2, 64), **one, "max_seqlen": 7},
        "flash_attn_varlen_kvpacked_func": {"q": half(11, 2, 64), "kv": half(11, 2, 2, 64), **bounds},
    }[name]


class Arguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cpu.install()
        cls.functions = list(functions())

    def test_there_are_all_functions(self):
        names = [function.__name__ for function, _ in self.functions]
        self.assertEqual(len(names), 7 + 10)

    def test_what_an_argument_cannot_be_is_an_error_that_names_it(self):
        for function, arguments in self.functions:
            for name in inspect.signature(function).parameters:
                for value in BAD[kind_of(function, name)]:
                    with self.subTest(f"{function.__module__}.{function.__name__}", **{name: value}):
                        with self.assertRaisesRegex((ValueError, TypeError), rf"^{name} is .*; it must be "):
                            function(**{**arguments, name: value})

    def test_what_an_argument_can_be_is_taken_as_it_is_meant(self):
        for function, arguments in self.functions:
            for name in inspect.signature(function).parameters:
                for first, *others in SAME.get(kind_of(function, name), []):
                    expected = function(**{**arguments, name: first})
                    for value in others:
                        with self.subTest(f"{function.__module__}.{function.__name__}", **{name: value}):
                            torch.testing.assert_close(function(**{**arguments, name: value}), expected, atol=0, rtol=0)

    def test_values_that_differ_have_other_results(self):
        """The test above can fail: no option is ignored."""
        limits = {"causal", "is_causal", "scale", "softmax_scale", "window", "window_size"}
        for function, arguments in self.functions:
            for name in limits & set(inspect.signature(function).parameters):
                groups = [function(**{**arguments, name: first}) for first, *_ in SAME[kind_of(function, name)]]
                self.assertEqual(len({out.sum().item() for out in groups}), len(groups), (function.__name__, name))
