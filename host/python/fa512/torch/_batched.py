"""Attention of batches of sequences of one length: the operators and the functions built on them."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .. import _native
from .._arguments import align_of, flag, no_dropout, scale_of, softcap_of, window_of
from . import _own_backward, _recorded
from ._determinism import determinism
from ._direct import by_the_way
from ._library import (
    ALIGN,
    BOTTOM_RIGHT,
    DETERMINISTIC,
    OPTIONS,
    TOP_LEFT,
    cast,
    require_tensors,
    tensor_or_none,
    why_not_align,
    why_not_rows,
    why_not_strides,
    why_not_window,
    without_keys,
)
from ._own_backward import is_faster, new_gradient
from ._register import (
    Kept,
    Sharding,
    calls,
    define,
    implement,
    operators,
    register_autocast,
    register_autograd,
    register_calls,
    register_fakes,
    register_sharding,
    register_vmap,
)
from ._scores import (
    BIAS,
    CHANGING,
    SCORES,
    SOFTCAP,
    are_unchanged,
    bias_of_mask,
    why_not_scores,
)

_LIMITS = f"{OPTIONS}, {ALIGN}"
define("attention", f"{_LIMITS}, {SCORES}, {BIAS}, {DETERMINISTIC}", f"{CHANGING}, {_LIMITS}, {SOFTCAP}, {DETERMINISTIC}", True)


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
    deterministic: bool = False

    def of_backward(self) -> tuple[Any, ...]:
        """The arguments that the backward takes after its tensors."""
        return *self[:6], self.deterministic

    def scores(self) -> tuple[Any, ...]:
        """The score modifications."""
        return self[5:8]


# The kernels. Allocation, checks and launch are those of `fa512.attention`.


def forward_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    align: str = TOP_LEFT,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    deterministic: bool = False,
    **more: Any,
) -> Any:
    """`more` goes to the native function: the layout, whether LSE is returned."""
    # Models call this in every layer: nothing is built that is not passed on.
    return _native.attention(  # type: ignore[call-overload]
        query,
        key,
        value,
        causal=is_causal,
        window=(window_left, window_right),
        align=align,
        scale=scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        bias=bias,
        **more,
    )


forward_with_lse_cuda = functools.partial(forward_cuda, return_lse=True)


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    alibi_slopes: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    align: str = TOP_LEFT,
    softcap: Optional[float] = None,
    deterministic: bool = False,
    *,
    dbias: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """fa512's own backward, or of wider heads, where it can, PyTorch's own flash backward on O and LSE of fa512, which have the same
    meaning. Without dropout, that reads no random numbers.

    PyTorch's sums the gradients of K and V over the heads of Q that share them. Its alignment is bottom-right: see `_can_pytorch`.

    dBias goes to `dbias`, always by fa512's own: PyTorch's has no bias.
    """
    limits = (is_causal, scale, window_left, window_right, align)
    if is_faster(query) or not _can_pytorch(query, key, limits, (softcap, alibi_slopes, bias)):
        tensors = {"alibi_slopes": alibi_slopes, "bias": bias, "dbias": dbias}
        options = {"causal": is_causal, "scale": scale, "window": (window_left, window_right), "align": align, "softcap": softcap}
        return _own_backward.of_batch(grad, query, key, value, out, lse, **options, **tensors)
    return flash_backward(grad, query, key, value, out, lse, is_causal, scale, window_left, window_right, deterministic)


def flash_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own flash backward, aligned bottom-right."""
    random = torch.empty(2, dtype=torch.uint64, device=query.device)
    rows = [tensor.transpose(1, 2) for tensor in (grad, query, key, value, out)]
    lengths = (None, None, query.shape[2], key.shape[2])
    window = {"window_size_left": window_left, "window_size_right": window_right}
    # The call that _scaled_dot_product_flash_attention_backward makes, but with a window.
    with determinism(deterministic):
        gradients = torch.ops.aten._flash_attention_backward(
            *rows, lse, *lengths, 0.0, is_causal, random, random, scale=scale, **window
        )
    return tuple(gradient.transpose(1, 2) for gradient in gradients)  # type: ignore[return-value]


