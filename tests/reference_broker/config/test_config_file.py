"""A configuration file of Apache Kafka configures this broker; mistakes are reported with their line numbers.

Method: read typical files, and then files with one mistake each.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.config.cluster_options import ClusterOptions, split_options
from kafkawire.reference_broker.config.config_file import read_config
from kafkawire.reference_broker.config.listeners import read_listeners
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import SecuritySettings, split_listener_options
from kafkawire.reference_broker.server import Broker
from kafkawire.sdk.errors import ConfigurationError

#: An abridged version of the file that Apache Kafka ships.
SERVER_PROPERTIES = """\
# The role of this server.
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://broker.example:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/var/lib/kafka
num.partitions=3
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
"""


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(text):
        path = tmp_path / "server.properties"
        path.write_text(text)
        return path

    return write


def test_the_file_that_comes_with_kafka(written):
    config = read_config(written(SERVER_PROPERTIES))
    options = read_options(config.options)
    assert (options.node_id, options.num_partitions) == (7, 3)
    assert options.listeners == "PLAINTEXT://:9092"
    assert options.advertised_listeners == "PLAINTEXT://broker.example:9092"
    assert options.listener_security_protocol_map == "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"
    assert options.topic_defaults == {"retention.ms": "604800000", "segment.bytes": "1073741824"}
    assert config.data_dir == "/var/lib/kafka"
    assert {"process.roles", "num.network.threads"} <= set(config.without_effect)
    assert not {"node.id", "log.dirs", "controller.listener.names", "log.retention.hours"} & set(config.without_effect)


def test_a_broker_of_a_cluster(written):
    text = "broker.id=7\nzookeeper.connect=host:2181\nbroker.rack=a\nreserved.broker.max.id=5\nnum.io.threads=3"
    config = read_config(written(text))
    assert config.options == {
        "listeners": "PLAINTEXT://:9092",  # as in Kafka, since the other brokers have to reach this one
        "broker.id": "7",
        "zookeeper.connect": "host:2181",
        "broker.rack": "a",
        "reserved.broker.max.id": "5",
    }
    assert list(config.without_effect) == ["num.io.threads"]
    alone = read_config(written(text.replace("zookeeper.connect=host:2181", "")))
    assert alone.options == {"node.id": "7"}
    assert set(alone.without_effect) == {"broker.rack", "reserved.broker.max.id", "num.io.threads"}


#: The settings in Apache Kafka 3.9's file for a cluster with ZooKeeper.
WITH_ZOOKEEPER = """\
broker.id=0
#listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""

#: A file as written by operators: a listener for each network, several disks, a chroot, and an id from ZooKeeper.
OF_OPERATORS = """\
broker.id=-1
broker.rack=eu-west-1a
listeners=REPLICATION://0.0.0.0:9091,INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:9093
advertised.listeners=REPLICATION://b1.internal:9091,INTERNAL://b1.internal:9092,EXTERNAL://b1.example.com:9093
listener.security.protocol.map=REPLICATION:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL
inter.broker.listener.name=REPLICATION
listener.name.external.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
sasl.enabled.mechanisms=SCRAM-SHA-512
ssl.keystore.location=/etc/kafka/keystore.jks
ssl.keystore.password=changeit
log.dirs={first},{second}
zookeeper.connect=zk1:2181,zk2:2181,zk3:2181/kafka/production
min.insync.replicas=2
default.replication.factor=3
unclean.leader.election.enable=false
num.replica.fetchers=4
background.threads=10
replica.fetch.max.bytes=10485760
auto.create.topics.enable=false
metric.reporters=com.example.Reporter
alter.log.dirs.replication.quota.window.num=11
log.message.format.version=2.8
authorizer.class.name=
remote.log.storage.system.enable=false
confluent.support.metrics.enable=false
min.insync.replica=2
"""


def test_the_file_of_a_cluster_with_zookeeper(written):
    config = read_config(written(WITH_ZOOKEEPER))
    own, cluster = split_options(config.options)
    assert cluster is not None
    read_options(own)
    options = ClusterOptions.read(cluster.items())
    assert (options.configured_broker_id, options.zookeeper_connect) == (0, "localhost:2181")
    assert (config.options["listeners"], config.data_dir) == ("PLAINTEXT://:9092", "/tmp/kafka-logs")
    assert set(config.without_effect) == {
        "num.network.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
    }


