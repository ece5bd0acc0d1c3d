"""Shared by the operators: the library that they are defined in, its limits, casts, and error messages."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from .._arguments import refuse

LIBRARY = torch.library.Library("fa512", "DEF")
TAGS = (torch.Tag.pt2_compliant_tag,)

MAXIMUM_HEAD_DIM = 256
"""The largest head size that the kernels compute; all are multiples of ROW_ALIGNMENT."""
ELEMENTS = (torch.float16, torch.bfloat16)
"""The types that the kernels compute, all tensors of a call in one of them."""
ROW_ALIGNMENT = 8
"""Rows begin at multiples of so many elements."""

OPTIONS = "bool is_causal=False, float? scale=None, int? window_left=None, int? window_right=None"
"""What every operator takes behind its tensors. None is no limit of the window; the causal rule makes its right side 0."""

TOP_LEFT, BOTTOM_RIGHT = "top-left", "bottom-right"
ALIGN = f'str align="{TOP_LEFT}"'
"""What operators take whose keys may be others in number than the queries."""

DETERMINISTIC = "bool deterministic=False"
"""What operators take whose backward may be PyTorch's, which can be made deterministic."""

BELOW_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def cast(tensor: Tensor) -> Tensor:
    """Casts to autocast's type, as scaled_dot_product_attention does with its inputs."""
    is_cast = tensor.is_cuda and tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(torch.get_autocast_dtype("cuda")) if is_cast else tensor


def refuse_cpu(query: Tensor, *_: Any, **__: Any) -> Any:
    raise ValueError(f"query is on {query.device}; it must be on an NVIDIA GPU")


def needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def version(tensor: Tensor) -> Optional[int]:
    """A number that changes when the tensor is written; None for inference tensors, whose writes are not tracked."""
    return None if tensor.is_inference() else tensor._version


def why_not_rows(query: Tensor, key: Tensor, value: Tensor, may_differ: dict[int, str], heads: int = 1) -> Optional[str]:
    """The reason why tensors of these types, shapes and devices are not supported; None if they are.

    `may_differ` names the dimensions in which K may differ from Q; `heads` is the index of the heads dimension.
    """
    head_dim = query.shape[-1]
    if not 0 < head_dim <= MAXIMUM_HEAD_DIM or head_dim % ROW_ALIGNMENT:
        return f"query has a head size of {head_dim}; it must be a multiple of {ROW_ALIGNMENT}, at most {MAXIMUM_HEAD_DIM}"
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dtype not in ELEMENTS:
            return f"{name} is {tensor.dtype}; it must be torch.float16 or torch.bfloat16"
        if tensor.dtype != query.dtype:
            return f"{name} is {tensor.dtype} and query {query.dtype}; they must be of one type"
        if tensor.device != query.device:
            return f"{name} is on {tensor.device} and query on {query.device}; they must be on one GPU"
    if key.shape != query.shape:
        reason = _why_not_keys(query, key, may_differ, heads)
        if reason is not None:
            return reason
    if value.shape != key.shape:
        return f"value has the shape {list(value.shape)} and key {list(key.shape)}; they must be equal"
    return None


def _why_not_keys(query: Tensor, key: Tensor, may_differ: dict[int, str], dimension: int) -> Optional[str]:
    """The reason why K may not have this shape, given Q; None if it may."""
    sizes = list(enumerate(zip(key.shape, query.shape)))
    if key.dim() != query.dim() or any(of_key != of_query for at, (of_key, of_query) in sizes if at not in may_differ):
        names = " and ".join(may_differ.values())
        return f"key has the shape {list(key.shape)} and query {list(query.shape)}; they may differ in {names} only"
    if 0 in query.shape:
        return None
    if 0 in key.shape:
        return f"key has the shape {list(key.shape)}; it must hold a key"
    heads, shared = query.shape[dimension], key.shape[dimension]
    if heads % shared:
        return f"query has {heads} heads and key {shared}; the heads of query must be a multiple of those of key"
    return None


