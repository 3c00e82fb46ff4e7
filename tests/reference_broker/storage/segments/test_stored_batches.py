"""All batches in a segment, whatever their sizes, are read in chunks with few disk calls.

Method: read files of small and large batches, with damage in both kinds; compute the producers of random histories from
all batches and from selected ones.
"""

from __future__ import annotations

import random
from itertools import islice

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import BatchHeader, parse_header
from kafkawire.reference_broker.storage.disk.disk import File
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producer_snapshots import encode_snapshot, producer_state_entries
from kafkawire.reference_broker.storage.producers.producer_state import note_stored
from kafkawire.reference_broker.storage.producers.producers import BATCHES_KEPT, Marker, Producers
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.stored_batches import (
    PIECE_BYTES,
    epoch_starts,
    producer_batches,
    survey_file,
)
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import stamp
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.survey import Survey, SurveyEntry
from kafkawire.sdk.storage.file_names import LOG_SUFFIX, file_name
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

END = 2**63 - 1


def stored(*batches: bytes | bytearray | memoryview) -> tuple[File, list[BatchHeader]]:
    """Return a file of batches with one record each, and their headers."""
    file = MemoryDisk().open("log", create=True)
    headers = []
    for number, data in enumerate(batches):
        view = bytearray(data)
        stamp(view, number, 0)
        headers.append(parse_header(view, 0, file.size_bytes))
        file.append(view)
    return file, headers


def sized(*sizes: int) -> tuple[File, list[BatchHeader]]:
    return stored(*(produced(bytes(size), producer_id=1, producer_epoch=0, base_sequence=0) for size in sizes))


@pytest.mark.parametrize("sizes", [[10] * 5, [PIECE_BYTES * 2], [10, PIECE_BYTES + 9, 10, PIECE_BYTES - 50, 10]])
def test_batches_of_any_size_are_surveyed(sizes: list[int]) -> None:
    file, headers = sized(*sizes)
    entries: list[SurveyEntry] = []
    survey = Survey(0, 0)
    assert survey_file(file, survey, entries.append) is None
    assert (survey.size_bytes, survey.next_offset) == (file.size_bytes, len(sizes))
    assert [(last, position) for last, position, _, _ in entries] == [
        (header.last_offset, header.position) for header in headers[1:]
    ]


@pytest.mark.parametrize("sizes", [[10, 10, 10], [PIECE_BYTES * 2] * 3])
@pytest.mark.parametrize(
    ("byte", "value", "reason"),
    [
        (8, 0x7F, "bytes are needed, but "),
        (16, 1, "expected magic 2, got 1"),
        (-1, 0x55, "checksum"),
        (3, 1, f"expected offsets from 1 to {INT32_MAX}"),
    ],
)
def test_what_is_wrong_is_reported(sizes: list[int], byte: int, value: int, reason: str) -> None:
    file, headers = sized(*sizes)
    content = bytearray(file.read(0, file.size_bytes))
    content[(headers[1].position + byte) if byte >= 0 else (headers[2].position - 1)] ^= value ^ (
        2 if byte == 16 else 0
    )
    file.truncate(0)
    file.append(content)
    survey = Survey(0, 0)
    problem = survey_file(file, survey, lambda entry: None)
    assert reason in str(problem)
    assert (survey.size_bytes, survey.next_offset) == (headers[1].position, 1)


def test_a_piece_takes_one_call_of_the_disk() -> None:
    batch = bytes(produced(bytes(20)))
    count = 3 * PIECE_BYTES // len(batch)
    disk = MemoryDisk()
    file = disk.open("log", create=True)
    for number in range(count):
        data = bytearray(batch)
        stamp(data, number, 0)
        file.append(data)
    before = disk.calls
    assert survey_file(file, Survey(0, 4096), lambda entry: None) is None
    assert disk.calls - before <= 4
    before = disk.calls
    assert list(producer_batches(file, 0, 0, END, count)) == []
    assert disk.calls - before <= 8


@pytest.mark.parametrize(
    ("number", "byte", "starts"),
    [
        (2, -1, [(3, 10), (5, 12), (5, 13), (6, 14)]),
        (2, 16, [(3, 10)]),
        (2, 7, [(3, 10), (5, 13), (6, 14)]),
        (4, -1, [(3, 10), (5, 12), (6, 14)]),
        (4, 16, [(3, 10), (5, 12)]),
    ],
    ids=["body", "magic", "offset", "last body", "last magic"],
)
def test_epochs_behind_a_damaged_batch(number: int, byte: int, starts: list[tuple[int, int]]) -> None:
    batches = []
    for each, epoch in enumerate((3, 3, 5, 5, 6)):
        data = produced(b"v")
        stamp(data, 10 + each, epoch)
        if each == number:
            data[byte] ^= 5
        batches.append(data)
    disk = MemoryDisk()
    disk.make_folder("t-0")
    disk.open(f"t-0/{file_name(10, LOG_SUFFIX)}", create=True).append(b"".join(batches))
    segment = Segment(disk, "t-0", 10, log_config({}), sealed_at=15)
    found = epoch_starts(segment.file, 10, segment.headers)
    assert list(islice(found, len(starts))) == starts
    with pytest.raises(DecodeError, match=r"crc|magic|base_offset"):
        next(found)


def test_epochs_of_undamaged_batches() -> None:
    file = MemoryDisk().open("log", create=True)
    for number, epoch in enumerate((3, 3, 5, 4, 6)):
        data = produced(b"v")
        stamp(data, 10 + number, epoch)
        file.append(data)
    assert list(epoch_starts(file, 10, lambda position: iter(()))) == [(3, 10), (5, 12), (6, 14)]


