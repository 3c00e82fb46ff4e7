"""List the frames in a capture that clients and brokers exchanged, and count the bytes that could not be matched.

`capture_file.py` reads the packets, and `tcp_streams.py` puts them in order. This module cuts the streams into frames.
If a stream begins in the middle or has a gap, the next segment that begins with a frame is searched for. Memory use is
bounded, whatever the file contains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from kafkawire.commands.inspection.explaining.capture_file import CaptureError, read_packets
from kafkawire.commands.inspection.explaining.capture_packets import tcp_segment
from kafkawire.commands.inspection.explaining.frames import is_request
from kafkawire.commands.inspection.explaining.tcp_streams import CapturedBytes, TcpConnection, TcpStreams
from kafkawire.commands.terminal import counted
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.connection import Received, Request
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkawire.sdk.protocol.header_start import CORRELATION_ID_BYTES, HEADER_START, correlation_id_of
from kafkawire.sdk.protocol.observation import ObservedConnection, Unread
from kafkawire.sdk.protocol.schema import Api

__all__ = ["Frame", "Summary", "explain_capture"]

#: Maximum number of bytes of unfinished frames across all connections: two of the largest frames.
_UNFINISHED_BYTES_MAX = 2 * MAX_FRAME_BYTES

#: The size of the API key and version in a request header, by which the start of a frame is recognized.
_API_BYTES = 4


class Frame(NamedTuple):
    """A frame in a capture, or a remark about a connection.

    Attributes:
        time: when its last byte was captured, in seconds since the epoch.
        connection: the number of the connection.
        way: `>` from the client, `<` from the broker, `!` for a remark.
        text: the description, on one line.
        data: the frame without its length prefix; empty for a remark.
        read: the explanation of the frame; None for a remark.
    """

    time: float
    connection: int
    way: str
    text: str
    data: bytes = b""
    read: Request | Received | Unread | None = None


class Summary:
    """The counts for a capture, which are complete once all frames have been yielded.

    Attributes:
        connections: the number of connections seen.
        requests: the number of decoded requests.
        responses: the number of decoded responses.
        unread: the number of frames that were not decoded.
        without_response: the number of requests whose response was not seen.
        missing_bytes: the number of bytes that were not captured.
        passed_over_bytes: the number of bytes that could not be matched, before the first known request or after a gap.
        left_out: the numbers of packets that were left out, keyed by reason.
        error: why reading ended before the end of the file.
    """

    def __init__(self) -> None:
        self.connections = self.requests = self.responses = self.unread = 0
        self.without_response = self.missing_bytes = self.passed_over_bytes = 0
        self.left_out: Counter[str] = Counter()
        self.error = ""

    def lines(self) -> Iterator[str]:
        """Yield the summary, line by line."""
        yield (
            f"{counted(self.connections, 'connection')}, {counted(self.requests, 'request')}, "
            f"{counted(self.responses, 'response')}"
        )
        for count, noun, what in (
            (self.unread, "frame", "not decoded or not matched"),
            (self.without_response, "request", "whose response is not in the capture"),
            (self.missing_bytes, "byte", "not captured"),
            (self.passed_over_bytes, "byte", "skipped, because no known frame begins there"),
        ):
            if count:
                yield f"{counted(count, noun)} {what}"
        for reason, count in self.left_out.most_common():
            yield f"{counted(count, 'packet')} left out: {reason}"


def explain_capture(stream: BinaryIO, summary: Summary, apis: Mapping[int, Api] = KAFKA_APIS) -> Iterator[Frame]:
    """Yield the frames of all connections, in the order of their completion.

    Args:
        stream: a capture, pcap or pcapng.
        summary: receives the counts.
        apis: the known APIs, by key.
    """
    streams = TcpStreams()
    reading = _Reading(summary, apis)
    time = 0.0
    try:
        for packet in read_packets(stream):
            time = packet.time
            segment = tcp_segment(packet.link_type, packet.data)
            if isinstance(segment, str):
                summary.left_out[segment] += 1
                continue
            for captured in streams.receive(segment, time):
                yield from reading.receive(captured)
    except CaptureError as error:
        summary.error = str(error)
    for captured in streams.end(time):
        yield from reading.receive(captured)


class _Reading:
    """The connections of a capture, and the memory they share."""

    def __init__(self, summary: Summary, apis: Mapping[int, Api]) -> None:
        self._summary = summary
        self._apis = apis
        self._conversations: dict[TcpConnection, _Conversation] = {}
        self._unfinished_bytes = 0

    def receive(self, captured: CapturedBytes) -> Iterator[Frame]:
        connection = captured.connection
        conversation = self._conversations.get(connection)
        if conversation is None:
            if captured.is_end:
                return
            conversation = self._conversations[connection] = _Conversation(connection, self._apis)
            self._summary.connections += 1
            yield Frame(captured.time, connection.number, "!", " and ".join(connection.ends))
        before = conversation.unfinished_bytes
        for frame in conversation.receive(captured):
            self._count(frame)
            yield frame
        self._unfinished_bytes += conversation.unfinished_bytes - before
        if self._unfinished_bytes > _UNFINISHED_BYTES_MAX:
            self._unfinished_bytes -= conversation.unfinished_bytes
            yield conversation.forget(captured.time)
        self._summary.missing_bytes += captured.missing_bytes
        if captured.is_end:
            self._unfinished_bytes -= conversation.unfinished_bytes
            self._summary.without_response += conversation.without_response
            self._summary.passed_over_bytes += conversation.passed_over_bytes
            del self._conversations[connection]

    def _count(self, frame: Frame) -> None:
        match frame.read:
            case Request():
                self._summary.requests += 1
            case Received():
                self._summary.responses += 1
            case Unread():
                self._summary.unread += 1


class _Stream:
    """The bytes from one side that do not form a frame yet; `in_step` is whether the next byte begins a frame."""

    def __init__(self, in_step: bool) -> None:
        self.data = bytearray()
        self.in_step = in_step
        self.passed_over = 0

    def lose_step(self) -> None:
        self.passed_over += len(self.data)
        self.data.clear()
        self.in_step = False

    def frames(self) -> Iterator[bytes]:
        """Yield the complete frames; bytes that cannot be a frame end `in_step`."""
        start = 0
        while len(self.data) - start >= LENGTH_BYTES:
            length = int.from_bytes(self.data[start : start + LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:  # a negative length also cannot be right
                del self.data[:start]
                self.lose_step()
                return
            end = start + LENGTH_BYTES + length
            if end > len(self.data):
                break
            yield bytes(self.data[start + LENGTH_BYTES : end])
            start = end
        del self.data[:start]


class _Conversation:
    """A connection that may use Kafka's protocol."""

    def __init__(self, connection: TcpConnection, apis: Mapping[int, Api]) -> None:
        self._connection = connection
        self._apis = apis
        #: The client's side, which is known if the capture has the start of the connection, or after the first request.
        self._client: int | None = 0 if connection.opened else None
        self._streams = (_Stream(connection.opened), _Stream(connection.opened))
        self._observed = ObservedConnection(apis=apis)
        self._is_kafka = False
        self.passed_over_bytes = 0

    @property
    def unfinished_bytes(self) -> int:
        return sum(len(stream.data) for stream in self._streams)

    @property
    def without_response(self) -> int:
        return self._observed.in_flight + self._observed.unanswered

    def receive(self, captured: CapturedBytes) -> Iterator[Frame]:
        stream = self._streams[captured.side]
        if captured.missing_bytes:
            yield self._remark(
                captured.time, f"{captured.missing_bytes} bytes {self._of(captured.side)} were not captured"
            )
            stream.lose_step()
        if captured.data:
            yield from self._receive_data(captured, stream)
        if captured.is_end:
            yield from self._end(captured)

    def forget(self, time: float) -> Frame:
        """Drop unfinished frames because all connections together hold too many bytes."""
        size_bytes = self.unfinished_bytes
        for stream in self._streams:
            stream.lose_step()
        return self._remark(
            time, f"{size_bytes} bytes of incomplete frames were dropped, because too many were pending"
        )

    def _receive_data(self, captured: CapturedBytes, stream: _Stream) -> Iterator[Frame]:
        if not stream.in_step:
            if not self._begins_frame(captured):
                stream.passed_over += len(captured.data)
                return
            stream.in_step = True
            yield from self._passed_over(captured, captured.side)
        stream.data += captured.data
        is_request = captured.side == self._client
        for frame in stream.frames():
            read = self._observed.receive_request(frame) if is_request else self._observed.receive_response(frame)
            self._is_kafka = self._is_kafka or not isinstance(read, Unread)
            yield Frame(captured.time, self._connection.number, ">" if is_request else "<", repr(read), frame, read)
        if not stream.in_step:
            yield self._remark(
                captured.time, f"no frame {self._of(captured.side)} begins here; searching for the next one"
            )

    def _begins_frame(self, captured: CapturedBytes) -> bool:
        if self._client in (None, captured.side) and _begins_request(captured.data, self._apis):
            self._client = captured.side
            return True
        return self._client == 1 - captured.side and self._begins_response(captured.data)

    def _begins_response(self, data: bytes) -> bool:
        if len(data) < LENGTH_BYTES + CORRELATION_ID_BYTES:
            return False
        length = int.from_bytes(data[:LENGTH_BYTES], "big")
        correlation_id = correlation_id_of(data[LENGTH_BYTES:])
        return CORRELATION_ID_BYTES <= length <= MAX_FRAME_BYTES and self._observed.expects(correlation_id)

    def _end(self, captured: CapturedBytes) -> Iterator[Frame]:
        for side, stream in enumerate(self._streams):
            yield from self._passed_over(captured, side)
            if stream.data:
                text = f"{len(stream.data)} bytes {self._of(side)} are left over from an incomplete frame"
                yield self._remark(captured.time, text)
        if not self._is_kafka:
            yield self._remark(captured.time, "no unencrypted Kafka traffic was found in this connection")
        elif self.without_response:
            yield self._remark(captured.time, f"{counted(self.without_response, 'request')} without a response")

    def _passed_over(self, captured: CapturedBytes, side: int) -> Iterator[Frame]:
        stream = self._streams[side]
        if stream.passed_over:
            text = f"skipped {stream.passed_over} bytes {self._of(side)}, because no known frame begins there"
            self.passed_over_bytes += stream.passed_over
            stream.passed_over = 0
            yield self._remark(captured.time, text)

    def _of(self, side: int) -> str:
        if self._client is None:
            return f"from {self._connection.ends[side]}"
        return "from the client" if side == self._client else "from the broker"

    def _remark(self, time: float, text: str) -> Frame:
        return Frame(time, self._connection.number, "!", text)


def _begins_request(data: bytes, apis: Mapping[int, Api]) -> bool:
    """Return whether a segment begins with a frame, possibly partial, of a known API and version."""
    if len(data) < LENGTH_BYTES + _API_BYTES:
        return False
    length = int.from_bytes(data[:LENGTH_BYTES], "big")
    start = data[LENGTH_BYTES : LENGTH_BYTES + HEADER_START.size]
    key, version, _ = HEADER_START.unpack(start.ljust(HEADER_START.size, b"\0"))
    in_range = HEADER_START.size <= length <= MAX_FRAME_BYTES
    # Removed versions are excluded, since bytes inside a frame often look like one of the lowest keys with version 0.
    if not (in_range and key in apis and version in apis[key].versions):
        return False
    # Lookalikes are excluded too: at the place of a request's key, responses have a correlation id, often a small
    # number.
    frame = data[LENGTH_BYTES : LENGTH_BYTES + length]
    return len(frame) < length or is_request(frame, apis)