def test_a_file_of_operators(written, tmp_path):
    first, second = tmp_path / "disk1", tmp_path / "disk2"
    second.mkdir()
    config = read_config(written(OF_OPERATORS.format(first=first, second=second)))
    of_broker, of_listeners = split_listener_options(config.options)
    own, cluster = split_options(of_broker)
    assert cluster is not None
    options, of_cluster = read_options(own), ClusterOptions.read(cluster.items())
    listeners = read_listeners(options, "", 0, "host")
    assert [listener.protocol for listener in listeners] == ["PLAINTEXT", "PLAINTEXT", "SASL_SSL"]
    security = SecuritySettings(options, of_listeners, listeners)
    assert "sasl.jaas.config" in security.of_mechanism("EXTERNAL", "SCRAM-SHA-512")
    assert of_cluster.configured_broker_id is None
    assert of_cluster.zookeeper_connect.endswith("/kafka/production")
    assert of_cluster.num_replica_fetchers == 4
    assert options.topic_defaults["min.insync.replicas"] == "2"
    assert config.data_dir == str(first)
    assert config.without_effect["log.dirs"] == f"this broker uses only the folder {first}, and ignores {second}"
    assert "did you mean min.insync.replicas" in config.without_effect["min.insync.replica"]
    remarks = config.remarks()
    assert len(remarks) == len(config.without_effect) == 8
    (second / "t-0").mkdir()
    reason = rf"log.dirs=.*: this broker uses only the folder .*, but {second} has files"
    with pytest.raises(ConfigurationError, match=reason):
        read_config(written(OF_OPERATORS.format(first=first, second=second)))


def test_options_of_listeners(written):
    text = (
        "listeners=EXTERNAL://:1,CONTROLLER://:2\ncontroller.listener.names=CONTROLLER\n"
        "listener.name.external.plain.sasl.jaas.config=Module required;\n"
        "listener.name.controller.ssl.client.auth=required\n"
        "listener.name.external.quota.window.num=7\n"
    )
    config = read_config(written(text))
    assert config.options == {
        "listeners": "EXTERNAL://:1",
        "listener.name.external.plain.sasl.jaas.config": "Module required;",
    }
    assert config.without_effect.keys() == {"listener.name.external.quota.window.num"}


def test_unusable_options_of_listeners_are_placed(written):
    path = written("listeners=SSL://:0\nlistener.name.ssl.ssl.keystore.location=/nowhere\nssl.keystore.type=PEM\n")
    config = read_config(path)
    options: dict[str, Any] = {**config.options}
    with pytest.raises(ConfigurationError) as caught:
        Broker(None, **options)
    text = str(config.placed(caught.value))
    assert text.startswith(
        f"{path}:2: listener.name.ssl.ssl.keystore.location='/nowhere': listener SSL: cannot be used"
    )


