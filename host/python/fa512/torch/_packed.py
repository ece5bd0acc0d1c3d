"""Attention of packed sequences: the operators, and the functions on top of them."""

from __future__ import annotations

import weakref
from typing import Any, Optional, Union

import torch
from torch import Tensor

from .. import _native
from ._library import (
    BELOW_AUTOCAST,
    LIBRARY,
    OPTIONS,
    TAGS,
    can_shard_heads,
    cast,
    needs_gradient,
    refuse_cpu,
    refuse_flash_attn_options,
    version,
    why_not_rows,
    why_not_strides,
    why_not_window,
    window_of_flash_attn,
)
from ._scores import SCORES, of_flash_attn, placement, tensors_of, why_no_gradient_of_scores, why_not_scores

_INPUTS = "Tensor query, Tensor key, Tensor value"
_SEQUENCES = f"Tensor cu_seqlens, SymInt max_seqlen, {OPTIONS}"
LIBRARY.define(f"attention_varlen({_INPUTS}, {_SEQUENCES}, {SCORES}) -> Tensor", tags=TAGS)
LIBRARY.define(f"attention_varlen_with_lse({_INPUTS}, {_SEQUENCES}, {SCORES}) -> (Tensor, Tensor)", tags=TAGS)
LIBRARY.define(
    f"attention_varlen_backward(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, {_SEQUENCES}) -> (Tensor, Tensor, Tensor)",
    tags=TAGS,
)

# So many options, from the longest length on, are in front of those that are about scores.
_LIMITS = 5

_attention = torch.ops.fa512.attention_varlen.default
_attention_with_lse = torch.ops.fa512.attention_varlen_with_lse.default
_attention_backward = torch.ops.fa512.attention_varlen_backward.default


def why_not_varlen(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor) -> Optional[str]:
    """Why attention of these packed sequences is not computed, by types and shapes; None where it is."""
    if query.dim() != 3:
        return f"query has {query.dim()} dimensions; it must be [rows of all sequences, heads, head size]"
    if cu_seqlens.dtype != torch.int32:
        return f"cu_seqlens is {cu_seqlens.dtype}; it must be torch.int32"
    if cu_seqlens.dim() != 1:
        return f"cu_seqlens has {cu_seqlens.dim()} dimensions; it must be [sequences + 1]"
    if cu_seqlens.device != query.device:
        return f"cu_seqlens is on {cu_seqlens.device} and query on {query.device}; they must be on one GPU"
    return why_not_rows(query, key, value, {1: "heads"})


def why_not_varlen_here(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor) -> Optional[str]:
    """As `why_not_varlen`, and by where the tensors lie."""
    reason = why_not_varlen(query, key, value, cu_seqlens)
    return reason or why_not_strides((("query", query), ("key", key), ("value", value)))


# The kernels. Allocation, checks and the launch are those of `fa512.attention_varlen`.


def _forward_cuda(
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
) -> Tensor:
    options: dict[str, Any] = {"causal": is_causal, "window": (window_left, window_right), "scale": scale}
    scores: dict[str, Any] = {"softcap": softcap, "alibi_slopes": alibi_slopes}
    return _native.attention_varlen(query, key, value, cu_seqlens, max_seqlen=max_seqlen, **options, **scores)


