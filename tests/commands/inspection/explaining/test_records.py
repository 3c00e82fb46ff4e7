"""Every byte of a batch is explained exactly once, from the schemas alone, and damage is reported.

Method: explain Kafka's golden record batches, and check that all bytes are covered in order, the checksums are correct,
the header fields equal Kafka's output, and there are as many records as Kafka found. Cut one batch at every byte, and
alter its bytes.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.commands.inspection.explaining import records as module
from kafkawire.commands.inspection.explaining.records import Row, bounded, cell_text, explain_format, explain_records
from kafkawire.sdk.records import BatchBuilder, Compression

FORMATS = load_record_formats(SCHEMAS)
VECTORS = SCHEMAS.parent / "conformance" / "vectors" / "record_batches.jsonl.gz"


def vectors() -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            vector = json.loads(line)
            if "hex" in vector and vector["kind"] != "partial-tail":
                yield vector


def batch(compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(compression=compression)
    builder.append(1_700_000_000_000, b"key", b"value", (("header", None),))
    builder.append(1_700_000_000_001, None, b"x" * 100, ())
    return bytes(builder.seal())


def values(rows: list[Row]) -> dict[str, str]:
    return {row.path: row.value for row in rows}


#: Header fields that Kafka's reader prints under the same names.
HEADER = ("base_offset", "batch_length", "crc", "producer_id", "producer_epoch", "base_sequence", "records_count")


def test_every_golden_batch_as_kafka_found_it() -> None:
    compared = 0
    for vector in vectors():
        data = bytes.fromhex(vector["hex"])
        rows, error = explain_records(FORMATS, data)
        assert error is None, vector["name"]
        outer = [row for row in rows if not row.region]
        assert b"".join(row.data for row in outer) == data, vector["name"]
        assert all("wrong" not in row.value for row in rows if row.path.endswith("crc")), vector["name"]
        explained = values(rows)
        for number, found in enumerate(vector["batches"]):
            if found["magic"] != FORMATS["RecordBatch"].magic:
                continue
            prefix = f"[{number}]." if number else ""
            for name in HEADER:
                assert explained[prefix + name].split()[0] == str(found[name]), (vector["name"], name)
            records = [path for path in explained if re.fullmatch(re.escape(prefix) + r"records\[\d+\]\.length", path)]
            assert len(records) == len(found["records"]), vector["name"]
            compared += 1
    assert compared


def test_rows() -> None:
    rows, error = explain_records(FORMATS, batch())
    assert error is None
    assert rows[0] == Row(0, bytes(8), "base_offset", "0")
    explained = values(rows)
    assert explained["attributes"] == "0 (compression none, timestamp_type create_time)"
    assert explained["crc"].endswith("(crc32c, right)")
    assert explained["records[0].key"] == "b'key'"
    assert explained["records[0].headers"] == "1 elements"
    assert explained["records[0].headers[0].key"] == "'header'"
    assert explained["records[0].headers[0].value"] == explained["records[1].key"] == "null"
    assert explained["records[1].value"] == "100 bytes"


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_compressed(compression: Compression) -> None:
    plain, _error = explain_records(FORMATS, batch())
    rows, error = explain_records(FORMATS, batch(compression))
    assert error is None
    name = compression.name.lower()
    assert values(rows)["records"].startswith(f"{name}, ")
    inner = [(row.path, row.value) for row in rows if row.region == name]
    assert inner == [(row.path, row.value) for row in plain if row.path.startswith("records[")]


def test_several_batches_and_a_path() -> None:
    rows, error = explain_records(FORMATS, batch() * 2, path="topics[0].records")
    assert error is None
    assert {"topics[0].records[0].crc", "topics[0].records[1].crc"} <= values(rows).keys()


def test_cut_at_every_byte() -> None:
    data = batch()
    for end in range(1, len(data)):
        rows, error = explain_records(FORMATS, data[:end])
        assert error is not None, end
        assert b"".join(row.data for row in rows) == data[: sum(len(row.data) for row in rows)]


@pytest.mark.parametrize(
    ("offset", "byte", "reason"),
    [
        (16, 7, "unknown magic 7"),
        (11, 0, "bytes are needed|extends past|left over"),
        (22, 7, "unknown compression type 7"),
        (57, 0x80, "left over"),
        (61, 0x7E, "the length says 63 bytes, but there are 22"),
    ],
)
def test_damage(offset: int, byte: int, reason: str) -> None:
    data = bytearray(batch())
    data[offset] = byte
    _rows, error = explain_records(FORMATS, bytes(data))
    assert error is not None
    assert any(text in str(error) for text in reason.split("|")), error


def test_wrong_checksum_is_shown() -> None:
    data = bytearray(batch())
    data[data.index(b"xxx")] ^= 1
    rows, error = explain_records(FORMATS, bytes(data))
    assert error is None
    assert "wrong, expected" in values(rows)["crc"]


def test_one_format() -> None:
    rows, error = explain_format(FORMATS, "ControlRecordKey", b"\0\0\0\x01rest")
    assert (error, values(rows)) == (None, {"version": "0", "type": "1"})
    assert explain_format(FORMATS, "ControlRecordKey", b"\0")[1] is not None
    assert explain_format(FORMATS, "Record", b"\xff" * 20)[1] is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        ("a'b", '"a\'b"'),
        (b"abc", "b'abc'"),
        (memoryview(b"\x00\xff"), "00ff"),
        (b"x" * 61, "61 bytes"),
        ("x" * 80, "'" + "x" * 59 + "…"),
        (None, "None"),
    ],
)
def test_value_text(value: object, text: str) -> None:
    assert cell_text(value) == text


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("headers", [0, 1_000])
def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch, compression: Compression, headers: int) -> None:
    """The limit applies to many small records and to one record with many tiny headers; no byte is missing."""
    monkeypatch.setattr(module, "ROWS_MAX", 100)
    builder = BatchBuilder(compression=compression)
    for number in range(1 if headers else 1_000):
        builder.append(1_700_000_000_000 + number, b"k", b"v", (("", b""),) * headers)
    data = bytes(builder.seal())
    for number, all_bytes in enumerate((data, data + batch())):
        rows, error = explain_records(FORMATS, all_bytes)
        assert error is None
        assert len(rows) in (101, 102)
        assert b"".join(row.data for row in rows if not row.region) == all_bytes
        left_out = [row for row in rows if row.value.endswith(" bytes not shown, because the limit is 100 rows")]
        inner = [row for row in left_out if row.region]
        assert len(inner) == (compression is not Compression.NONE)
        assert len(left_out) - len(inner) == (number if inner else 1)
        for row in left_out:
            assert row.value == f"{len(row.data)} bytes not shown, because the limit is 100 rows"


def test_one_record_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is found even if it comes after more rows than are shown."""
    monkeypatch.setattr(module, "ROWS_MAX", 100)
    builder = BatchBuilder()
    for number in range(1_000):
        builder.append(1_700_000_000_000 + number, b"k", b"%d" % number)
    rows, error = explain_records(FORMATS, bytes(builder.seal()), offset_delta=900)
    assert error is None
    assert {row.path.partition(".")[0] for row in rows if "[" in row.path} == {"records[900]"}
    assert values(rows)["records[900].value"] == "b'900'"
    assert values(rows)["records_count"] == "1000"


def test_one_format_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    data = bytes([40, 0, 0, 0, 1, 1, 0])
    rows, error = explain_format(FORMATS, "Record", data)
    assert error is None
    assert [row.data for row in rows] == [data[:1], data[1:2], data[2:3], data[3:]]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    rows = [Row(number, b"x", "", "") for number in range(3)]
    assert bounded(iter(rows[:2]), b"xx") == rows[:2]
    assert bounded(iter(rows), b"xxxx") == [
        *rows[:2],
        Row(2, b"xx", "", "2 bytes not shown, because the limit is 2 rows"),
    ]
