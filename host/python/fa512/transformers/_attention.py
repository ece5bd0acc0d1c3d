"""The attention registered with transformers: which calls fa512 computes, and how."""

from __future__ import annotations

import logging
from typing import Any, Optional

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from .. import torch as _operators
from ..torch import _batched, _padded
from ..torch import _packed as _varlen
from ..torch._direct import attempt, is_unobserved
from ..torch._library import BOTTOM_RIGHT, TOP_LEFT, needs_gradient
from ..torch._scores import why_no_gradient_of_scores, why_not_scores
from . import _by_pytorch, _padding
from ._lengths import are_known_equal

_LOGGER = logging.getLogger("fa512.transformers")
_warned: set[str] = set()
# Arguments of transformers that change the result, and that neither the kernels nor PyTorch's attention support.
_NOBODY_COMPUTES = ("s_aux", "indices", "block_indices")
# PyTorch's attention has no softcap. For batches it takes a position bias as a mask; for packed sequences it does not.
_DROPPED_BY_PYTORCH = ("softcap", *_NOBODY_COMPUTES)
_DROPPED_OF_PACKED = (*_DROPPED_BY_PYTORCH, "position_bias")


@torch.compiler.assume_constant_result
def _warn(by: str, reason: str) -> bool:
    """Warns once per reason; while a model is being compiled, at compile time."""
    if reason not in _warned:
        _warned.add(reason)
        _LOGGER.warning("fa512: this attention is computed by %s: %s", by, reason)
    return True


def _cast_by_autocast(tensor: Tensor) -> Tensor:
    """The tensor as it will be after autocast, which casts inside the operator."""
    if tensor.is_cuda and torch.is_autocast_enabled("cuda"):
        return tensor.to(torch.get_autocast_dtype("cuda"))
    return tensor


def _why_not_options(dropout: float, others: dict[str, Any]) -> Optional[str]:
    if dropout != 0.0:
        return f"dropout is {dropout}; it must be 0"
    for name in _NOBODY_COMPUTES:
        if others.get(name) is not None:
            return f"{name} is given"
    if others.get("output_attentions"):
        return "output_attentions is set, and probabilities are not computed"
    return None


def _why_not_scores(q: Tensor, k: Tensor, v: Tensor, softcap: Optional[float], bias: Optional[Tensor]) -> Optional[str]:
    if needs_gradient(q, k, v, *([] if bias is None else [bias])):
        return why_no_gradient_of_scores(softcap, None, bias)
    return why_not_scores(q, k, softcap, None, bias)


def _bias(query: Tensor, keys: int, padding: Optional[Tensor], others: dict[str, Any]) -> Optional[Tensor]:
    """The position bias as the operators take it, with the padding's keys excluded."""
    bias = others.get("position_bias")
    if bias is None:
        return None
    bias = bias[..., :keys].to(query.dtype)
    if padding is not None:
        bias = bias.masked_fill(~padding.bool()[:, None, None, :], float("-inf"))
    return bias if bias.stride(-1) == 1 else bias.contiguous()


def _window(longest: int, others: dict[str, Any]) -> Optional[int]:
    """Number of keys that a query sees back, its own included; None for all."""
    window = others.get("sliding_window")
    return window if window is not None and window < longest else None


def _sides(window: Optional[int], causal: bool) -> tuple[Optional[int], Optional[int]]:
    """The window as the operators take it; without the causal mask it reaches as far ahead as back."""
    side = None if window is None else window - 1
    return side, None if causal else side


def _refuse(names: tuple[str, ...], others: dict[str, Any], by: str) -> None:
    """Raises an error for arguments that `by` would silently ignore."""
    for name in names:
        if others.get(name) is not None:
            raise ValueError(f"{name} is given, which neither fa512 nor {by} computes")


def _mask_for_sdpa(
    mask: Optional[Tensor], query: Tensor, key: Tensor, causal: bool, window: Optional[int]
) -> Optional[Tensor]:
    """SDPA's arguments: it reads no padding masks, has no windows, and aligns top-left. A four-dimensional mask already has all of
    that in it."""
    if mask is not None and mask.dim() != 2:
        return mask
    queries, keys = query.shape[2], key.shape[2]
    if window is None and causal and 1 < queries != keys:
        window = max(queries, keys)
    near = None if window is None else _by_pytorch.near(queries, keys, window, causal, query.device)
    if mask is None:
        return near
    seen = _padding.for_sdpa(mask, queries, causal)
    return seen if near is None else seen & near


def _why_not_keys(queries: int, keys: int, is_padded: bool, window: Optional[int]) -> Optional[str]:
    """The reason why these numbers of keys and queries are not supported; None if they are."""
    if queries != keys and is_padded:
        return f"padding is given with {queries} queries and {keys} keys"
    if queries > keys and window is not None:
        return f"a sliding window is given with {queries} queries and {keys} keys"
    return None


