"""The acquired records of a response are found in its batches; other acquired offsets are gaps, or rejected.

Method: use batches with gaps, control records and damage, and tables of acquired ranges. The expectations follow Apache
Kafka's `ShareCompletedFetch`.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquired_records import AcquiredRecords
from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, AcquiredRange, Ledger
from kafkawire.sdk.consumer.sharing.queue import ShareFetched
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.message_set_builder import MessageSetBuilder
from kafkawire.sdk.routing.partitions import TopicIdPartition
from tests.sdk.consumer.batches import made, marker

GAP = ACKNOWLEDGE_GAP


class Opened:
    """The acquired records of some batches."""

    def __init__(
        self, records: bytes, *ranges: tuple[int, int] | tuple[int, int, int], check_crcs: bool = True
    ) -> None:
        self.ledger = Ledger(lambda: None, lambda: 0, is_explicit=True)
        partition = TopicIdPartition(b"i" * 16, "t", 0)
        acquired = Acquired(partition, 1, 100, 30_000, 30_000, self.ledger)
        listed = tuple(AcquiredRange(*(*each, 1)[:3]) for each in ranges)
        self.records = AcquiredRecords(ShareFetched(acquired, listed, records), check_crcs)

    def all(self) -> list[tuple[int, int]]:
        """Return the offsets and delivery counts of all records."""
        found = []
        while several := self.next():
            found += [(record.offset, count) for record, count in several]
        return found

    def next(self) -> list[tuple[Record, int]]:
        """Return the records of the next batch that has any, or raise its error."""
        ledger = self.ledger.given.copy()
        found = self.records.look()
        assert self.ledger.given == ledger, "looking changes nothing"
        self.records.go_on(self.records.look())
        if found.error is not None:
            raise found.error
        return found.records

    @property
    def others(self) -> list[tuple[int, int, int]]:
        """The acknowledgements of offsets without a record."""
        return [(each.first, each.last, each.type) for each in self.ledger.given]


@pytest.mark.parametrize(
    ("records", "ranges", "found", "others"),
    [
        (made(0, b"a", b"b", b"c"), [(0, 2)], [0, 1, 2], []),
        (made(0, b"a", b"b", b"c"), [(1, 1)], [1], []),
        (made(0, b"a", b"b", b"c"), [(0, 0), (2, 2)], [0, 2], []),
        (made(0, b"a") + made(1, b"b"), [(1, 1)], [1], []),
        (made(0, b"a") + made(3, b"b"), [(0, 3)], [0, 3], [(1, 2, GAP)]),
        (made(0, b"a"), [(0, 5)], [0], [(1, 5, GAP)]),
        (made(4, b"a"), [(0, 4)], [4], [(0, 3, GAP)]),
        (made(0, b"a") + marker(1, 7, is_commit=True) + made(2, b"b"), [(0, 2)], [0, 2], [(1, 1, GAP)]),
        (made(0, b"a", producer=7) + marker(1, 7, is_commit=False), [(1, 1)], [], [(1, 1, GAP)]),
        (b"", [(0, 2**62)], [], [(0, 2**62, GAP)]),
        (made(0, b"a"), [], [], []),
        (made(0, b"a", b"b") + made(2, b"c")[:-1], [(0, 2)], [0, 1], [(2, 2, AcknowledgeType.RELEASE)]),
    ],
)
def test_records_and_gaps(
    records: bytes, ranges: list[tuple[int, int]], found: list[int], others: list[tuple[int, int, int]]
) -> None:
    opened = Opened(records, *ranges)
    assert [offset for offset, _ in opened.all()] == found
    assert opened.others == others
    assert opened.next() == []


def test_delivery_counts() -> None:
    opened = Opened(made(0, b"a", b"b", b"c"), (0, 0, 3), (1, 2, 1))
    assert opened.all() == [(0, 3), (1, 1), (2, 1)]


def test_compacted_batches_have_gaps() -> None:
    opened = Opened(made(0, b"a") + made(5, b"b"), (0, 6))
    assert opened.all() == [(0, 1), (5, 1)]
    assert opened.others == [(1, 4, GAP), (6, 6, GAP)]


def test_old_message_formats() -> None:
    builder = MessageSetBuilder(1)
    builder.append(1_000, None, b"a")
    opened = Opened(bytes(builder.build()), (0, 1))
    assert opened.all() == [(0, 1)]
    assert opened.others == [(1, 1, GAP)]


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_damaged_batch_is_rejected_and_the_rest_is_read() -> None:
    opened = Opened(made(0, b"a") + damaged(made(1, b"b", b"c")) + made(3, b"d"), (0, 3))
    assert [record.offset for record, _ in opened.next()] == [0]
    with pytest.raises(DecodeError, match=r"t-0: crc.*the acquired records of the batch are rejected"):
        opened.next()
    assert opened.all() == [(3, 1)]
    assert opened.others == [(1, 2, AcknowledgeType.REJECT)]


def test_checksums_may_go_unchecked() -> None:
    opened = Opened(damaged(made(0, b"a")), (0, 0), check_crcs=False)
    try:
        opened.all()
    except DecodeError:
        assert opened.others == [(0, 0, AcknowledgeType.REJECT)]


def test_records_that_cannot_be_decoded_are_rejected() -> None:
    data = bytearray(made(0, b"a"))
    data[57:61] = (9).to_bytes(4, "big")  # the number of records
    opened = Opened(bytes(data) + made(1, b"b"), (0, 1), check_crcs=False)
    with pytest.raises(DecodeError, match="records_count"):
        opened.next()
    assert opened.all() == [(1, 1)]
    assert opened.others == [(0, 0, AcknowledgeType.REJECT)]


def test_bytes_that_are_no_batch_reject_the_rest() -> None:
    junk = bytearray(made(1, b"b"))
    junk[16] = 77  # the magic
    opened = Opened(made(0, b"a") + bytes(junk), (0, 4))
    assert [record.offset for record, _ in opened.next()] == [0]
    with pytest.raises(DecodeError, match="magic 77 is unknown"):
        opened.next()
    assert opened.next() == []
    assert opened.others == [(1, 4, AcknowledgeType.REJECT)]


def test_what_is_not_wanted_any_more_is_released() -> None:
    opened = Opened(made(0, b"a") + damaged(made(1, b"b")) + made(2, b"c"), (0, 3))
    opened.next()
    rest = opened.records.rest()
    assert (rest.records, rest.error, opened.others) == ([], None, [])
    opened.records.go_on(rest)
    assert opened.others == [(1, 3, AcknowledgeType.RELEASE)]
    assert opened.next() == []


def test_acknowledgements_refer_to_the_acquisition() -> None:
    opened = Opened(b"", (0, 1))
    opened.all()
    each: Any = opened.ledger.given[0]
    assert (each.acquired, each.delivery, each.renewal) == (opened.records.fetched.acquired, None, None)
    assert each.locked_until_ms == 30_000
