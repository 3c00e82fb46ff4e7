"""A login that is refused while a consumer runs is raised by reads and commits, and reading continues after the next.

Method: an in-memory broker asks for passwords, refuses them for a while, and records when; time is skipped.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.errors import AuthenticationFailed
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.scripted_broker import BROKER, StoringBroker

PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "pencil",
}

pytestmark = pytest.mark.usefixtures("time_skips")


class Door(StoringBroker):
    """A broker that asks for passwords.

    Attributes:
        refuses: whether it refuses them.
        refused_ms: the times at which it has done so.
    """

    def __init__(self) -> None:
        super().__init__({"t": 1})
        self.refuses = False
        self.refused_ms: list[int] = []
        self.responders |= {
            ApiKey.SASL_HANDSHAKE: lambda request: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            ApiKey.SASL_AUTHENTICATE: self._authenticate,
        }

    def _authenticate(self, request: Request) -> SaslAuthenticateResponse:
        if self.refuses:
            self.refused_ms.append(monotonic_ms())
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "not now")
        return SaslAuthenticateResponse()

    def shut(self) -> None:
        """End all connections, and refuse logins from now on."""
        self.refuses = True
        for link in list(self.links):
            link.wire.close()


@pytest.mark.parametrize("group", [{}, {"group_id": "g", "session_timeout_ms": 300_000}])
def test_reads_and_commits_raise_each_refusal_once_and_wait_in_between(group: dict[str, Any]) -> None:
    async def run() -> None:
        door = Door()
        door.fill("t", b"1")
        given: dict[str, Any] = {**PLAIN, "auto_offset_reset": "earliest", **group}
        async with Consumer(str(BROKER), "t", network=door.network, **given) as consumer:
            while not await consumer.getmany(timeout_ms=1_000):
                pass
            door.shut()
            raised_ms = await raising(consumer, 20_000)
            pauses = [later - earlier for earlier, later in pairwise(raised_ms)]
            assert 4 <= len(raised_ms) <= 6
            assert all(pause > 500 for pause in pauses), "reads wait for the next attempt"
            gaps = [later - earlier for earlier, later in pairwise(door.refused_ms) if later - earlier > 500]
            assert gaps == sorted(gaps) or max(gaps) > 20_000, "the pauses grow"
            if group:
                with pytest.raises(AuthenticationFailed, match="not now"):
                    await consumer.commit()
            door.refuses = False
            door.fill("t", b"2")
            assert await values(consumer) == [b"2"]
            if group:
                await consumer.commit()

    asyncio.run(run())


async def raising(consumer: Consumer[Any, Any], duration_ms: int) -> list[int]:
    """Read for a while, and return the times at which reads have raised a refused login."""
    raised_ms: list[int] = []
    end_ms = monotonic_ms() + duration_ms
    while (now_ms := monotonic_ms()) < end_ms:
        try:
            assert not await consumer.getmany(timeout_ms=1_000)
            assert monotonic_ms() - now_ms >= 1_000, "a read that raises nothing waits for records"
        except AuthenticationFailed:
            raised_ms.append(monotonic_ms())
    return raised_ms


async def values(consumer: Consumer[Any, Any]) -> list[bytes | None]:
    """Return the values of the next records, within a minute; refusals of before are raised first."""
    end_ms = monotonic_ms() + 60_000
    while monotonic_ms() < end_ms:
        try:
            found = await consumer.getmany(timeout_ms=1_000)
        except AuthenticationFailed:
            continue
        if found:
            return [record.value for records in found.values() for record in records]
    return []


def test_wrong_credentials_still_end_the_start_at_once() -> None:
    async def run() -> None:
        door = Door()
        door.refuses = True
        with pytest.raises(AuthenticationFailed, match="not now"):
            async with Consumer(str(BROKER), "t", network=door.network, **PLAIN):
                pass
        assert len(door.refused_ms) == 1

    asyncio.run(run())
