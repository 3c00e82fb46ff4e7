"""Records become lines of text like those of Kafka's DumpLogSegments, or JSON; every engine writes the same bytes.

Method: compare with handwritten lines; then write batches of every shape, hostile text and large values with each
engine, compare the outputs, and read JSON back.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import BatchBuilder, Compression, Record, record_batch_class
from kafkawire.sdk.records.engines import python_lines
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.shared_lines import DECODED_BYTES_MAX, HEADERS_SHOWN
from kafkawire.sdk.records.lines import RecordLines
from tests.sdk.records.conftest import AVAILABLE, ROWS, batch_of, varint

INT64_MAX = 2**63 - 1


def lines_class(engine: str) -> type[RecordLines]:
    found: Any = engines.built.RecordLines if engine == "native" and engines.built else python_lines.RecordLines
    return found  # type: ignore[no-any-return]  # the extension has no types


def written(engine: str, *batches: bytes, decode: Any = None, **options: Any) -> bytes:
    """Return the lines that one engine writes for some batches."""
    out: list[bytes] = []
    lines = lines_class(engine)(out.append, **options)
    for data in batches:
        lines.add(record_batch_class(engine)(data), b"record", b"CreateTime", decode)
    lines.flush()
    return b"".join(out)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def test_the_engine_in_use() -> None:
    assert (RecordLines is python_lines.RecordLines) == (engines.native is None)


def test_text(engine: str) -> None:
    headers = (("a", b"1"), ("b", None), ("c", b"\n"))
    data = batch_of([(5, b"k", b"v", headers), (7, None, b"", ())], producer_id=1, producer_epoch=0, base_sequence=8)
    assert written(engine, data).decode().splitlines() == [
        "| offset: 0 CreateTime: 5 keySize: 1 valueSize: 1 sequence: 8 headerKeys: [a,b,c] headerValues: [1,null,\\n] "
        "key: k payload: v",
        "| offset: 1 CreateTime: 7 keySize: -1 valueSize: 0 sequence: 9 headerKeys: [] payload: ",
    ]
    assert written(engine, data, with_content=False).decode().splitlines() == [
        "| offset: 0 CreateTime: 5 keySize: 1 valueSize: 1 sequence: 8 headerKeys: [a,b,c]",
        "| offset: 1 CreateTime: 7 keySize: -1 valueSize: 0 sequence: 9 headerKeys: []",
    ]


def test_json(engine: str) -> None:
    headers = (("a", b"1"), ("b", None), ("c", b"\xff"))
    data = batch_of([(5, b"k\x80", b'"\\\n\x7f\xc2\x85\xe2\x82\xac', headers), (7, None, b"", ())])
    first, second = written(engine, data, as_json=True).splitlines()
    assert first == (
        b'{"kind":"record","offset":0,"timestamp":5,"keySize":2,"valueSize":9,"sequence":-1,"headers":['
        b'{"key":"a","value":"1"},{"key":"b","value":null},{"key":"c","valueBase64":"/w=="}],"keyBase64":"a4A=",'
        b'"value":"\\"\\\\\\n\\u007f\\u0085\xe2\x82\xac"}'
    )
    assert json.loads(first)["value"] == '"\\\n\x7f\x85€'
    assert json.loads(second)["key"] is None
    shown = json.loads(written(engine, data, as_json=True, with_content=False).splitlines()[0])
    assert shown["headers"] == [{"key": "a"}, {"key": "b"}, {"key": "c"}]
    assert not {"key", "value", "keyBase64"} & set(shown)


#: Bytes that are text and bytes that are not, at the borders of Unicode's table 3-7.
PIECES = [
    *(bytes([number]) for number in range(256)),
    *(chr(code).encode() for code in (0x80, 0x9F, 0xA0, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)),
    *map(
        bytes.fromhex, ("c1bf", "e09fbf", "eda080", "f08fbfbf", "f4908080", "e282", "f09f98", "f09f", "e28228", "c220")
    ),
    b"x" * 5000,
    "€".encode() * 3000,
]


@pytest.mark.parametrize("as_json", [False, True])
def test_every_engine_shows_the_same_text(as_json: bool) -> None:
    chance = random.Random(3)
    values = [*PIECES, *(b"".join(chance.choices(PIECES[:280], k=chance.randrange(60))) for _ in range(500))]
    values += [b"a" * (65536 - cut) + piece for cut in range(4) for piece in PIECES[260:272:3]]
    data = batch_of([(0, value, value[::-1], ((value.decode(errors="ignore"), value),)) for value in values])
    first, *others = (written(engine, data, as_json=as_json) for engine in AVAILABLE)
    assert all(other == first for other in others)
    shown = first.decode()
    assert not any(c in shown for c in ("\x1b", "\x7f", "\r", "\x9b", "\0"))
    assert len(shown.splitlines()) == len(values)
    if as_json:
        for value, line in zip(values, shown.splitlines(), strict=True):
            found = json.loads(line)
            key = found["key"].encode() if "key" in found else base64.b64decode(found["keyBase64"])
            assert key == value


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("as_json", [False, True])
def test_batches_of_every_shape(as_json: bool, compression: Compression) -> None:
    data = [
        batch_of(ROWS, compression),
        batch_of(
            ROWS, compression, base_offset=INT64_MAX - 10, producer_id=9, producer_epoch=1, base_sequence=2**31 - 2
        ),
        batch_of([(INT64_MAX, b"k", b"v", ())], compression),
        batch_of(ROWS, compression, timestamp_type=1, log_append_time=77),
    ]
    first, *others = (written(engine, *data, as_json=as_json, with_gaps=True) for engine in AVAILABLE)
    assert all(other == first for other in others)
    assert len(first.splitlines()) == 3 * len(ROWS) + 1 + 1


def test_gaps_and_offsets_that_go_back(engine: str) -> None:
    out: list[bytes] = []
    lines = lines_class(engine)(out.append, with_gaps=True, with_records=False, next_offset=3)
    make = record_batch_class(engine)

    def add(base_offset: int, *offsets: int) -> None:
        builder = BatchBuilder(base_offset=base_offset)
        for offset in offsets:
            builder.append_at(offset, 0, None, b"", ())
        lines.add(make(builder.build()), b"record", b"CreateTime")

    add(3, 3, 4, 6)
    assert (lines.gaps, lines.next_offset, lines.backward) == (1, 7, None)
    add(5, 5, 6, 9)
    assert (lines.gaps, lines.next_offset, lines.backward) == (2, 10, 5)
    add(10, 10)
    assert (lines.gaps, lines.next_offset, lines.backward) == (2, 11, None)
    lines.flush()
    assert b"".join(out).splitlines() == [
        b"gap: offset 4 is followed by 6",
        b"gap: offset 6 is followed by 9",
    ]
    data = batch_of([(0, None, b"", ())], base_offset=5)
    assert written(engine, data, with_gaps=True, with_records=False, as_json=True) == (
        b'{"kind":"gap","after":-1,"next":5}\n'
    )


def test_records_before_an_offset_are_left_out(engine: str) -> None:
    data = batch_of([(0, b"%d" % number, b"", ()) for number in range(5)])
    shown = written(engine, data, from_offset=3)
    assert [line.split()[2] for line in shown.splitlines()] == [b"3", b"4"]


def test_of_many_headers_the_first_are_shown(engine: str) -> None:
    headers = [(str(number), None) for number in range(HEADERS_SHOWN + 7)]
    data = batch_of([(0, None, b"v", headers)])
    (line,) = written(engine, data).splitlines()
    assert b",999,... 7 more] headerValues: [null," in line
    found = json.loads(written(engine, data, as_json=True))
    assert (len(found["headers"]), found["headersLeftOut"]) == (HEADERS_SHOWN, 7)


def test_what_a_decoder_says_takes_the_place_of_the_content(engine: str) -> None:
    asked: list[tuple[int, bytes | None, bytes | None]] = []

    def decode(offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes, bool]:
        asked.append((offset, key, value))
        return b" said %d" % offset, offset == 0

    large = b"x" * (DECODED_BYTES_MAX + 1)
    data = batch_of([(0, b"k", b"v", ()), (0, None, b"w", ()), (0, None, large, ())])
    first, second, third = written(engine, data, decode=decode).splitlines()
    assert first.endswith(b"headerKeys: [] said 0")
    assert second.endswith(b"headerKeys: [] said 1 payload: w")
    assert third.endswith(b"headerKeys: [] payload: " + large)
    assert asked == [(0, b"k", b"v"), (1, None, b"w")]
    first, *_ = written(engine, data, decode=decode, with_content=False).splitlines()
    assert first.endswith(b"said 0")


def test_old_records(engine: str) -> None:
    out: list[bytes] = []
    lines = lines_class(engine)(out.append)
    lines.add_record(Record(4, 9, b"k", None), b"record", b"CreateTime", b" isValid: true")
    lines.add_record(Record(6, 9, None, b"\x00"), b"record", b"NoTimestampType", b"", lambda *_: (b" said", True))
    lines.put(b"end\n")
    lines.flush()
    assert b"".join(out).splitlines() == [
        b"| offset: 4 CreateTime: 9 keySize: 1 valueSize: -1 isValid: true key: k",
        b"| offset: 6 NoTimestampType: 9 keySize: -1 valueSize: 1 said",
        b"end",
    ]
    assert (lines.gaps, lines.next_offset) == (2, 7)


COUNT_AT = 57
HEADER_BYTES = 61
#: The length of a batch that consists only of a header.
LEFT = struct.pack(">i", HEADER_BYTES - 12)


@pytest.mark.parametrize(
    ("damage", "text", "lines"),
    [
        (lambda data: changed(data, COUNT_AT, struct.pack(">i", 4)), "records[3] at byte 0: it is cut", 3),
        (lambda data: changed(data, COUNT_AT, struct.pack(">i", 2)), "bytes follow the last of 2 records", 2),
        (lambda data: changed(data, COUNT_AT, struct.pack(">i", 0)), "bytes follow the last of 0 records", 0),
        (lambda data: changed(data, COUNT_AT, struct.pack(">i", -1)), "records_count", 0),
        (lambda data: changed(data, COUNT_AT, struct.pack(">i", 2**31 - 1)), "records_count", 0),
        (lambda data: changed(data, HEADER_BYTES, b"\x03"), "records[0] at byte 0: it is cut", 0),
        (lambda data: changed(data, len(data) - 1, b"\x02"), "records[2] at byte 0: it is cut", 2),
    ],
)
def test_damage(damage: Callable[[bytes], bytes], text: str, lines: int) -> None:
    data = damage(batch_of([(0, b"key", b"value", ())] * 3))
    for engine in AVAILABLE:
        out: list[bytes] = []
        writer = lines_class(engine)(out.append)
        with pytest.raises(DecodeError) as caught:
            writer.add(record_batch_class(engine)(data), b"record", b"CreateTime")
        writer.flush()
        assert text in str(caught.value)
        assert len(b"".join(out).splitlines()) == lines


def test_a_batch_without_records() -> None:
    """Compaction keeps the header of a producer's last batch."""
    for engine in AVAILABLE:
        batch = record_batch_class(engine)(
            changed(changed(batch_of([(0, b"k", b"v", ())])[:HEADER_BYTES], 8, LEFT), COUNT_AT, bytes(4))
        )
        assert lines_class(engine)(lambda _: None).add(batch, b"record", b"CreateTime") == 0


