"""flash-attn's functions on the CPU."""

import importlib.util
import inspect
import pathlib
import threading
import unittest
import unittest.mock

import torch

import cpu
import fa512
import fa512.torch
from by_hand import CLOSE
from fa512.torch import _determinism

LIMITS = [(False, (-1, -1)), (True, (-1, -1)), (False, (3, 1)), (False, (-1, 2)), (True, (4, -1)), (False, (0, 0))]
NUMBERS, OF_KEYS = [0, 3, 4, 4, 11], [0, 5, 5, 9, 16]
TENSORS = {
    "flash_attn_func": {"q": (2, 10, 4), "k": (2, 13, 2), "v": (2, 13, 2)},
    "flash_attn_qkvpacked_func": {"qkv": (2, 10, 3, 2)},
    "flash_attn_kvpacked_func": {"q": (2, 10, 4), "kv": (2, 13, 2, 2)},
    "flash_attn_varlen_func": {"q": (11, 4), "k": (16, 2), "v": (16, 2)},
    "flash_attn_varlen_qkvpacked_func": {"qkv": (11, 3, 2)},
    "flash_attn_varlen_kvpacked_func": {"q": (11, 2), "kv": (16, 2, 2)},
}
OF_GRADIENTS = {"atol": 1e-2, "rtol": 1e-2}


def setUpModule():
    cpu.install()
    cpu.calls()


def lengths(numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def parameters(function):
    """Names and defaults, in order."""
    return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]


def inputs(name, head_dim=64, dtype=torch.float16, requires_grad=False):
    """Tensors for the function of this name."""
    generator = torch.Generator().manual_seed(0)
    return {
        argument: torch.randn(*shape, head_dim, generator=generator).to(dtype).requires_grad_(requires_grad)
        for argument, shape in TENSORS[name].items()
    }


def bounds_of(name):
    if "varlen" not in name:
        return {}
    if "qkv" in name:
        return {"cu_seqlens": lengths(NUMBERS), "max_seqlen": 7}
    return {"cu_seqlens_q": lengths(NUMBERS), "cu_seqlens_k": lengths(OF_KEYS), "max_seqlen_q": 7, "max_seqlen_k": 7}


def call(name, tensors, **options):
    return getattr(fa512, name)(**tensors, **{**bounds_of(name), **options})


def sequences(name, q=None, k=None, v=None, qkv=None, kv=None):
    """Q, K and V of each sequence, [heads, rows, head size]."""
    k, v = (k, v) if kv is None else kv.unbind(-3)
    q, k, v = (q, k, v) if qkv is None else qkv.unbind(-3)
    if "varlen" in name:
        of_keys = NUMBERS if qkv is not None else OF_KEYS
        rows, keys = zip(NUMBERS, NUMBERS[1:]), zip(of_keys, of_keys[1:])
        each = ((q[a:b], k[c:d], v[c:d]) for (a, b), (c, d) in zip(rows, keys))
    else:
        each = zip(q, k, v)
    for one in each:
        yield [tensor.transpose(0, 1).double() for tensor in one]


