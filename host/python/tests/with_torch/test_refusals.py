"""What the functions for PyTorch do not compute is an error that names it. Run before `cpu.install`: the operators are as they are."""

import inspect
import unittest
import unittest.mock

import torch

import fa512
import fa512.torch


def half(*shape):
    return torch.zeros(shape, dtype=torch.float16)


def parameters(function):
    """Names and defaults, in order."""
    return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]


class Signatures(unittest.TestCase):
    def test_that_of_pytorch(self):
        named = " ".join(torch.nn.functional.scaled_dot_product_attention.__doc__.split())
        self.assertTrue(named.startswith("scaled_dot_product_attention("), named)
        ours = ", ".join(
            name if default is inspect.Parameter.empty else f"{name}={default}"
            for name, default in parameters(fa512.scaled_dot_product_attention)
        )
        self.assertEqual(named[named.index("(") + 1 : named.index(")")].strip(" ,"), ours)

    def test_that_of_the_package_is_that_of_the_operators(self):
        """Those of flash-attn's functions: see test_flash_attn.py."""
        name = "scaled_dot_product_attention"
        self.assertEqual(parameters(getattr(fa512, name)), parameters(getattr(fa512.torch, name)))

    def test_every_argument_reaches_the_operators(self):
        """None is dropped on the way from the package to `fa512.torch`."""
        name = "scaled_dot_product_attention"
        given = {parameter: object() for parameter, _ in parameters(getattr(fa512, name))}
        with unittest.mock.patch(f"fa512.torch.{name}") as called:
            getattr(fa512, name)(**given)
        bound = inspect.signature(getattr(fa512.torch, name)).bind(*called.call_args.args, **called.call_args.kwargs)
        self.assertEqual(bound.arguments, given)


