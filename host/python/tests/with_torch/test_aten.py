"""Kernels of PyTorch's flash attentions in C: what `by_c` tests, and whether they are registered."""

import pathlib
import subprocess
import sys
import unittest

import torch

import fa512.torch  # noqa: F401: this registers them
from fa512 import _native

KEY = "CustomRNGKeyId"
BEGIN = f"""
import ctypes, os, torch
from fa512 import _native
def has(name):
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{{name}}", "{KEY}")
SDPA, FLASH = "_scaled_dot_product_flash_attention", "_flash_attention_forward"
"""
WITHOUT_A_FUNCTION = """
assert not _native.implement_aten(KEY, functions={"torch_get_const_data_ptr": 0})
assert not _native.implement_aten(KEY), "the first call decides"
assert not has(SDPA) and not has(FLASH)
from fa512.torch import _recorded
assert _recorded.IS_POSSIBLE and has(SDPA) and has(FLASH)
"""
HALF_REGISTERED = """
library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64)
def implement(handle, name, kernel, version):
    return 1 if name.decode() == FLASH else library.torch_library_impl(ctypes.c_void_p(handle), name, ctypes.c_void_p(kernel),
                                                                        ctypes.c_uint64(version))
assert not _native.implement_aten(KEY, functions={"torch_library_impl": ctypes.cast(implement, ctypes.c_void_p).value})
assert not has(SDPA) and not has(FLASH)
"""
REGISTERED = """
assert _native.implement_aten(KEY) and has(SDPA) and has(FLASH)
"""


class Aten(unittest.TestCase):
    def run_python(self, *arguments):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_in_a_process_of_their_own(self):
        done = self.run_python(pathlib.Path(__file__).with_name("by_c.py"))
        # PyTorch writes what fails in its functions; a refusal is no such failure.
        self.assertNotIn("aoti_torch", done.stderr)

    @unittest.skipUnless(torch.version.cuda, "this PyTorch has no CUDA")
    def test_all_are_registered_or_none(self):
        for script in (WITHOUT_A_FUNCTION, HALF_REGISTERED, REGISTERED):
            with self.subTest(script):
                self.run_python("-c", f"KEY = {KEY!r}{BEGIN}{script}")
        self.assertTrue(_native.implement_aten(KEY))


if __name__ == "__main__":
    unittest.main()
