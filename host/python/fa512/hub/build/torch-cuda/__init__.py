"""fa512 in the layout of the `kernels` hub. Needs the package fa512, which contains the kernels.

`LOCAL_KERNELS=fa512/attention=<folder "hub" of the package>` lets `kernels.get_kernel("fa512/attention", version=1)` find it offline.
"""

from fa512.torch import (
    attention,
    attention_padded,
    attention_varlen,
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    scaled_dot_product_attention,
)

__all__ = [
    "attention",
    "attention_padded",
    "attention_varlen",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "scaled_dot_product_attention",
]
