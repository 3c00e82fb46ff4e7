"""Whatever the application's code raises, the client continues; exceptions that end the program do so when possible.

Method: raise errors of each kind with and without an event loop, and in the callbacks of a whole producer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.sdk.transport.user_code import as_exception, contained
from tests.sdk.producer.producing import core_of, producing
from tests.sdk.scripted_broker import StoringBroker

#: Exceptions that end a program.
ENDS = [KeyboardInterrupt(), SystemExit(3)]
#: Exceptions that are not of type `Exception`, but do not end anything.
OTHERS = [asyncio.CancelledError(), GeneratorExit()]


@pytest.mark.parametrize("raised", [*ENDS, *OTHERS])
def test_what_is_no_exception_is_the_cause_of_one(raised: BaseException) -> None:
    made = as_exception(raised)
    assert isinstance(made, LocalProtocolError)
    assert str(made) == f"{raised!r} was raised"
    assert made.__cause__ is raised


def test_an_exception_is_itself() -> None:
    raised = ValueError()
    assert contained(raised) is as_exception(raised) is raised


@pytest.mark.parametrize("raised", ENDS)
def test_the_end_is_raised_at_once_without_a_loop(raised: BaseException) -> None:
    with pytest.raises(type(raised)):
        contained(raised)


@pytest.mark.parametrize("raised", ENDS)
def test_the_end_is_raised_by_the_loop_when_the_turn_is_over(raised: BaseException) -> None:
    steps: list[str] = []

    async def run() -> None:
        contained(raised)
        steps.append("went on")
        await asyncio.Event().wait()

    with pytest.raises(type(raised)):
        asyncio.run(run())
    assert steps == ["went on"]


@pytest.mark.parametrize("raised", ENDS)
def test_an_io_thread_goes_on(raised: BaseException) -> None:
    async def run() -> Exception:
        made = contained(raised)
        await asyncio.sleep(0)
        return made

    thread = IoThread()
    try:
        assert asyncio.run_coroutine_threadsafe(run(), thread.loop).result(5).__cause__ is raised
    finally:
        thread.stop()


def sent(producer: Producer[Any, Any], raised: BaseException) -> list[Delivery]:
    """Send a batch of three records; the second one's callback raises."""

    def fail(delivery: Delivery) -> None:
        raise raised

    return [producer.send("t", b"v", on_delivery=fail if number == 1 else None) for number in range(3)]


@pytest.mark.parametrize("io", ["loop", "thread"])
@pytest.mark.parametrize("raised", OTHERS)
def test_a_producer_whose_callback_raises_goes_on(io: str, raised: BaseException) -> None:
    async def test(broker: StoringBroker, producer: Producer[Any, Any]) -> None:
        assert [(await each).offset for each in sent(producer, raised)] == [0, 1, 2]
        await producer.flush()
        assert (await producer.send("t", b"v")).offset == 3
        assert core_of(producer).accumulator.bytes_held == 0

    producing(test, io=io)


@pytest.mark.parametrize("raised", ENDS)
def test_a_producer_with_an_io_thread_goes_on_after_an_end(raised: BaseException) -> None:
    async def test(broker: StoringBroker, producer: Producer[Any, Any]) -> None:
        assert [(await each).offset for each in sent(producer, raised)] == [0, 1, 2]
        assert (await producer.send("t", b"v")).offset == 3

    producing(test, io="thread")


@pytest.mark.parametrize("raised", ENDS)
def test_a_callback_may_end_the_program_and_every_delivery_is_settled(raised: BaseException) -> None:
    told: list[Delivery] = []
    deliveries: list[Delivery] = []

    async def test(broker: StoringBroker, producer: Producer[Any, Any]) -> None:
        deliveries.extend(sent(producer, raised))
        for delivery in deliveries:
            delivery.add_done_callback(told.append)
        await asyncio.Event().wait()

    with pytest.raises(type(raised)):
        producing(test)
    assert [each.result().offset for each in told] == [0, 1, 2]
    assert told == deliveries
