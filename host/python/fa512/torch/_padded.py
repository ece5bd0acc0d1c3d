"""Attention of padded batches, whose entries use only some of their rows: the operators and the function built on them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .. import _native
from .._arguments import align_of, flag, scale_of, softcap_of, window_of
from . import _own_backward, _recorded
from ._batched import Options
from ._library import (
    ALIGN,
    BOTTOM_RIGHT,
    OPTIONS,
    TOP_LEFT,
    require_tensors,
    tensor_or_none,
    why_not_align,
    why_not_lengths,
    why_not_rows,
    why_not_strides,
    why_not_window,
    without_keys,
)
from ._own_backward import is_faster
from ._packed import gradients as packed_gradients
from ._packed import has_limits_of_pytorch
from ._register import (
    Kept,
    Sharding,
    define,
    implement,
    new_like,
    register_autocast,
    register_autograd,
    register_calls,
    register_fakes,
    register_sharding,
    register_vmap,
)
from ._scores import SCORES, SOFTCAP, are_unchanged, why_not_scores

_LENGTHS = "Tensor? seqused_q, Tensor? seqused_k"
_SLOPES = "Tensor? alibi_slopes=None"
define("attention_padded", f"{_LENGTHS}, {OPTIONS}, {ALIGN}, {SCORES}", f"{_LENGTHS}, {_SLOPES}, {OPTIONS}, {ALIGN}, {SOFTCAP}")

_HEADS = 2


def why_not_padded(
    query: Tensor, key: Tensor, value: Tensor, seqused_q: Optional[Tensor] = None, seqused_k: Optional[Tensor] = None
) -> Optional[str]:
    """The reason why a padded batch of these types and shapes is not supported; None if it is."""
    if query.dim() != 4:
        return f"query has {query.dim()} dimensions; it must be [batch, sequence, heads, head size]"
    for name, used in (("seqused_q", seqused_q), ("seqused_k", seqused_k)):
        reason = None if used is None else why_not_lengths(name, used, query, "batch")
        if used is not None and reason is None and used.shape[0] != query.shape[0]:
            reason = f"{name} has {used.shape[0]} elements and query a batch of {query.shape[0]}; they must be equal"
        if reason is not None:
            return reason
    reason = why_not_rows(query, key, value, {1: "the sequence", _HEADS: "heads"}, _HEADS)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        reason = reason or _why_not_one_behind_the_other(name, tensor)
    return reason


def _why_not_one_behind_the_other(name: str, tensor: Tensor) -> Optional[str]:
    batch, rows = tensor.shape[:2]
    if batch <= 1 or rows == 0 or tensor.stride(0) == rows * tensor.stride(1):
        return None
    needed = f"a padded batch needs {rows * tensor.stride(1)}, entries that lie one behind the other"
    return f"{name} has a batch stride of {tensor.stride(0)}; {needed}"


def why_not_padded_here(
    query: Tensor, key: Tensor, value: Tensor, seqused_q: Optional[Tensor] = None, seqused_k: Optional[Tensor] = None
) -> Optional[str]:
    """`why_not_padded`, also considering where the tensors lie."""
    reason = why_not_padded(query, key, value, seqused_q, seqused_k)
    return reason or why_not_strides((("query", query), ("key", key), ("value", value)))


# The kernels. Checks and launch are those of `fa512.attention_padded`.


def _new_out(query: Tensor, seqused_q: Optional[Tensor]) -> Tensor:
    """O, with zeros in unused rows: a model computes on with them."""
    return new_like(query) if seqused_q is None else query.new_zeros(query.shape)


def _new_lse(query: Tensor) -> Tensor:
    batch, rows, heads, _ = query.shape
    return query.new_full((heads, batch, rows), float("-inf"), dtype=torch.float32)


def forward_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seqused_q: Optional[Tensor],
    seqused_k: Optional[Tensor],
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    align: str = TOP_LEFT,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    **more: Any,
) -> Any:
    return _native.attention_padded(  # type: ignore[call-overload, misc]
        query,
        key,
        value,
        seqused_q=seqused_q,
        seqused_k=seqused_k,
        causal=is_causal,
        window=(window_left, window_right),
        align=align,
        scale=scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        out=_new_out(query, seqused_q),
        **more,
    )


def _forward_with_lse_cuda(query: Tensor, key: Tensor, value: Tensor, *lengths_and_options: Any) -> tuple[Tensor, Tensor]:
    return forward_cuda(query, key, value, *lengths_and_options, lse=_new_lse(query))  # type: ignore[misc]


class _Base(NamedTuple):
    """What `_thirds` adds lengths to: element i is begins[i] + counts[i] · seqused[entries[i]], or ends[i] where all rows are used."""

    begins: Tensor
    counts: Tensor
    entries: Tensor
    ends: Tensor


def _thirds(seqused: Optional[Tensor], tensor: Tensor, is_query: bool) -> Tensor:
    """`cu_seqlens` of three packed sequences for each entry: its used queries and keys; its unused queries, without a key; its unused keys,
    without a query. Results and gradients of the last two are zeros, and the host needs no length."""
    batch, rows = tensor.shape[:2]
    base = _base(batch, rows, is_query, tensor.device)
    if seqused is None:
        return base.ends
    return torch.addcmul(base.begins, base.counts, seqused.clamp(0, rows).index_select(0, base.entries))


def _base(batch: int, rows: int, is_query: bool, device: torch.device) -> _Base:
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return _compute_base(batch, rows, is_query, device)
    # Of one stream: another would have to wait for it.
    return _kept_base(batch, rows, is_query, device, torch._C._cuda_getCurrentRawStream(device.index))


def _compute_base(batch: int, rows: int, is_query: bool, device: torch.device) -> _Base:
    element = torch.arange(3 * batch + 1, dtype=torch.int32, device=device)
    begins = (element + 1 if is_query else element) // 3 * rows
    # The begins of the second sequence of an entry, and for keys of the third, are behind what the first uses.
    counts = (element % 3 == 1) if is_query else (element % 3 != 0)
    counts = counts.int()
    return _Base(begins, counts, (element // 3).clamp(max=batch - 1), begins + counts * rows)


@functools.lru_cache(maxsize=64)
def _kept_base(batch: int, rows: int, is_query: bool, device: torch.device, _stream: int) -> _Base:
    # No gradient may keep what was made in inference mode.
    with torch.inference_mode(False):
        return _compute_base(batch, rows, is_query, device)


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    seqused_q: Optional[Tensor],
    seqused_k: Optional[Tensor],
    alibi_slopes: Optional[Tensor] = None,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    align: str = TOP_LEFT,
    softcap: Optional[float] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """fa512's own backward, or of wider heads, where it can, PyTorch's, of packed sequences. Unused rows get the gradient 0, whatever they
    hold."""
    asked = Options(is_causal, scale, window_left, window_right, align, softcap, alibi_slopes)
    if is_faster(query) or not _can_pytorch(query, key, seqused_q, seqused_k, asked):
        limits = {"causal": is_causal, "scale": scale, "window": (window_left, window_right), "align": align}
        tensors = (grad, query, key, value, out, lse, seqused_q, seqused_k)
        return _own_backward.of_padded(*tensors, softcap=softcap, alibi_slopes=alibi_slopes, **limits)
    rows = [tensor.flatten(0, 1) for tensor in (grad, query, key, value, out)]
    cu_seqlens, cu_seqlens_k = _thirds(seqused_q, query, True), _thirds(seqused_k, key, False)
    if _is_one_corner(query, key, seqused_q, seqused_k):
        # The last query of each sequence is at its last key, wherever the first ones are.
        align = BOTTOM_RIGHT
    lengths = (cu_seqlens, cu_seqlens_k, None, query.shape[1], key.shape[1])
    options = (is_causal, scale, window_left, window_right, None, align)
    packed: tuple[Any, ...] = (*rows, lse.flatten(1), *lengths, *options)
    gradients, _ = packed_gradients(*packed)
    return tuple(  # type: ignore[return-value]
        gradient.reshape(tensor.shape).contiguous() for gradient, tensor in zip(gradients, (query, key, value))
    )


implement("attention_padded", forward_cuda, _forward_with_lse_cuda, backward)


# Fake implementations: outputs without computation.


def _why_not_arguments(
    query: Tensor, key: Tensor, value: Tensor, seqused_q: Optional[Tensor], seqused_k: Optional[Tensor], *options: Any
) -> Optional[str]:
    asked = Options(*options)
    reason = why_not_padded(query, key, value, seqused_q, seqused_k) or why_not_align(asked.align)
    reason = reason or why_not_window(asked.window_left, asked.window_right)
    # For score modifications, entries count as packed sequences.
    return reason or why_not_scores(query.flatten(0, 1), key.flatten(0, 1), *asked.scores())


register_fakes("attention_padded", _why_not_arguments, new_like, _new_lse, new_like)


# Gradients.


def _can_pytorch(
    query: Tensor, key: Tensor, seqused_q: Optional[Tensor], seqused_k: Optional[Tensor], asked: Options
) -> bool:
    """Whether PyTorch's backward computes the gradient."""
    has_limits = _is_one_corner(query, key, seqused_q, seqused_k) or has_limits_of_pytorch(asked.align, *asked[:4])
    return are_unchanged(*asked.scores()) and has_limits


