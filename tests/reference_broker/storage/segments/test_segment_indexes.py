"""Segment indexes are trusted if they are plausible and otherwise rebuilt, even next to damaged batches.

Method: use the segments of `filled_segments`, and change files between two runs.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.storage.batches import Window, parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import stamp
from tests.reference_broker.storage.filled_segments import BASE, CONFIG, fill, fill_with, new
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

#: Positions in a batch: its magic, without which no later batch can be reached, and a byte of its records.
MAGIC, BODY = 16, 70

LOG, INDEX, TIME_INDEX = (f"{BASE:020}{suffix}" for suffix in (".log", ".index", ".timeindex"))


def stored(segment):
    segment.seal()
    segment.sync(with_indexes=True)
    return segment


def damage(segment, folder, batch, byte):
    """Flip a bit in the batch with this number; return the batch's offset."""
    header = list(segment.headers(0))[batch]
    data = bytearray((folder / LOG).read_bytes())
    data[header.position + byte] ^= 1
    (folder / LOG).write_bytes(data)
    return header.base_offset


def without_times(folder, how):
    (folder / TIME_INDEX).unlink() if how == "missing" else (folder / TIME_INDEX).write_bytes(b"")


def readable(segment):
    """Return the offsets that lookups find."""
    found = []
    for offset in range(BASE, segment.next_offset):
        try:
            batch = segment.find(offset)
        except DecodeError:
            continue
        if batch is not None and batch.base_offset <= offset <= batch.last_offset:
            found.append(offset)
    return found


@pytest.fixture
def segment(tmp_path):
    return fill(new(tmp_path, CONFIG))


def test_damaged_batch_of_a_sealed_segment_without_index_is_left_in_its_place(segment, tmp_path):
    seventh = list(segment.headers(0))[7]
    segment.seal()
    segment.sync(with_indexes=True)
    path = tmp_path / "00000000000000000500.log"
    data = bytearray(path.read_bytes())
    data[seventh.position + 70] ^= 1
    path.write_bytes(data)
    (tmp_path / "00000000000000000500.index").unlink()
    again = new(tmp_path, dataclasses.replace(CONFIG, index_interval_bytes=10_000), sealed_at=BASE + 60)
    found = again.find(BASE + 3)
    assert found is not None
    assert found.base_offset == BASE + 3
    assert (again.next_offset, again.size_bytes, again.is_sealed) == (BASE + 60, len(data), True)
    assert again.is_stored, "the next startup must not take the new index for a complete one"
    assert again._time_index.last_entry == (NOW_MS + 6_002, BASE + 20)
    assert again.highest_timestamp() == NOW_MS + 19_002, "the index matches the file"


@pytest.mark.parametrize("damaged", [0, 7])
@pytest.mark.parametrize(("byte", "is_found"), [(70, True), (16, False)])
def test_segment_with_damage_and_no_index_never_seems_older_than_it_is(segment, tmp_path, damaged, byte, is_found):
    header = list(segment.headers(0))[damaged]
    path = tmp_path / "00000000000000000500.log"
    data = bytearray(path.read_bytes())
    data[header.position + byte] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        again = new(tmp_path, CONFIG, sealed_at=BASE + 60)
        for _ in range(2):
            if is_found:
                assert again.find(BASE + 40) is not None
                assert again.highest_timestamp() == NOW_MS + 19_002
                assert next(again.from_time(NOW_MS + 15_000)).base_offset == BASE + 45
            else:
                with pytest.raises(DecodeError):
                    again.find(BASE + 40)
                with pytest.raises(DecodeError):
                    again.highest_timestamp()
                with pytest.raises(DecodeError):
                    list(again.from_time(NOW_MS + 15_000))
        if not again.is_stored:
            again.sync(with_indexes=True)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_empty_time_index_is_not_believed(segment, tmp_path, caplog, is_sealed):
    segment.seal()
    segment.sync(with_indexes=True)
    path = tmp_path / "00000000000000000500.timeindex"
    good = path.read_bytes()
    path.write_bytes(b"")
    again = new(tmp_path, CONFIG, sealed_at=BASE + 60 if is_sealed else None)
    again.find(BASE) if is_sealed else again.load()
    assert next(again.from_time(NOW_MS + 1_000)).base_offset == BASE + 3
    assert (again.highest_timestamp(), again.is_stored) == (NOW_MS + 19_002, False)
    assert "rebuilt" in caplog.text
    again.seal()
    again.sync(with_indexes=True)
    assert path.read_bytes() == good


