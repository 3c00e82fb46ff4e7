"""One partition that this broker follows in one leader epoch: the effect of the leader's answers on the log.

    FETCHING ──records──▶ APPENDING (until the log has them as safely as the leader may assume)
       │ └──they differ──▶ TRUNCATING        PAUSED after any failure that may pass
       └──out of range──▶ ASKING for the ends of the leader's log

A state machine without I/O: the log reports when it is done, and the `Keeper`, which is the fetcher, is told of each
change. A new leader epoch gets a new object; anything that the log or the leader reports to the former object is
ignored.

Source: `AbstractFetcherThread`, `PartitionFetchState` in Apache Kafka; KIP-595 (divergence in fetch responses).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

from kafkawire.reference_broker.replicas.divergence import EpochLog, cut_for
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.log.appends import Appended, Done
from kafkawire.reference_broker.storage.log.truncations import Settled
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.states import Edges

__all__ = ["FOLLOWED_EDGES", "Followed", "FollowedState", "FollowerLog", "FollowerReplica", "Keeper"]


class FollowedState(Enum):
    """The state of a partition that is followed."""

    #: It is in the fetch session, or will be from the next request on.
    FETCHING = auto()
    #: Fetched records wait for a segment or for a sync.
    APPENDING = auto()
    #: The log is being truncated.
    TRUNCATING = auto()
    #: The leader is asked where its log begins and ends.
    ASKING = auto()
    #: It waits for `replica.fetch.backoff.ms` after a failure.
    PAUSED = auto()
    #: The leader is in a later epoch, which the controller will announce to this broker.
    FENCED = auto()
    #: The log cannot be used; the broker takes the replica offline.
    FAILED = auto()


#: The steps of a partition.
FOLLOWED_EDGES: Final = Edges(
    "a partition that is followed",
    (FollowedState.FETCHING,),
    {
        FollowedState.FETCHING: {
            FollowedState.APPENDING: "fetched records are not yet as durable as required",
            FollowedState.TRUNCATING: "the leader's log differs, or a truncation from the former epoch is running",
            FollowedState.ASKING: "the offset is out of range",
            FollowedState.PAUSED: "another error, or damaged records",
            FollowedState.FENCED: "the leader epoch has ended",
        },
        FollowedState.APPENDING: {
            FollowedState.FETCHING: "the log has all the records",
            FollowedState.TRUNCATING: "all records were deleted, and the leader's log begins within a batch",
            FollowedState.PAUSED: "the log rejects the records",
        },
        FollowedState.TRUNCATING: {
            FollowedState.FETCHING: "the truncation is durable",
            FollowedState.APPENDING: "the truncation is durable, but earlier records are not yet",
            FollowedState.PAUSED: "nothing had to be removed, so the leader's answer was wrong",
        },
        FollowedState.ASKING: {
            FollowedState.TRUNCATING: "the leader's log ends earlier, or begins later",
            FollowedState.FETCHING: "the offset is now in range",
            FollowedState.PAUSED: "an error, or the offset is out of range again",
            FollowedState.FENCED: "the leader epoch has ended",
        },
        FollowedState.PAUSED: {
            FollowedState.FETCHING: "the pause has ended",
            FollowedState.APPENDING: "the pause has ended, but records are not yet durable",
        },
    },
    from_any={FollowedState.FAILED: "the log has failed"},
)


class FollowerLog(EpochLog, Protocol):
    """The log of a follower (see `PartitionLog`)."""

    @property
    def error(self) -> BrokerError | None:
        """The error that prevents reading and appending, or None while the log is online."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        ...

    @property
    def acknowledged_to(self) -> int:
        """The offset up to which this disk permits acknowledgement."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The last leader epoch; -1 if there is none."""
        ...

    @property
    def is_unsettled(self) -> bool:
        """Whether the log is being truncated."""
        ...

    def append_as_follower(self, data: Buffer, from_offset: int, leader_epoch: int, now_ms: int, done: Done) -> None:
        """See `PartitionLog.append_as_follower`."""
        ...

    def truncate_to(self, offset: int, done: Settled) -> None:
        """See `PartitionLog.truncate_to`."""
        ...

    def start_at(self, offset: int, done: Settled) -> None:
        """See `PartitionLog.start_at`."""
        ...

    def sync(self) -> None:
        """Make everything in the log durable, in the background."""
        ...

    def refuse_waiting(self, error: BrokerError) -> None:
        """Answer the waiting appends with an error."""
        ...


