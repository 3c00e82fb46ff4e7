"""Split a byte stream into frames, and build frames.

Every request and response travels as a frame: an int32 length, then that many bytes. When receiving, framing is the
first step after the socket; when sending, it is the last step before the socket. `connection.py` interprets the
content. This module does no I/O and has no clock.

Source: Kafka protocol guide, "Network"; `NetworkReceive` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.primitives import MAX_LENGTH, as_bytes
from kafkawire.sdk.protocol.values import Buffer

__all__ = [
    "LENGTH_BYTES",
    "MAX_FRAME_BYTES",
    "FrameBuffer",
    "FrameTooLarge",
    "frame",
    "frame_bytes",
    "frame_length",
    "frame_prefix",
]

#: Size of the largest frame accepted by default. Kafka's brokers accept 100 MiB (`socket.request.max.bytes`); without a
#: limit, four hostile bytes could make the receiver reserve 2 GiB.
MAX_FRAME_BYTES = 100 * 1024 * 1024

#: Size of the length in front of each frame.
LENGTH_BYTES = 4


class FrameTooLarge(RemoteProtocolError):
    """A length prefix is outside 0..limit, so nothing more can be read from the connection."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"the length prefix says {length} bytes, but 0 to {limit} are allowed")
        self.length = length
        self.limit = limit


class FrameBuffer:
    """Collect received bytes and return whole frames.

    Receiving takes O(bytes) however the stream is segmented; at most one incomplete frame is held.

    Args:
        limit: largest frame accepted, in bytes.

    Attributes:
        error: the error for the next frame if its length prefix is out of range, otherwise None.
    """

    __slots__ = ("_data", "_limit", "error")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._data = bytearray()
        self._limit = limit
        self.error: FrameTooLarge | None = None

    @property
    def announced(self) -> int | None:
        """The length of the incomplete frame; None if it is not yet known."""
        if len(self._data) < LENGTH_BYTES:
            return None
        return int.from_bytes(self._data[:LENGTH_BYTES], "big")

    def receive(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Add received bytes and return the frames that they complete.

        Args:
            data: the next bytes of the stream.

        Returns:
            The content of each frame, without its length, in order.

        Raises:
            FrameTooLarge: a length prefix is outside 0..limit. The preceding frames are returned first, with `error`
                set; the next call then raises this error.
        """
        if self.error is not None:
            raise self.error.again()
        self._data += data if type(data) is bytes else frame_bytes(data)
        frames = []
        start = 0
        with memoryview(self._data) as view:
            while len(view) - start >= LENGTH_BYTES:
                try:
                    length = frame_length(view[start : start + LENGTH_BYTES], self._limit)
                except FrameTooLarge as error:
                    self.error = error.with_traceback(None)
                    break
                end = start + LENGTH_BYTES + length
                if end > len(view):
                    break
                frames.append(bytes(view[start + LENGTH_BYTES : end]))
                start = end
        if self.error is None:
            del self._data[:start]
            return frames
        self._data.clear()
        if frames:
            return frames
        raise self.error.again()


def frame_length(prefix: bytes | bytearray | memoryview, limit: int = MAX_FRAME_BYTES) -> int:
    """Return the length of a frame from the four bytes in front of it.

    Raises:
        FrameTooLarge: the length is outside 0..limit.
    """
    length = int.from_bytes(prefix, "big", signed=True)
    if not 0 <= length <= limit:
        raise FrameTooLarge(length, limit)
    return length


def frame_prefix(length: int) -> bytes:
    """Return the four bytes in front of a frame of `length` bytes.

    Raises:
        LocalProtocolError: the length does not fit into an int32.
    """
    if length > MAX_LENGTH:
        raise LocalProtocolError(f"the frame has {length} bytes, but at most {MAX_LENGTH} can be sent")
    return length.to_bytes(LENGTH_BYTES, "big")


def frame(content: Buffer) -> bytes:
    """Return `content`, preceded by its length as an int32.

    Raises:
        LocalProtocolError: the content is too long for a frame.
        TypeError: the content is not a buffer.
    """
    content = frame_bytes(content)
    return frame_prefix(len(content)) + content


def frame_bytes(content: Buffer) -> Buffer:
    """Return the content of a frame as a buffer whose `len` is its size in bytes, copying it if it is not contiguous.

    Raises:
        TypeError: the content is not a buffer.
    """
    if type(content) is bytes or type(content) is bytearray:
        return content
    try:
        return as_bytes(content)
    except BufferError:
        return memoryview(content).tobytes()
