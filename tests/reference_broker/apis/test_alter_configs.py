"""AlterConfigs replaces all configurations of a resource; those that the request omits revert to their defaults.

Method: send requests to a broker without sockets; `tests/kafka/test_config_cases.py` compares the answers with Apache
Kafka's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of

Resource = AlterConfigsRequest.AlterConfigsResource
Config = AlterConfigsRequest.AlterableConfig
TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    bench = BrokerBench(tmp_path / "data")
    bench.create("t", retention_ms="1000")
    return bench


def alter(bench, *resources, version=None, validate_only=False):
    asked = [Resource(kind, name, [Config(*each) for each in configs]) for kind, name, configs in resources]
    response = bench.ask(AlterConfigsRequest(asked, validate_only), version)
    return [(each.error_code, each.error_message) for each in response.responses]


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CONFIGS))
def test_every_version(bench: BrokerBench, version: int) -> None:
    assert alter(bench, (TOPIC, "t", [("segment.bytes", "2000000")]), version=version) == [(ErrorCode.NONE, None)]
    assert bench.core.metadata.image.topics["t"].configs == {"segment.bytes": "2000000"}
    bench.crash()
    assert bench.core.metadata.image.topics["t"].configs == {"segment.bytes": "2000000"}


@pytest.mark.parametrize(
    ("kind", "name", "config"),
    [
        (BROKER, "1", "log.retention.ms"),
        (BROKER, "", "log.retention.ms"),
        (GROUP, "g", "consumer.session.timeout.ms"),
    ],
)
def test_what_is_not_named_is_forgotten(bench: BrokerBench, kind: ConfigResourceType, name: str, config: str) -> None:
    assert alter(bench, (kind, name, [(config, "50000")])) == [(ErrorCode.NONE, None)]
    assert bench.core.dynamic_configs.of(kind, name) == {config: "50000"}
    assert alter(bench, (kind, name, [])) == [(ErrorCode.NONE, None)]
    assert bench.core.dynamic_configs.of(kind, name) == {}


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code", "message"),
    [
        (TOPIC, "t", [("a", "1"), ("a", "2")], ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        (TOPIC, "t", [("retention.ms", None)], ErrorCode.INVALID_REQUEST,
         "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("nobody.knows", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nobody.knows"),
        (
            TOPIC,
            "t",
            [("retention.mss", "1")],
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: retention.mss; did you mean retention.ms?",
        ),
        (TOPIC, "absent", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."),
        (BROKER, "1", [("num.partitions", "1")], ErrorCode.INVALID_REQUEST,
         "Cannot update these configs dynamically: [num.partitions]"),
        (ConfigResourceType.BROKER_LOGGER, "1", [("root", "INFO")], ErrorCode.INVALID_REQUEST,
         "Unknown resource type 8"),
    ],
)  # fmt: skip
def test_refused(bench: BrokerBench, kind, name, configs, code, message) -> None:
    assert alter(bench, (kind, name, configs)) == [(code, message)]
    assert bench.core.metadata.image.topics["t"].configs == {"retention.ms": "1000"}


def test_nothing_is_changed_if_only_validated(bench: BrokerBench) -> None:
    change = (TOPIC, "t", [("segment.bytes", "2000000")])
    assert alter(bench, change, validate_only=True) == [(ErrorCode.NONE, None)]
    assert bench.core.metadata.image.topics["t"].configs == {"retention.ms": "1000"}


def test_a_resource_that_is_named_twice(bench: BrokerBench) -> None:
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert alter(bench, (TOPIC, "t", []), (TOPIC, "t", [])) == [twice, twice]
    assert bench.core.metadata.image.topics["t"].configs == {"retention.ms": "1000"}
