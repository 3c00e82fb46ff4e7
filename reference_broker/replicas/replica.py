"""A replica of a partition: the log on this broker, and its committed part.

It determines the high watermark. A single broker has the only replica of each partition, and leads it: records on its
own disk are committed.

Source: `Partition` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.replicas.high_watermark import (
    COMPLETES_ANY_FETCH_BYTES,
    HighWatermark,
    Reached,
    Watcher,
)
from kafkawire.reference_broker.replicas.last_stable_offset import LastStableOffset
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Replica"]


class Replica:
    """One replica.

    Args:
        log: log of the partition; the replica takes ownership.
        leader_epoch: the broker's epoch as leader of the partition; None for that of the log.
        lost: called when the log goes offline, or is offline already.

    Attributes:
        log: see above.
        leader_epoch: see above.
    """

    def __init__(
        self, log: PartitionLog, leader_epoch: int | None = None, lost: Callable[[], None] = lambda: None
    ) -> None:
        self.log = log
        self.leader_epoch = log.leader_epoch if leader_epoch is None else leader_epoch
        self._lost = lost
        self._high_watermark = HighWatermark(log.high_watermark, log.next_offset)
        self._last_stable_offset = LastStableOffset(self._high_watermark, log.producers.first_unstable_offset)
        log.own(self)
        if log.error is not None:  # the log could not be opened
            self.ended(log.error)

    @property
    def error(self) -> BrokerError | None:
        """The error that prevents reading and appending, None while the log is online."""
        return self.log.error

    def check(self, epoch: int = NO_PARTITION_LEADER_EPOCH) -> None:
        """Check that this replica is available, and that a client knows the current leader epoch.

        Args:
            epoch: the epoch known to the client; `NO_PARTITION_LEADER_EPOCH` if it sent none.

        Raises:
            BrokerError: the log's `error`; or the client's epoch is older (FENCED_LEADER_EPOCH) or newer
                (UNKNOWN_LEADER_EPOCH).
        """
        if self.log.error is not None:
            raise self.log.error.again()
        if epoch == NO_PARTITION_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(code, f"epoch {epoch}, the current one is {self.leader_epoch}")

    # Waiting.

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call back once the high watermark is at or past `offset`, or with the error that prevents it."""
        self._high_watermark.when_reached(offset, callback)

    def watch(self, watcher: Watcher, *, is_committed: bool = False) -> None:
        """Call `watcher` with the number of bytes whenever more can be read, until `unwatch`.

        Args:
            watcher: see above.
            is_committed: whether only committed records count, up to the last stable offset.
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

    # Called by the log, see `LogOwner`.

    def transaction_begun(self, first_offset: int) -> None:
        self._last_stable_offset.begun(first_offset)

    def appended(self, end_offset: int, size_bytes: int) -> None:
        self._high_watermark.appended(end_offset, size_bytes)

    def moved(self) -> None:
        """Move the high watermark to the durable end of this log, the only replica."""
        offset = self.log.acknowledged_to
        for first_offset in self.log.commit_to(offset):
            self._last_stable_offset.decided(first_offset)
        self._high_watermark.advance(offset)
        self._last_stable_offset.advance(self.log.producers.first_unstable_offset)

    def trimmed(self) -> None:
        self._high_watermark.watchers.tell(0)

    def truncated(self) -> None:
        """Move the offsets back to those of the log; who waits for records that are gone gets an error."""
        log = self.log
        error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log.folder} was truncated to {log.next_offset}")
        self._high_watermark.truncate(
            log.high_watermark, log.next_offset, error, is_empty=log.next_offset <= log.log_start_offset
        )
        self._last_stable_offset.truncate(log.next_offset, log.producers.first_unstable_offset)

    def prepared(self) -> None:
        """Make all watchers read again."""
        self._high_watermark.watchers.tell(COMPLETES_ANY_FETCH_BYTES)
        self._last_stable_offset.wake()

    def ended(self, error: BrokerError) -> None:
        self._high_watermark.fail(error)
        self._last_stable_offset.wake()
        if self.log.is_offline:
            self._lost()
