"""Share sessions: the partitions that each member of a share group fetches from this broker.

A session lets a member name only what changes, and ends when the member closes it or its connection is lost; what the
member has acquired is then released. A session's epoch counts its requests, so that a lost or repeated one is noticed.

Source: `ShareSession`, `ShareSessionCache`, `SharePartitionManager.newContext` in Apache Kafka; KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import FINAL_SHARE_SESSION_EPOCH, INITIAL_SHARE_SESSION_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["PARTITIONS_MAX", "ShareSession", "ShareSessions", "TopicIdPartition"]

#: Maximum number of partitions in all sessions together: about 50 MB. A session of a real consumer has the partitions
#: that its group assigns to it.
PARTITIONS_MAX = 250_000

#: The epoch after which counting begins again.
_EPOCH_MAX = 2**31 - 1

#: A connection; only its identity matters.
Connection = object


class TopicIdPartition(NamedTuple):
    """A partition, identified by its topic's id and its number."""

    topic_id: bytes
    partition: int


class ShareSession:
    """The session of one member.

    Args:
        group_id, member_id: the member.
        partitions: the partitions with the names of their topics, or None if unknown.
        connection: the member's connection.

    Attributes:
        group_id, member_id, connection: see above.
        epoch: the epoch of the next request.
    """

    def __init__(
        self, group_id: str, member_id: str, partitions: dict[TopicIdPartition, str | None], connection: Connection
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = INITIAL_SHARE_SESSION_EPOCH + 1
        self._partitions = partitions
        #: The partitions that the next response has to contain, whether or not they have records.
        self._untold: set[TopicIdPartition] = set()

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[tuple[TopicIdPartition, str | None]]:
        """Yield the partitions with the names of their topics; those that had records last come last."""
        return iter(self._partitions.items())

    def update(self, partitions: dict[TopicIdPartition, str | None], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add and remove partitions."""
        for partition, name in partitions.items():
            if partition not in self._partitions:
                self._partitions[partition] = name
                self._untold.add(partition)
        for partition in forgotten:
            self._partitions.pop(partition, None)
            self._untold.discard(partition)

    def next_request(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def must_tell(self, partition: TopicIdPartition, *, has_records: bool, is_error: bool) -> bool:
        """Return whether a partition has to be in a response, and note that it is.

        After an error, the partition is told again once the error is gone.
        """
        must = has_records or is_error or partition in self._untold
        self._untold.discard(partition)
        if partition in self._partitions:
            if is_error:
                self._untold.add(partition)
            if has_records:
                self._partitions[partition] = self._partitions.pop(partition)
        return must


class ShareSessions:
    """The sessions of all members.

    Args:
        limits: see `ShareLimits`.
        on_left: called with a session that ends because its connection was lost.
        on_empty: called with the id of a group when a connection is closed and no session of the group is left.
    """

    def __init__(
        self, limits: ShareLimits, on_left: Callable[[ShareSession, int], None], on_empty: Callable[[str], None]
    ) -> None:
        self._limits = limits
        self._on_left = on_left
        self._on_empty = on_empty
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._partitions = 0
        self._members: dict[str, int] = {}
        #: The last member that has used each connection.
        self._of_connection: dict[Connection, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession:
        """Return the session of a member.

        Raises:
            BrokerError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            text = f"member {member_id} of group {group_id} has no share session"
            raise BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND, text)
        return session

    def open(
        self,
        group_id: str,
        member_id: str,
        partitions: dict[TopicIdPartition, str | None],
        connection: Connection,
    ) -> ShareSession:
        """Open a session in place of the member's old one; the records that the member has acquired stay acquired.

        Raises:
            BrokerError: SHARE_SESSION_LIMIT_REACHED.
        """
        self.remove(group_id, member_id)
        if len(self._sessions) >= self._limits.sessions_max:
            text = f"the broker has {self._limits.sessions_max} share sessions already"
            raise BrokerError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, text)
        self._check_room(len(partitions))
        session = ShareSession(group_id, member_id, partitions, connection)
        self._sessions[group_id, member_id] = session
        self._partitions += len(session)
        self._members[group_id] = self._members.get(group_id, 0) + 1
        self._of_connection[connection] = group_id, member_id
        return session

    def has(self, connection: Connection) -> bool:
        """Return whether a connection has had a session, so that `closed` has to be called for it."""
        return connection in self._of_connection

    def use(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: dict[TopicIdPartition, str | None],
        forgotten: Iterable[TopicIdPartition],
    ) -> ShareSession:
        """Return the session for its next request, with changed partitions.

        Raises:
            BrokerError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
        """
        session = self.get(group_id, member_id)
        if session.epoch != epoch:
            text = f"expected epoch {session.epoch}, got {epoch}"
            raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, text)
        self._check_room(len(partitions))
        self._partitions -= len(session)
        session.update(partitions, forgotten)
        self._partitions += len(session)
        session.next_request()
        return session

    def acknowledging(self, group_id: str, member_id: str, epoch: int) -> None:
        """Use a session for an acknowledgement, which may be the last request.

        Raises:
            BrokerError: INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND.
        """
        if epoch == INITIAL_SHARE_SESSION_EPOCH:
            text = "an acknowledgement cannot open a share session"
            raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, text)
        if epoch == FINAL_SHARE_SESSION_EPOCH:
            self.get(group_id, member_id)
        else:
            self.use(group_id, member_id, epoch, {}, ())

    def _check_room(self, count: int) -> None:
        if self._partitions + count > PARTITIONS_MAX:
            text = f"the share sessions would have more than {PARTITIONS_MAX} partitions"
            raise BrokerError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, text)

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """End a session, if there is one, and return it."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self._partitions -= len(session)
            self._members[group_id] -= 1
            if not self._members[group_id]:
                del self._members[group_id]
        return session

    def closed(self, connection: Connection, now_ms: int) -> None:
        """End the session of a connection that is closed, unless the member has moved to another connection."""
        key = self._of_connection.pop(connection, None)
        if key is None:
            return
        session = self._sessions.get(key)
        if session is not None and session.connection is connection:
            self.remove(*key)
            self._on_left(session, now_ms)
        if key[0] not in self._members:
            self._on_empty(key[0])
