"""Bad content that other programs write to the registry affects nothing but its own node: it is logged once, and
everything else keeps working.

Method: use a cluster of scripted brokers, with a topic `whole` that stays untouched. Write hostile content to a node,
both while a controller is in office and before the next one reads everything; let time pass; then let a leader fail,
and create topics. Finally, start a real broker without sockets, the only one of its cluster, on a registry with all of
this content.
"""

from __future__ import annotations

import json

import pytest

from kafkawire.reference_broker.cluster.controller.broker_requests import RETRY_BACKOFF_MS
from kafkawire.reference_broker.cluster.controller.controller import LOOK_AGAIN_DELAY_MS, REELECTION_DELAY_MS
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_SEQUENCE,
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
)
from kafkawire.sdk.registry.registry import Create, Created, Delete, Outcome, RegistryCode, SetData
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster
from tests.reference_broker.member_bench import MemberBench
from tests.reference_broker.storage.produced_batches import produced

#: A topic id that no other topic has.
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAmQ"

REASSIGN, ELECT = PARTITION_REASSIGNMENTS.path(), PREFERRED_REPLICA_ELECTION.path()
ISR_CHANGE, LOG_DIR_EVENT = f"{ISR_CHANGES.path()}/isr_change_0000000001", f"{LOG_DIR_EVENTS.path()}/log_dir_event_0"

TOPIC_CONTENT = {
    "removing_replicas": {},
    "partitions": {"0": [0, 1]},
    "topic_id": TOPIC_ID,
    "adding_replicas": {},
    "version": 3,
}
STATE = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0, 1]}
REGISTRATION = {
    "features": {},
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "endpoints": ["PLAINTEXT://h:1"],
    "jmx_port": -1,
    "port": 1,
    "host": "h",
    "version": 5,
    "timestamp": "1",
}


def topic(**changed: object) -> bytes:
    return json.dumps({**TOPIC_CONTENT, **changed}).encode()


def state(**changed: object) -> bytes:
    return json.dumps({**STATE, **changed}).encode()


def registration(**changed: object) -> bytes:
    return json.dumps({**REGISTRATION, **changed}).encode()


def order(*partitions: object) -> bytes:
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def moved(topic_name: str, number: int, *replicas: int) -> dict[str, object]:
    return {"topic": topic_name, "partition": number, "replicas": replicas}


def put(cluster: Cluster, path: str, data: bytes) -> None:
    """Have another program write a node."""
    cluster.tree.change(SetData(path, data) if path in cluster.tree.nodes else Create(path, data), 0)
    cluster.settle()


def pass_time(cluster: Cluster) -> None:
    """Let enough time pass for everything to be retried many times."""
    for _ in range(10):
        for delay_ms in (LOOK_AGAIN_DELAY_MS, REELECTION_DELAY_MS, RETRY_BACKOFF_MS):
            cluster.fire(delay_ms)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings and errors logged since the last call."""
    found = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    caplog.clear()
    return found


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with the topics `whole` and `t`, whose controller is broker 0."""
    cluster = Cluster(0, 1, 2)
    cluster.create("whole", (0, 1))
    cluster.create("t", (0, 1))
    return cluster


def goes_on(cluster: Cluster) -> None:
    """Assert that the controller stays in office, and that the next one finds leaders for all intact partitions."""
    active = [each for each in cluster.brokers.values() if each.controller and each.controller.is_active]
    assert [each.broker_id for each in active] == [0]
    assert cluster.controller.context.epoch == 1, "the controller was elected again"
    cluster.create("more", (0, 1))
    assert cluster.state("more").leader == 0
    cluster.kill(0)
    pass_time(cluster)
    assert cluster.controller.context.epoch == 2
    assert [cluster.state(name).leader for name in ("whole", "more")] == [1, 1]
    cluster.create("last", (2, 1))
    assert cluster.state("last").leader == 2


#: Topics that no broker could host: path, content, and the text that is logged.
TOPICS = [
    ("x", b"", "/brokers/topics/x: has no content"),
    ("x", b"{", "/brokers/topics/x: not JSON"),
    ("x", b"\xff\xfe", "/brokers/topics/x: not UTF-8"),
    ("x", b"[" * 100_000, "/brokers/topics/x: "),
    ("x", topic(partitions=[[0]]), "/brokers/topics/x: partitions: "),
    ("x", topic(partitions={"0": 7}), "/brokers/topics/x: partitions.0: "),
    ("x", topic(partitions={"2147483648": [0]}), "/brokers/topics/x: partitions.2147483648: "),
    ("x", topic(partitions={"0": [0], "-1": [0, 1]}), "/brokers/topics/x: partitions.-1: the partition number"),
    ("x", topic(topic_id="!"), "/brokers/topics/x: topic_id: "),
    ("n" * 300, topic(), f"/brokers/topics/{'n' * 300}: Topic name is invalid: the length"),
    ("a b", topic(), "/brokers/topics/a b: Topic name is invalid: 'a b' contains"),
    ("é", topic(), "/brokers/topics/é: Topic name is invalid: 'é' contains"),
    (":", topic(), "/brokers/topics/:: Topic name is invalid: ':' contains"),
]


