"""What every operator with a gradient is registered with: autograd, autocast."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from ._library import BELOW_AUTOCAST, LIBRARY, cast, needs_gradient
from ._scores import tensors_of


class Kept(NamedTuple):
    """What the backward takes behind Q, K, V, O and LSE."""

    lengths: tuple[Optional[Tensor], ...]
    options: tuple[Any, ...]


def register_autograd(name: str, why_no_gradient: Callable[..., Optional[str]], keep: Callable[..., Kept]) -> None:
    """The gradient of the operators `name` and `name`_with_lse, by `name`_backward. Both functions are given the operator's arguments."""
    operators = torch.ops.fa512
    forward = getattr(operators, name).default
    with_lse = getattr(operators, f"{name}_with_lse").default
    backward = getattr(operators, f"{name}_backward").default

    def forward_autograd(*arguments: Any) -> Tensor:
        """With a gradient to come, LSE is computed, too."""
        if needs_gradient(*tensors_of(arguments)):
            return with_lse(*arguments)[0]
        with torch._C._AutoDispatchBelowAutograd():
            return forward(*arguments)

    def keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        reason = why_no_gradient(*inputs)
        if reason is not None:
            raise ValueError(reason)
        lengths, ctx.options = keep(*inputs)
        out, lse = output
        ctx.inputs = len(inputs)
        ctx.save_for_backward(*inputs[:3], out, lse, *lengths)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)

    def backward_of_forward(ctx: Any, grad: Optional[Tensor], _: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        gradients = (None,) * 3 if grad is None else backward(grad, *ctx.saved_tensors, *ctx.options)
        return (*gradients, *(None,) * (ctx.inputs - 3))

    LIBRARY.impl(name, forward_autograd, "Autograd")
    torch.library.register_autograd(
        f"fa512::{name}_with_lse", backward_of_forward, setup_context=keep_for_backward, lib=LIBRARY
    )


def register_autocast(name: str, cast_options: Callable[..., tuple[Any, ...]] = lambda *options: options) -> None:
    """Casts Q, K and V of the operators `name` and `name`_with_lse to autocast's type, as scaled_dot_product_attention."""
    for each in (name, f"{name}_with_lse"):
        operator = getattr(torch.ops.fa512, each).default

        def autocast(query: Tensor, key: Tensor, value: Tensor, *options: Any, operator: Any = operator) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(BELOW_AUTOCAST):
                return operator(cast(query), cast(key), cast(value), *cast_options(*options))

        LIBRARY.impl(each, autocast, "AutocastCUDA")
