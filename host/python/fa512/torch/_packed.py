"""Attention of packed sequences: the operators and the functions built on them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .. import _native
from .._arguments import align_of, flag, rows_of, scale_of, softcap_of, window_of
from . import _own_backward, _recorded
from ._determinism import determinism
from ._direct import by_the_way
from ._library import (
    ALIGN,
    BOTTOM_RIGHT,
    DETERMINISTIC,
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

_KEYS = f"Tensor? cu_seqlens_k=None, SymInt? max_seqlen_k=None, {ALIGN}"
_SEQUENCES = f"Tensor cu_seqlens, SymInt max_seqlen, {OPTIONS}, {SCORES}, {_KEYS}, {DETERMINISTIC}"
_TENSORS = "Tensor cu_seqlens, Tensor? cu_seqlens_k, Tensor? alibi_slopes"
_LENGTHS = f"{_TENSORS}, SymInt max_seqlen, SymInt? max_seqlen_k, {OPTIONS}, {SOFTCAP}, {ALIGN}, {DETERMINISTIC}"
define("attention_varlen", _SEQUENCES, _LENGTHS)


def why_not_varlen(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, cu_seqlens_k: Optional[Tensor] = None
) -> Optional[str]:
    """The reason why packed sequences of these types and shapes are not supported; None if they are."""
    if query.dim() != 3:
        return f"query has {query.dim()} dimensions; it must be [rows of all sequences, heads, head size]"
    reason = why_not_lengths("cu_seqlens", cu_seqlens, query, "sequences + 1")
    if reason is not None or cu_seqlens_k is None:
        return reason or why_not_rows(query, key, value, {1: "heads"})
    reason = why_not_lengths("cu_seqlens_k", cu_seqlens_k, query, "sequences + 1")
    if reason is None and cu_seqlens_k.shape != cu_seqlens.shape:
        elements = cu_seqlens_k.shape[0], cu_seqlens.shape[0]
        reason = f"cu_seqlens_k has {elements[0]} elements and cu_seqlens {elements[1]}; both must be [sequences + 1]"
    return reason or why_not_rows(query, key, value, {0: "rows", 1: "heads"})


def why_not_varlen_here(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, cu_seqlens_k: Optional[Tensor] = None
) -> Optional[str]:
    """`why_not_varlen`, also considering where the tensors lie."""
    reason = why_not_varlen(query, key, value, cu_seqlens, cu_seqlens_k)
    return reason or why_not_strides((("query", query), ("key", key), ("value", value)))


class _Options(NamedTuple):
    """The operators' arguments after `cu_seqlens`, in the order and with the defaults of their schemas."""

    max_seqlen: int
    is_causal: bool = False
    scale: Optional[float] = None
    window_left: Optional[int] = None
    window_right: Optional[int] = None
    softcap: Optional[float] = None
    alibi_slopes: Optional[Tensor] = None
    cu_seqlens_k: Optional[Tensor] = None
    max_seqlen_k: Optional[int] = None
    align: str = TOP_LEFT
    deterministic: bool = False

    def limits(self) -> tuple[Any, ...]:
        """What limits the keys of a query, and the scale."""
        return self[1:5]

    def scores(self) -> tuple[Any, ...]:
        """The score modifications."""
        return self[5:7]


# The kernels. Allocation, checks and launch are those of `fa512.attention_varlen`.


def forward_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_k: Optional[int] = None,
    align: str = TOP_LEFT,
    deterministic: bool = False,
    **more: Any,
) -> Any:
    return _native.attention_varlen(  # type: ignore[call-overload]
        query,
        key,
        value,
        cu_seqlens,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen=max_seqlen,
        causal=is_causal,
        window=(window_left, window_right),
        align=align,
        scale=scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        **more,
    )


_forward_with_lse_cuda = functools.partial(forward_cuda, return_lse=True)


def gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    cu_seqlens_k: Optional[Tensor],
    alibi_slopes: Optional[Tensor],
    max_seqlen: int,
    max_seqlen_k: Optional[int],
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    softcap: Optional[float] = None,
    align: str = TOP_LEFT,
    deterministic: bool = False,
) -> tuple[tuple[Tensor, Tensor, Tensor], bool]:
    """dQ, dK and dV by fa512's own backward, or of wider heads, where it can, by PyTorch's; and whether rows that belong to no sequence
    hold what memory held."""
    limits = (is_causal, scale, window_left, window_right)
    if not is_faster(query) and _can_pytorch(cu_seqlens, cu_seqlens_k, align, limits, (softcap, alibi_slopes)):
        lengths = (cu_seqlens, cu_seqlens_k, max_seqlen, max_seqlen_k)
        return _by_pytorch(grad, query, key, value, out, lse, *lengths, *limits, deterministic), True
    window = (window_left, window_right)
    options = {"causal": is_causal, "scale": scale, "window": window, "align": align, "softcap": softcap}
    tensors = {"cu_seqlens_k": cu_seqlens_k, "alibi_slopes": alibi_slopes, "max_seqlen": max_seqlen}
    return _own_backward.of_packed(grad, query, key, value, out, lse, cu_seqlens, **tensors, **options), False


