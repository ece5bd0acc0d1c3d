"""The attention registered with transformers: which calls fa512 computes, and how."""

from __future__ import annotations

import logging
from typing import Any, Callable, Optional, Union

import torch
from torch import Tensor
from transformers.utils.import_utils import is_tracing

from .. import torch as _operators
from ..torch import _batched
from ..torch import _packed as _varlen
from ..torch._library import BOTTOM_RIGHT
from ..torch._scores import why_not_scores
from . import _by_pytorch, _masks
from ._by_pytorch import is_given
from ._lengths import are_known_equal
from ._masks import Mask, Rows
from ._models import count_packed

_LOGGER = logging.getLogger("fa512.transformers")
_warned: set[str] = set()

Result = tuple[Tensor, Optional[Tensor]]
"""[batch, queries, heads, head size], and probabilities where the model's own attention computed them."""


@torch.compiler.assume_constant_result
def _warn(by: str, reason: str) -> bool:
    """Warns once per reason; while a model is being compiled, at compile time."""
    if reason not in _warned:
        _warned.add(reason)
        _LOGGER.warning("fa512: this attention is computed by %s: %s", by, reason)
    return True


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
) -> Result:
    """Attention of [batch, heads, sequence, head size], returned as [batch, sequence, heads, head size], as transformers calls it.

    Bottom-right aligned: earlier keys come from the cache.
    """
    causal = getattr(module, "is_causal", None) if is_causal is None else is_causal
    flags = _masks.of_flags(bool(causal), others.get("sliding_window"), query.shape[0], query.shape[2], key.shape[2])
    reason = _why_not_options(module, dropout, others)
    if causal is None and attention_mask is None:
        reason = reason or "the layer does not say whether it is causal"
    tensors = (query, key, value)
    if others.get("cu_seq_lens_q") is not None:
        return _packed(strict, module, tensors, attention_mask, flags, dropout, scaling, reason, others)
    mask = _mask(attention_mask, flags, others.get("position_ids"))
    if isinstance(mask, Mask):
        if key.shape[2] > mask.keys:
            # They are not filled yet.
            tensors = (query, key[:, :, : mask.keys], value[:, :, : mask.keys])
        out, reason = _attention(tensors, mask, scaling, reason, others)
        if out is not None:
            return out, None
    else:
        reason = reason or "a mask is given that is more than padding, a window or packed sequences"
    if strict:
        raise ValueError(f"fa512: {reason} (in {type(module).__name__})")
    _warn("PyTorch", str(reason))
    if others.get("position_bias") is not None:
        others["position_bias"] = others["position_bias"][..., : tensors[1].shape[2]]
    return _by_pytorch.attention(module, *tensors, mask, dropout, scaling, others)


def _why_not_options(module: torch.nn.Module, dropout: float, others: dict[str, Any]) -> Optional[str]:
    if dropout != 0.0:
        return f"dropout is {dropout}; it must be 0"
    for name in _by_pytorch.lacked_arguments(type(module).__module__):
        if name in others and is_given(others[name]):
            return f"{name} is given"
    if others.get("output_attentions"):
        return "output_attentions is set, and probabilities are not computed"
    return None


def _mask(given: Optional[Tensor], flags: Mask, positions: Optional[Tensor]) -> Union[Mask, Tensor]:
    """What is said of which keys a query sees; a tensor of elements if that is more than a `Mask`."""
    if given is None:
        return _with_restarts(flags, positions, False)
    mask = _masks.attached(given)
    if mask is None:
        if not _masks.is_read(given):
            return given
        mask = _masks.of_tensor(given, flags)
        # To read it would wait for the GPU.
        return mask.elements(given.device) if torch.compiler.is_compiling() else mask
    if (mask.batch, mask.queries) == (flags.batch, flags.queries) and mask.keys <= flags.keys:
        return _with_restarts(mask, positions, True)
    if mask.limits.are_none and mask.sequences is None and (mask.batch, mask.keys) == (flags.batch, flags.keys):
        # Without limits a mask says the same to any number of queries.
        return Mask((mask.batch, flags.queries, mask.keys), mask.limits, mask.padding)
    return mask.elements(given.device)


