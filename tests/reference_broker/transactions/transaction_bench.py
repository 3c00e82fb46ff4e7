"""A transaction coordinator with an in-memory log, and shortcuts for requests, for transaction tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.producer_id_blocks import BLOCK_IDS, BlockDone
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.coordinators.counting_shard import MemoryLog

__all__ = ["TIMEOUT_MS", "TransactionBench", "code_of"]

TIMEOUT_MS = 60_000

_DEFAULTS = TransactionLimits.of(read_options({}))


def code_of(outcome: object) -> ErrorCode:
    """Return the code of an outcome, or NONE if it is not an error."""
    return outcome.code if isinstance(outcome, BrokerError) else ErrorCode.NONE


class TransactionBench:
    """A transaction coordinator; the transactional id is `t` unless a test specifies another.

    Args:
        log: the log that contains the records.
        leader_epoch: the epoch in which the broker leads its partition.
        limits: the limits for transactions.

    Attributes:
        markers: the written markers: partition, marker and transaction version.
        held: markers that wait for the test; None to write them immediately.
        failing: the errors that markers fail with, keyed by partition.
        no_ids: whether no producer id can be reserved.
        held_work: reservations of producer ids that wait for the test; None to complete them immediately.
    """

    def __init__(self, log: MemoryLog | None = None, *, leader_epoch: int = 0, **limits: int) -> None:
        self.log = log or MemoryLog()
        self.leader_epoch = leader_epoch
        self.logs = [self.log]
        self.timers = Timers()
        self.now_ms = 1_000
        self.markers: list[tuple[Partition, Marker, int]] = []
        self.held: list[Callable[[], None]] | None = None
        self.failing: dict[Partition, ErrorCode] = {}
        self.no_ids = False
        self.held_work: list[Callable[[], None]] | None = None
        self._first_ids = count(BLOCK_IDS, BLOCK_IDS)
        self.producer_ids = ProducerIds(self)
        self.limits = limits
        self.transactions = TransactionCoordinator(
            self.timers, replace(_DEFAULTS, **limits), lambda: len(self.logs), self.producer_ids, self._write
        )
        self.elect()

    def elect(self) -> None:
        """Elect the coordinator for all partitions."""
        for number, log in enumerate(self.logs):
            self.transactions.elected(number, log, self.leader_epoch, self.now_ms)

    def reserve(self, done: BlockDone) -> None:
        """Reserve producer ids; see `ProducerIdBlocks`."""

        def run() -> None:
            first = next(self._first_ids)
            done(range(first, first + BLOCK_IDS))

        if self.no_ids:
            done(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is full"))
        elif self.held_work is not None:
            self.held_work.append(run)
        else:
            run()

    def _write(
        self,
        partition: Partition,
        marker: Marker,
        version: int,
        done: Callable[[BrokerError | None], None],
        now_ms: int,
    ) -> Callable[[], None]:
        def write() -> None:
            if (code := self.failing.get(partition)) is None:
                self.markers.append((partition, marker, version))
            done(None if code is None else BrokerError(code))

        if self.held is None:
            write()
        else:
            self.held.append(write)
        return lambda: None

    def loaded(self, leader_epoch: int = 0) -> TransactionBench:
        """Return a new coordinator that has loaded the log of this one."""
        again = TransactionBench(self.log, leader_epoch=leader_epoch, **self.limits)
        again.now_ms = self.now_ms
        while again.transactions.is_loading:
            again.timers.fire(again.now_ms)
        return again

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.timers.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.timers.fire(self.now_ms)
        self.now_ms = end_ms

    # Requests; each returns the list of answers, which is empty while they are delayed.

    def init(
        self, expected: tuple[int, int] | None = None, *, transactional_id: str = "t", timeout_ms: int = TIMEOUT_MS
    ) -> list[Any]:
        """Initialize a producer."""
        answers: list[Any] = []
        producer = None if expected is None else ProducerIdAndEpoch(*expected)
        self.transactions.initialize(transactional_id, timeout_ms, producer, answers.append, self.now_ms)
        return answers

    def producer(self, transactional_id: str = "t") -> ProducerIdAndEpoch:
        """Initialize a producer, and return it."""
        (producer,) = self.init(transactional_id=transactional_id)
        assert isinstance(producer, ProducerIdAndEpoch), producer
        return producer

    def add(
        self,
        producer: tuple[int, int],
        *partitions: Partition,
        version: int = 2,
        transactional_id: str = "t",
    ) -> list[Any]:
        """Add partitions."""
        answers: list[Any] = []
        self.transactions.add_partitions(
            transactional_id,
            ProducerIdAndEpoch(*producer),
            partitions or (("a", 0),),
            version,
            answers.append,
            self.now_ms,
        )
        return answers

    def ensure(self, producer: tuple[int, int], *partitions: Partition, version: int = 2) -> list[Any]:
        """Verify that partitions are in the transaction; the answers are codes, keyed by partition."""
        answers: list[Any] = []
        self.transactions.ensure_partitions(
            "t",
            *producer,
            partitions or (("a", 0),),
            version,
            lambda refused: answers.append({partition: error.code for partition, error in refused.items()}),
            self.now_ms,
        )
        return answers

    def end(
        self, producer: tuple[int, int], is_commit: bool = True, *, version: int = 2, transactional_id: str = "t"
    ) -> list[Any]:
        """End the transaction."""
        answers: list[Any] = []
        self.transactions.end(
            transactional_id, ProducerIdAndEpoch(*producer), is_commit, version, answers.append, self.now_ms
        )
        return answers

    # Results.

    def find(self, transactional_id: str = "t") -> Transaction | None:
        """Return the description of a transaction, or None if there is none."""
        answers: list[Any] = []
        self.transactions.describe(transactional_id, answers.append, self.now_ms)
        (found,) = answers
        assert found is None or isinstance(found, Transaction), found
        return found

    @property
    def transaction(self) -> Transaction:
        """The transaction."""
        found = self.find()
        assert found is not None
        return found

    @property
    def state(self) -> TransactionState:
        """The transaction's state."""
        return self.transaction.state
