"""Transactions are decided by later markers or indexes; the records of an undecided transaction are not shown."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.sdk.errors import DecodeError, LocalProtocolError
from kafkawire.sdk.records import BatchBuilder, walk
from kafkawire.sdk.routing.partitions import TopicPartition

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_parts
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from kafkawire.sdk.spark.segments.transactions import Transactions, aborted_transactions
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, offsets_of, planned, records_of, write_segment

SEGMENT = FoundSegment("/x.log", TopicPartition("orders", 0), 10, 1, 50)
DROP = ReadOptions(("offset",), Mode.DROPMALFORMED, is_committed_only=True)


def entry(producer_id: int, first: int, last: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, producer_id, first, last, last + 1)


def test_index() -> None:
    content = entry(7, 3, 12) + entry(8, 11, 13) + entry(7, 14, 20)
    assert aborted_transactions(SEGMENT, content) == {7: ([3, 14], [12, 20]), 8: ([11], [13])}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        entry(7, 3, 12)[:-1],
        entry(7, 3, 12, version=1),
        entry(7, 13, 12),
        entry(7, -1, 12),
        entry(7, 3, 9),
        entry(7, 3, 50),
        entry(7, 3, 20) + entry(8, 4, 20),
    ],
)
def test_damaged_index(content: bytes) -> None:
    assert aborted_transactions(SEGMENT, content) == {}


def test_damaged_marker(tmp_path: Path) -> None:
    """Without an index, the producer's next marker decides; with the index, the transaction is aborted."""
    damaged = marker(2, 7, False)[:-1] + b"\xff"
    path = write_segment(
        tmp_path / "orders-0", [batch(0, 1), records_of(1, 7), damaged, records_of(3, 7), marker(4, 7, True)]
    )
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files), files, DROP) == [0, 1, 3]
    path.with_suffix(".txnindex").write_bytes(entry(7, 1, 2))
    assert offsets_of(planned(files), files, DROP) == [0, 3]


