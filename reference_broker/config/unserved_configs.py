"""Apache Kafka configurations that this broker does not support: which ones are safe to ignore, and why.

A configuration is unsafe to ignore if the broker would then accept what the configuration forbids, or lose what it
protects.

Source: `KafkaConfig`, `ZkConfigs`, `ServerConfigs`, `ReplicationConfigs` in Apache Kafka 3.9.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.authorizer_options import ACL_OPTIONS
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS

__all__ = ["danger_of", "reason_without_effect"]


class _Unsafe(NamedTuple):
    """A configuration that must not be ignored.

    Attributes:
        danger: what would happen if it were ignored.
        harmless: the values, in lower case, with which it has no effect in Kafka either.
    """

    danger: str
    harmless: tuple[str, ...] = ("",)


_OFF: Final = ("", "false")

_UNSAFE: Final = {
    "authorizer.zookeeper.url": _Unsafe("this broker would look for ACLs in the ZooKeeper of zookeeper.connect"),
    "principal.builder.class": _Unsafe(
        "this broker would give clients other principals",
        ("", "org.apache.kafka.common.security.authenticator.defaultkafkaprincipalbuilder"),
    ),
    "ssl.engine.factory.class": _Unsafe(
        "this broker would not use its certificates",
        ("", "org.apache.kafka.common.security.ssl.defaultsslenginefactory"),
    ),
    "create.topic.policy.class.name": _Unsafe("this broker has no policies, and would create forbidden topics"),
    "alter.config.policy.class.name": _Unsafe("this broker has no policies, and would accept forbidden changes"),
    "client.quota.callback.class": _Unsafe("this broker would not enforce the quotas that the class determines"),
    "config.providers": _Unsafe("this broker would take values such as ${file:…} literally"),
    "remote.log.storage.system.enable": _Unsafe("this broker would not find the segments in remote storage", _OFF),
    "zookeeper.metadata.migration.enable": _Unsafe("this broker cannot migrate to KRaft", _OFF),
    "zookeeper.ssl.cipher.suites": _Unsafe("this broker would also accept other ciphers"),
    "zookeeper.ssl.crl.enable": _Unsafe("this broker would accept revoked certificates", _OFF),
    "zookeeper.ssl.ocsp.enable": _Unsafe("this broker would accept revoked certificates", _OFF),
}

#: Patterns of configuration names, with the reason why these have no effect; the first match is used.
_REASONS: Final = (
    (r"listener\.name\..*", "this broker's listeners do not have this configuration"),
    (r"ssl\.(engine|keymanager|protocol|provider|secure|trustmanager)\b.*|security\.providers",
     "TLS is OpenSSL's, and ssl.enabled.protocols names its versions"),
    (r"sasl\.(client|login)\..*|sasl\.kerberos\.(kinit|min|ticket)\..*", "this is only for clients written in Java"),
    (r"password\.encoder\..*", "this broker does not store passwords"),
    (r"early\.start\.listeners", "this broker reads all ACLs before it accepts connections"),
    (r"authorizer\.zookeeper\..*", "ACLs are kept in the ZooKeeper of zookeeper.connect"),
    (r".*\bthreads\b.*|queued\.max\.requests", "one event loop does the work of these threads"),
    (r"(.*\.)?(metrics?|jmx|reporters?)\b.*", "metrics are served by the option metrics_listen, not reported"),
    (r"(leader|follower)\.replication\.throttled\..*", "this is only configured while the broker runs"),
    (r"(replica\.)?alter\.log\.dirs\..*", "this broker does not move replicas between log directories"),
    (r"(controller\.quorum|metadata|broker\.(heartbeat|session)|initial\.broker\.registration)\..*|process\.roles",
     "the broker is not part of a KRaft quorum"),
    (r"remote\..*|.*\.local\.retention\..*", "this broker has no remote storage"),
    (r".*purgatory\..*", "this broker does not need to purge waiting requests"),
    (r"log\.message\.format\.version", "records always have the newest format, as in Kafka since 3.0"),
    (r"zookeeper\.(max\.in\.flight\.requests|sync\.time\.ms)", "requests to ZooKeeper are always pipelined"),
    (r"confluent\..*", "this configuration is only for Confluent's servers"),
)  # fmt: skip

_WITH_REASONS: Final = tuple((re.compile(pattern), reason) for pattern, reason in _REASONS)


def danger_of(name: str, value: str) -> str | None:
    """Return what would happen if a configuration were ignored; None if ignoring it is safe.

    Args:
        name: its name.
        value: its value, as written in a file.
    """
    unsafe = _UNSAFE.get(name)
    return None if unsafe is None or value.strip().lower() in unsafe.harmless else unsafe.danger


def reason_without_effect(name: str, *, is_alone: bool, served: frozenset[str]) -> str:
    """Return why a configuration has no effect.

    Args:
        name: its name.
        is_alone: whether the broker is standalone, that is, outside any cluster.
        served: the names of the configurations that only brokers in a cluster support.
    """
    if is_alone and name in served:
        return "this is a standalone broker; with zookeeper.connect, it would join a cluster"
    if name in _UNSAFE:
        return "this value has no effect"
    for pattern, reason in _WITH_REASONS:
        if pattern.fullmatch(name):
            return reason
    if name in BROKER_CONFIGS:
        return "this broker does not have this feature"
    return f"unknown configuration{did_you_mean(name, [*served, *ACL_OPTIONS, *BROKER_CONFIGS])}"
