"""Topic configurations have Kafka's names, are validated, and become the settings of a log.

Method: check tables of values; every default must pass its own check.
"""

import pytest

from kafkawire.reference_broker.config.config_values import InvalidConfig
from kafkawire.reference_broker.config.topic_configs import check_together, check_topic_config, log_config
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigType
from kafkawire.sdk.records.produced import ProduceLimits

INT_MAX, LONG_MAX = 2_147_483_647, 9_223_372_036_854_775_807

#: The minimum and maximum of each numeric configuration, from Apache Kafka's `LogConfig`.
RANGES = {
    "compression.gzip.level": (-1, 9),
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131_072, 22),
    "delete.retention.ms": (0, LONG_MAX),
    "file.delete.delay.ms": (0, LONG_MAX),
    "flush.messages": (1, LONG_MAX),
    "flush.ms": (0, LONG_MAX),
    "index.interval.bytes": (0, INT_MAX),
    "local.retention.bytes": (-2, LONG_MAX),
    "local.retention.ms": (-2, LONG_MAX),
    "max.compaction.lag.ms": (1, LONG_MAX),
    "max.message.bytes": (0, INT_MAX),
    "message.timestamp.after.max.ms": (0, LONG_MAX),
    "message.timestamp.before.max.ms": (0, LONG_MAX),
    "min.compaction.lag.ms": (0, LONG_MAX),
    "min.insync.replicas": (1, INT_MAX),
    "retention.bytes": (-9_223_372_036_854_775_808, LONG_MAX),
    "retention.ms": (-1, LONG_MAX),
    "segment.bytes": (1_048_576, INT_MAX),
    "segment.index.bytes": (4, INT_MAX),
    "segment.jitter.ms": (0, LONG_MAX),
    "segment.ms": (1, LONG_MAX),
}


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_default_is_allowed(name):
    default = TOPIC_CONFIGS[name].default
    assert check_topic_config(name, default) == default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "compact"),
        ("retention.ms", "-1"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.25"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", "*"),
        ("preallocate", "true"),
        ("preallocate", " TRUE "),
        ("retention.ms", " +1000\t"),
        ("retention.bytes", "-3"),
        ("segment.bytes", "٢٣٣٣٣٣٣"),
        ("min.cleanable.dirty.ratio", "0x1p-1"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("leader.replication.throttled.replicas", "0:1,"),
        ("leader.replication.throttled.replicas", " "),
        ("remote.storage.enable", "false"),
        ("cleanup.policy", " compact , delete"),
        ("compression.type", " gzip "),
        ("compression.gzip.level", "1"),
        ("min.cleanable.dirty.ratio", "0"),
        ("min.cleanable.dirty.ratio", "1"),
        ("min.cleanable.dirty.ratio", " .5f "),
    ],
)
def test_allowed(name, value):
    assert check_topic_config(name, value) == value


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("cleanup.policy", "burn", "String must be one of: compact, delete"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "soon", "Not a number of type"),
        ("segment.bytes", "1000", "Value must be at least 1048576"),
        ("min.cleanable.dirty.ratio", "1.001", "1.001 for .* Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-0.001", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("leader.replication.throttled.replicas", "all", "a list of replicas in the following format"),
        ("retention.mss", "1", "did you mean retention.ms"),
        ("something.else.entirely", "1", "Unknown topic config name"),
        ("retention.ms", None, "Null value"),
        ("segment.bytes", "10_000_000", "Not a number of type"),
        ("segment.bytes", "1048576.0", "Not a number of type"),
        ("segment.bytes", "1 048 576", "Not a number of type"),
        ("segment.bytes", "", "Not a number of type"),
        ("retention.ms", "1000!", "Not a number of type"),
        ("retention.ms", "1000\x7f", "Not a number of type"),
        ("min.cleanable.dirty.ratio", "0_0.5", "Not a number of type"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type"),
        ("min.cleanable.dirty.ratio", "0x1", "Not a number of type"),
        ("min.cleanable.dirty.ratio", "0x9p0", "Invalid value 9.0 for .* no more than 1"),
        ("leader.replication.throttled.replicas", "a:b", "a list of replicas in the following format"),
        ("leader.replication.throttled.replicas", "*,*", "a list of replicas in the following format"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
        ("remote.storage.enable", "maybe", "Expected value to be either true or false"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty"),
    ],
)
def test_refused(name, value, match):
    with pytest.raises(InvalidConfig, match=match):
        check_topic_config(name, value)


@pytest.mark.parametrize(("name", "least", "greatest"), [(name, *ends) for name, ends in RANGES.items()])
def test_ends_of_a_range(name, least, greatest):
    for value in (least, greatest):
        assert check_topic_config(name, str(value)) == str(value)
    for value in (least - 1, greatest + 1):
        with pytest.raises(
            InvalidConfig, match=f"Invalid value {value} for configuration {name}: (Value must|Not a number)"
        ):
            check_topic_config(name, str(value))


def test_every_number_has_a_range():
    numbers = {name for name, config in TOPIC_CONFIGS.items() if config.type in (ConfigType.INT, ConfigType.LONG)}
    assert numbers == set(RANGES)


def test_log_config():
    default = log_config({})
    assert (default.segment_bytes, default.index_interval_bytes) == (2**30, 4096)
    assert default.produce_limits == ProduceLimits(1_048_588, False, False, 2**63 - 1, 3_600_000)
    assert (default.is_compacted, default.is_log_append_time) == (False, False)
    changed = log_config({"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact,delete"})
    assert changed.is_compacted
    assert changed.is_log_append_time
    assert (changed.produce_limits.needs_keys, changed.produce_limits.is_append_time) == (True, True)


def test_each_setting_has_the_value_of_its_own_configuration() -> None:
    """Every number is set, each to a value of its own."""
    names = [name for name in RANGES if not name.startswith(("compression.", "local."))]
    values = {name: number for number, name in enumerate(names, 2_000_000)}
    config = log_config({name: str(value) for name, value in values.items()})
    limits = config.produce_limits
    found = {
        "max.message.bytes": limits.max_bytes,
        "message.timestamp.after.max.ms": limits.after_max_ms,
        "message.timestamp.before.max.ms": limits.before_max_ms,
    }
    for name in names:
        if name not in found:
            found[name] = getattr(config, name.replace(".", "_"))
    assert found == values


def test_values_are_taken_as_java_reads_them():
    config = log_config({"segment.bytes": " +2000000 ", "message.timestamp.type": " LogAppendTime ", "flush.ms": "007"})
    assert (config.segment_bytes, config.is_log_append_time, config.flush_ms) == (2_000_000, True, 7)


@pytest.mark.parametrize("code", range(ord(" ") + 1))
def test_control_characters_around_a_value_are_spaces(code):
    value = f"{chr(code)}1000{chr(code)}"
    assert check_topic_config("retention.ms", value) == value
    assert log_config({"retention.ms": value}).retention_ms == 1000


def test_what_upkeep_goes_by():
    default = log_config({})
    assert (default.has_retention, default.retention_ms, default.retention_bytes) == (True, 604_800_000, -1)
    assert (default.file_delete_delay_ms, default.delete_retention_ms) == (60_000, 86_400_000)
    assert (default.min_compaction_lag_ms, default.max_compaction_lag_ms) == (0, 2**63 - 1)
    assert default.min_cleanable_dirty_ratio == 0.5
    assert not log_config({"cleanup.policy": "compact"}).has_retention
    assert not log_config({"cleanup.policy": ""}).has_retention
    assert log_config({"cleanup.policy": "compact , delete"}).has_retention
    assert log_config({"min.cleanable.dirty.ratio": "0x1p-2"}).min_cleanable_dirty_ratio == 0.25


def test_compacted_segments_are_rolled_for_the_compaction_lag():
    lag = {"max.compaction.lag.ms": "1000", "segment.ms": "5000", "segment.jitter.ms": "9000"}
    assert log_config(lag).segment_ms == 5000
    assert log_config({**lag, "cleanup.policy": "compact"}).segment_ms == 1000
    assert log_config(lag).segment_jitter_ms == 5000


def test_jitter_is_less_than_the_age_at_which_a_log_rolls():
    """If the jitter exceeds `max.compaction.lag.ms`, Apache Kafka rolls a compacted log at every batch."""
    configs = {"segment.ms": "1000", "segment.jitter.ms": "900"}
    assert log_config(configs).segment_jitter_ms == 900
    compacted = log_config({**configs, "cleanup.policy": "compact", "max.compaction.lag.ms": "100"})
    assert (compacted.segment_ms, compacted.segment_jitter_ms) == (100, 100)


@pytest.mark.parametrize(
    "configs", [{}, {"min.compaction.lag.ms": "5"}, {"min.compaction.lag.ms": " 5 ", "max.compaction.lag.ms": "+5"}]
)
def test_values_that_go_together(configs):
    check_together(configs)


def test_values_that_contradict_each_other():
    with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms \(5\) > max.compaction.lag.ms \(4\)"):
        check_together({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