def define(q, k, v, causal, window, scale=None, softcap=None, slopes=None):
    """O and LSE of a sequence by their definition."""
    k, v = (tensor.repeat_interleave(len(q) // len(k), 0) for tensor in (k, v))
    scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()
    queries, keys = scores.shape[1:]
    back = keys - queries + torch.arange(queries)[:, None] - torch.arange(keys)
    scores = scores if slopes is None else scores - slopes.double()[:, None, None] * back.abs()
    left, right = (None if side == -1 else side for side in window)
    mask = cpu.seen(queries, causal, left, right, "bottom-right", keys)
    sees = mask.any(1)[:, None]
    # With a row of nothing but -inf, gradients would be NaN.
    scores = scores.masked_fill(~(mask | ~sees), -torch.inf)
    return scores.softmax(-1) @ v * sees, scores.logsumexp(-1).masked_fill(~sees[:, 0], -torch.inf)


def expected(name, tensors, causal=False, window=(-1, -1), slopes=None, **more):
    """O and LSE as the function returns them."""
    each = list(sequences(name, **tensors))
    own = [slopes] * len(each) if slopes is None or slopes.dim() == 1 else slopes
    results = [define(*one, causal, window, slopes=of_one, **more) for one, of_one in zip(each, own)]
    outs, lses = [out.transpose(0, 1) for out, _ in results], [lse for _, lse in results]
    return (torch.cat(outs), torch.cat(lses, 1)) if "varlen" in name else (torch.stack(outs), torch.stack(lses))


class Signatures(unittest.TestCase):
    OPTIONS = [
        ("dropout_p", 0.0),
        ("softmax_scale", None),
        ("causal", False),
        ("window_size", (-1, -1)),
        ("softcap", 0.0),
        ("alibi_slopes", None),
        ("deterministic", False),
        ("return_attn_probs", False),
    ]
    FIRST = {
        "flash_attn_func": "q k v",
        "flash_attn_qkvpacked_func": "qkv",
        "flash_attn_kvpacked_func": "q kv",
        "flash_attn_varlen_func": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k",
        "flash_attn_varlen_qkvpacked_func": "qkv cu_seqlens max_seqlen",
        "flash_attn_varlen_kvpacked_func": "q kv cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k",
    }

    def test_those_of_flash_attn(self):
        self.assertEqual(set(self.FIRST), {name for name in fa512.__all__ if name.startswith("flash_attn")})
        for name, first in self.FIRST.items():
            last = [("block_table", None)] if name == "flash_attn_varlen_func" else []
            names = [(argument, inspect.Parameter.empty) for argument in first.split()]
            for module in (fa512, fa512.torch):
                self.assertEqual(parameters(getattr(module, name)), names + self.OPTIONS + last, (module, name))

    def test_the_hub_has_them(self):
        path = pathlib.Path(fa512.__file__).parent / "hub/build/torch-cuda/__init__.py"
        spec = importlib.util.spec_from_file_location("hub", path)
        hub = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hub)
        self.assertLessEqual(set(self.FIRST), set(hub.__all__))
        for name in hub.__all__:
            self.assertIs(getattr(hub, name), getattr(fa512.torch, name))

    def test_every_argument_reaches_the_operators(self):
        """None is dropped on the way from the package to `fa512.torch`."""
        for name in self.FIRST:
            function = getattr(fa512, name)
            given = {parameter: object() for parameter, _ in parameters(function)}
            with unittest.mock.patch(f"fa512.torch.{name}") as called:
                function(**given)
            bound = inspect.signature(getattr(fa512.torch, name)).bind(*called.call_args.args, **called.call_args.kwargs)
            self.assertEqual(bound.arguments, given, name)


class Results(unittest.TestCase):
    def compare(self, name, tensors, **options):
        """O and LSE; O alone is the same."""
        out, lse, nothing = call(name, tensors, return_attn_probs=True, **options)
        self.assertEqual((nothing, lse.dtype, lse.requires_grad), (None, torch.float32, False))
        torch.testing.assert_close(out, call(name, tensors, **options), atol=0, rtol=0)
        return out, lse

    def test_o_and_lse(self):
        for name in TENSORS:
            for dtype, factor in ((torch.float16, 1), (torch.bfloat16, 8)):
                for causal, window in LIMITS:
                    with self.subTest(name, dtype=dtype, causal=causal, window=window):
                        tensors = inputs(name, dtype=dtype)
                        out, lse = self.compare(name, tensors, causal=causal, window_size=window)
                        of_out, of_lse = expected(name, tensors, causal, window)
                        close = {key: value * factor for key, value in CLOSE.items()}
                        torch.testing.assert_close(out.double(), of_out, **close)
                        torch.testing.assert_close(lse.double(), of_lse, atol=1e-4, rtol=1e-4)

    def test_scale_softcap_and_slopes(self):
        for name in TENSORS:
            tensors = inputs(name)
            heads = (tensors["q"] if "q" in tensors else tensors["qkv"]).shape[-2]
            entries = 4 if "varlen" in name else 2
            slopes = torch.rand(entries, 2 * heads)
            for options, more in [
                ({"softmax_scale": 0.3}, {"scale": 0.3}),
                ({"softcap": 0.5}, {"softcap": 0.5}),
                ({"alibi_slopes": slopes[0, ::2]}, {"slopes": slopes[0, ::2]}),
                ({"alibi_slopes": slopes[:, ::2]}, {"slopes": slopes[:, ::2]}),
                ({"softcap": 0.0}, {}),
                ({"softcap": -1.0}, {}),
            ]:
                with self.subTest(name, **options):
                    out = call(name, tensors, causal=True, **options)
                    torch.testing.assert_close(out.double(), expected(name, tensors, True, **more)[0], **CLOSE)

    def test_head_sizes_that_are_no_multiple_of_8(self):
        for name in TENSORS:
            for head_dim in (*range(1, 129, 9), 59, 111, 127, 131, 255):
                with self.subTest(name, head_dim=head_dim):
                    tensors = inputs(name, head_dim)
                    out, lse = self.compare(name, tensors, causal=True)
                    of_out, of_lse = expected(name, tensors, True)
                    torch.testing.assert_close(out.double(), of_out, **CLOSE)
                    torch.testing.assert_close(lse.double(), of_lse, atol=1e-4, rtol=1e-4)
            with self.assertRaisesRegex(ValueError, "head size of 257; it must be"):
                call(name, inputs(name, 257))

    def test_heads_with_gaps_are_copied(self):
        for name in TENSORS:
            tensors = {key: tensor[..., ::2] for key, tensor in inputs(name, 128).items()}
            torch.testing.assert_close(call(name, tensors).double(), expected(name, tensors)[0], **CLOSE)

    def test_other_head_sizes_of_k_and_v_are_not_filled_up(self):
        q, k, v = (torch.zeros(1, 8, 2, head_dim, dtype=torch.float16) for head_dim in (59, 64, 59))
        for tensors in ((q, k, v), (q, v, k), (k, q, q)):
            with self.assertRaisesRegex(ValueError, "head size of 59|key has the shape|value has the shape"):
                fa512.flash_attn_func(*tensors)

    def test_the_window_does_not_depend_on_the_longest_sequence(self):
        """O is right even if the longest is said to be shorter than it is."""
        for name in (name for name in TENSORS if "varlen" in name):
            tensors = inputs(name)
            for causal, window in LIMITS:
                for longest in (0, 1, 3, 1000):
                    told = {key: longest for key in bounds_of(name) if key.startswith("max")}
                    out = call(name, tensors, causal=causal, window_size=window, **told)
                    torch.testing.assert_close(out.double(), expected(name, tensors, causal, window)[0], **CLOSE)

    def test_a_window_beyond_all_keys_is_none(self):
        """Kernels without a window are faster."""
        x = inputs("flash_attn_func")
        for window, limit in [((12, 9), (None, None)), ((11, 9), (11, None)), ((12, 8), (None, 8)), ((2**70, -1), (None, None))]:
            with unittest.mock.patch("fa512.torch._batched._forward_bshd", side_effect=lambda *rows: rows[0]) as called:
                fa512.flash_attn_func(**x, window_size=window)
            self.assertEqual(called.call_args.args[5:7], limit, window)

    def test_compile_keeps_one_graph(self):
        for name, dynamic, head_dim in zip(TENSORS, [False, True] * 3, [59, 64, 136] * 2):
            with self.subTest(name, dynamic=dynamic):

                def model(tensors, bounds, function=getattr(fa512, name)):
                    out, lse, _ = function(**tensors, **bounds, window_size=(4, 2), return_attn_probs=True)
                    return out + function(**tensors, **bounds, causal=True, deterministic=True), lse

                torch._dynamo.reset()
                tensors, bounds = inputs(name, head_dim, requires_grad=True), bounds_of(name)
                results = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)(tensors, bounds)
                torch.testing.assert_close(results, model(tensors, bounds))
                cpu.determinism()
                results[0].sum().backward()
                self.assertEqual(sorted(cpu.determinism()), [False, True] if head_dim > 128 else [])
                self.assertTrue(all(tensor.grad is not None for tensor in tensors.values()))


