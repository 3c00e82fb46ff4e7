"""Nothing hangs if a connection or a client ends at the very moment when something begins.

Method: run the driver with the client's router over the scripted in-memory broker, and end a connection or a client
after various numbers of loop iterations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport import fork, loop_watch
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.wire import Address, Wire
from tests.sdk.scripted_broker import ScriptedBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, Client, Machine, driven, on_loop


def test_a_connection_that_ends_with_the_last_response_of_its_gate_is_not_used() -> None:
    """The response and the end arrive in one iteration of the event loop, so a task awaiting the gate sees both."""
    broker = ScriptedBroker({"t": 1})
    receivers: list[Any] = []
    accept = broker.network.open

    async def opened(address: Address, receiver: Callable[[Wire], Any], enter: Any) -> Any:
        receivers.append(await accept(address, receiver, enter))
        return receivers[-1]

    broker.network.open = opened  # type: ignore[assignment, method-assign]  # remembers the client's end

    def respond(request: Request) -> Message | None:
        loop = asyncio.get_running_loop()
        # Two iterations later, the response is received, immediately followed by the end, before any task continues.
        loop.call_soon(loop.call_soon, receivers[-1].connection_lost, None)
        return broker.responders[ApiKey.API_VERSIONS](request)  # type: ignore[return-value]  # it is never a `Later`

    broker.script(ApiKey.API_VERSIONS, respond)

    async def test(client: Client) -> None:
        assert isinstance(await client.metadata(timeout_ms=2_000), MetadataResponse)
        assert len(receivers) == 2

    on_loop(broker, test)


@pytest.mark.parametrize("turns", range(4))
def test_work_that_had_no_time_to_begin_settles_its_promise(turns: int) -> None:
    async def run() -> None:
        client = Client(ScriptedBroker())
        client.driver.start()

        async def work() -> None:
            await asyncio.Event().wait()

        promise = client.driver.perform(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.driver.end(Closed("the test is over"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(Closed, match="the test is over"):
                await promise

    asyncio.run(run())


def test_an_ended_client_leaves_no_timer() -> None:
    """Otherwise, the timer would keep the client in memory until it fires."""

    async def run() -> None:
        client = Client(ScriptedBroker(), machine := Machine(due_ms=monotonic_ms() + 60_000))
        client.driver.start()
        await machine.turns(1)
        timer = client.driver._timer
        assert timer is not None
        await client.driver.end(Closed("the test is over"))
        assert timer.cancelled()

    asyncio.run(run())


def test_the_first_call_after_the_loop_was_closed_ends_the_client() -> None:
    client = Client(ScriptedBroker())

    async def forgets() -> Promise[bool]:
        client.driver.start()
        work = client.driver.perform(Promise[None]().within(None))
        await asyncio.sleep(0)
        return work

    text = "the event loop on which the client was started has ended"
    with pytest.raises(Closed, match=text):
        asyncio.run(forgets()).wait(0)
    with pytest.raises(Closed, match=text):
        client.metadata()
    client.driver.wake()
    client.driver.end(Closed("late")).wait(PATIENCE_SECONDS)


def test_one_thread_alone_ends_a_client_whose_loop_was_closed() -> None:
    """The other threads do not settle the promises again, and do not wait for this thread to do so."""
    client = Client(ScriptedBroker())

    async def start() -> None:
        client.driver.start()

    asyncio.run(start())
    client.driver._may_end.clear()  # another thread has just noticed the closed loop
    client.driver.check_loop()
    assert client.driver._ended is None, "the other thread must end the driver"


def test_what_the_driver_was_doing_when_the_loop_was_closed_is_settled() -> None:
    client = Client(ScriptedBroker())
    loop = asyncio.new_event_loop()

    async def start() -> Promise[bool]:
        client.driver.start()
        return client.driver.perform(Promise[None]().within(None))

    async def turns() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    work = loop.run_until_complete(start())
    loop.run_until_complete(turns())
    ended = client.driver.end(Closed("no thread is left to do it"))
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its pending state is what is tested
    loop.close()
    ended.wait(PATIENCE_SECONDS)
    with pytest.raises(Closed, match="the event loop on which the client was started has ended"):
        work.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("is_forked", [False, True])
def test_nobody_looks_for_a_driver_that_has_ended(is_forked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[object] = []
    monkeypatch.setattr(loop_watch, "watch", lambda driver, loop: watched.append((driver, loop)))
    monkeypatch.setattr(loop_watch, "forget", lambda driver, loop: watched.remove((driver, loop)))

    async def run() -> None:
        client = Client(ScriptedBroker())
        client.driver.start()
        assert watched == [(client.driver, asyncio.get_running_loop())]
        if is_forked:
            client.driver.forked(fork.refusal())
        else:
            await client.driver.end(Closed("the test is over"))
        assert not watched

    asyncio.run(run())


def fail_by_defect(promise: Promise[None], now_ms: int) -> None:
    raise TypeError("a bug")


DEFECT = r"^the client has ended because of a defect: TypeError\('a bug'\)$"


def test_a_defect_in_a_step_fails_its_promise_and_every_other_on_the_loop() -> None:
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None

    async def test(client: Client) -> None:
        promises = [client.metadata(), client.driver.ask(fail_by_defect), client.metadata()]
        for promise in promises:
            with pytest.raises(KafkaWireError, match=DEFECT) as caught:
                await promise
            assert isinstance(caught.value.__cause__, TypeError)
        with pytest.raises(Closed, match=DEFECT):
            client.metadata()

    on_loop(broker, test)


def test_a_defect_in_a_step_fails_its_promise_and_every_other_on_a_thread() -> None:
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None
    with driven(Client(broker)) as client:
        for promise in [client.metadata(), client.driver.ask(fail_by_defect)]:
            with pytest.raises(KafkaWireError, match=DEFECT):
                promise.wait(PATIENCE_SECONDS)


def test_a_defect_in_a_step_that_runs_while_the_client_ends_fails_its_promise() -> None:
    async def run() -> None:
        client = Client(ScriptedBroker())
        client.driver.start()
        ended = client.driver.end(Closed("the test is over"))
        promise = client.driver.ask(fail_by_defect)
        client.driver._stop(Closed("the test is over"))  # before the turn
        await ended
        with pytest.raises(KafkaWireError, match=DEFECT):
            promise.wait(0)

    asyncio.run(run())


def test_a_defect_in_the_router_when_a_connection_is_lost_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = ScriptedBroker()
    asked = asyncio.Event()

    def silent(request: Request) -> None:
        asked.set()

    broker.responders[ApiKey.METADATA] = silent

    def closed(*_: object) -> None:
        raise TypeError("a bug")

    async def test(client: Client) -> None:
        answer = client.metadata()
        await asked.wait()
        monkeypatch.setattr(client.router, "closed", closed)
        for link in list(broker.links):
            link.wire.close()
        with pytest.raises(KafkaWireError, match=DEFECT):
            await answer

    on_loop(broker, test)
