"""The operators of packed sequences: schemas, fakes, autograd, compile, DTensor, on the CPU."""

import unittest
import unittest.mock

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

import cpu
import fa512
import fa512.torch
from fa512.torch import _packed
from mesh import Mesh

NUMBERS = [0, 3, 4, 4, 11]


def setUpModule():
    cpu.install()
    cpu.calls()


def lengths(numbers=NUMBERS):
    return torch.tensor(numbers, dtype=torch.int32)


def inputs(rows=11, heads=2, requires_grad=False):
    torch.manual_seed(0)
    return [torch.randn(rows, heads, 64, dtype=torch.float16).requires_grad_(requires_grad) for _ in range(3)]


def by_sequence(tensors, numbers=NUMBERS, **more):
    """PyTorch's attention of each sequence."""
    parts = []
    for begin, end in zip(numbers, numbers[1:]):
        one = (tensor[begin:end].float().transpose(0, 1) for tensor in tensors)
        parts.append(torch.nn.functional.scaled_dot_product_attention(*one, **more).transpose(0, 1))
    return torch.cat(parts)


def windowed(tensors, causal, window):
    """The same of windows."""
    parts = []
    for begin, end in zip(NUMBERS, NUMBERS[1:]):
        part = [tensor[begin:end] for tensor in tensors]
        parts.append(by_sequence(part, [0, end - begin], attn_mask=cpu.seen(end - begin, causal, *window)))
    return torch.cat(parts)


WINDOWS = [(False, (2, 1)), (False, (None, 1)), (True, (3, None)), (True, (3, 4))]


