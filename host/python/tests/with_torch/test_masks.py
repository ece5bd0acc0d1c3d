"""What masks say, and what a layer computes of them: every kind of mask, held against the elements that transformers makes of it."""

import itertools
import unittest
import unittest.mock

import torch

import cpu

ROWS = 9
TOKENS = {
    "none": None,
    "all": [ROWS] * 3,
    "right": [ROWS, 6, 1],
    "left": [-ROWS, -6, -1],
    "right and left": [ROWS, 6, -4],
    "an empty row": [ROWS, 0, 5],
    "gaps": [ROWS, 6, "101100111"],
}
# As transformers passes them with masks that are not plain.
ASKED = {"allow_is_causal_skip": False, "use_vmap": True}


def setUpModule():
    global masks, functions, limits, attention_forward
    import fa512.transformers  # noqa: F401
    from fa512.transformers import _limits as limits
    from fa512.transformers import _masks as masks
    from fa512.transformers._attention import attention_forward
    from transformers import masking_utils as functions

    cpu.install()
    cpu.ask_no_gpu(unittest.addModuleCleanup)


def padding(kind):
    if TOKENS[kind] is None:
        return None
    made = torch.zeros(3, ROWS, dtype=torch.bool)
    for row, tokens in zip(made, TOKENS[kind]):
        if isinstance(tokens, str):
            row[:] = torch.tensor([token == "1" for token in tokens])
        elif tokens:
            row[:tokens] = True
            if tokens < 0:
                row[:] = torch.arange(ROWS) >= ROWS + tokens
    return made


def patterns():
    """Mask functions that transformers and its models make, and how a layer with such a mask names its window."""
    from transformers.models.gemma3.modeling_gemma3 import _bidirectional_window_overlay as overlay

    causal, window = functions.causal_mask_function, functions.sliding_window_causal_mask_function(3)
    sequences = torch.tensor([0] * 4 + [1] * 5).expand(3, ROWS)
    apart = functions.packed_sequence_mask_function(sequences)
    return {
        "causal": causal,
        "bidirectional": functions.bidirectional_mask_function,
        "window": window,
        "window to both sides": functions.sliding_window_bidirectional_mask_function(3),
        "bidirectional of Gemma 3": functions.or_masks(causal, lambda *_: torch.tensor(True)),
        "window of Gemma 3": functions.or_masks(window, overlay(3)),
        "packed": functions.and_masks(causal, apart),
        "packed window": functions.and_masks(window, apart),
    }


def unknown():
    causal = functions.causal_mask_function
    return {
        "chunks": functions.chunked_causal_mask_function(3, torch.zeros(3, dtype=torch.long)),
        "blocks": functions.or_masks(causal, functions.blockwise_overlay(torch.zeros(3, ROWS, dtype=torch.long))),
        "of the user": lambda batch, head, query, key: key <= query + 1,
        "with one of the user": functions.and_masks(causal, lambda batch, head, query, key: key != 2),
    }


def elements_of(function, queries=ROWS, keys=ROWS, mask=None):
    more = {"allow_is_causal_skip": False, "mask_function": function, "attention_mask": mask}
    return functions.sdpa_mask(3, queries, keys, keys - queries, 0, **more)


class Patterns(unittest.TestCase):
    def test_what_is_read_of_a_mask_function_is_what_its_elements_are(self):
        for name, function in patterns().items():
            with self.subTest(name):
                known = limits.pattern(function)
                mask = masks.Mask((3, ROWS, ROWS), known.limits, sequences=known.sequences)
                self.assertTrue(torch.equal(mask.elements(torch.device("cpu")), elements_of(function)))

    def test_what_is_more_is_not_read(self):
        for name, function in unknown().items():
            with self.subTest(name):
                self.assertIsNone(limits.pattern(function))

    def test_a_window_that_another_version_counts_otherwise_is_not_read(self):
        def sliding_window_overlay(sliding_window):
            def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
                return kv_idx >= q_idx - sliding_window

            return inner_mask

        function = sliding_window_overlay(3)
        function.__qualname__ = "sliding_window_overlay.<locals>.inner_mask"
        self.assertIsNone(limits.pattern(function))