@pytest.mark.parametrize(
    ("text", "danger"),
    [
        ("authorizer.zookeeper.url=zk2:2181", "would look for ACLs in the ZooKeeper of zookeeper.connect"),
        ("create.topic.policy.class.name=com.example.Policy", "would create forbidden topics"),
        ("alter.config.policy.class.name=com.example.Policy", "would accept forbidden changes"),
        ("config.providers=vault", r"would take values such as ..file:…. literally"),
        ("remote.log.storage.system.enable=TRUE", "would not find the segments in remote storage"),
        ("zookeeper.metadata.migration.enable=true", "cannot migrate to KRaft"),
        ("zookeeper.ssl.crl.enable=true", "would accept revoked certificates"),
        ("zookeeper.ssl.cipher.suites=TLS_AES_256_GCM_SHA384", "would also accept other ciphers"),
    ],
)
def test_what_would_be_unsafe_to_ignore_is_refused(written, text, danger):
    path = written(f"zookeeper.connect=z:1\n{text}")
    with pytest.raises(ConfigurationError, match=rf":2: .*: this broker .*{danger}.*; remove this entry if") as caught:
        read_config(path)
    assert str(caught.value).startswith(str(path))
    name, _, _ = text.partition("=")
    assert read_config(written(f"zookeeper.connect=z:1\n{name}=")).without_effect.keys() == {name}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("broker.id=3", {"node.id": "3"}),
        ("num.partitions = 2 \nnum.partitions = 4", {"num.partitions": "4"}),
        ("log.retention.ms=5\nlog.retention.minutes=7\nlog.retention.hours=9", {"log.retention.ms": "5"}),
        ("log.retention.minutes=7\nlog.retention.hours=9", {"log.retention.ms": "420000"}),
        ("log.retention.hours=-1", {"log.retention.ms": "-1"}),
        ("log.retention.hours=-5", {"log.retention.ms": "-5"}),
        ("log.retention.ms=5\nlog.retention.hours=0", {"log.retention.ms": "5"}),
        ("log.roll.jitter.hours=2", {"log.roll.jitter.ms": "7200000"}),
        ("log.roll.hours=1", {"log.roll.ms": "3600000"}),
        ("auto.create.topics.enable=FALSE", {"auto.create.topics.enable": "FALSE"}),
        ("listeners=A://:1,\\\n  B://:2", {"listeners": "A://:1,B://:2"}),
        ("delegation.token.master.key=old", {"delegation.token.secret.key": "old"}),
        *(
            (
                f"delegation.token.{first}.key={first}\ndelegation.token.{second}.key={second}",
                {"delegation.token.secret.key": "secret"},
            )
            for first, second in (("secret", "master"), ("master", "secret"))
        ),
    ],
)
def test_values(written, text, options):
    config = read_config(written(text))
    assert config.options == options
    read_options(config.options)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a=1\n\nnum.partitions=many", 3, "num.partitions='many': expected an integer"),
        ("num.partitions=0", 1, "expected 1 to 2147483647"),
        ("num.partitions", 1, "num.partitions='': expected an integer"),
        ("#\nlog.retention.hours=long", 2, "log.retention.hours='long': expected an integer"),
        ("log.retention.hours=0", 1, "expected 1 or more, or -1 for no limit"),
        ("\nlog.retention.minutes=0", 2, "expected 1 or more, or -1 for no limit"),
        ("log.retention.hours=99999999999", 1, "expected at most 2147483647"),
        ("log.roll.hours=0", 1, "Value must be at least 1"),
        ("log.roll.jitter.hours=-1", 1, "Value must be at least 0"),
        ("log.cleanup.policy=remove", 1, "String must be one of: compact, delete"),
        ("auto.create.topics.enable=maybe", 1, "expected True or False"),
        ("log.dir=", 1, "expected a folder"),
        ("zookeeper.connect=a:1\nprocess.roles=broker", 2, "cannot be combined with zookeeper.connect"),
        ("zookeeper.connect=a:1\nbroker.id=x", 2, "expected an integer"),
        ("\nbroker.id=x", 2, "node.id='x': expected an integer"),
    ],
)
def test_mistakes_are_reported_with_their_place(written, text, line, reason):
    path = written(text)
    with pytest.raises(ConfigurationError) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)


def test_a_contradiction_may_be_mended_on_the_command_line(written):
    config = read_config(written("group.consumer.session.timeout.ms=1000\ngroup.consumer.heartbeat.interval.ms=2000"))
    assert read_options(config.options | {"group.consumer.heartbeat.interval.ms": "300"})
    with pytest.raises(ConfigurationError, match="expected less than group_consumer_session_timeout_ms=1000"):
        read_options(config.options)


def test_a_default_yields_to_what_the_file_says(written):
    options = read_options(read_config(written("group.consumer.session.timeout.ms=1000")).options)
    assert options.group_consumer_heartbeat_interval_ms < options.group_consumer_session_timeout_ms == 1000


def test_text_that_java_would_not_read(written):
    with pytest.raises(ConfigurationError, match=r"line 2: .u is not followed by four"):
        read_config(written("a=1\nb=\\u00"))


def test_place_of_what_is_found_wrong_later(written):
    config = read_config(written("\nlisteners=nonsense"))
    later = config.placed(ConfigurationError("listeners", "nonsense", "'nonsense' is not of the form NAME://host:port"))
    assert str(later) == f"{config.path}:2: listeners='nonsense': 'nonsense' is not of the form NAME://host:port"
    own = config.placed(ConfigurationError("node_id", 1, "the folder belongs to node 2"))
    assert str(own) == "node_id=1: the folder belongs to node 2"
