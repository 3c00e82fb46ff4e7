"""Admin requests write the same nodes as Apache Kafka, in the same order.

Method: repeat the changes made to a recorded cluster (a topic with a config, a second partition, a changed config, a
deletion), and compare the writes node by node.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.reference_broker.cluster.controller.topic_changes import (
    add_partitions,
    change_broker_config,
    change_topic_config,
    check_new_topic,
    create_topic,
    mark_for_deletion,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import parse_uuid
from kafkawire.sdk.registry.registry import Create, Delete, RegistryCode, SetData
from kafkawire.sdk.registry.steps import Steps
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster, MemoryRegistry

TOPIC_ID = parse_uuid("JPONnZrEQUyEsdHtwpzHrA")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(0, 1)


def do(cluster: Cluster, steps: Steps[None]) -> None:
    cluster.do(MemoryRegistry(cluster.tree), steps)


def data(cluster: Cluster, path: str) -> str:
    return cluster.tree.nodes[path].data.decode()


def test_a_topic_is_written_as_kafka_writes_it(cluster: Cluster) -> None:
    do(cluster, check_new_topic("cfg"))
    do(cluster, create_topic("cfg", {"retention.ms": "1000"}, {0: (0,)}, TOPIC_ID))
    assert data(cluster, "/config/topics/cfg") == '{"version":1,"config":{"retention.ms":"1000"}}'
    rest = '"topic_id":"JPONnZrEQUyEsdHtwpzHrA","adding_replicas":{},"removing_replicas":{},"version":3}'
    assert data(cluster, "/brokers/topics/cfg") == '{"partitions":{"0":[0]},' + rest
    do(cluster, add_partitions("cfg", {1: (1,)}))
    assert data(cluster, "/brokers/topics/cfg") == '{"partitions":{"0":[0],"1":[1]},' + rest
    assert cluster.state("cfg", 1).leader == 1
    do(cluster, change_topic_config("cfg", lambda before: {**before, "retention.ms": "5000"}))
    assert data(cluster, "/config/topics/cfg") == '{"version":1,"config":{"retention.ms":"5000"}}'
    change = "/config/changes/config_change_0000000000"
    assert data(cluster, change) == '{"version":2,"entity_path":"topics/cfg"}'
    do(cluster, mark_for_deletion("cfg"))
    assert "/brokers/topics/cfg" not in cluster.tree.nodes
    assert "/config/topics/cfg" not in cluster.tree.nodes


def test_the_config_comes_before_the_topic(cluster: Cluster) -> None:
    do(cluster, create_topic("t", {}, {0: (0,)}, TOPIC_ID))
    assert cluster.tree.nodes["/config/topics/t"].zxid < cluster.tree.nodes["/brokers/topics/t"].zxid


def test_configs_of_brokers_are_announced(cluster: Cluster) -> None:
    do(cluster, change_broker_config(None, lambda before: {"log.retention.ms": "1"}))
    do(cluster, change_broker_config(1, lambda before: {}))
    announced = [data(cluster, f"/config/changes/config_change_000000000{number}") for number in (0, 1)]
    assert announced == [
        '{"version":2,"entity_path":"brokers/<default>"}',
        '{"version":2,"entity_path":"brokers/1"}',
    ]


def test_a_configuration_is_stored_before_it_is_announced(cluster: Cluster) -> None:
    """Brokers read the configuration only once, when they are notified."""
    cluster.create("t", (1,))
    do(cluster, change_topic_config("t", lambda before: {"retention.ms": "1"}))
    do(cluster, change_broker_config(1, lambda before: {"log.retention.ms": "1"}))
    for number, path in enumerate(("/config/topics/t", "/config/brokers/1")):
        announcement = cluster.tree.nodes[f"/config/changes/config_change_000000000{number}"]
        assert 0 < cluster.tree.nodes[path].zxid < announcement.zxid


def _without_controller(cluster: Cluster) -> None:
    cluster.tree.loop.clear()
    cluster.tree.watches.clear()
    cluster.tree.change(Delete("/controller"), 0)


def _in_kraft(cluster: Cluster) -> None:
    content = b'{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":3}'
    cluster.tree.change(SetData("/controller", content), 0)


REFUSED: list[tuple[Callable[[], Steps[None]], ErrorCode, Callable[[Cluster], None] | None]] = [
    (lambda: check_new_topic("a.b"), ErrorCode.TOPIC_ALREADY_EXISTS, None),
    (lambda: check_new_topic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
    (lambda: check_new_topic("marked"), ErrorCode.TOPIC_ALREADY_EXISTS, None),
    (lambda: create_topic("a.b", {}, {0: (1,)}, TOPIC_ID), ErrorCode.TOPIC_ALREADY_EXISTS, None),
    (lambda: create_topic("t", {}, {0: (1,)}, TOPIC_ID), ErrorCode.NOT_CONTROLLER, _without_controller),
    (lambda: create_topic("t", {}, {0: (1,)}, TOPIC_ID), ErrorCode.NOT_CONTROLLER, _in_kraft),
    (lambda: add_partitions("none", {1: (1,)}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    (lambda: add_partitions("a.b", {0: (1,)}), ErrorCode.INVALID_PARTITIONS, None),
    (lambda: mark_for_deletion("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    (lambda: change_topic_config("none", lambda before: before), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
]


@pytest.mark.parametrize(("steps", "code", "prepare"), REFUSED)
def test_refused(
    cluster: Cluster, steps: Callable[[], Steps[None]], code: ErrorCode, prepare: Callable[[Cluster], None] | None
) -> None:
    cluster.create("a.b", (0,))
    cluster.create("marked", (7,))
    cluster.tree.change(Create("/admin/delete_topics/marked"), 0)
    if prepare is not None:
        prepare(cluster)
    with pytest.raises(Refused) as caught:
        do(cluster, steps())
    assert caught.value.refusal.error_code is code


@pytest.mark.parametrize("is_own", [True, False])
def test_added_partitions_whose_outcome_was_lost(cluster: Cluster, is_own: bool) -> None:
    """The write took effect and was resent, or another program wrote the topic in the meantime."""
    cluster.create("t", (0,))
    registry = MemoryRegistry(cluster.tree)

    def lose(operation: object) -> RegistryCode | None:
        if not isinstance(operation, SetData):
            return None
        data = operation.data if is_own else cluster.tree.nodes["/brokers/topics/t"].data
        cluster.tree.change(SetData(operation.path, data), 0)
        return RegistryCode.BAD_VERSION

    registry.error_of = lose
    if is_own:
        cluster.do(registry, add_partitions("t", {1: (0,)}))
        assert cluster.state("t", 1).leader == 0
    else:
        with pytest.raises(Refused):
            cluster.do(registry, add_partitions("t", {1: (0,)}))
