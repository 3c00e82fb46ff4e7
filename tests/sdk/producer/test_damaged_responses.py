"""After a damaged response, the connection is dropped, and the batches in flight on it are sent again.

Method: run the whole producer against a scripted in-memory broker that answers with rubbish.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import DeliveryTimedOut
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.producer.producing import core_of, producing
from tests.sdk.scripted_broker import StoringBroker


def rubbish(broker: StoringBroker) -> Callable[[Request], None]:
    """Answer a request with bytes that are not a response."""

    def respond(request: Request) -> None:
        broker.links[-1].wire.write([frame(b"\xff" * 40)])

    return respond


def test_a_record_is_sent_again_when_its_response_breaks_the_protocol() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, rubbish(broker))
        assert (await producer.send("t", b"v")).offset == 0

    producing(test)


def test_a_record_is_sent_again_when_another_response_breaks_the_protocol() -> None:
    """The other response arrives on the same connection, before the broker has answered the record's request."""

    async def test(broker: StoringBroker, producer: Producer) -> None:
        client = core_of(producer).client

        def busy(request: Request) -> None:
            broker.script(ApiKey.METADATA, rubbish(broker))
            client.router.metadata.invalidate()
            client.driver.wake()

        broker.script(ApiKey.PRODUCE, busy)
        assert (await producer.send("t", b"v")).offset == 0

    producing(test)


@pytest.mark.usefixtures("time_skips")
def test_responses_that_always_break_the_protocol_are_the_reason_in_the_end() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.responders[ApiKey.PRODUCE] = rubbish(broker)
        with pytest.raises(DeliveryTimedOut, match=r"data from the broker is damaged: .* at byte"):
            await producer.send("t", b"v")

    producing(test, delivery_timeout_ms=500, request_timeout_ms=450)
