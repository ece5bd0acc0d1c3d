"""Registration shared by every kind of attention: schemas, kernels, autograd, autocast, sharding."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from ._direct import by_the_way
from ._library import BELOW_AUTOCAST, LIBRARY, TAGS, can_shard_heads, cast, needs_gradient, refuse_cpu
from ._scores import placement, tensors_of

_INPUTS = "Tensor query, Tensor key, Tensor value"
BIAS_OF_BACKWARD = 7
"""Which argument of a backward that also returns dBias is the bias."""


def new_like(tensor: Tensor) -> Tensor:
    """A contiguous tensor of this shape."""
    return tensor.new_empty(tensor.shape)


def define(name: str, options: str, of_backward: str, has_bias: bool = False) -> None:
    """The operators `name`, `name`_with_lse and `name`_backward, and `name`_bias_backward, which also returns dBias, if there may be a bias.
    `options` are their arguments after the tensors."""
    gradients = "Tensor, Tensor, Tensor"
    schemas = {
        name: f"({_INPUTS}, {options}) -> Tensor",
        f"{name}_with_lse": f"({_INPUTS}, {options}) -> (Tensor, Tensor)",
        f"{name}_backward": f"(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, {of_backward}) -> ({gradients})",
    }
    if has_bias:
        schemas[f"{name}_bias_backward"] = schemas[f"{name}_backward"].replace(gradients, f"{gradients}, Tensor")
    for each, schema in schemas.items():
        LIBRARY.define(each + schema, tags=TAGS)


def implement(name: str, forward: Callable, with_lse: Callable, backward: Callable, **others: Callable) -> None:
    """Registers the kernels of these operators; `others` by what follows the name."""
    ends = {"": forward, "_with_lse": with_lse, "_backward": backward, **others}
    for each, kernel in ((name + end, kernel) for end, kernel in ends.items()):
        LIBRARY.impl(each, kernel, "CUDA")
        LIBRARY.impl(each, refuse_cpu, "CPU")


def operators(name: str) -> tuple[Callable, Callable]:
    """The operators `name` and `name`_with_lse."""
    return getattr(torch.ops.fa512, name).default, getattr(torch.ops.fa512, f"{name}_with_lse").default


def calls(
    forward: Callable, with_lse: Callable, record: Callable, operator: Callable, operator_with_lse: Callable
) -> tuple[Callable, Callable]:
    """Functions that compute what the operators do, without PyTorch's dispatcher where nothing would notice: by kernels that return O
    and O and LSE, and one that also records the gradient, whose LSE may have a last dimension of 1."""
    return by_the_way(forward, record, operator), by_the_way(with_lse, record, operator_with_lse, has_lse=True)


def register_calls(
    name: str, forward: Callable, with_lse: Callable, record: Callable, autograd: Callable, autograd_with_lse: Callable
) -> tuple[Callable, Callable]:
    """`calls` of the operators `name` and `name`_with_lse, whose kernels at the keys of autograd are then such functions, too, with the last
    two in place of the operators."""
    for each, call in zip((name, f"{name}_with_lse"), calls(forward, with_lse, record, autograd, autograd_with_lse)):
        LIBRARY.impl(each, call, "Autograd")
    return calls(forward, with_lse, record, *operators(name))


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

    def bias_backward(grad: Tensor, *others: Any) -> tuple[Tensor, ...]:
        return *backward(grad, *others), new_like(others[BIAS_OF_BACKWARD - 1])

    fakes = {"": forward, "_with_lse": with_lse, "_backward": backward, "_bias_backward": bias_backward}
    for end, fake in fakes.items():
        if hasattr(torch.ops.fa512, name + end):
            torch.library.register_fake(f"fa512::{name}{end}", fake, lib=LIBRARY)


class Kept(NamedTuple):
    """The arguments that the backward takes after Q, K, V, O and LSE."""

    lengths: tuple[Optional[Tensor], ...]
    options: tuple[Any, ...]


def register_autograd(
    name: str, keep: Callable[..., Kept], with_lse: Callable, backward: Callable, bias_backward: Optional[Callable] = None
) -> tuple[Callable, Callable, Callable]:
    """`with_lse` with the gradient `backward`: kernels, without PyTorch's dispatcher; and through it, `name` and `name`_with_lse with the gradient
    `name`_backward, which has no derivative itself. `keep` gets the operator's arguments."""
    operators = torch.ops.fa512
    forward, below, of_gradient = (getattr(operators, f"{name}{end}").default for end in ("", "_with_lse", "_backward"))

    def below_autograd(*arguments: Any) -> tuple[Tensor, Tensor]:
        return _in_function(below, *arguments)

    names = [argument.name for argument in forward._schema.arguments]
    of_bias: Any = None if bias_backward is None else getattr(operators, f"{name}_bias_backward").default
    record = _record(below_autograd, (of_gradient, of_bias), keep, names).apply

    def forward_autograd(*arguments: Any) -> Tensor:
        """Computes LSE too if a gradient will be needed."""
        tensors = tensors_of(arguments)
        refuse_tangents(name, tensors)
        if needs_gradient(*tensors):
            return _at_one_level(record, *arguments)[0]
        return _below_autograd(forward, *arguments)

    def with_lse_autograd(*arguments: Any) -> tuple[Tensor, Tensor]:
        tensors = tensors_of(arguments)
        refuse_tangents(name, tensors)
        return _at_one_level(record, *arguments) if needs_gradient(*tensors) else _below_autograd(below, *arguments)

    def backward_autograd(*arguments: Any) -> tuple[Tensor, ...]:
        refuse_tangents(name, tensors_of(arguments))
        return _at_one_level(_Gradients.apply, name, of_gradient, *arguments)

    def bias_backward_autograd(*arguments: Any) -> tuple[Tensor, ...]:
        refuse_tangents(name, tensors_of(arguments))
        return _at_one_level(_Gradients.apply, name, of_bias, *arguments)

    LIBRARY.impl(f"{name}_backward", backward_autograd, "Autograd")
    unobserved = _unobserved(backward, of_gradient)
    if bias_backward is None:
        return _record(with_lse, (unobserved, None), keep, names).apply, forward_autograd, with_lse_autograd
    LIBRARY.impl(f"{name}_bias_backward", bias_backward_autograd, "Autograd")
    backwards = (unobserved, _unobserved(bias_backward, of_bias))
    return _record(with_lse, backwards, keep, names).apply, forward_autograd, with_lse_autograd


