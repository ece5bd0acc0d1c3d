"""Arguments of every function: each is taken as it is meant, or a ValueError names it, its value and what is accepted."""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import sys
from typing import Any, Callable, NoReturn, Optional, TypeVar

MINIMUM_SOFTCAP, MAXIMUM_SOFTCAP = 1e-3, 1e3
_SOFTCAP = f"a number from {MINIMUM_SOFTCAP:g} to {MAXIMUM_SOFTCAP:g}, or None"
NO_TENSOR_HAS = 2**31
"""More rows than any tensor has."""

_Result = TypeVar("_Result")
Sides = tuple[Optional[int], Optional[int]]
"""Keys before a query's own position and after it; None is no limit."""


def refuse(name: str, given: Any, accepted: str) -> NoReturn:
    # A tensor's elements may be many, and on a GPU.
    shape = getattr(given, "shape", ())
    shown = f"{type(given).__name__} {list(shape)}" if shape else repr(given)
    raise ValueError(f"{name} is {shown}, which is not supported; it must be {accepted}")


def flag(name: str, given: Any) -> bool:
    """True or False; 1 and 0 are these."""
    if given is True or given is False:
        return given
    if isinstance(given, int) and given in (0, 1):
        return bool(given)
    refuse(name, given, "True or False")


def number(
    name: str, given: Any, accepted: str, lowest: float = -sys.float_info.max, highest: float = sys.float_info.max
) -> Optional[float]:
    """A number from the lowest to the highest, of Python or NumPy; None stays None."""
    if given is None or (type(given) is float and lowest <= given <= highest):
        return given
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        try:
            made = float(given)
        except OverflowError:
            refuse(name, given, accepted)
        if lowest <= made <= highest:
            return made
    refuse(name, given, accepted)


def no_dropout(name: str, given: Any) -> None:
    if number(name, given, "0", 0, 0) is None:
        refuse(name, given, "0")


def scale_of(name: str, given: Any) -> Optional[float]:
    return number(name, given, "a finite number, or None for 1/√(head size)")


def softcap_of(name: str, given: Any) -> Optional[float]:
    return number(name, given, _SOFTCAP, MINIMUM_SOFTCAP, MAXIMUM_SOFTCAP)


def window_of(name: str, given: Any) -> Sides:
    """The window (left, right); None is no limit, for a side or for both."""
    return _sides(name, given, "two numbers of keys (left, right), where None is no limit")


def window_of_flash_attn(name: str, given: Any, queries: int, keys: int) -> Sides:
    """flash-attn's window of so many rows of Q and K, aligned bottom-right: -1 is no limit, and so is a side that reaches beyond all
    keys."""
    left, right = _sides(name, given, "two numbers of keys (left, right), where -1 is no limit", -1)
    return (None if left is None or left >= keys - 1 else left), (None if right is None or right >= queries - 1 else right)


def _sides(name: str, given: Any, accepted: str, no_limit: Optional[int] = None) -> Sides:
    if given is None:
        return None, None
    try:
        pair = len(given) == 2 and (given[0], given[1])
    except (TypeError, KeyError):
        pair = False
    if not pair:
        refuse(name, given, accepted)
    return _side(name, given, accepted, no_limit, pair[0]), _side(name, given, accepted, no_limit, pair[1])


def _side(name: str, window: Any, accepted: str, no_limit: Optional[int], given: Any) -> Optional[int]:
    if given is None:
        return None
    keys = given if type(given) is int else _integer(given)
    if keys is None or keys < (0 if no_limit is None else no_limit):
        refuse(name, window, accepted)
    return None if keys == no_limit or keys >= NO_TENSOR_HAS else keys


def _integer(given: Any) -> Optional[int]:
    """An integer of Python or NumPy or a tensor of one; None for everything else."""
    if type(given) is int:
        return given
    if isinstance(given, (bool, float)) or "bool" in str(getattr(given, "dtype", "")):
        return None
    try:
        return operator.index(given)
    except (TypeError, ValueError, RuntimeError):
        return None


def rows_of(name: str, given: Any) -> int:
    """A number of rows, of Python or NumPy or a tensor of one."""
    if type(given) is int and 0 <= given < NO_TENSOR_HAS:
        return given
    rows = _integer(given)
    if rows is None or not 0 <= rows < NO_TENSOR_HAS:
        refuse(name, given, f"a number of rows below {NO_TENSOR_HAS}")
    return rows


def choice(name: str, given: Any, *accepted: str) -> str:
    if not isinstance(given, str) or given not in accepted:
        refuse(name, given, " or ".join(f'"{each}"' for each in accepted))
    return given


def align_of(name: str, given: Any) -> str:
    return choice(name, given, "top-left", "bottom-right")


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("causal", "return_lse", "changes_scores"), flag),
    **dict.fromkeys(("batch", "heads", "sequence", "device", "head_dim", "max_seqlen"), rows_of),
    **dict.fromkeys(("sequences", "kv_heads", "kv_sequence"), rows_of),
    "window": window_of,
    "align": align_of,
    "scale": scale_of,
    "softcap": softcap_of,
    "layout": lambda name, given: choice(name, given, "bhsd", "bshd"),
    "lengths": lambda name, given: choice(name, given, "shared", "separate", "padded"),
    "dtype": lambda name, given: choice(name, given, "float16", "bfloat16"),
}


def by_name(native: Callable[..., _Result]) -> Callable[..., _Result]:
    """This native function, whose errors name arguments of other types, too. What it takes costs nothing; what it does not, it gets once
    more, checked and in its own types."""
    signature = inspect.signature(native)

    @functools.wraps(native)
    def call(*arguments: Any, **options: Any) -> _Result:
        try:
            return native(*arguments, **options)
        except (TypeError, OverflowError) as error:
            first: Exception = error
        except ValueError as error:
            if not str(error).startswith("expected tuple of length"):
                raise
            first = error
        try:
            bound = signature.bind(*arguments, **options)
        except TypeError:
            raise first from None
        for name, given in bound.arguments.items():
            if name in _CHECKS and given is not signature.parameters[name].default:
                bound.arguments[name] = _CHECKS[name](name, given)
        return native(*bound.args, **bound.kwargs)

    return call
