"""Large buffers that are reused once no view of them is left.

The kernel clears each page of fresh memory when it is first touched, which costs as much as receiving the bytes that
are written there. A bytearray cannot be resized while a view of it exists, which shows whether it can be reused;
callers therefore need not return buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["REUSED_BYTES_MAX", "ReusableMemory", "take_memory"]

#: Maximum number of bytes kept for reuse: a few fetches of a busy consumer (one being received, some ready, one being
#: read).
REUSED_BYTES_MAX = 32 * 1024 * 1024

#: Buffers smaller than this come from the allocator, which is fast and reuses them itself.
_LEAST_BYTES = 64 * 1024

#: Sizes are rounded up to a multiple of this, so frames of similar sizes fit into the same buffers.
_STEP_BYTES = 256 * 1024


class ReusableMemory:
    """Buffers that are reused. Any thread may take one.

    Args:
        limit_bytes: the maximum number of bytes kept for reuse.
        is_lazy: whether fresh memory occupies pages only once it is written to; this is for sizes chosen by an unknown
            peer. The first write then costs about twice as much.
    """

    def __init__(self, limit_bytes: int = REUSED_BYTES_MAX, *, is_lazy: bool = False) -> None:
        self._limit_bytes = limit_bytes
        self._kept: deque[bytearray | mmap] = deque()
        self._make: Callable[[int], bytearray | mmap] = _lazy if is_lazy else bytearray

    def take(self, size_bytes: int) -> memoryview:
        """Return writable memory with undefined content.

        The memory is reused when neither the view nor anything derived from it is left.
        """
        if size_bytes < _LEAST_BYTES:
            return memoryview(bytearray(size_bytes))
        passed = []
        found = None
        with suppress(IndexError):  # none is left
            while found is None:
                buffer = self._kept.popleft()  # no other thread can take the same one
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
                self._kept.popleft()  # it belongs to the holders of its views
        return view

    @property
    def kept_bytes(self) -> int:
        """The total size of the buffers kept for reuse."""
        return sum(map(len, list(self._kept)))


def _is_free(buffer: bytearray | mmap) -> bool:
    """Return whether no view of a buffer exists."""
    try:
        if isinstance(buffer, bytearray):
            buffer.pop()
            buffer.append(0)
        else:
            buffer.resize(len(buffer))
    except (BufferError, SystemError):  # SystemError where the system cannot resize
        return False
    return True


def _lazy(size_bytes: int) -> mmap:
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap  # never used by clients

    return mmap(-1, size_bytes, MAP_PRIVATE | MAP_ANONYMOUS)


#: Take memory from the pool that the whole process shares.
take_memory = ReusableMemory().take
