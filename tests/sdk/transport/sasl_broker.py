"""A broker that requires a login, and functions for connections that log in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, Login
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.transport.responses import response_to

__all__ = ["PASSWORD", "SaslBroker", "ask", "log_in_again", "plain", "until", "with_broker"]

PASSWORD = "hunter2"

Test = Callable[["SaslBroker"], Awaitable[None]]


class SaslBroker(ScriptedBroker):
    """A broker that knows one password, whose change does not end the sessions.

    Attributes:
        lifetimes_ms: the lifetimes of the next sessions; later sessions have 0, which means no limit.
        refuses: whether the broker currently rejects every password.
        logins: the number of successful logins.
    """

    def __init__(self) -> None:
        super().__init__({"t": 1})
        self.lifetimes_ms: list[int] = []
        self.refuses = False
        self.logins = 0
        self.responders |= {
            ApiKey.SASL_HANDSHAKE: lambda request: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            ApiKey.SASL_AUTHENTICATE: self._authenticate,
        }

    def _authenticate(self, request: Request) -> SaslAuthenticateResponse:
        if self.refuses or bytes(request.message.auth_bytes) != f"\0alice\0{PASSWORD}".encode():
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong user or password")
        self.logins += 1
        lifetime_ms = self.lifetimes_ms.pop(0) if self.lifetimes_ms else 0
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    async def open(self, login: Login | None = None, timeout_ms: int = 2_000) -> BrokerConnection:
        """Connect to this broker."""
        settings = ConnectionSettings(connect_timeout_ms=timeout_ms, request_timeout_ms=2_000, login=login or plain)
        return await BrokerConnection.open(self.network, BROKER, settings)


async def plain(host: str) -> Authenticator:
    assert host == BROKER.host
    return PlainAuthenticator("alice", Secret(PASSWORD))


def with_broker(test: Test) -> None:
    """Run a test with a broker, and check that no task is left."""

    async def run() -> None:
        broker = SaslBroker()
        await test(broker)
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert broker.links == []

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, for at most two seconds."""
    end_ms = monotonic_ms() + 2_000
    while not condition():
        assert monotonic_ms() < end_ms, "the condition did not become true"
        await asyncio.sleep(0)


def log_in_again(connection: BrokerConnection) -> None:
    """Start the next login immediately."""
    driver = connection._gate
    assert driver._timer is not None
    driver._timer.cancel()
    driver._begin_again()


async def ask(connection: BrokerConnection) -> list[str]:
    response = await response_to(connection, MetadataRequest(None), MetadataResponse)
    return [topic.name or "" for topic in response.topics]
