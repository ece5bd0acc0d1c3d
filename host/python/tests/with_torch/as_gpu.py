"""The CPU in place of a GPU for calls that leave PyTorch's dispatcher out: kernels and PyTorch's flash backward by arithmetic of `cpu`.

The ways of calls are those of a GPU, so that what is recorded there can be tested here.
"""

import unittest.mock
import warnings

import torch

import cpu
import fa512._native
from fa512.torch import _direct, _recorded

_called = []


def called():
    """Names of the native functions and backwards called since the last time this was asked."""
    seen = list(_called)
    _called.clear()
    return seen


def _check(*tensors):
    """What the native functions refuse before all else."""
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.is_meta or (tensor.numel() and not tensor.data_ptr()):
            raise ValueError("q is at address 0x0")
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise ValueError("q requires grad, and fa512.attention records no gradient")


def _results(out, given, lse, return_lse):
    out = out if given is None else given.copy_(out)
    return (out, lse) if return_lse else out


def _attention(
    q, k, v, *, causal=False, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, bias=None,
    layout="bhsd", out=None, return_lse=False, lse=None, stream=None,
):  # fmt: skip
    _check(q, k, v)
    if layout == "bshd":
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    cpu._require(fa512.torch.why_not(q, k, v))
    _called.append("attention")
    given_lse = lse is not None
    made, made_lse = cpu._compute(q, k, v, causal, scale, *(window or (None, None)), align, softcap, alibi_slopes, bias)
    lse = made_lse if lse is None else lse.copy_(made_lse)
    return _results(made.transpose(1, 2) if layout == "bshd" else made, out, lse, return_lse or given_lse)


def _attention_varlen(
    q, k, v, cu_seqlens, *, cu_seqlens_k=None, max_seqlen=None, causal=False, window=None, align="top-left", scale=None,
    softcap=None, alibi_slopes=None, out=None, return_lse=False, lse=None, stream=None,
):  # fmt: skip
    _called.append("attention_varlen")
    _check(q, k, v)
    options = (causal, scale, *(window or (None, None)), softcap, alibi_slopes, cu_seqlens_k, None, align)
    made, lse = cpu._varlen_with_lse(q, k, v, cu_seqlens, max_seqlen, *options)
    cpu.calls()
    return _results(made, out, lse, return_lse)


def _attention_padded(
    q, k, v, *, seqused_q=None, seqused_k=None, causal=False, window=None, align="top-left", scale=None, softcap=None,
    alibi_slopes=None, out=None, return_lse=False, lse=None, stream=None,
):  # fmt: skip
    _called.append("attention_padded")
    _check(q, k, v)
    options = (causal, scale, *(window or (None, None)), align, softcap, alibi_slopes)
    made, made_lse = cpu._padded_with_lse(q, k, v, seqused_q, seqused_k, *options)
    cpu.calls()
    return _results(made, out, made_lse if lse is None else lse.copy_(made_lse), return_lse or lse is not None)


def _flash_backward(*arguments, **options):
    _called.append("_flash_attention_backward")
    return cpu._flash_backward(*arguments, **options)


def _sdpa_backward(grad, query, key, value, out, lse, cu_q, cu_k, longest_q, longest_k, dropout, is_causal, *_, scale=None):
    _called.append("_scaled_dot_product_flash_attention_backward")
    assert dropout == 0 and cpu.is_by_pytorch(query)
    return cpu._gradients(grad, query, key, value, out, lse, is_causal, scale, None, None, "bottom-right")


def _attention_backward(*tensors, **options):
    _called.append("attention_backward")
    cpu.native_backward(*tensors, **options)


def _attention_varlen_backward(*tensors, **options):
    _called.append("attention_varlen_backward")
    cpu.native_varlen_backward(*tensors, **options)


def _attention_padded_backward(*tensors, **options):
    _called.append("attention_padded_backward")
    cpu.native_padded_backward(*tensors, **options)


_NATIVE = {
    "attention": _attention,
    "attention_backward": _attention_backward,
    "attention_varlen": _attention_varlen,
    "attention_varlen_backward": _attention_varlen_backward,
    "attention_padded": _attention_padded,
    "attention_padded_backward": _attention_padded_backward,
}
_library = torch.library.Library("aten", "IMPL")
# Kernels in C take tensors of GPUs alone. PyTorch warns that these are there before.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name, _kernel in _recorded._KERNELS.items():
        _library.impl(_name, _kernel, "CustomRNGKeyId", allow_override=True)
    _library.impl("_flash_attention_backward", _flash_backward, "CPU", allow_override=True)
for _name, _kernel in _recorded._OWN.items():
    _library.impl(_name, _kernel, "SparseCPU")
_library.impl("_scaled_dot_product_flash_attention_backward", _sdpa_backward, "CPU")


def install(add_cleanup=lambda undo: None):
    """Lasts until the cleanup."""
    patches = [unittest.mock.patch.object(fa512._native, name, function) for name, function in _NATIVE.items()]
    patches.append(unittest.mock.patch.object(_direct, "_is_on_a_gpu", lambda tensor: True))
    # Its kernels are in C alone.
    patches.append(unittest.mock.patch.object(_recorded, "IS_KEPT", False))
    for patch in patches:
        patch.start()
        add_cleanup(patch.stop)
