"""Another login takes its turn after earlier requests, and its timeout starts at that point.

Method: let the broker of test_gate.py leave a request unanswered for longer than a login may take.
"""

from __future__ import annotations

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.transport.responses import send_request
from tests.sdk.transport.sasl_broker import SaslBroker, ask, log_in_again, until, with_broker

LIMIT_MS = 200


def test_a_login_that_waits_for_the_response_to_an_earlier_request() -> None:
    """The login's timeout starts when the broker can begin with the login, since a join before it may take minutes."""

    async def test(broker: SaslBroker) -> None:
        pending: list[Request] = []
        broker.lifetimes_ms = [20]
        connection = await broker.open(timeout_ms=LIMIT_MS)
        broker.script(ApiKey.METADATA, pending.append)
        delayed = send_request(connection, MetadataRequest(None), MetadataResponse)
        await until(lambda: bool(pending))
        log_in_again(connection)
        await pause(LIMIT_MS * 19 // 10)
        assert connection.is_open
        assert not delayed.done()
        logins: list[Request] = []
        broker.script(ApiKey.SASL_AUTHENTICATE, logins.append)
        link = broker.links[0]
        link.wire.write(link.connection.respond(pending[0], MetadataResponse()))
        await delayed
        await until(lambda: bool(logins))
        await pause(LIMIT_MS // 2)  # past the limit if the timeout had started before the broker could begin
        link.wire.write(link.connection.respond(logins[0], SaslAuthenticateResponse()))
        assert await ask(connection) == ["t"]
        connection.close()

    with_broker(test)


async def pause(length_ms: int) -> None:
    end_ms = monotonic_ms() + length_ms
    await until(lambda: monotonic_ms() >= end_ms)
