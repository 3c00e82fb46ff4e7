"""The options of producers, consumers, share consumers and admins: names, defaults, ranges, and the rules between them.

Options are snake_case keywords; the dotted names from Kafka's documentation are accepted too. The error for an unknown
name gives the option's name in kafkawire; the error for a value out of range states the limit. A default yields to
options that were given; two given options that contradict each other are rejected. Most defaults are Kafka's;
docs/guide/migrating.md lists the exceptions, and docs/howto/add-an-option.md shows how to add an option.

Source: Apache Kafka, `CommonClientConfigs`, `ProducerConfig`, `ConsumerConfig`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeVar

from kafkawire.sdk.client.option_values import (
    ACKS,
    ASSIGNOR_NAMES,
    COMPRESSIONS,
    ISOLATION_LEVELS,
    RESET_POLICIES,
    check_protocols,
    name_or_none,
    read_acks,
    read_assignors,
    read_bootstrap_servers,
    read_compression,
    read_group_id,
    read_group_instance_id,
    read_isolation_level,
    read_metrics_reporter,
    read_optional_flag,
    read_partitioner,
    read_reset_policy,
    read_wire_text,
    read_zookeeper_connect,
)
from kafkawire.sdk.client.partitioner import ROUND_ROBIN, Partitioner
from kafkawire.sdk.client.security_options import SecurityOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.assignor import Assignor
from kafkawire.sdk.metrics.names import MetricsReporter
from kafkawire.sdk.options import (
    INT32_MAX,
    REQUIRED,
    Option,
    Order,
    choice,
    flag,
    literal,
    number,
    option,
    parse_boolean,
    parse_integer,
)
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.protocol.tables.enums import Acks, IsolationLevel
from kafkawire.sdk.records import Compression
from kafkawire.sdk.registry.security_options import ZooKeeperSecurityOptions
from kafkawire.sdk.routing.topics import LEGAL_NAME
from kafkawire.sdk.transport.wire import Address

__all__ = [
    "ASSIGNOR_NAMES",
    "CLIENTS",
    "AdminOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "ShareConsumerOptions",
    "read_options",
]


class ClientOptions(SecurityOptions):
    """The options of every client, in addition to those of `SecurityOptions`.

    Attributes:
        bootstrap_servers: the brokers to connect to first, as `host:port,host:port`.
        client_id: the name of this client in the brokers' logs and quotas.
        request_timeout_ms: how long to wait for a response.
        connect_timeout_ms: how long to wait for a connection, including TLS, version negotiation and login; each
            response to the last two is also limited by `request_timeout_ms`.
        api_timeout_ms: how long a call may take, including retries.
        retry_backoff_ms: pause before the first retry; it doubles with each retry, up to `retry_backoff_max_ms`.
        retry_backoff_max_ms: longest pause between retries.
        metadata_max_age_ms: age at which the metadata is refreshed.
        connections_max_idle_ms: idle time after which a connection is closed.
        socket_keepalive_enable: whether the kernel probes a connection that receives nothing, such as one waiting for
            records of a quiet topic: first after 60 s, then three times within 30 s, on systems that let a program set
            these times.
        max_frame_bytes: size of the largest response that is accepted.
        io: where the client does its I/O: "loop", the event loop that starts it, or "thread", a separate thread, which
            keeps running while the event loop is blocked.
        enable_metrics_push: whether to push metrics to the brokers when the cluster's operators ask for them (KIP-714);
            most operators do not.
        metrics_reporter: a function called with the client's metrics, a mapping from `MetricName` to a number, every
            `metrics_report_interval_ms` and on close, on the I/O thread. None for no reports.
        metrics_report_interval_ms: time between two calls to `metrics_reporter`.
    """

    bootstrap_servers: tuple[Address, ...] = option(
        REQUIRED, read_bootstrap_servers, "str | Iterable[str]", kafka="bootstrap.servers"
    )
    client_id: str = option("kafkawire", read_wire_text, "str", kafka="client.id")
    request_timeout_ms: int = number(30_000, 1, kafka="request.timeout.ms")
    connect_timeout_ms: int = number(10_000, 1, kafka="socket.connection.setup.timeout.ms")
    api_timeout_ms: int = number(60_000, 1, kafka="default.api.timeout.ms")
    retry_backoff_ms: int = number(100, 0, kafka="retry.backoff.ms")
    retry_backoff_max_ms: int = number(1_000, 0, kafka="retry.backoff.max.ms")
    metadata_max_age_ms: int = number(300_000, 100, kafka="metadata.max.age.ms")
    connections_max_idle_ms: int = number(540_000, 1, kafka="connections.max.idle.ms")
    socket_keepalive_enable: bool = flag(True, kafka="socket.keepalive.enable")
    max_frame_bytes: int = number(MAX_FRAME_BYTES, 1024)
    io: str = choice("loop", "loop", "thread")
    enable_metrics_push: bool = flag(True, kafka="enable.metrics.push")
    metrics_reporter: MetricsReporter | None = option(None, read_metrics_reporter, "MetricsReporter | None")
    metrics_report_interval_ms: int = number(30_000, 100)

    #: The kind of client, as in the names of its metrics.
    KIND: ClassVar[str] = "admin-client"

    ORDERS: ClassVar[tuple[Order, ...]] = (
        Order("retry_backoff_ms", "retry_backoff_max_ms", "every pause would be the maximum"),
    )

    def check(self, given: Collection[str]) -> None:
        super().check(given)
        check_protocols(self.bootstrap_servers, self.security_protocol)

    @classmethod
    def unknown(cls, name: str) -> str:
        from kafkawire.sdk.client.option_hints import hint  # only needed for an error

        return hint(name, cls, CLIENTS) or super().unknown(name)


class AdminOptions(ClientOptions):
    """The options of an admin."""


class ProducerOptions(ClientOptions):
    """The options of a producer.

    Attributes:
        acks: which replicas must have stored a record before it is acknowledged: "all" for all in-sync replicas, 1 for
            the leader, 0 for none.
        linger_ms: how long a batch that is not full waits for more records.
        batch_size: size in bytes, before compression, of a full batch; Kafka's own default is 16 KiB.
        buffer_memory: limit on the size in bytes of all unacknowledged records; above it, `send` raises `BufferFull`.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        compression_gzip_level: the gzip level, from 1, the fastest, to 9; -1 or None for 6. Each level is accepted only
            with its own codec.
        compression_lz4_level: the lz4 level, from 1 to 17; None for the fastest.
        compression_zstd_level: the zstd level, from -131072, the fastest, to 22; None for 3.
        max_request_size: size of the largest record batch, in bytes.
        retries: how many times a batch may be retried, within `delivery_timeout_ms`.
        delivery_timeout_ms: longest time from `send` to the acknowledgement; must be at least the sum of `linger_ms`
            and `request_timeout_ms`.
        topic_timeout_ms: how long records wait for a topic that no broker knows, because it is still being created or
            its name is wrong; None for `delivery_timeout_ms`. Records wait at most 10 s for a partition that the topic
            does not have.
        max_in_flight: limit on the produce requests in flight per connection. If it is above 1, a batch that is retried
            without idempotence may be stored after a later batch of the same partition.
        enable_idempotence: True to store each record once and in order despite retries, and to fail where that is
            impossible; None for idempotence unless another option or the cluster rules it out; False for no
            idempotence.
        transactional_id: a name for this producer's transactions that stays the same across restarts: a new producer
            fences older ones with the same id. None to send without transactions.
        transaction_timeout_ms: time after which the coordinator aborts a transaction that is still open; the brokers
            limit it with `transaction.max.timeout.ms`.
        metadata_max_idle_ms: time without a record for a topic after which its metadata is dropped.
        partitioner: chooses the partition of each record that has a key; None for Kafka's own partitioner. Records
            without a key fill one batch after another. "round_robin" puts each record, with or without a key, into the
            next partition that has a leader.
    """

    acks: int = option(Acks.ALL, read_acks, literal(*ACKS), kafka="acks", parse=parse_integer)
    linger_ms: int = number(5, 0, kafka="linger.ms")
    batch_size: int = number(128 * 1024, 128, 16 * 1024 * 1024, kafka="batch.size")
    buffer_memory: int = number(32 * 1024 * 1024, 1024, 2**62, kafka="buffer.memory")
    compression: Compression = option(
        Compression.NONE, read_compression, f"Compression | {literal(*COMPRESSIONS)}", kafka="compression.type"
    )
    compression_gzip_level: int | None = number(None, 1, 9, also=-1, kafka="compression.gzip.level")
    compression_lz4_level: int | None = number(None, 1, 17, kafka="compression.lz4.level")
    compression_zstd_level: int | None = number(None, -131_072, 22, kafka="compression.zstd.level")
    max_request_size: int = number(1024 * 1024, 1024, kafka="max.request.size")
    retries: int = number(INT32_MAX, 0, kafka="retries")
    delivery_timeout_ms: int = number(120_000, 1, kafka="delivery.timeout.ms")
    topic_timeout_ms: int | None = number(None, 1)
    max_in_flight: int = number(5, 1, 1000, kafka="max.in.flight.requests.per.connection")
    enable_idempotence: bool | None = option(
        None, read_optional_flag, "bool | None", kafka="enable.idempotence", parse=parse_boolean
    )
    transactional_id: str | None = option(
        None, name_or_none("send without transactions"), "str | None", kafka="transactional.id", limits="not empty"
    )
    transaction_timeout_ms: int = number(60_000, 1, kafka="transaction.timeout.ms")
    metadata_max_idle_ms: int = number(300_000, 5_000, kafka="metadata.max.idle.ms")
    partitioner: Partitioner | Literal["round_robin"] | None = option(
        None, read_partitioner, f"Partitioner | {literal(ROUND_ROBIN)} | None", kafka="partitioner.class"
    )

    KIND: ClassVar[str] = "producer"

    ALIASES: ClassVar[Mapping[str, str]] = {**ClientOptions.ALIASES, "message.timeout.ms": "delivery_timeout_ms"}

    @property
    def compression_level(self) -> int | None:
        """The level of `compression`; None for the codec's default."""
        level: int | None = vars(self).get(_level_name(self.compression))
        return level

    ORDERS: ClassVar[tuple[Order, ...]] = (
        *ClientOptions.ORDERS,
        Order("batch_size", "max_request_size", "no request could carry a full batch"),
        Order(  # as in Apache Kafka
            "linger_ms",
            "delivery_timeout_ms",
            "a record could time out during its first attempt",
            plus=("request_timeout_ms",),
        ),
    )

    @property
    def topic_limit(self) -> tuple[str, int]:
        """The option that limits how long a record waits for its topic, and that limit in ms."""
        limit_ms = self.topic_timeout_ms
        if limit_ms is None or limit_ms >= self.delivery_timeout_ms:
            return "delivery_timeout_ms", self.delivery_timeout_ms
        return "topic_timeout_ms", limit_ms

    def check(self, given: Collection[str]) -> None:
        super().check(given)
        for codec in Compression:
            level = vars(self).get(_level_name(codec))
            if level is not None and codec is not self.compression:
                reason = f'has no effect with compression="{self.compression.name.lower()}"'
                raise ConfigurationError(_level_name(codec), level, reason)
        if self.transactional_id is None and "transaction_timeout_ms" in given:
            reason = "has no effect without transactional_id"
            raise ConfigurationError("transaction_timeout_ms", self.transaction_timeout_ms, reason)


