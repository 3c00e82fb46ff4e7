"""The options of a broker: names, defaults, ranges.

Options are snake_case keywords; Kafka's dotted names are accepted too. Kafka's options come from
`schemas/configs.yaml`, which may give an option a different default or limit, with the reason. The broker-wide defaults
of topic configurations (`log.segment.bytes`, …) are options like the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import permutations
from typing import Any, Final, Self

from kafkawire.reference_broker.config.authorizer_options import read_authorizer, read_super_users
from kafkawire.reference_broker.config.config_values import INTEGERS, InvalidConfig
from kafkawire.reference_broker.config.endpoints import SocketBuffers
from kafkawire.reference_broker.config.security_options import ListenerSecurityOptions
from kafkawire.reference_broker.config.topic_configs import check_topic_config
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import (
    INT64_MAX,
    Option,
    Order,
    choice,
    flag,
    literal,
    number,
    option,
    parse_integer,
    read_text,
    text,
    written,
)
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigKey, Here
from kafkawire.sdk.protocol.tables.enums import ConfigType
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.wire import Address

__all__ = ["NO_LIMIT", "TOPIC_DEFAULTS", "BrokerOptions", "read_options"]

#: The value that means "no limit" where 0 cannot mean that.
NO_LIMIT: Final = -1

_RETENTION: Final = "log.retention.ms"

#: An option without effect here: a single broker has one in-sync replica, but many configuration files require more.
_WITHOUT_EFFECT: Final = "min.insync.replicas"

#: The topic configuration for which each broker option sets the default, keyed by Kafka's dotted name.
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    key.broker: key.name
    for key in TOPIC_CONFIGS.values()
    if key.broker and (key.here is not None or key.name == _WITHOUT_EFFECT)
}

#: The Python types of topic configuration values; the list `log.cleanup.policy` is kept as text.
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
    """Return an option for each topic configuration with a broker-wide default; None keeps Kafka's default."""
    return {_own_name(name): _topic_option(name, config) for name, config in TOPIC_DEFAULTS.items()}


def _topic_option(kafka_name: str, config: str) -> Option:
    def read(name: str, value: object) -> str:
        given = written(value)
        if kafka_name == _RETENTION:
            given = _retention(name, value, given)
        try:
            return check_topic_config(config, given)
        except InvalidConfig as error:
            raise ConfigurationError(name, value, str(error)) from None

    known = TOPIC_CONFIGS[config]
    choices = _choices(known)
    return Option(None, read, kafka_name, accepts=literal(*choices) if choices else _TYPES[known.type])


def _choices(key: ConfigKey) -> tuple[str, ...]:
    """Return the possible values; empty if they cannot be listed."""
    if key.type != ConfigType.LIST:
        return key.one_of
    counts = range(1, len(key.one_of) + 1)
    return tuple(",".join(parts) for count in counts for parts in permutations(key.one_of, count))


def _retention(name: str, value: object, written: str) -> str:
    """Check a retention time: 0 is refused for a broker, and any negative value means no limit.

    A single topic may keep nothing, but a broker-wide default of 0 would delete the records in every topic without a
    value of its own.
    """
    count = parse_integer(written)
    if count == 0:
        raise ConfigurationError(name, value, "expected 1 or more, or -1 for no limit")
    return str(max(count, -1)) if isinstance(count, int) else written


def _kafka(name: str) -> Any:
    """Declare one of Kafka's options, as described in `schemas/configs.yaml`."""
    key = BROKER_CONFIGS[name]
    here = key.here or Here()
    default = (key.default if here.default is None else here.default) or ""
    if key.type in INTEGERS:
        low, high = INTEGERS[key.type]
        given = (bound for bound in (here.min, key.min, low) if bound is not None)
        also = key.also if here.also is None else here.also
        return number(int(default), int(next(given)), int(high if key.max is None else key.max), also=also, kafka=name)
    if key.type == ConfigType.BOOLEAN:
        return flag(default == "true", kafka=name)
    if key.one_of:
        declared: Option = choice(default, *map(str.lower, key.one_of), kafka=name)
        return declared._replace(parse=str.lower)
    return text(default, kafka=name)


def _unset(name: str) -> Any:
    """Declare a text option that is empty, because Kafka's default does not suit a broker with one listener."""
    return text("", kafka=BROKER_CONFIGS[name].name)


