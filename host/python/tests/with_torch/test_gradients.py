"""Every public function, and operators, with every kind of tensor, transform and gradient: equal to PyTorch's attention, or an error that says what is not
supported. Once by the ways that a GPU takes, once without nodes in C++, and once through operators."""

import functools
import itertools
import unittest
import unittest.mock
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

import as_gpu
import cpu
import fa512.torch
from fa512.torch import _batched, _direct, _flash_impl, _own_backward, _recorded

BATCH, HEADS, ROWS, HEAD_DIM = 2, 2, 5, 16
BOUNDS = torch.tensor([0, ROWS, BATCH * ROWS], dtype=torch.int32)


def setUpModule():
    cpu.install()


class Function:
    """A public function: the shapes of its tensors, how they hold Q, K and V, and the call."""

    def __init__(self, shapes, unpack, call):
        self.shapes, self.unpack, self.call = shapes, unpack, call

    def tensors(self, requires_grad=False, dtype=torch.float16):
        generator = torch.Generator().manual_seed(0)
        made = [torch.randn(shape, generator=generator).to(dtype) for shape in self.shapes]
        return [tensor.requires_grad_(requires_grad) for tensor in made]

    def expected(self, *tensors):
        """PyTorch's attention, in f64 by its arithmetic, in the shape of the function's result."""
        q, k, v = (tensor.double() for tensor in self.unpack(*tensors))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            out = functional.scaled_dot_product_attention(q, k, v)
        return out if self.unpack is _bhsd else _bshd(out)[0] if self.unpack in _BSHD else out.transpose(1, 2).flatten(0, 1)


def _bhsd(*tensors):
    return tensors


def _bshd(*tensors):
    return [tensor.transpose(1, 2) for tensor in tensors]


def _bshd_qkv(qkv):
    return _bshd(*qkv.unbind(2))


def _bshd_kv(q, kv):
    return _bshd(q, *kv.unbind(2))


_BSHD = (_bshd, _bshd_qkv, _bshd_kv)


def _rows(*tensors):
    return _bshd(*(tensor.unflatten(0, (BATCH, ROWS)) for tensor in tensors))


def _rows_qkv(qkv):
    return _rows(*qkv.unbind(1))


def _rows_kv(q, kv):
    return _rows(q, *kv.unbind(1))


_OF_BHSD = [(BATCH, HEADS, ROWS, HEAD_DIM)] * 3
_OF_BSHD = [(BATCH, ROWS, HEADS, HEAD_DIM)] * 3
_OF_ROWS = [(BATCH * ROWS, HEADS, HEAD_DIM)] * 3
_LENGTHS = (BOUNDS, BOUNDS, ROWS, ROWS)


def _stacked(shapes, parts):
    *outer, heads, head_dim = shapes[0]
    return [*shapes[: 3 - parts], (*outer, parts, heads, head_dim)]


FUNCTIONS = {
    "attention": Function(_OF_BHSD, _bhsd, fa512.torch.attention),
    "scaled_dot_product_attention": Function(_OF_BHSD, _bhsd, fa512.torch.scaled_dot_product_attention),
    "attention_padded": Function(_OF_BSHD, _bshd, fa512.torch.attention_padded),
    "attention_varlen": Function(_OF_ROWS, _rows, lambda *x: fa512.torch.attention_varlen(*x, BOUNDS, ROWS)),
    "flash_attn_func": Function(_OF_BSHD, _bshd, fa512.torch.flash_attn_func),
    "flash_attn_qkvpacked_func": Function(_stacked(_OF_BSHD, 3), _bshd_qkv, fa512.torch.flash_attn_qkvpacked_func),
    "flash_attn_kvpacked_func": Function(_stacked(_OF_BSHD, 2), _bshd_kv, fa512.torch.flash_attn_kvpacked_func),
    "flash_attn_varlen_func": Function(_OF_ROWS, _rows, lambda *x: fa512.torch.flash_attn_varlen_func(*x, *_LENGTHS)),
    "flash_attn_varlen_qkvpacked_func": Function(
        _stacked(_OF_ROWS, 3), _rows_qkv, lambda qkv: fa512.torch.flash_attn_varlen_qkvpacked_func(qkv, BOUNDS, ROWS)
    ),
    "flash_attn_varlen_kvpacked_func": Function(
        _stacked(_OF_ROWS, 2), _rows_kv, lambda q, kv: fa512.torch.flash_attn_varlen_kvpacked_func(q, kv, *_LENGTHS)
    ),
}
_PUBLIC = set(FUNCTIONS)
FUNCTIONS["torch.ops.fa512.attention"] = Function(_OF_BHSD, _bhsd, torch.ops.fa512.attention)
FUNCTIONS["torch.ops.fa512.attention_varlen"] = Function(
    _OF_ROWS, _rows, lambda *x: torch.ops.fa512.attention_varlen_with_lse(*x, BOUNDS, ROWS)[0]
)
NO_ATTENTION = ("MAXIMUM_HEAD_DIM", "ROW_ALIGNMENT", "register_flash_attention_impl")