def _level_name(codec: Compression) -> str:
    return f"compression_{codec.name.lower()}_level"


#: The number of heartbeats per session timeout, as Kafka advises: two may be lost.
_HEARTBEATS: Final = 3


class ConsumerOptions(ClientOptions, ZooKeeperSecurityOptions):
    """The options of a consumer.

    Attributes:
        group_id: the group that assigns the partitions and stores the offsets; None to read without a group.
        group_protocol: "classic"; "consumer" (KIP-848), in which the coordinator assigns the partitions; "auto", which
            is "consumer" if the coordinator offers it and "classic" otherwise; or "zookeeper", in which members find
            each other through ZooKeeper, as with the consumer of Kafka 1.1 and older.
        zookeeper_connect: the ZooKeeper servers for `group_protocol="zookeeper"`, as `host:port,host:port/chroot`;
            needs the extra `zookeeper`.
        zookeeper_session_timeout_ms: time without a connection to ZooKeeper after which other members take over this
            member's partitions; this member stops reading after a third of it. The servers limit the value.
        offsets_storage: where a group in ZooKeeper keeps its offsets: "zookeeper" or "kafka".
        dual_commit_enabled: whether to commit offsets to both stores and use the larger one, while the members of a
            group change `offsets_storage` one at a time; None for True with `offsets_storage="kafka"`, as in Kafka.
        group_remote_assignor: the assignor that the coordinator should use; None for the coordinator's default. Not
            allowed with `group_protocol="classic"`.
        group_instance_id: an id that survives restarts, for static membership; None for dynamic membership.
        auto_offset_reset: where to start if there is no committed offset: "latest", "earliest", "none" to raise an
            error, or a duration, as a timedelta or as text such as "by_duration:P7DT12H", to start that long ago; a
            duration is kept in milliseconds.
        enable_auto_commit: whether to commit finished records every `auto_commit_interval_ms`, on rebalances and on
            close.
        auto_commit_interval_ms: time between automatic commits.
        enable_auto_finish: whether a record is finished when the application requests the next one. If False, the
            application finishes records with `finish`, in any order; the offset of the first unfinished record is
            committed.
        assignors: the assignors that this member supports, in order of preference, as names or as your own `Assignor`s.
            With `group_protocol="zookeeper"`, the one assignor that all members use: "range", the default, or
            "roundrobin".
        session_timeout_ms: time without a heartbeat after which the coordinator removes the member.
        heartbeat_interval_ms: time between heartbeats.
        max_poll_interval_ms: longest time between two reads by the application; if it is exceeded, the member leaves
            its group.
        max_poll_records: limit on the records that one `getmany` returns; `getbatches` adds whole batches until they
            hold this many records, unless it is given a number of batches.
        fetch_min_bytes: a broker delays the response to a fetch until it has this many bytes or `fetch_max_wait_ms` has
            passed.
        fetch_max_wait_ms: longest time that a broker delays a fetch; the response may take another
            `request_timeout_ms`.
        fetch_max_bytes: limit on the size in bytes of one fetch, and of everything fetched ahead.
        max_partition_fetch_bytes: limit on the size in bytes of one partition's data in a fetch.
        check_crcs: whether to verify the checksums of batches.
        isolation_level: "read_committed" to read the records of a transaction only if it was committed, or
            "read_uncommitted" to read all records.
        client_rack: the rack of this consumer; it fetches from a replica in the same rack if the brokers allow that.
    """

    group_id: str | None = option(
        None, name_or_none("read without a group"), "str | None", kafka="group.id", limits="not empty"
    )
    group_protocol: str = choice("classic", "classic", "consumer", "auto", "zookeeper", kafka="group.protocol")
    zookeeper_connect: str | None = option(
        None, read_zookeeper_connect, "str | None", kafka="zookeeper.connect", limits="host:port,…/chroot"
    )
    zookeeper_session_timeout_ms: int = number(6_000, 1, kafka="zookeeper.session.timeout.ms")
    offsets_storage: str = choice("zookeeper", "zookeeper", "kafka", kafka="offsets.storage")
    dual_commit_enabled: bool | None = option(
        None, read_optional_flag, "bool | None", kafka="dual.commit.enabled", parse=parse_boolean
    )
    group_remote_assignor: str | None = option(None, read_wire_text, "str | None", kafka="group.remote.assignor")
    group_instance_id: str | None = option(
        None,
        read_group_instance_id,
        "str | None",
        kafka="group.instance.id",
        limits=LEGAL_NAME,
    )
    auto_offset_reset: str | int = option(
        "latest",
        read_reset_policy,
        f"{literal(*RESET_POLICIES)} | timedelta",
        kafka="auto.offset.reset",
        limits='in a mapping also "by_duration:…"',
    )
    enable_auto_commit: bool = flag(True, kafka="enable.auto.commit")
    auto_commit_interval_ms: int = number(5_000, 1, kafka="auto.commit.interval.ms")
    enable_auto_finish: bool = flag(True)
    assignors: tuple[str | Assignor, ...] = option(
        ("range", "cooperative-sticky"),
        read_assignors,
        "AssignorName | Assignor | Iterable[AssignorName | Assignor]",
        kafka="partition.assignment.strategy",
        limits=f"names {', '.join(ASSIGNOR_NAMES)}; in a mapping also one string, with commas",
    )
    session_timeout_ms: int = number(45_000, 1, kafka="session.timeout.ms")
    heartbeat_interval_ms: int = number(3_000, 1, kafka="heartbeat.interval.ms")
    max_poll_interval_ms: int = number(300_000, 1, kafka="max.poll.interval.ms")
    max_poll_records: int = number(500, 1, kafka="max.poll.records")
    fetch_min_bytes: int = number(1, 0, kafka="fetch.min.bytes")
    fetch_max_wait_ms: int = number(500, 0, kafka="fetch.max.wait.ms")
    fetch_max_bytes: int = number(50 * 1024 * 1024, 1, kafka="fetch.max.bytes")
    max_partition_fetch_bytes: int = number(1024 * 1024, 1, kafka="max.partition.fetch.bytes")
    check_crcs: bool = flag(True, kafka="check.crcs")
    isolation_level: IsolationLevel = option(
        IsolationLevel.READ_UNCOMMITTED,
        read_isolation_level,
        f"{literal(*ISOLATION_LEVELS)} | IsolationLevel",
        kafka="isolation.level",
    )
    client_rack: str = option("", read_wire_text, "str", kafka="client.rack")

    KIND: ClassVar[str] = "consumer"

    ORDERS: ClassVar[tuple[Order, ...]] = (
        *ClientOptions.ORDERS,
        Order("fetch_max_bytes", "max_frame_bytes", "a full response would be rejected"),
        Order(
            "heartbeat_interval_ms",
            "session_timeout_ms",
            "the coordinator would remove the member between two heartbeats",
            strict=True,
            times=_HEARTBEATS,
        ),
        Order(
            "heartbeat_interval_ms",
            "max_poll_interval_ms",
            "the member would learn of a rebalance only after it ends",  # members have max_poll_interval_ms to rejoin
            strict=True,
            times=_HEARTBEATS,
        ),
    )

    def check(self, given: Collection[str]) -> None:
        super().check(given)
        if self.group_id is None:
            for name in _GROUP_OPTIONS:
                value = getattr(self, name)
                # enable_auto_commit=False does not contradict this: without a group, nothing is committed anyway.
                is_refused = value is not None and not (name == "enable_auto_commit" and not value)
                if name in given and is_refused:
                    raise ConfigurationError(name, value, "has no effect without group_id")
        if self.group_protocol == "classic" and self.group_remote_assignor is not None:
            reason = 'has no effect with group_protocol="classic": members assign the partitions (see assignors)'
            raise ConfigurationError("group_remote_assignor", self.group_remote_assignor, reason)
        for name in _CLASSIC_OPTIONS if self.group_protocol == "consumer" else ():
            if name in given:
                reason = 'has no effect with group_protocol="consumer": the brokers set it'
                raise ConfigurationError(name, getattr(self, name), reason)
        _check_zookeeper(self, given)

    @property
    def commits_to(self) -> frozenset[str]:
        """The stores to which offsets are committed: "kafka", "zookeeper" or both."""
        if self.group_protocol != "zookeeper":
            return frozenset({"kafka"})
        is_dual = self.offsets_storage == "kafka" if self.dual_commit_enabled is None else self.dual_commit_enabled
        return frozenset({"kafka", "zookeeper"} if is_dual else {self.offsets_storage})

    @property
    def zookeeper_assignor(self) -> str:
        """The assignor of a member in ZooKeeper: the first one of `assignors`."""
        return str(self.assignors[0])


