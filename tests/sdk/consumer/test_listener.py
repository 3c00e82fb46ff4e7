"""A listener is called on the application's loop, in one task per event, and the end of each call is reported once.

Method: report events of each kind to listeners that return, await, raise or never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context, ContextVar
from threading import Thread

import pytest

from kafkawire.sdk.consumer.listener import BlockingListenerCalls, ListenerCalls
from kafkawire.sdk.groups.protocol import Assigned, Event, Lost, Revoking
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import result_of

PARTITIONS = frozenset({TopicPartition("t", 0)})
EVENTS = [Assigned(PARTITIONS, 1), Revoking(PARTITIONS, 1), Lost(PARTITIONS, 1)]


class Listener:
    """A listener that records its calls; its methods return nothing, await or raise."""

    def __init__(self) -> None:
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("assigned", partitions))

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.told.append(("revoked", partitions))

    def on_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        raise RuntimeError("the listener failed")


def test_a_listener_has_the_context_of_the_start() -> None:
    """The listener does not run in the context of the thread or task that reports the event."""
    request = ContextVar("request", default="of the group")
    seen: list[str] = []

    class Noting(Listener):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            seen.append(request.get())

    async def run() -> None:
        request.set("of the start")
        ended = asyncio.Event()
        calls = ListenerCalls(Noting(), lambda event, error: ended.set())
        Context().run(calls.notify, EVENTS[0])
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())
    assert seen == ["of the start"]


@pytest.mark.parametrize("from_another_thread", [False, True])
def test_each_event_is_done_once_after_its_method(from_another_thread: bool) -> None:
    async def run() -> None:
        listener = Listener()
        done: dict[Event, Exception | None] = {}
        every = asyncio.Event()

        def note(event: Event, error: Exception | None) -> None:
            assert event not in done
            done[event] = error
            if len(done) == len(EVENTS):
                every.set()

        calls = ListenerCalls(listener, note)

        def notify() -> None:
            for event in EVENTS:
                calls.notify(event)

        if from_another_thread:
            thread = Thread(target=notify)
            thread.start()
            thread.join()
        else:
            notify()
        assert not done  # tasks on the application's loop make the calls, not the driver
        await asyncio.wait_for(every.wait(), 10)
        assert listener.told == [("assigned", PARTITIONS), ("revoked", PARTITIONS)]
        assert [done[event] for event in EVENTS[:2]] == [None, None]
        assert str(done[EVENTS[2]]) == "the listener failed"
        await calls.end()

    asyncio.run(run())


def test_the_end_cancels_what_has_not_returned() -> None:
    async def run() -> None:
        cancelled = []

        class Slow(Listener):
            async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(partitions)
                    raise

        done: list[Event] = []
        calls = ListenerCalls(Slow(), lambda event, error: done.append(event))
        calls.notify(EVENTS[1])
        while len(asyncio.all_tasks()) == 1:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await calls.end()
        assert cancelled == [PARTITIONS]
        assert done == []
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_call_may_end_the_others_and_itself() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        class Closing(Listener):
            async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                await calls.end()
                ended.set()

        calls = ListenerCalls(Closing(), lambda event, error: None)
        calls.notify(EVENTS[1])
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())


def test_a_loop_that_was_closed_hears_nothing() -> None:
    class Waiting(Listener):
        async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await asyncio.Event().wait()

    async def make() -> ListenerCalls:
        calls = ListenerCalls(Waiting(), lambda event, error: None)
        calls.notify(EVENTS[1])
        await asyncio.sleep(0)
        return calls

    loop = asyncio.new_event_loop()
    calls = loop.run_until_complete(make())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    calls.notify(EVENTS[0])
    asyncio.run(calls.end())
    for task in tasks:  # nothing else ends them
        task.get_coro().close()  # type: ignore[union-attr]  # it is a coroutine
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio itself does


def test_a_call_that_waits_for_what_comes_after_it_lets_the_group_go_on() -> None:
    async def run() -> None:
        done: list[Event] = []
        returned = asyncio.Event()

        class Closing(Listener):
            async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                calls.let_go()
                assert done == [EVENTS[1]]
                returned.set()

        calls = ListenerCalls(Closing(), lambda event, error: done.append(event))
        calls.let_go()
        assert done == []
        calls.notify(EVENTS[1])
        await asyncio.wait_for(returned.wait(), 10)

    asyncio.run(run())


def test_a_call_that_is_cancelled_by_the_application_is_done() -> None:
    async def run() -> None:
        errors: asyncio.Queue[Exception | None] = asyncio.Queue()

        class Cancelled(Listener):
            async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                given_up = asyncio.get_running_loop().create_future()
                given_up.cancel()
                await given_up

        calls = ListenerCalls(Cancelled(), lambda event, error: errors.put_nowait(error))
        calls.notify(EVENTS[1])
        error = await asyncio.wait_for(errors.get(), 10)
        assert str(error) == "the rebalance listener was cancelled"
        await calls.end()

    asyncio.run(run())


def test_whatever_a_call_raises_it_is_done() -> None:
    async def run() -> None:
        errors: asyncio.Queue[Exception | None] = asyncio.Queue()

        class Failing(Listener):
            def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
                raise GeneratorExit

            async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                raise GeneratorExit

        calls = ListenerCalls(Failing(), lambda event, error: errors.put_nowait(error))
        for event in EVENTS[:2]:
            calls.notify(event)
            assert str(await asyncio.wait_for(errors.get(), 10)) == "GeneratorExit() was raised"
        await calls.end()

    asyncio.run(run())


# On the thread that reads.


class Plain(Listener):
    """A listener whose methods are all plain functions."""

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:  # type: ignore[override]  # it does not await
        self.told.append(("revoked", partitions))


def test_nothing_is_called_before_the_reader_asks() -> None:
    listener, done, signals = Plain(), dict[Event, Exception | None](), list[bool]()
    calls = BlockingListenerCalls(listener, done.__setitem__, lambda: signals.append(True))
    thread = Thread(target=lambda: [calls.notify(event) for event in EVENTS])
    thread.start()
    thread.join()
    assert (listener.told, done, signals) == ([], {}, [True] * 3)
    calls.run()
    calls.run()
    assert listener.told == [("assigned", PARTITIONS), ("revoked", PARTITIONS)]
    assert list(done) == EVENTS
    assert str(done[EVENTS[2]]) == "the listener failed"


def test_a_reader_that_is_woken_finds_that_something_has_arrived() -> None:
    seen: list[tuple[bool, bool]] = []

    def woken() -> None:
        seen.append((bool(calls._events), calls._arrived.wait(0)))

    calls = BlockingListenerCalls(Plain(), lambda event, error: None, woken)
    calls.notify(EVENTS[0])
    assert seen == [(True, True)]


def test_a_read_within_a_call_calls_nothing() -> None:
    class Reading(Plain):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            calls.run()
            super().on_assigned(partitions)

    listener = Reading()
    calls = BlockingListenerCalls(listener, lambda event, error: None, lambda: None)
    for event in EVENTS[:2]:
        calls.notify(event)
    calls.run()
    assert [what for what, _ in listener.told] == ["assigned", "revoked"]


def test_an_interrupted_call_is_made_again() -> None:
    class Interrupted(Plain):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            super().on_assigned(partitions)
            if len(self.told) == 1:
                raise KeyboardInterrupt

    listener, done = Interrupted(), list[Event]()
    calls = BlockingListenerCalls(listener, lambda event, error: done.append(event), lambda: None)
    calls.notify(EVENTS[0])
    with pytest.raises(KeyboardInterrupt):
        calls.run()
    assert done == []
    calls.run()
    assert done == EVENTS[:1]
    assert len(listener.told) == 2


def test_an_event_is_told_again_if_the_group_did_not_hear_of_its_end() -> None:
    listener, done = Plain(), list[Event]()

    def finish(event: Event, error: Exception | None) -> None:
        done.append(event)
        if len(done) == 1:
            raise KeyboardInterrupt

    calls = BlockingListenerCalls(listener, finish, lambda: None)
    calls.notify(EVENTS[0])
    with pytest.raises(KeyboardInterrupt):
        calls.run()
    calls.run()
    assert done == [EVENTS[0]] * 2
    assert len(listener.told) == 2
    calls.run()
    assert len(done) == 2


def test_coroutine_functions_are_refused() -> None:
    errors: list[Exception | None] = []
    calls = BlockingListenerCalls(Listener(), lambda event, error: errors.append(error), lambda: None)
    calls.notify(EVENTS[1])
    calls.run()
    assert "Listener.on_revoked is a coroutine function" in str(errors[0])


def test_events_are_handled_while_something_is_waited_for_and_not_after_the_end() -> None:
    promise: Promise[None] = Promise()
    listener = Plain()
    calls = BlockingListenerCalls(listener, lambda event, error: promise.keep(None), lambda: None)
    thread = Thread(target=lambda: calls.notify(EVENTS[1]))
    thread.start()
    result_of(calls.until, promise, 60_000)
    thread.join()
    assert [what for what, _ in listener.told] == ["revoked"]
    calls.notify(EVENTS[0])
    result_of(calls.end)
    calls.run()
    assert [what for what, _ in listener.told] == ["revoked"], "the listener must not be called after the end"


def test_a_call_that_closes_lets_the_group_go_on() -> None:
    promise: Promise[None] = Promise()
    done: list[Event] = []

    class Closing(Plain):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            calls.let_go()
            assert done == EVENTS[:1]
            calls.notify(EVENTS[1])
            result_of(calls.until, promise, 60_000)
            super().on_assigned(partitions)
            raise ValueError("after it")

    def finish(event: Event, error: Exception | None) -> None:
        done.append(event)
        if event is EVENTS[1]:
            promise.keep(None)
        errors.append(error)

    listener, errors = Closing(), list[Exception | None]()
    calls = BlockingListenerCalls(listener, finish, lambda: None)
    calls.let_go()
    calls.notify(EVENTS[0])
    calls.run()
    assert [what for what, _ in listener.told] == ["revoked", "assigned"]
    assert [str(error) for error in errors] == ["None", "None", "after it"]
    assert done == [EVENTS[0], EVENTS[1], EVENTS[0]]


def test_who_hears_that_a_call_has_let_go_may_have_the_next_one_made() -> None:
    told: list[Event] = []
    during: list[list[Event]] = []

    class Closing(Plain):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            assert calls.let_go()
            during.append(told.copy())

    def done(event: Event, error: Exception | None) -> None:
        told.append(event)
        calls.run()

    listener = Closing()
    calls = BlockingListenerCalls(listener, done, lambda: None)
    calls.notify(EVENTS[0])
    calls.notify(EVENTS[1])
    calls.run()
    assert during == [EVENTS[:2]]
    assert listener.told == [("revoked", PARTITIONS)]


def test_a_plain_call_that_raises_what_is_no_exception_is_done_once() -> None:
    class Cancelled(Plain):
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            raise asyncio.CancelledError

    done: list[tuple[Event, str]] = []
    calls = BlockingListenerCalls(Cancelled(), lambda event, error: done.append((event, str(error))), lambda: None)
    calls.notify(EVENTS[0])
    calls.run()
    calls.run()
    assert done == [(EVENTS[0], "CancelledError() was raised")]
