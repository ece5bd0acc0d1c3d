"""The attention for transformers and sentence-transformers, around the operators on the CPU."""

import logging
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch

import cpu
import fa512.torch
from models import compare_packed, compare_with_sdpa, model, save_for_sentences, tokens


def setUpModule():
    global fa512_transformers, warned
    import fa512.transformers as fa512_transformers
    from fa512.transformers._attention import _warned as warned

    cpu.install()
    cpu.ask_no_gpu(unittest.addModuleCleanup)


class Transformers(unittest.TestCase):
    def setUp(self):
        cpu.calls()
        warned.clear()

    def test_equal_lengths_are_computed(self):
        compare_with_sdpa()
        compare_with_sdpa(mask=torch.ones(2, 12, dtype=torch.long))
        self.assertEqual(cpu.calls(), ["attention"] * 4)

    def test_bfloat16_is_computed(self):
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 7:] = 0
        own, sdpa = (model(name, dtype=torch.bfloat16) for name in ("fa512_flash", "sdpa"))
        with torch.no_grad():
            own, sdpa = (made(tokens(), attention_mask=mask).last_hidden_state for made in (own, sdpa))
        torch.testing.assert_close(own[mask.bool()], sdpa[mask.bool()], atol=0.1, rtol=0.1)
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 2)

    def test_a_padded_batch_is_computed_as_a_packed_one(self):
        for padding in (slice(7, None), slice(None, 5), slice(3, 4)):
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, padding] = 0
            compare_with_sdpa(mask=mask)
            self.assertEqual(cpu.calls(), ["attention_varlen"] * 2)

    def test_queries_of_padding_see_the_tokens_as_in_sdpa(self):
        """A mask speaks of keys: whose queries they are, nobody says."""
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 7:] = 0
        own, sdpa = (model(name)(tokens(), attention_mask=mask).last_hidden_state for name in ("fa512_flash", "sdpa"))
        torch.testing.assert_close(own, sdpa, atol=2e-2, rtol=2e-2)

    def test_a_padded_batch_trains(self):
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 7:] = 0
        trained = model("fa512_flash", attention_probs_dropout_prob=0.0).train()
        trained(tokens(), attention_mask=mask).last_hidden_state[mask.bool()].float().sum().backward()
        self.assertEqual(cpu.calls().count("attention_varlen_backward"), 2)

    def test_a_padded_batch_of_another_head_size_goes_to_sdpa(self):
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 7:] = 0
        with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
            compare_with_sdpa(mask=mask, heads=32)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("head size of 4", logs.output[0])

    def test_another_head_size_goes_to_sdpa(self):
        with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
            compare_with_sdpa(heads=32)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("head size of 4", logs.output[0])

    def test_strict_makes_it_an_error(self):
        fa512_transformers.register("fa512_flash_strict", strict=True)
        with self.assertRaisesRegex(ValueError, "fa512: query has a head size of 4"):
            model("fa512_flash_strict", heads=32)(tokens())
        model("fa512_flash_strict")(tokens())
        with self.assertRaisesRegex(ValueError, "it must hold"):
            fa512_transformers.register("fa512")

    def test_dropout_in_training_goes_to_sdpa_and_without_it_trains(self):
        for dropout, expected in [(0.1, 0), (0.0, 2)]:
            cpu.calls()
            trained = model("fa512_flash", attention_probs_dropout_prob=dropout).train()
            trained(tokens()).last_hidden_state.float().sum().backward()
            self.assertEqual(cpu.calls().count("attention_backward"), expected)
            self.assertIsNotNone(trained.encoder.layer[0].attention.self.query.weight.grad)

    def test_packed_batches_are_computed(self):
        compare_packed()
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 2)

    def test_packed_batches_of_another_head_size_go_to_pytorch(self):
        with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
            compare_packed(heads=32)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("head size of 4", logs.output[0])
        fa512_transformers.register("fa512_flash_strict", strict=True)
        with self.assertRaisesRegex(ValueError, "fa512: query has a head size of 4"):
            compare_packed("fa512_flash_strict", heads=32)

    def called(self, heads=2, length=9, mask=None, attention="fa512_flash", batch=2, **more):
        """The attention as models call it, and its inputs."""
        from transformers import AttentionInterface

        torch.manual_seed(0)
        tensors = [torch.randn(batch, heads, length, 64, dtype=torch.float16) for _ in range(3)]
        module = unittest.mock.Mock(is_causal=False, num_key_value_groups=1)
        return AttentionInterface()[attention](module, *tensors, mask, **more)[0], tensors

    def windowed(self, expected_calls, mask=None, **more):
        """Every window of a causal and another attention, held against SDPA with a mask that has it."""
        for causal in (False, True):
            with self.subTest(causal=causal, padded=mask is not None):
                cpu.calls()
                out, tensors = self.called(mask=mask, is_causal=causal, sliding_window=3, **more)
                self.assertEqual(cpu.calls(), expected_calls)
                seen = cpu.seen(9, causal, 2, 2)
                seen = seen if mask is None else seen & mask[:, None, None, :]
                expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen)
                keep = torch.ones(2, 9, dtype=torch.bool) if mask is None else mask
                torch.testing.assert_close(out[keep], expected.transpose(1, 2)[keep], atol=2e-3, rtol=2e-3)

    def test_windows_are_computed(self):
        self.windowed(["attention"])
        self.called(sliding_window=9)
        padding = torch.ones(2, 9, dtype=torch.bool)
        padding[1, 6:] = False
        self.windowed(["attention_varlen"], mask=padding)
        self.windowed(["attention_varlen"], mask=padding.flip(1))

    def test_a_window_over_padding_between_tokens_goes_to_sdpa(self):
        """Packed, the tokens on both sides of it would come closer together."""
        padding = torch.ones(2, 9, dtype=torch.bool)
        padding[1, 4] = False
        with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
            self.windowed([], mask=padding)
        self.assertIn("padding lies between tokens", logs.output[0])
        fa512_transformers.register("fa512_flash_strict", strict=True)
        with self.assertRaisesRegex(ValueError, "padding lies between tokens"):
            self.called(mask=padding, sliding_window=3, attention="fa512_flash_strict")

    def test_windows_of_what_is_not_computed_go_to_sdpa_with_a_mask_that_has_them(self):
        padding = torch.ones(2, 9, dtype=torch.bool)
        padding[1, 6:] = False
        for mask in (None, padding):
            self.windowed([], mask=mask, output_attentions=True)

    def test_windows_of_packed_batches_are_computed(self):
        lengths = torch.tensor([0, 4, 9], dtype=torch.int32)
        apart = torch.arange(9) < 4
        for causal in (False, True):
            torch.manual_seed(0)
            tensors = [torch.randn(1, 2, 9, 64, dtype=torch.float16) for _ in range(3)]
            module = unittest.mock.Mock(is_causal=causal)
            cpu.calls()
            out, _ = fa512_transformers.attention_forward(
                True, module, *tensors, None, cu_seq_lens_q=lengths, max_length_q=5, sliding_window=3
            )
            self.assertEqual(cpu.calls(), ["attention_varlen"])
            seen = cpu.seen(9, causal, 2, 2) & (apart[:, None] == apart[None, :])
            expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen)
            torch.testing.assert_close(out, expected.transpose(1, 2), atol=2e-3, rtol=2e-3)

    def compare_windowed(self, make, expected_calls):
        """A model with windows against SDPA, on batches with and without padding."""
        padding = torch.ones(2, 12, dtype=torch.long)
        padding[1, 7:] = 0
        for mask in (None, padding):
            cpu.calls()
            with torch.no_grad():
                own = make("fa512_flash_strict")(tokens(), attention_mask=mask).last_hidden_state
                calls = cpu.calls()
                sdpa = make("sdpa")(tokens(), attention_mask=mask).last_hidden_state
            keep = torch.ones(2, 12, dtype=torch.bool) if mask is None else mask.bool()
            torch.testing.assert_close(own[keep], sdpa[keep], atol=2e-2, rtol=2e-2)
            self.assertEqual(calls, [expected_calls[mask is not None]] * 3)
        with torch.no_grad():
            near, far = (make("sdpa", window)(tokens()).last_hidden_state for window in (4, 128))
        self.assertGreater((near - far).abs().max(), 0.3, "the window makes a difference")

    def test_an_encoder_with_windows(self):
        from transformers import ModernBertConfig, ModernBertModel

        fa512_transformers.register("fa512_flash_strict", strict=True)
        sizes = {"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 3, "intermediate_size": 64}
        # Weights that make attention matter.
        sizes["initializer_range"] = 0.3
        tokens_of = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}

        def make(attention, local_attention=4):
            torch.manual_seed(0)
            # One layer in three sees everything.
            config = ModernBertConfig(**sizes, **tokens_of, initializer_cutoff_factor=3.0, local_attention=local_attention)
            return ModernBertModel._from_config(config, attn_implementation=attention, dtype=torch.float16).eval()

        self.compare_windowed(make, ["attention", "attention_varlen"])
        made = make("fa512_flash_strict")
        with torch.no_grad():
            compiled = torch.compile(made, fullgraph=True, backend="eager")(tokens()).last_hidden_state
            torch.testing.assert_close(compiled, made(tokens()).last_hidden_state)

    def test_a_decoder_with_windows(self):
        from transformers import MistralConfig, MistralModel

        fa512_transformers.register("fa512_flash_strict", strict=True)
        sizes = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 3}

        def make(attention, window=4):
            torch.manual_seed(0)
            config = MistralConfig(**sizes, intermediate_size=64, vocab_size=50, sliding_window=window, use_cache=False, initializer_range=0.3)
            return MistralModel._from_config(config, attn_implementation=attention, dtype=torch.float16).eval()

        self.compare_windowed(make, ["attention", "attention_varlen"])

    def test_what_nobody_computes_is_an_error(self):
        lengths = torch.tensor([0, 4, 9], dtype=torch.int32)
        for name in ("s_aux", "indices", "block_indices"):
            for more in ({}, {"cu_seq_lens_q": lengths}):
                with self.assertRaisesRegex(ValueError, f"{name} is given, which neither fa512 nor scaled_dot"):
                    self.called(batch=1, **{name: 30.0}, **more)

    def test_probabilities_are_not_left_out_unsaid(self):
        with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
            self.called(output_attentions=True)
        self.assertIn("probabilities are not computed", logs.output[0])
        fa512_transformers.register("fa512_flash_strict", strict=True)
        with self.assertRaisesRegex(ValueError, "output_attentions is set"):
            self.called(attention="fa512_flash_strict", output_attentions=True)

    def test_a_model_compiles_in_one_graph(self):
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph.forward

        compiled = torch.compile(model("fa512_flash"), fullgraph=True, backend=backend)
        with torch.no_grad():
            own = compiled(tokens()).last_hidden_state
        self.assertEqual([str(graph.graph).count("fa512.attention") for graph in graphs], [2])
        torch.testing.assert_close(own, model("fa512_flash")(tokens()).last_hidden_state, atol=1e-2, rtol=1e-2)

    def test_a_causal_model(self):
        from transformers import GPT2Config, GPT2LMHeadModel

        def logits(attention):
            torch.manual_seed(0)
            sizes = GPT2Config(n_embd=128, n_head=2, n_layer=2, vocab_size=50, n_positions=32)
            made = GPT2LMHeadModel._from_config(sizes, attn_implementation=attention, dtype=torch.float16).eval()
            with torch.no_grad():
                return made(tokens(), use_cache=False).logits

        torch.testing.assert_close(logits("fa512_flash"), logits("sdpa"), atol=2e-2, rtol=2e-2)
        self.assertEqual(cpu.calls(), ["attention"] * 2)

    def test_other_flash_attentions_are_looked_up_as_before(self):
        import transformers.modeling_flash_attention_utils as flash

        functions = flash.lazy_import_flash_attention("fa512_flash")[0]
        self.assertEqual(functions[:2], (fa512.torch.flash_attn_func, fa512.torch.flash_attn_varlen_func))
        with self.assertRaises(Exception):
            flash._lazy_imports("flash_attention_nobody_has")


