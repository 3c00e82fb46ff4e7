"""Topic configurations are known by Kafka's names, checked, and turned into what a log goes by.

Method: tables of values; every default passes its own check.
"""

import pytest

from kafkawire.reference_broker.log.config import TOPIC_CONFIGS, InvalidConfig, check_topic_config, log_config


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_default_is_allowed_and_described(name):
    config = TOPIC_CONFIGS[name]
    assert check_topic_config(name, config.default) == config.default
    assert config.about.endswith(".")


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
    ],
)
def test_allowed(name, value):
    assert check_topic_config(name, value) == value


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("cleanup.policy", "burn", "entries must be one of delete, compact"),
        ("retention.ms", "-2", "must be -1 to"),
        ("retention.ms", "soon", "not a number"),
        ("segment.bytes", "1000", "must be 1048576 to"),
        ("min.cleanable.dirty.ratio", "1.5", "must be 0 to 1"),
        ("min.cleanable.dirty.ratio", "x", "not a number"),
        ("preallocate", "yes", "must be one of true, false"),
        ("leader.replication.throttled.replicas", "all", "partition:broker"),
        ("retention.mss", "1", "did you mean retention.ms"),
        ("something.else.entirely", "1", "Unknown topic config name"),
        ("retention.ms", None, "Null value"),
    ],
)
def test_refused(name, value, match):
    with pytest.raises(InvalidConfig, match=match):
        check_topic_config(name, value)


def test_log_config():
    default = log_config({})
    assert (default.segment_bytes, default.index_interval_bytes, default.max_message_bytes) == (2**30, 4096, 1_048_588)
    assert (default.is_compacted, default.is_log_append_time) == (False, False)
    changed = log_config({"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact,delete"})
    assert changed.is_compacted
    assert changed.is_log_append_time
