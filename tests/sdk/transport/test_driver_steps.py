"""Each driver step runs once, or is refused with a reason: above the limit, after the end, or in a forked child.

Method: use a driver without an event loop, whose steps therefore wait, and a driver with a router that the test
controls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, ConnectionLost, KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Purpose
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.transport import driver as driver_module
from kafkawire.sdk.transport.driver import Driver, Step
from kafkawire.sdk.transport.driver_interface import Open, Send, Shut
from kafkawire.sdk.transport.fork import Forked
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, Client, Machine
from tests.sdk.transport.scripted_router import scripted_driver

LINK = Link(BROKER, Purpose.DATA, Attempts(Backoff(10, 50, lambda: 0.5)))


def asking() -> Call:
    request = MetadataRequest([])
    return Call(ANY_BROKER, lambda _: (request, None), MetadataResponse, monotonic_ms() + 9_000, lambda *_: None)


def ignore(now_ms: int) -> None:
    """Do nothing; this is a step."""


# --- steps


def test_steps_are_done_in_order_and_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "MAX_STEPS", 3)
    done: list[int] = []

    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        for number in range(3):
            driver.run(lambda now_ms, number=number: done.append(number))  # type: ignore[misc]  # the lambda has a default argument
        with pytest.raises(LocalProtocolError, match="too many calls: 3 are waiting for the event loop"):
            driver.run(ignore)
        driver.post(lambda now_ms: done.append(3))
        driver.start()
        await asyncio.sleep(0)
        assert done == [0, 1, 2, 3]
        driver.run(ignore)
        await driver.end(Closed("the test is over"))
        with pytest.raises(Closed):
            driver.post(ignore)

    asyncio.run(run())


def test_what_a_step_refuses_is_the_error_of_its_promise() -> None:
    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        driver.start()

        def refuse(promise: Promise[None], now_ms: int) -> None:
            raise LocalProtocolError("no")

        with pytest.raises(LocalProtocolError, match="no"):
            await driver.ask(refuse)
        assert await driver.ask(lambda promise, now_ms: promise.keep(7)) == 7, "the driver must keep working"
        await driver.end(Closed("the test is over"))

    asyncio.run(run())


def test_a_step_that_comes_with_the_end_is_done_or_refused_and_not_both() -> None:
    done: list[str] = []
    client = Client(ScriptedBroker())
    client.driver.wake = lambda: client.driver.end(Closed("meanwhile"))  # type: ignore[method-assign, assignment]  # ends the driver instead
    client.driver.run(lambda now_ms: done.append("with the end"))
    assert done == ["with the end"]

    class Late(deque[Step]):
        """A queue that receives one more step after the driver has done the last one."""

        def append(self, step: Step) -> None:
            late.driver.end(Closed("before"))
            super().append(step)

    late = Client(ScriptedBroker())
    late.driver._steps = Late()
    with pytest.raises(Closed, match="before"):
        late.driver.run(lambda now_ms: done.append("after the end"))
    assert not late.driver._steps
    assert done == ["with the end"]


def test_work_that_is_refused_leaves_no_coroutine_behind() -> None:
    ran: list[bool] = []

    async def work() -> None:
        ran.append(True)

    waiting = Client(ScriptedBroker())
    promise = waiting.driver.perform(work())
    waiting.driver.end(Closed("before it began"))
    with pytest.raises(Closed, match="before it began"):
        promise.wait(PATIENCE_SECONDS)
    with pytest.raises(Closed, match="before it began"):
        waiting.driver.perform(work())  # an unclosed coroutine causes a warning, which is an error here
    assert not ran


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("io", ["loop", "thread"])
def test_work_of_a_cancelled_caller_is_cancelled(io: str, turns: int) -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ended")

    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        thread = IoThread("test") if io == "thread" else None
        driver.start(None if thread is None else thread.loop)
        assert await driver.perform(asyncio.sleep(0, 7)) == 7
        waiting = asyncio.ensure_future(_awaited(driver.perform(work())))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await driver.perform(asyncio.sleep(0, 7)) == 7
        await driver.end(Closed("the test is over"))
        assert not driver._tasks
        assert not driver._performed
        assert steps in ([], ["begun", "ended"])
        if thread is not None:
            thread.stop(PATIENCE_SECONDS)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


async def _awaited(promise: Promise[None]) -> None:
    await promise


def test_a_caller_that_is_dropped_after_the_loop_was_closed_causes_no_error() -> None:
    _, driver = scripted_driver(ScriptedBroker())
    callers: list[Coroutine[Any, Any, None]] = []

    async def run() -> None:
        driver.start()
        caller = _awaited(driver.perform(_awaited(Promise())))
        caller.send(None)
        callers.append(caller)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(run())
    loop.close()
    callers.pop().close()
    driver.end(Closed("late")).wait(PATIENCE_SECONDS)
    assert not driver._performed


def test_a_query_of_a_cancelled_caller_fails() -> None:
    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        driver.start()
        asked: list[Promise[None]] = []
        for is_query in (True, False):
            waiting = asyncio.ensure_future(
                _awaited(driver.ask(lambda promise, now_ms: asked.append(promise), is_query=is_query))
            )
            await driver.perform(asyncio.sleep(0))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert [each.done for each in asked] == [True, False]
        await driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_work_returns_or_raises_and_machines_are_polled_after_it() -> None:
    async def fails() -> None:
        raise LocalProtocolError("no")

    async def returns() -> int:
        return 7

    async def run() -> None:
        machine = Machine()
        _, driver = scripted_driver(ScriptedBroker(), machine)
        driver.start()
        assert await driver.perform(returns()) == 7
        await machine.turns(1)
        with pytest.raises(LocalProtocolError, match="no"):
            await driver.perform(fails())
        await machine.turns(1)
        await driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_an_interrupted_wake_up_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        machine = Machine()
        _, driver = scripted_driver(ScriptedBroker(), machine)
        driver.start()
        await machine.turns(1)
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_soon", interrupted)
            with pytest.raises(KeyboardInterrupt):
                driver.wake()
        driver.wake()
        await machine.turns(1)
        await driver.end(Closed("the test is over"))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_one_turn_follows_many_calls() -> None:
    async def run() -> None:
        machine = Machine()
        _, driver = scripted_driver(ScriptedBroker(), machine)
        driver.start()
        for _ in range(10):
            driver.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(machine.polls) == 1
        await driver.end(Closed("the test is over"))
        driver.wake()
        await asyncio.sleep(0)
        assert len(machine.polls) == 1, "there must be no turn after the end"

    asyncio.run(run())


def test_a_forked_child_leaves_loop_and_connections_alone() -> None:
    async def run() -> None:
        machine = Machine()
        router, driver = scripted_driver(ScriptedBroker(), machine)
        driver.start()
        driver.forked(Forked("created before os.fork()"))
        assert driver.end(Closed("in the child")).done
        await asyncio.sleep(0)
        assert (router.reported, machine.polls, machine.failures) == ([], [], [])
        for use in (driver.wake, lambda: driver.run(ignore)):
            with pytest.raises(Forked, match="created before"):
                use()
        assert not driver._steps

    asyncio.run(run())


# --- turns and the actions of the router


def test_the_first_of_all_that_is_due_sets_the_timer() -> None:
    async def run(router_ms: int | None, *machines_ms: int | None) -> int:
        machines = [Machine() for _ in machines_ms]
        router, driver = scripted_driver(ScriptedBroker(), *machines)
        started_ms = monotonic_ms()
        router.due = None if router_ms is None else started_ms + router_ms
        for machine, due_ms in zip(machines, machines_ms, strict=True):
            machine.due = None if due_ms is None else started_ms + due_ms
        driver.start()
        await machines[0].turns(2)
        await driver.end(Closed("the test is over"))
        return machines[0].polls[-1] - started_ms

    for case in ((60, 9_000, None), (9_000, 60, 9_000), (9_000, None, 60), (None, 9_000, 60)):
        assert 60 <= asyncio.run(asyncio.wait_for(run(*case), PATIENCE_SECONDS)) < 5_000


def test_a_driver_without_a_timer_is_not_late() -> None:
    async def run() -> None:
        machine = Machine()
        router, driver = scripted_driver(ScriptedBroker(), machine)
        assert driver.lag_ms(monotonic_ms()) == 0
        driver.start()
        router.due = monotonic_ms() + 5
        await machine.turns(1)
        router.due = None
        await machine.turns(1)
        assert driver.lag_ms(monotonic_ms()) < 1_000 * PATIENCE_SECONDS
        await driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_connections_open_carry_calls_and_are_shut() -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        router, driver = scripted_driver(broker)
        router.actions = [Open(LINK)]
        driver.start()
        assert await router.next() == "opened"
        router.actions = [Send(LINK, asking())]
        driver.wake()
        assert await router.next() == "answered"
        router.actions = [Shut(LINK), Send(LINK, asking())]
        driver.wake()
        assert await router.next() == "failed"
        assert isinstance(lost := router.reported[-1][1], ConnectionLost)
        assert str(lost) == f"connection to {BROKER} has ended"
        await asyncio.sleep(0)
        assert broker.links == []
        assert [what for what, _ in router.reported] == ["opened", "answered", "failed"], (
            "the connection must be closed as instructed"
        )
        await driver.end(Closed("the test is over"))
        assert [what for what, _ in router.reported[3:]] == ["close"]

    asyncio.run(run())


def test_shutting_a_link_fails_the_calls_that_wait_for_it() -> None:
    """A router drops its links to a broker that has moved."""

    async def run() -> None:
        broker = ScriptedBroker()
        broker.responders[ApiKey.METADATA] = lambda request: None
        router, driver = scripted_driver(broker)
        router.actions = [Open(LINK)]
        driver.start()
        assert await router.next() == "opened"
        router.actions = [Send(LINK, asking()), Send(LINK, asking()), Shut(LINK)]
        driver.wake()
        assert await router.next() == "failed"
        assert [what for what, _ in router.reported] == ["opened", "failed", "failed"], "the end itself is not reported"
        assert all(isinstance(error, ConnectionLost) for _, error in router.reported[1:])
        await driver.end(Closed("the test is over"))

    asyncio.run(run())


def test_a_turn_follows_a_request_that_has_no_response() -> None:
    """Nothing else would wake the machines after that, and the router may have more to send."""

    async def run() -> None:
        broker, machine = ScriptedBroker(), Machine()
        broker.responders[ApiKey.PRODUCE] = lambda request: None
        router, driver = scripted_driver(broker, machine)
        router.actions = [Open(LINK)]
        driver.start()
        assert await router.next() == "opened"
        await machine.turns(1)
        request = ProduceRequest(acks=0, timeout_ms=1)
        call = Call(ANY_BROKER, lambda _: (request, 9), None, monotonic_ms() + 9_000, lambda *_: None)
        router.actions = [Send(LINK, call)]
        driver.wake()
        await machine.turns(2)
        assert router.reported[-1] == ("answered", None)
        wrong: Any = 5
        unwritable = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=wrong)])
        call = Call(ANY_BROKER, lambda _: (unwritable, 4), MetadataResponse, monotonic_ms() + 9_000, lambda *_: None)
        router.actions = [Send(LINK, call)]
        driver.wake()
        await machine.turns(2)
        assert router.reported[-1][0] == "failed"
        await driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_a_connection_that_is_lost_is_reported_once_with_its_calls() -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        broker.responders |= {key: lambda request: None for key in broker.responders if key.name == "METADATA"}
        machine = Machine()
        router, driver = scripted_driver(broker, machine)
        router.actions = [Open(LINK)]
        driver.start()
        assert await router.next() == "opened"
        router.actions = [Send(LINK, asking())]
        driver.wake()
        await machine.turns(1)
        await asyncio.sleep(0)
        broker.links[0].wire.close()
        await machine.turns(1)
        assert [what for what, _ in router.reported] == ["opened", "closed", "failed"]
        await driver.end(Closed("the test is over"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_nothing_is_reported_after_the_end() -> None:
    """Ended connections and their calls are not reported, because the router was told to fail all of them."""

    async def run() -> None:
        broker = ScriptedBroker()
        broker.responders |= {key: lambda request: None for key in broker.responders if key.name == "METADATA"}
        router, driver = scripted_driver(broker)
        router.actions = [Open(LINK)]
        driver.start()
        await router.next()
        router.actions = [Send(LINK, asking())]
        driver.wake()
        await asyncio.sleep(0)
        await driver.end(Closed("the test is over"))
        assert [what for what, _ in router.reported] == ["opened", "close"]
        assert broker.links == [] or not broker.links[0].wire.is_open

    asyncio.run(run())


def test_one_defect_at_the_end_does_not_keep_the_rest_from_ending(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "kafkawire.client")
    ends: list[str] = []

    class Broken(Machine):
        def fail(self, error: KafkaWireError, now_ms: int) -> None:
            raise ZeroDivisionError

    def raises(now_ms: int) -> None:
        ends.append("step")
        raise KeyError

    def refused(now_ms: int) -> None:
        raise Closed("as usual")

    router, driver = scripted_driver(ScriptedBroker(), Broken(), machine := Machine())
    for step in (raises, refused):
        driver.run(step)
    driver.end(Closed("the test is over"))
    assert ends == ["step"]
    assert [what for what, _ in router.reported] == ["close"]
    assert [str(error) for error in machine.failures] == ["the test is over"]
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [KeyError, ZeroDivisionError], "the usual error must not be logged"


def test_a_defect_in_a_task_ends_everything(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        router, driver = scripted_driver(ScriptedBroker())
        router.opened = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]  # has a defect
        router.actions = [Open(LINK)]
        driver.start()
        assert await router.next() == "close"
        assert isinstance(router.reported[-1][1].__cause__, ZeroDivisionError)
        await driver.end(Closed("the test is over"))

    asyncio.run(run())
    assert "the client has ended because of a defect" in caplog.text


# --- turns that run immediately, as they do on another thread


def noted(monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> list[object]:
    """Return a list that receives the result of `look` at each request for a turn."""
    seen: list[object] = []
    monkeypatch.setattr(Driver, "wake", lambda driver: seen.append(look()))
    return seen


def test_a_turn_that_comes_at_once_finds_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        seen = noted(monkeypatch, lambda: list(driver._steps))
        driver.run(ignore)
        assert seen == [[ignore]]

    asyncio.run(run())


def test_a_turn_that_a_timer_asks_for_finds_it_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        _, driver = scripted_driver(ScriptedBroker())
        driver._timer_due_ms = monotonic_ms()
        seen = noted(monkeypatch, lambda: driver._timer_due_ms)
        driver._timer_fired()
        assert seen == [0]

    asyncio.run(run())


@pytest.mark.parametrize(("error", "reported"), [(None, "answered"), (ConnectionLost("gone"), "failed")])
def test_a_turn_that_comes_at_once_finds_what_became_of_a_call(
    monkeypatch: pytest.MonkeyPatch, error: KafkaWireError | None, reported: str
) -> None:
    def request(connection: object) -> tuple[None, int]:
        if error is not None:
            raise error
        return None, 0

    async def run() -> None:
        router, driver = scripted_driver(ScriptedBroker())
        connection = SimpleNamespace(post=lambda *_: None, has_unsent=False, is_congested=False)
        driver._connections[LINK] = connection  # type: ignore[assignment]  # a stand-in that has the attributes used
        seen = noted(monkeypatch, lambda: [what for what, _ in router.reported])
        driver._send(LINK, SimpleNamespace(request=request, response=None), 5)  # type: ignore[arg-type]  # likewise
        assert seen == [[reported]]

    asyncio.run(run())
