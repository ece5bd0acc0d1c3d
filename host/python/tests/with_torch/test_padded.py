"""Padded batches, whose entries use some of their rows: the operators and the function, on the CPU."""

import unittest
import unittest.mock

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode

import cpu
import fa512.torch
from by_hand import ALIGNMENTS, CLOSE, by_hand, with_mask
from fa512.torch import _padded
from mesh import Mesh

# Numbers beyond the rows, and below 0.
USED_Q, USED_K = [7, 3, 0, 99], [4, 9, 5, -1]
QUERIES, KEYS = 7, 9
LIMITS = [(False, (None, None)), (True, (None, None)), (True, (3, None)), (False, (3, 2)), (False, (2, None))]


def setUpModule():
    cpu.install()
    cpu.calls()


def inputs(heads=4, shared=2, requires_grad=False):
    torch.manual_seed(0)
    shapes = [(4, QUERIES, heads, 64), *[(4, KEYS, shared, 64)] * 2]
    return [torch.randn(shape, dtype=torch.float16).requires_grad_(requires_grad) for shape in shapes]


def used(q=USED_Q, k=USED_K):
    numbers = {"seqused_q": q, "seqused_k": k}
    return {name: None if of is None else torch.tensor(of, dtype=torch.int32) for name, of in numbers.items()}


def by_entry(tensors, used_q=USED_Q, used_k=USED_K, causal=False, window=(None, None), align="top-left", **more):
    """PyTorch's attention of what each entry uses; zeros elsewhere, and where a query sees no key."""
    q, k, v = (tensor.float() for tensor in tensors)
    entries = []
    for at in range(len(q)):
        rows = QUERIES if used_q is None else min(max(used_q[at], 0), QUERIES)
        keys = KEYS if used_k is None else min(max(used_k[at], 0), KEYS)
        out = q[at].new_zeros(q[at].shape)
        if rows and keys:
            mask = cpu.seen(rows, causal, *window, align, keys)
            one = (tensor.transpose(0, 1)[None] for tensor in (q[at, :rows], k[at, :keys], v[at, :keys]))
            out = torch.cat((with_mask(*one, mask, **more)[0].transpose(0, 1), out[rows:]))
        entries.append(out)
    return torch.stack(entries)


