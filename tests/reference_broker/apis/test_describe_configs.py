"""In every version, DescribeConfigs shows the configurations of topics and the broker, with sources and synonyms.

Method: ask a broker without sockets that has one changed default, and one topic that overrides it.
"""

import logging

import pytest

from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, GROUP_CONFIGS
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of

Resource = DescribeConfigsRequest.DescribeConfigsResource


@pytest.fixture
def bench(tmp_path):
    bench = BrokerBench(tmp_path / "data", **{"log.retention.ms": 5000, "num.partitions": 2})
    bench.create("own", retention_ms="1000")
    bench.create("plain")
    return bench


def ask(bench, kind, name, keys=None, version=None, **fields):
    (result,) = bench.ask(DescribeConfigsRequest([Resource(kind, name, keys)], **fields), version).results
    return result


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
def test_every_version(bench, version):
    result = ask(bench, ConfigResourceType.TOPIC, "own", ["retention.ms"], version, include_synonyms=True)
    assert (result.error_code, result.resource_name) == (ErrorCode.NONE, "own")
    (entry,) = result.configs
    assert (entry.name, entry.value, entry.config_source) == ("retention.ms", "1000", ConfigSource.TOPIC_CONFIG)
    assert entry.config_type == (ConfigType.LONG if version >= 3 else 0)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("retention.ms", "1000", ConfigSource.TOPIC_CONFIG),
        ("log.retention.ms", "5000", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_registry_has_no_client_metrics(bench):
    bench.core.dynamic_configs.is_registry = True
    result = ask(bench, ConfigResourceType.CLIENT_METRICS, "m")
    text = "Config type client-metrics is only supported on KRaft clusters"
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, text)


def test_topic_takes_the_brokers_default(bench):
    result = ask(bench, ConfigResourceType.TOPIC, "plain")
    shown = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert shown["retention.ms"] == ("5000", ConfigSource.STATIC_BROKER_CONFIG)
    assert shown["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT_CONFIG)
    assert not any(entry.synonyms for entry in result.configs)


def test_defaults_have_the_brokers_names(bench):
    result = ask(bench, ConfigResourceType.TOPIC, "plain", include_synonyms=True)
    shown = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs}
    assert shown["segment.bytes"] == [("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG)]
    # By default, Kafka's brokers have no value for the setting in milliseconds.
    assert shown["preallocate"] == [("log.preallocate", "false", ConfigSource.DEFAULT_CONFIG)]
    assert shown["segment.ms"] == []


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ConfigResourceType.TOPIC, "plain"),
        (ConfigResourceType.BROKER, "1"),
        (ConfigResourceType.GROUP, "g"),
        (ConfigResourceType.CLIENT_METRICS, "m"),
    ],
)
def test_documentation(bench, kind, name, wanted):
    result = ask(bench, kind, name, include_documentation=wanted)
    assert all(bool(entry.documentation) is wanted for entry in result.configs)


def test_documentation_is_null_without_it(bench):
    entries = ask(bench, ConfigResourceType.BROKER, "1").configs
    assert {entry.documentation for entry in entries} == {None}


def test_documentation_of_unknown_names_is_null(bench):
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        ConfigResourceType.BROKER,
        "1",
        [IncrementalAlterConfigsRequest.AlterableConfig("of.a.plugin", AlterConfigOperation.SET, "x")],
    )
    bench.ask(IncrementalAlterConfigsRequest([resource]))
    entries = ask(bench, ConfigResourceType.BROKER, "1", include_documentation=True).configs
    assert [entry.name for entry in entries if entry.documentation is None] == ["of.a.plugin"]


def test_broker(bench):
    result = ask(bench, ConfigResourceType.BROKER, "1", include_synonyms=True)
    shown = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert shown["num.partitions"] == ("2", ConfigSource.STATIC_BROKER_CONFIG)
    assert shown["log.retention.ms"] == ("5000", ConfigSource.STATIC_BROKER_CONFIG)
    assert shown["auto.create.topics.enable"] == ("true", ConfigSource.DEFAULT_CONFIG)
    types = {entry.name: entry.config_type for entry in result.configs}
    assert (types["num.partitions"], types["listeners"]) == (ConfigType.INT, ConfigType.LIST)
    assert types["auto.create.topics.enable"] == ConfigType.BOOLEAN
    synonyms = {
        entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs
    }
    assert synonyms["num.partitions"] == [
        ("num.partitions", "2", ConfigSource.STATIC_BROKER_CONFIG),
        ("num.partitions", "1", ConfigSource.DEFAULT_CONFIG),
    ]
    assert synonyms["auto.create.topics.enable"] == [("auto.create.topics.enable", "true", ConfigSource.DEFAULT_CONFIG)]
    assert not ask(bench, ConfigResourceType.BROKER, "").configs
    assert shown.keys() == bench.core.broker_configs.keys.keys() >= BROKER_CONFIGS.keys()
    assert shown["log.dirs"] == (bench.disk.describe(""), ConfigSource.STATIC_BROKER_CONFIG)
    assert shown["default.replication.factor"] == ("1", ConfigSource.DEFAULT_CONFIG)
    read_only = {entry.name: entry.read_only for entry in result.configs}
    assert (read_only["num.partitions"], read_only["log.retention.ms"], read_only["listeners"]) == (True, False, False)
    assert {entry.value for entry in result.configs if entry.is_sensitive} == {None}


