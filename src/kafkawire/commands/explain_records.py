"""Say what each byte of a record batch is, from the record formats of the schemas alone.

A reader that follows `schemas/records/*.yaml` field by field: it shares nothing with the record engine but
decompression and checksums, so what it shows is what the schemas say. Called by `explain.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from kafkawire.codegen.record_formats import FIXED, Bits, RecordField, RecordFormat
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, crc32, crc32c, decompress

__all__ = ["Row", "explain_format", "explain_records", "value_text"]

#: Characters shown of one value; a value of a megabyte must not flood the terminal.
_VALUE_CHARACTERS = 60

_CHECKSUMS = {"crc32": crc32, "crc32c": crc32c}
_VARINT_BITS = {"varint": 32, "varlong": 64}


class Row(NamedTuple):
    """One line of an explanation.

    Attributes:
        offset: where the bytes begin.
        data: the bytes.
        path: the field that they belong to, as `topics[0].partitions[3].index`.
        value: what they say, as text.
        region: of what `offset` counts the bytes, where that is decompressed data.
    """

    offset: int
    data: bytes
    path: str
    value: str
    region: str = ""


def value_text(value: object) -> str:
    """Return a value as text of a bounded length."""
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) > _VALUE_CHARACTERS:
            return f"{len(value)} bytes"
        data = bytes(value)
        return repr(data) if data.isascii() and data.decode().isprintable() else data.hex()
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"


def explain_records(
    formats: Mapping[str, RecordFormat], data: bytes, path: str = ""
) -> tuple[list[Row], DecodeError | None]:
    """Explain batches that stand one behind the other.

    Args:
        formats: the record formats, see `load_record_formats`.
        data: batches of any magic.
        path: in front of every field.

    Returns:
        The rows, and the error if the bytes end or are wrong; the rows are then those before it.
    """
    by_magic = {known.magic: known for known in formats.values() if known.magic is not None}
    reader = _Reader(formats, data)
    position = number = 0
    try:
        while position < len(data):
            magic_at = formats["RecordBatch"].field("magic").offset or 0
            reader.need(position, magic_at + 1, "magic")
            magic = data[position + magic_at]
            if magic not in by_magic:
                raise DecodeError(f"{path}magic", position + magic_at, f"magic {magic} is not known")
            position = reader.read(by_magic[magic], position, f"{path}[{number}]." if position or path else "")
            number += 1
    except DecodeError as error:
        return reader.rows, error
    return reader.rows, None


def explain_format(formats: Mapping[str, RecordFormat], name: str, data: bytes) -> tuple[list[Row], DecodeError | None]:
    """Explain bytes that are one instance of a format.

    Args:
        formats: the record formats.
        name: the format, as `Record`.
        data: its bytes; more may follow.

    Returns:
        As `explain_records`.
    """
    reader = _Reader(formats, data)
    try:
        reader.read(formats[name], 0, "")
    except DecodeError as error:
        return reader.rows, error
    return reader.rows, None


@dataclass(slots=True)
class _Frame:
    """One instance of a format while it is read."""

    format: RecordFormat
    start: int
    path: str
    end: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    #: Position of the row of a checksum, and its field.
    checksum: tuple[int, RecordField] | None = None


class _Reader:
    """Reads formats out of one buffer and notes every field.

    Args:
        formats: all formats, by name.
        data: the buffer.
        region: what the buffer is, where it is not what the caller gave.
    """

    def __init__(self, formats: Mapping[str, RecordFormat], data: bytes, region: str = "") -> None:
        self._formats = formats
        self._data = data
        self._region = region
        self.rows: list[Row] = []

    def read(self, known: RecordFormat, position: int, path: str) -> int:
        """Read one instance and return where it ends.

        Raises:
            DecodeError: the bytes end early or contradict themselves.
        """
        frame = _Frame(known, position, path)
        for item in known.fields:
            self._measure(frame, item, position)
            frame.starts[item.name] = position
            position = self._field(frame, item, position)
            if frame.end is not None and position > frame.end:
                raise DecodeError(path + item.name, position, f"goes beyond the end at byte {frame.end}")
        if frame.end is not None and position != frame.end:
            raise DecodeError(path.rstrip("."), position, f"{frame.end - position} bytes left over")
        self._check(frame, position)
        return position

    def need(self, position: int, size: int, path: str) -> bytes:
        """Return `size` bytes at `position`.

        Raises:
            DecodeError: there are not so many.
        """
        if size < 0 or position + size > len(self._data):
            raise DecodeError(path, position, f"{size} bytes needed, {len(self._data) - position} left")
        return self._data[position : position + size]

    def _note(self, start: int, end: int, path: str, value: str) -> None:
        self.rows.append(Row(start, self._data[start:end], path, value, self._region))

    def _measure(self, frame: _Frame, item: RecordField, position: int) -> None:
        """Set the end of the instance where the stretch begins that a length before it counts."""
        for known in frame.format.fields:
            if known.measures == item.name and known.name in frame.numbers:
                frame.end = position + frame.numbers[known.name]
                self.need(position, frame.numbers[known.name], frame.path + known.name)

    def _field(self, frame: _Frame, item: RecordField, position: int) -> int:
        path = frame.path + item.name
        codec = self._compression(frame, item)
        if codec:
            return self._compressed(frame, item, position, codec)
        if item.array:
            return self._array(frame, item, position, path)
        if item.type in self._formats:
            return self.read(self._formats[item.type], position, f"{path}.")
        if item.length is not None:
            return self._bytes(item, position, path)
        value, end = self._number(item.type, position, path)
        frame.numbers[item.name] = value
        if item.const is not None and value != item.const:
            raise DecodeError(path, position, f"is {value}, not {item.const}")
        if item.checksum is not None:
            frame.checksum = len(self.rows), item
        self._note(position, end, path, f"{value}{_bits_text(item.bits, value)}")
        return end

    def _number(self, kind: str, position: int, path: str) -> tuple[int, int]:
        if kind in FIXED:
            form = Struct(f">{FIXED[kind]}")
            (value,) = form.unpack(self.need(position, form.size, path))
            return value, position + form.size
        raw = shift = 0
        for end in range(position + 1, position + 2 + _VARINT_BITS[kind] // 7):
            (byte,) = self.need(end - 1, 1, path)
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1), end
        raise DecodeError(path, position, f"{kind} of more than {_VARINT_BITS[kind]} bits")

    def _bytes(self, item: RecordField, position: int, path: str) -> int:
        size, start = self._number(item.length or "", position, path)
        if size < 0:
            self._note(position, start, path, "null")
            return start
        content = self.need(start, size, path)
        text = value_text(content.decode(errors="replace") if item.type == "string" else content)
        self._note(position, start + size, path, text)
        return start + size

    def _array(self, frame: _Frame, item: RecordField, position: int, path: str) -> int:
        if item.count in frame.numbers:
            count = frame.numbers[item.count]
        else:
            count, start = self._number(item.count or "", position, path)
            self._note(position, start, path, f"{count} elements")
            position = start
        for number in range(count):
            position = self.read(self._formats[item.type], position, f"{path}[{number}].")
        return position

    def _compression(self, frame: _Frame, item: RecordField) -> int:
        """Return how the field is compressed; 0 if it is not."""
        if item.compressed_by is None:
            return 0
        owner, _, name = item.compressed_by.partition(".")
        bits = next(bits for bits in frame.format.field(owner).bits if bits.name == name)
        return (frame.numbers[owner] & bits.mask) >> bits.low

    def _compressed(self, frame: _Frame, item: RecordField, position: int, codec: int) -> int:
        """Read a compressed field: its bytes as they are, then what they hold."""
        path = frame.path + item.name
        if codec not in set(Compression):
            raise DecodeError(path, position, f"compression {codec} is not known")
        start, end = position, frame.end or len(self._data)
        if item.length is not None:
            size, start = self._number(item.length, position, path)
            end = start + size
        name = Compression(codec).name.lower()
        content = decompress(Compression(codec), self.need(start, end - start, path), magic=frame.format.magic or 0)
        self._note(position, end, path, f"{name}, {len(content)} bytes when decompressed")
        inner = _Reader(self._formats, content, region=name)
        inner.rows = self.rows
        if item.array:
            last = inner._array(frame, item, 0, path)
        else:
            last = number = 0
            while last < len(content):
                last = inner.read(frame.format, last, f"{path}[{number}].")
                number += 1
        if last != len(content):
            raise DecodeError(path, last, f"{len(content) - last} decompressed bytes left over")
        return end

    def _check(self, frame: _Frame, end: int) -> None:
        """Write behind a checksum whether it is right."""
        if frame.checksum is None:
            return
        row, item = frame.checksum
        covered = self._data[frame.starts[item.covers or ""] : end]
        computed = _CHECKSUMS[item.checksum or ""](covered)
        found = frame.numbers[item.name]
        verdict = "right" if computed == found else f"wrong: it should be {computed}"
        self.rows[row] = self.rows[row]._replace(value=f"{found} ({item.checksum}, {verdict})")


def _bits_text(bits: tuple[Bits, ...], value: int) -> str:
    """Return what the bits of a number say; flags that are not set say nothing."""
    words = []
    for item in bits:
        number = (value & item.mask) >> item.low
        if item.values:
            words.append(f"{item.name} {item.values[number] if number < len(item.values) else number}")
        elif number:
            words.append(item.name)
    return f" ({', '.join(words)})" if words else ""
