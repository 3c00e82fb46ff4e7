"""The ends of acknowledgements, which are reported to deliveries, to commits that wait for them, and to a callback."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection

from kafkawire.sdk.consumer.sharing.acquisitions import (
    Acknowledgement,
    AcknowledgeOutcome,
    Awaiting,
)
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.catalogue import SHARE_FETCH
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.transport.user_code import contained

__all__ = ["Settlements"]

logger = logging.getLogger("kafkawire.consumer")


class Settlements:
    """End the acknowledgements of one consumer.

    Args:
        held: the acquisitions, from which ended acknowledgements are subtracted.
        metrics: the client's metrics.

    Attributes:
        notify: called with each outcome; None for no call. An error that it raises is logged.
    """

    def __init__(self, held: HeldRecords, metrics: Registry) -> None:
        self._held = held
        self._errors = metrics.sensor(SHARE_FETCH, "acknowledgements-error")
        self._lines = LogLimit(logger)
        self.notify: Callable[[AcknowledgeOutcome], None] | None = None

    def settle(
        self,
        partition: TopicIdPartition,
        acknowledgements: Collection[Acknowledgement],
        error: KafkaWireError | None,
        now_ms: int,
        lock_timeout_ms: int = 0,
    ) -> None:
        """End acknowledgements that a broker, or this client, handled together.

        Args:
            partition: their partition.
            acknowledgements: the acknowledgements.
            error: why they failed; None if the broker has confirmed them.
            now_ms: the time; a renewed lock starts now.
            lock_timeout_ms: how long a renewed lock lasts, as the broker reported; 0 if it did not.
        """
        if not acknowledgements:
            return
        if error is not None:
            self._failed(partition, acknowledgements, error, now_ms)
        offsets = []
        commits: Counter[Awaiting] = Counter()
        for each in acknowledgements:
            commits.update(each.commits)
            if each.renewal is not None:
                self._renewed(each, error, now_ms + (lock_timeout_ms or each.acquired.lock_timeout_ms))
                continue
            self._held.release(each.acquired, each.first, each.count)
            if each.delivery is not None:
                each.delivery.settled(error)
                offsets.append(each.first)
        outcome = AcknowledgeOutcome(partition.topic_partition, partition.topic_id, tuple(sorted(offsets)), error)
        for commit, count in commits.items():
            commit.acknowledged(count)
            if offsets:
                commit.report(outcome)
        if offsets and self.notify is not None:
            try:
                self.notify(outcome)
            except BaseException as raised:  # an error in the application's code
                contained(raised)
                logger.exception("on_acknowledged raised")

    def replaced(self, former: Acknowledgement, latter: Acknowledgement) -> None:
        """Note that a later acknowledgement of the same record is sent instead of one that was not sent yet."""
        latter.commits = (*former.commits, *latter.commits)
        if former.renewal is not None:
            former.renewal.keep(None)

    def _renewed(self, each: Acknowledgement, error: KafkaWireError | None, locked_until_ms: int) -> None:
        assert each.renewal is not None, "checked by the caller"
        assert each.delivery is not None, "only records are renewed"
        if error is None:
            self._held.renewed(each.acquired, each.first, locked_until_ms)
            each.delivery.renewed(locked_until_ms)
            each.renewal.keep(None)
        else:
            self._held.lost(each.acquired, each.first)
            each.delivery.settled(error)
            each.renewal.fail(error)

    def _failed(
        self, partition: TopicIdPartition, failed: Collection[Acknowledgement], error: KafkaWireError, now_ms: int
    ) -> None:
        count = sum(each.count for each in failed)
        self._errors.record(count, now_ms)
        if isinstance(error, Closed):
            return
        kinds: Counter[str] = Counter()
        for each in failed:
            kinds[AcknowledgeType(each.type).name.lower() if each.type else "gap"] += each.count
        shown = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
        text = "%s: acknowledgements failed (%s), and other consumers may receive the records: %s"
        self._lines.warning(partition.topic, now_ms, text, partition, shown, error)
