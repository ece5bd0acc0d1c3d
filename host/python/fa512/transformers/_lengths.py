"""Whether packed sequences have as many keys as queries, for models that pass both lengths."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from ..torch._library import version

_known_equal: tuple[Any, ...] = ()


def are_known_equal(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> bool:
    """Whether both hold the same lengths.

    Compares two tensors once, which waits for the GPU. While a graph is compiled or captured, and in inference mode, different tensors
    count as different.
    """
    global _known_equal
    if cu_seqlens_q is cu_seqlens_k:
        return True
    if cu_seqlens_q.shape != cu_seqlens_k.shape or torch.compiler.is_compiling():
        return False
    if cu_seqlens_q.data_ptr() == cu_seqlens_k.data_ptr() and cu_seqlens_q.stride() == cu_seqlens_k.stride():
        return True
    versions = (version(cu_seqlens_q), version(cu_seqlens_k))
    if None in versions:
        # Tensors of inference mode, whose writes leave no trace: to compare them in each layer would wait for the GPU each time.
        return False
    known = _known_equal
    if known and known[0]() is cu_seqlens_q and known[1]() is cu_seqlens_k and known[2] == versions:
        return True
    if cu_seqlens_q.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    if not torch.equal(cu_seqlens_q, cu_seqlens_k):
        return False
    _known_equal = (weakref.ref(cu_seqlens_q), weakref.ref(cu_seqlens_k), versions)
    return True
