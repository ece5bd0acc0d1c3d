"""Softcap, ALiBi slopes and biases: the operators and functions, on the CPU."""

import unittest
import unittest.mock

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

import cpu
import fa512
import fa512.torch
from by_hand import by_hand
from mesh import Mesh

NUMBERS = [0, 3, 4, 4, 11]
CLOSE = {"atol": 2e-3, "rtol": 1e-3}


def setUpModule():
    cpu.install()
    cpu.calls()


def half(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


def inputs(heads=2, keys=10):
    return [half(2, heads, 10, 64), half(2, heads, keys, 64, seed=1), half(2, heads, keys, 64, seed=2)]


def slopes_of(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(3))


def lengths():
    return torch.tensor(NUMBERS, dtype=torch.int32)


class Operators(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_opcheck_is_clean(self):
        tensors, bias = inputs(), half(2, 10, 10)
        options = (True, 0.1, None, None, "top-left", 5.0, slopes_of(2), bias)
        torch.library.opcheck(torch.ops.fa512.attention.default, (*tensors, *options))
        torch.library.opcheck(torch.ops.fa512.attention_with_lse.default, (*tensors, *options))
        rows = [half(11, 2, 64, seed=seed) for seed in range(3)]
        arguments = (*rows, lengths(), 7, False, None, None, None, 5.0, slopes_of(2))
        torch.library.opcheck(torch.ops.fa512.attention_varlen.default, arguments)
        torch.library.opcheck(torch.ops.fa512.attention_varlen_with_lse.default, arguments)

    def test_each_change(self):
        tensors = inputs()
        for changes in [
            {"softcap": 0.5},
            {"alibi_slopes": slopes_of(2)},
            {"alibi_slopes": slopes_of(2, 2)},
            {"bias": half(2, 1, 10, 10)},
            {"softcap": 0.5, "alibi_slopes": slopes_of(2), "bias": half(10)},
        ]:
            with self.subTest(changes=list(changes)):
                out, _ = fa512.torch.attention(*tensors, causal=True, return_lse=True, **changes)
                slopes = changes.get("alibi_slopes")
                expected = by_hand(*tensors, changes.get("softcap"), slopes, changes.get("bias"), mask=cpu.seen(10, True))
                torch.testing.assert_close(out.float(), expected, **CLOSE)

    def test_the_native_half_is_given_all_of_them(self):
        """On a GPU; here only what it is asked for."""
        tensors, slopes, bias = inputs(), slopes_of(2), half(10, 10)
        with unittest.mock.patch("fa512._native.attention") as called:
            fa512.torch._batched.forward_cuda(*tensors, True, 0.2, 3, None, "top-left", 5.0, slopes, bias)
        expected = {"causal": True, "scale": 0.2, "window": (3, None), "align": "top-left"}
        self.assertEqual(called.call_args.kwargs, {**expected, "softcap": 5.0, "alibi_slopes": slopes, "bias": bias})
        with unittest.mock.patch("fa512._native.attention_varlen") as called:
            fa512.torch._packed._forward_with_lse_cuda(*tensors, lengths(), 7, True, None, 3, None, 5.0, slopes)
        given = called.call_args.kwargs
        self.assertEqual((given["softcap"], given["alibi_slopes"], given["return_lse"]), (5.0, slopes, True))

    def test_autocast_casts_the_bias_and_leaves_slopes(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            single = torch.empty(2, 3, 10, 64, device="cuda")
            slopes, bias = torch.empty(3, device="cuda"), torch.empty(10, 10, device="cuda")
            torch.set_autocast_enabled("cuda", True)
            self.addCleanup(torch.set_autocast_enabled, "cuda", False)
            out = torch.ops.fa512.attention(*[single] * 3, alibi_slopes=slopes, bias=bias)
            self.assertEqual(out.dtype, torch.float16)

    def test_compile_keeps_the_operator_in_one_graph(self):
        def model(q, k, v, bias, slopes):
            capped = fa512.torch.attention(q, k, v, softcap=5.0, alibi_slopes=slopes)
            return capped + fa512.scaled_dot_product_attention(q, k, v, bias)

        arguments = (*inputs(), half(10, 10), slopes_of(2))
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*arguments), model(*arguments))


class Functions(unittest.TestCase):
    def test_a_mask_of_sdpa_is_a_bias(self):
        tensors = inputs()
        padding = torch.zeros(2, 1, 1, 10, dtype=torch.float16)
        padding[1, ..., 7:] = -torch.inf
        for mask in (half(10, 10), half(2, 2, 10, 10), padding, half(1, 1, 10, 1), half(10, 10).T):
            expected = torch.nn.functional.scaled_dot_product_attention(
                *(tensor.float() for tensor in tensors), attn_mask=mask.float()
            )
            out = fa512.scaled_dot_product_attention(*tensors, mask)
            torch.testing.assert_close(out.float(), expected, **CLOSE)

    def test_a_boolean_mask_says_which_keys_are_seen(self):
        tensors = inputs()
        random = torch.rand(2, 2, 10, 10, generator=torch.Generator().manual_seed(4)) > 0.5
        padding = torch.arange(10) < torch.tensor([10, 7])[:, None, None, None]
        blind = torch.ones(10, 10, dtype=torch.bool)
        # SDPA returns zeros for a query that sees no key.
        blind[3] = False
        for mask in (random, padding, blind, random[..., :1], random[0, 0].T):
            expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
            out = fa512.scaled_dot_product_attention(*tensors, mask)
            torch.testing.assert_close(out, expected, **CLOSE)
        self.assertFalse(fa512.scaled_dot_product_attention(*tensors, blind)[:, :, 3].any())
        tensors = [tensor.requires_grad_() for tensor in tensors]
        out = fa512.scaled_dot_product_attention(*tensors, random)
        expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=random)
        for found, other in zip(*(torch.autograd.grad(each.sum(), tensors) for each in (out, expected))):
            torch.testing.assert_close(found, other, atol=2e-2, rtol=2e-2)


