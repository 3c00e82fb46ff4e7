"""The fuzzer's targets for record sets: reading them, and accepting them from a producer like a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BATCH_LENGTH_AT,
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_ATTRIBUTES_AT,
    MESSAGE_V0_CRC_AT,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MAGIC,
    MESSAGE_V1_HEADER_BYTES,
    Compression,
)
from kafkawire.sdk.records import Batch, compress, crc32c, decompress, walk
from kafkawire.sdk.records.engines import python_batch
from kafkawire.sdk.records.engines import selection as records_engine
from kafkawire.sdk.records.produced import InvalidBatch, ProduceLimits, check_batch
from tools.fuzz_cases import Case, engines_of, vectors
from tools.mutation import mutate

__all__ = ["check_produced", "check_records", "damage_records", "produced_inputs", "record_inputs"]

#: Maximum size in bytes of a batch's decompressed records in these checks, which vectors do not reach, but bombs
#: exceed.
DECOMPRESSED_BYTES_MAX = 1 << 20


def record_inputs() -> list[Case]:
    """Return the golden record sets, and the damaged ones among the vectors."""
    sets = [*vectors("record_batches"), *(each for each in vectors("corrupt") if each["target"] == "records")]
    return [Case("checked", bytes.fromhex(vector["hex"])) for vector in sets if "hex" in vector]


def damage_records(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged record set, usually with recomputed checksums, which do not reveal the damage."""
    data, other = random.choice(inputs).data, random.choice(inputs).data
    label = random.choice(("checked", "checked", "unchecked"))
    if random.random() < 0.1:
        return Case(label, mutate(random, data, other))
    if random.random() < 0.4:
        return Case(label, _resealed(mutate(random, data, other)))
    content = _first_content(data)
    if content is None:
        return Case(label, _resealed(mutate(random, data, other)))
    damaged = mutate(random, content.plain, other)
    compression = random.choice((content.compression, *Compression))
    if random.random() < 0.2:
        return Case(label, content.in_batch(mutate(random, content.compressed(damaged, compression)), compression))
    return Case(label, content.in_batch(content.compressed(damaged, compression), compression))


def check_records(case: Case) -> str | None:
    """Walk with every engine; all must find equal batches with equal records, or equal errors at the same positions."""
    engines = engines_of(case, records_engine.native)
    answers = [_walked(case, engine) for engine in engines]
    for engine, answer in zip(engines[1:], answers[1:], strict=True):
        for number, (left, right) in enumerate(zip_longest(answers[0], answer)):
            if left != right:
                return f"step {number}: {engines[0]} gives {left!r}, but {engine} gives {right!r}"
    return None


def _walked(case: Case, engine: str) -> list[tuple[Any, ...]]:
    """Return the result of a walk: the header and records of each batch, or the position of an error."""
    found: list[tuple[Any, ...]] = []
    try:
        for batch in walk(case.data, case.label == "checked", limit=DECOMPRESSED_BYTES_MAX, engine=engine):
            found.append(tuple(_answer(partial(getattr, batch, name)) for name in _BATCH_ATTRIBUTES))
            records, views, rows = _answer(batch.records), list(_viewed(batch)), _answer(partial(_rows, batch))
            found += [("records", records), ("views", views), ("columns", rows)]
            if isinstance(records, list):
                if views != records:
                    raise AssertionError(f"the views are {views!r}, but the records are {records!r}")
                if rows != [(each.offset, each.timestamp_ms, each.key, each.value) for each in records]:
                    raise AssertionError(f"the columns hold {rows!r}, but the records are {records!r}")
    except DecodeError as error:
        found.append(("error", error.path.split(".")[0], error.offset))
    except Exception as error:
        error.add_note(f"walking on {engine}")
        raise
    return found


#: Attributes that batches of all magics have.
_BATCH_ATTRIBUTES = (
    "position", "size_in_bytes", "magic", "crc", "attributes", "base_offset", "last_offset", "next_offset",
    "max_timestamp", "compression", "timestamp_type", "producer_id", "producer_epoch", "base_sequence",
    "last_sequence", "is_transactional", "is_control", "delete_horizon_ms", "partition_leader_epoch",
    "records_count",
)  # fmt: skip


def _answer(ask: Callable[[], Any]) -> Any:
    """Return a value, or the path and offset of the error. Only the construct engine names the field in a record."""
    try:
        return ask()
    except DecodeError as error:
        return error.path.split(".")[0], error.offset