def _unobserved(backward: Callable, operator: Callable) -> Callable:
    """`backward`, or its operator where a derivative is recorded, which is an error, or the gradient is of a function transform."""

    def unobserved(*arguments: Any) -> tuple[Tensor, ...]:
        is_transformed = _functorch.peek_interpreter_stack() is not None or _functorch.is_legacy_batchedtensor(arguments[0])
        return (operator if is_transformed or torch.is_grad_enabled() else backward)(*arguments)

    return unobserved


def _below_autograd(operator: Callable, *arguments: Any) -> Any:
    """Calls an operator in its own kernel of autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def _in_function(operator: Callable, *arguments: Any) -> Any:
    """The same in a function of autograd, which disables gradients for itself, but not for the levels of function transforms below."""
    if _functorch.peek_interpreter_stack() is None:
        return _below_autograd(operator, *arguments)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return _below_autograd(operator, *arguments)


def _at_one_level(function: Callable, *arguments: Any) -> Any:
    """Calls a function of autograd in an operator's kernel, which runs at one level of function transforms at a time."""
    before = _functorch.get_single_level_autograd_function_allowed()
    _functorch.set_single_level_autograd_function_allowed(True)
    try:
        return function(*arguments)
    finally:
        _functorch.set_single_level_autograd_function_allowed(before)


def refuse_tangents(name: str, tensors: list[Tensor]) -> None:
    """Raises an error if a tensor has a tangent, which would be lost."""
    if forward_ad._current_level < 0:
        return
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        found = f"fa512: {name} has no forward-mode derivative (torch.func.jvp, torch.autograd.forward_ad)"
        raise NotImplementedError(f"{found}; use a backward, or PyTorch's attention")


def _record(
    with_lse: Callable, backwards: tuple[Callable, Optional[Callable]], keep: Callable[..., Kept], names: list[str]
) -> Any:
    """`with_lse` with the gradient of the first of `backwards`, as a function of autograd; of the second, if dBias is needed. `names` are those of
    its arguments."""
    backward, bias_backward = backwards
    of_bias = names.index("bias") if bias_backward is not None else None

    class Attention(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
            for place, is_needed in enumerate(ctx.needs_input_grad[3:], 3):
                if is_needed and place != of_bias:
                    name = names[place]
                    raise ValueError(f"the gradient of {name} is required, which no backward here computes; pass {name}.detach()")
            lengths, ctx.options = keep(*arguments)
            out, lse = with_lse(*arguments)
            ctx.inputs = len(arguments)
            ctx.save_for_backward(*arguments[:3], out, lse, *lengths)
            ctx.mark_non_differentiable(lse)
            ctx.set_materialize_grads(False)
            return out, lse

        @staticmethod
        def backward(ctx: Any, grad: Optional[Tensor], _: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
            made: list[Optional[Tensor]] = [None] * ctx.inputs
            if grad is None:
                return tuple(made)
            given = (grad, *ctx.saved_tensors, *ctx.options)
            if bias_backward is not None and of_bias is not None and of_bias < ctx.inputs and ctx.needs_input_grad[of_bias]:
                *made[:3], made[of_bias] = bias_backward(*given)
            else:
                made[:3] = backward(*given)
            return tuple(made)

    return Attention


class _Gradients(_SingleLevelFunction):
    """A backward, whose own derivative is an error."""

    @staticmethod
    def forward(ctx: Any, name: str, operator: Callable[..., tuple[Tensor, ...]], *arguments: Any) -> tuple[Tensor, ...]:
        ctx.name = name
        return _in_function(operator, *arguments)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(f"fa512: {ctx.name} has no second derivative; use PyTorch's attention where it is needed")


def register_vmap(name: str) -> None:
    """Has `torch.func.vmap` compute each entry by itself."""
    if not hasattr(torch.library, "register_vmap"):
        return  # Then PyTorch does the same, with a warning.
    for each in (name + end for end in ("", "_with_lse", "_backward", "_bias_backward")):
        if not hasattr(torch.ops.fa512, each):
            continue
        operator = getattr(torch.ops.fa512, each).default

        def of_entries(info: Any, dimensions: tuple[Optional[int], ...], *arguments: Any, operator: Any = operator) -> Any:
            def entry(number: int) -> Any:
                pairs = zip(arguments, dimensions)
                return operator(*(given if at is None else given.select(at, number) for given, at in pairs))

            results = [entry(number) for number in range(info.batch_size)]
            if isinstance(results[0], Tensor):
                return torch.stack(results), 0
            return tuple(map(torch.stack, zip(*results))), (0,) * len(results[0])

        torch.library.register_vmap(f"fa512::{each}", of_entries, lib=LIBRARY)


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
