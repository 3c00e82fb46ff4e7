"""Entries for aborted transactions equal Apache Kafka's, and entries that no broker writes are reported.

Method: read an entry written by Apache Kafka 4.3.0, hand-built entries in pieces of every size, and damaged entries.
"""

from __future__ import annotations

import struct

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    parse_transactions,
    transaction_at,
    transaction_content,
)

KAFKAS = bytes.fromhex("00000000000000000000000000000000000d000000000000000e000000000000000f")

ENTRIES = [AbortedTransaction(7, 3, 12, 13), AbortedTransaction(8, 11, 13, 13), AbortedTransaction(7, 14, 20, 21)]
CONTENT = b"".join(transaction_content(*entry[:4]) for entry in ENTRIES)


def stored(first: int, last: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, 9, first, last, last + 1)


def test_an_entry_of_kafka() -> None:
    assert list(parse_transactions([KAFKAS], 14, 15)) == [AbortedTransaction(0, 13, 14, 15)]
    assert transaction_content(0, 13, 14, 15) == KAFKAS
    assert len(KAFKAS) == ENTRY_BYTES


@pytest.mark.parametrize("count", [1, 2, 3])
def test_entries_in_pieces(count: int) -> None:
    size = count * ENTRY_BYTES
    pieces = [memoryview(CONTENT)[start : start + size] for start in range(0, len(CONTENT), size)]
    assert list(parse_transactions(pieces)) == ENTRIES
    assert [transaction_at(CONTENT, number) for number in range(len(ENTRIES))] == ENTRIES
    assert list(parse_transactions([])) == list(parse_transactions([b""])) == []


@pytest.mark.parametrize(
    ("content", "reason", "position", "last_offsets"),
    [
        (
            stored(3, 12) + stored(3, 13, 1),
            "version 1 of an aborted transaction is unknown; expected 0",
            ENTRY_BYTES,
            [12, 13],
        ),
        (stored(3, 12, -1), "version -1 of an aborted transaction is unknown; expected 0", 0, [12]),
        (stored(13, 12), "a transaction begins at offset 13 and ends at offset 12", 0, [12]),
        (stored(-1, 12), "a transaction begins at offset -1 and ends at offset 12", 0, [12]),
        (stored(3, 9), "a marker at offset 9 follows one at 9", 0, [9]),
        (stored(3, 20) + stored(4, 20), "a marker at offset 20 follows one at 20", ENTRY_BYTES, [20, 20]),
        (stored(3, 50), "a marker is at offset 50, but the segment ends at 50", 0, [50]),
        (stored(3, 12) + stored(3, 13)[:-1], "the last entry has only 33 of 34 bytes", ENTRY_BYTES, [12]),
    ],
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_damage(content: bytes, reason: str, position: int, last_offsets: list[int], is_whole: bool) -> None:
    pieces = [content] if is_whole else [content[:ENTRY_BYTES], content[ENTRY_BYTES:]]
    with pytest.raises(DamagedContent) as caught:
        list(parse_transactions(pieces, 10, 50))
    assert (caught.value.reason, caught.value.position) == (reason, position)
    told: list[DamagedContent] = []
    found = list(parse_transactions(pieces, 10, 50, told.append))
    assert [entry.last_offset for entry in found] == last_offsets
    assert [(damage.reason, damage.position) for damage in told] == [(reason, position)]


def test_a_damaged_entry_is_not_given_before_it_is_refused() -> None:
    found = parse_transactions([stored(3, 12) + stored(3, 12)])
    assert next(found).last_offset == 12
    with pytest.raises(DamagedContent):
        next(found)


def test_the_version_of_an_entry() -> None:
    (entry,) = parse_transactions([stored(3, 12, 5)], on_damage=lambda damage: None)
    assert entry == AbortedTransaction(9, 3, 12, 13, 5)
