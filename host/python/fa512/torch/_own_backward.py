"""fa512's own backward, for gradients that PyTorch's does not compute. It is deterministic."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .. import _native
from ._library import why_not_strides

MAXIMUM_HEAD_DIM = 128
"""The largest head size whose gradient the kernels compute."""


def why_not_own(query: Tensor, bias: Optional[Tensor] = None) -> Optional[str]:
    """The reason why fa512's own backward does not compute this gradient; None if it does."""
    if bias is not None and bias.requires_grad:
        return "the gradient of bias is required, which no backward here computes; pass bias.detach()"
    if query.shape[-1] > MAXIMUM_HEAD_DIM:
        return f"fa512's own backward takes head sizes up to {MAXIMUM_HEAD_DIM}, and query has {query.shape[-1]}"
    return None


def both_refuse(reason: Optional[str], query: Tensor, bias: Optional[Tensor] = None) -> Optional[str]:
    """Why neither backward computes a gradient that PyTorch's does not compute for this `reason`; None if one does."""
    own = None if reason is None else why_not_own(query, bias)
    return None if own is None else f"{reason}; {own}"


def of_batch(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV of [batch, heads, sequence, head size]; `options` are those of the forward pass."""
    gradients = _new(query, key, value, True)
    if _are_none(query, key):
        return _zeroed(gradients)
    _native.attention_backward(_aligned(grad), query, key, value, out, lse, *gradients, **options)
    return gradients


def of_packed(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, cu_seqlens: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of [rows, heads, head size]. Rows that belong to no sequence get zeros."""
    gradients = _new(query, key, value, False)
    if _are_none(query, key) or cu_seqlens.numel() < 2:
        return _zeroed(gradients)
    _native.attention_varlen_backward(_aligned(grad), query, key, value, out, lse, *gradients, cu_seqlens, **options)
    return gradients


def _are_none(query: Tensor, key: Tensor) -> bool:
    """Whether there is no query or no key, for which no kernel is launched."""
    return 0 in (query.numel(), key.numel())


def _zeroed(gradients: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    for gradient in gradients:
        gradient.zero_()
    return gradients


def _new(query: Tensor, key: Tensor, value: Tensor, is_batch: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Memory for the gradients, rows of one position together as PyTorch's backward returns them."""

    def new(tensor: Tensor) -> Tensor:
        rows = tensor.transpose(1, 2) if is_batch else tensor
        made = torch.empty_like(rows, memory_format=torch.contiguous_format)
        return made.transpose(1, 2) if is_batch else made

    return new(query), new(key), new(value)


def _aligned(grad: Tensor) -> Tensor:
    """`grad` with rows that kernels can read."""
    is_readable = why_not_strides((("grad", grad),)) is None and not grad.is_neg() and not grad._is_zerotensor()
    return grad if is_readable else grad.clone(memory_format=torch.contiguous_format).resolve_neg()
