"""A delivery returns its record's outcome, whenever, wherever and however often it is awaited.

Method: settle outcomes before and after the deliveries of the engine in use are awaited and watched.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    Closed,
    ConnectionLost,
    DeliveryTimedOut,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.outcome import Outcome, RecordMetadata
from kafkawire.sdk.routing.partitions import TopicPartition

PLACE = TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("base_offset", "log_append_time_ms", "expected"),
    [(10, -1, (12, 500)), (10, 700, (12, 700)), (-1, -1, (-1, 500))],
)
def test_place(base_offset: int, log_append_time_ms: int, expected: tuple[int, int]) -> None:
    async def run() -> None:
        outcome = Outcome(PLACE)
        assert (outcome.base_offset, outcome.log_append_time_ms) == (-1, -1)
        delivery = Delivery(outcome, 2, 500)
        waiting = [asyncio.ensure_future(_result(delivery)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not delivery.done
        outcome.settle(base_offset, log_append_time_ms)
        outcome.fail(Closed("too late"))
        assert delivery.done
        assert delivery.exception() is None
        assert await asyncio.gather(*waiting) == [RecordMetadata("t", 3, *expected)] * 2
        assert await delivery == RecordMetadata("t", 3, *expected)
        assert outcome.observed

    asyncio.run(run())


async def _waited(delivery: Delivery) -> RecordMetadata:
    done, _ = await asyncio.wait([asyncio.ensure_future(delivery)])
    return done.pop().result()


async def _gathered(delivery: Delivery) -> RecordMetadata:
    first, second = await asyncio.gather(delivery, delivery)
    assert first == second
    return first


async def _completed(delivery: Delivery) -> RecordMetadata:
    (first,) = asyncio.as_completed([delivery])
    return await first


@pytest.mark.parametrize(
    "wait",
    [lambda each: asyncio.wait_for(each, 5), asyncio.shield, _gathered, _completed, _waited],
    ids=["wait_for", "shield", "gather", "as_completed", "wait"],
)
def test_asyncio_waits_for_it(wait: Callable[[Delivery], Awaitable[RecordMetadata]]) -> None:
    """As docs/guide/delivery.md says, a timeout ends only the wait."""

    async def run() -> None:
        outcome = Outcome(PLACE)
        delivery = Delivery(outcome, 0, 500)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(delivery), 0.001)
        assert not delivery.done
        asyncio.get_running_loop().call_soon(outcome.settle, 7)
        assert (await wait(delivery)).offset == 7

    asyncio.run(run())


def test_each_await_raises_an_error_of_its_own() -> None:
    async def run() -> None:
        outcome = Outcome(PLACE)
        delivery = Delivery(outcome, 0, 0)
        cause = ConnectionLost("reset")
        error = DeliveryTimedOut("late")
        error.__cause__ = cause
        outcome.fail(error)
        outcome.settle(5)
        depths = []
        for _ in range(3):
            with pytest.raises(DeliveryTimedOut, match="late") as caught:
                await delivery
            assert caught.value is not error
            assert caught.value.__cause__ is cause
            depths.append(len(caught.traceback))
        assert len(set(depths)) == 1
        assert delivery.exception() is not delivery.exception()
        assert error.__traceback__ is None

    asyncio.run(run())


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(None, None), (0, 0.0), (1_500, 1.5)])
def test_a_thread_waits_as_long_as_it_may(
    timeout_ms: int | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []

    def wait(settled: threading.Event, timeout_seconds: float | None) -> bool:
        waited.append(timeout_seconds)
        return False

    monkeypatch.setattr("kafkawire.sdk.transport.loop_watch.wait", wait)
    with pytest.raises(RequestTimedOut, match=f"record for t-3 was not settled within {timeout_ms} ms"):
        Outcome(PLACE).result(0, 500, timeout_ms)
    assert waited == [seconds]


def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    async def run() -> None:
        outcome = Outcome(PLACE)
        delivery = Delivery(outcome, 0, 0)
        first, second = (asyncio.ensure_future(_result(delivery)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        outcome.settle(5)
        assert (await second).offset == 5

    asyncio.run(run())


def test_it_is_awaited_on_another_loop_than_that_of_the_producer() -> None:
    outcome = Outcome(PLACE)
    delivery = Delivery(outcome, 0, 0)
    waits = threading.Event()

    async def wait() -> int:
        task = asyncio.ensure_future(_result(delivery))
        await asyncio.sleep(0)
        waits.set()
        return (await task).offset

    def settle() -> None:
        assert waits.wait(10)
        outcome.settle(7)

    thread = threading.Thread(target=settle)
    thread.start()
    assert asyncio.run(wait()) == 7
    thread.join()


def test_whoever_waits_on_a_closed_loop_is_forgotten() -> None:
    outcome = Outcome(PLACE)
    loop = asyncio.new_event_loop()
    task = loop.create_task(_result(Delivery(outcome, 0, 0)))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    outcome.settle(1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda delivery, outcome: delivery.exception(),
        lambda delivery, outcome: delivery.result(),
        lambda delivery, outcome: outcome.raise_error(),
        lambda delivery, outcome: asyncio.run(_result(delivery)),
    ],
)
def test_a_failure_that_anybody_has_asked_for_is_observed(ask: Callable[[Delivery, Outcome], object]) -> None:
    outcome = Outcome(PLACE)
    outcome.fail(ConnectionLost("reset by peer"))
    assert not outcome.observed
    with suppress(ConnectionLost):
        ask(Delivery(outcome, 0, 500), outcome)
    assert outcome.observed


def test_a_failure_is_observed_by_those_who_came_along_with_their_records() -> None:
    outcome, other = Outcome(PLACE), Outcome(PLACE)
    seen: list[bool] = []
    outcome.watch(0, lambda: seen.append(other.observed))
    other.fail(ConnectionLost("reset by peer"))
    outcome.move([(other, 0)])
    assert seen == [True]


def test_exception_before_the_end() -> None:
    with pytest.raises(LocalProtocolError, match="record for t-3 is not settled yet: await its delivery first"):
        Delivery(Outcome(PLACE), 0, 0).exception()


@pytest.mark.parametrize("raised", [ValueError("mine"), asyncio.CancelledError(), GeneratorExit()])
def test_callbacks_come_once_with_the_delivery_and_their_errors_are_logged(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = Outcome(PLACE)
    delivery = Delivery(outcome, 0, 0)
    called: list[Delivery] = []

    def bad(delivery: Delivery) -> None:
        raise raised

    delivery.add_done_callback(bad)
    delivery.add_done_callback(called.append)
    with caplog.at_level(logging.ERROR, "kafkawire.producer"):
        outcome.settle(1)
    assert called == [delivery]
    assert caplog.messages == ["a delivery callback raised"]
    delivery.add_done_callback(called.append)
    assert called == [delivery] * 2


def test_a_callback_that_takes_two_arguments(caplog: pytest.LogCaptureFixture) -> None:
    """confluent-kafka calls its callbacks with two arguments."""
    outcome = Outcome(PLACE)
    delivery: Any = Delivery(outcome, 0, 0)
    delivery.add_done_callback(lambda error, message: None)
    with caplog.at_level(logging.ERROR, "kafkawire.producer"):
        outcome.settle(1)
    hint = "its only argument is the delivery, whose exception() returns the error"
    assert caplog.messages == [f"a delivery callback raised: {hint}"]


def test_errors_of_callbacks_that_come_at_once_reach_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A partitioner that raises settles the delivery within `send`; a split batch may have been settled before."""
    outcome, part = Outcome(PLACE), Outcome(PLACE)
    delivery = Delivery(outcome, 0, 0)

    def bad(delivery: Delivery) -> None:
        raise ValueError("mine")

    delivery.add_done_callback(bad)
    part.settle(1)
    with caplog.at_level(logging.ERROR, "kafkawire.producer"):
        outcome.move([(part, 0)])
        delivery.add_done_callback(bad)
    assert caplog.text.count("a delivery callback raised") == 2


