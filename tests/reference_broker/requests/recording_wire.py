"""A wire that records the bytes that a session writes."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["Wire"]


class Wire:
    """Records written bytes until it is closed."""

    def __init__(self) -> None:
        self.parts: list[Buffer | FileSlice] = []
        self.writes = 0
        self.is_open = True

    def write(self, parts: Iterable[Buffer | FileSlice]) -> None:
        if self.is_open:
            self.parts += parts
            self.writes += 1

    is_congested = has_unsent = False

    async def drain(self) -> None:
        pass

    sent = drain

    def close(self) -> None:
        self.is_open = False

    abort = close
