"""Softcap, ALiBi slopes and biases through the simulated driver, packed sequences too."""

import unittest

import fa512
import numpy

import simulated
from simulated import Interface, reference


def setUpModule():
    global MACHINE
    MACHINE = simulated.Machine()


def random(shape, seed=0, dtype=numpy.float16):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def slopes_of(*shape):
    return numpy.random.default_rng(9).uniform(0.01, 0.5, shape).astype(numpy.float32)


class Case(unittest.TestCase):
    shape, keys = (2, 2, 20, 64), 20

    def setUp(self):
        MACHINE.use(0)
        shape_of_keys = (*self.shape[:2], self.keys, 64)
        self.hosts = [random(self.shape), random(shape_of_keys, 1), random(shape_of_keys, 2)]
        self.devices = [MACHINE.array(host) for host in self.hosts]
        self.out = MACHINE.array(numpy.full(self.shape, numpy.nan, numpy.float16))

    def compare(self, out, lse, hosts, **call):
        expected, expected_lse = reference(*hosts, **call)
        numpy.testing.assert_allclose(out.astype(numpy.float64), expected, rtol=1e-3, atol=2e-3)
        numpy.testing.assert_allclose(lse, expected_lse, atol=1e-3)


class Results(Case):
    def check(self, causal=False, align="top-left", first=0, kind=Interface, **changes):
        lse = MACHINE.array(numpy.full(self.shape[:3], numpy.nan, numpy.float32))
        given = {name: MACHINE.array(value, kind) if hasattr(value, "shape") else value for name, value in changes.items()}
        fa512.attention(*self.devices, causal=causal, align=align, out=self.out, lse=lse, **given)
        changes = {{"alibi_slopes": "slopes"}.get(name, name): value for name, value in changes.items()}
        self.compare(self.out.numpy(), lse.numpy(), self.hosts, causal=causal, first=first, **changes)

    def test_each_change_of_every_protocol(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                self.check(softcap=0.5)
                self.check(alibi_slopes=slopes_of(2), kind=kind)
                self.check(alibi_slopes=slopes_of(2, 2), kind=kind, causal=True)
                self.check(bias=random((2, 2, 20, 20), 3), kind=kind)

    def test_all_changes(self):
        self.check(softcap=2.0, alibi_slopes=slopes_of(2, 2), bias=random((2, 20, 20), 3), causal=True)

    def test_biases_are_broadcast(self):
        for shape in [(20,), (1, 20), (20, 20), (2, 1, 1, 20), (1, 2, 1, 20), (2, 1, 20, 20), (1, 1, 1, 20)]:
            with self.subTest(shape=shape):
                self.check(bias=random(shape, 3))
        # Every second row, and rows that begin between 4-byte words.
        self.check(bias=random((2, 2, 40, 21), 3)[:, :, ::2, 1:])

    def test_excluded_keys_and_rows(self):
        bias = numpy.zeros((2, 1, 20, 20), numpy.float16)
        bias[1, :, :, 13:] = -numpy.inf
        self.check(bias=bias)
        bias[0, 0, 4] = -numpy.inf
        lse = MACHINE.array(numpy.zeros(self.shape[:3], numpy.float32))
        fa512.attention(*self.devices, bias=MACHINE.array(bias), out=self.out, lse=lse)
        self.assertTrue((self.out.numpy()[0, :, 4] == 0).all() and (lse.numpy()[0, :, 4] == -numpy.inf).all())

    def test_warm_up(self):
        fa512.warm_up(2, 2, 20, changes_scores=True)
        fa512.warm_up(1, 2, 20, sequences=3, changes_scores=True)


class OtherKeys(Results):
    """More keys than queries: ALiBi counts from where the queries are."""

    keys = 33
    # What the other class does is of as many keys.
    test_each_change_of_every_protocol = test_biases_are_broadcast = test_excluded_keys_and_rows = test_warm_up = None

    def test_all_changes(self):
        for align, first in [("top-left", 0), ("bottom-right", 13)]:
            bias = random((20, 33), 3)
            self.check(align=align, first=first, softcap=2.0, alibi_slopes=slopes_of(2), bias=bias, causal=True)


class Packed(Case):
    shape = (1, 2, 50, 64)
    keys = 50

    def test_softcap_and_slopes(self):
        numbers = [0, 17, 18, 50]
        rows = [numpy.ascontiguousarray(host[0].swapaxes(0, 1)) for host in self.hosts]
        lengths = MACHINE.array(numpy.array(numbers, numpy.int32))
        all_slopes = [slopes_of(2), slopes_of(3, 2)]
        changed = [{"softcap": 0.5}, *({"slopes": slopes} for slopes in all_slopes), {"softcap": 0.5, "slopes": slopes_of(2)}]
        for changes in changed:
            with self.subTest(changes=list(changes), slopes=numpy.shape(changes.get("slopes"))):
                out = MACHINE.array(numpy.full((50, 2, 64), numpy.nan, numpy.float16))
                lse = MACHINE.array(numpy.full((2, 50), numpy.nan, numpy.float32))
                slopes = MACHINE.array(changes["slopes"]) if "slopes" in changes else None
                devices = map(MACHINE.array, rows)
                fa512.attention_varlen(
                    *devices, lengths, causal=True, softcap=changes.get("softcap"), alibi_slopes=slopes, out=out, lse=lse
                )
                for at, (begin, end) in enumerate(zip(numbers, numbers[1:])):
                    of_sequence = dict(changes)
                    if numpy.ndim(changes.get("slopes")) == 2:
                        of_sequence["slopes"] = changes["slopes"][at]
                    hosts = [host[:, :, begin:end] for host in self.hosts]
                    own = out.numpy()[None, begin:end].swapaxes(1, 2)
                    self.compare(own, lse.numpy()[None, :, begin:end], hosts, causal=True, **of_sequence)


class Errors(Case):
    def refused(self, error, words, **changes):
        with self.assertRaisesRegex(error, words):
            fa512.attention(*self.devices, out=self.out, **changes)

    def test_softcaps(self):
        for softcap in [0.0, -1.0, float("nan"), 1e4]:
            self.refused(ValueError, "softcap is .*; it must be from 0.001 to 1000", softcap=softcap)

    def test_slopes(self):
        self.refused(TypeError, "alibi_slopes is float16; it must be float32", alibi_slopes=MACHINE.array(random(2)))
        for slopes in [slopes_of(3), slopes_of(2, 1), slopes_of(4)[::2], slopes_of(2, 4)[:, :2], slopes_of(1, 2, 2)]:
            self.refused(ValueError, r"alibi_slopes have .* must be \[2\] or \[2, 2\]", alibi_slopes=MACHINE.array(slopes))
        short = MACHINE.array(slopes_of(1))
        short.shape, short.strides = (2,), (4,)
        self.refused(ValueError, "alibi_slopes at .* its memory ends after 4 bytes", alibi_slopes=short)

    def test_biases(self):
        self.refused(TypeError, "bias is float32; it must be float16", bias=MACHINE.array(random((20, 20), dtype=numpy.float32)))
        whole = random((2, 2, 20, 40))
        for bias in [random((20, 1)), random((3, 1, 20, 20)), random((20, 19)), whole[..., ::2], whole[:, :, ::-1, :20]]:
            self.refused(ValueError, r"bias has the shape .* \[2 or 1, 2 or 1, 20 or 1, 20\]", bias=MACHINE.array(bias))
        short = MACHINE.array(random((19, 20)))
        short.shape = (20, 20)
        self.refused(ValueError, "bias at .* its memory ends after 760 bytes; the tensor spans 800", bias=short)

    def test_slopes_of_packed_sequences_are_those_of_heads_or_of_each(self):
        rows = [MACHINE.array(host[0].swapaxes(0, 1).copy()) for host in self.hosts]
        lengths, out = MACHINE.array(numpy.array([0, 20], numpy.int32)), MACHINE.array(random((20, 2, 64)))
        with self.assertRaisesRegex(ValueError, r"alibi_slopes have .* must be \[2\] or \[1, 2\] \(heads, or sequences and heads\)"):
            fa512.attention_varlen(*rows, lengths, alibi_slopes=MACHINE.array(slopes_of(2, 2)), out=out)
