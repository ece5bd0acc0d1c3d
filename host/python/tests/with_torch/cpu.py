"""The operators of fa512 on the CPU, by PyTorch's own arithmetic: what is around the kernels can be tested without a GPU.

The operators refuse the CPU; `install` replaces that for as long as the process lives.
"""

import unittest.mock

import torch

import fa512._native
import fa512.torch
from fa512.torch import _batched, _own_backward, _packed, _padded, _recorded

_calls = []
_deterministic = []
_library = torch.library.Library("fa512", "IMPL")


def calls():
    """Names of the operators called since the last time this was asked."""
    seen = list(_calls)
    _calls.clear()
    return seen


def determinism():
    """Whether each backward of PyTorch since the last time this was asked was deterministic. Ours always is."""
    noted = list(_deterministic)
    _deterministic.clear()
    return noted


def note_determinism():
    strict = torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
    _deterministic.append(strict)


def seen(queries, is_causal=False, left=None, right=None, align="top-left", keys=None):
    """Which keys each query sees; unless told there are as many keys."""
    keys = queries if keys is None else keys
    first = {"top-left": 0, "bottom-right": keys - queries}[align]
    back = first + torch.arange(queries)[:, None] - torch.arange(keys)[None, :]
    everything = torch.ones(queries, keys, dtype=torch.bool)
    right = 0 if is_causal else right
    return everything & (True if left is None else back <= left) & (True if right is None else back >= -right)


