"""FindCoordinator names the leader of the partition of a group or transactional id, if clients can reach that broker.

Method: send requests to a broker without sockets, alone or with an image of several brokers.
"""

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.metadata.image import NO_FEATURES, UNKNOWN_PARTITION, PartitionImage, TopicImage
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_STATE_TOPIC, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.several_brokers import BROKERS, INSIDE
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork

VERSIONS = versions_of(ApiKey.FIND_COORDINATOR)


def ask(bench, kind, version):
    if version < 4:
        return bench.ask(FindCoordinatorRequest("g", kind), version)
    (found,) = bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]), version).coordinators
    assert found.key == "g"
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_groups(bench, version):
    found = ask(bench, CoordinatorType.GROUP, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "broker", 9092)
    assert "__consumer_offsets" in bench.store.topics


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_transactions(bench, version):
    found = ask(bench, CoordinatorType.TRANSACTION, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "broker", 9092)
    topic = bench.store.topics["__transaction_state"]
    assert topic.partitions == bench.core.options.transaction_state_log_num_partitions
    assert topic.configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (CoordinatorType.SHARE, 5, ErrorCode.INVALID_REQUEST),
        (CoordinatorType.SHARE, 6, ErrorCode.INVALID_REQUEST),
        (9, 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_nobody(bench, kind, version, code):
    found = ask(bench, kind, version)
    assert (found.error_code, found.node_id, found.port) == (code, -1, -1)


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", True),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAQ:-1", True),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:+3:", True),
        ("", False),
        ("g", False),
        ("g:t:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", False),
        (":AAAAAAAAAAAAAAAAAAAAAQ:0", False),
        (" :AAAAAAAAAAAAAAAAAAAAAQ:0", False),
    ],
)
def test_partitions_of_share_groups(bench, key, is_one):
    """Apache Kafka 4.3.0 accepts the same keys."""
    request = FindCoordinatorRequest(key_type=CoordinatorType.SHARE, coordinator_keys=[key])
    (found,) = bench.ask(request, 6).coordinators
    assert (found.error_code, found.node_id) == ((ErrorCode.NONE, 1) if is_one else (ErrorCode.INVALID_REQUEST, -1))
    assert ("__share_group_state" in bench.store.topics) is is_one


def test_a_cluster_without_share_groups_has_no_share_coordinator(bench):
    bench.core.metadata.publish(features=NO_FEATURES)
    request = FindCoordinatorRequest(key_type=CoordinatorType.SHARE, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    (found,) = bench.ask(request, 6).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("kind", [CoordinatorType.GROUP, CoordinatorType.TRANSACTION])
def test_nobody_coordinates_from_a_log_that_is_offline(bench, kind, version):
    bench.offsets_topic()
    bench.core.topics.ensure(TRANSACTION_STATE_TOPIC, lambda made: None)
    for name in ("__consumer_offsets", "__transaction_state"):
        logs = bench.core.directory.of(name)
        logs[partition_of("g", len(logs))].fail(OSError("broken"))
    found = ask(bench, kind, version)
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


def test_several_keys(bench):
    response = bench.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
    assert [found.key for found in response.coordinators] == ["a", "b"]


def test_response_waits_until_the_offsets_topic_is_created():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    waiting = bench.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    assert isinstance(waiting, DelayedOperation)
    work.run()
    assert waiting.response is not None
    (found,) = bench.through(waiting.response, 6).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", [3, 6])
def test_failing_disk(version):
    bench = BrokerBench(disk := MemoryDisk())
    disk.plan = fail_at(disk.calls + 3)
    found = ask(bench, CoordinatorType.GROUP, version)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert "planned" in found.error_message


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("kind", [CoordinatorType.GROUP, CoordinatorType.TRANSACTION])
@pytest.mark.parametrize("known", range(4))
def test_nobody_coordinates_from_a_partition_that_the_broker_has_not_heard_of(bench, kind, version, known):
    """The number of partitions comes from the topic controller, since the image may lack the last ones."""
    size, partition = 4, PartitionImage(1, 0, (1,), (1,))
    partitions = (*(UNKNOWN_PARTITION,) * known, partition)
    names = ("__consumer_offsets", "__transaction_state")
    bench.core.metadata.publish([TopicImage(name, name.encode()[-16:], partitions, {}) for name in names])
    bench.core.topics.size_of = lambda topic: size
    found = ask(bench, kind, version)
    is_found = partition_of("g", size) == known
    assert (found.error_code, found.node_id) == ((0, 1) if is_found else (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1))


#: The leader of a partition, and its address for clients of the listeners PLAINTEXT and INTERNAL.
LEADERS = [
    (2, ("other", 9092), ("inside2", 9093)),
    (3, None, ("inside3", 9093)),
    (4, None, None),
    (-1, None, None),
]


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("kind", [CoordinatorType.GROUP, CoordinatorType.TRANSACTION])
@pytest.mark.parametrize(("leader", "outside", "inside"), LEADERS)
def test_coordinators_on_other_brokers(bench, kind, version, leader, outside, inside):
    partition = PartitionImage(leader, 0, (2,), (2,))
    names = ("__consumer_offsets", "__transaction_state")
    topics = [TopicImage(name, name.encode()[-16:], (partition,), {}) for name in names]
    bench.core.metadata.publish(topics, brokers=BROKERS)
    for address in (outside, inside):
        found = ask(bench, kind, version)
        if address is None:
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            assert (found.host, found.port) == ("", -1)
        else:
            assert (found.error_code, found.node_id, (found.host, found.port)) == (ErrorCode.NONE, leader, address)
        bench.peer = INSIDE
