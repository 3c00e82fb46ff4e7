"""The requests of share groups, as the handlers in `apis/` build them from messages, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["NO_ERROR", "Beat", "NewStates", "OffsetAlteration", "Refusal", "ShareHeartbeat", "StateDeletion"]


class Refusal(NamedTuple):
    """The outcome for one item of a request.

    Attributes:
        code: the error code; NONE if the item was handled.
        text: the error text, or None.
    """

    code: ErrorCode
    text: str | None = None

    @classmethod
    def of(cls, error: BrokerError) -> Refusal:
        """Return the outcome for an error."""
        return cls(error.code, error.detail or None)


NO_ERROR = Refusal(ErrorCode.NONE)


class ShareHeartbeat(NamedTuple):
    """A heartbeat, which is also used to join, to change a subscription, and to leave.

    Attributes:
        group_id, member_id, epoch, rack_id: as in ShareGroupHeartbeat.
        topics: the subscribed topic names, or None if unchanged.
        client_id: the client's name for itself.
        client_host: the host that the client connects from.
    """

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client_id: str
    client_host: str


class NewStates(NamedTuple):
    """States of share partitions that the persister has to begin.

    Attributes:
        group_id: the group.
        state_epoch: the epoch of the states.
        offsets: where delivery begins in each partition, keyed by topic id and number; `UNKNOWN_OFFSET` to leave that
            to the leader of the partition.
    """

    group_id: str
    state_epoch: int
    offsets: Mapping[bytes, Mapping[int, int]]


class Beat(NamedTuple):
    """The outcome of a heartbeat: the response, and the states to begin, if there are any."""

    response: ShareGroupHeartbeatResponse
    states: NewStates | None


class OffsetAlteration(NamedTuple):
    """The outcome of altering a group's offsets, before the persister has been asked.

    Attributes:
        results: the outcomes, keyed by topic name and partition number.
        topic_ids: the ids of the topics that exist, keyed by name.
        states: the states to begin.
    """

    results: dict[str, dict[int, Refusal]]
    topic_ids: dict[str, bytes]
    states: NewStates


class StateDeletion(NamedTuple):
    """The outcome of deleting a group's offsets, before the persister has been asked.

    Attributes:
        results: the outcomes of topics without offsets, keyed by name.
        names: the names of the topics with states to delete, keyed by topic id.
        partitions: the partitions with states to delete.
    """

    results: dict[str, Refusal]
    names: dict[bytes, str]
    partitions: Partitions
