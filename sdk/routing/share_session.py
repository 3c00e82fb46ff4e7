"""A share session with one broker: the partitions from which the broker acquires records for a member (KIP-932).

As in a fetch session, a request names only what has changed. But the broker also keeps the records that it has acquired
for the member: they belong to the session, and when it is lost, so are they. Requests of a session are sent one at a
time over one connection, because each carries the next epoch, and because the broker ends the session with its
connection.

Source: KIP-932; Apache Kafka, `ShareSessionHandler`, `ShareRequestMetadata`, `SharePartitionManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.enums import FINAL_SHARE_SESSION_EPOCH, INITIAL_SHARE_SESSION_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.states import Edges

__all__ = ["SHARE_SESSION_EDGES", "ShareSession", "ShareSessionPlan", "ShareSessionState"]

#: Epochs are int32; the highest one is followed by 1, since 0 would open another session.
_EPOCH_MAX: Final = 2**31 - 1

#: Codes after which the broker does not have the session.
_LOST: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class ShareSessionState(Enum):
    """The state of a share session."""

    #: The next fetch opens a session. Until then, there is nothing to acknowledge.
    NEW = "new"
    #: The broker has the session.
    OPEN = "open"
    #: The session was closed, and is not opened again.
    CLOSED = "closed"


SHARE_SESSION_EDGES: Final = Edges(
    "a share session",
    (ShareSessionState.NEW,),
    {
        ShareSessionState.NEW: {
            ShareSessionState.OPEN: "the broker answers its first fetch",
            ShareSessionState.CLOSED: "the consumer is closed",
        },
        ShareSessionState.OPEN: {
            ShareSessionState.NEW: "the connection ends, or the broker does not know the session or its epoch",
            ShareSessionState.CLOSED: "the consumer is closed",
        },
    },
)


class ShareSessionPlan(NamedTuple):
    """The variable part of a fetch.

    Attributes:
        epoch: the epoch of the request.
        added: the partitions that the session does not contain yet.
        forgotten: the partitions that it should no longer contain.
    """

    epoch: int
    added: list[TopicIdPartition]
    forgotten: list[TopicIdPartition]


class ShareSession:
    """The share session with one broker.

    Attributes:
        state: the session's state.
        epoch: the epoch of the next request.
        members: the partitions in the session, in the order in which they were added.
    """

    def __init__(self) -> None:
        self.state = ShareSessionState.NEW
        self.epoch = INITIAL_SHARE_SESSION_EPOCH
        self.members: dict[TopicIdPartition, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker has the session, as far as is known."""
        return self.state is ShareSessionState.OPEN

    def plan(self, wanted: Iterable[TopicIdPartition]) -> ShareSessionPlan:
        """Return the variable part of the next fetch, after which the session contains exactly the wanted partitions.

        Args:
            wanted: the partitions to read from.
        """
        chosen = dict.fromkeys(wanted)
        forgotten = [each for each in self.members if each not in chosen]
        added = [each for each in chosen if each not in self.members]
        for each in forgotten:
            del self.members[each]
        self.members.update(dict.fromkeys(added))
        return ShareSessionPlan(self.epoch, added, forgotten)

    def accept(self, error_code: int) -> bool:
        """Handle the top-level error code of a response.

        A broker may count a request even though it answers with an error, so the epoch advances unless the session is
        lost; if the broker did not count it, the next response says so.

        Returns:
            Whether the session continues; otherwise the next fetch opens a new one.
        """
        if error_code in _LOST:
            self.lose()
            return False
        if error_code == ErrorCode.NONE and self.state is ShareSessionState.NEW:
            self.state = SHARE_SESSION_EDGES.follow(self.state, ShareSessionState.OPEN)
        if self.is_open:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        elif error_code != ErrorCode.NONE:
            self.members.clear()
        return self.is_open

    def lose(self) -> None:
        """Forget the session, because the broker no longer has it or may not have it."""
        if self.is_open:
            self.state = SHARE_SESSION_EDGES.follow(self.state, ShareSessionState.NEW)
        self.epoch = INITIAL_SHARE_SESSION_EPOCH
        self.members.clear()

    def close(self) -> int:
        """End the session, and return the epoch of the request that tells the broker so."""
        self.state = SHARE_SESSION_EDGES.follow(self.state, ShareSessionState.CLOSED)
        self.members.clear()
        return FINAL_SHARE_SESSION_EPOCH
