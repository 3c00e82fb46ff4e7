"""IncrementalAlterConfigs changes individual configurations; the changes take effect and survive restarts and crashes.

Method: check a table of answers that Apache Kafka also gives (`config_cases.py`); change each kind of resource on a
broker without sockets, with restarts and crashes after each change, and with a disk that fails.
"""

from __future__ import annotations

import errno
import logging
from functools import partial
from pathlib import Path

import pytest

from kafkawire.reference_broker.security.quotas.connection_rates import check_listener_limits
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ConfigSource
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.config_cases import CASES, TOPIC, Case, Operation

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Config = IncrementalAlterConfigsRequest.AlterableConfig

SET, DELETE, APPEND = AlterConfigOperation.SET, AlterConfigOperation.DELETE, AlterConfigOperation.APPEND


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    bench = BrokerBench(tmp_path / "data")
    bench.create("t")
    return bench


def alter(bench, *resources, version=None, validate_only=False):
    """Request changes, each given as (kind, name, operations), and return (code, message) for each."""
    asked = [Resource(kind, name, [Config(*each) for each in operations]) for kind, name, operations in resources]
    response = bench.ask(IncrementalAlterConfigsRequest(asked, validate_only), version)
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [
        (kind, name) for kind, name, _ in resources
    ]
    return [(each.error_code, each.error_message) for each in response.responses]


