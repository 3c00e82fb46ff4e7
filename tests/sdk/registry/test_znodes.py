"""The paths and contents of nodes are the same as Kafka's, byte for byte.

Method: decode, and encode again, each node of a ZooKeeper server that Apache Kafka 3.9.1 and the consumer of 1.1.1
used, each of their writes, and results of Kafka's encoders; try each parameter at its limits, and with invalid values.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.protocol.tables import znodes
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_CONFIG,
    BROKER_IDS,
    CONFIG_CHANGE,
    CONSUMER_OFFSET,
    CONTROLLER,
    PARTITION_STATE,
    TOPIC,
    USER_CLIENT_CONFIG,
    USER_CONFIG,
    ZNODES,
    BrokerRegistration,
    ControllerRegistration,
    EntityConfig,
    PartitionState,
    TopicAssignment,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.znodes import Access, Mode, Znode

KAFKA = json.loads((Path(__file__).parent / "kafka_znodes.json").read_text("utf-8"))

#: Nodes that Kafka creates without content, and fills later.
FILLED_LATER = {"/latest_producer_id_block", "/brokers/ids/0", "/brokers/ids/1"}


def node_of(path: str) -> Znode[Any, *tuple[Any, ...]]:
    found = []
    for node in ZNODES.values():
        try:
            parameters = node.parameters(path)
        except DamagedZnode:
            continue
        assert node.path(*parameters) == path
        found.append(node)
    assert len(found) == 1, (path, found)
    return found[0]


@pytest.mark.parametrize(("path", "content", "is_ephemeral"), KAFKA["tree"], ids=[path for path, *_ in KAFKA["tree"]])
def test_a_node_of_kafka(path: str, content: str, is_ephemeral: bool) -> None:
    node = node_of(path)
    assert node.encode(node.decode(content.encode(), path)) == content.encode()
    assert (node.mode is Mode.EPHEMERAL) == is_ephemeral


def test_the_writes_of_kafka() -> None:
    for path, content in KAFKA["writes"]:
        node = node_of(path)
        if content or path not in FILLED_LATER:
            assert node.encode(node.decode(content.encode(), path)) == content.encode(), path


@pytest.mark.parametrize(("name", "content"), KAFKA["encoded"])
def test_the_encoders_of_kafka(name: str, content: str) -> None:
    node = ZNODES[name]
    assert node.encode(node.decode(content.encode())) == content.encode()


def test_the_order_of_a_mapping_does_not_change_the_bytes() -> None:
    (content,) = (content for name, content in KAFKA["encoded"] if name == "TOPIC" and '"149"' in content)
    assignment = TOPIC.decode(content.encode())
    shuffled = assignment._replace(partitions=dict(sorted(assignment.partitions.items(), reverse=True)))
    assert TOPIC.encode(shuffled) == content.encode()


def test_contents_are_named_tuples() -> None:
    assert CONTROLLER.encode(ControllerRegistration(0, 1795881500368)) == (
        b'{"version":2,"brokerid":0,"timestamp":"1795881500368","kraftControllerEpoch":-1}'
    )
    assert PARTITION_STATE.encode(PartitionState(controller_epoch=1, leader=0, leader_epoch=2, isr=(0, 1))) == (
        b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":2,"isr":[0,1]}'
    )
    topic_id = bytes.fromhex("24f38d9d9ac4414c84b1d1edc29cc7ac")
    assert TOPIC.encode(TopicAssignment({0: (1, 0)}, topic_id, {0: (1,)})) == (
        b'{"partitions":{"0":[1,0]},"topic_id":"JPONnZrEQUyEsdHtwpzHrA","adding_replicas":{"0":[1]},'
        b'"removing_replicas":{},"version":3}'
    )
    assert USER_CONFIG.decode(None) == USER_CONFIG.decode(b"") == EntityConfig()


def test_a_broker_of_version_1_has_only_an_address() -> None:
    content = b'{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
    broker = BROKER.decode(content)
    assert broker == BrokerRegistration(jmx_port=9999, host="localhost", port=9092, timestamp_ms=2233345666, version=1)
    with pytest.raises(EncodeError, match="version: 1 is not a known version; expected 2 to 5"):
        BROKER.encode(broker)


def test_what_a_version_lacks_is_not_dropped() -> None:
    with pytest.raises(EncodeError, match="rack: 'r' cannot be written in version 2, which lacks this field") as caught:
        BROKER.encode(BrokerRegistration(endpoints=("PLAINTEXT://h:1",), rack="r", version=2))
    assert caught.value.path == "rack"


def test_what_a_broker_creates_when_it_starts() -> None:
    made = [node.path() for node in ZNODES.values() if node.is_made_at_startup]
    recorded = [path for path, _ in KAFKA["writes"] if path in made]
    assert made == list(dict.fromkeys(recorded))
    # These nodes come before the first node that Kafka creates for another reason.
    assert [path for path, _ in KAFKA["writes"]][: len(made)] == made


def test_who_may_access_a_node() -> None:
    by_access = {access: [name for name, node in ZNODES.items() if node.access is access] for access in Access}
    assert by_access[Access.OPEN] == ["CONSUMERS"]
    secret = [ZNODES[name].template for name in by_access[Access.SECRET]]
    roots = ("/config/users", "/config/brokers", "/delegation_token/tokens")
    assert secret == [node.template for node in ZNODES.values() if node.template.startswith(roots)]


#: the node, its parameters, and its path
PATHS: list[tuple[Znode[Any, *tuple[Any, ...]], tuple[Any, ...], str]] = [
    (znodes.BROKERS, (), "/brokers"),
    (BROKER, (0,), "/brokers/ids/0"),
    (BROKER, (-(2**31),), "/brokers/ids/-2147483648"),
    (BROKER, (2**31 - 1,), "/brokers/ids/2147483647"),
    (PARTITION_STATE, ("a.b_c-d", 12), "/brokers/topics/a.b_c-d/partitions/12/state"),
    (BROKER_CONFIG, (None,), "/config/brokers/<default>"),
    (BROKER_CONFIG, (3,), "/config/brokers/3"),
    (USER_CONFIG, ("<default>",), "/config/users/%3Cdefault%3E"),
    (USER_CLIENT_CONFIG, ("al ice", None), "/config/users/al%20ice/clients/<default>"),
    (USER_CLIENT_CONFIG, (None, "a/b"), "/config/users/<default>/clients/a%2Fb"),
    (znodes.IP_CONFIG, ("::1",), "/config/ips/%3A%3A1"),
    (CONFIG_CHANGE, (0,), "/config/changes/config_change_0000000000"),
    (CONFIG_CHANGE, (2**31 - 1,), "/config/changes/config_change_2147483647"),
    (CONFIG_CHANGE, (-(2**31),), "/config/changes/config_change_-2147483648"),
    (CONFIG_CHANGE, (-7,), "/config/changes/config_change_-000000007"),
    (znodes.EXTENDED_ACL, ("prefixed", "DelegationToken", "x"), "/kafka-acl-extended/prefixed/DelegationToken/x"),
    (znodes.CONSUMER, ("g", "g_vm-1-ab"), "/consumers/g/ids/g_vm-1-ab"),
    (CONSUMER_OFFSET, ("g", "two", 3), "/consumers/g/offsets/two/3"),
]


@pytest.mark.parametrize(("node", "parameters", "path"), PATHS)
def test_paths(node: Znode[Any, *tuple[Any, ...]], parameters: tuple[Any, ...], path: str) -> None:
    assert node.path(*parameters) == path
    assert node.parameters(path) == parameters


def test_the_name_of_a_child_gives_its_parameter() -> None:
    children = [BROKER.parameters(f"{BROKER_IDS.path()}/{name}")[0] for name in ("0", "10")]
    assert children == [0, 10]


def test_a_sequential_node_is_created_with_its_prefix() -> None:
    assert CONFIG_CHANGE.prefix == "/config/changes/config_change_"
    assert CONFIG_CHANGE.mode is Mode.PERSISTENT_SEQUENTIAL
    assert repr(CONFIG_CHANGE) == "Znode('/config/changes/config_change_{sequence}')"


@pytest.mark.parametrize(
    ("node", "path", "text"),
    [
        (BROKER, "/brokers/ids/x", "/brokers/ids/x: broker_id: 'x' is not an int32"),
        (BROKER, "/brokers/ids/07", "/brokers/ids/07: broker_id: '07' is not an int32"),
        (BROKER, "/brokers/ids/-0", "/brokers/ids/-0: broker_id: '-0' is not an int32"),
        (BROKER, "/brokers/ids/٣", "/brokers/ids/٣: broker_id: '٣' is not an int32"),
        (BROKER, "/brokers/ids/2147483648", "/brokers/ids/2147483648: broker_id: '2147483648' is not an int32"),
        (BROKER, "/brokers/ids/<default>", "/brokers/ids/<default>: broker_id: '<default>' is not an int32"),
        (BROKER, "/brokers/ids", "/brokers/ids: is not a path of the form /brokers/ids/{broker_id}"),
        (BROKER, "/brokers/ids/1/2", "/brokers/ids/1/2: is not a path of the form /brokers/ids/{broker_id}"),
        (TOPIC, "/brokers/topics/", "/brokers/topics/: topic: is empty"),
        (USER_CONFIG, "/config/users/%zz", "/config/users/%zz: user: '%zz' is not a sanitized name: no two hexadecimal "
         "digits follow the percent sign at character 0"),
        (CONFIG_CHANGE, "/config/changes/config_change_1", "/config/changes/config_change_1: sequence: '1' is not the "
         "ten-digit number of a sequential node"),
        (CONFIG_CHANGE, "/config/changes/config_change_9999999999", "/config/changes/config_change_9999999999: "
         "sequence: '9999999999' is not the ten-digit number of a sequential node"),
    ],
)  # fmt: skip
def test_a_path_of_another_kind(node: Znode[Any, *tuple[Any, ...]], path: str, text: str) -> None:
    with pytest.raises(DamagedZnode, match=f"^{re.escape(text)}$") as caught:
        node.parameters(path)
    assert caught.value.path == path
    assert isinstance(caught.value, KafkaWireError)


WRONG: list[tuple[Znode[Any, *tuple[Any, ...]], Any, str]] = [
    (BROKER, "1", "broker_id: '1' is not an int32"),
    (BROKER, True, "broker_id: True is not an int32"),
    (BROKER, None, "broker_id: None is not an int32"),
    (BROKER, 2**31, "broker_id: 2147483648 is not an int32"),
    (CONFIG_CHANGE, -(2**31) - 1, "sequence: -2147483649 is not an int32"),
    (TOPIC, 1, "topic: 1 is not text"),
    (TOPIC, None, "topic: None is not text"),
    (TOPIC, "", "topic: '' cannot be a name in ZooKeeper"),
    (TOPIC, ".", "topic: '.' cannot be a name in ZooKeeper"),
    (TOPIC, "..", "topic: '..' cannot be a name in ZooKeeper"),
    (TOPIC, "a/b", "topic: 'a/b' cannot be a name in ZooKeeper"),
    (TOPIC, "a\x00", r"topic: 'a\x00' cannot be a name in ZooKeeper"),
    (TOPIC, "\x85", r"topic: '\x85' cannot be a name in ZooKeeper"),
    (TOPIC, "\ud800", r"topic: '\ud800' cannot be a name in ZooKeeper"),
    (TOPIC, "\uffff", r"topic: '\uffff' cannot be a name in ZooKeeper"),
    (USER_CONFIG, "..", "user: '..' cannot be a name in ZooKeeper"),
    (USER_CONFIG, "\udc00", r"user: '\udc00' has an unpaired surrogate"),
]


@pytest.mark.parametrize(("node", "parameter", "text"), WRONG)
def test_a_parameter_that_cannot_be_in_a_path(node: Znode[Any, *tuple[Any, ...]], parameter: Any, text: str) -> None:
    with pytest.raises(EncodeError, match=f"^{re.escape(text)}$"):
        node.path(parameter)


def test_the_number_of_parameters() -> None:
    node: Any = PARTITION_STATE
    with pytest.raises(TypeError, match=r"/partitions/\{partition\}/state takes 2 parameters, got 1"):
        node.path("two")


#: Characters that a name may contain; a sanitized parameter may contain any.
NAMES = st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=("C",), exclude_characters="./"), min_size=1)
ENTITIES = st.none() | st.text(min_size=1).filter(lambda name: name not in (".", ".."))


@given(NAMES, st.integers(-(2**31), 2**31 - 1), ENTITIES, ENTITIES)
def test_any_parameters_come_back(topic: str, number: int, user: str | None, client_id: str | None) -> None:
    assert PARTITION_STATE.parameters(PARTITION_STATE.path(topic, number)) == (topic, number)
    assert CONFIG_CHANGE.parameters(CONFIG_CHANGE.path(number)) == (number,)
    assert USER_CLIENT_CONFIG.parameters(USER_CLIENT_CONFIG.path(user, client_id)) == (user, client_id)
