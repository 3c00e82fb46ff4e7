"""A task reads each record in its range once and ends, whatever lies between the offsets, or reports why it cannot.

Method: read every range between the edges of batches from a reference broker on hand-built logs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire import TopicPartition
from kafkawire.sdk.errors import BrokerError, DecodeError, LocalProtocolError, NoOffset, RequestTimedOut
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression
from kafkawire.testing import Broker

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark import connecting  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers import reading  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.ranges import PartitionRange  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.reading import ReadOptions, read_ranges  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.schema import CONNECTOR, EXTRAS, HEADERS  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.brokers.topics import (  # noqa: E402 - it needs pyarrow
    ORDERS,
    create,
    offsets_of,
    produce,
    read_options,
    stored,
)
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of  # noqa: E402 - it needs pyarrow


def test_gaps(tmp_path: Path) -> None:
    """Compaction leaves gaps inside the range and around its ends."""
    there = [*range(10), *range(15, 20), *range(30, 33)]
    with stored(tmp_path, batch(0), batch(15, 5), batch(30, 3)) as broker:
        options = read_options(broker)
        for start, end in itertools.combinations([0, 3, 10, 12, 15, 20, 25, 30, 31, 33], 2):
            assert offsets_of(options, start, end) == [each for each in there if start <= each < end], (start, end)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions(tmp_path: Path, level: str) -> None:
    """The range may end with nothing but markers and aborted records, which may even make up a whole fetch."""
    log = [
        batch(0, 2),
        records_of(2, 7, 3),
        marker(5, 7, False),
        records_of(6, 8, 2),
        marker(8, 8, True),
        records_of(9, 7, 2),
        marker(11, 7, False),
    ]
    there = {0, 1, 6, 7} if level == "read_committed" else {0, 1, 2, 3, 4, 6, 7, 9, 10}
    with stored(tmp_path, *log) as broker:
        for size in ("1048576", "1"):
            options = read_options(broker, isolation_level=level, max_partition_fetch_bytes=size)
            for start, end in [(0, 12), (0, 11), (0, 9), (2, 6), (2, 5), (3, 4), (5, 6), (8, 9), (9, 12), (11, 12)]:
                expected = [each for each in range(start, end) if each in there]
                assert offsets_of(options, start, end) == expected, (size, start, end)


@pytest.mark.parametrize("compression", Compression)
def test_columns(tmp_path: Path, compression: Compression) -> None:
    given = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 7, "partition_leader_epoch": 3}
    with stored(tmp_path, batch(0, 3, compression, **given)) as broker:
        names = (*CONNECTOR, HEADERS, *EXTRAS)
        (rows,) = read_ranges([PartitionRange(ORDERS, 1, 3)], read_options(broker, *names))
    assert rows.schema.names == list(names)
    row: dict[str, Any] = rows.to_pylist()[1]
    assert row.pop("timestamp").timestamp() == (TIME_MS + 2) / 1000
    assert row == {
        "key": b"key 2",
        "value": b"value 2 " * 3,
        "topic": "orders",
        "partition": 0,
        "offset": 2,
        "timestampType": 0,
        "headers": None,
        "leaderEpoch": 3,
        "producerId": 5,
        "producerEpoch": 1,
        "sequence": 9,
        "isTransactional": False,
        "compression": compression.name.lower(),
        "batchOffset": 0,
        "batchPosition": None,
        "path": None,
    }


def test_several_ranges(tmp_path: Path) -> None:
    """Small ranges in several partitions are read in turn, into the same rows."""
    with Broker(tmp_path) as broker:
        create(broker, a=2, b=1)
        places = [TopicPartition("b", 0), TopicPartition("a", 0), TopicPartition("a", 1)]
        for count, each in enumerate(places, 3):
            produce(broker, *each, count)
        ranges = [PartitionRange(each, 1, end) for end, each in enumerate(places, 3)]
        (rows,) = read_ranges(ranges, read_options(broker, "topic", "partition", "offset"))
        assert list(read_ranges([], read_options(broker))) == []
    expected = [(*each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert [tuple(row.values()) for row in rows.to_pylist()] == expected


def test_a_reader_that_stops_early(tmp_path: Path) -> None:
    with stored(tmp_path, *(batch(base, 1) for base in range(50))) as broker:
        rows = read_ranges([PartitionRange(ORDERS, 0, 50)], read_options(broker))
        assert next(rows).num_rows == 50
        rows.close()  # type: ignore[attr-defined]  # a generator


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_a_topic_that_is_gone(tmp_path: Path, fails_on_loss: bool, caplog: pytest.LogCaptureFixture) -> None:
    with stored(tmp_path, batch(0)) as broker:
        options = read_options(broker, poll_timeout_ms=300, fails_on_loss=fails_on_loss)
        ranges = [PartitionRange(TopicPartition("gone", 0), 3, 9), PartitionRange(ORDERS, 0, 10)]
        what = "gone-0 no longer exists, but was to be read from 3 to 9"
        if fails_on_loss:
            with pytest.raises(LocalProtocolError, match=what):
                list(read_ranges(ranges, options))
        else:
            assert [rows.num_rows for rows in read_ranges(ranges, options)] == [10]
            assert f"lost: {what}" in caplog.text


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_an_open_transaction(tmp_path: Path, fails_on_loss: bool) -> None:
    """Records that wait for its end are not lost: the range was planned before it began, or for uncommitted reads."""
    given: Any = {"poll_timeout_ms": 300, "fails_on_loss": fails_on_loss, "isolation_level": "read_committed"}
    with stored(tmp_path, batch(0), records_of(10, 7, 3)) as broker, pytest.raises(RequestTimedOut) as caught:
        offsets_of(read_options(broker, **given), 5, 12)
    assert str(caught.value) == (
        "orders-0: no data arrived from offset 10 onward in 300 ms (kafkaConsumer.pollTimeoutMs), "
        "although the range ends at 12; the consumer waits for records"
    )


def test_broker_that_is_away_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stored(tmp_path, batch(0)) as broker:
        options = read_options(broker)
        broker.stop()
        monkeypatch.setattr(connecting, "pause", lambda _: broker.start())
        assert offsets_of(options, 2, 5) == [2, 3, 4]


# Loss.


def test_lost_beginning(tmp_path: Path) -> None:
    with stored(tmp_path, batch(100)) as broker:
        with pytest.raises(LocalProtocolError) as caught:
            offsets_of(read_options(broker), 95, 105)
        assert str(caught.value) == (
            "orders-0: offsets 95 to 99 are gone; the partition begins at 100; "
            "with failOnDataLoss=false the query continues"
        )
        assert offsets_of(read_options(broker, fails_on_loss=False), 95, 105) == list(range(100, 105))
        assert offsets_of(read_options(broker, fails_on_loss=False), 5, 10) == []
        # A query that begins at the earliest offset loses nothing.
        assert offsets_of(read_options(broker), 5, 10, may_begin_later=True) == []
        assert offsets_of(read_options(broker), 95, 105, may_begin_later=True) == list(range(100, 105))


def test_lost_end(tmp_path: Path) -> None:
    with stored(tmp_path, batch(0)) as broker:
        with pytest.raises(
            LocalProtocolError, match="orders-0: offsets 15 to 19 are gone or replaced; the partition ends at 10: "
        ):
            offsets_of(read_options(broker), 15, 20)
        assert offsets_of(read_options(broker, fails_on_loss=False), 15, 20) == []


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("poll_timeout_ms", [1, 30_000])
def test_range_that_ends_behind_the_partition(
    tmp_path: Path, level: str, poll_timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is raised once, before any wait for records that will never come, however short that wait would be."""
    with stored(tmp_path, batch(0)) as broker:
        given: Any = {"isolation_level": level, "poll_timeout_ms": poll_timeout_ms}
        with pytest.raises(LocalProtocolError) as caught:
            offsets_of(read_options(broker, **given), 5, 15)
        lost = "orders-0: offsets 10 to 14 do not exist; the partition ends at 10"
        assert str(caught.value) == f"{lost}; with failOnDataLoss=false the query continues"
        caplog.clear()
        assert offsets_of(read_options(broker, fails_on_loss=False, **given), 5, 15) == list(range(5, 10))
        assert [each.message for each in caplog.records if "lost" in each.message] == [f"lost: {lost}"]


