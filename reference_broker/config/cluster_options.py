"""The options of a broker in a cluster with ZooKeeper: membership, replication and the controller.

They are read in addition to `BrokerOptions`, and only if `zookeeper.connect` is given. Names and defaults are those of
Apache Kafka 3.9, except that `broker.id` is unset by default, whereas Kafka's default is -1.

Source: `ZkConfigs`, `ReplicationConfigs`, `ServerConfigs`, `KafkaConfig` in Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from kafkawire.reference_broker.config.protocol_version import (
    NEWEST,
    OLDEST,
    PeerVersions,
    peer_versions,
    read_protocol_version,
)
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, INT64_MAX, flag, number, option, text, written
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.registry.security_options import ZooKeeperSecurityOptions

__all__ = ["RACK_AWARE_SELECTOR", "ClusterOptions", "split_options"]

#: The only supported replica selector for consumers, named after Kafka's class.
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

#: Options that are for listeners, too: the login module file, by both of its names.
_OF_BOTH: Final = frozenset({"java.security.auth.login.config", "java_security_auth_login_config"})

#: The maximum number of fetchers: each number has its own connections to every broker.
_FETCHERS_MAX: Final = 100


def _kafka_number(name: str, low: int, high: int = INT32_MAX) -> Any:
    """Declare a numeric option that current releases of Kafka still have, with Kafka's default."""
    return number(int(BROKER_CONFIGS[name].default or 0), low, high, kafka=name)


def _protocol_version(name: str, value: object) -> str:
    protocol = read_protocol_version(str(value))
    if protocol is None:
        raise ConfigurationError(name, value, "expected a Kafka release, such as 3.9 or 3.7-IV4")
    if not OLDEST <= protocol <= NEWEST:
        raise ConfigurationError(name, value, "expected a release from 3.4 to 3.9")
    return str(value)


def _selector(name: str, value: object) -> str | None:
    if value not in (None, RACK_AWARE_SELECTOR):
        raise ConfigurationError(name, value, f"expected {RACK_AWARE_SELECTOR}")
    return RACK_AWARE_SELECTOR if value is not None else None


