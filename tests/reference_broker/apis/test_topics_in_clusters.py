"""In a cluster, CreateTopics, CreatePartitions and DeleteTopics take effect through the registry and the controller.

Method: call the handlers of the controller's broker, without sockets, and update the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.apis.controlling_broker import ControllingBroker
from tests.reference_broker.apis.topic_cases import CREATIONS, DELETIONS, EXISTING, NAMED_TWICE, Deletion
from tests.reference_broker.broker_bench import versions_of

Creatable = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment
Growing = CreatePartitionsRequest.CreatePartitionsTopic
NewAssignment = CreatePartitionsRequest.CreatePartitionsAssignment

TIMEOUT_MS = 1_000

#: The newest versions.
CREATE, GROW, DELETE = (
    versions_of(key)[-1] for key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)
)


@pytest.fixture
def broker() -> ControllingBroker:
    return ControllingBroker(0, 1, 2)


def assigned(*replicas: Sequence[int]) -> list[Assignment]:
    return [Assignment(number, each) for number, each in enumerate(replicas)]


def _results_of(request: Message) -> str:
    """Return the name of the field that holds a request's results."""
    if isinstance(request, CreateTopicsRequest):
        return "topics"
    return "responses" if isinstance(request, DeleteTopicsRequest) else "results"


def outcome(broker: ControllingBroker, request: Message, version: int) -> Any:
    """Return the result for the only topic in a request, once the image shows all changes."""
    answer = broker.begin(request, version)
    broker.show()
    (result,) = getattr(broker.read(answer, version), _results_of(request))
    return result


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
def test_a_topic_is_there_when_the_image_shows_it(broker: ControllingBroker, version: int) -> None:
    answer = broker.begin(CreateTopicsRequest([Creatable("t", 3, -1)], TIMEOUT_MS), version)
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    assert broker.cluster.assignment("t").partitions == {0: (0, 1), 1: (1, 2), 2: (2, 0)}, "the default is two replicas"
    broker.show()
    (result,) = broker.read(answer, version).topics
    assert (result.name, result.error_code) == ("t", ErrorCode.NONE)
    if version == CREATE:
        assert (result.num_partitions, result.replication_factor) == (3, 2)
        assert result.topic_id == broker.cluster.assignment("t").topic_id


