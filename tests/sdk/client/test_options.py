"""Every option is found under both of its names; the error for a wrong option gives its name, value and limit.

Method: read tables of accepted and rejected options, and compare the dotted names with the existing options.
`test_option_hints.py` tests the hints for other libraries' names.
"""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest

from kafkawire.sdk.client.options import (
    ASSIGNOR_NAMES,
    CLIENTS,
    AdminOptions,
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    ShareConsumerOptions,
    read_options,
)
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.assignor import Assignment, Assignor, PartitionCounts, ReplicaRacks, Subscriptions
from kafkawire.sdk.options import INT32_MAX, REQUIRED
from kafkawire.sdk.records import Compression


class OneForAll(Assignor):
    """An application's own assignor."""

    name = "one-for-all"

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        raise NotImplementedError


IN_ZOOKEEPER: dict[str, object] = {"group_id": "g", "group_protocol": "zookeeper", "zookeeper_connect": "a:1"}


def test_defaults() -> None:
    options = read_options(ProducerOptions, "a:1,b", {})
    assert [str(address) for address in options.bootstrap_servers] == ["a:1", "b:9092"]
    assert (options.acks, options.linger_ms, options.max_in_flight) == (-1, 5, 5)
    assert options.compression is Compression.NONE


#: The defaults of these options, as printed by Apache Kafka 4.3.0.
KAFKA_DEFAULTS = """
    compression.gzip.level=-1 compression.lz4.level=9 compression.zstd.level=3
acks=all auto.commit.interval.ms=5000 auto.offset.reset=latest batch.size=16384 buffer.memory=33554432 check.crcs=true
connections.max.idle.ms=540000 isolation.level=read_uncommitted client.rack=
client.id= compression.type=none default.api.timeout.ms=60000 delivery.timeout.ms=120000 enable.auto.commit=true
fetch.max.bytes=52428800 fetch.max.wait.ms=500 fetch.min.bytes=1 group.id=null group.instance.id=null
group.protocol=classic group.remote.assignor=null
heartbeat.interval.ms=3000 linger.ms=5 max.in.flight.requests.per.connection=5 max.partition.fetch.bytes=1048576
max.poll.interval.ms=300000 max.poll.records=500 max.request.size=1048576 metadata.max.age.ms=300000
enable.idempotence=true enable.metrics.push=true metadata.max.idle.ms=300000
transaction.timeout.ms=60000 transactional.id=null
partition.assignment.strategy=range,cooperative-sticky partitioner.class=null request.timeout.ms=30000
retries=2147483647 retry.backoff.max.ms=1000 retry.backoff.ms=100 session.timeout.ms=45000
socket.connection.setup.timeout.ms=10000
share.acknowledgement.mode=IMPLICIT share.acquire.mode=BATCH_OPTIMIZED
sasl.kerberos.service.name=null sasl.mechanism=GSSAPI sasl.oauthbearer.client.credentials.client.id=null
sasl.oauthbearer.client.credentials.client.secret=null sasl.oauthbearer.header.urlencode=false
sasl.oauthbearer.scope=null sasl.oauthbearer.token.endpoint.url=null security.protocol=PLAINTEXT
ssl.endpoint.identification.algorithm=https ssl.key.password=null ssl.keystore.certificate.chain=null
ssl.keystore.key=null ssl.keystore.location=null ssl.keystore.type=JKS ssl.truststore.certificates=null
ssl.truststore.location=null ssl.truststore.type=JKS
"""

#: The defaults of Apache Kafka 1.1.1, for the consumer that registers in ZooKeeper.
KAFKA_DEFAULTS += """
zookeeper.connect=null zookeeper.session.timeout.ms=6000 offsets.storage=zookeeper dual.commit.enabled=null
"""

#: The defaults of the JVM and of Apache Kafka 3.9's brokers, for that consumer's connection to ZooKeeper.
KAFKA_DEFAULTS += """
java.security.auth.login.config=null zookeeper.clientCnxnSocket=null zookeeper.sasl.client=true
zookeeper.sasl.clientconfig=Client zookeeper.ssl.client.enable=false zookeeper.ssl.enabled.protocols=null
zookeeper.ssl.endpoint.identification.algorithm=HTTPS zookeeper.ssl.keystore.location=null
zookeeper.ssl.keystore.password=null zookeeper.ssl.keystore.type=null zookeeper.ssl.protocol=TLSv1.2
zookeeper.ssl.truststore.location=null zookeeper.ssl.truststore.password=null zookeeper.ssl.truststore.type=null
"""

