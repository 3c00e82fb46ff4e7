"""Each side's bytes are restored as they were sent, however the packets were captured; missing bytes are reported.

Method: feed in the packets of a conversation, first as they are, then with packets doubled, swapped, shuffled with a
seed, or left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from kafkawire.commands.inspection.explaining import tcp_streams
from kafkawire.commands.inspection.explaining.capture_packets import TcpSegment, tcp_segment
from kafkawire.commands.inspection.explaining.tcp_streams import CapturedBytes, TcpStreams
from tests.captures import ACK, RST, SYN, Talk


def conversation(opened: bool = True, rounds: int = 20) -> Talk:
    talk = Talk(opened)
    for number in range(rounds):
        talk.data(0, b"question %d " % number, 5)
        talk.data(1, b"answer %d " % number, 5)
    talk.end()
    return talk


ASKED = b"".join(b"question %d " % number for number in range(20))
ANSWERED = b"".join(b"answer %d " % number for number in range(20))


def captured_bytes(packets: Iterable[bytes]) -> list[CapturedBytes]:
    streams = TcpStreams()
    found = []
    for number, packet in enumerate(packets):
        segment = tcp_segment(101, packet)
        assert isinstance(segment, TcpSegment)
        found += streams.receive(segment, number)
    return found + list(streams.end(1e9))


def sides(found: list[CapturedBytes]) -> tuple[bytes, bytes]:
    asked, answered = (b"".join(each.data for each in found if each.side == side) for side in (0, 1))
    return asked, answered


def is_causal(found: list[CapturedBytes]) -> bool:
    """Return whether every response comes after its complete request."""
    asked = answered = 0
    for each in found:
        asked += len(each.data) * (each.side == 0)
        answered += len(each.data) * (each.side == 1)
        rounds = ANSWERED[:answered].count(b"answer")
        if each.side == 1 and each.data and asked < sum(len(b"question %d " % number) for number in range(rounds)):
            return False
    return True


def test_in_order() -> None:
    found = captured_bytes(conversation().packets)
    assert sides(found) == (ASKED, ANSWERED)
    assert [each.is_end for each in found].count(True) == 1
    assert found[-1].is_end
    assert (found[0].connection.ends, found[0].connection.opened) == (("10.0.0.1:50000", "10.0.0.2:9092"), True)


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_repeated_and_reordered(seed: int, opened: bool) -> None:
    """Packets from both sides are moved by up to eight places, and about a third are repeated."""
    chance = random.Random(seed)
    packets = conversation(opened).packets
    head, rest = packets[:2], packets[2:]
    keyed = [(number + chance.uniform(0, 8), packet) for number, packet in enumerate(rest)]
    keyed += [(number + chance.uniform(0, 30), packet) for number, packet in enumerate(rest) if chance.random() < 0.3]
    found = captured_bytes([*head, *(packet for _, packet in sorted(keyed))])
    assert sides([each for each in found if each.connection.number == 1]) == (ASKED, ANSWERED)
    assert sum(each.missing_bytes for each in found) == 0
    assert is_causal(found)


def test_segments_that_overlap() -> None:
    talk = Talk()
    first = talk.packet(0, b"abcd")
    talk.packet(0, b"efgh")
    longer = Talk()
    longer.packet(0, b"abcdef")
    found = captured_bytes([*talk.packets[:2], first, longer.packets[-1], *talk.packets[3:]])
    assert sides(found)[0] == b"abcdefgh"


@pytest.mark.parametrize("place", range(2, 30))
def test_a_packet_that_was_not_captured(place: int) -> None:
    packets = conversation().packets
    missing = tcp_segment(101, packets[place])
    assert isinstance(missing, TcpSegment)
    found = captured_bytes(packets[:place] + packets[place + 1 :])
    assert sum(each.missing_bytes for each in found) == len(missing.payload)
    assert sum(map(len, sides(found))) == len(ASKED + ANSWERED) - len(missing.payload)
    assert is_causal([each for each in found if not each.missing_bytes][:1])


def test_the_end_of_a_side_is_no_byte() -> None:
    packets = conversation().packets
    assert sum(each.missing_bytes for each in captured_bytes(packets[:-2] + packets[-1:])) == 0


def test_a_capture_that_begins_inside() -> None:
    found = captured_bytes(conversation().packets[40:])
    assert not found[0].connection.opened
    assert ASKED.endswith(sides(found)[0]) or ANSWERED.endswith(sides(found)[0])
    assert sum(each.missing_bytes for each in found) == 0


def test_one_direction_only() -> None:
    packets = conversation().packets
    client = [packet for packet in packets if packet[12:16] == packets[0][12:16]]
    found = captured_bytes(client)
    assert sides(found)[0] == ASKED


def test_ports_that_are_used_again() -> None:
    later = Talk(first=(9_000_000, 5))
    later.data(0, b"again")
    found = captured_bytes(conversation().packets[:-2] + later.packets)
    assert sides([each for each in found if each.connection.number == 2])[0] == b"again"


def test_an_opening_that_is_repeated_or_swapped() -> None:
    packets = conversation().packets
    for order in ([0, 0, 1, 1], [1, 0], [0, 1, 0]):
        found = captured_bytes([*(packets[index] for index in order), *packets[2:]])
        assert sides(found) == (ASKED, ANSWERED), order
        assert found[0].connection.ends[0] == "10.0.0.1:50000"


def test_bytes_that_come_with_the_opening() -> None:
    """With TCP Fast Open, the segment's sequence number is that of the SYN, which is not a byte of the stream."""
    talk = Talk(opened=False)
    talk.packet(0, b"early ", SYN)
    talk.packet(1, b"", SYN | ACK)
    talk.packet(0, b"bytes")
    found = captured_bytes(talk.packets)
    assert sides(found) == (b"early bytes", b"")
    assert sum(each.missing_bytes for each in found) == 0


def test_a_reset() -> None:
    talk = Talk()
    talk.packet(0, b"x")
    talk.packet(1, b"", RST | ACK)
    talk.packet(0, b"", ACK)
    found = captured_bytes(talk.packets)
    assert [each.is_end for each in found] == [False, True]


def test_connections_are_apart() -> None:
    talks = [Talk(client=("10.0.0.1", port), first=(port, port)) for port in range(1000, 1100)]
    for number, talk in enumerate(talks):
        talk.data(0, b"%d" % number)
    found = captured_bytes(packet for index in range(3) for packet in (talk.packets[index] for talk in talks))
    assert [each.data for each in found if each.data] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(("clients", "most"), [(37, 40), (100, 10)])
def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, clients: int, most: int) -> None:
    monkeypatch.setattr(tcp_streams, "_HELD_BYTES_MAX", 100_000)
    monkeypatch.setattr(tcp_streams, "_CONNECTIONS_MAX", most)
    streams = TcpStreams()
    chance = random.Random(3)
    gaps = 0
    for number in range(5_000):
        place = chance.randrange(2**32)
        segment = TcpSegment(f"a:{number % clients}", "b:1", place, place ^ 1, False, False, False, bytes(1000))
        gaps += sum(each.missing_bytes > 0 for each in streams.receive(segment, 0))
        assert streams._held_bytes <= 100_000
        assert len(streams._connections) <= most
    assert (gaps > 0) == (clients < most)


def test_many_segments_in_the_wrong_order() -> None:
    talk = Talk()
    talk.data(0, bytes(20_000), 2)
    found = captured_bytes([*talk.packets[:2], *reversed(talk.packets[2:])])
    assert len(sides(found)[0]) + sum(each.missing_bytes for each in found) == 20_000
