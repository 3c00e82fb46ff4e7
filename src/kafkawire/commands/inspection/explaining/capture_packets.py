"""Find the TCP segment in a captured packet: Ethernet, loopback, Linux "any", raw IP; IPv4 and IPv6.

`tcp_streams.py` puts the segments in order. Other packets get a short description, by which they are counted.

Source: RFC 9293 (TCP), RFC 791, RFC 8200; the link types of tcpdump.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

__all__ = ["TcpSegment", "tcp_segment"]

_TCP = 6
_IPV4, _IPV6 = 0x0800, 0x86DD
#: The types of VLAN tags. Each is followed by two more bytes, then by the type of the next header.
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
#: IPv6 headers that can precede TCP; the second byte of each is its length.
_IPV6_EXTENSIONS = (0, 43, 60)
_IPV6_FRAGMENT = 44

#: Link types whose first bytes are IP: RAW with its three numbers, IPV4 and IPV6.
_RAW_LINKS = (12, 14, 101, 228, 229)
_NULL, _ETHERNET, _LOOP, _LINUX, _LINUX_2 = 0, 1, 108, 113, 276

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16


class TcpSegment(NamedTuple):
    """A TCP segment.

    Attributes:
        source: address and port.
        destination: address and port.
        sequence: the number of its first byte.
        acknowledgment: the number of the next byte expected from the other side; None if there is none.
        syn: whether it opens its side of the connection.
        fin: whether it closes its side of the connection.
        reset: whether it resets the connection.
        payload: its captured bytes.
    """

    source: str
    destination: str
    sequence: int
    acknowledgment: int | None
    syn: bool
    fin: bool
    reset: bool
    payload: bytes


def tcp_segment(link_type: int, data: bytes) -> TcpSegment | str:
    """Return the segment in a packet, or the reason why there is none.

    Args:
        link_type: tcpdump's number for the link type of the capture.
        data: the packet.
    """
    start = _ip_start(link_type, data)
    if isinstance(start, str):
        return start
    version = data[start] >> 4 if start < len(data) else 0
    if version == 4:
        return _ipv4(data, start)
    return _ipv6(data, start) if version == 6 else "not IP"


def _ip_start(link_type: int, data: bytes) -> int | str:
    if link_type in _RAW_LINKS:
        return 0
    if link_type in (_NULL, _LOOP):
        return 4
    if link_type == _LINUX_2:
        return 20 if data[:2] in (b"\x08\x00", b"\x86\xdd") else "not IP"
    if link_type not in (_ETHERNET, _LINUX):
        return f"unknown link type {link_type}"
    place = 12 if link_type == _ETHERNET else 14
    while True:
        kind = int.from_bytes(data[place : place + 2], "big")
        if kind not in _VLAN_TAGS:
            return place + 2 if kind in (_IPV4, _IPV6) else "not IP"
        place += 4


def _ipv4(data: bytes, start: int) -> TcpSegment | str:
    if len(data) < start + 20:
        return "cut off before TCP"
    header_bytes = (data[start] & 0x0F) * 4
    (size, fragment, protocol) = struct.unpack_from(">2xH2xHxB", data, start)
    if protocol != _TCP:
        return "not TCP"
    if fragment & 0x3FFF:  # not the first fragment, or more follow
        return "IP fragments"
    # The size can be missing in packets that the network card will split.
    end = start + size if size else len(data)
    source, destination = (str(ipaddress.IPv4Address(data[start + at : start + at + 4])) for at in (12, 16))
    return _tcp(data[start + header_bytes : end], source, destination)


def _ipv6(data: bytes, start: int) -> TcpSegment | str:
    if len(data) < start + 40:
        return "cut off before TCP"
    size, following = struct.unpack_from(">HB", data, start + 4)
    source, destination = (f"[{ipaddress.IPv6Address(data[start + at : start + at + 16])}]" for at in (8, 24))
    place = start + 40
    end = place + size if size else len(data)
    while following in _IPV6_EXTENSIONS and place + 2 <= len(data):
        following, units = data[place], data[place + 1]
        place += (units + 1) * 8
    if following == _IPV6_FRAGMENT:
        return "IP fragments"
    return _tcp(data[place:end], source, destination) if following == _TCP else "not TCP"


def _tcp(data: bytes, source: str, destination: str) -> TcpSegment | str:
    if len(data) < 20:
        return "cut off before TCP"
    source_port, destination_port, sequence, acknowledgment, offset, flags = struct.unpack_from(">HHIIBB", data)
    header_bytes = (offset >> 4) * 4
    if header_bytes < 20:
        return "damaged"
    return TcpSegment(
        f"{source}:{source_port}",
        f"{destination}:{destination_port}",
        sequence,
        acknowledgment if flags & _ACK else None,
        bool(flags & _SYN),
        bool(flags & _FIN),
        bool(flags & _RST),
        data[header_bytes:],
    )
