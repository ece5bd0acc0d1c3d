"""The operators around the kernels: schemas, fakes, autograd, compile, export, DTensor, on the CPU."""

import shutil
import tempfile
import unittest
import unittest.mock

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

import cpu
import fa512
import fa512.torch
from fa512.torch import _batched
from mesh import Mesh


def setUpModule():
    cpu.install()
    cpu.calls()


def inputs(batch=2, heads=3, sequence=10, requires_grad=False, layout="bhsd"):
    torch.manual_seed(0)
    shape = (batch, heads, sequence, 64) if layout == "bhsd" else (batch, sequence, heads, 64)
    tensors = [torch.randn(shape, dtype=torch.float16) for _ in range(3)]
    tensors = tensors if layout == "bhsd" else [tensor.transpose(1, 2) for tensor in tensors]
    return [tensor.requires_grad_(requires_grad) for tensor in tensors]


def sdpa(*tensors, **more):
    return torch.nn.functional.scaled_dot_product_attention(*(tensor.float() for tensor in tensors), **more)


class Operators(unittest.TestCase):
    def setUp(self):
        cpu.calls()

    def test_opcheck_is_clean(self):
        for requires_grad in (False, True):
            for layout in ("bhsd", "bshd"):
                with self.subTest(requires_grad=requires_grad, layout=layout):
                    tensors = inputs(requires_grad=requires_grad, layout=layout)
                    torch.library.opcheck(torch.ops.fa512.attention.default, (*tensors, True, 0.1))
                    torch.library.opcheck(torch.ops.fa512.attention_with_lse.default, (*tensors, False, None))
                    torch.library.opcheck(torch.ops.fa512.attention.default, (*tensors, False, None, 3, 2))
                    torch.library.opcheck(torch.ops.fa512.attention_with_lse.default, (*tensors, True, 0.1, None, 2))
        tensors = inputs()
        out, lse = torch.ops.fa512.attention_with_lse(*tensors)
        torch.library.opcheck(torch.ops.fa512.attention_backward.default, (out, *tensors, out, lse, None, None, False, None))
        out, lse = torch.ops.fa512.attention_with_lse(*tensors, window_left=3)
        torch.library.opcheck(torch.ops.fa512.attention_backward.default, (out, *tensors, out, lse, None, None, False, None, 3))

    def test_results_of_each_function(self):
        tensors = inputs()
        for causal in (False, True):
            expected = sdpa(*tensors, is_causal=causal, scale=0.2)
            torch.testing.assert_close(
                fa512.scaled_dot_product_attention(*tensors, is_causal=causal, scale=0.2).float(), expected, atol=2e-3, rtol=1e-3
            )
            swapped = [tensor.transpose(1, 2) for tensor in tensors]
            out = fa512.flash_attn_func(*swapped, softmax_scale=0.2, causal=causal)
            torch.testing.assert_close(out.transpose(1, 2).float(), expected, atol=2e-3, rtol=1e-3)
            coarse = [tensor.bfloat16() for tensor in tensors]
            out = fa512.scaled_dot_product_attention(*coarse, is_causal=causal, scale=0.2)
            self.assertEqual(out.dtype, torch.bfloat16)
            torch.testing.assert_close(out.float(), expected, atol=16e-3, rtol=8e-3)
        out, lse = fa512.torch.attention(*tensors, return_lse=True)
        self.assertEqual((lse.shape, lse.dtype), ((2, 3, 10), torch.float32))

    def test_windows(self):
        tensors = inputs()
        swapped = [tensor.transpose(1, 2) for tensor in tensors]
        for causal, window in [(False, (3, 2)), (False, (None, 2)), (False, (0, 0)), (True, (4, None)), (True, (4, 5))]:
            expected = sdpa(*tensors, attn_mask=cpu.seen(10, causal, *window))
            out, _ = fa512.torch.attention(*tensors, causal=causal, window=window, return_lse=True)
            torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=1e-3)
            sizes = tuple(-1 if side is None else side for side in window)
            out = fa512.flash_attn_func(*swapped, causal=causal, window_size=sizes)
            torch.testing.assert_close(out.transpose(1, 2).float(), expected, atol=2e-3, rtol=1e-3)

    def test_calls_without_a_window_are_as_they_were(self):
        """As a graph that was exported before there were windows makes them."""
        tensors = inputs()
        out = torch.ops.fa512.attention(*tensors, True, 0.2)
        torch.testing.assert_close(out, torch.ops.fa512.attention(*tensors, is_causal=True, scale=0.2, window_right=5))

    def test_the_result_lies_as_the_query_does(self):
        for layout in ("bhsd", "bshd"):
            tensors = inputs(layout=layout)
            self.assertEqual(fa512.torch.attention(*tensors).stride(), tensors[0].stride())
        fused = torch.randn(2, 10, 3, 3, 64, dtype=torch.float16)
        views = [fused[:, :, part].transpose(1, 2) for part in range(3)]
        out = fa512.torch.attention(*views)
        self.assertTrue(out.transpose(1, 2).is_contiguous(), "batch, sequence, heads: as the model goes on with it")

    def test_gradients_are_those_of_sdpa(self):
        for causal in (False, True):
            tensors = inputs(requires_grad=True)
            cpu.calls()
            fa512.torch.attention(*tensors, causal=causal).float().square().sum().backward()
            self.assertEqual(cpu.calls(), ["attention_with_lse", "attention_backward"])
            own = [tensor.grad for tensor in tensors]
            tensors = [tensor.detach().float().requires_grad_() for tensor in tensors]
            sdpa(*tensors, is_causal=causal).square().sum().backward()
            for gradient, tensor in zip(own, tensors):
                torch.testing.assert_close(gradient.float(), tensor.grad, atol=2e-2, rtol=2e-2)

    def test_gradients_of_windows_are_those_of_sdpa(self):
        for causal, window in [(False, (3, 2)), (True, (4, None))]:
            tensors = inputs(requires_grad=True)
            fa512.torch.attention(*tensors, causal=causal, window=window).float().square().sum().backward()
            own = [tensor.grad for tensor in tensors]
            tensors = [tensor.detach().float().requires_grad_() for tensor in tensors]
            sdpa(*tensors, attn_mask=cpu.seen(10, causal, *window)).square().sum().backward()
            for gradient, tensor in zip(own, tensors):
                torch.testing.assert_close(gradient.float(), tensor.grad, atol=2e-2, rtol=2e-2)

    def test_the_backward_of_wide_heads_is_that_of_pytorch_with_the_window(self):
        """On a GPU; here only what it is asked for."""
        x = torch.zeros(2, 3, 10, 136, dtype=torch.float16)
        gradients = (x.transpose(1, 2),) * 3
        with unittest.mock.patch("torch.ops.aten._flash_attention_backward", return_value=gradients) as called:
            results = _batched._backward(x, x, x, x, x, torch.zeros(2, 3, 10), None, None, True, 0.2, 4, 0)
        self.assertEqual([result.shape for result in results], [x.shape] * 3)
        self.assertEqual([tuple(tensor.shape) for tensor in called.call_args.args[:5]], [(2, 10, 3, 136)] * 5)
        self.assertEqual(called.call_args.args[6:12], (None, None, 10, 10, 0.0, True))
        self.assertEqual(called.call_args.kwargs, {"scale": 0.2, "window_size_left": 4, "window_size_right": 0})
        known = {argument.name for argument in torch.ops.aten._flash_attention_backward.default._schema.arguments}
        self.assertLessEqual(set(called.call_args.kwargs), known)

    def test_lse_is_computed_only_for_a_gradient(self):
        tensors = inputs(requires_grad=True)
        with torch.no_grad():
            fa512.torch.attention(*tensors)
        fa512.torch.attention(*inputs())
        self.assertEqual(cpu.calls(), ["attention", "attention"])

    def test_lse_has_no_gradient(self):
        _, lse = fa512.torch.attention(*inputs(requires_grad=True), return_lse=True)
        self.assertFalse(lse.requires_grad)

    def test_compile_keeps_the_operator_in_one_graph(self):
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph.forward

        def model(q, k, v):
            return fa512.scaled_dot_product_attention(q, k, v, is_causal=True) + fa512.flash_attn_func(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), window_size=(3, -1)
            ).transpose(1, 2)

        tensors = inputs()
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend=backend)(*tensors), model(*tensors))
        self.assertEqual(len(graphs), 1)
        self.assertEqual(str(graphs[0].graph).count("fa512.attention"), 2)
        for dynamic in (False, True):
            torch._dynamo.reset()
            tensors = inputs(requires_grad=True)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            out = compiled(*tensors)
            torch.testing.assert_close(out, model(*tensors))
            out.sum().backward()
            self.assertIsNotNone(tensors[0].grad)

    def test_export_keeps_the_operator(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return fa512.torch.attention(q, k, v)

        dynamic = {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO}
        with torch.no_grad():
            exported = torch.export.export(Model(), tuple(inputs()), dynamic_shapes=(dynamic,) * 3)
        self.assertIn("torch.ops.fa512.attention.default", exported.graph_module.code)
        tensors = inputs(batch=4, sequence=21)
        torch.testing.assert_close(exported.module()(*tensors), fa512.torch.attention(*tensors))

    @unittest.skipUnless(shutil.which("g++"), "AOTInductor needs a C++ compiler")
    def test_aot_inductor_calls_the_operator(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return fa512.torch.attention(q, k, v, causal=True, window=(4, None))

        tensors = tuple(inputs())
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.pt2"
            # It takes long enough: the headers of PyTorch are compiled.
            quickly = {"aot_inductor.compile_wrapper_opt_level": "O0"}
            exported = torch.export.export(Model(), tensors)
            torch._inductor.aoti_compile_and_package(exported, package_path=path, inductor_configs=quickly)
            model = torch._inductor.aoti_load_package(path)
            cpu.calls()
            out = model(*tensors)
            self.assertEqual(cpu.calls(), ["attention"])
            self.assertTrue(torch.equal(out, fa512.torch.attention(*tensors, causal=True, window=(4, None))))

    def test_fakes_refuse_what_the_kernels_do(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            good = torch.empty(2, 3, 10, 64, dtype=torch.float16, device="cuda")
            self.assertEqual(torch.ops.fa512.attention(good, good, good).device.type, "cuda")
            self.assertEqual(torch.ops.fa512.attention(*[good.bfloat16()] * 3).dtype, torch.bfloat16)
            with self.assertRaisesRegex(ValueError, "key is torch.bfloat16 and query torch.float16"):
                torch.ops.fa512.attention(good, good.bfloat16(), good)
            with self.assertRaisesRegex(ValueError, "window_left is -1; it must be a number of keys, or None"):
                torch.ops.fa512.attention(good, good, good, window_left=-1)
            # torch.autocast("cuda") does nothing on a machine without a GPU.
            torch.set_autocast_enabled("cuda", True)
            self.addCleanup(torch.set_autocast_enabled, "cuda", False)
            single = good.float()
            self.assertEqual(torch.ops.fa512.attention(single, single, single).dtype, torch.float16)
            self.addCleanup(torch.set_autocast_dtype, "cuda", torch.get_autocast_dtype("cuda"))
            torch.set_autocast_dtype("cuda", torch.bfloat16)
            self.assertEqual(torch.ops.fa512.attention(single, single, single).dtype, torch.bfloat16)

    def test_register_flash_attention_impl(self):
        import torch.nn.attention as attention

        fa512.torch.register_flash_attention_impl()
        self.assertIn("fa512", attention.list_flash_attention_impls())
        name = "aten::_scaled_dot_product_flash_attention"
        before = torch._C._dispatch_dump(name)
        attention.activate_flash_attention_impl("fa512")
        self.assertEqual(attention.current_flash_attention_impl(), "fa512")
        self.assertNotEqual(torch._C._dispatch_dump(name), before)
        attention.restore_flash_attention_impl()
        self.assertIsNone(attention.current_flash_attention_impl())
        self.assertEqual(torch._C._dispatch_dump(name), before)


class Sharding(Mesh):
    def test_batches_and_heads_need_no_communication(self):
        from torch.distributed.tensor.debug import CommDebugMode

        for dimension in (0, 1):
            local = inputs(batch=2, heads=2, requires_grad=True)
            tensors = [DTensor.from_local(tensor, self.mesh, [Shard(dimension)]) for tensor in local]
            with CommDebugMode() as seen:
                out = fa512.scaled_dot_product_attention(*tensors)
                out.to_local().float().sum().backward()
                near = fa512.torch.attention(*tensors, window=(2, 1))
                near.to_local().float().sum().backward()
            self.assertEqual(seen.get_total_counts(), 0)
            torch.testing.assert_close(near.to_local(), fa512.torch.attention(*local, window=(2, 1)))
            self.assertEqual(out.placements, (Shard(dimension),))
            self.assertEqual(out.shape[dimension], 2 * local[0].shape[dimension])
            torch.testing.assert_close(out.to_local(), fa512.torch.attention(*local))
            self.assertIsNotNone(local[0].grad)

    def test_what_cannot_be_sharded_is_gathered(self):
        from torch.distributed.tensor.debug import CommDebugMode

        tensors = [DTensor.from_local(tensor, self.mesh, [Shard(2)]) for tensor in inputs()]
        with CommDebugMode() as seen:
            out = fa512.scaled_dot_product_attention(*tensors)
        self.assertGreater(seen.get_total_counts(), 0)
        self.assertNotEqual(out.placements, (Shard(2),))

    def test_lse_is_sharded_as_the_result(self):
        tensors = [DTensor.from_local(tensor, self.mesh, [Shard(1)]) for tensor in inputs(heads=2)]
        out, lse = fa512.torch.attention(*tensors, return_lse=True)
        self.assertEqual((out.placements, lse.placements), ((Shard(1),), (Shard(1),)))
        self.assertEqual(lse.shape, (2, 4, 10))

    def test_replicated_tensors_stay_so(self):
        tensors = [DTensor.from_local(tensor, self.mesh, [Replicate()]) for tensor in inputs()]
        self.assertEqual(fa512.torch.attention(*tensors).placements, (Replicate(),))
