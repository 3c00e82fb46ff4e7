"""Raw batches become the rows of Spark's Kafka connector, however many a value holds and however damaged these are.

Method: build batches of every compression type and format, decode them without Spark, and compare them row by row with
their records; then damage one thing at a time.
"""

from __future__ import annotations

import re
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError, DecodeError, LocalProtocolError
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from kafkawire.sdk.records.control import end_transaction_marker
from tests.vectors import read_vectors

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.columns import raw_values as module  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.columns.raw_values import (  # noqa: E402 - it needs pyarrow
    DecodeOptions,
    decode_options,
    decoded,
    decoded_lists,
    raw_columns,
)
from kafkawire.sdk.spark.damage import Mode  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.schema import CONNECTOR, CORRUPT, EXTRAS, HEADERS, arrow_schema  # noqa: E402 - it needs pyarrow

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
    """Return a task's input, with one row for each value."""
    count = len(values)
    columns = [
        pyarrow.array(values, pyarrow.binary()),
        pyarrow.array([topic] * count, pyarrow.string()),
        pyarrow.array([partition] * count, pyarrow.int32()),
    ]
    return [pyarrow.RecordBatch.from_arrays(columns, ["batches", "topic", "partition"])]


def options(*more: str, mode: Mode = Mode.FAILFAST, **others: Any) -> DecodeOptions:
    """Return options for the connector's columns and extra ones."""
    return DecodeOptions((*CONNECTOR, *more), mode, **others)