@pytest.mark.parametrize(("name", "content", "said"), TOPICS, ids=range(len(TOPICS)))
def test_topics_that_cannot_be_hosted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, name: str, content: bytes, said: str
) -> None:
    put(cluster, TOPIC.path(name), content)
    pass_time(cluster)
    (line,) = lines(caplog)
    assert said in line
    assert f"ignoring topic {name}" in line
    goes_on(cluster)
    (line,) = lines(caplog)
    assert said in line
    assert TOPIC.path(name) in cluster.tree.nodes, "a node of the topic was deleted"
    assert not cluster.tree.children(TOPIC.path(name)), "something was stored for the topic"


@pytest.mark.parametrize(
    ("partitions", "leaders"),
    [
        ({}, {}),
        ({"0": []}, {}),
        ({"0": [77, 78]}, {}),
        ({"0": [-1, 0]}, {0: 0}),
        ({"0": [0, 0, 1]}, {0: 0}),
        ({"0": [77, 1]}, {0: 1}),
        ({"5": [0, 1], "2147483647": [1, 0]}, {5: 0, 2147483647: 1}),
    ],
    ids=["no partition", "no replica", "unknown", "negative", "twice", "one unknown", "gaps"],
)
def test_odd_assignments(cluster: Cluster, partitions: dict[str, list[int]], leaders: dict[int, int]) -> None:
    """Each partition is led by an existing replica."""
    put(cluster, TOPIC.path("x"), topic(partitions=partitions))
    stored = {number: cluster.state("x", number) for number in leaders}
    assert {number: each.leader for number, each in stored.items()} == leaders
    assert all(each.isr.count(broker_id) == 1 and broker_id >= 0 for each in stored.values() for broker_id in each.isr)
    assert len(cluster.tree.children("/brokers/topics/x/partitions") if leaders else ()) == len(leaders)
    goes_on(cluster)


