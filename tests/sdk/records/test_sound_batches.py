"""Sound batches are found wherever they begin, in a time that does not depend on the sizes that other bytes claim.

Method: search for batches of every magic among other bytes, with windows smaller than a batch, and among headers that
lie; count the bytes that are read.
"""

from __future__ import annotations

import struct

import pytest

from kafkawire.sdk.records import sound_batches
from kafkawire.sdk.records.sound_batches import SoundBatches, has_right_crc, size_at
from kafkawire.sdk.records.stored import Memory
from tests.sdk.records.conftest import batch_of, message_set

BATCH = batch_of([(0, b"key", b"value", ())])


class CountedBytes(Memory):
    """Bytes that count the number of bytes read."""

    looked_at = 0

    def at(self, position: int, size: int) -> memoryview:
        found = super().at(position, size)
        self.looked_at += len(found)
        return found


@pytest.mark.parametrize("window_bytes", [62, 64, 1000])
@pytest.mark.parametrize("before", [0, 1, 61, 62, 63, 500])
def test_the_next_batch(before: int, window_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "WINDOW_BYTES", window_bytes)
    search = SoundBatches(Memory(bytes(before) + BATCH + BATCH[:-1] + b"?"))
    assert search.next(0) == before
    assert search.next(before) == before
    assert search.next(before + 1) == before + 2 * len(BATCH)


def test_where_a_search_stops() -> None:
    search = SoundBatches(Memory(b"?" + BATCH + BATCH))
    assert search.next(0, 1) == 1
    assert search.next(0, 2) == 1
    assert search.next(2, 40) == 40
    assert search.next(5 * len(BATCH)) == 1 + 2 * len(BATCH)


@pytest.mark.parametrize("data", [message_set(0), message_set(1), BATCH], ids=["magic 0", "magic 1", "magic 2"])
def test_every_magic_and_every_bit(data: bytes) -> None:
    """Only magic 2 is searched for. Its checksum does not cover the base offset and leader epoch."""
    assert size_at(Memory(data), 0) == (len(data), "")
    assert SoundBatches(Memory(data)).begins_at(0)
    assert SoundBatches(Memory(data)).next(0) == (0 if data is BATCH else len(data))
    for at in range(17, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert not has_right_crc(Memory(damaged), 0, len(data)), at
    for size in range(len(data)):
        assert not SoundBatches(Memory(data[:size])).begins_at(0)
        assert not has_right_crc(Memory(data[:size]), 0, len(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (BATCH[:16], "16 bytes are too few for a batch: the file was cut"),
        (b"", "0 bytes are too few for a batch"),
        (BATCH[:16] + b"\3" + BATCH[17:], "magic 3 is unknown; expected 0 to 2"),
        (BATCH[:8] + struct.pack(">i", 48) + BATCH[12:], "the batch has 60 bytes, but one of magic 2 has at least 61"),
        (BATCH[:-1], f"the batch has {len(BATCH)} bytes, but {len(BATCH) - 1} are left"),
    ],
)
def test_why_there_is_no_batch(data: bytes, reason: str) -> None:
    size, found = size_at(Memory(data), 0)
    assert size == 0
    assert found.startswith(reason)
    assert not SoundBatches(Memory(data)).begins_at(0)


def header(size: int) -> bytes:
    """Return the header of a batch with the given size and a wrong checksum."""
    return bytes(8) + struct.pack(">i", size - 12) + bytes(4) + b"\2" + bytes(44)


def test_headers_of_long_batches_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 500_000)
    source = CountedBytes(header(100_000) * 5_000 + BATCH)
    assert SoundBatches(source).next(0) == source.end
    assert source.looked_at < 2_000_000


def test_sizes_that_lead_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 500_000)
    source = CountedBytes(header(100_000) + bytes(100_000))
    search = SoundBatches(source)
    assert not any(search.begins_at(0) for _ in range(1000))
    assert source.looked_at < 1_000_000


def test_one_length_that_lies_does_not_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 50_000)
    lie = header(60_000)
    assert SoundBatches(Memory(lie + BATCH + bytes(60_000))).next(0) == len(lie)


def test_what_is_found_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long file with any number of damaged regions, the sound batch after each region is found."""
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 2 * len(BATCH))
    data = (b"?" + BATCH) * 100
    search = SoundBatches(Memory(data))
    assert [search.next(at) for at in range(0, len(data), len(BATCH) + 1)] == list(range(1, len(data), len(BATCH) + 1))
