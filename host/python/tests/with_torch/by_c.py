"""The kernels of PyTorch's flash attentions in C, on tensors of the CPU in memory that the simulated driver knows.

`test_aten` runs this in a process of its own, since kernels are registered once. Four of PyTorch's functions are replaced, so that the CPU
counts as GPU 0.
"""

import ctypes
import functools
import gc
import itertools
import mmap
import os
import pathlib
import sys
import unittest
import unittest.mock

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import simulated

from fa512 import _native

BYTES = 1 << 26
KEY = "CustomRNGKeyId"
_torch = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
_Sizes = ctypes.POINTER(ctypes.c_int64)
_Pointer = ctypes.POINTER(ctypes.c_void_p)
_EmptyStrided = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, _Sizes, _Sizes, ctypes.c_int, ctypes.c_int, ctypes.c_int, _Pointer)
_Delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Index = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
_Stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _Pointer)


class Memory:
    """Memory that both PyTorch and the driver address. What kernels allocate is counted."""

    def __init__(self, machine):
        machine.use(0)
        self.machine = machine
        self.map = mmap.mmap(-1, BYTES)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        simulated.check(machine.driver.cuMemHostRegister_v2(ctypes.c_void_p(self.base), ctypes.c_size_t(BYTES), 0))
        self.stream = machine.stream()
        machine.use_none()
        self.used, self.alive, self.allows = 0, 0, 1 << 60

    def take(self, bytes):
        offset = self.used
        self.used += -(-bytes // 256) * 256 + 256
        assert self.used <= BYTES
        return offset

    def tensor(self, values, gap=0):
        """`values` in this memory, in the strides that they have, `gap` elements behind a boundary."""
        places = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, values.stride()))
        offset = self.take((places + gap) * values.element_size())
        flat = torch.frombuffer(self.map, dtype=values.dtype, count=places + gap, offset=offset)
        made = flat.as_strided(values.shape, values.stride(), gap)
        return made.copy_(values) if 0 not in values.stride() else made.copy_(values.clone())

    def wait(self):
        self.machine.use(0)
        simulated.check(self.machine.driver.cuCtxSynchronize())
        self.machine.use_none()


@_Delete
def _delete(_, context):
    MEMORY.alive -= 1


_new = _torch.torch_from_blob
_new.argtypes = [
    ctypes.c_void_p, ctypes.c_int64, _Sizes, _Sizes, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, _Pointer,
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, _Delete, ctypes.c_void_p,
]  # fmt: skip


@_EmptyStrided
def _empty_strided(rank, sizes, strides, dtype, device, index, result):
    assert (device, index) == (_torch.aoti_torch_device_type_cpu(), 0)
    if MEMORY.allows == 0:
        return 1
    MEMORY.allows -= 1
    MEMORY.alive += 1
    places = 1 + sum((size - 1) * stride for size, stride in zip(sizes[:rank], strides[:rank]))
    address = MEMORY.base + MEMORY.take(8 * places)
    ctypes.memset(address, 0xFF, 8 * places)  # NaN of every type
    return _new(address, rank, sizes, strides, 0, dtype, device, -1, result, 0, None, 0, _delete, None)


@_Index
def _device_index(_, result):
    result[0] = 0
    return 0


@_Stream
def _current_stream(_, result):
    result[0] = MEMORY.stream
    return 0


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


MEMORY = Memory(simulated.Machine())
FUNCTIONS = {
    "aoti_torch_device_type_cuda": _address(_torch.aoti_torch_device_type_cpu),
    "aoti_torch_empty_strided": _address(_empty_strided),
    "aoti_torch_get_current_cuda_stream": _address(_current_stream),
    "aoti_torch_get_device_index": _address(_device_index),
}
# What is asked for a state answers, one after the other.
ANSWERS = []


# The options of calls of a backward that the kernels refuse.
REFUSED = []


def _make_state(gpu):
    return ANSWERS.pop(0)(gpu)


def _by_python(handles, options):
    REFUSED.append(dict(options))
    return _recorded._by_python(handles, options)


OWN = {"key": "SparseCPU", "head_dim": 128, "make_state": _make_state, "backward": _by_python}
assert _native.implement_aten(KEY, OWN, FUNCTIONS)
assert _native.implement_aten(KEY), "it stays as it is"

