"""Packed sequences whose keys have lengths of their own: the operators and functions, on the CPU."""

import types
import unittest
import unittest.mock

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode

import cpu
import fa512
import fa512.torch
import fa512.transformers
from by_hand import ALIGNMENTS, CLOSE, with_mask
from fa512.torch import _packed
from fa512.transformers._attention import attention_forward
from fa512.transformers._lengths import are_known_equal
from mesh import Mesh

# A sequence without queries, one without keys, more keys than queries, and fewer.
QUERIES, KEYS = [0, 3, 3, 5, 12, 16], [0, 5, 7, 7, 10, 19]
LIMITS = [(False, (None, None)), (True, (None, None)), (True, (3, None)), (False, (3, 2)), (False, (None, 1)), (False, (2, None))]


def setUpModule():
    cpu.install()
    cpu.calls()


def inputs(heads=4, shared=2, requires_grad=False):
    torch.manual_seed(0)
    shapes = [(16, heads, 64), (19, shared, 64), (19, shared, 64)]
    return [torch.randn(shape, dtype=torch.float16).requires_grad_(requires_grad) for shape in shapes]


def lengths(numbers=QUERIES):
    return torch.tensor(numbers, dtype=torch.int32)


def both():
    return lengths(), lengths(KEYS)


def by_sequence(tensors, causal=False, window=(None, None), align="top-left", **more):
    """PyTorch's attention of each sequence; zeros where a query sees no key."""
    q, k, v = (tensor.float() for tensor in tensors)
    parts = []
    for begin, end, first, last in zip(QUERIES, QUERIES[1:], KEYS, KEYS[1:]):
        if first == last:
            parts.append(q[begin:end] * 0)
            continue
        mask = cpu.seen(end - begin, causal, *window, align, last - first)
        one = (q[begin:end], k[first:last], v[first:last])
        one = (tensor.transpose(0, 1)[None] for tensor in one)
        parts.append(with_mask(*one, mask, **more)[0].transpose(0, 1))
    return torch.cat(parts)


