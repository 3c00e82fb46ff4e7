"""Damaged messages of a login, and the check that a mechanism survives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkawire.reference_broker.security.sasl.mechanism import Exchange, LoginRefused

__all__ = ["assert_refused_or_same", "damaged"]


def damaged(message: bytes) -> Iterator[bytes]:
    """Yield every cut of a message, and the message with each byte changed in each bit."""
    for end in range(len(message)):
        yield message[:end]
    for place in range(len(message)):
        for bit in range(8):
            yield message[:place] + bytes([message[place] ^ 1 << bit]) + message[place + 1 :]


def assert_refused_or_same(begin: Callable[[], Exchange], message: bytes, now_ms: int) -> int:
    """Check that no damaged message raises anything but `LoginRefused`; return the number of those that log in.

    Args:
        begin: begins an exchange that is due to get the message.
        message: the message that would log in.
        now_ms: the time.
    """
    accepted = 0
    for each in damaged(message):
        exchange = begin()
        try:
            exchange.respond(each, now_ms)
        except LoginRefused:
            assert exchange.identity is None
        else:
            accepted += exchange.identity is not None
    return accepted