#: Dotted names that only librdkafka has.
LIBRDKAFKA_NAMES = {"sasl.password", "sasl.username", "socket.keepalive.enable", "ssl.key.location"}

OWN_DEFAULTS = {
    "enable_idempotence": None,  # as in Kafka, other options override it unless it is set
    "batch_size": 131_072,
    "compression_gzip_level": None,  # the library's default, the same as Kafka's
    "compression_lz4_level": None,  # the library's default, the fastest
    "compression_zstd_level": None,  # the library's default, the same as Kafka's
    "client_id": "kafkawire",
    "sasl_kerberos_service_name": "kafka",
    "sasl_mechanism": None,
    "ssl_keystore_type": "PEM",
    "ssl_truststore_type": "PEM",
    "zookeeper_ssl_protocol": None,  # the newest version that both sides support
}

#: The numeric options whose range is not 1 to `INT32_MAX`.
RANGES = {
    "batch_size": (128, 2**24),
    "buffer_memory": (1024, 2**62),
    "fetch_max_wait_ms": (0, INT32_MAX),
    "fetch_min_bytes": (0, INT32_MAX),
    "linger_ms": (0, INT32_MAX),
    "max_frame_bytes": (1024, INT32_MAX),
    "max_in_flight": (1, 1000),
    "max_request_size": (1024, INT32_MAX),
    "metadata_max_age_ms": (100, INT32_MAX),
    "metadata_max_idle_ms": (5_000, INT32_MAX),
    "metrics_report_interval_ms": (100, INT32_MAX),
    "retries": (0, INT32_MAX),
    "retry_backoff_max_ms": (0, INT32_MAX),
    "retry_backoff_ms": (0, INT32_MAX),
}


def test_defaults_are_those_of_kafka() -> None:
    defaults = {name: value for name, _, value in (pair.partition("=") for pair in KAFKA_DEFAULTS.split())}
    named = {option.kafka_name: option for kind in CLIENTS.values() for option in kind.OPTIONS.values()}
    assert defaults.keys() == named.keys() - LIBRDKAFKA_NAMES - {None, "bootstrap.servers"}
    for kind in CLIENTS.values():
        for name, option in kind.OPTIONS.items():
            if option.kafka_name is None or option.default is REQUIRED or name == "socket_keepalive_enable":
                continue  # Java's clients always use TCP keepalive
            default = option.default
            if name in OWN_DEFAULTS:
                assert default == OWN_DEFAULTS[name]
            elif default is None:
                assert defaults.get(option.kafka_name, "null") == "null"
            else:
                given = option.parse(defaults[option.kafka_name]) if option.parse else defaults[option.kafka_name]
                assert option.read(name, given) == default


