"""Fewer heads of K and V than of Q, and other sequence lengths: the operators and functions, on the CPU."""

import inspect
import unittest
import unittest.mock

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

import cpu
import fa512
import fa512.torch
from fa512.torch import _batched, _flash_impl, _library, _packed

# Heads of Q and of K, queries and keys.
SIZES = [(4, 2, 10, 10), (6, 1, 10, 10), (4, 4, 7, 12), (4, 2, 7, 12), (4, 2, 12, 7), (4, 1, 1, 9)]
# Causal, and a window.
LIMITS = [(False, (None, None)), (True, (None, None)), (True, (3, None)), (False, (3, 2))]
ALIGNMENTS = ("top-left", "bottom-right")
NUMBERS = [0, 3, 4, 4, 11]
CLOSE = {"atol": 2e-3, "rtol": 1e-3}


def setUpModule():
    cpu.install()
    cpu.calls()


def inputs(heads=4, shared=2, queries=10, keys=10, requires_grad=False):
    torch.manual_seed(0)
    shapes = [(2, heads, queries, 64), *[(2, shared, keys, 64)] * 2]
    return [torch.randn(shape, dtype=torch.float16).requires_grad_(requires_grad) for shape in shapes]


def packed(heads=4, shared=2, requires_grad=False):
    torch.manual_seed(0)
    return [torch.randn(11, of, 64, dtype=torch.float16).requires_grad_(requires_grad) for of in (heads, shared, shared)]


def lengths():
    return torch.tensor(NUMBERS, dtype=torch.int32)


def sdpa(tensors, mask, **more):
    """PyTorch's own; zeros where a query sees no key."""
    out = torch.nn.functional.scaled_dot_product_attention(
        *(tensor.float() for tensor in tensors), attn_mask=mask, enable_gqa=True, **more
    )
    return out if mask is None else out * mask.any(1)[:, None]


def masks():
    """Every shape and limit, and the mask that says the same."""
    for sizes in SIZES:
        for causal, window in LIMITS:
            for align in ALIGNMENTS:
                _, _, queries, keys = sizes
                yield sizes, causal, window, align, cpu.seen(queries, causal, *window, align, keys)


def by_sequence(tensors, causal):
    """PyTorch's attention of each packed sequence."""
    parts = []
    for begin, end in zip(NUMBERS, NUMBERS[1:]):
        one = (tensor[begin:end].transpose(0, 1)[None] for tensor in tensors)
        parts.append(sdpa(one, cpu.seen(end - begin, causal))[0].transpose(0, 1))
    return torch.cat(parts)


class Results(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_every_limit_at_both_corners(self):
        for sizes, causal, window, align, mask in masks():
            with self.subTest(sizes=sizes, causal=causal, window=window, align=align):
                tensors = inputs(*sizes)
                out, lse = fa512.torch.attention(*tensors, causal=causal, window=window, align=align, return_lse=True)
                torch.testing.assert_close(out.float(), sdpa(tensors, mask), **CLOSE)
                self.assertEqual(lse.shape, out.shape[:3])

    def test_pytorch_has_the_first_query_at_the_first_key(self):
        for sizes in SIZES:
            for causal in (False, True):
                tensors = inputs(*sizes)
                out = fa512.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)
                torch.testing.assert_close(out.float(), sdpa(tensors, None, is_causal=causal), **CLOSE)

    def test_flash_attn_has_the_last_query_at_the_last_key(self):
        for sizes, causal, window, align, mask in masks():
            if align == "bottom-right":
                tensors = inputs(*sizes)
                swapped = [tensor.transpose(1, 2) for tensor in tensors]
                width = tuple(-1 if side is None else side for side in window)
                out = fa512.flash_attn_func(*swapped, causal=causal, window_size=width)
                torch.testing.assert_close(out.transpose(1, 2).float(), sdpa(tensors, mask), **CLOSE)

    def test_packed(self):
        tensors, one = packed(), lengths()
        for causal in (False, True):
            expected = by_sequence(tensors, causal)
            out, lse = fa512.torch.attention_varlen(*tensors, one, causal=causal, return_lse=True)
            torch.testing.assert_close(out.float(), expected, **CLOSE)
            self.assertEqual(lse.shape, (4, 11))
            out = fa512.flash_attn_varlen_func(*tensors, one, one, 7, 7, causal=causal)
            torch.testing.assert_close(out.float(), expected, **CLOSE)

    def test_activated_flash_attention_takes_both(self):
        """As PyTorch's, it has the last query at the last key."""
        activated = object.__new__(_flash_impl._Activated)
        here = unittest.mock.patch.object(_batched, "why_not_here", _batched.why_not)
        kernel = unittest.mock.patch.object(_batched, "forward_with_lse_cuda", torch.ops.fa512.attention_with_lse)
        tensors = inputs(queries=7, keys=12)
        with here, kernel:
            out, lse, _, _, queries, keys, *_ = activated._forward(None, *tensors, is_causal=True)
        torch.testing.assert_close(out.float(), sdpa(tensors, cpu.seen(7, True, None, None, "bottom-right", 12)), **CLOSE)
        self.assertEqual((lse.shape, queries, keys), ((2, 4, 7), 7, 12))


