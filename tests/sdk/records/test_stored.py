"""No stored bytes are omitted silently, and sound batches after damage are found.

Method: read batches of every magic and compression, change every bit of some, cut at every byte, and read garbage,
batches larger than a window, and files that shrink; read the same bytes in memory and through a window.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.protocol.tables.record_formats import MESSAGE_V0_MAGIC_AT
from kafkawire.sdk.records import Compression, MessageSetBuilder, sound_batches, stored, walk
from kafkawire.sdk.records.sound_batches import StoredBytes
from kafkawire.sdk.records.stored import ZEROS, Damage, Memory, Stored, Window, read_stored
from tests.sdk.records.conftest import batch_of
from tests.thorough import sampled

RECORDS = [(1000 + number, b"key", b"value %d" % number, ()) for number in range(10)]


def batch(base_offset: int, compression: Compression = Compression.NONE) -> bytes:
    return batch_of(RECORDS, compression, base_offset=base_offset)


def message_set() -> bytes:
    messages = MessageSetBuilder(1, Compression.GZIP, base_offset=500)
    for number in range(10):
        messages.append(number, None, b"value")
    return messages.build()


PARTS = [batch(10 * number, compression) for number, compression in enumerate([*Compression, Compression.NONE] * 2)]
DATA = b"".join(PARTS)
STARTS = [sum(map(len, PARTS[:number])) for number in range(len(PARTS))]


def window(data: bytes) -> Window:
    """Return the bytes as a file that is read in small pieces."""
    return Window(lambda position, size: data[position : position + size], len(data))


SOURCES: list[Callable[[bytes], StoredBytes]] = [Memory, window]


@pytest.fixture(params=SOURCES, ids=["memory", "window"])
def source(request: pytest.FixtureRequest) -> Any:
    return request.param


def read(source: StoredBytes, *arguments: Any, **options: Any) -> tuple[list[int], list[Damage]]:
    """Return the batches' positions, after checking that all their records are readable, and the damage."""
    positions, damages = [], []
    for found in read_stored(source, *arguments, **options):
        if isinstance(found, Stored):
            assert len(found.batch.records()) == len(RECORDS)
            positions.append(found.position)
        else:
            damages.append(found)
    return positions, damages


def test_sound_bytes(source: Any) -> None:
    assert read(source(b"")) == ([], [])
    assert read(source(DATA)) == (STARTS, [])
    assert read(source(DATA), STARTS[3]) == (STARTS[3:], [])
    assert read(source(message_set() + DATA))[1] == []


@pytest.mark.parametrize("end", [0, 1, STARTS[2] - 1, STARTS[2], STARTS[2] + 1, len(DATA)])
def test_a_batch_belongs_to_the_part_in_which_it_begins(source: Any, end: int) -> None:
    assert read(source(DATA), 0, end)[0] == [start for start in STARTS if start < end]
    if end in STARTS:
        assert read(source(DATA), end)[0] == [start for start in STARTS if start >= end]


@pytest.mark.parametrize("number", sampled([5, 0, len(PARTS) - 1], 3))
def test_every_bit_of_a_batch(number: int) -> None:
    """The damaged batch is reported, or is read if its checksum misses the damage; others are lost only by chance."""
    lost = 0
    for position in range(STARTS[number], STARTS[number] + len(PARTS[number])):
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[position] ^= 1 << bit
            for is_growing in (False, True):
                positions, damages = read(Memory(bytes(damaged)), is_growing=is_growing)
                assert damages or positions == STARTS, (position, bit)
                lost += len(STARTS) - len(positions) > 1
                for damage in damages:
                    assert damage.size_bytes > 0
                    assert damage.base_offset is not None or position - STARTS[number] in (16, *range(8))
    assert lost == 0


