"""Decoders whose heads share K and V, and that go on behind cached keys, around the operators on the CPU."""

import logging
import unittest
import unittest.mock

import torch

import cpu
from models import tokens

STRICT = "fa512_flash_strict"


def setUpModule():
    global fa512_transformers, masks, warned
    import fa512.transformers as fa512_transformers
    from fa512.transformers import _masks as masks
    from fa512.transformers._attention import _warned as warned

    cpu.install()
    fa512_transformers.register(STRICT, strict=True)
    cpu.ask_no_gpu(unittest.addModuleCleanup)


def decoder(attention, window=None):
    """Four heads of Q share two of K and V in each of three layers. Weights are large, so that attention matters."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
    more = {"intermediate_size": 64, "vocab_size": 50, "sliding_window": window, "initializer_range": 0.1}
    made = MistralForCausalLM._from_config(MistralConfig(**sizes, **more), attn_implementation=attention, dtype=torch.float16)
    return made.eval()


class SharedHeads(unittest.TestCase):
    def setUp(self):
        cpu.calls()
        warned.clear()

    def test_the_operator_gets_the_heads_as_they_are(self):
        with torch.no_grad():
            with unittest.mock.patch("fa512.torch._batched._forward", wraps=torch.ops.fa512.attention) as called:
                own = decoder(STRICT)(tokens()).logits
            torch.testing.assert_close(own, decoder("sdpa")(tokens()).logits, atol=3e-2, rtol=3e-2)
        self.assertEqual([tuple(x.shape) for x in called.call_args.args[:3]], [(2, 4, 12, 64), *[(2, 2, 12, 64)] * 2])

    def test_padded_and_packed_batches(self):
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 7:] = 0
        lengths = torch.tensor([0, 5, 12], dtype=torch.int32)
        positions = torch.tensor([[*range(5), *range(7)]])
        with torch.no_grad():
            own, sdpa = (decoder(name)(tokens(), attention_mask=mask).logits for name in (STRICT, "sdpa"))
            torch.testing.assert_close(own[mask.bool()], sdpa[mask.bool()], atol=3e-2, rtol=3e-2)
            own = decoder(STRICT)(tokens(1), position_ids=positions, cu_seq_lens_q=lengths, max_length_q=7).logits
            apart = [decoder("sdpa")(part).logits for part in (tokens(1)[:, :5], tokens(1)[:, 5:])]
        torch.testing.assert_close(own, torch.cat(apart, dim=1), atol=3e-2, rtol=3e-2)
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 6)

    def test_it_trains(self):
        trained = decoder(STRICT).train()
        trained(tokens()).logits.float().sum().backward()
        self.assertEqual(cpu.calls().count("attention_backward"), 3)
        self.assertIsNotNone(trained.model.layers[0].self_attn.k_proj.weight.grad)


class CachedKeys(unittest.TestCase):
    def setUp(self):
        cpu.calls()
        warned.clear()

    def continued(self, attention, parts, window=None, mask=None, cache=None):
        """The logits of a text whose parts come one after the other."""
        made, logits, seen = decoder(attention, window), [], 0
        cache = None if cache is None else cache(made)
        with torch.no_grad():
            for length in parts:
                part = tokens(length=sum(parts))[:, seen : seen + length]
                seen += length
                given = None if mask is None else mask[:, :seen]
                out = made(part, past_key_values=cache, use_cache=True, attention_mask=given)
                cache = out.past_key_values
                logits.append(out.logits)
        return torch.cat(logits, dim=1)

    def compare(self, parts, attention=STRICT, **more):
        own = self.continued(attention, parts, **more)
        calls = cpu.calls()
        torch.testing.assert_close(own, self.continued("sdpa", parts, **more), atol=3e-2, rtol=3e-2)
        return calls

    def test_a_text_goes_on_token_by_token_and_in_parts(self):
        for window in (None, 4):
            for parts in ([7, 1, 1, 1], [7, 5], [1, 3, 6]):
                for mask in (None, torch.ones(2, sum(parts), dtype=torch.long)):
                    with self.subTest(window=window, parts=parts, masked=mask is not None):
                        calls = self.compare(parts, window=window, mask=mask)
                        self.assertEqual(calls, ["attention"] * 3 * len(parts))

    def test_texts_are_generated(self):
        def generated(attention):
            return decoder(attention).generate(tokens(), max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)

        own = generated(STRICT)
        self.assertEqual(cpu.calls(), ["attention"] * 18)
        self.assertEqual(own.tolist(), generated("sdpa").tolist())

    def test_padded_texts_go_on_by_sdpa(self):
        mask = torch.ones(2, 10, dtype=torch.long)
        mask[1, :3] = 0
        own, sdpa = (self.continued(name, [7, 3], mask=mask) for name in ("fa512_flash", "sdpa"))
        torch.testing.assert_close(own[mask.bool()], sdpa[mask.bool()], atol=3e-2, rtol=3e-2)
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 3)
        self.assertEqual(warned, {"a mask is given that is more than padding, a window or packed sequences"})

    def test_the_first_part_in_a_cache_of_its_final_size_is_computed(self):
        """Its keys behind the last query are none yet. The tokens after it go to SDPA, as does the first part where no mask says that."""
        from transformers import StaticCache

        def cache(made):
            return StaticCache(config=made.config, max_cache_len=16)

        ones = torch.ones(2, 9, dtype=torch.long)
        # A window of 4 leaves no room for keys to come, one of 10 does.
        for mask, window, expected in [(None, None, 0), (ones, None, 3), (None, 4, 3), (ones, 4, 3), (ones, 10, 3)]:
            with self.subTest(window=window, masked=mask is not None):
                calls = self.compare([7, 1, 1], attention="fa512_flash", mask=mask, window=window, cache=cache)
                self.assertEqual(calls, ["attention"] * expected)
        padded = ones.clone()
        padded[1, :3] = 0
        own, sdpa = (self.continued(name, [7, 1, 1], mask=padded, cache=cache) for name in ("fa512_flash", "sdpa"))
        torch.testing.assert_close(own[padded.bool()], sdpa[padded.bool()], atol=3e-2, rtol=3e-2)
        self.assertEqual(cpu.calls(), ["attention_varlen"] * 3)
        # What is not computed goes to SDPA without the keys that are none yet.
        refused = unittest.mock.patch("fa512.torch._batched._forward", side_effect=ValueError)
        with refused, unittest.mock.patch("fa512.torch.why_not_here", return_value="a test"):
            self.assertEqual(self.compare([7, 1], attention="fa512_flash", mask=ones, cache=cache), [])

    def test_a_bias_of_keys_that_are_none_yet_is_cut_with_them(self):
        torch.manual_seed(0)
        tensors = [torch.randn(2, 2, rows, 64, dtype=torch.float16) for rows in (5, 9, 9)]
        bias = torch.randn(1, 2, 5, 9, dtype=torch.float16)
        module = unittest.mock.Mock(is_causal=False, num_key_value_groups=1)
        ones = torch.ones(2, 5, dtype=torch.bool)
        out, _ = fa512_transformers.attention_forward(False, module, *tensors, ones, position_bias=bias)
        near = [tensors[0], *(tensor[:, :, :5] for tensor in tensors[1:])]
        expected = torch.nn.functional.scaled_dot_product_attention(*near, attn_mask=bias[..., :5])
        torch.testing.assert_close(out, expected.transpose(1, 2), atol=2e-3, rtol=2e-3)

    def test_without_a_mask_the_last_query_is_at_the_last_key_whoever_computes(self):
        torch.manual_seed(0)
        tensors = [torch.randn(2, heads, rows, 64, dtype=torch.float16) for heads, rows in ((4, 5), (2, 9), (2, 9))]
        module = unittest.mock.Mock(is_causal=True, num_key_value_groups=2)
        for window in (None, 3):
            left = None if window is None else window - 1
            seen = cpu.seen(5, True, left, None, "bottom-right", 9)
            expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen, enable_gqa=True)
            # Probabilities are what SDPA is left to.
            for more, calls in [({}, ["attention"]), ({"output_attentions": True}, [])]:
                cpu.calls()
                out, _ = fa512_transformers.attention_forward(False, module, *tensors, None, sliding_window=window, **more)
                self.assertEqual(cpu.calls(), calls)
                torch.testing.assert_close(out, expected.transpose(1, 2), atol=2e-3, rtol=2e-3)

    def test_what_is_not_computed_of_other_numbers_of_keys(self):
        module = unittest.mock.Mock(is_causal=False, num_key_value_groups=1)
        middle = torch.arange(9).expand(2, 9).remainder(8) > 1
        for queries, keys, mask, window, words in [
            (5, 9, middle, 3, "padding lies between tokens or on both sides"),
            (9, 5, None, 3, "a sliding window is given with 9 queries and 5 keys"),
        ]:
            tensors = [torch.randn(2, 2, rows, 64, dtype=torch.float16) for rows in (queries, keys, keys)]
            with self.assertLogs("fa512.transformers", logging.WARNING) as logs:
                out, _ = fa512_transformers.attention_forward(False, module, *tensors, mask, sliding_window=window)
            self.assertEqual(out.shape, (2, queries, 2, 64))
            self.assertIn(words, logs.output[0])
            with self.assertRaisesRegex(ValueError, words):
                fa512_transformers.attention_forward(True, module, *tensors, mask, sliding_window=window)

    def test_which_masks_are_described(self):
        ones = torch.ones(1, 9, dtype=torch.bool)
        for arguments, given, keys in (((1, 2, 9, 7), None, 9), ((1, 2, 9, 7), ones, 9), ((1, 2, 5, 7, 4), ones, 5)):
            mask = masks.attached(masks.mask(*arguments, attention_mask=given))
            self.assertEqual((mask.queries, mask.keys, mask.padding, mask.limits.right), (2, keys, None, 0))
        with unittest.mock.patch.object(masks, "sdpa_mask", return_value="made") as made:
            for arguments in ((1, 2, 9), (1, 2, 9, 6), (1, 2, 9, torch.tensor(7))):
                self.assertEqual(masks.mask(*arguments, attention_mask=ones), "made")
                self.assertIs(made.call_args.kwargs["allow_is_causal_skip"], False)
            self.assertEqual(masks.mask(1, 2, 9, 7, attention_mask=ones & (torch.arange(9) > 0)), "made")
            self.assertEqual(masks.mask(1, 2, 9, 2, attention_mask=ones[:, :2]), "made")
        of_first = masks.attached(masks.mask(1, 2, 9, torch.tensor(0), attention_mask=ones[:, :2]))
        self.assertEqual((of_first.queries, of_first.keys, of_first.padding), (2, 2, None))
