"""The tables of the audit, each made of facts by Spark alone: what belongs together is sorted and summed on disk.

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

__all__ = ["CLEANED_DDL", "TABLES", "Table", "Tables"]


#: What is known of cleaning, as Spark declares it.
CLEANED_DDL: Final = "topic string, partition int, cleanedOffset bigint"


class Tables:
    """The tables of one audit, each made when it is asked for.

    Args:
        facts: the wide table, see `facts.py`, and the number of the `run` that noted each.
        written: returns a table that was made before, which others are made of.
        cleaned: topic, partition and `cleanedOffset`, as far as that is known.

    Attributes:
        written: see above.
        cleaned: see above.
    """

    def __init__(self, facts: DataFrame, written: Callable[[str], DataFrame], cleaned: DataFrame) -> None:
        self._facts = facts
        self.written = written
        self.cleaned = cleaned

    def make(self, name: str) -> DataFrame:
        """Return a table of `TABLES`, in its order."""
        table = TABLES[name]
        return table.make(self).orderBy(*table.order)

    def of(self, kind: FactKind) -> DataFrame:
        """Return the facts of a kind."""
        return self._facts.where(self._facts["kind"] == str(kind)).select(*COLUMNS_OF[kind], "run")

    @cached_property
    def keys(self) -> DataFrame:
        """The keys of all partitions: put together once, and kept on disk until they are no longer wanted."""
        from pyspark import StorageLevel

        return key_tables.keys_of_partitions(self.of(FactKind.KEY)).persist(StorageLevel.DISK_ONLY)


class Table(NamedTuple):
    """A table of the audit.

    Attributes:
        make: returns it, in any order.
        order: the columns that say which row it is.
        about: what a row is.
        is_derived: whether it is made of other tables.
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

#: Every table by its name; those that are made of others come last.
TABLES: Final = {
    "compression": Table(
        _of_batches(log_tables.compression), (*_PARTITION, "compression"), "the batches with one compression"
    ),
    "corrupt": Table(
        _of_batches(log_tables.corrupt),
        (*_PARTITION, "path", "position", "expectedOffset"),
        "bytes that are no batch",
    ),
    "gaps": Table(
        lambda tables: log_tables.gaps(tables.of(FactKind.BATCH), tables.cleaned),
        (*_PARTITION, "startOffset"),
        "offsets that no batch has",
    ),
    "duplicates": Table(
        _of_batches(log_tables.duplicates), (*_PARTITION, "baseOffset"), "a batch whose sequence numbers were used"
    ),
    "transactions": Table(
        _of_batches(log_tables.transactions), (*_PARTITION, "firstOffset", "producerId"), "a transaction"
    ),
    "lateness": Table(
        _of_batches(log_tables.lateness), (*_PARTITION, "lateMs"), "the batches that are late by so much"
    ),
    "rates": Table(
        lambda tables: log_tables.rates(tables.of(FactKind.MINUTE)), (*_PARTITION, "minute"), "the records of a minute"
    ),
    "compaction": Table(_of_keys(key_tables.compaction), _PARTITION, "what compaction would leave of a partition"),
    "key_counts": Table(_of_keys(key_tables.key_counts), ("topic", "recordsOfKey"), "the keys with so many records"),
    "top_keys": Table(_of_keys(key_tables.top_keys), ("topic", "rank"), "a frequent key"),
    "group_commits": Table(
        _of_commits(group_tables.group_commits), (*_GROUP, "logPartition", "logOffset"), "a commit, and the lag then"
    ),
    "groups": Table(_of_commits(group_tables.groups), _GROUP, "what a group has committed last, and its lag"),
    "partitions": Table(
        lambda tables: partitions(tables.of(FactKind.BATCH), tables.written), _PARTITION, "a partition", True
    ),
}
