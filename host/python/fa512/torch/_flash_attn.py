"""flash-attn's functions, with its arguments and defaults.

What differs: `dropout_p` must be 0 and `block_table` None, and a query without keys has an LSE of -inf, not of +inf.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .._arguments import flag, no_dropout, number, refuse, rows_of, scale_of, softcap_of, window_of_flash_attn
from . import _batched, _packed
from ._library import (
    BOTTOM_RIGHT,
    MAXIMUM_HEAD_DIM,
    ROW_ALIGNMENT,
    TOP_LEFT,
    require_tensors,
    tensor_or_none,
    without_keys,
)

Result = Union[Tensor, tuple[Tensor, Tensor, None]]
"""O; with `return_attn_probs` O, LSE, and None where flash-attn returns what its dropout did."""


class _Asked(NamedTuple):
    """The arguments of every function behind its tensors and lengths, in flash-attn's order."""

    dropout_p: float
    softmax_scale: Optional[float]
    causal: bool
    window_size: tuple[int, int]
    softcap: float
    alibi_slopes: Optional[Tensor]
    deterministic: bool
    return_attn_probs: bool

    def limits(self, head_dim: int, queries: int, keys: int) -> tuple[Any, ...]:
        """The causal rule, the scale and the window of so many rows, as the operators take them."""
        no_dropout("dropout_p", self.dropout_p)
        scale = scale_of("softmax_scale", self.softmax_scale)
        # Zeros that fill up the heads do not change the default.
        scale = head_dim**-0.5 if scale is None and head_dim % ROW_ALIGNMENT else scale
        return flag("causal", self.causal), scale, *window_of_flash_attn("window_size", self.window_size, queries, keys)

    def scores(self) -> tuple[Optional[float], Optional[Tensor]]:
        """The softcap and the slopes, as the operators take them. A softcap of 0 or below is none."""
        softcap = number("softcap", self.softcap, "a number, where 0 is no softcap")
        slopes = tensor_or_none("alibi_slopes", self.alibi_slopes)
        return softcap_of("softcap", softcap if softcap and softcap > 0 else None), None if slopes is None else slopes.contiguous()

    def compute(self, module: ModuleType, name: str, options: tuple[Any, ...], deterministic: tuple[Any, ...]) -> tuple[Tensor, Any]:
        """O of a function of `module`, and LSE if it is asked for. `deterministic` are the arguments behind `options` that say so."""
        options = (*options, *deterministic) if flag("deterministic", self.deterministic) else options
        if flag("return_attn_probs", self.return_attn_probs):
            return getattr(module, f"{name}_with_lse")(*options)
        return getattr(module, name)(*options), None

    def result(self, out: Tensor, lse: Optional[Tensor], head_dim: int) -> Result:
        out = out if out.shape[-1] == head_dim else out[..., :head_dim]
        return (out, lse, None) if self.return_attn_probs and lse is not None else out


def _is_plain(asked: tuple[Any, ...]) -> bool:
    """Whether these arguments of `_Asked` are what most calls have: none but `causal`. Of a call without the dispatcher, kernels check the
    rest."""
    dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs = asked
    return (
        softmax_scale is alibi_slopes is None
        and type(dropout_p) is type(softcap) is float
        and dropout_p == softcap == 0
        and type(causal) is type(deterministic) is type(return_attn_probs) is bool
        and not (deterministic or return_attn_probs)
        and type(window_size) is tuple
        and window_size == (-1, -1)
    )


def _check(shape: str, **tensors: Any) -> None:
    """Raises an error that names the first argument that is no tensor of as many dimensions as `shape` tells."""
    require_tensors(**tensors)
    rank = shape.count(",") + 1
    for name, tensor in tensors.items():
        if tensor.dim() != rank:
            raise ValueError(f"{name} has the shape {list(tensor.shape)}; it must be {shape}")


def _filled(*tensors: Tensor) -> list[Tensor]:
    """Q, K and V whose heads kernels read: without gaps, and filled up with zeros to a multiple of `ROW_ALIGNMENT`."""
    head_dim = tensors[0].shape[-1]
    missing = -head_dim % ROW_ALIGNMENT
    # Other sizes are refused by their own name.
    if missing and head_dim < MAXIMUM_HEAD_DIM and all(tensor.shape[-1] == head_dim for tensor in tensors):
        return [torch.nn.functional.pad(tensor, (0, missing)) for tensor in tensors]
    # Operators name tensors of another layout.
    return [tensor.contiguous() if tensor.layout is torch.strided and tensor.stride()[-1] != 1 else tensor for tensor in tensors]


