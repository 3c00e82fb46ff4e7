"""A call determines when the machines are polled after it; a call without a response ends once its bytes are sent.

Method: proceed as in `test_driver.py`, with the same client and machines.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.errors import Closed, ConnectionLost
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.transport.driver_interface import NextPoll
from kafkawire.sdk.transport.memory import MemoryWire
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.scripted_broker import ScriptedBroker, StoringBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, Client, Machine, on_loop


async def iterations() -> None:
    """Let the event loop do all its work; over in-memory wires, this takes a few iterations."""
    for _ in range(10):
        await asyncio.sleep(0)


class Posting(Client):
    """A client that sends Produce requests without acknowledgements, over wires that keep the written bytes."""

    def post(self) -> Promise[None]:
        def step(promise: Promise[None], now_ms: int) -> None:
            def done(call: Call, now_ms: int) -> None:
                if call.error is not None:
                    promise.fail(call.error)
                else:
                    promise.keep(None)

            request = ProduceRequest(acks=0)
            call = Call(Node(1), lambda _: (request, None), None, now_ms + 5_000, done, retries=False)
            self.router.submit(call, now_ms)

        return self.driver.ask(step)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_request_without_a_response_has_ended_once_it_is_sent(is_lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = asyncio.Event()

    async def sent(self: MemoryWire) -> None:
        await gone.wait()

    async def run() -> None:
        client = Posting(broker := StoringBroker({"t": 1}), machine := Machine())
        client.driver.start()
        await client.metadata()
        await client.post()
        monkeypatch.setattr(MemoryWire, "has_unsent", True)
        monkeypatch.setattr(MemoryWire, "sent", sent)
        posted = client.post()
        await machine.turns(1)
        held = client.post()
        await machine.turns(1)
        await iterations()
        assert not posted.done, "its bytes have not been sent yet"
        assert len(broker.asked(ApiKey.PRODUCE)) == 2, "the next request must be held back in the meantime"
        monkeypatch.setattr(MemoryWire, "has_unsent", False)
        if is_lost:
            monkeypatch.setattr(MemoryWire, "is_open", False)
        gone.set()
        for promise in (posted, held):
            if is_lost:
                with pytest.raises(ConnectionLost):
                    await promise
            else:
                await promise
        monkeypatch.setattr(MemoryWire, "is_open", True)
        await client.driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


@pytest.mark.parametrize(
    ("next_poll", "machines", "turns"),
    [(NextPoll.NOW, 1, 1), (NextPoll.NOW, 2, 1), (NextPoll.SOON, 1, 1), (NextPoll.NONE, 2, 0)],
)
def test_a_call_says_whether_a_turn_follows_its_response(next_poll: NextPoll, machines: int, turns: int) -> None:
    polled = [Machine() for _ in range(machines)]

    async def test(client: Client) -> None:
        await client.metadata()
        await iterations()
        ended = asyncio.get_running_loop().create_future()
        polls = 0

        def done(call: Call, now_ms: int) -> None:
            nonlocal polls
            polls = len(polled[0].polls)
            call.next_poll = next_poll
            ended.set_result(None)

        def step(promise: Promise[None], now_ms: int) -> None:
            request = MetadataRequest(None)
            client.router.submit(
                Call(Node(1), lambda _: (request, None), MetadataResponse, now_ms + 5_000, done), now_ms
            )
            promise.keep(None)

        await client.driver.ask(step)
        await ended
        if next_poll is NextPoll.NOW:
            assert len(polled[0].polls) == polls + 1, "the client must be polled before the waiting call continues"
        await iterations()
        assert len(polled[0].polls) == polls + turns

    on_loop(ScriptedBroker(), test, *polled)
