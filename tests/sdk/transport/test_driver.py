"""On both kinds of event loop, the driver carries out what machines and router decide, and ends everything it began.

Method: run the client's router over the scripted in-memory broker, with machines that count, raise or wait.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    Closed,
    ConnectFailed,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Node
from kafkawire.sdk.transport.fork import Forked
from kafkawire.sdk.transport.memory import MemoryWire
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import check_may_block, driving
from kafkawire.sdk.transport.wire import FrameReceiver, Wire
from tests.sdk.scripted_broker import BROKER, Later, ScriptedBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, Client, Machine, driven, on_loop

#: Web frameworks keep the current request for their tasks in such a variable.
REQUEST = ContextVar("REQUEST", default="of nobody")


def test_calls_are_answered_on_the_callers_loop() -> None:
    async def test(client: Client) -> None:
        responses = await asyncio.gather(*(client.metadata() for _ in range(50)))
        assert {len(response.topics) for response in responses if isinstance(response, MetadataResponse)} == {1}

    on_loop(ScriptedBroker({"t": 1}), test)


def test_the_loop_of_a_driver_is_one_that_must_not_be_blocked() -> None:
    async def test(client: Client) -> None:
        with pytest.raises(LocalProtocolError, match="would block the event loop"):
            check_may_block(driving)

    on_loop(ScriptedBroker(), test)


def test_calls_are_answered_on_a_thread_for_a_blocked_caller_and_for_any_loop() -> None:
    with driven(Client(ScriptedBroker({"t": 1}))) as client:
        assert isinstance(client.metadata().wait(PATIENCE_SECONDS), MetadataResponse)

        async def elsewhere() -> None:
            assert isinstance(await client.metadata(), MetadataResponse)

        asyncio.run(elsewhere())


def test_calls_from_many_threads() -> None:
    with driven(Client(ScriptedBroker({"t": 1}))) as client:
        found: list[Message] = []
        threads = [
            threading.Thread(target=lambda: found.extend(client.metadata().wait(PATIENCE_SECONDS) for _ in range(50)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert len(found) == 400


def test_a_call_survives_a_broken_connection() -> None:
    broker = ScriptedBroker({"t": 1})

    async def test(client: Client) -> None:
        await client.metadata()
        for _ in range(3):
            broker.script(ApiKey.METADATA, lambda request: broker.links[0].wire.close())
            assert isinstance(await client.metadata(), MetadataResponse)

    on_loop(broker, test)


def test_an_unreachable_broker_is_an_error_with_its_reason() -> None:
    broker = ScriptedBroker()
    broker.network.servers.clear()

    async def test(client: Client) -> None:
        with pytest.raises(ConnectFailed, match=f"any broker: .*nothing listens at {BROKER}"):
            await client.metadata(retries=False)

    on_loop(broker, test)


def test_a_silent_broker_does_not_outlast_the_deadline() -> None:
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None

    async def test(client: Client) -> None:
        start_ms = monotonic_ms()
        with pytest.raises(RequestTimedOut):
            await client.metadata(timeout_ms=200)
        assert monotonic_ms() - start_ms < 900, "must not wait for the connection's timeout"

    on_loop(broker, test)


def test_a_request_without_a_response_ends_once_it_is_written() -> None:
    broker = ScriptedBroker({"t": 1})
    broker.responders[ApiKey.PRODUCE] = lambda request: None

    async def test(client: Client) -> None:
        await client.metadata()

        def step(promise: Promise[None], now_ms: int) -> None:
            node = next(iter(client.router.metadata.brokers))
            request = ProduceRequest(acks=0, timeout_ms=1)
            client.router.submit(
                Call(Node(node), lambda _: (request, 9), None, now_ms + 1_000, lambda *_: promise.keep(None)), now_ms
            )

        await client.driver.ask(step)
        await client.metadata()
        assert len(broker.asked(ApiKey.PRODUCE)) == 1

    on_loop(broker, test)


def test_a_request_that_cannot_be_written_is_an_error_of_its_call() -> None:
    async def test(client: Client) -> None:
        def step(promise: Promise[None], now_ms: int) -> None:
            def done(call: Call, now_ms: int) -> None:
                assert call.error is not None
                promise.fail(call.error)

            wrong: Any = 5
            request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=wrong)])
            call = Call(ANY_BROKER, lambda _: (request, 4), MetadataResponse, now_ms + 9_000, done)
            client.router.submit(call, now_ms)

        with pytest.raises(LocalProtocolError, match="name"):
            await client.driver.ask(step)
        assert isinstance(await client.metadata(), MetadataResponse), "the client must keep working"

    on_loop(ScriptedBroker(), test)


def test_a_machine_is_polled_when_it_is_due_and_not_before() -> None:
    machine = Machine()

    async def test(client: Client) -> None:
        await client.metadata()
        await machine.turns(1)
        machine.polls.clear()
        machine.due = due_ms = monotonic_ms() + 80
        client.driver.wake()
        await machine.turns(2)
        assert machine.polls[1] >= due_ms

    on_loop(ScriptedBroker(), test, machine)


@pytest.mark.parametrize("from_another_thread", [False, True])
def test_turns_and_connections_have_the_context_of_the_start(from_another_thread: bool) -> None:
    """The context of the request that wakes the driver is not used."""
    seen: list[str] = []

    class Noting(Machine):
        def poll(self, now_ms: int) -> None:
            super().poll(now_ms)
            seen.append(REQUEST.get())

    broker = ScriptedBroker()
    server = broker.network.servers[BROKER]

    def accept(wire: Wire) -> FrameReceiver:
        seen.append(REQUEST.get())
        return server(wire)

    broker.network.servers[BROKER] = accept
    machine = Noting()

    async def test(client: Client) -> None:
        REQUEST.set("of a request")
        if from_another_thread:
            await asyncio.to_thread(client.driver.wake)
        await client.metadata()
        client.driver.wake()
        await machine.turns(1)

    REQUEST.set("of the start")
    on_loop(broker, test, machine)
    assert len(seen) > 3
    assert set(seen) == {"of the start"}


def test_how_late_the_driver_is() -> None:
    machine = Machine()

    async def test(client: Client) -> None:
        await client.metadata()
        await machine.turns(1)
        machine.due = monotonic_ms() + 10
        client.driver.wake()
        await machine.turns(1)
        machine.due = None
        end_ms = monotonic_ms() + 150
        while monotonic_ms() < end_ms:  # what a program must not do
            pass
        assert client.driver.lag_ms(monotonic_ms()) >= 130, "the timer must not have fired yet"
        await machine.turns(1)
        assert client.driver.lag_ms(monotonic_ms()) >= 130
        while client.driver.lag_ms(monotonic_ms()) >= 130:  # until a timer is on time again
            machine.due = monotonic_ms() + 10
            client.driver.wake()
            await machine.turns(1)

    on_loop(ScriptedBroker(), test, machine)


def test_a_machine_that_is_always_due_does_not_spin() -> None:
    machine = Machine(due_ms=0)

    async def test(client: Client) -> None:
        await machine.turns(20)
        assert machine.polls[-1] - machine.polls[-20] >= 10, "at most about one poll per millisecond"

    on_loop(ScriptedBroker(), test, machine)


def test_a_defect_in_a_machine_ends_everything_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    machine, other = Machine(), Machine()
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None

    async def test(client: Client) -> None:
        answer = client.metadata()
        await machine.turns(2)
        machine.defect = ZeroDivisionError("a bug")
        client.driver.wake()
        with pytest.raises(KafkaWireError, match=r"because of a defect: ZeroDivisionError\('a bug'\)") as caught:
            await answer
        assert caught.value.__cause__ is machine.defect
        assert [len(each.failures) for each in (machine, other)] == [1, 1]
        with pytest.raises(Closed, match="a bug"):
            client.metadata()

    on_loop(broker, test, machine, other)
    assert "defect" in caplog.text


def test_what_is_no_exception_is_a_defect_too() -> None:
    machine = Machine()
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None

    async def test(client: Client) -> None:
        answer = client.metadata()
        await machine.turns(2)
        machine.defect = asyncio.CancelledError()
        client.driver.wake()
        with pytest.raises(KafkaWireError, match=r"because of a defect: .*CancelledError"):
            await answer

    on_loop(broker, test, machine)


def test_a_defect_in_an_answer_handler_ends_everything() -> None:
    async def test(client: Client) -> None:
        def step(promise: Promise[None], now_ms: int) -> None:
            def done(call: Call, now_ms: int) -> None:
                raise KeyError("a bug")

            request = MetadataRequest([])
            call = Call(ANY_BROKER, lambda _: (request, None), MetadataResponse, now_ms + 9_000, done)
            client.router.submit(call, now_ms)

        client.driver.ask(step)
        answer = client.metadata()
        with pytest.raises(KafkaWireError, match="defect"):
            await answer

    on_loop(ScriptedBroker(), test)


def test_ending_settles_what_waits_and_refuses_more() -> None:
    broker = ScriptedBroker()
    broker.responders[ApiKey.METADATA] = lambda request: None
    machine = Machine()
    with driven(Client(broker, machine)) as client:
        answers = [client.metadata() for _ in range(5)]
        client.driver.end(Closed("enough")).wait(PATIENCE_SECONDS)
        for answer in answers:
            with pytest.raises(Closed, match="enough"):
                answer.wait(PATIENCE_SECONDS)
        with pytest.raises(Closed, match="enough"):
            client.metadata()
        client.driver.end(Closed("again")).wait(PATIENCE_SECONDS)
        assert [str(error) for error in machine.failures] == ["enough"]


def test_ending_is_prompt_while_a_broker_keeps_a_handshake_waiting() -> None:
    broker = ScriptedBroker()
    asked = asyncio.Event()
    broker.responders[ApiKey.API_VERSIONS] = lambda request: asked.set()

    async def test(client: Client) -> None:
        answer = client.metadata()
        await asked.wait()
        start_ms = monotonic_ms()
        await client.driver.end(Closed("enough"))
        with pytest.raises(Closed):
            await answer
        assert monotonic_ms() - start_ms < 500

    on_loop(broker, test)


def test_ending_after_the_loop_was_closed() -> None:
    client = Client(ScriptedBroker())

    async def forgets() -> None:
        client.driver.start()
        await client.metadata()

    asyncio.run(forgets())
    client.driver.end(Closed("late")).wait(PATIENCE_SECONDS)
    with pytest.raises(Closed):
        client.metadata()


def test_a_second_thread_finds_a_closed_loop_while_the_first_one_ends_the_driver() -> None:
    """The second thread's step is not lost, because the first thread settles it."""
    client = Client(ScriptedBroker())

    async def forgets() -> None:
        client.driver.start()
        await client.metadata()

    asyncio.run(forgets())
    steps: list[Promise[None]] = []

    class Interleaved(list[None]):
        """Lets the second thread run after a thread was chosen to end the driver, but before it does so."""

        def pop(self, *_: Any) -> None:
            super().pop()
            if not steps:
                steps.append(client.driver.ask(lambda promise, now_ms: promise.keep(None)))

    client.driver._may_end = Interleaved([None])
    client.driver.wake()
    steps[0].wait(PATIENCE_SECONDS)
    with pytest.raises(Closed):
        client.metadata()


