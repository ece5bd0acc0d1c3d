"""The operators of fa512 for PyTorch: `torch.ops.fa512.attention` and functions on top of it.

They are known to autograd, autocast, `torch.compile`, `torch.export` and DTensor. A call works on the current stream of its tensors'
GPU.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import torch
from torch import Tensor

from . import _native

__all__ = [
    "attention",
    "flash_attn_func",
    "register_flash_attention_impl",
    "scaled_dot_product_attention",
]

_LIBRARY = torch.library.Library("fa512", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag,)
_INPUTS = "Tensor query, Tensor key, Tensor value"
_LIBRARY.define(f"attention({_INPUTS}, bool is_causal=False, float? scale=None) -> Tensor", tags=_TAGS)
_LIBRARY.define(
    f"attention_with_lse({_INPUTS}, bool is_causal=False, float? scale=None) -> (Tensor, Tensor)", tags=_TAGS
)
_LIBRARY.define(
    f"attention_backward(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, bool is_causal=False, float? scale=None)"
    " -> (Tensor, Tensor, Tensor)",
    tags=_TAGS,
)

_attention = torch.ops.fa512.attention.default
_attention_with_lse = torch.ops.fa512.attention_with_lse.default
_attention_backward = torch.ops.fa512.attention_backward.default

HEAD_DIM = 64
"""The head size that the kernels compute."""
ROW_ALIGNMENT = 8
"""Rows begin at multiples of so many elements."""


def why_not(query: Tensor, key: Tensor, value: Tensor) -> Optional[str]:
    """Why attention of these tensors is not computed, by their types, shapes and strides; None where it is."""
    if query.dim() != 4:
        return f"query has {query.dim()} dimensions; it must be [batch, heads, sequence, {HEAD_DIM}]"
    if query.shape[3] != HEAD_DIM:
        return f"query has a head size of {query.shape[3]}; the kernels compute {HEAD_DIM}"
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dtype != torch.float16:
            return f"{name} is {tensor.dtype}; it must be torch.float16"
        if tensor.shape != query.shape:
            return (
                f"{name} has the shape {list(tensor.shape)} and query {list(query.shape)}; they must be equal (other numbers of"
                " keys or of heads are not supported)"
            )
        if tensor.device != query.device:
            return f"{name} is on {tensor.device} and query on {query.device}; they must be on one GPU"
    return None


def why_not_here(query: Tensor, key: Tensor, value: Tensor) -> Optional[str]:
    """As `why_not`, and by where the tensors lie: what PyTorch computes may be handed to it."""
    reason = why_not(query, key, value)
    if reason is not None:
        return reason
    if not query.is_cuda:
        return f"query is on {query.device}; it must be on an NVIDIA GPU"
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.stride(3) != 1 or any(tensor.stride(dim) % ROW_ALIGNMENT for dim in range(3) if tensor.shape[dim] > 1):
            return f"{name} has the strides {tensor.stride()}; rows must be without gaps, at multiples of 16 bytes"
        if tensor.storage_offset() % ROW_ALIGNMENT:
            return f"{name} begins at element {tensor.storage_offset()}, which is not at a multiple of 16 bytes"
    return None


# The kernels. Allocation, checks and the launch are those of `fa512.attention`.


def _forward_cuda(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:
    return _native.attention(query, key, value, causal=is_causal, scale=scale)


def _forward_with_lse_cuda(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> tuple[Tensor, Tensor]:
    return _native.attention(query, key, value, causal=is_causal, scale=scale, return_lse=True)


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    is_causal: bool = False,
    scale: Optional[float] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own flash backward, on our O and LSE: they mean the same. Without dropout it reads no random numbers."""
    random = torch.empty(2, dtype=torch.uint64, device=query.device)
    length = query.shape[2]
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad, query, key, value, out, lse, None, None, length, length, 0.0, is_causal, random, random, scale=scale
    )


def _refuse_cpu(query: Tensor, *_: Any, **__: Any) -> Any:
    raise ValueError(f"query is on {query.device}; it must be on an NVIDIA GPU")


