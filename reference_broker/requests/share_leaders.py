"""The leaders named in responses to share consumers, which saves them from asking for metadata (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["NamedLeaders"]

L = TypeVar("L")
E = TypeVar("E")

#: Errors after which the client may not know the leader.
_TELLING_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class NamedLeaders(Generic[L, E]):
    """The leaders that a response names.

    Args:
        call: the context of the request.
        replicas: the replicas on this broker.
        leader: makes the part of the response for a leader from its id and epoch.
        endpoint: makes the part for an address from the broker's id, host, port and rack.
    """

    def __init__(
        self,
        call: Call,
        replicas: Replicas,
        leader: Callable[[int, int], L],
        endpoint: Callable[[int, str, int, str | None], E],
    ) -> None:
        self._listener = call.peer.listener.name
        self._replicas = replicas
        self._leader = leader
        self._endpoint = endpoint
        self._endpoints: dict[int, E] = {}

    def leader(self, topic: str, number: int, code: int) -> L | None:
        """Return the leader of a partition if the error says that it is another one; None otherwise."""
        if code not in _TELLING_LEADER:
            return None
        leader_id, leader_epoch, broker = self._replicas.current_leader(topic, number)
        if broker is not None and (address := broker.listeners.get(self._listener)) is not None:
            self._endpoints[leader_id] = self._endpoint(leader_id, *address, broker.rack)
        return self._leader(leader_id, leader_epoch)

    def endpoints(self) -> tuple[E, ...]:
        """Return the addresses of the leaders named so far."""
        return tuple(self._endpoints.values())