def table(*values: bytes | None, wanted: DecodeOptions | None = None) -> list[dict[str, Any]]:
    """Return the decoded rows."""
    return [row for found in decoded(rows(*values), wanted or options()) for row in found.to_pylist()]


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
    if magic == 0:  # the connector shows a timestamp of -1 and no type, as Kafka's consumer does
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
    (found,) = decoded(rows(batch()), options())
    assert found.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    (found,) = decoded(rows(batch()), options(HEADERS, *EXTRAS, CORRUPT, mode=Mode.PERMISSIVE))
    assert found.schema == arrow_schema([*CONNECTOR, HEADERS, *EXTRAS, CORRUPT])


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_headers(compression: Compression) -> None:
    builder = BatchBuilder(compression=compression)
    builder.append(TIME_MS, None, b"a", [("name", b"content"), ("name", None), ("", b"")])
    builder.append(TIME_MS, None, b"b")
    assert [row["headers"] for row in table(builder.build(), wanted=options(HEADERS))] == [
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
    (found,) = decoded(rows(batch(), topic=topic, partition=partition), options())
    assert found["topic"].to_pylist() == [topic] * len(RECORDS)
    assert found["partition"].to_pylist() == [partition] * len(RECORDS)


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def test_batches_of_several_rows_are_decoded_together() -> None:
    """Each record keeps the topic, partition and timestamp type of its own batch."""
    appended = batch(6, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS)
    inputs = [*rows(batch() + appended), *rows(None, appended, topic="payments", partition=None)]
    (found,) = decoded(inputs, options())
    assert [(row["topic"], row["partition"], row["offset"], row["timestampType"]) for row in found.to_pylist()] == [
        *(("orders", 3, offset, offset // 6) for offset in range(12)),
        *(("payments", None, offset, 1) for offset in range(6, 12)),
    ]


FIRST, SECOND = batch(), batch(6)
DAMAGED = [
    (flip(SECOND, 100), "crc: the checksum is 0x[0-9a-f]{8}, but the content has 0x[0-9a-f]{8}"),
    (flip(SECOND, 16), "magic: magic 253 is unknown; expected 0 to 2"),
    (flip(SECOND, 8), "batch_length: the length is -16776770 bytes, but no batch or message has fewer than 14"),
    (flip(SECOND, 9), "partial batch: 16712138 bytes are needed, but 916 are left, so 16711222 are missing"),
]


@pytest.mark.parametrize(("damaged", "reason"), DAMAGED, ids=["content", "magic", "length", "long"])
def test_damage(damaged: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """Damage is reported in every mode, with its full reason, and the batches after it are read."""
    values = [None, FIRST + damaged + batch(12), batch(18)]
    with pytest.raises(DecodeError) as caught:
        table(*values)
    offset = "" if reason.startswith("magic") else ", batch of offset 6"
    assert re.fullmatch(rf"row 1 \(orders-3\){offset} at byte {len(FIRST)}: {reason}", str(caught.value))
    found = table(*values, wanted=options(mode=Mode.DROPMALFORMED))
    assert [row["offset"] for row in found[:: len(RECORDS)]] == [0, 12, 18]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert f"dropped from row 1 (orders-3): {len(SECOND)} bytes at {len(FIRST)}" in caplog.text
    assert f'dropped in total: {{"damaged": 1, "bytes": {len(SECOND)}}}' in caplog.text
    found = table(*values, wanted=options(CORRUPT, mode=Mode.PERMISSIVE))
    assert [row["offset"] for row in found if row[CORRUPT] is None][:: len(RECORDS)] == [0, 12, 18]
    (row,) = [row for row in found if row[CORRUPT] is not None]
    assert re.fullmatch(reason, row[CORRUPT].pop("reason"))
    assert row == {
        **dict.fromkeys(CONNECTOR),
        "topic": "orders",
        "partition": 3,
        CORRUPT: {"path": None, "position": len(FIRST), "size": len(SECOND)},
    }


def test_a_timestamp_that_spark_cannot_hold() -> None:
    """The record has a row without a timestamp, unless the mode is FAILFAST."""
    late = batch(6, time_ms=2**61)
    with pytest.raises(DecodeError, match=r"timestamp 2305843009213693952 of a record is outside"):
        table(FIRST + late)
    found = table(FIRST + late, wanted=options(CORRUPT, mode=Mode.PERMISSIVE))
    assert [(row["offset"], row["timestamp"] is None) for row in found if row[CORRUPT] is None] == [
        (offset, offset >= 6) for offset in range(12)
    ]
    assert len([row for row in found if row[CORRUPT] is not None]) == 6


@pytest.mark.parametrize("size", [1, 5, 16, 17, len(FIRST) - 1])
def test_a_partial_batch_is_damage(size: int) -> None:
    with pytest.raises(
        DecodeError,
        match=rf"^row 0 \(orders-3\).* at byte {len(FIRST)}: partial batch: .*{size} (bytes )?are left",
    ):
        table(FIRST + FIRST[:size])


def test_row_without_topic_is_named_by_its_number() -> None:
    with pytest.raises(DecodeError, match=r"^row 0, batch of offset 0 at byte 0: crc: "):
        list(decoded(rows(flip(FIRST, 100), topic=None), options()))


#: Spark counts microseconds in 64 bits.
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def test_golden_batches() -> None:
    """For every batch written by Apache Kafka, the offsets and timestamps are those that Apache Kafka reads from it."""
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
            if vector["kind"] == "partial-tail":  # a value must not end like this
                last = vector["batches"][-1]
                data = data[: last["position"] + last["size_in_bytes"]]
            found = list(decoded(rows(data), options()))
            offsets = [offset for each in found for offset in each["offset"].to_pylist()]
            timestamps = [time // 1000 for each in found for time in each["timestamp"].cast("int64").to_pylist()]
            assert list(zip(offsets, timestamps, strict=True)) == wanted, vector["name"]
            compared += len(wanted)
    assert compared > 1000


def test_no_flipped_bit_of_the_attributes_loses_a_batch() -> None:
    """One of these bits makes a batch of records look like a control batch, which is not decoded."""
    for bit in range(16):
        damaged = bytearray(SECOND)
        damaged[21 + bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(DecodeError, match=r"^row 0 \(orders-3\), batch of offset 6 at byte "):
            table(FIRST + bytes(damaged) + batch(12))


def transactional(base_offset: int, producer_id: int = 1, **options: Any) -> bytes:
    return batch(
        base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True, **options
    )


def marker(offset: int, is_commit: bool, producer_id: int = 1) -> bytes:
    builder = BatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )
    key, value = end_transaction_marker(is_commit, 0)
    builder.append(TIME_MS, key, value)
    return builder.build()


#: Offsets 0 to 5 and 13 to 18 are committed, 6 to 11 are aborted, and 20 to 25 are in an open transaction.
TRANSACTIONS = (
    batch(0) + transactional(6) + marker(12, is_commit=False) + transactional(13) + marker(19, True) + transactional(20)
)


def test_committed_records() -> None:
    wanted = options(is_committed_only=True)
    assert [row["offset"] for row in table(TRANSACTIONS, wanted=wanted)] == [*range(6), *range(13, 19)]
    assert [row["offset"] for row in table(TRANSACTIONS)] == [*range(12), *range(13, 19), *range(20, 26)]


def test_aborted_transactions_of_a_response() -> None:
    """Transactions that the response lists are aborted, up to their markers; all others in it are committed."""
    kind = pyarrow.list_(pyarrow.struct([("firstOffset", pyarrow.int64()), ("producerId", pyarrow.int64())]))
    for aborted, offsets in [
        ([{"producerId": 1, "firstOffset": 6}], [*range(6), *range(13, 19), *range(20, 26)]),
        ([{"producerId": 1, "firstOffset": 13}], [*range(12)]),  # no abort marker ends it
        ([{"producerId": 2, "firstOffset": 0}], [*range(12), *range(13, 19), *range(20, 26)]),
        ([], [*range(12), *range(13, 19), *range(20, 26)]),
        (None, [*range(12), *range(13, 19), *range(20, 26)]),
        ([None, {"producerId": 1, "firstOffset": 6}], [*range(6), *range(13, 19), *range(20, 26)]),
    ]:
        (raw,) = rows(TRANSACTIONS)
        table_with = raw.append_column("aborted", pyarrow.array([aborted], kind))
        (found,) = decoded([table_with], options(is_committed_only=True))
        assert found["offset"].to_pylist() == offsets, aborted
    unknown = raw.append_column("aborted", pyarrow.array([[{"producerId": 1}]], kind))
    with pytest.raises(
        LocalProtocolError,
        match=r"row 0.*expected numbers in the aborted transaction, got .*producer_id=1, first_offset=None",
    ):
        list(decoded([unknown], options(is_committed_only=True)))


def test_columns_of_other_types() -> None:
    """Columns of other types are refused with their name and type; nulls without a type are accepted."""
    assert decoded_lists(pyarrow.nulls(2), options()).to_pylist() == [None, None]
    numbers = pyarrow.array([1 << 40])
    with pytest.raises(ConfigurationError, match="column='batches int64': must be binary"):
        decoded_lists(numbers, options())
    for name, column, reason in [
        ("batches", numbers, "column='batches int64': must be binary"),
        ("batches", pyarrow.array([[b""]]), "column='batches list<item: binary>': must be binary"),
        ("partition", numbers, "column='partition int64': must be int32: .*1099511627776"),
        ("partition", pyarrow.array(["one"]), "column='partition string': must be int32: .*'one'"),
    ]:
        columns = {"batches": pyarrow.array([b""]), name: column}
        with pytest.raises(ConfigurationError, match=reason):
            raw_columns(pyarrow.RecordBatch.from_pydict(columns))
    with pytest.raises(LocalProtocolError, match=r"expected a table, as in TABLE\(SELECT .*\), not a int64"):
        raw_columns(numbers)


def test_a_damaged_marker_is_reported() -> None:
    damaged = TRANSACTIONS.replace(marker(12, False), flip(marker(12, False), 70))
    wanted = options(CORRUPT, mode=Mode.PERMISSIVE, is_committed_only=True)
    found = table(damaged, wanted=wanted)
    assert len([row for row in found if row[CORRUPT]]) == 1


def test_columns_of_batches() -> None:
    data = batch(5, Compression.LZ4) + transactional(11, producer_id=7, partition_leader_epoch=4)
    found = table(data, wanted=options(*EXTRAS))
    first, last = found[0], found[-1]
    assert [first[name] for name in EXTRAS] == [-1, -1, -1, -1, False, "lz4", 5, 0, None]
    assert [last[name] for name in EXTRAS] == [4, 7, 0, 5, True, "none", 11, len(batch(5, Compression.LZ4)), None]
    old = MessageSetBuilder(1, base_offset=3)
    old.append(TIME_MS, None, b"v")
    (row,) = table(old.build(), wanted=options(*EXTRAS))
    assert [row[name] for name in EXTRAS] == [-1, -1, -1, -1, False, "none", None, 0, None]


def test_sequences_begin_again() -> None:
    data = batch(0, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    found = table(data, wanted=options("sequence"))
    assert [row["sequence"] for row in found] == [2**31 - 2, 2**31 - 1, 0, 1, 2, 3]


def test_memory_for_a_bomb() -> None:
    """A batch with many records is returned in pieces; a batch that is too large when decompressed is refused."""
    builder = BatchBuilder(2**31 - 1, Compression.ZSTD)
    for _ in range(1_000_000):
        builder.append(TIME_MS, None, None)
    data = builder.build()
    sizes = [each.num_rows for each in decoded(rows(data), options())]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 128 * 1024
    with pytest.raises(DecodeError, match="1000000 bytes"):
        table(data, wanted=options(decompressed_bytes_max=1_000_000))


def test_large_values() -> None:
    """If Spark is configured for large types, it passes 64-bit offsets."""
    (raw,) = rows(batch(0), None, batch(6), batch(12))
    columns = [raw.column(0).cast(pyarrow.large_binary()), *raw.columns[1:]]
    large = pyarrow.RecordBatch.from_arrays(columns, raw.schema.names).slice(1)
    (found,) = decoded([large], options())
    assert found["offset"].to_pylist() == list(range(6, 18))
    lists = decoded_lists(columns[0], options())
    assert [None if each is None else len(each) for each in lists.to_pylist()] == [6, None, 6, 6]


def test_lists_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTS_BYTES_MAX", 1000)
    assert len(decoded_lists(pyarrow.array([batch(0)]), options())) == 1
    with pytest.raises(LocalProtocolError, match="the records of 2 values take more than 1000 bytes as arrays"):
        decoded_lists(pyarrow.array([batch(0), batch(6), batch(12)]), options())


def test_damage_in_many_lists_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    values = pyarrow.array([flip(batch(0), 100)] * 150)
    decoded_lists(values, options(mode=Mode.DROPMALFORMED))
    assert len(caplog.records) == 101
    assert '"damaged": 150' in caplog.messages[-1]


def test_markers_of_many_records() -> None:
    """Only the first record of a marker is read, and no record becomes an object."""
    builder = BatchBuilder(
        1 << 24, Compression.ZSTD, producer_id=1, producer_epoch=0, is_transactional=True, is_control=True
    )
    key, value = end_transaction_marker(True, 0)
    for _ in range(20_000):
        builder.append(TIME_MS, key, value)
    data = transactional(0) + builder.build()
    tracemalloc.start()
    try:
        aborted = pyarrow.array(
            [[(1, 0)]],
            pyarrow.list_(pyarrow.struct([("producerId", pyarrow.int64()), ("firstOffset", pyarrow.int64())])),
        )
        (raw,) = rows(data)
        assert len(list(decoded([raw.append_column("aborted", aborted)], options(is_committed_only=True)))) == 0
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_damaged_marker_hides_no_other() -> None:
    builder = BatchBuilder(base_offset=6, producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(TIME_MS, b"", b"")
    data = transactional(0) + builder.build() + transactional(7, producer_id=2) + marker(13, True, producer_id=2)
    found = table(data, wanted=options(CORRUPT, mode=Mode.PERMISSIVE, is_committed_only=True))
    assert [row["offset"] for row in found if row["offset"] is not None] == list(range(7, 13))
    assert [row[CORRUPT]["position"] for row in found if row[CORRUPT]] == [len(transactional(0))]


def test_rows_are_numbered_through_arrow_batches() -> None:
    with pytest.raises(DecodeError, match=r"^row 2 "):
        list(decoded([*rows(batch(), None), *rows(b"x" * 80)], options()))


def test_options_by_the_names_of_users() -> None:
    given: dict[str, Any] = {"headers": False, "extra": (), "mode": "FAILFAST", "isolation_level": "read_committed"}
    assert decode_options(**given, decompressed_bytes_max=7)[2:] == (True, 7)
    assert table(batch(0, Compression.ZSTD), wanted=decode_options(**given, decompressed_bytes_max=2**63 - 1))
    for limit in (None, "100m", 0, -1, True, 1.5, 2**63):
        with pytest.raises(ConfigurationError, match=f"decompressed_bytes_max={limit!r}: expected 1 to {2**63 - 1}"):
            decode_options(**given, decompressed_bytes_max=limit)  # type: ignore[arg-type]  # users may pass it