def _check_zookeeper(options: ConsumerOptions, given: Collection[str]) -> None:
    """Check the options that apply only to groups in ZooKeeper, and reject those that do not apply to such groups."""
    if options.group_protocol != "zookeeper":
        for name in _ZOOKEEPER_OPTIONS:
            value = getattr(options, name)
            if name in given and value is not None:
                raise ConfigurationError(name, value, 'has no effect without group_protocol="zookeeper"')
        return
    if options.zookeeper_connect is None:
        reason = 'required with group_protocol="zookeeper", in the form host:port,…/chroot'
        raise ConfigurationError("zookeeper_connect", None, reason)
    for name, advice in _NOT_IN_ZOOKEEPER.items():
        value = getattr(options, name)
        if name in given and value is not None:
            raise ConfigurationError(name, value, f'has no effect with group_protocol="zookeeper": {advice}')
    if "assignors" in given and options.assignors not in _ZOOKEEPER_ASSIGNORS:
        reason = 'expected one of "range" and "roundrobin" with group_protocol="zookeeper"'
        raise ConfigurationError("assignors", options.assignors, reason)


#: Options of group members and of clients that commit for a group.
_GROUP_OPTIONS: Final = (
    "group_protocol",
    "group_remote_assignor",
    "group_instance_id",
    "enable_auto_commit",
    "enable_auto_finish",
    "auto_commit_interval_ms",
    "assignors",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
)