@pytest.mark.parametrize("is_sealed", [True, False])
def test_empty_time_index_of_batches_without_timestamps_is_right(tmp_path, caplog, is_sealed):
    segment = new(tmp_path, CONFIG)
    data = produced(b"x", timestamps=(-1,))
    for offset in (BASE, BASE + 1):
        stamp(data, offset, 0)
        segment.append(data, parse_header(data), offset)
    segment.seal()
    segment.sync(with_indexes=True)
    again = new(tmp_path, CONFIG, sealed_at=BASE + 2 if is_sealed else None)
    if not is_sealed:
        again.load()
    assert again.find(BASE + 1) is not None
    assert (again.highest_timestamp(), again.is_stored, caplog.text) == (-1, True, "")


def test_index_that_is_being_rebuilt_is_not_asked_for_timestamps(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    (tmp_path / "00000000000000000500.index").unlink()
    again = new(tmp_path, CONFIG, sealed_at=BASE + 60)
    assert again.needs_rebuild()
    seen = {again.highest_timestamp()}  # like retention, which runs on its own thread
    rebuilt = again.rebuild()
    seen.add(again.highest_timestamp())
    assert (again.is_stored, again.needs_rebuild()) == (True, True), "an incomplete index is never stored"
    again.take(rebuilt)
    assert (again.is_stored, again.needs_rebuild()) == (False, False)
    assert seen | {again.highest_timestamp()} == {NOW_MS + 19_002}


def test_highest_timestamp_of_a_sealed_segment_is_that_of_its_index(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    assert new(tmp_path, CONFIG, sealed_at=BASE + 60).highest_timestamp() == NOW_MS + 19_002


def test_index_that_ends_with_the_file_goes_beyond_it(segment, tmp_path, caplog):
    segment.seal()
    segment.sync(with_indexes=True)
    last = segment._index.last_position
    with (tmp_path / "00000000000000000500.log").open("r+b") as file:
        file.truncate(last)
    for sealed_at in (None, BASE + 60):
        caplog.clear()
        again = new(tmp_path, CONFIG, sealed_at=sealed_at)
        again.load() if sealed_at is None else again.find(BASE)
        assert "will be rebuilt" in caplog.text
        assert again._index.last_position < last


def test_index_that_cannot_be_rebuilt_now_is_rebuilt_later():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    segment = Segment.create(disk, "t-0", BASE, CONFIG)
    fill(segment)
    segment.seal()
    segment.sync(with_indexes=True)
    disk.remove(f"t-0/{BASE:020}.index")
    again = Segment(disk, "t-0", BASE, CONFIG, BASE + 60)
    disk.plan = fail_at(disk.calls + 3)
    with pytest.raises(OSError, match="planned"):
        again.find(BASE + 30)
    disk.plan = None
    assert (again.next_offset, again.is_stored) == (BASE + 60, True)
    found = again.find(BASE + 30)
    assert found is not None
    assert (found.base_offset, again.is_stored, again.highest_timestamp()) == (BASE + 30, False, NOW_MS + 19_002)


@pytest.mark.parametrize("timestamp", [-1, -5])
@pytest.mark.parametrize("byte", [MAGIC, BODY])
def test_clean_start_cuts_nothing_of_a_segment_without_timestamps(tmp_path, caplog, timestamp, byte):
    segment = stored(fill_with(new(tmp_path, CONFIG), [timestamp] * 20))
    damage(segment, tmp_path, 2, byte)
    again = new(tmp_path, CONFIG)
    assert again.load() == 0
    assert (again.next_offset, again.size_bytes, again.is_stored) == (BASE + 20, segment.size_bytes, True)
    assert (again.highest_timestamp(), caplog.text) == (-1, "")


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("timestamp", [-1, NOW_MS])
def test_segment_of_any_size_is_opened_by_a_few_headers(tmp_path, monkeypatch, is_sealed, timestamp):
    stored(fill_with(new(tmp_path, CONFIG), [timestamp] * 300))
    looked_at = []
    header = Window.header

    def counted(window, position):
        looked_at.append(position)
        return header(window, position)

    monkeypatch.setattr(Window, "header", counted)
    monkeypatch.delattr("kafkawire.reference_broker.storage.segments.segment.rebuild")
    again = new(tmp_path, CONFIG, sealed_at=BASE + 300 if is_sealed else None)
    if not is_sealed:
        assert again.load() == 0
    assert again.find(BASE + 200) is not None
    assert again.highest_timestamp() == timestamp
    assert Segments([again]).offset_for_timestamp(NOW_MS + 1, 0) is None
    assert len(looked_at) < 12


@pytest.mark.parametrize("times", ["whole", "empty", "missing"])
@pytest.mark.parametrize("timestamp", [-1, NOW_MS])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_index_by_offset_outlives_that_by_time(tmp_path, is_sealed, timestamp, times):
    segment = stored(fill_with(new(tmp_path, CONFIG), [timestamp] * 20))
    lost = damage(segment, tmp_path, 3, MAGIC)
    if times != "whole":
        without_times(tmp_path, times)
    good = (tmp_path / INDEX).read_bytes()
    for _ in range(2):
        again = new(tmp_path, CONFIG, sealed_at=BASE + 20 if is_sealed else None)
        assert is_sealed or again.load() == 0
        assert set(range(BASE, BASE + 20)) - set(readable(again)) <= {lost, lost + 1}
        if not again.is_stored:
            stored(again)
        assert (tmp_path / INDEX).read_bytes() == good


@pytest.mark.parametrize("times", ["empty", "missing"])
def test_times_before_damage_are_found(segment, tmp_path, times):
    stored(segment)
    damage(segment, tmp_path, 7, MAGIC)
    without_times(tmp_path, times)
    for _ in range(2):
        again = new(tmp_path, CONFIG, sealed_at=BASE + 60)
        assert next(again.from_time(NOW_MS + 2_000)).base_offset == BASE + 6
        assert again.find(BASE + 3) is not None
        assert next(again.from_time(NOW_MS + 2_000)).base_offset == BASE + 6
        with pytest.raises(DecodeError):
            next(again.from_time(NOW_MS + 15_000))


@pytest.mark.parametrize(("byte", "is_known"), [(BODY, True), (MAGIC, False)])
@pytest.mark.parametrize("times", ["empty", "missing"])
def test_index_by_time_with_a_hole_is_never_stored(segment, tmp_path, byte, is_known, times):
    """After it has been damaged, the segment is appended to and sealed."""
    stored(segment)
    damage(segment, tmp_path, 7, byte)
    without_times(tmp_path, times)
    again = new(tmp_path, CONFIG)
    assert (again.load(), again.is_stored) == (0, True)

    def check(highest, offsets):
        assert again.find(offsets[-1]) is not None
        if is_known:
            assert again.highest_timestamp() == highest
            assert next(again.from_time(NOW_MS + 15_000)).base_offset == BASE + 45
        else:
            with pytest.raises(DecodeError):
                again.highest_timestamp()
            with pytest.raises(DecodeError):
                next(again.from_time(NOW_MS + 15_000))

    check(NOW_MS + 19_002, range(BASE, BASE + 60))
    fill_with(again, [NOW_MS + 30_000, *[NOW_MS] * 10])
    check(NOW_MS + 30_000, range(BASE, BASE + 71))
    stored(again).stored()
    check(NOW_MS + 30_000, range(BASE, BASE + 71))
    again = new(tmp_path, CONFIG, sealed_at=BASE + 71)
    check(NOW_MS + 30_000, range(BASE, BASE + 71))
    assert not (tmp_path / TIME_INDEX).exists() if times == "missing" else not (tmp_path / TIME_INDEX).read_bytes()


@pytest.mark.parametrize("timestamp", [-1, -5])
def test_segment_without_timestamps_and_time_index_has_none(tmp_path, timestamp):
    stored(fill_with(new(tmp_path, CONFIG), [timestamp] * 20))
    without_times(tmp_path, "missing")
    again = new(tmp_path, CONFIG, sealed_at=BASE + 20)
    assert again.highest_timestamp() == -1
    assert again.find(BASE + 10) is not None
    assert (again.highest_timestamp(), again.is_stored) == (-1, False)
