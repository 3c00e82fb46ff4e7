"""Offsets committed by groups, read from the records of `__consumer_offsets`; does not need Spark.

Source: `GroupCoordinatorRecordSerde`, `OffsetCommitKey`, `OffsetCommitValue` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS, decode_record
from kafkawire.sdk.spark.sink.marks import is_mark

__all__ = ["OFFSETS_TOPIC", "Commit", "commits"]

#: The topic in which group coordinators keep commits.
OFFSETS_TOPIC: Final = "__consumer_offsets"

#: The record types of commits, by name; the older type has identical fields.
_COMMITS: Final = {"OffsetCommit", "LegacyOffsetCommit"}
_COMMIT_TYPES: Final = (0, 1)


class Commit(NamedTuple):
    """An offset that a group committed.

    Attributes:
        log_offset: the offset of the record that holds the commit.
        group: the group id.
        topic: the topic of the partition that the group reads.
        partition: the number of that partition.
        offset: the offset of the next record to read; None if the commit was deleted.
        timestamp_ms: the time of the commit, since the epoch; None if the commit was deleted.
    """

    log_offset: int
    group: str
    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None


def commits(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> list[Commit]:
    """Return the commits among records of `__consumer_offsets`, skipping undecodable ones.

    The marks of the sink `kafkawire` are also skipped: their offsets are numbers of micro-batches, and their groups are
    not real.

    Args:
        records: the offset, key and value of each record.
    """
    found = []
    for offset, key, value in records:
        try:
            if KAFKA_RECORDS.envelope(OFFSETS_TOPIC, key, value)[0] not in _COMMIT_TYPES:
                continue  # in some groups, most records describe members and are large
            record = decode_record(OFFSETS_TOPIC, key, value)
        except DecodeError:
            continue
        if record.name in _COMMITS:
            of: Any = record.key
            said: Any = record.value
            if said is not None and is_mark(said.metadata):
                continue
            committed = (None, None) if said is None else (said.offset, said.commit_timestamp)
            found.append(Commit(offset, of.group, of.topic, of.partition, *committed))
    return found
