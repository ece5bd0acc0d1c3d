"""Score modifications before the softmax (softcap, ALiBi slopes, bias), as arguments of the operators and functions."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._arguments import MAXIMUM_SOFTCAP, MINIMUM_SOFTCAP

SCORES = "float? softcap=None, Tensor? alibi_slopes=None"
"""What every operator takes of them behind its other options; None is none."""
SOFTCAP = "float? softcap=None"
"""What of them a backward takes behind its other options."""
CHANGING = "Tensor? alibi_slopes=None, Tensor? bias=None"
"""What a backward of batches takes of them behind its other tensors."""
BIAS = "Tensor? bias=None"
"""What operators of batches take besides."""


def why_not_scores(
    query: Tensor,
    key: Tensor,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    sequences: Optional[int] = None,
) -> Optional[str]:
    """The reason why these score modifications are not supported; None if they are. Q and K of rank 3 are packed sequences, each of which
    may have its own slopes if their number is given."""
    if softcap is not None and not MINIMUM_SOFTCAP <= softcap <= MAXIMUM_SOFTCAP:
        return f"softcap is {softcap}; it must be from {MINIMUM_SOFTCAP:g} to {MAXIMUM_SOFTCAP:g}, or None"
    entries = sequences if query.dim() == 3 else query.shape[0]
    reason = None if alibi_slopes is None else _why_not_slopes(query, alibi_slopes, entries)
    return reason if bias is None or reason is not None else _why_not_bias(query, key, bias)


def _why_not_slopes(query: Tensor, slopes: Tensor, entries: Optional[int]) -> Optional[str]:
    if slopes.dtype != torch.float32:
        return f"alibi_slopes are {slopes.dtype}; they must be torch.float32"
    if slopes.device != query.device:
        return f"alibi_slopes are on {slopes.device} and query on {query.device}; they must be on one GPU"
    heads = query.shape[1]
    accepted: tuple[tuple[int, ...], ...] = ((heads,),) if entries is None else ((heads,), (entries, heads))
    if tuple(slopes.shape) not in accepted or not slopes.is_contiguous():
        shapes = " or ".join(str(list(shape)) for shape in accepted)
        return f"alibi_slopes have the shape {list(slopes.shape)} and strides {slopes.stride()}; they must be {shapes} without gaps"
    return None


def _why_not_bias(query: Tensor, key: Tensor, bias: Tensor) -> Optional[str]:
    if bias.dtype != query.dtype:
        return f"bias is {bias.dtype} and query {query.dtype}; they must be of one type"
    if bias.device != query.device:
        return f"bias is on {bias.device} and query on {query.device}; they must be on one GPU"
    *outer, keys = whole = [*query.shape[:3], key.shape[2]]
    *own, last = bias.shape or (0,)
    fits = len(own) <= len(outer) and all(size in (1, of_query) for size, of_query in zip(reversed(own), reversed(outer)))
    if not fits or last != keys or (keys > 1 and bias.stride(-1) != 1):
        return (
            f"bias has the shape {list(bias.shape)} and strides {bias.stride()}; it must be {whole}, where all but the last may be 1, "
            "and the last dimension without gaps"
        )
    return None


def are_unchanged(
    softcap: Optional[float] = None, alibi_slopes: Optional[Tensor] = None, bias: Optional[Tensor] = None
) -> bool:
    """Whether none of these is given. PyTorch's backward knows none."""
    return softcap is alibi_slopes is bias is None


def tensors_of(options: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among an operator's options."""
    return [option for option in options if isinstance(option, Tensor)]


def placement(spec: Any, rank: int, dimension: int) -> Any:
    """DTensor's placement of slopes (rank 2) or a bias (rank 4) when batches (dimension 0) or heads (1) are sharded. A dimension that is
    missing or of size 1 is replicated. None for what is not a tensor."""
    from torch.distributed.tensor import Replicate, Shard

    if not hasattr(spec, "placements"):
        return None
    own = dimension - (rank - len(spec.shape))
    return Shard(own) if own >= 0 and spec.shape[own] > 1 else Replicate()


def bias_of_mask(mask: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's `attn_mask`, boolean or of the type of Q, as a bias whose last dimension is full and contiguous."""
    if mask.dtype not in (torch.bool, query.dtype):
        raise ValueError(
            f"attn_mask is {mask.dtype} and query {query.dtype}; a mask must be boolean, or a bias of the type of query"
        )
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, float("-inf"))
    if mask.dim() > 0 and mask.shape[-1] == 1:
        mask = mask.expand(*mask.shape[:-1], key.shape[-2])
    return mask if mask.dim() == 0 or mask.stride(-1) == 1 else mask.contiguous()
