"""A log accepts each batch of an idempotent producer once and in order, and knows which transactions are open.

Method: check tables of cases with Apache Kafka's answers (`tests/kafka/test_idempotence.py` sends the cases that a
client can cause to a real broker). `test_producer_histories.py` has random cases.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.producers.producers import (
    BATCHES_KEPT,
    AppendedBatch,
    CompletedTransaction,
    Marker,
    Producer,
    Producers,
    Verification,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import NOW_MS
from tests.reference_broker.storage.producer_cases import CASES, EPOCH, ORDER, PLAIN, Log, Sent, batch

HIGHEST_EPOCH = 2**15 - 1

STATE = ErrorCode.INVALID_TXN_STATE


def refused(log: Log, header: BatchHeader, verification: Verification | None = None) -> ErrorCode:
    before = snapshot(log.producers)
    with pytest.raises(BrokerError) as caught:
        log.append(header, verification)
    assert snapshot(log.producers) == before, "a check changes nothing"
    return caught.value.code


def snapshot(producers: Producers) -> list[tuple[object, ...]]:
    return [
        (found.producer_id, found.epoch, found.coordinator_epoch, found.transaction_start, *found.batches)
        for found in producers
    ]


@pytest.mark.parametrize(("before", "last", "answer"), CASES)
def test_answers(before: list[Sent], last: Sent, answer: int | ErrorCode) -> None:
    log = Log()
    for earlier in before:
        log.append(earlier.header())
    if isinstance(answer, ErrorCode):
        assert refused(log, last.header()) == answer
    else:
        assert log.append(last.header()) == answer


@pytest.mark.parametrize(
    ("before", "header", "answer"),
    [
        ([batch(0)], PLAIN, 1),
        ([batch(0)], PLAIN._replace(producer_id=-2, base_sequence=5), 1),
        ([], batch(0, transactional=True), STATE),
        ([batch(0, epoch=1)], batch(1, transactional=True), EPOCH),
    ],
)
def test_answers_to_others(before: list[BatchHeader], header: BatchHeader, answer: int | ErrorCode) -> None:
    log = Log()
    for earlier in before:
        log.append(earlier)
    if isinstance(answer, ErrorCode):
        assert refused(log, header) == answer
    else:
        assert log.append(header) == answer


def test_a_duplicate_is_known_among_the_last_five() -> None:
    log = Log()
    for sequence in range(BATCHES_KEPT + 1):
        log.append(batch(sequence))
    end = log.producers.end_offset
    assert [log.append(batch(sequence)) for sequence in range(1, BATCHES_KEPT + 1)] == [1, 2, 3, 4, 5]
    assert log.producers.end_offset == end
    assert refused(log, batch(0)) == ORDER


def test_what_a_duplicate_returns() -> None:
    log = Log()
    log.append(PLAIN)
    log.append(batch(0, 3))
    assert log.producers.check(batch(0, 3)) == AppendedBatch(2, 3, 2, NOW_MS)


def test_a_coordinator_writes_without_sequences() -> None:
    log = Log()
    header = batch(-1, epoch=2)
    assert log.append(header, is_client=False) == 0
    assert log.append(header, is_client=False) == 1
    with pytest.raises(BrokerError) as caught:
        log.append(batch(-1, epoch=1), is_client=False)
    assert caught.value.code == EPOCH
    found = log.producers.get(1)
    assert found is not None
    assert found.last_sequence == -1


class CountedOffset(int):
    """An offset that counts how many times it is compared."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return super().__lt__(other)


