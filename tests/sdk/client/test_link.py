"""A link takes calls only while it is ready, has room and is not muted, and has a connection as long as it is ready."""

from __future__ import annotations

from kafkawire.sdk.client.call import Purpose
from kafkawire.sdk.client.link import Link, LinkState
from kafkawire.sdk.client.retry import Attempts
from kafkawire.sdk.transport.wire import Address
from tests.sdk.client.simulation import Connection, backoff


def test_when_a_link_takes_calls() -> None:
    link = Link(Address("host", 1), Purpose.DATA, Attempts(backoff()))
    assert str(link) == "host:1"
    assert not link.takes_calls(100)
    link.moves_to(LinkState.OPENING, 100)
    assert not link.takes_calls(100)
    link.moves_to(LinkState.READY, 110, connection := Connection({}))
    assert link.connection is connection
    assert (link.since_ms, link.used_ms) == (110, 110)
    assert link.takes_calls(110)
    link.muted_until_ms = 200
    assert not link.takes_calls(199)
    assert link.takes_calls(200)
    link.congested = True
    assert not link.takes_calls(200)
    link.moves_to(LinkState.CLOSED, 300)
    assert link.connection is None
