"""Calls without PyTorch's dispatcher, on the CPU: when they are made, and what transformers computes with them."""

import unittest
import unittest.mock

import numpy
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import as_gpu
import cpu
from fa512.torch import _direct
from models import compare_packed, compare_with_sdpa, model, tokens


def setUpModule():
    cpu.install()
    as_gpu.install(unittest.addModuleCleanup)


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Function(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Unobserved(unittest.TestCase):
    def is_unobserved(self, tensor):
        self.answers.append(_direct.is_unobserved(tensor))
        return tensor

    def setUp(self):
        self.answers = []

    def test_plain_tensors_without_a_gradient_are(self):
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                self.assertTrue(_direct.is_unobserved(torch.ones(2), torch.ones(2)))
        self.assertTrue(_direct.is_unobserved(torch.ones(2)))

    def test_a_gradient_observes(self):
        self.assertFalse(_direct.is_unobserved(torch.ones(2), torch.ones(2, requires_grad=True)))

    def test_other_types_are_observed(self):
        with torch.no_grad():
            self.assertFalse(_direct.is_unobserved(torch.nn.Parameter(torch.ones(2))))

    def test_a_negative_bit_observes(self):
        self.assertFalse(_direct.is_unobserved(torch.ones(2), torch._neg_view(torch.ones(2))))

    def test_arguments_that_may_hide_tensors_observe(self):
        for hidden in ([torch.ones(2)], numpy.float32(1), object()):
            self.assertIs(_direct.way_of((torch.ones(2), hidden)), _direct.OPERATOR)
        self.assertIs(_direct.way_of((torch.ones(2), None, True, 1, 0.5, "top-left")), _direct.KERNEL)

    def test_a_gradient_is_recorded_where_autograd_may(self):
        tensor = torch.ones(2, requires_grad=True)
        self.assertIs(_direct.way_of((tensor,)), _direct.RECORDED)
        with torch._C._AutoDispatchBelowAutograd():
            self.assertIs(_direct.way_of((tensor,)), _direct.OPERATOR)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertIs(_direct.way_of((tensor,)), _direct.KERNEL)

    def test_forward_mode_observes(self):
        with torch.autograd.forward_ad.dual_level():
            self.assertFalse(_direct.is_unobserved(torch.ones(2)))

    def test_what_a_kernel_refuses_the_operator_is_asked(self):
        def refuse(*_):
            raise ValueError("at address 0x0")

        call = _direct.by_the_way(refuse, refuse, lambda *arguments: ("operator", *arguments))
        for tensor in (torch.ones(2), torch.ones(2, requires_grad=True)):
            self.assertEqual(call(tensor), ("operator", tensor))

    def test_whatever_sees_operators_observes(self):
        contexts = {
            "dispatch mode": Dispatch(),
            "function mode": Function(),
            "profiler": torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        }
        for name, context in contexts.items():
            with self.subTest(name), context:
                self.assertFalse(_direct.is_unobserved(torch.ones(2)))
        self.assertTrue(_direct.is_unobserved(torch.ones(2)), "nothing is active any more")

    def test_autocast_observes(self):
        # torch.autocast("cuda") does nothing on a machine without a GPU.
        torch.set_autocast_enabled("cuda", True)
        self.addCleanup(torch.set_autocast_enabled, "cuda", False)
        self.assertFalse(_direct.is_unobserved(torch.ones(2)))
        self.assertTrue(_direct.is_unobserved(torch.ones(2, dtype=torch.get_autocast_dtype("cuda"))), "has the type already")

    def test_function_transforms_and_tracers_observe(self):
        torch.func.vmap(self.is_unobserved)(torch.ones(2, 2))
        torch.jit.trace(self.is_unobserved, torch.ones(2), check_trace=False)
        self.assertEqual(self.answers, [False, False])

    def test_a_compiler_observes(self):
        def call(tensor):
            return tensor + _direct.is_unobserved(tensor)

        compiled = torch.compile(call, fullgraph=True, backend="eager")
        self.assertEqual(compiled(torch.zeros(1)).item(), 0)

    def test_a_pytorch_that_cannot_be_asked_observes(self):
        with unittest.mock.patch.object(_direct, "_CAN_ASK", False):
            self.assertFalse(_direct.is_unobserved(torch.ones(2)))


class Transformers(unittest.TestCase):
    """Models whose attention calls the kernels."""

    def setUp(self):
        import fa512.transformers  # noqa: F401

        cpu.ask_no_gpu(self.addCleanup)
        as_gpu.called()
        cpu.calls()

    def assert_called(self, kernels, what=None):
        self.assertEqual((as_gpu.called(), cpu.calls()), (kernels, []), what)

    def test_batches_of_one_length(self):
        compare_with_sdpa()
        compare_with_sdpa(mask=torch.ones(2, 12, dtype=torch.long))
        self.assert_called(["attention"] * 4)

    def test_padding(self):
        for padding in (slice(7, None), slice(None, 5), slice(3, 4)):
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, padding] = 0
            compare_with_sdpa(mask=mask)
            self.assert_called(["attention_varlen"] * 2, padding)

    def test_a_causal_window_over_padding_at_the_end(self):
        from transformers import AttentionInterface

        mask = torch.ones(2, 9, dtype=torch.bool)
        mask[1, 6:] = False
        tensors = [torch.randn(2, 2, 9, 64, dtype=torch.float16) for _ in range(3)]
        module = unittest.mock.Mock(is_causal=True, num_key_value_groups=1)
        out, _ = AttentionInterface()["fa512_flash"](module, *tensors, mask, sliding_window=3)
        self.assert_called(["attention_varlen"])
        seen = cpu.seen(9, True, 2, 2) & mask[:, None, None, :]
        expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen)
        torch.testing.assert_close(out[mask], expected.transpose(1, 2)[mask], atol=2e-3, rtol=2e-3)

    def test_packed_sequences(self):
        compare_packed()
        self.assert_called(["attention_varlen"] * 2)

    def test_what_a_kernel_refuses_is_computed_as_before(self):
        with self.assertLogs("fa512.transformers") as logs:
            compare_with_sdpa(heads=32)
        self.assertIn("head size of 4", logs.output[0])

    def test_a_model_that_trains_has_its_gradient(self):
        trained = model("fa512_flash", attention_probs_dropout_prob=0.0).train()
        trained(tokens()).last_hidden_state.float().sum().backward()
        self.assert_called(["attention"] * 2 + ["attention_backward"] * 2)
        self.assertIsNotNone(trained.encoder.layer[0].attention.self.query.weight.grad)
