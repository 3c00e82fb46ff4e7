"""Configurations are checked by name, by value, and against each other.

Method: check whole configurations of resources; `config_cases.py` has individual refusals, which match Apache Kafka's.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.config_rules import ConfigRules
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.configs import GROUP_CONFIGS


def rules(**given: object) -> ConfigRules:
    options = read_options(given)
    return ConfigRules(options, BrokerConfigs(options))


def rules_of_a_cluster(**given: object) -> ConfigRules:
    options = read_options(given)
    return ConfigRules(options, BrokerConfigs(options), is_in_registry=True)


def test_what_goes_together() -> None:
    rules().check_topic("t", {"retention.ms": "5", "cleanup.policy": "compact"}, {"min.compaction.lag.ms": "7"})
    rules().check_group({"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "6000"})
    rules().check_group({key.name: key.default or "" for key in GROUP_CONFIGS.values()})
    rules().check_client_metrics({"interval.ms": "100", "match": "", "metrics": "*"})
    rules().check_broker({"log.retention.ms": "5", "nobody.knows": "x"}, is_for_all=True)
    rules().check_broker({"max.connections.per.ip.overrides": "127.0.0.1:5,[::1]:0"}, is_for_all=False)
    rules(max_connections_per_ip_overrides="127.0.0.1:5").check_broker({"max.connections.per.ip": "0"}, is_for_all=True)


@pytest.mark.parametrize(
    ("check", "configs", "reason"),
    [
        ("topic", {"max.compaction.lag.ms": "4"}, r"min.compaction.lag.ms \(7\) > max.compaction.lag.ms \(4\)"),
        ("group", {"consumer.session.timeout.ms": "45000", "consumer.heartbeat.interval.ms": "15000",
                   "share.delivery.count.limit": "11"}, "less than or equal to group.share.max.delivery.count.limit"),
        ("group", {"share.record.lock.duration.ms": "1000"}, "greater than or equal to group.share.min.record.lock"),
        ("metrics", {"match": "client_id=" + "a" * 1001}, "Illegal client matching pattern"),
        ("metrics", {"match": "client_id="}, "Illegal client matching pattern"),
        ("broker", {"listeners": "PLAINTEXT://:1"}, r"Cannot update these configs dynamically: \[listeners\]"),
        ("broker", {"max.connections.per.ip.overrides": "127.0.0.1:-1"}, "must be an integer of 0 or higher, got '-1'"),
        ("broker", {"max.connections.per.ip.overrides": "example.org:1"}, "is not of the form ADDRESS:NUMBER"),
    ],
)  # fmt: skip
def test_refused(check: str, configs: dict[str, str], reason: str) -> None:
    checks = {
        "topic": lambda: rules().check_topic("t", configs, {"min.compaction.lag.ms": "7"}),
        "group": lambda: rules().check_group(configs),
        "metrics": lambda: rules().check_client_metrics(configs),
        "broker": lambda: rules().check_broker(configs, is_for_all=False),
    }
    with pytest.raises(BrokerError, match=reason):
        checks[check]()


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        ("max.connections", True),
        ("max.connection.creation.rate", True),
        ("num.network.threads", True),
        ("log.retention.ms", False),
        ("nobody.knows", False),
        ("ssl.keystore.location", False),
    ],
)
def test_what_all_brokers_listeners_may_have(name: str, is_fine: bool) -> None:
    configs = {f"listener.name.a.{name}": "5"}
    rules().check_broker(configs, is_for_all=False)
    if is_fine:
        rules().check_broker(configs, is_for_all=True)
    else:
        with pytest.raises(BrokerError, match="broker id must be specified"):
            rules().check_broker(configs, is_for_all=True)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"num.partitions": "9"}, r"Cannot update these configs dynamically: Set\(num.partitions\)$"),
        (
            {"num.io.threads": "17"},
            r"^Invalid value org\.apache\.kafka\.common\.config\.ConfigException: Dynamic thread count update "
            r"validation failed for num\.io\.threads=17, value should not be greater than double the current value 8 "
            r"for configuration Invalid dynamic configuration$",
        ),
        ({"num.io.threads": "3"}, "value should be at least half the current value 8 for"),
    ],
)
def test_refused_in_a_cluster(configs: dict[str, str], reason: str) -> None:
    with pytest.raises(BrokerError) as caught:
        rules_of_a_cluster().check_broker(configs, is_for_all=True)
    assert re.search(reason, caught.value.detail)


def test_threads_change_step_by_step_in_a_cluster() -> None:
    for number in ("4", "16"):
        rules_of_a_cluster().check_broker({"num.io.threads": number}, is_for_all=True)
    rules().check_broker({"num.io.threads": "17"}, is_for_all=True)


def test_sessions_are_longer_than_the_time_between_heartbeats() -> None:
    low = rules(**{"group.consumer.session.timeout.ms": 50_000, "group.consumer.max.heartbeat.interval.ms": 60_000})
    with pytest.raises(
        BrokerError, match=r"session\.timeout\.ms must be greater than consumer\.heartbeat\.interval\.ms"
    ):
        low.check_group({"consumer.heartbeat.interval.ms": "50000"})
