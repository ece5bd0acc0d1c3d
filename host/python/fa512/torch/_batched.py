"""Attention of batches of sequences of one length: the operators and the functions built on them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .. import _native
from ._library import (
    ALIGN,
    BOTTOM_RIGHT,
    OPTIONS,
    TOP_LEFT,
    cast,
    refuse,
    refuse_flash_attn_options,
    why_not_align,
    why_not_rows,
    why_not_strides,
    why_not_window,
    window_of_flash_attn,
)
from ._register import (
    Kept,
    Sharding,
    define,
    implement,
    register_autocast,
    register_autograd,
    register_fakes,
    register_sharding,
)
from ._scores import (
    BIAS,
    SCORES,
    bias_of_mask,
    of_flash_attn,
    why_no_gradient_of_scores,
    why_not_scores,
)

_LIMITS = f"{OPTIONS}, {ALIGN}"
define("attention", f"{_LIMITS}, {SCORES}, {BIAS}", _LIMITS)


def why_not(query: Tensor, key: Tensor, value: Tensor) -> Optional[str]:
    """The reason why tensors of these types and shapes are not supported; None if they are."""
    if query.dim() != 4:
        return f"query has {query.dim()} dimensions; it must be [batch, heads, sequence, head size]"
    return why_not_rows(query, key, value, {1: "heads", 2: "the sequence"})


def why_not_here(query: Tensor, key: Tensor, value: Tensor) -> Optional[str]:
    """`why_not`, also considering where the tensors lie. What is not supported may be handed to PyTorch."""
    reason = why_not(query, key, value)
    return reason or why_not_strides((("query", query), ("key", key), ("value", value)))


class Options(NamedTuple):
    """The operators' arguments after the tensors, in the order and with the defaults of their schemas."""

    is_causal: bool = False
    scale: Optional[float] = None
    window_left: Optional[int] = None
    window_right: Optional[int] = None
    align: str = TOP_LEFT
    softcap: Optional[float] = None
    alibi_slopes: Optional[Tensor] = None
    bias: Optional[Tensor] = None

    def of_native(self) -> dict[str, Any]:
        """As arguments of the native function, except the bias."""
        return {
            "causal": self.is_causal,
            "window": (self.window_left, self.window_right),
            "align": self.align,
            "scale": self.scale,
            "softcap": self.softcap,
            "alibi_slopes": self.alibi_slopes,
        }

    def limits(self) -> tuple[Any, ...]:
        """The arguments that the backward takes."""
        return self[:5]

    def scores(self) -> tuple[Any, ...]:
        """The score modifications."""
        return self[5:]


# The kernels. Allocation, checks and launch are those of `fa512.attention`.


