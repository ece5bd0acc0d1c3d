"""Calls of the kernels without PyTorch's dispatcher, where nothing would notice that it is left out.

The dispatcher takes the host about as long as the call itself. A model calls attention in every layer, and small models wait for the host.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

import torch
from torch import Tensor

from ._library import needs_gradient
from ._scores import tensors_of

try:
    from torch._C import _is_tracing, _len_torch_dispatch_stack, _len_torch_function_stack
    from torch._C._autograd import _profiler_enabled
    from torch._C._functorch import peek_interpreter_stack
except ImportError:  # A PyTorch that cannot be asked: every call goes through its dispatcher.
    _CAN_ASK = False
else:
    _CAN_ASK = True

_Result = TypeVar("_Result")


def is_unobserved(*tensors: Tensor) -> bool:
    """Whether nothing would notice a call on these tensors that leaves the dispatcher out: they are plain tensors on a GPU without a
    gradient, and no compiler, tracer, mode, function transform, autocast or profiler is active."""
    if torch.compiler.is_compiling() or not _CAN_ASK:
        return False
    for tensor in tensors:
        if type(tensor) is not Tensor or not _is_on_a_gpu(tensor):
            return False
    return not (needs_gradient(*tensors) or _is_observed())


def _is_on_a_gpu(tensor: Tensor) -> bool:
    return tensor.is_cuda


def _is_observed() -> bool:
    """Whether something is active in this thread that sees operators."""
    return bool(
        _len_torch_dispatch_stack()
        or _len_torch_function_stack()
        or peek_interpreter_stack() is not None
        or torch.is_autocast_enabled("cuda")
        or _is_tracing()
        or _profiler_enabled()
    )


def without_dispatcher(kernel: Callable[..., _Result], operator: Callable[..., _Result]) -> Callable[..., _Result]:
    """A function that calls `kernel` if nothing would notice, else `operator`, which is registered with it."""

    def call(*arguments: Any) -> _Result:
        return (kernel if is_unobserved(*tensors_of(arguments)) else operator)(*arguments)

    return call


def attempt(kernel: Callable[..., _Result], *arguments: Any) -> Optional[_Result]:
    """The result of `kernel` on unobserved tensors; None if it refuses them. That is faster than to ask first whether it will."""
    try:
        return kernel(*arguments)
    except (TypeError, ValueError):
        return None
