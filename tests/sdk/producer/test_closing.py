"""A producer may be closed at any time, even while it is starting.

Method: run the whole producer against a scripted in-memory broker; before the close, the event loop runs for a number
of iterations.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.producer.producer import Producer
from tests.sdk.scripted_broker import BROKER, StoringBroker


@pytest.mark.parametrize("turns", range(1, 12))
@pytest.mark.parametrize("options", [{}, {"enable_idempotence": True}, {"io": "thread"}])
def test_closed_while_it_is_started(turns: int, options: dict[str, Any]) -> None:
    """Whatever stage startup has reached, it ends with `Closed` and leaves nothing open."""

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        producer = Producer(str(BROKER), network=broker.network, **options)
        start = asyncio.ensure_future(producer.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        was_started = start.done()
        await producer.close()
        if was_started:
            await start
        else:
            with pytest.raises(Closed, match="the producer was closed while it was starting"):
                await start
        with pytest.raises(Closed, match="closed"):
            producer.send("t", b"v")
        with pytest.raises(Closed, match="create a new one"):
            await producer.start()
        await producer.close()
        assert not any(link.wire.is_open for link in broker.links)

    asyncio.run(run())
