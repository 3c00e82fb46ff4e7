"""A configuration file of Apache Kafka configures this broker; mistakes are reported with their lines.

Method: typical files, then one mistake at a time.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.config_file import read_config
from kafkawire.reference_broker.config.options import read_options
from kafkawire.sdk.errors import ConfigurationError

#: The file that comes with Apache Kafka, shortened.
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
        "broker.id": "7",
        "zookeeper.connect": "host:2181",
        "broker.rack": "a",
        "reserved.broker.max.id": "5",
    }
    assert config.without_effect == ("num.io.threads",)
    alone = read_config(written(text.replace("zookeeper.connect=host:2181", "")))
    assert alone.options == {"node.id": "7"}
    assert set(alone.without_effect) == {"broker.rack", "reserved.broker.max.id", "num.io.threads"}


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
        ("log.dirs=/a,/b", 1, "there are 2 folders, but this broker has one"),
        ("log.dir=", 1, "0 folders"),
        ("zookeeper.connect=a:1\nprocess.roles=broker", 2, "a broker with zookeeper.connect has no roles"),
        ("zookeeper.connect=a:1\nbroker.id=x", 2, "expected an integer"),
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
    later = config.placed(ConfigurationError("listeners", "nonsense", "'nonsense' is not NAME://host:port"))
    assert str(later) == f"{config.path}:2: listeners='nonsense': 'nonsense' is not NAME://host:port"
    own = config.placed(ConfigurationError("node_id", 1, "the folder belongs to node 2"))
    assert str(own) == "node_id=1: the folder belongs to node 2"
