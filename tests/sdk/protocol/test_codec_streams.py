"""A codec reads its message from a stream, leaves the rest, and reads no more than it needs for the message.

Method: read from in-memory streams that count the bytes read from them, from a file, and from a pipe.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from construct import FormatField, GreedyRange, Struct

from kafkawire.sdk.errors import DecodeError, LocalProtocolError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from tests.engines import AVAILABLE

HEADER = ResponseHeader(correlation_id=7)
SHORT = FormatField(">", "H")


@pytest.mark.parametrize("engine", AVAILABLE)
def test_streams(engine: str) -> None:
    headers = codec(ResponseHeader, 0, engine)
    stream = io.BytesIO()
    headers.build_stream(HEADER, stream)
    headers.build_stream(HEADER, stream)
    stream.seek(4)
    assert headers.parse_stream(stream) == HEADER
    assert stream.tell() == 8
    stream.write(b"the stream is not locked")


def test_a_stream_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "header"
    path.write_bytes(b"\0\0\0\7rest")
    with path.open("rb") as stream:
        assert codec(ResponseHeader, 0).parse_stream(stream) == HEADER
        assert stream.read() == b"rest"


class CountingStream(io.BytesIO):
    """A stream that counts the bytes read from it; the shortcut for BytesIO does not apply to this subclass."""

    calls = 0
    size_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.calls += 1
        self.size_bytes += len(data)
        return data


def test_a_stream_of_many_messages_is_not_read_to_its_end_for_each() -> None:
    read_bytes = []
    for count in (1000, 2000):
        stream = CountingStream(codec(ResponseHeader, 0).build(HEADER) * count)
        assert GreedyRange(codec(ResponseHeader, 0)).parse_stream(stream) == [HEADER] * count
        read_bytes.append(stream.size_bytes)
    assert read_bytes[1] < 2.5 * read_bytes[0]


@pytest.mark.parametrize("size", [1, 1000, 1001, 1023, 1024, 32767])
def test_a_stream_of_long_messages(size: int) -> None:
    requests = codec(RequestHeader, 2)
    message = RequestHeader(client_id="x" * size)
    data = requests.build(message)
    stream = CountingStream(b"before" + data + b"rest" * size)
    stream.seek(6)
    assert requests.parse_stream(stream) == message
    assert stream.tell() == 6 + len(data)
    assert stream.size_bytes <= 2 * len(data) + 1024
    assert stream.calls < 8


@pytest.mark.parametrize("cut", [0, 5, 2000, 3008])
def test_a_stream_that_ends_too_early(cut: int) -> None:
    requests = codec(RequestHeader, 2)
    data = requests.build(RequestHeader(client_id="x" * 3000))[:cut]
    assert cut == len(data)
    with pytest.raises(DecodeError) as expected:
        requests.parse(data)
    with pytest.raises(DecodeError, match=f"^{re.escape(str(expected.value))}$"):
        requests.parse_stream(CountingStream(data))


def test_a_stream_that_is_not_seekable_is_refused_before_it_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"\0\0\0\7rest")
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        with pytest.raises(LocalProtocolError, match=r"BufferedReader name=\d+> is not seekable: read the bytes, then"):
            Struct("header" / codec(ResponseHeader, 0), "rest" / SHORT).parse_stream(stream)
        assert stream.read() == b"\0\0\0\7rest"
