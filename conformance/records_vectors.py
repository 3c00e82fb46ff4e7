"""Check the record engines against golden vectors: batches of every magic, and damaged batches.

Each check takes one vector (a line in a vector file) and an engine, and returns None or the difference. The test suite
and the conformance runner share the checks. `vectors/README.md` explains the fields of a vector.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from kafkawire.sdk.errors import DecodeError, EncodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import Compression, TimestampType
from kafkawire.sdk.records import (
    Batch,
    MessageBatch,
    MessageSetBuilder,
    Record,
    batch_builder_class,
    empty_batch,
    rewrite,
    walk,
)
from kafkawire.sdk.records.control import control_record, control_type, end_transaction_marker

__all__ = ["check_corrupt_records_vector", "check_record_batch_vector"]

Vector = dict[str, Any]

#: In a vector, larger values are replaced with their length and SHA-256.
_SHOWN_BYTES_MAX = 65536
#: The maximum number of records that a vector lists for a damaged but decodable batch.
_LISTED_RECORDS_MAX = 50

#: The kind of vectors that end in a partial batch, where Kafka's reader stops without an error.
_PARTIAL_KIND = "partial-tail"

_COMPRESSIONS = {member.name.lower(): member for member in Compression}
_TIMESTAMP_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
_TIMESTAMP_NAMES: dict[TimestampType | None, str] = {
    None: "NoTimestampType",
    **{member: name for name, member in _TIMESTAMP_TYPES.items()},
}

#: Fields of a vector's batch with the same names as attributes of a batch object.
_COMMON = ("size_in_bytes", "crc", "attributes", "max_timestamp", "last_offset", "next_offset", "base_offset", "magic")
_HEADER = (
    "batch_length",
    "partition_leader_epoch",
    "last_offset_delta",
    "base_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
    "last_sequence",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
)
#: Parameters of a vector with the same names as builder parameters.
_BUILDER = (
    "log_append_time",
    "base_offset",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "is_transactional",
    "is_control",
    "partition_leader_epoch",
    "delete_horizon_ms",
)


def check_record_batch_vector(vector: Vector, engine: str) -> str | None:
    """Decode `hex` to `batches`, and rebuild the bytes if the vector contains how they were built.

    Args:
        vector: a line in record_batches.
        engine: one of the engines.

    Returns:
        The difference, or None.
    """
    if vector["kind"] == "refused":
        try:
            data = _built(vector["params"], engine)
        except EncodeError:
            return None
        return f"built {data.hex()}, but Kafka refuses it: {vector['message']}"
    data = bytes.fromhex(vector["hex"])
    found: list[Vector] = []
    try:
        found.extend(map(_described, walk(data, engine=engine)))
    except PartialBatch as partial:  # where Kafka's reader stops
        if vector["kind"] != _PARTIAL_KIND:
            return str(partial)
    if (difference := _difference(found, vector["batches"])) is not None:
        return difference
    built = _rebuilt(vector, engine)
    if built is None:
        return None
    if vector["exact"]:
        return None if built == data else f"built {built.hex()}, but expected {vector['hex']}"
    again = [_described(batch)["records"] for batch in walk(built, engine=engine)]
    expected = [batch["records"] for batch in found]
    return None if again == expected else f"the rebuilt batches contain {again}, but expected {expected}"


def check_corrupt_records_vector(vector: Vector, engine: str) -> str | None:
    """Read damaged input; expect an error at the same stage as in Kafka, or the same records.

    This project finds and checks a batch in one step, so Kafka's two stages are treated as one.

    Args:
        vector: a line in corrupt whose target is `records`.
        engine: one of the engines.

    Returns:
        The difference, or None.
    """
    stage = "walk"
    found: list[Vector] = []
    try:
        for batch in walk(bytes.fromhex(vector["hex"]), vector["crc_checked"], engine=engine):
            stage = "header"
            described: Vector = {} if isinstance(batch, MessageBatch) else _header(batch)
            stage = "records"
            records = [_record(record, batch) for record in batch.views()]
            described |= {"records_read": len(records), "records": records[:_LISTED_RECORDS_MAX]}
            stage = "header"
            found.append(_header(batch) | described)
            stage = "walk"
    except DecodeError as error:
        if vector["outcome"] != "error" and isinstance(error, PartialBatch):  # where Kafka's reader stops
            if error.offset != vector["consumed"]:
                return f"failed with {error}, but Kafka stops at byte {vector['consumed']}"
            return _difference(found, vector["batches"])
        if vector["outcome"] != "error":
            return f"failed in stage {stage}: {error}; but Kafka decodes it"
        expected = {"next-batch": "walk", "ensure-valid": "walk"}.get(vector["stage"], vector["stage"])
        return None if stage == expected else f"{stage}: {error}; Kafka's error is in the stage {vector['stage']}"
    if vector["outcome"] == "error":
        return f"decoded {found}, but expected an error like Kafka's {vector.get('message')}"
    return _difference(found, vector["batches"])


def _described(batch: Batch) -> Vector:
    """Return a batch in the form of a vector."""
    return _header(batch) | {"position": batch.position, "records": [_record(each, batch) for each in batch.views()]}


def _header(batch: Batch) -> Vector:
    header = {name: getattr(batch, name) for name in _COMMON}
    header["compression"] = batch.compression.name.lower()
    header["timestamp_type"] = _TIMESTAMP_NAMES[batch.timestamp_type]
    if isinstance(batch, MessageBatch):
        header |= {"offset": batch.last_offset, "message_size": batch.message_size}
        if batch.timestamp_type is not None:
            header["timestamp"] = batch.max_timestamp
    else:
        header |= {name: getattr(batch, name) for name in _HEADER}
        header["base_timestamp_field"] = batch.base_timestamp
    try:
        batch.check_crc()
    except DecodeError:
        return header | {"valid": False}
    return header | {"valid": True}


def _record(record: Record, batch: Batch) -> Vector:
    described: Vector = {"offset": record.offset, "timestamp": record.timestamp_ms}
    if not isinstance(batch, MessageBatch):
        described["sequence"] = record.sequence
    for name, content in (("key", record.key), ("value", record.value)):
        if content is not None and len(content) > _SHOWN_BYTES_MAX:
            described |= {f"{name}_size": len(content), f"{name}_sha256": hashlib.sha256(content).hexdigest()}
        else:
            described[name] = _text(content)
    described["headers"] = [[name, _text(content)] for name, content in record.headers]
    if batch.is_control:
        kind = control_type(record)
        described |= {"control_version": kind.version, "control_type": kind.number, "control_type_name": kind.name}
    return described


def _difference(found: list[Vector], expected: list[Vector]) -> str | None:
    """Compare the fields that both sides have, except for the size of a record."""
    if len(found) != len(expected):
        return f"{len(found)} batches, but expected {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for name in theirs.keys() - {"records"}:
            if name in ours and ours[name] != theirs[name]:
                return f"batch {number}: {name} is {ours[name]}, but expected {theirs[name]}"
            if name not in ours:
                return f"batch {number}: {name} is not compared"
        records = [{key: record[key] for key in record.keys() - {"size"}} for record in theirs["records"]]
        for index, (record, wanted) in enumerate(zip(ours["records"], records, strict=False)):
            if record != wanted:
                return f"batch {number}: record {index} is {record}, but expected {wanted}"
        if len(ours["records"]) != len(records):
            return f"batch {number}: {len(ours['records'])} records, but expected {len(records)}"
    return None


def _rebuilt(vector: Vector, engine: str) -> bytes | None:
    """Rebuild a vector's batch; return None if the vector does not contain how it was built."""
    params: Vector = vector.get("params", {})
    kind = vector["kind"]
    if "records" in params:
        return _built(params, engine)
    if kind == "end-txn-marker":
        builder = batch_builder_class(engine)(
            base_offset=params["base_offset"],
            partition_leader_epoch=params["partition_leader_epoch"],
            producer_id=params["producer_id"],
            producer_epoch=params["producer_epoch"],
            is_transactional=True,
            is_control=True,
        )
        marker = end_transaction_marker(params["control_type"] == "COMMIT", params["coordinator_epoch"])
        builder.append(params["timestamp"], *marker)
        return builder.build()
    if kind == "raft-control":
        batch = next(walk(bytes.fromhex(vector["hex"]), engine=engine))
        return _rebuilt_control(batch, engine, params.get("control_version", 0))
    if kind == "empty":
        return empty_batch(
            base_offset=params["base_offset"],
            last_offset_delta=params["last_offset"] - params["base_offset"],
            timestamp_type=_TIMESTAMP_TYPES[params["timestamp_type"]],
            max_timestamp=params["timestamp"],
            **{name: params[name] for name in _BUILDER if name in params and name != "base_offset"},
        )
    return _compacted(params, engine) if kind == "compacted" else None


