"""Frames cross a socket whole, and the ways in which a peer can end the connection are distinguished.

Method: on a socket pair on loopback, let the peer send whole, truncated and invalid frames, or close.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from struct import pack

import pytest

from kafkawire.sdk.protocol.frames import FrameTooLarge, frame
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket


@contextmanager
def connected(timeout_seconds: float = 5) -> Iterator[tuple[FrameSocket, socket.socket]]:
    """Yield a frame socket and its peer."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        FrameSocket(*listener.getsockname(), timeout_seconds=timeout_seconds) as ours,
        listener.accept()[0] as peer,
    ):
        yield ours, peer


def test_frames_cross_whole() -> None:
    with connected() as (ours, peer):
        assert ours._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "a small frame must be sent immediately"
        ours.send(frame(b"abc"), frame(b""))
        assert peer.recv(100) == b"\0\0\0\x03abc\0\0\0\0"
        peer.sendall(frame(b"x" * 100_000) + frame(b"second"))
        assert ours.receive() == b"x" * 100_000
        assert ours.receive() == b"second"


def test_select() -> None:
    with connected() as (ours, peer):
        assert select.select([ours], [], [], 0)[0] == []
        peer.sendall(b"\0")
        assert select.select([ours], [], [])[0] == [ours]
        ours.close()
        assert ours.fileno() == -1


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x05", b"\0\0\0\x05abcd"])
def test_the_peer_closes_before_a_frame_is_whole(sent: bytes) -> None:
    with connected() as (ours, peer):
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionEnded, match="bytes"):
            ours.receive()


def test_the_peer_announces_too_much() -> None:
    with connected() as (ours, peer):
        peer.sendall(b"\0\0\0\x0b")
        with pytest.raises(FrameTooLarge, match="says 11 bytes, but 0 to 10 are allowed"):
            ours.receive(limit=10)


def test_nothing_comes() -> None:
    with connected(timeout_seconds=0.05) as (ours, _peer), pytest.raises(TimeoutError):
        ours.receive()


def test_finish_sending_is_seen_by_the_peer() -> None:
    with connected() as (ours, peer):
        ours.send(b"last")
        ours.finish_sending()
        assert (peer.recv(10), peer.recv(10)) == (b"last", b"")
        peer.sendall(frame(b"answer"))
        assert ours.receive() == b"answer"


def test_a_reset_is_an_end_too() -> None:
    with connected() as (ours, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))  # closing resets the connection
        peer.sendall(b"\0\0\0\x05ab")
        assert ours._exactly(4) == b"\0\0\0\x05"
        peer.close()
        with pytest.raises(ConnectionEnded, match=r"after [02] of 5 bytes: .*reset"):
            ours._exactly(5)
        with pytest.raises(ConnectionEnded, match="while sending: "):
            ours.send(b"more")
        ours.close()
        ours.close()
