"""From Apache Kafka's damaged batches, each mode reads every record that Kafka reads, and drops nothing silently.

Method: read the inputs with records from `conformance/vectors/corrupt.jsonl.gz` (batches with flipped bits, truncated
batches, and batches resealed with a valid checksum but other sizes, counts and codecs), and compare with the results of
Kafka's own reader.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from importlib.resources import files
from typing import Any
from unittest.mock import ANY

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
)

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.columns.raw_values import DecodeOptions, decoded  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.damage import Mode  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.schema import CORRUPT  # noqa: E402 - it needs pyarrow

Row = tuple[int, bytes | None, bytes | None]


def vectors() -> list[dict[str, Any]]:
    path = files("kafkawire.conformance") / "vectors" / "corrupt.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [each for each in map(json.loads, lines) if each["target"] == "records"]


VECTORS = vectors()


def read(data: bytes, mode: Mode) -> tuple[list[Row], list[tuple[int, int]]]:
    """Return the rows, and the position and the size of each damaged region."""
    columns = [pyarrow.array([data]), pyarrow.array(["t"]), pyarrow.array([0], pyarrow.int32())]
    table = pyarrow.RecordBatch.from_arrays(columns, ["batches", "topic", "partition"])
    options = DecodeOptions(("offset", "key", "value", CORRUPT), mode)
    rows, damaged = [], []
    for found in decoded([table], options):
        for row in found.to_pylist():
            damage = row.pop(CORRUPT)
            if damage is None:
                rows.append(tuple(row.values()))
            else:
                damaged.append((damage["position"], damage["size"]))
    return rows, damaged


def of_kafka(vector: dict[str, Any]) -> list[tuple[int, list[Row]]]:
    """Return, for each complete batch with data, the number of records that Kafka has read and the first of them."""
    batches = vector["batches"] if vector["outcome"] == "decoded" else vector["batches"][:-1]
    return [
        (
            batch["records_read"],
            [
                (each["offset"], *(_bytes(each.get(part, ANY)) for part in ("key", "value")))
                for each in batch["records"]
            ],
        )
        for batch in batches
        if not batch.get("is_control")
    ]


def _bytes(text: Any) -> Any:
    """Return a vector's value; vectors do not contain large values."""
    return b64decode(text) if isinstance(text, str) else text


def is_control(data: bytes) -> bool:
    has_attributes = len(data) >= BATCH_HEADER_BYTES and data[BATCH_MAGIC_AT] == BATCH_MAGIC
    return has_attributes and BATCH_HEADER.unpack_from(data)[5] & BATCH_IS_CONTROL_MASK != 0


def test_there_are_many() -> None:
    assert len(VECTORS) > 1000
    assert {vector["outcome"] for vector in VECTORS} == {"decoded", "error"}


@pytest.mark.parametrize("kind", sorted({vector["kind"] for vector in VECTORS}))
def test_in_each_mode(kind: str) -> None:
    for vector in VECTORS:
        if vector["kind"] != kind:
            continue
        data = bytes.fromhex(vector["hex"])
        rows, damaged = read(data, Mode.PERMISSIVE)
        assert read(data, Mode.DROPMALFORMED) == (rows, [])
        if damaged:
            with pytest.raises(DecodeError):
                read(data, Mode.FAILFAST)
        else:
            assert read(data, Mode.FAILFAST) == (rows, [])
        assert all(size > 0 for _, size in damaged)
        if not vector["crc_checked"] or is_control(data):  # Kafka did not check it, or its records are not wanted
            continue
        assert bool(damaged) == (vector["outcome"] == "error" or vector["consumed"] < len(data)), vector["name"]
        at = 0
        for count, first in of_kafka(vector):
            assert rows[at : at + len(first)] == first, vector["name"]
            at += count
        assert at <= len(rows), vector["name"]
        assert at == len(rows) or damaged, vector["name"]