def test_an_id_of_another_topic(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    put(cluster, TOPIC.path("x"), topic())
    put(cluster, TOPIC.path("y"), topic())
    pass_time(cluster)
    (line,) = lines(caplog)
    assert line.startswith("ignoring topic y, since its id ")
    assert cluster.state("x").leader == 0
    goes_on(cluster)


REGISTRATIONS = [
    ("7", b"", "/brokers/ids/7: has no content"),
    ("7", b"\xff", "/brokers/ids/7: not UTF-8"),
    ("7", registration(endpoints=["nonsense"]), "/brokers/ids/7: endpoints: 'nonsense' is not of the form"),
    (
        "7",
        registration(endpoints=["PLAINTEXT://h:70000"]),
        "/brokers/ids/7: endpoints: the port in 'PLAINTEXT://h:70000' must",
    ),
    ("7", registration(endpoints=["PLAINTEXT://a:1", "PLAINTEXT://b:2"]), "/brokers/ids/7: endpoints: several"),
    ("7", registration(listener_security_protocol_map={"PLAINTEXT": "X"}), "/brokers/ids/7: endpoints: 'PLAINTEXT://"),
    ("-1", registration(), "/brokers/ids/-1: broker_id: the broker id must be 0 or higher, got -1"),
    ("01", registration(), "/brokers/ids/01: broker_id: '01' is not an int32"),
    ("9999999999", registration(), "/brokers/ids/9999999999: broker_id: "),
    ("x", registration(), "/brokers/ids/x: broker_id: "),
]


@pytest.mark.parametrize(("name", "content", "said"), REGISTRATIONS, ids=range(len(REGISTRATIONS)))
def test_registrations(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, name: str, content: bytes, said: str
) -> None:
    put(cluster, f"/brokers/ids/{name}", content)
    pass_time(cluster)
    cluster.kill(2)
    cluster.start(2)
    assert sorted(cluster.controller.context.brokers) == [0, 1, 2]
    (line,) = lines(caplog)
    assert line.startswith(f"ignoring a registration: {said}"), (
        "the error is logged once, however often brokers come and go"
    )
    goes_on(cluster)


def test_a_registration_that_changes_is_told_again(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    put(cluster, BROKER.path(7), b"{")
    put(cluster, BROKER.path(7), b"[]")
    put(cluster, BROKER.path(7), b"[]")
    assert [line.split(": ")[1] for line in lines(caplog)] == ["/brokers/ids/7"] * 2
    cluster.tree.change(Delete(BROKER.path(7)), 0)
    cluster.settle()
    put(cluster, BROKER.path(7), b"[]")
    assert len(lines(caplog)) == 1
    put(cluster, BROKER.path(7), registration())
    put(cluster, BROKER.path(7), b"[]")
    assert any("/brokers/ids/7: " in line for line in lines(caplog)), "the node was intact in between"


def test_a_broker_that_cannot_be_reached_is_told_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    put(cluster, BROKER.path(7), registration())
    pass_time(cluster)
    (line,) = lines(caplog)
    assert line == "repeating a request to broker 7 until it is answered: broker 7 is gone"
    goes_on(cluster)


STATES = [
    (b"!", "/brokers/topics/t/partitions/0/state: not JSON"),
    (state(isr="x"), "/brokers/topics/t/partitions/0/state: isr: "),
    (state(leader_recovery_state=9), "/brokers/topics/t/partitions/0/state: leader_recovery_state: "),
    (state(isr=[]), "no leader was elected for t-0: Failed to elect leader for partition t-0"),
    (state(isr=[7, 8], leader=7), "no leader was elected for t-0: Failed to elect leader for partition t-0"),
    (
        state(controller_epoch=99),
        "the leader of t-0 was written by a controller with epoch 99; this controller has epoch 2",
    ),
    (state(leader_epoch=2**31 - 1), "no leader was elected for t-0: leader_epoch: 2147483648 is not an int32"),
]


@pytest.mark.parametrize(("content", "said"), STATES, ids=range(len(STATES)))
def test_states_of_partitions(cluster: Cluster, caplog: pytest.LogCaptureFixture, content: bytes, said: str) -> None:
    """An unusable state leaves its partition without a leader, and is not overwritten."""
    put(cluster, PARTITION_STATE.path("t", 0), content)
    pass_time(cluster)
    assert lines(caplog) == [], "no broker has to read the node"
    goes_on(cluster)
    found = lines(caplog)
    assert any(said in line for line in found)
    assert len(found) <= 3
    assert cluster.tree.nodes[PARTITION_STATE.path("t", 0)].data == content


@pytest.mark.parametrize(
    "content",
    [state(isr=[0, 0, 1, 1]), state(leader=7, isr=[1]), state(leader=-1, isr=[1])],
    ids=["twice", "a leader outside", "no leader"],
)
def test_states_that_an_election_mends(cluster: Cluster, content: bytes) -> None:
    put(cluster, PARTITION_STATE.path("t", 0), content)
    goes_on(cluster)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1,))


ORDERS = [
    (REASSIGN, b"!", "the requested reassignments cannot be read: /admin/reassign_partitions: not JSON"),
    (REASSIGN, b"", "the requested reassignments cannot be read: /admin/reassign_partitions: has no content"),
    (REASSIGN, b"\xff", "the requested reassignments cannot be read: /admin/reassign_partitions: not UTF-8"),
    (REASSIGN, order(moved("t", 0, 0, 0)), "/admin/reassign_partitions: refusing to reassign t-0: Duplicate"),
    (REASSIGN, order(moved("t", 0, -1)), "/admin/reassign_partitions: refusing to reassign t-0: Invalid"),
    (REASSIGN, order(moved("t", 0)), "/admin/reassign_partitions: refusing to reassign t-0: Empty"),
    (REASSIGN, order(moved("z", 0, 1)), "/admin/reassign_partitions: refusing to reassign z-0: The part"),
    (REASSIGN, order(moved("t", -1, 1)), "/admin/reassign_partitions: refusing to reassign t--1: The part"),
    (ELECT, b"[]", "the list of partitions cannot be read: /admin/preferred_replica_election: [] is not an object"),
    (ELECT, order(moved("z", 0)), "/admin/preferred_replica_election: could not elect the preferred leaders of 1"),
    (
        ELECT,
        order(moved("t", -4), moved("z", 1)),
        "/admin/preferred_replica_election: could not elect the preferred leaders of 2",
    ),
    (ISR_CHANGE, b"\xff", f"ignoring the announcement of a changed ISR: {ISR_CHANGE}: not UTF-8"),
    (f"{ISR_CHANGES.path()}/other", b"x", "ignoring the announcement of a changed ISR: /isr_change_notification/oth"),
    (LOG_DIR_EVENT, b"\xff", f"ignoring the announcement of a failed log directory: {LOG_DIR_EVENT}: not UTF-8"),
    (TOPIC_DELETION.path("z"), b"x", "cannot delete topics that do not exist: ['z']"),
]