def why_not_window(left: Optional[int] = None, right: Optional[int] = None) -> Optional[str]:
    """The reason why this is not a valid window; None if it is."""
    for name, keys in (("window_left", left), ("window_right", right)):
        if keys is not None and keys < 0:
            return f"{name} is {keys}; it must be a number of keys, or None for no limit"
    return None


def why_not_align(align: str) -> Optional[str]:
    """The reason why this is not a valid alignment; None if it is."""
    if align in (TOP_LEFT, BOTTOM_RIGHT):
        return None
    return f'align is {align!r}; it must be "{TOP_LEFT}" or "{BOTTOM_RIGHT}"'


def why_not_lengths(name: str, lengths: Tensor, query: Tensor, what: str) -> Optional[str]:
    """The reason why these are not valid lengths of `what`; None if they are."""
    if lengths.dtype != torch.int32:
        return f"{name} is {lengths.dtype}; it must be torch.int32"
    if lengths.dim() != 1:
        return f"{name} has {lengths.dim()} dimensions; it must be [{what}]"
    if lengths.device != query.device:
        return f"{name} is on {lengths.device} and query on {query.device}; they must be on one GPU"
    return None


def can_shard_heads(query: Any, key: Any, dimension: int = 1) -> bool:
    """Whether sharding Q and K alike keeps each head of Q with the head of K and V that it shares. The specs are DTensor's."""
    heads, shared = query.shape[dimension], key.shape[dimension]
    if heads == shared:
        return True
    # DTensor shards over any combination of mesh dimensions, as long as each shard has a head.
    shards = {1}
    for size in key.mesh.shape:
        shards |= {count * size for count in shards}
    return all(shared % count == 0 for count in shards if count <= shared)


def _has_aligned_rows(tensor: Tensor) -> bool:
    # A model calls this in every layer, and each tensor query costs a good part of a microsecond.
    *outer, last = tensor.stride()
    for stride, size in zip(outer, tensor.shape):
        if stride % ROW_ALIGNMENT and size > 1:
            return False
    return last == 1


def why_not_strides(tensors: tuple[tuple[str, Tensor], ...]) -> Optional[str]:
    """The reason why tensors with these strides are not supported; None if they are."""
    for name, tensor in tensors:
        if not tensor.is_cuda:
            return f"{name} is on {tensor.device}; it must be on an NVIDIA GPU"
        if not _has_aligned_rows(tensor):
            return f"{name} has the strides {tensor.stride()}; rows must be without gaps, at multiples of 16 bytes"
        if tensor.storage_offset() % ROW_ALIGNMENT:
            return f"{name} begins at element {tensor.storage_offset()}, which is not at a multiple of 16 bytes"
    return None


def require_tensors(**given: Any) -> None:
    """Raises an error that names the first argument that is no tensor."""
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            refuse(name, tensor, "a PyTorch tensor")


def tensor_or_none(name: str, given: Any) -> Optional[Tensor]:
    if given is not None:
        require_tensors(**{name: given})
    return given


def without_keys(
    query: Tensor, key: Tensor, value: Tensor, rows: int, why_not: Callable[..., Optional[str]], *lengths: Optional[Tensor]
) -> Optional[tuple[Tensor, Tensor]]:
    """If K has no rows, which is dimension `rows`: O, zeros with gradients of zeros, and LSE, -inf in the shape of O without the head
    size. Else None."""
    if key.dim() <= rows or key.shape[rows] != 0 or query.numel() == 0:
        return None
    if torch.is_autocast_enabled("cuda"):
        query, key, value = cast(query), cast(key), cast(value)
    # Everything else must be as if there were keys.
    some = (tensor.new_empty(()).expand(*tensor.shape[:rows], query.shape[rows] + 1, *tensor.shape[rows + 1 :]) for tensor in (key, value))
    reason = why_not(query, *some, *lengths)
    if reason is not None:
        raise ValueError(reason)
    # The sums are 0, and let gradients of K and V be tensors, too.
    everything = torch.ones((), dtype=torch.bool, device=query.device)
    out = query.masked_fill(everything, 0) + (key.sum() + value.sum())
    return out, query.new_full(query.shape[:-1], float("-inf"), dtype=torch.float32)
