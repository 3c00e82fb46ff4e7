"""Each unsupported configuration is refused as dangerous to ignore, or listed with a reason for having no effect.

Method: check every broker configuration of Apache Kafka, and names from other releases and vendors.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.unserved_configs import danger_of, reason_without_effect
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS

SERVED = frozenset({*ClusterOptions.KAFKA_NAMES, *BrokerOptions.KAFKA_NAMES})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("num.network.threads", "one event loop"),
        ("log.cleaner.threads", "one event loop"),
        ("queued.max.requests", "one event loop"),
        ("metric.reporters", "metrics"),
        ("auto.include.jmx.reporter", "metrics"),
        ("ssl.provider", "TLS is OpenSSL's"),
        ("sasl.login.refresh.window.factor", "clients written in Java"),
        ("sasl.kerberos.ticket.renew.jitter", "clients written in Java"),
        ("password.encoder.secret", "does not store passwords"),
        ("listener.name.external.quota.window.num", "listeners do not have this configuration"),
        ("early.start.listeners", "reads all ACLs before"),
        ("alter.log.dirs.replication.quota.window.num", "between log directories"),
        ("leader.replication.throttled.rate", "while the broker runs"),
        ("process.roles", "KRaft"),
        ("controller.quorum.voters", "KRaft"),
        ("remote.log.manager.thread.pool.size", "remote storage"),
        ("zookeeper.max.in.flight.requests", "pipelined"),
        ("log.message.format.version", "newest format"),
        ("confluent.license", "Confluent"),
        ("log.preallocate", "does not have this feature"),
        ("group.share.assignors", "does not have this feature"),
        ("share.coordinator.write.timeout.ms", "does not have this feature"),
        ("share.coordinator.threads", "one event loop"),
        ("group.share.max.sise", "unknown configuration; did you mean group.share.max.size"),
        ("config.providers", "this value has no effect"),
        ("zookeeper.conect", "unknown configuration; did you mean zookeeper.connect"),
    ],
)
def test_reasons(name: str, reason: str) -> None:
    assert reason in reason_without_effect(name, is_alone=False, served=SERVED)


def test_a_broker_that_is_alone() -> None:
    name = "default.replication.factor"
    assert "would join a cluster" in reason_without_effect(name, is_alone=True, served=SERVED)


def test_all_of_kafka_is_safe_or_named() -> None:
    unserved = BROKER_CONFIGS.keys() - SERVED
    dangerous = {name for name in unserved if danger_of(name, "true")}
    assert dangerous == {
        "alter.config.policy.class.name",
        "client.quota.callback.class",
        "config.providers",
        "create.topic.policy.class.name",
        "principal.builder.class",
        "remote.log.storage.system.enable",
        "ssl.engine.factory.class",
    }
    assert not any("unknown" in reason_without_effect(name, is_alone=False, served=SERVED) for name in unserved)
    assert danger_of("config.providers", " ") is danger_of("remote.log.storage.system.enable", "False") is None
