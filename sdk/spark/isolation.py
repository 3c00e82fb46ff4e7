"""The batches that a reader of committed records sees.

The selection follows Kafka's rules for aborted and unfinished transactions. The markers that end transactions are
control batches among the batches of records, so a batch's outcome becomes known only later. In a fetch response, the
aborted transactions are listed instead.

Source: `CompletedFetch.isBatchAborted` in Apache Kafka; KIP-98.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.control import control_type

__all__ = ["AbortedByResponse", "AbortedTransaction", "Outcomes", "ends_transaction", "parse_committed_only"]

_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


#: The control records that end a transaction.
_ENDS: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a fetch response.

    Attributes:
        producer_id: the producer id.
        first_offset: the offset of its first record.
    """

    producer_id: int
    first_offset: int


def parse_committed_only(option: str, text: str) -> bool:
    """Return whether an isolation level, in upper or lower case, shows only committed records.

    Args:
        option: the name of the option, for the error message.
        text: the level.

    Raises:
        ConfigurationError: there is no such level.
    """
    known = text.lower() if isinstance(text, str) else None
    if known not in _ISOLATION_LEVELS:
        raise ConfigurationError(option, text, f"expected {' or '.join(_ISOLATION_LEVELS)}")
    return known == "read_committed"


def ends_transaction(batch: Batch) -> bool:
    """Return whether a control batch ends a transaction of its producer.

    Raises:
        DecodeError: the control record is damaged.
    """
    return any(control_type(record).type in _ENDS for record in batch.views())


class Outcomes:
    """The outcomes of transactions in one partition, according to its markers.

    A producer's batches up to an abort marker are aborted, those up to a commit marker are committed, and those after
    its last marker belong to a transaction that has not ended.
    """

    def __init__(self) -> None:
        #: For each producer, the offsets of its markers, in order, and whether each of them commits.
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}

    def add(self, batch: Batch) -> None:
        """Record a control batch with a valid checksum; other batches and other kinds of control records are ignored.

        Raises:
            DecodeError: the control record is damaged.
        """
        for record in batch.views():
            kind = control_type(record).type
            if kind in _ENDS:
                offsets, commits = self._markers.setdefault(batch.producer_id, ([], []))
                offsets.append(record.offset)
                commits.append(kind is ControlRecordType.COMMIT)

    def is_visible(self, batch: Batch) -> bool:
        """Return whether a batch of records is committed; a batch outside of transactions always is."""
        return not batch.is_transactional or bool(self.is_committed(batch.producer_id, batch.base_offset))

    def is_committed(self, producer_id: int, offset: int) -> bool | None:
        """Return whether a producer's transaction at an offset was committed; None if no marker has ended it yet."""
        offsets, commits = self._markers.get(producer_id, ((), ()))
        index = bisect_right(offsets, offset)
        return commits[index] if index < len(commits) else None


class AbortedByResponse:
    """The aborted batches of a fetch response, according to its list of aborted transactions.

    Args:
        aborted: the aborted transactions that it lists, in any order.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._producers: set[int] = set()

    def is_visible(self, batch: Batch) -> bool:
        """Return whether the next batch in order is visible; control batches must also be passed.

        Raises:
            DecodeError: a control record is damaged.
        """
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            self._producers.add(self._waiting.pop().producer_id)
        if batch.is_control:
            if _aborts(batch):
                self._producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._producers)


def _aborts(batch: Batch) -> bool:
    first = next(iter(batch.views()), None)  # compaction may have removed it
    return first is not None and control_type(first).type is ControlRecordType.ABORT