@pytest.mark.parametrize(("path", "content", "said"), ORDERS, ids=range(len(ORDERS)))
def test_orders_and_announcements(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, path: str, content: bytes, said: str
) -> None:
    """Invalid ones are logged once and then removed, since tools wait for their removal."""
    put(cluster, path, content)
    pass_time(cluster)
    (line,) = lines(caplog)
    assert said in line
    assert path not in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (0, 1)}
    goes_on(cluster)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (REASSIGN, order()),
        (ELECT, order()),
        (ELECT, order(moved("t", 0))),
        (ISR_CHANGE, order(moved("z", 7), moved("t", -1))),
        (LOG_DIR_EVENT, b'{"version":1,"broker":-3,"event":1}'),
        (LOG_DIR_EVENT, b'{"version":1,"broker":99,"event":7}'),
    ],
)
def test_orders_of_nothing_are_removed(cluster: Cluster, path: str, content: bytes) -> None:
    put(cluster, path, content)
    assert path not in cluster.tree.nodes
    goes_on(cluster)


def test_the_last_of_several_moves_of_a_partition_counts(cluster: Cluster) -> None:
    """As in Kafka, the last move wins; a cycle of moves ends where it began."""
    put(cluster, REASSIGN, order(moved("t", 0, 1, 2), moved("t", 0, 2, 0), moved("t", 0, 0, 1)))
    assert REASSIGN not in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (0, 1)}
    put(cluster, REASSIGN, order(moved("t", 0, 0, 1), moved("t", 0, 1, 0)))
    assert cluster.assignment("t").partitions == {0: (1, 0)}
    goes_on(cluster)