#: Refused topics, each with the error code.
REFUSED = [
    (Creatable("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
    (Creatable("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (Creatable("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    (Creatable("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (Creatable("t", 1, -1, assigned([0])), ErrorCode.INVALID_REQUEST),
    (Creatable("t", -1, -1, assigned([0, 0])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Creatable("t", -1, -1, assigned([0], [0, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Creatable("t", -1, -1, [Assignment(1, [0])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Creatable("present", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
]


@pytest.mark.parametrize(("topic", "code"), REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_topics_that_are_refused(
    broker: ControllingBroker, topic: Creatable, code: ErrorCode, validate_only: bool
) -> None:
    broker.cluster.create("present", (0,))
    broker.show()
    result = outcome(broker, CreateTopicsRequest([topic], TIMEOUT_MS, validate_only), CREATE)
    assert (result.error_code, bool(result.error_message)) == (code, True)
    assert TOPIC.path("t") not in broker.cluster.tree.nodes


def test_one_of_several_faults() -> None:
    """The answers are those of Apache Kafka 3.9."""
    broker = ControllingBroker(0)
    for name in EXISTING:
        broker.cluster.create(name, (0,))
    broker.show()
    for case in CREATIONS:
        result = outcome(broker, CreateTopicsRequest([case.topic], TIMEOUT_MS, True), CREATE)
        assert (result.error_code, result.error_message) == case.zookeeper, case.name
    names, expected, _ = NAMED_TWICE
    answer = broker.ask(CreateTopicsRequest([Creatable(name, 1, 1) for name in names], TIMEOUT_MS), CREATE)
    assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == expected


def test_a_topic_without_replicas_is_stored_but_never_has_a_leader(broker: ControllingBroker) -> None:
    request = CreateTopicsRequest([Creatable("t", -1, -1, assigned([], []))], TIMEOUT_MS)
    answer = broker.begin(request, CREATE)
    broker.show()
    broker.advance(TIMEOUT_MS)
    (result,) = broker.read(answer, CREATE).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert broker.cluster.assignment("t").partitions == {0: (), 1: ()}
    assert "t" not in broker.metadata.image.topics
    assert outcome(broker, CreateTopicsRequest([Creatable("t", 1, 1)], TIMEOUT_MS), CREATE).error_code == (
        ErrorCode.TOPIC_ALREADY_EXISTS
    )
    assert outcome(broker, CreateTopicsRequest([Creatable("u", 1, 1)], TIMEOUT_MS), CREATE).error_code == ErrorCode.NONE


def test_chosen_replicas(broker: ControllingBroker) -> None:
    topic = Creatable("t", -1, -1, assigned([2, 0], [1, 2]))
    assert outcome(broker, CreateTopicsRequest([topic], TIMEOUT_MS, True), CREATE).error_code == ErrorCode.NONE
    assert TOPIC.path("t") not in broker.cluster.tree.nodes
    assert outcome(broker, CreateTopicsRequest([topic], TIMEOUT_MS), CREATE).error_code == ErrorCode.NONE
    assert broker.cluster.assignment("t").partitions == {0: (2, 0), 1: (1, 2)}


def test_what_the_image_does_not_show_in_time_goes_on(broker: ControllingBroker) -> None:
    answer = broker.begin(CreateTopicsRequest([Creatable("t", 1, 1)], TIMEOUT_MS), CREATE)
    broker.advance(TIMEOUT_MS)
    (result,) = broker.read(answer, CREATE).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    broker.show()
    assert "t" in broker.metadata.image.topics


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_PARTITIONS))
def test_partitions_are_added(broker: ControllingBroker, version: int) -> None:
    broker.cluster.create("t", (0, 1))
    broker.show()
    request = CreatePartitionsRequest([Growing("t", 3, None)], TIMEOUT_MS)
    assert outcome(broker, request, version).error_code == ErrorCode.NONE
    assert {len(each) for each in broker.cluster.assignment("t").partitions.values()} == {2}
    chosen = CreatePartitionsRequest([Growing("t", 4, [NewAssignment([2, 1])])], TIMEOUT_MS)
    assert outcome(broker, chosen, version).error_code == ErrorCode.NONE
    assert broker.cluster.assignment("t").partitions[3] == (2, 1)


#: Refused increases, each with the error code.
REFUSED_GROWTH = [
    (Growing("none", 2, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (Growing("t", 1, None), ErrorCode.INVALID_PARTITIONS),
    (Growing("t", 0, None), ErrorCode.INVALID_PARTITIONS),
    (Growing("t", 3, [NewAssignment([0, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Growing("t", 2, [NewAssignment([0])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Growing("t", 2, [NewAssignment([0, 0])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Growing("t", 2, [NewAssignment([0, 9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (Growing("moved", 2, None), ErrorCode.REASSIGNMENT_IN_PROGRESS),
]


@pytest.mark.parametrize(("topic", "code"), REFUSED_GROWTH)
@pytest.mark.parametrize("validate_only", [False, True])
def test_increases_that_are_refused(
    broker: ControllingBroker, topic: Growing, code: ErrorCode, validate_only: bool
) -> None:
    broker.cluster.create("t", (0, 1))
    broker.cluster.create("moved", (0,))
    broker.controller.alter_reassignments({TopicPartition("moved", 0): (1,)}, lambda _: None)
    broker.cluster.settle()
    broker.show()
    assert outcome(broker, CreatePartitionsRequest([topic], TIMEOUT_MS, validate_only), GROW).error_code == code
    assert len(broker.cluster.assignment("t").partitions) == 1


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_a_topic_is_deleted(broker: ControllingBroker, version: int) -> None:
    broker.cluster.create("t", (0, 1))
    broker.show()
    assert outcome(broker, deletion("t", version), version).error_code == ErrorCode.NONE
    assert TOPIC.path("t") not in broker.cluster.tree.nodes
    assert outcome(broker, deletion("t", version), version).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("case", DELETIONS, ids=lambda case: case.name)
def test_each_entry_of_a_deletion_is_answered(broker: ControllingBroker, case: Deletion) -> None:
    """The answers are those of Apache Kafka 3.9."""
    broker.cluster.create("t", (0, 1))
    broker.show()
    topic_id = broker.cluster.assignment("t").topic_id or ZERO_UUID
    answer = broker.begin(case.request("t", topic_id), DELETE)
    if case.timeout_ms:
        broker.show()
    else:
        broker.advance(0)
    results = broker.read(answer, DELETE).responses
    found = [(each.name, each.topic_id, each.error_code, each.error_message) for each in results]
    assert found == case.expected("t", topic_id)


def deletion(name: str, version: int) -> DeleteTopicsRequest:
    state = DeleteTopicsRequest.DeleteTopicState(name)
    if version == DELETE:
        return DeleteTopicsRequest([state], timeout_ms=TIMEOUT_MS)
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_a_cluster_that_deletes_no_topics(version: int) -> None:
    broker = ControllingBroker(0, deletes_topics=False)
    broker.cluster.create("t", (0,))
    broker.show()
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert outcome(broker, deletion("t", version), version).error_code == code
    assert TOPIC.path("t") in broker.cluster.tree.nodes


REQUESTS = [
    (CreateTopicsRequest([Creatable("t", 1, 1)], TIMEOUT_MS), CREATE),
    (CreatePartitionsRequest([Growing("t", 2, None)], TIMEOUT_MS), GROW),
    (deletion("t", DELETE), DELETE),
]


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_a_broker_that_is_not_the_controller(broker: ControllingBroker, request_: Message, version: int) -> None:
    broker.controller.close()
    result = outcome(broker, request_, version)
    assert (result.name, result.error_code) == ("t", ErrorCode.NOT_CONTROLLER)


def test_clients_that_give_no_time(broker: ControllingBroker) -> None:
    """librdkafka's default timeout is zero, and it then treats REQUEST_TIMED_OUT as success."""
    late = ErrorCode.REQUEST_TIMED_OUT
    assert soon(broker, CreateTopicsRequest([Creatable("t", 1, 1)], 0), CREATE) == late
    assert broker.cluster.assignment("t").partitions == {0: (0,)}
    assert soon(broker, CreateTopicsRequest([Creatable("u", 1, 9)], 0), CREATE) == ErrorCode.INVALID_REPLICATION_FACTOR
    odd = CreateTopicsRequest.CreatableTopicConfig("retention.ms", "odd")
    assert soon(broker, CreateTopicsRequest([Creatable("u", 1, 1, [], [odd])], 0), CREATE) == ErrorCode.INVALID_CONFIG
    strange = CreateTopicsRequest.CreatableReplicaAssignment(0, [0, 0])
    request = CreateTopicsRequest([Creatable("u", -1, -1, [strange])], 0)
    assert soon(broker, request, CREATE) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert soon(broker, CreatePartitionsRequest([Growing("t", 2, None)], 0), GROW) == late
    assert len(broker.cluster.assignment("t").partitions) == 2
    request = deletion("t", DELETE)
    request.timeout_ms = 0
    assert soon(broker, request, DELETE) == late
    assert TOPIC.path("t") not in broker.cluster.tree.nodes


def soon(broker: ControllingBroker, request: Message, version: int) -> int:
    """Return the code for the only topic of a request that is answered immediately, and then update the image."""
    answer = broker.begin(request, version, settles=False)
    broker.advance(0)
    broker.cluster.settle()
    broker.advance(0)
    (result,) = getattr(broker.read(answer, version), _results_of(request))
    broker.show()
    code: int = result.error_code
    return code


def test_validation_takes_no_time(broker: ControllingBroker) -> None:
    broker.cluster.create("t", (0,))
    broker.show()
    requests: list[tuple[Message, int]] = [
        (CreateTopicsRequest([Creatable("u", 1, 1)], 0, True), CREATE),
        (CreatePartitionsRequest([Growing("t", 2, None)], 0, True), GROW),
    ]
    for request, version in requests:
        assert soon(broker, request, version) == ErrorCode.NONE
    assert TOPIC.path("u") not in broker.cluster.tree.nodes
    assert len(broker.cluster.assignment("t").partitions) == 1
