"""Messages of magic 0 and 1 survive a round trip, wrapped or not; wrappers follow the rules of their magic.

Method: do round trips, read hand-built wrappers that builders never write, and try every cut and flipped bit.
"""

from __future__ import annotations

import copy
import pickle
import sys
import tracemalloc
import zlib
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.records import (
    Compression,
    MessageBatch,
    MessageSetBuilder,
    TimestampType,
    compress,
    decompress,
    walk,
)
from kafkawire.sdk.records.fields import compressions

CODECS = sorted(compressions("MessageV1"))
ROWS = [(50, 5, b"key", b"value"), (51, 4, None, b""), (60, 9, b"", None)]


def message_set(magic: int, compression: Compression = Compression.NONE, rows: Any = ROWS, **options: Any) -> bytes:
    builder = MessageSetBuilder(magic, compression, base_offset=50, **options)
    for row in rows:
        builder.append_at(*row)
    return builder.build()


def test_the_partition_of_records_is_checked() -> None:
    batch = next(walk(message_set(1)))
    assert isinstance(batch, MessageBatch)
    with pytest.raises(TypeError, match="partition"):
        batch.records("t", "0")  # type: ignore[arg-type]  # must be refused
    with pytest.raises(OverflowError, match="partition"):
        batch.records("t", 2**31)
    assert [(record.topic, record.partition) for record in batch.records("t", 3)] == [("t", 3)]


def message(offset: int, magic: int, attributes: int, value: bytes | None, timestamp: int = 7) -> bytes:
    """Return one message without a key, with a valid checksum."""
    content = bytes([magic, attributes]) + (timestamp.to_bytes(8, "big") if magic else b"") + b"\xff\xff\xff\xff"
    content += b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
    content = zlib.crc32(content).to_bytes(4, "big") + content
    return offset.to_bytes(8, "big") + len(content).to_bytes(4, "big") + content


def read(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = []
    for batch in walk(data):
        for record in batch.records():
            assert (record.headers, record.sequence) == ((), -1)
            found.append((record.offset, record.timestamp_ms, record.key, record.value))
    return found


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_round_trip(magic: int, compression: Compression) -> None:
    data = message_set(magic, compression)
    assert read(data) == [(offset, timestamp if magic else -1, key, value) for offset, timestamp, key, value in ROWS]
    batches = list(walk(data))
    assert [batch.last_offset for batch in batches] == ([60] if compression else [50, 51, 60])
    assert (batches[0].base_offset, batches[-1].next_offset) == (50, 61)
    assert batches[0].records_count == (3 if compression else 1)
    assert batches[0].compression is compression
    assert not batches[0].is_control


def test_log_append_time() -> None:
    for compression in (Compression.NONE, Compression.GZIP):
        options = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": 77}
        data = message_set(1, compression, **options)
        assert {timestamp for _, timestamp, _, _ in read(data)} == {77}
        assert {batch.timestamp_type for batch in walk(data)} == {TimestampType.LOG_APPEND_TIME}
    inner = message(0, 1, 0, b"v", timestamp=5)
    wrapper = message(9, 1, 1 | 8, compress(Compression.GZIP, inner), timestamp=99)
    assert read(wrapper) == [(9, 99, None, b"v")]  # a broker that stamps a wrapper does not touch its content


def test_timestamp_types() -> None:
    assert next(walk(message_set(0))).timestamp_type is None
    batch = next(walk(message_set(1)))
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.CREATE_TIME, 5)


def offsets_of(outer_offset: int, magic: int, *inner_offsets: int) -> tuple[list[int], int, int, int]:
    """Return the offsets of a wrapper's records, and the wrapper's own base offset, last offset and count."""
    inner = b"".join(message(offset, magic, 0, b"v") for offset in inner_offsets)
    (batch,) = walk(message(outer_offset, magic, 1, compress(Compression.GZIP, inner)))
    return [record.offset for record in batch.records()], batch.base_offset, batch.last_offset, batch.records_count


def test_offsets_inside_a_wrapper_of_magic_1_are_relative() -> None:
    """The last message has the wrapper's offset, whatever its relative offset and wherever relative offsets begin."""
    assert offsets_of(57, 1, 0, 1, 2) == ([55, 56, 57], 55, 57, 3)
    assert offsets_of(57, 1, 0, 4, 7) == ([50, 54, 57], 50, 57, 3)  # compaction removed some messages
    assert offsets_of(57, 1, 2, 3) == ([56, 57], 56, 57, 2)  # and the first message as well
    assert offsets_of(57, 1, 0) == ([57], 57, 57, 1)
    assert offsets_of(2, 1, 0, 1, 2) == ([0, 1, 2], 0, 2, 3)  # the first wrapper of a log


