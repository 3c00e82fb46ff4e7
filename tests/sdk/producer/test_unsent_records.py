"""With acks=0, the bytes that a connection has yet to send count towards `buffer_memory`; `drain` lets batches fill.

Method: run the whole producer against a scripted in-memory broker, over wires that claim to have unsent bytes, and the
state machines against simulated brokers.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.errors import BufferFull
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.transport.memory import MemoryWire
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.producing import core_of, producing
from tests.sdk.producer.simulated import SimulatedProducer
from tests.sdk.scripted_broker import StoringBroker


def test_without_acknowledgement_the_buffer_bounds_what_the_connection_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = asyncio.Event()

    async def sent(self: MemoryWire) -> None:
        await gone.wait()

    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"first")
        monkeypatch.setattr(MemoryWire, "has_unsent", True)
        monkeypatch.setattr(MemoryWire, "sent", sent)
        for _ in range(4):
            producer.send("t", b"x" * 900)
            for _ in range(10):  # until the connection has taken the request
                await asyncio.sleep(0)
        with pytest.raises(BufferFull):
            producer.send("t", b"x" * 900)
        monkeypatch.setattr(MemoryWire, "has_unsent", False)
        gone.set()
        await producer.drain()
        producer.send("t", b"last")
        await producer.flush()
        assert core_of(producer).accumulator.bytes_held == 0

    producing(test, acks=0, linger_ms=0, buffer_memory=4096, batch_size=1024)


@pytest.mark.parametrize(("batch_size", "requests"), [(1024, 2), (4096, 1)])
def test_drain_sends_a_batch_that_is_not_full_only_if_nothing_else_makes_room(batch_size: int, requests: int) -> None:
    producer = SimulatedProducer(linger_ms=10_000, buffer_memory=4096, batch_size=batch_size)
    producer.learn()
    producer.produced.clear()
    for _ in range(3):
        producer.send("t", b"x" * 900)
    drained: Promise[None] = Promise()
    producer.sender.drain(drained, producer.simulation.now_ms)
    producer.run(1_000)
    assert drained.done
    assert len(producer.produced) == requests