class Gradients(unittest.TestCase):
    def test_those_of_the_definition(self):
        for name in TENSORS:
            for causal, window in LIMITS:
                for head_dim, options in ((64, {}), (59, {}), (111, {"deterministic": True}), (64, {"return_attn_probs": True})):
                    with self.subTest(name, causal=causal, window=window, head_dim=head_dim, **options):
                        tensors = inputs(name, head_dim, requires_grad=True)
                        out = call(name, tensors, causal=causal, window_size=window, **options)
                        out = out[0] if "return_attn_probs" in options else out
                        upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
                        own = torch.autograd.grad(out, list(tensors.values()), upstream.half())
                        exact = {key: tensor.detach().double().requires_grad_() for key, tensor in tensors.items()}
                        right = expected(name, exact, causal, window)[0]
                        right = torch.autograd.grad(right, list(exact.values()), upstream.double())
                        for one, other in zip(own, right):
                            torch.testing.assert_close(one.double(), other, **OF_GRADIENTS)

    def test_with_a_softcap_or_slopes(self):
        for name in TENSORS:
            tensors = inputs(name, requires_grad=True)
            heads = (tensors["q"] if "q" in tensors else tensors["qkv"]).shape[-2]
            for option, value in (("softcap", 0.5), ("alibi_slopes", torch.rand(heads))):
                for deterministic in (False, True):
                    with self.subTest(name, option=option, deterministic=deterministic):
                        out = call(name, tensors, deterministic=deterministic, **{option: value})
                        found = torch.autograd.grad(out.float().square().sum(), list(tensors.values()))
                        self.assertTrue(all(gradient.isfinite().all() and gradient.any() for gradient in found))