class Operators(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_opcheck_is_clean(self):
        options = (True, 0.1, 3, None, "bottom-right")
        for lengths in (used(), used(q=None), used(None, None)):
            for requires_grad in (False, True):
                arguments = (*inputs(requires_grad=requires_grad), *lengths.values(), *options)
                for operator in (torch.ops.fa512.attention_padded, torch.ops.fa512.attention_padded_with_lse):
                    torch.library.opcheck(operator.default, arguments)
        tensors, lengths = inputs(), used()
        out, lse = torch.ops.fa512.attention_padded_with_lse(*tensors, *lengths.values(), *options)
        arguments = (out, *tensors, out, lse, *lengths.values(), None, *options)
        torch.library.opcheck(torch.ops.fa512.attention_padded_backward.default, arguments)

    def test_results_at_both_corners(self):
        tensors = inputs()
        for causal, window in LIMITS:
            for align in ALIGNMENTS:
                limits = {"causal": causal, "window": window, "align": align}
                with self.subTest(**limits):
                    out = fa512.torch.attention_padded(*tensors, **used(), scale=0.2, **limits)
                    torch.testing.assert_close(out.float(), by_entry(tensors, scale=0.2, **limits), **CLOSE)
        self.assertEqual(set(cpu.calls()), {"attention_padded"})

    def test_either_length_and_none(self):
        tensors = inputs()
        for q, k in ((USED_Q, None), (None, USED_K), (None, None)):
            out, lse = fa512.torch.attention_padded(*tensors, **used(q, k), return_lse=True)
            torch.testing.assert_close(out.float(), by_entry(tensors, q, k), **CLOSE)
            self.assertEqual((lse.shape, lse.dtype), ((4, 4, QUERIES), torch.float32))

    def test_rows_without_a_key_have_no_lse(self):
        out, lse = fa512.torch.attention_padded(*inputs(), **used(), return_lse=True)
        rows = torch.tensor([7, 3, 0, 0])
        self.assertTrue(torch.equal(lse.isfinite().sum(2), rows[:, None].expand(4, 4)))
        self.assertTrue(torch.equal(out.ne(0).any(3).any(2).sum(1), rows))

    def test_softcap_and_slopes(self):
        tensors, slopes = inputs(), torch.tensor([0.5, 0.1, 0.2, 0.03])
        out = fa512.torch.attention_padded(*tensors, **used(), softcap=0.5, alibi_slopes=slopes)
        q, k, v = (tensor[1].transpose(0, 1)[None] for tensor in tensors)
        repeated = (tensor.repeat_interleave(2, dim=1) for tensor in (k, v))
        expected = by_hand(q[:, :, :3], *repeated, 0.5, slopes)[0].transpose(0, 1)
        torch.testing.assert_close(out[1, :3].float(), expected, **CLOSE)

    def test_the_native_half_is_given_zeros_to_write_to(self):
        """On a GPU; here only what it is asked for."""
        tensors, lengths = inputs(), used()
        for kernel in (_padded.forward_cuda, _padded._forward_with_lse_cuda):
            with unittest.mock.patch("fa512._native.attention_padded") as called:
                kernel(*tensors, *lengths.values(), True, 0.2, 3, None, "bottom-right", 5.0)
            asked = called.call_args.kwargs
            self.assertFalse(asked.pop("out").any())
            lse = asked.pop("lse", None)
            if kernel is _padded._forward_with_lse_cuda:
                self.assertEqual((lse.shape, lse.max()), ((4, 4, QUERIES), -torch.inf))
            scores = {"softcap": 5.0, "alibi_slopes": None}
            limits = {"causal": True, "scale": 0.2, "window": (3, None), "align": "bottom-right"}
            self.assertEqual(asked, {**lengths, **limits, **scores})

    def test_compile_keeps_the_operator_in_one_graph(self):
        def model(q, k, v, lengths):
            return fa512.torch.attention_padded(q, k, v, seqused_q=lengths, seqused_k=lengths, causal=True, align="bottom-right")

        for dynamic in (False, True):
            torch._dynamo.reset()
            tensors, lengths = inputs(requires_grad=True), used()["seqused_q"]
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            out = compiled(*tensors, lengths)
            torch.testing.assert_close(out, model(*tensors, lengths))
            out.sum().backward()
            self.assertTrue(all(tensor.grad.isfinite().all() for tensor in tensors))

    def test_export_keeps_the_operator_for_any_batch_and_sequence(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v, lengths):
                return fa512.torch.attention_padded(q, k, v, seqused_k=lengths)

        both, one = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}
        tensors = (*inputs(), used()["seqused_k"])
        with torch.no_grad():
            exported = torch.export.export(Model(), tensors, dynamic_shapes=(both, both, both, one))
        self.assertIn("torch.ops.fa512.attention_padded.default", exported.graph_module.code)
        *rows, lengths = tensors
        fewer = (*(tensor[:3, :-1].contiguous() for tensor in rows), lengths[:3])
        torch.testing.assert_close(exported.module()(*fewer), Model()(*fewer))

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            q, k = (torch.empty(4, rows, 2, 64, dtype=torch.float16, device="cuda") for rows in (7, 9))
            one = torch.empty(4, dtype=torch.int32, device="cuda")
            operator = torch.ops.fa512.attention_padded
            self.assertEqual(operator(q, k, k, one, one).shape, (4, 7, 2, 64))
            for arguments, words in [
                ((q, k, k, one.long(), None), "seqused_q is torch.int64"),
                ((q, k, k, None, one[None]), r"seqused_k has 2 dimensions; it must be \[batch\]"),
                ((q, k, k, one.cpu(), one), "seqused_q is on cpu"),
                ((q, k, k, one, one[1:]), "seqused_k has 3 elements and query a batch of 4"),
                ((q[0], k, k, one, one), "query has 3 dimensions"),
                ((q, k[:3], k, one, one), "may differ in the sequence and heads only"),
                ((q.transpose(1, 2).contiguous().transpose(1, 2), k, k, one, one), "query has a batch stride of 896"),
                ((q, k, k, one, one, False, None, None, None, "middle"), "align is 'middle'"),
                ((q, k, k, one, one, False, None, None, None, "top-left", None, torch.empty(4, 2, device="cuda")), "alibi_slopes have"),
            ]:
                with self.assertRaisesRegex(ValueError, words):
                    operator(*arguments)