# What follows registers no other kernels, as `implement_aten` has.
import cpu
from fa512.torch import _own_backward, _recorded

ALONE = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(KEY))
SDPA = torch.ops.aten._scaled_dot_product_flash_attention.default._handle.redispatch_boxed
FLASH = torch.ops.aten._flash_attention_forward.default._handle.redispatch_boxed
CUDNN = torch.ops.aten._scaled_dot_product_cudnn_attention.default._handle.redispatch_boxed
PADDED = _recorded.FORMS["padded"]
BOUNDS = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def random(*shape, dtype=torch.float16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def swapped(*tensors):
    return [tensor.transpose(1, 2) for tensor in tensors]


def problem(dtype=torch.float16, shape=(2, 4, 70, 64), keys=70, kv_heads=4):
    """Q, K and V, [batch, heads, sequence, head size]."""
    batch, _, _, width = shape
    return [random(*size, dtype=dtype, seed=seed) for seed, size in enumerate([shape, *[(batch, kv_heads, keys, width)] * 2])]


# The first calls make the random states, which stay. Where that fails, nothing is computed.
CPU = torch.device("cpu")
ANSWERS += [lambda gpu: 1 // gpu, lambda gpu: None, lambda gpu: _recorded._handle(_recorded._state(CPU, True))]
for _ in range(2):
    assert SDPA(ALONE, *map(MEMORY.tensor, problem()))[0] is None and MEMORY.alive == 0
for _function, _options in ((SDPA, ()), (CUDNN, (None, True))):
    _function(ALONE, *map(MEMORY.tensor, problem()), *_options)
assert not ANSWERS
STATE = _recorded._random[CPU, True]
MEMORY.wait()
FLOOR = MEMORY.used

LAYOUTS = {
    "contiguous": lambda tensor: tensor,
    "heads inside": lambda tensor: tensor.transpose(1, 2).contiguous().transpose(1, 2),
    "a slice": lambda tensor: torch.cat([tensor, tensor], -1)[..., : tensor.shape[-1]],
}


class Kernels(unittest.TestCase):
    def setUp(self):
        MEMORY.used, MEMORY.allows = FLOOR, 1 << 60
        REFUSED.clear()
        self.addCleanup(lambda: self.assertEqual(MEMORY.alive, 1, "cuDNN's state alone stays"))

    def compare(self, found, expected, name):
        MEMORY.wait()
        (out, lse), (expected_out, expected_lse) = found, expected
        bound = BOUNDS[out.dtype]
        torch.testing.assert_close(out.double(), expected_out.double(), atol=bound, rtol=bound, msg=lambda text: f"{name}: {text}")
        if lse is not None:
            torch.testing.assert_close(lse, expected_lse, atol=1e-3, rtol=1e-3, msg=lambda text: f"{name}: {text}")

    def test_layouts_types_and_heads(self):
        for name, layout in LAYOUTS.items():
            for dtype in BOUNDS:
                for keys, kv_heads in ((70, 2), (133, 1)):
                    shape = (2, 2, 70, 64)
                    q, k, v = [MEMORY.tensor(layout(tensor)) for tensor in problem(dtype, shape, keys, kv_heads)]
                    expected = cpu._compute(q, k, v)
                    case = name, dtype, keys, kv_heads
                    out, lse, *others = SDPA(ALONE, q, k, v)
                    self.compare((out, lse), expected, case)
                    self.assertEqual((out.dtype, lse.dtype), (dtype, torch.float32))
                    self.assertEqual(out.stride(), expected[0].stride(), case)
                    self.assertTrue(lse.is_contiguous())
                    self.assertEqual(others[:4], [None, None, 70, keys])
                    self.assertTrue(others[4] is others[5] is STATE)
                    self.assertIsNone(others[6])
                    out, lse, *others = FLASH(ALONE, *swapped(q, k, v), None, None, 70, keys, 0.0, False, False)
                    self.compare((out.transpose(1, 2), lse), expected, case)
                    self.assertEqual(out.transpose(1, 2).stride(), expected[0].stride(), case)
                    self.assertTrue(others[0] is others[1] is STATE and others[2] is None)
                    out, lse, *others = CUDNN(ALONE, q, k, v, None, True)
                    self.compare((out, lse.squeeze(-1)), expected, case)
                    self.assertEqual((lse.shape, lse.is_contiguous()), ((*q.shape[:3], 1), True))
                    self.assertEqual(others[:4], [None, None, 70, keys])
                    self.assertEqual([(state.dtype, state.shape, state.item()) for state in others[4:6]], [(torch.int64, (), 0)] * 2)
                    self.assertIsNone(others[6])
                    del out, lse, others

    def test_shared_memory(self):
        q, k, v = [MEMORY.tensor(tensor[:1]).expand(2, -1, -1, -1) for tensor in problem()]
        self.compare(SDPA(ALONE, q, k, v)[:2], cpu._compute(q, k, v), "stride 0")

    def test_head_sizes_and_scales(self):
        for width in (8, 64, 104, 128):
            q, k, v = map(MEMORY.tensor, problem(shape=(1, 2, 33, width), keys=33, kv_heads=2))
            for scale in (None, 0.0, 0.5):
                options = {} if scale is None else {"scale": scale}
                self.compare(SDPA(ALONE, q, k, v, 0.0, True, **options)[:2], cpu._compute(q, k, v, True, scale), (width, scale))

    def test_limits(self):
        for keys in (70, 133, 40):
            MEMORY.used = FLOOR
            q, k, v = map(MEMORY.tensor, problem(shape=(1, 2, 70, 64), keys=keys, kv_heads=1))
            for is_causal in (False, True):
                expected = cpu._compute(q, k, v, is_causal, None, None, None, "bottom-right")
                self.compare(SDPA(ALONE, q, k, v, 0.0, is_causal)[:2], expected, (keys, is_causal))
                out, lse = CUDNN(ALONE, q, k, v, None, True, 0.0, is_causal)[:2]
                expected = cpu._compute(q, k, v, is_causal, None, None, None, "top-left")
                self.compare((out, lse.squeeze(-1)), expected, ("cuDNN", keys, is_causal))
                del out, lse
                for left, right in ((None, None), (9, None), (None, 5), (9, 5), (0, 0), (1 << 40, 1 << 40)):
                    expected = cpu._compute(q, k, v, is_causal, None, left, right, "bottom-right")
                    window = {"window_size_left": left, "window_size_right": right}
                    found = FLASH(ALONE, *swapped(q, k, v), None, None, 70, keys, 0.0, is_causal, False, **window)
                    self.compare((found[0].transpose(1, 2), found[1]), expected, (keys, is_causal, left, right))
                    del found

    def test_packed_sequences(self):
        bounds = MEMORY.tensor(torch.tensor([0, 40, 41, 110], dtype=torch.int32))
        of_keys, as_many = (torch.tensor(places, dtype=torch.int32) for places in ([0, 17, 100, 140], [0, 17, 60, 110]))
        for own in (bounds, bounds.clone(), as_many, of_keys):
            own = own if own is bounds else MEMORY.tensor(own)
            rows = int(own[-1])
            q, k, v = [MEMORY.tensor(random(n, heads, 64, seed=heads)) for n, heads in ((110, 4), (rows, 2), (rows, 2))]
            for is_causal, left in ((False, None), (True, None), (True, 20)):
                expected = cpu._varlen_with_lse(q, k, v, bounds, 69, is_causal, None, left, None, None, None, own, 83, "bottom-right")
                found = FLASH(ALONE, q, k, v, bounds, own, 69, 83, 0.0, is_causal, False, window_size_left=left)
                self.compare(found[:2], expected, (rows, is_causal, left))
                self.assertTrue(found[0].is_contiguous() and found[1].is_contiguous())

    def test_no_lse(self):
        q, k, v = map(MEMORY.tensor, problem())
        for function, *options in ((SDPA, 0.0, False, True), (CUDNN, None, False), (CUDNN, None, True, 0.0, False, True)):
            out, lse, *others = function(ALONE, q, k, v, *options)
            self.compare((out, None), cpu._compute(q, k, v), "without LSE")
            self.assertEqual((lse, others), (None, [None, None, 70, 70, None, None, None]))

    def test_random_states_are_made_where_gradients_are_recorded(self):
        q, k, v = map(MEMORY.tensor, problem())
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertEqual(SDPA(ALONE, q, k, v)[6:8], (None, None))
                self.assertEqual(CUDNN(ALONE, q, k, v, None, True)[6:8], (None, None))
                self.assertIsNotNone(SDPA(ALONE, q, k, v)[1])

    def refusals(self):
        """Calls that are not supported, each in one respect."""
        whole, ints = problem(), torch.tensor([0, 40, 70], dtype=torch.int32)
        q, k, v = map(MEMORY.tensor, whole)
        bounds, packed = MEMORY.tensor(ints), [MEMORY.tensor(random(70, 4, 64)) for _ in range(3)]
        sdpa, flash, window = (), (None, None, 70, 70, 0.0, False, False), {"window_size_left": -1}
        slopes = {"alibi_slopes": MEMORY.tensor(torch.ones(4))}
        used = {"seqused_k": MEMORY.tensor(torch.tensor([70, 70], dtype=torch.int32))}
        yield "types", SDPA, (q, k.view(torch.bfloat16), v), {}
        yield "type", SDPA, [MEMORY.tensor(tensor.float()) for tensor in whole], {}
        yield "rank", SDPA, (q[0], k[0], v[0]), {}
        yield "rank of flash", FLASH, (q[0], k[0], v[0], *flash), {}
        yield "five dimensions", SDPA, (q[None], k[None], v[None]), {}
        yield "batch", SDPA, (q, k[:1], v[:1]), {}
        yield "value", SDPA, (q, k, v[:, :, :69]), {}
        yield "heads", SDPA, (q, k[:, :3], v[:, :3]), {}
        yield "head size of k", SDPA, (q, k[..., :32], v[..., :32]), {}
        yield "head size", SDPA, [tensor[..., :60] for tensor in (q, k, v)], {}
        yield "wide", SDPA, [MEMORY.tensor(tensor) for tensor in problem(shape=(1, 1, 9, 264), keys=9, kv_heads=1)], {}
        yield "last stride", SDPA, [MEMORY.tensor(tensor.repeat(1, 1, 1, 2))[..., ::2] for tensor in whole], {}
        yield "address", SDPA, (MEMORY.tensor(whole[0], gap=1), k, v), {}
        yield "no rows", SDPA, (q[:, :, :0], k, v), {}
        yield "no keys", SDPA, (q, k[:, :, :0], v[:, :, :0]), {}
        yield "no memory", SDPA, (q, torch._efficientzerotensor(k.shape, dtype=k.dtype), v), {}
        yield "another device", SDPA, (q, k.to("meta"), v), {}
        yield "layout", SDPA, (q, k.to_sparse(), v), {}
        yield "dropout", SDPA, (q, k, v, 0.5), {}
        yield "scale", SDPA, (q, k, v), {"scale": -1.0}
        yield "dropout of cuDNN", CUDNN, (q, k, v, None, True, 0.5), {}
        yield "bias", CUDNN, (q, k, v, MEMORY.tensor(torch.zeros(2, 4, 70, 70, dtype=torch.float16)), True), {}
        yield "type of cuDNN", CUDNN, [MEMORY.tensor(tensor.float()) for tensor in whole] + [None, True], {}
        yield "dropout of flash", FLASH, (*swapped(q, k, v), None, None, 70, 70, 0.5, False, False), {}
        yield "window", FLASH, (*swapped(q, k, v), *flash), window
        yield "slopes", FLASH, (*swapped(q, k, v), *flash), slopes
        yield "used keys", FLASH, (*swapped(q, k, v), *flash), used
        for name, cu_q, cu_k in (
            ("one of lengths", bounds, None), ("the other of lengths", None, bounds), ("numbers", bounds, bounds[:2]),
            ("none", bounds[:1], bounds[:1]), ("steps", bounds[::2], bounds[::2]), ("type of lengths", *[MEMORY.tensor(ints.long())] * 2),
            ("rank of lengths", bounds[None], bounds[None]),
        ):  # fmt: skip
            yield name, FLASH, (*packed, cu_q, cu_k, 40, 40, 0.0, False, False), {}
        yield "rank of packed", FLASH, (*swapped(q, k, v), bounds, bounds, 40, 40, 0.0, False, False), {}
        yield "longest", FLASH, (*packed, bounds, bounds, -1, 40, 0.0, False, False), {}

    def test_refusals(self):
        for name, function, arguments, options in self.refusals():
            with self.subTest(name):
                before = MEMORY.alive
                result = function(ALONE, *arguments, **options)
                numbers = () if function is FLASH else (4, 5)
                self.assertEqual([each for place, each in enumerate(result) if place not in numbers], [None] * (len(result) - len(numbers)))
                self.assertEqual(MEMORY.alive, before)

    def test_what_a_node_cannot_keep_is_refused(self):
        q, k, v = map(MEMORY.tensor, problem())
        plain = (None, None, None, None, None, 0.0, 0, True)
        self.assertIsNotNone(_recorded._keeping(ALONE, q, k, v, *plain)[0])
        for name, place, value in (("left", 3, -1), ("right", 4, -5), ("third tensor", 2, q)):
            with self.subTest(name):
                given = [*plain[:place], value, *plain[place + 1 :]]
                self.assertIsNone(_recorded._keeping(ALONE, q, k, v, *given)[0])
        for option in ({"seqlen_k": k}, {"window_size": 3}, {"scale": -1.0}):
            self.assertIsNone(_recorded._keeping(ALONE, q, k, v, *plain, **option)[0], option)

    def test_out_of_memory(self):
        q, k, v = map(MEMORY.tensor, problem())
        SDPA(ALONE, q, k, v)
        for allowed in range(2):
            before, MEMORY.allows = MEMORY.alive, allowed
            self.assertIsNone(SDPA(ALONE, q, k, v)[0])
            self.assertEqual(MEMORY.alive, before)

    def test_a_gradient_is_recorded(self):
        tensors = [MEMORY.tensor(tensor).requires_grad_() for tensor in problem()]
        out, lse = _recorded.attention(*tensors, True, None)
        self.compare((out.detach(), lse), cpu._compute(*[tensor.detach() for tensor in tensors], True), "recorded")
        self.assertEqual(type(out.grad_fn).__name__, "ScaledDotProductFlashAttentionBackward0")
        self.assertIs(out.grad_fn._saved_query, tensors[0])
        self.assertEqual(out.grad_fn._saved_logsumexp.data_ptr(), lse.data_ptr())
        out, lse = _recorded.attention_bshd(*swapped(*tensors), True, None, 5, None)
        self.assertEqual(type(out.grad_fn).__name__, "FlashAttentionBackward0")
        self.assertEqual((out.grad_fn._saved_window_size_left, out.grad_fn._saved_is_causal), (5, True))
        out, lse = CUDNN(_recorded._KEYS, *tensors, None, True)[:2]
        self.assertEqual(type(out.grad_fn).__name__, "ScaledDotProductCudnnAttentionBackward0")
        with self.assertRaises(ValueError):
            _recorded.attention(tensors[0].float(), *tensors[1:], True, None)

    def gradients(self, out, tensors, grad):
        MEMORY.wait()
        found = torch.autograd.grad(out, tensors, grad)
        MEMORY.wait()
        return found

    def compare_gradients(self, found, expected, name):
        for gradient, right in zip(found, expected, strict=True):
            bound = 4 * BOUNDS[gradient.dtype]
            message = functools.partial("{}: {}".format, name)
            torch.testing.assert_close(gradient.double(), right.double(), atol=bound, rtol=bound, msg=message)

    def test_gradients(self):
        for ((name, layout), dtype), (is_causal, kv_heads) in zip(
            itertools.product(LAYOUTS.items(), BOUNDS), itertools.cycle([(False, 1), (True, 2), (True, 1), (False, 2)])
        ):
            MEMORY.used = FLOOR
            tensors = [MEMORY.tensor(layout(tensor)).requires_grad_() for tensor in problem(dtype, (2, 2, 70, 64), 70, kv_heads)]
            out, _ = _recorded.attention(*tensors, is_causal, 0.2)
            grad = MEMORY.tensor(layout(random(*out.shape, dtype=dtype, seed=9)))
            found = self.gradients(out, tensors, grad)
            plain = [tensor.detach() for tensor in tensors]
            expected = cpu.own_gradients(grad, *plain, is_causal, 0.2, None, None, "bottom-right", None)
            self.compare_gradients(found, expected, (name, dtype, is_causal, kv_heads))
            for gradient, tensor in zip(found, tensors):
                self.assertEqual(gradient.stride(), torch.empty_like(tensor).stride(), name)
        self.assertEqual(REFUSED, [])

    def test_gradients_of_windows_and_packed_sequences(self):
        tensors = [MEMORY.tensor(tensor).requires_grad_() for tensor in problem(shape=(1, 2, 70, 40), kv_heads=2)]
        grad = MEMORY.tensor(random(1, 70, 2, 40, seed=9))
        out, _ = _recorded.attention_bshd(*swapped(*tensors), False, None, 9, 5)
        plain = [tensor.detach() for tensor in tensors]
        expected = cpu.own_gradients(grad.transpose(1, 2), *plain, False, None, 9, 5, "bottom-right", None)
        self.compare_gradients(self.gradients(out, tensors, grad), expected, "window")
        bounds = MEMORY.tensor(torch.tensor([0, 40, 41, 60], dtype=torch.int32))
        rows = [MEMORY.tensor(random(70, 2, 40, seed=seed)).requires_grad_() for seed in range(3)]
        out, _ = _recorded.attention_varlen(*rows, bounds, bounds, 40, True, None, None, None)
        grad = MEMORY.tensor(random(70, 2, 40, seed=9))
        found = self.gradients(out, rows, grad)
        for begin, end in ((0, 40), (40, 41), (41, 60)):
            parts = [tensor.detach()[begin:end].transpose(0, 1)[None] for tensor in (grad, *rows)]
            expected = cpu.own_gradients(*parts, True, None, None, None, "bottom-right", None)
            of_rows = [gradient[begin:end].transpose(0, 1)[None] for gradient in found]
            self.compare_gradients(of_rows, expected, (begin, end))
        self.assertFalse(any(gradient[60:].any() for gradient in found))
        self.assertEqual(REFUSED, [])

    def test_a_node_keeps_whatever_a_call_has(self):
        shape, slopes = (2, 2, 70, 40), MEMORY.tensor(torch.tensor([0.1, 0.3]))
        bias, of_keys = (MEMORY.tensor(random(*sizes, seed=7)) for sizes in ((1, 2, 70, 90), (90,)))
        for form, is_causal, window, align, softcap, of_heads, of_bias in [
            ("bhsd", True, (None, None), "top-left", None, None, None),
            ("bshd", False, (9, 5), "bottom-right", 2.0, None, None),
            ("bhsd", False, (None, 0), "bottom-right", None, slopes, None),
            ("bshd", True, (20, None), "top-left", 1.5, slopes, bias),
            ("bhsd", False, (None, None), "top-left", None, None, bias),
            ("bhsd", False, (None, None), "bottom-right", None, None, bias.detach().requires_grad_()),
            ("bshd", True, (None, None), "top-left", None, slopes, of_keys.detach().requires_grad_()),
        ]:
            MEMORY.used = FLOOR + (1 << 20)
            plain = list(map(MEMORY.tensor, problem(shape=shape, keys=90, kv_heads=1)))
            tensors = [tensor.detach().requires_grad_() for tensor in plain]
            given = tensors if form == "bhsd" else swapped(*tensors)
            options = (is_causal, 0.2, *window, align, softcap, of_heads)
            out, lse = _recorded.keep(_recorded.FORMS[form], *given, (of_bias, of_heads, None), *options[:6])
            self.assertEqual(type(out.grad_fn).__name__, "EfficientAttentionBackward0")
            out = out if form == "bhsd" else out.transpose(1, 2)
            plain_bias = None if of_bias is None else of_bias.detach()
            self.compare((out.detach(), lse), cpu._compute(*plain, *options, plain_bias), (form, options))
            arguments = (MEMORY.tensor(random(*shape, seed=9)), *plain, *options, plain_bias)
            expected = cpu.own_gradients(*arguments)
            if of_bias is not None and of_bias.requires_grad:
                tensors, expected = [*tensors, of_bias], (*expected, cpu.own_dbias(of_bias, *arguments))
            self.compare_gradients(self.gradients(out, tensors, arguments[0]), expected, (form, options))
        self.assertEqual(REFUSED, [])

    def test_a_node_keeps_lengths(self):
        slopes = MEMORY.tensor(torch.tensor([[0.1, 0.3], [0.2, 0.4], [0.5, 0.1]]))
        used = [MEMORY.tensor(torch.tensor(each, dtype=torch.int32)) for each in ([70, 20, 0], [90, 33, 10])]
        for lengths, of_heads in itertools.product((used, (None, used[1]), (used[0], None)), (None, slopes[1])):
            MEMORY.used = FLOOR + (1 << 20)
            plain = [MEMORY.tensor(random(3, rows, heads, 40, seed=seed)) for seed, (rows, heads) in enumerate([(70, 2), (90, 1), (90, 1)])]
            tensors = [tensor.detach().requires_grad_() for tensor in plain]
            options = (True, None, 30, None, "bottom-right", 3.0, of_heads)
            out, lse = _recorded.keep(PADDED, *tensors, (of_heads, *lengths), *options[:6])
            MEMORY.wait()
            expected = cpu._padded_with_lse(*plain, *lengths, *options)
            self.compare((out.detach(), lse), expected, (lengths, options))
            grad = MEMORY.tensor(random(3, 70, 2, 40, seed=9))
            limits = {"causal": True, "scale": None, "window": (30, None), "align": "bottom-right", "softcap": 3.0, "alibi_slopes": of_heads}
            with unittest.mock.patch.object(_native, "attention_padded_backward", cpu.native_padded_backward):
                right = _own_backward.of_padded(grad, *plain, out.detach(), lse, *lengths, **limits)
            self.compare_gradients(self.gradients(out, tensors, grad), right, (lengths, options))
        bounds, of_keys = (MEMORY.tensor(torch.tensor(each, dtype=torch.int32)) for each in ([0, 40, 41, 60], [0, 17, 60, 80]))
        for own in (None, of_keys):
            plain = [MEMORY.tensor(random(rows, 2, 40, seed=rows)) for rows in (70, 70 if own is None else 80, 70 if own is None else 80)]
            tensors = [tensor.detach().requires_grad_() for tensor in plain]
            options = (True, None, None, None, "top-left", None, slopes)
            out, lse = _recorded.keep(_recorded.FORMS["packed"], *tensors, (slopes, bounds, own), *options[:6], longest=43)
            MEMORY.wait()
            grad = MEMORY.tensor(random(70, 2, 40, seed=9))
            limits = {"causal": True, "scale": None, "window": (None, None), "align": "top-left", "softcap": None, "alibi_slopes": slopes}
            with unittest.mock.patch.object(_native, "attention_varlen_backward", cpu.native_varlen_backward):
                right = _own_backward.of_packed(grad, *plain, out.detach(), lse, bounds, cu_seqlens_k=own, max_seqlen=43, **limits)
            self.compare_gradients(self.gradients(out, tensors, grad), right, own)
        self.assertEqual(REFUSED, [])

    def test_a_padded_gradient_that_a_kernel_refuses_is_computed_by_python(self):
        used = MEMORY.tensor(torch.tensor([70, 20], dtype=torch.int32))
        tensors = [MEMORY.tensor(tensor.transpose(1, 2).contiguous()).requires_grad_() for tensor in problem()]
        out, lse = _recorded.keep(PADDED, *tensors, (None, used, None), True, None, None, None, "top-left", 2.0)
        grad = torch.ones((), dtype=out.dtype).expand(out.shape)
        limits = {"causal": True, "scale": None, "window": (None, None), "align": "top-left", "softcap": 2.0, "alibi_slopes": None}
        with unittest.mock.patch.object(_native, "attention_padded_backward", cpu.native_padded_backward):
            found = self.gradients(out, tensors, grad)
            right = _own_backward.of_padded(grad, *(each.detach() for each in (*tensors, out)), lse, used, None, **limits)
        self.compare_gradients(found, right, "expanded")
        self.assertEqual([options["form"] for options in REFUSED], ["padded"])

    def test_a_gradient_that_a_kernel_refuses_is_computed_by_python(self):
        tensors = [MEMORY.tensor(tensor).requires_grad_() for tensor in problem()]
        out, _ = _recorded.attention(*tensors, True, None)
        plain = [tensor.detach() for tensor in tensors]
        expected = cpu.own_gradients(torch.ones_like(out), *plain, True, None, None, None, "bottom-right", None)
        with unittest.mock.patch.object(_native, "attention_backward", cpu.native_backward):
            # As that of a sum: all elements have one address.
            found = self.gradients(out, tensors, torch.ones((), dtype=out.dtype).expand(out.shape))
        self.compare_gradients(found, expected, "expanded")
        self.assertEqual([options["form"] for options in REFUSED], ["bhsd"])

    def test_errors_of_a_backward_are_raised(self):
        tensors = [MEMORY.tensor(tensor).requires_grad_() for tensor in problem()]
        out, _ = _recorded.attention(*tensors, False, None)
        MEMORY.wait()
        with unittest.mock.patch.object(_native, "attention_backward", side_effect=RuntimeError("the driver says no")):
            with self.assertRaisesRegex(RuntimeError, "RuntimeError: the driver says no"):
                torch.autograd.grad(out, tensors, torch.ones((), dtype=out.dtype).expand(out.shape))
        operator, (q, k, v) = torch.ops.aten._scaled_dot_product_flash_attention_backward, (tensor.detach() for tensor in tensors)
        lengths = (torch.zeros(0), torch.zeros(0), 70, 70)
        with self.assertRaisesRegex(RuntimeError, "ValueError: fa512: the backward has an argument, such as dropout"):
            operator(q, q, k, v, q, q, *lengths, 0.5, False, STATE, STATE)
        with self.assertRaisesRegex(RuntimeError, "Error: "):
            operator(q, q, k, v, q, q, *lengths, 0.0, False, STATE, STATE)
        self.assertEqual(len(REFUSED), 3)
        # A mock keeps its arguments, and has circles.
        gc.collect()

    def test_nothing_is_left_behind(self):
        q, k, v = map(MEMORY.tensor, problem(shape=(1, 1, 8, 8), keys=8, kv_heads=1))
        of_flash = swapped(q, k, v)
        tensors = [MEMORY.tensor(tensor).requires_grad_() for tensor in (q, k, v)]
        of_rows = [MEMORY.tensor(tensor).requires_grad_() for tensor in of_flash]
        used, slopes = MEMORY.tensor(torch.tensor([5], dtype=torch.int32)), MEMORY.tensor(torch.ones(1))
        begin = MEMORY.used
        wide = [torch.ones(1, 1, 8, 264, dtype=torch.float16) for _ in range(3)]
        lengths = torch.tensor([0, 8], dtype=torch.int32)

        def accepted():
            MEMORY.used = begin
            SDPA(ALONE, q, k, v, 0.0, True, scale=0.5)
            FLASH(ALONE, *of_flash, None, None, 8, 8, 0.0, True, False, scale=0.5, window_size_left=2, window_size_right=3)
            CUDNN(ALONE, q, k, v, None, True, 0.0, True, scale=0.5)
            torch.autograd.grad(_recorded.attention(*tensors, True, 0.5)[0], tensors, q)
            kept = _recorded.keep(PADDED, *of_rows, (slopes, used, used), True, 0.5, 3, 4, "top-left", 2.0)
            torch.autograd.grad(kept[0], of_rows, of_flash[0])
            MEMORY.wait()

        def refused():
            SDPA(ALONE, *wide, scale=0.5)
            lent = (None, lengths, 8, 8, 0.0, False, False)
            CUDNN(ALONE, *wide, lengths, True, scale=0.5)
            numbers = (5, 6, 2.0, 3, True)
            _recorded._keeping(ALONE, *wide, lengths, lengths, lengths, *numbers, scale=0.5, seqlen_k=lengths, window_size=3)
            FLASH(ALONE, *wide, *lent, scale=0.5, window_size_left=2, window_size_right=3, seqused_k=lengths, alibi_slopes=lengths)

        inputs = (q, k, v, *of_flash, *wide, *tensors, *of_rows, used, slopes, lengths, STATE)
        counts = [tensor._use_count() for tensor in inputs]
        accepted()
        alive = MEMORY.alive
        for _ in range(20):
            accepted()
        self.assertEqual(MEMORY.alive, alive)
        for _ in range(2000):
            refused()
        before = resident()
        for _ in range(60000):
            refused()
        # One handle that is left behind in each call would be 2 MB.
        self.assertLess(resident() - before, 1 << 20)
        self.assertEqual(MEMORY.alive, alive)
        self.assertEqual([tensor._use_count() for tensor in inputs], counts)


def resident():
    """Bytes of memory that this process has."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


if __name__ == "__main__":
    unittest.main()
