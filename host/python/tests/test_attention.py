"""Calls of `fa512.attention` through the simulated driver: right results, and errors that say what is wrong."""

import ctypes
import threading
import unittest

import fa512
import numpy

import simulated
from simulated import Capsule, Exchanged, Interface, Versioned, from_bfloat16, reference, to_bfloat16


def setUpModule():
    global MACHINE
    MACHINE = simulated.Machine()


def random(shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


class Case(unittest.TestCase):
    def setUp(self):
        MACHINE.use(0)

    def inputs(self, shape, kind=Interface, gpu=0):
        """Q, K, V as NumPy and device arrays, and memory for O."""
        hosts = [random(shape, seed) for seed in range(3)]
        devices = [MACHINE.array(host, kind, gpu) for host in hosts]
        return hosts, devices, self.output(shape, kind, gpu)

    def output(self, shape, kind=Interface, gpu=0, dtype=numpy.float16):
        return MACHINE.array(numpy.full(shape, numpy.nan, dtype), kind, gpu)

    def check(self, out, hosts, **call):
        expected, _ = reference(*hosts, **call)
        numpy.testing.assert_allclose(out.numpy().astype(numpy.float64), expected, rtol=1e-3, atol=2e-3)


class Results(Case):
    def test_every_protocol_is_read(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                hosts, devices, out = self.inputs((1, 2, 40, 64), kind)
                self.assertIs(fa512.attention(*devices, out=out), out)
                self.check(out, hosts)

    def test_bfloat16_of_every_protocol(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                hosts = [to_bfloat16(random((1, 2, 40, 64), seed)) for seed in range(3)]
                out = MACHINE.array(numpy.full((1, 2, 40, 64), 0x7FFF, numpy.uint16).view(simulated.BFLOAT16), kind)
                fa512.attention(*(MACHINE.array(host, kind) for host in hosts), causal=True, out=out)
                expected, _ = reference(*(from_bfloat16(host) for host in hosts), causal=True)
                numpy.testing.assert_allclose(from_bfloat16(out.numpy()), expected, rtol=8e-3, atol=16e-3)

    def test_options_of_other_types_mean_the_same(self):
        for option, meant in [
            ({"causal": 1}, {"causal": True}),
            ({"causal": 0}, {}),
            ({"window": [3, 2]}, {"window": (3, 2)}),
            ({"window": numpy.array([3, 2])}, {"window": (3, 2)}),
            ({"window": (2**63, 2)}, {"window": (None, 2)}),
            ({"window": [None, None]}, {}),
            ({"scale": numpy.float32(0.5)}, {"scale": 0.5}),
            ({"scale": 1}, {"scale": 1.0}),
        ]:
            with self.subTest(**option):
                _, devices, out = self.inputs((1, 1, 16, 64))
                expected = self.output((1, 1, 16, 64))
                fa512.attention(*devices, out=out, **option)
                fa512.attention(*devices, out=expected, **meant)
                numpy.testing.assert_array_equal(out.numpy(), expected.numpy())

    def test_lengths_masks_and_scales(self):
        for sequence, causal, scale in [(1, False, None), (17, True, None), (130, False, 0.3), (64, True, 0.0)]:
            with self.subTest(sequence=sequence, causal=causal, scale=scale):
                hosts, devices, out = self.inputs((2, 1, sequence, 64))
                fa512.attention(*devices, causal=causal, scale=scale, out=out)
                self.check(out, hosts, causal=causal, scale=0.125 if scale is None else scale)

    def test_heads_share_keys_of_another_length(self):
        for align, first in [("top-left", 0), ("bottom-right", 30)]:
            for causal, window in [(False, None), (True, None), (True, (20, None))]:
                with self.subTest(align=align, causal=causal, window=window):
                    hosts = [random((2, 4, 40, 64)), random((2, 2, 70, 64), 1), random((2, 2, 70, 64), 2)]
                    out = self.output((2, 4, 40, 64))
                    fa512.attention(*map(MACHINE.array, hosts), causal=causal, window=window, align=align, out=out)
                    self.check(out, hosts, causal=causal, window=window or (None, None), first=first)
        fa512.warm_up(2, 4, 40, causal=True, kv_heads=2, kv_sequence=70, align="bottom-right")

    def test_windows(self):
        for causal, window, right in [
            (False, (10, 2), 2),
            (False, (None, 9), 9),
            (False, (3, None), None),
            (False, (0, 0), 0),
            (True, (5, None), 0),
            (True, (5, 7), 0),
            (False, (2**40, 2**40), None),
        ]:
            with self.subTest(causal=causal, window=window):
                hosts, devices, out = self.inputs((1, 2, 150, 64))
                lse = self.output((1, 2, 150), dtype=numpy.float32)
                fa512.attention(*devices, causal=causal, window=window, out=out, lse=lse)
                self.check(out, hosts, window=(window[0], right))
                expected = reference(*hosts, window=(window[0], right))[1]
                numpy.testing.assert_allclose(lse.numpy(), expected, atol=1e-3)

    def test_lse_is_the_logarithm_of_the_sum(self):
        hosts, devices, out = self.inputs((1, 2, 33, 64))
        lse = self.output((1, 2, 33), dtype=numpy.float32)
        both = fa512.attention(*devices, causal=True, out=out, lse=lse)
        self.assertIs(both[0], out)
        self.assertIs(both[1], lse)
        self.check(out, hosts, causal=True)
        numpy.testing.assert_allclose(lse.numpy(), reference(*hosts, causal=True)[1], atol=1e-3)

    def test_the_layout_of_flash_attn(self):
        hosts = [random((2, 20, 3, 64), seed) for seed in range(3)]
        out = self.output((2, 20, 3, 64))
        fa512.attention(*(MACHINE.array(host) for host in hosts), layout="bshd", out=out)
        expected, _ = reference(*(host.swapaxes(1, 2) for host in hosts))
        numpy.testing.assert_allclose(out.numpy().swapaxes(1, 2), expected, rtol=1e-3, atol=2e-3)

    def test_views_of_a_fused_tensor(self):
        for kind in simulated.PROTOCOLS:
            with self.subTest(kind=kind.__name__):
                fused = random((2, 24, 3, 2, 64))
                hosts = [fused[:, :, part].swapaxes(1, 2) for part in range(3)]
                out = self.output((2, 2, 24, 64), kind)
                fa512.attention(*(MACHINE.array(host, kind) for host in hosts), out=out)
                self.check(out, hosts)

    def test_broadcast_and_sliced_inputs(self):
        hosts, devices, out = self.inputs((2, 3, 20, 64))
        shared = random((1, 1, 20, 64), 7)
        device = MACHINE.array(shared)
        device.shape, device.strides = (2, 3, 20, 64), (0, 0, 128, 2)
        sliced = random((2, 3, 50, 64), 8)[:, :, 5:45:2]
        fa512.attention(devices[0], device, MACHINE.array(sliced), out=out)
        self.check(out, [hosts[0], numpy.broadcast_to(shared, (2, 3, 20, 64)), sliced])

    def test_nothing_to_compute(self):
        for shape in [(0, 2, 8, 64), (1, 0, 8, 64), (1, 2, 0, 64)]:
            with self.subTest(shape=shape):
                empty = Interface.__new__(Interface)
                empty.shape, empty.dtype, empty.strides, empty.address = shape, numpy.dtype("f2"), None, 0
                self.assertIs(fa512.attention(empty, empty, empty, out=empty), empty)

    def test_queries_without_a_key(self):
        """Of tensors K and V without rows, in every order of O's dimensions."""
        (q, _, _), (device, _, _), _ = self.inputs((2, 3, 20, 64))
        empty = MACHINE.array(q[:, :, :0])
        for order in [(0, 1, 2), (0, 2, 1), (2, 1, 0)]:
            out = self.output(tuple(q.shape[dimension] for dimension in order) + (64,))
            out.shape, strides = q.shape, out.numpy().strides
            out.strides = tuple(strides[order.index(dimension)] for dimension in range(3)) + (2,)
            lse = self.output((2, 3, 20), dtype=numpy.float32)
            fa512.attention(device, empty, empty, out=out, lse=lse)
            numpy.testing.assert_array_equal(out.numpy(), 0)
            numpy.testing.assert_array_equal(lse.numpy(), -numpy.inf)

    def test_an_output_between_the_rows_of_an_input(self):
        both = random((2, 20, 2, 3, 64))
        hosts = [both[:, :, 0], random((2, 20, 3, 64), 1), random((2, 20, 3, 64), 2)]
        memory = MACHINE.array(both)
        views = []
        for place in range(2):
            view = Interface.__new__(Interface)
            view.__dict__.update(memory.__dict__)
            view.address, view.shape, view.strides = memory.address + place * 3 * 128, (2, 20, 3, 64), hosts[0].strides
            views.append(view)
        fa512.attention(views[0], *map(MACHINE.array, hosts[1:]), layout="bshd", out=views[1])
        got = memory.numpy()
        expected, _ = reference(*(host.swapaxes(1, 2) for host in hosts))
        numpy.testing.assert_allclose(got[:, :, 1].astype(numpy.float64), expected.swapaxes(1, 2), rtol=1e-3, atol=2e-3)
        numpy.testing.assert_array_equal(got[:, :, 0], both[:, :, 0])


class Streams(Case):
    def test_the_current_stream_of_the_library_is_taken(self):
        hosts, devices, out = self.inputs((1, 1, 16, 64), Exchanged, gpu=1)
        stream = MACHINE.stream()
        Exchanged.current, Exchanged.asked = {1: stream}, []
        self.addCleanup(lambda: setattr(Exchanged, "current", {}))
        MACHINE.use(0)
        fa512.attention(*devices, out=out)
        self.assertEqual(set(Exchanged.asked), {1})
        self.check(out, hosts)

    def test_a_producer_is_told_the_stream_that_is_given(self):
        hosts, devices, out = self.inputs((1, 1, 16, 64), Capsule)
        stream = MACHINE.stream()
        fa512.attention(*devices, out=out, stream=stream)
        self.assertEqual([device.asked for device in devices], [stream] * 3)
        self.check(out, hosts)
        # Without one, the call works on the legacy default stream, whose name in the protocol is 1.
        fa512.attention(*devices, out=out)
        self.assertEqual(devices[0].asked, 1)

    def test_streams_of_libraries(self):
        class Core:
            def __cuda_stream__(self):
                return (0, stream)

        class Torch:
            @property
            def cuda_stream(self):
                return stream

        class Cupy:
            @property
            def ptr(self):
                return stream

        stream = MACHINE.stream()
        hosts, devices, _ = self.inputs((1, 1, 16, 64))
        for one in (Core(), Torch(), Cupy()):
            out = self.output((1, 1, 16, 64))
            fa512.attention(*devices, out=out, stream=one)
            self.check(out, hosts)
        with self.assertRaisesRegex(TypeError, "stream is a list; it must be a number"):
            fa512.attention(*devices, out=out, stream=[])

    def test_the_stream_of_the_array_interface_is_taken(self):
        hosts, devices, out = self.inputs((1, 1, 16, 64))
        devices[0].stream = MACHINE.stream()
        fa512.attention(*devices, out=out)
        self.check(out, hosts)
        devices[1].stream = MACHINE.stream()
        with self.assertRaisesRegex(ValueError, "in use on different streams"):
            fa512.attention(*devices, out=out)

    def test_a_stream_of_another_gpu_is_refused(self):
        MACHINE.use(1)
        stream = MACHINE.stream()
        _, devices, out = self.inputs((1, 1, 16, 64), Capsule)
        with self.assertRaisesRegex(ValueError, "stream belongs to another context"):
            fa512.attention(*devices, out=out, stream=stream)


class Threads(Case):
    def test_many_threads_on_both_gpus(self):
        failures = []

        def work(number):
            try:
                # A thread begins without a context.
                hosts, devices, out = self.inputs((1, 1, 20 + number, 64), Exchanged, gpu=number % 2)
                MACHINE.use_none()
                fa512.attention(*devices, causal=number % 3 == 0, out=out)
                self.check(out, hosts, causal=number % 3 == 0)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_an_array_that_names_no_gpu_needs_a_current_context(self):
        _, devices, out = self.inputs((1, 1, 16, 64))
        MACHINE.use_none()
        with self.assertRaisesRegex(RuntimeError, "no current CUDA context"):
            fa512.attention(*devices, out=out)

    def test_the_callers_context_stays_current(self):
        _, devices, out = self.inputs((1, 1, 16, 64), Exchanged, gpu=1)
        MACHINE.use(0)
        fa512.attention(*devices, out=out)
        current = ctypes.c_void_p()
        simulated.check(MACHINE.driver.cuCtxGetCurrent(ctypes.byref(current)))
        self.assertEqual(current.value, MACHINE.contexts[0].value)


class Errors(Case):
    """Each is Python's, says what is wrong, and leaves the output as it was."""

    def refused(self, error, words, *arguments, **keywords):
        with self.assertRaisesRegex(error, words):
            fa512.attention(*arguments, **keywords)
        out = keywords.get("out")
        if isinstance(out, Interface) and out.dtype.kind == "f":
            self.assertTrue(numpy.isnan(out.numpy()).all(), "nothing was launched")

    def test_what_is_no_array(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64))
        self.refused(TypeError, "q is a int; it must be a tensor or array on a GPU", 1, k, v, out=out)
        self.refused(TypeError, "k is a NoneType", q, None, v, out=out)
        self.refused(TypeError, "v is a list", q, k, [], out=out)
        self.refused(ValueError, "q is on the CPU", numpy.zeros((1, 1, 16, 64), numpy.float16), k, v, out=out)
        self.refused(TypeError, "missing 1 required positional argument", q, k)
        self.refused(TypeError, "unexpected keyword argument", q, k, v, dropout=0.1)

    def test_types_and_shapes(self):
        _, (q, k, v), out = self.inputs((2, 2, 16, 64))
        array = MACHINE.array
        self.refused(TypeError, "q is float32; it must be float16", array(numpy.zeros((2, 2, 16, 64), "f4")), k, v, out=out)
        self.refused(TypeError, "k is int16; it must be float16", q, array(numpy.zeros((2, 2, 16, 64), "i2")), v, out=out)
        bfloat = array(to_bfloat16(random((2, 2, 16, 64))))
        self.refused(TypeError, "k is bfloat16; it must be float16", q, bfloat, v, out=out)
        self.refused(TypeError, "q is float32; it must be float16 or bfloat16", *[array(numpy.zeros((2, 2, 16, 64), "f4"))] * 3, out=out)
        self.refused(TypeError, "out is float16; it must be bfloat16", bfloat, bfloat, bfloat, out=out)
        bfloat.changes = {"descr": [("low", "|i1"), ("high", "|i1")]}
        self.refused(TypeError, "q.__cuda_array_interface__ has no usable typestr", bfloat, k, v, out=out)
        self.refused(ValueError, "q has 3 dimensions", array(random((2, 16, 64))), k, v, out=out)
        self.refused(ValueError, "head_dim is 36; it must be a multiple of 8 from 8 to 256", array(random((2, 2, 16, 36))), k, v, out=out)
        self.refused(ValueError, r"k has the shape \[2, 2, 16, 64\] and q \[2, 2, 16, 32\]", array(random((2, 2, 16, 32))), k, v, out=out)
        self.refused(ValueError, r"k has the shape \[3, 2, 16, 64\]", q, array(random((3, 2, 16, 64))), v, out=out)
        self.refused(ValueError, r"v has the shape \[2, 2, 16, 64\] and k \[2, 2, 17, 64\]", q, array(random((2, 2, 17, 64))), v, out=out)
        more = array(random((2, 4, 16, 64)))
        self.refused(ValueError, "Q has 2 heads, and K and V have 4", q, more, more, out=out)
        self.refused(ValueError, 'align is "top"; it must be', q, k, v, out=out, align="top")
        self.refused(ValueError, r"v has the shape \[2, 1, 16, 64\]", q, k, array(random((2, 1, 16, 64))), out=out)
        self.refused(ValueError, "out has the shape", q, k, v, out=self.output((2, 2, 8, 64)))
        self.refused(ValueError, "lse has the shape", q, k, v, out=out, lse=self.output((2, 2, 15), dtype=numpy.float32))
        self.refused(TypeError, "lse is float16", q, k, v, out=out, lse=self.output((2, 2, 16)))
        self.refused(ValueError, "has 5 dimensions", array(random((1, 2, 2, 16, 64))), k, v, out=out)

    def test_strides_and_addresses(self):
        _, (q, k, v), out = self.inputs((2, 2, 16, 64))
        array = MACHINE.array
        self.refused(ValueError, "Q has a row stride of 65", array(random((2, 2, 16, 65))[..., :64]), k, v, out=out)
        self.refused(ValueError, "k has a stride of 2 elements along its last", q, array(random((2, 2, 16, 128))[..., ::2]), v, out=out)
        self.refused(ValueError, "strides must not be negative", q, k, array(random((2, 2, 16, 64))[:, :, ::-1]), out=out)
        self.refused(ValueError, "Q is at address", array(random((2, 2, 16, 80))[..., 4:68]), k, v, out=out)
        self.refused(ValueError, "O at .* V at|O at", q, k, out, out=out)
        shared = self.output((2, 2, 16, 64))
        shared.strides = (0, 2048, 128, 2)
        self.refused(ValueError, "O has a batch stride of 0", q, k, v, out=shared)

    def test_options(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64))
        self.refused(ValueError, "negate Q and pass 0.5", q, k, v, scale=-0.5, out=out)
        self.refused(ValueError, "must be finite", q, k, v, scale=float("nan"), out=out)
        self.refused(ValueError, 'layout is "sbhd"; it must be "bhsd" or "bshd"', q, k, v, layout="sbhd", out=out)
        self.refused(ValueError, "the left side of window is -1; it must be a number of keys, or None", q, k, v, window=(-1, 2), out=out)
        self.refused(ValueError, "the right side of window is -3", q, k, v, causal=True, window=(None, -3), out=out)
        self.refused(TypeError, "give out=", q, k, v)
        self.refused(TypeError, "and lse= where LSE is wanted", q, k, v, out=out, return_lse=True)

    def test_every_option_of_another_type_is_named(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64))
        no_number = ["1", 1j, [1.0], numpy.zeros(2), 10**400]
        for name, values in {
            "causal": ["yes", None, 2, 0.5, []],
            "return_lse": ["yes", 2, numpy.zeros(2)],
            "window": [64, "ab", (1,), (1, 2, 3), [3.5, 2], (3, "2"), {"left": 1}],
            "scale": no_number,
            "softcap": no_number,
            "align": [5, None, b"top-left"],
            "layout": [5, None, b"bhsd"],
        }.items():
            for value in values:
                with self.subTest(**{name: value}):
                    self.refused(ValueError, f"^{name} is .*; it must be", q, k, v, out=out, **{name: value})
        self.refused(ValueError, "^the left side of window is -.*; it must be", q, k, v, out=out, window=(-(2**70), 1))
        for name in ("batch", "heads", "sequence", "device", "head_dim", "kv_heads", "kv_sequence", "sequences"):
            sizes = {"batch": 1, "heads": 1, "sequence": 16}
            for value, reason in (("1", "; it must be"), (1.5, "; it must be"), ([1], "; it must be"), (2**70, "more than 32 bits")):
                with self.subTest(**{name: value}), self.assertRaisesRegex(ValueError, f"^{name} is .*{reason}"):
                    fa512.warm_up(**{**sizes, name: value})

    def test_memory(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64))
        short = MACHINE.array(random((1, 1, 8, 64)))
        short.shape = (1, 1, 16, 64)
        self.refused(ValueError, "Q at .*its memory ends after 1024 bytes; the tensor spans 2048", short, k, v, out=out)
        q.address = 0
        self.refused(ValueError, "q has no memory .its address is 0., .* pass q.clone", q, k, v, out=out)
        q.address = 1 << 12
        self.refused(ValueError, "the driver knows no memory there", q, k, v, out=out)
        there = MACHINE.array(random((1, 1, 16, 64)), gpu=1)
        MACHINE.use(0)
        self.refused(ValueError, "it is memory of GPU 1; the current context is on GPU 0", there, k, v, out=out)

    def test_tensors_of_two_gpus(self):
        for kind in (Capsule, Exchanged):
            _, (q, k, v), out = self.inputs((1, 1, 16, 64), kind)
            other = MACHINE.array(random((1, 1, 16, 64)), kind, gpu=1)
            self.refused(ValueError, "k is on GPU 1 and q on GPU 0; they must be on one", q, other, v, out=out)
            self.refused(ValueError, "out is on GPU 1", q, k, v, out=other)
            other.gpu = 9
            self.refused(RuntimeError, "there is no GPU 9", other, other, other, out=other)

    def test_what_may_only_be_read(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64), Versioned)
        out.is_read_only = True
        self.refused(ValueError, "out may only be read", q, k, v, out=out)

    def test_damaged_interfaces(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64))
        for changes, words in [
            ({"shape": "four"}, "no usable shape"),
            ({"shape": None}, "no usable shape"),
            ({"typestr": ">f2"}, "no usable typestr"),
            ({"typestr": ""}, "no usable typestr"),
            ({"typestr": "é"}, "no usable typestr"),
            ({"data": 5}, "no usable data"),
            ({"data": (-1, False)}, "no usable data"),
            ({"strides": (1, 2)}, "no usable strides"),
            ({"strides": (3, 3, 3, 1)}, "no usable strides"),
            ({"stream": "s"}, "no usable stream"),
        ]:
            with self.subTest(changes=changes):
                q.changes = changes
                self.refused(TypeError, words, q, k, v, out=out)
        q.changes = {"mask": object()}
        self.refused(ValueError, "masked", q, k, v, out=out)
        q.changes = {"shape": (1, 1, -16, 64)}
        self.refused(ValueError, "", q, q, q, out=out)

        class Broken:
            @property
            def __cuda_array_interface__(self):
                return []

        self.refused(TypeError, "it must be a dict", Broken(), k, v, out=out)

    def test_damaged_dlpack(self):
        _, (q, k, v), out = self.inputs((1, 1, 16, 64), Capsule)

        class Broken(Capsule):
            def __dlpack__(self, stream=None):
                return self.answer

        broken = MACHINE.array(random((1, 1, 16, 64)), Broken)
        for answer, words in [(None, "returned no capsule"), (Exchanged.__dlpack_c_exchange_api__, "not DLPack's")]:
            broken.answer = answer
            self.refused(TypeError, words, broken, k, v, out=out)
        broken.__class__.__dlpack_device__ = lambda self: 2
        self.refused(TypeError, "no pair of device type and number", broken, k, v, out=out)
        shape, q.shape, strides, q.strides = q.shape, (), q.strides, ()
        self.refused(ValueError, "q has 0 dimensions", q, k, v, out=out)
        q.shape, q.strides = shape, strides
        for kind, words in [(1, "on the CPU"), (3, "pinned"), (10, "DLPack's type 10")]:
            q.device_kind = kind
            self.refused(ValueError, words, q, k, v, out=out)


class Elsewhere(Case):
    def test_warm_up_loads_a_kernel(self):
        fa512.warm_up(2, 2, 16, causal=True, device=1)
        with self.assertRaisesRegex(RuntimeError, "there is no GPU 7"):
            fa512.warm_up(2, 2, 16, device=7)
        with self.assertRaisesRegex(ValueError, "batch is 0"):
            fa512.warm_up(0, 2, 16)
        for name, sizes, more in [
            ("batch", (-1, 2, 16), {}),
            ("heads", (1, -2, 16), {}),
            ("sequence", (1, 2, 2**32), {}),
            ("device", (1, 2, 16), {"device": -1}),
            ("sequences", (1, 2, 16), {"sequences": -3}),
        ]:
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, f"^{name} is -?[0-9]+"):
                fa512.warm_up(*sizes, **more)

    def test_info_tells_what_is_there(self):
        info = fa512.info()
        self.assertIsNone(info["why_not"])
        self.assertEqual([gpu["architecture"] for gpu in info["gpus"]], [90, 90])
        self.assertGreater(info["kernels"], 0)
        self.assertRegex(info["driver"], r"^\d+\.\d+$")
