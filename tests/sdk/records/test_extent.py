"""A fetch's extent is found from headers alone, with the same result on every engine, whatever the bytes are.

Method: cut consecutive batches of every kind at every byte; change each byte of two small batches, for which the
engines must agree and must not raise.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC_AT
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.records.extent import Extent, extent
from tests.sdk.records.conftest import AVAILABLE, message_set


def batch(base_offset: int, count: int = 1, *, is_control: bool = False, epoch: int = 7) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, is_control=is_control, partition_leader_epoch=epoch)
    for number in range(count):
        builder.append(5, b"\0\0\0\1", b"%d" % number)
    return builder.build()


FIRST, SECOND, MARKER = batch(10, 3), batch(13, 2, epoch=8), batch(15, is_control=True, epoch=9)


def plain(found: Extent) -> tuple[object, ...]:
    """Return those parts of an extent that can be compared."""
    damage = found.damage and (type(found.damage), found.damage.offset, str(found.damage))
    return (*found[:5], damage)


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", Extent()),
        (FIRST, Extent(len(FIRST), 13, 7, 13, 3)),
        (FIRST + SECOND, Extent(len(FIRST + SECOND), 15, 8, 15, 5)),
        (FIRST + MARKER, Extent(len(FIRST + MARKER), 16, 9, 13, 3)),
        (MARKER, Extent(len(MARKER), 16, 9, None)),
        (MARKER + batch(16), Extent(len(MARKER + batch(16)), 17, 7, 17, 1)),
    ],
)
def test_whole_batches(engine: str, data: bytes, expected: Extent) -> None:
    assert extent(data, engine) == expected
    assert extent(memoryview(data), engine) == expected


@pytest.mark.parametrize("engine", AVAILABLE)
def test_what_is_cut_is_left_to_the_next_fetch(engine: str) -> None:
    for size in range(len(FIRST), len(FIRST + SECOND)):
        assert extent((FIRST + SECOND)[:size], engine) == Extent(len(FIRST), 13, 7, 13, 3), size


@pytest.mark.parametrize("engine", AVAILABLE)
def test_the_first_batch_must_be_whole(engine: str) -> None:
    for size in range(1, len(FIRST)):
        found = extent(FIRST[:size], engine)
        assert found[:5] == Extent()[:5], size
        assert isinstance(found.damage, PartialBatch), size


@pytest.mark.parametrize("engine", AVAILABLE)
def test_damage_after_whole_batches(engine: str) -> None:
    broken = bytearray(SECOND)
    broken[BATCH_MAGIC_AT] = 9
    found = extent(FIRST + broken, engine)
    assert found[:5] == (len(FIRST), 13, 7, 13, 3)
    assert isinstance(found.damage, DecodeError)
    assert found.damage.offset == len(FIRST) + BATCH_MAGIC_AT


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("magic", [0, 1])
def test_older_messages(engine: str, magic: int) -> None:
    old = message_set(magic)
    found = extent(old, engine)
    assert (found.size_bytes, found.leader_epoch, found.damage) == (len(old), -1, None)
    assert found.next_offset == found.data_end
    assert found.records_count == 1
    mixed = extent(old + FIRST, engine)
    assert mixed == Extent(len(old + FIRST), 13, 7, 13, 4)
    assert extent(FIRST + old, engine)[0] == len(FIRST + old)


def test_engines_agree_on_damaged_bytes() -> None:
    data = FIRST + MARKER
    for index in range(len(data)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[index] = value
            outcomes = {plain(extent(damaged, engine)) for engine in AVAILABLE}
            assert len(outcomes) == 1, (index, value, outcomes)