class SentenceTransformers(unittest.TestCase):
    def test_sentences_are_encoded_as_by_sdpa(self):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        with tempfile.TemporaryDirectory() as folder:
            save_for_sentences(folder)

            def encode(attention, texts):
                arguments = {"attn_implementation": attention, "dtype": torch.float16}
                transformer = Transformer(folder, model_kwargs=arguments)
                pooling = Pooling(transformer.get_embedding_dimension())
                return SentenceTransformer(modules=[transformer, pooling], device="cpu").encode(texts, convert_to_tensor=True)

            for texts in (["a short text", "and another one"], ["a", "a short text and another one"]):
                cpu.calls()
                own = encode("fa512_flash", texts)
                self.assertEqual(cpu.calls(), ["attention_varlen"] * 2, "batches are not padded")
                torch.testing.assert_close(own, encode("sdpa", texts), atol=2e-2, rtol=2e-2)


class Hub(unittest.TestCase):
    def test_the_folder_loads_offline(self):
        hub = os.path.join(os.path.dirname(fa512.__file__), "hub")
        program = """
from kernels import get_kernel
kernel = get_kernel("fa512/attention", version=1)
import fa512.torch
assert kernel.flash_attn_func is fa512.torch.flash_attn_func
try:
    kernel.flash_attn_varlen_func(None, None, None, None, None, 1, 1, dropout_p=1.0)
except ValueError as error:
    print(error)
"""
        environment = {**os.environ, "LOCAL_KERNELS": f"fa512/attention={hub}", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        self.assertIn("q is None", done.stdout, done.stderr)
