"""Put TCP segments in order, to get the bytes that each side of a connection has sent, and the gaps.

In a capture, segments can be repeated, reordered or missing, and a connection can begin in the middle. A segment is
yielded after all segments before it and all those that it acknowledges, so a response never comes before its request.
If a segment waits too long, the bytes for which it waits are reported as not captured, which is called a gap.

Source: RFC 9293. `capture_packets.py` finds the segments; `captures.py` reads their content.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.commands.inspection.explaining.capture_packets import TcpSegment

__all__ = ["CapturedBytes", "TcpConnection", "TcpStreams"]

#: Maximum number of segments in one connection that wait for earlier ones. A network reorders a few segments;
#: a capture may reorder a few dozen.
_HELD_SEGMENTS_MAX = 1024

#: Maximum number of waiting bytes across all connections. There can be thousands of connections, each with a window of
#: several megabytes.
_HELD_BYTES_MAX = 64 * 1024 * 1024

#: Memory use of a waiting segment in addition to its bytes.
_HELD_COST_BYTES = 256

#: Maximum number of connections followed at once. Beyond that, the connection that has been silent for the longest time
#: is considered ended.
_CONNECTIONS_MAX = 10_000

#: Sequence numbers have 32 bits and wrap.
_SEQUENCES = 2**32

#: A value below every position, used as the acknowledgment of a segment that has none.
_NOTHING = -(2**62)


class TcpConnection:
    """A connection.

    Attributes:
        number: its number in order of appearance, from 1.
        ends: address and port of both sides; the side that opened the connection, or was seen first, comes first.
        opened: whether the start of the connection was captured.
    """

    def __init__(self, number: int, ends: tuple[str, str], opened: bool) -> None:
        self.number = number
        self.ends = ends
        self.opened = opened
        self._finished = False
        self._sides = (_Side(), _Side())


class CapturedBytes(NamedTuple):
    """The next bytes from one side of a connection.

    Attributes:
        connection: the connection.
        side: 0 or 1, as in `TcpConnection.ends`.
        time: when they were captured, in seconds since the epoch.
        data: the bytes; empty for a gap and at the end.
        missing_bytes: the number of bytes missing in a gap.
        is_end: whether the connection ends here.
    """

    connection: TcpConnection
    side: int
    time: float
    data: bytes = b""
    missing_bytes: int = 0
    is_end: bool = False


class _Held(NamedTuple):
    """A waiting segment; `start` is a position in its own stream, `acknowledged` one in the opposite stream."""

    start: int
    number: int
    acknowledged: int
    time: float
    data: bytes
    fin: bool


class _Side:
    """One direction: the position and sequence number of the next byte, and the segments after it."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.sequence: int | None = None
        self.position = 0
        self.ended = False
        self.held: list[_Held] = []

    def begin(self, sequence: int) -> None:
        if self.sequence is None:
            self.first = self.sequence = sequence

    def place(self, sequence: int) -> int:
        """Return the position for a sequence number; of all candidates, this is the one nearest to the next byte."""
        assert self.sequence is not None, "a side begins with its first number"
        ahead = (sequence - self.sequence) % _SEQUENCES
        return self.position + (ahead if ahead < _SEQUENCES // 2 else ahead - _SEQUENCES)

    def advance(self, size: int) -> None:
        assert self.sequence is not None, "a side begins with its first number"
        self.position += size
        self.sequence = (self.sequence + size) % _SEQUENCES

    def covers(self, position: int) -> bool:
        """Return whether all bytes before a position have been seen; the end of a side counts as a byte."""
        return position <= self.position + self.ended

    def hold(self, held: _Held) -> None:
        insort(self.held, held)

    def take(self) -> _Held:
        return self.held.pop(0)


class TcpStreams:
    """All connections in a capture."""

    def __init__(self) -> None:
        self._connections: dict[frozenset[str], TcpConnection] = {}
        self._seen = 0
        self._packets = 0
        self._held_bytes = 0

    def receive(self, segment: TcpSegment, time: float) -> Iterator[CapturedBytes]:
        """Yield the bytes that a segment makes available in order."""
        self._packets += 1
        key = frozenset((segment.source, segment.destination))
        connection = self._connections.pop(key, None)
        if connection is not None and segment.syn and not _is_repeated(connection, segment):
            yield from self._end(connection, time)
            connection = None
        if connection is None:
            if segment.reset or not (segment.syn or segment.payload):
                return  # there is no connection to follow yet
            connection = self._new(segment)
        self._connections[key] = connection  # the most recent connection comes last
        if connection._finished:
            return  # a repeated segment
        side = int(segment.source != connection.ends[0])
        self._hold(connection, side, segment, time)
        yield from self._settled(connection, time)
        if segment.reset or all(each.ended for each in connection._sides):
            yield from self._end(connection, time)
        if len(self._connections) > _CONNECTIONS_MAX:
            yield from self._end(self._connections.pop(next(iter(self._connections))), time)

    def end(self, time: float) -> Iterator[CapturedBytes]:
        """Yield the bytes that are still waiting when the capture ends."""
        for connection in self._connections.values():
            yield from self._end(connection, time)
        self._connections.clear()

    def _new(self, segment: TcpSegment) -> TcpConnection:
        self._seen += 1
        ends = (segment.source, segment.destination)
        if segment.syn and segment.acknowledgment is not None:  # the reply to the segment that opened it
            ends = (segment.destination, segment.source)
        return TcpConnection(self._seen, ends, segment.syn)

    def _hold(self, connection: TcpConnection, side: int, segment: TcpSegment, time: float) -> None:
        own, other = connection._sides[side], connection._sides[not side]
        own.begin((segment.sequence + segment.syn) % _SEQUENCES)
        acknowledged = _NOTHING
        if segment.acknowledgment is not None:
            other.begin(segment.acknowledgment)
            acknowledged = other.place(segment.acknowledgment)
        if segment.payload or segment.fin:
            start = own.place((segment.sequence + segment.syn) % _SEQUENCES)
            held = _Held(start, self._packets, acknowledged, time, segment.payload, segment.fin)
            own.hold(held)
            self._held_bytes += len(held.data) + _HELD_COST_BYTES

    def _settled(self, connection: TcpConnection, time: float) -> Iterator[CapturedBytes]:
        """Yield the bytes that are in order, and if too many are waiting, those after a gap too."""
        yield from self._in_order(connection)
        while self._waits_too_long(connection):
            yield from self._forced(connection, time)
            yield from self._in_order(connection)

    def _waits_too_long(self, connection: TcpConnection) -> bool:
        segments = sum(len(side.held) for side in connection._sides)
        return segments > _HELD_SEGMENTS_MAX or (self._held_bytes > _HELD_BYTES_MAX and segments > 0)

    def _in_order(self, connection: TcpConnection) -> Iterator[CapturedBytes]:
        waits = 0
        side = 0
        while waits < 2:
            own, other = connection._sides[side], connection._sides[not side]
            waits += 1
            while own.held and own.held[0].start <= own.position and other.covers(own.held[0].acknowledged):
                held = own.take()
                self._held_bytes -= len(held.data) + _HELD_COST_BYTES
                data = held.data[own.position - held.start :]
                own.advance(len(data))
                # A repeated segment that ends its side may end before the known position.
                own.ended = own.ended or (held.fin and held.start + len(held.data) == own.position)
                if data:
                    yield CapturedBytes(connection, side, held.time, data)
                waits = 1
            side = 1 - side

    def _forced(self, connection: TcpConnection, time: float) -> Iterator[CapturedBytes]:
        """Give up the bytes for which the segment that has waited longest is waiting."""
        side = min(
            (side for side in (0, 1) if connection._sides[side].held), key=lambda side: _oldest(connection, side)
        )
        own, other = connection._sides[side], connection._sides[not side]
        first = own.held[0]
        if first.start > own.position:
            yield self._gap(connection, side, first.start, time)
            return
        target = min([first.acknowledged, *(held.start for held in other.held[:1])])
        if target > other.position:
            is_unseen_end = target == other.position + 1 and not other.held
            gap = self._gap(connection, 1 - side, target, time)
            if not is_unseen_end:
                yield gap
            return
        own.held[0] = first._replace(acknowledged=_NOTHING)

    def _gap(self, connection: TcpConnection, side: int, position: int, time: float) -> CapturedBytes:
        own = connection._sides[side]
        missing_bytes = position - own.position
        own.advance(missing_bytes)
        return CapturedBytes(connection, side, time, missing_bytes=missing_bytes)

    def _end(self, connection: TcpConnection, time: float) -> Iterator[CapturedBytes]:
        if connection._finished:
            return
        connection._finished = True
        while any(side.held for side in connection._sides):
            yield from self._forced(connection, time)
            yield from self._in_order(connection)
        yield CapturedBytes(connection, 0, time, is_end=True)


def _oldest(connection: TcpConnection, side: int) -> int:
    return connection._sides[side].held[0].number


def _is_repeated(connection: TcpConnection, segment: TcpSegment) -> bool:
    """Return whether a segment that opens a side belongs to this connection, not to a later one on its ports."""
    own = connection._sides[int(segment.source != connection.ends[0])]
    return connection.opened and own.first in (None, (segment.sequence + 1) % _SEQUENCES)
