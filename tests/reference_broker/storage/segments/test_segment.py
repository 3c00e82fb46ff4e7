"""Segments store batches under Kafka's file names, index them, find them, and repair themselves.

Method: use the segments of `filled_segments`.
"""

import dataclasses
import struct
import threading
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import stamp
from tests.reference_broker.storage.filled_segments import BASE, CONFIG, fill, new
from tests.reference_broker.storage.produced_batches import NOW_MS, produced


@pytest.fixture
def segment(tmp_path):
    return fill(new(tmp_path, CONFIG))


def test_file_names(segment, tmp_path):
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000500.log"]
    segment.seal()
    segment.sync(with_indexes=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"00000000000000000500{suffix}" for suffix in (".index", ".log", ".timeindex")]


def test_every_offset_is_found(segment):
    assert segment.next_offset == BASE + 60
    assert len(segment._index) > 5
    for offset in range(BASE, BASE + 60):
        header = segment.find(offset)
        assert header.base_offset <= offset <= header.last_offset
    assert segment.find(BASE + 60) is None


def test_the_place_of_every_offset(segment, tmp_path):
    """The positions of the last batches are known without the file."""
    segment.seal()
    segment.sync(with_indexes=True)
    again = new(tmp_path, CONFIG)
    again.load()
    for offset in range(BASE, BASE + 60):
        found = segment.find(offset)
        expected = (found.base_offset, found.position, found.size_bytes)
        assert segment.place_of(offset) == again.place_of(offset) == expected
    assert segment.place_of(BASE + 60) is None


def test_every_time_is_found(segment):
    for number in range(20):
        for after in (-500, 0, 2):
            assert next(segment.from_time(NOW_MS + 1000 * number + after)).base_offset == BASE + 3 * number
    assert not list(segment.from_time(NOW_MS + 1000 * 19 + 3))


def test_closed_segment_is_loaded_as_it_was(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    again = new(tmp_path, CONFIG)
    again.load()
    for attribute in ("next_offset", "_max_timestamp", "_max_timestamp_offset", "size_bytes", "_first_timestamp"):
        assert getattr(again, attribute) == getattr(segment, attribute), attribute


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_index_is_made_again(segment, tmp_path, caplog, suffix, damage):
    segment.seal()
    segment.sync(with_indexes=True)
    path = tmp_path / f"00000000000000000500{suffix}"
    good = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(good[:-3])
    again = new(tmp_path, CONFIG)
    again.load()
    assert "00000000000000000500.log: an index is missing or damaged, and will be rebuilt" in caplog.text
    again.seal()
    again.sync(with_indexes=True)
    assert path.read_bytes() == good
    assert again.next_offset == segment.next_offset


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_index_entries_are_more_than_the_interval_apart(tmp_path, is_rebuilt):
    """As in Kafka, a distance equal to the interval does not lead to an entry."""
    batch_bytes = len(produced(*[b"v" * 10] * 3))
    segment = fill(new(tmp_path, dataclasses.replace(CONFIG, index_interval_bytes=batch_bytes)), batches=6)
    if is_rebuilt:
        assert segment.recover() == 0
    segment.seal()
    segment.sync(with_indexes=True)
    index = (tmp_path / "00000000000000000500.index").read_bytes()
    entries = list(struct.iter_unpack(">ii", index))
    assert entries == [(8, 2 * batch_bytes), (14, 4 * batch_bytes)]
    time_index = (tmp_path / "00000000000000000500.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", time_index)) == [
        (NOW_MS + 1000 * number + 2, 3 * number + 2) for number in (2, 4, 5)
    ]


@pytest.mark.parametrize("batch", [0, 7, 19])
@pytest.mark.parametrize("byte", [8, 16, 17, 30, -1])
def test_recovery_cuts_at_a_damaged_batch(segment, tmp_path, caplog, batch, byte):
    headers = list(segment.headers(0))
    position = headers[batch].position + (byte if byte >= 0 else headers[batch].size_bytes - 1)
    path = tmp_path / "00000000000000000500.log"
    content = bytearray(path.read_bytes())
    content[position] ^= 0x55
    path.write_bytes(content)
    again = new(tmp_path, CONFIG)
    assert again.recover() == len(content) - headers[batch].position
    assert again.next_offset == BASE + 3 * batch
    assert path.stat().st_size == headers[batch].position
    cut = len(content) - headers[batch].position
    assert f"cutting off the last {cut} of {len(content)} bytes; the log continues at offset {BASE + 3 * batch}" in (
        caplog.text
    )
    # The errors for a bad length, format and checksum differ.
    assert {8: "partial batch", 16: "magic", 17: "checksum", 30: "checksum", -1: "checksum"}[byte] in caplog.text


