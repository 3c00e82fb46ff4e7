"""Raw batches become the rows of Spark's Kafka connector, however many are in a value and however damaged.

Method: batches of every compression and format are built, decoded without Spark, and compared row by row with what went
in; then one thing at a time is damaged.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from tests.vectors import read_vectors

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark import arrow  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.arrow import SCHEMA, SCHEMA_WITH_HEADERS, decoded  # noqa: E402 - it needs pyarrow

TIME_MS = 1_700_000_000_123
TIME = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=TIME_MS)

#: key, value
RECORDS = [
    (b"k", b"v"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    (None, None),
    (b"long" * 9, b"\xff" * 300),
]


def batch(
    base_offset: int = 0, compression: Compression = Compression.NONE, *, time_ms: int = TIME_MS, **options: Any
) -> bytes:
    builder = BatchBuilder(compression=compression, base_offset=base_offset, **options)
    for number, (key, value) in enumerate(RECORDS):
        builder.append(time_ms + number, key, value)
    return builder.build()


def rows(*values: bytes | None, topic: str | None = "orders", partition: int | None = 3) -> list[Any]:
    """Return the input of a task, each value in a row."""
    count = len(values)
    columns = [
        pyarrow.array(values, pyarrow.binary()),
        pyarrow.array([topic] * count, pyarrow.string()),
        pyarrow.array([partition] * count, pyarrow.int32()),
    ]
    return [pyarrow.RecordBatch.from_arrays(columns, ["batches", "topic", "partition"])]


def table(*values: bytes | None, **options: Any) -> list[dict[str, Any]]:
    """Return the decoded rows."""
    return [row for found in decoded(iter(rows(*values)), **options) for row in found.to_pylist()]


def expected(base_offset: int = 0, timestamp_type: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": value,
            "topic": "orders",
            "partition": 3,
            "offset": base_offset + number,
            "timestamp": TIME + timedelta(milliseconds=number),
            "timestampType": timestamp_type,
        }
        for number, (key, value) in enumerate(RECORDS)
    ]


@pytest.mark.parametrize("compression", Compression)
def test_rows(compression: Compression) -> None:
    assert table(batch(7, compression)) == expected(7)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int, compression: Compression) -> None:
    builder = MessageSetBuilder(magic, compression, base_offset=5)
    for number, (key, value) in enumerate(RECORDS):
        builder.append(TIME_MS + number, key, value)
    found = table(builder.build())
    if magic == 0:  # the connector shows a timestamp of -1 and no type, as Kafka's consumer gives them
        assert {(row["timestamp"].timestamp(), row["timestampType"]) for row in found} == {(-0.001, -1)}
    else:
        assert found == expected(5)
    assert [(row["key"], row["value"], row["offset"]) for row in found] == [
        (key, value, 5 + number) for number, (key, value) in enumerate(RECORDS)
    ]


def test_log_append_time() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS)
    builder.append(1, None, b"v")
    (row,) = table(builder.build())
    assert (row["timestamp"], row["timestampType"]) == (TIME, 1)


def test_schema_is_the_connectors() -> None:
    (found,) = decoded(iter(rows(batch())))
    assert found.schema == SCHEMA
    (found,) = decoded(iter(rows(batch())), headers=True)
    assert found.schema == SCHEMA_WITH_HEADERS
    assert SCHEMA.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_headers(compression: Compression) -> None:
    builder = BatchBuilder(compression=compression)
    builder.append(TIME_MS, None, b"a", [("name", b"content"), ("name", None), ("", b"")])
    builder.append(TIME_MS, None, b"b")
    assert [row["headers"] for row in table(builder.build(), headers=True)] == [
        [{"key": "name", "value": b"content"}, {"key": "name", "value": None}, {"key": "", "value": b""}],
        None,
    ]


@pytest.mark.parametrize(
    ("values", "offsets"),
    [
        ([], []),
        ([None], []),
        ([b""], []),
        ([batch(), None, batch(6)], range(12)),
        ([batch() + batch(6) + batch(12)], range(18)),
        ([batch() + batch(6, is_control=True, producer_id=1, producer_epoch=0, base_sequence=0)], range(6)),
    ],
    ids=["no rows", "null", "empty", "three rows", "in a row", "control batch"],
)
def test_values(values: list[bytes | None], offsets: range | list[int]) -> None:
    assert [row["offset"] for row in table(*values)] == list(offsets)


@pytest.mark.parametrize(("topic", "partition"), [(None, None), ("orders", None), (None, 1)])
def test_topic_and_partition_are_carried(topic: str | None, partition: int | None) -> None:
    (found,) = decoded(iter(rows(batch(), topic=topic, partition=partition)))
    assert found["topic"].to_pylist() == [topic] * len(RECORDS)
    assert found["partition"].to_pylist() == [partition] * len(RECORDS)


def test_batches_are_joined_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_GROUP_BATCHES_MAX", 1)
    single = next(decoded(iter(rows(batch())))).nbytes
    monkeypatch.setattr(arrow, "ARROW_BATCH_BYTES", 3 * single)
    found = list(decoded(iter(rows(*[batch(6 * number) for number in range(8)]))))
    assert [each.num_rows for each in found] == [18, 18, 12]
    assert [row for each in found for row in each["offset"].to_pylist()] == list(range(48))
    monkeypatch.setattr(arrow, "ARROW_BATCH_BYTES", 1)
    assert len(list(decoded(iter(rows(batch(), batch(6)))))) == 2


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


@pytest.mark.parametrize("size", [1, 2, 16])
def test_batches_of_several_rows_are_decoded_together(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record keeps topic, partition and timestamp type of its own batch."""
    monkeypatch.setattr(arrow, "_GROUP_BATCHES_MAX", size)
    appended = batch(6, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS)
    inputs = [*rows(batch() + appended), *rows(None, appended, topic="payments", partition=None)]
    found = [
        (row["topic"], row["partition"], row["offset"], row["timestampType"])
        for each in decoded(iter(inputs))
        for row in each.to_pylist()
    ]
    assert found == [
        *(("orders", 3, offset, offset // 6) for offset in range(12)),
        *(("payments", None, offset, 1) for offset in range(6, 12)),
    ]


FIRST, SECOND = batch(), batch(6)
DAMAGED = [
    (flip(SECOND, 100), rf"row 1 \(orders-3\), crc at byte {len(FIRST)}: checksum", [0, 12]),
    (flip(SECOND, 16), rf"row 1 \(orders-3\), magic at byte {len(FIRST) + 16}: magic 253", [0]),
    (flip(SECOND, 8), rf"row 1 \(orders-3\), batch_length at byte {len(FIRST) + 8}: ", [0]),
    (flip(SECOND, 9), rf"row 1 \(orders-3\), batch at byte {len(FIRST)}: partial batch: ", [0]),
    (batch(6, time_ms=2**61), rf"row 1 \(orders-3\), timestamp at byte {len(FIRST)}: ", [0, 12]),
]


@pytest.mark.parametrize(
    ("damaged", "message", "kept"), DAMAGED, ids=["content", "magic", "length", "long", "timestamp"]
)
def test_damage(damaged: bytes, message: str, kept: list[int]) -> None:
    """An error names the row and the position; skipping leaves out the batch, and what cannot be found after it."""
    values = [None, FIRST + damaged + batch(12), batch(18)]
    with pytest.raises(DecodeError, match=message):
        table(*values)
    found = table(*values, errors="skip")
    assert [row["offset"] for row in found[:: len(RECORDS)]] == [*kept, 18]


def test_no_flipped_bit_of_a_length_loses_a_batch() -> None:
    for bit in range(32):
        damaged = bytearray(SECOND)
        damaged[8 + bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(DecodeError, match=r"^row 0 \(orders-3\), "):
            table(FIRST + bytes(damaged) + batch(12))


@pytest.mark.parametrize("size", [1, 5, 16, 17, len(FIRST) - 1])
def test_a_partial_batch_is_damage(size: int) -> None:
    with pytest.raises(
        DecodeError,
        match=rf"^row 0 \(orders-3\), batch at byte {len(FIRST)}: partial batch: .*{size} (bytes )?are left",
    ):
        table(FIRST + FIRST[:size])


def test_row_without_topic_is_named_by_its_number() -> None:
    with pytest.raises(DecodeError, match=r"^row 0, crc at byte 0: "):
        list(decoded(iter(rows(flip(FIRST, 100), topic=None))))


#: Spark counts microseconds in 64 bits.
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def test_golden_batches() -> None:
    """Every batch that Apache Kafka wrote gives the offsets and timestamps that Apache Kafka reads from it."""
    compared = 0
    for vector in read_vectors("record_batches"):
        wanted = [
            (record["offset"], record["timestamp"])
            for found in vector.get("batches", ())
            if not found.get("is_control")
            for record in found["records"]
        ]
        if all(abs(timestamp) <= TIMESTAMP_MS_MAX for _, timestamp in wanted):
            data = bytes.fromhex(vector.get("hex", ""))
            if vector["kind"] == "partial-tail":  # a value may not end like this
                last = vector["batches"][-1]
                data = data[: last["position"] + last["size_in_bytes"]]
            found = list(decoded(iter(rows(data))))
            offsets = [offset for each in found for offset in each["offset"].to_pylist()]
            timestamps = [time // 1000 for each in found for time in each["timestamp"].cast("int64").to_pylist()]
            assert list(zip(offsets, timestamps, strict=True)) == wanted, vector["name"]
            compared += len(wanted)
    assert compared > 1000


def test_no_flipped_bit_of_the_attributes_loses_a_batch() -> None:
    """One of them makes a batch of records look like a control batch, which is not decoded."""
    for bit in range(16):
        damaged = bytearray(SECOND)
        damaged[21 + bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(DecodeError, match=r"^row 0 \(orders-3\), "):
            table(FIRST + bytes(damaged) + batch(12))
