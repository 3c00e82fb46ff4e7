"""ElectLeaders answers once the image shows the elected leaders; partitions without one get Kafka's code and text.

Method: call the handlers of the controller's broker, without sockets, change the image, and move the clock.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC_DELETION
from kafkawire.sdk.registry.registry import Create
from tests.reference_broker.apis.controlling_broker import ControllingBroker
from tests.reference_broker.broker_bench import BrokerBench

VERSIONS = APIS[ApiKey.ELECT_LEADERS].versions.numbers()
NEWEST = VERSIONS[-1]
TIMEOUT_MS = 1_000


@pytest.fixture
def broker() -> ControllingBroker:
    """Broker 0, which leads t-0 and t-1 although broker 1 is their preferred leader; t-2 has its preferred leader."""
    broker = ControllingBroker(0, 1)
    broker.cluster.create("t", (1, 0), (1, 0), (0, 1))
    broker.cluster.kill(1)
    broker.cluster.start(1)
    broker.cluster.sync("t")
    broker.show()
    return broker


def request(*numbers: int, topic: str = "t", kind: int = ElectionType.PREFERRED) -> ElectLeadersRequest:
    return ElectLeadersRequest(kind, [ElectLeadersRequest.TopicPartitions(topic, numbers)], TIMEOUT_MS)


def results(response: ElectLeadersResponse) -> dict[tuple[str, int], tuple[int, str | None]]:
    found: list[Any] = [
        (topic.topic, each) for topic in response.replica_election_results for each in topic.partition_result
    ]
    return {(topic, each.partition_id): (each.error_code, each.error_message) for topic, each in found}


NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
DELETED = (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
DONE = (ErrorCode.NONE, None)
LATE = (ErrorCode.REQUEST_TIMED_OUT, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_waits_for_the_image(broker: ControllingBroker, version: int) -> None:
    answer = broker.begin(request(0, 2, 0, 9), version)
    assert isinstance(answer, DelayedOperation)
    assert broker.cluster.state("t").leader == 1
    assert answer.response is None
    broker.show()
    response = broker.read(answer, version)
    assert response.error_code == ErrorCode.NONE
    assert results(response) == {("t", 0): DONE, ("t", 2): NOT_NEEDED, ("t", 9): UNKNOWN}


def test_what_the_image_does_not_show_in_time(broker: ControllingBroker) -> None:
    answer = broker.begin(request(0, 2), NEWEST)
    broker.advance(TIMEOUT_MS - 1)
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    broker.advance(1)
    assert results(broker.read(answer, NEWEST)) == {("t", 0): LATE, ("t", 2): NOT_NEEDED}
    assert broker.cluster.state("t").leader == 1, "the election continues"


def test_a_leader_that_was_shown_counts(broker: ControllingBroker) -> None:
    """The image shows one of the two elected leaders, then a different leader for that partition before the timeout."""
    before = broker.metadata.image.topics["t"]
    answer = broker.begin(request(0, 1), NEWEST)
    shown = before.partitions[0]._replace(leader=1)
    broker.metadata.publish([before._replace(partitions=(shown, *before.partitions[1:]))])
    broker.metadata.publish([before])
    broker.advance(TIMEOUT_MS)
    assert results(broker.read(answer, NEWEST)) == {("t", 0): DONE, ("t", 1): LATE}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_partitions(broker: ControllingBroker, version: int) -> None:
    answer = broker.begin(ElectLeadersRequest(topic_partitions=None), version)
    broker.show()
    assert results(broker.read(answer, version)) == {("t", 0): DONE, ("t", 1): DONE}, (
        "partitions that already have the right leader are left out"
    )
    assert results(broker.ask(ElectLeadersRequest(topic_partitions=None), version)) == {}


def test_nothing_to_elect_is_answered_at_once(broker: ControllingBroker) -> None:
    assert results(broker.ask(request(2, 7), NEWEST)) == {("t", 2): NOT_NEEDED, ("t", 7): UNKNOWN}
    assert results(broker.ask(request(0, topic="none"), NEWEST)) == {("none", 0): UNKNOWN}
    assert results(broker.ask(request(), NEWEST)) == {}


def test_a_topic_that_is_being_deleted(broker: ControllingBroker) -> None:
    broker.cluster.brokers[1].undeletable.update({("t", 0)})  # type: ignore[arg-type]  # it equals a TopicPartition
    broker.cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    broker.cluster.settle()
    assert results(broker.ask(request(0), NEWEST)) == {("t", 0): DELETED}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (ElectionType.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_no_replica_can_lead(broker: ControllingBroker, kind: ElectionType, code: ErrorCode) -> None:
    broker.cluster.create("u", (1,))
    broker.cluster.kill(1)
    ((found, _),) = results(broker.ask(request(0, topic="u", kind=kind), NEWEST)).values()
    assert found == code


def test_a_leader_that_is_not_in_sync(broker: ControllingBroker) -> None:
    broker.cluster.create("u", (1, 0))
    broker.cluster.alter("u", [1])
    broker.cluster.kill(1)
    answer = broker.begin(request(0, topic="u", kind=ElectionType.UNCLEAN), NEWEST)
    broker.show()
    assert results(broker.read(answer, NEWEST)) == {("u", 0): DONE}
    assert broker.cluster.state("u").leader == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_is_not_the_controller(broker: ControllingBroker, version: int) -> None:
    broker.controller.close()
    refused = (ErrorCode.NOT_CONTROLLER, None)
    response = broker.ask(request(0, 9), version)
    assert (response.error_code, results(response)) == (ErrorCode.NONE, {("t", 0): refused, ("t", 9): refused})
    response = broker.ask(ElectLeadersRequest(topic_partitions=None), version)
    assert results(response) == {("t", number): refused for number in range(3)}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_unknown_kind_of_election(broker: ControllingBroker, version: int) -> None:
    response = broker.ask(request(0, kind=7), version)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert results(response) == {("t", 0): (ErrorCode.UNKNOWN_SERVER_ERROR, None)}


ALONE = [
    ((0, 1, 9), "t", {("t", 0): NOT_NEEDED, ("t", 1): NOT_NEEDED, ("t", 9): (UNKNOWN[0], "No such partition as t-9")}),
    ((0,), "gone", {("gone", 0): (UNKNOWN[0], "No such topic as gone")}),
    ((), "t", {}),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ElectionType)
def test_a_standalone_broker_leads_all_its_partitions(version: int, kind: ElectionType) -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t", 2)
    for numbers, topic, expected in ALONE:
        response = bench.ask(request(*numbers, topic=topic, kind=kind if version else 0), version)
        assert not version or response.error_code == ErrorCode.NONE
        assert results(response) == expected
    assert results(bench.ask(ElectLeadersRequest(ElectionType.PREFERRED, None, TIMEOUT_MS), version)) == {}


def test_an_election_that_a_standalone_broker_does_not_know() -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t", 1)
    response = bench.ask(request(0, kind=9), NEWEST)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert results(response) == {("t", 0): (ErrorCode.INVALID_REQUEST, "Unknown election type 9")}
