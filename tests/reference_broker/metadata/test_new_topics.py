"""Requests to create topics are checked; `apis/test_create_topics.py` covers every form of request."""

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.new_topics import NewTopic, check_characters, plan_configs, plan_partitions
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

OPTIONS = read_options({"num_partitions": 4, "node_id": 7})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string"),
        (".", "invalid: '.' is not allowed"),
        ("..", "invalid: '..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a/b", "contains one or more characters other than"),
    ],
)
def test_names_say_what_is_wrong_with_them(name, reason):
    with pytest.raises(BrokerError, match=reason) as raised:
        check_characters(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_count_of_partitions_is_the_clients_the_brokers_or_that_of_the_assignment():
    assert plan_partitions(OPTIONS, NewTopic("t", 3, 1)) == 3
    assert plan_partitions(OPTIONS, NewTopic("t", -1, -1)) == 4
    assert plan_partitions(OPTIONS, NewTopic("t", -1, -1, [(1, [7]), (0, [7])])) == 2


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, -1, [(0, [7])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, [(0, [7])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, -1, [(1, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, [(0, [8])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be(topic, code):
    with pytest.raises(BrokerError) as raised:
        plan_partitions(OPTIONS, topic)
    assert raised.value.code is code


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"segment.bytes": "many"}, r"segment\.bytes"),
        ({"segment.bytes": "many", "no.such": "1"}, "Unknown topic config name: no.such"),
        ({"retention.mss": "1"}, r"Unknown topic config name: retention\.mss; did you mean retention\.ms\?"),
        (
            {"no.such": "1", "retention.ms": None, "a": None},
            "Null value not supported for topic configs: retention.ms,a",
        ),
    ],
)
def test_configurations_are_checked(configs, reason):
    assert plan_configs(OPTIONS, {"segment.bytes": "2097152"}) == {"segment.bytes": "2097152"}
    with pytest.raises(BrokerError, match=reason) as raised:
        plan_configs(OPTIONS, configs)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
