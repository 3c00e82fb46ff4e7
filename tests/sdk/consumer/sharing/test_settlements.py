"""Each end of an acknowledgement is reported once, to its delivery, its commits and the application.

Method: settle acknowledgements of deliveries by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, AcknowledgeOutcome, Acquired, Ledger
from kafkawire.sdk.consumer.sharing.commits import Commit
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery, ShareDeliveryState
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.consumer.sharing.settlements import Settlements
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicIdPartition, TopicPartition
from kafkawire.sdk.transport.promise import Promise

T0 = TopicIdPartition(b"i" * 16, "t", 0)
ERROR = BrokerError(ErrorCode.INVALID_RECORD_STATE, "too late")


class Bench:
    def __init__(self) -> None:
        self.held = HeldRecords()
        self.settlements = Settlements(self.held, Registry("share-consumer"))
        self.outcomes: list[AcknowledgeOutcome] = []
        self.settlements.notify = self.outcomes.append
        self.ledger = Ledger(lambda: None, lambda: 1_000, is_explicit=True)
        self.acquired = Acquired(T0, 1, 10, 31_000, 30_000, self.ledger)
        self.held.add(self.acquired)

    def given(self, offset: int, act: str = "accept") -> tuple[ShareDelivery[Any, Any], Acknowledgement]:
        record = Record(offset, 0, None, b"v", topic="t", partition=0)
        delivery = ShareDelivery[Any, Any](record, 1, self.acquired)
        getattr(delivery, act)()
        return delivery, self.ledger.given.pop()


def test_a_success_and_a_failure() -> None:
    bench = Bench()
    first, one = bench.given(1)
    second, two = bench.given(0, "release")
    bench.settlements.settle(T0, [one, two], None, 1_000)
    assert first.state is second.state is ShareDeliveryState.CONFIRMED
    third, three = bench.given(2, "reject")
    bench.settlements.settle(T0, [three], ERROR, 1_000)
    assert third.state is ShareDeliveryState.LOST
    bench.settlements.settle(T0, [], None, 1_000)
    partition = TopicPartition("t", 0)
    assert bench.outcomes == [(partition, b"i" * 16, (0, 1), None), (partition, b"i" * 16, (2,), ERROR)]
    assert bench.held.count == 7


def test_commits_count_and_gaps_are_not_reported() -> None:
    bench = Bench()
    promise: Promise[Any] = Promise()
    commit = Commit(promise, 100, 1_100)
    _, one = bench.given(0)
    gap = Acknowledgement(bench.acquired, 1, 3, ACKNOWLEDGE_GAP)
    one.commits = gap.commits = (commit,)
    commit.left = 2
    bench.settlements.settle(T0, [gap], None, 1_000)
    bench.settlements.settle(T0, [one], None, 1_000)
    commit.poll(1_000)
    assert [each.offsets for each in promise.wait()] == [(0,)]
    assert [each.offsets for each in bench.outcomes] == [(0,)]
    assert bench.held.count == 6


def test_renewals() -> None:
    bench = Bench()
    delivery, one = bench.given(0, "_renew")
    assert one.renewal is not None
    bench.settlements.settle(T0, [one], None, 5_000, 60_000)
    assert one.renewal.is_kept
    assert (delivery.locked_until_ms, bench.acquired.locked_until_ms) == (65_000, 31_000)
    assert (bench.outcomes, bench.held.count) == ([], 10)
    renewal = delivery._renew()
    again = bench.ledger.given.pop()
    bench.settlements.settle(T0, [again], ERROR, 6_000)
    with pytest.raises(BrokerError, match="too late"):
        renewal.wait()
    assert delivery.state is ShareDeliveryState.LOST
    assert bench.held.count == 9
    delivery.accept()
    bench.settlements.settle(T0, [bench.ledger.given.pop()], ERROR, 6_000)
    assert bench.held.count == 9, "it was subtracted when the renewal failed"
    assert bench.held.expire(31_000) is None


def test_a_renewed_record_counts_until_its_own_lock_runs_out() -> None:
    bench = Bench()
    _, one = bench.given(0, "_renew")
    bench.settlements.settle(T0, [one], None, 5_000)
    assert (bench.held.expire(31_000), bench.held.count) == (35_000, 1)


def test_a_replaced_acknowledgement_hands_over_its_commits() -> None:
    bench = Bench()
    delivery, renewal = bench.given(0, "_renew")
    delivery.accept()
    accepted = bench.ledger.given.pop()
    commit: Any = object()
    renewal.commits = (commit,)
    bench.settlements.replaced(renewal, accepted)
    assert accepted.commits == (commit,)
    assert renewal.renewal is not None
    assert renewal.renewal.is_kept


def test_a_callback_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def refuse(outcome: AcknowledgeOutcome) -> None:
        raise ValueError("no")

    bench.settlements.notify = refuse
    delivery, one = bench.given(0)
    bench.settlements.settle(T0, [one], None, 1_000)
    assert delivery.state is ShareDeliveryState.CONFIRMED
    assert "on_acknowledged raised" in caplog.text


def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    _, one = bench.given(0)
    gap = Acknowledgement(bench.acquired, 1, 3, ACKNOWLEDGE_GAP)
    rejected = Acknowledgement(bench.acquired, 4, 4, AcknowledgeType.REJECT)
    bench.settlements.settle(T0, [one, gap, rejected], ERROR, 1_000)
    assert "t-0: acknowledgements failed (accept 1, gap 3, reject 1)" in caplog.text