class Layers(unittest.TestCase):
    def computed(self, mask, queries=ROWS, keys=ROWS, causal=False, **more):
        """What a layer computes, its inputs, and the operators that it called."""
        torch.manual_seed(0)
        tensors = [torch.randn(3, 2, rows, 16, dtype=torch.float16) for rows in (queries, keys, keys)]
        module = unittest.mock.Mock(is_causal=causal, num_key_value_groups=1)
        cpu.calls()
        out, _ = attention_forward(False, module, *tensors, mask, scaling=0.25, **more)
        return out, tensors, cpu.calls()

    def compare(self, out, tensors, elements, keep):
        elements = elements.expand(3, 1, *elements.shape[-2:])
        expected = torch.nn.functional.scaled_dot_product_attention(*(x.float() for x in tensors), attn_mask=elements, scale=0.25)
        sees = elements.any(-1)[:, 0] & keep
        torch.testing.assert_close(out[sees].float(), expected.transpose(1, 2)[sees], atol=2e-3, rtol=2e-3)
        self.assertFalse(out.isnan().any())

    def test_every_mask_of_a_model(self):
        """Computed is what the elements say: for every query, but for padding behind the tokens of a causal mask, which no token sees."""
        computed = set()
        for (name, function), kind in itertools.product({**patterns(), **unknown()}.items(), TOKENS):
            if "packed" in name and kind != "none":
                continue
            with self.subTest(name, padding=kind), torch.no_grad():
                given = padding(kind)
                more = {"chunks": {"local_size": 3}, "of the user": ASKED, "with one of the user": ASKED, "blocks": ASKED}.get(name, {})
                made = masks.mask(3, ROWS, ROWS, mask_function=function, attention_mask=given, **more)
                is_causal = elements_of(function)[0, 0].triu(1).sum() == 0
                out, tensors, calls = self.computed(made, causal=bool(is_causal))
                every = given is None or not is_causal or kind == "left"
                keep = torch.ones(3, ROWS, dtype=torch.bool) if every else given
                self.compare(out, tensors, elements_of(function, mask=given), keep)
                computed |= {(name, kind)} if calls else set()
        handed = set(itertools.product(patterns(), TOKENS)) - computed
        for name, kind in handed:
            has_limits = name == "causal" or "window" in name
            self.assertTrue("packed" in name or kind == "gaps" or (kind == "right and left" and has_limits), (name, kind))
        self.assertFalse(any(name in unknown() for name, _ in computed))

    def test_masks_of_other_numbers_of_queries_speak_of_keys(self):
        """As in cross-attention, also where the numbers happen to be equal."""
        for kind, queries in itertools.product(TOKENS, (1, 5, ROWS, 12)):
            with self.subTest(padding=kind, queries=queries), torch.no_grad():
                given = padding(kind)
                more = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": True, "attention_mask": given}
                made = masks.mask(3, queries, ROWS, mask_function=functions.bidirectional_mask_function, **more)
                for mask in (made, given, None if given is None else given.long()):
                    if mask is None and kind not in ("none", "all"):
                        continue
                    out, tensors, calls = self.computed(mask, queries=queries)
                    elements = torch.ones(3, 1, queries, ROWS, dtype=torch.bool)
                    elements = elements if given is None else elements & given[:, None, None]
                    self.compare(out, tensors, elements, torch.ones(3, queries, dtype=torch.bool))
                    self.assertTrue(calls)

    def test_padding_that_a_layer_gets_from_its_model(self):
        for kind, causal, window, queries in itertools.product(TOKENS, (False, True), (None, 3), (1, 5, ROWS)):
            given = padding(kind)
            if given is None:
                continue
            with self.subTest(padding=kind, causal=causal, window=window, queries=queries), torch.no_grad():
                out, tensors, _ = self.computed(given, queries=queries, causal=causal, sliding_window=window)
                left = None if window is None else 2
                seen = cpu.seen(queries, causal, left, left, "bottom-right", ROWS) & given[:, None, None]
                keep = given if causal and queries == ROWS else torch.ones(3, queries, dtype=torch.bool)
                self.compare(out, tensors, seen, keep)

    def test_a_padded_batch_has_the_gradients_of_sdpa(self):
        for kind, causal in itertools.product(TOKENS, (False, True)):
            given = padding(kind)
            if given is None:
                continue
            with self.subTest(padding=kind, causal=causal):
                gradients = []
                weights = torch.randn(3, ROWS, 2, 16, generator=torch.Generator().manual_seed(1)) * given[..., None, None]
                for is_own in (True, False):
                    torch.manual_seed(0)
                    tensors = [torch.randn(3, 2, ROWS, 16, dtype=torch.float16).requires_grad_() for _ in range(3)]
                    if is_own:
                        module = unittest.mock.Mock(is_causal=causal, num_key_value_groups=1)
                        out, _ = attention_forward(False, module, *tensors, given, scaling=0.25)
                    else:
                        seen = cpu.seen(ROWS, causal) & given[:, None, None]
                        seen = seen | ~seen.any(-1, keepdim=True)
                        out = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=seen, scale=0.25).transpose(1, 2)
                    (out.float() * weights).sum().backward()
                    gradients.append([tensor.grad.float() for tensor in tensors])
                for own, expected in zip(*gradients):
                    torch.testing.assert_close(own, expected, atol=1e-2, rtol=1e-2)

    def test_a_mask_written_in_place_is_read_again(self):
        """Buffers of a server, in every mode, whose tensors may not tell."""
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                buffer = torch.ones(3, ROWS, dtype=torch.bool)
                for kind in ("right", "left", "gaps", "right"):
                    buffer.copy_(padding(kind))
                    more = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": True, "attention_mask": buffer}
                    made = masks.mask(3, ROWS, ROWS, mask_function=functions.bidirectional_mask_function, **more)
                    for mask in (made, buffer):
                        out, tensors, _ = self.computed(mask)
                        elements = padding(kind)[:, None, None].expand(3, 1, ROWS, ROWS)
                        self.compare(out, tensors, elements, torch.ones(3, ROWS, dtype=torch.bool))

    def test_lengths_written_in_place_are_read_again(self):
        from fa512.transformers._lengths import are_known_equal

        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                lengths = torch.tensor([0, 4, ROWS], dtype=torch.int32)
                others = lengths.clone()
                are_known_equal(lengths, others)
                others[1] = 5
                self.assertFalse(are_known_equal(lengths, others))
                self.assertFalse(are_known_equal(lengths, others))

    def test_a_mask_of_a_model_is_located_once(self):
        made = masks.mask(3, ROWS, ROWS, attention_mask=padding("right"))
        mask = masks.attached(made)
        self.assertIs(mask.rows(), mask.rows())
        self.assertIsNone(masks.attached(made.clone()), "a copy stands for nothing")

    def test_no_other_tensor_sees_what_a_model_wrote(self):
        given = padding("right")
        made = masks.mask(3, ROWS, ROWS, attention_mask=given)
        given.fill_(True)
        self.assertTrue(torch.equal(made, padding("right")))

    def test_masks_that_models_take_apart_have_their_elements(self):
        sizes = {"mask_function": functions.causal_mask_function, "allow_is_causal_skip": False}
        self.assertEqual(masks.mask(3, ROWS, ROWS, **sizes).shape, (3, 1, ROWS, ROWS))


