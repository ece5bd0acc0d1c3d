"""Data and tensor parallelism at once, by placements; and real processes, over gloo."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

import cpu
import fa512
import fa512.torch

TWO_GPUS = pathlib.Path(__file__).resolve().parents[2] / "gpu/two_gpus.py"


def setUpModule():
    cpu.install()


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 2, 10, 64, dtype=torch.float16, requires_grad=True) for _ in range(3)]


class Placements(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
        cls.mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def on_mesh(self, local, placements):
        return DTensor.from_local(local, self.mesh, placements)

    def test_batches_over_one_dimension_of_the_mesh_and_heads_over_the_other(self):
        local = inputs()
        tensors = [self.on_mesh(tensor, [Shard(0), Shard(1)]) for tensor in local]
        with CommDebugMode() as seen:
            out = fa512.scaled_dot_product_attention(*tensors, is_causal=True)
            out.to_local().float().sum().backward()
        self.assertEqual(seen.get_total_counts(), 0)
        self.assertEqual((out.placements, tuple(out.shape)), ((Shard(0), Shard(1)), (4, 4, 10, 64)))
        torch.testing.assert_close(out.to_local(), fa512.torch.attention(*local, causal=True))
        self.assertIsNotNone(local[2].grad)

    def test_whole_tensors_beside_sharded_ones_are_cut_where_they_lie(self):
        query, key, value = (tensor.detach() for tensor in inputs())
        whole = [torch.cat([tensor, tensor + 1], dim=1) for tensor in (key, value)]
        sharded = self.on_mesh(query, [Replicate(), Shard(1)])
        with CommDebugMode() as seen:
            out = fa512.torch.attention(sharded, *(self.on_mesh(tensor, [Replicate(), Replicate()]) for tensor in whole))
        self.assertEqual(seen.get_total_counts(), 0)
        self.assertEqual(out.placements, (Replicate(), Shard(1)))
        torch.testing.assert_close(out.to_local(), fa512.torch.attention(query, key, value))


class Processes(unittest.TestCase):
    def test_two_processes_over_gloo(self):
        with tempfile.TemporaryDirectory() as out:
            run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            done = subprocess.run(
                [*run, str(TWO_GPUS), "--out", out, "--dry-run"], capture_output=True, text=True, timeout=600
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("2 passed, 0 failed, 1 skipped"), 2, done.stdout)
