"""Options have two names and are checked for type and range; the error for an unknown one names the nearest match.

Method: check tables of inputs and results.
"""

import pytest

from kafkawire.reference_broker.config.options import TOPIC_DEFAULTS, BrokerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("num_partitions", 3, "num_partitions", 3),
        ("num.partitions", "3", "num_partitions", 3),
        ("auto.create.topics.enable", "false", "auto_create_topics", False),
        ("auto_create_topics", False, "auto_create_topics", False),
        ("advertised_host", "example.org", "advertised_host", "example.org"),
        ("log.retention.ms", 1000, "topic_defaults", {"retention.ms": "1000"}),
        ("num.partitions", "+3", "num_partitions", 3),
        ("connections.max.idle.ms", -1, "connections_max_idle_ms", -1),
        ("connections.max.idle.ms", 2**63 - 1, "connections_max_idle_ms", 2**63 - 1),
        ("queued.max.request.bytes", "-1", "memory_of_connections_bytes", 2**63 - 1),
        ("queued.max.request.bytes", 2**40, "memory_of_connections_bytes", 2**40),
        ("log.cleaner.dedupe.buffer.size", 2**20 + 1, "log_cleaner_dedupe_buffer_size", 2**20 + 1),
        ("log.cleaner.backoff.ms", 0, "log_cleaner_backoff_ms", 0),
        ("log.initial.task.delay.ms", 2**40, "log_initial_task_delay_ms", 2**40),
        ("group.consumer.migration.policy", "Upgrade", "group_consumer_migration_policy", "upgrade"),
        ("log.retention.ms", -2, "topic_defaults", {"retention.ms": "-1"}),
        ("log_flush_interval_messages", 1, "topic_defaults", {"flush.messages": "1"}),
        ("message.max.bytes", "2000", "topic_defaults", {"max.message.bytes": "2000"}),
    ],
)
def test_accepted(name, value, attribute, expected):
    options = read_options({name: value})
    assert getattr(options, attribute) == expected
    changed = {name for name, value in vars(options).items() if value != BrokerOptions.OPTIONS[name].default}
    assert len(changed) == (getattr(BrokerOptions(), attribute) != expected)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"num_partition": 3}, "did you mean num_partitions"),
        ({"num.partition": 3}, "did you mean num.partitions"),
        ({"quite_unknown_thing": 3}, "no such option"),
        ({"num_partitions": 0}, "expected 1 to"),
        ({"num_partitions": "many"}, "expected an integer"),
        ({"num_partitions": True}, "expected an integer"),
        ({"auto_create_topics": "perhaps"}, "expected True or False"),
        ({"num_partitions": 1, "num.partitions": 2}, "already given"),
        ({"log_segment_bytes": 2**20, "log.segment.bytes": 2**20}, "log_segment_bytes was already given"),
        ({"log.segment.byte": "20000"}, "did you mean log.segment.bytes"),
        ({"advertised_host": 5}, "expected a string"),
        ({"log.segment.bytes": 10}, "segment.bytes"),
        ({"topic_defaults": {}}, "no such option"),
        ({"num.partitions": "1_0"}, "expected an integer"),
        ({"connections.max.idle.ms": 0}, "expected 1 to 9223372036854775807, or -1"),
        ({"queued.max.request.bytes": 0}, "expected 1 to 9223372036854775807, or -1"),
        ({"log.cleaner.dedupe.buffer.size": 2**20}, "expected 1048577 to"),
        ({"max.connections.per.ip": 0}, "otherwise no client can connect"),
        (
            {"group.consumer.heartbeat.interval.ms": 50_000, "group.consumer.session.timeout.ms": 45_000},
            "less than group_consumer_session_timeout_ms=45000",
        ),
        (
            {"group.consumer.session.timeout.ms": 1_000_000, "group.consumer.max.session.timeout.ms": 60_000},
            "at most group_consumer_max_session_timeout_ms=60000",
        ),
        ({"log_retention_ms": 0}, "expected 1 or more, or -1 for no limit"),
        ({"log.retention.ms": "0"}, "expected 1 or more, or -1 for no limit"),
        ({"log.retention.ms": "long"}, "Not a number of type LONG"),
    ],
)
def test_refused(given, match):
    with pytest.raises(ConfigurationError, match=match):
        read_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"max.connections.per.ip": 0, "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"group.consumer.session.timeout.ms": 90_000, "group.consumer.max.session.timeout.ms": 90_000},
        {"group.consumer.session.timeout.ms": 1_000, "group.consumer.heartbeat.interval.ms": 999},
    ],
)
def test_values_that_go_together(given):
    read_options(given)


@pytest.mark.parametrize(
    ("name", "accepts"),
    [
        ("log_message_timestamp_type", 'Literal["CreateTime", "LogAppendTime"]'),
        ("log_cleanup_policy", 'Literal["compact", "delete", "compact,delete", "delete,compact"]'),
        ("log_retention_ms", "int"),
        ("log_cleaner_min_cleanable_ratio", "float"),
    ],
)
def test_what_defaults_of_topics_accept(name, accepts):
    assert BrokerOptions.OPTIONS[name].accepts == accepts


def test_what_was_given_is_known():
    options = read_options({"num_partitions": 1, "auto.create.topics.enable": False, "log.retention.ms": "5"})
    given = {"num.partitions": "1", "auto.create.topics.enable": "false", "log.retention.ms": "5"}
    assert options.given == given
    changed = options.with_values(num_partitions=2, event_loop="uvloop")
    assert changed.given == given | {"num.partitions": "2"}
    assert (changed.num_partitions, changed.event_loop, options.num_partitions) == (2, "uvloop", 1)
    assert BrokerOptions().given == {}


def test_values_are_changed_for_everybody():
    options = read_options({"num_partitions": 3})
    options.change(num_partitions=4)
    assert (options.num_partitions, options.given) == (4, {"num.partitions": "4"})


def test_tables_name_what_exists():
    assert set(TOPIC_DEFAULTS.values()) <= set(TOPIC_CONFIGS)
