"""Masks of a model, as what they say: limits of the distance, padding, packed sequences.

A layer gets a small tensor in place of the mask, which the `Mask` that it stands for is attached to. transformers and models treat that
tensor as the padding mask [batch, keys] of a flash attention, or, if it says which tokens are packed together, as a mask that is complete
([batch, 1, 1, keys] of int32, which no other attention takes). What is located in a mask is located in a copy that nobody else can write
to, once for each forward pass: servers write their masks in place, and tensors of inference mode do not tell.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor
from transformers.masking_utils import causal_mask_function, sdpa_mask
from transformers.utils.import_utils import is_tracing

from ..torch._library import BOTTOM_RIGHT, TOP_LEFT
from ._limits import Limits, pattern

_ATTRIBUTE = "_fa512_mask"


class Rows(NamedTuple):
    """A batch as packed sequences of its rows in place: the arguments of `attention_varlen`."""

    cu_seqlens: Tensor
    longest: int
    cu_seqlens_k: Optional[Tensor] = None
    longest_k: Optional[int] = None
    align: str = TOP_LEFT
    tokens: Optional[Tensor] = None
    """Which rows of K and V are taken, if they are not all."""

    def keys(self) -> tuple[Any, ...]:
        """The arguments for keys with lengths of their own."""
        return () if self.cu_seqlens_k is None else (self.cu_seqlens_k, self.longest_k, self.align)


class Mask:
    """A mask of [batch, queries, keys]: `limits`, and either `padding` (keys that are no tokens), or packed `sequences`."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        limits: Limits,
        padding: Optional[Tensor] = None,
        sequences: Optional[Tensor] = None,
    ) -> None:
        """The last query is at the last key. `padding` [batch, keys] is true for tokens; `sequences` [batch, keys] has a number for each,
        the same within one."""
        self.batch, self.queries, self.keys = sizes
        self.limits, self.padding, self.sequences = limits, padding, sequences
        self.is_plain = padding is None and sequences is None
        """Whether there are limits only."""
        self.options = limits.within(max(self.queries, self.keys)).options()
        """`is_causal`, `window_left` and `window_right` of the operators."""
        self._rows: Optional[Rows] = None
        self._is_located = False
        self._elements: Optional[Tensor] = None
        self._restarted: tuple[Any, ...] = ()

    def rows(self) -> Optional[Rows]:
        """The batch as packed sequences; None if it is none. Located once, which waits for the GPU."""
        if not self._is_located:
            self._rows = self._of_sequences() if self.padding is None else self._of_padding(self.padding)
            self._is_located = True
        return self._rows

    def elements(self, device: torch.device) -> Tensor:
        """The mask [batch, 1, queries, keys] as PyTorch's attention takes it."""
        made = self._elements
        if made is None:
            query = torch.arange(self.keys - self.queries, self.keys, device=device)
            sees = within(torch.arange(self.keys, device=device)[None, :] - query[:, None], self.limits)[None, None]
            if self.padding is not None:
                sees = sees & self.padding[:, None, None, :]
            if self.sequences is not None:
                of_queries = self.sequences[:, None, self.keys - self.queries :, None]
                sees = sees & (of_queries == self.sequences[:, None, None, :])
            made = sees.expand(self.batch, 1, self.queries, self.keys)
            # Plain masks are kept for long.
            self._elements = None if self.is_plain else made
        return made

    def with_restarts(self, positions: Tensor, is_kept: bool) -> Mask:
        """The mask with the packed sequences that positions [1, sequence] speak of, as transformers' own flash attention reads them: each
        begins at 0. Waits for the GPU; if `is_kept`, once for this mask, which then must be of one forward pass."""
        known = self._restarted
        if known and known[0]() is positions:
            return known[1] or self
        begins = positions == 0
        found = None
        if bool(begins[:, 1:].any()):
            found = Mask((1, self.queries, self.keys), self.limits, sequences=begins.cumsum(-1, dtype=torch.int32))
        if is_kept:
            self._restarted = (weakref.ref(positions), found)
        return found or self

    def _of_sequences(self) -> Optional[Rows]:
        if self.sequences is None or self.queries != self.keys:
            return None
        begins = torch.ones_like(self.sequences, dtype=torch.bool)
        begins[:, 1:] = self.sequences[:, 1:] != self.sequences[:, :-1]
        cu_seqlens = begins.flatten().nonzero().flatten()
        return Rows(torch.nn.functional.pad(cu_seqlens, (0, 1), value=self.sequences.numel()).int(), self.keys)

    def _of_padding(self, padding: Tensor) -> Optional[Rows]:
        # On the host: a GPU would be given some thirty kernels, which takes the host longer.
        lengths, begins, ends = _runs(padding.cpu())
        if any(end - begin != length for begin, end, length in zip(begins, ends, lengths)):
            return self._of_gaps(padding, lengths) if self.limits.are_none else None
        is_right_padded = not any(begins)
        is_left_padded = all(end == self.keys or not length for end, length in zip(ends, lengths))
        # Tokens of the entries, and between them sequences of padding.
        places = [self.keys * entry + place for entry, run in enumerate(zip(begins, ends)) for place in run]
        bounds = _bounds([0, *places, self.keys * self.batch], padding.device)
        if self.limits.right == 0 and is_right_padded:
            # Queries and keys are the same rows. No token sees padding, which is in sequences of its own.
            return Rows(bounds, self.keys) if self.queries == self.keys else None
        # The last query is at the last key: at the last token too if padding is on the left, at the first ones if it is on the right.
        is_at_the_begin = is_right_padded and not is_left_padded and self.queries == self.keys and self.limits.right != 0
        if not (is_left_padded or is_at_the_begin or self.limits.are_none):
            return None
        # Every query of an entry sees its tokens; none sees padding.
        cu_seqlens = _bounds([self.queries * (index // 2) for index in range(2 * self.batch + 2)], padding.device)
        return Rows(cu_seqlens, self.queries, bounds, self.keys, TOP_LEFT if is_at_the_begin else BOTTOM_RIGHT)

    def _of_gaps(self, padding: Tensor, lengths: list[int]) -> Rows:
        cu_seqlens = _bounds([self.queries * entry for entry in range(self.batch + 1)], padding.device)
        cu_seqlens_k = _bounds([0, *itertools.accumulate(lengths)], padding.device)
        tokens = padding.flatten().nonzero().flatten()
        return Rows(cu_seqlens, self.queries, cu_seqlens_k, self.keys, TOP_LEFT, tokens)


def _runs(tokens: Tensor) -> tuple[list[int], list[int], list[int]]:
    """Of each entry of a mask [batch, keys] on the host: how many tokens, the place of the first, the place after the last. An entry without
    tokens has 0 in all three."""
    lengths = tokens.sum(1).tolist()
    is_token = tokens.view(torch.uint8)
    begins, behind = (each.argmax(1).tolist() for each in (is_token, is_token.flip(1)))
    return lengths, begins, [tokens.shape[1] - padded if length else 0 for length, padded in zip(lengths, behind)]


def _bounds(bounds: list[int], device: torch.device) -> Tensor:
    return torch.tensor(bounds, dtype=torch.int32).to(device)


_plain: dict[tuple[Any, ...], Mask] = {}


def of_flags(causal: bool, window: Optional[int], batch: int, queries: int, keys: int) -> Mask:
    """The mask that a layer's own flags tell flash attention: `window` counts the keys back, the query's own included."""
    if torch.compiler.is_compiling():
        return Mask((batch, queries, keys), Limits.of_layer(causal, window))
    name = (causal, window, batch, queries, keys)
    mask = _plain.get(name)
    if mask is None:
        if len(_plain) > 200:
            _plain.clear()
        mask = _plain[name] = Mask((batch, queries, keys), Limits.of_layer(causal, window))
    return mask


def within(ahead: Tensor, limits: Limits) -> Tensor:
    """Whether keys so many rows ahead of a query are within its limits."""
    sees = torch.ones_like(ahead, dtype=torch.bool)
    if limits.left is not None:
        sees = sees & (ahead >= -limits.left)
    if limits.right is not None:
        sees = sees & (ahead <= limits.right)
    return sees


def attached(tensor: Optional[Tensor]) -> Optional[Mask]:
    """The mask that a tensor stands for; None if it was not made here, or was moved or changed since."""
    return getattr(tensor, _ATTRIBUTE, None)


def _stand_for(mask: Mask, tensor: Tensor) -> Tensor:
    setattr(tensor, _ATTRIBUTE, mask)
    return tensor


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Optional[Tensor] = None,
    **others: Any,
) -> Optional[Tensor]:
    """For transformers' `AttentionMaskInterface`. Returns a tensor that stands for a `Mask`, or the mask that PyTorch's attention takes.

    While a graph is compiled, it returns None if a layer's own flags say everything. Otherwise those flags are not trusted: some layers have
    none, or others than the mask that their model makes. As in transformers, looking for padding waits for the GPU, once for each forward
    pass of the model.
    """
    # Without this, transformers would leave out a mask that is causal and aligned top-left.
    skips = {} if q_length in (1, kv_length) else {"allow_is_causal_skip": False}

    def elements() -> Optional[Tensor]:
        sizes = (batch_size, q_length, kv_length, q_offset, kv_offset)
        return sdpa_mask(*sizes, mask_function, attention_mask, **{**others, **skips})

    may_skip = others.get("allow_is_causal_skip", True) or others.get("allow_is_bidirectional_skip", False)
    # For a cache that is allocated at its final size, offsets are on the GPU.
    is_at_the_end = not isinstance(kv_offset, Tensor) and not isinstance(q_offset, Tensor)
    is_at_the_end = is_at_the_end and q_offset + q_length == kv_offset + kv_length
    if is_tracing(attention_mask):
        is_left_out = attention_mask is None and may_skip and is_at_the_end and not _has_chunks(**others)
        return None if is_left_out else elements()
    if attached(attention_mask) is not None:
        # A model made it, and hands it to a model within.
        return attention_mask
    known = pattern(mask_function)
    # A model that asks for every element combines masks by itself.
    if known is None or not (may_skip or others.get("use_vmap") or known.sequences is not None):
        return elements()
    limits, sequences = known
    keys = kv_length
    if not (is_at_the_end or limits.are_none):
        if not _is_first_of_static_cache(q_length, q_offset, kv_offset, attention_mask):
            return elements()
        keys = q_length
    tokens = None
    if attention_mask is not None:
        tokens = _copy_of_tokens(attention_mask, kv_offset, keys)
        if tokens is None:
            return elements()
    padding = None if tokens is None or bool(tokens.all()) else tokens
    if padding is not None and limits.right == 0 and q_length != keys:
        return elements()
    described = Mask((batch_size, q_length, keys), limits, padding, sequences)
    if sequences is not None:
        return _stand_for(described, sequences.int()[:, None, None, :] + 1)
    if tokens is None:
        tokens = torch.ones(batch_size, keys, dtype=torch.bool, device=others.get("device"))
    return _stand_for(described, tokens)


def _has_chunks(local_size: Optional[int] = None, config: Any = None, **_: Any) -> bool:
    """Whether the mask may be of chunks: transformers passes their size as it does a window's."""
    has_chunks = getattr(config, "attention_chunk_size", None) is not None
    return local_size is not None and (has_chunks or local_size != getattr(config, "sliding_window", None))


def _is_first_of_static_cache(queries: int, q_offset: Any, kv_offset: Any, given: Optional[Tensor]) -> bool:
    """Whether the other keys are those of a cache that is allocated at its final size, and not filled yet."""
    is_first = given is not None and queries > 1 and given.shape[-1] == queries
    return is_first and bool(q_offset == 0) and bool(kv_offset == 0)


def _copy_of_tokens(given: Tensor, kv_offset: Any, keys: int) -> Optional[Tensor]:
    """A copy of the part of a padding mask that speaks of these keys; None if it does not speak of all."""
    if given.dim() != 2 or isinstance(kv_offset, Tensor) or given.shape[1] < kv_offset + keys:
        return None
    return given[:, kv_offset : kv_offset + keys].to(torch.bool, copy=True)


def is_read(given: Tensor) -> bool:
    """Whether a tensor that was not made here, or was moved to another device since, can be read as a `Mask`."""
    return given.dim() == 2 or (given.dim() == 4 and given.dtype == torch.int32)


def of_tensor(given: Tensor, flags: Mask) -> Mask:
    """The mask of a padding mask [batch, keys], or of what `mask` returns for packed sequences, with the limits of a layer's flags. Nothing
    is kept of it."""
    sizes = (given.shape[0], flags.queries, given.shape[-1])
    return Mask(sizes, flags.limits, sequences=given[:, 0, 0]) if given.dim() == 4 else Mask(sizes, flags.limits, given.bool())