class Refusals(unittest.TestCase):
    def refused(self, words, function, *arguments, **keywords):
        with self.assertRaisesRegex(ValueError, words):
            function(*arguments, **keywords)

    def test_arguments_of_scaled_dot_product_attention(self):
        x = half(1, 2, 8, 64)
        sdpa = fa512.scaled_dot_product_attention
        words = "attn_mask is torch.float32 and query torch.float16; a mask must be boolean, or a bias"
        self.refused(words, sdpa, x, x, x, torch.ones(8, 8))
        self.refused("dropout_p is 0.1", sdpa, x, x, x, dropout_p=0.1)
        self.refused("query has 2 heads and key 1; pass enable_gqa=True", sdpa, x, *[half(1, 1, 8, 64)] * 2)

    def test_tensors(self):
        x = half(1, 2, 8, 64)
        why_not = fa512.torch.why_not
        self.assertIsNone(why_not(x, x, x))
        self.assertIsNone(why_not(*[x.bfloat16()] * 3))
        self.assertIn("query is torch.float32; it must be torch.float16 or torch.bfloat16", why_not(*[x.float()] * 3))
        self.assertIn("value is torch.bfloat16 and query torch.float16; they must be of one type", why_not(x, x, x.bfloat16()))
        self.assertIn("head size of 36; it must be a multiple of 8, at most 256", why_not(*[half(1, 2, 8, 36)] * 3))
        self.assertIn("head size of 264", why_not(*[half(1, 2, 8, 264)] * 3))
        for head_dim in (32, 136, 256):
            self.assertIsNone(why_not(*[half(1, 2, 8, head_dim)] * 3))
        self.assertIn("3 dimensions", why_not(*[half(2, 8, 64)] * 3))

    def test_shapes_of_keys_and_values(self):
        x, why_not = half(1, 4, 8, 64), fa512.torch.why_not
        for shape in [(1, 4, 9, 64), (1, 2, 8, 64), (1, 1, 3, 64)]:
            self.assertIsNone(why_not(x, half(*shape), half(*shape)), shape)
        nothing = half(1, 4, 0, 64)
        self.assertIsNone(why_not(nothing, *[half(1, 0, 8, 64)] * 2), "of nothing there is nothing to compute")
        for key, words in [
            ((2, 4, 8, 64), "key has the shape [2, 4, 8, 64] and query [1, 4, 8, 64]; they may differ in heads and the sequence only"),
            ((1, 4, 8, 32), "they may differ in heads and the sequence only"),
            ((4, 8, 64), "key has the shape [4, 8, 64]"),
            ((1, 3, 8, 64), "query has 4 heads and key 3; the heads of query must be a multiple of those of key"),
            ((1, 8, 8, 64), "query has 4 heads and key 8"),
            ((1, 0, 8, 64), "key has the shape [1, 0, 8, 64]; it must hold a key"),
            ((1, 4, 0, 64), "it must hold a key"),
        ]:
            self.assertIn(words, why_not(x, half(*key), half(*key)))
        self.assertIn("value has the shape [1, 4, 8, 64] and key [1, 2, 8, 64]; they must be equal", why_not(x, x[:, :2], x))

    def test_shapes_of_packed_keys_and_values(self):
        x, lengths = half(11, 4, 64), torch.tensor([0, 11], dtype=torch.int32)
        self.assertIsNone(fa512.torch.why_not_varlen(x, x[:, :2], x[:, :2], lengths))
        for key, words in [
            ((12, 4, 64), "key has the shape [12, 4, 64] and query [11, 4, 64]; they may differ in heads only"),
            ((11, 3, 64), "query has 4 heads and key 3"),
        ]:
            self.assertIn(words, fa512.torch.why_not_varlen(x, half(*key), half(*key), lengths))

    def test_a_tensor_that_is_elsewhere(self):
        x = half(1, 2, 8, 64)
        self.assertIn("value is on meta", fa512.torch.why_not(x, x, x.to("meta")))
        self.assertIn("query is on cpu", fa512.torch.why_not_here(x, x, x))

    def test_where_tensors_lie(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            x = torch.empty(2, 3, 8, 64, dtype=torch.float16, device="cuda")
            why_not_here = fa512.torch.why_not_here
            fused = torch.empty(2, 8, 3, 3, 64, dtype=torch.float16, device="cuda")
            one_row = torch.empty(2, 3, 1, 65, dtype=torch.float16, device="cuda")[..., :64]
            for good in (x, x.expand_as(x), x[:1, :1].expand_as(x), fused[:, :, 1].transpose(1, 2), x[:, :, 3:]):
                self.assertIsNone(why_not_here(good, good, good))
            self.assertIn("key has the strides (195, 65, 65, 1)", why_not_here(x[:, :, :1], one_row, x[:, :, :1]))
            wide = torch.empty(1, 1, 1, 65, dtype=torch.float16, device="cuda")[..., :64]
            self.assertIsNone(why_not_here(wide, wide, wide), "of a dimension of size 1 the stride says nothing")
            gaps = torch.empty(2, 3, 8, 128, dtype=torch.float16, device="cuda")
            self.assertIn("value has the strides", why_not_here(x, x, gaps[..., ::2]))
            self.assertIn("query begins at element 4", why_not_here(gaps[..., 4:68], x, x))

    def test_tensors_that_are_no_cuda_tensors(self):
        x = half(1, 2, 8, 64)
        with self.assertRaisesRegex(ValueError, "q is on the CPU"):
            fa512.attention(x, x, x)

        class Wrapper(torch.Tensor):
            pass

        with self.assertRaisesRegex(TypeError, "q is a Wrapper, which has no memory of its own"):
            fa512.attention(x.as_subclass(Wrapper), x, x)

    def test_a_gradient_is_not_lost(self):
        x = half(1, 2, 8, 64).requires_grad_()
        with self.assertRaisesRegex(ValueError, "q requires grad, and fa512.attention records no gradient"):
            fa512.attention(x, x, x)
        with torch.no_grad(), self.assertRaisesRegex(ValueError, "q is on the CPU"):
            fa512.attention(x, x, x)