def test_every_cut(subtests: pytest.Subtests, source: Any) -> None:
    """A file that is being written may end inside a batch; any other file may not."""
    for cut in range(1, len(PARTS[-1])):
        with subtests.test(cut=cut):
            positions, damages = read(source(DATA[:-cut]))
            (damage,) = damages
            assert positions == STARTS[:-1]
            assert (damage.position, damage.position + damage.size_bytes) == (STARTS[-1], len(DATA) - cut)
            ends: list[Damage] = []
            assert read(source(DATA[:-cut]), is_growing=True, on_end=ends.append) == (STARTS[:-1], [])
            (end,) = ends
            assert (end.position, end.size_bytes) == (STARTS[-1], len(PARTS[-1]) - cut)
            assert end.base_offset == (10 * (len(PARTS) - 1) if end.size_bytes > MESSAGE_V0_MAGIC_AT else None)
            assert end.reason == ("the data ends inside a batch" if any(DATA[STARTS[-1] : -cut]) else ZEROS)


def test_a_file_that_is_being_written_does_not_hide_damage(source: Any) -> None:
    """A damaged length looks like a cut; the checksum does not cover the length."""
    for number in (2, len(PARTS) - 1):
        damaged = bytearray(DATA)
        damaged[STARTS[number] + 8] ^= 0x40
        positions, damages = read(source(bytes(damaged)), is_growing=True)
        assert positions == STARTS[:number] + STARTS[number + 1 :]
        assert [damage.position for damage in damages] == [STARTS[number]]


@pytest.mark.parametrize("last", [b"value", b"value" + bytes(2000)])
@pytest.mark.parametrize("zeros", [1, 100, 70_000])
def test_zeros_do_not_hide_a_damaged_length(source: Any, zeros: int, last: bytes) -> None:
    """The batch before the zeros looks as if only its beginning had been written."""
    whole = batch_of([(1000, b"key", last, ())], base_offset=900)
    for position, bit in ((8, 0x20), (9, 1), (10, 0x10)):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        positions, (damage,) = read(source(DATA + damaged + bytes(zeros)), is_growing=True)
        assert positions == STARTS
        assert (damage.position, damage.base_offset) == (len(DATA), 900)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", sampled([1, 0], 2))
def test_every_byte_of_an_old_message(magic: int, compression: Compression) -> None:
    """The damaged batch is reported or read even in a growing file; others are read unless two lengths mislead."""
    messages = []
    for offset in range(0, 200, 10):
        builder = MessageSetBuilder(magic, compression, base_offset=offset)
        for number in range(10) if compression is not Compression.NONE else range(1):
            builder.append(1000 + number if magic else -1, b"key", b"value %d" % number)
        messages.append(builder.build())
    starts = [sum(map(len, messages[:number])) for number in range(len(messages))]
    for number in (0, 7, len(messages) - 1):
        for position, bit in itertools.product(range(len(messages[number])), range(8)):
            damaged = bytearray(b"".join(messages))
            damaged[starts[number] + position] ^= 1 << bit
            for is_growing in (False, True):
                found = list(read_stored(Memory(bytes(damaged)), is_growing=is_growing))
                sound = [each.position for each in found if isinstance(each, Stored)]
                assert sound == starts or any(isinstance(each, Damage) for each in found), (position, bit)
                if position != MESSAGE_V0_MAGIC_AT:
                    assert sound in (starts, starts[:number] + starts[number + 1 :]), (position, bit)


@pytest.mark.parametrize("zeros", [1, 16, 17, 100, 70_000])
def test_zeros_up_to_the_end(source: Any, zeros: int) -> None:
    ends: list[Damage] = []
    assert read(source(DATA + bytes(zeros)), is_growing=True, on_end=ends.append) == (STARTS, [])
    assert ends == ([Damage(len(DATA), zeros, ZEROS)] if zeros else [])
    positions, damages = read(source(DATA + bytes(zeros)))
    assert (positions, damages[0].position) == (STARTS, len(DATA))
    assert sum(damage.size_bytes for damage in damages) == zeros
    assert read(source(DATA + bytes(zeros) + batch(900)), is_growing=True)[0] == [*STARTS, len(DATA) + zeros]


def test_garbage(source: Any) -> None:
    chance = random.Random(5)
    garbage = chance.randbytes(1000)
    positions, damages = read(source(garbage + DATA + garbage + DATA + garbage))
    second = len(garbage) + len(DATA)
    assert positions == [start + first + len(garbage) for first in (0, second) for start in STARTS]
    assert sum(damage.size_bytes for damage in damages) == 3000


