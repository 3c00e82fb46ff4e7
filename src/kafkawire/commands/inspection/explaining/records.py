"""Explain each byte of a record batch, using constructs generated from the schemas.

The construct engine reads the fields, and records a span for each. This module adds the end of a batch, the
decompression of its records, the check of the checksum, and the meaning of individual bits. `explain.py` calls it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kafkawire.codegen.record_formats import Bits, RecordField, RecordFormat
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.engines.construct_primitives import Span, new_context
from kafkawire.sdk.protocol.primitives import short
from kafkawire.sdk.records import Compression, crc32, crc32c, decompress
from kafkawire.sdk.records.engines.construct import form

__all__ = ["ROWS_MAX", "Row", "bounded", "cell_text", "explain_format", "explain_records", "formats_named"]

#: Maximum number of characters shown for one value, since a 1 MB value must not flood the terminal.
_VALUE_CHARACTERS = 60

#: Maximum number of rows in one explanation: a batch of 10,000 small records, or one record with 25,000 headers. A
#: record of 2 MB can have a million headers, yet compress to a few bytes.
ROWS_MAX = 100_000

_CHECKSUMS = {"crc32": crc32, "crc32c": crc32c}


class Row(NamedTuple):
    """One line of an explanation.

    Attributes:
        offset: where the bytes begin.
        data: the bytes.
        path: the field to which they belong, such as `topics[0].partitions[3].index`.
        value: their value, as text.
        region: the compression of decompressed data; `offset` is then relative to that data.
    """

    offset: int
    data: bytes
    path: str
    value: str
    region: str = ""


def cell_text(value: object) -> str:
    """Return a value as text with a limited length."""
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) > _VALUE_CHARACTERS:
            return f"{len(value)} bytes"
        data = bytes(value)
        return repr(data) if data.isascii() and data.decode().isprintable() else data.hex()
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"


def bounded(rows: Iterable[Row], data: bytes) -> list[Row]:
    """Return the first `ROWS_MAX` rows; if there are more, add a row for the skipped bytes.

    Args:
        rows: the rows, in order.
        data: the bytes of the rows without a region.
    """
    found = list(islice(rows, ROWS_MAX + 1))
    if len(found) <= ROWS_MAX:
        return found
    found.pop()
    end = max((row.offset + len(row.data) for row in found if not row.region), default=0)
    return [*found, _left_out(data, end)]


def _left_out(data: bytes, start: int, region: str = "") -> Row:
    return Row(
        start, data[start:], "", f"{len(data) - start} bytes not shown, because the limit is {ROWS_MAX} rows", region
    )


#: The usual name for a sequence of messages in the formats that preceded record batches.
_OTHER_NAMES = {"MessageSet": ("MessageV0", "MessageV1")}


def formats_named(formats: Mapping[str, RecordFormat], name: str, magic: int | None = None) -> list[RecordFormat]:
    """Return the record formats with a given name; empty if there are none.

    Args:
        formats: all formats.
        name: the name of a format, or `MessageSet`.
        magic: the required magic, for formats that have one; None for any.

    Raises:
        ValueError: the formats with this name have other magic numbers.
    """
    named = [formats[each] for each in _OTHER_NAMES.get(name, (name,)) if each in formats]
    fitting = [each for each in named if magic in (None, each.magic) or each.magic is None]
    if named and not fitting:
        raise ValueError(f"{name} has magic {' and '.join(str(each.magic) for each in named)}, not {magic}")
    return fitting


class _Enough(Exception):
    """Raised to stop reading once there are `ROWS_MAX` rows."""


class _Spans(list[Span]):
    """Collects the spans that a construct reads, and stops reading when there is no room for more."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def append(self, span: Span) -> None:
        if len(self) >= self._room:
            raise _Enough
        super().append(span)


