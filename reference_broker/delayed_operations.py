"""A delayed operation: what a handler returns for a request whose response comes later.

A fetch waits for data, JoinGroup for the other members, SyncGroup for the leader, Produce for the disk. Logs,
timers and the coordinator hold what completes it; no purgatory is needed, since each is watched in one place.

Source: `DelayedOperation`, `DelayedFetch`, `DelayedJoin` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.protocol.schema import Message

__all__ = ["DelayedOperation"]


class DelayedOperation:
    """A response that may not be known yet.

    Attributes:
        response: None until the operation is completed.
        is_cancelled: whether the client has gone.
        on_cancel: called once when the operation is cancelled, to release what it holds.
    """

    __slots__ = ("_then", "is_cancelled", "on_cancel", "response")

    def __init__(self) -> None:
        self.response: Message | None = None
        self.is_cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._then: Callable[[Message], object] | None = None

    def complete(self, response: Message) -> None:
        """Complete the operation; ignored if it is already completed or cancelled."""
        if self.response is not None or self.is_cancelled:
            return
        self.response = response
        if self._then is not None:
            self._then(response)

    def then(self, action: Callable[[Message], object]) -> None:
        """Call `action` with the response, immediately if it is known."""
        self._then = action
        if self.response is not None:
            action(self.response)

    def cancel(self) -> None:
        """Cancel the operation, because the connection is gone."""
        if self.response is None and not self.is_cancelled:
            self.is_cancelled = True
            if self.on_cancel is not None:
                self.on_cancel()
