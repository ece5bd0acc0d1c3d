"""The snippets of docs/use/pytorch.md, on the CPU."""

import pathlib
import re
import tempfile
import unittest
import unittest.mock

import torch

import cpu
import fa512.torch
from models import save_for_sentences

DOCUMENT = pathlib.Path(__file__).resolve().parents[4] / "docs/use/pytorch.md"
DOWNLOADED = "BAAI/bge-base-en-v1.5"


class Documents(unittest.TestCase):
    def test_the_snippets_run(self):
        cpu.install()
        snippets = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
        self.assertEqual(sum(DOWNLOADED in snippet for snippet in snippets), 1)
        x = torch.randn(1, 2, 8, 64, dtype=torch.float16)
        why_not_here = unittest.mock.patch("fa512.torch.why_not_here", fa512.torch.why_not)
        with why_not_here, tempfile.TemporaryDirectory() as folder:
            # In place of a model that would have to be downloaded.
            save_for_sentences(folder)
            for snippet in snippets:
                with self.subTest(snippet=snippet):
                    program = compile(snippet.replace(DOWNLOADED, folder), str(DOCUMENT), "exec")
                    exec(program, {"q": x, "k": x, "v": x})
