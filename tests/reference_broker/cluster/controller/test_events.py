"""Events are processed one at a time, and each client is answered exactly once.

Method: process events with steps on an in-memory registry; they cover every way in which an event can end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.controller import events as events_module
from kafkawire.reference_broker.cluster.controller.events import Answer, Event, Events
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.steps import Steps, stat_of
from tests.reference_broker.cluster.controller.scripted_cluster import MemoryRegistry, Tree


class Bench:
    def __init__(self) -> None:
        self.registry = MemoryRegistry(Tree())
        self.seen: list[object] = []
        self.failed: list[str] = []
        self.events = Events(self.registry, lambda event, error: self.failed.append(f"{event.name}: {error}"))

    def put(self, name: str, *, is_from_registry: bool = False, fails: bool = False) -> None:
        def steps() -> Steps[None]:
            self.seen.append(f"{name} begins")
            yield from stat_of("/")
            if fails:
                raise ValueError("no")
            self.seen.append(f"{name} ends")

        self.events.put(Event(name, steps, is_from_registry=is_from_registry))

    def ask(self, name: str, act: Callable[[Answer[object]], None]) -> None:
        answer: Answer[object] = Answer(self.seen.append, lambda code: (name, code))

        def steps() -> Steps[None]:
            yield from stat_of("/")
            act(answer)

        self.events.put(Event(name, steps, answer))


def test_one_event_at_a_time() -> None:
    bench = Bench()
    bench.put("a")
    bench.put("b")
    assert bench.seen == ["a begins"]
    bench.registry.tree.settle()
    assert bench.seen == ["a begins", "a ends", "b begins", "b ends"]
    assert bench.events.is_idle


def test_an_equal_event_of_the_registry_waits_once() -> None:
    bench = Bench()
    for _ in range(3):
        bench.put("a", is_from_registry=True)
    bench.registry.tree.settle()
    assert bench.seen == ["a begins", "a ends"] * 2  # the second was queued after the first had started


def test_a_failed_event_does_not_stop_the_next_one() -> None:
    bench = Bench()
    bench.put("a", fails=True)
    bench.put("b")
    bench.registry.tree.settle()
    assert bench.failed == ["a: no"]
    assert bench.seen[-1] == "b ends"


def test_an_answer_is_given_once() -> None:
    bench = Bench()
    bench.ask("a", lambda answer: [answer.give(1), answer.give(2), answer.refuse(ErrorCode.NONE)])  # type: ignore[func-returns-value]  # only the calls count
    bench.ask("b", lambda _: None)
    bench.registry.tree.settle()
    assert bench.seen == [1, ("b", ErrorCode.UNKNOWN_SERVER_ERROR)]


def test_preempted_clients_are_answered() -> None:
    bench = Bench()
    bench.ask("a", lambda answer: answer.give(1))
    bench.ask("b", lambda answer: answer.give(2))
    bench.events.preempt()
    refused = [("a", ErrorCode.NOT_CONTROLLER), ("b", ErrorCode.NOT_CONTROLLER)]
    assert bench.seen == refused
    bench.ask("c", lambda answer: answer.give(3))
    bench.registry.tree.settle()
    assert bench.seen == [*refused, 3]


def test_a_closed_queue_refuses() -> None:
    bench = Bench()
    bench.events.close()
    bench.ask("a", lambda answer: answer.give(1))
    bench.put("b")
    bench.registry.tree.settle()
    assert bench.seen == [("a", ErrorCode.NOT_CONTROLLER)]


def test_too_many_clients_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "WAITING_EVENTS_MAX", 2)
    bench = Bench()
    for number in range(4):
        bench.ask(str(number), lambda answer, number=number: answer.give(number))  # type: ignore[misc]  # a default
    assert bench.seen == [("3", ErrorCode.REQUEST_TIMED_OUT)]
    bench.put("of the registry", is_from_registry=True)
    bench.registry.tree.settle()
    assert bench.seen[1:4] == [0, 1, 2]
    assert bench.seen[-1] == "of the registry ends"


@pytest.mark.defect
def test_a_client_that_raises_stops_nothing() -> None:
    bench = Bench()

    def receive(_: object) -> None:
        raise OSError("the client is gone")

    def steps() -> Steps[None]:
        yield from stat_of("/")
        answer.give(1)
        bench.seen.append("it goes on")

    answer: Answer[object] = Answer(receive, lambda code: code)
    bench.events.put(Event("a", steps, answer))
    bench.put("b")
    bench.registry.tree.settle()
    assert bench.seen == ["it goes on", "b begins", "b ends"]
    assert not bench.failed


@pytest.mark.defect
def test_a_failure_that_cannot_be_handled_stops_nothing() -> None:
    bench = Bench()

    def fail(event: Event, error: Exception) -> None:
        raise OSError("no")

    bench.events = Events(bench.registry, fail)
    bench.put("a", fails=True)
    bench.put("b")
    bench.registry.tree.settle()
    assert bench.seen[-1] == "b ends"
    assert bench.events.is_idle
