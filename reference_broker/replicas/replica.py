"""A replica of a partition: its role, the log on this broker, and the committed part of the log.

A replica moves the high watermark. A single broker has the only replica of each partition, and leads it: records on its
own disk are committed. `ClusterReplica` adds what a leader knows about its followers. All appends as the leader go
through the replica, which checks its role at the time of the append: an append may have waited for a verification or a
coordinator, and the role may have ended in the meantime.

Source: `Partition` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.replicas.awaited_offset import (
    COMPLETES_ANY_FETCH_BYTES,
    AwaitedOffset,
    Reached,
    Watcher,
)
from kafkawire.reference_broker.replicas.last_stable_offset import LastStableOffset
from kafkawire.reference_broker.replicas.roles import ROLE_EDGES, Role, Term
from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.log.partition_log import Done, PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Marker, Verification
from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["Replica", "RoleChanged"]

#: Called with a replica and its former role. The new role already determines what the replica refuses, but callbacks
#: waiting for the log have not been called yet.
RoleChanged = Callable[["Replica", Role], None]

#: Python 3.11 takes 40 ns to look up an enum member, and every request needs these.
_LEADER, _FOLLOWER = Role.LEADER, Role.FOLLOWER


class Replica:
    """One replica of a partition.

    Args:
        log: the partition's log, which the replica owns from now on.
        on_role: called on each step from one role to the next, even to the same role.

    Attributes:
        log: see above.
        role: see `Role`.
        term: the term that determines the role; None until there is one.
        leader_epoch: the epoch of the term; `NO_PARTITION_LEADER_EPOCH` if there is none.
        topic_id: the topic id in the term; zeros if there is none.
    """

    def __init__(self, log: PartitionLog, on_role: RoleChanged = lambda replica, before: None) -> None:
        self.log = log
        self.role = Role.CREATED
        self.term: Term | None = None
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.topic_id = ZERO_UUID
        self._on_role = on_role
        self._high_watermark = AwaitedOffset(log.high_watermark, log.next_offset)
        self._last_stable_offset = LastStableOffset(self._high_watermark, log.producers.first_unstable_offset)
        log.own(self)
        if log.error is not None:  # the log could not be opened
            self.ended(log.error)

    @property
    def error(self) -> BrokerError | None:
        """The error that prevents reading and appending, or None while the log is online."""
        return self.log.error

    def check(self, epoch: int = NO_PARTITION_LEADER_EPOCH) -> None:
        """Check that this replica leads, and that a client knows the current leader epoch.

        Args:
            epoch: the epoch known to the client; `NO_PARTITION_LEADER_EPOCH` if it sent none.

        Raises:
            BrokerError: the log's `error`; FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client's epoch is older
                or newer; or NOT_LEADER_OR_FOLLOWER if another broker leads, or none.
        """
        if self.role is not _LEADER:
            raise self._refusal(epoch)
        if epoch != NO_PARTITION_LEADER_EPOCH and epoch != self.leader_epoch:
            raise self._other_epoch(epoch)

    def check_readable(self, epoch: int = NO_PARTITION_LEADER_EPOCH) -> None:
        """Check that this replica leads or follows, and that a client knows the current leader epoch; see `check`."""
        if self.role is not _LEADER and self.role is not _FOLLOWER:
            raise self._refusal(epoch)
        if epoch != NO_PARTITION_LEADER_EPOCH and epoch != self.leader_epoch:
            raise self._other_epoch(epoch)

    def check_acks(self, acks: int) -> None:
        """Check that this replica leads, and that enough replicas are in sync, for which the only one suffices here.

        Args:
            acks: see `Acks`.

        Raises:
            BrokerError: an error from `check`, or NOT_ENOUGH_REPLICAS.
        """
        if self.role is not _LEADER:
            raise self._refusal()

    def _refusal(self, epoch: int = NO_PARTITION_LEADER_EPOCH) -> BrokerError:
        if self.log.error is not None:
            return self.log.error.again()
        if epoch not in (NO_PARTITION_LEADER_EPOCH, self.leader_epoch):
            return self._other_epoch(epoch)
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.log.folder}")

    def _other_epoch(self, epoch: int) -> BrokerError:
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        return BrokerError(code, f"the request has epoch {epoch}, but the current epoch is {self.leader_epoch}")

    # Appending.

    def append(
        self,
        data: bytearray | memoryview,
        batch: BatchHeader,
        now_ms: int,
        done: Done,
        *,
        is_client: bool = True,
        verification: Verification | None = None,
    ) -> None:
        """Append a batch as the leader; see `PartitionLog.append`. The error may be one from `check`."""
        if self.role is not _LEADER:
            done(self._refusal())
            return
        self.log.append(data, batch, now_ms, done, is_client=is_client, verification=verification)

    def append_marker(self, marker: Marker, transaction_version: int, now_ms: int, done: Done) -> None:
        """Append a marker as the leader; see `PartitionLog.append_marker`. The error may be one from `check`."""
        if self.role is not _LEADER:
            done(self._refusal())
            return
        self.log.append_marker(marker, transaction_version, now_ms, done)

    # The role.

    def lead(self, term: Term) -> None:
        """Lead the partition, immediately or as soon as the log is settled.

        Args:
            term: a term in which this broker leads, in the epoch of the previous role or a later one.

        Raises:
            LocalProtocolError: the log has records from a later epoch.
            RefusedEdge: the log has ended.
        """
        if not self.log.is_unsettled:
            self._lead(term)
            return
        self._take(term)
        self._leave(Role.PROMOTING, self._ended_role())

    def _lead(self, term: Term) -> None:
        """Lead from now on: begin the epoch in the log, do what a cluster needs (`_begin`), then change the role.

        Role listeners are told last, since the coordinators of an internal topic's partition then load it.
        """
        ROLE_EDGES.follow(self.role, _LEADER)
        if self.role is not _LEADER or term.leader_epoch != self.leader_epoch:
            self.log.lead(term.leader_epoch)
            self._high_watermark.accept()
        self._begin(term)
        self._take(term)
        self._step(_LEADER)
        if self.log.high_watermark < self.log.next_offset:
            self.moved()

    def _begin(self, term: Term) -> None:
        """Begin a term as the leader, before the role changes; with no other replicas, there is nothing to do."""

    def follow(self, term: Term) -> None:
        """Follow the leader of the partition; in a new epoch, operations waiting in the previous role are refused.

        Args:
            term: a term in which another broker leads, in the epoch of the previous role or a later one.

        Raises:
            RefusedEdge: the log has ended.
        """
        is_same = self.role is Role.FOLLOWER and term.leader_epoch == self.leader_epoch
        self._take(term)
        if is_same:
            self._step(Role.FOLLOWER)
        else:
            self._leave(Role.FOLLOWER, self._ended_role())

    def identify(self, topic_id: bytes) -> None:
        """Continue the term with an id for the topic, which had none; nothing else changes.

        Args:
            topic_id: the id.
        """
        if self.term is not None:
            self._take(self.term._replace(topic_id=topic_id))

    def stop(self) -> None:
        """Stop leading or following until the next term.

        Raises:
            RefusedEdge: the log has ended.
        """
        self._leave(Role.STOPPED, self._ended_role())

    def delete(self, error: BrokerError) -> None:
        """End the log, because its partition is deleted from this broker.

        Args:
            error: the error for all waiting and later operations; a log that has failed keeps its own error.
        """
        if self.role is not Role.GONE:
            self._step(Role.GONE)
        self.log.end(error)

    def _take(self, term: Term) -> None:
        self.term, self.leader_epoch, self.topic_id = term, term.leader_epoch, term.topic_id

    def _ended_role(self) -> BrokerError:
        reason = f"{self.log.folder} has another role in leader epoch {self.leader_epoch}"
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)

    def _step(self, role: Role) -> None:
        before, self.role = self.role, ROLE_EDGES.follow(self.role, role)
        call(self._on_role, self, before)

    def _leave(self, role: Role, error: BrokerError) -> None:
        """End a role: refuse waiting appends first, then callbacks that wait for records; watchers read again."""
        self._step(role)
        self.log.refuse_waiting(error)
        self._high_watermark.refuse(error)
        self._last_stable_offset.wake()

    # Waiting.

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call back once the high watermark is at or past `offset`, or with the error that prevents this."""
        self._high_watermark.when_reached(offset, callback)

    def when_acknowledged(self, acks: int, end_offset: int, callback: Reached) -> None:
        """Call back once a batch has been acknowledged, or with the error that prevents this.

        Args:
            acks: whether to wait for all replicas or only for the leader, which here is the same.
            end_offset: the end of the batch.
            callback: called once; the error may be NOT_ENOUGH_REPLICAS_AFTER_APPEND, or the error with which the role
                ends.
        """
        self._high_watermark.when_reached(end_offset, callback)

    @property
    def epoch_start(self) -> int:
        """The end of the log when this broker began to lead in its epoch; clients see it once it is committed."""
        return 0  # everything that a sole replica has is committed

    @property
    def low_watermark(self) -> int:
        """The lowest start offset among the replicas whose brokers are alive."""
        return self.log.log_start_offset

    def when_low_watermark(self, offset: int, callback: Reached) -> None:
        """Call back once the logs of all live replicas begin at `offset` or later, or with an error."""
        call(callback, None)

    def preferred_reader(self, rack: str, offset: int) -> int | None:
        """Return the broker from which a consumer should fetch instead of this one; None if it should stay here.

        Args:
            rack: the consumer's rack.
            offset: the offset that the consumer fetches.
        """
        return None

    def holds_back(self, broker_id: int) -> bool:
        """Return whether a follower gets no records for now, because it is not in sync and the quota is exceeded.

        Args:
            broker_id: the id of the follower's broker.
        """
        return False

    def sent(self, size_bytes: int) -> None:
        """Count the records in a response to a follower.

        Args:
            size_bytes: the size of the records.
        """

    def watch(self, watcher: Watcher, *, is_committed: bool = False, is_follower: bool = False) -> None:
        """Call `watcher` with the number of bytes whenever more can be read, until `unwatch`.

        Args:
            watcher: called with the number of bytes.
            is_committed: whether to count only records up to the last stable offset.
            is_follower: whether to count all records in the log; a sole replica has no followers that need this.
        """
        (self._last_stable_offset if is_committed else self._high_watermark).watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self._high_watermark.unwatch(watcher)
        self._last_stable_offset.unwatch(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether there are watchers."""
        return self._high_watermark.is_watched or self._last_stable_offset.is_watched

    # Called by the log (see `LogOwner`).

    def transaction_begun(self, first_offset: int) -> None:
        self._last_stable_offset.begun(first_offset)

    def appended(self, end_offset: int, size_bytes: int) -> None:
        self._high_watermark.appended(end_offset, size_bytes)

    def moved(self) -> None:
        """As the only replica, move the high watermark to the durable end of the log; only a leader does this."""
        if self.role is not _LEADER:
            return
        offset = self.log.acknowledged_to
        for first_offset in self.log.commit_to(offset):
            self._last_stable_offset.decided(first_offset)
        self._high_watermark.advance(offset)
        self._last_stable_offset.advance(self.log.producers.first_unstable_offset)

    def trimmed(self) -> None:
        self._high_watermark.watchers.tell(0)

    def truncated(self) -> None:
        """Move the offsets back to those of the log; callbacks waiting for records that are gone get an error."""
        log = self.log
        error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log.folder} was truncated to {log.next_offset}")
        self._high_watermark.truncate(
            log.high_watermark, log.next_offset, error, is_empty=log.next_offset <= log.log_start_offset
        )
        self._last_stable_offset.truncate(log.next_offset, log.producers.first_unstable_offset)

    def settled(self) -> None:
        """Begin to lead, if the log had to be settled first."""
        if self.role is Role.PROMOTING and self.term is not None:
            self._lead(self.term)

    def prepared(self) -> None:
        """Make all watchers read again."""
        self._high_watermark.watchers.tell(COMPLETES_ANY_FETCH_BYTES)
        self._last_stable_offset.wake()

    def ended(self, error: BrokerError) -> None:
        if self.role is not Role.GONE:
            self._step(Role.OFFLINE if self.log.is_offline else Role.GONE)
        self._high_watermark.refuse(error)
        self._last_stable_offset.wake()