def _with_restarts(mask: Mask, positions: Optional[Tensor], is_kept: bool) -> Mask:
    """With the packed sequences that positions speak of, in a batch of one, without cached keys."""
    if positions is None or not mask.is_plain or mask.queries != mask.keys or mask.queries == 1:
        return mask
    if positions.dim() == 2 and positions.shape[-1] != mask.queries and not is_kept:
        found = f"position_ids have the shape {list(positions.shape)}"
        raise ValueError(f"{found}, and there is no mask that says which of {mask.queries} tokens belong together")
    if mask.batch != 1 or positions.shape != (1, mask.queries) or is_tracing(positions):
        return mask
    return mask.with_restarts(positions, is_kept)


def _attention(
    tensors: tuple[Tensor, Tensor, Tensor], mask: Mask, scaling: Optional[float], reason: Optional[str], others: dict[str, Any]
) -> tuple[Optional[Tensor], Optional[str]]:
    """The result, or the reason why fa512 does not compute it."""
    causal, left, right = mask.options
    if reason is None and mask.queries > mask.keys and left is not None:
        reason = f"a sliding window is given with {mask.queries} queries and {mask.keys} keys"
    if reason is not None:
        return None, reason
    options, softcap = (causal, scaling, left, right), others.get("softcap")
    if others.get("position_bias") is not None:
        return _with_bias(tensors, mask, options, softcap, others["position_bias"])
    if mask.is_plain:
        arguments = (*tensors, *options, BOTTOM_RIGHT, softcap)
        out, reason = _attempt(_batched._forward, _why_not_batched, arguments)
        return (None, reason) if out is None else (out.transpose(1, 2).contiguous(), None)
    rows = mask.rows()
    if rows is None:
        return None, "padding lies between tokens or on both sides, and the mask counts it"
    arguments = (*_in_rows(tensors, rows), rows.cu_seqlens, rows.longest, *options, softcap, None, *rows.keys())
    out, reason = _attempt(_varlen._forward, _why_not_varlen, arguments)
    return (None, reason) if out is None else (out.unflatten(0, (mask.batch, mask.queries)), None)


def _attempt(
    function: Callable[..., Tensor], why_not: Callable[..., Optional[str]], arguments: tuple[Any, ...]
) -> tuple[Optional[Tensor], Optional[str]]:
    """The result of a function, or the reason why it is not supported, which is asked only where it fails: to ask takes longer than to
    call."""
    failure = None
    if not torch.compiler.is_compiling():
        try:
            return function(*arguments), None
        except (TypeError, ValueError, NotImplementedError) as error:
            failure = error
    reason = why_not(*arguments)
    if reason is not None:
        return None, reason
    if failure is not None:
        raise failure
    return function(*arguments), None


