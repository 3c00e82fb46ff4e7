"""Start the clients of tasks and drivers, with retries, since brokers may be briefly unavailable.

An SDK client fails to start as soon as no bootstrap server can be reached, which suits programs. A query, however,
should survive whatever outages a running client survives, that is, for as long as the client's own limit for a call or
a delivery.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Final, Protocol, TypeVar

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import ConnectFailed
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.transport.timing import random_fraction

__all__ = ["connect", "connected", "pause"]

_log = logging.getLogger("kafkawire.spark")

#: The first and the longest pause between attempts, which lead to fewer than 50 log lines in two minutes.
_PAUSE_MS: Final = 100
_PAUSE_MAX_MS: Final = 3_000


class _Client(Protocol):
    """A client that `connected` starts, and closes at the end of a `with`."""

    def start(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Client = TypeVar("Client", bound=_Client)


@contextmanager
def connected(client: Client, limit_ms: int) -> Iterator[Client]:
    """Start a client, and close it at the end.

    Args:
        client: a client that has not been started.
        limit_ms: see `connect`.

    Raises:
        KafkaWireError: see `connect`.
    """
    connect(client.start, limit_ms)
    with ExitStack() as stack:
        stack.push(client.__exit__)
        yield client


def connect(start: Callable[[], object], limit_ms: int) -> None:
    """Start a client, retrying after pauses if no bootstrap server can be reached.

    Args:
        start: starts the client, and can be called again after a failure.
        limit_ms: the time after which no further attempt begins.

    Raises:
        ConnectFailed: the reason why the last attempt failed; raised immediately if it is not retriable, such as a
            refused login.
        KafkaWireError: another error; if retrying could help, the client has already done that.
    """
    attempts = Attempts(Backoff(_PAUSE_MS, _PAUSE_MAX_MS, random_fraction), monotonic_ms() + limit_ms)
    while True:
        try:
            start()
        except ConnectFailed as error:
            now_ms = monotonic_ms()
            if not attempts.failed(error, now_ms):
                error.add_note(f"Attempts: {attempts.failures}, none started after {limit_ms} ms.")
                raise
            _log.info("connecting again: %s", error)
        else:
            return
        pause(attempts.not_before_ms - now_ms)


def pause(pause_ms: int) -> None:
    """Block the thread for a given time."""
    threading.Event().wait(pause_ms / 1000)