def explain_records(
    formats: Mapping[str, RecordFormat], data: bytes, path: str = "", offset_delta: int | None = None
) -> tuple[list[Row], DecodeError | None]:
    """Explain consecutive batches.

    Args:
        formats: the record formats (see `load_record_formats`).
        data: batches of any magic.
        path: the path of the value that contains them; empty if there is none.
        offset_delta: the offset delta of the only record to explain; None for all.

    Returns:
        The rows, and the error if the bytes are incomplete or wrong, in which case the rows end before it. There are at
        most `ROWS_MAX` rows, plus rows for bytes that were skipped.
    """
    by_magic = {known.magic: known for known in formats.values() if known.magic is not None}
    magic_at = formats["RecordBatch"].field("magic").offset or 0
    reader = _Reader(formats, data, offset_delta=offset_delta)
    position = number = 0
    try:
        while position < len(data):
            if position + magic_at >= len(data):
                raise DecodeError(f"{path}magic", position, short(magic_at + 1, len(data) - position))
            magic = data[position + magic_at]
            if magic not in by_magic:
                raise DecodeError(f"{path}magic", position + magic_at, f"unknown magic {magic}")
            position = reader.batch(by_magic[magic], position, f"{path}[{number}]" if position or path else "")
            number += 1
    except DecodeError as error:
        return reader.rows, error
    except _Enough:
        end = max(row.offset + len(row.data) for row in reader.rows if not row.region)
        if end < len(data):
            reader.rows.append(_left_out(data, end))
    return reader.rows, None


def explain_format(formats: Mapping[str, RecordFormat], name: str, data: bytes) -> tuple[list[Row], DecodeError | None]:
    """Explain bytes that are one instance of a format.

    Args:
        formats: the record formats.
        name: the format, such as `Record`.
        data: its bytes, possibly followed by more.

    Returns:
        The same as `explain_records`.
    """
    reader = _Reader(formats, data)
    try:
        reader.instance(formats[name], reader.stream, "")
    except DecodeError as error:
        return reader.rows, error
    except _Enough:
        pass  # a row reports the error
    return reader.rows, None


