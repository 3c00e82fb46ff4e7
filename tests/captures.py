"""Write captures of client-broker traffic, as packets in tcpdump's formats."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

from kafkawire.protocol import ClientConnection, Message, ServerConnection
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry

__all__ = ["ACK", "FIN", "RST", "SYN", "Talk", "link_layer", "pcap", "pcapng", "tcp_packet"]

FIN, SYN, RST, ACK = 1, 2, 4, 16

CLIENT, BROKER = ("10.0.0.1", 50000), ("10.0.0.2", 9092)

Address = tuple[str, int]


def tcp_packet(
    source: Address, destination: Address, sequence: int, acknowledgment: int, flags: int, payload: bytes = b""
) -> bytes:
    """Return a packet, starting at its IP header; it has no checksums, as with checksum offloading."""
    numbers = sequence % 2**32, acknowledgment % 2**32
    tcp = struct.pack(">HHIIBBHHH", source[1], destination[1], *numbers, 0x50, flags, 65535, 0, 0) + payload
    ends = [ipaddress.ip_address(host) for host, _ in (source, destination)]
    addresses = b"".join(end.packed for end in ends)
    if ends[0].version == 6:
        return struct.pack(">IHBB", 0x60000000, len(tcp), 6, 64) + addresses + tcp
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + addresses + tcp


def link_layer(link_type: int, packet: bytes) -> bytes:
    """Return an IP packet with a link header in front."""
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    return {
        0: b"\x02\0\0\0",
        1: bytes(12) + kind,
        101: b"",
        108: b"\0\0\0\x02",
        113: bytes(14) + kind,
        276: kind + bytes(18),
    }[link_type] + packet


def pcap(packets: Iterable[bytes], link_type: int = 1, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    """Return a file in the older format, with packets one millisecond apart."""
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)]
    for number, packet in enumerate(packets):
        data = link_layer(link_type, packet)
        parts.append(struct.pack(f"{order}IIII", 1_700_000_000, number, len(data), len(data)) + data)
    return b"".join(parts)


def block(kind: int, content: bytes, order: str = "<") -> bytes:
    content += bytes(-len(content) % 4)
    return struct.pack(f"{order}II", kind, len(content) + 12) + content + struct.pack(f"{order}I", len(content) + 12)


def pcapng(packets: Iterable[bytes], link_type: int = 1, order: str = "<", options: bytes = b"") -> bytes:
    """Return a file in the newer format, including a block that readers must skip."""
    parts = [
        block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order),
        block(1, struct.pack(f"{order}HHI", link_type, 0, 65535) + options, order),
        block(4, bytes(100_000), order),
    ]
    for number, packet in enumerate(packets):
        data = link_layer(link_type, packet)
        head = struct.pack(f"{order}IIIII", 0, 0, number, len(data), len(data))
        parts.append(block(6, head + data, order))
    return b"".join(parts)


class Talk:
    """A connection recorded packet by packet.

    Args:
        opened: whether the capture includes the connection's start.
        first: the initial sequence numbers of the client and the broker. client, broker: the address and port of each
        side.
        apis: the APIs that both sides know.

    Attributes:
        packets: the packets so far, each starting at its IP header.
    """

    def __init__(
        self,
        opened: bool = True,
        first: tuple[int, int] = (1000, 2**32 - 50),
        client: Address = CLIENT,
        broker: Address = BROKER,
        apis: ApiRegistry = KAFKA_APIS,
    ) -> None:
        self.packets: list[bytes] = []
        self._ends = client, broker
        self._next = list(first)
        self._client = ClientConnection("c", apis=apis)
        self._server = ServerConnection({key: api.known_versions for key, api in apis.items()}, apis=apis)
        if opened:
            self.packet(0, b"", SYN)
            self.packet(1, b"", SYN | ACK)

    def packet(self, side: int, payload: bytes, flags: int = ACK) -> bytes:
        """Add a packet from one side (0 is the client), and return it."""
        acknowledgment = self._next[1 - side] if flags & ACK else 0
        source, destination = self._ends if side == 0 else self._ends[::-1]
        packet = tcp_packet(source, destination, self._next[side], acknowledgment, flags, payload)
        self._next[side] += len(payload) + bool(flags & SYN) + bool(flags & FIN)
        self.packets.append(packet)
        return packet

    def data(self, side: int, payload: bytes, piece_bytes: int = 1400) -> None:
        """Add the packets that carry some bytes."""
        for start in range(0, len(payload), piece_bytes):
            self.packet(side, payload[start : start + piece_bytes])

    def request(self, message: Message, version: int, piece_bytes: int = 1400) -> bytes:
        """Add a request, and return its frame."""
        sent = b"".join(self._client.request(message, version).parts)
        self.data(0, sent, piece_bytes)
        return sent

    def exchange(
        self, request: Message, response: Message, version: int, piece_bytes: int = 1400
    ) -> tuple[bytes, bytes]:
        """Add a request and its response, and return their frames."""
        sent = self.request(request, version, piece_bytes)
        answer = b"".join(self._server.respond(self._server.receive(sent[4:]), response))
        self.data(1, answer, piece_bytes)
        return sent, answer

    def end(self) -> None:
        """Add the packets that close both sides."""
        self.packet(0, b"", FIN | ACK)
        self.packet(1, b"", FIN | ACK)
