"""DescribeConfigs shows the options that a broker has as a member of a cluster, as Apache Kafka 3.9.1 does.

Method: ask the only broker of a cluster, without sockets. `tests/kafka/test_described_configs.py` asks Apache Kafka.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, ZOOKEEPER_BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.member_bench import MemberBench

Entry = DescribeConfigsResponse.DescribeConfigsResourceResult

STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


@pytest.fixture
def bench() -> MemberBench:
    return MemberBench(MemoryDisk())


def described(bench: MemberBench) -> dict[str, Entry]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(ConfigResourceType.BROKER, "1", None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    (result,) = bench.ask(request).results
    return {entry.name: entry for entry in result.configs}


def test_names_and_texts(bench: MemberBench) -> None:
    entries = described(bench)
    assert entries.keys() == BROKER_CONFIGS.keys() | ZOOKEEPER_BROKER_CONFIGS.keys()
    assert all(entry.documentation for entry in entries.values())
    assert all(entries[name].read_only for name in ZOOKEEPER_BROKER_CONFIGS)


@pytest.mark.parametrize(
    ("name", "kind", "synonyms"),
    [
        ("zookeeper.connect", ConfigType.STRING, [("embedded", STATIC)]),
        ("offsets.topic.replication.factor", ConfigType.SHORT, [("1", STATIC), ("3", DEFAULT)]),
        ("zookeeper.session.timeout.ms", ConfigType.INT, [("18000", DEFAULT)]),
        ("controlled.shutdown.retry.backoff.ms", ConfigType.LONG, [("5000", DEFAULT)]),
        ("inter.broker.protocol.version", ConfigType.STRING, [("3.9-IV0", DEFAULT)]),
        ("zookeeper.ssl.keystore.password", ConfigType.PASSWORD, []),
        ("broker.rack", ConfigType.STRING, []),
        ("node.id", ConfigType.INT, [("1", STATIC), ("1", DEFAULT)]),
    ],
)
def test_values(bench: MemberBench, name: str, kind: ConfigType, synonyms: list[tuple[str, ConfigSource]]) -> None:
    entry = described(bench)[name]
    assert (entry.config_type, entry.is_sensitive) == (kind, kind is ConfigType.PASSWORD)
    assert [(each.value, each.source) for each in entry.synonyms] == synonyms
    assert (entry.value, entry.config_source) == (synonyms[0] if synonyms else (None, DEFAULT))


def test_they_cannot_be_changed(bench: MemberBench) -> None:
    config = AlterConfigsRequest.AlterableConfig("zookeeper.connect", "elsewhere")
    resource = AlterConfigsRequest.AlterConfigsResource(ConfigResourceType.BROKER, "1", [config])
    (result,) = bench.ask(AlterConfigsRequest([resource])).responses
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Cannot update these configs dynamically: Set(zookeeper.connect)",
    )


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ConfigResourceType.GROUP, "Unknown resource type 32"),
        (
            ConfigResourceType.CLIENT_METRICS,
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        ),
    ],
    ids=["group", "client metrics"],
)
def test_resources_that_clusters_do_not_have(
    bench: MemberBench, kind: ConfigResourceType, reason: str, validate_only: bool
) -> None:
    config = AlterConfigsRequest.AlterableConfig("interval.ms", "60000")
    resource = AlterConfigsRequest.AlterConfigsResource(kind, "x", [config])
    (result,) = bench.ask(AlterConfigsRequest([resource], validate_only)).responses
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, reason)