def test_ranges() -> None:
    for kind in CLIENTS.values():
        for name, option in kind.OPTIONS.items():
            if option.accepts == "int":
                low, high = RANGES.get(name, (1, INT32_MAX))
                assert (option.read(name, low), option.read(name, high)) == (low, high)
                for value in (low - 1, high + 1):
                    with pytest.raises(ConfigurationError, match=f"{name}={value}: expected {low} to {high}"):
                        option.read(name, value)


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("linger_ms", 0, "linger_ms", 0),
        ("linger.ms", 7, "linger_ms", 7),
        ("acks", "all", "acks", -1),
        ("acks", 1, "acks", 1),
        ("acks", "0", "acks", 0),
        ("acks", -1, "acks", -1),
        ("acks", "-1", "acks", -1),
        ("retries", "7", "retries", 7),
        ("linger.ms", "7", "linger_ms", 7),
        ("batch_size", 2**20, "batch_size", 2**20),
        ("delivery_timeout_ms", 30_005, "delivery_timeout_ms", 30_005),
        ("retry_backoff_ms", 1_000, "retry_backoff_ms", 1_000),
        ("compression", "lz4", "compression", Compression.LZ4),
        ("compression.type", Compression.ZSTD, "compression", Compression.ZSTD),
        ("max.in.flight.requests.per.connection", 1, "max_in_flight", 1),
        ("client.id", "me", "client_id", "me"),
        ("partitioner", None, "partitioner", None),
        ("partitioner", max, "partitioner", max),
        ("partitioner", "round_robin", "partitioner", "round_robin"),
    ],
)
def test_accepted_by_a_producer(name: str, value: object, attribute: str, expected: object) -> None:
    assert getattr(read_options(ProducerOptions, "a", {name: value}), attribute) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lingerms": 1}, "lingerms=1: no such option; did you mean linger_ms"),
        ({"linger.sm": 1}, "did you mean linger.ms"),
        ({"group_id": "g"}, "group_id='g': no such option here; group_id is an option of Consumer"),
        ({"xyzzy": 1}, "xyzzy=1: no such option$"),
        ({"linger_ms": -1}, "linger_ms=-1: expected 0 to 2147483647"),
        ({"linger_ms": "5"}, "linger_ms='5': expected an integer"),
        ({"linger_ms": True}, "linger_ms=True: expected an integer"),
        ({"batch_size": 2**30}, "batch_size=1073741824: expected 128 to 16777216"),
        ({"linger_ms": 1, "linger.ms": 1}, "linger.ms=1: linger_ms was already given"),
        ({"transactional_id": ""}, "transactional_id='': expected a name"),
        ({"transactional_id": 5}, "transactional_id=5: expected a string"),
        ({"transaction_timeout_ms": 5}, "transaction_timeout_ms=5: has no effect without transactional_id"),
        ({"acks": 2}, "acks=2: expected all, 1 or 0"),
        ({"acks": True}, "acks=True"),
        ({"compression": "lzma"}, "compression='lzma': expected one of none, gzip, snappy, lz4, zstd"),
        ({"partitioner": "murmur2"}, "expected round_robin, or a function that takes a key and"),
        ({"client_id": 5}, "client_id=5: expected a string"),
        ({"client_id": b"me"}, "client_id=b'me': expected a string, not bytes"),
        ({"linger_ms": None}, "linger_ms=None: None is not allowed; leave the option out for the default, 5"),
        ({"acks": 1.0}, "acks=1.0: expected"),
        ({"acks": [1]}, "acks=.1.: expected"),
        ({"compression": 4}, "compression=4: expected one of none, gzip, snappy, lz4, zstd"),
        ({"compression": b"lz4"}, "compression=b'lz4': expected one of"),
        (
            {"bootstrap.servers": "b"},
            "bootstrap.servers='b': given twice: the first argument, 'a', already lists the servers$",
        ),
        (
            {"bootstrap_servers": "b"},
            "bootstrap_servers='b': given twice: the first argument, 'a', already lists the servers$",
        ),
        (
            {"batch_size": 4097, "max_request_size": 4096},
            r"batch_size=4097: expected at most max_request_size=4096; otherwise no request",
        ),
        (
            {"linger_ms": 100, "request_timeout_ms": 120_000, "delivery_timeout_ms": 120_000},
            r"delivery_timeout_ms=120000: expected at least linger_ms=100 \+ request_timeout_ms=120000; otherwise",
        ),
        (
            {"retry_backoff_ms": 1_001, "retry_backoff_max_ms": 1_000},
            r"retry_backoff_ms=1001: expected at most retry_backoff_max_ms=1000; otherwise",
        ),
    ],
)
def test_refused_by_a_producer(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_options(ProducerOptions, "a", given)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"auto_offset_reset": "smallest"}, "did you mean earliest"),
        ({"auto_offset_reset": timedelta(seconds=-1)}, "expected one of latest, earliest, none"),
        ({"auto_offset_reset": "by_duration:P"}, "expected one of latest, earliest, none"),
        ({"enable_auto_commit": "yes"}, "enable_auto_commit='yes': expected True or False"),
        ({"assignors": ()}, "expected one or more of range, roundrobin, sticky, cooperative-sticky"),
        ({"group_id": "g", "assignors": "rang"}, "assignors='rang': expected one or more of range, "),
        ({"group_id": "g", "assignors": 5}, "assignors=5: expected one or more of range, "),
        ({"group_id": "g", "assignors": OneForAll}, "or your own objects with a name and `assign`"),
        ({"group_id": "g", "assignors": [OneForAll(), OneForAll()]}, "expected assignors with different names"),
        ({"group_id": "g", "assignors": "range, range"}, "expected assignors with different names"),
        ({"group_id": ""}, "group_id='': expected a name; leave the option out to read without a group"),
        ({"group_id": "g", "group_instance_id": "a b"}, "group_instance_id='a b': expected 1 to 249 of the characters"),
        ({"group_id": "g", "group_instance_id": ".."}, r"group_instance_id='\.\.': expected 1 to 249"),
        ({"group_id": "g", "group_instance_id": "a" * 250}, "expected 1 to 249"),
        ({"group_id": "g", "group_instance_id": ""}, "expected 1 to 249"),
        ({"group_id": "g", "group_instance_id": 1}, "group_instance_id=1: expected a string"),
        ({"group_instance_id": "i"}, "group_instance_id='i': has no effect without group_id"),
        ({"session_timeout_ms": 10_000}, "session_timeout_ms=10000: has no effect without group_id"),
        ({"heartbeat.interval.ms": "7"}, "heartbeat_interval_ms=7: has no effect without group_id"),
        ({"max_poll_interval_ms": 10_000}, "max_poll_interval_ms=10000: has no effect without group_id"),
        ({"assignors": "range"}, "has no effect without group_id"),
        ({"auto_commit_interval_ms": 10}, "auto_commit_interval_ms=10: has no effect without group_id"),
        ({"enable_auto_commit": True}, "enable_auto_commit=True: has no effect without group_id"),
        ({"enable_auto_finish": False}, "enable_auto_finish=False: has no effect without group_id"),
        ({"group_protocol": "consumer"}, "group_protocol='consumer': has no effect without group_id"),
        ({"group_id": "g", "group_protocol": "new"}, "group_protocol='new': expected one of classic, consumer, auto"),
        (
            {"group_id": "g", "group_remote_assignor": "range"},
            'no effect with group_protocol="classic": members assign',
        ),
        (
            {"group_id": "g", "group_protocol": "consumer", "assignors": "range"},
            'has no effect with group_protocol="consumer": the brokers set it',
        ),
        (
            {"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 10_000},
            'session_timeout_ms=10000: has no effect with group_protocol="consumer"',
        ),
        (
            {"group_id": "g", "session_timeout_ms": 3_000, "heartbeat_interval_ms": 3_000},
            "heartbeat_interval_ms=3000: expected less than session_timeout_ms=3000; otherwise",
        ),
        (
            {"group_id": "g", "max_poll_interval_ms": 3_000, "heartbeat_interval_ms": 3_000},
            "heartbeat_interval_ms=3000: expected less than max_poll_interval_ms=3000; otherwise",
        ),
        (
            {"max_frame_bytes": 2**20, "fetch_max_bytes": 2**21},
            "fetch_max_bytes=2097152: expected at most max_frame_bytes=1048576; otherwise",
        ),
        (
            {"bootstrap_servers": "b:1"},
            "bootstrap_servers='b:1': given twice: the first argument, 'a', already lists the servers; topics",
        ),
        ({"group_id": 5}, "group_id=5: expected a string"),
        (
            {"group_id": "g", "offsets_storage": "kafka"},
            "offsets_storage='kafka': has no effect without group_protocol=\"z",
        ),
        ({"group_id": "g", "dual.commit.enabled": "false"}, "dual_commit_enabled=False: has no effect without"),
        (
            {"zookeeper_session_timeout_ms": 5},
            'zookeeper_session_timeout_ms=5: has no effect without group_protocol="z',
        ),
        ({"group_id": "g", "zookeeper_connect": "a:1"}, "zookeeper_connect='a:1': has no effect without"),
        ({"group_id": "g", "zookeeper_connect": "a"}, "zookeeper_connect='a': expected host:port, got 'a'"),
        ({"group_id": "g", "zookeeper.connect": "a:1/b/"}, "zookeeper.connect='a:1/b/': the chroot '/b/'"),
        ({"zookeeper_connect": 5}, "zookeeper_connect=5: expected a string"),
        ({"group_protocol": "zookeeper"}, "group_protocol='zookeeper': has no effect without group_id"),
        (
            {"group_id": "g", "group_protocol": "zookeeper"},
            'zookeeper_connect=None: required with group_protocol="zookeeper"',
        ),
        ({**IN_ZOOKEEPER, "offsets_storage": "both"}, "offsets_storage='both': expected one of zookeeper, kafka"),
        ({**IN_ZOOKEEPER, "dual_commit_enabled": 1}, "dual_commit_enabled=1: expected True, False or None"),
        ({**IN_ZOOKEEPER, "session_timeout_ms": 9_000}, "session_timeout_ms=9000: .* use zookeeper_session_timeout_ms"),
        ({**IN_ZOOKEEPER, "heartbeat_interval_ms": 9}, "heartbeat_interval_ms=9: .* replaces heartbeats"),
        ({**IN_ZOOKEEPER, "group_instance_id": "i"}, "group_instance_id='i': .* such a group has no static members"),
        ({**IN_ZOOKEEPER, "group_remote_assignor": "a"}, "group_remote_assignor='a': .*see assignors"),
        ({**IN_ZOOKEEPER, "assignors": "sticky"}, 'expected one of "range" and "roundrobin"'),
        ({**IN_ZOOKEEPER, "assignors": "range,roundrobin"}, 'expected one of "range" and "roundrobin"'),
        ({**IN_ZOOKEEPER, "assignors": OneForAll()}, 'expected one of "range" and "roundrobin"'),
    ],
)
def test_refused_by_a_consumer(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_options(ConsumerOptions, "a", given)


@pytest.mark.parametrize(
    ("given", "stores"),
    [
        ({}, {"zookeeper"}),
        ({"dual_commit_enabled": True}, {"zookeeper", "kafka"}),
        ({"dual.commit.enabled": "false"}, {"zookeeper"}),
        ({"offsets_storage": "kafka"}, {"zookeeper", "kafka"}),
        ({"offsets_storage": "kafka", "dual_commit_enabled": None}, {"zookeeper", "kafka"}),
        ({"offsets.storage": "kafka", "dual_commit_enabled": False}, {"kafka"}),
    ],
)
def test_stores_of_a_group_in_zookeeper(given: dict[str, object], stores: set[str]) -> None:
    options = read_options(ConsumerOptions, "a", {**IN_ZOOKEEPER, **given})
    assert options.commits_to == stores
    assert options.zookeeper_assignor == "range"


def test_options_of_a_group_in_zookeeper() -> None:
    assert read_options(ConsumerOptions, "a", {"group_id": "g"}).commits_to == {"kafka"}
    given = {
        **IN_ZOOKEEPER,
        "assignors": ["roundrobin"],
        "group_instance_id": None,
        "zookeeper_connect": " a:1 , b:2/c",
    }
    options = read_options(ConsumerOptions, "a", given)
    assert options.zookeeper_assignor == "roundrobin"
    assert options.zookeeper_session_timeout_ms == 6_000


def test_consumer_assignors() -> None:
    options = read_options(ConsumerOptions, "a", {"group_id": "g", "partition.assignment.strategy": "range, sticky"})
    assert options.assignors == ("range", "sticky")
    own = OneForAll()
    assert read_options(ConsumerOptions, "a", {"group_id": "g", "assignors": own}).assignors == (own,)
    assert read_options(ConsumerOptions, "a", {"group_id": "g", "assignors": [own, "range"]}).assignors == (
        own,
        "range",
    )
    every = read_options(ConsumerOptions, "a", {"group_id": "g", "assignors": list(ASSIGNOR_NAMES)})
    assert every.assignors == ASSIGNOR_NAMES


def test_a_consumer_without_a_group_may_say_that_it_does_not_commit() -> None:
    given = {"group_id": None, "group_instance_id": None, "enable_auto_commit": False}
    assert not read_options(ConsumerOptions, "a", given).enable_auto_commit


def test_servers_of_the_wrong_type() -> None:
    settings = {"bootstrap.servers": "a", "sasl.password": "hush"}
    for given in ({}, {"bootstrap_servers": "b"}):
        with pytest.raises(ConfigurationError, match="bootstrap_servers=") as caught:
            read_options(ProducerOptions, settings, given)
        assert "hush" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"options are keyword arguments: pass the mapping as \*\*options"):
        read_options(ProducerOptions, settings, {})
    for servers in (b"a:1", [b"a:1"]):
        with pytest.raises(ConfigurationError, match=r"expected (host:port|strings of the form)"):
            read_options(ProducerOptions, servers, {})  # type: ignore[arg-type]  # as in a program without a type checker
    assert read_options(ProducerOptions, ["a:9092"], {}).bootstrap_servers == (("a", 9092),)