class Packed(unittest.TestCase):
    def compare(self, bounds, given=None, causal=True, rows=ROWS, keep=slice(None), **more):
        torch.manual_seed(0)
        tensors = [torch.randn(1, 2, rows, 16, dtype=torch.float16) for _ in range(3)]
        module = unittest.mock.Mock(is_causal=causal, num_key_value_groups=1)
        with torch.no_grad():
            out, _ = attention_forward(False, module, *tensors, given, scaling=0.25, **more)
        number = torch.bucketize(torch.arange(rows), torch.tensor(bounds), right=True)
        seen = cpu.seen(rows, causal) & (number[:, None] == number[None])
        expected = torch.nn.functional.scaled_dot_product_attention(*(x.float() for x in tensors), attn_mask=seen, scale=0.25)
        torch.testing.assert_close(out[0, keep].float(), expected[0].transpose(0, 1)[keep], atol=2e-3, rtol=2e-3)

    def test_bounds_are_read_whatever_their_number_and_whatever_mask_is_made(self):
        sequences = torch.tensor([[0] * 4 + [1] * 5])
        apart = functions.packed_sequence_mask_function(sequences)
        causal = functions.causal_mask_function
        given = {
            "none": None,
            "of the sequences": masks.mask(1, ROWS, ROWS, mask_function=functions.and_masks(causal, apart)),
            "of one text": elements_of(causal)[:1],
            "added to scores": torch.zeros(1, 1, ROWS, ROWS, dtype=torch.float16),
        }
        for (name, mask), causal in itertools.product(given.items(), (False, True)):
            if not causal and name in ("of the sequences", "of one text"):
                continue
            with self.subTest(name, causal=causal):
                if name == "added to scores" and causal:
                    mask = mask.masked_fill(~cpu.seen(ROWS, True), torch.finfo(torch.float16).min)
                lengths = torch.tensor([0, 4, ROWS], dtype=torch.int32)
                self.compare([4], mask, causal, cu_seq_lens_q=lengths, cu_seq_lens_k=lengths, max_length_q=5, max_length_k=5)

    def test_one_sequence_of_fewer_rows(self):
        lengths = torch.tensor([0, 6], dtype=torch.int32)
        self.compare([6], causal=False, keep=slice(6), cu_seq_lens_q=lengths, max_length_q=6)

    def test_positions_that_begin_again(self):
        positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1]])
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                buffer = torch.arange(ROWS)[None].clone()
                self.compare([], position_ids=buffer)
                buffer.copy_(positions)
                self.compare([4, 7], position_ids=buffer)

    def test_what_is_not_computed_is_by_pytorch(self):
        lengths = torch.tensor([0, 4, ROWS], dtype=torch.int32)
        refused = unittest.mock.patch("fa512.torch._packed._forward", side_effect=ValueError)
        with refused, unittest.mock.patch("fa512.torch.why_not_varlen_here", return_value="a test"):
            for causal, more in itertools.product((False, True), ({}, {"cu_seq_lens_k": lengths.clone()})):
                with torch.inference_mode():
                    self.compare([4], causal=causal, cu_seq_lens_q=lengths, max_length_q=5, **more)

    def test_other_numbers_of_keys_by_pytorch(self):
        torch.manual_seed(0)
        tensors = [torch.randn(1, 2, rows, 16, dtype=torch.float16) for rows in (5, ROWS, ROWS)]
        bounds = [torch.tensor(each, dtype=torch.int32) for each in ([0, 2, 5], [0, 4, ROWS])]
        refused = unittest.mock.patch("fa512.torch._packed._forward", side_effect=ValueError)
        for causal, window in itertools.product((False, True), (None, 2)):
            module = unittest.mock.Mock(is_causal=causal, num_key_value_groups=1)
            more = {"cu_seq_lens_q": bounds[0], "cu_seq_lens_k": bounds[1], "sliding_window": window}
            with refused, unittest.mock.patch("fa512.torch.why_not_varlen_here", return_value="a test"):
                out, _ = attention_forward(False, module, *tensors, None, scaling=0.25, **more)
            by_kernels, _ = attention_forward(True, module, *tensors, None, scaling=0.25, **more)
            torch.testing.assert_close(out, by_kernels, atol=2e-3, rtol=2e-3)

    def test_positions_are_looked_at_once_for_a_mask_of_a_model(self):
        positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1]])
        with torch.inference_mode():
            made = masks.mask(1, ROWS, ROWS)
            mask = masks.attached(made)
            for _ in range(2):
                self.compare([4, 7], made, position_ids=positions)
            self.assertIs(mask.with_restarts(positions, True), mask.with_restarts(positions, True))
            self.assertIs(masks.attached(masks.mask(1, ROWS, ROWS)).sequences, None)
