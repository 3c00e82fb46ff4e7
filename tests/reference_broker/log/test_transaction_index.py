"""The index of aborted transactions is byte for byte that of Apache Kafka, and finds what overlaps a range.

Method: an entry that Apache Kafka 4.3.0 wrote; a table of ranges; damaged files.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.log.producers import CompletedTransaction
from kafkawire.reference_broker.log.transaction_index import AbortedTransaction, TransactionIndex
from kafkawire.sdk.errors import DecodeError

KAFKAS = bytes.fromhex("00000000000000000000000000000000000d000000000000000e000000000000000f")

ENTRIES = [
    AbortedTransaction(1, 10, 15, 5),
    AbortedTransaction(2, 5, 20, 21),
    AbortedTransaction(3, 22, 40, 30),
    AbortedTransaction(4, 30, 50, 51),
]


def index() -> TransactionIndex:
    return TransactionIndex(0, b"".join(entry.encode() for entry in ENTRIES))


def ended(entry: AbortedTransaction) -> CompletedTransaction:
    return CompletedTransaction(entry.producer_id, entry.first_offset, entry.last_offset, True, entry[3])


def test_an_entry_of_kafka() -> None:
    found = TransactionIndex(0, KAFKAS)
    assert found.collect(0, 100) == ([AbortedTransaction(0, 13, 14, 15)], False)
    assert TransactionIndex(0).append(CompletedTransaction(0, 13, 14, True, 15)) == KAFKAS


def test_append() -> None:
    found = TransactionIndex(0)
    content = b"".join(found.append(ended(entry)) for entry in ENTRIES)
    assert len(content) == found.size_bytes
    assert TransactionIndex(0, content + content[:33]).collect(0, 100) == found.collect(0, 100)
    with pytest.raises(ValueError, match="50"):
        found.append(ended(ENTRIES[-1]))
    assert len(found) == len(ENTRIES)


@pytest.mark.parametrize(
    ("first", "end", "producers", "is_complete"),
    [
        (0, 100, [1, 2, 3, 4], False),
        (0, 5, [], True),
        (0, 6, [2], True),
        (10, 11, [1, 2], True),
        (15, 16, [1, 2], True),
        (16, 20, [2], True),
        (16, 21, [2], True),
        (16, 22, [2], True),
        (21, 22, [], True),
        (21, 30, [3], True),
        (21, 31, [3, 4], True),
        (41, 52, [4], False),
        (51, 52, [], False),
    ],
)
def test_collect(first: int, end: int, producers: list[int], is_complete: bool) -> None:
    found, is_all = index().collect(first, end)
    assert ([entry.producer_id for entry in found], is_all) == (producers, is_complete)


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (15, 0), (16, 1), (50, 3), (51, 4)])
def test_truncate(offset: int, left: int) -> None:
    found = index()
    assert found.truncate(offset) == left * len(KAFKAS) == found.size_bytes
    assert len(found) == left


def test_damage() -> None:
    with pytest.raises(DecodeError, match="version 1"):
        TransactionIndex(0, b"\0\1" + KAFKAS[2:])
    with pytest.raises(DecodeError, match="segment from 15 on"):
        TransactionIndex(15, KAFKAS)
    assert len(TransactionIndex(14, KAFKAS)) == 1