def attention_forward(
    strict: bool,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention of [batch, heads, sequence, head size], returned as [batch, sequence, heads, head size], as transformers calls it.

    Bottom-right aligned: earlier keys come from the cache.
    """
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is None and _is_packed(others):
        return _packed(strict, query, key, value, dropout, scaling, causal, others), None
    padding = attention_mask if attention_mask is not None and attention_mask.dim() == 2 else None
    if padding is not None:
        # Keys beyond the mask are not filled yet.
        key, value = (tensor[:, :, : padding.shape[1]] for tensor in (key, value))
    queries, keys = query.shape[2], key.shape[2]
    window = _window(max(queries, keys), others)
    options = (causal, scaling, *_sides(window, causal))
    softcap = others.get("softcap")
    reason = _why_not_options(dropout, others) or _why_not_keys(queries, keys, padding is not None, window)
    if attention_mask is not None and padding is None:
        reason = "a mask is given that is none of padding alone"
    if reason is None and others.get("position_bias") is None:
        out = _attempt((query, key, value), padding, options, softcap)
        if out is not None:
            return out, None
    q, k, v = _cast_by_autocast(query), _cast_by_autocast(key), _cast_by_autocast(value)
    reason = reason or _operators.why_not_here(q, k, v)
    bias = None if reason is not None else _bias(q, keys, padding, others)
    reason = reason or _why_not_scores(q, k, v, softcap, bias)
    is_packed = reason is None and padding is not None and bias is None
    packing = _padding.Packing.of(padding) if is_packed else None
    if packing is not None and not packing.is_whole:
        if window is None or not packing.has_gaps:
            q, k, v = packing.pack(q), packing.pack(k), packing.pack(v)
            out = torch.ops.fa512.attention_varlen(q, k, v, packing.cu_seqlens, packing.longest, *options, softcap)
            return packing.pad(out, query.shape[0]), None
        reason = "padding lies between tokens, and a sliding window counts it"
    if reason is None:
        out = torch.ops.fa512.attention(q, k, v, *options, BOTTOM_RIGHT, softcap, None, bias)
        return out.transpose(1, 2).contiguous(), None
    if strict:
        raise ValueError(f"fa512: {reason}")
    _refuse(_DROPPED_BY_PYTORCH, others, "scaled_dot_product_attention")
    _warn("scaled_dot_product_attention", reason)
    mask = _mask_for_sdpa(attention_mask, query, key, causal, window)
    if others.get("position_bias") is not None:
        others["position_bias"] = others["position_bias"][..., :keys]
    return sdpa_attention_forward(module, query, key, value, mask, dropout, scaling, is_causal, **others)


def _attempt(
    rows: tuple[Tensor, Tensor, Tensor], padding: Optional[Tensor], options: tuple[Any, ...], softcap: Optional[float]
) -> Optional[Tensor]:
    """The result where the kernels can be called directly; None where they cannot, and for a padded batch that is not right-padded."""
    if not is_unobserved(*rows):
        return None
    packing = None if padding is None else _padding.Packing.of(padding)
    if packing is None or packing.is_whole:
        out = attempt(_batched.forward_cuda, *rows, *options, BOTTOM_RIGHT, softcap)
        return None if out is None else out.transpose(1, 2).contiguous()
    if not packing.is_right_padded:
        return None
    q, k, v = (tensor.transpose(1, 2) for tensor in rows)
    # Queries and keys have the same lengths, so that both corners are one.
    return attempt(_padded.forward_cuda, q, k, v, packing.lengths, packing.lengths, *options, TOP_LEFT, softcap)


def _is_packed(others: dict[str, Any]) -> bool:
    """Whether the rows are packed sequences, without a mask that separates them."""
    lengths = others.get("cu_seq_lens_q")
    return lengths is not None and lengths.shape[0] > 2


def _packed(
    strict: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: float,
    scale: Optional[float],
    causal: bool,
    others: dict[str, Any],
) -> Tensor:
    """[1, rows, heads, head size] of packed sequences."""
    lengths, lengths_k = others["cu_seq_lens_q"], others.get("cu_seq_lens_k")
    if query.shape[0] != 1:
        raise ValueError(f"cu_seq_lens_q is given with a batch of {query.shape[0]}; packed sequences are a batch of 1")
    if lengths_k is not None and are_known_equal(lengths, lengths_k):
        lengths_k = None
    longest = int(others.get("max_length_q") or query.shape[2])
    longest_k = longest if lengths_k is None else int(others.get("max_length_k") or key.shape[2])
    is_direct = is_unobserved(query, key, value)
    cast = (query, key, value) if is_direct else map(_cast_by_autocast, (query, key, value))
    q, k, v = (tensor.squeeze(0).transpose(0, 1) for tensor in cast)
    window, softcap = _window(max(longest, longest_k), others), others.get("softcap")
    options = (causal, scale, *_sides(window, causal), softcap)
    keys = () if lengths_k is None else (None, lengths_k, longest_k, BOTTOM_RIGHT)
    reason = _why_not_options(dropout, others)
    if others.get("position_bias") is not None:
        reason = "position_bias is given, and sequences are packed"
    if reason is None and is_direct:
        out = attempt(_varlen.forward_cuda, q, k, v, lengths, longest, *options, *keys)
        if out is not None:
            return out.unsqueeze(0)
    reason = reason or _operators.why_not_varlen_here(q, k, v, lengths, lengths_k)
    reason = reason or _why_not_scores(q, k, v, softcap, None)
    if reason is None:
        return torch.ops.fa512.attention_varlen(q, k, v, lengths, longest, *options, *keys).unsqueeze(0)
    if strict:
        raise ValueError(f"fa512: {reason}")
    if lengths_k is not None:
        raise ValueError(f"cu_seq_lens_q and cu_seq_lens_k differ, and fa512 does not compute it: {reason}")
    _refuse(_DROPPED_OF_PACKED, others, "PyTorch's FlashAttention-2 of packed sequences")
    if dropout != 0.0:
        raise ValueError(f"dropout is {dropout}, which is not supported for packed sequences")
    _warn("PyTorch's FlashAttention-2", reason)
    return _by_pytorch.attention_varlen(q, k, v, lengths, longest, causal, scale, window)[None]