class Subclass(torch.Tensor):
    """One whose operators and functions are PyTorch's."""


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def _zeros(tensor):
    return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype)


# Tensors whose memory alone is not their value, by what makes them of a plain one.
KINDS = {
    "plain": lambda x: x,
    "expanded": lambda x: x[:1].expand(x.shape),
    "negative": lambda x: torch._neg_view(x),
    "negative, of a view": lambda x: torch._neg_view(x.flip(0))[:],
    "zeros without memory": _zeros,
    "parameter": lambda x: torch.nn.Parameter(x),
    "subclass": lambda x: x.as_subclass(Subclass),
    "wrapper of functions": lambda x: torch._to_functional_tensor(x),
    "named": lambda x: x.refine_names(*"abcde"[: x.dim()]),
    "inference": lambda x: _in_inference_mode(x),
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "nested": lambda x: torch.nested.nested_tensor(list(x)),
    "jagged": lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
    "complex, conjugate": lambda x: torch.complex(x.float(), x.float()).conj(),
}
VALUES = ("plain", "expanded", "negative", "negative, of a view", "zeros without memory", "parameter", "subclass", "inference")
"""Kinds that PyTorch's attention computes. The others it may refuse."""


def _in_inference_mode(tensor):
    with torch.inference_mode():
        return tensor.clone()


def _dense(kind, tensor):
    """The value of a tensor of this kind."""
    value = KINDS[kind](tensor.detach().float())
    return torch.zeros(tensor.shape) if kind.startswith("zeros") else value.detach().clone().as_subclass(torch.Tensor)