def test_offsets_inside_a_wrapper_of_magic_0_are_absolute() -> None:
    assert offsets_of(57, 0, 50, 54, 57) == ([50, 54, 57], 50, 57, 3)
    assert offsets_of(0, 0, 0) == ([0], 0, 0, 1)
    assert offsets_of(99, 0, 3, 4) == ([3, 4], 3, 99, 2)  # the wrapper's own offset makes no difference


def test_a_wrapper_with_offset_0() -> None:
    inner = message(0, 1, 0, b"a") + message(1, 1, 0, b"b")
    assert [row[0] for row in read(message(0, 1, 1, compress(Compression.GZIP, inner)))] == [0, 1]


def test_a_wrapper_is_decompressed_once_for_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    (batch,) = walk(message_set(1, Compression.GZIP))
    calls: list[Compression] = []

    def counted(codec: Compression, *arguments: Any) -> bytes:
        calls.append(codec)
        return decompress(codec, *arguments)

    monkeypatch.setattr(sys.modules[MessageBatch.__module__], "decompress", counted)
    assert [(batch.base_offset, batch.records_count) for _ in range(3)] == [(50, 3)] * 3
    assert len(calls) == 1
    (batch,) = walk(message_set(1, Compression.GZIP))
    batch.records()
    assert (batch.base_offset, batch.records_count) == (50, 3)
    assert len(calls) == 2


@pytest.mark.parametrize("cut", [1, 20, 26])
def test_a_partial_message_at_the_end_of_a_wrapper_is_passed_over(cut: int) -> None:
    """Kafka does the same: the wrapper's checksum covers the message, so the message was written that way."""
    inner = message(0, 1, 0, b"a") + message(1, 1, 0, b"b")[:-cut]
    assert read(message(5, 1, 1, compress(Compression.GZIP, inner))) == [(5, 7, None, b"a")]


@pytest.mark.parametrize("left", range(12, 18))
@pytest.mark.parametrize("size", [-1, 0, 13, 14])
def test_the_size_of_a_message_inside_a_wrapper_counts_once_it_is_there(left: int, size: int) -> None:
    """Kafka's `DataLogInputStream` does the same: it reads 12 bytes and checks the size before it requires more."""
    rest = (bytes(8) + size.to_bytes(4, "big", signed=True) + bytes(5))[:left]
    data = message(5, 0, 1, compress(Compression.GZIP, message(5, 0, 0, b"v") + rest))
    if size < 14:
        with pytest.raises(DecodeError, match=f"{size} bytes inside a wrapper are too few for a message"):
            read(data)
    else:
        assert read(data) == [(5, -1, None, b"v")]


def test_a_wrapper_that_apache_kafka_refuses() -> None:
    """Kafka's error is "Record size is less than the minimum record overhead (14)"."""
    data = bytes.fromhex(
        "0000000000000003000000363ebe9f2e0001ffffffff000000281f8b080000000000000363600003662016907f739d0bcc63cc0611650c4800"
        "000898761728000000"
    )
    with pytest.raises(DecodeError, match="bytes inside a wrapper are too few for a message"):
        read(data)


