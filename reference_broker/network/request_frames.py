"""Split a client's bytes into requests: small ones from a buffer shared by all connections, large ones in place.

A length prefix alone takes up no memory. The event loop owns the buffer, which is empty whenever the loop turns to
another connection; the start of an unfinished small request is saved elsewhere. Once its API is known to accept its
size, a large request gets memory whose pages exist only after bytes have arrived for them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, frame_length
from kafkawire.sdk.protocol.reusable_memory import ReusableMemory
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["HEAD_BYTES", "RECEIVE_BUFFER_BYTES", "RequestFrames", "shared_buffer"]

#: The size of one read, and the longest request that is copied: above it, separate memory costs less than a copy.
RECEIVE_BUFFER_BYTES = 64 * 1024

#: The size of one read while the shared memory is used up: enough for any small request.
_SHORT_READ_BYTES = 1024

#: How much of the memory for large requests is kept for later ones; it is part of an idle broker's footprint.
_KEPT_BYTES_MAX = 16 * 1024 * 1024

_COPIED_BYTES_MAX = RECEIVE_BUFFER_BYTES - LENGTH_BYTES

_LENGTH = Struct(">i")
_KEY = Struct(">h")

#: The first bytes of a TLS connection; a length that begins with them would be 369 MB.
_TLS = b"\x16\x03"

#: The size of the length and the API key, with which a request begins.
HEAD_BYTES = _LENGTH.size + _KEY.size

_take_memory = ReusableMemory(_KEPT_BYTES_MAX, is_lazy=True).take


def shared_buffer() -> memoryview:
    """Return the buffer shared by the connections of one event loop."""
    return memoryview(bytearray(RECEIVE_BUFFER_BYTES))


class RequestFrames:
    """The requests of one connection.

    Args:
        shared: the buffer of the event loop.
        frame_bytes_max: returns the maximum request size of an API, given its key; raises RemoteProtocolError if the
            API is unknown.
        limit_bytes: the maximum request size of any API.

    Attributes:
        error: why no more requests can be read: the next one is longer than its API allows, or its API is unknown; None
            if there is no error.
    """

    __slots__ = ("_filled", "_frame_bytes_max", "_large", "_limit_bytes", "_rest", "_shared", "error")

    def __init__(self, shared: memoryview, frame_bytes_max: Callable[[int], int], limit_bytes: int) -> None:
        self._shared = shared
        self._frame_bytes_max = frame_bytes_max
        self._limit_bytes = limit_bytes
        self._rest = b""
        self._large: memoryview | None = None
        self._filled = 0
        self.error: RemoteProtocolError | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of an unfinished request are held."""
        return len(self._rest) if self._large is None else self._filled

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the unfinished request are missing; 0 if there is no such request."""
        if self._large is not None:
            return len(self._large) - self._filled
        if len(self._rest) < LENGTH_BYTES:
            return LENGTH_BYTES - len(self._rest) if self._rest else 0
        return LENGTH_BYTES + int.from_bytes(self._rest[:LENGTH_BYTES], "big") - len(self._rest)

    def buffer(self, *, is_short: bool) -> memoryview:
        """Return memory for the next bytes; valid until `filled` or the next call.

        Args:
            is_short: whether to receive no more than a small request.
        """
        if self._large is not None:
            end = self._filled + _SHORT_READ_BYTES if is_short else len(self._large)
            return self._large[self._filled : end]
        start = len(self._rest)
        if start:
            self._shared[:start] = self._rest
        end = min(start + _SHORT_READ_BYTES, RECEIVE_BUFFER_BYTES) if is_short else RECEIVE_BUFFER_BYTES
        return self._shared[start:end]

    def filled(self, size_bytes: int) -> list[Buffer]:
        """Return the requests completed by the bytes in `buffer`, without their lengths; check `error` afterwards."""
        if self._large is None:
            return self._cut(len(self._rest) + size_bytes)
        self._filled += size_bytes
        if self._filled < len(self._large):
            return []
        frame, self._large = self._large, None
        return [frame]

    def clear(self) -> None:
        """Drop the unfinished request on a closed connection."""
        self._rest, self._large = b"", None

    def _cut(self, end: int) -> list[Buffer]:
        """Split the content of the shared buffer into requests."""
        data = self._shared
        frames: list[Buffer] = []
        start = 0
        self._rest = b""
        while end - start >= LENGTH_BYTES:
            content = start + LENGTH_BYTES
            (length,) = _LENGTH.unpack_from(data, start)
            if 0 <= length <= end - content and length <= self._limit_bytes:
                start = content + length
                # The copy is writable, because the records in a produce request are stamped in place rather than copied
                # again.
                frames.append(bytearray(data[content:start]))
            elif 0 <= length <= _COPIED_BYTES_MAX and length <= self._limit_bytes:
                break
            else:
                if self._is_refused(data[start:end]):
                    return frames
                if end - start < HEAD_BYTES:
                    break
                self._begin_large(data[start:end], length)
                return frames
        self._rest = bytes(data[start:end])
        return frames

    def _is_refused(self, data: memoryview) -> bool:
        """Return whether the length is refused, using the API's limit if its key has arrived, and set `error`."""
        if data[: len(_TLS)] == _TLS:
            self.error = RemoteProtocolError("the client uses TLS, but this listener does not")
            return True
        try:
            frame_length(data[:LENGTH_BYTES], self._limit_bytes)
            if len(data) >= HEAD_BYTES:
                frame_length(data[:LENGTH_BYTES], self._frame_bytes_max(*_KEY.unpack_from(data, LENGTH_BYTES)))
        except RemoteProtocolError as error:
            self.error = error
        return self.error is not None

    def _begin_large(self, data: memoryview, length: int) -> None:
        self._large = _take_memory(length)
        self._filled = len(data) - LENGTH_BYTES
        self._large[: self._filled] = data[LENGTH_BYTES:]