class Gradients(unittest.TestCase):
    def test_they_are_those_of_what_each_entry_uses(self):
        for causal, window in LIMITS:
            for lengths in ((USED_Q, USED_K), (None, USED_K), (USED_Q, None)):
                limits = {"causal": causal, "window": window, "align": "bottom-right"}
                with self.subTest(lengths=lengths, **limits):
                    tensors = inputs(requires_grad=True)
                    cpu.calls()
                    out = fa512.torch.attention_padded(*tensors, **used(*lengths), **limits)
                    out.float().square().sum().backward()
                    self.assertEqual(cpu.calls(), ["attention_padded_with_lse", "attention_padded_backward"])
                    exact = [tensor.detach().float().requires_grad_() for tensor in tensors]
                    by_entry(exact, *lengths, **limits).square().sum().backward()
                    for tensor, other in zip(tensors, exact):
                        torch.testing.assert_close(tensor.grad.float(), other.grad, atol=2e-2, rtol=2e-2)

    def test_what_is_not_used_has_none_and_changes_none(self):
        found = []
        for garbage in (0.0, torch.nan):
            tensors = inputs()
            for tensor, lengths in zip(tensors, (USED_Q, USED_K, USED_K)):
                for entry, rows in zip(tensor, lengths):
                    entry[max(rows, 0) :] = garbage
            tensors = [tensor.requires_grad_() for tensor in tensors]
            out = fa512.torch.attention_padded(*tensors, **used())
            upstream = torch.ones_like(out).masked_fill(out == 0, garbage)
            found.append(torch.autograd.grad(out, tensors, upstream))
        for first, second in zip(*found):
            self.assertTrue(first.any())
            self.assertTrue(torch.equal(first, second))

    def test_what_is_kept_in_inference_mode_serves_a_gradient(self):
        for is_query in (False, True):
            arguments = (4, KEYS, is_query, torch.device("cpu"), 0)
            with torch.inference_mode():
                kept = _padded._kept_base(*arguments)
            self.assertFalse([tensor for tensor in kept if tensor.is_inference()])
            self.assertIs(_padded._kept_base(*arguments), kept)

    def test_what_pytorch_has_no_gradient_of_is_computed_here(self):
        tensors = inputs(requires_grad=True)
        for options in ({"causal": True}, {"window": (3, None)}, {"softcap": 5.0}):
            cpu.calls()
            out = fa512.torch.attention_padded(*tensors, **used(), **options)
            gradients = torch.autograd.grad(out.float().square().sum(), tensors)
            self.assertEqual(cpu.calls()[1:], ["attention_padded_backward"])
            self.assertTrue(all(gradient.isfinite().all() for gradient in gradients))
        # Of as many keys as queries both corners are one.
        x = tensors[0]
        fa512.torch.attention_padded(x, x, x, causal=True).float().sum().backward()


class Sharding(Mesh):
    def test_batches_and_heads_need_no_communication(self):
        lengths = used()
        for place, of_lengths, whole in ((Shard(0), Shard(0), (8, 7, 4, 64)), (Shard(2), Replicate(), (4, 7, 8, 64))):
            local = inputs(requires_grad=True)
            tensors = [DTensor.from_local(tensor, self.mesh, [place]) for tensor in local]
            told = {name: DTensor.from_local(one, self.mesh, [of_lengths]) for name, one in lengths.items()}
            with CommDebugMode() as seen:
                out, lse = fa512.torch.attention_padded(*tensors, **told, causal=True, align="bottom-right", return_lse=True)
                out.to_local().float().sum().backward()
            self.assertEqual(seen.get_total_counts(), 0)
            self.assertEqual((out.placements, out.shape), ((place,), whole))
            expected = by_entry(local, causal=True, align="bottom-right")
            torch.testing.assert_close(out.to_local().float(), expected, **CLOSE)
            self.assertEqual(lse.to_local().shape, (4, 4, 7))
            self.assertIsNotNone(local[1].grad)
