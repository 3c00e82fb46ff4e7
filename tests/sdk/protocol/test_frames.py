"""Frames come out as they went in, however the stream was cut, and a hostile length stops the connection.

Method: one stream is fed whole, byte by byte and in every two pieces; hypothesis varies frames and cuts; lengths at
each limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.frames import FrameBuffer, FrameTooLarge, frame, frame_length, frame_prefix

FRAMES = [b"", b"a", b"\x00" * 300]
STREAM = b"".join(map(frame, FRAMES))


def receive(chunks: Iterable[bytes], limit: int = 1000) -> list[bytes]:
    buffer = FrameBuffer(limit)
    return [content for chunk in chunks for content in buffer.receive(chunk)]


def test_whole_stream() -> None:
    assert receive([STREAM]) == FRAMES


def test_byte_by_byte() -> None:
    assert receive(STREAM[i : i + 1] for i in range(len(STREAM))) == FRAMES


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_cut_in_two(cut: int) -> None:
    assert receive([STREAM[:cut], STREAM[cut:]]) == FRAMES


@given(frames=st.lists(st.binary(max_size=50)), data=st.data())
def test_any_frames_any_cuts(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert receive(pieces) == frames


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
        with pytest.raises(FrameTooLarge, match=f"{length} bytes announced, 0 to 1000 allowed") as caught:
            receive([stream])
        assert (caught.value.length, caught.value.limit) == (length, 1000)
        with pytest.raises(FrameTooLarge, match=f"{length} bytes announced, 0 to 1000 allowed"):
            frame_length(prefix, 1000)


def test_the_limit_by_default_is_that_of_kafka() -> None:
    """Of the largest frame the length alone is there; nothing more is needed to refuse a larger one."""
    largest = (100 * 1024 * 1024).to_bytes(4, "big")
    larger = (100 * 1024 * 1024 + 1).to_bytes(4, "big")
    assert FrameBuffer().receive(largest) == []
    assert frame_length(largest) == 104857600
    for refuse in (FrameBuffer().receive, frame_length):
        with pytest.raises(FrameTooLarge, match="frame of 104857601 bytes announced, 0 to 104857600 allowed"):
            refuse(larger)


class Announced(bytes):
    """Bytes that say they are longer than this test could hold."""

    def __len__(self) -> int:
        return 2**31


def test_the_longest_frame_that_can_be_sent() -> None:
    assert frame_prefix(2**31 - 1) == b"\x7f\xff\xff\xff"
    for send in (lambda: frame_prefix(2**31), lambda: frame(Announced())):
        with pytest.raises(LocalProtocolError, match=r"^frame of 2147483648 bytes, at most 2147483647 can be sent$"):
            send()
