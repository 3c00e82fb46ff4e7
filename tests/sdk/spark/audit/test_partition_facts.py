"""The remaining files show what a data directory has lost; for a log that a broker has shortened, no loss is reported.

Method: write by hand a data directory as Kafka 4.3 leaves it (several segments, retention, deleted records, compaction,
a topic that is being deleted, one that is being moved, and one that was never written to); then do each kind of damage
that people do to copies, and make each change that a broker makes by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.audit.partition_facts import (
    Cause,
    CheckpointedOffset,
    Loss,
    PartitionFacts,
    agreeing_facts,
    loss_rows,
    losses,
    partition_fact_rows,
    read_partition_facts,
)
from kafkawire.sdk.spark.segments.end_offsets import PartitionEnds
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    checkpoint_content,
)
from tests.sdk.spark.segments.logs import batch, write_segment

UUID = "0123456789abcdef0123456789abcdef"


def note(folder: Path, name: str, offsets: dict[str, int]) -> None:
    """Write a checkpoint in a data directory: offsets keyed by partition, such as `orders-0`."""
    entries = [(*partition.rsplit("-", 1), offset) for partition, offset in offsets.items()]
    (folder / name).write_bytes(checkpoint_content(entries))


def write_partition(folder: Path, bases: list[int], end: int, start: int | None = None) -> None:
    """Write segments with a batch per ten offsets, a snapshot next to each segment but the first, and leader epochs."""
    for base, after in zip(bases, [*bases[1:], end], strict=True):
        if base < after:
            write_segment(folder, [batch(offset) for offset in range(base, after, 10)])
        else:
            folder.mkdir(exist_ok=True)
            (folder / f"{base:020}.log").touch()
            (folder / f"{base:020}.index").touch()
        if base != bases[0]:
            (folder / f"{base:020}.snapshot").touch()
    (folder / LEADER_EPOCHS).write_bytes(checkpoint_content([(0, bases[0] if start is None else start)]))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the data directory of a stopped broker."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_partition(folder / "orders-0", [0, 100, 200], 300)
    write_partition(folder / "orders-1", [0, 100], 150)
    write_partition(folder / "retained-0", [400, 500], 560)
    write_partition(folder / "emptied-0", [700], 700)  # retention has removed everything
    write_partition(folder / "cut-0", [100, 200], 250, start=133)  # records up to the middle of a segment were deleted
    write_partition(folder / "empty-0", [0], 0)
    shutil.copytree(folder / "orders-0", folder / f"gone-0.{UUID}-delete")
    shutil.copytree(folder / "orders-0", folder / f"moved-0.{UUID}-future")
    ends = {"orders-0": 300, "orders-1": 150, "retained-0": 560, "emptied-0": 700, "cut-0": 250, "empty-0": 0}
    note(folder, HIGH_WATERMARKS, {**ends, "gone-0": 300, "moved-0": 120})
    note(folder, RECOVERY_POINTS, ends)
    note(folder, LOG_START_OFFSETS, {"cut-0": 133})
    note(folder, CLEANER_OFFSETS, {})
    return folder


def losses_of(data: Path) -> dict[str, list[Loss]]:
    """Return the losses in each partition that has lost something."""
    files = SegmentFiles([str(data)])
    segments, listed = files.look()
    ends: dict[TopicPartition, int] = {}
    for segment in segments:
        if segment.size_bytes:
            ends[segment.folder] = PartitionEnds(files).of(segment).offset
    found = {
        str(partition): losses(facts, ends.get(partition))
        for partition, facts in read_partition_facts(files, segments, listed).items()
    }
    return {partition: lost for partition, lost in found.items() if lost}


def log(data: Path, partition: str, base: int, suffix: str = ".log") -> Path:
    return data / partition / f"{base:020}{suffix}"


def remove_segment(data: Path, partition: str, base: int) -> None:
    for path in (data / partition).glob(f"{base:020}.*"):
        path.unlink()


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def test_what_a_broker_leaves_is_whole(data: Path) -> None:
    assert losses_of(data) == {}


END = Loss(200, 300, Cause.END, HIGH_WATERMARKS)

#: Changes to the directory, and the losses to report for each.
DAMAGE: dict[str, tuple[Callable[[Path], object], dict[str, list[Loss]]]] = {
    "the last segment": (lambda data: remove_segment(data, "orders-0", 200), {"orders-0": [END]}),
    "its log alone": (lambda data: log(data, "orders-0", 200).unlink(), {"orders-0": [END]}),
    "its content": (lambda data: cut(log(data, "orders-0", 200), 0), {"orders-0": [END]}),
    "its last batches": (
        lambda data: cut(log(data, "orders-0", 200), 7 * len(batch(200)) + 20),
        {"orders-0": [END._replace(start=270)]},
    ),
    "the first segment": (
        lambda data: remove_segment(data, "orders-0", 0),
        {"orders-0": [Loss(0, 100, Cause.START, LEADER_EPOCHS)]},
    ),
    "the first segment behind deleted records": (
        lambda data: remove_segment(data, "cut-0", 100),
        {"cut-0": [Loss(133, 200, Cause.START, LEADER_EPOCHS)]},
    ),
    "first and last": (
        lambda data: (remove_segment(data, "orders-0", 0), remove_segment(data, "orders-0", 200)),
        {"orders-0": [Loss(0, 100, Cause.START, LEADER_EPOCHS), END]},
    ),
    "all logs": (
        lambda data: [path.unlink() for path in (data / "orders-0").glob("*.log")],
        {"orders-0": [Loss(0, 300, Cause.PARTITION, HIGH_WATERMARKS)]},
    ),
    "all logs of what retention shortened": (
        lambda data: [path.unlink() for path in (data / "retained-0").glob("*.log")],
        {"retained-0": [Loss(400, 560, Cause.PARTITION, HIGH_WATERMARKS)]},
    ),
    "the only content": (
        lambda data: [cut(path, 0) for path in (data / "orders-1").glob("*.log")],
        {"orders-1": [Loss(0, 100, Cause.GAP), Loss(100, 150, Cause.END, HIGH_WATERMARKS)]},
    ),
    "a folder": (
        lambda data: shutil.rmtree(data / "orders-1"),
        {"orders-1": [Loss(0, 150, Cause.PARTITION, HIGH_WATERMARKS)]},
    ),
    "another folder's segments": (
        lambda data: (
            [path.unlink() for path in (data / "orders-0").glob("0*")],
            [shutil.copy(path, data / "orders-0") for path in (data / "orders-1").glob("0*")],
        ),
        {"orders-0": [END._replace(start=150)]},
    ),
    "an older copy of the folder": (
        lambda data: (shutil.rmtree(data / "orders-0"), write_partition(data / "orders-0", [0, 100], 120)),
        {"orders-0": [END._replace(start=120)]},
    ),
    "the end, without high watermarks": (
        lambda data: ((data / HIGH_WATERMARKS).unlink(), remove_segment(data, "orders-0", 200)),
        {"orders-0": [END._replace(file=RECOVERY_POINTS)]},
    ),
    "the end, without checkpoints": (
        lambda data: (
            [path.unlink() for path in data.glob("*-checkpoint")],
            cut(log(data, "orders-0", 100), 0),
            log(data, "orders-0", 200).unlink(),
        ),
        {"orders-0": [Loss(100, 200, Cause.END, f"{200:020}.snapshot")]},
    ),
    "a last segment, of which its index is left": (
        lambda data: (
            [path.unlink() for path in data.glob("*-checkpoint")],
            log(data, "orders-1", 100).unlink(),
            log(data, "orders-1", 100, ".snapshot").unlink(),
            cut(log(data, "orders-1", 0), len(batch(0)) + 4 * len(batch(10))),
        ),
        {"orders-1": [Loss(50, 100, Cause.END, f"{100:020}.index")]},
    ),
    "an epoch that began behind the end": (
        lambda data: (
            [path.unlink() for path in data.glob("*-checkpoint")],
            (data / "orders-1" / LEADER_EPOCHS).write_bytes(checkpoint_content([(0, 0), (3, 170)])),
        ),
        {"orders-1": [Loss(150, 170, Cause.END, LEADER_EPOCHS)]},
    ),
    "what is before an empty last segment": (
        lambda data: (write_partition(data / "orders-1", [0, 100, 150], 150), remove_segment(data, "orders-1", 100)),
        {"orders-1": [Loss(100, 150, Cause.GAP)]},
    ),
    "the same, where nothing says how far it came": (
        lambda data: (
            [path.unlink() for path in data.glob("*-checkpoint")],
            write_partition(data / "orders-1", [0, 100, 150], 150),
            remove_segment(data, "orders-1", 100),
            log(data, "orders-1", 150, ".snapshot").unlink(),
            (data / "orders-1" / LEADER_EPOCHS).unlink(),
        ),
        {"orders-1": [Loss(100, 150, Cause.GAP)]},
    ),
}


@pytest.mark.parametrize(("act", "expected"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_gone_is_reported(data: Path, act: Callable[[Path], object], expected: dict[str, list[Loss]]) -> None:
    act(data)
    assert losses_of(data) == expected


#: Changes made by a broker, or by a person copying files, that lose nothing.
HARMLESS: dict[str, Callable[[Path], object]] = {
    "checkpoints that are behind": lambda data: (
        note(data, HIGH_WATERMARKS, {"orders-0": 40, "retained-0": 420}),
        note(data, RECOVERY_POINTS, {}),
    ),
    "no checkpoint": lambda data: [path.unlink() for path in data.glob("*-checkpoint")],
    "damaged checkpoints": lambda data: [path.write_text("0\n1\n") for path in data.rglob("*-checkpoint")],
    "logs alone": lambda data: [path.unlink() for path in data.rglob("*") if path.is_file() and path.suffix != ".log"],
    "a partition by itself": lambda data: (
        [shutil.rmtree(path) for path in data.iterdir() if path.is_dir() and path.name != "orders-0"]
        and (data / HIGH_WATERMARKS).unlink()
    ),
    "retention": lambda data: (
        remove_segment(data, "orders-0", 0),
        (data / "orders-0" / LEADER_EPOCHS).write_bytes(checkpoint_content([(0, 100)])),
    ),
    "an old segment that waits to be removed": lambda data: (
        note(data, LOG_START_OFFSETS, {"cut-0": 133, "orders-0": 210}),
        (data / "orders-0" / LEADER_EPOCHS).write_bytes(checkpoint_content([(0, 210)])),
    ),
    "segments in tiered storage": lambda data: (
        remove_segment(data, "orders-0", 0),
        note(data, LOG_START_OFFSETS, {"cut-0": 133, "orders-0": 0}),
        (data / "remote-log-index-cache").mkdir(),
        (data / "remote-log-index-cache" / f"0_{UUID}.index").touch(),
    ),
    "a compacted end before an empty segment": lambda data: (
        write_partition(data / "orders-1", [0, 150], 150),
        remove_segment(data, "orders-1", 100),
        cut(log(data, "orders-1", 0), len(batch(0)) + 7 * len(batch(10))),
        note(data, CLEANER_OFFSETS, {"orders-1": 150}),
    ),
    "a log that was never in this format": lambda data: (data / "orders-0" / LEADER_EPOCHS).write_text("0\n0\n"),
    "a topic that was made a moment ago": lambda data: write_partition(data / "new-0", [0], 20),
    "a segment whose name is wrong": lambda data: log(data, "orders-1", 9000).touch(),
    "a follower that began later": lambda data: write_partition(data / "late-0", [500], 540, start=520),
}


@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
def test_what_is_not_gone_is_not_reported(data: Path, act: Callable[[Path], object]) -> None:
    act(data)
    assert losses_of(data) == {}


def test_metadata_of_the_cluster_and_what_the_watermarks_do_not_name(data: Path) -> None:
    write_partition(data / "__cluster_metadata-0", [0], 50)
    write_partition(data / "renamed-7", [0], 50)
    log(data, "orders-1", 0, ".index").unlink()
    log(data, "empty-0", 0, ".index").unlink()  # an empty segment needs no index
    found = read_partition_facts(files := SegmentFiles([str(data)]), *files.look())
    assert {str(partition) for partition, facts in found.items() if facts.is_named is False} == {"renamed-7"}
    assert found[TopicPartition("__cluster_metadata", 0)].is_named is None
    assert {str(partition): each.unindexed for partition, each in found.items() if each.unindexed} == {"orders-1": 1}
    (data / HIGH_WATERMARKS).unlink()
    assert {each.is_named for each in read_partition_facts(files, *files.look()).values()} == {None}


def test_a_partition_that_is_named_by_its_folder_alone(data: Path) -> None:
    """The checkpoints are in the parent folder, but the query does not name the other partitions in it."""
    found = read_partition_facts(files := SegmentFiles([str(data / "orders-0")]), *files.look())
    assert {str(partition): each.reached for partition, each in found.items()} == {
        "orders-0": CheckpointedOffset(300, HIGH_WATERMARKS)
    }


@pytest.mark.parametrize("path", ["orders-0/*100.log", "orders-0/*.log", f"orders-0/{100:020}.log"])
def test_segments_that_are_named_themselves(data: Path, path: str) -> None:
    """A query that names segments does not ask for the others, so facts about the whole partition do not apply."""
    found = read_partition_facts(files := SegmentFiles([str(data / path)]), *files.look())
    assert [losses(facts, 300) for facts in found.values()] == [[]]
    assert {(each.reached, each.start, each.is_named, each.unindexed) for each in found.values()} == {
        (None, None, None, 0)
    }
    both = [str(data / path), str(data)]
    for paths in (both, both[::-1]):
        found = read_partition_facts(files := SegmentFiles(paths), *files.look())
        assert found[TopicPartition("orders", 0)].reached == CheckpointedOffset(300, HIGH_WATERMARKS)


def test_other_layouts(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders" / "0", [batch(10)])
    pattern = r"(?P<topic>\w+)/(?P<partition>\d+)/(?P<offset>\d{20})\.log"
    files = SegmentFiles([str(tmp_path)], pattern)
    assert read_partition_facts(files, *files.look()) == {
        TopicPartition("orders", 0): PartitionFacts(first_base=10, last_base=10)
    }


def test_a_partition_in_two_directories(tmp_path: Path, data: Path) -> None:
    """During and after a move, one directory has the segments, and the other still has a file from the partition."""
    other = tmp_path / "other" / "orders-0"
    other.mkdir(parents=True)
    (other / LEADER_EPOCHS).write_bytes(checkpoint_content([(0, 0), (9, 900)]))
    assert losses_of(tmp_path) == {}


BEFORE = PartitionFacts(
    100, 300, CheckpointedOffset(100, "e"), CheckpointedOffset(350, "h"), 100, 50, is_named=False, unindexed=2
)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (BEFORE, BEFORE),
        # The broker kept running and removed a segment, so the facts, which were read in between, need the smaller
        # ends.
        (
            BEFORE._replace(
                first_base=200, last_base=400, start=CheckpointedOffset(200, "e"), reached=CheckpointedOffset(460, "h")
            ),
            BEFORE._replace(start=CheckpointedOffset(200, "e")),
        ),
        (BEFORE._replace(is_named=True, unindexed=0), BEFORE._replace(is_named=True, unindexed=0)),
        # The topic was recreated.
        (BEFORE._replace(reached=CheckpointedOffset(5, "h")), BEFORE._replace(reached=CheckpointedOffset(5, "h"))),
        (BEFORE._replace(reached=None, start=None), BEFORE._replace(reached=None, start=None)),
        (BEFORE._replace(is_tiered=True, cleaned=70), BEFORE._replace(is_tiered=True, cleaned=70)),
    ],
)
def test_what_two_readings_agree_on(later: PartitionFacts, expected: PartitionFacts) -> None:
    partition = TopicPartition("orders", 0)
    assert agreeing_facts({partition: BEFORE}, {partition: later}) == {partition: expected}
    assert agreeing_facts({partition: BEFORE}, {}) == {}


def test_rows() -> None:
    known = {TopicPartition("orders", 0): BEFORE, TopicPartition("orders", 1): PartitionFacts(0, 0)}
    assert partition_fact_rows(known) == [
        ("orders", 0, 50, 100, 350, "h", False, 2),
        ("orders", 1, None, None, None, None, None, 0),
    ]
    assert loss_rows(known, {"orders": {"0": 310, "1": 20}}) == [("orders", 0, 310, 350, 40, "end", "h")]
    assert loss_rows(known, {}) == [("orders", 0, 100, 300, 200, "gap", ""), ("orders", 0, 300, 350, 50, "end", "h")]
