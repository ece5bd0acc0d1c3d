"""Attention whose gradient PyTorch records in C++, at the host cost of its own attention.

PyTorch's attentions have nodes of autograd in C++. A call here names the dispatch keys that it goes through: first that of autograd, whose
kernel records the node, then one that no tensor of these operators has, where our kernel is registered. Calls of others do not pass there.
All that PyTorch does with its own nodes (hooks, checkpoints, anomaly mode, errors of second derivatives) works.

A node gives its backward operator the random state that our kernel returned. A state for fa512's own backward is a sparse tensor, which
leads the operator to a dispatch key where PyTorch has no kernel, and ours is registered. cuDNN's node leads to cuDNN's.

Efficient attention's node has room for all that a call has, and leads to fa512's own backward. Flash attention's, which lead to PyTorch's
too, keep no score modifications and no lengths of a padded batch.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from .. import _native
from ._library import BOTTOM_RIGHT, TOP_LEFT
from ._own_backward import FASTER_HEAD_DIM, is_faster, new_dbias, of_batch, of_packed, of_padded

_random: dict[tuple[torch.device, bool], Tensor] = {}
_numbers: dict[torch.device, Tensor] = {}


def _state(device: torch.device, is_own: bool) -> Tensor:
    """A random state on this device, for fa512's own backward or PyTorch's. Without dropout, the backward takes one and does not read it."""
    found = _random.get((device, is_own))
    if found is None:
        layout = torch.sparse_coo if is_own else torch.strided
        # No gradient may keep what was made in inference mode.
        with torch.inference_mode(False):
            found = _random[device, is_own] = torch.zeros(2, dtype=torch.uint64, layout=layout, device=device)
    return found


def _make_state(gpu: int) -> Any:
    """A state for kernels in C: a handle, which they own."""
    return _handle(_state(torch.device("cuda", gpu), True))


def _number(device: torch.device) -> Tensor:
    """The same for cuDNN."""
    found = _numbers.get(device)
    if found is None:
        found = _numbers[device] = torch.zeros((), dtype=torch.int64, device=device)
    return found


def _call(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    # Below autograd, the mode that records gradients is still on, and native functions refuse to lose one.
    torch._C._set_grad_enabled(False)
    try:
        return function(*tensors, align=BOTTOM_RIGHT, **options)
    finally:
        torch._C._set_grad_enabled(True)


def _new_lse(query: Tensor, *sizes: int) -> Tensor:
    # In one call of PyTorch; new_empty of another type is two, and takes twice as long.
    strides = (sizes[1] * sizes[2], sizes[2], 1)
    return torch.empty_strided(sizes, strides, dtype=torch.float32, device=query.device)


def _of_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Optional[float] = None,
) -> tuple[Any, ...]:
    batch, heads, queries, _ = query.shape
    lse = _new_lse(query, batch, heads, queries)
    out, _ = _call(_native.attention, query, key, value, causal=is_causal, scale=scale, lse=lse)
    state = _state(query.device, _is_own(query))
    return out, lse, None, None, queries, key.shape[2], state, state, None


def _of_cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Optional[Tensor],
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Optional[float] = None,
) -> tuple[Any, ...]:
    out, lse, _, _, queries, keys, *_ = _of_sdpa(query, key, value, dropout_p, is_causal, scale=scale)
    number = _number(query.device)
    return out, lse.unsqueeze(-1), None, None, queries, keys, number, number, None


def _of_flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Optional[Tensor],
    cum_seq_k: Optional[Tensor],
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: Optional[float] = None,
    window_size_left: Optional[int] = None,
    window_size_right: Optional[int] = None,
) -> tuple[Any, ...]:
    options = {"causal": is_causal, "scale": scale, "window": (window_size_left, window_size_right)}
    if cum_seq_q is None:
        batch, queries, heads, _ = query.shape
        lse = _new_lse(query, batch, heads, queries)
        out, _ = _call(_native.attention, query, key, value, layout="bshd", lse=lse, **options)
    else:
        packed = {"max_seqlen": max_q, "cu_seqlens_k": None if cum_seq_k is cum_seq_q else cum_seq_k, "return_lse": True}
        out, lse = _call(_native.attention_varlen, query, key, value, cum_seq_q, **packed, **options)
    state = _state(query.device, _is_own(query))
    return out, lse, state, state, None


def _of_sdpa_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cum_seq_q: Optional[Tensor],
    cum_seq_k: Optional[Tensor],
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    *states: Tensor,
    scale: Optional[float] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    tensors, others = (grad, query, key, value, out, lse), dropout_p != 0.0
    return _gradients(tensors, (None, None), "bhsd", 0, True, others, None, causal=is_causal, scale=scale)


def _of_flash_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cum_seq_q: Optional[Tensor],
    cum_seq_k: Optional[Tensor],
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    *states: Tensor,
    scale: Optional[float] = None,
    window_size_left: Optional[int] = None,
    window_size_right: Optional[int] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    tensors, others = (grad, query, key, value, out, lse), dropout_p != 0.0
    options = {"causal": is_causal, "scale": scale, "window": (window_size_left, window_size_right)}
    form = "bshd" if cum_seq_q is None else "packed"
    return _gradients(tensors, (cum_seq_q, cum_seq_k), form, max_q, True, others, None, **options)


def _by_python(handles: list[Any], options: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Handles of dQ, dK and dV, and of dBias if it is needed, for a kernel in C that refuses its call: of dO, Q, K, V, O and LSE, with its other arguments by name."""
    names = ("alibi_slopes", "bias")
    optional = (*options.pop("lengths"), *(options.pop(name) for name in names))
    given = iter(_tensors([*handles, *(handle for handle in optional if handle is not None)]))
    grad, query, key, value, out, lse = (next(given) for _ in handles)
    lengths_q, lengths_k, *changes = (None if handle is None else next(given) for handle in optional)
    options = {**options, **dict(zip(names, changes))}
    dbias = new_dbias(options["bias"]) if options.pop("needs_bias") else None
    made = _gradients((grad, query, key, value, out, lse), (lengths_q, lengths_k), dbias=dbias, **options)
    return tuple(map(_handle, made)), None if dbias is None else _handle(dbias)