def _is_one_corner(query: Tensor, key: Tensor, seqused_q: Optional[Tensor], seqused_k: Optional[Tensor]) -> bool:
    """Whether both alignments are the same."""
    return seqused_q is None and seqused_k is None and query.shape[1] == key.shape[1]


def _keep(
    query: Tensor, key: Tensor, value: Tensor, seqused_q: Optional[Tensor], seqused_k: Optional[Tensor], *options: Any
) -> Kept:
    asked = Options(*options)
    return Kept((seqused_q, seqused_k, asked.alibi_slopes), asked[:6])


_record, *_through_autograd = register_autograd("attention_padded", _keep, _forward_with_lse_cuda, backward)


_FORM = _recorded.FORMS["padded"]


def _recorded_with_lse(
    query: Tensor, key: Tensor, value: Tensor, seqused_q: Optional[Tensor], seqused_k: Optional[Tensor], *options: Any
) -> tuple[Tensor, Tensor]:
    """`_forward_with_lse_cuda` with a gradient, recorded in C++ where there are nodes for it."""
    asked = Options(*options)
    if not _recorded.can_keep(query, asked.alibi_slopes):
        return _record(query, key, value, seqused_q, seqused_k, *options)
    return _recorded.keep(_FORM, query, key, value, (asked.alibi_slopes, seqused_q, seqused_k), *asked[:6])