def _forward_with_lse_cuda(
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
) -> tuple[Tensor, Tensor]:
    options: dict[str, Any] = {"causal": is_causal, "window": (window_left, window_right), "scale": scale}
    scores: dict[str, Any] = {"softcap": softcap, "alibi_slopes": alibi_slopes}
    return _native.attention_varlen(
        query, key, value, cu_seqlens, max_seqlen=max_seqlen, **options, **scores, return_lse=True
    )


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own flash backward, on our O and LSE: they mean the same. Without dropout it reads no random numbers.

    It adds up the gradients of K and V over the heads of Q that share them.
    """
    random = torch.empty(2, dtype=torch.uint64, device=query.device)
    lengths = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    window = {"window_size_left": window_left, "window_size_right": window_right}
    return torch.ops.aten._flash_attention_backward(
        grad, query, key, value, out, lse, *lengths, 0.0, is_causal, random, random, scale=scale, **window
    )


LIBRARY.impl("attention_varlen", _forward_cuda, "CUDA")
LIBRARY.impl("attention_varlen_with_lse", _forward_with_lse_cuda, "CUDA")
LIBRARY.impl("attention_varlen_backward", _backward, "CUDA")
for _name in ("attention_varlen", "attention_varlen_with_lse", "attention_varlen_backward"):
    LIBRARY.impl(_name, refuse_cpu, "CPU")


# What they return, without computing it.


def _require(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, *options: Any) -> None:
    # Behind the longest length, the causal rule and the scale.
    window, scores = options[3:5], options[_LIMITS:]
    reason = why_not_varlen(query, key, value, cu_seqlens) or why_not_window(*window)
    reason = reason or why_not_scores(query, key, *scores)
    if reason is not None:
        raise ValueError(reason)


@torch.library.register_fake("fa512::attention_varlen", lib=LIBRARY)
def _forward_fake(query: Tensor, *others: Any) -> Tensor:
    _require(query, *others)
    return query.new_empty(query.shape)


@torch.library.register_fake("fa512::attention_varlen_with_lse", lib=LIBRARY)
def _forward_with_lse_fake(query: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    _require(query, *others)
    rows, heads, _ = query.shape
    return query.new_empty(query.shape), query.new_empty((heads, rows), dtype=torch.float32)


@torch.library.register_fake("fa512::attention_varlen_backward", lib=LIBRARY)
def _backward_fake(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.empty_like(tensor) for tensor in (query, key, value))  # type: ignore[return-value]


# Gradients.


def _forward_autograd(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    """With a gradient to come, LSE is computed, too."""
    if needs_gradient(query, key, value, *tensors_of(others[1:])):
        return _attention_with_lse(query, key, value, *others)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(query, key, value, *others)


LIBRARY.impl("attention_varlen", _forward_autograd, "Autograd")


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, cu_seqlens, *options = inputs
    reason = why_no_gradient_of_scores(*options[_LIMITS:])
    if reason is not None:
        raise ValueError(reason)
    ctx.limits, ctx.options = options[:_LIMITS], len(options)
    out, lse = output
    ctx.save_for_backward(query, key, value, out, lse, cu_seqlens)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _backward_of_forward(ctx: Any, grad: Optional[Tensor], _: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
    others = (None,) * (1 + ctx.options)
    if grad is None:
        return (None, None, None, *others)
    return (*_attention_backward(grad, *ctx.saved_tensors, *ctx.limits), *others)


torch.library.register_autograd(
    "fa512::attention_varlen_with_lse", _backward_of_forward, setup_context=_keep_for_backward, lib=LIBRARY
)


# Autocast.


def _forward_autocast(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    with torch._C._ExcludeDispatchKeyGuard(BELOW_AUTOCAST):
        return _attention(cast(query), cast(key), cast(value), *others)


def _forward_with_lse_autocast(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    with torch._C._ExcludeDispatchKeyGuard(BELOW_AUTOCAST):
        return _attention_with_lse(cast(query), cast(key), cast(value), *others)


LIBRARY.impl("attention_varlen", _forward_autocast, "AutocastCUDA")
LIBRARY.impl("attention_varlen_with_lse", _forward_with_lse_autocast, "AutocastCUDA")


def _register_sharding() -> None:
    """Tells DTensor that heads are computed by themselves: sharded there, nothing is gathered."""
    try:
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.experimental import register_sharding
    except ImportError:
        return

    rows, lse, whole = Shard(1), Shard(0), Replicate()

    def rule(outputs: list[Any], inputs: list[Any], query: int):
        def acceptable(*arguments: Any, **keywords: Any):
            def others(dimension: int) -> list[Any]:
                """Of options, slopes are a tensor."""
                options = [placement(option, 2, dimension) for option in arguments[len(inputs) :]]
                return options + [None] * len(keywords)

            replicated = ([whole] * len(outputs), [whole] * len(inputs) + others(-1))
            if not can_shard_heads(*arguments[query : query + 2]):
                return [replicated]
            return [replicated, (outputs, inputs + others(1))]

        return acceptable

    register_sharding(_attention)(rule([rows], [rows, rows, rows, whole], query=0))
    register_sharding(_attention_with_lse)(rule([rows, lse], [rows, rows, rows, whole], query=0))
    register_sharding(_attention_backward)(rule([rows] * 3, [rows] * 5 + [lse, whole], query=1))


_register_sharding()


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: Optional[int] = None,
    *,
    causal: bool = False,
    window: Optional[tuple[Optional[int], Optional[int]]] = None,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Optional[Tensor] = None,
    return_lse: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(scale · QKᵀ + mask) · V of packed sequences, with a gradient.

    `query`, `key` and `value` are float16 or bfloat16 [rows of all sequences, heads, head size]; `key` and `value` may have fewer heads,
    as for `attention`. Sequence s is the rows from cu_seqlens[s] up to cu_seqlens[s + 1]; `cu_seqlens` is int32 on their GPU, and nobody
    waits for it. `max_seqlen` is the length of the longest, or a bound. `window`, `softcap` and
    `alibi_slopes` (float32 [heads]) are as for `attention`, within each sequence. LSE, float32 [heads, rows], has no gradient.
    """
    longest = query.shape[0] if max_seqlen is None else max_seqlen
    operator = _attention_with_lse if return_lse else _attention
    options = (causal, scale, *(window or (None, None)), softcap, alibi_slopes)
    return operator(query, key, value, cu_seqlens, longest, *options)


