"""Values of topic configurations are accepted, refused and described as they are by Apache Kafka.

Method: send to both brokers a validate-only CreateTopics, with one topic for each value, and DescribeConfigs.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigType
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import call, create

TIMEOUT_SECONDS = 30
VERSION = 7

NUMBERS = [
    "0",
    "1",
    "-1",
    "-2",
    "-3",
    "9",
    "10",
    "17",
    "18",
    "22",
    "23",
    "+5",
    "-0",
    "007",
    " 7\t",
    "\n7",
    "1_0",
    "1.0",
]
LARGE = ["10_000_000", "1048575", "1048576", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"]
ODD = ["", " ", "x", "1.0", "0x10", "1e3", "1L", "NaN", "Infinity", "\u0663", "1 0", "--1", "true", "null"]
RATIOS = ["0", "1", "0.5", ".5", "5e-1", "1.", "1.01", "-0.1", "0.5f", "0.5D", "0_0.5", "0x1p-1", " 0.5 ", "-0", "+1"]
BOOLEANS = ["true", "false", "TRUE", " False ", "yes", "1", ""]
TEXTS = ["producer", " producer ", "Producer", "gzip", " gzip", "CreateTime", "LogAppendTime", "createtime", "none"]
LISTS = [
    "delete",
    "compact",
    "compact,delete",
    " compact , delete ",
    "compact,",
    ",",
    "delete,delete",
    "",
    "compact;delete",
]
REPLICAS = ["*", "", "0:1", "0:1,1:2", " 0:1 , 1:2 ", "0", "0:1,", "*,*", "0:1:2", "a:b"]

VALUES = {
    ConfigType.INT: NUMBERS + LARGE + ODD,
    ConfigType.LONG: NUMBERS + LARGE + ODD,
    ConfigType.DOUBLE: RATIOS + ODD,
    ConfigType.BOOLEAN: BOOLEANS + ODD,
    ConfigType.STRING: TEXTS + ODD,
    ConfigType.LIST: LISTS + REPLICAS + ODD,
}
CASES = [(name, value) for name, config in TOPIC_CONFIGS.items() for value in VALUES[config.type]]


def ask(bootstrap: str, request: Message, version: int) -> Message:
    """Return the response to a request."""
    host, port = bootstrap.rsplit(":", 1)
    with FrameSocket(host, int(port), TIMEOUT_SECONDS) as socket:
        return call(socket, request, version)


def codes(bootstrap: str) -> dict[tuple[str, str], int]:
    """Return the error code for each case."""
    Topic, Config = CreateTopicsRequest.CreatableTopic, CreateTopicsRequest.CreatableTopicConfig
    topics = [Topic(f"t{number}", 1, 1, configs=[Config(*case)]) for number, case in enumerate(CASES)]
    request = CreateTopicsRequest(topics, timeout_ms=30_000, validate_only=True)
    response = ask(bootstrap, request, VERSION)
    assert isinstance(response, CreateTopicsResponse)
    found = {topic.name: topic.error_code for topic in response.topics}
    return {case: found[f"t{number}"] for number, case in enumerate(CASES)}


def test_same_values_are_refused(kafka: ApacheKafka, broker: Broker) -> None:
    theirs, ours = codes(kafka.bootstrap), codes(broker.bootstrap)
    different = {case: (theirs[case], ours[case]) for case in CASES if theirs[case] != ours[case]}
    assert not different, f"(Kafka's code, ours): {different}"
    assert len(set(theirs.values())) > 1


def described(bootstrap: str) -> dict[str, tuple[object, ...]]:
    """Return the description of each configuration of a topic."""
    topic = create(bootstrap, {"segment.ms": "86400000"})
    resource = DescribeConfigsRequest.DescribeConfigsResource(ConfigResourceType.TOPIC, topic, None)
    response = ask(bootstrap, DescribeConfigsRequest([resource], include_synonyms=True), 4)
    assert isinstance(response, DescribeConfigsResponse)
    return {
        each.name: (
            *(each.value, each.config_source, each.config_type, each.read_only, each.is_sensitive),
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in response.results[0].configs
    }


def test_descriptions_are_equal(kafka: ApacheKafka, broker: Broker) -> None:
    theirs, ours = described(kafka.bootstrap), described(broker.bootstrap)
    # Eligible leader replicas, a feature of Kafka's clusters, sets a default for all brokers.
    del theirs["min.insync.replicas"], ours["min.insync.replicas"]
    assert ours == theirs


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_every_configuration_is_tried(name: str) -> None:
    assert any(case[0] == name for case in CASES)