def described(bench, kind, name, config):
    """Return a configuration's value and source, or (None, None) if it is not shown."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, [config])
    (result,) = bench.ask(DescribeConfigsRequest([resource])).results
    return next(((entry.value, entry.config_source) for entry in result.configs), (None, None))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_answers_of_the_table(bench: BrokerBench, case: Case) -> None:
    name = "t" if case.name == TOPIC else case.name
    bench.core.options.change(group_consumer_max_assignment_interval_ms=15_000)
    bench.core.check_listeners = partial(check_listener_limits, ["PLAINTEXT"])
    assert alter(bench, (case.kind, name, case.operations), validate_only=True) == [(case.code, case.message)]


@pytest.mark.parametrize("version", versions_of(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_every_version(bench: BrokerBench, version: int) -> None:
    change = (ConfigResourceType.TOPIC, "t", [("retention.ms", SET, "1000")])
    assert alter(bench, change, version=version) == [(ErrorCode.NONE, None)]
    assert described(bench, ConfigResourceType.TOPIC, "t", "retention.ms") == ("1000", ConfigSource.TOPIC_CONFIG)


def test_nothing_is_changed_if_only_validated(bench: BrokerBench) -> None:
    for kind, name, config, value in CHANGES:
        before = described(bench, kind, name, config)
        assert alter(bench, (kind, name, [(config, SET, value)]), validate_only=True) == [(ErrorCode.NONE, None)]
        assert described(bench, kind, name, config) == before


#: The kind and name of a resource, a configuration, and a value.
CHANGES = [
    (ConfigResourceType.TOPIC, "t", "retention.ms", "1000"),
    (ConfigResourceType.BROKER, "1", "log.retention.ms", "2000"),
    (ConfigResourceType.GROUP, "a/b%2F=c", "consumer.session.timeout.ms", "50000"),
    (ConfigResourceType.CLIENT_METRICS, "m", "interval.ms", "1000"),
    (ConfigResourceType.BROKER, "1", "listener.name.plaintext.ssl.keystore.type", "PEM"),
]


@pytest.mark.parametrize("again", [BrokerBench.restart, BrokerBench.crash])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_survive(bench: BrokerBench, change: tuple[ConfigResourceType, str, str, str], again) -> None:
    kind, name, config, value = change
    assert alter(bench, (kind, name, [(config, SET, value)])) == [(ErrorCode.NONE, None)]
    changed = described(bench, kind, name, config)
    assert changed[0] == value
    again(bench)
    assert described(bench, kind, name, config) == changed
    assert alter(bench, (kind, name, [(config, DELETE, None)])) == [(ErrorCode.NONE, None)]
    again(bench)
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, [config])
    found = bench.ask(DescribeConfigsRequest([resource])).results[0].configs
    assert all(entry.value != value for entry in found)


def test_a_topic_goes_by_a_change_at_once(bench: BrokerBench) -> None:
    alter(bench, (ConfigResourceType.TOPIC, "t", [("retention.ms", SET, "1000")]))
    (log,) = bench.core.directory.of("t").values()
    assert log.config.retention_ms == 1000
    alter(bench, (ConfigResourceType.TOPIC, "t", [("cleanup.policy", APPEND, "compact")]))
    assert (log.config.is_compacted, log.config.has_retention, log.config.retention_ms) == (True, True, 1000)


@pytest.mark.parametrize("name", ["1", ""])
def test_a_broker_goes_by_a_change_at_once_and_after_a_restart(bench: BrokerBench, name: str) -> None:
    change = [
        ("log.retention.ms", SET, "3000"),
        ("log.cleaner.backoff.ms", SET, "7"),
        ("producer.id.expiration.ms", SET, "9"),
        ("group.consumer.assignment.interval.ms", SET, "11"),
        ("max.connections", SET, "13"),
    ]
    assert alter(bench, (ConfigResourceType.BROKER, name, change)) == [(ErrorCode.NONE, None)]
    for _ in range(2):
        core = bench.core
        assert core.directory.of("t")[0].config.retention_ms == 3000
        options = core.options
        assert (options.log_cleaner_backoff_ms, options.producer_id_expiration_ms, options.max_connections) == (
            7,
            9,
            13,
        )
        assert options.group_consumer_assignment_interval_ms == 11
        bench.restart()
    change = [(config, DELETE, None) for config, _, _ in change]
    assert alter(bench, (ConfigResourceType.BROKER, name, change)) == [(ErrorCode.NONE, None)]
    assert bench.core.directory.of("t")[0].config.retention_ms == 7 * 24 * 3600 * 1000
    assert bench.core.options.producer_id_expiration_ms == 86_400_000


def test_what_is_for_one_broker_counts_before_what_is_for_all(bench: BrokerBench) -> None:
    for name, value in (("", "2000"), ("1", "1000")):
        alter(bench, (ConfigResourceType.BROKER, name, [("log.retention.ms", SET, value)]))
    assert described(bench, ConfigResourceType.TOPIC, "t", "retention.ms") == (
        "1000",
        ConfigSource.DYNAMIC_BROKER_CONFIG,
    )
    assert bench.core.options.topic_defaults["retention.ms"] == "1000"
    alter(bench, (ConfigResourceType.BROKER, "1", [("log.retention.ms", DELETE, None)]))
    assert described(bench, ConfigResourceType.BROKER, "", "log.retention.ms") == (
        "2000",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert bench.core.options.topic_defaults["retention.ms"] == "2000"


def test_a_group_goes_by_a_change_at_once(bench: BrokerBench) -> None:
    bench.offsets_topic()
    change = [("consumer.heartbeat.interval.ms", SET, "7000"), ("consumer.session.timeout.ms", SET, "60000")]
    assert alter(bench, (ConfigResourceType.GROUP, "g", change)) == [(ErrorCode.NONE, None)]
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    epochs = {}
    for group_id, interval_ms in (("g", 7_000), ("h", 5_000)):
        told = bench.ask(ConsumerGroupHeartbeatRequest(group_id, "m", **joining), 1)
        assert (told.error_code, told.heartbeat_interval_ms) == (ErrorCode.NONE, interval_ms)
        epochs[group_id] = told.member_epoch
    bench.advance(45_001)
    heard = {
        group_id: bench.ask(ConsumerGroupHeartbeatRequest(group_id, "m", epoch), 1).error_code
        for group_id, epoch in epochs.items()
    }
    assert heard == {"g": ErrorCode.NONE, "h": ErrorCode.UNKNOWN_MEMBER_ID}


def test_each_resource_has_an_answer_of_its_own(bench: BrokerBench) -> None:
    found = alter(
        bench,
        (ConfigResourceType.TOPIC, "t", [("retention.ms", SET, "5")]),
        (ConfigResourceType.BROKER, "1", [("num.partitions", SET, "5")]),
        (ConfigResourceType.GROUP, "g", [("nobody.knows", SET, "5")]),
        (ConfigResourceType.TOPIC, "absent", []),
    )
    assert [code for code, _ in found] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_resource_that_is_named_twice(bench: BrokerBench) -> None:
    change = (ConfigResourceType.TOPIC, "t", [("retention.ms", SET, "5")])
    other = (ConfigResourceType.GROUP, "t", [("consumer.session.timeout.ms", SET, "50000")])
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert alter(bench, change, other, change) == [twice, (ErrorCode.NONE, None), twice]
    assert "retention.ms" not in bench.core.metadata.image.topics["t"].configs
    assert alter(bench) == []


def test_levels_of_loggers(bench: BrokerBench) -> None:
    logger = logging.getLogger("kafkawire.broker.sample")
    change: list[Operation] = [("kafkawire.broker.sample", SET, "ERROR")]
    assert alter(bench, (ConfigResourceType.BROKER_LOGGER, "1", change), validate_only=True) == [(ErrorCode.NONE, None)]
    assert logger.level == logging.NOTSET
    assert alter(bench, (ConfigResourceType.BROKER_LOGGER, "1", change)) == [(ErrorCode.NONE, None)]
    assert logger.level == logging.ERROR
    assert described(bench, ConfigResourceType.BROKER_LOGGER, "1", "kafkawire.broker.sample")[0] == "ERROR"
    change = [("kafkawire.broker.sample", DELETE, None)]
    assert alter(bench, (ConfigResourceType.BROKER_LOGGER, "1", change)) == [(ErrorCode.NONE, None)]
    assert logger.level == logging.NOTSET


def test_what_the_disk_does_not_take_does_not_count() -> None:
    disk = MemoryDisk(2**24)
    bench = BrokerBench(disk)

    def plan(call: DiskCall) -> None:
        if call.path.startswith("dynamic-configs"):
            raise OSError(errno.EIO, "a planned fault", call.path)

    disk.plan = plan
    change = (ConfigResourceType.GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])
    ((code, _),) = alter(bench, change)
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert described(bench, ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms")[0] == "45000"
