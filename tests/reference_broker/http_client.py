"""Speak HTTP with a broker that serves its metrics, over plain sockets."""

from __future__ import annotations

import asyncio
import socket

from kafkawire.reference_broker.server import BackgroundBroker, Broker
from kafkawire.sdk.transport.wire import Address

__all__ = ["ANY_PORT", "TIMEOUT_SECONDS", "address_of", "answer", "get", "status_of", "whole"]

TIMEOUT_SECONDS = 60
ANY_PORT = "127.0.0.1:0"


def address_of(broker: BackgroundBroker | Broker) -> Address:
    assert broker.metrics_address is not None
    return broker.metrics_address


def answer(broker: BackgroundBroker, data: bytes) -> bytes:
    """Send bytes, and return everything until the end of the connection."""
    with socket.create_connection(address_of(broker), TIMEOUT_SECONDS) as client:
        client.sendall(data)
        return whole(client)


def whole(client: socket.socket) -> bytes:
    received = b""
    try:
        while data := client.recv(65_536):
            received += data
    except ConnectionResetError:
        pass
    return received


def get(broker: BackgroundBroker, path: str, *headers: str, method: str = "GET") -> tuple[int, str, str]:
    """Return the status, the head and the body of a response."""
    lines = "".join(f"{line}\r\n" for line in (f"{method} {path} HTTP/1.1", "Host: x", *headers, ""))
    head, _, body = answer(broker, lines.encode()).decode().partition("\r\n\r\n")
    if method != "HEAD":
        assert f"\r\nContent-Length: {len(body.encode())}\r\n" in head
    return int(head.split()[1]), head, body


async def status_of(broker: Broker, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(*address_of(broker))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    received = await reader.read()
    writer.close()
    return received
