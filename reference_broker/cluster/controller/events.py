"""The controller's events: a single queue, processed one event at a time; each event is a sequence of steps.

A watch that fires while an identical event is waiting does not add another, since events read the registry when they
start. Client events have an answer, which is given exactly once: by the event, or on its behalf if it is dropped or
fails.

Source: `ControllerEventManager`, `QueuedEvent` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from kafkawire.reference_broker.cluster.controller.outward_calls import call_out
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.registry import Registry
from kafkawire.sdk.registry.steps import Run, Steps, run

__all__ = ["WAITING_EVENTS_MAX", "Answer", "Event", "Events"]

T = TypeVar("T")

_log = logging.getLogger("kafkawire.broker")

#: Maximum number of waiting client events; further ones are refused with REQUEST_TIMED_OUT, on which clients retry.
#: There are few registry events, since identical ones are queued only once, and each request to a broker has at most
#: one response.
WAITING_EVENTS_MAX: Final = 10_000


class Answer(Generic[T]):
    """An answer to a client, given exactly once.

    Args:
        done: called with the answer.
        refused: returns the answer for an error.
    """

    def __init__(self, done: Callable[[T], None], refused: Callable[[ErrorCode], T]) -> None:
        self._done: Callable[[T], None] | None = done
        self._refused = refused

    def give(self, answer: T) -> None:
        """Answer, unless an answer has already been given; exceptions raised by `done` are logged."""
        done, self._done = self._done, None
        if done is not None:
            call_out("the receiver of an answer", lambda: done(answer))

    def refuse(self, error_code: ErrorCode) -> None:
        """Answer with an error, unless an answer has already been given."""
        if self._done is not None:
            self.give(self._refused(error_code))


class Event(NamedTuple):
    """Something to act on.

    Attributes:
        name: describes the event in the log; identical registry events have the same name.
        steps: starts the event's steps.
        answer: the answer that a client waits for; None if there is no client.
        is_from_registry: whether the event is redundant while an identical one is waiting.
    """

    name: str
    steps: Callable[[], Steps[None]]
    answer: Answer[object] | None = None
    is_from_registry: bool = False


class Events:
    """The queue of a controller.

    Args:
        registry: runs the steps.
        failed: called with an event and the error that ended its steps, before the next event starts.
    """

    def __init__(self, registry: Registry, failed: Callable[[Event, Exception], None]) -> None:
        self._registry = registry
        self._failed = failed
        self._waiting: deque[Event] = deque()
        self._names: set[str] = set()
        self._current: Event | None = None
        self._run: Run[None] | None = None
        self._is_starting = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether the queue is idle: no event is running or waiting."""
        return self._current is None and not self._waiting

    def put(self, event: Event) -> None:
        """Queue an event, to be processed after those already waiting."""
        if self._is_closed:
            _refuse(event, ErrorCode.NOT_CONTROLLER)
        elif event.is_from_registry and event.name in self._names:
            return
        elif event.answer is not None and len(self._waiting) >= WAITING_EVENTS_MAX:
            _log.error("refusing %s, since %d events are waiting for the controller", event.name, WAITING_EVENTS_MAX)
            _refuse(event, ErrorCode.REQUEST_TIMED_OUT)
        else:
            self._waiting.append(event)
            if event.is_from_registry:
                self._names.add(event.name)
            self._start()

    def preempt(self) -> None:
        """Abandon the current event midway, and drop the waiting ones; clients get NOT_CONTROLLER."""
        dropped = [*([] if self._current is None else [self._current]), *self._waiting]
        if self._run is not None:
            self._run.cancel()
        self._waiting.clear()
        self._names.clear()
        self._current, self._run = None, None
        for event in dropped:
            _refuse(event, ErrorCode.NOT_CONTROLLER)

    def close(self) -> None:
        """Preempt, and stop processing events."""
        self._is_closed = True
        self.preempt()

    def _start(self) -> None:
        # An event may end inside `run` and queue other events; the loop keeps the stack from growing.
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._current is None and self._waiting:
                event = self._waiting.popleft()
                self._names.discard(event.name)
                self._current = event
                running = run(self._registry, event.steps(), self._finish_of(event), self._failure_of(event))
                if self._current is event:
                    self._run = running
        finally:
            self._is_starting = False

    def _finish_of(self, event: Event) -> Callable[[None], None]:
        def finish(_: None) -> None:
            self._end(event)

        return finish

    def _failure_of(self, event: Event) -> Callable[[Exception], None]:
        def fail(error: Exception) -> None:
            call_out("the controller's handling of a failed event", lambda: self._failed(event, error))
            self._end(event)

        return fail

    def _end(self, event: Event) -> None:
        if self._current is event:
            self._current, self._run = None, None
        # An event that ends without an answer has failed unexpectedly.
        _refuse(event, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._start()


def _refuse(event: Event, error_code: ErrorCode) -> None:
    if event.answer is not None:
        event.answer.refuse(error_code)