def _read_metrics_listen(name: str, value: object) -> str:
    given = read_text(name, value) or ""
    return str(Address.parse(name, given, lowest_port=0)) if given.strip() else ""


def _secret(name: str, value: object) -> Secret | None:
    """Read a secret; an empty one is none, as in Kafka."""
    given = value.reveal() if isinstance(value, Secret) else read_text(name, value)
    return Secret(given) if given else None


_NO_EFFECT: Final = "the upper limit would have no effect"


class BrokerOptions(ListenerSecurityOptions, from_text=True, more=_topic_options()):
    """The options of a broker.

    Attributes:
        node_id: the id of this broker.
        advertised_host: the host to which clients are told to connect; if empty, the host on which the broker listens.
        num_partitions: the number of partitions of a new topic for which none is specified.
        auto_create_topics: whether a Metadata request for a missing topic creates the topic.
        offsets_topic_num_partitions: the number of partitions of `__consumer_offsets`, fixed when that topic is
            created.
        offsets_topic_segment_bytes: the segment size of `__consumer_offsets`; the last segment is never compacted, and
            is read at every startup.
        offset_metadata_max_bytes: the maximum size of a committed offset's metadata.
        offsets_retention_minutes: how long the offsets of a group without members are kept.
        offsets_retention_check_interval_ms: how often to check for expired offsets and empty groups.
        group_min_session_timeout_ms: the shortest session timeout that a group member may request.
        group_max_session_timeout_ms: the longest session timeout that a group member may request.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first one joins.
        group_max_size: the maximum number of members in a group.
        producer_id_expiration_ms: the idle time after which a log forgets an idempotent producer.
        transaction_partition_verification_enable: whether to ask the transaction coordinator before an older client's
            transaction begins in a partition; for clients that use Produce version 12 or later, the coordinator is
            always asked (KIP-890).
        group_consumer_session_timeout_ms: how long a member of a KIP-848 group may go without a heartbeat.
        group_consumer_heartbeat_interval_ms: how often a member of a KIP-848 group is told to send a heartbeat.
        group_consumer_max_session_timeout_ms: the upper limit on the session timeout of a KIP-848 group.
        group_consumer_max_heartbeat_interval_ms: the upper limit on the heartbeat interval of a KIP-848 group.
        group_consumer_max_size: the maximum number of members in a KIP-848 group.
        group_consumer_migration_policy: whether a group with members can migrate from the classic protocol to KIP-848,
            in the other direction, or both.
        group_consumer_assignment_interval_ms: how long to collect changes to a KIP-848 group after one assignment
            before the next one is computed.
        group_consumer_max_assignment_interval_ms: the upper limit on the assignment interval of a KIP-848 group.
        group_consumer_regex_refresh_interval_ms: how long the matches of a KIP-848 group's regular expression stay
            valid; a new topic causes an earlier refresh, but not within ten seconds of the last one.
        group_share_session_timeout_ms: how long a member of a share group may go without a heartbeat.
        group_share_heartbeat_interval_ms: how often a member of a share group is told to send a heartbeat.
        group_share_max_size: the maximum number of members in a share group.
        group_share_assignment_interval_ms: how long to collect changes to a share group after one assignment before
            the next one is computed.
        group_share_max_share_sessions: the maximum number of share sessions; each member has one.
        group_share_record_lock_duration_ms: how long a record stays acquired by a member of a share group that does
            not acknowledge it.
        group_share_delivery_count_limit: how often a record is delivered to a share group before it is given up.
        group_share_partition_max_record_locks: how many offsets of a partition a share group may have in delivery at a
            time.
        share_coordinator_state_topic_num_partitions: the number of partitions of `__share_group_state`, fixed when that
            topic is created.
        share_coordinator_state_topic_segment_bytes: the segment size of `__share_group_state`.
        share_coordinator_snapshot_update_records_per_snapshot: how many changes to a share partition's state are
            stored before the next snapshot of it.
        group_streams_session_timeout_ms: how long a member of a streams group may go without a heartbeat.
        group_streams_heartbeat_interval_ms: how often a member of a streams group is told to send a heartbeat.
        group_streams_max_session_timeout_ms: the upper limit on the session timeout of a streams group.
        group_streams_max_heartbeat_interval_ms: the upper limit on the heartbeat interval of a streams group.
        group_streams_max_size: the maximum number of members in a streams group.
        group_streams_assignment_interval_ms: how long to collect changes to a streams group after one assignment
            before the next one is computed.
        group_streams_max_assignment_interval_ms: the upper limit on the assignment interval of a streams group.
        group_streams_initial_rebalance_delay_ms: how long the first assignment of an empty streams group waits for more
            members.
        group_streams_num_standby_replicas: how many standby tasks each stateful task of a streams group has.
        group_streams_max_standby_replicas: the upper limit on the standby replicas of a streams group.
        transaction_state_log_num_partitions: the number of partitions of `__transaction_state`, fixed when that topic
            is created.
        transaction_max_timeout_ms: the longest transaction timeout that a producer may request.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: how often to abort transactions that have been open
            for too long.
        transactional_id_expiration_ms: how long an unused transactional id is kept.
        transaction_remove_expired_transaction_cleanup_interval_ms: how often to check for expired transactional ids.
        add_partitions_to_txn_retry_backoff_ms: the pause before another attempt to add a partition while the producer's
            previous transaction is still completing.
        add_partitions_to_txn_retry_backoff_max_ms: how long the broker itself retries before it leaves that to the
            client.
        log_cleaner_enable: whether to compact topics with `cleanup.policy=compact`.
        log_cleaner_backoff_ms: how often to check for logs to compact.
        log_cleaner_dedupe_buffer_size: the memory for a log's keys during compaction; if the keys do not fit,
            compaction takes several rounds.
        log_initial_task_delay_ms: the time from startup to the first check for segments to remove.
        log_retention_check_interval_ms: the time between checks for segments to remove.
        fetch_max_bytes: the maximum size of a fetch response, whatever the client requests.
        max_incremental_fetch_session_cache_slots: the maximum number of fetch sessions (KIP-227); 0 disables them.
        listeners: where to listen, for example `INTERNAL://:9093,EXTERNAL://0.0.0.0:9092`; if empty, the address given
            at startup.
        advertised_listeners: the address to advertise to the clients of each listener, in the format of `listeners`; a
            listener that is not named here advertises its own address.
        listener_security_protocol_map: the protocol of each listener, for example `INTERNAL:SSL,EXTERNAL:SASL_SSL`. A
            listener that is not named here is refused; a map of your own takes the place of the default, in which the
            name is the protocol.
        socket_send_buffer_bytes: the size of the system's buffer for responses on a connection, which also limits the
            data in flight to a distant client; -1 for the system's choice, which costs more CPU for large fetches.
        socket_receive_buffer_bytes: the size of the system's buffer for requests on a connection.
        max_frame_bytes: the maximum size of a request, and of a response from an API that is not Kafka's.
        queued_max_request_bytes: the memory for unfinished requests and unsent responses on all connections together.
            Large requests wait when it is used up, but a single request may exceed it; -1 for no limit.
        max_connections: the maximum number of open connections; further ones wait until others are closed.
        max_connections_per_ip: the maximum number of open connections from one address; further ones are refused.
        max_connections_per_ip_overrides: the maximum number of open connections from individual addresses, for example
            `10.0.0.7:100,client.example.com:5`.
        delegation_token_secret_key: signs delegation tokens, and must be the same on every broker of a cluster; None
            for a broker without delegation tokens.
        delegation_token_max_lifetime_ms: the longest lifetime of a delegation token, renewals included.
        delegation_token_expiry_time_ms: how long a delegation token is valid without being renewed.
        delegation_token_expiry_check_interval_ms: how often expired delegation tokens are removed.
        client_metrics_enable: whether clients are offered to push their metrics, as in a Kafka broker that has a plugin
            for them; `client-metrics` configurations then decide which clients push which metrics (KIP-714).
        telemetry_max_bytes: the maximum size of the metrics in one push.
        max_connection_creation_rate: the maximum number of new connections per second; further ones have to wait.
        connections_max_idle_ms: the idle time after which a connection is closed, unless the broker owes it a response;
            -1 for never.
        quota_window_num: the number of samples over which the rates of clients are measured for their quotas.
        quota_window_size_seconds: the duration of a sample.
        controller_quota_window_num: the same for the quotas on partitions created and deleted.
        controller_quota_window_size_seconds: the duration of a sample.
        authorizer_class_name: `org.apache.kafka.metadata.authorizer.StandardAuthorizer` or
            `kafka.security.authorizer.AclAuthorizer`, which decide alike, to check every operation against ACLs; if
            empty, anybody may do anything.
        super_users: principals that may do anything, as in `User:admin;User:CN=broker-1`.
        allow_everyone_if_no_acl_found: whether anybody may use a resource for which there are no ACLs at all.
        memory_disk_bytes: the capacity of a broker without files; once it is used up, the broker's disk is full.
        event_loop: the broker's event loop; `uvloop` requires that package.
        metrics_listen: where to serve the broker's metrics and its health over HTTP, as `host:port`; if empty, nowhere.
            There is no login, so this should be a private address.
        slow_request_ms: how long a request may take before it is logged, with where its time went; 0 for no log. Waits
            that the client asked for do not count, such as a fetch's for new records.
    """

    __slots__ = ("_given", "_of_listeners")

    node_id: int = _kafka("node.id")
    advertised_host: str = text("")
    num_partitions: int = _kafka("num.partitions")
    auto_create_topics: bool = _kafka("auto.create.topics.enable")
    offsets_topic_num_partitions: int = _kafka("offsets.topic.num.partitions")
    offsets_topic_segment_bytes: int = _kafka("offsets.topic.segment.bytes")
    offset_metadata_max_bytes: int = _kafka("offset.metadata.max.bytes")
    offsets_retention_minutes: int = _kafka("offsets.retention.minutes")
    offsets_retention_check_interval_ms: int = _kafka("offsets.retention.check.interval.ms")
    group_min_session_timeout_ms: int = _kafka("group.min.session.timeout.ms")
    group_max_session_timeout_ms: int = _kafka("group.max.session.timeout.ms")
    group_initial_rebalance_delay_ms: int = _kafka("group.initial.rebalance.delay.ms")
    group_max_size: int = _kafka("group.max.size")
    producer_id_expiration_ms: int = _kafka("producer.id.expiration.ms")
    transaction_partition_verification_enable: bool = _kafka("transaction.partition.verification.enable")
    group_consumer_session_timeout_ms: int = _kafka("group.consumer.session.timeout.ms")
    group_consumer_heartbeat_interval_ms: int = _kafka("group.consumer.heartbeat.interval.ms")
    group_consumer_max_session_timeout_ms: int = _kafka("group.consumer.max.session.timeout.ms")
    group_consumer_max_heartbeat_interval_ms: int = _kafka("group.consumer.max.heartbeat.interval.ms")
    group_consumer_max_size: int = _kafka("group.consumer.max.size")
    group_consumer_migration_policy: str = _kafka("group.consumer.migration.policy")
    group_consumer_assignment_interval_ms: int = _kafka("group.consumer.assignment.interval.ms")
    group_consumer_max_assignment_interval_ms: int = _kafka("group.consumer.max.assignment.interval.ms")
    group_consumer_regex_refresh_interval_ms: int = number(
        600_000, 10_000, kafka="group.consumer.regex.refresh.interval.ms"
    )
    group_share_session_timeout_ms: int = _kafka("group.share.session.timeout.ms")
    group_share_heartbeat_interval_ms: int = _kafka("group.share.heartbeat.interval.ms")
    group_share_max_size: int = _kafka("group.share.max.size")
    group_share_assignment_interval_ms: int = _kafka("group.share.assignment.interval.ms")
    group_share_max_share_sessions: int = _kafka("group.share.max.share.sessions")
    group_share_record_lock_duration_ms: int = _kafka("group.share.record.lock.duration.ms")
    group_share_delivery_count_limit: int = _kafka("group.share.delivery.count.limit")
    group_share_partition_max_record_locks: int = _kafka("group.share.partition.max.record.locks")
    share_coordinator_state_topic_num_partitions: int = _kafka("share.coordinator.state.topic.num.partitions")
    share_coordinator_state_topic_segment_bytes: int = _kafka("share.coordinator.state.topic.segment.bytes")
    share_coordinator_snapshot_update_records_per_snapshot: int = _kafka(
        "share.coordinator.snapshot.update.records.per.snapshot"
    )
    group_streams_session_timeout_ms: int = _kafka("group.streams.session.timeout.ms")
    group_streams_heartbeat_interval_ms: int = _kafka("group.streams.heartbeat.interval.ms")
    group_streams_max_session_timeout_ms: int = _kafka("group.streams.max.session.timeout.ms")
    group_streams_max_heartbeat_interval_ms: int = _kafka("group.streams.max.heartbeat.interval.ms")
    group_streams_max_size: int = _kafka("group.streams.max.size")
    group_streams_assignment_interval_ms: int = _kafka("group.streams.assignment.interval.ms")
    group_streams_max_assignment_interval_ms: int = _kafka("group.streams.max.assignment.interval.ms")
    group_streams_initial_rebalance_delay_ms: int = _kafka("group.streams.initial.rebalance.delay.ms")
    group_streams_num_standby_replicas: int = _kafka("group.streams.num.standby.replicas")
    group_streams_max_standby_replicas: int = _kafka("group.streams.max.standby.replicas")
    transaction_state_log_num_partitions: int = _kafka("transaction.state.log.num.partitions")
    transaction_max_timeout_ms: int = _kafka("transaction.max.timeout.ms")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _kafka(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    transactional_id_expiration_ms: int = _kafka("transactional.id.expiration.ms")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _kafka(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    add_partitions_to_txn_retry_backoff_ms: int = _kafka("add.partitions.to.txn.retry.backoff.ms")
    add_partitions_to_txn_retry_backoff_max_ms: int = _kafka("add.partitions.to.txn.retry.backoff.max.ms")
    log_cleaner_enable: bool = _kafka("log.cleaner.enable")
    log_cleaner_backoff_ms: int = _kafka("log.cleaner.backoff.ms")
    log_cleaner_dedupe_buffer_size: int = _kafka("log.cleaner.dedupe.buffer.size")
    log_initial_task_delay_ms: int = number(30_000, 0, INT64_MAX, kafka="log.initial.task.delay.ms")
    log_retention_check_interval_ms: int = _kafka("log.retention.check.interval.ms")
    fetch_max_bytes: int = _kafka("fetch.max.bytes")
    max_incremental_fetch_session_cache_slots: int = _kafka("max.incremental.fetch.session.cache.slots")
    listeners: str = _unset("listeners")
    advertised_listeners: str = _unset("advertised.listeners")
    listener_security_protocol_map: str = _kafka("listener.security.protocol.map")
    socket_send_buffer_bytes: int = _kafka("socket.send.buffer.bytes")
    socket_receive_buffer_bytes: int = _kafka("socket.receive.buffer.bytes")
    max_frame_bytes: int = _kafka("socket.request.max.bytes")
    queued_max_request_bytes: int = _kafka("queued.max.request.bytes")
    max_connections: int = _kafka("max.connections")
    max_connections_per_ip: int = _kafka("max.connections.per.ip")
    max_connections_per_ip_overrides: str = _kafka("max.connections.per.ip.overrides")
    delegation_token_secret_key: Secret | None = option(
        None, _secret, "str | None", kafka="delegation.token.secret.key"
    )
    delegation_token_max_lifetime_ms: int = _kafka("delegation.token.max.lifetime.ms")
    delegation_token_expiry_time_ms: int = _kafka("delegation.token.expiry.time.ms")
    delegation_token_expiry_check_interval_ms: int = _kafka("delegation.token.expiry.check.interval.ms")
    client_metrics_enable: bool = flag(False)
    telemetry_max_bytes: int = _kafka("telemetry.max.bytes")
    max_connection_creation_rate: int = _kafka("max.connection.creation.rate")
    connections_max_idle_ms: int = _kafka("connections.max.idle.ms")
    quota_window_num: int = _kafka("quota.window.num")
    quota_window_size_seconds: int = _kafka("quota.window.size.seconds")
    controller_quota_window_num: int = _kafka("controller.quota.window.num")
    controller_quota_window_size_seconds: int = _kafka("controller.quota.window.size.seconds")
    authorizer_class_name: str = option("", read_authorizer, "str", kafka="authorizer.class.name")
    super_users: str = option("", read_super_users, "str", kafka="super.users")
    allow_everyone_if_no_acl_found: bool = flag(False, kafka="allow.everyone.if.no.acl.found")
    memory_disk_bytes: int = number(1024 * 1024 * 1024, 1, 2**62)
    event_loop: str = choice("asyncio", "asyncio", "uvloop")
    metrics_listen: str = option("", _read_metrics_listen, "str")
    slow_request_ms: int = number(0, 0)

    ORDERS = (
        *(
            Order(
                f"group_{kind}_heartbeat_interval_ms",
                f"group_{kind}_session_timeout_ms",
                "members would lose their session between two heartbeats",
                strict=True,
                times=3,  # two heartbeats may be lost, as with the clients' defaults
            )
            for kind in ("consumer", "streams")
        ),
        *(
            Order(f"group_{kind}_{name}", f"group_{kind}_max_{name}", _NO_EFFECT)
            for kind in ("consumer", "streams")
            for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
        ),
        Order("group_streams_num_standby_replicas", "group_streams_max_standby_replicas", _NO_EFFECT),
    )

    def check(self, given: Collection[str]) -> None:
        """Check the values against each other; see `Options.check`."""
        super().check(given)
        if not self.max_connections_per_ip and not self.max_connections_per_ip_overrides:
            reason = "expected 1 or more; otherwise no client can connect, as max_connections_per_ip_overrides is empty"
            raise ConfigurationError("max_connections_per_ip", 0, reason)
        object.__setattr__(self, "_given", frozenset(given))

    @property
    def given(self) -> Mapping[str, str]:
        """The options that were given explicitly, as text keyed by Kafka's names, even if equal to the default.

        Those for individual listeners are included; secrets are not shown.
        """
        names: Collection[str] = getattr(self, "_given", ())
        values = {name: getattr(self, own) for name, own in self.KAFKA_NAMES.items() if own in names}
        values |= self._own_of_listeners
        return {name: written(value) for name, value in values.items() if value is not None}

    def with_values(self, **values: object) -> Self:
        """Return a copy of the options with some values replaced; the new values are treated as given.

        Args:
            values: the new values, keyed by option name; not checked.
        """
        options = type(self)(**{**vars(self), **values})
        object.__setattr__(options, "_given", frozenset((*getattr(self, "_given", ()), *values)))
        object.__setattr__(options, "_of_listeners", self._own_of_listeners)
        return options

    def with_listener_options(self, of_listeners: Mapping[str, object]) -> Self:
        """Return a copy of the options that shows those for individual listeners, too, except secrets.

        Args:
            of_listeners: their values, keyed by their full names.
        """
        options = self.with_values()
        shown = {name: _hidden(name, value) for name, value in of_listeners.items()}
        object.__setattr__(options, "_of_listeners", shown)
        return options

    @property
    def _own_of_listeners(self) -> Mapping[str, object]:
        found: Mapping[str, object] = getattr(self, "_of_listeners", {})
        return found

    def change(self, **values: object) -> None:
        """Replace some values in place, for every object that holds these options; see `with_values`."""
        vars(self).update(values)

    @property
    def socket_buffers(self) -> SocketBuffers:
        """The buffer sizes of each connection."""
        return SocketBuffers(self.socket_send_buffer_bytes, self.socket_receive_buffer_bytes)

    @property
    def memory_of_connections_bytes(self) -> int:
        """The maximum amount of memory that all connections together may use."""
        limit_bytes = self.queued_max_request_bytes
        return INT64_MAX if limit_bytes == NO_LIMIT else limit_bytes

    @property
    def topic_defaults(self) -> dict[str, str]:
        """The topic configurations that were given, which apply unless a topic overrides them."""
        given = ((config, getattr(self, _own_name(name))) for name, config in TOPIC_DEFAULTS.items())
        return {config: value for config, value in given if value is not None}


def _hidden(full_name: str, value: object) -> object:
    """Return the value of an option for one listener, hidden unless the option is known and no password."""
    key = next((key for name, key in BROKER_CONFIGS.items() if full_name.endswith(f".{name}")), None)
    return Secret("") if key is None or key.type == ConfigType.PASSWORD else value


def read_options(given: Mapping[str, object]) -> BrokerOptions:
    """Check the options of a broker.

    Args:
        given: values, keyed by dotted or snake_case names; numbers and booleans may be text, as on a command line.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of range.
    """
    return BrokerOptions.read(given.items())
