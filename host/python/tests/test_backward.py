"""The native half of gradients through the simulated driver."""

import unittest

import numpy
from fa512 import _native

import simulated

SCALE = 0.125


def setUpModule():
    global MACHINE
    MACHINE = simulated.Machine()


def random(shape, seed):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


def gradients(q, k, v, d_o, causal=False, softcap=None, bias=0.0):
    """dQ, dK and dV of [batch, heads, sequence, head size]."""
    q, k, v, d_o = (tensor.astype(numpy.float64) for tensor in (q, k, v, d_o))
    scores = SCALE * q @ k.swapaxes(-1, -2)
    derivative = 1.0
    if softcap is not None:
        capped = numpy.tanh(scores / softcap)
        scores, derivative = softcap * capped, 1 - capped**2
    scores = scores + bias
    if causal:
        scores = numpy.where(numpy.tri(*scores.shape[-2:], dtype=bool), scores, -numpy.inf)
    p = numpy.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = d_o @ v.swapaxes(-1, -2)
    ds = SCALE * derivative * p * (dp - (p * dp).sum(-1, keepdims=True))
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o


class Backward(unittest.TestCase):
    def setUp(self):
        MACHINE.use(0)

    def hosts(self, *shape):
        return [random(shape, seed) for seed in range(4)]

    def new(self, shape, kind=numpy.float16):
        return MACHINE.array(numpy.full(shape, numpy.nan, kind))

    def compare(self, found, expected):
        for one, other in zip(found, expected):
            numpy.testing.assert_allclose(one.numpy().astype(numpy.float64), other, rtol=2e-2, atol=2e-2)

    def test_batches_in_both_layouts(self):
        for layout, options in [("bhsd", {}), ("bshd", {"causal": True}), ("bhsd", {"softcap": 0.5, "causal": True})]:
            hosts = self.hosts(2, 2, 30, 64)
            laid_out = hosts if layout == "bhsd" else [numpy.ascontiguousarray(host.swapaxes(1, 2)) for host in hosts]
            q, k, v, d_o = (MACHINE.array(host) for host in laid_out)
            out, lse = self.new(laid_out[0].shape), self.new((2, 2, 30), numpy.float32)
            _native.attention(q, k, v, out=out, lse=lse, layout=layout, **options)
            found = [self.new(laid_out[0].shape) for _ in range(3)]
            # So few queries need no workspace.
            _native.attention_backward(d_o, q, k, v, out, lse, *found, layout=layout, allocate=self.fail, **options)
            expected = gradients(*hosts, **options)
            self.compare(found, expected if layout == "bhsd" else [one.swapaxes(1, 2) for one in expected])

    def test_a_workspace_that_is_none_is_refused(self):
        shape = (1, 9, 2048, 64)
        q, lse = MACHINE.array(numpy.zeros(shape, numpy.float16)), self.new(shape[:3], numpy.float32)
        tensors = [q, q, q, q, self.new(shape), lse, *(self.new(shape) for _ in range(3))]
        asked = []

        def answer(workspace):
            return lambda size: asked.append(size) or workspace

        short = MACHINE.array(numpy.zeros(1000, numpy.uint8))
        for workspace, expected in [(short, "workspace has the shape"), (lse, "workspace has the shape"), (None, "workspace")]:
            with self.assertRaisesRegex((TypeError, ValueError), expected):
                _native.attention_backward(*tensors, causal=True, allocate=answer(workspace))
        # dQ in f32, two statistics of a row, and a count for each 64 rows and one of the launch, in multiples of 16.
        self.assertEqual(asked, 3 * [9 * 2048 * (64 + 2) * 4 + -(-(9 * 32 + 1) * 4 // 16) * 16])

    def test_a_bias(self):
        hosts, bias = self.hosts(1, 2, 20, 64), random((20, 20), 7)
        q, k, v, d_o = (MACHINE.array(host) for host in hosts)
        out, lse, on_gpu = self.new(hosts[0].shape), self.new((1, 2, 20), numpy.float32), MACHINE.array(bias)
        _native.attention(q, k, v, out=out, lse=lse, bias=on_gpu)
        found = [self.new(hosts[0].shape) for _ in range(3)]
        _native.attention_backward(d_o, q, k, v, out, lse, *found, bias=on_gpu)
        self.compare(found, gradients(*hosts, bias=bias.astype(numpy.float64)))

    def test_packed_sequences(self):
        hosts, bounds = self.hosts(40, 2, 64), numpy.array([2, 12, 37], numpy.int32)
        q, k, v, d_o = (MACHINE.array(host) for host in hosts)
        out, lse, lengths = self.new((40, 2, 64)), self.new((2, 40), numpy.float32), MACHINE.array(bounds)
        _native.attention_varlen(q, k, v, lengths, causal=True, out=out, lse=lse)
        found = [self.new((40, 2, 64)) for _ in range(3)]
        _native.attention_varlen_backward(d_o, q, k, v, out, lse, *found, lengths, causal=True)
        expected = [numpy.zeros((40, 2, 64)) for _ in range(3)]
        for begin, end in zip(bounds, bounds[1:]):
            own = [host[begin:end].swapaxes(0, 1)[None] for host in hosts]
            for whole, part in zip(expected, gradients(*own, causal=True)):
                whole[begin:end] = part[0].swapaxes(0, 1)
        self.compare(found, expected)

    def test_padded_batches(self):
        """What an entry does not use is NaN, and no gradient is written there."""
        used_q, used_k = numpy.array([20, 7, 0, 12], numpy.int32), numpy.array([9, 20, 11, 0], numpy.int32)
        for given_q, given_k in ((used_q, used_k), (None, used_k), (used_q, None)):
            lengths = [numpy.full(4, 20, numpy.int32) if given is None else given for given in (given_q, given_k)]
            hosts = self.hosts(4, 20, 2, 64)
            for host, used in zip(hosts, (lengths[0], lengths[1], lengths[1], lengths[0])):
                host[numpy.arange(20) >= used[:, None]] = numpy.nan
            q, k, v, d_o = (MACHINE.array(host) for host in hosts)
            out, lse = self.new(hosts[0].shape), self.new((2, 4, 20), numpy.float32)
            names = {"seqused_q": given_q, "seqused_k": given_k}
            seqused = {name: MACHINE.array(given) for name, given in names.items() if given is not None}
            _native.attention_padded(q, k, v, out=out, lse=lse, **seqused)
            found = [self.new(hosts[0].shape) for _ in range(3)]
            _native.attention_padded_backward(d_o, q, k, v, out, lse, *found, **seqused)
            expected = [numpy.full(hosts[0].shape, numpy.nan) for _ in range(3)]
            for entry, (queries, keys) in enumerate(zip(*lengths)):
                rows = (queries, keys, keys)
                parts = [host[entry, :n].swapaxes(0, 1)[None] for host, n in zip(hosts, (*rows, queries))]
                both = gradients(*parts) if queries and keys else [numpy.zeros((1, 2, n, 64)) for n in rows]
                for whole, part, n in zip(expected, both, rows):
                    whole[entry, :n] = part[0].swapaxes(0, 1)
            self.compare(found, expected)
        apart = MACHINE.array(numpy.zeros((4, 24, 2, 64), numpy.float16)[:, :20])
        with self.assertRaisesRegex(ValueError, "grad has a batch stride of 3072"):
            _native.attention_padded_backward(apart, q, k, v, out, lse, *found)

    def test_gradients_that_no_kernel_would_write_are_refused(self):
        for rows, keys in [(0, 0), (0, 20), (20, 0)]:
            # The simulated driver allocates no empty array.
            q, k = (MACHINE.array(random((1, 2, 20, 64), 0)[:, :, :length]) for length in (rows, keys))
            lse = MACHINE.array(numpy.zeros((1, 2, 20), numpy.float32)[:, :, :rows])
            with self.assertRaisesRegex(ValueError, "no queries, keys or sequences"):
                _native.attention_backward(q, q, k, k, q, lse, q, k, k)
        q, lse = self.new((20, 2, 64)), self.new((2, 20), numpy.float32)
        with self.assertRaisesRegex(ValueError, "no queries, keys or sequences"):
            _native.attention_varlen_backward(q, q, q, q, q, lse, q, q, q, MACHINE.array(numpy.array([0], numpy.int32)))

    def test_what_does_not_fit_is_named(self):
        q = MACHINE.array(random((1, 2, 20, 64), 0))
        lse, out = self.new((1, 2, 20), numpy.float32), self.new((1, 2, 20, 64))
        others = [self.new((1, 2, 20, 64)) for _ in range(3)]
        for index, name in enumerate(("dq", "dk", "dv")):
            wrong = [*others]
            wrong[index] = self.new((1, 2, 21, 64))
            with self.assertRaisesRegex(ValueError, f"{name} has the shape"):
                _native.attention_backward(q, q, q, q, out, lse, *wrong)
        with self.assertRaisesRegex(ValueError, "dQ at .* overlaps dK"):
            _native.attention_backward(q, q, q, q, out, lse, others[0], others[0], others[2])
        with self.assertRaisesRegex(ValueError, "lse has the shape"):
            _native.attention_backward(q, q, q, q, out, self.new((1, 2, 21), numpy.float32), *others)
