"""The answers to producers, and the records and offsets that must therefore be readable, or must never be.

An item is a record or a committed offset; its name is the record's value, or a text for the offset. The ledger makes no
claim about results that a producer cannot know: those of a request without an answer; of a request sent while another
was in flight, after the end of the transaction but before its markers, or after an end with an unknown result; and of
an end whose next epoch another client had guessed, since the answer may then belong to that client's end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.transactions.sequences import Commit, End, Initialize, Produce

__all__ = ["Ledger", "Progress", "offset_name"]

#: After these codes, it is unknown whether anything was written.
UNKNOWN_OUTCOMES = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Progress(Enum):
    """The known state of an item."""

    ASKED = auto()
    STORED = auto()
    COMMITTED = auto()
    ABORTED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Item:
    """A record or a committed offset.

    Attributes:
        transactional_id: None for a record outside transactions.
        producer: the producer that sent it.
        partition: the partition of the record, or that to which the offset belongs.
        progress: see `Progress`.
    """

    transactional_id: str | None
    producer: ProducerIdAndEpoch
    partition: Partition
    progress: Progress = Progress.ASKED


class Ledger:
    """The requests and answers.

    Attributes:
        items: the items, keyed by name.
        believes: whether answers determine the results of transactions; false if another client writes markers.
    """

    def __init__(self, *, believes: bool) -> None:
        self.items: dict[bytes, Item] = {}
        self.believes = believes
        #: The transactional id of each producer id.
        self._owners: dict[int, str | None] = {}
        #: Batches, keyed by producer, partition, sequence and length, since duplicates are not stored.
        self._batches: dict[tuple[ProducerIdAndEpoch, Partition, int, int], list[bytes]] = {}
        #: The items that the EndTxn requests in flight would end.
        self._ending: dict[int, list[Item]] = {}
        self._under_way: dict[int, ProducerIdAndEpoch] = {}
        #: Producers that do not know whether their transaction has ended; the broker may yet end it.
        self._in_doubt: set[ProducerIdAndEpoch] = set()
        #: The producers that have sent anything, whether or not the broker has assigned their epoch.
        self._seen: set[ProducerIdAndEpoch] = set()

    def asked(self, number: int, asked: object, *, may_be_prepared: bool) -> None:
        """Record a request.

        Args:
            number: the number of the request.
            asked: the request.
            may_be_prepared: whether the previous transaction's markers may not have been written yet.
        """
        if isinstance(asked, Produce | Commit | End):
            self._seen.add(asked.producer)
        if isinstance(asked, Produce | Commit):
            is_repeated = self._is_repeated(asked)
            may_end = asked.producer in self._ends() or asked.producer in self._in_doubt
            is_unclear = is_repeated or may_be_prepared or may_end
            progress = Progress.UNKNOWN if is_unclear else Progress.ASKED
            owner = self._owners.get(asked.producer.producer_id, asked.transactional_id)
            for name in _names(asked):
                self.items[name] = Item(owner, asked.producer, asked.partition, progress)
            self._under_way[number] = asked.producer
        elif isinstance(asked, End):
            ending = [item for item in self.items.values() if item.producer == asked.producer]
            if asked.producer in self._under_way.values():
                for item in ending:
                    self._lose(item)
            self._ending[number] = [item for item in ending if item.progress is Progress.STORED]
            self._under_way[number] = asked.producer

    def _is_repeated(self, asked: Produce | Commit) -> bool:
        """Return whether a batch can replace another: if one of them overtakes the other, either may be stored."""
        if isinstance(asked, Commit):
            return False
        batch = asked.producer, asked.partition, asked.sequence, len(asked.values)
        for name in self._batches.get(batch, ()):
            if name in self.items and self.items[name].progress is Progress.ASKED:
                self._lose(self.items[name])
        is_repeated = batch in self._batches
        self._batches.setdefault(batch, []).extend(asked.values)
        return is_repeated

    def _ends(self) -> Collection[ProducerIdAndEpoch]:
        return {self._under_way[number] for number in self._ending}

    def answered(self, number: int, asked: object, code: ErrorCode, producer: ProducerIdAndEpoch | None) -> None:
        """Record an answer.

        Args:
            number: the number of the request.
            asked: the request.
            code: the error code of the answer.
            producer: the producer in the answer, if any.
        """
        self._under_way.pop(number, None)
        ending = self._ending.pop(number, ())
        if isinstance(asked, Produce | Commit):
            for name in _names(asked):
                item = self.items.get(name)
                if item is None or item.progress is not Progress.ASKED:
                    continue
                if code in UNKNOWN_OUTCOMES:
                    item.progress = Progress.UNKNOWN
                elif code is not ErrorCode.NONE:
                    item.progress = Progress.REFUSED
                else:
                    item.progress = Progress.STORED if asked.transactional_id is not None else Progress.COMMITTED
        elif isinstance(asked, End):
            if code in UNKNOWN_OUTCOMES:
                self._in_doubt.add(asked.producer)
            elif code is ErrorCode.NONE:
                self._in_doubt.discard(asked.producer)
            for item in ending:
                if item.progress is not Progress.STORED:
                    continue
                if code is ErrorCode.NONE and self.believes and producer not in self._seen:
                    item.progress = Progress.COMMITTED if asked.is_commit else Progress.ABORTED
                elif code is ErrorCode.NONE or code in UNKNOWN_OUTCOMES:
                    item.progress = Progress.UNKNOWN
        elif isinstance(asked, Initialize) and code is ErrorCode.NONE and producer is not None:
            self._owners[producer.producer_id] = asked.transactional_id
            if asked.transactional_id is not None:
                self._fenced(asked.transactional_id, producer)

    def _fenced(self, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        """Record that open items are aborted, because their producer or a successor has initialized."""
        under_way = set(self._under_way.values())
        for item in self.items.values():
            is_fenced = item.transactional_id == transactional_id and item.producer != producer
            if is_fenced and item.progress is Progress.STORED:
                is_clear = self.believes and item.producer not in under_way
                item.progress = Progress.ABORTED if is_clear else Progress.UNKNOWN

    def crashed(self) -> None:
        """Record that the broker has crashed; the results of unanswered requests are unknown."""
        lost = set(self._under_way.values())
        for item in self.items.values():
            if item.progress is Progress.ASKED or item.producer in lost:
                self._lose(item)
        self._under_way.clear()
        self._ending.clear()

    def _lose(self, item: Item) -> None:
        if item.progress is Progress.STORED or item.progress is Progress.ASKED:
            item.progress = Progress.UNKNOWN

    def forget(self, topic: str) -> None:
        """Forget the items in a deleted topic."""
        for name in [name for name, item in self.items.items() if item.partition[0] == topic]:
            del self.items[name]

    def doubt(self) -> None:
        """Stop making claims: the disk may have lost any data, and epochs may repeat."""
        self.believes = False
        for item in self.items.values():
            item.progress = Progress.UNKNOWN

    def check(self, stored: Collection[bytes], visible: Collection[bytes], *, is_over: bool) -> None:
        """Compare the claims with the content of the logs.

        Args:
            stored: the names of all items in a log.
            visible: the names of the items that `read_committed` consumers see.
            is_over: whether all transactions have ended.
        """
        for name, item in self.items.items():
            text = f"{name!r} of {item} is"
            match item.progress:
                case Progress.COMMITTED:
                    assert name in stored, f"{text} gone"
                    assert name in visible or not is_over, f"{text} not visible"
                case Progress.ABORTED:
                    assert name not in visible, f"{text} visible"
                case Progress.REFUSED:
                    assert name not in stored, f"{text} stored"
                case Progress.STORED:
                    assert name in stored, f"{text} gone"
                    # No answer told its producer that the transaction was committed.
                    assert name not in visible or not self.believes, f"{text} visible"


def _names(asked: Produce | Commit) -> Iterator[bytes]:
    if isinstance(asked, Produce):
        yield from asked.values
    else:
        yield offset_name(asked.offset)


def offset_name(offset: int) -> bytes:
    """Return the name of a committed offset."""
    return b"offset %d" % offset