def _why_not_batched(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Optional[str]:
    q, k, v = map(_cast_by_autocast, (query, key, value))
    asked = _batched.Options(*options)
    return _operators.why_not_here(q, k, v) or why_not_scores(q, k, *asked.scores())


def _why_not_varlen(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, *options: Any) -> Optional[str]:
    q, k, v = map(_cast_by_autocast, (query, key, value))
    asked = _varlen._Options(*options)
    reason = _operators.why_not_varlen_here(q, k, v, cu_seqlens, asked.cu_seqlens_k)
    return reason or why_not_scores(q, k, *asked.scores())


def _with_bias(
    tensors: tuple[Tensor, Tensor, Tensor], mask: Mask, options: tuple[Any, ...], softcap: Optional[float], bias: Tensor
) -> tuple[Optional[Tensor], Optional[str]]:
    """The result with a position bias, which also excludes padding; or the reason why there is none."""
    if mask.sequences is not None:
        return None, "position_bias is given, and sequences are packed"
    bias = bias[..., : mask.keys].to(_cast_by_autocast(tensors[0]).dtype)
    if mask.padding is not None:
        bias = bias.masked_fill(~mask.padding[:, None, None, :], float("-inf"))
    bias = bias if bias.stride(-1) == 1 else bias.contiguous()
    out, reason = _attempt(_batched._forward, _why_not_batched, (*tensors, *options, BOTTOM_RIGHT, softcap, None, bias))
    return (None, reason) if out is None else (out.transpose(1, 2).contiguous(), None)


def _cast_by_autocast(tensor: Tensor) -> Tensor:
    """The tensor as it will be after autocast, which casts inside the operator."""
    if tensor.is_cuda and torch.is_autocast_enabled("cuda"):
        return tensor.to(torch.get_autocast_dtype("cuda"))
    return tensor


def _in_rows(tensors: tuple[Tensor, Tensor, Tensor], rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """[batch, heads, sequence, head size] as [rows, heads, head size], without a copy where a model projects all heads at once."""
    q, k, v = (tensor.transpose(1, 2).flatten(0, 1) for tensor in tensors)
    return (q, k, v) if rows.tokens is None else (q, k.index_select(0, rows.tokens), v.index_select(0, rows.tokens))


def _packed(
    strict: bool,
    module: torch.nn.Module,
    tensors: tuple[Tensor, Tensor, Tensor],
    given: Optional[Tensor],
    flags: Mask,
    dropout: float,
    scaling: Optional[float],
    reason: Optional[str],
    others: dict[str, Any],
) -> Result:
    """Packed sequences, whose bounds the model was given: whatever mask it made of them speaks of limits only."""
    count_packed()
    lengths, lengths_k = others["cu_seq_lens_q"], others.get("cu_seq_lens_k")
    if flags.batch != 1:
        raise ValueError(f"cu_seq_lens_q is given with a batch of {flags.batch}; packed sequences are a batch of 1")
    if lengths_k is not None and are_known_equal(lengths, lengths_k):
        lengths_k = None
    mask = _masks.attached(given)
    limits = flags if mask is None else Mask((1, flags.queries, flags.keys), mask.limits)
    longest = int(others.get("max_length_q") or flags.queries)
    longest_k = longest if lengths_k is None else int(others.get("max_length_k") or flags.keys)
    causal, left, right = limits.options
    options = (causal, scaling, left, right, others.get("softcap"), None)
    keys = () if lengths_k is None else (lengths_k, longest_k, BOTTOM_RIGHT)
    is_limited = given is None or (mask is not None and mask.padding is None)
    if not is_limited:
        reason = reason or "cu_seq_lens_q is given with a mask that is more than a window"
    if others.get("position_bias") is not None:
        reason = reason or "position_bias is given, and sequences are packed"
    q, k, v = (tensor.squeeze(0).transpose(0, 1) for tensor in tensors)
    if reason is None:
        out, reason = _attempt(_varlen._forward, _why_not_varlen, (q, k, v, lengths, longest, *options, *keys))
        if out is not None:
            return out.unsqueeze(0), None
    if strict:
        raise ValueError(f"fa512: {reason} (in {type(module).__name__})")
    q, k, v = map(_cast_by_autocast, (q, k, v))
    changes = ("position_bias", "softcap", "output_attentions", *_by_pytorch.lacked_arguments(type(module).__module__))
    if is_limited and _by_pytorch.has_varlen(q, v) and not any(is_given(others.get(name)) for name in changes):
        _warn("PyTorch's FlashAttention-2", str(reason))
        both = (lengths, lengths if lengths_k is None else lengths_k, longest, longest_k)
        return _by_pytorch.attention_varlen(q, k, v, both, dropout, scaling, limits.options)[None], None
    _warn("PyTorch", str(reason))
    besides = None if is_limited else _mask(given, flags, None)
    elements = _by_pytorch.apart(lengths, lengths if lengths_k is None else lengths_k, limits, besides, q)
    return _by_pytorch.attention(module, *tensors, elements, dropout, scaling, others)
