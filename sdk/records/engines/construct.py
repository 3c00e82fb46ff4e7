"""A declarative description of records and batches, used as an engine.

The description is built from `FORMATS`, which is generated from `schemas/records/`: each field of a schema becomes one
construct. This engine is slow but simple; tests compare the other engines with it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any, BinaryIO

from construct import Construct, Container

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.engines.construct_primitives import Leaf, Number, dotted, left, new_context, take
from kafkawire.sdk.protocol.primitives import FIXED, MALFORMED_UTF8, Refused
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_TIMESTAMP_TYPE_MASK,
    FORMATS,
    FormatField,
)
from kafkawire.sdk.records.engines import python_batch
from kafkawire.sdk.records.engines.python_record import Headers
from kafkawire.sdk.records.java_integers import int64, sequence_after
from kafkawire.sdk.records.record import Record

__all__ = ["ConstructBatch", "Count", "Counted", "Counter", "Form", "Sized", "Zigzag", "form"]

#: The number of bits in each kind of varint, keyed by name.
_VARINTS = {"varint": 32, "varlong": 64}


class Zigzag(Leaf):
    """A signed number, seven bits per byte, lowest first; the sign is the lowest bit.

    Args:
        bits: 32 or 64; excess bits are dropped.
    """

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def read(self, stream: BinaryIO, context: Container) -> int:
        value = 0
        for shift in range(0, self.bits, 7):
            (byte,) = take(stream, 1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value %= 1 << self.bits
                return (value >> 1) ^ -(value & 1)
        raise Refused(f"the number has more than {-(-self.bits // 7)} bytes")


class Sized(Leaf):
    """A length followed by bytes or a string.

    Args:
        length: the type of the length.
        nullable: whether a length below 0 stands for null.
        text: whether the bytes are UTF-8.
    """

    def __init__(self, length: Leaf, nullable: bool, text: bool) -> None:
        super().__init__()
        self.length, self.nullable, self.text = length, nullable, text

    def read(self, stream: BinaryIO, context: Container) -> bytes | str | None:
        size = self.length.read(stream, context)
        if size < 0:
            if self.nullable:
                return None
            raise Refused(f"the length is {size}, but the field cannot be null")
        content = take(stream, size)
        return content.decode("utf-8", MALFORMED_UTF8) if self.text else content


class Count(int):
    """A number of elements; its `repr` says so."""

    def __repr__(self) -> str:
        return f"{int(self)} elements"


class Counter(Leaf):
    """The count that precedes elements.

    Args:
        number: the type of the count.
    """

    def __init__(self, number: Leaf) -> None:
        super().__init__()
        self.number = number

    def read(self, stream: BinaryIO, context: Container) -> Count:
        return Count(self.number.read(stream, context))


class Counted(Construct):
    """A count followed by the elements; parsed to a tuple."""

    def __init__(self, count: Leaf, element: Construct) -> None:
        super().__init__()
        self.count, self.element = Counter(count), element

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> tuple[Any, ...]:
        count = self.count._parsereport(stream, context, path)
        left_bytes = left(stream)
        # Checked before the loop: a count can be far larger than any input.
        if not 0 <= count <= left_bytes:
            raise DecodeError(dotted(path), stream.tell(), f"{int(count)} elements do not fit into {left_bytes} bytes")
        return tuple(self.element._parsereport(stream, context, f"{path}[{index}]") for index in range(count))


class Form(Construct):
    """The fields of a format in order; parsed to a container.

    Args:
        fields: the fields and their constructs.
        is_whole: whether these are all the fields, in which case a length can be compared with the bytes that it
            counts.
    """

    def __init__(self, fields: list[tuple[FormatField, Construct]], is_whole: bool) -> None:
        super().__init__()
        self.fields, self.is_whole = fields, is_whole

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Container:
        values = Container()
        starts: dict[str, int] = {}
        for field, construct in self.fields:
            starts[field.name] = stream.tell()
            values[field.name] = construct._parsereport(stream, context, f"{path} -> {field.name}")
        for field, _ in self.fields:
            if self.is_whole and field.measures is not None:
                size = stream.tell() - starts[field.measures]
                if values[field.name] != size:
                    raise DecodeError(
                        dotted(f"{path} -> {field.name}"),
                        starts[field.name],
                        f"the length says {values[field.name]} bytes, but there are {size}",
                    )
        return values


@cache
def form(name: str) -> Form:
    """Return the construct of a record format.

    Args:
        name: a name in `FORMATS`; a batch is read up to its records, which may be compressed.
    """
    fields = [field for field in FORMATS[name] if _is_leaf(field.count)]
    return Form([(field, _construct(field)) for field in fields], len(fields) == len(FORMATS[name]))


class ConstructBatch(python_batch.RecordBatch):
    """A batch whose records are read using the declarative form; all else is inherited from the Python engine."""

    __slots__ = ()

    def _records(self, topic: str, partition: int) -> Iterator[Record]:
        payload = bytes(self.checked_payload())
        append_time = self.max_timestamp if self.attributes & BATCH_TIMESTAMP_TYPE_MASK else None
        stream = io.BytesIO(payload)
        for index in range(self.records_count):
            try:
                fields = form("Record")._parsereport(stream, new_context(), f"(parsing) -> records[{index}]")
            except DecodeError:
                self._refuse(payload)
                raise
            headers: Headers = tuple((header.key, header.value) for header in fields.headers)
            yield Record(
                int64(self.base_offset + fields.offset_delta),
                int64(self.base_timestamp + fields.timestamp_delta) if append_time is None else append_time,
                fields.key,
                fields.value,
                headers,
                sequence_after(self.base_sequence, fields.offset_delta) if self.base_sequence >= 0 else NO_SEQUENCE,
                topic,
                partition,
                self.timestamp_type,
            )
        if self.records_count and stream.tell() != len(payload):
            self._refuse(payload)
            raise DecodeError("records", self.position, f"{left(stream)} bytes follow the last record")

    def _refuse(self, payload: bytes) -> None:
        """Raise the Python engine's error for records that this engine refused, as the extension does."""
        for _ in python_batch.parts(payload, self.records_count, self.position):
            pass


def _construct(field: FormatField) -> Construct:
    if field.count is not None:
        return Counted(_leaf(field.count), form(field.type))
    if field.length is not None:
        return Sized(_leaf(field.length), field.nullable, field.type == "string")
    return _leaf(field.type)


@cache
def _leaf(name: str) -> Leaf:
    return Zigzag(_VARINTS[name]) if name in _VARINTS else Number(name)


def _is_leaf(name: str | None) -> bool:
    """Return whether a count directly precedes its elements; otherwise, an earlier field holds it."""
    return name is None or name in _VARINTS or name in FIXED
