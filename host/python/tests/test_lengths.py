"""Calls through the simulated driver of sequences whose keys have lengths of their own: packed ones, and padded batches."""

import unittest

import fa512
import numpy

import simulated
from simulated import Exchanged, Interface, reference

QUERIES, KEYS = [0, 17, 17, 40, 61, 90], [0, 30, 35, 35, 36, 110]
LIMITS = [{}, {"causal": True}, {"window": (10, 2)}, {"causal": True, "window": (40, None)}]
ALIGNMENTS = ["top-left", "bottom-right"]


def setUpModule():
    global MACHINE
    MACHINE = simulated.Machine()


def random(shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


def array(numbers, kind=Interface, dtype=numpy.int32, **more):
    return MACHINE.array(numpy.array(numbers, dtype), kind, **more)


def output(shape, kind=Interface, dtype=numpy.float16):
    return MACHINE.array(numpy.full(shape, numpy.nan, dtype), kind)


def expected(q, k, v, align="top-left", **call):
    """O [rows, heads, 64] and LSE [heads, rows] of one sequence; zeros and -inf of queries without keys."""
    rows, heads, size = q.shape
    if len(k) == 0:
        return numpy.zeros((rows, heads, size)), numpy.full((heads, rows), -numpy.inf)
    first = len(k) - rows if align == "bottom-right" else 0
    with numpy.errstate(invalid="ignore"):
        out, lse = reference(*(x[None].swapaxes(1, 2) for x in (q, k, v)), first=first, **call)
    return numpy.nan_to_num(out[0].swapaxes(0, 1)), numpy.nan_to_num(lse[0], nan=-numpy.inf)


class Case(unittest.TestCase):
    def setUp(self):
        MACHINE.use(0)

    def refused(self, error, words, call, *arguments, **keywords):
        with self.assertRaisesRegex(error, words):
            call(*arguments, **keywords)

    def compare(self, out, lse, wanted):
        """`out` is [rows, heads, 64], of which `wanted` tells each sequence's rows; others are as they were."""
        written = numpy.zeros(len(out), bool)
        for rows, (of_rows, of_lse) in wanted:
            written[rows] = True
            numpy.testing.assert_allclose(out[rows].astype(numpy.float64), of_rows, rtol=1e-3, atol=2e-3)
            if lse is not None:
                numpy.testing.assert_allclose(lse[:, rows], of_lse, atol=1e-3)
        self.assertTrue(numpy.isnan(out[~written]).all(), "rows of no sequence were written")
        self.assertTrue(lse is None or numpy.isnan(lse[:, ~written]).all(), "LSE of no sequence was written")


class Packed(Case):
    def inputs(self, kind=Interface, heads=2, shared=1):
        shapes = [(90, heads, 64), (110, shared, 64), (110, shared, 64)]
        hosts = [random(shape, seed) for seed, shape in enumerate(shapes)]
        return hosts, [MACHINE.array(host, kind) for host in hosts]

    def check(self, out, lse, hosts, queries=QUERIES, keys=KEYS, used_q=None, used_k=None, **call):
        q, k, v = hosts
        wanted = []
        for at, (begin, end, first, last) in enumerate(zip(queries, queries[1:], keys, keys[1:])):
            end = end if used_q is None else min(end, begin + max(used_q[at], 0))
            last = last if used_k is None else min(last, first + max(used_k[at], 0))
            if begin < end:
                wanted.append((slice(begin, end), expected(q[begin:end], k[first:last], v[first:last], **call)))
        self.compare(out.numpy(), None if lse is None else lse.numpy(), wanted)

    def test_every_protocol(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                hosts, devices = self.inputs(kind)
                out = output((90, 2, 64), kind)
                lengths = {"cu_seqlens_k": array(KEYS, kind, numpy.uint32)}
                self.assertIs(fa512.attention_varlen(*devices, array(QUERIES, kind), **lengths, out=out), out)
                self.check(out, None, hosts)

    def test_limits_at_both_corners(self):
        hosts, devices = self.inputs()
        for limits in LIMITS:
            for align in ALIGNMENTS:
                with self.subTest(limits=limits, align=align):
                    out, lse = output((90, 2, 64)), output((2, 90), dtype=numpy.float32)
                    lengths = array(QUERIES), {"cu_seqlens_k": array(KEYS), "max_seqlen": 29}
                    fa512.attention_varlen(*devices, lengths[0], **lengths[1], align=align, **limits, out=out, lse=lse)
                    self.check(out, lse, hosts, align=align, **limits)

    def test_rows_that_are_not_used(self):
        used_q, used_k = [17, 0, 3, 99, -4], [-1, 5, 0, 1, 60]
        hosts, devices = self.inputs()
        for given in ({"used_q": used_q}, {"used_k": used_k}, {"used_q": used_q, "used_k": used_k}):
            with self.subTest(given=given):
                out, lse = output((90, 2, 64)), output((2, 90), dtype=numpy.float32)
                lengths = {name.replace("used", "seqused"): array(numbers) for name, numbers in given.items()}
                fa512.attention_varlen(*devices, array(QUERIES), cu_seqlens_k=array(KEYS), **lengths, out=out, lse=lse)
                self.check(out, lse, hosts, **given)

    def test_rows_that_are_not_used_of_equal_lengths(self):
        q, k, v = (random((90, 2, 64), seed) for seed in range(3))
        out = output((90, 2, 64))
        fa512.attention_varlen(*map(MACHINE.array, (q, k, v)), array(QUERIES), seqused_k=array([5, 0, 9, 30, 0]), out=out)
        self.check(out, None, (q, k, v), keys=QUERIES, used_k=[5, 0, 9, 30, 0])

    def test_softcap_and_slopes(self):
        hosts, devices = self.inputs()
        slopes, out = numpy.array([0.5, 0.03], numpy.float32), output((90, 2, 64))
        changes, limits = {"softcap": 0.5, "alibi_slopes": MACHINE.array(slopes)}, {"causal": True, "align": "bottom-right"}
        fa512.attention_varlen(*devices, array(QUERIES), cu_seqlens_k=array(KEYS), **limits, **changes, out=out)
        self.check(out, None, hosts, softcap=0.5, slopes=slopes, **limits)

    def test_lengths_that_are_none_harm_nothing(self):
        _, devices = self.inputs()
        for numbers in ([0, 2**31 - 1, -(2**31), 10**9, 7, 3], [110, 60, 30, 0, 0, 0]):
            out = output((90, 2, 64))
            keys = {"cu_seqlens_k": array(numbers), "seqused_k": array(numbers[:5])}
            fa512.attention_varlen(*devices, array(QUERIES), **keys, causal=True, align="bottom-right", out=out)
            self.assertTrue(numpy.isfinite(out.numpy()).all())

    def test_warm_up(self):
        sizes = {"kv_sequence": 110, "kv_heads": 1, "sequences": 5, "causal": True, "align": "bottom-right"}
        fa512.warm_up(1, 2, 90, **sizes, lengths="separate")
        self.refused(ValueError, "K and V have 110 rows and Q has 90", fa512.warm_up, 1, 2, 90, **sizes)
        self.refused(ValueError, "for packed sequences; give sequences", fa512.warm_up, 1, 2, 90, lengths="separate")
        self.refused(ValueError, "lengths is 'equal'|lengths is \"equal\"", fa512.warm_up, 1, 2, 90, lengths="equal")

    def test_errors(self):
        (_, k, _), devices = self.inputs()
        out, good = output((90, 2, 64)), array(QUERIES)

        def refused(error, words, *arguments, **keywords):
            self.refused(error, words, fa512.attention_varlen, *arguments, out=out, **keywords)

        refused(ValueError, r"k has the shape \[110, 1, 64\].* heads and, with cu_seqlens_k, in rows only", *devices, good)
        for name, numbers in (("cu_seqlens_k", KEYS), ("seqused_q", KEYS[1:]), ("seqused_k", KEYS[1:])):
            keys = {"cu_seqlens_k": array(KEYS)}
            for wrong, error, words in (
                (array(numbers, dtype=numpy.int64), TypeError, "is int64; it must be int32"),
                (numbers, TypeError, "is a list"),
                (array([numbers]), ValueError, r"has 2 dimensions; it must be \[sequences"),
                (array(numbers[:-1]), ValueError, f"has {len(numbers) - 1} elements"),
                (MACHINE.array(numpy.repeat(numpy.array(numbers, numpy.int32), 2)[::2]), ValueError, "has a stride of 2"),
            ):
                refused(error, f"{name} {words}", *devices, good, **{**keys, name: wrong})
            short = array(numbers[:-1])
            short.shape = (len(numbers),)
            refused(ValueError, f"{name} at .* its memory ends", *devices, good, **{**keys, name: short})
        refused(ValueError, 'align is "middle"', *devices, good, cu_seqlens_k=array(KEYS), align="middle")
        out, (_, devices) = output((90, 2, 64), Exchanged), self.inputs(Exchanged)
        elsewhere = array(KEYS, Exchanged, gpu=1)
        refused(ValueError, "cu_seqlens_k is on GPU 1 and q on GPU 0", *devices, array(QUERIES), cu_seqlens_k=elsewhere)


class Padded(Case):
    USED_Q, USED_K = [30, 0, 17, 99], [40, 12, -1, 7]

    def inputs(self, kind=Interface):
        hosts = [random(shape, seed) for seed, shape in enumerate([(4, 30, 2, 64), (4, 40, 1, 64), (4, 40, 1, 64)])]
        return hosts, [MACHINE.array(host, kind) for host in hosts], output((4, 30, 2, 64), kind)

    def check(self, out, lse, hosts, used_q=None, used_k=None, **call):
        q, k, v = hosts
        out, lse = out.numpy(), None if lse is None else lse.numpy()
        for at in range(len(q)):
            rows = slice(0, len(q[at]) if used_q is None else min(max(used_q[at], 0), len(q[at])))
            keys = slice(0, len(k[at]) if used_k is None else min(max(used_k[at], 0), len(k[at])))
            wanted = [(rows, expected(q[at, rows], k[at, keys], v[at, keys], **call))]
            self.compare(out[at], None if lse is None else lse[:, at], wanted)

    def test_every_protocol(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                hosts, devices, out = self.inputs(kind)
                used = {"seqused_q": array(self.USED_Q, kind), "seqused_k": array(self.USED_K, kind)}
                self.assertIs(fa512.attention_padded(*devices, **used, out=out), out)
                self.check(out, None, hosts, self.USED_Q, self.USED_K)

    def test_each_length_alone_and_none(self):
        for used_q, used_k in ((None, None), (self.USED_Q, None), (None, self.USED_K)):
            with self.subTest(used_q=used_q, used_k=used_k):
                hosts, devices, out = self.inputs()
                given = [None if used is None else array(used) for used in (used_q, used_k)]
                fa512.attention_padded(*devices, seqused_q=given[0], seqused_k=given[1], out=out)
                self.check(out, None, hosts, used_q, used_k)

    def test_limits_at_both_corners(self):
        for limits in LIMITS:
            for align in ALIGNMENTS:
                with self.subTest(limits=limits, align=align):
                    hosts, devices, out = self.inputs()
                    lse = output((2, 4, 30), dtype=numpy.float32)
                    used = {"seqused_q": array(self.USED_Q), "seqused_k": array(self.USED_K)}
                    both = fa512.attention_padded(*devices, **used, align=align, **limits, out=out, lse=lse)
                    self.assertIs(both[1], lse)
                    self.check(out, lse, hosts, self.USED_Q, self.USED_K, align=align, **limits)

    def test_parts_of_a_fused_tensor(self):
        fused = random((3, 20, 3, 2, 64))
        hosts = [fused[:, :, part] for part in range(3)]
        used, slopes = [20, 3, 9], numpy.array([0.5, 0.03], numpy.float32)
        out, lengths = output((3, 20, 2, 64)), array(used)
        changes = {"softcap": 2.0, "alibi_slopes": MACHINE.array(slopes), "scale": 0.3}
        fa512.attention_padded(*map(MACHINE.array, hosts), seqused_q=lengths, seqused_k=lengths, **changes, out=out)
        self.check(out, None, hosts, used, used, softcap=2.0, slopes=slopes, scale=0.3)

    def test_what_is_not_used_reaches_nothing(self):
        hosts, devices, out = self.inputs()
        used = {"seqused_q": array(self.USED_Q), "seqused_k": array(self.USED_K)}
        fa512.attention_padded(*devices, **used, out=out)
        spoilt = [host.copy() for host in hosts]
        for at, (queries, keys) in enumerate(zip(self.USED_Q, self.USED_K)):
            spoilt[0][at, queries:], spoilt[1][at, max(keys, 0) :], spoilt[2][at, max(keys, 0) :] = [numpy.nan] * 3
        again = output((4, 30, 2, 64))
        fa512.attention_padded(*map(MACHINE.array, spoilt), **used, out=again)
        numpy.testing.assert_array_equal(out.numpy(), again.numpy())

    def test_nothing_to_compute(self):
        (q, k, v), _, _ = self.inputs()
        empty, out = MACHINE.array(q[:, :0]), MACHINE.array(random((4, 30, 2, 64))[:, :0])
        keys = MACHINE.array(k), MACHINE.array(v)
        self.assertIs(fa512.attention_padded(empty, *keys, seqused_q=array([0] * 4), out=out), out)

    def test_warm_up(self):
        fa512.warm_up(4, 2, 30, kv_sequence=40, kv_heads=1, lengths="padded")
        self.refused(ValueError, "packed or padded", fa512.warm_up, 1, 2, 30, sequences=2, lengths="padded")

    def test_errors(self):
        (q, _, _), devices, out = self.inputs()

        def refused(error, words, *arguments, **keywords):
            self.refused(error, words, fa512.attention_padded, *arguments, **{"out": out, **keywords})

        refused(ValueError, r"seqused_k has 3 elements; it must have 4: \[batch\]", *devices, seqused_k=array([1, 2, 3]))
        refused(TypeError, "seqused_q is int64; it must be int32", *devices, seqused_q=array(self.USED_Q, dtype=numpy.int64))
        refused(ValueError, r"q has 3 dimensions; it must be \[batch, sequence, heads", MACHINE.array(q[0]), *devices[1:])
        apart = MACHINE.array(random((4, 64, 2, 64))[:, :30])
        refused(ValueError, "Q has a batch stride of 8192 elements; a padded batch needs", apart, *devices[1:])
        lse = output((4, 2, 30), dtype=numpy.float32)
        refused(ValueError, r"it must be \[2, 4, 30\] \(heads, batch, sequence\)", *devices, lse=lse)
        slopes = MACHINE.array(numpy.ones((4, 3), numpy.float32))
        refused(ValueError, r"alibi_slopes have the shape \[4, 3\]", *devices, alibi_slopes=slopes)
