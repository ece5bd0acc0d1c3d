"""Packed sequences that fa512 does not support, computed by PyTorch."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    longest: int,
    is_causal: bool,
    scale: Optional[float],
    window: Optional[int],
) -> Tensor:
    """Attention of packed sequences [rows, heads, head size] that see `window` tokens back (and, if not causal, ahead). Uses PyTorch's
    FlashAttention-2 if it supports them, else computes each sequence by itself, which waits for the lengths."""
    head_dim = query.shape[-1]
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and head_dim % 8 == 0 and head_dim <= 256:
        left = None if window is None else window - 1
        return torch.ops.aten._flash_attention_forward(
            query,
            key,
            value,
            cu_seqlens,
            cu_seqlens,
            longest,
            longest,
            0.0,
            is_causal,
            False,
            scale=scale,
            window_size_left=left,
            window_size_right=0 if is_causal and window is not None else left,
        )[0]
    sequences = []
    for begin, end in zip((bounds := cu_seqlens.tolist()), bounds[1:]):
        q, k, v = (tensor[begin:end].transpose(0, 1)[None] for tensor in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=None if window is None else near(end - begin, end - begin, window, is_causal, query.device),
            is_causal=is_causal and window is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        sequences.append(out[0].transpose(0, 1))
    return torch.cat(sequences)


def near(queries: int, keys: int, window: int, is_causal: bool, device: torch.device) -> Tensor:
    """Mask of the keys within each query's window, bottom-right aligned."""
    query, key = torch.arange(keys - queries, keys, device=device), torch.arange(keys, device=device)
    back = query[:, None] - key[None, :]
    return (back < window) & (back >= 0 if is_causal else back > -window)