def _gradients(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    lengths: tuple[Optional[Tensor], Optional[Tensor]],
    form: str,
    longest: int,
    is_bottom_right: bool,
    has_others: bool,
    bias: Optional[Tensor],
    dbias: Optional[Tensor] = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV of dO, Q, K, V, O and LSE, of which `lengths` are as for `keep`; dBias goes to `dbias`."""
    if has_others:
        raise ValueError("fa512: the backward has an argument, such as dropout, that the forward pass had not")
    options["align"] = BOTTOM_RIGHT if is_bottom_right else TOP_LEFT
    if form == "padded":
        return of_padded(*tensors, *lengths, **options)
    if form == "packed":
        of_queries, of_keys = lengths
        assert of_queries is not None
        of_keys = None if of_keys is of_queries else of_keys
        return of_packed(*tensors, of_queries, cu_seqlens_k=of_keys, max_seqlen=longest, **options)
    return of_batch(*tensors, layout=form, bias=bias, dbias=dbias, **options)


_KERNELS = {
    "_scaled_dot_product_flash_attention": _of_sdpa,
    "_flash_attention_forward": _of_flash,
    "_scaled_dot_product_cudnn_attention": _of_cudnn,
}
_OWN = {
    "_scaled_dot_product_flash_attention_backward": _of_sdpa_backward,
    "_flash_attention_backward": _of_flash_backward,
}
# Names of arguments and numbers of results that both sides rely on.
_SDPA = ("query", "key", "value", "dropout_p", "is_causal", "return_debug_mask", "scale"), 9
_LENGTHS = ("cum_seq_q", "cum_seq_k", "max_q", "max_k")
_WINDOW = ("window_size_left", "window_size_right", "seqused_k", "alibi_slopes")
_FLASH = (*_SDPA[0][:3], *_LENGTHS, *_SDPA[0][3:], *_WINDOW), 5
_CUDNN = (*_SDPA[0][:3], "attn_bias", "compute_log_sumexp", *_SDPA[0][3:]), 9
_BACKWARD = ("grad_out", *_SDPA[0][:3], "out", "logsumexp", *_LENGTHS, "dropout_p", "is_causal")
_SDPA_BACKWARD = (*_BACKWARD, "philox_seed", "philox_offset", "scale"), 3
_FLASH_BACKWARD = (*_BACKWARD, "rng_state", "unused", "scale", *_WINDOW[:2]), 3
_KEPT = (*_SDPA[0][:3], "bias", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "dropout_p", "custom_mask_type")
_KEPT_FORWARD = (*_KEPT, "compute_log_sumexp", "scale", "seqlen_k", "window_size"), 6
_KEPT_BACKWARD = (
    "grad_out_", *_KEPT[:4], "out", *_KEPT[4:8], "logsumexp", "dropout_p", "philox_seed", "philox_offset", "custom_mask_type",
    "bias_requires_grad", "scale", "num_splits_key", "window_size", "shared_storage_dqdkdv",
), 4  # fmt: skip
_KEEPS = {"_efficient_attention_forward": _KEPT_FORWARD, "_efficient_attention_backward": _KEPT_BACKWARD}
_CUDNN_IS_CHOSEN = 3
"""What `_fused_sdp_choice` answers."""


def _has(name: str, signature: tuple[tuple[str, ...], int]) -> bool:
    """Whether this PyTorch's operator has this signature."""
    schema = getattr(torch.ops.aten, name).default._schema
    return (tuple(argument.name for argument in schema.arguments), len(schema.returns)) == signature


def _register() -> tuple[Any, bool, list[Any]]:
    """The dispatch keys of a call, whether kernels are in C, and the libraries that must live as long as those in Python."""
    key, key_of_own = "CustomRNGKeyId", "SparseCUDA"
    own = {"key": key_of_own, "head_dim": FASTER_HEAD_DIM, "make_state": _make_state, "backward": _by_python}
    libraries = []
    # In C if PyTorch has what they need: arguments and results of kernels in Python take the host longer than all else of a call.
    is_in_c = _native.implement_aten(key, own if IS_OWN else None)
    if not is_in_c:
        for at, kernels in ((key, _KERNELS), (key_of_own, _OWN if IS_OWN else {})):
            libraries.append(torch.library.Library("aten", "IMPL"))
            for name, kernel in kernels.items():
                libraries[-1].impl(name, kernel, at)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCUDA).add(torch._C._dispatch_key_parse(key))
    return keys, is_in_c, libraries


