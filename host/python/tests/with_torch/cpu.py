"""The operators of fa512 on the CPU, by PyTorch's own arithmetic: what is around the kernels can be tested without a GPU.

The operators refuse the CPU; `install` replaces that for as long as the process lives.
"""

import torch

import fa512.torch
from fa512.torch import _batched

_calls = []
_library = torch.library.Library("fa512", "IMPL")


def calls():
    """Names of the operators called since the last time this was asked."""
    seen = list(_calls)
    _calls.clear()
    return seen


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


def _scores(
    query, key, is_causal=False, scale=None, left=None, right=None, align="top-left", softcap=None, slopes=None, bias=None
):
    scores = query.double() @ key.transpose(-1, -2) * (0.125 if scale is None else scale)
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
    reason = fa512.torch.why_not(query, key, value)
    if reason is not None:
        raise ValueError(reason)
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


def _backward(grad, query, key, value, out, lse, is_causal=False, scale=None, *options):
    _calls.append("attention_backward")
    keys, values = _for_each_head(query, key, value)
    scores = _scores(query, keys, is_causal, scale, *options)
    weights = (scores - lse.double()[..., None].nan_to_num(neginf=0.0)).exp()
    grad, factor = grad.double(), 0.125 if scale is None else scale
    of_weights = grad @ values.transpose(-1, -2)
    of_scores = weights * (of_weights - (grad * out.double()).sum(-1, keepdim=True)) * factor
    gradients = of_scores @ keys, of_scores.transpose(-1, -2) @ query.double(), weights.transpose(-1, -2) @ grad

    def like(gradient, tensor):
        of_groups = gradient.unflatten(1, (tensor.shape[1], -1)).sum(2)
        return torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2).copy_(of_groups)

    return tuple(like(*pair) for pair in zip(gradients, (query, key, value)))


def _each(cu_seqlens, *tensors):
    """Each packed sequence, as a batch of one."""
    bounds = cu_seqlens.tolist()
    for begin, end in zip(bounds, bounds[1:]):
        yield [tensor[begin:end].transpose(0, 1)[None] for tensor in tensors]


def _packed(parts):
    return torch.cat([part[0].transpose(0, 1) for part in parts]).contiguous()


def _varlen_with_lse(query, key, value, cu_seqlens, max_seqlen, *options):
    reason = fa512.torch.why_not_varlen(query, key, value, cu_seqlens)
    if reason is not None:
        raise ValueError(reason)
    assert max_seqlen >= cu_seqlens.diff().max()
    # Behind the window, batches have an alignment.
    limits = (*options[:4], *(False, None, None, None)[len(options) :])
    results = [_with_lse(*one, *limits, "top-left", *options[4:]) for one in _each(cu_seqlens, query, key, value)]
    del _calls[-len(results) :]
    _calls.append("attention_varlen_with_lse")
    return _packed(out for out, _ in results), torch.cat([lse[0] for _, lse in results], dim=1)


def _varlen(query, key, value, cu_seqlens, max_seqlen, *options):
    out, _ = _varlen_with_lse(query, key, value, cu_seqlens, max_seqlen, *options)
    _calls[-1] = "attention_varlen"
    return out


def _varlen_backward(grad, query, key, value, out, lse, cu_seqlens, max_seqlen, *options):
    rows = _each(cu_seqlens, grad, query, key, value, out, lse.transpose(0, 1)[..., None])
    gradients = [_backward(*tensors, lse[..., 0], *options) for *tensors, lse in rows]
    del _calls[-len(gradients) :]
    _calls.append("attention_varlen_backward")
    return tuple(_packed(parts) for parts in zip(*gradients))


def install():
    _library.impl("attention_varlen", _varlen, "CPU", allow_override=True)
    _library.impl("attention_varlen_with_lse", _varlen_with_lse, "CPU", allow_override=True)
    _library.impl("attention_varlen_backward", _varlen_backward, "CPU", allow_override=True)
    _library.impl("attention", _forward, "CPU", allow_override=True)
    _library.impl("attention_with_lse", _with_lse, "CPU", allow_override=True)
    _library.impl("attention_backward", _backward, "CPU", allow_override=True)