#: Options of a group in ZooKeeper.
_ZOOKEEPER_OPTIONS: Final = (
    "zookeeper_connect",
    "zookeeper_session_timeout_ms",
    "offsets_storage",
    "dual_commit_enabled",
    *ZooKeeperSecurityOptions.OPTIONS,
)

#: Options that have no effect in a group in ZooKeeper, and why.
_NOT_IN_ZOOKEEPER: Final = {
    "group_remote_assignor": "members assign the partitions (see assignors)",
    "group_instance_id": "such a group has no static members",
    "session_timeout_ms": "use zookeeper_session_timeout_ms",
    "heartbeat_interval_ms": "the ZooKeeper session replaces heartbeats",
}

_ZOOKEEPER_ASSIGNORS: Final = (("range",), ("roundrobin",))

#: Options that have no effect in a KIP-848 group.
_CLASSIC_OPTIONS: Final = ("assignors", "session_timeout_ms", "heartbeat_interval_ms")


def _in_any_case(choice: Option) -> Any:
    """Accept the values of an option in upper case as well under Kafka's name, as Kafka does."""
    return choice._replace(parse=str.lower)


class ShareConsumerOptions(ClientOptions):
    """The options of a share consumer.

    Attributes:
        group_id: the share group, whose members share the records of its topics.
        share_acknowledgement_mode: "implicit" to accept records when the application reads again or commits;
            "explicit" if the application acknowledges each delivery.
        share_acquire_mode: "batch_optimized" to acquire whole batches, which may exceed `max_poll_records`;
            "record_limit" to acquire at most `max_poll_records` records at a time, from one broker at a time.
        max_unacknowledged_records: limit on the records that are acquired and not yet acknowledged, including those
            that the application has not read yet. At this limit, nothing is fetched until records are acknowledged or
            their locks run out. One fetch from each broker may exceed it.
        max_poll_interval_ms: longest time between two reads by the application; if it is exceeded, the member leaves
            its group.
        max_poll_records: limit on the records that one `getmany` returns and, roughly, on those that one fetch
            acquires.
        fetch_min_bytes: a broker delays the response to a fetch until it has this many bytes or `fetch_max_wait_ms` has
            passed.
        fetch_max_wait_ms: longest time that a broker delays a fetch; the response may take another
            `request_timeout_ms`. Acknowledgements wait for a fetch that is on its way.
        fetch_max_bytes: limit on the size in bytes of one fetch.
        check_crcs: whether to verify the checksums of batches.
        client_rack: the rack of this consumer, for assignors that use it.
    """

    group_id: str = option(REQUIRED, read_group_id, "str", kafka="group.id", limits="not empty")
    share_acknowledgement_mode: str = _in_any_case(
        choice("implicit", "implicit", "explicit", kafka="share.acknowledgement.mode")
    )
    share_acquire_mode: str = _in_any_case(
        choice("batch_optimized", "batch_optimized", "record_limit", kafka="share.acquire.mode")
    )
    max_unacknowledged_records: int = number(10_000, 1)
    max_poll_interval_ms: int = number(300_000, 1, kafka="max.poll.interval.ms")
    max_poll_records: int = number(500, 1, kafka="max.poll.records")
    fetch_min_bytes: int = number(1, 0, kafka="fetch.min.bytes")
    fetch_max_wait_ms: int = number(500, 0, kafka="fetch.max.wait.ms")
    fetch_max_bytes: int = number(50 * 1024 * 1024, 1, kafka="fetch.max.bytes")
    check_crcs: bool = flag(True, kafka="check.crcs")
    client_rack: str = option("", read_wire_text, "str", kafka="client.rack")

    KIND: ClassVar[str] = "share-consumer"

    ORDERS: ClassVar[tuple[Order, ...]] = (
        *ClientOptions.ORDERS,
        Order("fetch_max_bytes", "max_frame_bytes", "a full response would be rejected"),
    )


