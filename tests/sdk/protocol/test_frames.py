"""Frames are received as they were sent, however the stream is cut, and a hostile length stops the connection.

Method: feed one stream whole, byte by byte, and in every pair of pieces; let hypothesis vary frames and cuts; try
lengths at each limit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol import frames
from kafkawire.sdk.protocol.frames import (
    FrameBuffer,
    FrameTooLarge,
    frame,
    frame_bytes,
    frame_length,
    frame_prefix,
)
from kafkawire.sdk.protocol.values import Buffer

FRAMES = [b"", b"a", b"\x00" * 300]
STREAM = b"".join(map(frame, FRAMES))


def receive(chunks: Iterable[bytes], limit: int = 1000) -> list[bytes]:
    buffer = FrameBuffer(limit)
    return [content for chunk in chunks for content in buffer.receive(chunk)]


def test_whole_stream() -> None:
    assert receive([STREAM]) == FRAMES


def test_byte_by_byte() -> None:
    assert receive(STREAM[i : i + 1] for i in range(len(STREAM))) == FRAMES


def test_cut_in_two(subtests: pytest.Subtests) -> None:
    for cut in range(len(STREAM) + 1):
        with subtests.test(cut=cut):
            assert receive([STREAM[:cut], STREAM[cut:]]) == FRAMES


@given(contents=st.lists(st.binary(max_size=50)), data=st.data())
def test_any_frames_any_cuts(contents: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, contents))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert receive(pieces) == contents


@pytest.mark.parametrize(
    ("length", "accepted"), [(-1, False), (0, True), (1000, True), (1001, False), (2**31 - 1, False), (-(2**31), False)]
)
def test_limit(length: int, accepted: bool) -> None:
    prefix = length.to_bytes(4, "big", signed=True)
    stream = prefix + b"x" * min(max(length, 0), 2000)
    if accepted:
        assert receive([stream]) == [b"x" * length]
        assert frame_length(prefix, 1000) == length
    else:
        with pytest.raises(FrameTooLarge, match=f"says {length} bytes, but 0 to 1000 are allowed") as caught:
            receive([stream])
        assert (caught.value.length, caught.value.limit) == (length, 1000)
        with pytest.raises(FrameTooLarge, match=f"says {length} bytes, but 0 to 1000 are allowed"):
            frame_length(prefix, 1000)


def test_the_limit_by_default_is_that_of_kafka() -> None:
    """Only the largest frame's length is sent; no more is needed to show that a larger frame is refused."""
    largest = (100 * 1024 * 1024).to_bytes(4, "big")
    larger = (100 * 1024 * 1024 + 1).to_bytes(4, "big")
    assert FrameBuffer().receive(largest) == []
    assert frame_length(largest) == 104857600
    for refuse in (FrameBuffer().receive, frame_length):
        with pytest.raises(
            FrameTooLarge, match="the length prefix says 104857601 bytes, but 0 to 104857600 are allowed"
        ):
            refuse(larger)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_length_that_is_refused_hides_no_frame_before_it(before: int) -> None:
    """However the stream is cut, the frames are returned first, and the error is raised after them."""
    stream = b"".join(map(frame, FRAMES[:before])) + b"\x7f\xff\xff\xff"
    for cut in range(len(stream) + 1):
        buffer = FrameBuffer(1000)
        found: list[bytes] = []
        for piece in (stream[:cut], stream[cut:]):
            with suppress(FrameTooLarge):
                found += buffer.receive(piece)
        assert found == FRAMES[:before]
        assert buffer.error is not None
        assert buffer.error.length == 2147483647
        with pytest.raises(FrameTooLarge, match="says 2147483647 bytes"):
            buffer.receive(b"")


def test_the_length_of_a_frame_is_known_before_the_frame() -> None:
    buffer = FrameBuffer(1000)
    stream = frame(b"a") + frame(b"bcd")
    known = []
    for at in range(len(stream)):
        buffer.receive(stream[at : at + 1])
        known.append(buffer.announced)
    assert known == [None, None, None, 1, None, None, None, None, 3, 3, 3, None]


def test_the_error_is_known_as_soon_as_the_frames_before_it() -> None:
    buffer = FrameBuffer(1000)
    assert buffer.receive(frame(b"a") + b"\xff\xff\xff") == [b"a"]
    assert buffer.error is None
    buffer = FrameBuffer(1000)
    assert buffer.receive(frame(b"a") + b"\xff\xff\xff\xff") == [b"a"]
    assert str(buffer.error) == "the length prefix says -1 bytes, but 0 to 1000 are allowed"


def test_the_longest_frame_that_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert frame_prefix(2**31 - 1) == b"\x7f\xff\xff\xff"
    with pytest.raises(
        LocalProtocolError,
        match=r"^the frame has 2147483648 bytes, "
        r"but at most 2147483647 can be sent$",
    ):
        frame_prefix(2**31)
    monkeypatch.setattr(frames, "MAX_LENGTH", 7)  # no test has enough memory for more
    with pytest.raises(LocalProtocolError, match=r"^the frame has 8 bytes, but at most 7 can be sent$"):
        frame(memoryview(array("i", [1, 2])))


@pytest.mark.parametrize("cast", [bytes, bytearray, memoryview, lambda data: array("i", data)])
def test_the_size_of_a_frame_is_that_of_its_bytes(cast: Callable[[bytes], Buffer]) -> None:
    content = cast(bytes(range(8)))
    assert len(frame_bytes(content)) == 8
    assert frame(content) == b"\0\0\0\x08" + bytes(range(8))
    assert FrameBuffer().receive(memoryview(array("i", frame(content)))) == [bytes(range(8))]


def test_a_frame_that_is_not_contiguous() -> None:
    content = memoryview(bytes(range(16)))[::2]
    assert frame(content) == b"\0\0\0\x08" + bytes(range(0, 16, 2))
    assert FrameBuffer().receive(memoryview(b"".join(bytes((byte, 0)) for byte in frame(b"ab")))[::2]) == [b"ab"]
    for wrong in ("text", None, 5):
        with pytest.raises(TypeError):
            frame(wrong)  # type: ignore[arg-type]  # not a valid frame
