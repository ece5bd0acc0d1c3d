"""PyTorch's own flash attention, computed by fa512 while activated."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _batched


class _Activated:
    """Until removed, PyTorch's flash attention is computed by fa512 where fa512 supports it."""

    def __init__(self) -> None:
        name = "_scaled_dot_product_flash_attention"
        # The kernel registered before computes what fa512 does not support.
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
        if dropout_p != 0.0 or return_debug_mask or _batched.why_not_here(query, key, value) is not None:
            return self._original.call_boxed(
                keyset, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        # Autograd, above this, records the gradient; PyTorch's flash attention is aligned bottom-right.
        with torch.no_grad():
            options = (is_causal, scale, None, None, _batched.BOTTOM_RIGHT)
            out, lse = _batched.forward_with_lse_cuda(query, key, value, *options)
        # Without dropout, the backward reads no random numbers.
        random = torch.empty(2, dtype=torch.uint64, device=query.device)
        unused = torch.empty(0, dtype=torch.uint64, device=query.device)
        return out, lse, None, None, query.shape[2], key.shape[2], random, unused, query.new_empty(0)


def register_flash_attention_impl(name: str = "fa512") -> None:
    """Registers fa512 for `torch.nn.attention.activate_flash_attention_impl(name)`, if PyTorch has it (2.11 and later).

    Once activated, fa512 computes what `scaled_dot_product_attention` would compute by FlashAttention-2, where it supports it;
    PyTorch's kernel computes the rest. `torch.nn.attention.restore_flash_attention_impl()` deactivates it.
    """
    try:
        from torch.nn.attention import register_flash_attention_impl as register
    except ImportError:
        raise RuntimeError(
            f"PyTorch {torch.__version__} has no torch.nn.attention.register_flash_attention_impl; 2.11 has"
        ) from None
    register(name, register_fn=_Activated)
