"""The load of the multi-broker tests counts each kind of fault, and reports segments that differ.

Method: introduce one fault at a time into what the clients were told, the stored records, or files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.cluster_load import Counts, Notes, Place, Stored, count, segments_equal

#: Records with two keys in one partition.
STORED = [Stored(Place(0, offset), offset % 2, offset // 2) for offset in range(8)]


class Run:
    """The notes of a load without a fault."""

    def __init__(self) -> None:
        self.notes = Notes({(record.key, record.number): record.place for record in STORED})
        self.notes.read = {record.place for record in STORED}
        self.stored = list(STORED)
        self.copies = list(STORED)

    def count(self) -> Counts:
        return count(self.notes, self.stored, self.copies, {})


def swap(records: list[Stored]) -> None:
    """Move a record behind the next record with the same key."""
    records[2], records[4] = records[4], records[2]


def lose(run: Run) -> None:
    """Remove a record from both topics."""
    run.stored.pop()
    run.copies.pop()


def misplace(run: Run) -> None:
    run.notes.acknowledged[0, 0] = Place(0, 2)


FAULTS: dict[str, tuple[Callable[[Run], object], dict[str, int]]] = {
    "none": (lambda run: None, {}),
    "lost": (lose, {"lost": 1, "misplaced": 1}),
    "misplaced": (misplace, {"misplaced": 1}),
    "twice": (lambda run: run.stored.append(Stored(Place(0, 8), 1, 3)), {"duplicates": 1, "unread": 1}),
    "late": (lambda run: swap(run.stored), {"out_of_order": 1}),
    "failed": (lambda run: run.notes.failures.append("an error"), {"failed": 1}),
    "unread": (lambda run: run.notes.read.remove(Place(0, 3)), {"unread": 1}),
    "not copied": (lambda run: run.copies.pop(3), {"not_copied": 1}),
    "copied twice": (lambda run: run.copies.append(run.copies[7]), {"copied_again": 1}),
    "copied late": (lambda run: swap(run.copies), {"copied_out_of_order": 1}),
}


@pytest.mark.parametrize(("plant", "wrong"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_counted(plant: Callable[[Run], object], wrong: dict[str, int]) -> None:
    run = Run()
    plant(run)
    assert run.count().wrong == wrong


def test_segments_are_compared_byte_for_byte(tmp_path: Path) -> None:
    folders = {broker_id: tmp_path / str(broker_id) for broker_id in (1, 2, 3)}
    for folder in folders.values():
        (folder / "a-topic-0").mkdir(parents=True)
        (folder / "a-topic-0" / "00000000000000000000.log").write_bytes(b"records")
        (folder / "a-topic-1.0123-delete").mkdir()
    found = segments_equal(folders, ["a-topic"])
    assert (found.partitions, found.size_bytes, found.different) == (1, 7, ())

    def differences() -> tuple[str, ...]:
        return segments_equal(folders, until_equal=False).different

    changed = folders[2] / "a-topic-0" / "00000000000000000000.log"
    changed.write_bytes(b"recOrds")
    assert differences() == ("a-topic-0: {1: 7, 2: 7, 3: 7} bytes, the first difference at 3",)
    changed.write_bytes(b"reco")
    (folders[2] / "a-topic-0" / "00000000000000000004.log").write_bytes(b"rds")  # a follower may roll a segment
    assert differences() == ()
    (folders[3] / "a-topic-1").mkdir()
    assert differences() == ("a-topic-1 is on [3]",)
    assert segments_equal(folders, ["b"], until_equal=False).different == ("there is no partition of b",)
