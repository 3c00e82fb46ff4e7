"""The unsettled batches of one partition: waiting, or on their way to its leader.

Any thread can open and fill batches. It links each new batch to the previous one, and the sender gathers batches by
following these links. The rest of this module is used only by the sender.

Source: Apache Kafka, `ProducerBatch`, `RecordAccumulator`.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from kafkawire.sdk.producer.engine import Batch
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.sequences import Sequences
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import BatchBuilder, RecordBatch
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts

__all__ = ["PartitionQueue", "ProducerBatch"]

#: The maximum number of ungathered batches that are counted when choosing a partition: a partition with more is busy
#: anyway.
_COUNTED_MAX: Final = 32


class PartitionQueue:
    """The batches of one partition.

    Args:
        partition: their destination.

    Attributes:
        waiting: the batches to be sent, oldest first; the last one may be open.
        sequences: the partition's sequence numbers.
        on_wire: the batches whose request has no response yet.
        due_ms: when to look at the partition again; -1 if only an event can change its state.
        usual_bytes: the size of the last closed batch, or its limit if it was full; an estimate for the next batch.
        node_id: the leader to which the partition is ready to send; None while it is not ready.
    """

    __slots__ = (
        "_first",
        "_gathered",
        "_latest",
        "due_ms",
        "node_id",
        "on_wire",
        "partition",
        "sequences",
        "usual_bytes",
        "waiting",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[ProducerBatch] = deque()
        self.sequences = Sequences()
        self.on_wire = 0
        self.due_ms = -1
        self.usual_bytes = 0
        self.node_id: int | None = None
        self._first = _Link()
        self._gathered = self._first
        self._latest: ProducerBatch | None = None

    def latest(self) -> ProducerBatch | None:
        """Return the most recently opened batch, the only one that can still be open; any thread may call this.

        Return None if no batch was ever opened, or if the last one was closed and dropped.
        """
        latest = known = self._latest
        following = self._first.next if known is None else known.link.next
        while following is not None:
            latest, following = following, following.link.next
        if latest is not known:
            self._latest = latest  # just where the next search starts: another thread may have found a later batch
        return latest

    def follow(self, former: ProducerBatch | None, opened: ProducerBatch) -> bool:
        """Link a batch to the latest one, if any; return False if another batch already follows that one."""
        link = self._first if former is None else former.link
        return link.lead_to(opened) is opened

    def gather(self) -> list[ProducerBatch]:
        """Add the batches opened since the last call to `waiting`, and return them."""
        opened = []
        while (batch := self._gathered.next) is not None:
            opened.append(batch)
            self._gathered = batch.link
        if opened:
            self.waiting += opened
            self._first.skip_to(opened[-1])
        return opened

    def let_go(self, batch: ProducerBatch) -> None:
        """Drop a closed batch and its records; the next batch can still be linked to it."""
        if self._gathered is batch.link:
            self._first = batch.link
            self._latest = None

    @property
    def load(self) -> int:
        """The approximate number of unsettled batches; can be read from any thread."""
        following, not_gathered = self._gathered.next, 0
        while following is not None and not_gathered < _COUNTED_MAX:
            following, not_gathered = following.link.next, not_gathered + 1
        return len(self.waiting) + self.on_wire + not_gathered

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch into its place among the waiting batches."""
        if not self.waiting or batch.order < self.waiting[0].order:
            self.waiting.appendleft(batch)
        else:
            batches = list(self.waiting)
            insort(batches, batch, key=attrgetter("order"))
            self.waiting = deque(batches)

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch if it is waiting."""
        if self.waiting and self.waiting[0] is batch:
            self.waiting.popleft()
        elif batch in self.waiting:
            self.waiting.remove(batch)


class ProducerBatch(Batch):
    """The records and the state of one batch, until the broker has stored it or it has failed.

    Args:
        queue: the queue of its partition.
        order: the sort key for a producer's batches, by age.
        builder: holds the records.
        attempts: counts the attempts to send the batch.
        limit_bytes: the size that another record must not exceed, or else it goes into the next batch.
        created_ms: when the first record was appended.
        term: the accumulator's term; the records are never sent in a later one.

    Attributes:
        deadline_ms: the time by which its outcome is settled.
        link: leads to the batch that was opened after it.
        is_told: whether the sender has been told about the batch.
        is_full: whether the batch was closed because a record did not fit.
        grants: the grants of buffer memory by which the batch has grown; empty once it is trimmed.
        kept_bytes: the buffer memory that the batch holds after it was trimmed.
        is_trimmed: whether the batch has given back the memory that it does not need.
        producer: the producer id to which its sequence number belongs; None before it has one.
        sequence: the sequence number of its first record; -1 before it has one.
        sealed_bytes: its size after compression when it was last sent.
        on_wire: whether a request that carries it has no response yet.
    """

    __slots__ = (
        "attempts",
        "created_ms",
        "deadline_ms",
        "grants",
        "is_full",
        "is_told",
        "is_trimmed",
        "kept_bytes",
        "limit_bytes",
        "link",
        "on_wire",
        "order",
        "producer",
        "queue",
        "sealed_bytes",
        "sequence",
        "term",
    )

    def __init__(
        self,
        queue: PartitionQueue,
        order: tuple[int, ...],
        builder: BatchBuilder,
        attempts: Attempts,
        limit_bytes: int,
        created_ms: int,
        term: int = 0,
    ) -> None:
        super().__init__(builder, Outcome(queue.partition))
        self.queue = queue
        self.order = order
        self.attempts = attempts
        self.limit_bytes = limit_bytes
        self.created_ms = created_ms
        assert attempts.deadline_ms is not None
        self.deadline_ms = attempts.deadline_ms
        self.producer: ProducerId | None = None
        self.sequence = NO_SEQUENCE
        self.term = term
        self.link = _Link()
        self.is_told = self.is_full = self.is_trimmed = False
        self.grants: list[int] = []
        self.kept_bytes = 0
        self.sealed_bytes = 0
        self.on_wire = False

    def __str__(self) -> str:
        count = self.builder.count
        return f"{count} record{'s' if count != 1 else ''} for {self.queue.partition}"

    def stamp(self, producer: ProducerId, sequence: int) -> None:
        """Set the batch's producer id and the sequence number of its first record."""
        self.producer = producer
        self.sequence = sequence
        self.builder.producer_id, self.builder.producer_epoch, self.builder.is_transactional = producer
        self.builder.base_sequence = sequence

    def sealed(self) -> Buffer:
        """Return the encoded batch; no more records can be added."""
        sealed = self.builder.seal()
        self.sealed_bytes = len(sealed)
        return sealed

    def parts(self, size_bytes: int) -> Iterator[BatchBuilder]:
        """Yield builders that hold the records in order, within a size limit where possible."""
        compression, level = self.builder.compression, self.builder.level
        builder = BatchBuilder(size_bytes, compression, level=level)
        for record in RecordBatch(self.sealed()).records():
            content = (record.timestamp_ms, record.key, record.value, record.headers)
            if builder.append(*content) is None:
                yield builder
                builder = BatchBuilder(size_bytes, compression, level=level)
                builder.append(*content)
        yield builder


class _Link:
    """A link from a batch to the next batch of its partition, once there is one.

    If several threads open a batch at the same time, a single step in C picks the winner, and the others use its batch.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[None, ProducerBatch] = {}

    @property
    def next(self) -> ProducerBatch | None:
        """The next batch; None if there is none yet."""
        return self._next.get(None)

    def lead_to(self, batch: ProducerBatch) -> ProducerBatch:
        """Make a batch the next one if there is none, and return the next one."""
        return self._next.setdefault(None, batch)

    def skip_to(self, batch: ProducerBatch) -> None:
        """Link directly to this batch, because those before it have been gathered."""
        self._next[None] = batch
