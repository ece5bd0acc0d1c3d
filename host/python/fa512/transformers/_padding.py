"""Padded batches as packed sequences: the padding mask, packing and unpacking."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask
from transformers.utils.import_utils import is_tracing

from ..torch._library import version

_PLAIN = (bidirectional_mask_function, causal_mask_function)


def _is_window(
    local_size: Optional[int] = None,
    config: Any = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **_: Any,
) -> bool:
    """Whether the mask is exactly the model's sliding window. Layers that have one pass it to the attention, too.

    transformers also passes its size for chunked attention, and disallows skipping when the mask contains anything else.
    """
    is_sliding = local_size is not None and local_size == getattr(config, "sliding_window", None)
    has_chunks = getattr(config, "attention_chunk_size", None) is not None
    return is_sliding and not has_chunks and (allow_is_causal_skip or allow_is_bidirectional_skip)


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable = causal_mask_function,
    attention_mask: Optional[Tensor] = None,
    **others: Any,
) -> Optional[Tensor]:
    """For transformers' `AttentionMaskInterface`. Returns None if nothing but the causal mask and the window applies, the padding mask
    [batch, sequence] if only padding is added, and else the mask that PyTorch's attention takes. A padding mask of fewer keys than there
    are means that the others are not filled yet: keys of a cache that is allocated at its final size.

    Without a mask the alignment is bottom-right, as in flash-attn: earlier keys come from the cache. As in transformers, checking for
    padding waits for the GPU, once per forward pass of the model.
    """
    last = kv_offset + kv_length
    # For a cache that is allocated at its final size, offsets are on the GPU.
    is_at_the_end = not isinstance(last, Tensor) and not isinstance(q_offset, Tensor) and q_offset + q_length == last
    is_window = _is_window(**others)
    is_known = is_window or (mask_function in _PLAIN and others.get("local_size") is None)
    is_known = is_known and not others.get("use_vmap", False)
    is_plain = is_known and is_at_the_end
    skip = "allow_is_causal_skip" if mask_function is causal_mask_function else "allow_is_bidirectional_skip"
    may_skip = is_window or others.get(skip, mask_function is causal_mask_function)
    if is_plain and attention_mask is None and may_skip:
        # Also while a graph is compiled, when transformers would build a mask.
        return None
    if is_plain and attention_mask is not None and attention_mask.dim() == 2 and attention_mask.shape[1] == last:
        if not is_tracing(attention_mask):
            is_padded = not attention_mask.all()
            if is_padded and q_length == last:
                return attention_mask
            if not is_padded and may_skip:
                return None
    if is_known and may_skip and 1 < q_length < kv_length and attention_mask is not None:
        if not is_tracing(attention_mask) and attention_mask.shape == (batch_size, q_length) and q_offset == kv_offset == 0:
            return attention_mask
    if 1 < q_length != kv_length:
        # transformers would omit a mask that is causal and aligned top-left.
        others["allow_is_causal_skip"] = False
    return sdpa_mask(
        batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **others
    )


def for_sdpa(padding: Tensor, queries: int, is_causal: bool) -> Tensor:
    """The mask [batch, 1, queries, keys] of a padded batch of keys; the queries belong to the last keys."""
    keys = padding.shape[1]
    masked = padding.bool()[:, None, None, :].expand(-1, 1, queries, keys)
    return masked.tril(keys - queries) if is_causal else masked


class Packing:
    """Which rows of a padded batch are not padding."""

    # Layers with a window and layers without get different mask tensors with the same contents.
    _known: deque[tuple[weakref.ref, Optional[int], Packing]] = deque(maxlen=2)

    def __init__(self, padding: Tensor) -> None:
        self.lengths = padding.sum(dim=1, dtype=torch.int32)
        self.rows = padding.flatten().nonzero().flatten()
        self.cu_seqlens = torch.nn.functional.pad(self.lengths.cumsum(0, dtype=torch.int32), (1, 0))
        self.elements, self.longest = padding.numel(), padding.shape[1]
        self._has_gaps: Optional[bool] = None
        self._is_right_padded: Optional[bool] = None

    @property
    def has_gaps(self) -> bool:
        """Whether there is padding between rows of a sequence, which packing would remove. Computed once, since it waits for the GPU."""
        if self._has_gaps is None:
            before, after = self.rows[:-1], self.rows[1:]
            is_one_sequence = before // self.longest == after // self.longest
            self._has_gaps = bool((is_one_sequence & (after - before > 1)).any())
        return self._has_gaps

    @property
    def is_right_padded(self) -> bool:
        """Whether all padding follows the tokens of its sequence. Computed once, since it waits for the GPU."""
        if self._is_right_padded is None:
            sequence, position = self.rows // self.longest, self.rows % self.longest
            self._is_right_padded = bool((position < self.lengths[sequence]).all())
        return self._is_right_padded

    @classmethod
    def of(cls, padding: Tensor) -> Packing:
        """The packing of a padding mask. Layers of a model share masks: `nonzero`, which waits for the GPU, is called once for each."""
        for known, known_version, packing in cls._known:
            if known() is padding and known_version == version(padding):
                return packing
        packing = cls(padding)
        cls._known.append((weakref.ref(padding), version(padding), packing))
        return packing

    @property
    def is_whole(self) -> bool:
        """Whether there is no padding."""
        return self.rows.shape[0] == self.elements

    def pack(self, tensor: Tensor) -> Tensor:
        """[batch, heads, sequence, head size] as [rows, heads, head size]."""
        return tensor.transpose(1, 2).flatten(0, 1).index_select(0, self.rows)

    def pad(self, packed: Tensor, batch: int) -> Tensor:
        """[rows, heads, head size] as [batch, sequence, heads, head size], with zeros for padding."""
        padded = packed.new_zeros((batch * self.longest, *packed.shape[1:]))
        return padded.index_copy(0, self.rows, packed).unflatten(0, (batch, self.longest))
