"""The tables of the audit.

Spark builds each of them from facts alone, sorting and summing on disk. Every number is a sum, a count, a minimum or a
maximum of integers, so two runs over the same segments produce equal tables, and so do one run over all segments and
several runs over successive parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkawire.sdk.spark.audit import group_tables, key_tables, log_tables
from kafkawire.sdk.spark.audit.facts import COLUMNS_OF, FactKind
from kafkawire.sdk.spark.audit.partition_table import partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LOSSES_DDL", "PARTITION_FACTS_DDL", "TABLES", "Table", "Tables"]


#: The columns for facts about partitions other than their batches, in Spark's notation; see `PartitionFacts`.
PARTITION_FACTS_DDL: Final = (
    "topic string, partition int, cleanedOffset bigint, logStartOffset bigint, reachedOffset bigint, "
    "reachedFile string, isNamed boolean, unindexed bigint"
)

#: The columns for losses revealed by the files next to the segments, in Spark's notation.
LOSSES_DDL: Final = (
    "topic string, partition int, startOffset bigint, endOffset bigint, offsets bigint, cause string, file string"
)


class Tables:
    """The tables of one audit, each built on demand.

    Args:
        facts: the wide table of `facts.py`, with a column `run` for the run that recorded each fact.
        written: returns a table that has already been written, by its name.
        partition_facts: one row per partition with facts other than its batches.
        noted_losses: losses revealed by the files next to the segments.

    Attributes:
        written: see above.
        partition_facts: see above.
        noted_losses: see above.
    """

    def __init__(
        self, facts: DataFrame, written: Callable[[str], DataFrame], partition_facts: DataFrame, noted_losses: DataFrame
    ) -> None:
        self._facts = facts
        self.written = written
        self.partition_facts = partition_facts
        self.noted_losses = noted_losses

    def make(self, name: str) -> DataFrame:
        """Return a table of `TABLES`, sorted."""
        table = TABLES[name]
        return table.make(self).orderBy(*table.order)

    def of(self, kind: FactKind) -> DataFrame:
        """Return the facts of a kind."""
        return self._facts.where(self._facts["kind"] == str(kind)).select(*COLUMNS_OF[kind], "run")

    @cached_property
    def keys(self) -> DataFrame:
        """The keys in all partitions, merged once and kept on disk until `unpersist` is called."""
        from pyspark import StorageLevel

        return key_tables.keys_of_partitions(self.of(FactKind.KEY)).persist(StorageLevel.DISK_ONLY)


class Table(NamedTuple):
    """A table of the audit.

    Attributes:
        make: returns its rows, in any order.
        order: the columns that identify its rows and by which it is sorted.
        about: what each row describes; docs/spark_audit.md repeats this, and lists the columns.
        is_derived: whether it is built from other tables.
    """

    make: Callable[[Tables], DataFrame]
    order: tuple[str, ...]
    about: str
    is_derived: bool = False


def _of_batches(make: Callable[[DataFrame], DataFrame]) -> Callable[[Tables], DataFrame]:
    return lambda tables: make(tables.of(FactKind.BATCH))


def _of_keys(make: Callable[[DataFrame], DataFrame]) -> Callable[[Tables], DataFrame]:
    return lambda tables: make(tables.keys)


def _of_commits(make: Callable[[DataFrame, DataFrame], DataFrame]) -> Callable[[Tables], DataFrame]:
    return lambda tables: make(tables.of(FactKind.COMMIT), tables.of(FactKind.BATCH))


_PARTITION = ("topic", "partition")
_GROUP = ("group", *_PARTITION)

#: Every table, keyed by name; those built from others come last.
TABLES: Final = {
    "compression": Table(
        _of_batches(log_tables.compression), (*_PARTITION, "compression"), "each partition and compression codec"
    ),
    "corrupt": Table(
        _of_batches(log_tables.corrupt),
        (*_PARTITION, "path", "position", "expectedOffset"),
        "each region that is not a valid batch",
    ),
    "gaps": Table(
        lambda tables: log_tables.gaps(tables.of(FactKind.BATCH), tables.partition_facts),
        (*_PARTITION, "startOffset"),
        "each run of offsets that no batch has",
    ),
    "duplicates": Table(
        _of_batches(log_tables.duplicates),
        (*_PARTITION, "baseOffset"),
        "each batch with sequence numbers that its producer had used before",
    ),
    "transactions": Table(
        _of_batches(log_tables.transactions),
        (*_PARTITION, "firstOffset", "producerId"),
        "each transaction in each partition that it wrote to",
    ),
    "lateness": Table(
        _of_batches(log_tables.lateness),
        (*_PARTITION, "lateMs"),
        "each partition and lower bound, with the number of batches that late",
    ),
    "rates": Table(
        lambda tables: log_tables.rates(tables.of(FactKind.MINUTE)),
        (*_PARTITION, "minute"),
        "each partition and minute",
    ),
    "compaction": Table(_of_keys(key_tables.compaction), _PARTITION, "each partition, with what compaction would keep"),
    "key_counts": Table(
        _of_keys(key_tables.key_counts),
        ("topic", "recordsOfKey"),
        "each topic and record count, with the number of keys that have it",
    ),
    "top_keys": Table(_of_keys(key_tables.top_keys), ("topic", "rank"), "each of the 20 most frequent keys of a topic"),
    "group_commits": Table(
        _of_commits(group_tables.group_commits),
        (*_GROUP, "logPartition", "logOffset"),
        "each commit that counts, with the lag at that time",
    ),
    "groups": Table(_of_commits(group_tables.groups), _GROUP, "each group and partition, with the last commit"),
    "losses": Table(
        lambda tables: log_tables.losses(tables.written("gaps"), tables.noted_losses),
        (*_PARTITION, "startOffset", "cause"),
        "each run of lost offsets",
        is_derived=True,
    ),
    "partitions": Table(
        lambda tables: partitions(tables.of(FactKind.BATCH), tables.partition_facts, tables.written),
        _PARTITION,
        "each partition, with totals of the other tables",
        is_derived=True,
    ),
}
