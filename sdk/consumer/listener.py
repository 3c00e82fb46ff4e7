"""Tell the application about changes to its partitions, on its event loop or on the thread that reads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Final, Protocol, runtime_checkable

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.groups.protocol import Assigned, Event, Lost, Revoking
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.latch import Latch
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.tasks import new_task
from kafkawire.sdk.transport.user_code import as_exception, contained

__all__ = ["BlockingListenerCalls", "ListenerCalls", "RebalanceListener"]

_METHODS: Final = {Assigned: "on_assigned", Revoking: "on_revoked", Lost: "on_lost"}


@runtime_checkable
class RebalanceListener(Protocol):
    """Called when partitions are assigned, revoked or lost; each method may be a coroutine function."""

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle added partitions; none of their records have been handed out yet, so this method may call `seek`."""
        ...

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are about to be revoked; their offsets can still be committed."""
        ...

    def on_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were lost; other members may already read them, and a commit would fail."""
        ...


class ListenerCalls:
    """Call a listener in one task per event, on the event loop and in the context in which this object was created.

    Args:
        listener: the application's listener.
        done: called on that loop after each call to the listener, with the event and the listener's error.
    """

    def __init__(self, listener: RebalanceListener, done: Callable[[Event, Exception | None], None]) -> None:
        self._listener = listener
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._tasks: dict[asyncio.Task[None], Event] = {}
        self._is_ended = False

    def notify(self, event: Event) -> None:
        """Schedule a call to the listener; can be called from any thread."""
        with suppress(RuntimeError):  # the loop was closed, so the listener can no longer run
            self._loop.call_soon_threadsafe(self._begin, event, context=self._context.copy())

    def let_go(self) -> bool:
        """Return whether the listener itself is the caller; if so, let the group, which is waiting for it, continue."""
        task = asyncio.current_task()
        if task not in self._tasks:
            return False
        self._done(self._tasks[task], None)
        return True

    async def until(self, promise: Promise[None], timeout_ms: int) -> None:
        """Wait for a promise up to a limit, while the listener is being called."""
        await promise.within(timeout_ms)

    async def end(self) -> None:
        """Cancel the calls that have not returned, except the current one."""
        self._is_ended = True
        if self._loop.is_closed():
            return
        tasks = self._tasks.keys() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, event: Event) -> None:
        task = new_task(self._loop, self._tell(event))
        self._tasks[task] = event
        task.add_done_callback(self._told)

    async def _tell(self, event: Event) -> None:
        result = _told(self._listener, event)
        if inspect.isawaitable(result):
            await result

    def _told(self, task: asyncio.Task[None]) -> None:
        """Let the group continue; the application's next read raises the listener's error."""
        event = self._tasks.pop(task)
        failure: Exception | None = None
        if task.cancelled():
            if self._is_ended:
                return
            # The application cancelled the listener, or something that the listener awaited: the group must not wait
            # for it.
            failure = LocalProtocolError("the rebalance listener was cancelled")
        elif (error := task.exception()) is not None:
            failure = as_exception(error)  # the task has already raised an exception that ends the program
        self._done(event, failure)


class BlockingListenerCalls:
    """Call a listener on the thread that reads, before its read continues, or on the thread that closes the consumer.

    Args:
        listener: the application's listener; its methods are plain functions.
        done: called after each call to the listener, with the event and the listener's error.
        signal: wakes waiting reads.
    """

    def __init__(
        self,
        listener: RebalanceListener,
        done: Callable[[Event, Exception | None], None],
        signal: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._done = done
        self._signal = signal
        self._events: deque[Event] = deque()
        self._arrived = Latch()
        self._caller: int | None = None

    def notify(self, event: Event) -> None:
        """Schedule a call to the listener; can be called from any thread."""
        self._events.append(event)
        self._arrived.set()
        self._signal()

    def run(self) -> None:
        """Call the listener for every pending event, unless a call is running.

        If Ctrl-C interrupts a call, its event stays pending, and the listener is called with it again.
        """
        if self._caller is not None:
            return
        self._caller = threading.get_ident()
        try:
            while self._events:
                event = self._events[0]
                error = self._tell(event)
                if self._events and self._events[0] is event:
                    self._done(event, error)
                    self._events.popleft()
                elif error is not None:  # the group has continued without it
                    self._done(event, error)
        finally:
            self._caller = None

    def let_go(self) -> bool:
        """Return whether the listener itself is the caller; if so, let the group, which is waiting for it, continue."""
        if self._caller != threading.get_ident():
            return False
        self._caller = None
        self._done(self._events.popleft(), None)
        return True

    async def until(self, promise: Promise[None], timeout_ms: int) -> None:
        """Wait for a promise up to a limit, while the listener is being called."""
        deadline_ms = monotonic_ms() + timeout_ms
        while not promise.done:
            arrived = self._arrived = Latch()
            promise.add_done_callback(arrived.set)
            self.run()
            if not arrived.wait((deadline_ms - monotonic_ms()) / 1000):
                return

    async def end(self) -> None:
        """Stop calling the listener."""
        self._events.clear()

    def _tell(self, event: Event) -> Exception | None:
        try:
            result = _told(self._listener, event)
            if inspect.iscoroutine(result):
                result.close()
                raise LocalProtocolError(
                    f"{type(self._listener).__name__}.{_METHODS[type(event)]} is a coroutine function: "
                    "kafkawire.sync needs plain functions; only kafkawire.Consumer awaits coroutines"
                )
        except BaseException as error:  # an error in the application's code, which its next read raises
            return contained(error)
        return None


def _told(listener: RebalanceListener, event: Event) -> Awaitable[None] | None:
    result: Awaitable[None] | None = getattr(listener, _METHODS[type(event)])(event.partitions)
    return result
