#!/usr/bin/env python3
"""Runs the kernels that the tests wrote to a folder (PTX_SIM_DUMP) on a GPU and compares the outputs bit for bit.

usage: replay_on_gpu.py FOLDER

Needs nothing but the CUDA driver. Prints each kernel that the driver refuses or whose output differs; the exit status
is 1 if there is one. Approximate instructions may differ in the last bits and are listed like the others.
"""

import ctypes
import pathlib
import sys


class Driver:
    """The few functions of the CUDA driver that are needed, with errors as exceptions."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    def buffer(self, contents):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(contents)))
        self.call("cuMemcpyHtoD_v2", address, contents, ctypes.c_size_t(len(contents)))
        return address

    def run(self, text, threads, blocks, dynamic_shared, data, output_bytes):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"test")
        source, target = self.buffer(data), self.buffer(bytes(output_bytes))
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(source))
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, dynamic_shared, None, arguments, None)
        self.call("cuCtxSynchronize")
        result = ctypes.create_string_buffer(output_bytes)
        self.call("cuMemcpyDtoH_v2", result, target, ctypes.c_size_t(output_bytes))
        for address in (source, target):
            self.call("cuMemFree_v2", address)
        self.call("cuModuleUnload", module)
        return result.raw


def differences(simulated, measured):
    """The first differing words, as text."""
    pairs = [(offset, simulated[offset : offset + 4], measured[offset : offset + 4]) for offset in range(0, len(simulated), 4)]
    different = [(offset, a, b) for offset, a, b in pairs if a != b]
    shown = [f"+{offset}: simulated {a[::-1].hex()}, GPU {b[::-1].hex()}" for offset, a, b in different[:4]]
    return f"{len(different)} words differ: " + "; ".join(shown)


def main():
    cases = sorted(pathlib.Path(sys.argv[1]).glob("*.case"))
    driver = Driver()
    failures = 0
    for case in cases:
        text = case.with_suffix(".ptx").read_text()
        threads, blocks, dynamic_shared, data, expected = case.read_text().split(" ")
        data, expected = bytes.fromhex(data), bytes.fromhex(expected.strip())
        try:
            measured = driver.run(text, int(threads), int(blocks), int(dynamic_shared), data, len(expected))
            problem = None if measured == expected else differences(expected, measured)
        except RuntimeError as error:
            problem = str(error)
        if problem:
            failures += 1
            body = text.split("mov.u32 %lane, %tid.x;\n", 1)[-1]
            print(f"{case.stem}: {problem}\n{body}")
    print(f"{len(cases) - failures} of {len(cases)} kernels agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