def _bias_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    alibi_slopes: Optional[Tensor],
    bias: Tensor,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same with dBias, always by fa512's own."""
    dbias = _own_backward.new_dbias(bias)
    return *_backward(grad, query, key, value, out, lse, alibi_slopes, bias, *options, dbias=dbias), dbias


implement("attention", forward_cuda, forward_with_lse_cuda, _backward, _bias_backward=_bias_backward)


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


def _why_not_arguments(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Optional[str]:
    asked = Options(*options)
    reason = why_not(query, key, value) or why_not_window(asked.window_left, asked.window_right)
    return reason or why_not_align(asked.align) or why_not_scores(query, key, *asked.scores())


register_fakes("attention", _why_not_arguments, new_out, _new_lse, new_gradient)


# Gradients.


def _can_pytorch(query: Tensor, key: Tensor, limits: tuple[Any, ...], scores: tuple[Any, ...]) -> bool:
    """Whether PyTorch's backward computes the gradient."""
    return are_unchanged(*scores) and _has_limits_of_pytorch(query.shape[2], key.shape[2], *limits)


def _has_limits_of_pytorch(
    queries: int,
    keys: int,
    is_causal: bool,
    scale: Optional[float],
    window_left: Optional[int],
    window_right: Optional[int],
    align: str,
) -> bool:
    """Whether PyTorch's backward knows these limits. It aligns bottom-right."""
    right = 0 if is_causal else window_right
    if queries == keys or (window_left is None and right is None):
        return True
    # It treats a right side above the number of keys as no limit, and no limit as a right side of that number.
    return align == BOTTOM_RIGHT and (queries <= keys or right == 0)


def _keep(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Kept:
    asked = Options(*options)
    return Kept((asked.alibi_slopes, asked.bias), asked.of_backward())


_record, *_through_autograd = register_autograd("attention", _keep, forward_with_lse_cuda, _backward, _bias_backward)


def _recorder(rows: int, record: Callable[..., Any], by_nodes: Callable[..., Any]) -> Callable[..., Any]:
    """O and LSE with a gradient: by nodes in C++ where there are such, otherwise by `record`. The sequence is dimension `rows`."""
    form = _recorded.FORMS["bhsd" if rows == 2 else "bshd"]

    def recorded(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        is_causal: bool = False,
        scale: Optional[float] = None,
        left: Optional[int] = None,
        right: Optional[int] = None,
        align: str = TOP_LEFT,
        softcap: Optional[float] = None,
        alibi_slopes: Optional[Tensor] = None,
        bias: Optional[Tensor] = None,
        deterministic: bool = False,
    ) -> tuple[Tensor, Tensor]:
        if _recorded.can_keep(query, alibi_slopes):
            changes = (bias, alibi_slopes, None)
            return _recorded.keep(form, query, key, value, changes, is_causal, scale, left, right, align, softcap)
        limits, scores = (is_causal, scale, left, right), (softcap, alibi_slopes, bias)
        if are_unchanged(*scores) and _recorded.can_record(query, needs_own=deterministic):
            # The kernel says what is wrong with other dimensions.
            is_square = query.dim() != 4 or key.dim() != 4 or query.shape == key.shape
            if is_square or _has_limits_of_pytorch(query.shape[rows], key.shape[rows], *limits, align):
                return by_nodes(query, key, value, *limits)
        return record(query, key, value, *limits, align, *scores, deterministic)

    return recorded


def _swapped(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which takes and returns dimensions 1 and 2 in the other order."""

    def swapped(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Any:
        result = call(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), *options)
        return result.transpose(1, 2) if isinstance(result, Tensor) else (result[0].transpose(1, 2), result[1])

    return swapped


def _by_nodes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    scale: Optional[float],
    window_left: Optional[int],
    window_right: Optional[int],
) -> tuple[Tensor, Tensor]:
    if window_left is None and window_right is None:
        return _recorded.attention(query, key, value, is_causal, scale)
    return _swapped(_recorded.attention_bshd)(query, key, value, is_causal, scale, window_left, window_right)


_recorded_bhsd = _recorder(2, _record, _by_nodes)
_directly = by_the_way(forward_cuda, _recorded_bhsd)
_forward, _forward_with_lse = register_calls(
    "attention", forward_cuda, forward_with_lse_cuda, _recorded_bhsd, *_through_autograd
)


# flash-attn's order, [batch, sequence, heads, head size], which operators do not have.
_kernel_bshd = functools.partial(forward_cuda, layout="bshd")
_recorded_bshd = _recorder(1, _swapped(_record), _recorded.attention_bshd)
_directly_bshd = by_the_way(_kernel_bshd, _recorded_bshd)
_forward_bshd, _forward_bshd_with_lse = calls(
    _kernel_bshd, functools.partial(_kernel_bshd, return_lse=True), _recorded_bshd, *map(_swapped, operators("attention"))
)


def _cast_options(*options: Any) -> Options:
    """Casts the bias to the type of Q; slopes stay float32."""
    asked = Options(*options)
    return asked if asked.bias is None else asked._replace(bias=cast(asked.bias))


register_autocast("attention", _cast_options)
register_vmap("attention")
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
    "bottom-right" (the last query with the last key).

    With s = scale · q·k, scores are softcap · tanh(s / softcap), minus slope · |i - j| with `alibi_slopes` (float32 [heads] or
    [batch, heads]), plus `bias` of the type of `query` and shape [batch, heads, queries, keys], where all dimensions but the last may be 1 or
    missing. The bias gets a gradient, in which what shares an element is added up.

    The result is contiguous, and has the memory order of `query`: batch, sequence, heads or batch, heads, sequence. LSE, float32
    [batch, heads, sequence], has no gradient.
    """
    is_plain = window is scale is softcap is alibi_slopes is bias is None and align is TOP_LEFT and return_lse is False
    if is_plain and type(causal) is bool:
        # What most calls ask for; kernels check the rest.
        out = _directly(query, key, value, causal)
        if out is not None:
            return out
    require_tensors(query=query, key=key, value=value)
    options = (
        flag("causal", causal),
        scale_of("scale", scale),
        *window_of("window", window),
        align_of("align", align),
        softcap_of("softcap", softcap),
        tensor_or_none("alibi_slopes", alibi_slopes),
        tensor_or_none("bias", bias),
    )
    nothing = without_keys(query, key, value, 2, why_not)
    if flag("return_lse", return_lse):
        return nothing or _forward_with_lse(query, key, value, *options)
    return nothing[0] if nothing else _forward(query, key, value, *options)


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
    with the first key. `attn_mask` is boolean, or has the type of `query` and is added to scores. An unsupported
    argument is an error that names it.
    """
    if attn_mask is None is scale and type(dropout_p) is float and not dropout_p and type(is_causal) is type(enable_gqa) is bool:
        # What most calls ask for needs no more checks.
        if type(query) is type(key) is type(value) is Tensor and query.shape == key.shape:
            return _forward(query, key, value, is_causal)
    no_dropout("dropout_p", dropout_p)
    require_tensors(query=query, key=key, value=value)
    is_causal, scale = flag("is_causal", is_causal), scale_of("scale", scale)
    if not flag("enable_gqa", enable_gqa) and query.dim() == key.dim() == 4 and key.shape[1] != query.shape[1]:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}; pass enable_gqa=True for groups that share them")
    nothing = without_keys(query, key, value, 2, why_not)
    if nothing is not None:
        return nothing[0]
    if tensor_or_none("attn_mask", attn_mask) is None:
        return _forward(query, key, value, is_causal, scale)
    bias = bias_of_mask(attn_mask, query, key, value)
    return _forward(query, key, value, *Options(is_causal, scale, bias=bias))
