"""CuPy, whose extension modules have NVIDIA's static runtime in them."""

import cupy

print(cupy.arange(10).sum())
