"""Transactions end as in Kafka's logs and consumer: by markers after the records, or by the list in a response.

Method: read interleaved transactions of two producers, batch by batch, in both ways; read damaged and unknown markers.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError, DecodeError
from kafkawire.sdk.records import Batch, BatchBuilder, empty_batch, walk
from kafkawire.sdk.records.control import end_transaction_marker
from kafkawire.sdk.spark.isolation import AbortedByResponse, AbortedTransaction, Outcomes, parse_committed_only


def records(base_offset: int, producer_id: int, is_transactional: bool = True) -> bytes:
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    builder.append(1, None, b"v")
    return builder.build()


def marker(offset: int, producer_id: int, is_commit: bool, key: bytes | None = None) -> bytes:
    builder = BatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )
    own_key, value = end_transaction_marker(is_commit, 0)
    builder.append(1, own_key if key is None else key, value)
    return builder.build()


#: The batches, and whether a reader of committed records sees each.
LOG: list[tuple[bytes, bool | None]] = [
    (records(0, 1), False),
    (records(1, 2), True),
    (records(2, 7, is_transactional=False), True),
    (records(3, 1), False),
    (marker(4, 1, is_commit=False), None),
    (records(5, 1), True),
    (marker(6, 2, is_commit=True), None),
    (records(7, 2), False),
    (marker(8, 1, is_commit=True), None),
    (marker(9, 2, is_commit=False), None),
    (records(10, 2), False),
    (records(11, 7, is_transactional=False), True),
]
BATCHES: list[Batch] = list(walk(b"".join(data for data, _ in LOG)))
SEEN = [is_seen for _, is_seen in LOG]


def test_by_markers() -> None:
    outcomes = Outcomes()
    for batch in BATCHES:
        if batch.is_control:
            outcomes.add(batch)
    assert [None if batch.is_control else outcomes.is_visible(batch) for batch in BATCHES] == SEEN


def test_by_a_response() -> None:
    """A response ends before open transactions, and lists aborted ones in any order."""
    aborted = AbortedByResponse([AbortedTransaction(2, 7), AbortedTransaction(1, 0)])
    found = [aborted.is_visible(batch) for batch in BATCHES[:10]]
    assert found == [bool(is_seen) for is_seen in SEEN[:10]]


def test_markers_of_other_kinds_do_not_count() -> None:
    outcomes = Outcomes()
    (unknown,) = walk(marker(1, 1, True, key=b"\0\0\0\x09"))
    outcomes.add(unknown)
    assert not outcomes.is_visible(BATCHES[0])


@pytest.mark.parametrize("key", [b"", b"\0\0\0"])
def test_damaged_markers(key: bytes) -> None:
    (damaged,) = walk(marker(1, 1, True, key=key))
    with pytest.raises(DecodeError, match="the key of a control record must have at least 4 bytes"):
        Outcomes().add(damaged)
    with pytest.raises(DecodeError, match="the key of a control record must have at least 4 bytes"):
        AbortedByResponse([]).is_visible(damaged)


def test_a_marker_that_compaction_has_removed() -> None:
    """The marker's batch is kept for the producer state, without the record; it no longer ends a transaction."""
    data = empty_batch(base_offset=4, last_offset_delta=0, producer_id=1, producer_epoch=0, is_control=True)
    (empty,) = walk(data)
    outcomes = Outcomes()
    outcomes.add(empty)
    assert not outcomes.is_visible(BATCHES[0])
    aborted = AbortedByResponse([AbortedTransaction(1, 0)])
    assert not aborted.is_visible(empty)
    assert not aborted.is_visible(BATCHES[5])


def test_levels() -> None:
    assert parse_committed_only("o", "read_committed")
    assert parse_committed_only("o", "Read_Committed")
    assert not parse_committed_only("o", "read_uncommitted")
    with pytest.raises(ConfigurationError, match="o='committed': expected read_uncommitted or read_committed"):
        parse_committed_only("o", "committed")
    with pytest.raises(ConfigurationError, match="o=None"):
        parse_committed_only("o", None)  # type: ignore[arg-type]  # users may pass it
