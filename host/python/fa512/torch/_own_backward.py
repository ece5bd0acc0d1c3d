"""fa512's own backward, and where it is taken before PyTorch's. It is deterministic."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from .. import _native

FASTER_HEAD_DIM = 128
"""Up to this head size PyTorch's flash backward is slower. Of wider heads, fa512's own computes what PyTorch's does not."""


def is_faster(query: Tensor) -> bool:
    """Whether fa512's own backward is known to be faster than PyTorch's flash backward for such heads."""
    return query.shape[-1] <= FASTER_HEAD_DIM


def new_gradient(tensor: Tensor) -> Tensor:
    """A gradient of a batch as the backwards return it; PyTorch's orders dimensions whose order is open as [batch, sequence, heads,
    head size]."""
    return torch.empty_like(tensor) if is_faster(tensor) else torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2)


def of_batch(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV of a batch; `options` are those of the forward pass, and `dbias`, a tensor for dBias, if it is needed. Long sequences and sums
    of dBias take a workspace from PyTorch's allocator."""

    def allocate(size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=query.device)

    options["allocate"] = allocate
    made = (new_gradient(query), new_gradient(key), new_gradient(value))
    return _by(_native.attention_backward, made, grad, query, key, value, out, lse, **options)


def new_dbias(bias: Tensor) -> Tensor:
    """A tensor for dBias: of what a bias has one element for, all gradients are added up."""
    return torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)


def of_packed(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, cu_seqlens: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of [rows, heads, head size]. Rows that belong to no sequence get zeros."""
    made = (torch.empty_like(query), torch.empty_like(key), torch.empty_like(value))
    return _by(_native.attention_varlen_backward, made, grad, query, key, value, out, lse, cu_seqlens, **options)


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
            if options.get("dbias") is not None:
                options["dbias"].zero_()
            return tuple(gradient.zero_() for gradient in gradients)  # type: ignore[return-value]
        # Rows of a gradient may lie as kernels do not read them, or have no memory.
        grad = grad.clone(memory_format=torch.contiguous_format).resolve_neg()
        native(grad, query, key, value, out, lse, *gradients, *lengths, **options)
    return gradients
