"""The operators of fa512 on the CPU, by PyTorch's own arithmetic: what is around the kernels can be tested without a GPU.

The operators refuse the CPU; `install` replaces that for as long as the process lives.
"""

import torch

import fa512.torch

_calls = []
_library = torch.library.Library("fa512", "IMPL")


def calls():
    """Names of the operators called since the last time this was asked."""
    seen = list(_calls)
    _calls.clear()
    return seen


def _scores(query, key, is_causal, scale):
    scores = query.double() @ key.double().transpose(-1, -2) * (0.125 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return scores


def _with_lse(query, key, value, is_causal=False, scale=None):
    _calls.append("attention_with_lse")
    reason = fa512.torch.why_not(query, key, value)
    if reason is not None:
        raise ValueError(reason)
    scores = _scores(query, key, is_causal, scale)
    out = fa512.torch._new_out(query)
    out.copy_(scores.softmax(-1) @ value.double())
    return out, scores.logsumexp(-1).float()


def _forward(query, key, value, is_causal=False, scale=None):
    out, _ = _with_lse(query, key, value, is_causal, scale)
    _calls[-1] = "attention"
    return out


def _backward(grad, query, key, value, out, lse, is_causal=False, scale=None):
    _calls.append("attention_backward")
    weights = (_scores(query, key, is_causal, scale) - lse.double()[..., None]).exp()
    grad, factor = grad.double(), 0.125 if scale is None else scale
    of_weights = grad @ value.double().transpose(-1, -2)
    of_scores = weights * (of_weights - (grad * out.double()).sum(-1, keepdim=True)) * factor
    gradients = of_scores @ key.double(), of_scores.transpose(-1, -2) @ query.double(), weights.transpose(-1, -2) @ grad

    def like(gradient, tensor):
        return torch.empty_like(tensor.transpose(1, 2)).transpose(1, 2).copy_(gradient)

    return tuple(like(*pair) for pair in zip(gradients, (query, key, value)))


def install():
    _library.impl("attention", _forward, "CPU", allow_override=True)
    _library.impl("attention_with_lse", _with_lse, "CPU", allow_override=True)
    _library.impl("attention_backward", _backward, "CPU", allow_override=True)