def test_a_move_to_a_broker_that_does_not_exist_waits(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka, the move waits because the broker may join later. Current replicas stay; clients can cancel it."""
    put(cluster, REASSIGN, order(moved("t", 0, 77)))
    pass_time(cluster)
    assert lines(caplog) == []
    assert REASSIGN in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (77, 0, 1)}
    assert (cluster.state("t").leader, cluster.state("t").isr) == (0, (0, 1))
    goes_on(cluster)
    assert cluster.state("t").leader == 1


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (FEATURE.path(), b"garbage"),
        (TOPIC_CONFIG.path("t"), b"\xff"),
        (TOPIC_CONFIG.path("t"), b'{"version":1,"config":{"unclean.leader.election.enable":"maybe","no.such":"x"}}'),
        (BROKER_SEQUENCE.path(), b"garbage"),
    ],
)
def test_other_nodes(cluster: Cluster, path: str, content: bytes) -> None:
    put(cluster, path, content)
    pass_time(cluster)
    goes_on(cluster)
    assert cluster.tree.nodes[path].data == content


@pytest.mark.parametrize("content", [b"many", b"", b"-7", b"2147483647", b"9999999999", b"\xff"])
def test_an_epoch_that_has_no_next_one(cluster: Cluster, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    """As in Kafka, no controller is elected; brokers keep checking until the epoch is repaired, and log this once."""
    put(cluster, CONTROLLER_EPOCH.path(), content)
    cluster.kill(0)
    pass_time(cluster)
    found = lines(caplog)
    assert len(found) == 2, "each broker logs the error once"
    assert all("/controller_epoch: " in line for line in found)
    assert CONTROLLER.path() not in cluster.tree.nodes
    put(cluster, CONTROLLER_EPOCH.path(), b"8")
    cluster.fire(REELECTION_DELAY_MS)
    assert cluster.controller.context.epoch == 9
    assert cluster.state("whole").leader == 1
    assert lines(caplog) == []
    former = cluster.controller.controller_id
    cluster.kill(3 - former)
    put(cluster, CONTROLLER_EPOCH.path(), content)
    cluster.brokers[former].registry.expire()
    cluster.brokers[former].registry.open()
    pass_time(cluster)
    assert sum("/controller_epoch: " in line for line in lines(caplog)) == 1, "the node was repaired in between"


def test_a_registration_of_a_controller_that_cannot_be_read(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """As long as the session of the program that registered it lasts, no broker can be the controller."""
    put(cluster, CONTROLLER.path(), b"{")
    pass_time(cluster)
    found = lines(caplog)
    assert len(found) == 3, "each broker logs the error once"
    assert all(line.startswith("the controller is unknown: /controller: not JSON") for line in found)
    cluster.tree.change(Delete(CONTROLLER.path()), 0)
    cluster.settle()
    pass_time(cluster)
    assert cluster.controller.context.epoch == 2
    cluster.kill(cluster.controller.controller_id)
    assert cluster.controller.context.epoch == 3


@pytest.fixture(params=["/brokers/topics/t", "/isr_change_notification", "/admin/delete_topics", "/brokers/ids/2"])
def refusing(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """The path of a node that cannot be read."""
    path: str = request.param
    cluster.brokers[1].registry.error_of = lambda operation: (
        RegistryCode.NO_AUTH if getattr(operation, "path", None) == path else None
    )
    return path


def test_a_node_that_cannot_be_read_is_told_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, refusing: str
) -> None:
    cluster.kill(0)
    pass_time(cluster)
    assert [line for line in lines(caplog) if f"{refusing} cannot be read" in line] != []
    pass_time(cluster)
    assert [line for line in lines(caplog) if "cannot be read" in line] == []
    cluster.brokers[1].registry.error_of = lambda operation: None
    pass_time(cluster)
    assert cluster.controller.context.epoch == 2
    cluster.create("more", (1, 2))
    assert cluster.state("more").leader == 1


HOSTILE_NODES: dict[str, bytes] = {
    "/brokers/topics/x": b"{",
    "/brokers/topics/a b": topic(partitions={"0": [1]}),
    "/brokers/topics/negative": topic(partitions={"-1": [1]}),
    "/brokers/topics/large": topic(partitions={"2147483647": [1]}),
    "/brokers/ids/-1": registration(),
    "/brokers/ids/9": b"garbage",
    "/config/topics/t": b"\xff",
    "/config/topics/z": b"[]",
    "/config/brokers/1": b"x",
    "/config/brokers/<default>": b'{"version":1,"config":{"no.such":"1","log.retention.ms":"x"}}',
    "/config/changes/config_change_0000000000": b"junk",
    "/config/changes/config_change_0000000001": b'{"version":2,"entity_path":"topics/t"}',
    "/config/changes/config_change_0000000002": b'{"version":2,"entity_path":"brokers/1"}',
    "/config/changes/config_change_0000000003": b'{"version":2,"entity_path":"brokers/<default>"}',
    "/config/changes/config_change_0000000004": b'{"version":2,"entity_path":"nonsense/../.."}',
    "/config/changes/other": b"junk",
    ISR_CHANGE: b"\xff",
    LOG_DIR_EVENT: b"\xff",
    REASSIGN: b"!",
    ELECT: b"!",
    "/admin/delete_topics/z": b"!",
}

#: What is logged about these nodes.
TOLD = (
    "/brokers/topics/x: ",
    "/brokers/topics/a b: ",
    "/brokers/topics/negative: ",
    "partition 2147483647 of 'large'",
    "/brokers/ids/-1: ",
    "/brokers/ids/9: ",
    "/config/topics/t: ",
    "/config/brokers/1: ",
    "log.retention.ms='x'",
    "/config/changes/config_change_0000000000: ",
    f"{ISR_CHANGE}: ",
    f"{LOG_DIR_EVENT}: ",
    f"{REASSIGN}: ",
    f"{ELECT}: ",
    "cannot delete topics that do not exist: ['z']",
)


def test_a_whole_broker(caplog: pytest.LogCaptureFixture) -> None:
    """The broker serves its topics, and logs a few lines, once each."""
    bench = MemberBench(MemoryDisk())
    bench.create("t")
    retention_ms = bench.core.directory.of("t")[0].config.retention_ms
    other = bench.registry.session(bench.owner.post)
    other.start()
    bench.settle()
    for path, content in HOSTILE_NODES.items():
        outcomes: list[tuple[Outcome, ...]] = []
        other.submit((Create(path, content),), outcomes.append)
        bench.settle()
        if not isinstance(outcomes[0][0], Created):
            other.submit((SetData(path, content),), outcomes.append)
        bench.advance(200)
    for _ in range(30):
        bench.advance(1_000)
    found = lines(caplog)
    assert all(found.count(line) <= 2 for line in found)
    for said in TOLD:
        assert any(said in line for line in found), said
    for _ in range(30):
        bench.advance(1_000)
    assert lines(caplog) == []
    bench.create("u")
    for name in ("t", "u"):
        data = ProduceRequest.PartitionProduceData(0, produced(b"v"))
        topics = [ProduceRequest.TopicProduceData(name, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
        (response,) = bench.ask(request, 9).responses
        assert response.partition_responses[0].error_code == ErrorCode.NONE
    assert sorted(bench.core.metadata.image.topics) == ["t", "u"]
    assert bench.core.directory.of("t")[0].config.retention_ms == retention_ms
