"""Calls without PyTorch's dispatcher, on the CPU: when they are made, and what transformers computes with them."""

import unittest
import unittest.mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import cpu
from fa512.torch import _batched, _direct, _packed, _padded
from models import compare_packed, compare_with_sdpa, model, tokens


def setUpModule():
    cpu.install()
    patch = unittest.mock.patch.object(_direct, "_is_on_a_gpu", lambda tensor: True)
    patch.start()
    unittest.addModuleCleanup(patch.stop)


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
    """Models whose attention calls the kernels: those of the operators on the CPU."""

    def setUp(self):
        import fa512.transformers  # noqa: F401

        self.called = []
        for module, kernel in ((_batched, cpu._forward), (_padded, cpu._padded_forward), (_packed, cpu._varlen)):
            patch = unittest.mock.patch.object(module, "forward_cuda", self.recorded(kernel))
            patch.start()
            self.addCleanup(patch.stop)
        cpu.ask_no_gpu(self.addCleanup)

    def recorded(self, kernel):
        def call(*arguments):
            self.called.append(kernel.__name__)
            return kernel(*arguments)

        return call

    def test_batches_of_one_length(self):
        compare_with_sdpa()
        compare_with_sdpa(mask=torch.ones(2, 12, dtype=torch.long))
        self.assertEqual(self.called, ["_forward"] * 4)

    def test_padding_at_the_end_is_computed_in_place_and_other_padding_packed(self):
        for padding, kernels in ((slice(7, None), ["_padded_forward"] * 2), (slice(None, 5), []), (slice(3, 4), [])):
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, padding] = 0
            self.called.clear()
            cpu.calls()
            compare_with_sdpa(mask=mask)
            self.assertEqual(self.called, kernels, padding)
            self.assertEqual(cpu.calls(), ["attention_padded" if kernels else "attention_varlen"] * 2, padding)

    def test_a_causal_window_over_padding_at_the_end(self):
        from transformers import AttentionInterface

        mask = torch.ones(2, 9, dtype=torch.bool)
        mask[1, 6:] = False
        tensors = [torch.randn(2, 2, 9, 64, dtype=torch.float16) for _ in range(3)]
        module = unittest.mock.Mock(is_causal=True, num_key_value_groups=1)
        out, _ = AttentionInterface()["fa512_flash"](module, *tensors, mask, sliding_window=3)
        self.assertEqual(self.called, ["_padded_forward"])
        seen = cpu.seen(9, True, 2, 2) & mask[:, None, None, :]
        expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen)
        torch.testing.assert_close(out[mask], expected.transpose(1, 2)[mask], atol=2e-3, rtol=2e-3)
        self.assertFalse(out[~mask].any(), "padding has zeros")

    def test_packed_sequences(self):
        compare_packed()
        self.assertEqual(self.called, ["_varlen"] * 2)

    def test_what_a_kernel_refuses_is_computed_as_before(self):
        with self.assertLogs("fa512.transformers") as logs:
            compare_with_sdpa(heads=32)
        self.assertIn("head size of 4", logs.output[0])

    def test_a_model_that_trains_has_its_gradient(self):
        trained = model("fa512_flash", attention_probs_dropout_prob=0.0).train()
        trained(tokens()).last_hidden_state.float().sum().backward()
        self.assertEqual(self.called, [])
        self.assertIsNotNone(trained.encoder.layer[0].attention.self.query.weight.grad)
