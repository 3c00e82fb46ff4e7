"""A broker's properties are Kafka's, and the properties that distinguish brokers cannot be overridden.

Method: check the mapping; the functions that write and read its file have their own tests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.local_cluster.broker_config import broker_properties, checked_options
from kafkawire.sdk.errors import ConfigurationError


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_replicas_fit_on_the_brokers(brokers: int, replicas: str, in_sync: str) -> None:
    properties = broker_properties(1, "127.0.0.1:9092", "127.0.0.1:2181/chroot", Path("data"), brokers, {})
    assert properties == {
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "data",
        "zookeeper.connect": "127.0.0.1:2181/chroot",
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "controlled.shutdown.retry.backoff.ms": "500",
        "replica.fetch.backoff.ms": "100",
    }


def test_options_override_defaults() -> None:
    options = checked_options({"default.replication.factor": "1", "min.insync.replicas": "2"})
    assert broker_properties(1, "a:1", "z:1", Path("data"), 3, options).items() >= options.items()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"listener.security.protocol.map": "PLAINTEXT:TLS"},
            "listener.security.protocol.map='PLAINTEXT:TLS': 'PLAINTEXT:TLS' is not of the form NAME:PROTOCOL",
        ),
        (
            {"listener.security.protocol.map": "EXTERNAL:SSL"},
            "listener.security.protocol.map='EXTERNAL:SSL': no security protocol is defined for the listener PLAINTEXT",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "security.inter.broker.protocol='SSL': unknown listener SSL; configured listeners: PLAINTEXT",
        ),
        (
            {"listener.name.x.ssl.client.auth": "none"},
            "listener.name.x.ssl.client.auth='none': unknown listener; the names in lower case are: plaintext",
        ),
        ({"num.partitions": "0"}, "num.partitions='0': "),
        ({"log.retention.hours": "x"}, "log.retention.hours='x': expected an integer"),
        ({"process.roles": "broker"}, "process.roles='broker': must not be given"),
    ],
)
def test_options_that_a_broker_refuses_are_named_before_it_starts(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(text)}"):
        checked_options(options)
    if "process.roles" not in options:
        assert checked_options(options, is_for_us=False) == options


@pytest.mark.parametrize("name", ["broker.id", "zookeeper.connect", "listeners", "log.dirs", "log.dir"])
def test_options_that_the_cluster_sets(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}='x': must not be given, because the cluster sets it"):
        checked_options({name: "x"})
