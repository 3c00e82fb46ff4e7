"""Every attack on a login is refused by a broker, and one that succeeds is noticed.

Method: have each conversation with a broker in this process, several times; then with one that accepts everyone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from kafkawire.reference_broker.server import Broker
from tests.certificates import Certificates
from tests.reference_broker.security.played_mechanism import Played
from tools.soak import hostile_logins
from tools.soak.hostile_logins import CONVERSATIONS, HostileLogins, login_options, secrets_in


async def attacked(
    certificates: Certificates, names: Iterable[str], change: Callable[[Broker], None] | None = None
) -> list[str]:
    """Have conversations with a broker, and return those after which it has let clients in."""
    broker = Broker(None, **login_options(certificates))
    await broker.start()
    try:
        if change is not None:
            change(broker)
        logins = HostileLogins(broker.addresses, Random(1))
        for name in names:
            await CONVERSATIONS[name](logins)
        return logins.let_in
    finally:
        await broker.stop()


def test_nobody_is_let_in(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_logins, "_TALK_SECONDS", 0.2)  # which is longer than a refusal takes
    assert asyncio.run(attacked(certificates, [*CONVERSATIONS] * 2)) == []


class Careless(Played):
    """A mechanism that believes everybody."""

    def respond(self, response: bytes, now_ms: int) -> bytes:
        return super().respond(b"\0alice\0alice-secret", now_ms)


def test_a_careless_broker_is_noticed(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_logins, "_TALK_SECONDS", 30)
    names = ["damaged tokens", "logins within TLS"]

    def become_careless(broker: Broker) -> None:
        for door in broker._doors._doors.values():
            for name, offered in door.offered.items():
                door.offered[name] = offered._replace(new_exchange=Careless)

    assert asyncio.run(attacked(certificates, names, become_careless)) == names


def test_passwords_in_a_log_are_noticed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("somebody said Bob's own password\n")
    assert secrets_in(log) == ["bob"]


def test_silent_clients(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_logins, "_SILENCE_SECONDS", (0.0, 0.0))

    async def test() -> None:
        broker = Broker(None, **login_options(certificates))
        await broker.start()
        try:
            logins = HostileLogins(broker.addresses, Random(1))
            await asyncio.gather(*(logins.silence() for _ in range(20)))
            assert logins.counts == {"silent clients": 20}
        finally:
            await broker.stop()

    asyncio.run(test())