try:
    IS_OWN = all(map(_has, _OWN, (_SDPA_BACKWARD, _FLASH_BACKWARD)))
    """Whether this PyTorch's nodes can lead to fa512's own backward; otherwise they lead to PyTorch's."""
    _hooks_of_saved_tensors = torch._C._autograd._top_saved_tensors_default_hooks  # type: ignore[attr-defined]
    _handle = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor  # type: ignore[attr-defined]
    _tensors = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs  # type: ignore[attr-defined]
except AttributeError:
    IS_OWN = False

IS_KEPT = False
"""Whether a node can keep all that a call has, for fa512's own backward."""
try:
    IS_POSSIBLE = all(map(_has, _KERNELS, (_SDPA, _FLASH, _CUDNN)))
    """Whether this PyTorch can record so; otherwise a function in Python records."""
    if IS_POSSIBLE:
        _KEYS, _IS_IN_C, _LIBRARIES = _register()
        _sdpa = torch.ops.aten._scaled_dot_product_flash_attention.default._handle.redispatch_boxed
        _flash = torch.ops.aten._flash_attention_forward.default._handle.redispatch_boxed
        _cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention.default._handle.redispatch_boxed
        _keeping = torch.ops.aten._efficient_attention_forward.default._handle.redispatch_boxed
        IS_KEPT = IS_OWN and _IS_IN_C and all(map(_has, _KEEPS, _KEEPS.values()))
except (AttributeError, RuntimeError, TypeError):
    IS_POSSIBLE = False


def can_record(query: Tensor, needs_own: bool) -> bool:
    """Whether nodes record this gradient; if `needs_own`, such that lead to fa512's own backward. Not while hooks of saved tensors are set,
    which may hand on another state, as those of checkpoints do not."""
    return IS_POSSIBLE and (not needs_own or _is_own(query)) and not (IS_OWN and _has_hooks())


def can_keep(query: Tensor, alibi_slopes: Optional[Tensor]) -> bool:
    """Whether `keep` records this gradient, of no slopes."""
    if alibi_slopes is not None and alibi_slopes.requires_grad:
        return False
    return IS_KEPT and query.shape[-1] <= FASTER_HEAD_DIM and not _has_hooks()


def _has_hooks() -> bool:
    hooks = _hooks_of_saved_tensors(True)
    return hooks is not None and getattr(hooks[0], "__module__", None) != "torch.utils.checkpoint"


def _is_own(query: Tensor) -> bool:
    """Whether the backward of FlashAttention-2's nodes is fa512's own."""
    return IS_OWN and is_faster(query)


_choices: dict[tuple[Any, ...], bool] = {}

_SCORES_FOR_CUDNN = 1 << 24
"""From so many scores on, cuDNN's backward saves the GPU more time than it costs the host."""