#: The options of each client.
CLIENTS: Final[Mapping[str, type[ClientOptions]]] = {
    "Producer": ProducerOptions,
    "Consumer": ConsumerOptions,
    "ShareConsumer": ShareConsumerOptions,
    "Admin": AdminOptions,
}


Kind = TypeVar("Kind", bound=ClientOptions)


def read_options(kind: type[Kind], servers: str | Iterable[str] | None, given: Mapping[str, object]) -> Kind:
    """Check the options of a client.

    Args:
        kind: the class of the client's options.
        servers: the client's first argument, the brokers to connect to first; None if they are in `given`.
        given: the values, keyed by name, dotted or not.

    Raises:
        ConfigurationError: a name is unknown or given twice, a value is out of range, or two values contradict each
            other.
    """
    if servers is None:
        return kind.read(given.items())
    for name in given.keys() & {"bootstrap_servers", "bootstrap.servers"}:
        topics = "; topics follow it" if kind in (ConsumerOptions, ShareConsumerOptions) else ""
        first = list(servers) if isinstance(servers, Mapping) else servers  # the values of a mapping may be secrets
        reason = f"given twice: the first argument, {first!r}, already lists the servers{topics}"
        raise ConfigurationError(name, given[name], reason)
    return kind.read((("bootstrap_servers", servers), *given.items()))
