"""Headers lead from batch to batch, past damaged content, to the end of the complete batches."""

from __future__ import annotations

import pytest

from kafkawire.sdk.records import MessageSetBuilder
from kafkawire.sdk.records.stored import Memory, Window

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.segments.headers import Header, batch_at, batch_headers, header_at
from tests.sdk.spark.segments.logs import batch, marker, records_of

LOG = [batch(0, 3), records_of(3, 7, 2), marker(5, 7, True)]


def starts(source: bytes) -> list[int]:
    return [header.position for header in batch_headers(Memory(source))]


def test_headers() -> None:
    first, second, third = batch_headers(Memory(b"".join(LOG)))
    assert first == Header(0, len(LOG[0]), 0, 2)
    assert second == Header(len(LOG[0]), len(LOG[1]), 3, 4, 7, is_transactional=True)
    assert third[2:] == (5, 5, 7, True, True)


def test_old_format() -> None:
    builder = MessageSetBuilder(1, base_offset=4)
    builder.append(1, b"k", b"v")
    content = bytes(builder.build())
    assert list(batch_headers(Memory(content * 2))) == [
        Header(0, len(content), 4, 4),
        Header(len(content), len(content), 4, 4),
    ]


@pytest.mark.parametrize("tail", [b"", bytes(7), bytes(500), LOG[0][:30], LOG[0][:-1]])
def test_end(tail: bytes) -> None:
    assert starts(b"".join(LOG) + tail) == [0, len(LOG[0]), len(LOG[0] + LOG[1])]


def test_broken_chain() -> None:
    assert starts(LOG[0] + b"x" * 50 + LOG[1]) == [0, len(LOG[0]) + 50]
    negative = bytearray(LOG[1])
    negative[23] |= 128  # the number of offsets
    assert starts(LOG[0] + bytes(negative) + LOG[2]) == [0, len(LOG[0] + LOG[1])]


def test_leaps() -> None:
    """Only part of the file is read."""
    content = batch(0, 5000) + batch(5000, 5000)
    sizes: list[int] = []

    def read(position: int, size: int) -> bytes:
        sizes.append(size)
        return content[position : position + size]

    assert len(list(batch_headers(Window(read, len(content), 4096)))) == 2
    assert sum(sizes) < 10_000 < len(content)


def test_one_batch() -> None:
    source = Memory(b"".join(LOG))
    for position, offset in [(0, 0), (len(LOG[0]), 3)]:
        found = batch_at(source, position)
        assert found is not None
        assert found.base_offset == offset
        assert header_at(source, position) is not None
    for position in (1, source.end - 5, source.end, source.end + 5):
        assert batch_at(source, position) is None
        assert header_at(source, position) is None
    damaged = LOG[0][:-1] + b"\xff"
    assert header_at(Memory(damaged), 0) is not None
    assert batch_at(Memory(damaged), 0) is None