def _is_cudnn_chosen(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> bool:
    """Whether the backward is cuDNN's: if it is not fa512's own, PyTorch's own attention would be cuDNN's, and there is enough to compute. It is
    aligned top-left, and not deterministic."""
    if _is_own(query) or query.numel() * key.shape[-2] < _SCORES_FOR_CUDNN * query.shape[-1]:
        return False
    if not torch._C._get_cudnn_sdp_enabled() or torch._C._get_deterministic_algorithms():
        return False
    name = (query.shape, key.shape, query.stride(), key.stride(), value.stride(), query.dtype, query.device, is_causal)
    found = _choices.get(name)
    if found is None:
        if len(_choices) > 500:
            _choices.clear()
        found = query.dim() == key.dim() == 4 and (not is_causal or query.shape[2] == key.shape[2])
        shared = found and query.shape[1] != key.shape[1]
        found = found and torch._fused_sdp_choice(query, key, value, None, 0.0, is_causal, enable_gqa=shared) == _CUDNN_IS_CHOSEN
        _choices[name] = found
    return found


def attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: Optional[float]) -> tuple[Tensor, Tensor]:
    """O and LSE of [batch, heads, sequence, head size], aligned bottom-right. LSE may have a last dimension of 1, as cuDNN's."""
    if _is_cudnn_chosen(query, key, value, is_causal):
        return _computed(_cudnn(_KEYS, query, key, value, None, True, 0.0, is_causal, False, scale=scale))
    if scale is None:
        return _computed(_sdpa(_KEYS, query, key, value, 0.0, is_causal))
    return _computed(_sdpa(_KEYS, query, key, value, 0.0, is_causal, False, scale=scale))


def _computed(results: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """O and LSE. The kernels in C leave both undefined if they refuse a call, and do not say why; the operator does."""
    if results[0] is None:
        raise ValueError("the kernel refuses the call")
    return results[0], results[1]


def attention_bshd(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    scale: Optional[float],
    left: Optional[int],
    right: Optional[int],
) -> tuple[Tensor, Tensor]:
    """O and LSE of [batch, sequence, heads, head size], aligned bottom-right, with a window."""
    lengths = (None, None, query.shape[1], key.shape[1])
    return _of_window(query, key, value, *lengths, is_causal, scale, left, right)


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    cu_seqlens_k: Tensor,
    longest: int,
    is_causal: bool,
    scale: Optional[float],
    left: Optional[int],
    right: Optional[int],
) -> tuple[Tensor, Tensor]:
    """O and LSE of packed sequences, aligned bottom-right in each, with a window."""
    lengths = (cu_seqlens, cu_seqlens_k, longest, longest)
    return _of_window(query, key, value, *lengths, is_causal, scale, left, right)


_NO_MASK_OF_PYTORCH = 16
"""No kind of mask that PyTorch's own backward knows: it refuses a call whose state does not lead to ours."""
FORMS = {form: number | _NO_MASK_OF_PYTORCH for number, form in enumerate(("bhsd", "bshd", "packed", "padded"))}


def keep(
    form: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    changes: tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]],
    is_causal: bool,
    scale: Optional[float],
    left: Optional[int],
    right: Optional[int],
    align: str,
    softcap: Optional[float],
    longest: int = 0,
) -> tuple[Tensor, Tensor]:
    """O and LSE of any call of one of `FORMS`, with a node that keeps its arguments as `Kept` of the kernels in C says. `changes` are a bias,
    slopes and None; of packed sequences and padded batches slopes, and where sequences begin or how many rows entries use: of Q, and of K."""
    bits = form | is_causal << 2 | (align == BOTTOM_RIGHT) << 3 | longest << 8
    first, second, third = changes
    cap = 0.0 if softcap is None else softcap
    if scale is None:
        # What is given by name, PyTorch looks for among all arguments.
        return _computed(_keeping(_KEYS, query, key, value, first, second, third, left, right, cap, bits, True))
    return _computed(_keeping(_KEYS, query, key, value, first, second, third, left, right, cap, bits, True, scale=scale))


def _of_window(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Optional[Tensor],
    cu_seqlens_k: Optional[Tensor],
    longest: int,
    longest_k: int,
    is_causal: bool,
    scale: Optional[float],
    left: Optional[int],
    right: Optional[int],
) -> tuple[Tensor, Tensor]:
    arguments = (query, key, value, cu_seqlens, cu_seqlens_k, longest, longest_k, 0.0, is_causal, False)
    window = {} if left is None is right else {"window_size_left": left, "window_size_right": right}
    return _computed(_flash(_KEYS, *arguments, scale=scale, **window))