class Deterministic(unittest.TestCase):
    def setUp(self):
        cpu.determinism()
        self.addCleanup(torch.use_deterministic_algorithms, False)

    def state(self):
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    def test_the_backward_is_if_asked_for_and_the_flag_is_as_before(self):
        for before in ((False, False), (True, False), (True, True)):
            for name in TENSORS:
                for asked in (False, True):
                    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
                    out = call(name, inputs(name, 136, requires_grad=True), deterministic=asked)
                    self.assertEqual(self.state(), before)
                    out.sum().backward()
                    self.assertEqual((cpu.determinism()[:1], self.state()), ([asked or before == (True, False)], before))
                    cpu.determinism()

    def test_the_flag_is_as_before_after_an_error(self):
        with self.assertRaises(KeyError), _determinism.determinism(True):
            raise KeyError
        self.assertEqual(self.state(), (False, False))

    def test_the_flag_stays_until_the_last_thread_is_done(self):
        entered, leave = [threading.Barrier(3) for _ in range(2)], threading.Event()
        seen = []

        def work(number):
            with _determinism.determinism(True):
                entered[0].wait(10)
                if number:
                    leave.wait(10)
                seen.append(self.state())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        entered[0].wait(10)
        threads[0].join(10)
        self.assertEqual(self.state(), (True, False), "the second thread needs it")
        leave.set()
        threads[1].join(10)
        self.assertEqual((seen, self.state()), ([(True, False)] * 2, (False, False)))