class Gradients(unittest.TestCase):
    def compare(self, tensors, ours, pytorchs):
        ours(*tensors).float().square().sum().backward()
        own = [tensor.grad for tensor in tensors]
        exact = [tensor.detach().float().requires_grad_() for tensor in tensors]
        pytorchs(exact).square().sum().backward()
        for gradient, tensor in zip(own, exact):
            torch.testing.assert_close(gradient.float(), tensor.grad, atol=2e-2, rtol=2e-2)

    def test_those_of_shared_heads_are_summed(self):
        for sizes, causal, window, align, mask in masks():
            _, _, queries, keys = sizes
            if queries == keys or (align == "bottom-right" and (queries < keys or causal)):
                with self.subTest(sizes=sizes, causal=causal, window=window, align=align):
                    self.compare(
                        inputs(*sizes, requires_grad=True),
                        lambda *x: fa512.torch.attention(*x, causal=causal, window=window, align=align),
                        lambda x: sdpa(x, mask),
                    )

    def test_those_of_packed_sequences(self):
        for causal in (False, True):
            self.compare(
                packed(requires_grad=True),
                lambda *x: fa512.torch.attention_varlen(*x, lengths(), causal=causal),
                lambda x: by_sequence(x, causal),
            )

    def test_those_that_pytorch_does_not_compute(self):
        for sizes, causal, window, align, mask in masks():
            with self.subTest(sizes=sizes, causal=causal, window=window, align=align):
                self.compare(
                    inputs(*sizes, requires_grad=True),
                    lambda *x: fa512.torch.attention(*x, causal=causal, window=window, align=align),
                    lambda x: sdpa(x, mask),
                )

    def test_the_backward_of_wide_heads_is_asked_for_both_lengths(self):
        """On a GPU; here only what it is asked for."""
        query, key = torch.zeros(2, 4, 7, 136, dtype=torch.float16), torch.zeros(2, 2, 12, 136, dtype=torch.float16)
        gradients = [tensor.transpose(1, 2) for tensor in (query, key, key)]
        with unittest.mock.patch("torch.ops.aten._flash_attention_backward", return_value=gradients) as called:
            results = _batched._backward(
                query, query, key, key, query, torch.zeros(2, 4, 7), None, None, True, None, None, None, "bottom-right"
            )
        self.assertEqual([result.shape for result in results], [query.shape, key.shape, key.shape])
        self.assertEqual([tuple(tensor.shape) for tensor in called.call_args.args[1:4]], [(2, 7, 4, 136), *[(2, 12, 2, 136)] * 2])
        self.assertEqual(called.call_args.args[6:12], (None, None, 7, 12, 0.0, True))


class Operators(unittest.TestCase):
    def test_the_kernels_are_told_the_corner(self):
        """On a GPU; here only what they are told."""
        tensors = inputs(queries=7, keys=12)
        self.assertIn("align", inspect.signature(fa512.attention).parameters)
        for kernel, more in [(_batched.forward_cuda, {}), (_batched.forward_with_lse_cuda, {"return_lse": True})]:
            with unittest.mock.patch.object(_batched._native, "attention") as called:
                kernel(*tensors, True, 0.2, 3, None, "bottom-right")
            told = {"causal": True, "window": (3, None), "align": "bottom-right", "scale": 0.2, **more}
            told |= {"softcap": None, "alibi_slopes": None, "bias": None}
            called.assert_called_once_with(*tensors, **told)

    def test_opcheck_is_clean(self):
        for requires_grad in (False, True):
            tensors = inputs(queries=7, keys=12, requires_grad=requires_grad)
            for operator in (torch.ops.fa512.attention.default, torch.ops.fa512.attention_with_lse.default):
                torch.library.opcheck(operator, (*tensors, True, 0.1, 3, None, "bottom-right"))
            arguments = (*packed(requires_grad=requires_grad), lengths(), 7, True)
            torch.library.opcheck(torch.ops.fa512.attention_varlen.default, arguments)
        tensors = inputs(queries=7, keys=12)
        out, lse = torch.ops.fa512.attention_with_lse(*tensors)
        torch.library.opcheck(torch.ops.fa512.attention_backward.default, (out, *tensors, out, lse))
        tensors = packed()
        out, lse = torch.ops.fa512.attention_varlen_with_lse(*tensors, lengths(), 7)
        arguments = (out, *tensors, out, lse, lengths(), None, None, 7, None)
        torch.library.opcheck(torch.ops.fa512.attention_varlen_backward.default, arguments)

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            query = torch.empty(2, 4, 10, 64, dtype=torch.float16, device="cuda")
            with self.assertRaisesRegex(ValueError, "query has 4 heads and key 3"):
                torch.ops.fa512.attention(query, query[:, :3], query[:, :3])
            with self.assertRaisesRegex(ValueError, 'align is \'left\'; it must be "top-left" or "bottom-right"'):
                torch.ops.fa512.attention(query, query, query, align="left")

    def test_one_graph_for_every_length(self):
        def model(q, k, v):
            return fa512.torch.attention(q, k, v, causal=True, align="bottom-right")

        compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
        for keys in (12, 13):
            tensors = inputs(queries=7, keys=keys, requires_grad=True)
            out = compiled(*tensors)
            torch.testing.assert_close(out, model(*tensors))
            out.sum().backward()
            self.assertEqual(tensors[1].grad.shape, (2, 2, keys, 64))


