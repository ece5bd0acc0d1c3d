"""tinygrad's own kernels, some of them in a graph."""

import numpy as np
from tinygrad import Tensor, TinyJit, dtypes


@TinyJit
def layer(a, b):
    return ((a @ b).relu().softmax() + 1).realize()


for _ in range(4):
    a, b = (Tensor(np.random.rand(32, 32).astype(np.float32)).realize() for _ in range(2))
    m = np.maximum(a.numpy() @ b.numpy(), 0)
    e = np.exp(m - m.max(-1, keepdims=True))
    np.testing.assert_allclose(layer(a, b).numpy(), e / e.sum(-1, keepdims=True) + 1, rtol=1e-4)
image, kernel = Tensor.rand(4, 3, 8, 8), Tensor.rand(4, 3, 3, 3)
assert np.isfinite(image.conv2d(kernel).max_pool2d().mean().item())
h = Tensor.rand(64, 64, dtype=dtypes.half)
expected = h.numpy().astype(np.float32) @ h.numpy().astype(np.float32)
np.testing.assert_allclose((h @ h).float().numpy(), expected, rtol=1e-2)
