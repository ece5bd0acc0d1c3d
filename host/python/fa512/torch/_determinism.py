"""PyTorch's backward made deterministic for single calls.

PyTorch asks one flag of the process, `torch.use_deterministic_algorithms`, when its flash backward is called on the host. It is set for as
long as that call takes, also for what other threads call meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

import torch


class _Flag:
    """The flag, set while at least one thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before = (False, False)

    def hold(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
                torch.use_deterministic_algorithms(True)
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                enabled, warn_only = self._before
                torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


_FLAG = _Flag()


@contextlib.contextmanager
def determinism(is_asked_for: bool) -> Iterator[None]:
    """If asked for, PyTorch's flash backward is deterministic inside."""
    if not is_asked_for:
        yield
        return
    _FLAG.hold()
    try:
        yield
    finally:
        _FLAG.release()
