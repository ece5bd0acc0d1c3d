"""The package as it is installed: importable without anything else, and described as it is."""

import inspect
import os
import pathlib
import re
import subprocess
import sys
import unittest

import fa512


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )


class Package(unittest.TestCase):
    def test_importing_brings_in_nothing_else(self):
        program = "import sys; import fa512; print(*sorted({'torch', 'numpy', 'cupy', 'jax', 'transformers'} & set(sys.modules)))"
        done = run(program)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, ""), done.stderr)

    def test_without_a_driver_a_call_and_info_say_so(self):
        program = """
import fa512
class Array:
    __cuda_array_interface__ = {"shape": (1, 1, 8, 64), "typestr": "<f2", "data": (4096, False), "version": 3}
print(fa512.info()["why_not"])
try:
    fa512.attention(Array(), Array(), Array(), out=type("O", (), {"__cuda_array_interface__": {
        "shape": (1, 1, 8, 64), "typestr": "<f2", "data": (1 << 20, False), "version": 3}})())
except RuntimeError as error:
    print(error)
"""
        done = run(program, LD_LIBRARY_PATH="")
        if "no CUDA driver" not in done.stdout:
            self.skipTest("this machine has a driver")
        self.assertEqual(done.stdout.count("no CUDA driver: libcuda.so.1"), 2, done.stdout + done.stderr)

    def test_the_snippets_of_the_documents_run(self):
        """Those that need neither tensors nor another package."""
        documents = pathlib.Path(__file__).resolve().parents[3] / "docs/use"
        snippets = re.findall(r"^```python\n(.*?)^```", (documents / "python.md").read_text(), re.M | re.S)
        runnable = [snippet for snippet in snippets if "(q, k, v" not in snippet]
        self.assertEqual(len(runnable), 2, "python.md has other snippets")
        for snippet in runnable:
            done = run(snippet)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.strip(), snippet)

    def test_everything_has_a_docstring(self):
        for name in fa512.__all__:
            if name != "__version__":
                self.assertTrue(inspect.getdoc(getattr(fa512, name)), name)

    def test_the_type_stubs_are_there(self):
        folder = os.path.dirname(fa512.__file__)
        for name in ("py.typed", "__init__.pyi", "_native.pyi"):
            self.assertTrue(os.path.isfile(os.path.join(folder, name)), name)