class Sharding(unittest.TestCase):
    def on_mesh(self, sizes):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        processes = torch.Size(sizes).numel()
        dist.init_process_group("fake", rank=0, world_size=processes, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)
        return init_device_mesh("cpu", sizes)

    def call(self, sizes, placements, function, local):
        """The result of sharded tensors, and how many collectives it took."""
        from torch.distributed.tensor.debug import CommDebugMode

        mesh = self.on_mesh(sizes)
        tensors = [DTensor.from_local(tensor, mesh, placements) for tensor in local]
        with CommDebugMode() as seen:
            out = function(mesh, *tensors)
            out.to_local().float().sum().backward()
        return out, seen.get_total_counts()

    def test_heads_lie_with_those_that_they_share(self):
        local = inputs(requires_grad=True)
        out, collectives = self.call((2,), [Shard(1)], lambda _, *x: fa512.torch.attention(*x, causal=True), local)
        self.assertEqual((collectives, out.placements, tuple(out.shape)), (0, (Shard(1),), (2, 8, 10, 64)))
        torch.testing.assert_close(out.to_local(), fa512.torch.attention(*local, causal=True))
        self.assertEqual(local[1].grad.shape, local[1].shape)

    def test_packed_heads_do_too(self):
        local = packed(requires_grad=True)

        def attention(mesh, *tensors):
            one = DTensor.from_local(lengths(), mesh, [Replicate()])
            return fa512.torch.attention_varlen(*tensors, one, 7)

        out, collectives = self.call((2,), [Shard(1)], attention, local)
        self.assertEqual((collectives, out.placements), (0, (Shard(1),)))
        torch.testing.assert_close(out.to_local(), fa512.torch.attention_varlen(*local, lengths(), 7))

    def test_batches_over_one_dimension_of_the_mesh_and_heads_over_the_other(self):
        local = inputs(heads=2, shared=1, requires_grad=True)
        out, collectives = self.call((2, 2), [Shard(0), Shard(1)], lambda _, *x: fa512.torch.attention(*x), local)
        self.assertEqual((collectives, out.placements), (0, (Shard(0), Shard(1))))

    def test_heads_that_would_be_cut_from_those_that_they_share_are_gathered(self):
        """Of 12 heads that share 3, a GPU of two would have 6 with 2 of these; one head is there for every GPU."""
        mesh = self.on_mesh((2,))
        for heads, shared in [(12, 3), (4, 1)]:
            tensors = [DTensor.from_local(x, mesh, [Replicate()]) for x in inputs(heads, shared)]
            tensors[0] = tensors[0].redistribute(placements=[Shard(1)])
            self.assertEqual(fa512.torch.attention(*tensors).placements, (Replicate(),), (heads, shared))

    def test_which_heads_can_be_sharded(self):
        for sizes, heads, shared, expected in [
            ((2,), 3, 3, True),
            ((2,), 12, 3, False),
            ((2,), 4, 2, True),
            ((2, 2), 4, 2, True),
            ((2, 2), 12, 6, False),
            ((4,), 4, 1, True),
        ]:
            query, key = (unittest.mock.Mock(shape=(1, of, 8, 64), mesh=unittest.mock.Mock(shape=sizes)) for of in (heads, shared))
            self.assertIs(_library.can_shard_heads(query, key), expected, (sizes, heads, shared))
