"""The builder for message sets refuses content that the formats cannot hold as soon as it is added.

Method: check tables of wrong options and messages; the tests of `message_set.py` read built sets back.
"""

from __future__ import annotations

import mmap
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records import Compression, MessageSetBuilder, TimestampType, walk


def read(data: bytes) -> list[tuple[int, int, bytes | None]]:
    return [(record.offset, record.timestamp_ms, record.value) for batch in walk(data) for record in batch.records()]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((2,), "magic"),
        ((-1,), "magic"),
        ((None,), "magic"),
        ((1, Compression.ZSTD), "compression"),
        ((1, 7), "compression"),
        ((1, "gzip"), "compression"),
    ],
)
def test_refused_sets(arguments: Any, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        MessageSetBuilder(*arguments)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"level": 99}, "level: gzip has levels 1 to 9, not 99"),
        ({"level": "x"}, "level: expected an integer, got 'x' of str"),
        ({"timestamp_type": "x"}, "timestamp_type: expected an integer, got 'x' of str"),
        ({"timestamp_type": 5}, "timestamp_type: 5 is not within 0 and 1"),
        ({"log_append_time": 2**63}, "log_append_time: 9223372036854775808 is not within -1 and 9223372036854775807"),
        ({"log_append_time": -2}, "log_append_time: -2 is not within -1 and 9223372036854775807"),  # as in Kafka
        ({"log_append_time": None}, "log_append_time: expected an integer, got None of NoneType"),
        ({"base_offset": 2**63}, "base_offset: 9223372036854775808 is not within 0 and 9223372036854775807"),
        ({"base_offset": 1.5}, "base_offset: expected an integer, got 1.5 of float"),
        ({"base_offset": -1}, "base_offset: -1 is not within 0 and 9223372036854775807"),
    ],
)
@pytest.mark.parametrize("compression", [Compression.GZIP, 1])
def test_refused_options(compression: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=f"^{reason}$"):
        MessageSetBuilder(1, compression, **options)


@pytest.mark.parametrize(
    ("magic", "compression"), [(0, Compression.NONE), (0, Compression.GZIP), (1, Compression.NONE)]
)
def test_offsets_below_0_where_they_are_not_relative(magic: int, compression: Compression) -> None:
    """Kafka writes and reads such messages."""
    builder = MessageSetBuilder(magic, compression, base_offset=-10)
    assert [builder.append(7, None, b"") for _ in range(2)] == [0, 1]
    assert [row[0] for row in read(builder.build())] == [-10, -9]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize(("kind", "timestamp"), [(TimestampType.CREATE_TIME, 7), (TimestampType.LOG_APPEND_TIME, 5)])
def test_every_message_says_whose_time_it_has(compression: Compression, kind: TimestampType, timestamp: int) -> None:
    builder = MessageSetBuilder(1, compression, timestamp_type=kind, log_append_time=5)
    for value in (b"a", b"b"):
        builder.append(7, None, value)
    batches = list(walk(builder.build()))
    assert len(batches) == (1 if compression else 2)
    assert {(batch.timestamp_type, batch.max_timestamp) for batch in batches} == {(kind, timestamp)}


def test_a_compression_and_a_type_of_timestamps_may_be_numbers() -> None:
    builder = MessageSetBuilder(1, 1, timestamp_type=1, log_append_time=5)  # type: ignore[arg-type]  # enumerations are
    builder.append(7, None, b"v")
    assert (builder.compression, builder.timestamp_type) == (Compression.GZIP, TimestampType.LOG_APPEND_TIME)
    assert read(builder.build()) == [(0, 5, b"v")]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ((49, 0, None, b""), "offset"),
        ((50, 0, None, b""), "offset"),
        ((51, -2, None, b""), "timestamp_ms"),
        ((51, 0, "text", b""), "key"),
        ((51, 0, None, 5), "value"),
        ((51, 0, None, memoryview(b"abcd")[::2]), "value"),
        ((51, None, None, b""), "timestamp_ms"),
        ((51, 1.5, None, b""), "timestamp_ms"),
        ((51, 2**63, None, b""), "timestamp_ms"),
        ((2**63, 0, None, b""), "offset"),
        (("51", 0, None, b""), "offset"),
    ],
)
def test_refused_messages(row: Any, path: str) -> None:
    builder = MessageSetBuilder(1, base_offset=50)
    assert (builder.append(0, None, b""), builder.count) == (0, 1)
    before = builder.build()
    with pytest.raises(EncodeError) as caught:
        builder.append_at(*row)
    assert caught.value.path == path
    assert (builder.build(), builder.count) == (before, 1)
    assert builder.append(0, None, b"") == 1  # as if nothing had been refused


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_offsets_before_the_set_are_refused(compression: Compression) -> None:
    builder = MessageSetBuilder(1, compression, base_offset=5)
    with pytest.raises(EncodeError, match=r"^offset: 0 does not follow 4, but offsets must increase$"):
        builder.append_at(0, 7, None, b"")


def test_sizes_that_do_not_fit() -> None:
    """None of this memory is ever touched."""
    builder = MessageSetBuilder(1)
    with mmap.mmap(-1, 2**31) as pages, memoryview(pages) as huge:
        for name, key, value in (("key", huge, None), ("value", None, huge)):
            with pytest.raises(
                EncodeError, match=f"^{name}: there are 2147483648 bytes, but at most 2147483647 are allowed$"
            ):
                builder.append(1, key, value)
    assert builder.count == 0


def test_without_messages_there_is_nothing() -> None:
    assert MessageSetBuilder(1, Compression.GZIP).build() == b""
