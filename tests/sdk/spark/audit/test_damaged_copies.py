"""An audit reports a damaged copy and the extent of its loss, and finds nothing wrong in an undamaged one.

Method: damage a partition of four segments with its checkpoints as people, disks and tools damage copies, read it as
Spark's workers do, and derive the findings from the facts and from the files next to the segments.
`test_partition_facts.py` covers damage that only those files reveal. Spark is not needed, because gaps are computed
here as in the tables.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")
pytest.importorskip("numpy", reason="numpy is not installed: the extra `spark` brings it")

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.audit.fact_rows import FactRows, NotedFacts
from kafkawire.sdk.spark.audit.partition_facts import losses, read_partition_facts
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_into
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.storage.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, checkpoint_content
from tests.sdk.spark.segments.logs import batch, planned, write_segment

BASES = (0, 50, 100, 150)
END = 200


class Report(NamedTuple):
    """An audit's findings about a partition.

    Attributes:
        lost: the number of lost offsets.
        regions: the number of damaged regions.
        damaged_bytes: the size of these regions.
        tail_bytes: the size of the bytes after the last batch.
        epoch_steps: the number of batches with a lower leader epoch than their predecessors.
    """

    lost: int = 0
    regions: int = 0
    damaged_bytes: int = 0
    tail_bytes: int = 0
    epoch_steps: int = 0


def batches(base: int, epoch: int = 3) -> list[bytes]:
    return [batch(base + 10 * number, partition_leader_epoch=epoch) for number in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "orders-0"
    for base in BASES:
        write_segment(found, batches(base))
    (found / LEADER_EPOCHS).write_bytes(checkpoint_content([(3, 0)]))
    (tmp_path / HIGH_WATERMARKS).write_bytes(checkpoint_content([("orders", 0, END)]))
    return found


def report_of(folder: Path) -> Report:
    files = SegmentFiles([str(folder.parent)])
    rows: list[dict[str, Any]] = []
    options = ReadOptions((), fails_on_loss=False, logs_loss=True)
    for found in read_into(FactRows(NotedFacts(reads_records=False)), planned(files), files, options):
        rows += found.to_pylist()
    sound = sorted((row for row in rows if row["reason"] is None), key=lambda row: row["baseOffset"])
    regions = [row["sizeBytes"] for row in rows if row["reason"] is not None and row["tail"] is None]
    expected = [row["baseOffset"] for row in rows if row["reason"] is not None and row["tail"] is None]
    lost, reached = 0, min(expected, default=None)
    for row in sound:
        lost += max(row["baseOffset"] - reached, 0) if reached is not None else 0
        reached = row["lastOffset"] + 1
    facts = read_partition_facts(files, *files.look())[TopicPartition("orders", 0)]
    lost += sum(loss.end - loss.start for loss in losses(facts, reached))
    epochs = [row["leaderEpoch"] for row in sound]
    return Report(
        lost,
        len(regions),
        sum(regions),
        sum(row["sizeBytes"] for row in rows if row["tail"] is not None),
        sum(after < before for before, after in pairwise(epochs)),
    )


def log(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.log"


def change(folder: Path, base: int, act: Callable[[bytes], bytes]) -> None:
    path = log(folder, base)
    path.write_bytes(act(path.read_bytes()))


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def swap(folder: Path, one: int, other: int) -> None:
    first, second = log(folder, one).read_bytes(), log(folder, other).read_bytes()
    log(folder, one).write_bytes(second)
    log(folder, other).write_bytes(first)


def size(base: int) -> int:
    return len(b"".join(batches(base)))


ONE = len(batches(50)[0])  # the size of a batch; those with the first ten offsets are shorter
LAST = len(batches(150)[0])

DAMAGE: dict[str, tuple[Callable[[Path], object], Report]] = {
    "a bit of a record": (lambda folder: change(folder, 50, lambda c: flipped(c, ONE + 80)), Report(10, 1, ONE)),
    "a bit of the last batch": (
        lambda folder: change(folder, 150, lambda c: flipped(c, 4 * LAST + 80)),
        Report(10, 1, LAST),
    ),
    "a bit of a size": (lambda folder: change(folder, 50, lambda c: flipped(c, ONE + 9)), Report(10, 1, ONE)),
    "a bit of an offset": (lambda folder: change(folder, 50, lambda c: flipped(c, ONE + 3)), Report(10, 1, ONE)),
    "a block of zeros": (
        lambda folder: change(folder, 50, lambda c: c[:ONE] + bytes(3 * ONE) + c[4 * ONE :]),
        Report(30, 1, 3 * ONE),
    ),
    "a segment of zeros": (
        lambda folder: change(folder, 50, lambda c: bytes(len(c))),
        Report(50, 1, size(50)),
    ),
    "the last segment of zeros": (
        lambda folder: change(folder, 150, lambda c: bytes(len(c))),
        Report(50, tail_bytes=size(150)),
    ),
    "zeros at the end": (lambda folder: change(folder, 150, lambda c: c + bytes(4096)), Report(tail_bytes=4096)),
    "garbage at the end": (lambda folder: change(folder, 150, lambda c: c + b"\xee" * 99), Report(0, 1, 99)),
    "the end of the last batch": (
        lambda folder: change(folder, 150, lambda c: c[:-7]),
        Report(10, tail_bytes=LAST - 7),
    ),
    "the end of another segment": (lambda folder: change(folder, 50, lambda c: c[:-7]), Report(10, 1, ONE - 7)),
    "an empty segment between others": (lambda folder: change(folder, 100, lambda c: b""), Report(50)),
    "a segment between others": (lambda folder: log(folder, 50).unlink(), Report(50)),
    "a batch that is there twice": (lambda folder: change(folder, 50, lambda c: c[:ONE] + c), Report(0, 1, ONE)),
    "a batch that was cut out": (lambda folder: change(folder, 50, lambda c: c[:ONE] + c[2 * ONE :]), Report(10)),
    "two batches that changed places": (
        lambda folder: change(folder, 50, lambda c: c[ONE : 2 * ONE] + c[:ONE] + c[2 * ONE :]),
        Report(10, 1, ONE),
    ),
    "two segments that changed places": (
        lambda folder: swap(folder, 50, 100),
        Report(100, 10, size(50) + size(100)),
    ),
    "the first two segments, which changed places": (
        lambda folder: swap(folder, 0, 50),
        Report(100, 10, size(0) + size(50)),
    ),
    "a segment with another name": (
        lambda folder: log(folder, 50).rename(log(folder, 70)),
        Report(20, 2, 2 * ONE),
    ),
    "a segment that is there under another name, too": (
        lambda folder: shutil.copy(log(folder, 50), log(folder, 300)),
        Report(0, 5, size(50)),
    ),
    "a segment of an older leader": (
        lambda folder: log(folder, 100).write_bytes(b"".join(batches(100, epoch=1))),
        Report(epoch_steps=1),
    ),
    "an older copy of the last segment": (lambda folder: change(folder, 150, lambda c: c[: 2 * LAST]), Report(30)),
}


def test_an_undamaged_copy_is_clean(folder: Path) -> None:
    assert report_of(folder) == Report()
    for path in folder.iterdir():  # times mean nothing, because most copies have new times
        os.utime(path, ns=(0, 0))
    assert report_of(folder) == Report()


@pytest.mark.parametrize(("act", "expected"), DAMAGE.values(), ids=DAMAGE)
def test_each_damage_is_reported(folder: Path, act: Callable[[Path], object], expected: Report) -> None:
    act(folder)
    assert report_of(folder) == expected
