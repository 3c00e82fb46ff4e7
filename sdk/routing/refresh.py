"""The interface through which a router keeps its metadata fresh.

A client asks the brokers (`metadata_refresh.py`); a broker in a cluster is given the metadata (`given_metadata.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.metadata import Metadata

__all__ = ["Refresh"]


class Refresh(Protocol):
    """Keeps the metadata of a router fresh. The router calls every method, on the driver's side."""

    @property
    def metadata(self) -> Metadata:
        """The metadata that is kept fresh."""
        ...

    @property
    def ended_ms(self) -> int:
        """When the last refresh ended, even if it failed; -1 before the first one.

        A call to a broker that the cluster does not list waits for a refresh that ends after the call is submitted.
        """
        ...

    @property
    def refusal(self) -> KafkaWireError | None:
        """Why the last refresh failed, if brokers rejected their peer or cannot be trusted; None otherwise."""
        ...

    def request(self, on_done: Callable[[KafkaWireError | None], None]) -> None:
        """Call `on_done` after a refresh that begins later, with the error if it failed."""
        ...

    def fail(self, error: KafkaWireError) -> None:
        """Tell callers that are waiting for a refresh that there will be none."""
        ...

    def poll(self, now_ms: int) -> int | None:
        """Do what is due; return the new value of `due_ms`."""
        ...

    def due_ms(self) -> int | None:
        """Return when to poll again; None if only an event can change anything."""
        ...
