"""The tables of the audit, each made from facts by Spark alone: what belongs together is sorted and summed on disk.

Every number is a sum, a count or an extreme of whole numbers, so two runs over the same segments give equal tables, and
so do one run over all of them and several over one part after the other.
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

__all__ = ["LOSSES_DDL", "TABLES", "WITNESSES_DDL", "Table", "Tables"]


#: What is known of partitions beside their batches, see `Witness`: columns as Spark declares them.
WITNESSES_DDL: Final = (
    "topic string, partition int, cleanedOffset bigint, logStartOffset bigint, reachedOffset bigint, "
    "reachedFile string, isNamed boolean, unindexed bigint"
)

#: What the files beside the batches say is gone, likewise.
LOSSES_DDL: Final = (
    "topic string, partition int, startOffset bigint, endOffset bigint, offsets bigint, cause string, file string"
)


class Tables:
    """The tables of one audit, each made when it is asked for.

    Args:
        facts: the wide table of `facts.py`, with a column `run`: which run noted each fact.
        written: returns a table that is already written, by its name.
        witnesses: a row for each partition of which something is known beside its batches.
        noted_losses: what is gone, as the files beside the batches say.

    Attributes:
        written: the same.
        witnesses: the same.
        noted_losses: the same.
    """

    def __init__(
        self, facts: DataFrame, written: Callable[[str], DataFrame], witnesses: DataFrame, noted_losses: DataFrame
    ) -> None:
        self._facts = facts
        self.written = written
        self.witnesses = witnesses
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
        """The keys of all partitions: put together once, and kept on disk until somebody calls `unpersist`."""
        from pyspark import StorageLevel

        return key_tables.keys_of_partitions(self.of(FactKind.KEY)).persist(StorageLevel.DISK_ONLY)


class Table(NamedTuple):
    """A table of the audit.

    Attributes:
        make: returns its rows, in any order.
        order: columns that tell its rows apart; it is sorted by them.
        about: what it has a row for; docs/spark_audit.md says so too, and lists its columns.
        is_derived: whether it is made from other tables.
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

#: Every table by its name; those that are made from others come last.
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
        lambda tables: log_tables.gaps(tables.of(FactKind.BATCH), tables.witnesses),
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
        "each partition and lower bound, with how many batches are that late",
    ),
    "rates": Table(
        lambda tables: log_tables.rates(tables.of(FactKind.MINUTE)),
        (*_PARTITION, "minute"),
        "each partition and minute",
    ),
    "compaction": Table(
        _of_keys(key_tables.compaction), _PARTITION, "each partition, with what compaction would leave of it"
    ),
    "key_counts": Table(
        _of_keys(key_tables.key_counts),
        ("topic", "recordsOfKey"),
        "each topic and number of records, with how many keys have that many",
    ),
    "top_keys": Table(_of_keys(key_tables.top_keys), ("topic", "rank"), "each of the 20 most frequent keys of a topic"),
    "group_commits": Table(
        _of_commits(group_tables.group_commits),
        (*_GROUP, "logPartition", "logOffset"),
        "each commit that counts, with the lag at that time",
    ),
    "groups": Table(_of_commits(group_tables.groups), _GROUP, "each group and partition, with what was committed last"),
    "losses": Table(
        lambda tables: log_tables.losses(tables.written("gaps"), tables.noted_losses),
        (*_PARTITION, "startOffset", "cause"),
        "each run of offsets that was there and is gone",
        is_derived=True,
    ),
    "partitions": Table(
        lambda tables: partitions(tables.of(FactKind.BATCH), tables.witnesses, tables.written),
        _PARTITION,
        "each partition, with what the other tables come to",
        is_derived=True,
    ),
}
