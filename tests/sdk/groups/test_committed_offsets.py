"""Committed offsets are found for each partition at its own pace and by its deadline.

Method: run the state machine alone on a simulated client; the test sets the coordinator's answer for each partition.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, RemoteProtocolError, RequestTimedOut
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets, Found
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import SILENT, Simulation, address, backoff, cluster, options

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
SEVEN = OffsetAndMetadata(7, "n", 3)


class Client:
    """A simulated client that looks up offsets; partitions 0 and 1 have offset 7, and partition 2 has none."""

    def __init__(self) -> None:
        self.router = Router(options(), backoff())
        self.committed = CommittedOffsets(self.router, backoff(), "g")
        self.simulation = Simulation(self.router, self.committed)
        self.simulation.handlers[MetadataRequest] = cluster([1], {"t": [1] * 3})
        self.simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator("g", 1, *address(1))]
        )
        self.simulation.handlers[OffsetFetchRequest] = self.answer
        self.silent = False
        self.group_codes: list[int] = []
        self.codes: dict[int, list[int]] = {}
        self.found: dict[TopicPartition, tuple[int, Any]] = {}

    def answer(self, request: OffsetFetchRequest, version: int) -> Any:
        if self.silent:
            return SILENT
        topics = []
        for topic in request.groups[0].topics or ():
            partitions = []
            for number in topic.partition_indexes:
                codes = self.codes.get(number, [])
                code = codes.pop(0) if codes else 0
                offset = -1 if code or number == 2 else 7
                partitions.append(OffsetFetchResponse.OffsetFetchResponsePartitions(number, offset, 3, "n", code))
            topics.append(OffsetFetchResponse.OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
        code = self.group_codes.pop(0) if self.group_codes else 0
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", topics, code)])

    def find(self, *partitions: TopicPartition, timeout_ms: int = 5_000) -> Any:
        def found(results: Found, now_ms: int) -> None:
            for partition, result in results.items():
                assert partition not in self.found, "reported twice"
                self.found[partition] = now_ms - 1_000, result

        return self.committed.find(partitions, self.simulation.now_ms + timeout_ms, found)

    @property
    def asked(self) -> list[list[int]]:
        requests = self.simulation.requests(OffsetFetchRequest)
        return [list(topic.partition_indexes) for each in requests for topic in each.groups[0].topics]


@pytest.mark.parametrize("groups", [[], [OffsetFetchResponse.OffsetFetchResponseGroup("g")]])
def test_what_a_response_leaves_out_is_not_taken_for_not_committed(groups: list[Any]) -> None:
    client = Client()
    client.simulation.handlers[OffsetFetchRequest] = lambda request, version: OffsetFetchResponse(groups=groups)
    client.find(T0)
    client.simulation.run(1_000)
    error = client.found[T0][1]
    assert isinstance(error, RemoteProtocolError)
    assert "the response to OffsetFetch lacks" in str(error)


def test_offsets_are_found_with_their_epochs() -> None:
    client = Client()
    client.find(T0, T2)
    client.simulation.run(100)
    assert {partition: result for partition, (_, result) in client.found.items()} == {T0: SEVEN, T2: None}
    assert client.simulation.requests(OffsetFetchRequest)[0].require_stable
    client.simulation.run(10_000)
    assert client.asked == [[0, 2]]
    assert client.committed.due_ms(client.simulation.now_ms) is None


def test_an_offset_that_a_transaction_may_change_delays_its_partition_alone() -> None:
    client = Client()
    client.codes = {0: [ErrorCode.UNSTABLE_OFFSET_COMMIT] * 3}
    client.find(T0, T1)
    client.simulation.run(2_000)
    assert client.found[T1][0] < 10
    assert 700 <= client.found[T0][0] < 800
    assert client.found[T0][1] == SEVEN
    assert client.asked == [[0, 1], [0], [0], [0]]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_an_error_of_the_coordinator_passes(code: ErrorCode) -> None:
    client = Client()
    client.group_codes = [code, code]
    client.find(T0)
    client.simulation.run(2_000)
    assert client.found[T0][1] == SEVEN
    assert client.asked == [[0], [0], [0]]


def test_an_error_that_no_retry_can_mend_is_reported_at_once() -> None:
    client = Client()
    client.codes = {0: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], 1: [ErrorCode.TOPIC_AUTHORIZATION_FAILED]}
    client.find(T0, T1, T2)
    client.simulation.run(50)
    codes = {partition: getattr(result, "code", result) for partition, (_, result) in client.found.items()}
    assert codes == {
        T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        T1: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        T2: None,
    }


def test_an_error_of_the_group_is_that_of_each_partition() -> None:
    client = Client()
    client.group_codes = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    client.find(T0, T1)
    client.simulation.run(50)
    assert [type(result) for _, result in client.found.values()] == [BrokerError, BrokerError]


def test_a_topic_id_that_is_outdated_is_looked_up_again() -> None:
    client = Client()
    client.router.metadata.wanted = {"t"}
    client.codes = {0: [ErrorCode.UNKNOWN_TOPIC_ID]}
    client.simulation.run(100)
    client.find(T0)
    asked = len(client.simulation.requests(MetadataRequest))
    client.simulation.run(3_000)
    assert client.found[T0][1] == SEVEN
    assert len(client.simulation.requests(MetadataRequest)) == asked + 1


def test_each_look_up_ends_by_its_deadline() -> None:
    client = Client()
    client.silent = True
    client.find(T0, timeout_ms=300)
    client.find(T1, timeout_ms=2_000)
    client.simulation.run(60_000)
    assert {partition: time for partition, (time, _) in client.found.items()} == {T0: 300, T1: 2_000}
    assert all(isinstance(result, RequestTimedOut) for _, result in client.found.values())
    assert "t-1" in str(client.found[T1][1])


def test_a_look_up_that_a_throttling_coordinator_holds_up_says_so() -> None:
    client = Client()
    client.find(T0)
    client.simulation.run(100)
    for link in client.simulation.router._links.all:
        link.throttled(5_000, client.simulation.now_ms)
    client.find(T1, timeout_ms=300)
    client.simulation.run(1_000)
    assert "throttled by node-1:9092 for 5000 ms" in str(client.found[T1][1])


def test_a_look_up_can_be_withdrawn() -> None:
    client = Client()
    client.silent = True
    withdraw = client.find(T0)
    client.simulation.run(50)
    withdraw()
    client.simulation.run(10_000)
    assert client.found == {}
    assert client.committed.due_ms(client.simulation.now_ms) is None


def test_a_look_up_that_is_withdrawn_before_the_coordinator_is_known_is_not_sent() -> None:
    client = Client()
    withdraw = client.find(T0)
    client.simulation.run(1)
    assert client.asked == []
    withdraw()
    client.simulation.run(10_000)
    assert (client.asked, client.found) == ([], {})


def test_the_end_of_the_client_ends_every_look_up() -> None:
    client = Client()
    client.silent = True
    client.find(T0)
    client.simulation.run(50)
    client.find(T1)
    client.simulation.close()
    assert {type(result) for _, result in client.found.values()} == {Closed}
    assert client.found.keys() == {T0, T1}
