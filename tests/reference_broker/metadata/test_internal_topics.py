"""Internal topics are created as in Kafka, whichever request needs them first.

Method: send requests to a broker without sockets; the expected values are those of Apache Kafka 4.3.0.
"""

import logging

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS, plan_topic
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

OFFSETS, TRANSACTIONS, SHARE = "__consumer_offsets", "__transaction_state", "__share_group_state"

PARTITIONS = {OFFSETS: 3, TRANSACTIONS: 4, SHARE: 50, "other": 2}

CONFIGS = {
    OFFSETS: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "16777216"},
    TRANSACTIONS: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    SHARE: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    },
    "other": {},
}


@pytest.fixture
def bench(tmp_path):
    counts = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 4, "num_partitions": 2}
    return BrokerBench(tmp_path / "data", **counts)


@pytest.mark.parametrize("name", PARTITIONS)
def test_plan(name):
    options = read_options(
        {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 4, "num.partitions": 2}
    )
    assert plan_topic(name, options) == NewTopic(name, PARTITIONS[name], configs=CONFIGS[name])


@pytest.mark.parametrize("name", PARTITIONS)
def test_created_by_metadata(bench, name):
    (topic,) = bench.ask(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)])).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name in INTERNAL_TOPICS)
    made = bench.store.topics[name]
    assert (made.partitions, made.configs) == (PARTITIONS[name], CONFIGS[name])


@pytest.mark.parametrize(("key_type", "name"), [(0, OFFSETS), (1, TRANSACTIONS)])
def test_created_for_a_coordinator(bench, key_type, name):
    bench.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))
    made = bench.store.topics[name]
    assert (made.partitions, made.configs) == (PARTITIONS[name], CONFIGS[name])


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_create_topics_gives_what_the_client_asks_for(bench, name):
    """As in Kafka, users can thus choose other settings."""
    (result,) = bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 7, 1)])).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize(
    ("name", "configs", "warnings"),
    [
        (TRANSACTIONS, {}, ["cleanup.policy=the default instead of compact"]),
        (OFFSETS, {"cleanup_policy": "compact,delete"}, ["cleanup.policy=compact,delete instead of compact"]),
        (SHARE, {"cleanup_policy": "delete"}, ["retention.ms=the default instead of -1"]),
        (TRANSACTIONS, {"cleanup_policy": "compact"}, []),
        ("other", {}, []),
    ],
)
def test_a_topic_that_may_lose_what_is_needed_is_said_at_the_start(bench, caplog, name, configs, warnings):
    bench.create(name, **configs)
    with caplog.at_level(logging.WARNING):
        bench.restart()
    assert [each.getMessage().partition(" and may lose records; ")[0] for each in caplog.records] == [
        f"the topic {name} has {each}" for each in warnings
    ]


@pytest.mark.parametrize(("own", "default", "is_said"), [("compact", "delete", False), ("delete", "compact", True)])
def test_what_a_topic_has_itself_counts_before_the_defaults_of_the_broker(tmp_path, caplog, own, default, is_said):
    bench = BrokerBench(tmp_path / "data", log_cleanup_policy=default)
    bench.create(TRANSACTIONS, cleanup_policy=own)
    with caplog.at_level(logging.WARNING):
        bench.restart()
    assert bool(caplog.records) == is_said


def test_nothing_is_said_of_a_topic_to_which_the_defaults_of_the_broker_give_what_it_needs(tmp_path, caplog):
    bench = BrokerBench(tmp_path / "data", log_cleanup_policy="compact")
    bench.create(TRANSACTIONS)
    with caplog.at_level(logging.WARNING):
        bench.restart()
    assert not caplog.records