def test_an_index_that_says_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index shows that a transaction was aborted, so the following segment need not be read."""
    write_segment(tmp_path / "orders-0", [records_of(0, 7)])
    second = write_segment(tmp_path / "orders-0", [*(batch(first) for first in range(1, 91, 10)), marker(91, 7, False)])
    second.with_suffix(".txnindex").write_bytes(entry(7, 0, 91))
    files = SegmentFiles([str(tmp_path)])
    parts = planned(files)[:1]
    original = SegmentFiles.open

    def opened(here: SegmentFiles, segment: FoundSegment) -> OpenFile:
        assert segment.path != str(second)
        return original(here, segment)

    monkeypatch.setattr(SegmentFiles, "open", opened)
    assert offsets_of(parts, files, DROP) == []


def test_nothing_is_looked_at_without_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(tmp_path / "orders-0", [batch(0, 1), records_of(1, 7), marker(2, 7, True)])
    write_segment(tmp_path / "orders-0", [batch(3, 1)])
    files = SegmentFiles([str(tmp_path)])
    (first, _) = files.find()
    monkeypatch.setattr(SegmentFiles, "after", lambda *_: pytest.fail("the marker is in the same segment"))
    plain, transactional, _ = walk((tmp_path / "orders-0" / f"{0:020}.log").read_bytes())
    with files.open(first) as file:
        transactions = Transactions(files, first, file, fails_on_loss=True)
        assert transactions.is_visible(transactional, plain.size_in_bytes)
        monkeypatch.setattr(file, "leaps", lambda *_: pytest.fail("it is in no transaction"))
        assert Transactions(files, first, file, fails_on_loss=True).is_visible(plain, 0)


def test_following_segment_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(tmp_path / "orders-0", [records_of(0, 7), records_of(1, 8)])
    second = write_segment(tmp_path / "orders-0", [marker(2, 7, True)])
    write_segment(tmp_path / "orders-0", [marker(3, 8, True)])
    files = SegmentFiles([str(tmp_path)])
    parts, after = planned(files)[:1], files.after(files.find()[0])
    assert offsets_of(parts, files, DROP) == [0, 1]
    monkeypatch.setattr(SegmentFiles, "after", lambda *_: after)
    second.unlink()
    with pytest.raises(LocalProtocolError, match="orders-0: the segment at offset 2, which shows how transactions"):
        offsets_of(parts, files, DROP)
    assert offsets_of(parts, files, DROP._replace(fails_on_loss=False)) == [1]


@pytest.mark.parametrize("has_indexes", [True, False])
def test_segments_that_are_put_together_before_markers_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_indexes: bool
) -> None:
    """The new file has the following segment's markers, and an earlier marker ends no later transaction."""
    first = [records_of(0, 7), marker(1, 7, False), records_of(2, 7), records_of(3, 8)]
    second = [marker(4, 8, False), records_of(5, 8), marker(6, 7, True), records_of(7, 9)]
    paths = [write_segment(tmp_path / "orders-0", each) for each in (first, second)]
    write_segment(tmp_path / "orders-0", [marker(8, 8, True), marker(9, 9, False)])
    files = SegmentFiles([str(tmp_path)])
    parts = planned(files)
    committed = ReadOptions(("offset",), is_committed_only=True)
    assert offsets_of(parts, files, committed) == [2, 5]
    original = Transactions._looked_at

    def late(transactions: Transactions, position: int) -> Iterator[None]:
        paths[0].unlink()  # a reader that has opened it can still read it
        paths[1].unlink(missing_ok=True)
        write_segment(tmp_path / "orders-0", [*first, *second], 0)
        if has_indexes:
            paths[0].with_suffix(".txnindex").write_bytes(entry(7, 0, 1) + entry(8, 3, 4))
        yield from original(transactions, position)

    monkeypatch.setattr(Transactions, "_looked_at", late)
    assert offsets_of(parts, files, committed, alone=True) == [2, 5]


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_segments_that_are_gone_before_markers_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    """Markers in the open file are found although the file no longer has a name; markers in later files are missed."""
    write_segment(tmp_path / "orders-0", [records_of(0, 7), marker(1, 7, True), records_of(2, 8)])
    write_segment(tmp_path / "orders-0", [marker(3, 8, True)])
    write_segment(tmp_path / "orders-0", [batch(4, 1)])
    files = SegmentFiles([str(tmp_path)])
    (part, *_), segments = planned(files), files.find()
    original = Transactions._looked_at

    def late(transactions: Transactions, position: int) -> Iterator[None]:
        for segment in segments[:gone]:
            Path(segment.path).unlink()
        yield from original(transactions, position)

    monkeypatch.setattr(Transactions, "_looked_at", late)
    if gone == 1:
        assert offsets_of([part], files, DROP) == [0, 2]
        return
    found = read_parts([part], files, DROP._replace(fails_on_loss=False))
    assert [offset for rows in found for offset in rows.column("offset").to_pylist()] == [0]
    for segment in segments:
        Path(segment.path).touch()
    write_segment(tmp_path / "orders-0", [records_of(0, 7), marker(1, 7, True), records_of(2, 8)])
    with pytest.raises(LocalProtocolError, match="the segment at offset 3"):
        offsets_of([part], files, DROP)


def test_marker_that_does_not_say_what_it_is(tmp_path: Path) -> None:
    """Such a marker has a valid checksum and may end a transaction, so it is damage rather than an end."""
    builder = BatchBuilder(base_offset=1, producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(TIME_MS, b"\0", b"")
    write_segment(tmp_path / "orders-0", [records_of(0, 7), builder.build(), batch(2, 1)])
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files), files, DROP) == [2]
    with pytest.raises(DecodeError, match="batch of offset 1 at byte"):
        offsets_of(planned(files), files, DROP._replace(mode=Mode.FAILFAST))


def test_record_with_the_key_of_a_marker(tmp_path: Path) -> None:
    """A record written by an application does not end a transaction."""
    builder = BatchBuilder(base_offset=0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    for key in (b"k", b"\0\0\0\1", b"k"):
        builder.append(TIME_MS, key, b"\0\0\0\0\0\0")
    write_segment(tmp_path / "orders-0", [builder.build(), records_of(3, 7), marker(4, 7, False)])
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files), files, DROP) == []


def test_a_commit_before_what_an_index_says(tmp_path: Path) -> None:
    """Brokers index only aborted transactions."""
    log = [records_of(0, 7), marker(1, 7, True), records_of(2, 7), marker(3, 7, False)]
    write_segment(tmp_path / "orders-0", log).with_suffix(".txnindex").write_bytes(entry(7, 2, 3))
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files), files, DROP) == [0]