@pytest.mark.parametrize("size_bytes", [100, 128])
def test_no_flipped_bit_of_a_length_loses_a_batch(tmp_path, size_bytes):
    """The second of three batches has a wrong length; with one flipped bit, it can take in the whole third batch."""
    config = dataclasses.replace(CONFIG, index_interval_bytes=100_000)
    segment = new(tmp_path, config)
    for number in range(3):
        data = next(data for size in range(100) if len(data := produced(b"v" * size)) == size_bytes)
        stamp(data, BASE + number, 0)
        segment.append(data, parse_header(data), BASE + number)
    path = tmp_path / f"{BASE:020}.log"
    content = path.read_bytes()
    for bit in range(32):
        damaged = bytearray(content)
        damaged[size_bytes + 8 + bit // 8] ^= 0x80 >> bit % 8
        path.write_bytes(damaged)
        found = segment.find(BASE)
        assert found is not None
        assert found.base_offset == BASE
        with pytest.raises(DecodeError):
            list(segment.headers(0))
        with pytest.raises(DecodeError):
            segment.find(BASE + 2)
        assert new(tmp_path, config).recover() == 2 * size_bytes
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("changes", "max_timestamp_ms", "full"),
    [
        ({}, 0, False),
        ({"segment_bytes": 2_000}, 0, True),
        ({"segment_index_bytes": 24}, 0, True),
        ({}, 60_000, False),
        ({}, 60_003, True),
    ],
)
def test_when_to_roll(tmp_path, changes, max_timestamp_ms, full):
    segment = new(tmp_path, dataclasses.replace(CONFIG, **changes))
    header = parse_header(produced(b"x", timestamps=(NOW_MS + 2 + max_timestamp_ms,)))
    assert not segment.is_full_for(header, NOW_MS), "an empty segment accepts everything"
    fill(segment)
    assert segment.is_full_for(header, NOW_MS) is full


@pytest.mark.parametrize(("age_ms", "full"), [(0, False), (60_000, False), (60_001, True), (-60_001, False)])
def test_segment_without_timestamps_is_as_old_as_its_first_append(tmp_path, age_ms, full):
    segment = new(tmp_path, CONFIG)
    data = produced(b"x", timestamps=(-1,))
    stamp(data, BASE, 0)
    header = parse_header(data)
    segment.append(data, header, BASE, NOW_MS)
    assert segment.is_full_for(header, NOW_MS + age_ms) is full
    assert segment.is_full_for(header._replace(max_timestamp=10**15), NOW_MS + age_ms) is full
    segment.seal()
    segment.sync(with_indexes=True)
    again = new(tmp_path, CONFIG)
    again.load()
    assert not again.is_full_for(header, NOW_MS + age_ms), "the age is counted from the first append since startup"
    again.append(data, header, BASE + 1, NOW_MS)
    assert again.is_full_for(header, NOW_MS + age_ms) is full


def test_age_counts_from_the_first_append(tmp_path):
    segment = new(tmp_path, CONFIG)
    data = produced(b"x", timestamps=(-1,))
    header = parse_header(data)
    segment.append(data, header, BASE, NOW_MS)
    segment.append(data, header, BASE + 1, NOW_MS + 60_000)
    assert segment.is_full_for(header, NOW_MS + 60_001)


def test_offsets_beyond_the_index_roll(tmp_path):
    segment = fill(new(tmp_path, CONFIG), 1)
    header = parse_header(produced(b"x"))
    segment.next_offset = BASE + 2**31 - 1
    assert not segment.is_full_for(header, NOW_MS)
    segment.next_offset += 1
    assert segment.is_full_for(header, NOW_MS)


