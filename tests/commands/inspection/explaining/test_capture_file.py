"""Packets are read from a capture exactly as they were written, and damage is reported, whatever the file contains.

Method: read both formats in both byte orders, cut files at every byte, and change every byte.
"""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from itertools import islice

import pytest

from kafkawire.commands.inspection.explaining.capture_file import PACKET_BYTES_MAX, CaptureError, Packet, read_packets
from tests.captures import block, link_layer, pcap, pcapng

PACKETS = [bytes([0x45]) + bytes(40), bytes([0x45]) + bytes(63)]
CAPTURED = [link_layer(1, packet) for packet in PACKETS]

FILES = {
    "little": pcap(PACKETS),
    "big": pcap(PACKETS, order=">"),
    "nanoseconds": pcap(PACKETS, magic=0xA1B23C4D),
    "next": pcapng(PACKETS),
    "next-big": pcapng(PACKETS, order=">"),
}


def read(data: bytes) -> list[Packet]:
    return list(read_packets(io.BytesIO(data)))


@pytest.mark.parametrize("name", FILES)
def test_both_formats(name: str) -> None:
    packets = read(FILES[name])
    assert [packet.data for packet in packets] == CAPTURED
    assert [packet.link_type for packet in packets] == [1, 1]


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        (FILES["little"], 1_700_000_000 + 1e-6),
        (FILES["nanoseconds"], 1_700_000_000 + 1e-9),
        (FILES["next"], 1e-6),
        (pcapng(PACKETS, options=struct.pack("<HHB3x", 9, 1, 3)), 1e-3),
        (pcapng(PACKETS, options=struct.pack("<HHIHHB3x", 5, 4, 0, 9, 1, 0x80 | 4)), 1 / 16),
    ],
)
def test_times(data: bytes, seconds: float) -> None:
    assert read(data)[1].time == pytest.approx(seconds, abs=1e-7)


def test_other_blocks_of_packets() -> None:
    head = pcapng([])
    simple = block(3, struct.pack("<I", 5) + b"abcde")
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 7, 3, 9) + b"xyz")
    assert [packet.data for packet in read(head + simple + old)] == [b"abcde", b"xyz"]


def test_sections_have_interfaces_of_their_own() -> None:
    packets = read(pcapng(PACKETS) + pcapng(PACKETS, link_type=101, order=">"))
    assert [packet.link_type for packet in packets] == [1, 1, 101, 101]


@pytest.mark.parametrize("name", FILES)
def test_a_cut_at_every_byte(name: str) -> None:
    data = FILES[name]
    for end in [*range(1, 300), *range(len(data) - 200, len(data))]:
        if end < len(data):
            packets = []
            try:
                packets += read_packets(io.BytesIO(data[:end]))
            except CaptureError:
                continue
            assert len(packets) < 2, end  # the cut falls at the end of a packet


@pytest.mark.parametrize("name", FILES)
def test_any_byte_changed(name: str) -> None:
    data = FILES[name]
    for place in [*range(min(120, len(data))), *range(len(data) - 200, len(data))]:
        for byte in (0, 0x7F, 0xFF):
            damaged = data[:place] + bytes([byte]) + data[place + 1 :]
            with suppress(CaptureError):
                assert len(read(damaged)) <= len(data)


def test_what_is_announced_is_not_reserved() -> None:
    header = FILES["little"][:24]
    with pytest.raises(
        CaptureError, match=f"the packet before byte 40 has {PACKET_BYTES_MAX + 1} bytes, which exceeds"
    ):
        read(header + struct.pack("<IIII", 0, 0, PACKET_BYTES_MAX + 1, 0))
    with pytest.raises(CaptureError, match="is truncated"):
        read(pcapng([]) + struct.pack("<II", 77, 2**32 - 4))


def test_interfaces_are_bounded() -> None:
    section = pcapng([])[:28]
    interface = block(1, struct.pack("<HHI", 1, 0, 0))
    with pytest.raises(CaptureError, match="more than 10000 interfaces"):
        read(section + interface * 10_001)


@pytest.mark.parametrize(("data", "text"), [(b"", "nothing"), (b"GET ", "47 45 54 20"), (b"\0", "1 are left")])
def test_no_capture(data: bytes, text: str) -> None:
    with pytest.raises(CaptureError, match=text):
        read(data)


def test_packets_come_one_by_one() -> None:
    """The first packet is returned before the rest is read."""
    stream = io.BytesIO(pcap(PACKETS * 1000))
    assert len(list(islice(read_packets(stream), 1))) == 1
    assert stream.tell() < 200