def test_damage(tmp_path: Path) -> None:
    """The records before the damage are read, and the error says where the damage is."""
    with stored(tmp_path, batch(0), batch(10)) as broker:
        path = tmp_path / "orders-0" / f"{0:020}.log"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        options = read_options(broker)
        assert offsets_of(options, 0, 10) == list(range(10))
        with pytest.raises(DecodeError, match=r"orders-0, from offset 10 on: .*checksum"):
            offsets_of(options, 0, 20)


# A consumer whose results are scripted.


class Scripted:
    """A consumer that skips one offset in each read, which takes a while. It stands in for the admin client too.

    Args:
        first: the first offset of the partition.
        ends: the partition's end in each of the broker's answers; the last one is repeated, and None means no answer.
        refused: the offset that the brokers refuse once.
        last: the offset after which no data arrives while `ends` has more than one end left.
    """

    def __init__(
        self, first: int = 0, ends: Sequence[int | None] = (10,), refused: int | None = None, last: int = 100
    ) -> None:
        self.first, self.ends, self.refused, self.last = first, [*ends], refused, last
        self.now_ms = 1_000
        self.offset = -1
        self.sought: list[int] = []
        self.asked_ms: list[int] = []

    def assign(self, offsets: dict[Any, int]) -> None:
        (self.offset,) = offsets.values()

    def getbatches(self, timeout_ms: int, max_batches: int) -> list[Any]:
        self.now_ms += 60
        if self.offset == self.refused:
            self.refused = None
            raise NoOffset("OFFSET_OUT_OF_RANGE")
        if self.offset < self.last or len(self.ends) == 1:
            self.offset += 1
        return []

    def position(self, partition: Any) -> int:
        return self.offset

    def seek(self, partition: Any, offset: int) -> None:
        self.sought.append(offset)
        self.offset = offset

    def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.first)

    def list_offsets(self, places: dict[Any, int]) -> dict[Any, Any]:
        self.asked_ms.append(self.now_ms)
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if end is None:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return {partition: SimpleNamespace(offset=end) for partition in places}

    def read(self, wanted: PartitionRange, *, fails_on_loss: bool = True) -> None:
        """Read a range, with a limit of 100 ms between records."""
        client: Any = SimpleNamespace(admin=lambda timeout_ms: nullcontext(self))
        options = ReadOptions(client, ("offset",), 100, fails_on_loss, 3, 200)
        consumer: Any = self
        assert list(reading._Reading(consumer, wanted, options).batches()) == []


