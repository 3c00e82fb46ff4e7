"""Large buffers that are used again once nobody looks at them.

The kernel clears each page of fresh memory when it is first touched, which costs as much as receiving the bytes that
are written there. A bytearray cannot be resized while something looks at it: that tells whether one may be used again,
so nothing has to be given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["REUSED_BYTES_MAX", "ReusableMemory", "take_memory"]

#: Most bytes that wait to be used again: a few fetches of a busy consumer, one that is received, those that are ready,
#: one that is read.
REUSED_BYTES_MAX = 32 * 1024 * 1024

#: Smaller buffers come quickly from the allocator, and it keeps them.
_LEAST_BYTES = 64 * 1024

#: Sizes are rounded up to this, so that frames of nearly the same size fit into the same buffers.
_STEP_BYTES = 256 * 1024


class ReusableMemory:
    """Buffers that are used again. Any thread may take one.

    Args:
        limit_bytes: most bytes that are kept.
        is_lazy: whether memory that was never used takes up its size only as it is written to: for sizes that a
            stranger chooses. Writing there for the first time costs about twice as much.
    """

    def __init__(self, limit_bytes: int = REUSED_BYTES_MAX, *, is_lazy: bool = False) -> None:
        self._limit_bytes = limit_bytes
        self._kept: deque[bytearray | mmap] = deque()
        self._make: Callable[[int], bytearray | mmap] = _lazy if is_lazy else bytearray

    def take(self, size_bytes: int) -> memoryview:
        """Return writable memory with arbitrary content.

        It is used again when neither the view nor anything made from it is left.
        """
        if size_bytes < _LEAST_BYTES:
            return memoryview(bytearray(size_bytes))
        passed = []
        found = None
        with suppress(IndexError):  # none is left
            while found is None:
                buffer = self._kept.popleft()  # nobody else can take it meanwhile
                if len(buffer) >= size_bytes and _is_free(buffer):
                    found = buffer
                else:
                    passed.append(buffer)
        if found is None:
            found = self._make(-(-size_bytes // _STEP_BYTES) * _STEP_BYTES)
        view = memoryview(found)[:size_bytes]
        if len(found) <= self._limit_bytes:
            self._kept.appendleft(found)
        self._kept.extendleft(reversed(passed))
        with suppress(IndexError):
            while self.kept_bytes > self._limit_bytes:
                self._kept.popleft()  # it belongs to those who look at it
        return view

    @property
    def kept_bytes(self) -> int:
        """Bytes of all buffers that may be used again."""
        return sum(map(len, list(self._kept)))


def _is_free(buffer: bytearray | mmap) -> bool:
    """Return whether nothing looks at a buffer."""
    try:
        if isinstance(buffer, bytearray):
            buffer.pop()
            buffer.append(0)
        else:
            buffer.resize(len(buffer))
    except (BufferError, SystemError):  # the latter where the system cannot resize
        return False
    return True


def _lazy(size_bytes: int) -> mmap:
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap  # clients have no use for it

    return mmap(-1, size_bytes, MAP_PRIVATE | MAP_ANONYMOUS)


#: Takes memory of the process.
take_memory = ReusableMemory().take