def test_a_callback_runs_in_the_context_that_added_it() -> None:
    """That is neither the context that started the client nor that of the `send` that happened to wake it."""
    request = ContextVar[str]("request")
    outcome, seen = Outcome(PLACE), []

    def note(delivery: Delivery) -> None:
        seen.append(request.get())
        request.set("changed by the callback")

    def send(index: int, name: str) -> None:
        request.set(name)
        delivery = Delivery(outcome, index, 0)
        delivery.add_done_callback(note)
        delivery._observe(lambda metadata, error: note(delivery))  # as interceptors do

    for index, name in enumerate(("first", "second")):
        copy_context().run(send, index, name)
    request.set("of the event loop")
    outcome.settle(1)
    copy_context().run(send, 2, "after the end")
    assert seen == ["first", "first", "second", "second", "after the end", "after the end"]
    assert request.get() == "of the event loop"


def test_callbacks_that_all_raise_give_two_lines_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    outcome = Outcome(PLACE)
    for index in range(1_000):
        Delivery(outcome, index, 0).add_done_callback(lambda delivery: 1 / 0)
    outcome.settle(1)
    assert caplog.messages == [
        "a delivery callback raised",
        "delivery callbacks raised errors for 1000 records in this batch in total",
    ]


def test_a_callback_sees_all_of_the_outcome() -> None:
    outcome, seen = Outcome(PLACE), []
    outcome.watch(0, lambda: seen.append((outcome.done, outcome.base_offset, outcome.log_append_time_ms)))
    outcome.settle(5, 7)
    assert seen == [(True, 5, 7)]


