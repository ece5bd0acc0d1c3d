"""Which models are given our attention, and what becomes of the others."""

import unittest

import torch

import cpu


def setUpModule():
    global fa512_transformers, models
    import fa512.transformers as fa512_transformers
    from fa512.transformers import _models as models

    cpu.install()
    cpu.ask_no_gpu(unittest.addModuleCleanup)
    fa512_transformers.register("fa512_flash_strict", strict=True)


def config_of(name):
    import transformers

    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 50}
    names = {"d_model": 64, "num_layers": 1, "num_heads": 2, "d_kv": 32, "d_ff": 64, "n_head": 2, "n_layer": 1}
    more = {"attention_types": [[["global"], 1]]} if name == "GPTNeo" else {}
    return getattr(transformers, f"{name}Config")(**sizes, **(names if name in ("T5", "Bloom") else {}), **more)


def make(name, attention):
    import transformers

    torch.manual_seed(0)
    end = "EncoderModel" if name == "T5" else "Model"
    return getattr(transformers, name + end)._from_config(config_of(name), attn_implementation=attention).eval()


# Served; with a bias or mask of their own; with attention of their own.
SERVED, ADDING, OWN = ("Bert", "Llama", "T5"), ("Bloom", "MPNet", "MegatronBert"), ("Falcon", "GPTNeo")


class Models(unittest.TestCase):
    def setUp(self):
        models._warned.clear()

    def test_models_that_can_have_it_do(self):
        for name in SERVED:
            for attention in ("fa512_flash", "fa512_flash_strict"):
                self.assertEqual(make(name, attention).config._attn_implementation, attention, name)

    def test_the_others_get_pytorchs_with_a_warning_that_names_them(self):
        for name in ADDING + OWN:
            with self.subTest(name), self.assertLogs("fa512.transformers") as logs:
                made = make(name, "fa512_flash")
            self.assertEqual(made.config._attn_implementation, "sdpa" if made._supports_sdpa else "eager")
            self.assertEqual(len(logs.output), 1)
            self.assertRegex(logs.output[0], f"attention of {name}Model is computed by .* (adds|has attention of its own)")

    def test_or_an_error_if_asked_to_be_strict(self):
        for name in ADDING + OWN:
            with self.subTest(name), self.assertRaisesRegex(ValueError, f"fa512 does not compute the attention of {name}Model"):
                make(name, "fa512_flash_strict")

    def test_attention_that_is_set_later(self):
        made = make("Bert", "sdpa")
        made.set_attn_implementation("fa512_flash")
        self.assertEqual(made.config._attn_implementation, "fa512_flash")
        with self.assertLogs("fa512.transformers"):
            made = make("LayoutLM", "eager")
            made.set_attn_implementation("fa512_flash")
        self.assertEqual(made.config._attn_implementation, "eager")
        with self.assertRaisesRegex(ValueError, "LayoutLMModel"):
            made.set_attn_implementation("fa512_flash_strict")

    def test_others_do_not_mix_packed_sequences(self):
        lengths = torch.tensor([0, 5, 12], dtype=torch.int32)
        with self.assertLogs("fa512.transformers"):
            made = make("MPNet", "fa512_flash")
        ids = torch.randint(5, 50, (1, 12))
        made(ids)
        for call in (made, made.forward):
            with self.assertRaisesRegex(ValueError, "cu_seq_lens_q is given, and attention of MPNetModel is computed by"):
                call(ids, cu_seq_lens_q=lengths)
        # A model of this class that was not asked to have ours is as it was.
        make("MPNet", "eager")(ids, cu_seq_lens_q=lengths)

    def test_models_that_keep_the_bounds_to_themselves_do_not_mix_packed_sequences(self):
        lengths = torch.tensor([0, 5, 12], dtype=torch.int32)
        from transformers import StableLmConfig, StableLmModel

        sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
        made = StableLmModel._from_config(StableLmConfig(**sizes, vocab_size=50), attn_implementation="fa512_flash", dtype=torch.float16)
        ids = torch.randint(5, 50, (1, 12))
        for call in (made, made.forward):
            with self.assertRaisesRegex(ValueError, "StableLmModel hands it to no attention"):
                call(ids, cu_seq_lens_q=lengths, cu_seq_lens_k=lengths, max_length_q=7, max_length_k=7)
        made(ids)
