"""A mesh of two processes, of which this is the first and the other does not exist."""

import unittest

import torch.distributed as dist
from torch.distributed.tensor import init_device_mesh


class Mesh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        cls.mesh = init_device_mesh("cpu", (2,))

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()
