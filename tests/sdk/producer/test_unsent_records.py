"""With acks=0, what a connection has not sent yet counts against `buffer_memory`.

Method: the whole producer against a scripted broker in memory, over wires that say that they keep what is written.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.errors import BufferFull
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.transport.memory import MemoryWire
from tests.sdk.producer.test_producer import core_of, producing
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
            for _ in range(10):  # until the connection has taken it
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
