"""Random sequences of transactional requests, for the broker alone and alongside Apache Kafka.

A `Script` chooses each request based on the earlier answers: usually one that a producer would send next, sometimes one
that it should not send. Two transactional ids have several producers each, with both versions of the protocol. All
choices are derived from a single seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "GROUP",
    "PARTITIONS",
    "SHORT_MS",
    "TOPICS",
    "TRANSACTIONAL_IDS",
    "AddOffsets",
    "AddPartitions",
    "Asked",
    "Commit",
    "Delete",
    "End",
    "Initialize",
    "Known",
    "Mark",
    "Produce",
    "Script",
    "Share",
    "Wait",
]

TRANSACTIONAL_IDS = ("x", "y")
GROUP = "g"

#: Topics, each with its number of partitions.
TOPICS = {"a": 2, "b": 1}
PARTITIONS: tuple[Partition, ...] = tuple((topic, number) for topic, count in TOPICS.items() for number in range(count))

#: A timeout short enough to wait for.
SHORT_MS = 200

#: An id and epoch that no producer has.
STRANGER = ProducerIdAndEpoch(999_999, 0)


class Initialize(NamedTuple):
    """InitProducerId; a request with a `producer` merely raises its epoch."""

    transactional_id: str | None
    timeout_ms: int
    producer: ProducerIdAndEpoch | None
    version: int


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[Partition, ...]
    verifies: bool
    version: int


class AddOffsets(NamedTuple):
    """AddOffsetsToTxn."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    version: int


