"""Keep an exact count of the `buffer_memory` in use, from any thread, without a lock.

A thread that is interrupted while it holds a lock blocks all others until its signal handler returns, or forever if the
handler waits for one of them. Therefore the count is kept as the position of a `BytesIO`, which C code moves in one
uninterruptible step. Nothing is ever written to the `BytesIO`.
"""

from __future__ import annotations

from io import SEEK_CUR, BytesIO

from kafkawire.sdk.errors import BufferFull

__all__ = ["BufferMemory"]


class BufferMemory:
    """The memory of one producer's buffer.

    Args:
        limit_bytes: `buffer_memory`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._taken = BytesIO()

    @property
    def taken_bytes(self) -> int:
        """The number of bytes taken."""
        return self._taken.tell()

    def take(self, needed_bytes: int, wished_bytes: int) -> int:
        """Take the desired amount of memory, or all free memory if that is less, and return the amount taken.

        Raises:
            BufferFull: less memory is free than is needed.
        """
        while True:
            room_bytes = self._limit_bytes - self._taken.tell()
            if needed_bytes > room_bytes:
                raise BufferFull(
                    f"{self._limit_bytes - room_bytes} bytes are not acknowledged yet, and {needed_bytes} more "
                    f"would exceed "
                    f"buffer_memory={self._limit_bytes}; wait with producer.drain() and send again, or use send_many"
                )
            taken_bytes = min(wished_bytes, room_bytes)
            if self.add(taken_bytes) <= self._limit_bytes:
                return taken_bytes
            self.give(taken_bytes)  # another thread was faster

    def add(self, size_bytes: int) -> int:
        """Take memory regardless of the limit, and return the total taken."""
        return self._taken.seek(size_bytes, SEEK_CUR)

    def give(self, size_bytes: int) -> None:
        """Give back memory."""
        self._taken.seek(-size_bytes, SEEK_CUR)
