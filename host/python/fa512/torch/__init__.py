"""PyTorch operators of fa512: `torch.ops.fa512.attention`, `attention_varlen`, `attention_padded`, and functions built on them.

They work with autograd, autocast, `torch.compile`, `torch.export` and DTensor. A call uses the current stream of its tensors' GPU.
"""

from ._batched import attention, scaled_dot_product_attention, why_not, why_not_here
from ._flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from ._flash_impl import register_flash_attention_impl
from ._library import MAXIMUM_HEAD_DIM, ROW_ALIGNMENT
from ._packed import attention_varlen, why_not_varlen, why_not_varlen_here
from ._padded import attention_padded, why_not_padded, why_not_padded_here

__all__ = [
    "MAXIMUM_HEAD_DIM",
    "ROW_ALIGNMENT",
    "attention",
    "attention_padded",
    "attention_varlen",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "register_flash_attention_impl",
    "scaled_dot_product_attention",
    "why_not",
    "why_not_here",
    "why_not_padded",
    "why_not_padded_here",
    "why_not_varlen",
    "why_not_varlen_here",
]
