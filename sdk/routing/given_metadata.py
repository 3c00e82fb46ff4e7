"""Metadata that is told to a router: which brokers there are, and which is the controller. No broker is asked.

A broker of a cluster knows both from the registry or from its controller, often before it is told any topic. A call to
a broker that is not listed waits until the next list: a new broker may be listed in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.routing.metadata import ClusterBroker, Metadata

__all__ = ["WAITING_MAX", "GivenMetadata"]

#: Callers that wait for the next list: far more than the machines of one broker, and a bound for a defect.
WAITING_MAX = 1_000


class GivenMetadata:
    """The refresh of a router that is told its metadata; pass it to the router, which calls the rest.

    Attributes:
        metadata: the metadata that was given; it has no topics.
        ended_ms: the last ms before `set` was last called, so that a call of the same ms counts as later; -1 before the
            first time.
        refusal: None, since no broker can refuse.
    """

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.ended_ms = -1
        self.refusal: KafkaWireError | None = None
        self._waiting: list[Callable[[KafkaWireError | None], None]] = []

    def set(self, brokers: Iterable[ClusterBroker], controller_id: int | None, now_ms: int) -> None:
        """Replace the list of brokers. Wake the driver afterwards, since calls may wait for it.

        Args:
            brokers: all brokers that calls may be sent to; a broker that is left out is not called.
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
            LocalProtocolError: `WAITING_MAX` callers wait.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise LocalProtocolError(f"{WAITING_MAX} callers wait for the list of brokers, which is the limit")
        self._waiting.append(on_done)

    def fail(self, error: KafkaWireError) -> None:
        """Tell callers that wait for a list that there will be none."""
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(error)

    def poll(self, now_ms: int) -> int | None:
        """Return None: nothing is ever due."""
        return None

    def due_ms(self) -> int | None:
        """Return None: only `set` changes the metadata."""
        return None

    def forget_refusal(self) -> None:
        """Do nothing, since no broker can refuse."""