_forward, _forward_with_lse = register_calls(
    "attention_padded", forward_cuda, _forward_with_lse_cuda, _recorded_with_lse, *_through_autograd
)
register_autocast("attention_padded")
register_vmap("attention_padded")
register_sharding("attention_padded", Sharding(rows=_HEADS, lse=0, scores=1), Sharding(rows=0, lse=1, lengths=0))


def attention_padded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seqused_q: Optional[Tensor] = None,
    seqused_k: Optional[Tensor] = None,
    causal: bool = False,
    window: Optional[tuple[Optional[int], Optional[int]]] = None,
    align: str = TOP_LEFT,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    return_lse: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(scale · QKᵀ + mask) · V of a padded batch, with a gradient.

    `query`, `key` and `value` are float16 or bfloat16 [batch, sequence, heads, head size]; `key` and `value` may have fewer heads and another
    sequence length, as for `attention`. Entry b uses its first seqused_q[b] queries and its first seqused_k[b] keys. Both are int32 [batch]
    on their GPU, and the host does not wait for them; if one is missing, all rows are used. Unused queries, and queries without a key, get
    zeros. Unused elements have no effect, and their gradient is 0.

    `align` says how the used queries align with the used keys, as for `attention`. `window`, `softcap` and `alibi_slopes` (float32 [heads])
    are as for `attention`, within the used rows. LSE, float32 [batch, heads, sequence], has no gradient.
    """
    require_tensors(query=query, key=key, value=value)
    lengths = tensor_or_none("seqused_q", seqused_q), tensor_or_none("seqused_k", seqused_k)
    options = (
        flag("causal", causal),
        scale_of("scale", scale),
        *window_of("window", window),
        align_of("align", align),
        softcap_of("softcap", softcap),
        tensor_or_none("alibi_slopes", alibi_slopes),
    )
    nothing = without_keys(query, key, value, 1, why_not_padded, *lengths)
    if not flag("return_lse", return_lse):
        return nothing[0] if nothing else _forward(query, key, value, *lengths, *options)
    if nothing:
        return nothing[0], nothing[1].transpose(1, 2)
    out, lse = _forward_with_lse(query, key, value, *lengths, *options)
    return out, lse.transpose(0, 1)
