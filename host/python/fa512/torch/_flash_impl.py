"""PyTorch's own flash attention, computed by fa512 for as long as the caller wants it."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _batched


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
        if dropout_p != 0.0 or return_debug_mask or _batched.why_not_here(query, key, value) is not None:
            return self._original.call_boxed(
                keyset, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        # PyTorch's autograd, above this, records the gradient, and its flash attention has the last query at the last key.
        with torch.no_grad():
            options = (is_causal, scale, None, None, _batched.BOTTOM_RIGHT)
            out, lse = _batched.forward_with_lse_cuda(query, key, value, *options)
        # The backward reads no random numbers without dropout.
        random = torch.empty(2, dtype=torch.uint64, device=query.device)
        unused = torch.empty(0, dtype=torch.uint64, device=query.device)
        return out, lse, None, None, query.shape[2], key.shape[2], random, unused, query.new_empty(0)


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
