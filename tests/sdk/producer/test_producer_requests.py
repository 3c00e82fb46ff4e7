"""A producer limits its in-flight requests, and names topics in the way that its broker knows.

Method: run the whole producer against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio

from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.sdk.producer.producing import producing
from tests.sdk.scripted_broker import StoringBroker


def test_requests_in_flight_are_bounded() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"first")  # until the leader knows the producer, batches are sent one at a time
        held: list[Request] = []
        store = broker.responders[ApiKey.PRODUCE]

        def hold(request: Request) -> None:
            held.append(request)

        broker.responders[ApiKey.PRODUCE] = hold
        deliveries = [producer.send("t", b"x" * 900) for _ in range(6)]
        while len(held) < 2:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(held) == 2
        broker.responders[ApiKey.PRODUCE] = store
        link = next(link for link in broker.links if link.connection.pending)
        for request in held:
            message = store(request)
            assert isinstance(message, ProduceResponse)
            link.wire.write(link.connection.respond(request, message))
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 7))

    producing(test, batch_size=1024, max_in_flight=2, linger_ms=0)


def test_topic_ids_are_used_where_the_broker_knows_them() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"v")
        (request,) = broker.asked(ApiKey.PRODUCE)
        assert isinstance(request, ProduceRequest)
        assert request.topic_data[0].topic_id != ZERO_UUID
        assert request.topic_data[0].name == ""

    producing(test)
