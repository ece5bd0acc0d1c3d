"""Registration shared by every kind of attention: schemas, kernels, autograd, autocast, sharding."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from ._direct import without_dispatcher
from ._library import BELOW_AUTOCAST, LIBRARY, TAGS, can_shard_heads, cast, needs_gradient, refuse_cpu
from ._scores import placement, tensors_of

_INPUTS = "Tensor query, Tensor key, Tensor value"


def new_like(tensor: Tensor) -> Tensor:
    """A contiguous tensor of this shape."""
    return tensor.new_empty(tensor.shape)


def define(name: str, options: str, of_backward: str) -> None:
    """The operators `name`, `name`_with_lse and `name`_backward; `options` are their arguments after the tensors."""
    schemas = {
        name: f"({_INPUTS}, {options}) -> Tensor",
        f"{name}_with_lse": f"({_INPUTS}, {options}) -> (Tensor, Tensor)",
        f"{name}_backward": f"(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, {of_backward}) -> (Tensor, Tensor, Tensor)",
    }
    for each, schema in schemas.items():
        LIBRARY.define(each + schema, tags=TAGS)


def implement(name: str, forward: Callable, with_lse: Callable, backward: Callable) -> tuple[Callable, Callable]:
    """Registers the kernels of these operators. Returns functions that call `name` and `name`_with_lse, without PyTorch's dispatcher
    where nothing would notice."""
    for each, kernel in {name: forward, f"{name}_with_lse": with_lse, f"{name}_backward": backward}.items():
        LIBRARY.impl(each, kernel, "CUDA")
        LIBRARY.impl(each, refuse_cpu, "CPU")
    operators = (getattr(torch.ops.fa512, each).default for each in (name, f"{name}_with_lse"))
    call, call_with_lse = (without_dispatcher(*pair) for pair in zip((forward, with_lse), operators))
    return call, call_with_lse


def register_fakes(
    name: str,
    why_not: Callable[..., Optional[str]],
    new_out: Callable[[Tensor], Tensor],
    new_lse: Callable[[Tensor], Tensor],
    new_gradient: Callable[[Tensor], Tensor],
) -> None:
    """Fake implementations of these operators. `why_not` gets the arguments of `name`; the other functions make tensors for O, and
    a gradient for Q, K or V."""

    def require(*arguments: Any) -> None:
        reason = why_not(*arguments)
        if reason is not None:
            raise ValueError(reason)

    def forward(query: Tensor, *others: Any) -> Tensor:
        require(query, *others)
        return new_out(query)

    def with_lse(query: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
        return forward(query, *others), new_lse(query)

    def backward(grad: Tensor, *others: Any) -> tuple[Tensor, ...]:
        return tuple(new_gradient(tensor) for tensor in others[:3])

    for each, fake in {name: forward, f"{name}_with_lse": with_lse, f"{name}_backward": backward}.items():
        torch.library.register_fake(f"fa512::{each}", fake, lib=LIBRARY)


class Kept(NamedTuple):
    """The arguments that the backward takes after Q, K, V, O and LSE."""

    lengths: tuple[Optional[Tensor], ...]
    options: tuple[Any, ...]


def register_autograd(name: str, why_no_gradient: Callable[..., Optional[str]], keep: Callable[..., Kept]) -> None:
    """Registers `name`_backward as the gradient of `name` and `name`_with_lse. Both functions get the operator's arguments."""
    operators = torch.ops.fa512
    forward = getattr(operators, name).default
    with_lse = getattr(operators, f"{name}_with_lse").default
    backward = getattr(operators, f"{name}_backward").default

    def forward_autograd(*arguments: Any) -> Tensor:
        """Computes LSE too if a gradient will be needed."""
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
    """Casts Q, K and V of the operators `name` and `name`_with_lse to autocast's type, as scaled_dot_product_attention does."""
    for each in (name, f"{name}_with_lse"):
        operator = getattr(torch.ops.fa512, each).default

        def autocast(query: Tensor, key: Tensor, value: Tensor, *options: Any, operator: Any = operator) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(BELOW_AUTOCAST):
                return operator(cast(query), cast(key), cast(value), *cast_options(*options))

        LIBRARY.impl(each, autocast, "AutocastCUDA")


class Sharding(NamedTuple):
    """One way to shard an attention: for each kind of tensor the dimension that is sharded, None if it is replicated."""

    rows: Optional[int] = None
    """Of Q, K, V, O and gradients."""
    lse: Optional[int] = None
    lengths: Optional[int] = None
    """Of what says how long sequences are."""
    scores: int = -1
    """What divides slopes and a bias: 0 batches, 1 heads, -1 nothing."""


_KINDS = {
    "lse": "lse",
    **dict.fromkeys(("grad", "query", "key", "value", "out"), "rows"),
    **dict.fromkeys(("cu_seqlens", "cu_seqlens_k", "seqused_q", "seqused_k"), "lengths"),
}
_RANKS_OF_SCORES = {"alibi_slopes": 2, "bias": 4}


def register_sharding(name: str, heads: Sharding, *others: Sharding) -> None:
    """Tells DTensor how the operators `name`, `name`_with_lse and `name`_backward can be sharded without a collective. `heads` is
    skipped if it would separate heads of Q from the heads of K and V that they share."""
    try:
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.experimental import register_sharding as register
    except ImportError:
        return

    def place(dimension: Optional[int]) -> Any:
        return Replicate() if dimension is None else Shard(dimension)

    def place_input(argument: str, spec: Any, one: Sharding) -> Any:
        if argument in _RANKS_OF_SCORES:
            return placement(spec, _RANKS_OF_SCORES[argument], one.scores)
        return place(getattr(one, _KINDS[argument])) if hasattr(spec, "placements") else None

    for each, outputs in {name: ["rows"], f"{name}_with_lse": ["rows", "lse"], f"{name}_backward": ["rows"] * 3}.items():
        operator = getattr(torch.ops.fa512, each).default
        names = [argument.name for argument in operator._schema.arguments]

        def acceptable(*arguments: Any, names: Any = names, outputs: Any = outputs, **keywords: Any) -> list[Any]:
            given = {**dict(zip(names, arguments)), **keywords}
            possible = [Sharding(), *others]
            if heads.rows is not None and can_shard_heads(given["query"], given["key"], heads.rows):
                possible.append(heads)
            return [
                (
                    [place(getattr(one, kind)) for kind in outputs],
                    [place_input(argument, spec, one) for argument, spec in given.items()],
                )
                for one in possible
            ]

        register(operator)(acceptable)