class Operators(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_opcheck_is_clean(self):
        queries, keys = both()
        options = (7, True, 0.1, 3, None, None, None, keys, 9, "bottom-right")
        for requires_grad in (False, True):
            arguments = (*inputs(requires_grad=requires_grad), queries, *options)
            for operator in (torch.ops.fa512.attention_varlen, torch.ops.fa512.attention_varlen_with_lse):
                torch.library.opcheck(operator.default, arguments)
        tensors = inputs()
        out, lse = torch.ops.fa512.attention_varlen_with_lse(*tensors, queries, *options)
        arguments = (out, *tensors, out, lse, queries, keys, None, 7, 9, True, 0.1, 3, None)
        torch.library.opcheck(torch.ops.fa512.attention_varlen_backward.default, arguments)

    def test_results_at_both_corners(self):
        tensors, (queries, keys) = inputs(), both()
        for causal, window in LIMITS:
            for align in ALIGNMENTS:
                limits = {"causal": causal, "window": window, "align": align}
                with self.subTest(**limits):
                    out, lse = fa512.torch.attention_varlen(
                        *tensors, queries, 7, cu_seqlens_k=keys, max_seqlen_k=9, scale=0.2, return_lse=True, **limits
                    )
                    torch.testing.assert_close(out.float(), by_sequence(tensors, scale=0.2, **limits), **CLOSE)
                    self.assertEqual(lse.shape, (4, 16))

    def test_flash_attn_varlen_func_has_the_last_query_at_the_last_key(self):
        tensors, (queries, keys) = inputs(), both()
        for causal, window in LIMITS:
            sizes = tuple(-1 if side is None else side for side in window)
            out = fa512.flash_attn_varlen_func(*tensors, queries, keys, 7, 9, causal=causal, window_size=sizes)
            torch.testing.assert_close(out.float(), by_sequence(tensors, causal, window, "bottom-right"), **CLOSE)

    def test_one_tensor_for_both_is_told_once(self):
        """Kernels of one cu_seqlens may be faster."""
        rows, one = [torch.randn(16, 2, 64).half() for _ in range(3)], lengths()
        for call in (
            lambda keys: fa512.flash_attn_varlen_func(*rows, one, keys, 7, 9),
            lambda keys: fa512.torch.attention_varlen(*rows, one, cu_seqlens_k=keys),
        ):
            told = []
            for keys in (one, one.clone()):
                operator = torch.ops.fa512.attention_varlen
                with unittest.mock.patch("fa512.torch._packed._forward", side_effect=operator) as called:
                    call(keys)
                told.append(any(argument is keys for argument in called.call_args.args[4:]))
            self.assertEqual(told, [False, True])

    def test_the_native_half_is_given_all_of_it(self):
        """On a GPU; here only what it is asked for."""
        tensors, (queries, keys) = inputs(), both()
        with unittest.mock.patch("fa512._native.attention_varlen") as called:
            _packed.forward_cuda(*tensors, queries, 7, True, 0.2, 3, None, None, None, keys, 9, "bottom-right")
        asked = {"causal": True, "scale": 0.2, "window": (3, None), "align": "bottom-right", "cu_seqlens_k": keys}
        self.assertEqual(called.call_args.kwargs, {**asked, "max_seqlen": 7, "softcap": None, "alibi_slopes": None})

    def test_compile_keeps_the_operator_in_one_graph(self):
        def model(q, k, v, queries, keys):
            return fa512.flash_attn_varlen_func(q, k, v, queries, keys, 7, 9, causal=True)

        for dynamic in (False, True):
            torch._dynamo.reset()
            tensors = inputs(requires_grad=True)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            out = compiled(*tensors, *both())
            torch.testing.assert_close(out, model(*tensors, *both()))
            out.sum().backward()
            self.assertTrue(all(tensor.grad.isfinite().all() for tensor in tensors))

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            q, k = (torch.empty(rows, 2, 64, dtype=torch.float16, device="cuda") for rows in (16, 19))
            one = torch.empty(6, dtype=torch.int32, device="cuda")
            operator = torch.ops.fa512.attention_varlen
            self.assertEqual(operator(q, k, k, one, 7, cu_seqlens_k=one).shape, (16, 2, 64))
            for keys, words in [
                (one.long(), "cu_seqlens_k is torch.int64"),
                (one[None], "cu_seqlens_k has 2 dimensions"),
                (one.cpu(), "cu_seqlens_k is on cpu"),
                (one[1:], "cu_seqlens_k has 5 elements and cu_seqlens 6"),
                (None, r"key has the shape \[19, 2, 64\] and query \[16, 2, 64\]; they may differ in heads only"),
            ]:
                with self.assertRaisesRegex(ValueError, words):
                    operator(q, k, k, one, 7, cu_seqlens_k=keys)
            with self.assertRaisesRegex(ValueError, "they may differ in rows and heads only"):
                operator(q, k[..., :32], k, one, 7, cu_seqlens_k=one)
            with self.assertRaisesRegex(ValueError, "align is 'middle'"):
                operator(q, k, k, one, 7, cu_seqlens_k=one, align="middle")


class Gradients(unittest.TestCase):
    def test_they_are_those_of_each_sequence(self):
        """Those of shared heads are summed; what PyTorch is told holds for it."""
        for causal, window in LIMITS:
            is_limited = causal or window != (None, None)
            for align in ALIGNMENTS[1:] if is_limited else ALIGNMENTS:
                limits = {"causal": causal, "window": window, "align": align}
                with self.subTest(**limits):
                    tensors, (queries, keys) = inputs(requires_grad=True), both()
                    cpu.calls()
                    out = fa512.torch.attention_varlen(*tensors, queries, 7, cu_seqlens_k=keys, max_seqlen_k=9, **limits)
                    out.float().square().sum().backward()
                    self.assertEqual(cpu.calls(), ["attention_varlen_with_lse", "attention_varlen_backward"])
                    exact = [tensor.detach().float().requires_grad_() for tensor in tensors]
                    by_sequence(exact, **limits).square().sum().backward()
                    for tensor, other in zip(tensors, exact):
                        torch.testing.assert_close(tensor.grad.float(), other.grad, atol=2e-2, rtol=2e-2)

    def test_what_pytorch_has_no_gradient_of_is_computed_here(self):
        tensors, (queries, keys) = inputs(requires_grad=True), both()
        for limits in ({"causal": True}, {"window": (3, None)}, {"window": (None, 3)}):
            out = fa512.torch.attention_varlen(*tensors, queries, cu_seqlens_k=keys, **limits)
            found = torch.autograd.grad(out.float().square().sum(), tensors)
            exact = [tensor.detach().float().requires_grad_() for tensor in tensors]
            whole = {"causal": False, "window": (None, None), "align": "top-left", **limits}
            expected = torch.autograd.grad(by_sequence(exact, **whole).square().sum(), exact)
            for pair in zip(found, expected):
                torch.testing.assert_close(pair[0].float(), pair[1], atol=2e-2, rtol=2e-2)

    def test_pytorch_is_told_both_lengths(self):
        """The longest keys are no shorter than the longest queries: a window as wide as they are would count as no limit."""
        q, k = (torch.zeros(rows, 2, 136, dtype=torch.float16) for rows in (16, 19))
        queries, keys = both()
        for longest, told in ((9, 9), (4, 7), (None, 7)):
            with unittest.mock.patch("torch.ops.aten._flash_attention_backward") as called:
                _packed.gradients(
                    q, q, k, k, q, torch.zeros(2, 16), queries, keys, None, 7, longest, True, None, 4, None, None, "bottom-right"
                )
            first, second, *rest = called.call_args.args[6:12]
            self.assertIs(first, queries)
            self.assertIs(second, keys)
            self.assertEqual(rest, [7, told, 0.0, True])


class Sharding(Mesh):
    def test_heads_need_no_communication(self):
        local = inputs(requires_grad=True)
        tensors = [DTensor.from_local(tensor, self.mesh, [Shard(1)]) for tensor in local]
        queries, keys = (DTensor.from_local(each, self.mesh, [Replicate()]) for each in both())
        with CommDebugMode() as seen:
            out = fa512.torch.attention_varlen(
                *tensors, queries, 7, cu_seqlens_k=keys, max_seqlen_k=9, causal=True, align="bottom-right"
            )
            out.to_local().float().sum().backward()
        self.assertEqual(seen.get_total_counts(), 0)
        self.assertEqual((out.placements, out.shape), ((Shard(1),), (16, 8, 64)))
        torch.testing.assert_close(out.to_local(), by_sequence(local, True, align="bottom-right").half(), **CLOSE)
        self.assertIsNotNone(local[1].grad)


class Transformers(unittest.TestCase):
    """transformers says the lengths of keys in a tensor of its own, most often the same ones."""

    def call(self, tensors, strict=True, **more):
        module = types.SimpleNamespace(is_causal=True)
        tensors = [tensor.transpose(0, 1)[None] for tensor in tensors]
        here = unittest.mock.patch("fa512.torch.why_not_varlen_here", fa512.torch.why_not_varlen)
        with here:
            return attention_forward(strict, module, *tensors, None, **more)[0]

    def test_other_lengths_have_the_last_query_at_the_last_key(self):
        tensors, (queries, keys) = inputs(), both()
        more = {"cu_seq_lens_q": queries, "cu_seq_lens_k": keys, "max_length_q": 7, "max_length_k": 9}
        for window in (None, 8):
            limits = (None if window is None else window - 1, None)
            out = self.call(tensors, **more, sliding_window=window)
            torch.testing.assert_close(out[0].float(), by_sequence(tensors, True, limits, "bottom-right"), **CLOSE)

    def test_those_that_fa512_does_not_compute_are_computed_by_pytorch(self):
        tensors, (queries, keys) = [tensor[..., :4] for tensor in inputs()], both()
        out = self.call(tensors, strict=False, cu_seq_lens_q=queries, cu_seq_lens_k=keys)
        expected = by_sequence(tensors, True, (None, None), "bottom-right")
        torch.testing.assert_close(out[0].float(), expected, **CLOSE)
        with self.assertRaisesRegex(ValueError, "query has a head size of 4"):
            self.call(tensors, cu_seq_lens_q=queries, cu_seq_lens_k=keys)

    def test_a_comparison_is_remembered_until_a_tensor_is_written(self):
        first, second = lengths(), lengths()
        self.assertTrue(are_known_equal(first, first[:]))
        self.assertTrue(are_known_equal(first, second))
        with unittest.mock.patch("torch.equal", side_effect=AssertionError("compared again")):
            self.assertTrue(are_known_equal(first, second))
        second[1] = 2
        self.assertFalse(are_known_equal(first, second))
        self.assertFalse(are_known_equal(first, lengths(QUERIES[1:])))
        with torch.inference_mode():
            same = lengths()
            self.assertTrue(are_known_equal(same, same[:]))
            self.assertFalse(are_known_equal(same, lengths()), "writes to these leave no trace")

    def test_while_a_graph_is_compiled_nothing_is_compared(self):
        first, second = lengths(), lengths()
        compiling = unittest.mock.patch("torch.compiler.is_compiling", return_value=True)
        with compiling, unittest.mock.patch("torch.equal", side_effect=AssertionError("compared")):
            self.assertFalse(are_known_equal(first, second))