@pytest.mark.parametrize(
    ("inner", "attributes", "reason"),
    [
        (b"", 1, "at least one message"),
        (message(0, 1, 1, compress(Compression.GZIP, message(0, 1, 0, b"v"))), 1, "is itself compressed"),
        (message(30, 1, 0, b"v"), 1, "the wrapper with offset 20 holds a message with the relative offset 30"),
        (bytes(8) + b"\x00\x00\x00\x05hello!", 1, "5 bytes inside a wrapper are too few for a message"),
        (message(0, 1, 0, b"v"), 4, "never compressed with zstd"),
        (message(0, 1, 0, b"v"), 7, "compression 7 is not known"),
        (None, 1, "a wrapper must have a value"),
    ],
)
def test_refused_wrappers(inner: bytes | None, attributes: int, reason: str) -> None:
    value = None if inner is None else compress(Compression.GZIP, inner)
    first = message(19, 1, 0, b"v")
    with pytest.raises(DecodeError, match=reason) as caught:
        read(first + message(20, 1, attributes, value))
    assert caught.value.offset == len(first)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_cuts_and_flipped_bits(magic: int, compression: Compression) -> None:
    data = message_set(magic, compression)
    for end in sorted({*range(1, len(data))} - {batch.position for batch in walk(data)}):
        with pytest.raises(PartialBatch) as caught:
            read(data[:end])
        assert caught.value.left_bytes == end - caught.value.offset
    data = message_set(magic, compression, ROWS[:1])
    for position in range(12, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(DecodeError):
                read(bytes(flipped))
            try:
                for batch in walk(bytes(flipped), check_crc=False):
                    batch.records()
            except DecodeError:
                pass


def test_a_message_must_be_there() -> None:
    with pytest.raises(DecodeError, match="too few for a message"):
        MessageBatch(bytes(17))
    with pytest.raises(DecodeError, match="at least 26 are needed"):
        MessageBatch(bytes(40))
    short = bytearray(message(0, 0, 0, b""))
    short[16] = 1  # magic 1 needs eight bytes more
    with pytest.raises(DecodeError, match="ends early"):
        MessageBatch(short).records()


def test_a_relative_offset_just_beyond_the_wrapper_is_refused() -> None:
    with pytest.raises(DecodeError, match="holds a message with the relative offset 21"):
        offsets_of(20, 1, 21)


def test_messages_of_magic_0_in_a_wrapper_of_magic_1_have_no_time() -> None:
    inner = message(0, 0, 0, b"old") + message(1, 1, 0, b"new", timestamp=5)
    wrapper = message(9, 1, 1 | 8, compress(Compression.GZIP, inner), timestamp=99)
    assert [(row[1], row[3]) for row in read(wrapper)] == [(-1, b"old"), (99, b"new")]


def test_errors_say_where_the_message_is() -> None:
    with pytest.raises(DecodeError) as caught:
        read(message(0, 1, 0, b"v") + message(20, 1, 1, None))
    assert caught.value.offset == len(message(0, 1, 0, b"v"))


def test_errors_say_where_in_the_message_it_is() -> None:
    """Errors in a wrapper's content, which is not in the caller's buffer, state the wrapper's position."""
    first = message(0, 1, 0, b"v")
    cut = bytearray(message(1, 1, 0, b"value"))
    cut[-9:-5] = (6).to_bytes(4, "big")  # the size of the value
    inner = bytes(message(0, 1, 0, b"v")) + bytes(cut)
    compressed = compress(Compression.GZIP, inner)
    for data, text in (
        (bytes(cut), "value at byte {34}: the length is 6 bytes, but 5 are left"),
        (message(9, 1, 1, compressed), "value at byte {0}: the length is 6 bytes, but 5 are left"),
        (
            message(9, 1, 1, compressed[:-3]),
            f"records at byte {{{34 + len(compressed) - 3}}}: gzip: the data ends early",
        ),
        (message(9, 1, 1, b"no gzip"), "records at byte {34}: gzip: the data does not start with a gzip header"),
    ):
        place = int(text[text.index("{") + 1 : text.index("}")])
        expected = text.replace(f"{{{place}}}", str(len(first) + place))
        _, batch = walk(first + data, check_crc=False)
        with pytest.raises(DecodeError) as caught:
            batch.records()
        assert str(caught.value) == expected


def test_the_time_of_a_wrapper_is_the_highest() -> None:
    (batch,) = walk(message_set(1, Compression.GZIP, [(50, 9, None, b""), (51, 5, None, b"")]))
    assert batch.max_timestamp == 9


def test_a_copy_owns_its_bytes() -> None:
    data = message_set(1, Compression.GZIP)
    first = message(0, 1, 0, b"v")
    batch = MessageBatch(first + data, len(first), 10_000)
    for copied in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert (bytes(copied.data), copied.position, copied.limit) == (data, 0, 10_000)
        assert copied.records() == batch.records()


def test_next_offset_overflows_as_in_java() -> None:
    assert MessageBatch(message(2**63 - 1, 1, 0, b"")).next_offset == -(2**63)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_checked_records(magic: int, compression: Compression) -> None:
    """The checked records equal those from `records`, each with its own message's checksum."""
    for batch in walk(message_set(magic, compression)):
        assert isinstance(batch, MessageBatch)
        checked = list(batch.checked_records())
        assert [each.record for each in checked] == batch.records()
        assert all(each.is_valid for each in checked)
        if compression is Compression.NONE:
            assert [each.crc for each in checked] == [batch.crc]


def test_a_wrong_checksum_inside_a_wrapper_is_reported() -> None:
    inner = message(0, 1, 0, b"good") + message(1, 1, 0, b"bad")[:-1] + b"?"
    wrapper = MessageBatch(message(1, 1, 1, compress(Compression.GZIP, inner)))
    checked = list(wrapper.checked_records())
    assert [(each.record.value, each.is_valid) for each in checked] == [(b"good", True), (b"ba?", False)]
    assert checked[0].crc == int.from_bytes(inner[12:16], "big")


def test_checked_records_of_a_broken_wrapper() -> None:
    wrapper = MessageBatch(b"before" + message(1, 1, 1, compress(Compression.GZIP, b"")), 6)
    with pytest.raises(DecodeError, match="value at byte 6: a wrapper must contain at least one message"):
        list(wrapper.checked_records())


def test_a_wrapper_of_many_messages_takes_little_memory() -> None:
    """Records are yielded one at a time, and are also counted one at a time."""
    builder = MessageSetBuilder(1, Compression.GZIP, base_offset=7)
    for _ in range(10_000):
        builder.append(0, None, b"")
    data = builder.build()
    tracemalloc.start()
    try:
        wrapper = MessageBatch(data)
        assert sum(1 for _ in wrapper.views()) == sum(1 for _ in wrapper.checked_records()) == 10_000
        assert (wrapper.base_offset, wrapper.records_count) == (7, 10_000)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()
