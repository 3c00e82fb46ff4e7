"""Responses queue what was acquired, and end the acknowledgements; a partition's error concerns no other partition.

Method: give hand-built responses to the handler alone; a router's metadata takes new leaders.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, AcknowledgeOutcome, Acquired, Ledger
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.consumer.sharing.node_shares import NodeShares
from kafkawire.sdk.consumer.sharing.queue import ShareQueue
from kafkawire.sdk.consumer.sharing.responses import ShareResponses
from kafkawire.sdk.consumer.sharing.settlements import Settlements
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchResponse
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicIdPartition, TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import Simulation, backoff, cluster, options, topic_id

ID = topic_id("t")
T0, T1 = (TopicIdPartition(ID, "t", number) for number in range(2))

Fetched = ShareFetchResponse
Data = ShareFetchResponse.PartitionData


class Bench:
    """A handler of responses, for node 1, which leads both partitions of topic t."""

    def __init__(self) -> None:
        self.router = Router(options(), backoff())
        self.simulation = Simulation(self.router)
        self.simulation.handlers[MetadataRequest] = cluster((1, 2), {"t": (1, 1)})
        self.router.metadata.wanted = {"t"}
        self.simulation.run(10)
        self.queue = ShareQueue(lambda: None)
        self.ledger = Ledger(lambda: None, lambda: self.simulation.now_ms, is_explicit=True)
        self.held = HeldRecords()
        settlements = Settlements(self.held, self.router.metrics)
        self.outcomes: list[AcknowledgeOutcome] = []
        settlements.notify = self.outcomes.append
        self.responses = ShareResponses(self.router, self.queue, self.ledger, self.held, settlements)
        self.node = NodeShares(1, backoff())
        for partition in (T0, T1):
            self.node.want(partition)
        #: How long ago the locks of a response began.
        self.late_ms = 0

    def acknowledged(self, partition: TopicIdPartition, offset: int) -> Acknowledgement:
        acquired = Acquired(partition, 1, 1, 31_000, 30_000, self.ledger)
        self.held.add(acquired)
        record = Record(offset, 0, None, b"v", topic="t", partition=partition.partition)
        delivery = ShareDelivery[Any, Any](record, 1, acquired)
        return Acknowledgement(acquired, offset, offset, AcknowledgeType.ACCEPT, delivery=delivery)

    def take(self, *data: Data, sent: Any = None, lock_ms: int = 20_000, **given: Any) -> BrokerError | None:
        topics = [Fetched.ShareFetchableTopicResponse(ID, list(data))]
        response = Fetched(acquisition_lock_timeout_ms=lock_ms, responses=topics, **given)
        now_ms = self.simulation.now_ms
        return self.responses.take(self.node, response, {} if sent is None else sent, now_ms, now_ms - self.late_ms)

    def take_acknowledged(self, *data: Any, sent: Any, **given: Any) -> BrokerError | None:
        topics = [ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(ID, list(data))]
        response = ShareAcknowledgeResponse(responses=topics, **given)
        now_ms = self.simulation.now_ms
        return self.responses.take_acknowledged(self.node, response, sent, now_ms, now_ms - self.late_ms)

    @property
    def metrics(self) -> dict[str, float]:
        return {name.name: value for name, value in self.router.metrics.read(self.simulation.now_ms).items()}


def acquired(*ranges: tuple[int, int, int]) -> list[ShareFetchResponse.AcquiredRecords]:
    return [Fetched.AcquiredRecords(*each) for each in ranges]


def test_what_was_acquired_is_queued() -> None:
    bench = Bench()
    waiting = bench.queue.wait()
    assert bench.take(Data(0, records=b"R" * 5, acquired_records=acquired((5, 7, 2), (0, 4, 1))), Data(1)) is None
    assert waiting.done
    item = bench.queue.first()
    assert item is not None
    assert [tuple(each) for each in item.ranges] == [(0, 4, 1), (5, 7, 2)]
    assert (item.acquired.partition, item.acquired.node_id, item.records) == (T0, 1, b"R" * 5)
    assert item.acquired.locked_until_ms == bench.simulation.now_ms + 20_000
    assert (bench.ledger.lock_timeout_ms, bench.held.count) == (20_000, 8)
    bench.queue.drop(item)
    assert bench.queue.first() is None
    assert (bench.metrics["records-consumed-total"], bench.metrics["bytes-consumed-total"]) == (8, 5)


def test_the_time_that_a_lock_has_lasted_already() -> None:
    bench = Bench()
    bench.late_ms = 15_000
    bench.take(Data(0, records=b"", acquired_records=acquired((0, 0, 1))))
    item = bench.queue.first()
    assert item is not None
    assert item.acquired.locked_until_ms == bench.simulation.now_ms + 5_000


def test_an_offset_that_is_listed_twice_counts_once() -> None:
    bench = Bench()
    bench.take(Data(0, records=b"", acquired_records=acquired((0, 4, 1), (3, 6, 2), (5, 6, 2))))
    item = bench.queue.first()
    assert item is not None
    assert [tuple(each) for each in item.ranges] == [(0, 4, 1), (5, 6, 2)]
    assert bench.held.count == 7


def test_a_response_without_a_duration() -> None:
    bench = Bench()
    bench.take(Data(0, records=b"", acquired_records=acquired((0, 0, 1))), lock_ms=0)
    assert bench.ledger.lock_timeout_ms == 30_000


def test_acknowledgements_end_one_partition_at_a_time() -> None:
    bench = Bench()
    sent = {T0: [bench.acknowledged(T0, 1)], T1: [bench.acknowledged(T1, 2)]}
    late = Data(1, acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE, acknowledge_error_message="too late")
    assert bench.take(Data(0), late, sent=sent) is None
    first, second = bench.outcomes
    assert (first.partition, first.offsets, first.error) == (TopicPartition("t", 0), (1,), None)
    assert isinstance(second.error, BrokerError)
    assert second.error.code is ErrorCode.INVALID_RECORD_STATE
    assert "too late" in str(second.error)
    assert (sent, bench.responses.again, bench.held.count) == ({}, {}, 0)


def test_acknowledgements_that_are_sent_again() -> None:
    bench = Bench()
    again = bench.acknowledged(T0, 1)
    error = bench.take(Data(0, acknowledge_error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), sent={T0: [again]})
    assert error is not None
    assert (bench.responses.again, bench.outcomes) == ({T0: [again]}, [])


def test_acknowledgements_of_a_partition_that_has_moved() -> None:
    bench = Bench()
    kind = ShareAcknowledgeResponse
    moved = kind.PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=kind.LeaderIdAndEpoch(2, 7))
    endpoints = [kind.NodeEndpoint(2, "node-2", 9092, None)]
    sent = {T0: [bench.acknowledged(T0, 1)], T1: [bench.acknowledged(T1, 2)]}
    assert bench.take_acknowledged(moved, kind.PartitionData(1), sent=sent, node_endpoints=endpoints) is None
    assert [(each.offsets, each.error is None) for each in bench.outcomes] == [((1,), False), ((2,), True)]
    assert bench.router.metadata.leader(TopicPartition("t", 0)) == 2


@pytest.mark.parametrize(
    ("code", "is_raised"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, False),
    ],
)
def test_a_partition_that_cannot_be_fetched(code: ErrorCode, is_raised: bool) -> None:
    bench = Bench()
    error = bench.take(Data(0, error_code=code, error_message="said the broker"))
    assert error is not None
    assert error.code is code
    assert "t-0: said the broker" in str(error)
    assert list(bench.queue.errors) == ([error] if is_raised else [])


def test_errors_of_a_partition_do_not_pile_up_and_end_with_its_next_good_fetch() -> None:
    bench = Bench()
    bench.node.session.plan([T0, T1])
    for _ in range(5):
        bench.take(*(Data(number, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for number in (0, 1)))
    assert len(bench.queue.errors) == 2
    bench.take(Data(1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))  # those without records are left out
    assert [str(each) for each in bench.queue.errors] == ["TOPIC_AUTHORIZATION_FAILED: share fetch from t-1"]
    bench.take()
    assert not bench.queue.errors
    bench.take(Data(0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert len(bench.queue.errors) == 1


def test_no_pause_if_another_partition_has_records() -> None:
    bench = Bench()
    found = Data(1, records=b"", acquired_records=acquired((0, 0, 1)))
    assert bench.take(Data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), found) is None


def test_a_new_leader_needs_no_pause() -> None:
    bench = Bench()
    moved = Data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=Fetched.LeaderIdAndEpoch(2, 7))
    assert bench.take(moved, node_endpoints=[Fetched.NodeEndpoint(2, "node-2", 9092, None)]) is None


def test_a_partition_that_was_not_asked_for_is_harmless() -> None:
    bench = Bench()
    assert bench.take(Data(7)) is None
    assert (
        bench.take_acknowledged(ShareAcknowledgeResponse.PartitionData(7, ErrorCode.INVALID_REQUEST), sent={}) is None
    )
    assert bench.outcomes == []
