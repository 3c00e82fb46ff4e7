"""An answer that comes later: what a handler returns for a request that has to wait.

A fetch waits for data, JoinGroup for the other members. Whoever knows the answer completes it; whoever sent the request
hears of it.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.protocol.schema import Message

__all__ = ["Waiting"]


class Waiting:
    """An answer that may not be there yet.

    Attributes:
        response: the answer, None until it is known.
        on_cancel: called if nobody waits any more, so that resources held for the answer are given back.
    """

    __slots__ = ("_then", "is_cancelled", "on_cancel", "response")

    def __init__(self) -> None:
        self.response: Message | None = None
        self.is_cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._then: Callable[[Message], object] | None = None

    def complete(self, response: Message) -> None:
        """Give the answer; whatever comes after the first one is ignored."""
        if self.response is not None or self.is_cancelled:
            return
        self.response = response
        if self._then is not None:
            self._then(response)

    def then(self, action: Callable[[Message], object]) -> None:
        """Call `action` with the answer, now if it is there already."""
        self._then = action
        if self.response is not None:
            action(self.response)

    def cancel(self) -> None:
        """Note that nobody waits any more: the connection is gone."""
        if self.response is None and not self.is_cancelled:
            self.is_cancelled = True
            if self.on_cancel is not None:
                self.on_cancel()