def _built(params: Vector, engine: str) -> bytes:
    compression = _COMPRESSIONS[params["compression"]]
    timestamp_type = _TIMESTAMP_TYPES[params["timestamp_type"]]
    level = params.get("compression_level")
    records = [
        (each["offset"], each["timestamp"], _content(each["key"]), _content(each["value"]), list(_headers(each)))
        for each in params["records"]
    ]
    if params["magic"] < 2:
        if params["is_transactional"] or any(headers for *_, headers in records):
            raise EncodeError("magic", "message sets cannot have headers or transactions")
        messages = MessageSetBuilder(
            params["magic"],
            compression,
            level=level,
            timestamp_type=timestamp_type,
            log_append_time=params["log_append_time"],
            base_offset=params["base_offset"],
        )
        for offset, timestamp, key, value, _ in records:
            messages.append_at(offset, timestamp, key, value)
        return messages.build()
    builder = batch_builder_class(engine)(
        2**31 - 1,
        compression,
        level=level,
        timestamp_type=timestamp_type,
        **{name: params[name] for name in _BUILDER if name in params},
    )
    for record in records:
        builder.append_at(*record)
    if "override_last_offset" in params:
        builder.last_offset_delta = params["override_last_offset"] - params["base_offset"]
    return builder.build()


def _rebuilt_control(batch: Batch, engine: str, version: int) -> bytes:
    """Decode the control records of a batch and build them again.

    Kafka defines layouts with a version above 0, but does not read them; such records are copied.
    """
    builder = batch_builder_class(engine)(
        base_offset=batch.base_offset, partition_leader_epoch=batch.partition_leader_epoch, is_control=True
    )
    for record in batch.records():
        key, value = (record.key, record.value) if version else control_record(record).encode()
        builder.append(record.timestamp_ms, key, value)
    return builder.build()


def _compacted(params: Vector, engine: str) -> bytes:
    """Filter a batch like Kafka's cleaner; remaining tombstones give the batch a delete horizon."""
    batch = next(walk(bytes.fromhex(params["input_hex"]), engine=engine))
    if isinstance(batch, MessageBatch):
        raise ValueError("a message set has no delete horizon")
    deltas = {"none": (), "even": (0, 2, 4), "last": (5,), "delete-horizon": (1, 5)}[params["retained"]]
    kept = [record for record in batch.views() if record.offset - batch.base_offset in deltas]
    has_tombstone = any(record.value is None for record in kept)
    horizon = params["compaction_time"] + params["delete_retention_ms"]
    return rewrite(batch, kept, delete_horizon_ms=horizon if has_tombstone else None)


def _headers(record: Vector) -> Iterator[tuple[str, bytes | None]]:
    for name, content in record["headers"]:
        yield name, _content(content)


def _content(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()
