"""Calls of `fa512.attention_varlen` through the simulated driver: packed sequences, and lengths that are none."""

import unittest

import fa512
import numpy

import simulated
from simulated import Exchanged, Interface, reference


def setUpModule():
    global MACHINE
    MACHINE = simulated.Machine()


def random(shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


class Case(unittest.TestCase):
    def setUp(self):
        MACHINE.use(0)

    def inputs(self, rows, heads=2, kind=Interface):
        """Q, K, V as NumPy and device arrays, and memory for O."""
        hosts = [random((rows, heads, 64), seed) for seed in range(3)]
        return hosts, [MACHINE.array(host, kind) for host in hosts], self.output((rows, heads, 64), kind)

    def output(self, shape, kind=Interface, dtype=numpy.float16):
        return MACHINE.array(numpy.full(shape, numpy.nan, dtype), kind)

    def lengths(self, numbers, kind=Interface, dtype=numpy.int32):
        return MACHINE.array(numpy.array(numbers, dtype), kind)

    def check(self, out, hosts, numbers, lse=None, **call):
        """Sequences are as each by itself; rows of none are zeros, and their LSE is -inf."""
        got, told = out.numpy(), set()
        for begin, end in zip(numbers, numbers[1:]):
            if begin == end:
                continue
            told |= set(range(begin, end))
            expected, expected_lse = reference(*(host[None, begin:end].swapaxes(1, 2) for host in hosts), **call)
            expected = expected[0].swapaxes(0, 1)
            numpy.testing.assert_allclose(got[begin:end].astype(numpy.float64), expected, rtol=1e-3, atol=2e-3)
            if lse is not None:
                numpy.testing.assert_allclose(lse.numpy()[:, begin:end], expected_lse[0], atol=1e-3)
        others = [row for row in range(len(got)) if row not in told]
        numpy.testing.assert_array_equal(got[others], 0, "rows of no sequence")
        if lse is not None:
            numpy.testing.assert_array_equal(lse.numpy()[:, others], -numpy.inf, "LSE of no sequence")


class Results(Case):
    def test_every_protocol_and_mask(self):
        numbers = [0, 17, 18, 90]
        for kind in simulated.PROTOCOLS:
            for causal in (False, True):
                with self.subTest(kind=kind.__name__, causal=causal):
                    hosts, devices, out = self.inputs(90, kind=kind)
                    lengths = self.lengths(numbers, kind)
                    self.assertIs(fa512.attention_varlen(*devices, lengths, causal=causal, out=out), out)
                    self.check(out, hosts, numbers, causal=causal)

    def test_lse_scale_and_longest(self):
        numbers = [3, 3, 40, 70]
        hosts, devices, out = self.inputs(80)
        lse = self.output((2, 80), dtype=numpy.float32)
        lengths = self.lengths(numbers, dtype=numpy.uint32)
        both = fa512.attention_varlen(*devices, lengths, max_seqlen=37, scale=0.3, out=out, lse=lse)
        self.assertIs(both[1], lse)
        self.check(out, hosts, numbers, lse, scale=0.3)

    def test_windows(self):
        numbers = [0, 17, 18, 110]
        for causal, window, right in [(False, (10, 2), 2), (True, (64, None), 0), (False, (None, 9), 9), (False, (93, 93), 93)]:
            with self.subTest(causal=causal, window=window):
                hosts, devices, out = self.inputs(110)
                lse = self.output((2, 110), dtype=numpy.float32)
                # A bound that is wrong makes no result wrong.
                fa512.attention_varlen(*devices, self.lengths(numbers), max_seqlen=5, causal=causal, window=window, out=out, lse=lse)
                self.check(out, hosts, numbers, lse, window=(window[0], right))

    def test_views_of_a_fused_tensor(self):
        fused = random((50, 3, 2, 64))
        hosts = [fused[:, part] for part in range(3)]
        out = self.output((50, 2, 64))
        fa512.attention_varlen(*(MACHINE.array(host) for host in hosts), self.lengths([0, 20, 50]), out=out)
        self.check(out, hosts, [0, 20, 50])

    def test_lengths_that_are_none_harm_nothing(self):
        hosts, devices, out = self.inputs(40)
        lengths = self.lengths([0, 2**31 - 1, -(2**31), 10**9, 7])
        fa512.attention_varlen(*devices, lengths, out=out)
        self.assertEqual(out.numpy().shape, (40, 2, 64))

    def test_nothing_to_compute(self):
        _, devices, out = self.inputs(8)
        lse = self.output((2, 8), dtype=numpy.float32)
        fa512.attention_varlen(*devices, self.lengths([0]), out=out, lse=lse)
        numpy.testing.assert_array_equal(out.numpy(), 0)
        numpy.testing.assert_array_equal(lse.numpy(), -numpy.inf)

    def test_sequences_that_overlap(self):
        _, devices, out = self.inputs(90)
        for numbers in [[0, 20, 10, 30], [0, 80, 40, 90], [index * 12 % 90 for index in range(13)]]:
            fa512.attention_varlen(*devices, self.lengths(numbers), out=out)

    def test_warm_up(self):
        fa512.warm_up(1, 2, 100, sequences=5)
        fa512.warm_up(1, 2, 100, sequences=5, window=(4, 4))
        with self.assertRaisesRegex(ValueError, "batch"):
            fa512.warm_up(2, 2, 100, sequences=5)


class Errors(Case):
    def refused(self, error, words, *arguments, **keywords):
        with self.assertRaisesRegex(error, words):
            fa512.attention_varlen(*arguments, **keywords)

    def test_lengths(self):
        _, devices, out = self.inputs(20)
        good = self.lengths([0, 5, 20])
        self.refused(TypeError, "cu_seqlens is int64; it must be int32", *devices, self.lengths([0, 20], dtype=numpy.int64), out=out)
        self.refused(TypeError, "cu_seqlens is a list", *devices, [0, 20], out=out)
        self.refused(ValueError, "cu_seqlens has 2 dimensions", *devices, self.lengths([[0, 20]]), out=out)
        strided = MACHINE.array(numpy.arange(6, dtype=numpy.int32)[::2])
        self.refused(ValueError, "cu_seqlens has a stride of 2", *devices, strided, out=out)
        good.shape = (4,)
        self.refused(ValueError, "cu_seqlens at .* its memory ends after 12 bytes; the tensor spans 16", *devices, good, out=out)
        elsewhere = MACHINE.array(numpy.array([0, 20], numpy.int32), Exchanged, gpu=1)
        _, devices, out = self.inputs(20, kind=Exchanged)
        self.refused(ValueError, "cu_seqlens is on GPU 1 and q on GPU 0", *devices, elsewhere, out=out)

    def test_shapes(self):
        _, (q, k, v), out = self.inputs(20)
        lengths = self.lengths([0, 20])
        batched = MACHINE.array(random((1, 2, 20, 64)))
        self.refused(ValueError, r"q has 4 dimensions; it must be \[rows of all", batched, k, v, lengths, out=out)
        self.refused(ValueError, r"k has the shape \[19, 2, 64\]", q, MACHINE.array(random((19, 2, 64))), v, lengths, out=out)
        lse = self.output((20, 2), dtype=numpy.float32)
        self.refused(ValueError, r"it must be \[2, 20\] \(heads, rows", q, k, v, lengths, out=out, lse=lse)
        self.refused(ValueError, "max_seqlen is -1; it must not be negative", q, k, v, lengths, max_seqlen=-1, out=out)
        self.refused(ValueError, "max_seqlen is .*, which is more than 32 bits", q, k, v, lengths, max_seqlen=2**63, out=out)