class TestTransactions:
    def test_thousands_whose_markers_are_not_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each append needs the first of these transactions, and followers may be unavailable for a long time."""
        monkeypatch.setattr(CountedOffset, "comparisons", 0)
        producers, count = Producers(), 1_000
        for number in range(count):
            producers.note(batch(0, producer=number, transactional=True), CountedOffset(2 * number))
            producers.note_marker(Marker(number, 0, True, 0), 2 * number + 1, NOW_MS)
            assert producers.first_unstable_offset == 0
            assert producers.note_high_watermark(0) == []
        assert CountedOffset.comparisons < 3 * count
        assert producers.note_high_watermark(2 * count - 2) == [2 * number for number in range(count - 1)]
        assert producers.first_unstable_offset == 2 * count - 2
        assert producers.note_high_watermark(2 * count) == [2 * count - 2]
        assert producers.first_unstable_offset is None

    def test_open_and_end(self) -> None:
        log = Log()
        assert log.begin(0) == 0
        assert log.producers.first_unstable_offset == 0
        assert log.append(batch(1, transactional=True)) == 1
        assert refused(log, batch(2)) == STATE, "the batch is outside the open transaction"
        assert log.end(True) == CompletedTransaction(1, 0, 2, False, 3)
        assert log.producers.first_unstable_offset == 0, (
            "this is the case until the high watermark has passed the marker"
        )
        log.producers.note_high_watermark(2)
        assert log.producers.first_unstable_offset == 0
        log.producers.note_high_watermark(3)
        assert log.producers.first_unstable_offset is None
        assert refused(log, batch(2, transactional=True)) == STATE, "the transaction has ended"
        assert log.begin(2) == 3

    def test_one_begins_with_the_first_record_of_its_batch(self) -> None:
        producers = Producers()
        producers.note(batch(0, 3, transactional=True), 5)
        assert producers.first_unstable_offset == 5
        assert producers.note_marker(Marker(1, 0, False, 0), 8, NOW_MS) == CompletedTransaction(1, 5, 8, True, 9)

    def test_several_at_once(self) -> None:
        log = Log()
        log.begin(0, 1)
        log.begin(0, 2)
        log.append(batch(0, producer=3))
        log.begin(0, 4)
        assert log.end(False, 2) == CompletedTransaction(2, 1, 4, True, 0)
        assert log.end(False, 1) == CompletedTransaction(1, 0, 5, True, 3)
        log.producers.note_high_watermark(5)
        assert log.producers.first_unstable_offset == 0, "the high watermark has not passed the marker at 5"
        log.producers.note_high_watermark(6)
        assert log.producers.first_unstable_offset == 3
        assert log.end(True, 4) == CompletedTransaction(4, 3, 6, False, 7)
        log.producers.note_high_watermark(7)
        assert log.producers.first_unstable_offset is None

    @pytest.mark.parametrize(
        ("epoch", "coordinator", "version", "code"),
        [
            (3, 0, 0, None),
            (3, 0, 1, None),
            (4, 0, 1, None),
            (2, 0, 1, EPOCH),
            (3, 0, 2, EPOCH),
            (4, 0, 2, None),
            (3, -1, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            (2, -1, 0, EPOCH),
        ],
    )
    def test_markers(self, epoch: int, coordinator: int, version: int, code: ErrorCode | None) -> None:
        log = Log()
        log.begin(0, epoch=3)
        log.end(True, epoch=3, coordinator=0)
        log.begin(1, epoch=3)
        if code is None:
            assert log.end(True, epoch=epoch, coordinator=coordinator, version=version) is not None
            return
        with pytest.raises(BrokerError) as caught:
            log.end(True, epoch=epoch, coordinator=coordinator, version=version)
        assert caught.value.code == code

    def test_a_marker_may_be_written_again(self) -> None:
        log = Log()
        log.begin(0)
        assert log.end(True, epoch=1, version=2) is not None
        assert log.end(True, epoch=1, version=2) is None
        log.begin(0, epoch=1, tv2=True)
        with pytest.raises(BrokerError):
            log.end(True, epoch=1, version=2)

    def test_a_marker_of_the_highest_epoch(self) -> None:
        log = Log()
        log.begin(0, epoch=HIGHEST_EPOCH)
        assert log.end(False, epoch=HIGHEST_EPOCH, version=2) is not None

    def test_a_marker_of_an_unknown_producer(self) -> None:
        log = Log()
        assert log.end(False, 9, epoch=4) is None
        found = log.producers.get(9)
        assert found is not None
        assert (found.epoch, found.coordinator_epoch, found.last_sequence) == (4, 0, -1)
        assert log.begin(0, 9, epoch=4) == 1
        assert refused(log, batch(5, producer=9, epoch=4, transactional=True)) == ORDER

    def test_a_marker_with_a_new_epoch_restarts_the_sequence(self) -> None:
        log = Log()
        log.begin(0)
        log.end(True, epoch=1)
        assert log.begin(0, epoch=1) == 2


class TestVerification:
    def test_only_the_request_that_asked_may_begin(self) -> None:
        producers = Producers()
        first = producers.begin_verification(1, 0, 0, NOW_MS, has_epoch_per_transaction=False)
        assert first is producers.begin_verification(1, 0, 1, NOW_MS, has_epoch_per_transaction=False)
        assert producers.check(batch(0, transactional=True), verification=first) is None
        producers.note(batch(0, transactional=True), 0)
        assert producers.begin_verification(1, 0, 1, NOW_MS, has_epoch_per_transaction=False) is None
        producers.note_marker(Marker(1, 0, False, 0), 1, NOW_MS)
        with pytest.raises(BrokerError) as caught:
            producers.check(batch(1, transactional=True), verification=first)
        assert caught.value.code == STATE

    @pytest.mark.parametrize("asked", [(3, 1), (1, 3)])
    def test_batches_may_not_overtake_the_first(self, asked: tuple[int, int]) -> None:
        producers = Producers()
        verification, _ = (
            producers.begin_verification(1, 0, sequence, NOW_MS, has_epoch_per_transaction=False) for sequence in asked
        )
        with pytest.raises(BrokerError) as caught:
            producers.check(batch(3, transactional=True), verification=verification)
        assert caught.value.code == ORDER
        assert producers.check(batch(1, transactional=True), verification=verification) is None

    def test_a_producer_without_state_begins_at_0(self) -> None:
        producers = Producers()
        verification = producers.begin_verification(1, 0, 3, NOW_MS, has_epoch_per_transaction=True)
        with pytest.raises(BrokerError) as caught:
            producers.check(batch(3, transactional=True), verification=verification)
        assert caught.value.code == ORDER

    def test_a_new_epoch_asks_anew(self) -> None:
        producers = Producers()
        found = producers.begin_verification(7, 1, 4, NOW_MS, has_epoch_per_transaction=True)
        assert found is not None
        producers.begin_verification(7, 2, 5, NOW_MS, has_epoch_per_transaction=True)
        producers.begin_verification(7, 1, 0, NOW_MS, has_epoch_per_transaction=True)
        assert (found.epoch, found.lowest_sequence) == (2, 5)

    def test_it_is_forgotten_with_the_producers_that_are_idle(self) -> None:
        producers = Producers()
        first = producers.begin_verification(1, 0, 0, NOW_MS, has_epoch_per_transaction=False)
        producers.expire(NOW_MS + 999, 1_000)
        assert producers.begin_verification(1, 0, 0, NOW_MS, has_epoch_per_transaction=False) is first
        producers.expire(NOW_MS + 1_000, 1_000)
        assert producers.begin_verification(1, 0, 0, NOW_MS, has_epoch_per_transaction=False) is not first

    def test_an_old_epoch_is_refused(self) -> None:
        producers = Producers()
        producers.note(batch(0, producer=7, epoch=2), 0)
        with pytest.raises(BrokerError) as caught:
            producers.begin_verification(7, 1, 0, NOW_MS, has_epoch_per_transaction=True)
        assert caught.value.code == EPOCH

    @pytest.mark.parametrize(("epoch", "is_kept"), [(0, False), (1, True)])
    def test_a_marker_leaves_the_next_transaction_alone(self, epoch: int, is_kept: bool) -> None:
        producers = Producers()
        producers.note(batch(0, transactional=True), 0)
        verification = producers.begin_verification(1, 1, 0, NOW_MS, has_epoch_per_transaction=True)
        producers.note_marker(Marker(1, epoch, True, 0), 1, NOW_MS)
        following = batch(0, epoch=1, transactional=True)
        if is_kept:
            assert producers.check(following, verification=verification) is None
        else:
            with pytest.raises(BrokerError):
                producers.check(following, verification=verification)


def test_idle_producers_expire() -> None:
    log = Log()
    log.append(batch(0, producer=1))
    log.append(batch(5, producer=2))
    log.begin(0, producer=3)
    waiting = log.producers.begin_verification(4, 0, 0, NOW_MS, has_epoch_per_transaction=False)
    log.producers.expire(NOW_MS + 99, 100)
    assert len(log.producers) == 3
    log.producers.expire(NOW_MS + 100, 100)
    assert [found.producer_id for found in log.producers] == [2, 3]
    assert refused(log, batch(0, producer=4, transactional=True), waiting) == STATE
    log.producers.expire(NOW_MS + 1000, 100)
    assert [found.producer_id for found in log.producers] == [3], "its transaction is open"
    assert log.append(batch(77, producer=1)) == 3, "an unknown producer may begin anywhere"


def test_restore() -> None:
    producers = Producers()
    producers.restore(
        [
            Producer(1, 2, 0, NOW_MS, 50, [AppendedBatch(9, 60, 0, NOW_MS)]),
            Producer(2, 0, -1, NOW_MS, 40),
            Producer(3, 0, -1, NOW_MS),
        ],
        100,
    )
    assert (producers.end_offset, producers.first_unstable_offset, len(producers)) == (100, 40, 3)
    assert producers.check(batch(9, epoch=2)) == AppendedBatch(9, 60, 0, NOW_MS)
    ended = producers.note_marker(Marker(2, 0, True, 0), 100, NOW_MS)
    assert ended == CompletedTransaction(2, 40, 100, False, 50)
