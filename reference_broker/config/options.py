"""The options of a broker: names, defaults, ranges.

Options are snake_case keywords; the dotted names of Kafka's documentation are accepted too. The broker-wide defaults of
topic configurations (`log.segment.bytes`, …) are options like the others. Defaults are Kafka's, except for two that
suit a broker for tests: no initial rebalance delay, and session timeouts from 1 s; for two limits that Kafka does not
set: 10,000 connections, and 32 MiB for what they have not sent or read to its end; for two that suit a process of
little memory and a quick start: 32 MiB for the keys of a compaction, and segments of 16 MiB in the offsets topic; and
for the buffers of sockets, whose sizes are those that need least CPU here.

Source: Apache Kafka, `KafkaConfig`, `ServerLogConfigs`, `GroupCoordinatorConfig`, `SocketServerConfigs`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kafkawire.reference_broker.config.endpoints import SYSTEM_BUFFER, SocketBuffers
from kafkawire.reference_broker.config.topic_configs import TOPIC_CONFIGS, InvalidConfig, check_topic_config
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import (
    INT32_MAX,
    INT64_MAX,
    Option,
    Options,
    Order,
    choice,
    flag,
    literal,
    number,
    parse_integer,
    text,
)
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.protocol.tables.enums import ConfigType

__all__ = ["NO_LIMIT", "TOPIC_DEFAULTS", "BrokerOptions", "read_options"]

#: What stands for no limit where 0 cannot.
NO_LIMIT: Final = -1

_RETENTION: Final = "log.retention.ms"

#: Broker options that are defaults of topic configurations, by Kafka's dotted name.
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "compression.type": "compression.type",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    _RETENTION: "retention.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
}

#: How the values of topic configurations are written in Python; `log.cleanup.policy`, a list, is text.
_TYPES: Final[Mapping[ConfigType, str]] = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.DOUBLE: "float",
    ConfigType.INT: "int",
    ConfigType.LIST: "str",
    ConfigType.LONG: "int",
    ConfigType.STRING: "str",
}


def _own_name(dotted: str) -> str:
    return dotted.replace(".", "_")


def _topic_options() -> dict[str, Option]:
    """Return an option for each topic configuration that a broker has a default for; None leaves Kafka's."""
    return {_own_name(name): _topic_option(name, config) for name, config in TOPIC_DEFAULTS.items()}


def _topic_option(kafka_name: str, config: str) -> Option:
    def read(name: str, value: object) -> str:
        written = str(value).lower() if isinstance(value, bool) else str(value)
        if kafka_name == _RETENTION:
            written = _retention(name, value, written)
        try:
            return check_topic_config(config, written)
        except InvalidConfig as error:
            raise ConfigurationError(name, value, str(error)) from None

    known = TOPIC_CONFIGS[config]
    accepts = literal(*known.choices) if known.choices else _TYPES[known.type]
    return Option(None, read, kafka_name, accepts=accepts)


def _retention(name: str, value: object, written: str) -> str:
    """Return a time of retention as a topic may have it; to a broker any negative one means no limit, and 0 is refused.

    A topic may keep nothing; a broker that did would lose the records of every topic that does not say otherwise.
    """
    count = parse_integer(written)
    if count == 0:
        raise ConfigurationError(name, value, "expected 1 or more, or -1 for no limit")
    return str(max(count, -1)) if isinstance(count, int) else written


