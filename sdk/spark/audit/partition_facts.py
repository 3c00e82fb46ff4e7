"""Where partitions begin and which offsets they have reached, from the files next to their segments; without Spark.

A log that has lost a segment or its end looks like one that retention has shortened. However, a broker also records the
extent of a log elsewhere: `replication-offset-checkpoint`, `recovery-point-offset-checkpoint` and the names of producer
snapshots contain offsets that a partition has reached, and the first epoch in `leader-epoch-checkpoint` begins where
the log begins. These files are never ahead of the log, so if they mention offsets that the segments lack, data is
missing.

Source: `ReplicaManager.checkpointHighWatermarks`, `LogManager`, `LeaderEpochFileCache`, `ProducerStateManager`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final, NamedTuple, Self

from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.listing import ListedFile
from kafkawire.sdk.spark.segments.storage import FILES_AT_A_TIME, SegmentFiles
from kafkawire.sdk.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    parse_epochs,
)
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.file_names import INDEX_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_in
from kafkawire.sdk.storage.partitions import partition_folder

__all__ = [
    "Cause",
    "CheckpointedOffset",
    "Loss",
    "PartitionFacts",
    "agreeing_facts",
    "loss_rows",
    "losses",
    "partition_fact_rows",
    "read_partition_facts",
]

#: Files that show that a data directory's older segments may exist only in tiered storage.
_TIERED: Final = re.compile(r".*/(?:remote-log-index-cache|__remote_log_metadata-\d+)/.*", re.DOTALL)

#: Checkpoints in a data directory that contain an offset reached by each partition.
_REACHED: Final = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS)


class CheckpointedOffset(NamedTuple):
    """An offset in a partition, and the name of the checkpoint, snapshot or index that shows it."""

    offset: int
    file: str


class PartitionFacts(NamedTuple):
    """What is known about a partition apart from its batches.

    Attributes:
        first_base: the base offset in the name of its first segment; None if it has no segment.
        last_base: the base offset in the name of its last segment; None if it has no segment.
        start: where its log begins, according to its leader epochs; None if unknown.
        reached: an offset that the partition has reached; None if unknown.
        log_start: where it begins, if the first segment also contains deleted records; None if unknown.
        cleaned: the offset up to which it has been compacted; None if unknown.
        is_named: whether the high watermark checkpoint of its data directory names it; None if there is no such
            checkpoint.
        is_tiered: whether older segments may be in tiered storage.
        unindexed: the number of segments with records, before the last one, that have no index.
    """

    first_base: int | None = None
    last_base: int | None = None
    start: CheckpointedOffset | None = None
    reached: CheckpointedOffset | None = None
    log_start: int | None = None
    cleaned: int | None = None
    is_named: bool | None = None
    is_tiered: bool = False
    unindexed: int = 0

    def agreeing_with(self, later: Self) -> Self:
        """Return the facts that this and a later reading both show; a broker may have written in between."""
        bases = [base for base in (self.first_base, later.first_base) if base is not None]
        starts, ends = (self.start, later.start), (self.reached, later.reached)
        return self._replace(
            first_base=min(bases, default=None),
            start=None if None in starts else max(each for each in starts if each is not None),
            reached=None if None in ends else min(each for each in ends if each is not None),
            log_start=later.log_start,
            cleaned=later.cleaned,
            is_named=self.is_named or later.is_named,
            is_tiered=self.is_tiered or later.is_tiered,
            unindexed=min(self.unindexed, later.unindexed),
        )


class Cause(StrEnum):
    """How a loss was detected."""

    #: The partition no longer has a segment.
    PARTITION = "partition"
    #: The log begins before its first segment.
    START = "start"
    #: No batch has these offsets, and nothing explains this.
    GAP = "gap"
    #: The batches that had these offsets are damaged.
    DAMAGE = "damage"
    #: The log once extended beyond its last batch.
    END = "end"


class Loss(NamedTuple):
    """Lost offsets.

    Attributes:
        start: the first offset.
        end: the offset after the last lost one.
        cause: how the loss was detected.
        file: the name of the file that reveals it; empty if the segments alone do.
    """

    start: int
    end: int
    cause: Cause
    file: str = ""


def losses(facts: PartitionFacts, reached: int | None) -> list[Loss]:
    """Return the offsets that a partition once had, according to its files, but that are in no segment.

    Gaps and damage between batches are excluded, because the batches themselves reveal them.

    Args:
        facts: the facts from the files.
        reached: the offset after its last batch; None if it has no batch.
    """
    log_start = facts.log_start or 0
    noted = facts.reached or CheckpointedOffset(0, "")
    first, last = facts.first_base, facts.last_base
    if first is None or last is None:
        begin = max(log_start, 0 if facts.start is None else facts.start.offset)
        return [Loss(begin, noted.offset, Cause.PARTITION, noted.file)] if begin < noted.offset else []
    found = []
    if facts.start is not None and not facts.is_tiered:
        begin = max(log_start, facts.start.offset)
        if begin < first:
            found.append(Loss(begin, first, Cause.START, facts.start.file))
    end = max(first, log_start, 0 if reached is None else reached)
    # Data missing before an empty segment leaves no gap between batches, and the segment's name may also be wrong, so
    # use the files.
    behind = last if facts.reached is None else min(last, noted.offset)
    if end < behind and (facts.cleaned or 0) < behind:
        found.append(Loss(end, behind, Cause.GAP))
    end = max(end, last)
    if end < noted.offset:
        found.append(Loss(end, noted.offset, Cause.END, noted.file))
    return found


def agreeing_facts(
    before: Mapping[TopicPartition, PartitionFacts], later: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, PartitionFacts]:
    """Return the facts on which two readings agree; a partition that was deleted in between has lost nothing."""
    return {
        partition: facts.agreeing_with(later[partition]) for partition, facts in before.items() if partition in later
    }


def read_partition_facts(
    files: SegmentFiles, segments: Iterable[FoundSegment], listed: Iterable[ListedFile]
) -> dict[TopicPartition, PartitionFacts]:
    """Return the facts about each partition that has a file or is named in the high watermark checkpoint.

    Args:
        files: the segment files.
        segments: the segments that were found; see `SegmentFiles.look`.
        listed: all files; see `SegmentFiles.look`.

    Raises:
        OSError: a file cannot be read.
    """
    of_path: dict[str, list[FoundSegment]] = defaultdict(list)
    of_partition: dict[TopicPartition, list[FoundSegment]] = defaultdict(list)
    for segment in segments:
        of_path[segment.path.rpartition("/")[0]].append(segment)
        of_partition[segment.folder].append(segment)
    if not files.are_folders:
        return {partition: _segment_facts(its) for partition, its in of_partition.items()}
    layout = _Layout(listed)
    checkpoints = {directory: _Checkpoints(files, directory) for directory in layout.directories}
    epochs = _epochs(files, layout)
    found: dict[TopicPartition, PartitionFacts] = {}
    for path, folder in layout.folders.items():
        # A partition may be in two data directories while it is being moved; the copy with segments is used.
        if folder.partition not in found or of_path[path]:
            facts = checkpoints[folder.directory].facts(folder.partition)
            found[folder.partition] = _with_folder(facts, folder, of_path[path], epochs.get(path, []))
    for directory in layout.whole:
        named = checkpoints[directory].offsets[HIGH_WATERMARKS].keys() - found.keys() - layout.set_aside[directory]
        found |= {partition: checkpoints[directory].facts(partition) for partition in named}
    return {partition: facts._replace(is_tiered=layout.has_tiers) for partition, facts in sorted(found.items())}


def partition_fact_rows(known: Mapping[TopicPartition, PartitionFacts]) -> list[tuple[object, ...]]:
    """Return rows for Spark; see `PARTITION_FACTS_DDL`."""
    return [
        (
            *partition,
            facts.cleaned,
            _log_start(facts),
            *(facts.reached or (None, None)),
            facts.is_named,
            facts.unindexed,
        )
        for partition, facts in known.items()
    ]


def loss_rows(
    known: Mapping[TopicPartition, PartitionFacts], next_offsets: Mapping[str, Mapping[str, int]]
) -> list[tuple[object, ...]]:
    """Return losses as rows for Spark; see `LOSSES_DDL`.

    Args:
        known: the facts from the files.
        next_offsets: the offset at which each partition ends, `[topic][partition]`; partitions without a batch are
            omitted.
    """
    return [
        (*partition, loss.start, loss.end, loss.end - loss.start, loss.cause.value, loss.file)
        for partition, facts in known.items()
        for loss in losses(facts, next_offsets.get(partition.topic, {}).get(str(partition.partition)))
    ]


def _log_start(facts: PartitionFacts) -> int | None:
    """Return where a log begins; None if its files do not show that."""
    said = [each for each in (facts.log_start, facts.start and facts.start.offset) if each is not None]
    return max(said, default=None)


class _Folder(NamedTuple):
    """The folder of a partition.

    Attributes:
        path: its path.
        directory: the data directory that contains it.
        partition: the partition.
        names: the names of its files.
        meant: the file names that a path or a pattern matches; if there are any, only those were requested.
    """

    path: str
    directory: str
    partition: TopicPartition
    names: set[str]
    meant: set[str]


class _Layout:
    """The data directories of brokers, as inferred from the paths of their files.

    Attributes:
        folders: the folders of partitions, keyed by path.
        directories: the data directories that contain these folders.
        whole: the directories that were listed completely, with their high watermarks.
        has_tiers: whether any of them indicates that older segments are in tiered storage.
        set_aside: the partitions of a data directory that are being deleted or moved, or are stray.
    """

    def __init__(self, listed: Iterable[ListedFile]) -> None:
        self.folders: dict[str, _Folder] = {}
        self.set_aside: dict[str, set[TopicPartition]] = defaultdict(set)
        self.whole: set[str] = set()
        self.has_tiers = False
        for file in listed:
            self.has_tiers |= _TIERED.fullmatch(file.path) is not None
            directory, _, name = file.path.rpartition("/")
            if name == HIGH_WATERMARKS:
                self.whole.add(directory)
            path = directory
            directory, slash, folder_name = path.rpartition("/")
            said = partition_folder(folder_name) if slash else None
            if said is None:
                continue
            partition = TopicPartition(*said.partition)
            if said.set_aside:
                self.set_aside[directory].add(partition)
                continue
            folder = self.folders.setdefault(path, _Folder(path, directory, partition, set(), set()))
            folder.names.add(name)
            if file.is_meant:
                folder.meant.add(name)
        self.directories = dict.fromkeys([*(folder.directory for folder in self.folders.values()), *self.whole])


class _Checkpoints:
    """The checkpoints of a data directory.

    Attributes:
        offsets: the content of each checkpoint, keyed by name.
    """

    def __init__(self, files: SegmentFiles, directory: str) -> None:
        names = (*_REACHED, CLEANER_OFFSETS)
        self.offsets = {name: files.offsets(f"{directory}/{name}") for name in names}

    def facts(self, partition: TopicPartition) -> PartitionFacts:
        """Return what they say about a partition."""
        watermarks = self.offsets[HIGH_WATERMARKS]
        reached = [
            CheckpointedOffset(each[partition], name) for name in _REACHED if partition in (each := self.offsets[name])
        ]
        has_watermark = bool(watermarks) and partition.topic != CLUSTER_METADATA_TOPIC
        return PartitionFacts(
            reached=_highest(reached),
            log_start=self.offsets[LOG_START_OFFSETS].get(partition),
            cleaned=self.offsets[CLEANER_OFFSETS].get(partition),
            is_named=partition in watermarks if has_watermark else None,
        )


def _with_folder(
    facts: PartitionFacts, folder: _Folder, segments: list[FoundSegment], epochs: list[tuple[int, int]]
) -> PartitionFacts:
    """Return the facts about a partition from the checkpoints next to its folder and from the files in it."""
    segment_facts = _segment_facts(segments)
    facts = facts._replace(first_base=segment_facts.first_base, last_base=segment_facts.last_base)
    if folder.meant:
        return facts._replace(reached=None, is_named=None)
    snapshots, indexes = (_offsets_in(folder.names, suffix) for suffix in (SNAPSHOT_SUFFIX, INDEX_SUFFIX))
    bases = {segment.base_offset for segment in segments}
    # Some brokers do not write a segment's index until the segment is complete.
    sealed = {each.base_offset for each in segments if each.size_bytes and each.end_offset is not None}
    reached = [] if facts.reached is None else [facts.reached]
    reached += [CheckpointedOffset(start, LEADER_EPOCHS) for _, start in epochs[-1:]]
    reached += [CheckpointedOffset(offset, file_name(offset, SNAPSHOT_SUFFIX)) for offset in snapshots]
    reached += [CheckpointedOffset(offset, file_name(offset, INDEX_SUFFIX)) for offset in indexes - bases]
    return facts._replace(
        start=CheckpointedOffset(epochs[0][1], LEADER_EPOCHS) if epochs else None,
        reached=_highest(reached),
        unindexed=len(sealed - indexes),
    )


def _offsets_in(names: Iterable[str], suffix: str) -> set[int]:
    return {offset for name in names if (offset := offset_in(name, suffix)) is not None}


def _segment_facts(segments: Iterable[FoundSegment]) -> PartitionFacts:
    bases = [segment.base_offset for segment in segments]
    return PartitionFacts(first_base=min(bases, default=None), last_base=max(bases, default=None))


def _highest(offsets: Iterable[CheckpointedOffset]) -> CheckpointedOffset | None:
    """Return the first entry with the highest offset."""
    return max(offsets, key=lambda each: each.offset, default=None)


def _epochs(files: SegmentFiles, layout: _Layout) -> dict[str, list[tuple[int, int]]]:
    """Return the leader epochs, keyed by partition folder; none for a damaged file, which brokers recreate."""

    def read(path: str) -> list[tuple[int, int]]:
        content = files.read(f"{path}/{LEADER_EPOCHS}")
        try:
            return list(parse_epochs(content)) if content else []
        except DamagedContent:
            return []

    paths = [folder.path for folder in layout.folders.values() if LEADER_EPOCHS in folder.names]
    with ThreadPoolExecutor(FILES_AT_A_TIME, "kafkawire-audit") as threads:
        return dict(zip(paths, threads.map(read, paths), strict=True))
