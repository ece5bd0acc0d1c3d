"""The snippets of docs/use/pytorch.md, on the CPU."""

import pathlib
import re
import unittest
import unittest.mock

import torch

import cpu
import fa512.torch

DOCUMENT = pathlib.Path(__file__).resolve().parents[4] / "docs/use/pytorch.md"


class Documents(unittest.TestCase):
    def test_the_snippets_run(self):
        cpu.install()
        snippets = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
        # The model of the last one would have to be downloaded.
        runnable = [snippet for snippet in snippets if "BAAI/" not in snippet]
        self.assertEqual((len(snippets), len(runnable)), (4, 3))
        x = torch.randn(1, 2, 8, 64, dtype=torch.float16)
        with unittest.mock.patch("fa512.torch.why_not_here", fa512.torch.why_not):
            for snippet in runnable:
                with self.subTest(snippet=snippet):
                    exec(compile(snippet, str(DOCUMENT), "exec"), {"q": x, "k": x, "v": x})
