"""The attention `fa512_flash` for transformers 5, and what is built on it (sentence-transformers).

Importing this registers it: `AutoModel.from_pretrained(..., attn_implementation="fa512_flash", dtype=torch.float16)`. What fa512
does not compute goes to PyTorch's scaled_dot_product_attention, with one warning for each reason; `register(strict=True)` makes that
an error.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, Callable, Optional

import torch
import transformers.modeling_flash_attention_utils as _flash
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from . import torch as _operators

__all__ = ["NAME", "register"]

NAME = "fa512_flash"
"""The name of the attention. That it holds "flash" tells transformers and sentence-transformers that masks may be left out."""

_LOGGER = logging.getLogger(__name__)
_names: set[str] = set()
_warned: set[str] = set()
# Arguments of transformers that change what is computed, and that the kernels do not know.
_UNSUPPORTED = ("softcap", "s_aux", "position_bias")


@torch.compiler.assume_constant_result
def _warn(reason: str) -> bool:
    """Once for each reason; while a model is compiled, when it is."""
    if reason not in _warned:
        _warned.add(reason)
        _LOGGER.warning("fa512: this attention is computed by scaled_dot_product_attention: %s", reason)
    return True


def _cast_by_autocast(tensor: Tensor) -> Tensor:
    """As it will be: autocast casts in the operator."""
    if tensor.is_cuda and torch.is_autocast_enabled("cuda"):
        return tensor.to(torch.get_autocast_dtype("cuda"))
    return tensor


def _why_not(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], dropout: float, others: dict[str, Any]
) -> Optional[str]:
    if mask is not None:
        return "a mask is given (padded batches and windows are not supported yet)"
    if dropout != 0.0:
        return f"dropout is {dropout}; it must be 0"
    for name in _UNSUPPORTED:
        if others.get(name) is not None:
            return f"{name} is given"
    window = others.get("sliding_window")
    if window is not None and window < key.shape[2]:
        return f"sliding_window is {window}, less than the {key.shape[2]} keys"
    return _operators.why_not_here(query, key, value)


def _refuse_packed(others: dict[str, Any]) -> None:
    """Sequences one behind the other, without a mask: neither fa512 nor PyTorch's would keep them apart."""
    lengths = others.get("cu_seq_lens_q")
    if lengths is not None and lengths.shape[0] > 2:
        raise ValueError("cu_seq_lens_q is given: packed batches are not supported yet; pass a padded batch with its mask")


def _attention_forward(
    strict: bool,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    **others: Any,
) -> tuple[Tensor, None]:
    if attention_mask is None:
        _refuse_packed(others)
    q, k, v = _cast_by_autocast(query), _cast_by_autocast(key), _cast_by_autocast(value)
    reason = _why_not(q, k, v, attention_mask, dropout, others)
    if reason is not None:
        if strict:
            raise ValueError(f"fa512: {reason}")
        _warn(reason)
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **others
        )
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    out = torch.ops.fa512.attention(q, k, v, bool(causal), scaling)
    return out.transpose(1, 2).contiguous(), None


def register(name: str = NAME, *, strict: bool = False) -> None:
    """Registers the attention with transformers under `name`, which must hold "flash".

    With `strict`, what fa512 does not compute is an error instead of a warning.
    """
    if "flash" not in name:
        raise ValueError(f'name is {name!r}; it must hold "flash"')
    AttentionInterface.register(name, functools.partial(_attention_forward, strict))
    # None where nothing is masked, or what is causal anyway; else the mask that PyTorch's attention takes. Lengths of a padded batch
    # would do for a kernel that reads them, which there is not yet.
    AttentionMaskInterface.register(name, sdpa_mask)
    _names.add(name)



def _answer_lazy_imports() -> None:
    """Lets transformers find the functions behind our names, which it looks up by name for everything with "flash" in it.

    There is none for packed batches: sentence-transformers then keeps its batches padded.
    """
    original: Callable[..., Any] = _flash._lazy_imports

    @functools.wraps(original)
    def lazy_imports(implementation: Optional[str], *arguments: Any, **keywords: Any) -> Any:
        if implementation in _names:
            return _operators.flash_attn_func, None, None, _flash._pad_input, _flash._unpad_input
        return original(implementation, *arguments, **keywords)

    _flash._lazy_imports = lazy_imports


_answer_lazy_imports()
register()