def test_each_cut_and_each_changed_byte_is_the_same_on_every_engine() -> None:
    whole = batch_of([(5, b"key", b"value", (("name", b"content"), ("n", None))), (6, None, b"x" * 70, ())])
    for at in range(HEADER_BYTES, len(whole)):
        for byte in (0, 0x80, 0xFF, whole[at] ^ 2):
            data = changed(whole, at, bytes([byte]))
            found = {outcome(engine, data) for engine in AVAILABLE if engine != "construct"}
            assert len(found) == 1, (at, byte, found)


def outcome(engine: str, data: bytes) -> tuple[bytes, str]:
    out: list[bytes] = []
    lines = lines_class(engine)(out.append)
    try:
        lines.add(record_batch_class(engine)(data), b"record", b"CreateTime")
        error = ""
    except DecodeError as caught:
        error = str(caught)
    lines.flush()
    return b"".join(out), error


def test_headers_that_are_not_shown_take_no_memory(engine: str) -> None:
    """The record has 140,000 headers without a name or content; as objects, they would take 14 MB."""
    count = 140_000
    body = b"\0\0\0\0\0" + varint(count) + bytes(2 * count)
    payload = varint(len(body)) + body
    header = bytearray(batch_of([(0, None, b"", ())])[:HEADER_BYTES])
    struct.pack_into(">i", header, 8, HEADER_BYTES + len(payload) - 12)
    data = bytes(header) + payload
    tracemalloc.start()
    shown = written(engine, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert b"%d more]" % (count - HEADERS_SHOWN) in shown
    assert peak < 4 * len(payload)


def test_what_write_raises_is_passed_on(engine: str) -> None:
    def closed(_: bytes) -> None:
        raise BrokenPipeError

    lines = lines_class(engine)(closed)
    lines.put(b"x")
    with pytest.raises(BrokenPipeError):
        lines.flush()
    data = batch_of([(0, None, b"x" * 300_000, ())])
    with pytest.raises(BrokenPipeError):
        lines.add(record_batch_class(engine)(data), b"record", b"CreateTime")


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_not_shown_as_it_is(engine: str, as_json: bool) -> None:
    """Among the two- and three-byte characters, those that end lines, have no width or change direction are escaped."""
    unshown = {
        *range(0x80, 0xA0),
        0x61C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
    }
    codes = {code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000}
    text = "".join(map(chr, sorted(codes)))
    data = batch_of([(0, None, text.encode(), (("\u202eh", b"\xe2\x80\xa8"),))])
    (line,) = written(engine, data, as_json=as_json).decode().splitlines()
    assert {ord(character) for character in line if character >= "\x80"} == codes - unshown
    if as_json:
        found = json.loads(line)
        assert (found["value"], found["headers"]) == (text, [{"key": "\u202eh", "value": "\u2028"}])
    else:
        assert r"headerKeys: [\xe2\x80\xaeh] headerValues: [\xe2\x80\xa8]" in line
