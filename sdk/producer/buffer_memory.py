"""How much of `buffer_memory` is taken: counted exactly, by any thread, without a lock.

A thread that is interrupted under a lock holds up all others until its signal handler has returned, and for ever if the
handler waits for one of them. So the count changes in one step of C: the position of a `BytesIO` is moved by a number
of bytes, which nothing can come in between. Nothing is ever written there.
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
        """How much is taken."""
        return self._taken.tell()

    def take(self, needed_bytes: int, wished_bytes: int) -> int:
        """Take the wished memory, or what is free if that is less, and return how much was taken.

        Raises:
            BufferFull: less is free than is needed.
        """
        while True:
            room_bytes = self._limit_bytes - self._taken.tell()
            if needed_bytes > room_bytes:
                raise BufferFull(
                    f"{self._limit_bytes - room_bytes} bytes are not acknowledged yet, {needed_bytes} more exceed "
                    f"buffer_memory={self._limit_bytes}; wait with producer.drain() and send again, or use send_many"
                )
            taken_bytes = min(wished_bytes, room_bytes)
            if self.add(taken_bytes) <= self._limit_bytes:
                return taken_bytes
            self.give(taken_bytes)  # another thread was faster

    def add(self, size_bytes: int) -> int:
        """Take memory whether or not there is room, and return how much is taken now."""
        return self._taken.seek(size_bytes, SEEK_CUR)

    def give(self, size_bytes: int) -> None:
        """Give back memory."""
        self._taken.seek(-size_bytes, SEEK_CUR)