def test_highest_timestamp_is_known_without_loading_anything(segment, tmp_path, monkeypatch):
    highest = NOW_MS + 19_002
    assert segment.highest_timestamp() == highest
    segment.seal()
    segment.sync(with_indexes=True)
    segment.stored()
    assert segment.highest_timestamp() == highest
    assert not segment._is_indexed
    with monkeypatch.context() as patch:
        patch.delattr(Segment, "headers")
        assert segment.highest_timestamp() == highest, "no batch is read"
    (tmp_path / "00000000000000000500.timeindex").write_bytes(b"damaged")
    assert segment.highest_timestamp() == highest
    assert not segment._is_indexed
    (tmp_path / "empty").mkdir()
    assert new(tmp_path / "empty", CONFIG).highest_timestamp() == -1


def test_retired_files_are_out_of_the_way_and_stay_readable(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    retired = segment.retire()
    assert sorted(retired) == sorted(f"{tmp_path.name}/{path.name}" for path in tmp_path.iterdir())
    assert all(path.endswith(".deleted") for path in retired)
    assert segment.file.read(0, 10)
    assert segment.retire() == []


def test_jitter_differs_between_segments_and_lets_them_roll_early():
    batch = parse_header(produced(b"v", timestamps=(NOW_MS,)))

    def is_full_at(segment, ms):
        return segment.is_full_for(batch._replace(max_timestamp=ms), NOW_MS)

    def roll_times(jitter_ms):
        config = dataclasses.replace(CONFIG, segment_jitter_ms=jitter_ms, segment_ms=60_000)
        found = set()
        for number in range(50):
            disk = MemoryDisk()
            disk.make_folder("t-0")
            segment = Segment.create(disk, "t-0", number, config)
            segment.append(produced(b"v", timestamps=(NOW_MS,)), batch, number)
            times = range(NOW_MS, NOW_MS + 60_002)
            found.add(bisect_left(times, True, key=lambda ms: is_full_at(segment, ms)))
        return found

    assert roll_times(0) == {60_001}
    early = roll_times(1000)
    assert len(early) > 30
    assert min(early) > 59_000
    assert max(early) <= 60_001


@pytest.mark.parametrize(("timestamp", "entries"), [(NOW_MS, [(NOW_MS, 0)]), (-1, [])])
def test_the_first_batch_with_the_highest_timestamp_ends_the_time_index(tmp_path, timestamp, entries):
    segment = new(tmp_path, CONFIG)
    data = produced(b"x", timestamps=(timestamp,))
    for offset in (BASE, BASE + 1):
        segment.append(data, parse_header(data), offset)
    segment.seal()
    segment.seal()
    segment.sync(with_indexes=True)
    time_index = (tmp_path / "00000000000000000500.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", time_index)) == entries


def test_stored_segment_holds_neither_indexes_nor_file(segment):
    segment.release()
    assert segment._file is not None
    segment.seal()
    segment.release()
    assert segment._file is not None, "the segment has to be synced"
    segment.sync(with_indexes=True)
    segment.stored()
    assert (len(segment._index), len(segment._time_index)) == (0, 0)
    segment.release()
    assert segment._file is None
    found = segment.find(BASE + 30)
    assert found is not None
    assert found.base_offset == BASE + 30


def test_file_is_opened_once_whatever_threads_need_it(monkeypatch):
    """A background sync and an append may both need the file; each handle has its own size, which limits its reads."""
    disk = MemoryDisk()
    disk.make_folder("f")
    segment, opened, resume = Segment.create(disk, "f", BASE, CONFIG), threading.Barrier(2), threading.Event()
    open_file = disk.open

    def slowly(path, **options):
        opened.wait(10)
        assert resume.wait(10)
        return open_file(path, **options)

    monkeypatch.setattr(disk, "open", slowly)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: segment.file)
        opened.wait(10)
        second = threads.submit(lambda: segment.file)
        with pytest.raises(threading.BrokenBarrierError):
            opened.wait(0.2)  # no other thread opens the file
        resume.set()
        assert first.result(10) is second.result(10)