def of_each(test):
    """A test of each public function."""

    @functools.wraps(test)
    def run(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                test(self, function)

    return run


class Gradients(unittest.TestCase):
    """By the ways of calls on a GPU."""

    def setUp(self):
        as_gpu.install(self.addCleanup)
        as_gpu.called()

    def close(self, found, expected, tolerance=4e-3):
        torch.testing.assert_close(found.double(), expected.double(), atol=tolerance, rtol=tolerance)

    def gradients(self, function, tensors, of=None):
        """Gradients of a sum of squares of the result, found and expected."""
        leaves = [tensor for tensor in tensors if tensor.requires_grad]
        out = (function.call if of is None else of)(*tensors)
        found = torch.autograd.grad(out.double().square().sum(), leaves)
        expected = torch.autograd.grad(function.expected(*tensors).square().sum(), leaves)
        return found, expected

    def same_gradients(self, function, tensors, of=None):
        for pair in zip(*self.gradients(function, tensors, of)):
            self.close(*pair, 2e-2)

    def says(self, words, call):
        with self.assertRaises(Exception) as raised:
            call()
        self.assertRegex(str(raised.exception), words)

    def test_every_public_function_is_here(self):
        known = {*_PUBLIC, *NO_ATTENTION, *(name for name in fa512.torch.__all__ if name.startswith("why_not"))}
        self.assertEqual(known, set(fa512.torch.__all__))

    node = "ScaledDotProductFlashAttention"
    node_of_rows = node_of_packed = "FlashAttention"

    def test_the_ways(self):
        """That the others test what they say."""
        nodes = {
            "attention": self.node,
            "torch.ops.fa512.attention": self.node,
            "flash_attn_func": self.node_of_rows,
            "attention_varlen": self.node_of_packed,
        }
        for name, node in nodes.items():
            function = FUNCTIONS[name]
            out = function.call(*function.tensors(True))
            found = out.grad_fn.next_functions[0][0] if "Transpose" in type(out.grad_fn).__name__ else out.grad_fn
            self.assertIn(node, type(found).__name__)

    @of_each
    def test_kinds_of_tensors(self, function):
        for kind, make in KINDS.items():
            for at in range(len(function.shapes)):
                for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode) if kind in VALUES else (torch.no_grad,):
                    with self.subTest(kind, at=at, mode=mode.__name__), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        self.one_kind(function, kind, make, at, mode)

    def one_kind(self, function, kind, make, at, mode):
        plain = function.tensors()
        try:
            odd = make(plain[at])
        except (RuntimeError, TypeError):
            return  # There is none of this shape.
        given = [*plain[:at], odd, *plain[at + 1 :]]
        expected = function.expected(*plain[:at], _dense(kind, plain[at]), *plain[at + 1 :]) if kind in VALUES else None
        with mode():
            try:
                found = function.call(*given)
            except Exception as error:
                if kind == "expanded" and "one behind the other" in str(error):
                    return
                self.assertNotIn(kind, VALUES, error)
                self.assertRegex(str(error), r"query|key|value|\bq\b|\bk\b|\bv\b|qkv|kv|fa512|scaled_dot|[Nn]ested|[Ss]parse|[Nn]amed")
                return
        if kind == "meta":
            self.assertEqual(found.device.type, "meta")
            return
        expected = function.expected(*plain) if expected is None else expected
        if torch._is_functional_tensor(found):
            torch._sync(found)
            found = torch._from_functional_tensor(found)
        self.close(found.detach(), expected)

    @of_each
    def test_gradients_of_all_and_of_one(self, function):
        self.same_gradients(function, function.tensors(True))
        for at in range(len(function.shapes)):
            tensors = function.tensors()
            tensors[at].requires_grad_()
            self.same_gradients(function, tensors)

    @of_each
    def test_gradients_of_odd_tensors(self, function):
        for kind in VALUES:
            if kind in ("zeros without memory", "inference"):
                continue
            with self.subTest(kind):
                leaves = function.tensors(True)
                if kind == "parameter":
                    self.same_gradients(function, [torch.nn.Parameter(leaf.detach()) for leaf in leaves])
                    continue
                if kind == "expanded" and function.call is fa512.torch.attention_padded:
                    continue
                make = KINDS[kind]
                found = torch.autograd.grad(
                    function.call(*map(make, leaves)).as_subclass(torch.Tensor).double().square().sum(), leaves
                )
                expected = torch.autograd.grad(
                    function.expected(*map(make, leaves)).as_subclass(torch.Tensor).square().sum(), leaves
                )
                for pair in zip(found, expected):
                    self.close(*pair, 2e-2)

    @of_each
    def test_a_mode_of_operators_changes_nothing(self, function):
        with Dispatch():
            self.same_gradients(function, function.tensors(True))

    @of_each
    def test_without_a_gradient_none_is_recorded(self, function):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertFalse(function.call(*function.tensors(True)).requires_grad)

    @of_each
    def test_below_autograd_none_is_recorded(self, function):
        with torch._C._AutoDispatchBelowAutograd():
            self.assertIsNone(function.call(*function.tensors(True)).grad_fn)

    @of_each
    def test_a_gradient_that_does_not_lie_as_the_result(self, function):
        for make in (lambda out: out.new_ones(()).expand(out.shape), lambda out: torch.ones_like(out.mT).mT):
            tensors = function.tensors(True)
            out, expected = function.call(*tensors), function.expected(*tensors)
            found = torch.autograd.grad(out, tensors, make(out))
            for pair in zip(found, torch.autograd.grad(expected, tensors, make(expected))):
                self.close(*pair, 2e-2)

    @of_each
    def test_a_graph_that_is_kept(self, function):
        tensors = function.tensors(True)
        out = function.call(*tensors).double().sum()
        first = torch.autograd.grad(out, tensors, retain_graph=True)
        for pair in zip(first, torch.autograd.grad(out, tensors)):
            self.assertTrue(torch.equal(*pair))
        self.says("second time", lambda: torch.autograd.grad(out, tensors))

    @of_each
    def test_a_tensor_that_is_written_before_the_backward(self, function):
        tensors = function.tensors(True)
        given = [tensor.clone() for tensor in tensors]
        out = function.call(*given).double().sum()
        with torch.no_grad():
            given[0].zero_()
        self.says("modified (by an )?in-?place", lambda: torch.autograd.grad(out, tensors))

    @of_each
    def test_checkpoints(self, function):
        for reentrant in (False, True):
            tensors = function.tensors(True)
            checkpoint(function.call, *tensors, use_reentrant=reentrant).double().square().sum().backward()
            for tensor, expected in zip(tensors, self.gradients(function, tensors)[1]):
                self.close(tensor.grad, expected, 2e-2)

    @of_each
    def test_hooks_of_saved_tensors(self, function):
        packed = []

        def pack(tensor):
            packed.append(tensor)
            return tensor.clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.same_gradients(function, function.tensors(True))
        self.assertGreaterEqual(len(packed), 4, "Q, K, V, O, LSE")
        self.assertLessEqual({type(tensor) for tensor in packed}, {torch.Tensor})

    @of_each
    def test_saved_on_the_cpu(self, function):
        with torch.autograd.graph.save_on_cpu():
            self.same_gradients(function, function.tensors(True))

    @of_each
    def test_threads(self, function):
        def work(_=None):
            tensors = function.tensors(True)
            return torch.autograd.grad(function.call(*tensors).double().square().sum(), tensors)

        with ThreadPoolExecutor(4) as threads:
            for found in threads.map(work, range(8)):
                self.assertTrue(all(map(torch.equal, found, work())))

    @of_each
    def test_several_gradients_at_once(self, function):
        tensors = function.tensors(True)
        out, expected = function.call(*tensors), function.expected(*tensors)
        grads = torch.randn(3, *out.shape, generator=torch.Generator().manual_seed(1))
        found = torch.autograd.grad(out, tensors, grads.half(), is_grads_batched=True)
        for pair in zip(found, torch.autograd.grad(expected, tensors, grads.double(), is_grads_batched=True)):
            self.close(*pair, 2e-2)

    @of_each
    def test_anomaly_mode(self, function):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.detect_anomaly():
                self.same_gradients(function, function.tensors(True))

    @of_each
    def test_transforms_of_functions(self, function):
        tensors = function.tensors()

        def loss(first, *others, of=function.call):
            return of(first, *others).double().square().sum()

        def exact(first, *others):
            return loss(first, *others, of=function.expected)

        self.close(torch.func.grad(loss)(*tensors), torch.func.grad(exact)(*tensors), 2e-2)
        out, pull = torch.func.vjp(function.call, *tensors)
        expected, exact_pull = torch.func.vjp(function.expected, *tensors)
        self.close(out, expected)
        for pair in zip(pull(torch.ones_like(out)), exact_pull(torch.ones_like(expected))):
            self.close(*pair, 2e-2)
        several = torch.stack([tensors[0], 2 * tensors[0], -tensors[0]])
        entries = (0, *(None for _ in tensors[1:]))
        many = (several, *tensors[1:])
        for made, by_pytorch in ((function.call, function.expected), (torch.func.grad(loss), torch.func.grad(exact))):
            found = torch.func.vmap(made, entries)(*many)
            self.close(found, torch.stack([by_pytorch(one, *tensors[1:]) for one in several]), 5e-2)

    @of_each
    def test_forward_mode_is_an_error(self, function):
        for requires_grad in (False, True):
            for at in range(len(function.shapes)):
                tensors = function.tensors(requires_grad)
                with forward_ad.dual_level():
                    tensors[at] = forward_ad.make_dual(tensors[at], torch.ones_like(tensors[at]))
                    self.says("fa512: .*forward-mode", lambda: function.call(*tensors))
        tensors = tuple(function.tensors())
        self.says("fa512: .*forward-mode", lambda: torch.func.jvp(function.call, tensors, tensors))
        self.says("fa512: .*forward-mode", lambda: torch.func.jacfwd(function.call)(*tensors))
        with forward_ad.dual_level():
            self.close(function.call(*tensors), function.expected(*tensors))
            self.same_gradients(function, function.tensors(True))

    @of_each
    def test_second_derivatives_are_an_error(self, function):
        tensors = function.tensors(True)
        first = torch.autograd.grad(function.call(*tensors).double().square().sum(), tensors, create_graph=True)
        for pair in zip(first, self.gradients(function, tensors)[1]):
            self.close(*pair, 2e-2)
        self.says(
            "second derivative|derivative for aten::.*flash_attention_backward is not implemented",
            lambda: torch.autograd.grad(first[0].double().square().sum(), tensors),
        )

        def loss(first):
            return function.call(first, *tensors[1:]).double().square().sum()

        self.says("fa512", lambda: torch.func.hessian(loss)(tensors[0].detach()))
        self.says("fa512", lambda: torch.func.jacrev(torch.func.grad(loss))(tensors[0].detach()))

    def test_shared_heads_and_other_lengths(self):
        for causal, align, layout in [
            (causal, align, layout)
            for causal in (False, True)
            for align in ("top-left", "bottom-right")
            for layout in ("bhsd", "bshd")
        ]:
            for queries, keys in ((5, 5), (3, 7), (7, 3)):
                with self.subTest(causal=causal, align=align, queries=queries, keys=keys, layout=layout):
                    self.one_shape(causal, align, layout, queries, keys)

    def one_shape(self, causal, align, layout, queries, keys):
        torch.manual_seed(0)
        shapes = [(2, 4, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)]
        tensors = [torch.randn(shape, dtype=torch.float16, requires_grad=True) for shape in shapes]
        seen = cpu.seen(queries, causal, align=align, keys=keys)

        def call():
            if layout == "bhsd":
                return fa512.torch.attention(*tensors, causal=causal, align=align)
            return fa512.torch.flash_attn_func(*(tensor.transpose(1, 2) for tensor in tensors), causal=causal).transpose(1, 2)

        if layout == "bshd" and align == "top-left":
            return
        expected = functional.scaled_dot_product_attention(
            *(tensor.double() for tensor in tensors), attn_mask=seen, enable_gqa=True
        )
        out = call()
        has_key = seen.any(1)
        self.close(out[:, :, has_key], expected[:, :, has_key])
        found = torch.autograd.grad(out[:, :, has_key].double().sum(), tensors)
        for pair in zip(found, torch.autograd.grad(expected[:, :, has_key].sum(), tensors)):
            self.close(*pair, 2e-2)

    def test_windows(self):
        for name in ("attention", "flash_attn_func"):
            for causal, window in [(False, (2, 1)), (True, (2, None)), (False, (None, 1)), (False, (0, 0))]:
                with self.subTest(name, causal=causal, window=window):
                    torch.manual_seed(0)
                    tensors = [torch.randn(2, 2, 6, 16, dtype=torch.float16, requires_grad=True) for _ in range(3)]
                    if name == "attention":
                        out = fa512.torch.attention(*tensors, causal=causal, window=window)
                    else:
                        sides = tuple(-1 if side is None else side for side in window)
                        swapped = _bshd(*tensors)
                        out = fa512.torch.flash_attn_func(*swapped, causal=causal, window_size=sides).transpose(1, 2)
                    mask = cpu.seen(6, causal, *window)
                    expected = functional.scaled_dot_product_attention(
                        *(tensor.double() for tensor in tensors), attn_mask=mask
                    )
                    self.close(out, expected)
                    found = torch.autograd.grad(out.double().square().sum(), tensors)
                    for pair in zip(found, torch.autograd.grad(expected.square().sum(), tensors)):
                        self.close(*pair, 2e-2)

    def test_lengths_of_their_own(self):
        bounds, bounds_k = ([0, 4, 4, 9], [1, 3, 8, 12])
        lengths = [torch.tensor(each, dtype=torch.int32) for each in (bounds, bounds_k)]
        for causal, window in [(False, None), (True, None), (True, (2, None)), (False, (2, 1))]:
            with self.subTest(causal=causal, window=window):
                torch.manual_seed(0)
                shapes = [(10, 4, 16), (13, 2, 16), (13, 2, 16)]
                tensors = [torch.randn(shape, dtype=torch.float16, requires_grad=True) for shape in shapes]
                more = {"cu_seqlens_k": lengths[1], "max_seqlen_k": 5, "causal": causal, "window": window}
                out = fa512.torch.attention_varlen(*tensors, lengths[0], 5, align="bottom-right", **more)
                parts = [(slice(*b), slice(*k)) for b, k in zip(zip(bounds, bounds[1:]), zip(bounds_k, bounds_k[1:]))]
                expected = torch.zeros(10, 4, 16, dtype=torch.float64)
                for rows, keys in parts:
                    q, k, v = (x[at].double().transpose(0, 1) for x, at in zip(tensors, (rows, keys, keys)))
                    seen = cpu.seen(q.shape[1], causal, *(window or (None, None)), "bottom-right", k.shape[1])
                    k, v = (x.repeat_interleave(2, 0) for x in (k, v))
                    scores = (q @ k.mT / 4).masked_fill(~seen, -torch.inf)
                    expected = expected.index_add(
                        0, torch.arange(10)[rows], (scores.softmax(-1).nan_to_num(0.0) @ v).transpose(0, 1)
                    )
                self.close(out, expected)
                found = torch.autograd.grad(out.double().square().sum(), tensors)
                for pair in zip(found, torch.autograd.grad(expected.square().sum(), tensors)):
                    self.close(*(x.nan_to_num(0.0) for x in pair), 2e-2)
                    self.assertTrue(pair[0].isfinite().all())

    def test_changed_scores_have_gradients(self):
        for width in (HEAD_DIM, 136):
            shape = (BATCH, HEADS, ROWS, width)
            self.changed_scores_have_gradients([torch.randn(shape, dtype=torch.float16, requires_grad=True) for _ in range(3)])

    def changed_scores_have_gradients(self, tensors):
        bias = torch.randn(ROWS, ROWS, dtype=torch.float16)
        for changes in ({"bias": bias}, {"alibi_slopes": torch.ones(HEADS)}, {"softcap": 0.5}):
            for causal in (False, True):
                out = fa512.torch.attention(*tensors, causal=causal, **changes)
                found = torch.autograd.grad(out.double().square().sum(), tensors)
                options = (causal, None, None, None, "top-left", *(changes.get(name) for name in ("softcap", "alibi_slopes", "bias")))
                for pair in zip(found, cpu.own_gradients(2 * out.detach(), *tensors, *options)):
                    self.close(*pair, 2e-2)
                again = torch.autograd.grad(fa512.torch.attention(*tensors, causal=causal, **changes).double().square().sum(), tensors)
                self.assertTrue(all(map(torch.equal, found, again)))

    def test_a_bias_has_a_gradient_in_which_what_shares_an_element_is_added_up(self):
        sdpa = fa512.torch.scaled_dot_product_attention
        for requires_grad, width in ((True, HEAD_DIM), (False, HEAD_DIM), (True, 136)):
            tensors = [torch.randn(BATCH, HEADS, ROWS, width, dtype=torch.float16, requires_grad=requires_grad) for _ in range(3)]
            for shape in ((ROWS,), (ROWS, ROWS), (1, HEADS, ROWS, ROWS), (BATCH, 1, 1, ROWS), (BATCH, HEADS, ROWS, ROWS)):
                bias = torch.randn(shape, dtype=torch.float16, requires_grad=True)
                wanted = (*tensors, bias) if requires_grad else (bias,)
                for out in (fa512.torch.attention(*tensors, bias=bias), sdpa(*tensors, attn_mask=bias)):
                    found = torch.autograd.grad(out.double().square().sum(), wanted)
                    expected = cpu.own_dbias(bias, 2 * out.detach(), *tensors, False, None, None, None, "top-left", None, None, bias)
                    self.close(found[-1], expected, 3e-2)

    def test_what_has_no_gradient_is_said(self):
        tensors = FUNCTIONS["attention"].tensors(True)
        slopes = torch.ones(HEADS, requires_grad=True)
        self.says("the gradient of alibi_slopes is required", lambda: fa512.torch.attention(*tensors, alibi_slopes=slopes))

    @of_each
    def test_wide_heads(self, function):
        wide = Function([(*shape[:-1], 136) for shape in function.shapes], function.unpack, function.call)
        self.same_gradients(wide, wide.tensors(True))

    def test_a_deterministic_backward(self):
        for name in ("flash_attn_func", "flash_attn_varlen_qkvpacked_func"):
            function = FUNCTIONS[name]
            of = functools.partial(getattr(fa512.torch, name), deterministic=True)
            lengths = (BOUNDS, ROWS) if "varlen" in name else ()
            for width in (HEAD_DIM, 136):
                each = Function([(*shape[:-1], width) for shape in function.shapes], function.unpack, None)
                self.same_gradients(each, each.tensors(True), lambda *tensors: of(*tensors, *lengths))

    def test_of_wide_heads_own_gradients_are_those_that_pytorch_does_not_compute(self):
        tensors = [torch.randn(1, HEADS, ROWS, 136, dtype=torch.float16, requires_grad=True) for _ in range(3)]
        fewer = tensors[0][:, :, 1:]
        with unittest.mock.patch("fa512.torch._own_backward.of_batch", wraps=_own_backward.of_batch) as own:
            for queries, options, called in [
                (tensors[0], {}, 0),
                (tensors[0], {"causal": True}, 0),
                (fewer, {"causal": True, "align": "bottom-right"}, 0),
                (fewer, {"causal": True}, 1),
                (tensors[0], {"softcap": 5.0}, 1),
            ]:
                own.reset_mock()
                fa512.torch.attention(queries, *tensors[1:], **options).sum().backward()
                self.assertEqual(own.call_count, called, options)

    def test_lse_has_no_gradient(self):
        out, lse = fa512.torch.attention(*FUNCTIONS["attention"].tensors(True), return_lse=True)
        self.assertTrue(out.requires_grad and not lse.requires_grad)

    def test_rows_of_no_sequence_have_no_gradient(self):
        for bounds, (softcap, width) in itertools.product(([1, 5, 9], [0]), ((None, HEAD_DIM), (5.0, HEAD_DIM), (None, 136))):
            rows = [torch.randn(12, HEADS, width, dtype=torch.float16, requires_grad=True) for _ in range(3)]
            out = fa512.torch.attention_varlen(*rows, torch.tensor(bounds, dtype=torch.int32), 4, softcap=softcap)
            for gradient in torch.autograd.grad(out.float().sum(), rows):
                outside = [gradient[: bounds[0]], gradient[bounds[-1] :]]
                self.assertTrue(gradient.isfinite().all() and not any(part.any() for part in outside), (bounds, softcap))

    def test_without_queries_or_keys_gradients_are_zeros(self):
        for queries, keys, softcap in itertools.product((0, 4), (0, 4), (None, 5.0)):
            if queries and keys:
                continue
            tensors = [torch.randn(1, HEADS, n, HEAD_DIM, dtype=torch.float16, requires_grad=True) for n in (queries, keys, keys)]
            out = fa512.torch.attention(*tensors, softcap=softcap)
            found = torch.autograd.grad(out.float().sum(), tensors)
            self.assertFalse(any(gradient.any() for gradient in found), (queries, keys, softcap))

    def test_what_a_padded_batch_does_not_use_has_no_gradient(self):
        used = {"seqused_q": torch.tensor([5, 0, 3], dtype=torch.int32), "seqused_k": torch.tensor([2, 4, 6], dtype=torch.int32)}
        tensors = [torch.randn(3, 6, HEADS, HEAD_DIM, dtype=torch.float16) for _ in range(3)]
        padding = [torch.arange(6) >= used[name][:, None] for name in ("seqused_q", "seqused_k", "seqused_k")]
        for tensor, unused in zip(tensors, padding):
            tensor[unused] = torch.nan
            tensor.requires_grad_()
        out = fa512.torch.attention_padded(*tensors, **used)
        self.assertFalse(out[padding[0]].any())
        grad = torch.ones_like(out)
        grad[padding[0]] = torch.nan
        for gradient, unused in zip(torch.autograd.grad(out, tensors, grad), padding):
            self.assertTrue(gradient.isfinite().all() and gradient.any() and not gradient[unused].any())

    def test_several_lengths_in_one_backward(self):
        rows = [torch.randn(12, HEADS, HEAD_DIM, dtype=torch.float16, requires_grad=True) for _ in range(3)]
        bounds = [torch.tensor(each, dtype=torch.int32) for each in ([1, 5, 9], [3, 6, 8], [1, 5, 9])]
        outs = [fa512.torch.attention_varlen(*rows, each, 4).float().square().sum() for each in bounds]
        alone = [torch.autograd.grad(out, rows, retain_graph=True) for out in outs]
        for found, *parts in zip(torch.autograd.grad(sum(outs), rows), *alone):
            self.close(found, sum(part.double() for part in parts), 1e-2)


