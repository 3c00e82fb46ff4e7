"""Requests are returned whole, however their bytes arrive; an oversized request is refused before it is stored.

Method: write bytes into the buffers that the connection provides, cut at every position or at seeded random ones.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.network.request_frames import RECEIVE_BUFFER_BYTES, RequestFrames, shared_buffer
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import frame

PRODUCE, METADATA = 0, 3
LIMIT_BYTES = 1_000_000


def frame_bytes_max(key: int) -> int:
    if key not in (PRODUCE, METADATA):
        raise RemoteProtocolError(f"API key {key} is not served here")
    return LIMIT_BYTES if key == PRODUCE else 2 * RECEIVE_BUFFER_BYTES


class Connection:
    """One of several requests that share a buffer."""

    def __init__(self, shared: memoryview | None = None, *, is_short: bool = False) -> None:
        self.frames = RequestFrames(shared_buffer() if shared is None else shared, frame_bytes_max, LIMIT_BYTES)
        self.is_short = is_short

    def receive(self, data: bytes) -> list[bytes]:
        found = []
        while data:
            buffer = self.frames.buffer(is_short=self.is_short)
            assert buffer
            size_bytes = min(len(buffer), len(data))
            buffer[:size_bytes] = data[:size_bytes]
            found += [bytes(each) for each in self.frames.filled(size_bytes)]
            data = data[size_bytes:]
        return found


def request(size_bytes: int, key: int = PRODUCE) -> bytes:
    return key.to_bytes(2, "big") + random.Random(size_bytes).randbytes(size_bytes - 2)


def test_every_cut_of_small_requests():
    contents = [b"", b"a", b"bcd"]
    data = b"".join(map(frame, contents))
    for place in range(len(data) + 1):
        connection = Connection()
        assert connection.receive(data[:place]) + connection.receive(data[place:]) == contents
        assert connection.frames.held_bytes == connection.frames.missing_bytes == 0


@pytest.mark.parametrize("size_bytes", [100, 2 * RECEIVE_BUFFER_BYTES])
def test_requests_can_be_changed_in_place(size_bytes):
    """The broker can therefore stamp records in place; a small request is no longer part of the shared buffer."""
    shared = shared_buffer()
    connection = Connection(shared)
    data = frame(request(size_bytes))
    found = []
    while data:
        buffer = connection.frames.buffer(is_short=False)
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        found += connection.frames.filled(taken)
        data = data[taken:]
    (content,) = found
    before = bytes(shared)
    assert not memoryview(content).readonly
    content[:4] = b"\xff" * 4
    assert bytes(shared) == before


@pytest.mark.parametrize("is_short", [False, True])
def test_random_sizes_and_cuts(is_short):
    for seed in range(10):
        chance = random.Random(seed)
        sizes = [chance.choice([2, 50, 5_000, 65_530, 65_531, 65_536, 65_537, 70_000, 400_000]) for _ in range(20)]
        contents = [request(size) for size in sizes]
        data = b"".join(map(frame, contents))
        connection, found = Connection(is_short=is_short), []
        while data:
            place = chance.choice([1, 7, 3_000, 200_000])
            found += connection.receive(data[:place])
            data = data[place:]
        assert found == contents, f"seed {seed}"


def test_connections_share_the_buffer():
    shared = shared_buffer()
    one, two = Connection(shared), Connection(shared)
    assert one.receive(frame(b"one")[:5]) == []
    assert two.receive(frame(b"two")[:6]) == []
    assert one.receive(frame(b"one")[5:]) == [b"one"]
    assert two.receive(frame(b"two")[6:]) == [b"two"]


def test_what_is_held_and_what_is_missing():
    connection = Connection()
    data = frame(request(200_000))
    for end, held, missing in ((2, 2, 2), (4, 4, 200_000), (6, 2, 199_998)):
        connection.receive(data[end - 2 : end])
        assert (connection.frames.held_bytes, connection.frames.missing_bytes) == (held, missing)
    connection.receive(data[6:1_000])
    assert (connection.frames.held_bytes, connection.frames.missing_bytes) == (996, 199_004)
    connection.receive(data[1_000:150_000])
    assert (connection.frames.held_bytes, connection.frames.missing_bytes) == (149_996, 50_004)


@pytest.mark.parametrize("length", [LIMIT_BYTES + 1, -1, 2**31 - 1])
def test_no_api_takes_more(length):
    connection = Connection()
    prefix = (length & 0xFFFFFFFF).to_bytes(4, "big")
    assert connection.receive(frame(b"before") + prefix) == [b"before"]
    assert str(connection.frames.error) == f"the length prefix says {length} bytes, but 0 to {LIMIT_BYTES} are allowed"
    assert not connection.frames.held_bytes


def test_what_earlier_requests_left_in_the_buffer_is_nothing_that_came():
    connection = Connection()
    assert connection.receive(frame(request(10, 77))) == [request(10, 77)]
    large = frame(request(70_000))
    assert not connection.receive(large[:5])
    assert connection.frames.error is None
    assert connection.receive(large[5:]) == [request(70_000)]


def test_large_request_of_an_api_that_takes_none():
    size_bytes = 2 * RECEIVE_BUFFER_BYTES
    connection = Connection()
    assert connection.receive(frame(request(size_bytes, METADATA))) == [request(size_bytes, METADATA)]
    assert connection.frames.error is None
    connection.receive(frame(request(size_bytes + 1, METADATA))[:6])
    expected = f"the length prefix says {size_bytes + 1} bytes, but 0 to {size_bytes} are allowed"
    assert str(connection.frames.error) == expected
    connection = Connection()
    connection.receive(frame(request(70_000, 77))[:6])
    assert str(connection.frames.error) == "API key 77 is not served here"


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03"])
def test_a_client_that_uses_tls_is_named(data):
    connection = Connection()
    assert not connection.receive(data)
    assert str(connection.frames.error) == "the client uses TLS, but this listener does not"
