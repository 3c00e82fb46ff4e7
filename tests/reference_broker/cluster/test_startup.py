"""A broker learns its identity and which logs it owns, whatever the registry contains and whichever answer is lost.

Method: fill an embedded registry by hand, with damaged nodes as well; compare nodes and their order with those recorded
from Apache Kafka 3.9.1; inject each fault into each operation in turn.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedSession, Fault, Plan, RegistryCall
from kafkawire.reference_broker.cluster.startup import (
    STRAYS_TOLD_MAX,
    BrokerConfigs,
    ExpectedPartition,
    Prepared,
    StartupSettings,
    prepare,
)
from kafkawire.reference_broker.metadata.image import NO_FEATURES, FinalizedFeatures
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_CONFIG,
    CLUSTER_ID,
    FEATURE,
    TOPIC,
    TOPIC_CONFIG,
    BrokerRegistration,
    ClusterId,
    EntityConfig,
    TopicAssignment,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL, READ_ACL
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    Create,
    Delete,
    GetAcl,
    GetData,
    NodeAcl,
    Operation,
    RegistryCode,
    RegistryError,
    SetData,
)
from kafkawire.sdk.registry.steps import Steps, set_or_create
from kafkawire.sdk.storage.meta_properties import WITH_BROKER_ID, WITH_NODE_ID, MetaProperties
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.cluster.embedded_bench import EmbeddedBench

UUID = bytes(range(16))
CLUSTER = format_uuid(UUID)
ID, OTHER_ID = b"\x01" * 16, b"\x02" * 16
OWN = Endpoint("PLAINTEXT", "host", 9092, 0)
SETTINGS = StartupSettings(1, (OWN,))
KNOWN = MetaProperties(CLUSTER, "1", "directory", WITH_BROKER_ID)

#: The nodes that Apache Kafka 3.9.1 created in an empty ZooKeeper before it registered, in order.
RECORDED = (
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/cluster",
    "/cluster/id",
)


class Bench(EmbeddedBench):
    """A registry with one session."""

    def __init__(self) -> None:
        super().__init__()
        self.one: EmbeddedSession = self.registry([("digest", "broker:secret")])

    def put(self, contents: Mapping[str, bytes]) -> None:
        def steps() -> Steps[None]:
            for path, content in contents.items():
                yield from set_or_create(path, content)

        self.owner.run(self.one, steps())

    def prepare(
        self,
        known: MetaProperties | None = None,
        settings: StartupSettings = SETTINGS,
        folders: Mapping[Partition, bytes | None] | None = None,
    ) -> Prepared:
        return self.owner.run(self.one, prepare(known, settings, folders or {}, lambda: UUID))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def topic(partitions: Mapping[int, tuple[int, ...]], topic_id: bytes | None = ID) -> bytes:
    return TOPIC.encode(TopicAssignment(partitions, topic_id))


def configs(**config: str) -> bytes:
    return TOPIC_CONFIG.encode(EntityConfig(config))


# The broker's identity.


def test_the_first_broker_makes_the_recorded_nodes(bench: Bench) -> None:
    prepared = bench.prepare()
    nodes = sorted(bench.embedded.tree.nodes(), key=lambda node: node.czxid)
    assert tuple(node.path for node in nodes[1:]) == RECORDED
    assert {node.data for node in nodes[1:-1]} == {None}
    assert nodes[-1].data == b'{"version":"1","id":"%s"}' % CLUSTER.encode()
    identity = MetaProperties(CLUSTER, "1", "", WITH_BROKER_ID)
    assert prepared == Prepared(identity, (), {}, BrokerConfigs({}, {}), NO_FEATURES)
    zxid = bench.embedded.tree.zxid
    # A second startup writes nothing.
    assert bench.prepare(KNOWN) == prepared._replace(identity=KNOWN)
    assert bench.embedded.tree.zxid == zxid


@pytest.mark.parametrize("is_secure", [False, True])
def test_access_control_lists(is_secure: bool, bench: Bench) -> None:
    bench.prepare(settings=SETTINGS._replace(is_secure=is_secure))
    lists = {}
    for path in RECORDED:
        outcome = bench.owner.ask(bench.one, GetAcl(path))
        assert isinstance(outcome, NodeAcl)
        lists[path] = len(outcome.acl), outcome.acl == OPEN_ACL
    expected = {path: (len(CREATOR_ACL + READ_ACL), False) if is_secure else (1, True) for path in RECORDED}
    expected["/consumers"] = (1, True)
    if is_secure:
        expected |= dict.fromkeys(("/config/users", "/config/brokers"), (len(CREATOR_ACL), False))
    assert lists == expected


def test_a_node_that_may_not_be_made(bench: Bench) -> None:
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if call.number == 3 else None
    with pytest.raises(RegistryError, match="NO_AUTH: /brokers/ids"):
        bench.prepare()


@pytest.mark.parametrize(
    ("known", "settings", "option", "reason"),
    [
        (KNOWN._replace(cluster_id="other"), SETTINGS, "cluster.id='other'", f"the cluster's id is {CLUSTER}"),
        (KNOWN._replace(version=WITH_NODE_ID), SETTINGS, "node.id='1'", "a broker without ZooKeeper"),
        (
            None,
            SETTINGS._replace(broker_id=1001),
            "broker.id=1001",
            "above reserved.broker.max.id=1000 are generated",
        ),
        (KNOWN._replace(node_id="2"), SETTINGS, "broker.id=1", "broker.id=2, so the data directory belongs to another"),
        (
            None,
            StartupSettings(None, (OWN,), generates_id=False),
            "broker.id.generation.enable='false'",
            "broker.id is not configured",
        ),
        *(
            (KNOWN._replace(node_id=text), settings, "broker.id='", "; expected a number from 0 to 2147483647")
            for text in ("x", "-1", "2147483648", "9" * 5000, "\u0661")
            for settings in (SETTINGS, SETTINGS._replace(broker_id=None))
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() and " " not in value else "",
)
def test_identities_that_are_refused(
    known: MetaProperties | None, settings: StartupSettings, option: str, reason: str, bench: Bench
) -> None:
    bench.put({CLUSTER_ID.path(): CLUSTER_ID.encode(ClusterId(CLUSTER))})
    with pytest.raises(ConfigurationError) as refused:
        bench.prepare(known, settings)
    assert str(refused.value).startswith(option)
    assert reason in str(refused.value)


@pytest.mark.parametrize("stored", ["1", "0", "2147483647"])
@pytest.mark.parametrize("is_configured", [False, True])
def test_the_identity_of_the_directory_stays(stored: str, is_configured: bool, bench: Bench) -> None:
    bench.put({CLUSTER_ID.path(): CLUSTER_ID.encode(ClusterId(CLUSTER))})
    settings = StartupSettings(int(stored) if is_configured else None, (OWN,), generates_id=False)
    known = KNOWN._replace(node_id=stored)
    assert bench.prepare(known, settings).identity == known


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no content"),
        (b"x", "not JSON"),
        (b"{}", "id: is missing"),
        (b'{"id":1}', "id: 1 is not text"),
        (b'{"id":""}', "id: is empty"),
    ],
)
def test_the_id_of_a_cluster_that_cannot_be_read(content: bytes, reason: str, bench: Bench) -> None:
    bench.put({CLUSTER_ID.path(): content})
    with pytest.raises(DamagedZnode, match=f"/cluster/id: .*{reason}"):
        bench.prepare()


def test_another_broker_makes_the_id_of_the_cluster_first(bench: Bench) -> None:
    two = bench.registry()
    content = CLUSTER_ID.encode(ClusterId("first"))

    def race(call: RegistryCall) -> None:
        if (
            isinstance(call.operation, Create)
            and call.operation.path == CLUSTER_ID.path()
            and call.session_id != theirs
        ):
            bench.embedded.plan = None
            bench.embedded.carry_out(theirs, Create("/cluster"))
            bench.embedded.carry_out(theirs, Create(CLUSTER_ID.path(), content))

    bench.owner.run_all()
    theirs = two.session_id
    bench.embedded.plan = race
    assert bench.prepare().identity.cluster_id == "first"


@pytest.mark.parametrize(
    ("path", "settings"),
    [("/cluster/id", SETTINGS), ("/brokers/seqid", SETTINGS._replace(broker_id=None))],
    ids=["cluster", "sequence"],
)
def test_a_node_that_is_deleted_at_each_attempt(path: str, settings: StartupSettings, bench: Bench) -> None:
    two = bench.registry()
    bench.owner.run_all()

    def delete(call: RegistryCall) -> None:
        if isinstance(call.operation, GetData | SetData) and call.operation.path == path:
            bench.embedded.carry_out(two.session_id, Delete(path))

    bench.embedded.plan = delete
    with pytest.raises(
        RegistryError, match=f"NO_NODE: {path}: another program deleted the node during each of 10 attempts"
    ):
        bench.prepare(settings=settings)


def test_ids_are_generated_above_those_that_are_reserved(bench: Bench) -> None:
    settings = StartupSettings(None, (OWN,))
    assert [bench.prepare(settings=settings).identity.node_id for _ in range(3)] == ["1001", "1002", "1003"]
    assert bench.prepare(settings=settings._replace(reserved_id_max=0)).identity.node_id == "4"
    with pytest.raises(ConfigurationError, match="the next generated id would be 2147483648"):
        bench.prepare(settings=settings._replace(reserved_id_max=2**31 - 5))


def test_a_sequence_of_ids_that_was_deleted_begins_again(bench: Bench) -> None:
    two = bench.registry()
    bench.owner.run_all()
    deleted = []

    def delete(call: RegistryCall) -> None:
        if isinstance(call.operation, SetData) and not deleted:
            deleted.append(call)
            bench.embedded.carry_out(two.session_id, Delete(call.operation.path))

    bench.embedded.plan = delete
    assert bench.prepare(settings=StartupSettings(None, (OWN,))).identity.node_id == "1001"


# Endpoints.


def registration(*endpoints: str, protocols: Mapping[str, str] | None = None) -> bytes:
    listeners = {endpoint.partition(":")[0]: "PLAINTEXT" for endpoint in endpoints}
    return BROKER.encode(BrokerRegistration(listener_security_protocol_map=protocols or listeners, endpoints=endpoints))


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({}, None),
        ({"2": registration("PLAINTEXT://host:9093", "OTHER://other:9092")}, None),
        ({"2": registration("OTHER://host:9092")}, "broker 2 already advertises this address"),
        ({"2": registration("A://x:1"), "3": registration("B://y:1", "C://host:9092")}, "broker 3 already advertises"),
        ({"2": b'{"version":1,"host":"host","port":9092,"jmx_port":-1}'}, "broker 2 already advertises this address"),
        # The broker's own registration is from a former process.
        ({"1": registration("PLAINTEXT://host:9092")}, None),
        # Damaged registrations do not prevent a broker from starting.
        ({"2": b"", "x": b"", "-0": b"", "3": registration("nonsense", protocols={"A": "B"})}, None),
    ],
)
def test_endpoints_of_other_brokers(others: Mapping[str, bytes], reason: str | None, bench: Bench) -> None:
    bench.put({f"/brokers/ids/{name}": content for name, content in others.items()})
    if reason is None:
        assert bench.prepare().identity.node_id == "1"
    else:
        with pytest.raises(ConfigurationError, match=rf"advertised\.listeners='host:9092': {reason}"):
            bench.prepare()


def test_an_endpoint_without_a_port_is_compared_with_nothing(bench: Bench) -> None:
    bench.put({"/brokers/ids/2": registration("PLAINTEXT://host:0")})
    assert bench.prepare(settings=StartupSettings(1, (OWN._replace(port=0),))).identity.node_id == "1"


def test_a_broker_that_goes_meanwhile(bench: Bench) -> None:
    bench.put({"/brokers/ids/2": registration("PLAINTEXT://host:9092")})
    refused = RegistryCode.NO_NODE
    bench.embedded.plan = lambda call: refused if call.operation == GetData("/brokers/ids/2") else None
    assert bench.prepare().identity.node_id == "1"


# Configurations and features.


def test_configurations_of_brokers(bench: Bench) -> None:
    bench.put(
        {
            BROKER_CONFIG.path(1): configs(own="1"),
            BROKER_CONFIG.path(2): configs(other="2"),
            BROKER_CONFIG.path(None): configs(all="3"),
        }
    )
    assert bench.prepare().broker_configs == BrokerConfigs({"own": "1"}, {"all": "3"})


@pytest.mark.parametrize("name", ["1", "<default>"])
@pytest.mark.parametrize("content", [b"[]", b'{"version":1,"config":{"a":1}}', b'{"config":[]}'])
def test_configurations_of_brokers_that_cannot_be_read(name: str, content: bytes, bench: Bench) -> None:
    bench.put({f"/config/brokers/{name}": content})
    with pytest.raises(DamagedZnode, match=f"/config/brokers/{name}: "):
        bench.prepare()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"features":{},"version":2,"status":1}', FinalizedFeatures({}, 0)),
        (b'{"features":{"x":{"max_version_level":1}},"version":2,"status":0}', NO_FEATURES),
        (b"damaged", NO_FEATURES),
        (b'{"features":{"x":1},"version":2,"status":1}', NO_FEATURES),
    ],
)
def test_features_of_the_cluster(content: bytes, found: FinalizedFeatures, bench: Bench) -> None:
    bench.put({FEATURE.path(): content})
    assert bench.prepare().features == found


def test_a_feature_that_this_broker_does_not_have(bench: Bench) -> None:
    bench.put({FEATURE.path(): b'{"features":{"x":{"max_version_level":3}},"version":2,"status":1}'})
    with pytest.raises(
        DamagedZnode, match=r"/feature: features\.x: the cluster uses level 3, but this broker does not"
    ):
        bench.prepare()


# What belongs on the disk.


@pytest.mark.parametrize(
    ("nodes", "folder", "topic_id", "reason"),
    [
        ({"t": topic({0: (1,)})}, ("t", 0), ID, None),
        ({"t": topic({0: (2, 1)})}, ("t", 0), ID, None),
        ({}, ("t", 0), ID, "the topic does not exist"),
        ({"t": topic({0: (2,)})}, ("t", 0), ID, "the partition is not assigned to broker 1"),
        ({"t": topic({0: (1,)})}, ("t", 1), ID, "the partition is not assigned to broker 1"),
        ({"t": topic({0: (1,)}, OTHER_ID)}, ("t", 0), ID, f"the topic has {format_uuid(OTHER_ID)}"),
        ({"t": topic({0: (1,)}, None)}, ("t", 0), ID, "the topic has none"),
        ({"t": topic({0: (1,)})}, ("t", 0), None, "its partition.metadata is missing or damaged"),
        ({"t": b"damaged"}, ("t", 0), ID, "the topic cannot be read: /brokers/topics/t: "),
        ({"t": b'{"partitions":{"0":1}}'}, ("t", 0), ID, "the topic cannot be read: /brokers/topics/t: partitions.0"),
        ({}, ("..", 0), ID, "the name is not a valid topic name"),
    ],
)
def test_folders(
    nodes: Mapping[str, bytes], folder: Partition, topic_id: bytes | None, reason: str | None, bench: Bench
) -> None:
    bench.put({f"/brokers/topics/{name}": content for name, content in nodes.items()})
    prepared = bench.prepare(folders={folder: topic_id})
    if reason is None:
        assert prepared.expected == (ExpectedPartition(*folder, ID, {}),)
        assert not prepared.strays
    else:
        assert prepared.expected == ()
        assert list(prepared.strays) == [folder]
        assert reason in prepared.strays[folder]


def test_a_folder_and_its_topic_without_an_id(bench: Bench) -> None:
    bench.put({"/brokers/topics/t": topic({0: (1,)}, None)})
    prepared = bench.prepare(folders={("t", 0): None})
    assert (prepared.expected, prepared.strays) == ((ExpectedPartition("t", 0, ZERO_UUID, {}),), {})


@pytest.mark.parametrize(
    ("refused", "told"), [(TOPIC.path("t"), "/brokers/topics/t"), (TOPIC_CONFIG.path("t"), "/config/topics/t")]
)
def test_a_topic_that_may_not_be_read_is_not_opened(refused: str, told: str, bench: Bench) -> None:
    bench.put({TOPIC.path("t"): topic({0: (1,)}), TOPIC_CONFIG.path("t"): configs()})
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if call.operation == GetData(refused) else None
    strays = bench.prepare(folders={("t", 0): ID}).strays
    assert strays["t", 0].startswith(f"the topic cannot be read: NO_AUTH: {told}")
    bench.embedded.plan = lambda call: RegistryCode.STORAGE_FAILED if call.operation == GetData(refused) else None
    with pytest.raises(RegistryError, match="STORAGE_FAILED"):
        bench.prepare(folders={("t", 0): ID})


def test_configurations_come_with_their_partitions(bench: Bench) -> None:
    bench.put(
        {
            TOPIC.path("a"): topic({0: (1,), 1: (1,)}),
            TOPIC_CONFIG.path("a"): configs(**{"retention.ms": "5"}),
            TOPIC.path("b"): topic({0: (1,)}, OTHER_ID),
            TOPIC.path("c"): topic({0: (1,)}),
            TOPIC_CONFIG.path("c"): b'{"config":{"x":null}}',
        }
    )
    prepared = bench.prepare(folders={("b", 0): OTHER_ID, ("a", 1): ID, ("a", 0): ID, ("c", 0): ID})
    assert prepared.expected == (
        ExpectedPartition("b", 0, OTHER_ID, {}),
        ExpectedPartition("a", 1, ID, {"retention.ms": "5"}),
        ExpectedPartition("a", 0, ID, {"retention.ms": "5"}),
    )
    assert prepared.strays["c", 0].startswith("the topic cannot be read: /config/topics/c: config.x")


def test_thousands_of_folders_are_read_in_flight_and_few_are_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    folders = {(f"t{number}", 0): ID for number in range(1_500)}
    steps = prepare(None, SETTINGS, folders, lambda: UUID)
    operations: list[int] = []

    def counted() -> Steps[Prepared]:
        outcomes = None
        while True:
            try:
                asked = next(steps) if outcomes is None else steps.send(outcomes)
            except StopIteration as end:
                prepared: Prepared = end.value
                return prepared
            operations.append(len(asked))
            outcomes = yield asked

    assert len(bench.owner.run(bench.one, counted()).strays) == 1_500
    assert (max(operations), len(operations)) == (3_000, 10)
    assert caplog.text.count("which is left alone: the topic does not exist") == STRAYS_TOLD_MAX
    assert f"not opening {1_500 - STRAYS_TOLD_MAX} more folders" in caplog.text


# Lost connections.

FOLDERS: Mapping[Partition, bytes | None] = {("t", 0): ID, ("t", 1): ID}
CONTENTS = {
    TOPIC.path("t"): topic({0: (1001,), 1: (2,)}),
    TOPIC_CONFIG.path("t"): configs(x="1"),
    BROKER_CONFIG.path(None): configs(y="2"),
    "/brokers/ids/2": registration("OTHER://other:9092"),
}


def plan_of(number: int, fault: Fault, met: list[Operation]) -> Plan:
    """Return a plan that injects a fault into one operation and records that operation."""

    def plan(call: RegistryCall) -> Fault | None:
        if call.number != number:
            return None
        met.append(call.operation)
        return fault

    return plan


@pytest.mark.parametrize("fault", Fault)
def test_each_operation_meets_each_fault(fault: Fault) -> None:
    settings = SETTINGS._replace(broker_id=1001, generates_id=False)
    bench = Bench()
    bench.put(CONTENTS)
    before = bench.embedded.calls
    whole = bench.prepare(None, settings, FOLDERS)
    operations = bench.embedded.calls - before
    assert (len(whole.expected), list(whole.strays)) == (1, [("t", 1)])
    for number in range(1, operations + 1):
        bench, met = Bench(), list[Operation]()
        bench.put(CONTENTS)
        bench.embedded.plan = plan_of(bench.embedded.calls + number, fault, met)
        if fault in (Fault.EXPIRE_BEFORE, Fault.EXPIRE_AFTER):
            with pytest.raises(RegistryError, match="SESSION_EXPIRED"):
                bench.prepare(None, settings, FOLDERS)
            # The next session starts over.
            bench.owner.run_all()
        assert bench.prepare(None, settings, FOLDERS) == whole
        assert len(met) == 1


def test_a_generated_id_whose_answer_is_lost_is_skipped(bench: Bench) -> None:
    lost = []

    def plan(call: RegistryCall) -> Fault | None:
        if isinstance(call.operation, SetData) and not lost:
            lost.append(call)
            return Fault.LOSE_RESPONSE
        return None

    bench.embedded.plan = plan
    assert bench.prepare(settings=StartupSettings(None, (OWN,))).identity.node_id == "1002"
