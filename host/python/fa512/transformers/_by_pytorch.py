"""What fa512 does not compute, by PyTorch's attention or by the model's own eager one, whichever has all the arguments."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Optional, Union

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ._masks import Mask, within

# Parameters of models' eager attention that our attention has, too.
_KNOWN = ("module", "query", "key", "value", "attention_mask", "dropout", "scaling", "position_bias", "softcap", "sliding_window")
# Arguments of transformers that change the result, and that SDPA and the kernels do not have.
_LACKED = ("s_aux", "indices", "block_indices")
_lacked: dict[str, tuple[str, ...]] = {}


@torch.compiler.assume_constant_result
def lacked_arguments(module_of_model: str) -> tuple[str, ...]:
    """Arguments that the kernels lack: those of transformers, and what the model's eager attention computes with besides."""
    known = _lacked.get(module_of_model)
    if known is None:
        own = (name for name in parameters_of_eager(module_of_model)[4:] if name not in _KNOWN)
        known = _lacked[module_of_model] = (*_LACKED, *own)
    return known


def parameters_of_eager(module_of_model: str) -> tuple[str, ...]:
    """The named parameters of a model's eager attention."""
    eager = _eager(module_of_model)
    parameters = {} if eager is None else inspect.signature(eager).parameters
    return tuple(name for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.VAR_KEYWORD)


def _eager(module_of_model: str) -> Optional[Callable[..., Any]]:
    return getattr(sys.modules.get(module_of_model), "eager_attention_forward", None)


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Union[Mask, Tensor],
    dropout: float,
    scaling: Optional[float],
    others: dict[str, Any],
) -> tuple[Tensor, Optional[Tensor]]:
    """The result as transformers' attention functions return it: [batch, queries, heads, head size], and perhaps probabilities.

    A tensor as `mask` is boolean or added to scores, [batch, 1 or heads, queries, keys]."""
    if key.shape[1] != query.shape[1] and not hasattr(module, "num_key_value_groups"):
        # By this attribute others know that heads are shared.
        key, value = (tensor.repeat_interleave(query.shape[1] // tensor.shape[1], dim=1) for tensor in (key, value))
    name = type(module).__module__
    lacked = [each for each in ("softcap", *lacked_arguments(name)) if is_given(others.get(each))]
    eager = _eager(name)
    if not lacked and (eager is None or not others.get("output_attentions")):
        elements = None if isinstance(mask, Mask) and _is_known_to_sdpa(mask) else _elements(mask, query)
        causal = isinstance(mask, Mask) and mask.limits.right == 0
        return sdpa_attention_forward(module, query, key, value, elements, dropout, scaling, causal, **others)
    if eager is None:
        raise ValueError(f"{lacked[0]} is given, which neither fa512 nor scaled_dot_product_attention computes")
    elements = _elements(mask, query)
    if elements.dtype == torch.bool:
        none = torch.zeros(elements.shape, dtype=query.dtype, device=query.device)
        elements = none.masked_fill(~elements, torch.finfo(query.dtype).min)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return eager(module, query, key, value, elements, scaling=scaling, dropout=dropout, **others)


def is_given(argument: Any) -> bool:
    """Whether an argument changes the result."""
    return argument is not None and argument is not False


def _is_known_to_sdpa(mask: Mask) -> bool:
    """Whether SDPA needs no elements: it has no windows, and aligns a causal mask top-left."""
    is_causal = mask.limits.right == 0 and mask.queries > 1
    return mask.is_plain and mask.limits.left is None and mask.limits.right in (0, None) and (mask.queries == mask.keys or not is_causal)


def _elements(mask: Union[Mask, Tensor], query: Tensor) -> Tensor:
    return mask.elements(query.device) if isinstance(mask, Mask) else mask


def has_varlen(query: Tensor, value: Tensor) -> bool:
    """Whether PyTorch's FlashAttention-2 computes packed sequences of this type."""
    head_dim = query.shape[-1]
    if value.shape[-1] != head_dim:
        return False
    return query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and head_dim % 8 == 0 and head_dim <= 256


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: tuple[Tensor, Tensor, int, int],
    dropout: float,
    scaling: Optional[float],
    options: tuple[bool, Optional[int], Optional[int]],
) -> Tensor:
    """Attention of packed sequences [rows, heads, head size] by PyTorch's FlashAttention-2; zeros in rows that belong to none."""
    causal, left, right = options
    out = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        *lengths,
        dropout,
        causal,
        False,
        scale=scaling,
        window_size_left=left,
        window_size_right=0 if causal and left is not None else right,
    )[0]
    return out.where(_belong(lengths[0], query)[:, None, None], 0)


def _belong(cu_seqlens: Tensor, rows: Tensor) -> Tensor:
    """Which rows belong to a sequence."""
    row = torch.arange(rows.shape[0], device=rows.device)
    return (row >= cu_seqlens[0]) & (row < cu_seqlens[-1])


def apart(cu_seqlens: Tensor, cu_seqlens_k: Tensor, mask: Mask, given: Union[Mask, Tensor, None], query: Tensor) -> Tensor:
    """The elements of a mask of packed sequences, the last query of each at its last key, within the limits of `mask` and of what is
    `given` besides. Rows that belong to no sequence see each other."""
    number, position = _places(cu_seqlens, mask.queries)
    number_k, position_k = _places(cu_seqlens_k, mask.keys)
    lengths, lengths_k = cu_seqlens.diff(), cu_seqlens_k.diff()
    behind = (lengths_k - lengths)[(number - 1).clamp(0, lengths.shape[0] - 1)]
    sees = within(position_k[None, :] - (position + behind)[:, None], mask.limits)
    sees = (sees & (number[:, None] == number_k[None, :]))[None, None]
    if given is None:
        return sees
    elements = _elements(given, query)
    return elements & sees if elements.dtype == torch.bool else elements.masked_fill(~sees, torch.finfo(elements.dtype).min)


def _places(cu_seqlens: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The number of each row's sequence, from 1 on, and the row's position in it."""
    row = torch.arange(rows, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    number = torch.searchsorted(cu_seqlens, row, right=True)
    return number, row - cu_seqlens[(number - 1).clamp(min=0)]
