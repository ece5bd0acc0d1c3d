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


def seen(length, is_causal=False, left=None, right=None):
    """Which keys each query sees."""
    position = torch.arange(length)
    back = position[:, None] - position[None, :]
    everything = torch.ones(length, length, dtype=torch.bool)
    right = 0 if is_causal else right
    return everything & (True if left is None else back <= left) & (True if right is None else back >= -right)


def _scores(query, key, is_causal=False, scale=None, left=None, right=None):
    scores = query.double() @ key.double().transpose(-1, -2) * (0.125 if scale is None else scale)
    return scores.masked_fill(~seen(query.shape[-2], is_causal, left, right), float("-inf"))


def _with_lse(query, key, value, *options):
    _calls.append("attention_with_lse")
    reason = fa512.torch.why_not(query, key, value)
    if reason is not None:
        raise ValueError(reason)
    scores = _scores(query, key, *options)
    out = _batched.new_out(query)
    out.copy_(scores.softmax(-1) @ value.double())
    return out, scores.logsumexp(-1).float()


def _forward(query, key, value, *options):
    out, _ = _with_lse(query, key, value, *options)
    _calls[-1] = "attention"
    return out


def _backward(grad, query, key, value, out, lse, is_causal=False, scale=None, *window):
    _calls.append("attention_backward")
    weights = (_scores(query, key, is_causal, scale, *window) - lse.double()[..., None]).exp()
    grad, factor = grad.double(), 0.125 if scale is None else scale
    of_weights = grad @ value.double().transpose(-1, -2)
    of_scores = weights * (of_weights - (grad * out.double()).sum(-1, keepdim=True)) * factor
    gradients = of_scores @ key.double(), of_scores.transpose(-1, -2) @ query.double(), weights.transpose(-1, -2) @ grad

    def like(gradient, tensor):
        return torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2).copy_(gradient)

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
    results = [_with_lse(*one, *options) for one in _each(cu_seqlens, query, key, value)]
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
