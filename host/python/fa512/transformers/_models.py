"""Which models are given our attention. transformers offers a registered one to every model, also to those that lose something by it."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import sys
from typing import Any, Callable, Optional

import torch
from transformers import PreTrainedModel

from ._by_pytorch import parameters_of_eager

_LOGGER = logging.getLogger("fa512.transformers")
_warned: set[str] = set()

_WATCHED = "_fa512_is_watched"

# Pixtral: positions of another kind then say which patches are of one image.
_MASK_LEFT_OUT = re.compile(r"if is_flash_attention_requested\(self\.config\):\s+(#.*\s+)?attention_mask = None")

names: dict[str, bool] = {}
"""Registered names; whether a model that is not served is an error."""


def why_not_model(model: PreTrainedModel) -> Optional[str]:
    """The reason why a model cannot have an attention like flash attention; None if it can, or if what it adds is a `position_bias`."""
    is_by_bias = model._supports_sdpa and "position_bias" in parameters_of_eager(type(model).__module__)
    if not (model._supports_flash_attn or is_by_bias):
        return "it adds a bias or a mask of its own to attention (its _supports_flash_attn is False)"
    if not model._can_set_attn_implementation():
        return "it has attention of its own, and does not call a registered one"
    if _MASK_LEFT_OUT.search(_source(type(model).__module__)):
        return "it leaves its mask out where an attention is called flash"
    others = getattr(model, "_compatible_flash_implementations", None)
    if others:
        return f"its attention needs one of {list(others)}"
    return None


def _served(model: PreTrainedModel, requested: Optional[str]) -> Optional[str]:
    """The attention that a model gets that was asked to have `requested`."""
    if requested not in names:
        return requested
    model._fa512_is_asked = True
    _watch(type(model))
    reason = why_not_model(model)
    if reason is None:
        return requested
    name = type(model).__name__
    if names[requested]:
        raise ValueError(f"fa512 does not compute the attention of {name}: {reason}")
    instead = "sdpa" if model._supports_sdpa else "eager"
    if name not in _warned:
        _warned.add(name)
        _LOGGER.warning('fa512: attention of %s is computed by "%s": %s', name, instead, reason)
    return instead


packed_calls = 0
"""How many attentions of packed sequences were computed, by whomever."""


def count_packed() -> None:
    """Counts an attention of packed sequences. A compiled graph would be compiled anew for each count."""
    global packed_calls
    if not torch.compiler.is_compiling():
        packed_calls += 1


def _watch(of: type[PreTrainedModel]) -> None:
    """Has a class refuse packed sequences where its attention would mix them. Not by hooks, which a direct call of `forward` leaves out."""
    original = of.forward
    if hasattr(original, _WATCHED):
        return

    @functools.wraps(original)
    def forward(self: PreTrainedModel, *inputs: Any, **arguments: Any) -> Any:
        if arguments.get("cu_seq_lens_q") is None or not getattr(self, "_fa512_is_asked", False):
            return original(self, *inputs, **arguments)
        name, implementation = type(self).__name__, self.config._attn_implementation
        if implementation not in names:
            raise ValueError(
                f'cu_seq_lens_q is given, and attention of {name} is computed by "{implementation}", which does not keep packed '
                f"sequences apart: {why_not_model(self)}"
            )
        before = packed_calls
        out = original(self, *inputs, **arguments)
        if packed_calls == before and not torch.compiler.is_compiling():
            raise ValueError(f"cu_seq_lens_q is given, and {name} hands it to no attention, which would mix packed sequences; pad them")
        return out

    setattr(forward, _WATCHED, True)
    of.forward = forward  # type: ignore[method-assign]


@functools.lru_cache(maxsize=None)
def _source(module: str) -> str:
    """The source of a model; nothing if there is none."""
    try:
        return inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return ""


def choose_by_model() -> None:
    """Has transformers ask `_served` wherever a model chooses its attention: as it is made, and when it is set."""
    for method in ("_check_and_adjust_attn_implementation", "get_correct_attn_implementation"):
        original: Callable[..., Any] = getattr(PreTrainedModel, method)

        @functools.wraps(original)
        def choose(self: PreTrainedModel, requested: Optional[str], *more: Any, original: Any = original, **named: Any) -> Any:
            return original(self, _served(self, requested), *more, **named)

        setattr(PreTrainedModel, method, choose)