def _by_pytorch(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    cu_seqlens_k: Optional[Tensor],
    max_seqlen: int,
    max_seqlen_k: Optional[int],
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own flash backward on O and LSE of fa512, which have the same meaning. Without dropout it reads no random numbers.

    It sums the gradients of K and V over the heads of Q that share them. Its alignment is bottom-right in each sequence. Rows that belong
    to no sequence get what memory held.
    """
    random = torch.empty(2, dtype=torch.uint64, device=query.device)
    cu_seqlens_k = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
    # PyTorch treats a window as wide as the longest keys as no limit, which is wrong if there are more queries than keys.
    longest_k = max(max_seqlen, max_seqlen_k or 0)
    lengths = (cu_seqlens, cu_seqlens_k, max_seqlen, longest_k)
    window = {"window_size_left": window_left, "window_size_right": window_right}
    with determinism(deterministic):
        return torch.ops.aten._flash_attention_backward(
            grad, query, key, value, out, lse, *lengths, 0.0, is_causal, random, random, scale=scale, **window
        )


def _zero_outside(cu_seqlens: Tensor, *gradients: Tensor) -> None:
    """Writes zeros into the rows that belong to no sequence: those before the first one, and those behind the last."""
    row = torch.arange(gradients[0].shape[0], dtype=torch.int32, device=cu_seqlens.device)
    outside = ((row < cu_seqlens[0]) | (row >= cu_seqlens[-1]))[:, None, None]
    for gradient in gradients:
        gradient.masked_fill_(outside, 0)


def backward_cuda(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    cu_seqlens_k: Optional[Tensor],
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """`gradients`, with zeros in rows that belong to no sequence."""
    results, has_others = gradients(grad, query, key, value, out, lse, cu_seqlens, cu_seqlens_k, *options)
    if has_others:
        _zero_outside(cu_seqlens, results[0])
        _zero_outside(cu_seqlens if cu_seqlens_k is None else cu_seqlens_k, *results[1:])
    return results


implement("attention_varlen", forward_cuda, _forward_with_lse_cuda, backward_cuda)


# Fake implementations: outputs without computation.


def _new_lse(query: Tensor) -> Tensor:
    rows, heads, _ = query.shape
    return query.new_empty((heads, rows), dtype=torch.float32)


def _why_not_arguments(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, *options: Any) -> Optional[str]:
    asked = _Options(*options)
    reason = why_not_varlen(query, key, value, cu_seqlens, asked.cu_seqlens_k) or why_not_align(asked.align)
    reason = reason or why_not_window(asked.window_left, asked.window_right)
    return reason or why_not_scores(query, key, asked.softcap, asked.alibi_slopes, sequences=cu_seqlens.shape[0] - 1)


register_fakes("attention_varlen", _why_not_arguments, new_like, _new_lse, torch.empty_like)


# Gradients.


def _can_pytorch(
    cu_seqlens: Tensor, cu_seqlens_k: Optional[Tensor], align: str, limits: tuple[Any, ...], scores: tuple[Any, ...]
) -> bool:
    """Whether PyTorch's backward computes the gradient. It takes one sequence or more."""
    has_limits = cu_seqlens_k is None or has_limits_of_pytorch(align, *limits)
    return cu_seqlens.numel() > 1 and are_unchanged(*scores) and has_limits


def has_limits_of_pytorch(
    align: str, is_causal: bool, scale: Optional[float], window_left: Optional[int], window_right: Optional[int]
) -> bool:
    """Whether PyTorch's backward knows these limits if K has other lengths than Q. It aligns bottom-right."""
    return align == BOTTOM_RIGHT or not (is_causal or window_left is not None or window_right is not None)


def _keep(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, *options: Any) -> Kept:
    asked = _Options(*options)
    longest_k = key.shape[0] if asked.max_seqlen_k is None else asked.max_seqlen_k
    longest = (asked.max_seqlen, None if asked.cu_seqlens_k is None else longest_k)
    options = (*asked.limits(), asked.softcap, asked.align, asked.deterministic)
    return Kept((cu_seqlens, asked.cu_seqlens_k, asked.alibi_slopes), (*longest, *options))


_record, *_through_autograd = register_autograd("attention_varlen", _keep, _forward_with_lse_cuda, backward_cuda)


_FORM = _recorded.FORMS["packed"]


def _recorded_with_lse(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    is_causal: bool = False,
    scale: Optional[float] = None,
    left: Optional[int] = None,
    right: Optional[int] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_k: Optional[int] = None,
    align: str = TOP_LEFT,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor]:
    """`_forward_with_lse_cuda` with a gradient, recorded in C++ where there are nodes for it."""
    if _recorded.can_keep(query, alibi_slopes):
        changes = (alibi_slopes, cu_seqlens, cu_seqlens_k)
        return _recorded.keep(_FORM, query, key, value, changes, is_causal, scale, left, right, align, softcap, max_seqlen)
    limits, scores = (is_causal, scale, left, right), (softcap, alibi_slopes)
    has_nodes = _can_pytorch(cu_seqlens, cu_seqlens_k, align, limits, scores)
    # PyTorch's backward leaves rows that belong to no sequence as they were.
    if has_nodes and _recorded.can_record(query, needs_own=True):
        of_keys = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
        return _recorded.attention_varlen(query, key, value, cu_seqlens, of_keys, max_seqlen, *limits)
    keys = (cu_seqlens_k, max_seqlen_k, align, deterministic)
    return _record(query, key, value, cu_seqlens, max_seqlen, *limits, *scores, *keys)


_directly = by_the_way(forward_cuda, _recorded_with_lse)
_forward, _forward_with_lse = register_calls(
    "attention_varlen", forward_cuda, _forward_with_lse_cuda, _recorded_with_lse, *_through_autograd
)
register_autocast("attention_varlen")
register_vmap("attention_varlen")
register_sharding("attention_varlen", Sharding(rows=1, lse=0, scores=1))


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: Optional[int] = None,
    *,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_k: Optional[int] = None,
    causal: bool = False,
    window: Optional[tuple[Optional[int], Optional[int]]] = None,
    align: str = TOP_LEFT,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    return_lse: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(scale · QKᵀ + mask) · V of packed sequences, with a gradient.

    `query`, `key` and `value` are float16 or bfloat16 [rows of all sequences, heads, head size]; `key` and `value` may have fewer heads,
    as for `attention`. Sequence s has the rows from cu_seqlens[s] up to cu_seqlens[s + 1]. `cu_seqlens` is int32 on their GPU, and the host
    does not wait for it. `max_seqlen` is the length of the longest sequence, or an upper bound.

    With `cu_seqlens_k`, sequences have other lengths in `key` and `value`, which may have another number of rows; `max_seqlen_k` is the
    longest of these. `align` then says how queries align with keys, as for `attention`. A query whose sequence has no key gets zeros.

    `window`, `softcap` and `alibi_slopes` (float32 [heads] or [sequences, heads]) are as for `attention`, within each sequence. LSE,
    float32 [heads, rows], has no gradient. With a gradient of head sizes over 128, `max_seqlen` and `max_seqlen_k` must not be too small.
    """
    is_plain = window is scale is softcap is alibi_slopes is cu_seqlens_k is max_seqlen_k is None and align is TOP_LEFT
    if is_plain and type(causal) is bool and return_lse is False and max_seqlen is not None:
        # What most calls ask for; kernels check the rest.
        out = _directly(query, key, value, cu_seqlens, rows_of("max_seqlen", max_seqlen), causal)
        if out is not None:
            return out
    require_tensors(query=query, key=key, value=value, cu_seqlens=cu_seqlens)
    longest = query.shape[0] if max_seqlen is None else rows_of("max_seqlen", max_seqlen)
    longest_k = None if max_seqlen_k is None else rows_of("max_seqlen_k", max_seqlen_k)
    keys = keys_apart(cu_seqlens, tensor_or_none("cu_seqlens_k", cu_seqlens_k), longest_k, align_of("align", align))
    options = (
        flag("causal", causal),
        scale_of("scale", scale),
        *window_of("window", window),
        softcap_of("softcap", softcap),
        tensor_or_none("alibi_slopes", alibi_slopes),
    )
    nothing = without_keys(query, key, value, 0, why_not_varlen, cu_seqlens, cu_seqlens_k)
    if flag("return_lse", return_lse):
        if nothing:
            return nothing[0], nothing[1].transpose(0, 1)
        return _forward_with_lse(query, key, value, cu_seqlens, longest, *options, *keys)
    return nothing[0] if nothing else _forward(query, key, value, cu_seqlens, longest, *options, *keys)


def keys_apart(
    cu_seqlens: Tensor, cu_seqlens_k: Optional[Tensor], max_seqlen_k: Optional[int], align: str
) -> tuple[Any, ...]:
    """The operators' arguments for lengths of keys; none if they equal those of queries, which faster kernels may compute."""
    return () if cu_seqlens_k is None or cu_seqlens_k is cu_seqlens else (cu_seqlens_k, max_seqlen_k, align)
