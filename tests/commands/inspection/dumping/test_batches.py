"""The batches in a file are found with a bounded amount of work, whatever lies between them.

Method: read files that are larger than a window, with batches across its edges, and files full of bytes that look like
headers. `test_segments.py` tests the reports about damage.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkawire.commands.inspection.dumping import batches
from kafkawire.commands.inspection.dumping.batches import Damage, StoredBatch, read_batches
from kafkawire.commands.inspection.dumping.limits import WINDOW_BYTES
from kafkawire.commands.inspection.dumping.window import Window
from kafkawire.sdk.records import Compression, sound_batches
from tests.commands.inspection.dumping.dump_bench import batch


def found_in(path: Path, content: bytes) -> list[StoredBatch | Damage]:
    path.write_bytes(content)
    with path.open("rb", buffering=0) as file:
        # A batch cannot be used once the next one has been read.
        return [
            each._replace(batch=None) if isinstance(each, StoredBatch) else each for each in read_batches(Window(file))
        ]


def test_batches_across_windows(tmp_path: Path) -> None:
    written = [batch(number, b"x" * (number * 7919 % 300_000)) for number in range(60)]
    found = found_in(tmp_path / "file", b"".join(written))
    assert [each.size for each in found if isinstance(each, StoredBatch)] == list(map(len, written))
    assert all(isinstance(each, StoredBatch) and each.is_valid for each in found)
    positions = [each.position for each in found]
    assert positions == [sum(map(len, written[:number])) for number in range(60)]


def test_a_batch_larger_than_a_window_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(batch(0, b"x" * (3 * WINDOW_BYTES)) + batch(1, b"y"))
    with path.open("rb", buffering=0) as file:
        sizes = []
        for found in read_batches(Window(file)):
            assert isinstance(found, StoredBatch)
            assert found.batch is not None
            sizes += [len(record.value or b"") for record in found.batch.records()]
    assert sizes == [3 * WINDOW_BYTES, 1]


def test_a_compressed_batch_has_a_lower_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = batch(0, bytes(range(256)) * 20, compression=Compression.LZ4)
    path.write_bytes(data)
    for limit, is_open in ((len(data) * 4 - 4, False), (len(data) * 4, True)):
        with path.open("rb", buffering=0) as file:
            (found,) = read_batches(Window(file), batch_bytes_max=limit)
            assert isinstance(found, StoredBatch)
            assert (found.batch is not None) is is_open


@pytest.mark.parametrize("distance", [0, 1, 60, WINDOW_BYTES - 200, WINDOW_BYTES - 30, WINDOW_BYTES, 3 * WINDOW_BYTES])
def test_the_next_sound_batch_is_found_at_any_distance(tmp_path: Path, distance: int) -> None:
    good = batch(9, b"value")
    damage, found = found_in(tmp_path / "file", b"\xff" * (17 + distance) + good)
    assert damage == Damage(0, "magic -1 is unknown; expected 0 to 2", 17 + distance)
    assert isinstance(found, StoredBatch)
    assert (found.position, found.is_valid) == (17 + distance, True)


def test_a_sound_batch_that_is_too_large_to_open_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES_MAX", 1000)
    path = tmp_path / "file"
    path.write_bytes(b"\xff" * 17 + batch(0, b"x" * 2000))
    with path.open("rb", buffering=0) as file:
        damage, found = read_batches(Window(file), batch_bytes_max=1000)
    assert isinstance(damage, Damage)
    assert damage.passed_over == 17
    assert isinstance(found, StoredBatch)
    assert (found.is_valid, found.batch) == (True, None)


def test_a_length_that_lies_does_not_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 100_000)
    lie = bytes(8) + struct.pack(">i", 200_000) + bytes(4) + b"\x02" + bytes(44)
    content = b"\xff" * 17 + lie + batch(0, b"v")
    damage, found, _ = found_in(tmp_path / "file", content + b"\xff" * 200_000)
    assert isinstance(damage, Damage)
    assert damage.passed_over == 17 + len(lie)
    assert isinstance(found, StoredBatch)
    assert found.is_valid


def test_the_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every position has a header of a long batch with a wrong checksum; the search ends before the sound batch."""
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 5_000_000)
    header = bytes(8) + struct.pack(">i", 600_000) + bytes(4) + b"\x02" + bytes(44)
    content = b"\xff" * 17 + header * 20_000 + batch(0, b"v")
    (damage,) = found_in(tmp_path / "file", content)
    assert isinstance(damage, Damage)
    assert damage.passed_over == len(content)


def test_a_search_that_ended_goes_on_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "SEARCH_BYTES_MAX", 0)
    wrong = batch(0, b"value")[:-3] + b"???"
    found = found_in(tmp_path / "file", wrong + wrong + batch(0, b"v"))
    assert [each.is_valid for each in found if isinstance(each, StoredBatch)] == [False, False, True]


def test_progress(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(batch(0, b"v") * 3)
    told: list[int] = []
    with path.open("rb", buffering=0) as file:
        list(read_batches(Window(file), read=told.append))
    size = len(batch(0, b"v"))
    assert told == [0, size, 2 * size]
