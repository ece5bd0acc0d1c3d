"""What transformers' mask functions say, as limits of the distance between a query and its keys."""

from __future__ import annotations

import dis
import inspect
from typing import Any, Callable, NamedTuple, Optional

from torch import Tensor
from transformers import masking_utils


class Limits(NamedTuple):
    """A query at position i sees the keys i - left … i + right; None is no limit. A causal mask has right = 0."""

    left: Optional[int] = None
    right: Optional[int] = None

    @classmethod
    def of_layer(cls, causal: bool, window: Optional[int]) -> Limits:
        """As a layer tells flash attention: `window` counts the keys back, the query's own included."""
        side = None if window is None else window - 1
        return cls(side, 0 if causal else side)

    def within(self, rows: int) -> Limits:
        """Without sides that reach beyond every one of `rows` rows."""
        return Limits(*(None if side is None or side >= rows - 1 > 0 else side for side in self))

    def options(self) -> tuple[bool, Optional[int], Optional[int]]:
        """`is_causal`, `window_left` and `window_right` of the operators."""
        causal = self.right == 0
        return causal, self.left, None if causal else self.right

    @property
    def are_none(self) -> bool:
        """Whether every query sees every key."""
        return self == Limits()


class Pattern(NamedTuple):
    """A mask function: limits, and the numbers [batch, sequence] of packed sequences that do not see each other."""

    limits: Limits
    sequences: Optional[Tensor] = None


def pattern(function: Callable[..., Any]) -> Optional[Pattern]:
    """What a mask function says; None if that is more than limits and packed sequences."""
    if function is masking_utils.causal_mask_function:
        return Pattern(Limits(right=0))
    if function is masking_utils.bidirectional_mask_function:
        return Pattern(Limits())
    if not inspect.isfunction(function):
        return None
    held = inspect.getclosurevars(function).nonlocals
    combine = _COMBINATIONS.get(function.__qualname__)
    if combine is not None:
        return combine([pattern(part) for part in held["mask_functions"]])
    if function.__qualname__ == "packed_sequence_mask_function.<locals>.inner_mask":
        return Pattern(Limits(), held["packed_sequence_mask"])
    of_window = _WINDOWS.get(function.__qualname__)
    if of_window is not None:
        limits = of_window(held["sliding_window"])
        return Pattern(limits) if _agrees(function, limits) else None
    return Pattern(Limits()) if _is_always_true(function) else None


def _intersection(parts: list[Optional[Pattern]]) -> Optional[Pattern]:
    limits, sequences = Limits(), None
    for part in parts:
        if part is None or (part.sequences is not None and sequences is not None):
            return None
        limits = Limits(*map(_nearer, limits, part.limits))
        sequences = part.sequences if sequences is None else sequences
    return Pattern(limits, sequences)


def _union(parts: list[Optional[Pattern]]) -> Optional[Pattern]:
    known = [part.limits for part in parts if part is not None and part.sequences is None]
    if len(known) < len(parts):
        return None
    # Each has the key at the query's own position, so that there is no gap between them.
    return Pattern(Limits(*(None if None in sides else max(sides) for sides in zip(*known))))


def _nearer(first: Optional[int], second: Optional[int]) -> Optional[int]:
    return first if second is None else second if first is None else min(first, second)


_COMBINATIONS = {"and_masks.<locals>.and_mask": _intersection, "or_masks.<locals>.or_mask": _union}
_WINDOWS: dict[str, Callable[[int], Limits]] = {
    "sliding_window_overlay.<locals>.inner_mask": lambda size: Limits(left=size - 1),
    "sliding_window_bidirectional_overlay.<locals>.inner_mask": lambda size: Limits(size, size),
    # Of Gemma 3 and models like it.
    "_bidirectional_window_overlay.<locals>.inner_mask": lambda size: Limits(size - 1, size - 1),
}


def _agrees(function: Callable[..., Any], limits: Limits) -> bool:
    """Whether the function says at the edges of these limits what they say, in this version of transformers and this model."""
    left, right = limits
    far = 1 << 20
    expected = {0: True, -far: left is None, far: right is None}
    if left is not None:
        expected |= {-left: True, -left - 1: False}
    if right is not None:
        expected |= {right: True, right + 1: False}
    return all(bool(function(0, 0, far, far + distance)) == sees for distance, sees in expected.items())


def _is_always_true(function: Callable[..., Any]) -> bool:
    """Whether a function without variables of its own, which reads none of its arguments, returns true."""
    reads = any(instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) for instruction in dis.get_instructions(function))
    return not reads and bool(function(0, 0, 0, 0))
