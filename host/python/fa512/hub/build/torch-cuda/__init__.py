"""fa512 in the layout of the `kernels` hub. It needs the package fa512, which has the kernels.

`LOCAL_KERNELS=fa512/attention=<folder "hub" of the package>` lets `kernels.get_kernel("fa512/attention", version=1)` find it offline.
"""

import logging

import torch

from fa512.torch import attention, flash_attn_func, scaled_dot_product_attention

__all__ = ["attention", "flash_attn_func", "flash_attn_varlen_func", "scaled_dot_product_attention"]

_LOGGER = logging.getLogger("fa512.hub")
_warned: list = []


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
    """flash-attn's function for packed batches, by PyTorch's own kernel: fa512 has none yet. A warning says so once."""
    given = {
        "dropout_p": dropout_p != 0.0,
        "window_size": tuple(window_size) != (-1, -1),
        "softcap": softcap != 0.0,
        "alibi_slopes": alibi_slopes is not None,
        "deterministic": deterministic,
        "return_attn_probs": return_attn_probs,
        "block_table": block_table is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise ValueError(f"{name} is given, which is not supported for packed batches")
    if not _warned:
        _warned.append(True)
        _LOGGER.warning("fa512: packed batches are computed by PyTorch's FlashAttention-2")
    return torch.ops.aten._flash_attention_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), 0.0, causal, False, scale=softmax_scale
    )[0]
