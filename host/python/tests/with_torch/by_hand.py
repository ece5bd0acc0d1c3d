"""What results are held against where PyTorch has no function for them."""

import torch

CLOSE = {"atol": 2e-3, "rtol": 1e-3}
ALIGNMENTS = ("top-left", "bottom-right")


def with_mask(query, key, value, mask, **more):
    """PyTorch's attention, of which `mask` says which keys are seen; zeros where a query sees no key."""
    sees = mask.any(1)[:, None]
    # With a row of a mask that is all false, gradients would be NaN.
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask | ~sees, enable_gqa=True, **more)
    return out * sees


def by_hand(query, key, value, softcap=None, slopes=None, bias=None, mask=None, first=0):
    """Attention with changed scores, as their definition says."""
    scores = query.float() @ key.float().transpose(-1, -2) / 8
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        positions = torch.arange(query.shape[-2]) + first, torch.arange(key.shape[-2])
        scores = scores - slopes[..., None, None] * (positions[0][:, None] - positions[1][None]).abs()
    scores = scores if bias is None else scores + bias.float()
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ value.float()