def test_a_congested_connection_takes_no_calls_until_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, machine = ScriptedBroker(), Machine()
    room = asyncio.Event()

    async def drain(self: MemoryWire) -> None:
        await room.wait()

    monkeypatch.setattr(MemoryWire, "drain", drain)

    async def test(client: Client) -> None:
        await client.metadata()
        monkeypatch.setattr(MemoryWire, "is_congested", True)
        await client.metadata()
        held = client.metadata()
        await machine.turns(1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not held.done
        monkeypatch.setattr(MemoryWire, "is_congested", False)
        room.set()
        await held

    on_loop(broker, test, machine)


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    with driven(Client(ScriptedBroker())) as client:
        client.metadata().wait(PATIENCE_SECONDS)
        child = os.fork()
        if child == 0:
            try:
                client.metadata()
            except Forked as error:
                os._exit(0 if "os.fork()" in str(error) else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.metadata().wait(PATIENCE_SECONDS)


def test_a_slow_response_does_not_hold_up_what_is_due_meanwhile() -> None:
    broker = ScriptedBroker()
    usual = broker.responders[ApiKey.METADATA]
    broker.script(ApiKey.METADATA, usual, usual, lambda request: Later(MetadataResponse(), 500))
    machine = Machine()

    async def test(client: Client) -> None:
        await client.metadata()
        answer = client.metadata()
        machine.due = due_ms = monotonic_ms() + 50
        while machine.polls[-1] < due_ms:
            await machine.turns(1)
        assert not answer.done
        machine.due = None
        await answer

    on_loop(broker, test, machine)