class FollowerReplica(Protocol):
    """The replica of a partition on this broker, while it follows."""

    @property
    def log(self) -> FollowerLog:
        """The log of the partition."""
        ...

    @property
    def topic_id(self) -> bytes:
        """The id of the topic; zeros if it has none."""
        ...

    def followed(self, high_watermark: int, start_offset: int) -> None:
        """Adopt the leader's high watermark and log start offset, up to the end of this log."""
        ...


class Keeper(Protocol):
    """Receives notifications of a partition's changes."""

    def changed(self, followed: Followed) -> None:
        """Record that the state or the offset to fetch has changed."""
        ...

    def released(self, followed: Followed) -> None:
        """Record that the log no longer needs the records of the response."""
        ...

    def took(self, followed: Followed) -> None:
        """Record that the replica has adopted the ends of the leader's log that were last received."""
        ...


class Followed:
    """A partition that is followed.

    Args:
        partition: its topic and number.
        replica: its replica on this broker.
        leader_epoch: the epoch of the leader.
        max_bytes: the limit for records in a response, as in `replica.fetch.max.bytes`.
        keeper: is told of changes.

    Attributes:
        partition, replica, leader_epoch: see above.
        topic_id: the id of the topic; zeros if it has none.
        state: its state.
        sent: the partition's valid entry in the leader's session, or None.
        asks: for which offset the leader is asked, while ASKING.
        is_appending: whether the log still needs the records of a response.
        lag: how many records the log was behind the leader's high watermark; None before the first response.
        reason: why the partition is PAUSED.
        code: the leader's error code, if it is the reason; None for any other reason.
        response: the keeper's number for the response whose records the log still needs; 0 if there is none.
    """

    __slots__ = (
        "_has_begun_again",
        "_is_over",
        "_keeper",
        "_leader_ends",
        "_max_bytes",
        "_was_out_of_range",
        "asks",
        "code",
        "is_appending",
        "lag",
        "leader_epoch",
        "partition",
        "reason",
        "replica",
        "response",
        "sent",
        "state",
        "topic_id",
    )

    def __init__(
        self, partition: TopicPartition, replica: FollowerReplica, leader_epoch: int, max_bytes: int, keeper: Keeper
    ) -> None:
        self.partition = partition
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.topic_id = replica.topic_id
        self.state = FollowedState.FETCHING
        self.sent: FetchRequest.FetchPartition | None = None
        self.asks = OffsetTimestamp.LATEST
        self.is_appending = False
        self.lag: int | None = None
        self.reason = ""
        self.code: int | None = None
        self.response = 0
        self._max_bytes = max_bytes
        self._keeper = keeper
        self._is_over = False
        self._was_out_of_range = False
        self._has_begun_again = False
        #: The leader's high watermark and log start offset, which take effect once the records have been appended.
        self._leader_ends = 0, 0

    def begin(self) -> None:
        """Begin to follow; a truncation for the log's former role may still be running."""
        log = self.replica.log
        if log.error is None and log.is_unsettled:
            self._truncate(log.next_offset)  # this waits for its turn, and has no effect of its own
        elif (
            log.error is None and log.leader_epoch == NO_PARTITION_LEADER_EPOCH and log.next_offset > log.high_watermark
        ):
            self._truncate(log.high_watermark)  # if there are no epochs, only committed records are certain
        else:
            self._go_on()

    def end(self) -> None:
        """Stop following. No more records are appended, but a truncation that has begun continues."""
        self._is_over = True
        if self.is_appending:
            reason = f"{self.partition} is no longer followed in leader epoch {self.leader_epoch}"
            self.replica.log.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason))

    @property
    def is_sent(self) -> bool:
        """Whether the leader's session has an up-to-date entry for the partition."""
        sent, log = self.sent, self.replica.log
        return (
            sent is not None and sent.fetch_offset == log.next_offset and sent.log_start_offset == log.log_start_offset
        )

    def to_fetch(self) -> FetchRequest.FetchPartition:
        """Return the partition's entry in a request (see `kafkawire.sdk.routing.fetch_session.Member`)."""
        log = self.replica.log
        self.sent = FetchRequest.FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=log.next_offset,
            last_fetched_epoch=log.leader_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._max_bytes,
        )
        return self.sent

    # The leader's answers.

    def answered(self, data: FetchResponse.PartitionData, now_ms: int) -> None:
        """Handle the partition's part of a fetch response, unless the request is outdated.

        Args:
            data: the partition's part of the response.
            now_ms: the time.
        """
        log = self.replica.log
        if self.state is not FollowedState.FETCHING or self.sent is None or self.sent.fetch_offset != log.next_offset:
            return
        if log.error is not None:
            self.fail()
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.asks = OffsetTimestamp.LATEST
            self._become(FollowedState.ASKING)
        elif data.error_code != ErrorCode.NONE:
            self._refused(data.error_code)
        elif data.diverging_epoch.epoch != NO_PARTITION_LEADER_EPOCH:
            # Ignore the offsets, which do not apply until the log agrees with the leader's.
            cut = cut_for(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._truncate(cut, must_change=True)
        else:
            self._was_out_of_range = False
            self._take(data, now_ms)

    def _take(self, data: FetchResponse.PartitionData, now_ms: int) -> None:
        """Append the records of a response."""
        log, records = self.replica.log, data.records
        if not records:
            self.take_ends(data.high_watermark, data.log_start_offset)
            return
        self._leader_ends = data.high_watermark, data.log_start_offset
        if _is_later(records, self.leader_epoch):
            self.pause(f"the leader epoch of the batch at offset {log.next_offset} is higher than {self.leader_epoch}")
            return
        self.is_appending = True
        log.append_as_follower(records, log.next_offset, self.leader_epoch, now_ms, self._appended)
        if self.is_appending and self.state is FollowedState.FETCHING:
            self._become(FollowedState.APPENDING)

    def take_ends(self, high_watermark: int, log_start_offset: int) -> None:
        """Adopt the ends of the leader's log, which agrees with this one."""
        self._heed(high_watermark, log_start_offset)
        self._keeper.changed(self)

    def listed(self, data: ListOffsetsResponse.ListOffsetsPartitionResponse | None) -> None:
        """Handle the leader's answer about the end or the start of its log.

        Args:
            data: the answer; None if the response lacks the partition.
        """
        if self.state is not FollowedState.ASKING:
            return
        next_offset = self.replica.log.next_offset
        if data is None or (data.error_code == ErrorCode.NONE and data.offset < 0):
            self.pause(f"the leader did not return its {self.asks.name} offset")
        elif data.error_code != ErrorCode.NONE:
            self._refused(data.error_code)
        elif self.asks is OffsetTimestamp.LATEST and data.offset < next_offset:
            self._truncate(data.offset)
        elif self.asks is OffsetTimestamp.LATEST:
            self.asks = OffsetTimestamp.EARLIEST
            self._keeper.changed(self)
        elif data.offset > next_offset:
            self._become(FollowedState.TRUNCATING)
            self.replica.log.start_at(data.offset, self._truncated)
        elif self._was_out_of_range:
            self.pause(f"the leader rejected offset {next_offset}, although its log begins at {data.offset}")
        else:
            self._was_out_of_range = True
            self._go_on()

    def _refused(self, error_code: int) -> None:
        if error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self._become(FollowedState.FENCED)
        else:
            reason = BrokerError(error_code, f"the leader rejected offset {self.replica.log.next_offset}")
            self.pause(str(reason), error_code)

    # Local events.

    def moved(self) -> None:
        """Record that more of the log can be acknowledged, or that its start offset has increased."""
        if self.state is FollowedState.APPENDING and not self.is_appending:
            self._go_on()
        elif self.state is FollowedState.FETCHING and not self.is_appending and not self.is_sent:
            self._keeper.changed(self)

    def pause(self, reason: str, code: int | None = None) -> None:
        """Pause after a failure.

        Args:
            reason: why, for the log line.
            code: the leader's error code, if the reason is an error from the leader.
        """
        self.reason, self.code = reason, code
        self._become(FollowedState.PAUSED)

    def resume(self) -> None:
        """End the pause."""
        self._go_on()

    def fail(self) -> None:
        """Stop following, since the log cannot be used."""
        self._become(FollowedState.FAILED)

    def _appended(self, result: Appended | BrokerError) -> None:
        """Continue after an append; called by the log."""
        self.is_appending = False
        self._keeper.released(self)
        if self._is_over or self.state not in (FollowedState.FETCHING, FollowedState.APPENDING):
            return
        if isinstance(result, Appended):
            self._has_begun_again = False
            self._heed(*self._leader_ends)
            self._go_on()
        elif self.replica.log.error is not None:
            self.fail()
        elif result.code == ErrorCode.OFFSET_OUT_OF_RANGE and self._is_deleted and not self._has_begun_again:
            # The leader's log begins in the middle of a batch, which only an empty log can append.
            self._has_begun_again = True
            self._become(FollowedState.TRUNCATING)
            self.replica.log.start_at(self.replica.log.next_offset, self._truncated)
        else:
            self.pause(f"could not append fetched records: {result}")

    @property
    def _is_deleted(self) -> bool:
        """Whether all records in this log have been deleted from the leader's log."""
        _, log_start_offset = self._leader_ends
        return log_start_offset >= self.replica.log.next_offset

    def _truncate(self, offset: int, *, must_change: bool = False) -> None:
        """Truncate the log.

        Args:
            offset: the new end of the log.
            must_change: whether something must be removed, since the next fetch would otherwise get the same answer.
        """
        log = self.replica.log
        before = (log.next_offset, log.leader_epoch) if must_change else None
        self._become(FollowedState.TRUNCATING)
        log.truncate_to(offset, lambda error: self._truncated(error, before))

    def _truncated(self, error: BrokerError | None, before: tuple[int, int] | None = None) -> None:
        """Continue after a truncation; called by the log."""
        if self._is_over or self.state is not FollowedState.TRUNCATING:
            return
        log = self.replica.log
        if error is not None or before != (log.next_offset, log.leader_epoch):
            self._go_on_if_certain()
        else:
            self.pause(f"the leader reported a divergence, but not before offset {log.next_offset}")

    def _heed(self, high_watermark: int, log_start_offset: int) -> None:
        self._keeper.took(self)
        self.lag = max(high_watermark - self.replica.log.next_offset, 0)
        if high_watermark >= 0:
            self.replica.followed(high_watermark, log_start_offset)

    def _go_on_if_certain(self) -> None:
        """Fetch; a log without epochs is truncated first, since only its committed records are surely the leader's."""
        log = self.replica.log
        if log.error is None and log.leader_epoch < 0 and log.next_offset > log.high_watermark:
            self._truncate(log.high_watermark)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Fetch the next records once those in the log may be acknowledged, since the fetch tells the leader so."""
        log = self.replica.log
        if log.error is not None:
            self.fail()
        elif log.acknowledged_to >= log.next_offset:
            self._become(FollowedState.FETCHING)
        else:
            self._become(FollowedState.APPENDING)
            log.sync()

    def _become(self, state: FollowedState) -> None:
        if state is not self.state:
            self.state = FOLLOWED_EDGES.follow(self.state, state)
            self.sent = None
        self._keeper.changed(self)


def _is_later(records: Buffer, leader_epoch: int) -> bool:
    """Return whether the first batch has a later epoch; the log would append nothing, and report no error."""
    return len(records) >= BATCH_HEADER_BYTES and parse_header(records).leader_epoch > leader_epoch
