"""Softcaps and position biases as models of transformers pass them, around the operators on the CPU."""

import unittest
import unittest.mock

import torch

import cpu
from by_hand import by_hand

CLOSE = {"atol": 2e-3, "rtol": 2e-3}


def setUpModule():
    global attention_forward
    from fa512.transformers._attention import attention_forward

    cpu.install()
    cpu.ask_no_gpu(unittest.addModuleCleanup)


class Attention(unittest.TestCase):
    def setUp(self):
        cpu.calls()
        torch.manual_seed(0)
        self.tensors = [torch.randn(2, 2, 9, 64, dtype=torch.float16) for _ in range(3)]
        self.padding = torch.ones(2, 9, dtype=torch.bool)
        self.padding[1, 6:] = False

    def called(self, mask=None, tensors=None, strict=True, is_causal=False, **more):
        module = unittest.mock.Mock(is_causal=is_causal, num_key_value_groups=1)
        return attention_forward(strict, module, *(tensors or self.tensors), mask, **more)[0]

    def compare(self, out, keep=None, **changes):
        expected = by_hand(*self.tensors, **changes).transpose(1, 2)
        keep = torch.ones(2, 9, dtype=torch.bool) if keep is None else keep
        torch.testing.assert_close(out.float()[keep], expected[keep], **CLOSE)

    def test_softcap(self):
        self.compare(self.called(softcap=0.5), softcap=0.5)
        self.compare(self.called(softcap=0.5, is_causal=True), softcap=0.5, mask=cpu.seen(9, True))
        self.assertEqual(cpu.calls(), ["attention"] * 2)

    def test_softcap_of_padded_and_packed_batches(self):
        seen = self.padding[:, None, None, :]
        self.compare(self.called(self.padding, softcap=0.5), self.padding, softcap=0.5, mask=seen)
        rows = [tensor[:1] for tensor in self.tensors]
        out = self.called(tensors=rows, cu_seq_lens_q=torch.tensor([0, 4, 9], dtype=torch.int32), softcap=0.5)
        for begin, end in [(0, 4), (4, 9)]:
            expected = by_hand(*(tensor[:, :, begin:end] for tensor in rows), softcap=0.5).transpose(1, 2)
            torch.testing.assert_close(out[:, begin:end].float(), expected, **CLOSE)
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 2)

    def test_position_bias(self):
        # As T5 makes it: heads are next to each other.
        bias = torch.randn(1, 9, 9, 2).permute(0, 3, 1, 2)
        self.compare(self.called(position_bias=bias), bias=bias.half())
        seen = self.padding[:, None, None, :]
        for causal in (False, True):
            out = self.called(self.padding, position_bias=bias, is_causal=causal)
            self.compare(out, self.padding, bias=bias.half(), mask=seen & cpu.seen(9, causal))
        self.assertEqual(cpu.calls(), ["attention"] * 3)

    def test_a_gradient_of_a_position_bias_is_computed_here(self):
        bias = torch.randn(1, 2, 9, 9, dtype=torch.float16, requires_grad=True)
        self.called(position_bias=bias).float().sum().backward()
        self.assertEqual((cpu.calls(), bias.grad.shape), (["attention_with_lse", "attention_bias_backward"], bias.shape))

    def test_a_gradient_with_a_softcap_is_computed_here(self):
        tensors = [tensor.requires_grad_() for tensor in self.tensors]
        for strict in (False, True):
            self.called(strict=strict, tensors=tensors, softcap=0.5).float().sum().backward()
        self.assertEqual(cpu.calls(), ["attention_with_lse", "attention_backward"] * 2)


class Models(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def compare(self, run, reference, calls):
        """What `run` makes of a model with our attention and with PyTorch's."""
        with torch.no_grad():
            own, expected = run("fa512_flash"), run(reference)
        self.assertEqual(set(cpu.calls()), calls)
        torch.testing.assert_close(own, expected, atol=3e-2, rtol=3e-2)

    def test_gemma2_caps_its_scores(self):
        from transformers import Gemma2Config, Gemma2Model

        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 50, "head_dim": 64}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 4, "attn_logit_softcapping": 0.5}

        def run(attention):
            torch.manual_seed(0)
            made = Gemma2Model._from_config(Gemma2Config(**sizes, **heads), attn_implementation=attention, dtype=torch.float16)
            return made.eval()(torch.arange(18).reshape(2, 9), use_cache=False).last_hidden_state

        self.compare(run, "eager", {"attention"})

    def test_t5_encodes_by_its_position_bias(self):
        from transformers import T5Config, T5EncoderModel

        sizes = T5Config(d_model=128, d_kv=64, d_ff=64, num_layers=2, num_heads=2, vocab_size=50)
        mask = torch.ones(2, 9, dtype=torch.long)
        mask[1, 6:] = 0
        for padding in (None, mask):

            def run(attention):
                torch.manual_seed(0)
                made = T5EncoderModel._from_config(sizes, attn_implementation=attention, dtype=torch.float16).eval()
                out = made(torch.arange(18).reshape(2, 9), attention_mask=padding).last_hidden_state
                return out if padding is None else out[padding.bool()]

            self.compare(run, "eager", {"attention"})