_LIBRARY.impl("attention", _forward_cuda, "CUDA")
_LIBRARY.impl("attention_with_lse", _forward_with_lse_cuda, "CUDA")
_LIBRARY.impl("attention_backward", _backward, "CUDA")
for _name in ("attention", "attention_with_lse", "attention_backward"):
    _LIBRARY.impl(_name, _refuse_cpu, "CPU")


# What they return, without computing it.


def _new_out(query: Tensor) -> Tensor:
    """As the native half makes it: the order of Q's dimensions in memory, without gaps."""
    batch, heads, sequence, head_dim = query.shape
    if query.stride(1) < query.stride(2):
        strides = (heads * sequence * head_dim, head_dim, heads * head_dim, 1)
    else:
        strides = (heads * sequence * head_dim, sequence * head_dim, head_dim, 1)
    return query.new_empty_strided(query.shape, strides)


def _require(query: Tensor, key: Tensor, value: Tensor) -> None:
    reason = why_not(query, key, value)
    if reason is not None:
        raise ValueError(reason)


@torch.library.register_fake("fa512::attention", lib=_LIBRARY)
def _forward_fake(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:
    _require(query, key, value)
    return _new_out(query)


@torch.library.register_fake("fa512::attention_with_lse", lib=_LIBRARY)
def _forward_with_lse_fake(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> tuple[Tensor, Tensor]:
    _require(query, key, value)
    return _new_out(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.register_fake("fa512::attention_backward", lib=_LIBRARY)
def _backward_fake(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    is_causal: bool = False,
    scale: Optional[float] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    # As PyTorch's backward returns them: [batch, sequence, heads, 64] in memory.
    return tuple(torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2) for tensor in (query, key, value))  # type: ignore[return-value]


# Gradients.


def _forward_autograd(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:
    """With a gradient to come, LSE is computed, too."""
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return _attention_with_lse(query, key, value, is_causal, scale)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(query, key, value, is_causal, scale)


_LIBRARY.impl("attention", _forward_autograd, "Autograd")


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, ctx.is_causal, ctx.scale = inputs
    out, lse = output
    ctx.save_for_backward(query, key, value, out, lse)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _backward_of_forward(ctx: Any, grad: Optional[Tensor], _: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
    if grad is None:
        return None, None, None, None, None
    query, key, value, out, lse = ctx.saved_tensors
    gradients = _attention_backward(grad, query, key, value, out, lse, ctx.is_causal, ctx.scale)
    return (*gradients, None, None)


torch.library.register_autograd(
    "fa512::attention_with_lse", _backward_of_forward, setup_context=_keep_for_backward, lib=_LIBRARY
)


# Autocast: to its type, as scaled_dot_product_attention.

_BELOW_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def _cast(tensor: Tensor) -> Tensor:
    is_cast = tensor.is_cuda and tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(torch.get_autocast_dtype("cuda")) if is_cast else tensor


def _forward_autocast(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:
    with torch._C._ExcludeDispatchKeyGuard(_BELOW_AUTOCAST):
        return _attention(_cast(query), _cast(key), _cast(value), is_causal, scale)


def _forward_with_lse_autocast(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, scale: Optional[float] = None
) -> tuple[Tensor, Tensor]:
    with torch._C._ExcludeDispatchKeyGuard(_BELOW_AUTOCAST):
        return _attention_with_lse(_cast(query), _cast(key), _cast(value), is_causal, scale)


_LIBRARY.impl("attention", _forward_autocast, "AutocastCUDA")
_LIBRARY.impl("attention_with_lse", _forward_with_lse_autocast, "AutocastCUDA")


def _register_sharding() -> None:
    """Tells DTensor that batches and heads are computed by themselves: sharded there, nothing is gathered."""
    try:
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.experimental import register_sharding
    except ImportError:
        return

    def rule(tensors: int, outputs: int):
        def acceptable(*arguments: Any, **keywords: Any):
            others = [None] * (len(arguments) - tensors + len(keywords))
            placements = (Replicate(), Shard(0), Shard(1))
            return [([one] * outputs, [one] * tensors + others) for one in placements]

        return acceptable

    register_sharding(_attention)(rule(tensors=3, outputs=1))
    register_sharding(_attention_with_lse)(rule(tensors=3, outputs=2))
    register_sharding(_attention_backward)(rule(tensors=6, outputs=3))


_register_sharding()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    scale: Optional[float] = None,
    return_lse: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(scale · QKᵀ + mask) · V of float16 tensors [batch, heads, sequence, 64], with a gradient.

    The result lies in memory as `query` does: batch, sequence, heads or batch, heads, sequence, without gaps. LSE, float32
    [batch, heads, sequence], has no gradient.
    """
    if return_lse:
        return _attention_with_lse(query, key, value, causal, scale)
    return _attention(query, key, value, causal, scale)


def _refuse(name: str, given: Any, instead: str) -> None:
    raise ValueError(f"{name} is {given!r}, which is not supported; {instead}")


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
    """`torch.nn.functional.scaled_dot_product_attention` for float16 tensors [batch, heads, sequence, 64] of equal shapes.

    What is not computed is an error that names the argument.
    """
    if attn_mask is not None:
        raise ValueError("attn_mask is given, which is not supported; leave it out, or pass is_causal=True")
    if dropout_p != 0.0:
        _refuse("dropout_p", dropout_p, "it must be 0")
    if enable_gqa and key.dim() == 4 and key.shape[1] != query.shape[1]:
        _refuse("enable_gqa", enable_gqa, "query, key and value must have equally many heads")
    return _attention(query, key, value, is_causal, scale)


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
    """flash-attn's `flash_attn_func` for float16 tensors [batch, sequence, heads, 64] of equal shapes.

    What is not computed is an error that names the argument.
    """
    if dropout_p != 0.0:
        _refuse("dropout_p", dropout_p, "it must be 0")
    if tuple(window_size) != (-1, -1):
        _refuse("window_size", window_size, "it must be (-1, -1)")
    if softcap != 0.0:
        _refuse("softcap", softcap, "it must be 0")
    if alibi_slopes is not None:
        raise ValueError("alibi_slopes are given, which are not supported; leave them out")
    if return_attn_probs:
        _refuse("return_attn_probs", return_attn_probs, "fa512.torch.attention returns LSE")
    if deterministic and torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        if not torch.are_deterministic_algorithms_enabled():
            _refuse(
                "deterministic",
                deterministic,
                "the backward is PyTorch's, which torch.use_deterministic_algorithms(True) makes deterministic",
            )
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return _attention(q, k, v, causal, softmax_scale).transpose(1, 2)


class _Activated:
    """As long as it is not removed, PyTorch's flash attention is computed by fa512 where it can be."""

    def __init__(self) -> None:
        name = "_scaled_dot_product_flash_attention"
        # The kernel that is there now computes what fa512 does not.
        self._original = torch.library.get_kernel(f"aten::{name}", "CUDA")
        self._library: Optional[torch.library.Library] = torch.library.Library("aten", "IMPL")
        self._library.impl(name, self._forward, "CUDA", with_keyset=True, allow_override=True)

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _forward(
        self,
        keyset: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: Optional[float] = None,
    ) -> Any:
        if dropout_p != 0.0 or return_debug_mask or why_not_here(query, key, value) is not None:
            return self._original.call_boxed(
                keyset, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        # PyTorch's autograd, above this, records the gradient.
        with torch.no_grad():
            out, lse = _forward_with_lse_cuda(query, key, value, is_causal, scale)
        length = query.shape[2]
        # The backward reads no random numbers without dropout.
        random = torch.empty(2, dtype=torch.uint64, device=query.device)
        unused = torch.empty(0, dtype=torch.uint64, device=query.device)
        return out, lse, None, None, length, length, random, unused, query.new_empty(0)


def register_flash_attention_impl(name: str = "fa512") -> None:
    """Makes fa512 known to `torch.nn.attention.activate_flash_attention_impl(name)`, where PyTorch (2.11 and later) has that.

    Then `scaled_dot_product_attention` computes by fa512 what it would by FlashAttention-2, where fa512 can; the rest stays with
    PyTorch's kernel. `torch.nn.attention.restore_flash_attention_impl()` ends it.
    """
    try:
        from torch.nn.attention import register_flash_attention_impl as register
    except ImportError:
        raise RuntimeError(
            f"PyTorch {torch.__version__} has no torch.nn.attention.register_flash_attention_impl; 2.11 has"
        ) from None
    register(name, register_fn=_Activated)