class Operators(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_opcheck_is_clean(self):
        for requires_grad in (False, True):
            with self.subTest(requires_grad=requires_grad):
                arguments = (*inputs(requires_grad=requires_grad), lengths(), 7, True, 0.1)
                torch.library.opcheck(torch.ops.fa512.attention_varlen.default, arguments)
                torch.library.opcheck(torch.ops.fa512.attention_varlen_with_lse.default, arguments)
                torch.library.opcheck(torch.ops.fa512.attention_varlen.default, (*arguments[:5], False, None, 2, 1))
        tensors = inputs()
        out, lse = torch.ops.fa512.attention_varlen_with_lse(*tensors, lengths(), 7)
        arguments = (out, *tensors, out, lse, lengths(), None, None, 7, None, False, None)
        torch.library.opcheck(torch.ops.fa512.attention_varlen_backward.default, arguments)

    def test_results_of_each_function(self):
        tensors, one = inputs(), lengths()
        for causal in (False, True):
            expected = by_sequence(tensors, is_causal=causal, scale=0.2)
            out = fa512.torch.attention_varlen(*tensors, one, causal=causal, scale=0.2)
            torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=1e-3)
            out = fa512.flash_attn_varlen_func(*tensors, one, one, 7, 7, softmax_scale=0.2, causal=causal)
            torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=1e-3)
        out, lse = fa512.torch.attention_varlen(*tensors, one, 7, return_lse=True)
        self.assertEqual((lse.shape, lse.dtype, out.is_contiguous()), ((2, 11), torch.float32, True))

    def test_gradients_are_those_of_each_sequence(self):
        for causal in (False, True):
            tensors = inputs(requires_grad=True)
            cpu.calls()
            fa512.torch.attention_varlen(*tensors, lengths(), 7, causal=causal).float().square().sum().backward()
            self.assertEqual(cpu.calls(), ["attention_varlen_with_lse", "attention_varlen_backward"])
            own = [tensor.grad for tensor in tensors]
            tensors = [tensor.detach().float().requires_grad_() for tensor in tensors]
            by_sequence(tensors, is_causal=causal).square().sum().backward()
            for gradient, tensor in zip(own, tensors):
                torch.testing.assert_close(gradient.float(), tensor.grad, atol=2e-2, rtol=2e-2)

    def test_windows(self):
        tensors, one = inputs(), lengths()
        for causal, window in WINDOWS:
            expected = windowed(tensors, causal, window)
            out, _ = fa512.torch.attention_varlen(*tensors, one, causal=causal, window=window, return_lse=True)
            torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=1e-3)
            sizes = tuple(-1 if side is None else side for side in window)
            out = fa512.flash_attn_varlen_func(*tensors, one, one, 7, 7, causal=causal, window_size=sizes)
            torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=1e-3)

    def test_gradients_of_windows_are_those_of_each_sequence(self):
        for causal, window in WINDOWS:
            tensors = inputs(requires_grad=True)
            out = fa512.torch.attention_varlen(*tensors, lengths(), 7, causal=causal, window=window)
            out.float().square().sum().backward()
            own = [tensor.grad for tensor in tensors]
            tensors = [tensor.detach().float().requires_grad_() for tensor in tensors]
            windowed(tensors, causal, window).square().sum().backward()
            for gradient, tensor in zip(own, tensors):
                torch.testing.assert_close(gradient.float(), tensor.grad, atol=2e-2, rtol=2e-2)

    def test_the_backward_of_wide_heads_is_that_of_pytorch_with_the_window(self):
        """On a GPU; here only what it is asked for."""
        x, one = torch.zeros(11, 2, 136, dtype=torch.float16), lengths()
        with unittest.mock.patch("torch.ops.aten._flash_attention_backward") as called:
            _packed.gradients(x, x, x, x, x, torch.zeros(2, 11), one, None, None, 7, None, False, None, 4, None)
        self.assertEqual(called.call_args.args[8:12], (7, 7, 0.0, False))
        self.assertEqual(called.call_args.kwargs, {"scale": None, "window_size_left": 4, "window_size_right": None})

    def test_compile_keeps_the_operator_in_one_graph(self):
        def model(q, k, v, cu_seqlens):
            out = fa512.flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, 7, 7, window_size=(3, 2))
            return out + fa512.torch.attention_varlen(q, k, v, cu_seqlens, causal=True)

        for dynamic in (False, True):
            torch._dynamo.reset()
            tensors = inputs(requires_grad=True)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            out = compiled(*tensors, lengths())
            torch.testing.assert_close(out, model(*tensors, lengths()))
            out.sum().backward()
            self.assertIsNotNone(tensors[0].grad)

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            good = torch.empty(11, 2, 64, dtype=torch.float16, device="cuda")
            one = torch.empty(5, dtype=torch.int32, device="cuda")
            self.assertEqual(torch.ops.fa512.attention_varlen(good, good, good, one, 7).device.type, "cuda")
            for tensors, words in [
                ((*[good.float()] * 3, one), "query is torch.float32"),
                ((good, good, good.bfloat16(), one), "value is torch.bfloat16 and query torch.float16"),
                ((*[good[None]] * 3, one), "query has 4 dimensions"),
                ((*[good] * 3, one.long()), "cu_seqlens is torch.int64"),
                ((*[good] * 3, one[None]), "cu_seqlens has 2 dimensions"),
                ((*[good] * 3, one.cpu()), "cu_seqlens is on cpu"),
            ]:
                with self.assertRaisesRegex(ValueError, words):
                    torch.ops.fa512.attention_varlen(*tensors, 7)
            with self.assertRaisesRegex(ValueError, "window_right is -2"):
                torch.ops.fa512.attention_varlen(good, good, good, one, 7, window_right=-2)


class Sharding(Mesh):
    def test_heads_need_no_communication(self):
        from torch.distributed.tensor.debug import CommDebugMode

        local = inputs(requires_grad=True)
        tensors = [DTensor.from_local(tensor, self.mesh, [Shard(1)]) for tensor in local]
        one = DTensor.from_local(lengths(), self.mesh, [Replicate()])
        with CommDebugMode() as seen:
            out, lse = fa512.torch.attention_varlen(*tensors, one, 7, window=(2, 1), return_lse=True)
            out.to_local().float().sum().backward()
        self.assertEqual(seen.get_total_counts(), 0)
        self.assertEqual((out.placements, lse.placements), ((Shard(1),), (Shard(0),)))
        self.assertEqual((out.shape, lse.shape), ((11, 4, 64), (4, 11)))
        self.assertIsNotNone(local[0].grad)