def test_defaults_go_together() -> None:
    for kind in CLIENTS.values():
        required = {"group_id": "g"} if kind is ShareConsumerOptions else {}
        assert vars(read_options(kind, "a", required)).keys() == kind.OPTIONS.keys()


def test_bootstrap_servers_may_stand_among_the_options() -> None:
    options = read_options(AdminOptions, None, {"bootstrap.servers": ["a:1"]})
    assert options.bootstrap_servers == (("a", 1),)


@pytest.mark.parametrize("given", [{}, {"bootstrap_servers": ""}, {"bootstrap_servers": 9092}])
def test_without_a_broker_to_ask(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers="):
        read_options(AdminOptions, None, given)


def test_every_dotted_name_is_an_option_and_nearly_every_option_has_one() -> None:
    for kind, ours in (
        (ProducerOptions, {"topic_timeout_ms"}),
        (ConsumerOptions, {"enable_auto_finish"}),
        (ShareConsumerOptions, {"max_unacknowledged_records"}),
    ):
        assert kind.OPTIONS.keys() - set(kind.KAFKA_NAMES.values()) - ours == {
            "io",  # only in this library
            "max_frame_bytes",  # a separate limit
            "metrics_report_interval_ms",
            "metrics_reporter",  # a function; in Kafka, metric.reporters are classes
            "sasl_aws_region",  # for Amazon's mechanism
            "sasl_oauthbearer_extensions",  # in Kafka, parts of sasl.jaas.config
            "sasl_oauthbearer_token",
            "sasl_scram_tokenauth",
            "ssl_context",  # Python's own
        }


@pytest.mark.parametrize(
    ("kind", "given", "yielding"),
    [
        (ProducerOptions, {"delivery_timeout_ms": 8_000}, {"request_timeout_ms": 7_995}),
        (ProducerOptions, {"request_timeout_ms": 150_000}, {"delivery_timeout_ms": 150_005}),
        (ProducerOptions, {"linger_ms": 100_000}, {"delivery_timeout_ms": 130_000}),
        (ProducerOptions, {"max_request_size": 1024}, {"batch_size": 1024}),
        (ProducerOptions, {"batch_size": 2**21}, {"max_request_size": 2**21}),
        (AdminOptions, {"retry_backoff_ms": 5_000}, {"retry_backoff_max_ms": 5_000}),
        (AdminOptions, {"retry_backoff_max_ms": 50}, {"retry_backoff_ms": 50}),
        (ConsumerOptions, {"group_id": "g", "session_timeout_ms": 3_000}, {"heartbeat_interval_ms": 1_000}),
        (ConsumerOptions, {"group_id": "g", "max_poll_interval_ms": 1_500}, {"heartbeat_interval_ms": 500}),
        (ConsumerOptions, {"group_id": "g", "heartbeat_interval_ms": 50_000}, {"session_timeout_ms": 150_000}),
    ],
)
def test_an_option_that_was_not_given_yields(
    kind: type[ClientOptions], given: dict[str, object], yielding: dict[str, object]
) -> None:
    expected = {**vars(read_options(kind, "a:1", {})), **given, **yielding}
    assert vars(read_options(kind, "a:1", given)) == expected


@pytest.mark.parametrize("codec", Compression)
def test_levels_of_compression(codec: Compression) -> None:
    """Each option accepts exactly the levels that its codec supports."""
    name, kind = codec.name.lower(), f"compression.{codec.name.lower()}.level"
    if codec in (Compression.NONE, Compression.SNAPPY):
        with pytest.raises(ConfigurationError, match="no such option"):
            read_options(ProducerOptions, "a:1", {kind: 1})
        return
    module = import_module(f"kafkawire.sdk.records.compression.{name}")
    low, high = module.LEVELS
    for level in (low, high, *([] if module.DEFAULT_LEVEL is None else [module.DEFAULT_LEVEL])):
        options = read_options(ProducerOptions, "a:1", {"compression.type": name, kind: str(level)})
        assert options.compression_level == level
    for level in (low - 1, high + 1) if low - 1 != module.DEFAULT_LEVEL else (low - 1 - 1, 0, high + 1):
        with pytest.raises(ConfigurationError, match=rf"^{kind}={level}: expected {low} to {high}"):
            read_options(ProducerOptions, "a:1", {"compression.type": name, kind: level})
    with pytest.raises(
        ConfigurationError, match=rf'^compression_{name}_level={high}: has no effect with compression="n'
    ):
        read_options(ProducerOptions, "a:1", {f"compression_{name}_level": high})
    assert read_options(ProducerOptions, "a:1", {"compression": name}).compression_level is None


@pytest.mark.parametrize(
    ("topic_timeout_ms", "limit"),
    [
        (None, ("delivery_timeout_ms", 50_000)),
        (49_999, ("topic_timeout_ms", 49_999)),
        (50_000, ("delivery_timeout_ms", 50_000)),
        (50_001, ("delivery_timeout_ms", 50_000)),
    ],
)
def test_a_record_waits_for_its_topic_by_the_shorter_limit(
    topic_timeout_ms: int | None, limit: tuple[str, int]
) -> None:
    given = {"delivery_timeout_ms": 50_000, "topic_timeout_ms": topic_timeout_ms, "metadata_max_idle_ms": 60_000}
    assert read_options(ProducerOptions, "a:1", given).topic_limit == limit