class _Reader:
    """Reads constructs from one buffer and turns their spans into rows.

    Args:
        formats: all formats, by name.
        data: the buffer.
        region: the compression of the buffer, if it was compressed.
        offset_delta: the offset delta of the only record that gets rows; None if all do.
    """

    def __init__(
        self, formats: Mapping[str, RecordFormat], data: bytes, region: str = "", offset_delta: int | None = None
    ) -> None:
        self._formats = formats
        self._data = data
        self._region = region
        self._offset_delta = offset_delta
        #: The buffer, for constructs to read.
        self.stream = io.BytesIO(data)
        self.rows: list[Row] = []

    def instance(
        self, known: RecordFormat, stream: io.BytesIO, path: str, base: int = 0
    ) -> tuple[Mapping[str, Any], list[Span]]:
        """Read one instance, or a batch up to its records; return its values and spans.

        Args:
            known: the format of the instance.
            stream: a stream at its beginning.
            path: the path of the instance.
            base: the position in the buffer where the stream begins.

        Raises:
            DecodeError: the bytes end early or contradict themselves.
            _Enough: there is no room for more rows.
        """
        spans = _Spans(ROWS_MAX - len(self.rows))
        # This is construct's own path notation, which begins with the operation.
        place = f"(parsing) -> {path}" if path else "(parsing)"
        try:
            values = form(known.name)._parsereport(stream, new_context(spans=spans), place)
        except _Enough:
            self._add_rows(known, spans, path, base)
            end = max((row.offset + len(row.data) for row in self.rows if row.region == self._region), default=0)
            self.rows.append(_left_out(self._data, end, self._region))
            raise
        except DecodeError as error:
            self._add_rows(known, spans, path, base)
            raise DecodeError(error.path, base + error.offset, error.reason) from None
        if self._offset_delta in (None, values.get("offset_delta", self._offset_delta)):
            self._add_rows(known, spans, path, base)
        return values, spans

    def _add_rows(self, known: RecordFormat, spans: list[Span], path: str, base: int) -> None:
        bits = {field.name: field.bits for field in known.fields}
        for span in spans:
            self.rows.append(self._row(span, base, bits.get(_below(path, span.path), ())))

    def batch(self, known: RecordFormat, start: int, path: str) -> int:
        """Read one batch or message with its content; return where it ends.

        Raises:
            DecodeError: the bytes end early or contradict themselves.
        """
        first_row = len(self.rows)
        self.stream.seek(start)
        values, spans = self.instance(known, self.stream, path)
        at = {_below(path, span.path): span.offset for span in spans}
        header_end = spans[-1].offset + spans[-1].length
        end = header_end
        for field in known.fields:
            if field.measures is not None:
                end = at[field.measures] + values[field.name]
                self._check_end(f"{path}.{field.name}".lstrip("."), at[field.measures], header_end, end)
        for field in known.fields:
            where = f"{path}.{field.name}".lstrip(".")
            if field.checksum is not None:
                self._judge(first_row, where, field, self._data[at[field.covers or ""] : end])
            codec = _compression(known, field, values)
            if codec:
                self._compressed(known, field, codec, values, header_end, end, where)
            elif field.array:
                self._elements(field, values[field.count or ""], header_end, end, where)
        return end

    def _check_end(self, path: str, start: int, header_end: int, end: int) -> None:
        if end > len(self._data):
            raise DecodeError(path, start, short(end - start, len(self._data) - start))
        if end < header_end:
            raise DecodeError(path, start, f"the header extends past the end of the batch at byte {end}")

    def _elements(self, field: RecordField, count: int, start: int, end: int, path: str) -> None:
        """Read the records of a batch, which extend to its end."""
        stream = io.BytesIO(self._data[start:end])
        for number in range(count):
            self.instance(self._formats[field.type], stream, f"{path}[{number}]", start)
        left = end - start - stream.tell()
        if left:
            raise DecodeError(path, end - left, f"{left} bytes are left over")

    def _compressed(
        self,
        known: RecordFormat,
        field: RecordField,
        codec: int,
        values: Mapping[str, Any],
        start: int,
        end: int,
        path: str,
    ) -> None:
        """Read a compressed field: its bytes, then their decompressed content."""
        if codec not in set(Compression):
            raise DecodeError(path, start, f"unknown compression type {codec}")
        name = Compression(codec).name.lower()
        packed = self._data[start:end] if field.array else values[field.name]
        content = decompress(Compression(codec), packed or b"", magic=known.magic or 0)
        text = f"{name}, {len(content)} bytes decompressed"
        if field.array:
            self.rows.append(Row(start, packed, path, text, self._region))
        else:  # the construct has read the field as bytes
            self.rows[-1] = self.rows[-1]._replace(value=text)
        inner = _Reader(self._formats, content, name, self._offset_delta)
        inner.rows = self.rows
        if field.array:
            inner._elements(field, values[field.count or ""], 0, len(content), path)
            return
        position = number = 0
        while position < len(content):
            position = inner.batch(known, position, f"{path}[{number}]")
            number += 1

    def _judge(self, first_row: int, path: str, field: RecordField, covered: bytes) -> None:
        """Add to a checksum's row whether it is correct."""
        computed = _CHECKSUMS[field.checksum or ""](covered)
        for index in range(first_row, len(self.rows)):
            row = self.rows[index]
            if row.path == path:
                verdict = "right" if str(computed) == row.value else f"wrong, expected {computed}"
                self.rows[index] = row._replace(value=f"{row.value} ({field.checksum}, {verdict})")

    def _row(self, span: Span, base: int, bits: tuple[Bits, ...]) -> Row:
        start = base + span.offset
        text = "null" if span.value is None else cell_text(span.value)
        data = self._data[start : start + span.length]
        return Row(start, data, span.path, text + _bits_text(bits, span.value), self._region)


def _below(path: str, field_path: str) -> str:
    """Return the path of a field in the instance at `path`."""
    return field_path.removeprefix(path).lstrip(".")


def _compression(known: RecordFormat, field: RecordField, values: Mapping[str, Any]) -> int:
    """Return the compression type of a field; 0 for none."""
    if field.compressed_by is None:
        return 0
    owner, _, name = field.compressed_by.partition(".")
    bits = next(bits for bits in known.field(owner).bits if bits.name == name)
    return int(values[owner] & bits.mask) >> bits.low


def _bits_text(bits: tuple[Bits, ...], value: Any) -> str:
    """Return the meaning of a number's bits, omitting flags that are not set."""
    return f" ({', '.join(words)})" if (words := list(_bit_words(bits, value))) else ""


def _bit_words(bits: tuple[Bits, ...], value: Any) -> Iterator[str]:
    for item in bits:
        number = (value & item.mask) >> item.low
        if item.values:
            yield f"{item.name} {item.values[number] if number < len(item.values) else number}"
        elif number:
            yield item.name
