"""A TCP segment is found after every kind of link header and in both IP versions; other packets are recognized as such.

Method: put one segment into each kind of packet, and cut each packet at every byte.
"""

from __future__ import annotations

import pytest

from kafkawire.commands.inspection.explaining.capture_packets import TcpSegment, tcp_segment
from tests.captures import ACK, FIN, RST, SYN, link_layer, tcp_packet

FOUR = tcp_packet(("10.0.0.1", 5), ("10.0.0.2", 6), 7, 8, ACK | FIN, b"data")
SIX = tcp_packet(("::1", 5), ("fe80::2", 6), 7, 8, ACK | FIN, b"data")
LINKS = (0, 1, 101, 108, 113, 276)

EXPECTED_FOUR = TcpSegment("10.0.0.1:5", "10.0.0.2:6", 7, 8, False, True, False, b"data")
EXPECTED_SIX = EXPECTED_FOUR._replace(source="[::1]:5", destination="[fe80::2]:6")


@pytest.mark.parametrize("link_type", LINKS)
@pytest.mark.parametrize(("packet", "segment"), [(FOUR, EXPECTED_FOUR), (SIX, EXPECTED_SIX)])
def test_links(link_type: int, packet: bytes, segment: TcpSegment) -> None:
    data = link_layer(link_type, packet)
    assert tcp_segment(link_type, data) == segment
    assert tcp_segment(link_type, data + b"pad") == segment  # Ethernet pads short packets
    for end in range(len(data)):
        found = tcp_segment(link_type, data[:end])
        assert isinstance(found, str) or found.payload == b"data"[: len(found.payload)], end


def test_virtual_networks() -> None:
    tagged = bytes(12) + b"\x88\xa8\0\1\x81\0\0\2\x08\0" + FOUR
    assert tcp_segment(1, tagged) == EXPECTED_FOUR
    assert tcp_segment(1, bytes(12) + b"\x81\0\0\1" * 1000) == "not IP"


def test_flags() -> None:
    opening = tcp_segment(101, tcp_packet(("10.0.0.1", 5), ("10.0.0.2", 6), 7, 8, SYN))
    assert isinstance(opening, TcpSegment)
    assert (opening.syn, opening.acknowledgment) == (True, None)
    reset = tcp_segment(101, tcp_packet(("10.0.0.1", 5), ("10.0.0.2", 6), 7, 8, RST))
    assert isinstance(reset, TcpSegment)
    assert reset.reset


def test_options_and_extension_headers() -> None:
    assert tcp_segment(101, b"\x46" + FOUR[1:2] + b"\0\x30" + FOUR[4:20] + bytes(4) + FOUR[20:]) == EXPECTED_FOUR
    hop = SIX[:4] + (24 + 8 + 0).to_bytes(2, "big") + b"\0" + SIX[7:40] + b"\6\0" + bytes(6) + SIX[40:]
    assert tcp_segment(101, hop) == EXPECTED_SIX


def test_a_size_that_is_left_to_the_card() -> None:
    assert tcp_segment(101, FOUR[:2] + b"\0\0" + FOUR[4:]) == EXPECTED_FOUR


@pytest.mark.parametrize(
    ("link_type", "data", "reason"),
    [
        (1, bytes(12) + b"\x08\x06" + bytes(28), "not IP"),
        (101, FOUR[:9] + b"\x11" + FOUR[10:], "not TCP"),
        (101, SIX[:6] + b"\x11" + SIX[7:], "not TCP"),
        (101, FOUR[:6] + b"\x20\0" + FOUR[8:], "IP fragments"),
        (101, SIX[:6] + b"\x2c" + SIX[7:], "IP fragments"),
        (101, FOUR[:32] + b"\0" + FOUR[33:], "damaged"),
        (101, b"\x99" + bytes(50), "not IP"),
        (147, bytes(50), "unknown link type 147"),
        (276, b"\x08\x06" + bytes(50), "not IP"),
    ],
)
def test_no_segment(link_type: int, data: bytes, reason: str) -> None:
    assert tcp_segment(link_type, data) == reason
