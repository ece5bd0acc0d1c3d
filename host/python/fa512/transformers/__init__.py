"""The attention `fa512_flash` for transformers 5 and packages built on it (sentence-transformers).

Importing this registers it: `AutoModel.from_pretrained(..., attn_implementation="fa512_flash", dtype=torch.float16)`. Padded batches
are computed in place, without their padding's keys. Models whose attention is not flash attention keep PyTorch's, and calls that fa512 does
not support go to PyTorch, with one warning per reason; with `register(strict=True)` both are errors.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import transformers.modeling_flash_attention_utils as _flash
from transformers import AttentionInterface, AttentionMaskInterface

from .. import torch as _operators
from . import _masks, _models
from ._attention import attention_forward

__all__ = ["NAME", "register"]

NAME = "fa512_flash"
"""The name of the attention. That it holds "flash" tells transformers and sentence-transformers that masks may be left out."""


def register(name: str = NAME, *, strict: bool = False) -> None:
    """Registers the attention with transformers under `name`, which must contain "flash".

    With `strict`, what fa512 does not support raises an error instead of a warning: a model as it chooses its attention, else a call.
    """
    if "flash" not in name:
        raise ValueError(f'name is {name!r}; it must hold "flash"')
    AttentionInterface.register(name, functools.partial(attention_forward, strict))
    AttentionMaskInterface.register(name, _masks.mask)
    _models.names[name] = strict


def _answer_lazy_imports() -> None:
    """Lets transformers find the functions behind our name, which it looks up for every name that contains "flash"."""
    original: Callable[..., Any] = _flash._lazy_imports

    @functools.wraps(original)
    def lazy_imports(implementation: Optional[str], *arguments: Any, **keywords: Any) -> Any:
        if implementation in _models.names:
            functions = (_operators.flash_attn_func, _operators.flash_attn_varlen_func, None)
            return (*functions, _flash._pad_input, _flash._unpad_input)
        return original(implementation, *arguments, **keywords)

    _flash._lazy_imports = lazy_imports


_answer_lazy_imports()
_models.choose_by_model()
register()
