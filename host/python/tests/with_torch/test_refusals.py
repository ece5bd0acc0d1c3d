"""What the functions for PyTorch do not compute is an error that names it. Run before `cpu.install`: the operators are as they are."""

import unittest

import torch

import fa512


def half(*shape):
    return torch.zeros(shape, dtype=torch.float16)


class Refusals(unittest.TestCase):
    def refused(self, words, function, *arguments, **keywords):
        with self.assertRaisesRegex(ValueError, words):
            function(*arguments, **keywords)

    def test_arguments_of_scaled_dot_product_attention(self):
        x = half(1, 2, 8, 64)
        sdpa = fa512.scaled_dot_product_attention
        self.refused("attn_mask is given", sdpa, x, x, x, torch.ones(8, 8))
        self.refused("dropout_p is 0.1", sdpa, x, x, x, dropout_p=0.1)
        self.refused("enable_gqa is True", sdpa, x, half(1, 1, 8, 64), half(1, 1, 8, 64), enable_gqa=True)

    def test_arguments_of_flash_attn_func(self):
        x = half(1, 8, 2, 64)
        for keywords, words in [
            ({"dropout_p": 0.1}, "dropout_p is 0.1"),
            ({"window_size": (4, 4)}, r"window_size is \(4, 4\)"),
            ({"softcap": 30.0}, "softcap is 30.0"),
            ({"alibi_slopes": torch.ones(2)}, "alibi_slopes are given"),
            ({"return_attn_probs": True}, "return_attn_probs is True"),
        ]:
            self.refused(words, fa512.flash_attn_func, x, x, x, **keywords)
        x.requires_grad = True
        self.refused("deterministic is True", fa512.flash_attn_func, x, x, x, deterministic=True)

    def test_tensors(self):
        import fa512.torch

        x = half(1, 2, 8, 64)
        why_not = fa512.torch.why_not
        self.assertIsNone(why_not(x, x, x))
        self.assertIsNone(why_not(*[x.bfloat16()] * 3))
        self.assertIn("query is torch.float32; it must be torch.float16 or torch.bfloat16", why_not(*[x.float()] * 3))
        self.assertIn("value is torch.bfloat16 and query torch.float16; they must be of one type", why_not(x, x, x.bfloat16()))
        self.assertIn("head size of 32", why_not(*[half(1, 2, 8, 32)] * 3))
        self.assertIn("3 dimensions", why_not(*[half(2, 8, 64)] * 3))
        self.assertIn("key has the shape [1, 2, 9, 64]", why_not(x, half(1, 2, 9, 64), half(1, 2, 9, 64)))
        self.assertIn("value is on meta", why_not(x, x, x.to("meta")))
        self.assertIn("query is on cpu", fa512.torch.why_not_here(x, x, x))

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