def test_a_batch_that_is_larger_than_a_window(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "WINDOW_BYTES", 64)
    assert read(source(DATA)) == (STARTS, [])
    damaged = bytearray(DATA)
    damaged[STARTS[4] + 70] ^= 1
    positions, damages = read(source(bytes(damaged)))
    assert positions == STARTS[:4] + STARTS[5:]
    assert [(damage.position, damage.size_bytes) for damage in damages] == [(STARTS[4], len(PARTS[4]))]


def test_a_batch_that_is_too_large(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "WINDOW_BYTES", 64)
    monkeypatch.setattr(stored, "BATCH_BYTES_MAX", len(PARTS[1]) - 1)
    positions, damages = read(source(PARTS[1]))
    assert positions == []
    assert [damage.size_bytes for damage in damages] == [len(PARTS[1])]


def test_what_was_decompressed_is_limited() -> None:
    (large,) = walk(batch_of([(1, None, bytes(10_000), ())], Compression.ZSTD))
    for found in read_stored(Memory(bytes(large.data)), limit=9_999):
        assert isinstance(found, Stored)
        assert found.batch.limit == 9_999


def test_a_search_does_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that look like the header of a long batch everywhere are skipped as a whole once the limit is reached."""
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 100_000)
    header = bytearray(batch(0)[:61])
    header[8:12] = (50_000).to_bytes(4, "big")
    data = bytes(header) * 2_000
    positions, damages = read(Memory(data + batch(5)))
    assert positions == []
    assert [damage.size_bytes for damage in damages] == [len(data) + len(batch(5))]


@pytest.mark.parametrize("left", [0, 5, 16, 17, 30, 61, len(PARTS[0]) - 1, len(PARTS[0]), len(PARTS[0]) + 40])
def test_a_file_that_gets_shorter(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "WINDOW_BYTES", 64)
    data = bytearray(DATA)

    def read_part(position: int, size: int) -> bytes:
        if position >= STARTS[2]:
            del data[STARTS[2] + left :]
        return bytes(data[position : position + size])

    positions, damages = read(Window(read_part, len(DATA)))
    assert positions[:2] == STARTS[:2]
    assert len(positions) <= 3
    assert sum(damage.size_bytes for damage in damages) == (left % len(PARTS[2]) if left != len(PARTS[2]) else 0)


@pytest.mark.parametrize("end", [1, STARTS[5], STARTS[5] + 1, len(DATA)])
def test_batches_that_somebody_else_takes(source: Any, end: int) -> None:
    """Each batch is offered to the callback when it is reached; batches that the callback takes are not yielded."""
    offered = []

    def take(content: memoryview, position: int) -> int:
        offered.append(position)
        assert content[:8] == DATA[position : position + 8]
        number = STARTS.index(position)
        taken = 0
        while number % 4 != 3 and position + taken < end and taken < len(content):
            taken += len(PARTS[number])
            number += 1
        return taken

    positions, damages = read(source(DATA), end=end, take=take)
    assert damages == []
    assert offered == [start for number, start in enumerate(STARTS) if number % 4 == 0 and start < end]
    assert positions == [start for number, start in enumerate(STARTS) if number % 4 == 3 and start < end]


def test_damage_is_not_offered_again(source: Any) -> None:
    content = PARTS[0] + b"x" * 100 + PARTS[1]
    offered = []

    def take(content: memoryview, position: int) -> int:
        offered.append(position)
        return 0

    positions, damages = read(source(content), take=take)
    assert positions == [0, len(PARTS[0]) + 100]
    assert [damage.position for damage in damages] == [len(PARTS[0])]
    assert offered == [0, len(PARTS[0]), len(PARTS[0]) + 100]


def test_damage_in_words() -> None:
    assert str(Damage(5, 7, "crc: wrong", 12)) == "7 bytes at 5, the batch of offset 12: crc: wrong"
    assert str(Damage(5, 7, "magic: 9")) == "7 bytes at 5: magic: 9"
