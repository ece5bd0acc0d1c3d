"""Which way a call takes: to the kernels without PyTorch's dispatcher, with a gradient or without, or through an operator.

The dispatcher takes the host about as long as the call itself. A model calls attention in every layer, and small models wait for the host.
It is left out only where nothing would notice: every tensor is what its memory on a GPU holds, and nothing that sees operators is active.
Memory may mean another value only with the negative bit (the conjugate bit is of complex numbers). Whatever else a tensor of PyTorch's own
type may be (sparse, nested, zeros without memory, a wrapper of functions) has no memory that DLPack hands out: the kernel refuses it, and
the operator is called.
"""

from __future__ import annotations

import enum
import operator
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

try:
    from torch._C import (
        DispatchKey,
        _dispatch_tls_is_dispatch_key_excluded,
        _is_any_autocast_enabled,
        _is_tracing,
        _len_torch_dispatch_stack,
        _len_torch_function_stack,
    )
    from torch._C._autograd import _profiler_enabled
    from torch._C._functorch import peek_interpreter_stack

    _AUTOGRAD = DispatchKey.AutogradFunctionality
except (ImportError, AttributeError):  # A PyTorch that cannot be asked: every call goes through its dispatcher.
    _CAN_ASK = False
else:
    _CAN_ASK = True


class Way(enum.Enum):
    """The way of a call."""

    OPERATOR = "through PyTorch's dispatcher"
    KERNEL = "to the kernel"
    RECORDED = "to the kernel, and the gradient is recorded"


# Looking up a member of an enumeration takes as long as asking a tensor.
OPERATOR, KERNEL, RECORDED = Way.OPERATOR, Way.KERNEL, Way.RECORDED

_SCALARS = frozenset((bool, int, float, str))
"""Types of arguments in which nothing hides."""


def way_of(arguments: tuple[Any, ...]) -> Way:
    """The way of a call with these arguments."""
    if is_compiling() or not _CAN_ASK:
        return OPERATOR
    requires_grad = False
    for each in arguments:
        if each is None:
            continue
        kind = type(each)
        if kind is Tensor:
            if not _is_on_a_gpu(each) or each.is_neg():
                return OPERATOR
            if each.requires_grad:
                requires_grad = True
        elif kind not in _SCALARS:
            return OPERATOR
    if (
        _len_torch_dispatch_stack()
        or _len_torch_function_stack()
        or peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or _is_tracing()
        or _profiler_enabled()
        or (_is_any_autocast_enabled() and _is_cast(arguments))
    ):
        return OPERATOR
    if not (requires_grad and torch.is_grad_enabled()):
        return KERNEL
    # Inside a kernel of another operator, autograd is not to record.
    return OPERATOR if _dispatch_tls_is_dispatch_key_excluded(_AUTOGRAD) else RECORDED


_is_on_a_gpu = operator.attrgetter("is_cuda")


def _is_cast(arguments: tuple[Any, ...]) -> bool:
    """Whether autocast changes the type of a tensor. Operators cast Q, K, V and a bias; other types are as for Q or never cast."""
    if not torch.is_autocast_enabled("cuda"):
        return False
    element = torch.get_autocast_dtype("cuda")
    return any(isinstance(each, Tensor) and each.dtype != element and each.is_floating_point() for each in arguments)


_REFUSALS = (TypeError, ValueError, RuntimeError, BufferError, IndexError)


def is_unobserved(*tensors: Tensor) -> bool:
    """Whether nothing would notice a call on these tensors that leaves the dispatcher out, and no gradient is required."""
    return way_of(tensors) is KERNEL


def by_the_way(kernel: Callable, record: Callable, by_operator: Optional[Callable] = None, has_lse: bool = False) -> Callable:
    """A function that calls one of these three, which compute the same: O, or O and LSE, as `record` always does, whose LSE may have a last
    dimension of 1. What a kernel refuses, the operator computes or refuses. Without an operator, the result is then None."""

    def call(*arguments: Any) -> Any:
        way = way_of(arguments)
        try:
            if way is KERNEL:
                return kernel(*arguments)
            if way is RECORDED:
                out, lse = record(*arguments)
                return out if not has_lse else (out, lse if lse.dim() < out.dim() else lse.squeeze(-1))
        except _REFUSALS:
            pass
        return None if by_operator is None else by_operator(*arguments)

    return call