@pytest.mark.parametrize("is_cut_back", [True, False])
def test_failed_append_is_cut_back_if_the_disk_lets_it(is_cut_back):
    disk = MemoryDisk()
    disk.make_folder("f")
    segment = fill(Segment.create(disk, "f", BASE, CONFIG), 2)
    size_bytes, failing = segment.size_bytes, disk.calls + 1

    def plan(call):
        if call.number == failing or (call.number > failing and not is_cut_back):
            raise OSError(5, f"planned, {call.name}")

    disk.plan = plan
    data = produced(b"x")
    with pytest.raises(OSError, match="planned, append"):
        segment.append(data, parse_header(data), segment.next_offset)
    disk.plan = None
    assert (segment.size_bytes == size_bytes) is is_cut_back
    assert segment.next_offset == BASE + 6


def test_what_another_segment_of_this_name_has_left_is_gone(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / f"{BASE:020}.log").write_bytes(b"left")
    segment = Segment.create(MachineDisk(tmp_path), "f", BASE, CONFIG)
    assert (segment.size_bytes, segment.file.size_bytes) == (0, 0)


def test_distance_to_the_next_index_entry_outlives_a_restart(segment, tmp_path):
    batch_bytes = len(produced(*[b"v" * 10] * 3))
    config = dataclasses.replace(CONFIG, index_interval_bytes=3 * batch_bytes)
    once, twice = (new(tmp_path / name, config) for name in ("once", "twice") if not (tmp_path / name).mkdir())
    fill(once, batches=6)
    fill(twice, batches=2).seal()
    twice.sync(with_indexes=True)
    again = new(tmp_path / "twice", config)
    again.load()
    fill(again, batches=4)
    assert list(again._index._values) == list(once._index._values) == [4 * batch_bytes]


def test_segment_that_was_cut_has_to_be_stored_again(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    path = tmp_path / f"{BASE:020}.log"
    path.write_bytes(path.read_bytes()[:-5])
    again = new(tmp_path, CONFIG)
    with pytest.raises(DecodeError):
        again.load()
    assert again.recover() > 0
    assert not again.is_stored


@pytest.mark.parametrize("is_damaged", [True, False])
def test_damage_that_a_rebuild_meets_is_reported(segment, tmp_path, caplog, is_damaged):
    segment.seal()
    segment.sync(with_indexes=True)
    (tmp_path / f"{BASE:020}.index").unlink()
    content = bytearray((tmp_path / f"{BASE:020}.log").read_bytes())
    content[-1] ^= is_damaged
    (tmp_path / f"{BASE:020}.log").write_bytes(content)
    assert new(tmp_path, CONFIG, segment.next_offset).find(BASE) is not None
    assert ("reading later batches is slow" in caplog.text) is is_damaged


def test_index_that_was_let_go_is_read_for_an_offset_by_position(segment, tmp_path):
    segment.seal()
    segment.sync(with_indexes=True)
    expected = segment.offset_from(300)
    assert expected is not None
    assert new(tmp_path, CONFIG, segment.next_offset).offset_from(300) == expected


@pytest.mark.parametrize("bit", [4, 5, 40, 62])
def test_batch_whose_offset_cannot_be_right_is_damage_and_no_gap(segment, tmp_path, bit):
    """The checksum does not cover the offset; later batches can be read if the index points to them."""
    segment.seal()
    segment.sync(with_indexes=True)
    path = tmp_path / f"{BASE:020}.log"
    batch = list(segment.headers(0))[10]
    content = bytearray(path.read_bytes())
    content[batch.position + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    again = new(tmp_path, CONFIG, segment.next_offset)
    assert again.find(batch.base_offset - 1) is not None
    with pytest.raises(DecodeError, match="base_offset"):
        again.find(batch.base_offset)
    assert again.find(BASE + 59) is not None


def test_indexes_keep_the_size_that_they_were_made_for(tmp_path):
    """The file may already have more entries than a smaller index could hold."""
    (tmp_path / "t-0").mkdir()
    segment = Segment.create(MachineDisk(tmp_path), "t-0", 0, CONFIG)
    segment.configure(dataclasses.replace(CONFIG, segment_index_bytes=8, index_interval_bytes=5))
    assert segment._config == dataclasses.replace(CONFIG, index_interval_bytes=5)
