"""Metadata that is handed to a router: the list of brokers, and which of them is the controller. No broker is asked.

A broker in a cluster learns both from the registry or from its controller, often before it learns of any topic. A call
to a broker that is not listed waits for the next list: a new broker may soon be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.routing.metadata import ClusterBroker, Metadata

__all__ = ["WAITING_MAX", "GivenMetadata"]

#: The maximum number of callers that wait for the next list: far more than the machines of one broker, and a limit in
#: case of a defect.
WAITING_MAX = 1_000


class GivenMetadata:
    """The `Refresh` for a router to which metadata is handed; the router calls all of its methods except `set`.

    Attributes:
        metadata: the given metadata; it has no topics.
        ended_ms: one ms before the last call to `set`, so that a `Call` in the same ms counts as later; -1 before the
            first call to `set`.
        refusal: None, since no broker is asked and so none can refuse.
    """

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.ended_ms = -1
        self.refusal: KafkaWireError | None = None
        self._waiting: list[Callable[[KafkaWireError | None], None]] = []

    def set(self, brokers: Iterable[ClusterBroker], controller_id: int | None, now_ms: int) -> None:
        """Replace the list of brokers. Wake the driver afterwards, since calls may be waiting for the list.

        Args:
            brokers: all brokers to which calls may be sent; other brokers are not called.
            controller_id: the node id of the controller; None if there is none.
            now_ms: the time.
        """
        metadata = self.metadata
        metadata.brokers = {broker.node_id: broker for broker in brokers}
        metadata.controller_id = controller_id
        metadata.refreshed_ms = now_ms
        metadata.changes += 1
        self.ended_ms = now_ms - 1
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(None)

    def request(self, on_done: Callable[[KafkaWireError | None], None]) -> None:
        """Call `on_done` after the next `set`.

        Raises:
            LocalProtocolError: `WAITING_MAX` callers are already waiting.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise LocalProtocolError(f"too many callers: {WAITING_MAX} are waiting for the list of brokers")
        self._waiting.append(on_done)

    def fail(self, error: KafkaWireError) -> None:
        """Tell callers that are waiting for a list that there will be none."""
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(error)

    def poll(self, now_ms: int) -> int | None:
        """Return None, since nothing is ever due."""
        return None

    def due_ms(self) -> int | None:
        """Return None, since only `set` changes the metadata."""
        return None
