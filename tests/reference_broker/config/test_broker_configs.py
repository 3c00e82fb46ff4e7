"""A changed value overrides an option, and an option overrides the default; a configuration's synonyms do so too.

Method: check tables of settings, sources and effective values, which cover every configuration of Kafka.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs, default_of
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.options import BrokerOptions, read_options
from kafkawire.sdk.options import written
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, ZOOKEEPER_BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigSource, ConfigType

BROKER, CLUSTER = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("given", "of_cluster", "of_broker", "name", "expected"),
    [
        ({}, {}, {}, "num.partitions", [("num.partitions", "1", DEFAULT)]),
        ({"num_partitions": 1}, {}, {}, "num.partitions",
         [("num.partitions", "1", STATIC), ("num.partitions", "1", DEFAULT)]),
        ({"log.segment.bytes": 2**21}, {"log.segment.bytes": "3000000"}, {"log.segment.bytes": "4000000"},
         "log.segment.bytes",
         [("log.segment.bytes", "4000000", BROKER), ("log.segment.bytes", "3000000", CLUSTER),
          ("log.segment.bytes", "2097152", STATIC), ("log.segment.bytes", "1073741824", DEFAULT)]),
        ({}, {}, {}, "log.retention.ms", []),
        ({"log.retention.ms": 5}, {}, {}, "log.retention.ms",
         [("log.retention.ms", "5", STATIC), ("log.retention.hours", "168", DEFAULT)]),
        ({}, {"log.retention.minutes": "1"}, {}, "log.retention.ms", []),
        ({}, {}, {}, "log.retention.hours", [("log.retention.hours", "168", DEFAULT)]),
        ({"auto_create_topics": False}, {}, {}, "auto.create.topics.enable",
         [("auto.create.topics.enable", "false", STATIC), ("auto.create.topics.enable", "true", DEFAULT)]),
        ({"node_id": 7}, {}, {}, "broker.id", [("broker.id", "7", STATIC), ("broker.id", "-1", DEFAULT)]),
        ({}, {}, {"ssl.keystore.password": "x"}, "ssl.keystore.password", [("ssl.keystore.password", None, BROKER)]),
        ({}, {"nobody.knows": "x"}, {}, "nobody.knows", [("nobody.knows", None, CLUSTER)]),
        ({}, {}, {"listener.name.plaintext.ssl.keystore.type": "PEM"}, "listener.name.plaintext.ssl.keystore.type",
         [("listener.name.plaintext.ssl.keystore.type", "PEM", BROKER), ("ssl.keystore.type", "JKS", DEFAULT)]),
        ({}, {"listener.name.a.plain.connections.max.reauth.ms": "9"}, {},
         "listener.name.a.plain.connections.max.reauth.ms",
         [("listener.name.a.plain.connections.max.reauth.ms", "9", CLUSTER),
          ("connections.max.reauth.ms", "0", DEFAULT)]),
        ({}, {}, {}, "max.connections", [("max.connections", "10000", DEFAULT)]),
        ({}, {}, {}, "nobody.knows", []),
    ],
)  # fmt: skip
def test_settings(given, of_cluster, of_broker, name, expected) -> None:
    configs = BrokerConfigs(read_options(given))
    configs.of_cluster, configs.of_broker = of_cluster, of_broker
    assert [tuple(setting) for setting in configs.settings(name)] == expected


def test_what_is_known_at_the_start_counts_as_given() -> None:
    configs = BrokerConfigs(read_options({}).with_values(listeners="PLAINTEXT://h:1"), {"log.dirs": "/data"})
    assert configs.settings("listeners")[0] == ("listeners", "PLAINTEXT://h:1", STATIC)
    assert configs.settings("log.dirs") == [("log.dirs", "/data", STATIC)]


def test_every_name_is_there() -> None:
    configs = BrokerConfigs(BrokerOptions())
    assert list(configs.names) == list(BROKER_CONFIGS)
    configs.of_broker = {"nobody.knows": "x", "num.partitions": "2"}
    assert list(configs.names) == [*BROKER_CONFIGS, "nobody.knows"]


def test_options_are_those_of_the_table() -> None:
    """The table of configurations agrees with the declarations in `BrokerOptions`."""
    for name, own in BrokerOptions.KAFKA_NAMES.items():
        key = BROKER_CONFIGS.get(name)
        if key is not None:  # Kafka does not list all of them
            assert own == ((key.here and key.here.option) or name.replace(".", "_"))
            option = BrokerOptions.OPTIONS[own]
            shown = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
            assert option.default in (None, "") or shown == default_of(key)
    used = {name for name, key in BROKER_CONFIGS.items() if key.here is not None}
    assert used >= BrokerOptions.KAFKA_NAMES.keys() & BROKER_CONFIGS.keys() - {"min.insync.replicas"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.internal.ssl.key.password", True),
        ("listener.name.internal.ssl.keystore.type", False),
        ("listener.name.", True),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", True),
        ("listener.name.internal.plain.connections.max.reauth.ms", False),
        ("num.partitions", False),
        ("nobody.knows", True),
    ],
)
def test_what_is_secret(name: str, expected: bool) -> None:
    assert BrokerConfigs(BrokerOptions()).is_sensitive(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max.connections", ConfigType.INT),
        ("listener.name.a.max.connections", ConfigType.INT),
        ("listener.name.a.plain.sasl.jaas.config", ConfigType.PASSWORD),
        ("listener.name.a.plain.connections.max.reauth.ms", ConfigType.LONG),
        ("listener.name.a.nobody.knows", ConfigType.UNKNOWN),
        ("leader.replication.throttled.rate", ConfigType.LONG),
    ],
)
def test_types(name: str, expected: ConfigType) -> None:
    assert BrokerConfigs(BrokerOptions()).type_of(name) is expected


def test_a_cluster_with_zookeeper_has_more_configurations() -> None:
    static = {"zookeeper.session.timeout.ms": "7000", "broker.rack": "r", "zookeeper.ssl.keystore.password": "x"}
    configs = BrokerConfigs(BrokerOptions(), static, has_zookeeper=True)
    assert list(configs.names) == [*BROKER_CONFIGS, *ZOOKEEPER_BROKER_CONFIGS]
    name = "zookeeper.session.timeout.ms"
    assert configs.settings(name) == [(name, "7000", STATIC), (name, "18000", DEFAULT)]
    assert configs.settings("broker.rack") == [("broker.rack", "r", STATIC)]
    assert configs.settings("zookeeper.ssl.keystore.password") == [("zookeeper.ssl.keystore.password", None, STATIC)]
    assert configs.settings("zookeeper.connection.timeout.ms") == []
    assert configs.is_read_only(name)
    assert not configs.is_sensitive(name)
    alone = BrokerConfigs(BrokerOptions())
    assert not alone.is_read_only(name)
    assert alone.is_sensitive(name)


def test_options_of_a_cluster_are_those_of_the_table() -> None:
    """The JVM's options are not configurations of Kafka."""
    of_jvm = {"java.security.auth.login.config", "zookeeper.sasl.client", "zookeeper.sasl.clientconfig"}
    assert ClusterOptions.KAFKA_NAMES.keys() - BROKER_CONFIGS.keys() == ZOOKEEPER_BROKER_CONFIGS.keys() | of_jvm
    different = {"inter.broker.protocol.version": "3.9", "zookeeper.ssl.protocol": None}
    for name in ZOOKEEPER_BROKER_CONFIGS:
        default = ClusterOptions.OPTIONS[ClusterOptions.KAFKA_NAMES[name]].default
        if name in different:
            assert default == different[name]
        else:
            kafkas = (ZOOKEEPER_BROKER_CONFIGS[name].default or "").lower()
            assert ("" if default is None else written(default)) == kafkas