@pytest.mark.parametrize("word", ["the default", "another value"])
def test_what_is_given_counts_as_given(tmp_path, word):
    partitions = {"the default": 1, "another value": 2}[word]
    bench = BrokerBench(tmp_path / "given", num_partitions=partitions)
    (entry,) = ask(bench, ConfigResourceType.BROKER, "1", ["num.partitions"]).configs
    assert (entry.value, entry.config_source) == (str(partitions), ConfigSource.STATIC_BROKER_CONFIG)


def test_group_and_client_metrics(bench):
    group = ask(bench, ConfigResourceType.GROUP, "g", include_synonyms=True).configs
    assert {entry.name for entry in group} == GROUP_CONFIGS.keys()
    shown = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in group}
    assert shown["consumer.session.timeout.ms"] == [
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT_CONFIG)
    ]
    assert shown["share.isolation.level"] == [
        ("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT_CONFIG)
    ]
    metrics = ask(bench, ConfigResourceType.CLIENT_METRICS, "m", include_synonyms=True).configs
    assert {entry.name: (entry.value, entry.synonyms) for entry in metrics} == {
        "interval.ms": ("300000", ()),
        "match": ("", ()),
        "metrics": ("", ()),
    }


def test_loggers(bench):
    logging.getLogger("kafkawire.broker")
    entries = {entry.name: entry for entry in ask(bench, ConfigResourceType.BROKER_LOGGER, "1").configs}
    assert {"root", "kafkawire.broker"} <= entries.keys()
    assert {entry.value for entry in entries.values()} <= {"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}
    assert {entry.config_source for entry in entries.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    assert {entry.documentation for entry in entries.values()} == {""}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ConfigResourceType.TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResourceType.TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResourceType.TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(bench, kind, name, code):
    assert ask(bench, kind, name).error_code == code


def test_no_keys_are_all_keys(bench):
    everything = ask(bench, ConfigResourceType.TOPIC, "own").configs
    assert len(ask(bench, ConfigResourceType.TOPIC, "own", []).configs) == len(everything) > 30
    assert not ask(bench, ConfigResourceType.TOPIC, "own", ["none"]).configs


@pytest.mark.parametrize("unknown", [99, 0, -1])
def test_resource_of_an_unknown_type_spoils_the_request(bench, unknown):
    resources = [Resource(unknown, "x", None), Resource(ConfigResourceType.TOPIC, "own", None)]
    results = bench.ask(DescribeConfigsRequest(resources)).results
    assert [(result.resource_type, result.resource_name, result.error_code) for result in results] == [
        (unknown, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.TOPIC, "own", ErrorCode.INVALID_REQUEST),
    ]
    assert all(result.error_message.startswith("This most likely occurs because") for result in results)


def test_the_rates_of_throttled_replication(bench):
    """As in Kafka, these configurations appear only if set, and are marked read-only although they are dynamic."""
    kind, name = ConfigResourceType.BROKER, "follower.replication.throttled.rate"
    Change = IncrementalAlterConfigsRequest.AlterableConfig

    def change(value):
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            kind, "1", [Change(name, AlterConfigOperation.SET, value)]
        )
        (response,) = bench.ask(IncrementalAlterConfigsRequest([resource])).responses
        return response.error_code

    assert not ask(bench, kind, "1", [name]).configs
    assert change("-1") == ErrorCode.INVALID_REQUEST
    assert change("many") == ErrorCode.INVALID_REQUEST
    assert change(" 2000") == ErrorCode.NONE
    (entry,) = ask(bench, kind, "1", [name], include_documentation=True).configs
    assert (entry.value, entry.config_source) == ("2000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert (entry.config_type, entry.read_only, entry.is_sensitive) == (ConfigType.LONG, True, False)
    assert entry.documentation is None