def test_time_begins_anew_with_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Scripted()
    monkeypatch.setattr(reading, "monotonic_ms", lambda: consumer.now_ms)
    consumer.read(PartitionRange(ORDERS, 0, 8))
    assert consumer.now_ms == 1_000 + 8 * 60
    assert not consumer.asked_ms


@pytest.mark.parametrize(
    "ends",
    [
        [4, 4, 8],  # a new leader that learns late up to which offset consumers may read
        [4, None, 4, 9],
    ],
)
def test_an_end_that_was_not_the_last_word(ends: list[int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Scripted(ends=ends, last=4)
    monkeypatch.setattr(reading, "monotonic_ms", lambda: consumer.now_ms)
    consumer.read(PartitionRange(ORDERS, 0, 8))
    # The time for the next record runs out before the second lookup; this does not confirm the first answer.
    assert consumer.offset == 8
    assert [later - earlier for earlier, later in itertools.pairwise(consumer.asked_ms)] == [240] * (len(ends) - 2)


def test_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that does not answer says nothing about the end, so the limit is the time for the next record."""
    consumer = Scripted(ends=[None, None], last=4)
    monkeypatch.setattr(reading, "monotonic_ms", lambda: consumer.now_ms)
    health = SimpleNamespace(error=None, waits_for=SimpleNamespace(value="records"))
    monkeypatch.setattr(consumer, "health", lambda: health, raising=False)
    with pytest.raises(RequestTimedOut, match="no data arrived from offset 4 onward in 100 ms"):
        consumer.read(PartitionRange(ORDERS, 0, 8), fails_on_loss=False)


@pytest.mark.parametrize(
    ("first", "end", "sought"),
    [
        (0, 10, 5),  # the offset is back
        (0, 5, 8),  # the partition ends there
        (7, 10, 7),
        (9, 10, 8),
    ],
)
def test_where_to_go_on(first: int, end: int, sought: int) -> None:
    """Reading continues at the first offset that exists, but never after the end of the range."""
    consumer = Scripted(first, [end], refused=5)
    consumer.read(PartitionRange(ORDERS, 3, 8), fails_on_loss=False)
    assert consumer.sought == [sought]


class Moving(Scripted):
    """A partition whose first offset advances as soon as it has been read."""

    def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        found = super().beginning_offsets(partitions)
        if not self.sought:
            self.refused, self.first = self.first, self.first + 1
        return found


def test_a_beginning_that_moves_meanwhile() -> None:
    """A query that may begin later loses nothing at its start, but can lose records after that."""
    Scripted(7, refused=3).read(PartitionRange(ORDERS, 3, 8, may_begin_later=True))
    Moving(5, refused=3).read(PartitionRange(ORDERS, 3, 8, may_begin_later=True))
    with pytest.raises(LocalProtocolError, match="orders-0: offsets 5 to 6 are gone; the partition begins at 7"):
        Scripted(7, refused=5).read(PartitionRange(ORDERS, 3, 8, may_begin_later=True))
