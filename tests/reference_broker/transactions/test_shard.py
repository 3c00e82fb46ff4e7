"""A shard changes its state once its records are in the log, loads the records that it wrote, and reports outside work.

Method: test a shard alone, and replay its records; its timers are kept in a list.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.transactions import shard as module
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.records import transaction_record, transaction_tombstone
from kafkawire.reference_broker.transactions.shard import TransactionShard
from kafkawire.reference_broker.transactions.transaction import NeedsProducerId, ProducerIdAndEpoch, Transaction
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.messages.coordinator.transaction_state.transaction_log import TransactionLogValue
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import RefusedEdge

FIRST = ProducerIdAndEpoch(5, 0)
_DEFAULTS = TransactionLimits.of(read_options({}))


class Bench:
    """A shard and its reports."""

    def __init__(self, **limits):
        self.timers = Timers()
        self.told = []
        self.shard = TransactionShard(self.timers, replace(_DEFAULTS, **limits), self)

    def prepared(self, transaction, now_ms):
        self.told.append(("prepared", transaction.transactional_id, now_ms))

    def timed_out(self, transaction, now_ms):
        self.told.append(("timed out", transaction.transactional_id, now_ms))

    def write(self, result):
        for record in result.records:
            self.shard.replay(record)
        return result.reply


@pytest.fixture
def bench():
    bench = Bench()
    bench.shard.loaded(0)
    return bench


def test_nothing_changes_before_the_record_is_in_the_log(bench):
    with pytest.raises(NeedsProducerId):
        bench.shard.initialize("t", 1_000, None, None, 0)
    result = bench.shard.initialize("t", 1_000, None, 5, 0)
    assert bench.shard.transactions == {}
    assert bench.write(result) == FIRST
    bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0)
    assert bench.write(bench.shard.describe("t")).partitions == frozenset()


def test_what_a_failed_append_would_have_been_is_forgotten(bench):
    bench.write(bench.shard.initialize("t", 1_000, None, 5, 0))
    bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0)
    bench.shard.replay(transaction_tombstone("other"))
    assert bench.write(bench.shard.end("t", FIRST, False, 2, None, 0)) == (5, 1)
    assert bench.shard.transactions["t"].partitions == frozenset()


def test_prepared_transactions_are_told_of(bench):
    bench.write(bench.shard.initialize("t", 1_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0))
    bench.write(bench.shard.end("t", FIRST, True, 2, None, 7))
    assert bench.told == [("prepared", "t", 7)]
    prepared = bench.shard.transactions["t"]
    assert bench.shard.prepared(prepared).reply
    bench.write(bench.shard.complete(prepared, 8))
    assert not bench.shard.prepared(prepared).reply
    assert bench.shard.complete(prepared, 9).records == (), "the transaction is only completed once"
    assert bench.shard.transactions["t"].state is TransactionState.COMPLETE_COMMIT


def test_loading_tells_of_what_is_prepared():
    bench = Bench()
    for name, state in (("a", TransactionState.PREPARE_ABORT), ("b", TransactionState.ONGOING)):
        transaction = Transaction(name, 5, epoch=1, timeout_ms=1_000, state=state, start_ms=0)
        record = bench.shard.decode(*encode(transaction_record(transaction)))
        assert record is not None
        bench.shard.replay(record)
    assert bench.told == []
    bench.shard.loaded(50)
    assert bench.told == [("prepared", "a", 50)]
    bench.timers.fire(10_050)
    assert bench.told[1:] == [("timed out", "b", 10_050)]


def test_open_transactions_are_looked_at_while_there_are_any(bench):
    assert bench.timers.next_deadline_ms == 3_600_000
    bench.write(bench.shard.initialize("t", 15_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0))
    for now_ms in (10_000, 20_000, 30_000):
        assert bench.timers.next_deadline_ms == now_ms
        bench.timers.fire(now_ms)
    assert bench.told == [("timed out", "t", 20_000), ("timed out", "t", 30_000)]
    (transaction,) = bench.shard.transactions.values()
    bench.write(bench.shard.abort(transaction, None, 30_000))
    assert bench.shard.abort(transaction, None, 30_000).records == (), "the transaction has moved on"
    bench.timers.fire(40_000)
    assert bench.timers.next_deadline_ms == 3_600_000


def test_expiry_is_sliced(monkeypatch):
    monkeypatch.setattr(module, "_STEP_IDS", 2)
    bench = Bench()
    for name in "abcde":
        bench.write(bench.shard.initialize(name, 1_000, None, 5, 0))
    now_ms = 8 * 24 * 3_600_000
    bench.shard._expire_later(now_ms - 3_600_000)
    fired = []
    for _ in range(3):
        bench.timers.fire(now_ms)
        fired.append(len(bench.shard.fire(lambda now_ms: None, now_ms).records))
    assert fired == [2, 2, 1]


def test_an_unloaded_shard_sets_no_timers(bench):
    bench.write(bench.shard.initialize("t", 15_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0))
    bench.shard.end_transaction(5, True)
    bench.shard.unloaded()
    assert bench.timers.next_deadline_ms is None


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda shard, who: shard.add_partitions("t", who, [("a", 0)], 1, 0), ErrorCode.CONCURRENT_TRANSACTIONS),
        (lambda shard, who: shard.check_partitions("t", who, [("a", 0)]), ErrorCode.PRODUCER_FENCED),
        (lambda shard, who: shard.end("t", who, True, 1, None, 0), ErrorCode.PRODUCER_FENCED),
        (lambda shard, who: shard.end("t", who, True, 2, None, 0), ErrorCode.CONCURRENT_TRANSACTIONS),
        (lambda shard, who: shard.initialize("t", 1_000, who, None, 0), ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
    ids=["add", "check", "end", "end of version 2", "initialize"],
)
def test_what_comes_first_for_a_fenced_producer_while_markers_are_written(bench, ask, code):
    """Kafka reports that the producer is fenced only where it does not first check for a pending transition."""
    bench.write(bench.shard.initialize("t", 1_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 1, 0))
    bench.write(bench.shard.end("t", FIRST, True, 1, None, 0))
    assert bench.shard.transactions["t"].is_prepared
    with pytest.raises(BrokerError) as caught:
        ask(bench.shard, ProducerIdAndEpoch(5, 7))
    assert caught.value.code is code


def test_a_producer_asks_while_a_transaction_is_open(bench):
    bench.write(bench.shard.initialize("t", 15_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0))
    with pytest.raises(BrokerError, match="got 9 with epoch 0"):
        bench.shard.initialize("t", 15_000, ProducerIdAndEpoch(9, 0), None, 0)
    reply = bench.write(bench.shard.initialize("t", 15_000, ProducerIdAndEpoch(5, 0), None, 0))
    assert reply.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.shard.transactions["t"].state is TransactionState.PREPARE_ABORT


def test_unknown_states_are_damage(bench):
    record = transaction_record(Transaction("t", 5))
    assert isinstance(record.value, TransactionLogValue)
    record.value.transaction_status = 9
    with pytest.raises(DecodeError, match="state 9"):
        bench.shard.decode(*encode(record))


def test_ids_expire_when_nothing_has_happened_for_long_enough_and_no_transaction_is_open():
    bench = Bench(id_expiration_ms=1_000, id_expiration_interval_ms=500)
    bench.shard.loaded(0)
    for name, now_ms in (("old", 1_000), ("young", 1_001), ("open", 0)):
        bench.write(bench.shard.initialize(name, 1_000, None, 5, now_ms))
    bench.write(bench.shard.add_partitions("open", FIRST, [("a", 0)], 2, 0))
    due = bench.shard._expiry_timer
    assert due is not None
    bench.write(bench.shard.fire(due.fire, 2_000))
    assert set(bench.shard.transactions) == {"young", "open"}


def test_transaction_that_was_followed_by_another_is_not_aborted_in_its_stead(bench):
    bench.write(bench.shard.initialize("t", 1_000, None, 5, 0))
    bench.write(bench.shard.add_partitions("t", FIRST, [("a", 0)], 2, 0))
    before = bench.shard.transactions["t"]
    again = bench.write(bench.shard.end("t", FIRST, True, 2, None, 0))
    bench.write(bench.shard.complete(bench.shard.transactions["t"], 0))
    bench.write(bench.shard.add_partitions("t", again, [("a", 0)], 2, 0))
    assert bench.shard.abort(before, None, 1_001).records == ()
    assert bench.shard.abort(bench.shard.transactions["t"], None, 1_000).records == (), (
        "the transaction has not timed out"
    )
    assert bench.shard.abort(bench.shard.transactions["t"], None, 1_001).records != ()


def test_an_id_in_a_state_that_is_never_stored_is_refused_alone(bench):
    """As in Kafka, this is treated as a defect; the partition answers UNKNOWN_SERVER_ERROR."""
    for state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        bench.shard.replay(transaction_record(Transaction("t", 5, epoch=0, state=state)))
        with pytest.raises(RefusedEdge, match=f"a transactional id cannot become EMPTY while it is {state.name}"):
            bench.shard.initialize("t", 1_000, None, None, 0)
    assert bench.write(bench.shard.initialize("other", 1_000, None, 6, 0)) == (6, 0)