class ClusterOptions(ZooKeeperSecurityOptions, from_text=True):
    """The options for a broker's membership in a cluster.

    Attributes:
        zookeeper_connect: the address of ZooKeeper, as `host:port,host:port/chroot`.
        zookeeper_session_timeout_ms: how long the broker may be silent before the cluster considers it dead.
        zookeeper_connection_timeout_ms: how long a starting broker waits for ZooKeeper; None to use the session
            timeout.
        zookeeper_set_acl: whether only brokers may change the nodes that this broker creates.
        broker_id: the id of this broker; None to use the id in the data directory, or to generate one.
        broker_id_generation_enable: whether the cluster may generate the id.
        reserved_broker_max_id: the highest id that is never generated; generated ids start above it.
        broker_rack: the rack of this broker; replicas are spread over racks.
        inter_broker_listener_name: the inter-broker listener; None to use `security.inter.broker.protocol` instead.
        security_inter_broker_protocol: the security protocol that names the inter-broker listener.
        control_plane_listener_name: the listener for the controller's requests; None for the inter-broker listener.
        inter_broker_protocol_version: the oldest Kafka release among the brokers of the cluster, whose protocol they
            all use with each other.
        controlled_shutdown_enable: whether a stopping broker first hands leadership of its partitions to other brokers.
        controlled_shutdown_max_retries: the maximum number of times that a stopping broker asks the controller.
        controlled_shutdown_retry_backoff_ms: the pause before a stopping broker asks again.
        controller_socket_timeout_ms: how long the controller waits for a response from a broker.
        auto_leader_rebalance_enable: whether the controller gives leadership back to preferred replicas.
        leader_imbalance_per_broker_percentage: what percentage of a broker's preferred partitions other brokers may
            lead before leadership is given back.
        leader_imbalance_check_interval_seconds: how often the controller checks for such an imbalance.
        delete_topic_enable: whether the controller deletes topics.
        default_replication_factor: the number of replicas per partition of a new topic for which none is specified.
        offsets_topic_replication_factor: the number of replicas of each partition of `__consumer_offsets`.
        transaction_state_log_replication_factor: the number of replicas of each partition of `__transaction_state`.
        transaction_state_log_min_isr: how many replicas of a `__transaction_state` partition must be in sync for a
            write.
        unclean_leader_election_enable: whether a replica that is not in sync may become leader, unless the topic
            overrides this.
        replica_lag_time_max_ms: the time after which a follower that has not caught up is out of sync.
        replica_fetch_wait_max_ms: how long a leader may wait for records before it responds to a follower.
        replica_fetch_min_bytes: how many bytes the leader waits for.
        replica_fetch_max_bytes: how many bytes a follower requests from one partition.
        replica_fetch_response_max_bytes: how many bytes a follower requests from all partitions together.
        replica_fetch_backoff_ms: how long a follower pauses after a failure.
        replica_socket_timeout_ms: how long a follower waits for a response.
        replica_high_watermark_checkpoint_interval_ms: how often high watermarks are written to disk.
        replica_selector_class: selects the replicas from which consumers read; None for leaders only.
        num_replica_fetchers: how many fetchers a follower runs for each leader.
        replication_quota_window_num: the number of samples over which the rate of throttled replication is measured.
        replication_quota_window_size_seconds: the duration of a sample.
        request_timeout_ms: how long a broker waits for a response from another broker or from the controller.
    """

    __slots__ = ("_given",)

    zookeeper_connect: str = text("", kafka="zookeeper.connect")
    zookeeper_session_timeout_ms: int = number(18_000, 1, kafka="zookeeper.session.timeout.ms")
    zookeeper_connection_timeout_ms: int | None = number(None, 1, kafka="zookeeper.connection.timeout.ms")
    zookeeper_set_acl: bool = flag(False, kafka="zookeeper.set.acl")
    broker_id: int | None = number(None, 0, also=-1, kafka="broker.id")
    broker_id_generation_enable: bool = flag(True, kafka="broker.id.generation.enable")
    reserved_broker_max_id: int = number(1_000, 0, kafka="reserved.broker.max.id")
    broker_rack: str | None = text(None, kafka="broker.rack")
    inter_broker_listener_name: str | None = text(None, kafka="inter.broker.listener.name")
    security_inter_broker_protocol: str | None = text(None, kafka="security.inter.broker.protocol")
    control_plane_listener_name: str | None = text(None, kafka="control.plane.listener.name")
    inter_broker_protocol_version: str = option(
        "3.9", _protocol_version, "str", kafka="inter.broker.protocol.version", limits="3.4 to 3.9"
    )
    controlled_shutdown_enable: bool = flag(True, kafka="controlled.shutdown.enable")
    controlled_shutdown_max_retries: int = number(3, 0, kafka="controlled.shutdown.max.retries")
    controlled_shutdown_retry_backoff_ms: int = number(5_000, 0, kafka="controlled.shutdown.retry.backoff.ms")
    controller_socket_timeout_ms: int = _kafka_number("controller.socket.timeout.ms", 1)
    auto_leader_rebalance_enable: bool = flag(True, kafka="auto.leader.rebalance.enable")
    leader_imbalance_per_broker_percentage: int = number(10, 0, kafka="leader.imbalance.per.broker.percentage")
    leader_imbalance_check_interval_seconds: int = _kafka_number("leader.imbalance.check.interval.seconds", 1)
    delete_topic_enable: bool = flag(True, kafka="delete.topic.enable")
    default_replication_factor: int = _kafka_number("default.replication.factor", 1, 2**15 - 1)
    offsets_topic_replication_factor: int = _kafka_number("offsets.topic.replication.factor", 1, 2**15 - 1)
    transaction_state_log_replication_factor: int = _kafka_number(
        "transaction.state.log.replication.factor", 1, 2**15 - 1
    )
    transaction_state_log_min_isr: int = _kafka_number("transaction.state.log.min.isr", 1)
    unclean_leader_election_enable: bool = flag(False, kafka="unclean.leader.election.enable")
    replica_lag_time_max_ms: int = _kafka_number("replica.lag.time.max.ms", 2, INT64_MAX)
    replica_fetch_wait_max_ms: int = _kafka_number("replica.fetch.wait.max.ms", 0)
    replica_fetch_min_bytes: int = _kafka_number("replica.fetch.min.bytes", 0)
    replica_fetch_max_bytes: int = _kafka_number("replica.fetch.max.bytes", 0)
    replica_fetch_response_max_bytes: int = _kafka_number("replica.fetch.response.max.bytes", 0)
    replica_fetch_backoff_ms: int = _kafka_number("replica.fetch.backoff.ms", 0)
    replica_socket_timeout_ms: int = _kafka_number("replica.socket.timeout.ms", 1)
    replica_high_watermark_checkpoint_interval_ms: int = _kafka_number(
        "replica.high.watermark.checkpoint.interval.ms", 1, INT64_MAX
    )
    replica_selector_class: str | None = option(None, _selector, "str | None", kafka="replica.selector.class")
    num_replica_fetchers: int = _kafka_number("num.replica.fetchers", 1, _FETCHERS_MAX)
    replication_quota_window_num: int = _kafka_number("replication.quota.window.num", 1)
    replication_quota_window_size_seconds: int = _kafka_number("replication.quota.window.size.seconds", 1)
    request_timeout_ms: int = _kafka_number("request.timeout.ms", 1)

    def check(self, given: Collection[str]) -> None:
        """Check the values against each other; see `Options.check`."""
        super().check(given)
        object.__setattr__(self, "_given", frozenset(given))
        if not self.zookeeper_connect.strip():
            raise ConfigurationError("zookeeper.connect", self.zookeeper_connect, "expected host:port,host:port/chroot")
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            reason = f"expected at most {self.shown('replica_lag_time_max_ms', given)}; otherwise followers fall behind"
            raise ConfigurationError("replica.fetch.wait.max.ms", self.replica_fetch_wait_max_ms, reason)
        if self.replica_fetch_wait_max_ms > self.replica_socket_timeout_ms:
            reason = f"expected at most {self.shown('replica_socket_timeout_ms', given)}; otherwise fetches time out"
            raise ConfigurationError("replica.fetch.wait.max.ms", self.replica_fetch_wait_max_ms, reason)

    @property
    def given(self) -> Mapping[str, str]:
        """The options that were given explicitly, as text by Kafka's names; without the id, which may be generated."""
        names: Collection[str] = getattr(self, "_given", ())
        values = {name: getattr(self, own) for name, own in self.KAFKA_NAMES.items() if own in names}
        return {name: written(value) for name, value in values.items() if value is not None and name != "broker.id"}

    @property
    def configured_broker_id(self) -> int | None:
        """The id of this broker; None if it is not configured."""
        return None if self.broker_id == -1 else self.broker_id

    @property
    def peer_versions(self) -> PeerVersions:
        """The versions of the requests to other brokers."""
        return peer_versions(read_protocol_version(self.inter_broker_protocol_version) or NEWEST)

    @property
    def connection_timeout_ms(self) -> int:
        """How long a starting broker waits for ZooKeeper."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms


def split_options(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object] | None]:
    """Return a broker's options and its membership options; the latter are None for a standalone broker.

    Args:
        given: all options, keyed by Kafka's names or by this broker's own.

    Raises:
        ConfigurationError: a cluster option is given without `zookeeper.connect`.
    """
    own: dict[str, object] = {}
    cluster: dict[str, object] = {}
    for name, value in given.items():
        known = ClusterOptions.KAFKA_NAMES.get(name, name)
        (cluster if known in ClusterOptions.OPTIONS else own)[name] = value
        if known in _OF_BOTH:
            own[name] = value
    if cluster.keys() <= _OF_BOTH:  # its sections for listeners need no ZooKeeper
        cluster.clear()
    if not cluster:
        return own, None
    if not any(ClusterOptions.KAFKA_NAMES.get(name, name) == "zookeeper_connect" for name in cluster):
        name, value = next(iter(cluster.items()))
        raise ConfigurationError(name, value, "this option requires zookeeper.connect")
    for name in ("node.id", "node_id"):  # another name of broker.id
        if name in own:
            cluster.setdefault("broker.id", own.pop(name))
    return own, cluster
