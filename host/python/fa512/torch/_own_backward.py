"""fa512's own backward, and what it computes. It is deterministic."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from .. import _native

MAXIMUM_HEAD_DIM = 128
"""The largest head size whose gradient the kernels compute."""


def computes(query: Tensor) -> bool:
    """Whether fa512's own backward computes gradients of such heads. PyTorch's flash backward is slower."""
    return query.shape[-1] <= MAXIMUM_HEAD_DIM


def why_not_own(query: Tensor, bias: Optional[Tensor] = None) -> Optional[str]:
    """The reason why fa512's own backward does not compute this gradient; None if it does."""
    if bias is not None and bias.requires_grad:
        return "the gradient of bias is required, which no backward here computes; pass bias.detach()"
    if not computes(query):
        return f"fa512's own backward takes head sizes up to {MAXIMUM_HEAD_DIM}, and query has {query.shape[-1]}"
    return None


def both_refuse(reason: Optional[str], query: Tensor, bias: Optional[Tensor] = None) -> Optional[str]:
    """Why neither backward computes a gradient that PyTorch's does not compute for this `reason`; None if one does."""
    own = None if reason is None else why_not_own(query, bias)
    return None if own is None else f"{reason}; {own}"


def of_batch(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV of a batch; `options` are those of the forward pass. Long sequences take a workspace from PyTorch's allocator."""

    def allocate(size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=query.device)

    options["allocate"] = allocate
    return _by(_native.attention_backward, _like(query, key, value), grad, query, key, value, out, lse, **options)


def of_packed(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, cu_seqlens: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of [rows, heads, head size]. Rows that belong to no sequence get zeros."""
    return _by(_native.attention_varlen_backward, _like(query, key, value), grad, query, key, value, out, lse, cu_seqlens, **options)


def of_padded(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    seqused_q: Optional[Tensor],
    seqused_k: Optional[Tensor],
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a padded batch. Unused rows get zeros, which no kernel writes."""
    pairs = ((query, seqused_q), (key, seqused_k), (value, seqused_k))
    made = [tensor.new_empty(tensor.shape) if used is None else tensor.new_zeros(tensor.shape) for tensor, used in pairs]
    options = {"seqused_q": seqused_q, "seqused_k": seqused_k, **options}
    return _by(_native.attention_padded_backward, tuple(made), grad, query, key, value, out, lse, **options)  # type: ignore[arg-type]


def _like(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(map(torch.empty_like, tensors))  # type: ignore[return-value]


def _by(
    native: Callable[..., None],
    gradients: tuple[Tensor, Tensor, Tensor],
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    *lengths: Tensor,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    try:
        native(grad, query, key, value, out, lse, *gradients, *lengths, **options)
    except (ValueError, BufferError):
        # To ask before takes longer than most of the call.
        if 0 in (query.numel(), key.numel()) or any(bounds.numel() < 2 for bounds in lengths):
            return tuple(gradient.zero_() for gradient in gradients)  # type: ignore[return-value]
        # Rows of a gradient may lie as kernels do not read them, or have no memory.
        grad = grad.clone(memory_format=torch.contiguous_format).resolve_neg()
        native(grad, query, key, value, out, lse, *gradients, *lengths, **options)
    return gradients