def forward_cuda(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Tensor:
    asked = Options(*options)
    return _native.attention(query, key, value, **asked.of_native(), bias=asked.bias)


def forward_with_lse_cuda(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    asked = Options(*options)
    return _native.attention(query, key, value, **asked.of_native(), bias=asked.bias, return_lse=True)  # type: ignore[return-value]


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own flash backward on O and LSE of fa512, which have the same meaning. Without dropout it reads no random numbers.

    It sums the gradients of K and V over the heads of Q that share them. Its alignment is bottom-right: see `_why_no_gradient`.
    """
    asked = Options(*options)
    random = torch.empty(2, dtype=torch.uint64, device=query.device)
    # The call that _scaled_dot_product_flash_attention_backward makes, but with a window.
    gradients = torch.ops.aten._flash_attention_backward(
        *(tensor.transpose(1, 2) for tensor in (grad, query, key, value, out)),
        lse,
        None,
        None,
        query.shape[2],
        key.shape[2],
        0.0,
        asked.is_causal,
        random,
        random,
        scale=asked.scale,
        window_size_left=asked.window_left,
        window_size_right=asked.window_right,
    )
    return tuple(gradient.transpose(1, 2) for gradient in gradients)  # type: ignore[return-value]


_forward, _forward_with_lse = implement("attention", forward_cuda, forward_with_lse_cuda, _backward)


# Fake implementations: outputs without computation.


def new_out(query: Tensor) -> Tensor:
    """O as the native function allocates it: contiguous, in the dimension order of Q in memory."""
    batch, heads, sequence, head_dim = query.shape
    if query.stride(1) < query.stride(2):
        strides = (heads * sequence * head_dim, head_dim, heads * head_dim, 1)
    else:
        strides = (heads * sequence * head_dim, sequence * head_dim, head_dim, 1)
    return query.new_empty_strided(query.shape, strides)


def _new_lse(query: Tensor) -> Tensor:
    return query.new_empty(query.shape[:3], dtype=torch.float32)


def _new_gradient(tensor: Tensor) -> Tensor:
    """A gradient as PyTorch's backward returns it: [batch, sequence, heads, head size] in memory."""
    return torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2)


def _why_not_arguments(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Optional[str]:
    asked = Options(*options)
    reason = why_not(query, key, value) or why_not_window(asked.window_left, asked.window_right)
    return reason or why_not_align(asked.align) or why_not_scores(query, key, *asked.scores())


register_fakes("attention", _why_not_arguments, new_out, _new_lse, _new_gradient)


# Gradients.


def _why_no_gradient(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Optional[str]:
    """The reason why PyTorch's backward does not support this; None if it does."""
    asked = Options(*options)
    reason = why_no_gradient_of_scores(*asked.scores())
    if reason is not None:
        return reason
    queries, keys = query.shape[2], key.shape[2]
    right = 0 if asked.is_causal else asked.window_right
    if queries == keys or (asked.window_left is None and right is None):
        return None
    found = f"a gradient is required of {queries} queries and {keys} keys"
    if asked.align == TOP_LEFT:
        return f'{found} with a limit aligned "{TOP_LEFT}"; PyTorch\'s backward computes "{BOTTOM_RIGHT}" alone'
    if queries > keys and right != 0:
        # The backward treats a right side above the number of keys as no limit, and no limit as a right side of that number.
        return f"{found} with a window that is not causal; PyTorch's backward needs as many keys as queries for it"
    return None


def _keep(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Kept:
    return Kept((), Options(*options).limits())


register_autograd("attention", _why_no_gradient, _keep)


def _cast_options(*options: Any) -> Options:
    """Casts the bias to the type of Q; slopes stay float32."""
    asked = Options(*options)
    return asked if asked.bias is None else asked._replace(bias=cast(asked.bias))


register_autocast("attention", _cast_options)
register_sharding("attention", Sharding(rows=1, lse=1, scores=1), Sharding(rows=0, lse=0, scores=0))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    window: Optional[tuple[Optional[int], Optional[int]]] = None,
    align: str = TOP_LEFT,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    return_lse: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(scale · QKᵀ + mask) · V of float16 or bfloat16 tensors [batch, heads, sequence, head size], with a gradient.

    With the window (left, right), query i attends only to the keys i - left … i + right; None is no limit. `causal` makes the right
    side 0.

    `key` and `value` may have fewer heads, if the number of heads of `query` is a multiple of theirs: groups share one. They may have
    another sequence length. `align` then says how queries align with keys: "top-left" (the first query with the first key) or
    "bottom-right" (the last query with the last key). In that case, a gradient with a causal mask or a window needs "bottom-right".

    With s = scale · q·k, scores are softcap · tanh(s / softcap), minus slope · |i - j| with `alibi_slopes` (float32 [heads] or
    [batch, heads]), plus `bias` of the type of `query` and shape [batch, heads, queries, keys], where all dimensions but the last may be 1 or
    missing. With any of the three there is no gradient.

    The result is contiguous, and has the memory order of `query`: batch, sequence, heads or batch, heads, sequence. LSE, float32
    [batch, heads, sequence], has no gradient.
    """
    operator = _forward_with_lse if return_lse else _forward
    return operator(query, key, value, causal, scale, *(window or (None, None)), align, softcap, alibi_slopes, bias)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` for float16 or bfloat16 tensors [batch, heads, sequence, head size].

    With `enable_gqa`, `key` and `value` may have fewer heads. They may have another sequence length; `is_causal` then aligns the first query
    with the first key. `attn_mask` is boolean, or has the type of `query` and is added to scores; there is no gradient with it. An unsupported
    argument is an error that names it.
    """
    if dropout_p != 0.0:
        refuse("dropout_p", dropout_p, "it must be 0")
    if not enable_gqa and query.dim() == key.dim() == 4 and key.shape[1] != query.shape[1]:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}; pass enable_gqa=True for groups that share them")
    if attn_mask is None:
        return _forward(query, key, value, is_causal, scale)
    bias = bias_of_mask(attn_mask, query, key, value)
    return _forward(query, key, value, *Options(is_causal, scale, bias=bias))


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
) -> Tensor:
    """flash-attn's `flash_attn_func` for float16 or bfloat16 tensors [batch, sequence, heads, head size].

    `k` and `v` may have fewer heads and another sequence length; `causal` and `window_size` then align the last query with the last key. An
    unsupported argument is an error that names it; so is a gradient with a softcap or slopes.
    """
    refuse_flash_attn_options((q, k, v), dropout_p, deterministic, return_attn_probs, "fa512.torch.attention")
    window = window_of_flash_attn(window_size, q.shape[1], k.shape[1])
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return _forward(q, k, v, causal, softmax_scale, *window, BOTTOM_RIGHT, *of_flash_attn(softcap, alibi_slopes)).transpose(1, 2)