class Commit(NamedTuple):
    """TxnOffsetCommit; each offset is used only once."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partition: Partition
    offset: int
    member_id: str
    version: int


class Produce(NamedTuple):
    """Produce; each value is used only once."""

    transactional_id: str | None
    producer: ProducerIdAndEpoch
    partition: Partition
    sequence: int
    values: tuple[bytes, ...]
    version: int


class End(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    is_commit: bool
    version: int


class Mark(NamedTuple):
    """WriteTxnMarkers, sent by a client."""

    producer: ProducerIdAndEpoch
    is_commit: bool
    partitions: tuple[Partition, ...]
    coordinator_epoch: int
    transaction_version: int
    version: int


class Delete(NamedTuple):
    """DeleteTopics."""

    topic: str


class Wait(NamedTuple):
    """Not a request: time passes until a transaction with a timeout of `SHORT_MS` is aborted."""

    transactional_id: str


Asked = Initialize | AddPartitions | AddOffsets | Commit | Produce | End | Mark | Delete | Wait


@dataclass
class Known:
    """A producer's knowledge of its own state.

    Attributes:
        transactional_id: None for a producer that is only idempotent.
        producer: the producer's id and epoch.
        is_tv_2: whether it uses transaction version 2.
        added: the partitions that it has added to its transaction.
        has_added_offsets: whether it has added its group's offsets.
    """

    transactional_id: str | None
    producer: ProducerIdAndEpoch
    is_tv_2: bool
    added: set[Partition] = field(default_factory=set)
    has_added_offsets: bool = False


class Share(NamedTuple):
    """The frequencies of rare steps; 0 means never.

    Attributes:
        marks: markers sent by a client.
        deletes: deletions of topics.
        waits: transactions that stay open too long.
    """

    marks: float = 0
    deletes: float = 0
    waits: float = 0


@dataclass
class Script:
    """Chooses the next request.

    Attributes:
        random: the only source of randomness.
        timeouts_ms: valid transaction timeouts.
        wrong_timeouts_ms: invalid transaction timeouts.
        share: see `Share`.
        known: the producers learned from answers, oldest first.
        sequences: the next sequence number, keyed by producer and partition.
        made: the number of values and offsets used so far.
        plan: the planned requests, which come before random ones.
    """

    random: Random
    timeouts_ms: tuple[int, ...]
    wrong_timeouts_ms: tuple[int, ...]
    share: Share
    known: list[Known] = field(default_factory=list)
    sequences: dict[tuple[ProducerIdAndEpoch, Partition], int] = field(default_factory=dict)
    made: int = 0
    plan: deque[Asked] = field(default_factory=deque)

    def next(self) -> Asked:
        """Return the next request."""
        if self.plan:
            return self.plan.popleft()
        if not self.known or self._happens(0.06):
            return self.initialize()
        one = self._somebody()
        if one.transactional_id is None:
            return self._produce(one, one.transactional_id)
        kinds: Mapping[str, float] = {
            "raise": 0.7,
            "add": 4 if not one.is_tv_2 else 0.5,
            "offsets": 1.5 if not one.is_tv_2 else 0.2,
            "commit": 2,
            "produce": 8,
            "end": 4,
            "mark": self.share.marks,
            "delete": self.share.deletes,
            "wait": self.share.waits,
        }
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        transactional_id = one.transactional_id
        if self._happens(0.02):
            transactional_id = self.random.choice((*TRANSACTIONAL_IDS, "nobody", ""))
        match kind:
            case "raise":
                return self._raise(one)
            case "add":
                return self._add(one, transactional_id)
            case "offsets":
                return AddOffsets(transactional_id, one.producer, self.random.choice((0, 2, 3, 4)))
            case "commit":
                return self._commit(one, transactional_id)
            case "produce":
                return self._produce(one, transactional_id)
            case "end":
                return self.end(one, transactional_id)
            case "mark":
                return self._mark(one)
            case "wait":
                return Initialize(self.random.choice(TRANSACTIONAL_IDS), SHORT_MS, None, 5)
        return Delete(self.random.choice(list(TOPICS)))

    def initialize(self) -> Initialize:
        """Return the first request of a new producer."""
        transactional_id = self.random.choice((None, *TRANSACTIONAL_IDS, *TRANSACTIONAL_IDS, *TRANSACTIONAL_IDS))
        return Initialize(transactional_id, self._timeout(), None, self.random.choice((0, 2, 3, 4, 5, 5)))

    def end(self, one: Known, transactional_id: str) -> End:
        """Return a request that ends a transaction."""
        version = 5 if self._speaks_tv_2(one) else self.random.choice((0, 1, 2, 3, 4, 4))
        return End(transactional_id, one.producer, self._happens(0.6), version)

    def answered(self, asked: Asked, response: Any) -> None:
        """Update the producers from a response."""
        match asked:
            case Initialize() if not response.error_code:
                producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
                one = Known(asked.transactional_id, producer, self._happens(0.5))
                self._know(one)
                if asked.timeout_ms == SHORT_MS and asked.transactional_id is not None:
                    self._plan_wait(one, asked.transactional_id)
            case End(version=5) if not response.error_code:
                producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
                self._know(Known(asked.transactional_id, producer, self._happens(0.95)))
            case End() if not response.error_code:
                for one in self._of(asked.producer):
                    one.added.clear()
                    one.has_added_offsets = False
            case AddPartitions(version=(0 | 1 | 2 | 3)):
                codes = {
                    part.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for part in topic.results_by_partition
                }
                if codes == {ErrorCode.NONE}:
                    for one in self._of(asked.producer):
                        one.added.update(asked.partitions)
            case AddOffsets() if not response.error_code:
                for one in self._of(asked.producer):
                    one.has_added_offsets = True
            case Produce() if not response.responses[0].partition_responses[0].error_code:
                place = asked.producer, asked.partition
                self.sequences[place] = max(self.sequences.get(place, 0), asked.sequence + len(asked.values))

    def _plan_wait(self, one: Known, transactional_id: str) -> None:
        """Plan to leave a transaction open too long, and then to start over or continue with another timeout."""
        partitions = tuple(self.random.sample(PARTITIONS, 2))
        if one.is_tv_2:
            self.plan.append(Produce(transactional_id, one.producer, partitions[0], 0, self._values(1), 12))
        else:
            self.plan.append(AddPartitions(transactional_id, one.producer, partitions, False, 3))
        self.plan.append(Wait(transactional_id))
        begun = Initialize(transactional_id, self.timeouts_ms[0], None, 5)
        self.plan.append(begun if self._happens(0.3) else begun._replace(producer=one.producer))

    def _raise(self, one: Known) -> Initialize:
        return Initialize(one.transactional_id, self._timeout(), one.producer, self.random.choice((3, 4, 5, 5)))

    def _add(self, one: Known, transactional_id: str) -> AddPartitions:
        version = self.random.choice((0, 1, 2, 3, 3, 3, 4, 5))
        chosen = self.random.sample(PARTITIONS, self.random.choice((1, 1, 2, 3)))
        if self._happens(0.03):
            chosen.append(("nowhere", 0))
        verifies = version >= 4 and self._happens(0.5)
        return AddPartitions(transactional_id, one.producer, tuple(chosen), verifies, version)

    def _commit(self, one: Known, transactional_id: str) -> Commit:
        self.made += 1
        version = 5 if self._speaks_tv_2(one) else self.random.choice((0, 2, 3, 4))
        member_id = "nobody" if version >= 3 and self._happens(0.05) else ""
        return Commit(transactional_id, one.producer, self.random.choice(PARTITIONS), self.made, member_id, version)

    def _produce(self, one: Known, transactional_id: str | None) -> Produce:
        version = 12 if self._speaks_tv_2(one) else self.random.choice((3, 7, 9, 10, 11))
        if transactional_id is not None and self._happens(0.03):
            transactional_id = None
        partition = self.random.choice(PARTITIONS)
        if one.added and version != 12 and self._happens(0.9):
            partition = self.random.choice(sorted(one.added))
            partition = partition if partition in PARTITIONS else PARTITIONS[0]
        count = self.random.choice((1, 1, 2, 5))
        sequence = self.sequences.get((one.producer, partition), 0)
        if self._happens(0.1):
            sequence = max(0, sequence + self.random.choice((-5, -2, -1, 1, 7)))
        return Produce(transactional_id, one.producer, partition, sequence, self._values(count), version)

    def _values(self, count: int) -> tuple[bytes, ...]:
        self.made += count
        return tuple(b"%d" % number for number in range(self.made - count, self.made))

    def _mark(self, one: Known) -> Mark:
        version = self.random.choice((1, 2))
        producer = one.producer._replace(epoch=max(0, one.producer.epoch + self.random.choice((0, 0, 0, -1))))
        partitions = tuple(self.random.sample(PARTITIONS, self.random.choice((1, 2))))
        transaction_version = self.random.choice((0, 2)) if version == 2 else 0
        coordinator_epoch = self.random.choice((-1, 0, 0))
        return Mark(producer, self._happens(0.5), partitions, coordinator_epoch, transaction_version, version)

    # Random choices.

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def _timeout(self) -> int:
        return self.random.choice(self.wrong_timeouts_ms if self._happens(0.04) else self.timeouts_ms)

    def _speaks_tv_2(self, one: Known) -> bool:
        return one.is_tv_2 != self._happens(0.03)

    def _know(self, one: Known) -> None:
        self.known = [known for known in self.known if known.producer != one.producer][-5:]
        self.known.append(one)

    def _of(self, producer: ProducerIdAndEpoch) -> list[Known]:
        return [one for one in self.known if one.producer == producer]

    def _somebody(self) -> Known:
        """Return a producer, or sometimes one that never existed, or an old epoch of one."""
        # The most recent producers are preferred, since they can still make valid requests.
        weights = [4**number for number in range(len(self.known))]
        one = self.random.choices(self.known, weights)[0]
        if self._happens(0.02):
            return Known(one.transactional_id, STRANGER, one.is_tv_2)
        if self._happens(0.04):
            epoch = max(0, one.producer.epoch + self.random.choice((-1, -1, 1)))
            return Known(one.transactional_id, one.producer._replace(epoch=epoch), one.is_tv_2)
        return one