def _for_each_head(query, *shared):
    """K and V for each head of Q."""
    return tuple(tensor.repeat_interleave(query.shape[1] // tensor.shape[1], dim=1).double() for tensor in shared)


def _factor(query, scale):
    return query.shape[-1] ** -0.5 if scale is None else scale


def _scores(
    query,
    key,
    is_causal=False,
    scale=None,
    left=None,
    right=None,
    align="top-left",
    softcap=None,
    slopes=None,
    bias=None,
    deterministic=False,
):
    scores = query.double() @ key.transpose(-1, -2) * _factor(query, scale)
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    if slopes is not None:
        queries, keys = scores.shape[-2:]
        first = {"top-left": 0, "bottom-right": keys - queries}[align]
        distance = (first + torch.arange(queries)[:, None] - torch.arange(keys)).abs()
        scores = scores - slopes.double()[..., None, None] * distance
    scores = scores if bias is None else scores + bias.double()
    mask = seen(query.shape[-2], is_causal, left, right, align, key.shape[-2])
    return scores.masked_fill(~mask, float("-inf"))


def _with_lse(query, key, value, *options):
    _calls.append("attention_with_lse")
    _require(fa512.torch.why_not(query, key, value))
    return _compute(query, key, value, *options)


def _require(reason):
    if reason is not None:
        raise ValueError(reason)


def _compute(query, key, value, *options):
    keys, values = _for_each_head(query, key, value)
    scores = _scores(query, keys, *options)
    out = _batched.new_out(query)
    # A query that sees nothing has zeros.
    out.copy_(scores.softmax(-1).nan_to_num(0.0) @ values)
    return out, scores.logsumexp(-1).float()


def _forward(query, key, value, *options):
    out, _ = _with_lse(query, key, value, *options)
    _calls[-1] = "attention"
    return out


def own_gradients(grad, query, key, value, *options):
    """dQ, dK and dV as fa512's own backward computes them, of scores that may be changed."""
    return _own_gradients(grad, query, key, value, *options)[0]


def own_dbias(bias, *arguments):
    """dBias of a bias, likewise."""
    return _own_gradients(*arguments)[1].sum_to_size(bias.shape).to(bias.dtype)


def _own_gradients(grad, query, key, value, *options):
    keys, values = _for_each_head(query, key, value)
    scores = _scores(query, keys, *options)
    # A query that sees nothing has zeros, and no gradient.
    sees_nothing = scores.isneginf().all(-1, keepdim=True)
    weights = scores.masked_fill(sees_nothing, 0.0).softmax(-1).masked_fill(sees_nothing, 0.0)
    grad, scale, softcap = grad.double(), _factor(query, options[1]), options[5]
    of_weights = grad @ values.transpose(-1, -2)
    dbias = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
    of_scores = dbias * scale
    if softcap is not None:
        of_scores = of_scores * (1 - (query.double() @ keys.transpose(-1, -2) * scale / softcap).tanh() ** 2)
    gradients = (of_scores @ keys, of_scores.transpose(-1, -2) @ query.double(), weights.transpose(-1, -2) @ grad)
    return _like(gradients, (query, key, value)), dbias


def _require_work(grad, *tensors):
    """What `fa512._native` refuses."""
    if any(tensor.numel() == 0 for tensor in tensors):
        raise ValueError("there are no queries, keys or sequences, so that no kernel would write dq, dk and dv")
    if grad.stride(-1) != 1 or grad.is_neg() or grad._is_zerotensor():
        raise ValueError("grad has a stride, a negative bit or no memory")


def native_backward(
    grad, q, k, v, out, lse, dq, dk, dv, *, causal=False, window=None, align="top-left", scale=None, softcap=None,
    alibi_slopes=None, bias=None, dbias=None, layout="bhsd", allocate=None,
):  # fmt: skip
    """`fa512._native.attention_backward`. Of every length, it allocates a workspace."""
    _require_work(grad, q, k)
    if allocate is not None:
        workspace = allocate(48)
        assert (workspace.shape, workspace.dtype, workspace.device) == ((48,), torch.uint8, q.device)
    if layout == "bshd":
        grad, q, k, v, dq, dk, dv = (tensor.transpose(1, 2) for tensor in (grad, q, k, v, dq, dk, dv))
    assert lse.shape == q.shape[:3] and lse.is_contiguous()
    arguments = (grad, q, k, v, causal, scale, *(window or (None, None)), align, softcap, alibi_slopes, bias)
    gradients = own_gradients(*arguments)
    if dbias is not None:
        dbias.copy_(own_dbias(bias, *arguments))
    for place, gradient in zip((dq, dk, dv), gradients):
        place.copy_(gradient)


def native_varlen_backward(
    grad, q, k, v, out, lse, dq, dk, dv, cu_seqlens, *, cu_seqlens_k=None, max_seqlen=None, causal=False, window=None,
    align="top-left", scale=None, softcap=None, alibi_slopes=None,
):  # fmt: skip
    """`fa512._native.attention_varlen_backward`."""
    _require_work(grad, q, k, cu_seqlens[1:])
    assert lse.shape == (q.shape[1], q.shape[0]) and lse.is_contiguous()
    of_keys = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
    for gradient in (dq, dk, dv):
        gradient.zero_()
    sequences = zip(_each(cu_seqlens, grad, q, dq), _each(of_keys, k, v, dk, dv))
    for number, ((d, query, of_q), (key, value, of_k, of_v)) in enumerate(sequences):
        own = alibi_slopes[number] if alibi_slopes is not None and alibi_slopes.dim() == 2 else alibi_slopes
        options = (causal, scale, *(window or (None, None)), align, softcap, own)
        for place, gradient in zip((of_q, of_k, of_v), own_gradients(d, query, key, value, *options)):
            place.copy_(gradient)


def native_padded_backward(
    grad, q, k, v, out, lse, dq, dk, dv, *, seqused_q=None, seqused_k=None, causal=False, window=None, align="top-left",
    scale=None, softcap=None, alibi_slopes=None,
):  # fmt: skip
    """`fa512._native.attention_padded_backward`."""
    _require_work(grad, q, k)
    assert lse.shape == (q.shape[2], *q.shape[:2]) and lse.is_contiguous() and dq.is_contiguous() and dk.is_contiguous()
    options = (causal, scale, *(window or (None, None)), align, softcap, alibi_slopes)
    for entry in range(len(q)):
        rows, keys = (slice(0, None if used is None else max(0, used[entry])) for used in (seqused_q, seqused_k))
        parts = (grad[entry, rows], q[entry, rows], k[entry, keys], v[entry, keys])
        found = own_gradients(*(part.transpose(0, 1)[None] for part in parts), *options)
        for place, gradient in zip((dq[entry, rows], dk[entry, keys], dv[entry, keys]), found):
            place.copy_(gradient[0].transpose(0, 1))


def _gradients(grad, query, key, value, out, lse, is_causal=False, scale=None, *window):
    keys, values = _for_each_head(query, key, value)
    scores = _scores(query, keys, is_causal, scale, *window)
    weights = (scores - lse.double()[..., None].nan_to_num(neginf=0.0)).exp()
    grad, factor = grad.double(), _factor(query, scale)
    of_weights = grad @ values.transpose(-1, -2)
    of_scores = weights * (of_weights - (grad * out.double()).sum(-1, keepdim=True)) * factor
    gradients = of_scores @ keys, of_scores.transpose(-1, -2) @ query.double(), weights.transpose(-1, -2) @ grad
    return _like(gradients, (query, key, value))


def _like(gradients, tensors):
    """Gradients of each head of Q, summed over those that share a head of K and V."""

    def like(gradient, tensor):
        of_groups = gradient.unflatten(1, (tensor.shape[1], -1)).sum(2)
        return torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2).copy_(of_groups)

    return tuple(like(*pair) for pair in zip(gradients, tensors))


def _each(bounds, *tensors):
    """Each packed sequence, as a batch of one."""
    bounds = bounds.tolist()
    for begin, end in zip(bounds, bounds[1:]):
        yield [tensor[begin:end].transpose(0, 1)[None] for tensor in tensors]


def _varlen_with_lse(query, key, value, cu_seqlens, *options):
    _calls.append("attention_varlen_with_lse")
    asked = _packed._Options(*options)
    _require(fa512.torch.why_not_varlen(query, key, value, cu_seqlens, asked.cu_seqlens_k))
    of_keys = cu_seqlens if asked.cu_seqlens_k is None else asked.cu_seqlens_k
    # Rows that belong to no sequence have zeros.
    out, lse = torch.zeros_like(query), query.new_full((query.shape[1], query.shape[0]), -torch.inf, dtype=torch.float32)
    softcap, slopes = asked.scores()
    for number, (q, kv) in enumerate(zip(_each(cu_seqlens, query, out), _each(of_keys, key, value))):
        own = slopes[number] if slopes is not None and slopes.dim() == 2 else slopes
        of_sequence, of_lse = _compute(q[0], *kv, *asked.limits(), asked.align, softcap, own)
        q[1].copy_(of_sequence)
        lse[:, cu_seqlens[number] : cu_seqlens[number + 1]] = of_lse[0]
    return out, lse


def _varlen(query, key, value, cu_seqlens, *options):
    out, _ = _varlen_with_lse(query, key, value, cu_seqlens, *options)
    _calls[-1] = "attention_varlen"
    return out


def _padded_with_lse(query, key, value, seqused_q, seqused_k, *options):
    _calls.append("attention_padded_with_lse")
    _require(fa512.torch.why_not_padded(query, key, value, seqused_q, seqused_k))
    out, lse = _padded._new_out(query, seqused_q), _padded._new_lse(query)
    for entry in range(len(query)):
        rows, keys = (
            slice(0, None if used is None else max(0, used[entry])) for used in (seqused_q, seqused_k)
        )
        parts = query[entry, rows], key[entry, keys], value[entry, keys]
        of_entry, of_lse = _compute(*(part.transpose(0, 1)[None] for part in parts), *options)
        out[entry, rows], lse[:, entry, rows] = of_entry[0].transpose(0, 1), of_lse[0]
    return out, lse


def _padded_forward(*arguments):
    out, _ = _padded_with_lse(*arguments)
    _calls[-1] = "attention_padded"
    return out


def is_by_pytorch(query):
    """Whether this gradient is not of fa512's own backward."""
    return query.shape[-1] > _own_backward.FASTER_HEAD_DIM or not _recorded.IS_OWN


def _flash_backward(
    grad, query, key, value, out, lse, cu_q, cu_k, longest_q, longest_k, dropout, is_causal, *_, scale=None,
    window_size_left=None, window_size_right=None,
):  # fmt: skip
    """PyTorch's own: the last query is at the last key, and what no sequence has is anything."""
    note_determinism()
    assert dropout == 0 and is_by_pytorch(query)
    limits = (is_causal, scale, window_size_left, window_size_right, "bottom-right")
    if cu_q is None:
        tensors = (tensor.transpose(1, 2) for tensor in (grad, query, key, value, out))
        return tuple(gradient.transpose(1, 2) for gradient in _gradients(*tensors, lse, *limits))
    assert longest_q >= cu_q.diff().max() and longest_k >= cu_k.diff().max()
    gradients = [torch.full_like(tensor, torch.nan) for tensor in (query, key, value)]
    of_queries, of_keys = _each(cu_q, grad, query, out, lse.transpose(0, 1)[..., None]), _each(cu_k, key, value)
    places = zip(_each(cu_q, gradients[0]), _each(cu_k, *gradients[1:]))
    for (d, q, o, of_lse), (k, v), (dq, dkv) in zip(of_queries, of_keys, places):
        for place, gradient in zip((*dq, *dkv), _gradients(d, q, k, v, o, of_lse[..., 0], *limits)):
            place.copy_(gradient)
    return tuple(gradients)


_of_pytorch = torch.library.Library("aten", "IMPL")
_of_pytorch.impl("_flash_attention_backward", _flash_backward, "CPU")


def _noted(name, backward):
    """Our backward as it is, around arithmetic."""

    def call(*arguments):
        _calls.append(name)
        return backward(*arguments)

    return call


def ask_no_gpu(add_cleanup):
    """On a GPU, transformers' attention asks about strides, too; here it must not ask for a GPU. Lasts until the cleanup."""
    for name in ("why_not", "why_not_varlen"):
        patch = unittest.mock.patch(f"fa512.torch.{name}_here", getattr(fa512.torch, name))
        patch.start()
        add_cleanup(patch.stop)


def install():
    fa512._native.attention_backward, fa512._native.attention_varlen_backward = native_backward, native_varlen_backward
    fa512._native.attention_padded_backward = native_padded_backward
    _library.impl("attention_varlen", _varlen, "CPU", allow_override=True)
    _library.impl("attention_varlen_with_lse", _varlen_with_lse, "CPU", allow_override=True)
    varlen_backward = _noted("attention_varlen_backward", _packed.backward_cuda)
    _library.impl("attention_varlen_backward", varlen_backward, "CPU", allow_override=True)
    padded_backward = _noted("attention_padded_backward", _padded.backward)
    _library.impl("attention_padded", _padded_forward, "CPU", allow_override=True)
    _library.impl("attention_padded_with_lse", _padded_with_lse, "CPU", allow_override=True)
    _library.impl("attention_padded_backward", padded_backward, "CPU", allow_override=True)
    _library.impl("attention", _forward, "CPU", allow_override=True)
    _library.impl("attention_with_lse", _with_lse, "CPU", allow_override=True)
    backward = _noted("attention_backward", _batched._backward)
    _library.impl("attention_backward", backward, "CPU", allow_override=True)
    bias_backward = _noted("attention_bias_backward", _batched._bias_backward)
    _library.impl("attention_bias_backward", bias_backward, "CPU", allow_override=True)