class Changing:
    """A file whose next batch is complete whenever that batch is read alone."""

    def __init__(self, content: bytes) -> None:
        self.content, self.size_bytes, self.reads = content, len(content), 0

    def read(self, position: int, size_bytes: int) -> bytes:
        self.reads += 1
        return b"" if self.reads == 1 else self.content[position : position + size_bytes]


def test_file_that_changes_is_not_read_for_ever() -> None:
    file: object = Changing(bytes(produced(b"v")))
    problem = survey_file(file, Survey(0, 0), lambda entry: None)  # type: ignore[arg-type]  # a part of a file
    assert "changed while it was being read" in str(problem)


@pytest.mark.parametrize("piece_bytes", [100, 350, PIECE_BYTES])
def test_chosen_batches_say_the_same_as_all(piece_bytes: int) -> None:
    chance = random.Random(piece_bytes)
    for _ in range(60):
        sequences: dict[tuple[int, int], int] = {}
        epochs = dict.fromkeys(range(3), 0)
        batches: list[bytearray | memoryview] = []
        for _ in range(chance.randrange(60)):
            producer_id, kind = chance.randrange(3), chance.random()
            if kind < 0.1:
                marker = Marker(producer_id, epochs[producer_id], chance.random() < 0.5, 0)
                batches.append(build_marker(marker, NOW_MS)[0])
                continue
            if kind < 0.15:
                epochs[producer_id] += 1
            key = producer_id, epochs[producer_id]
            sequence = sequences.get(key, 0)
            sequences[key] = sequence + 1
            arguments = {"producer_id": key[0], "producer_epoch": key[1], "base_sequence": sequence}
            if kind < 0.3:
                batches.append(produced(b"v"))
            else:
                batches.append(produced(b"v", is_transactional=producer_id > 0, **arguments))  # type: ignore[arg-type]  # ints
        file, headers = stored(*batches)
        first = chance.randrange(len(headers) + 1)
        end = chance.randrange(first, len(headers) + 1)
        every, chosen = Producers(), Producers()
        for header in headers[first:end]:
            note_stored(every, file, header)
        for header in producer_batches(file, 0, first, end, len(headers), piece_bytes):
            assert file.read(header.position, 8) == header.base_offset.to_bytes(8, "big")
            note_stored(chosen, file, header)
        assert encode_snapshot(producer_state_entries(chosen)) == encode_snapshot(producer_state_entries(every))
        assert chosen.first_unstable_offset == every.first_unstable_offset
        assert {one.producer_id: list(one.batches) for one in chosen} == {
            one.producer_id: list(one.batches) for one in every
        }


@pytest.mark.parametrize("large", [10, PIECE_BYTES * 2])
def test_damage_and_gaps_between_pieces(large: int) -> None:
    file, headers = sized(large, large, 10)
    assert list(producer_batches(file, 0, 0, END, 3)) == headers
    assert list(producer_batches(file, 0, 1, 2, 3)) == headers[1:2]
    content = bytearray(file.read(0, file.size_bytes))
    content[headers[1].position - 1] ^= 1
    content[headers[1].position + 7] = 2  # an offset that is too high: only an undamaged batch may be followed by a gap
    file.truncate(0)
    file.append(content)
    found = producer_batches(file, 0, 0, END, 3)
    assert next(found).base_offset == 0
    with pytest.raises(DecodeError, match="crc"):
        next(found)


def test_last_batch_has_to_reach_the_next_segment_or_be_undamaged() -> None:
    file, headers = sized(10, 10)
    assert list(producer_batches(file, 0, 0, END, 9)) == headers
    content = bytearray(file.read(0, file.size_bytes))
    content[-1] ^= 1
    file.truncate(0)
    file.append(content)
    assert list(producer_batches(file, 0, 0, END, 2)) == headers
    with pytest.raises(DecodeError, match="crc"):
        list(producer_batches(file, 0, 0, END, 9))


def test_the_last_ones_are_as_many_as_a_producer_may_have_in_flight() -> None:
    file, headers = sized(*[10] * 9)
    assert list(producer_batches(file, 0, 0, END, 9)) == headers[-BATCHES_KEPT:]


def renumbered(number: int, base_offset: int, *sizes: int) -> tuple[File, list[BatchHeader]]:
    """Return the result of `sized`, but with a damaged offset."""
    file, headers = sized(*sizes)
    content = bytearray(file.read(0, file.size_bytes))
    at = headers[number].position
    content[at : at + 8] = base_offset.to_bytes(8, "big", signed=True)
    file.truncate(0)
    file.append(content)
    return file, headers


@pytest.mark.parametrize("large", [10, PIECE_BYTES * 2])
@pytest.mark.parametrize(
    ("number", "base_offset", "found"),
    [
        (0, -1, []),
        (0, 4, []),
        (1, 0, [0]),
        (1, 2, [0, 2]),
        (1, 3, [0]),
        (1, 2**63 - 1, [0]),
        (1, -(2**63), [0]),
        (2, 1, [0, 1]),
        (2, 3, [0, 1]),
        (2, 2**40, [0, 1]),
    ],
)
def test_batch_out_of_order_is_reported(large: int, number: int, base_offset: int, found: list[int]) -> None:
    file, _ = renumbered(number, base_offset, large, large, large)
    batches = producer_batches(file, 0, 0, END, 3)
    assert [header.base_offset for header in islice(batches, len(found))] == found
    with pytest.raises(DecodeError, match="base_offset"):
        next(batches)


def test_batch_before_its_segment_is_reported() -> None:
    file, headers = sized(10, 10, 10)
    with pytest.raises(DecodeError, match=r"expected offsets from 1 to"):
        list(producer_batches(file, 1, 0, END, 3))
    assert list(producer_batches(file, 0, 0, 1, 3)) == headers[:1], "the other batches are not requested"
