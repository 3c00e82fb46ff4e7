"""A client for custom requests, to be used in a `with` statement; connecting and disconnecting block the thread."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.spark.connecting import connect
from kafkawire.sdk.transport.waiting import result_of

__all__ = ["BlockingClient"]


class BlockingClient:
    """The client that tasks and drivers use for requests that no SDK client supports.

    Args:
        make: returns a core that has an I/O thread but has not been started; called for each attempt to connect.
        limit_ms: the time limit for attempts; see `connect`.
    """

    def __init__(self, make: Callable[[], ClientCore], limit_ms: int) -> None:
        self._make = make
        self._limit_ms = limit_ms
        self._core = make()

    def __enter__(self) -> Self:
        connect(self._start, self._limit_ms)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        result_of(self._core.finish)

    def _start(self) -> None:
        try:
            result_of(self._started)
        except BaseException:
            failed, self._core = self._core, self._make()
            result_of(failed.finish, Closed("the client could not be started"))
            raise

    async def _started(self) -> None:
        await self._core.start()