def _parts(name: str, stacked: Any, shape: str, parts: int) -> tuple[Tensor, ...]:
    """The tensors that are stacked in the third dimension from the end."""
    _check(shape, **{name: stacked})
    if stacked.shape[-3] != parts:
        raise ValueError(f"{name} has the shape {list(stacked.shape)}; it must be {shape}")
    return stacked.unbind(-3)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """flash-attn's `flash_attn_func` for float16 or bfloat16 tensors [batch, sequence, heads, head size].

    `k` and `v` may have fewer heads and another sequence length; `causal` and `window_size` then align the last query with the last key.
    Each query attends to `window_size` = (left, right) keys before and after it; -1 is no limit. `alibi_slopes` are float32 [heads] or
    [batch, heads].

    `return_attn_probs` returns (O, LSE, None). LSE, float32 [batch, heads, sequence], has no gradient. `deterministic` makes PyTorch's backward,
    of head sizes over 128, deterministic; all else always is. For that, `torch.use_deterministic_algorithms` is on while the host calls it.

    An unsupported argument is an error that names it, such as `dropout_p` other than 0.
    """
    others = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    if _is_plain(others):
        out = _batched._directly_bshd(q, k, v, causal, None, None, None, BOTTOM_RIGHT)
        if out is not None:
            return out
    asked = _Asked(*others)
    _check("[batch, sequence, heads, head size]", q=q, k=k, v=v)
    head_dim, limits, scores = q.shape[-1], asked.limits(q.shape[-1], q.shape[1], k.shape[1]), asked.scores()
    rows = _filled(q, k, v)
    if k.shape[1] == 0:
        nothing = without_keys(*(tensor.transpose(1, 2) for tensor in rows), 2, _batched.why_not)
        if nothing:
            return asked.result(nothing[0].transpose(1, 2), nothing[1], head_dim)
    options = (*rows, *limits, BOTTOM_RIGHT, *scores)
    return asked.result(*asked.compute(_batched, "_forward_bshd", options, (None, True)), head_dim)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """`flash_attn_func` of [batch, sequence, 3, heads, head size]: Q, K and V in one tensor."""
    asked = _Asked(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    q, k, v = _parts("qkv", qkv, "[batch, sequence, 3, heads, head size]", 3)
    return flash_attn_func(q, k, v, *asked)


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """`flash_attn_func` with K and V in one tensor [batch, sequence, 2, heads, head size]."""
    asked = _Asked(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    k, v = _parts("kv", kv, "[batch, sequence, 2, heads, head size]", 2)
    return flash_attn_func(q, k, v, *asked)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Optional[Tensor] = None,
) -> Result:
    """flash-attn's `flash_attn_varlen_func` for float16 or bfloat16 tensors [rows of all sequences, heads, head size].

    `k` and `v` may have fewer heads. Their sequences may have other lengths; `causal` and `window_size` then align the last query of each
    with its last key. If the lengths are those of `q`, pass the same tensor as `cu_seqlens_q` and `cu_seqlens_k`. `max_seqlen_q` and
    `max_seqlen_k` are the lengths of the longest sequences, or upper bounds; O is right in any case, gradients are not if they are too
    small. `alibi_slopes` are float32 [heads] or [sequences, heads]. LSE is [heads, rows]. All else is as for `flash_attn_func`.

    A `block_table` is an error.
    """
    others = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    if block_table is not None:
        refuse("block_table", block_table, "None")
    longest, longest_k = rows_of("max_seqlen_q", max_seqlen_q), rows_of("max_seqlen_k", max_seqlen_k)
    if cu_seqlens_q is cu_seqlens_k and _is_plain(others):
        out = _packed._directly(q, k, v, cu_seqlens_q, longest, causal)
        if out is not None:
            return out
    asked = _Asked(*others)
    _check("[rows of all sequences, heads, head size]", q=q, k=k, v=v)
    require_tensors(cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    keys = _packed.keys_apart(cu_seqlens_q, cu_seqlens_k, longest_k, BOTTOM_RIGHT)
    head_dim, limits, scores = q.shape[-1], asked.limits(q.shape[-1], q.shape[0], k.shape[0]), asked.scores()
    rows = _filled(q, k, v)
    nothing = without_keys(*rows, 0, _packed.why_not_varlen, cu_seqlens_q, *keys[:1])
    if nothing:
        return asked.result(nothing[0], nothing[1].transpose(0, 1), head_dim)
    options = (*rows, cu_seqlens_q, longest, *limits, *scores, *keys)
    of_keys = () if keys else (None, None, TOP_LEFT)
    return asked.result(*asked.compute(_packed, "_forward", options, (*of_keys, True)), head_dim)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """`flash_attn_varlen_func` of [rows of all sequences, 3, heads, head size]: Q, K and V in one tensor."""
    asked = _Asked(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    require_tensors(cu_seqlens=cu_seqlens)
    longest = rows_of("max_seqlen", max_seqlen)
    q, k, v = _parts("qkv", qkv, "[rows of all sequences, 3, heads, head size]", 3)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest, *asked)


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """`flash_attn_varlen_func` with K and V in one tensor [rows of all sequences, 2, heads, head size]."""
    asked = _Asked(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    k, v = _parts("kv", kv, "[rows of all sequences, 2, heads, head size]", 2)
    return flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *asked)
