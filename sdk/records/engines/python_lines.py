"""Write records as lines of text or JSON in Python, as the extension's `RecordLines` does.

The text has the format of Kafka's DumpLogSegments, with header values added. Memory does not grow with a record's size:
large values are written in pieces, and only the first headers are written.

Source: `DumpLogSegments` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_codec import read_record
from kafkawire.sdk.protocol.tables.record_formats import BATCH_TIMESTAMP_TYPE_MASK, FORMATS
from kafkawire.sdk.records.engines.python_batch import RecordBatch
from kafkawire.sdk.records.engines.python_record import Record
from kafkawire.sdk.records.engines.shared_lines import DECODED_BYTES_MAX, HEADERS_SHOWN, json_member, text_pieces
from kafkawire.sdk.records.java_integers import OFFSET_MAX, int64, sequence_after

__all__ = ["Decode", "RecordLines"]

#: Takes a record's offset, key and value; returns text for its line, and whether this text replaces key and value.
Decode = Callable[[int, bytes | None, bytes | None], tuple[bytes, bool]]

#: Lines are written once they reach this size.
_BUFFER_BYTES = 128 * 1024
#: Longer records are read without creating objects for their headers.
_LONG_RECORD_BYTES = 256 * 1024


class _Raw(NamedTuple):
    """A record as stored in the batch, with some of its headers and the total number of headers."""

    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    value: memoryview | None
    headers: list[tuple[memoryview, memoryview | None]]
    headers_count: int
    end: int


class RecordLines:
    """Writes one line for each record, and other text between the lines.

    Args:
        write: receives the lines, many at a time.
        as_json: whether to write JSON objects instead of text.
        with_records: whether to write lines for records, which are read and checked in any case.
        with_content: whether lines show key, value and the values of headers.
        with_gaps: whether to write a line for each gap in the offsets.
        next_offset: the expected first offset.
        from_offset: records before this offset get no line.
        headers_shown: the maximum number of headers shown for each record.

    Attributes:
        with_records: see above.
        next_offset: the offset after the last record.
        gaps: the number of gaps in the offsets.
        backward: in the last addition, the first offset that is not higher than the one before it; None if there is
            none.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        as_json: bool = False,
        with_records: bool = True,
        with_content: bool = True,
        with_gaps: bool = False,
        next_offset: int = 0,
        from_offset: int = 0,
        headers_shown: int = HEADERS_SHOWN,
    ) -> None:
        self.next_offset = next_offset
        self.gaps = 0
        self.backward: int | None = None
        self._write = write
        self._as_json = as_json
        self.with_records = with_records
        self._with_content = with_content
        self._with_gaps = with_gaps
        self._from_offset = from_offset
        self._headers_shown = headers_shown
        self._parts: list[bytes] = []
        self._bytes = 0

    def put(self, text: bytes) -> None:
        """Write text between the records, in order."""
        self._parts.append(text)
        self._bytes += len(text)
        if self._bytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Pass all pending lines to `write`."""
        if self._parts:
            text = b"".join(self._parts)
            self._parts, self._bytes = [], 0
            self._write(text)

    def add(self, batch: RecordBatch, kind: bytes, time: bytes, decode: Decode | None = None) -> int:
        """Write the records of a batch, and return their number.

        Args:
            batch: a batch of this class's engine.
            kind: the kind of the records in JSON.
            time: the name of their timestamps in the text.
            decode: describes keys and values (see `Decode`); not called for large ones.

        Raises:
            DecodeError: the records cannot be decompressed, or one is malformed; the records before it have been
                written.
        """
        view = memoryview(batch.checked_payload())
        self.backward = None
        at = 0
        append_time = batch.max_timestamp if batch.attributes & BATCH_TIMESTAMP_TYPE_MASK else None
        for index in range(batch.records_count):
            try:
                record = _raw_record(view, at, self._headers_shown)
            except (IndexError, ValueError):
                raise DecodeError(f"records[{index}]", batch.position, "it is cut or inconsistent") from None
            at = record.end
            offset = int64(batch.base_offset + record.offset_delta)
            self._follow(offset)
            if self.with_records and offset >= self._from_offset:
                timestamp = int64(batch.base_timestamp + record.timestamp_delta) if append_time is None else append_time
                self._begin(kind, time, offset, timestamp, record.key, record.value)
                sequence = sequence_after(batch.base_sequence, record.offset_delta)
                self._sequence_and_headers(NO_SEQUENCE if batch.base_sequence < 0 else sequence, record)
                self._content(decode, offset, record.key, record.value)
                self.put(b"}\n" if self._as_json else b"\n")
        if at != len(view):
            reason = f"{len(view) - at} bytes follow the last of {batch.records_count} records"
            raise DecodeError("records", batch.position, reason)
        return batch.records_count

    def add_record(self, record: Record, kind: bytes, time: bytes, more: bytes, decode: Decode | None = None) -> None:
        """Write a record that is not of magic 2.

        Args:
            record: the record; it has neither headers nor a sequence number.
            kind: the kind of the record in JSON.
            time: the name of its timestamp in the text.
            more: text before the content.
            decode: as for `add`.
        """
        self.backward = None
        self._follow(record.offset)
        if self.with_records and record.offset >= self._from_offset:
            key = None if record.key is None else memoryview(record.key)
            value = None if record.value is None else memoryview(record.value)
            self._begin(kind, time, record.offset, record.timestamp_ms, key, value)
            self.put(more)
            self._content(decode, record.offset, key, value)
            self.put(b"}\n" if self._as_json else b"\n")

    def _follow(self, offset: int) -> None:
        """Record whether an offset leaves a gap or goes back."""
        if offset < self.next_offset:
            if self.backward is None:
                self.backward = offset
        elif offset > self.next_offset:
            self.gaps += 1
            if self._with_gaps and offset >= self._from_offset:
                text = (
                    b'{"kind":"gap","after":%d,"next":%d}\n' if self._as_json else b"gap: offset %d is followed by %d\n"
                )
                self.put(text % (self.next_offset - 1, offset))
        if offset <= OFFSET_MAX:
            self.next_offset = offset + 1

    def _begin(
        self, kind: bytes, time: bytes, offset: int, timestamp: int, key: memoryview | None, value: memoryview | None
    ) -> None:
        sizes = -1 if key is None else len(key), -1 if value is None else len(value)
        if self._as_json:
            text = b'{"kind":"%s","offset":%d,"timestamp":%d,"keySize":%d,"valueSize":%d'
            self.put(text % (kind, offset, timestamp, *sizes))
        else:
            self.put(b"| offset: %d %s: %d keySize: %d valueSize: %d" % (offset, time, timestamp, *sizes))

    def _sequence_and_headers(self, sequence: int, record: _Raw) -> None:
        left_out = record.headers_count - len(record.headers)
        if self._as_json:
            self.put(b',"sequence":%d,"headers":[' % sequence)
            for index, (key, value) in enumerate(record.headers):
                self.put(b",{" if index else b"{")
                self._put_all(json_member(b"key", key))
                if self._with_content:
                    self.put(b",")
                    self._put_all(json_member(b"value", value))
                self.put(b"}")
            self.put(b"]")
            if left_out:
                self.put(b',"headersLeftOut":%d' % left_out)
            return
        self.put(b" sequence: %d headerKeys: [" % sequence)
        for index, (key, _) in enumerate(record.headers):
            self.put(b"," if index else b"")
            self._put_all(text_pieces(key))
        self.put(b",... %d more]" % left_out if left_out else b"]")
        if self._with_content and record.headers:
            self.put(b" headerValues: [")
            for index, (_, value) in enumerate(record.headers):
                self.put(b"," if index else b"")
                self._put_all([b"null"] if value is None else text_pieces(value))
            self.put(b"]")

    def _content(self, decode: Decode | None, offset: int, key: memoryview | None, value: memoryview | None) -> None:
        if decode is not None and len(key or b"") + len(value or b"") <= DECODED_BYTES_MAX:
            found = None if key is None else bytes(key), None if value is None else bytes(value)
            text, is_whole = decode(offset, *found)
            self.put(text)
            if is_whole:
                return
        if not self._with_content:
            return
        if self._as_json:
            for name, data in ((b"key", key), (b"value", value)):
                self.put(b",")
                self._put_all(json_member(name, data))
            return
        for name, data in ((b" key: ", key), (b" payload: ", value)):
            if data is not None:
                self.put(name)
                self._put_all(text_pieces(data))

    def _put_all(self, pieces: Iterator[bytes] | list[bytes]) -> None:
        for piece in pieces:
            self.put(piece)


def _raw_record(view: memoryview, at: int, headers_shown: int) -> _Raw:
    """Read a record; raise IndexError or ValueError if it is malformed."""
    length, start = _zigzag(view, at, 32)
    if not 0 <= length <= len(view) - start:
        raise ValueError("it ends after the data")
    if length <= _LONG_RECORD_BYTES:
        data = bytes(view[at : start + length])
        headers, key, offset_delta, timestamp_delta, value, end = read_record(data, 0)
        if end != len(data):
            raise ValueError("its parts have a different length")
        if not headers:
            contents = None if key is None else memoryview(key), None if value is None else memoryview(value)
            return _Raw(timestamp_delta, offset_delta, *contents, [], 0, at + end)
    return _walked(view, start, start + length, headers_shown)


def _walked(view: memoryview, start: int, end: int, headers_shown: int) -> _Raw:
    """Read a record field by field, as described in the table of formats."""
    numbers: dict[str, int] = {}
    contents: dict[str, memoryview | None] = {}
    headers: list[tuple[memoryview, memoryview | None]] = []
    headers_count = 0
    at = start
    view = view[:end]
    for field in FORMATS["Record"][1:]:  # after the length
        if field.array:
            headers_count, at = _zigzag(view, at, 32)
            for index in range(headers_count):
                header, at = _header(view, at)
                if index < headers_shown:
                    headers.append(header)
        elif field.type == "bytes":
            contents[field.name], at = _content(view, at)
        elif field.type == "int8":
            at += 1
        else:
            numbers[field.name], at = _zigzag(view, at, 64 if field.type == "varlong" else 32)
    if at != end or headers_count < 0:
        raise ValueError("its parts have a different length")
    key, value = contents["key"], contents["value"]
    return _Raw(numbers["timestamp_delta"], numbers["offset_delta"], key, value, headers, headers_count, end)


def _header(view: memoryview, at: int) -> tuple[tuple[memoryview, memoryview | None], int]:
    key, at = _content(view, at)
    if key is None:
        raise ValueError("a header has no name")
    value, at = _content(view, at)
    return (key, value), at


def _content(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = _zigzag(view, at, 32)
    if size > len(view) - at:
        raise ValueError("it ends after the record")
    return (None, at) if size < 0 else (view[at : at + size], at + size)


def _zigzag(view: memoryview, at: int, bits: int) -> tuple[int, int]:
    """Return the signed varint at a position and its end; excess bits are dropped, as in Java."""
    number = 0
    for shift in range(0, bits + 3, 7):
        byte = view[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= (1 << bits) - 1
            return (number >> 1) ^ -(number & 1), at
    raise ValueError(f"the number has more than {bits} bits")