class Nothing(unittest.TestCase):
    """Sequences and rows without keys."""

    EMPTY = {
        "flash_attn_func": {"k": (2, 0, 2), "v": (2, 0, 2)},
        "flash_attn_kvpacked_func": {"kv": (2, 0, 2, 2)},
        "flash_attn_varlen_func": {"k": (0, 2), "v": (0, 2)},
        "flash_attn_varlen_kvpacked_func": {"kv": (0, 2, 2)},
    }

    def test_no_keys_at_all(self):
        for name, shapes in self.EMPTY.items():
            for head_dim in (64, 59):
                tensors = inputs(name, head_dim, requires_grad=True)
                for argument, shape in shapes.items():
                    tensors[argument] = torch.zeros(*shape, head_dim, dtype=torch.float16, requires_grad=True)
                with torch.no_grad():
                    tensors["q"][0] = torch.nan
                options = {"cu_seqlens_k": lengths([0] * 5)} if "varlen" in name else {}
                for deterministic in (False, True):
                    out, lse, _ = call(name, tensors, causal=True, return_attn_probs=True, deterministic=deterministic, **options)
                    heads = tensors["q"].shape[-2]
                    of_lse = (heads, 11) if "varlen" in name else (2, heads, 10)
                    self.assertEqual((out.shape, out.dtype, lse.shape), (tensors["q"].shape, torch.float16, of_lse))
                    self.assertFalse(out.any())
                    self.assertTrue((lse == -torch.inf).all())
                    for gradient, tensor in zip(torch.autograd.grad(out.sum(), list(tensors.values())), tensors.values()):
                        self.assertEqual((gradient.shape, bool(gradient.any())), (tensor.shape, False))

    def test_no_keys_for_the_other_functions(self):
        q, k = (torch.randn(2, 4, rows, 64, dtype=torch.float16, requires_grad=True) for rows in (10, 0))
        rows, none = q.transpose(1, 2).contiguous(), k.transpose(1, 2)
        packed = {"cu_seqlens_k": lengths([0, 0, 0]), "return_lse": True}
        for out, lse in [
            fa512.torch.attention(q, k, k, causal=True, return_lse=True),
            (fa512.torch.attention(q, k, k), None),
            (fa512.scaled_dot_product_attention(q, k, k), None),
            (fa512.scaled_dot_product_attention(q, k, k, torch.ones(10, 0, dtype=torch.bool)), None),
            fa512.torch.attention_padded(rows, none, none, return_lse=True),
            fa512.torch.attention_varlen(rows.flatten(0, 1), none.flatten(0, 1), none.flatten(0, 1), lengths([0, 9, 20]), **packed),
        ]:
            self.assertFalse(out.any())
            self.assertTrue(lse is None or bool((lse == -torch.inf).all()))
            self.assertTrue(lse is None or out.dim() == 3 or lse.shape == (2, 4, 10))
            self.assertFalse(any(gradient.any() for gradient in torch.autograd.grad(out.sum(), (q, k))))

    def test_all_else_must_be_right_without_keys(self):
        q, k = torch.zeros(1, 8, 4, 64, dtype=torch.float16), torch.zeros(1, 0, 4, 64, dtype=torch.float16)
        for keys, words in [
            (k[..., :32], "key has the shape"),
            (k[:, :, :3], "query has 4 heads and key 3"),
            (k.bfloat16(), "key is torch.bfloat16"),
            (k.expand(2, -1, -1, -1)[:0], "key has the shape"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                fa512.flash_attn_func(q, keys, keys)
        with self.assertRaisesRegex(ValueError, "softcap is 1e-09"):
            fa512.flash_attn_func(q, k, k, softcap=1e-9)

    def test_rows_of_no_sequence_have_zeros_and_gradients_of_zeros(self):
        bounds, of_keys = [2, 5, 5, 9], [1, 4, 4, 13]
        for name in (name for name in TENSORS if "varlen" in name):
            for deterministic in (False, True):
                tensors = inputs(name, requires_grad=True)
                with torch.no_grad():
                    for key, tensor in tensors.items():
                        first, last = (bounds if "q" in key else of_keys)[:: len(bounds) - 1]
                        tensor[:first], tensor[last:] = torch.nan, torch.nan
                both = {"cu_seqlens": lengths(bounds)}
                both = both if "qkv" in name else {"cu_seqlens_q": lengths(bounds), "cu_seqlens_k": lengths(of_keys)}
                told = {key: 9 for key in bounds_of(name) if key.startswith("max")}
                out = call(name, tensors, **both, **told, deterministic=deterministic)
                gradients = torch.autograd.grad(out, list(tensors.values()), torch.ones_like(out))
                rows = [("q", out), *zip(tensors, gradients)]
                for key, result in rows:
                    first, last = (bounds if "q" in key else of_keys)[:: len(bounds) - 1]
                    self.assertTrue(result.isfinite().all(), (name, key))
                    self.assertFalse(result[:first].any() or result[last:].any(), (name, key))
                    self.assertTrue(result[first:last].any(), (name, key))


class Refusals(unittest.TestCase):
    def test_what_has_no_kernel(self):
        for name in TENSORS:
            tensors = inputs(name)
            for options, words in [
                ({"dropout_p": 0.1}, "dropout_p is 0.1, which is not supported; it must be 0"),
                ({"window_size": (4, -2)}, r"window_size is \(4, -2\), which is not supported; it must be two numbers"),
                ({"window_size": (4,)}, r"window_size is \(4,\)"),
            ]:
                with self.assertRaisesRegex(ValueError, words):
                    call(name, tensors, **options)
        with self.assertRaisesRegex(ValueError, r"block_table is Tensor \[2\]"):
            call("flash_attn_varlen_func", inputs("flash_attn_varlen_func"), block_table=torch.ones(2))

    def test_shapes(self):
        x = torch.zeros(2, 8, 4, 64, dtype=torch.float16)
        for name, tensors, words in [
            ("flash_attn_func", {"q": x[0], "k": x, "v": x}, r"q has the shape \[8, 4, 64\]; it must be \[batch, sequence, heads,"),
            ("flash_attn_func", {"q": x, "k": x, "v": x[0]}, "v has the shape"),
            ("flash_attn_qkvpacked_func", {"qkv": x}, r"qkv has the shape .* \[batch, sequence, 3, heads, head size\]"),
            ("flash_attn_qkvpacked_func", {"qkv": x[:, None]}, r"qkv has the shape \[2, 1, 8, 4, 64\]"),
            ("flash_attn_kvpacked_func", {"q": x, "kv": x[None]}, r"kv has the shape .* \[batch, sequence, 2, heads, head size\]"),
            ("flash_attn_varlen_func", {"q": x, "k": x, "v": x}, "q has the shape"),
            ("flash_attn_varlen_qkvpacked_func", {"qkv": x}, r"qkv has the shape .* \[rows of all sequences, 3, heads, head size\]"),
            ("flash_attn_varlen_kvpacked_func", {"q": x[0], "kv": x}, "kv has the shape"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                call(name, tensors)
