"""A record batch of a producer, from its first record until the broker has it or it has failed.

Source: Apache Kafka, `ProducerBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.sdk.client.retry import Attempts
from kafkawire.sdk.producer.engine import Batch
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import BatchBuilder, RecordBatch

if TYPE_CHECKING:
    from kafkawire.sdk.producer.partition_queue import PartitionQueue

__all__ = ["Link", "ProducerBatch", "ProducerId"]


class ProducerId(NamedTuple):
    """The producer that a batch comes from, as brokers know it.

    Attributes:
        number: given by the cluster.
        epoch: grows whenever the sequence numbers of a partition begin anew.
        is_transactional: whether its batches belong to transactions.
    """

    number: int
    epoch: int
    is_transactional: bool = False


class Link:
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


class ProducerBatch(Batch):
    """The records of one batch and how far it has come.

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
        self.link = Link()
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
