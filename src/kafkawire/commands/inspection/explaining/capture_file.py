"""Read the packets of a capture in the formats of tcpdump and Wireshark, pcap and pcapng.

Packets are read one at a time, from a stream that need not be seekable. Memory use does not grow with the file, and
every length in the file is checked before it is used. `capture_packets.py` decodes the packets.

Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

__all__ = ["PACKET_BYTES_MAX", "CaptureError", "Packet", "read_packets"]

#: Largest packet that is read: four times tcpdump's largest snapshot length. Segments that the network card will split
#: are captured whole, with up to 512 KiB.
PACKET_BYTES_MAX = 1024 * 1024

#: Maximum number of interfaces in one section. All of them are kept in memory, and machines have few.
_INTERFACES_MAX = 10_000

#: Number of bytes read at a time when skipping.
_SKIPPED_AT_ONCE = 65536

_PCAP_MAGICS = {0xA1B2C3D4: 1_000_000, 0xA1B23C4D: 1_000_000_000}  # time units per second
_PCAPNG_MAGIC = 0x0A0D0D0A
_BYTE_ORDER_MAGIC = 0x1A2B3C4D

_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_READ_BLOCKS = (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET)
_BLOCK_FRAME_BYTES = 12

#: The interface option for the unit of its timestamps.
_TIME_RESOLUTION = 9
#: The highest negative power of ten or two that makes sense as the unit of a 64-bit timestamp.
_EXPONENT_MAX = 63


class CaptureError(ValueError):
    """The file is not a capture, or is damaged; the text contains the position."""


class Packet(NamedTuple):
    """A packet.

    Attributes:
        time: seconds since the epoch; 0 if the file has no time.
        link_type: tcpdump's number for the protocol of its first bytes.
        data: its captured bytes.
    """

    time: float
    link_type: int
    data: bytes


class _Interface(NamedTuple):
    """An interface in the capture: the link type of its packets, and the number of timestamp units per second."""

    link_type: int
    units: int


class _Reader:
    """Reads bytes from a stream, and tracks its position."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position = 0

    def take(self, size: int, optional: bool = False) -> bytes:
        """Return the next bytes, or no bytes at the end of the file if it may end here.

        Raises:
            CaptureError: the file is truncated.
        """
        data = bytearray()
        while len(data) < size and (part := self._stream.read(size - len(data))):
            data += part
        if len(data) < size and not (optional and not data):
            raise CaptureError(
                f"the capture is truncated: {size} bytes are needed at byte {self.position}, but {len(data)} are left"
            )
        self.position += len(data)
        return bytes(data)

    def skip(self, size: int) -> None:
        """Skip bytes."""
        while size:
            size -= len(self.take(min(size, _SKIPPED_AT_ONCE)))


def read_packets(stream: BinaryIO) -> Iterator[Packet]:
    """Yield the packets of a capture.

    Args:
        stream: a file in one of the two formats.

    Raises:
        CaptureError: the file is not a capture, is damaged, or is truncated; earlier packets have been yielded.
    """
    reader = _Reader(stream)
    magic = reader.take(4, optional=True)
    for order in (">", "<"):
        (number,) = struct.unpack(f"{order}I", magic) if magic else (0,)
        if number in _PCAP_MAGICS:
            return _pcap_packets(reader, order, _PCAP_MAGICS[number])
        if number == _PCAPNG_MAGIC:
            return _pcapng_packets(reader)
    raise CaptureError(
        f"this is not a capture: it begins with {magic.hex(' ') or 'nothing'}, which is neither pcap nor pcapng"
    )


def _pcap_packets(reader: _Reader, order: str, units: int) -> Iterator[Packet]:
    header = struct.Struct(f"{order}III4x")
    (link,) = struct.unpack(f"{order}16xI", reader.take(20))
    while head := reader.take(header.size, optional=True):
        seconds, fraction, captured = header.unpack(head)
        data = reader.take(_checked(captured, reader.position))
        yield Packet(seconds + fraction / units, link & 0xFFFF, data)


def _pcapng_packets(reader: _Reader) -> Iterator[Packet]:
    order = _section(reader)
    interfaces: list[_Interface] = []
    while head := reader.take(4, optional=True):
        if struct.unpack(">I", head) == (_PCAPNG_MAGIC,):
            order, interfaces = _section(reader), []
            continue
        (kind,) = struct.unpack(f"{order}I", head)
        (length,) = struct.unpack(f"{order}I", reader.take(4))
        if length < _BLOCK_FRAME_BYTES or length % 4:
            raise CaptureError(f"the block at byte {reader.position - 8} has an invalid length, {length}")
        if kind not in _READ_BLOCKS:
            reader.skip(length - 8)
            continue
        block = reader.take(_checked(length, reader.position) - 8)[:-4]
        try:
            if kind == _INTERFACE:
                if len(interfaces) == _INTERFACES_MAX:
                    raise CaptureError(f"the capture has more than {_INTERFACES_MAX} interfaces")
                interfaces.append(_interface(block, order))
            else:
                yield _packet(kind, block, order, interfaces)
        except (struct.error, IndexError):
            raise CaptureError(f"the block of type {kind} before byte {reader.position} is damaged") from None


def _section(reader: _Reader) -> str:
    """Read the rest of a section's header after its magic number, and return the byte order."""
    head = reader.take(8)
    for order in ("<", ">"):
        length, mark = struct.unpack(f"{order}II", head)
        if mark == _BYTE_ORDER_MAGIC and length >= 28 and length % 4 == 0:
            reader.skip(length - 12)
            return order
    raise CaptureError(f"the section header before byte {reader.position} is damaged")


def _interface(block: bytes, order: str) -> _Interface:
    (link_type,) = struct.unpack_from(f"{order}H", block)
    place, units = 8, 1_000_000
    while place + 4 <= len(block):
        code, length = struct.unpack_from(f"{order}HH", block, place)
        if code == _TIME_RESOLUTION and length == 1:
            exponent = block[place + 4]
            units = (2 if exponent & 0x80 else 10) ** min(exponent & 0x7F, _EXPONENT_MAX)
        place += 4 + length + -length % 4
    return _Interface(link_type, units)


def _packet(kind: int, block: bytes, order: str, interfaces: list[_Interface]) -> Packet:
    if kind == _SIMPLE_PACKET:  # the layers above ignore any padding that follows
        (size_bytes,) = struct.unpack_from(f"{order}I", block)
        return Packet(0, interfaces[0].link_type, block[4 : 4 + size_bytes])
    form = f"{order}IIII4x" if kind == _PACKET else f"{order}HxxIII4x"
    index, high, low, captured = struct.unpack_from(form, block)
    interface, data = interfaces[index], block[20 : 20 + captured]
    if len(data) < captured:
        raise IndexError
    return Packet(((high << 32) + low) / interface.units, interface.link_type, data)


def _checked(size: int, position: int) -> int:
    if size > PACKET_BYTES_MAX:
        raise CaptureError(
            f"the packet before byte {position} has {size} bytes, which exceeds the limit of {PACKET_BYTES_MAX}"
        )
    return size