def _rows(batch: Batch) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return the columns of a batch as rows."""
    columns = batch.columns()
    numbers = memoryview(columns.offsets).cast("q"), memoryview(columns.timestamps_ms).cast("q")
    contents = ([column.at(index) for index in range(columns.count)] for column in (columns.keys, columns.values))
    return list(zip(*numbers, *contents, strict=True))


def _viewed(batch: Batch) -> Iterator[object]:
    """Yield the records in order, followed by the path and offset of the error if there is one."""
    try:
        yield from batch.views()
    except DecodeError as error:
        yield error.path.split(".")[0], error.offset


class _Content(NamedTuple):
    """The decompressed records of a batch or a wrapper, and the header before them."""

    header: bytes
    magic: int
    compression: Compression
    plain: bytes

    def compressed(self, plain: bytes, compression: Compression) -> bytes:
        """Return other records in the compressed form that a batch contains."""
        return compress(compression, plain, magic=self.magic)

    def in_batch(self, content: bytes, compression: Compression) -> bytes:
        """Return a batch with other content and a matching checksum."""
        size = b"" if self.magic == BATCH_MAGIC else len(content).to_bytes(4, "big")
        batch = bytearray(self.header + size + content)
        attributes_at = BATCH_ATTRIBUTES_AT + 1 if self.magic == BATCH_MAGIC else MESSAGE_V0_ATTRIBUTES_AT
        batch[attributes_at] = batch[attributes_at] & ~BATCH_COMPRESSION_MASK | compression
        length = len(batch) - BATCH_BATCH_LENGTH_COUNTS_FROM
        batch[BATCH_BATCH_LENGTH_AT : BATCH_BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big")
        return _resealed(bytes(batch))


def _first_content(data: bytes) -> _Content | None:
    """Return the content of the first batch or wrapper; None if it cannot be read."""
    try:
        batch = next(walk(data, check_crc=False, engine="python"), None)
        if isinstance(batch, python_batch.RecordBatch):
            return _Content(data[:BATCH_HEADER_BYTES], batch.magic, batch.compression, bytes(batch.payload()))
        if batch is None or batch.compression == Compression.NONE:
            return None
        # A wrapper has no key; its header ends with the key's size, and the size of the value follows.
        header_bytes = 4 + (MESSAGE_V0_HEADER_BYTES if batch.magic == MESSAGE_V0_MAGIC else MESSAGE_V1_HEADER_BYTES)
        value = bytes(batch.data[header_bytes + 4 :])
        plain = decompress(batch.compression, value, DECOMPRESSED_BYTES_MAX, batch.magic)
        return _Content(data[:header_bytes], batch.magic, batch.compression, plain)
    except DecodeError:
        return None


def _resealed(data: bytes) -> bytes:
    """Return a record set with correct checksums in all complete batches and outer messages."""
    sealed = bytearray(data)
    position = 0
    while position + BATCH_HEADER_BYTES <= len(sealed):
        size_at = position + BATCH_BATCH_LENGTH_AT
        end = position + BATCH_BATCH_LENGTH_COUNTS_FROM + int.from_bytes(sealed[size_at : size_at + 4], "big")
        if sealed[position + BATCH_MAGIC_AT] == BATCH_MAGIC:
            covered, at, checksum = BATCH_CRC_COVERS_FROM, BATCH_CRC_AT, crc32c
        else:
            covered, at, checksum = MESSAGE_V0_CRC_COVERS_FROM, MESSAGE_V0_CRC_AT, crc32
        if not position + covered <= end <= len(sealed):
            break
        sealed[position + at : position + at + 4] = checksum(bytes(sealed[position + covered : end])).to_bytes(4, "big")
        position = end
    return bytes(sealed)


# --- records of a producer --------------------------------------------------------------------------------------------

#: Topic limits that most of the vectors satisfy.
_LIMITS = ProduceLimits(1 << 20, needs_keys=False, is_append_time=True, before_max_ms=0, after_max_ms=0)


def produced_inputs() -> list[Case]:
    """Return the golden record batches as separate cases, with the base offset that producers use."""
    cases = []
    for each in record_inputs():
        with suppress(DecodeError):
            for batch in walk(each.data, engine="python"):
                if batch.magic == BATCH_MAGIC:
                    data = each.data[batch.position : batch.position + batch.size_in_bytes]
                    cases.append(Case("produced", bytes(BATCH_BATCH_LENGTH_AT) + data[BATCH_BATCH_LENGTH_AT:]))
    return cases


def check_produced(case: Case) -> str | None:
    """Check batches like the broker; all engines must agree, and accepted batches must be readable."""
    names = engines_of(case, records_engine.native, with_construct=False)
    answers = [_checked(case.data, name) for name in names]
    for name, answer in zip(names[1:], answers[1:], strict=True):
        if answer != answers[0]:
            return f"{names[0]} gives {answers[0]!r}, but {name} gives {answer!r}"
    if "refused" in answers[0]:
        return None
    size_bytes, *_, records_count, _ = answers[0]
    read = sum(len(batch.records()) for batch in walk(case.data[:size_bytes]))
    return None if read == records_count else f"{records_count} records passed, but {read} can be read"


def _checked(data: bytes, engine: str) -> tuple[Any, ...]:
    """Return the header of the batch that passed, or the error returned to the producer."""
    try:
        return tuple(check_batch(data, _LIMITS, 0, engine=engine))
    except InvalidBatch as error:
        return "refused", error.code, str(error), error.record_errors
    except BrokerError as error:
        return "refused", error.code, str(error)
