"""Batches from idempotent producers, a log that keeps only their headers, and the answer to each batch."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.storage.batches import BatchHeader, parse_header
from kafkawire.reference_broker.storage.producers.producers import (
    CompletedTransaction,
    Marker,
    Producers,
    Verification,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import BATCH_IS_TRANSACTIONAL_MASK
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["CASES", "EPOCH", "HIGHEST", "ORDER", "PLAIN", "Log", "Sent", "batch"]

HIGHEST = 2**31 - 1

PLAIN = parse_header(produced(b"v"))

ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


def batch(
    sequence: int, count: int = 1, *, producer: int = 1, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    return PLAIN._replace(
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=count - 1,
        records_count=count,
        attributes=BATCH_IS_TRANSACTIONAL_MASK if transactional else 0,
        max_timestamp=NOW_MS + sequence,
    )


class Sent(NamedTuple):
    """A batch of an idempotent producer."""

    sequence: int
    records: int = 1
    producer: int = 1
    epoch: int = 0

    def header(self) -> BatchHeader:
        """Return the batch as the log sees it."""
        return batch(self.sequence, self.records, producer=self.producer, epoch=self.epoch)

    def shifted(self, by: int) -> Sent:
        """Return the same batch from another producer."""
        return self._replace(producer=self.producer + by)


#: The batches that have been appended, the batch to send, and its offset or error.
CASES: list[tuple[list[Sent], Sent, int | ErrorCode]] = [
    ([], Sent(0), 0),
    ([], Sent(7, epoch=3), 0),
    ([], Sent(HIGHEST), 0),
    ([Sent(0)], Sent(1), 1),
    ([Sent(0, 10)], Sent(10), 10),
    ([Sent(0)], Sent(2), ORDER),
    ([Sent(0, 10)], Sent(5), ORDER),
    ([Sent(0, 10)], Sent(0, 9), ORDER),
    ([Sent(0, 10)], Sent(1, 9), ORDER),
    ([Sent(0, 10)], Sent(0, 10), 0),
    ([Sent(0, 10), Sent(10, 10)], Sent(0, 10), 0),
    ([Sent(0, 10), Sent(10, 10)], Sent(0, 20), ORDER),
    ([Sent(7)], Sent(8), 1),
    ([Sent(7)], Sent(0), ORDER),
    ([Sent(7)], Sent(7), 0),
    ([Sent(HIGHEST)], Sent(0), 1),
    ([Sent(HIGHEST)], Sent(1), ORDER),
    ([Sent(HIGHEST - 1, 4)], Sent(2), 4),
    ([Sent(HIGHEST - 1, 4)], Sent(HIGHEST - 1, 4), 0),
    ([Sent(HIGHEST - 1, 4)], Sent(3), ORDER),
    ([Sent(0, epoch=1)], Sent(1, epoch=0), EPOCH),
    ([Sent(0, epoch=1)], Sent(0, epoch=0), EPOCH),
    ([Sent(0, epoch=1)], Sent(0, epoch=2), 1),
    ([Sent(0, epoch=1)], Sent(1, epoch=2), ORDER),
    ([Sent(0, epoch=1), Sent(0, epoch=2)], Sent(0, epoch=1), EPOCH),
    ([Sent(0, epoch=1), Sent(0, epoch=2)], Sent(0, epoch=2), 1),
    ([Sent(0, epoch=-1)], Sent(9, epoch=-1), 1),
    ([Sent(0, epoch=-1)], Sent(9, epoch=0), 1),
    ([Sent(0)], Sent(5, producer=2), 1),
]


class Log:
    """The producer state, and the offsets that a log would assign."""

    def __init__(self) -> None:
        self.producers = Producers()

    def append(self, header: BatchHeader, verification: Verification | None = None, is_client: bool = True) -> int:
        """Return the offset of the batch; for a duplicate, the original offset."""
        found = self.producers.check(header, is_client=is_client, verification=verification)
        if found is not None:
            return found.first_offset
        offset = self.producers.end_offset
        self.producers.note(header, offset)
        return offset

    def begin(self, sequence: int, producer: int = 1, epoch: int = 0, *, tv2: bool = False) -> int:
        """Append the verified first batch of a transaction."""
        verification = self.producers.begin_verification(
            producer, epoch, sequence, NOW_MS, has_epoch_per_transaction=tv2
        )
        return self.append(batch(sequence, producer=producer, epoch=epoch, transactional=True), verification)

    def end(
        self, is_commit: bool, producer: int = 1, epoch: int = 0, *, coordinator: int = 0, version: int = 0
    ) -> CompletedTransaction | None:
        """Append a marker."""
        marker = Marker(producer, epoch, is_commit, coordinator)
        self.producers.check_marker(marker, version)
        return self.producers.note_marker(marker, self.producers.end_offset, NOW_MS)