class States(unittest.TestCase):
    """The random state that leads a node of PyTorch to fa512's own backward."""

    def setUp(self):
        as_gpu.install(self.addCleanup)
        self.tensors = FUNCTIONS["attention"].tensors(True)
        self.out = fa512.torch.attention(*self.tensors)
        as_gpu.called()

    def gradients(self):
        return torch.autograd.grad(self.out, self.tensors, torch.ones_like(self.out))

    def hook(self, pack):
        for name in ("rng_state", "unused"):
            getattr(self.out.grad_fn, f"_raw_saved_{name}").register_hooks(pack, lambda tensor: tensor)

    def test_it_is_an_ordinary_tensor_to_all_else(self):
        state = self.out.grad_fn._saved_rng_state
        self.assertEqual((state.shape, state.dtype, state.sum().item(), state.layout), ((2,), torch.uint64, 0, torch.sparse_coo))

    def test_copies_lead_there_too(self):
        for copy in (torch.clone, torch.detach, lambda state: state.to("cpu", copy=True), torch.zeros_like):
            self.setUp()
            self.hook(copy)
            self.gradients()
            self.assertEqual(as_gpu.called(), ["attention_backward"])

    def test_checkpoints_hand_it_on_and_other_hooks_get_none(self):
        nodes = []

        def call(*tensors):
            out = fa512.torch.attention(*tensors)
            nodes.append(type(out.grad_fn).__name__)
            return out

        torch.autograd.grad(checkpoint(call, *self.tensors, use_reentrant=False).float().sum(), self.tensors)
        with torch.autograd.graph.save_on_cpu():
            call(*self.tensors)
        self.assertEqual(nodes, ["ScaledDotProductFlashAttentionBackward0"] * (len(nodes) - 1) + ["AttentionBackward"])
        self.assertEqual(as_gpu.called(), ["attention"] * 2 + ["attention_backward", "attention"])

    def test_a_copy_that_does_not_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "copy_.. between dense and sparse Tensors is not implemented"):
            self.hook(lambda state: torch.empty(state.shape, dtype=state.dtype).copy_(state))

    def test_an_error_of_the_backward_is_raised(self):
        with unittest.mock.patch.object(fa512._native, "attention_backward", side_effect=RuntimeError("the driver says no")):
            with self.assertRaisesRegex(RuntimeError, "the driver says no"):
                self.gradients()

    def test_modes_see_the_backward_and_change_nothing(self):
        seen = []

        class Sees(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        with Sees():
            self.gradients()
        self.assertIn("aten._scaled_dot_product_flash_attention_backward.default", seen)
        self.assertEqual(as_gpu.called(), ["attention_backward"])

    def test_cudnn_is_chosen_for_wide_heads_of_many_scores(self):
        def is_chosen(heads, rows, keys, width=64):
            q, k = (torch.empty(1, 1, 1, width, dtype=torch.float16).expand(1, heads, n, width) for n in (rows, keys))
            with unittest.mock.patch("torch._fused_sdp_choice", return_value=3):
                return _recorded._is_cudnn_chosen(q, k, k, False)

        self.assertEqual([is_chosen(99, 9000, 9000, width) for width in (64, 128, 136)], [False, False, True])
        self.assertFalse(is_chosen(1, 3000, 3000, 136), "few scores")
        with unittest.mock.patch.object(_recorded, "IS_OWN", False):
            self.assertTrue(is_chosen(99, 1024, 1024))


class OfOthers(unittest.TestCase):
    """PyTorch's own attention."""

    def setUp(self):
        as_gpu.install(self.addCleanup)
        as_gpu.called()

    def test_it_does_not_pass_our_kernels(self):
        q, k, v = FUNCTIONS["attention"].tensors(True)
        functional.scaled_dot_product_attention(q, k, v).sum().backward()
        for operator, arguments in (
            (torch.ops.aten._scaled_dot_product_flash_attention, ()),
            (torch.ops.aten._flash_attention_forward, (None, None, ROWS, ROWS, 0.0, False, False)),
        ):
            with self.assertRaises(NotImplementedError):
                operator(q, k, v, *arguments)
        self.assertEqual(as_gpu.called(), [])

    def test_an_error_leaves_gradients_on(self):
        with self.assertRaises(ValueError):
            fa512.torch.attention(*FUNCTIONS["attention"].tensors(True, torch.float64))
        self.assertTrue(torch.is_grad_enabled())

    def test_activated_it_gets_values(self):
        """The dispatcher resolves tensors whose memory alone is not their value, and refuses tangents."""
        activated = object.__new__(_flash_impl._Activated)
        library = torch.library.Library("aten", "IMPL")
        self.addCleanup(library._destroy)
        library.impl("_scaled_dot_product_flash_attention", activated._forward, "CPU", with_keyset=True)
        patch = unittest.mock.patch.object(_batched, "why_not_here", _batched.why_not)
        patch.start()
        self.addCleanup(patch.stop)
        function, operator = FUNCTIONS["attention"], torch.ops.aten._scaled_dot_product_flash_attention
        for kind in ("plain", "expanded", "negative", "zeros without memory", "parameter"):
            for at in range(3):
                with self.subTest(kind, at=at):
                    plain = function.tensors()
                    given = [*plain[:at], KINDS[kind](plain[at]), *plain[at + 1 :]]
                    expected = function.expected(*plain[:at], _dense(kind, plain[at]), *plain[at + 1 :])
                    torch.testing.assert_close(operator(*given)[0].double(), expected, atol=4e-3, rtol=4e-3)
        self.assertEqual(set(as_gpu.called()), {"attention"})
        with forward_ad.dual_level(), self.assertRaisesRegex(NotImplementedError, "forward AD"):
            operator(forward_ad.make_dual(*plain[:2]), *plain[1:])


class WithoutOurOwnBackward(Gradients):
    """As on a PyTorch whose nodes cannot be led to it."""

    node_of_packed = "AttentionBackward"

    def setUp(self):
        super().setUp()
        for name, value in (("IS_OWN", False), ("_random", {})):
            patch = unittest.mock.patch.object(_recorded, name, value)
            patch.start()
            self.addCleanup(patch.stop)


class WithoutNodesInCpp(Gradients):
    """As on a PyTorch whose operators are others."""

    node = node_of_rows = node_of_packed = "AttentionBackward"

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(_recorded, "IS_POSSIBLE", False)
        patch.start()
        self.addCleanup(patch.stop)


class ByOperators(Gradients):
    """As on a PyTorch that cannot be asked what is active."""

    node = node_of_rows = node_of_packed = "AttentionBackward"

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(_direct, "_CAN_ASK", False)
        patch.start()
        self.addCleanup(patch.stop)


if __name__ == "__main__":
    unittest.main()
