"""Check the engines' variable-length integers against golden vectors from Apache Kafka.

An engine exposes such numbers only inside a format, so the checks embed them: an unsigned number as the tag of an
    unknown field, and a zigzag number as the offset or timestamp of a record. `vectors/README.md` explains the fields.

Source: `ByteUtils` in Apache Kafka; KIP-482 (flexible versions).
"""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.primitives import MAX_TAG
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.record_codec import pack_batch_header
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
)
from kafkawire.sdk.records import Record, batch_builder_class, walk

__all__ = ["check_varint", "check_varint_read", "check_varlong"]

Vector = dict[str, Any]

_INT64_MAX = 2**63 - 1

#: A response header of version 1 up to its only tagged field: a correlation id of 0, and a count of 1.
_BEFORE_TAG = bytes(4) + b"\1"


def check_varint(vector: Vector, engine: str) -> str | None:
    """Read and write an int32 in both encodings; return the difference, or None.

    Negative tags and offset deltas are never written. `check_varlong` writes negative zigzag numbers of any size.
    """
    value = vector["value"]
    zigzag, unsigned = bytes.fromhex(vector["zigzag_hex"]), bytes.fromhex(vector["unsigned_hex"])
    if (found := _read_varint(zigzag, engine)) != value:
        return f"zigzag: read as {found}, but expected {value}"
    if (found := _read_unsigned(unsigned, engine)) != value:
        return f"unsigned: read as {found}, but expected {value}"
    if 0 <= value <= MAX_TAG:
        written = program(ResponseHeader, 1, engine).encode(ResponseHeader(unknown_tags=((value, b""),)))
        if written != (expected := _BEFORE_TAG + unsigned + b"\0"):
            return f"unsigned: written as the tag in {written.hex()}, but expected {expected.hex()}"
    return _written(value, 0, _record(offset_delta=zigzag), engine) if value >= 0 else None


def check_varlong(vector: Vector, engine: str) -> str | None:
    """Read and write a zigzag int64; return the difference, or None. No format has an unsigned int64."""
    value, zigzag = vector["value"], bytes.fromhex(vector["zigzag_hex"])
    if (found := _read_varlong(zigzag, engine)) != value:
        return f"zigzag: read as {found}, but expected {value}"
    return _written(0, value, _record(timestamp_delta=zigzag), engine)


def check_varint_read(vector: Vector, engine: str) -> str | None:
    """Read bytes that no writer produces, in each encoding; return the difference, or None."""
    data = bytes.fromhex(vector["hex"])
    for name, read in (("unsigned_varint", _read_unsigned), ("varint", _read_varint), ("varlong", _read_varlong)):
        expected = vector[name]
        # Another field follows immediately, so an engine that finds a different end fails. If Kafka refuses the bytes,
        # the engine must refuse every prefix of them.
        for end in range(len(data) + 1) if "error" in expected else [expected["consumed"]]:
            if (value := read(data[:end], engine)) != expected.get("value"):
                return f"{name} {value} of {end} bytes, but expected {expected}"
    return None


def _read_unsigned(data: bytes, engine: str) -> int | None:
    """Read the number as a tag; return None if it is refused."""
    try:
        header, _ = program(ResponseHeader, 1, engine).decode(_BEFORE_TAG + data + b"\0")
    except DecodeError:
        return None
    ((tag, _),) = header.unknown_tags
    return tag


def _read_varint(data: bytes, engine: str) -> int | None:
    record = _read(_record(offset_delta=data), engine)
    return None if record is None else record.offset


def _read_varlong(data: bytes, engine: str) -> int | None:
    record = _read(_record(timestamp_delta=data), engine)
    return None if record is None else record.timestamp_ms


def _record(timestamp_delta: bytes = b"\0", offset_delta: bytes = b"\0") -> bytes:
    """Return a record, preceded by its length, that has the given encoded numbers and no key, value or headers."""
    content = b"\0" + timestamp_delta + offset_delta + b"\1\1\0"
    return bytes([2 * len(content)]) + content


def _read(record: bytes, engine: str) -> Record | None:
    """Read a record in a batch, in which its offset and timestamp equal its deltas; return None if it is refused."""
    header = pack_batch_header(
        attributes=0,
        base_offset=0,
        base_sequence=-1,
        base_timestamp=0,
        batch_length=BATCH_HEADER_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM + len(record),
        crc=0,
        last_offset_delta=0,
        magic=BATCH_MAGIC,
        max_timestamp=0,
        partition_leader_epoch=-1,
        producer_epoch=-1,
        producer_id=-1,
        records_count=1,
    )
    (batch,) = walk(header + record, check_crc=False, engine=engine)
    try:
        (found,) = batch.records()
    except DecodeError:
        return None
    return found


def _written(offset: int, timestamp_delta: int, expected: bytes, engine: str) -> str | None:
    """Write a record, and compare it. A delete horizon sets the base of the timestamps, which are never below -1."""
    base_timestamp = min(max(0, -timestamp_delta), _INT64_MAX)
    builder = batch_builder_class(engine)(delete_horizon_ms=base_timestamp)
    builder.append_at(offset, base_timestamp + timestamp_delta, None, None)
    record = builder.build()[BATCH_HEADER_BYTES:]
    return (
        None if record == expected else f"zigzag: written as the record {record.hex()}, but expected {expected.hex()}"
    )
