"""Neither damaged nodes nor failed operations end a controller, and others can take over.

Method: let hypothesis damage any node of a cluster, as a whole or in one value of its JSON; then make each operation of
a scenario fail in turn. Requests to brokers are encoded.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.reference_broker.cluster.controller.broker_requests import RETRY_BACKOFF_MS
from kafkawire.reference_broker.cluster.controller.controller import LOOK_AGAIN_DELAY_MS, REELECTION_DELAY_MS
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURE,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    PREFERRED_REPLICA_ELECTION,
    TOPIC,
    TOPIC_CONFIG,
    TOPIC_DELETION,
    TOPICS,
)
from kafkawire.sdk.registry.registry import Create, Operation, RegistryCode, SetData, Transaction
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster, check, scenario
from tests.thorough import IS_SAMPLE

#: The cluster's nodes and their valid content, except for the topic that stays intact.
NODES: dict[str, bytes] = {
    BROKER.path(2): b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":'
    b'["PLAINTEXT://host2:9092"],"jmx_port":-1,"port":9092,"host":"host2","version":5,"timestamp":"1"}',
    BROKER.path(8): b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://a:1"],'
    b'"rack":"r","jmx_port":-1,"port":9,"host":"b","version":5,"timestamp":"1","features":{"f":{"min_version":1,"max_version":2}}}',
    TOPIC.path("t"): b'{"removing_replicas":{},"partitions":{"0":[1,0,2],"1":[2,1]},'
    b'"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","adding_replicas":{},"version":3}',
    TOPIC.path("u"): b'{"removing_replicas":{"0":[1]},"partitions":{"0":[1,0]},'
    b'"topic_id":"AAAAAAAAAAAAAAAAAAAACQ","adding_replicas":{"0":[0]},"version":3}',
    TOPIC.path("v"): b'{"version":1,"partitions":{"0":[1,0]}}',
    PARTITION_STATE.path("t", 0): b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,0,2]}',
    PARTITION_STATE.path("t", 1): b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}',
    TOPIC_CONFIG.path("t"): b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}',
    TOPIC_DELETION.path("t"): b"",
    TOPIC_DELETION.path("no such topic"): b"",
    FEATURE.path(): b'{"features":{"f":1},"version":2,"status":1}',
    f"{ISR_CHANGES.path()}/isr_change_0000000007": b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    f"{LOG_DIR_EVENTS.path()}/log_dir_event_0000000007": b'{"version":1,"broker":1,"event":1}',
    PARTITION_REASSIGNMENTS.path(): b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
    PREFERRED_REPLICA_ELECTION.path(): b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
}

#: JSON values that may replace any other value.
VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        7,
        (1 << 31) - 1,
        1 << 31,
        -(1 << 31),
        1 << 70,
        0.5,
        "",
        "x",
        "\ud800",
        "é/b",
        [],
        [1, 1, 1],
        {},
    ]
)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values in a JSON document."""
    found = [place]
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(inner, (*place, key))
    return found


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    if not place:
        return by
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[place[0]] = replaced(value[place[0]], place[1:], by)
    return copied


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a node, and content to replace its valid content."""
    path = draw(st.sampled_from(sorted(NODES)))
    good = NODES[path]
    if not good or draw(st.booleans()):
        return path, draw(st.one_of(st.binary(max_size=20), st.just(good), st.just(b"[" * 100)))
    content = json.loads(good)
    return path, json.dumps(replaced(content, draw(st.sampled_from(places(content))), draw(VALUES))).encode()


def put(cluster: Cluster, path: str, data: bytes) -> None:
    exists = path in cluster.tree.nodes
    cluster.tree.change(SetData(path, data) if exists else Create(path, data), 0)


def is_in_office(cluster: Cluster) -> bool:
    """Return whether the first controller is still in its first term."""
    controller = cluster.brokers[0].controller
    assert controller is not None
    return controller.is_active and controller.context.epoch == 1


@given(damaged=st.lists(damages(), min_size=1, max_size=3), is_before=st.booleans(), data=st.data())
@settings(max_examples=50 if IS_SAMPLE else 150, deadline=None)
def test_damage(damaged: list[tuple[str, bytes]], is_before: bool, data: st.DataObject) -> None:
    """A cluster is damaged while a controller is in office, and before the next one reads everything."""
    cluster = Cluster(0, 1, 2)
    cluster.create("whole", (0, 1))
    cluster.create("t", (1, 0, 2), (2, 1))
    for path, content in damaged:
        put(cluster, path, content)
        if not is_before:
            cluster.settle()
    cluster.settle()
    cluster.controller.elect_leaders(None, ElectionType.PREFERRED, lambda _: None)
    cluster.controller.elect_leaders(None, ElectionType.UNCLEAN, lambda _: None)
    cluster.controller.alter_reassignments({TopicPartition("t", 0): (2, 0)}, lambda _: None)
    cluster.settle()
    cluster.fire(LOOK_AGAIN_DELAY_MS)
    cluster.create("more", (0, 1))
    assert is_in_office(cluster)
    assert cluster.state("more").leader == 0
    cluster.kill(0)
    active = [each.controller for each in cluster.brokers.values() if each.controller and each.controller.is_active]
    assert [each.context.epoch for each in active] == [2]
    assert cluster.state("whole").leader == 1
    cluster.start(0)
    cluster.create("last", (0, 1))
    assert cluster.state("last").leader == 0
    assert active[0].is_active


def test_text_that_no_request_can_carry() -> None:
    """A rack that contains half of a surrogate pair is sent to the other brokers as Kafka sends it."""
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 0, 2))
    put(cluster, BROKER.path(8), NODES[BROKER.path(8)].replace(b'"rack":"r"', b'"rack":"r\\ud800"'))
    cluster.settle()
    assert is_in_office(cluster)
    assert cluster.controller.context.brokers[8].rack == "r?"


CODES = [RegistryCode.UNEXPECTED, RegistryCode.NO_AUTH, RegistryCode.TOO_MANY_PENDING]


@pytest.mark.parametrize("code", CODES[:1])
def test_an_error_of_any_operation(code: RegistryCode) -> None:
    count = 0
    is_over = False
    while not is_over:
        cluster = Cluster(0, 1, 2)
        left = count

        def error_of(operation: Operation) -> RegistryCode | None:
            nonlocal left
            left -= 1
            return code if left == -1 else None

        cluster.brokers[0].registry.error_of = error_of
        scenario(cluster)
        is_over = left >= 0
        assert is_in_office(cluster), f"the failing operation was number {count}"
        cluster.brokers[0].registry.error_of = lambda _: None
        cluster.fire(LOOK_AGAIN_DELAY_MS)
        cluster.create("more", (0, 1))
        assert cluster.state("more").leader == 0
        cluster.kill(0)
        cluster.start(0)
        cluster.sync("t")
        check(cluster)
        assert TOPIC.path("gone") not in cluster.tree.nodes
        count += 1
    assert count > 50


#: Without these nodes there is no controller.
ESSENTIAL = (CONTROLLER.path(), CONTROLLER_EPOCH.path(), "/brokers/ids", TOPICS.path())


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("path", [*NODES, "/admin/delete_topics", ISR_CHANGES.path(), LOG_DIR_EVENTS.path()])
def test_a_node_that_refuses_everything(path: str, code: RegistryCode) -> None:
    """A controller takes over and stays, although one node cannot be read, written or deleted."""
    assert path not in ESSENTIAL
    cluster = Cluster(0, 1, 2)
    cluster.create("whole", (0, 1))
    cluster.create("t", (1, 0, 2), (2, 1))
    for node, content in NODES.items():
        if node not in (BROKER.path(2), TOPIC_DELETION.path("t")):
            put(cluster, node, content)
    cluster.settle()
    cluster.brokers[1].registry.error_of = lambda operation: (
        code if not isinstance(operation, Transaction) and operation.path == path else None
    )
    cluster.kill(0)
    cluster.start(0)
    for topic in ("more", "last"):
        cluster.create(topic, (0, 1))
        assert cluster.state(topic).leader == 0
        if TOPIC_DELETION.path("t") not in cluster.tree.nodes:
            cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
        cluster.settle()
        cluster.fire(LOOK_AGAIN_DELAY_MS)
        cluster.fire(RETRY_BACKOFF_MS)
        cluster.fire(REELECTION_DELAY_MS)
    controller = cluster.brokers[1].controller
    assert controller is not None
    assert controller.is_active
    assert controller.context.epoch == 2
