"""Record when a client writes each request, and check the pauses between metadata requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address, Receiver, Wire

__all__ = ["CountingNetwork"]

#: The first pause before another metadata request, and the factor by which jitter may shorten it.
BACKOFF_MS = 100
JITTER = 0.8


class CountingNetwork(TcpNetwork):
    """A TCP network that records when each request is written.

    Attributes:
        times: the times of requests in seconds, keyed by API.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[ApiKey, list[float]] = {}

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = lambda state: None,
    ) -> Receiver:
        def counted(wire: Wire) -> Receiver:
            write = wire.write

            def noted(parts: Sequence[Buffer]) -> None:
                key = ApiKey(int.from_bytes(bytes(parts[0])[4:6], "big"))
                self.times.setdefault(key, []).append(time.monotonic())
                write(parts)

            wire.write = noted  # type: ignore[method-assign]  # the only method through which the connection writes
            return receiver(wire)

        return await super().open(address, counted, enter)

    def check_metadata(self, known: float) -> None:
        """Assert that metadata requests were far enough apart after a time at which the topics were known."""
        times = [each for each in self.times[ApiKey.METADATA] if each >= known]
        gaps_ms = [(later - earlier) * 1000 for earlier, later in pairwise(times)]
        assert min(gaps_ms, default=BACKOFF_MS) >= BACKOFF_MS * JITTER, gaps_ms