def test_who_waits_looks_for_closed_loops_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[asyncio.AbstractEventLoop] = []
    monkeypatch.setattr("kafkawire.sdk.transport.loop_watch.look_from", looked.append)

    async def run() -> None:
        outcome = Outcome(PLACE)
        waiting = outcome.wait(0, 5)
        next(waiting)
        assert looked == [asyncio.get_running_loop()]
        waiting.close()

    asyncio.run(run())


def test_who_is_called_at_once_knows_that_somebody_has_asked() -> None:
    outcome, seen = Outcome(PLACE), []
    outcome.fail(Closed("over"))
    outcome.watch(0, lambda: seen.append(outcome.observed))
    assert seen == [True]


def test_records_that_move_take_their_waiters_along() -> None:
    async def run() -> None:
        outcome, left, right = Outcome(PLACE), Outcome(PLACE), Outcome(PLACE)
        deliveries = [Delivery(outcome, index, 0) for index in range(3)]
        waiting = [asyncio.ensure_future(_result(delivery)) for delivery in deliveries]
        await asyncio.sleep(0)
        outcome.move([(left, 0), (right, 0), (right, 1)])
        assert (left.observed, right.observed) == (True, True)
        left.settle(10)
        assert [delivery.done for delivery in deliveries] == [True, False, False]
        right.settle(20)
        assert [(await each).offset for each in waiting] == [10, 20, 21]
        called: list[Delivery] = []
        deliveries[2].add_done_callback(called.append)
        assert called == [deliveries[2]]

    asyncio.run(run())


async def _result(delivery: Delivery) -> RecordMetadata:
    return await delivery


class _Callback:
    """A callback that keeps its delivery."""

    delivery: Delivery | None = None

    def __call__(self, delivery: Delivery) -> None:
        self.delivery = delivery


def _watched_and_settled(settles: str) -> weakref.ref[_Callback]:
    outcome, other = Outcome(PLACE), Outcome(PLACE)
    callback = _Callback()
    callback.delivery = delivery = Delivery(outcome, 0, 1)
    delivery.add_done_callback(callback)
    if settles == "settle":
        outcome.settle(5)
    elif settles == "fail":
        outcome.fail(Closed("the producer is closed"))
    else:
        outcome.move([(other, 0)])
        other.settle(5)
    return weakref.ref(callback)


@pytest.mark.parametrize("settles", ["settle", "fail", "move"])
def test_a_callback_that_holds_its_delivery_is_free_once_that_is_settled(settles: str) -> None:
    """The garbage collector does not see the native engine's deliveries, so the engine must break the cycle itself."""
    gc.disable()
    try:
        assert _watched_and_settled(settles)() is None
    finally:
        gc.enable()


def test_some_records_have_errors_of_their_own() -> None:
    outcome, before = Outcome(TopicPartition("t", 0)), Outcome(TopicPartition("t", -1))
    before.move([(outcome, 1)])
    seen: list[str] = []
    for index in range(3):
        outcome.observe(index, 5, lambda stored, error: seen.append(str(error)))
    outcome.fail(KafkaWireError("another was refused"), {1: KafkaWireError("refused")})
    assert seen == ["another was refused", "refused", "another was refused"]
    assert [str(outcome.exception(index)) for index in range(3)] == seen
    assert str(before.exception(0)) == "refused"
    for index, text in enumerate(seen):
        with pytest.raises(KafkaWireError, match=f"^{text}$"):
            outcome.result(index, 5, None)
    with pytest.raises(KafkaWireError, match=r"^refused$"):
        before.raise_error()
    stored = Outcome(TopicPartition("t", 0))
    stored.settle(5)
    stored.raise_error()
