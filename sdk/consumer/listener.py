"""Tell the application of changes of its partitions, on its own event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

from kafkawire.sdk.client.groups.protocol import Assigned, Event, Lost, Revoking
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["ListenerCalls", "RebalanceListener"]

_METHODS: Final = {Assigned: "on_assigned", Revoking: "on_revoked", Lost: "on_lost"}


class RebalanceListener(Protocol):
    """Called when partitions are assigned, revoked or lost; each method may be a coroutine function."""

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were added; none of their records were handed out yet, so `seek` takes effect."""
        ...

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are about to be revoked; their offsets can still be committed."""
        ...

    def on_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were lost; other members may already read them, and a commit would fail."""
        ...


class ListenerCalls:
    """Call a listener on the event loop that this is made on, a task for each event.

    Args:
        listener: of the application.
        done: called on that loop after each call, with the event and with what the listener raised.
    """

    def __init__(self, listener: RebalanceListener, done: Callable[[Event, Exception | None], None]) -> None:
        self._listener = listener
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], Event] = {}
        self._is_ended = False

    def notify(self, event: Event) -> None:
        """Have the listener called; from any thread."""
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._begin, event)

    def let_go(self) -> None:
        """Have the group go on if a call asks for this: it waits for what comes after it."""
        task = asyncio.current_task()
        if task in self._tasks:
            self._done(self._tasks[task], None)

    async def end(self) -> None:
        """Cancel the calls that have not returned, but for the one that asks for it."""
        self._is_ended = True
        tasks = self._tasks.keys() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, event: Event) -> None:
        task = self._loop.create_task(self._tell(event))
        self._tasks[task] = event
        task.add_done_callback(self._tasks.pop)

    async def _tell(self, event: Event) -> None:
        failure: Exception | None = None
        try:
            result = getattr(self._listener, _METHODS[type(event)])(event.partitions)
            if inspect.isawaitable(result):
                await result
        except Exception as error:  # the application's: it is raised by its next read
            failure = error
        except asyncio.CancelledError as error:
            if self._is_ended:
                raise
            # What it awaited was cancelled, or it was itself, by the application: the group must not wait for it.
            failure = LocalProtocolError("the rebalance listener was cancelled")
            failure.__cause__ = error
        self._done(event, failure)