class BrokerOptions(Options, from_text=True, more=_topic_options()):
    """The options of a broker.

    Attributes:
        node_id: the id of this broker.
        advertised_host: the host that clients are told to connect to; empty for the one it listens on.
        num_partitions: partitions of a topic created without a number.
        auto_create_topics: whether asking for a missing topic creates it.
        offsets_topic_num_partitions: partitions of `__consumer_offsets`, fixed when it is created.
        offsets_topic_segment_bytes: size of its segments; the last one is never compacted, and read at every start.
        offset_metadata_max_bytes: longest metadata of a committed offset.
        offsets_retention_minutes: how long the offsets of a group without members are kept.
        offsets_retention_check_interval_ms: how often expired offsets and empty groups are looked for.
        group_min_session_timeout_ms: shortest session timeout of a group member.
        group_max_session_timeout_ms: longest session timeout of a group member.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first.
        group_max_size: most members of a group.
        producer_id_expiration_ms: a log forgets an idempotent producer that has been idle for this long.
        transaction_partition_verification_enable: whether the transaction coordinator is asked before a transaction
            of an older client begins in a partition; for clients of Produce 12 and later it always is (KIP-890).
        group_consumer_session_timeout_ms: how long a member of a KIP-848 group may go without a heartbeat.
        group_consumer_heartbeat_interval_ms: how often a member of a KIP-848 group is told to send a heartbeat.
        group_consumer_max_session_timeout_ms: upper limit of that session timeout.
        group_consumer_max_heartbeat_interval_ms: upper limit of that heartbeat interval.
        group_consumer_max_size: most members of a KIP-848 group.
        group_consumer_migration_policy: whether a group with members changes from the classic protocol to KIP-848, back
            from it, or both.
        group_consumer_assignment_interval_ms: how long changes of a KIP-848 group are gathered after an assignment.
        group_consumer_max_assignment_interval_ms: upper limit of that time.
        group_consumer_regex_refresh_interval_ms: how long the topics that were found for a regular expression of a
            KIP-848 group hold, unless a topic comes: it is found ten seconds after them at the latest.
        transaction_state_log_num_partitions: partitions of `__transaction_state`, fixed when it is created.
        transaction_max_timeout_ms: longest time for which a producer may ask to keep a transaction open.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: how often transactions that are open for too long
            are looked for and aborted.
        transactional_id_expiration_ms: how long an unused transactional id is kept.
        transaction_remove_expired_transaction_cleanup_interval_ms: how often such ids are looked for.
        add_partitions_to_txn_retry_backoff_ms: pause before a partition is again added to a transaction while the
            producer's transaction before is still completing.
        add_partitions_to_txn_retry_backoff_max_ms: how long that goes on before the client has to try again.
        log_cleaner_enable: whether compacted topics are compacted.
        log_cleaner_backoff_ms: how often logs are looked at for what may be compacted.
        log_cleaner_dedupe_buffer_size: memory for the keys of a log while it is compacted; if they do not fit, it takes
            several rounds.
        log_initial_task_delay_ms: how long after the start logs are first looked at for segments that may be removed.
        log_retention_check_interval_ms: how often that follows.
        fetch_max_bytes: most bytes in one fetch response, whatever the client asks for.
        max_incremental_fetch_session_cache_slots: most fetch sessions (KIP-227); 0 for none.
        listeners: where to listen, as `INTERNAL://:9093,EXTERNAL://0.0.0.0:9092`; empty for the one address that the
            broker is started with.
        advertised_listeners: where the clients of each listener are told to connect to, in the same form; a listener
            that is left out is advertised as it is.
        listener_security_protocol_map: the protocol of each listener; only PLAINTEXT is supported.
        socket_send_buffer_bytes: what the system may hold of the responses of a connection, which also bounds what is
            on its way to a distant client; -1 for what the system thinks best, with more CPU for large fetches.
        socket_receive_buffer_bytes: the same for requests.
        max_frame_bytes: largest request, and largest response of an API that is not Kafka's.
        queued_max_request_bytes: memory for unfinished requests and unsent responses of all connections together. Large
            requests beyond it wait; one may exceed it. -1 for no limit.
        max_connections: most clients at once; further connections are refused.
        max_connections_per_ip: most clients at once from the same address.
        max_connections_per_ip_overrides: the same for single addresses, as `10.0.0.7:100,client.example.com:5`.
        connections_max_idle_ms: a connection on which nothing moves for this long is closed, unless the broker owes it
            a response; -1 for never.
        memory_disk_bytes: what a broker without files may hold; beyond that its disk is full.
        event_loop: what runs the broker; uvloop must be installed.
    """

    node_id: int = number(1, 0, kafka="node.id")
    advertised_host: str = text("")
    num_partitions: int = number(1, 1, kafka="num.partitions")
    auto_create_topics: bool = flag(True, kafka="auto.create.topics.enable")
    offsets_topic_num_partitions: int = number(50, 1, kafka="offsets.topic.num.partitions")
    offsets_topic_segment_bytes: int = number(16 * 1024 * 1024, 1024 * 1024, kafka="offsets.topic.segment.bytes")
    offset_metadata_max_bytes: int = number(4096, 0, kafka="offset.metadata.max.bytes")
    offsets_retention_minutes: int = number(10_080, 1, kafka="offsets.retention.minutes")
    offsets_retention_check_interval_ms: int = number(
        600_000, 1, INT64_MAX, kafka="offsets.retention.check.interval.ms"
    )
    group_min_session_timeout_ms: int = number(1_000, 0, kafka="group.min.session.timeout.ms")
    group_max_session_timeout_ms: int = number(1_800_000, 0, kafka="group.max.session.timeout.ms")
    group_initial_rebalance_delay_ms: int = number(0, 0, kafka="group.initial.rebalance.delay.ms")
    group_max_size: int = number(INT32_MAX, 1, kafka="group.max.size")
    producer_id_expiration_ms: int = number(86_400_000, 1, kafka="producer.id.expiration.ms")
    transaction_partition_verification_enable: bool = flag(True, kafka="transaction.partition.verification.enable")
    group_consumer_session_timeout_ms: int = number(45_000, 1, kafka="group.consumer.session.timeout.ms")
    group_consumer_heartbeat_interval_ms: int = number(5_000, 1, kafka="group.consumer.heartbeat.interval.ms")
    group_consumer_max_session_timeout_ms: int = number(60_000, 1, kafka="group.consumer.max.session.timeout.ms")
    group_consumer_max_heartbeat_interval_ms: int = number(15_000, 1, kafka="group.consumer.max.heartbeat.interval.ms")
    group_consumer_max_size: int = number(INT32_MAX, 1, kafka="group.consumer.max.size")
    group_consumer_migration_policy: str = choice(
        "bidirectional", "disabled", "upgrade", "downgrade", "bidirectional", kafka="group.consumer.migration.policy"
    )._replace(parse=str.lower)
    group_consumer_assignment_interval_ms: int = number(1_000, 0, kafka="group.consumer.assignment.interval.ms")
    group_consumer_max_assignment_interval_ms: int = number(
        15_000, 0, kafka="group.consumer.max.assignment.interval.ms"
    )
    group_consumer_regex_refresh_interval_ms: int = number(
        600_000, 10_000, kafka="group.consumer.regex.refresh.interval.ms"
    )
    transaction_state_log_num_partitions: int = number(50, 1, kafka="transaction.state.log.num.partitions")
    transaction_max_timeout_ms: int = number(900_000, 1, kafka="transaction.max.timeout.ms")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = number(
        10_000, 1, kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    transactional_id_expiration_ms: int = number(604_800_000, 1, kafka="transactional.id.expiration.ms")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = number(
        3_600_000, 1, kafka="transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    add_partitions_to_txn_retry_backoff_ms: int = number(20, 1, kafka="add.partitions.to.txn.retry.backoff.ms")
    add_partitions_to_txn_retry_backoff_max_ms: int = number(100, 0, kafka="add.partitions.to.txn.retry.backoff.max.ms")
    log_cleaner_enable: bool = flag(True, kafka="log.cleaner.enable")
    log_cleaner_backoff_ms: int = number(15_000, 0, INT64_MAX, kafka="log.cleaner.backoff.ms")
    log_cleaner_dedupe_buffer_size: int = number(
        32 * 1024 * 1024, 1024 * 1024 + 1, INT64_MAX, kafka="log.cleaner.dedupe.buffer.size"
    )
    log_initial_task_delay_ms: int = number(30_000, 0, INT64_MAX, kafka="log.initial.task.delay.ms")
    log_retention_check_interval_ms: int = number(300_000, 1, INT64_MAX, kafka="log.retention.check.interval.ms")
    fetch_max_bytes: int = number(55 * 1024 * 1024, 1024, kafka="fetch.max.bytes")
    max_incremental_fetch_session_cache_slots: int = number(1_000, 0, kafka="max.incremental.fetch.session.cache.slots")
    listeners: str = text("", kafka="listeners")
    advertised_listeners: str = text("", kafka="advertised.listeners")
    listener_security_protocol_map: str = text("", kafka="listener.security.protocol.map")
    socket_send_buffer_bytes: int = number(262_144, SYSTEM_BUFFER, kafka="socket.send.buffer.bytes")
    socket_receive_buffer_bytes: int = number(SYSTEM_BUFFER, SYSTEM_BUFFER, kafka="socket.receive.buffer.bytes")
    max_frame_bytes: int = number(MAX_FRAME_BYTES, 1, kafka="socket.request.max.bytes")
    queued_max_request_bytes: int = number(
        32 * 1024 * 1024, 1, INT64_MAX, also=NO_LIMIT, kafka="queued.max.request.bytes"
    )
    max_connections: int = number(10_000, 1, kafka="max.connections")
    max_connections_per_ip: int = number(INT32_MAX, 0, kafka="max.connections.per.ip")
    max_connections_per_ip_overrides: str = text("", kafka="max.connections.per.ip.overrides")
    connections_max_idle_ms: int = number(600_000, 1, INT64_MAX, also=NO_LIMIT, kafka="connections.max.idle.ms")
    memory_disk_bytes: int = number(1024 * 1024 * 1024, 1, 2**62)
    event_loop: str = choice("asyncio", "asyncio", "uvloop")

    ORDERS = (
        Order(
            "group_consumer_heartbeat_interval_ms",
            "group_consumer_session_timeout_ms",
            "members lose their session between two heartbeats",
            strict=True,
            times=3,  # as for the defaults of clients: two may be lost
        ),
        *(
            Order(f"group_consumer_{name}", f"group_consumer_max_{name}", "the upper limit would be none")
            for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
        ),
    )

    def check(self, given: Collection[str]) -> None:
        """Check the values against each other; see `Options.check`."""
        super().check(given)
        if not self.max_connections_per_ip and not self.max_connections_per_ip_overrides:
            reason = "expected 1 or more; otherwise nobody could connect, as max_connections_per_ip_overrides is empty"
            raise ConfigurationError("max_connections_per_ip", 0, reason)

    @property
    def socket_buffers(self) -> SocketBuffers:
        """The sizes of the buffers of each connection."""
        return SocketBuffers(self.socket_send_buffer_bytes, self.socket_receive_buffer_bytes)

    @property
    def memory_of_connections_bytes(self) -> int:
        """How much memory all connections together may take."""
        limit_bytes = self.queued_max_request_bytes
        return INT64_MAX if limit_bytes == NO_LIMIT else limit_bytes

    @property
    def topic_defaults(self) -> dict[str, str]:
        """The topic configurations that were given; they apply unless a topic overrides them."""
        given = ((config, getattr(self, _own_name(name))) for name, config in TOPIC_DEFAULTS.items())
        return {config: value for config, value in given if value is not None}


def read_options(given: Mapping[str, object]) -> BrokerOptions:
    """Check the options of a broker.

    Args:
        given: names, dotted or in snake_case, and values; numbers and booleans may be text, as on a command line.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of range.
    """
    return BrokerOptions.read(given.items())