class Refusals(unittest.TestCase):
    def test_gradients(self):
        tensors = [tensor.requires_grad_() for tensor in inputs()]
        for name, changes in [
            ("softcap", {"softcap": 0.5}),
            ("alibi_slopes", {"alibi_slopes": slopes_of(2)}),
            ("bias", {"bias": half(10, 10)}),
        ]:
            with self.subTest(name):
                cpu.calls()
                fa512.torch.attention(*tensors, **changes).sum().backward()
                self.assertEqual(cpu.calls(), ["attention_with_lse", "attention_backward"])
        cpu.calls()
        bias = half(10, 10).requires_grad_()
        fa512.torch.attention(*inputs(), bias=bias).sum().backward()
        self.assertEqual((cpu.calls(), bias.grad.shape), (["attention_with_lse", "attention_bias_backward"], (10, 10)))
        rows = [half(11, 2, 64).requires_grad_() for _ in range(3)]
        cpu.calls()
        fa512.torch.attention_varlen(*rows, lengths(), alibi_slopes=slopes_of(2)).sum().backward()
        self.assertEqual(cpu.calls()[1:], ["attention_varlen_backward"])

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            x = torch.empty(2, 3, 10, 64, dtype=torch.float16, device="cuda")
            single = {"dtype": torch.float32, "device": "cuda"}
            for changes, words in [
                ({"softcap": 0.0}, "softcap is 0.0; it must be from 0.001 to 1000, or None"),
                ({"alibi_slopes": x[0, 0, 0, :3]}, "alibi_slopes are torch.float16; they must be torch.float32"),
                ({"alibi_slopes": torch.empty(3)}, "alibi_slopes are on cpu"),
                ({"alibi_slopes": torch.empty(4, **single)}, r"they must be \[3\] or \[2, 3\] without gaps"),
                ({"alibi_slopes": torch.empty(6, **single)[::2]}, r"strides \(2,\)"),
                ({"bias": torch.empty(10, 10, **single)}, "bias is torch.float32 and query torch.float16"),
                ({"bias": x[0, 0, :, :10].cpu()}, "bias is on cpu"),
                ({"bias": x[0, 0, :, :9]}, r"bias has the shape \[10, 9\] .* must be \[2, 3, 10, 10\]"),
                ({"bias": x[0, :2, :, :10]}, r"bias has the shape \[2, 10, 10\]"),
                ({"bias": x[..., :20:2]}, "the last dimension without gaps"),
                ({"bias": x[None, ..., :10]}, "bias has the shape"),
            ]:
                with self.assertRaisesRegex(ValueError, words):
                    torch.ops.fa512.attention(x, x, x, **changes)
            rows = torch.empty(11, 3, 64, dtype=torch.float16, device="cuda")
            one = torch.empty(5, dtype=torch.int32, device="cuda")
            with self.assertRaisesRegex(ValueError, r"they must be \[3\] or \[4, 3\] without gaps"):
                torch.ops.fa512.attention_varlen(rows, rows, rows, one, 7, alibi_slopes=torch.empty(11, 3, **single))


class Sharding(Mesh):
    def shard(self, tensor, placement):
        return DTensor.from_local(tensor, self.mesh, [placement])

    def test_slopes_and_biases_are_sharded_as_heads_and_batches_are(self):
        from torch.distributed.tensor.debug import CommDebugMode

        local, slopes, bias = inputs(), slopes_of(2), half(2, 1, 10, 10)
        for dimension, of_slopes, of_bias in [(0, Replicate(), Shard(0)), (1, Shard(0), Replicate())]:
            tensors = [self.shard(tensor, Shard(dimension)) for tensor in local]
            with CommDebugMode() as seen:
                changes = {"alibi_slopes": self.shard(slopes, of_slopes), "bias": self.shard(bias, of_bias)}
                out = fa512.torch.attention(*tensors, **changes)
            self.assertEqual((seen.get_total_counts(), out.placements), (0, (Shard(dimension),)))
            expected = fa512.torch.attention(*local, alibi_slopes=slopes, bias=bias)
            torch.testing.assert_close(out.to_local(), expected)

    def test_slopes_of_packed_sequences_are_sharded_as_heads_are(self):
        from torch.distributed.tensor.debug import CommDebugMode

        rows = [self.shard(half(11, 2, 64, seed=seed), Shard(1)) for seed in range(3)]
        one, slopes = self.shard(lengths(), Replicate()), self.shard(slopes_of(2), Shard(0))
        with CommDebugMode() as seen:
            out = fa512.torch.attention_varlen(*rows, one, 7, alibi_slopes=slopes)
        self.assertEqual((seen.get_total_counts(), out.placements), (0, (Shard(1),)))