_known_equal: tuple[Any, ...] = ()


def have_equal_lengths(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> bool:
    """Whether both say the same.

    Two tensors are compared once, which waits for the GPU; not while a graph is compiled or captured, when it is an error.
    """
    global _known_equal
    if cu_seqlens_q is cu_seqlens_k:
        return True
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        return False
    waits = "comparing cu_seqlens_q with cu_seqlens_k waits for the GPU; pass one tensor as both"
    if torch.compiler.is_compiling():
        raise ValueError(waits)
    if cu_seqlens_q.data_ptr() == cu_seqlens_k.data_ptr() and cu_seqlens_q.stride() == cu_seqlens_k.stride():
        return True
    versions = (version(cu_seqlens_q), version(cu_seqlens_k))
    if _known_equal:
        first, second, known_versions = _known_equal
        if first() is cu_seqlens_q and second() is cu_seqlens_k and versions == known_versions:
            return True
    if cu_seqlens_q.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError(waits)
    if not torch.equal(cu_seqlens_q, cu_seqlens_k):
        return False
    _known_equal = (weakref.ref(cu_seqlens_q), weakref.ref(cu_seqlens_k), versions)
    return True


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
) -> Tensor:
    """flash-attn's `flash_attn_varlen_func` for float16 or bfloat16 tensors [rows of all sequences, heads, head size].

    `k` and `v` may have fewer heads. Q and K have the same lengths: pass one tensor as `cu_seqlens_q` and `cu_seqlens_k`. What is not
    computed is an error that names the argument, as is a gradient with a softcap or slopes.
    """
    refuse_flash_attn_options((q, k, v), dropout_p, deterministic, return_attn_probs, "fa512.torch.attention_varlen")
    if block_table is not None:
        raise ValueError("block_table is given, which is not supported; leave it out")
    if not have_equal_lengths(cu_seqlens_q, cu_seqlens_k):
        raise ValueError("cu_seqlens_q and cu_seqlens_k differ, which is not supported: K must have the lengths of Q")
    if max_seqlen_q != max_seqlen_k:
        raise ValueError(f"max_seqlen_q is {max_seqlen_q} and max_seqlen_k {max_seqlen_k}; they must be equal: K has the lengths of Q")
    longest = int(max_seqlen_q)
    window = window_of_flash_attn(window_size, longest, longest)
    scores = of_flash_attn(softcap, alibi_slopes)
    return _attention(q, k, v, cu_seqlens_q, longest, causal, softmax_scale, *window, *scores)
