"""A batch starts a transaction in its partition only if the coordinator agrees; its errors turn into Produce errors.

Method: use in-memory logs, and a coordinator whose answers the test chooses.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.reference_broker.storage.producers.producers import Verification
from kafkawire.reference_broker.transactions.transaction_verification import (
    Unverified,
    Verifier,
    append_verified,
    transaction_version,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.transacting_logs import TransactingLog
from tests.reference_broker.transaction_desk import TransactionDesk

V0, V1, V2 = TransactionVersion
ID, PRODUCER, EPOCH = "id", 7, 3


class Partitions:
    """Partitions, and the results of the batches that were sent to them."""

    def __init__(self, *numbers: int) -> None:
        self.logs = {number: TransactingLog() for number in numbers}
        self.answers: dict[int, list[Appended | ErrorCode]] = {number: [] for number in numbers}

    def batch(self, number: int, sequence: int = 0, epoch: int = EPOCH) -> Unverified:
        log, answers = self.logs[number].log, self.answers[number]
        data = produced(b"x", producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)
        header = parse_header(data)

        def appended(outcome: Appended | BrokerError) -> None:
            answers.append(outcome.code if isinstance(outcome, BrokerError) else outcome)

        def append(verification: Verification | None) -> None:
            log.append(data, header, NOW_MS, appended, verification=verification)

        return Unverified(("t", number), log, header, append, appended)

    def codes(self) -> list[ErrorCode]:
        """Return the last answer of each partition."""
        last = [answers[-1] for answers in self.answers.values()]
        return [ErrorCode.NONE if isinstance(answer, Appended) else answer for answer in last]


def send(verifier: Verifier | None, *batches: Unverified, version: TransactionVersion = V2) -> None:
    append_verified(verifier, ID, batches, version, NOW_MS)


@pytest.mark.parametrize(("produce", "version"), [(3, V0), (10, V0), (11, V1), (12, V2), (13, V2)])
def test_versions(produce: int, version: TransactionVersion) -> None:
    assert transaction_version(produce) == version


@pytest.mark.parametrize("version", TransactionVersion)
def test_the_coordinator_is_asked_once_for_all_partitions_and_once_in_a_transaction(
    version: TransactionVersion,
) -> None:
    partitions, desk = Partitions(0, 1), TransactionDesk()
    send(desk, partitions.batch(0), partitions.batch(1), version=version)
    asked: tuple[str, int, int, list[Partition], int] = (ID, PRODUCER, EPOCH, [("t", 0), ("t", 1)], version)
    assert desk.asked == [asked]
    send(desk, partitions.batch(0, sequence=1), partitions.batch(1, sequence=1), version=version)
    assert len(desk.asked) == 1
    assert partitions.codes() == [ErrorCode.NONE] * 2
    partitions.logs[0].commit(PRODUCER, EPOCH)
    send(desk, partitions.batch(0, sequence=2), partitions.batch(1, sequence=2), version=version)
    assert [places for _, _, _, places, _ in desk.asked[1:]] == [[("t", 0)]]
    assert partitions.codes() == [ErrorCode.NONE] * 2


@pytest.mark.parametrize(
    ("given", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, V0, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, V1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, V2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.INVALID_PRODUCER_EPOCH, V2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, V0, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, V1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, V2, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, V2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, V2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, V0, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, V1, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_errors(given: ErrorCode, version: TransactionVersion, told: ErrorCode) -> None:
    partitions, desk = Partitions(0, 1), TransactionDesk()
    desk.refused["t", 1] = given
    send(desk, partitions.batch(0), partitions.batch(1), version=version)
    assert partitions.codes() == [ErrorCode.NONE, told]
    assert [log.log.next_offset for log in partitions.logs.values()] == [1, 0]


def test_an_old_epoch_is_refused_before_anybody_is_asked() -> None:
    partitions, desk = Partitions(0, 1), TransactionDesk()
    partitions.logs[1].append(PRODUCER, b"x", epoch=EPOCH + 1)
    send(desk, partitions.batch(0), partitions.batch(1))
    assert partitions.codes() == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]
    assert [places for _, _, _, places, _ in desk.asked] == [[("t", 0)]]


def test_a_marker_that_comes_while_the_coordinator_is_asked_fences_the_batch() -> None:
    partitions, desk = Partitions(0), TransactionDesk()
    desk.is_held = True
    send(desk, partitions.batch(0), version=V0)
    partitions.logs[0].abort(PRODUCER, EPOCH)
    desk.answer()
    assert partitions.codes() == [ErrorCode.INVALID_TXN_STATE]


def test_two_batches_for_one_partition_are_both_answered() -> None:
    partitions, desk = Partitions(0), TransactionDesk()
    desk.is_held = True
    send(desk, partitions.batch(0), partitions.batch(0, sequence=1))
    desk.answer()
    assert len(partitions.answers[0]) == 2
    assert partitions.codes() == [ErrorCode.NONE]


def test_producers_are_believed_if_nobody_is_asked() -> None:
    partitions = Partitions(0)
    send(None, partitions.batch(0))
    send(None, partitions.batch(0, sequence=1))
    assert partitions.codes() == [ErrorCode.NONE]
    assert partitions.logs[0].log.last_stable_offset == 0
