"""FlashAttention forward on NVIDIA GPUs, in one call on the tensors that you have.

`attention` takes PyTorch tensors and arrays of CuPy, JAX and others, `attention_varlen` packed sequences, `attention_padded` padded
batches. `scaled_dot_product_attention` has PyTorch's arguments; `flash_attn_func`, `flash_attn_varlen_func` and those with Q, K and V or
K and V in one tensor have flash-attn's.
`info` returns what was found on this machine. `fa512.torch` has operators that work with `torch.compile`, autograd and DTensor.
`fa512.transformers` registers an attention for transformers.

Importing this needs neither PyTorch nor a GPU.
"""

from . import _native
from ._arguments import by_name
from ._native import __version__, info

attention = by_name(_native.attention)
attention_varlen = by_name(_native.attention_varlen)
attention_padded = by_name(_native.attention_padded)
warm_up = by_name(_native.warm_up)

__all__ = [
    "__version__",
    "attention",
    "attention_padded",
    "attention_varlen",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "info",
    "scaled_dot_product_attention",
    "warm_up",
]


_torch = None


def _with_torch():
    """`fa512.torch`, which the first call imports. The statement alone takes as long as a check of all arguments."""
    global _torch
    from . import torch as _torch

    return _torch


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """`torch.nn.functional.scaled_dot_product_attention` on PyTorch tensors, with its arguments and its gradient.

    Unsupported arguments (dropout, the gradient of a mask, types other than float16 and bfloat16) are errors that name the argument. See
    `fa512.torch.scaled_dot_product_attention`.
    """
    return (_torch or _with_torch()).scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash-attn's `flash_attn_func` on PyTorch tensors [batch, sequence, heads, head size], with its arguments and a gradient.

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_func`.
    """
    return (_torch or _with_torch()).flash_attn_func(
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_qkvpacked_func(
    qkv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """`flash_attn_func` of one PyTorch tensor [batch, sequence, 3, heads, head size].

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_qkvpacked_func`.
    """
    return (_torch or _with_torch()).flash_attn_qkvpacked_func(
        qkv,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_kvpacked_func(
    q,
    kv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """`flash_attn_func` with K and V in one PyTorch tensor [batch, sequence, 2, heads, head size].

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_kvpacked_func`.
    """
    return (_torch or _with_torch()).flash_attn_kvpacked_func(
        q,
        kv,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    """flash-attn's `flash_attn_varlen_func` for packed PyTorch tensors [rows, heads, head size], with its arguments and a gradient.

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_varlen_func`.
    """
    return (_torch or _with_torch()).flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
        block_table,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv,
    cu_seqlens,
    max_seqlen,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """`flash_attn_varlen_func` of one PyTorch tensor [rows, 3, heads, head size].

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_varlen_qkvpacked_func`.
    """
    return (_torch or _with_torch()).flash_attn_varlen_qkvpacked_func(
        qkv,
        cu_seqlens,
        max_seqlen,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_kvpacked_func(
    q,
    kv,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """`flash_attn_varlen_func` with K and V in one PyTorch tensor [rows, 2, heads, head size].

    An unsupported argument is an error that names it. See `fa512.torch.flash_attn_varlen_kvpacked_func`.
    """
    return (_torch or _with_torch()).flash_attn_varlen_kvpacked_func(
        q,
        kv,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )
