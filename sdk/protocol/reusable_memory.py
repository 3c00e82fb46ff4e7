"""Large buffers that are used again once nobody looks at them.

The kernel clears each page of fresh memory when it is first touched, which costs as much as receiving the bytes that
are written there. A bytearray cannot be resized while something looks at it: that tells whether one may be used again,
so nothing has to be given back.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

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
    """

    def __init__(self, limit_bytes: int = REUSED_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._kept: deque[bytearray] = deque()

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
            found = bytearray(-(-size_bytes // _STEP_BYTES) * _STEP_BYTES)
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


def _is_free(buffer: bytearray) -> bool:
    """Return whether nothing looks at a buffer."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True


#: Takes memory of the process.
take_memory = ReusableMemory().take
