"""The batches of one partition that are not settled: waiting, or on their way to its leader.

Any thread opens batches, fills them, and links each to the one before; the sender gathers them from there. Everything
else here belongs to the sender.

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

#: Batches that the sender has not gathered yet and that still count for the choice of a partition: beyond that a
#: partition is busy in any case.
_COUNTED_MAX: Final = 32


class PartitionQueue:
    """The batches of one partition.

    Args:
        partition: their destination.

    Attributes:
        waiting: to be sent, oldest first; the last one may be open.
        sequences: of the partition.
        on_wire: batches whose request has no response yet.
        due_ms: when it is to be looked at again, -1 if only an event can change anything.
        usual_bytes: size of the last batch that was closed, its limit if it was full; the next one will probably have
            it too.
        node_id: the leader that it is ready for, None while it is not.
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
        """Return the last batch that was opened, the only one that may be open; from any thread.

        None if there was none, or it is closed and was let go.
        """
        latest = known = self._latest
        following = self._first.next if known is None else known.link.next
        while following is not None:
            latest, following = following, following.link.next
        if latest is not known:
            self._latest = latest  # only where the next search begins: another thread may have found a later one
        return latest

    def follow(self, former: ProducerBatch | None, opened: ProducerBatch) -> bool:
        """Have a batch follow the latest one, None if there is none; return False if another one does already."""
        link = self._first if former is None else former.link
        return link.lead_to(opened) is opened

    def gather(self) -> list[ProducerBatch]:
        """Add the batches that were opened since the last call to `waiting`, and return them."""
        opened = []
        while (batch := self._gathered.next) is not None:
            opened.append(batch)
            self._gathered = batch.link
        if opened:
            self.waiting += opened
            self._first.skip_to(opened[-1])
        return opened

    def let_go(self, batch: ProducerBatch) -> None:
        """Drop a closed batch, and with it its records; the next batch is linked to it all the same."""
        if self._gathered is batch.link:
            self._first = batch.link
            self._latest = None

    @property
    def load(self) -> int:
        """How many batches are not settled, roughly; from any thread."""
        following, not_gathered = self._gathered.next, 0
        while following is not None and not_gathered < _COUNTED_MAX:
            following, not_gathered = following.link.next, not_gathered + 1
        return len(self.waiting) + self.on_wire + not_gathered

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch in its place among those that wait."""
        if not self.waiting or batch.order < self.waiting[0].order:
            self.waiting.appendleft(batch)
        else:
            batches = list(self.waiting)
            insort(batches, batch, key=attrgetter("order"))
            self.waiting = deque(batches)

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch if it waits."""
        if self.waiting and self.waiting[0] is batch:
            self.waiting.popleft()
        elif batch in self.waiting:
            self.waiting.remove(batch)


class ProducerBatch(Batch):
    """The records of one batch and how far it has come, until the broker has it or it has failed.

    Args:
        queue: of its partition.
        order: sorts the batches of a producer by age.
        builder: holds the records.
        attempts: to send it.
        limit_bytes: beyond which a further record goes to the next batch.
        created_ms: when the first record was appended.
        term: of the accumulator; its records are never sent in a later one.

    Attributes:
        deadline_ms: by when its outcome is settled.
        link: leads to the batch that was opened after it.
        is_told: whether the sender has been told of it.
        is_full: whether it was closed because a record did not fit.
        grants: parts of the buffer's memory that it was given to grow, until it is trimmed.
        kept_bytes: what it holds of the buffer's memory since it was trimmed.
        is_trimmed: whether it has given back the memory that it does not need.
        producer: that its sequence number belongs to, None before it has one.
        sequence: of its first record, -1 before it has one.
        sealed_bytes: its size as it was last sent, after compression.
        on_wire: whether a request with it has no response yet.
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
        """Set whom the batch comes from, and the sequence number of its first record."""
        self.producer = producer
        self.sequence = sequence
        self.builder.producer_id, self.builder.producer_epoch, self.builder.is_transactional = producer
        self.builder.base_sequence = sequence

    def sealed(self) -> Buffer:
        """Return the batch as it is sent; no more records can be added."""
        sealed = self.builder.seal()
        self.sealed_bytes = len(sealed)
        return sealed

    def parts(self, size_bytes: int) -> Iterator[BatchBuilder]:
        """Yield builders that hold the records, in order, in batches of at most so many bytes where possible."""
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
    """Leads from a batch to the next one of its partition, once there is one.

    Of several threads that open a batch at the same time one is first, in one step of C; the others use its batch.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[None, ProducerBatch] = {}

    @property
    def next(self) -> ProducerBatch | None:
        """The next batch, None if there is none yet."""
        return self._next.get(None)

    def lead_to(self, batch: ProducerBatch) -> ProducerBatch:
        """Have a batch be the next one if there is none, and return the next one."""
        return self._next.setdefault(None, batch)

    def skip_to(self, batch: ProducerBatch) -> None:
        """Lead past the batches before this one, which have been gathered."""
        self._next[None] = batch
