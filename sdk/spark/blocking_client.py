"""A client for requests of one's own, for `with`: it connects and disconnects, and blocks its thread for both."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.transport.waiting import result_of

__all__ = ["BlockingClient"]


class BlockingClient:
    """What tasks and drivers ask brokers by, where no client of the SDK does.

    Args:
        core: a client that was not started, with an I/O thread.
    """

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    def __enter__(self) -> Self:
        try:
            result_of(self._start)
        except BaseException:
            result_of(self._core.finish, Closed("the client could not be started"))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        result_of(self._core.finish)

    async def _start(self) -> None:
        await self._core.start()
