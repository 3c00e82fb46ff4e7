"""Options are known by both of their names, checked for type and range, and refused with the nearest match.

Method: tables of what is given and what comes out.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.log.config import TOPIC_CONFIGS
from kafkawire.reference_broker.options import KAFKA_NAMES, TOPIC_DEFAULTS, BrokerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("num_partitions", 3, "num_partitions", 3),
        ("num.partitions", "3", "num_partitions", 3),
        ("auto.create.topics.enable", "false", "auto_create_topics", False),
        ("auto_create_topics", False, "auto_create_topics", False),
        ("advertised_host", "example.org", "advertised_host", "example.org"),
        ("log.retention.ms", 1000, "topic_defaults", {"retention.ms": "1000"}),
        ("log_flush_interval_messages", 1, "topic_defaults", {"flush.messages": "1"}),
        ("message.max.bytes", "2000", "topic_defaults", {"max.message.bytes": "2000"}),
    ],
)
def test_accepted(name, value, attribute, expected):
    options = read_options({name: value})
    assert getattr(options, attribute) == expected
    assert dataclasses.replace(options, **{attribute: getattr(BrokerOptions(), attribute)}) == BrokerOptions()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"num_partition": 3}, "did you mean num_partitions"),
        ({"num.partition": 3}, "did you mean num.partitions"),
        ({"quite_unknown_thing": 3}, "no such option"),
        ({"num_partitions": 0}, "expected 1 to"),
        ({"num_partitions": "many"}, "expected an integer"),
        ({"num_partitions": True}, "expected an integer"),
        ({"auto_create_topics": "perhaps"}, "expected true or false"),
        ({"num_partitions": 1, "num.partitions": 2}, "given already"),
        ({"log.segment.bytes": 10}, "segment.bytes"),
        ({"topic_defaults": {}}, "no such option"),
    ],
)
def test_refused(given, match):
    with pytest.raises(ConfigurationError, match=match):
        read_options(given)


def test_tables_name_what_exists():
    assert set(KAFKA_NAMES.values()) <= {field.name for field in dataclasses.fields(BrokerOptions)}
    assert set(TOPIC_DEFAULTS.values()) <= set(TOPIC_CONFIGS)
