"""A broker in a cluster takes the right options, checks their values, and refuses conflicting ones."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.cluster_options import RACK_AWARE_SELECTOR, ClusterOptions, split_options
from kafkawire.sdk.errors import ConfigurationError

CONNECT = {"zookeeper.connect": "host:2181/kafka"}


def read(**given: object) -> ClusterOptions:
    return ClusterOptions.read({**CONNECT, **given}.items())


def test_defaults() -> None:
    options = read()
    assert options.configured_broker_id is None
    assert options.connection_timeout_ms == options.zookeeper_session_timeout_ms == 18_000
    factors = (options.offsets_topic_replication_factor, options.transaction_state_log_replication_factor)
    assert (options.default_replication_factor, *factors) == (1, 3, 3)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"broker_id": -1}, None),
        ({"broker_id": "7"}, 7),
        ({"broker_id": 0}, 0),
    ],
)
def test_id(given: dict[str, object], value: int | None) -> None:
    assert read(**given).configured_broker_id == value


def test_what_was_given() -> None:
    given = {
        "broker.id": 7,
        "auto_leader_rebalance_enable": False,
        "zookeeper.session.timeout.ms": 18_000,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
        "zookeeper.ssl.keystore.password": "secret",
    }
    options = read(**given)
    assert options.given["zookeeper.ssl.keystore.password"] != "secret"
    assert {name: value for name, value in options.given.items() if "password" not in name} == {
        "zookeeper.connect": "host:2181/kafka",
        "auto.leader.rebalance.enable": "false",
        "zookeeper.session.timeout.ms": "18000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }
    assert "secret" not in repr(options)


def test_connection_timeout() -> None:
    options = read(zookeeper_connection_timeout_ms=5, zookeeper_session_timeout_ms=9)
    assert options.connection_timeout_ms == 5


@pytest.mark.parametrize("version", ["3.4", "3.9", "3.9-IV0", "3.5.1"])
def test_protocol_version(version: str) -> None:
    assert read(inter_broker_protocol_version=version).inter_broker_protocol_version == version


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"zookeeper.connect": " "}, "expected host:port"),
        ({"inter_broker_protocol_version": "3.3"}, "expected a release from 3.4 to 3.9"),
        ({"inter_broker_protocol_version": "4.0"}, "expected a release from 3.4 to 3.9"),
        ({"inter_broker_protocol_version": "new"}, "expected a Kafka release"),
        ({"inter_broker_protocol_version": "3"}, "expected a Kafka release"),
        ({"inter_broker_protocol_version": "3.5-IV3"}, "expected a Kafka release"),
        ({"replica_selector_class": "org.example.Selector"}, f"expected {RACK_AWARE_SELECTOR}"),
        ({"broker_id": -2}, "expected 0 to 2147483647, or -1"),
        ({"num_replica_fetchers": 101}, "expected 1 to 100"),
        ({"replica_fetch_wait_max_ms": 40_000}, "replica_lag_time_max_ms=30000 .the default.; otherwise followers"),
        (
            {"replica_fetch_wait_max_ms": 40_000, "replica_lag_time_max_ms": 50_000},
            "replica_socket_timeout_ms=30000 .the default.; otherwise fetches",
        ),
    ],
)
def test_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read(**given)


def test_selector() -> None:
    assert read(replica_selector_class=RACK_AWARE_SELECTOR).replica_selector_class == RACK_AWARE_SELECTOR


def test_a_broker_alone_has_none_of_them() -> None:
    assert split_options({"num.partitions": 3, "node_id": 1}) == ({"num.partitions": 3, "node_id": 1}, None)
    with pytest.raises(ConfigurationError, match=r"this option requires zookeeper\.connect"):
        split_options({"broker_rack": "a"})


@pytest.mark.parametrize("name", ["node.id", "node_id"])
def test_a_node_id_is_that_of_the_broker(name: str) -> None:
    own, cluster = split_options({**CONNECT, name: 4, "num.partitions": 3})
    assert (own, cluster) == ({"num.partitions": 3}, {**CONNECT, "broker.id": 4})
    assert split_options({**CONNECT, name: 4, "broker.id": 5}) == ({}, {**CONNECT, "broker.id": 5})
