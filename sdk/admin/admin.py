"""The admin client, which manages a cluster: its topics, records, replicas, configurations, groups and transactions.

Each method checks its arguments, then has the driver run a function of the module for its subject, which is loaded on
first use to keep the import fast. `kafkawire.sync.Admin` is the blocking client.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, Self, Unpack

from kafkawire.sdk.admin.arguments import (
    checked_choices,
    checked_config_changes,
    checked_configs,
    checked_election_type,
    checked_groups,
    checked_isolation_level,
    checked_log_dirs,
    checked_new_partitions,
    checked_new_topics,
    checked_node_id,
    checked_node_ids,
    checked_numbers,
    checked_reassignments,
    checked_record_ends,
    checked_replicas,
    checked_resource,
    checked_resource_changes,
    checked_resource_types,
    checked_resources,
    checked_topic_ids,
    checked_words,
    some,
)
from kafkawire.sdk.admin.descriptions import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    FeatureMetadata,
    GroupDescription,
    GroupLag,
    GroupListing,
    ItemResults,
    LogDir,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    ReplicaLogDirs,
    TopicPartitionReplica,
)
from kafkawire.sdk.admin.feature_updates import FeatureUpdate, checked_feature_updates
from kafkawire.sdk.admin.quorum_values import QuorumInfo
from kafkawire.sdk.admin.quota_values import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    checked_alterations,
    checked_filter,
)
from kafkawire.sdk.admin.scram_values import (
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
    checked_scram_alterations,
)
from kafkawire.sdk.admin.share_group_descriptions import ShareGroupDescription, SharePartitionOffset
from kafkawire.sdk.admin.streams_group_descriptions import StreamsGroupDescription
from kafkawire.sdk.admin.token_values import DelegationToken, checked_hmac, checked_principal, checked_principals
from kafkawire.sdk.client.arguments import (
    MAX_INT16,
    MAX_INT32,
    MAX_INT64,
    checked_mapping,
    checked_names,
    checked_number,
    checked_offset,
    checked_offsets,
    checked_partition,
    checked_partitions,
    checked_text,
    checked_timeout_ms,
    checked_times,
)
from kafkawire.sdk.client.method_hints import ADMIN, Hinting
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.client.summary import State, not_running, summary
from kafkawire.sdk.client.unclosed_clients import caller, reduce_unstarted, warn_unclosed
from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.topics import checked_topic
from kafkawire.sdk.transport.promise import Result
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime

    from kafkawire.sdk.admin.transaction_descriptions import (
        ActiveProducer,
        FencedProducer,
        HangingTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from kafkawire.sdk.client.core import ClientCore
    from kafkawire.sdk.client.keywords import AdminKeywords
    from kafkawire.sdk.client.operations import Operations
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.protocol.acls import AclBinding, AclBindingFilter
    from kafkawire.sdk.routing.metadata import Topic
    from kafkawire.sdk.secret import Secret

__all__ = ["SILENT_MS", "Admin"]

P = ParamSpec("P")

#: How long the producer of a transaction must have been silent before the transaction may be said to hang: the default
#: of the brokers' `transaction.max.timeout.ms`, after which coordinators have ended every transaction that they know.
SILENT_MS: Final = 900_000


class Admin(Hinting, hints=ADMIN):
    """Manage a cluster.

    The constructor does no I/O; use `async with Admin(…) as admin`, or call `start` and `close`. Every method raises
    `Closed` if the admin is not started, and `ConnectFailed`, `ConnectionLost` or `RequestTimedOut` if the brokers
    cannot be reached within `api_timeout_ms`.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        network: how to connect to the brokers; None for TCP.
        options: see `AdminKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two options contradict each other.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *,
        network: Network | None = None,
        **options: Unpack[AdminKeywords],
    ) -> None:
        self._options = read_options(AdminOptions, servers, options)
        self._network = network
        self._started: ClientCore | None = None
        self._is_closed = False
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        started: ClientCore | None = getattr(self, "_started", None)  # None if the constructor raised
        if started is not None and not is_finalizing() and started.let_go():
            warn_unclosed(self, f"admin {self._options.client_id!r}", self._made_at, "it disconnects")

    __reduce_ex__ = reduce_unstarted("admin", "_started")

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[AdminOptions | None, State]:
        """Return the options and the state; the options are None if the constructor raised before setting them."""
        started = getattr(self, "_started", None) is not None
        state: State = "started" if started else "closed" if getattr(self, "_is_closed", False) else "new"
        return getattr(self, "_options", None), state

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            LocalProtocolError: the admin has already been started.
            Closed: the admin was closed; a closed admin cannot be started again.
        """
        if self._is_closed:
            raise Closed("the admin was closed; create a new one")
        if self._started is not None:
            raise LocalProtocolError("the admin was already started")
        from kafkawire.sdk.client.core import ClientCore  # loaded late to keep the import fast

        self._started = core = ClientCore("admin", self._options, self._network)
        try:
            await core.start()
        except BaseException:
            self._started = None
            await core.finish(Closed("the admin could not be started"))
            raise

    async def close(self) -> None:
        """Disconnect; calls still running raise `Closed`."""
        started, self._started = self._started, None
        if started is not None:
            self._is_closed = True
            await started.finish()

    def within(self, timeout_ms: int) -> Admin:
        """Return this admin with another limit for each call, such as `admin.within(5_000).describe_cluster()`.

        It shares this admin's connections, and ends with this admin; it cannot be started or closed.

        Args:
            timeout_ms: how long a call may take, including retries, in place of `api_timeout_ms`. Brokers get the same
                limit for a change, unless `request_timeout_ms` is less.

        Raises:
            LocalProtocolError: the limit is not an integer, or is negative.
        """
        return _Limited(self, checked_timeout_ms(timeout_ms))

    async def create_topics(
        self,
        *topics: NewTopic | str | Iterable[NewTopic | str],
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, CreatedTopic]:
        """Create topics.

        Args:
            topics: as separate arguments or in one list; for a bare name, the broker's defaults are used.
            validate_only: whether the controller should check the request without carrying it out.
            retry_on_quota_violation: whether topics that the controller throttles are sent again; if not, their error
                is THROTTLING_QUOTA_EXCEEDED.

        Returns:
            The id, the numbers of partitions and replicas, and the configuration of each topic, keyed by name.

        Raises:
            BrokerError: the error of the first topic that was not created, for example TOPIC_ALREADY_EXISTS; others may
                have been created, as `results` of the error says.
        """
        from kafkawire.sdk.admin.topics import create_topics

        results = await self._do(
            create_topics,
            checked_new_topics(some("create_topics", "topics", topics)),
            validate_only=bool(validate_only),
            retry_on_quota_violation=bool(retry_on_quota_violation),
            timeout_ms=self._broker_timeout_ms,
        )
        return results.all()

    async def delete_topics(
        self,
        *names: str | Iterable[str],
        topic_ids: Iterable[bytes | str] = (),
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Delete topics and all their records.

        Args:
            names: as separate arguments or in one list.
            topic_ids: more topics, by id, in 16 bytes or in Kafka's text form: another topic that has the same name by
                now is not deleted.
            retry_on_quota_violation: whether topics that the controller throttles are sent again; if not, their error
                is THROTTLING_QUOTA_EXCEEDED.

        Raises:
            BrokerError: the error of the first topic that was not deleted; others may have been deleted, as `results`
                of the error says, keyed by name or id.
            UnsupportedVersion: ids were given, but the brokers are older than Apache Kafka 2.8 (KIP-516).
        """
        from kafkawire.sdk.admin.topics import delete_topics

        results = await self._do(
            delete_topics,
            _topics(names if _was_given(topic_ids) else some("delete_topics", "topics", names)),
            checked_topic_ids(topic_ids),
            retry_on_quota_violation=bool(retry_on_quota_violation),
            timeout_ms=self._broker_timeout_ms,
        )
        results.all()

    async def create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
    ) -> ItemResults[str, None]:
        """Add partitions to topics.

        Existing records with a key keep their partition; later records with the same key may go to another partition.

        Args:
            partitions: for each topic, its new number of partitions, or `NewPartitions` with the replicas of the new
                partitions.
            validate_only: whether the controller should check the request without carrying it out.
            retry_on_quota_violation: whether topics that the controller throttles are sent again; if not, their error
                is THROTTLING_QUOTA_EXCEEDED.

        Returns:
            The topics that now have more partitions, and the error of each other topic: INVALID_PARTITIONS if it
                already has that many partitions or more, INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS,
                UNKNOWN_TOPIC_OR_PARTITION and so on.

        Raises:
            UnsupportedVersion: the brokers are older than Apache Kafka 1.0 (KIP-195).
        """
        from kafkawire.sdk.admin.topics import create_partitions

        return await self._do(
            create_partitions,
            checked_new_partitions(partitions),
            validate_only=bool(validate_only),
            retry_on_quota_violation=bool(retry_on_quota_violation),
            timeout_ms=self._broker_timeout_ms,
        )

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas, or cancel moves; the brokers copy the records afterwards.

        Args:
            reassignments: for each partition, the node ids of the new replicas, with the preferred leader first; None
                cancels the partition's reassignment.
            allow_replication_factor_change: whether a partition's number of replicas may change.

        Returns:
            The partitions whose reassignment was started or cancelled, and the error of each other partition:
                INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS if there is nothing
                to cancel, and so on. `list_partition_reassignments` shows the progress.

        Raises:
            BrokerError: the controller rejected the whole request; after REQUEST_TIMED_OUT, it may still take effect.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.4 (KIP-455), or 4.1 (KIP-860) if
                `allow_replication_factor_change` is False.
        """
        from kafkawire.sdk.admin.partition_changes import alter_partition_reassignments

        return await self._do(
            alter_partition_reassignments,
            checked_reassignments(reassignments),
            allow_replication_factor_change=bool(allow_replication_factor_change),
            timeout_ms=self._broker_timeout_ms,
        )

    async def list_partition_reassignments(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, by partition.

        Args:
            partitions: as separate arguments or in one list; all partitions of the cluster if none is given.

        Returns:
            The reassignments; partitions that have none or do not exist are left out.

        Raises:
            BrokerError: the controller rejected the request.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.4 (KIP-455).
        """
        from kafkawire.sdk.admin.partition_changes import list_partition_reassignments

        chosen = checked_partitions(partitions) if partitions else None
        return await self._do(list_partition_reassignments, chosen, timeout_ms=self._broker_timeout_ms)

    async def elect_leaders(
        self,
        election_type: enums.ElectionType,
        *partitions: TopicPartition | Iterable[TopicPartition],
        all_partitions: bool = False,
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions.

        Args:
            election_type: PREFERRED makes the first replica the leader if it is in sync; UNCLEAN makes any live replica
                the leader if none is in sync, and loses the records missing from that replica.
            partitions: as separate arguments or in one list.
            all_partitions: whether to elect leaders for all partitions of the cluster, in place of `partitions`.

        Returns:
            True for each partition that has a new leader, False for each one that needed no election (left out with
                `all_partitions`), and the error of each other partition: PREFERRED_LEADER_NOT_AVAILABLE,
                ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION and so on.

        Raises:
            BrokerError: the controller rejected the whole request; after REQUEST_TIMED_OUT, it may still take effect.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.2 (KIP-183), or 2.4 (KIP-460) for UNCLEAN.
        """
        from kafkawire.sdk.admin.partition_changes import elect_leaders

        kind = checked_election_type(election_type)
        _check_all("elect_leaders", "partitions", partitions, all_partitions=bool(all_partitions))
        chosen = None if all_partitions else checked_partitions(partitions)
        return await self._do(elect_leaders, kind, chosen, timeout_ms=self._broker_timeout_ms)

    async def describe_log_dirs(self, *node_ids: int | Iterable[int]) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers and the replicas in them.

        Args:
            node_ids: as separate arguments or in one list; all brokers of the cluster if none is given.

        Returns:
            For each broker that answered, its log directories, keyed by absolute path; and the error of each other
                broker: CLUSTER_AUTHORIZATION_FAILED, or an error saying that the broker is unreachable or older than
                Apache Kafka 2.0 (KIP-113). An offline directory is included, with its error.
        """
        from kafkawire.sdk.admin.log_dirs import describe_log_dirs

        chosen = checked_node_ids(node_ids) if node_ids else None
        return await self._do(describe_log_dirs, chosen)

    async def describe_replica_log_dirs(
        self, *replicas: TopicPartitionReplica | Iterable[TopicPartitionReplica]
    ) -> ItemResults[TopicPartitionReplica, ReplicaLogDirs]:
        """Return the log directories of replicas, and how far moves to other directories have got.

        Args:
            replicas: as separate arguments or in one list.

        Returns:
            The directories of each replica, whose paths are None if the broker does not have it; and the error of each
                replica of a broker that did not answer, as for `describe_log_dirs`.
        """
        from kafkawire.sdk.admin.log_dirs import describe_replica_log_dirs

        chosen = checked_replicas(some("describe_replica_log_dirs", "replicas", replicas))
        return await self._do(describe_replica_log_dirs, chosen)

    async def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers, which copy the records afterwards.

        Args:
            log_dirs: for each replica, the absolute path of the log directory to which it is moved.

        Returns:
            The replicas whose move has begun, and the error of each other replica: LOG_DIR_NOT_FOUND;
                KAFKA_STORAGE_ERROR if the directory is offline; REPLICA_NOT_AVAILABLE if the broker does not have the
                replica yet, in which case it will create the replica in that directory; or the error of its broker, as
                for `describe_log_dirs`, which also shows the progress.
        """
        from kafkawire.sdk.admin.log_dirs import alter_replica_log_dirs

        return await self._do(alter_replica_log_dirs, checked_log_dirs(log_dirs))

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Return all topics by name.

        Args:
            include_internal: whether to include Kafka's internal topics.
        """
        from kafkawire.sdk.admin.topics import list_topics

        return await self._do(list_topics, include_internal=bool(include_internal))

    async def describe_topics(
        self,
        *names: str | Iterable[str],
        topic_ids: Iterable[bytes | str] = (),
        include_eligible_leaders: bool = False,
        include_authorized_operations: bool = False,
    ) -> dict[str, Topic]:
        """Return topics by name, with the leader and replicas of each partition.

        Args:
            names: as separate arguments or in one list.
            topic_ids: more topics, by id, in 16 bytes or in Kafka's text form.
            include_eligible_leaders: whether to make a second request, for the replicas that are eligible as leaders
                without being in sync (KIP-966).
            include_authorized_operations: whether to ask what this user may do with each topic (KIP-430).

        Raises:
            BrokerError: the error of the first topic that does not exist or that this user is not allowed to describe;
                the other topics are in `results` of the error, keyed by name or id.
            UnsupportedVersion: the eligible leaders were requested, but the broker is older than Apache Kafka 3.8 or
                uses ZooKeeper; or ids were given, but the broker is older than 3.1.
        """
        from kafkawire.sdk.admin.topics import describe_topics

        if not _was_given(topic_ids):
            some("describe_topics", "topics", names, "; for all, use list_topics")
        results = await self._do(
            describe_topics,
            _topics(names),
            checked_topic_ids(topic_ids),
            include_eligible_leaders=bool(include_eligible_leaders),
            include_authorized_operations=bool(include_authorized_operations),
        )
        return {topic.name: topic for topic in results.all().values()}

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers with their racks.

        Args:
            include_authorized_operations: whether to ask what this user may do with the cluster (KIP-430).
            include_fenced_brokers: whether to include brokers that are registered but do not serve clients (KIP-1073).

        Raises:
            UnsupportedVersion: the operations were asked for, but the broker is older than Apache Kafka 2.8 (KIP-700);
                or the fenced brokers, and it is older than 4.0.
        """
        from kafkawire.sdk.admin.cluster import describe_cluster

        return await self._do(
            describe_cluster,
            include_authorized_operations=bool(include_authorized_operations),
            include_fenced_brokers=bool(include_fenced_brokers),
        )

    async def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """Return the features of the cluster (KIP-584).

        Args:
            node_id: the broker to ask, since brokers of different releases support different levels; None for any
                broker.

        Returns:
            The features; a broker older than Apache Kafka 2.7 reports none.
        """
        from kafkawire.sdk.admin.features import describe_features

        return await self._do(describe_features, checked_node_id(node_id))

    async def update_features(
        self, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False
    ) -> ItemResults[str, None]:
        """Change the finalized levels of features (KIP-584).

        Args:
            updates: for each feature, the level to upgrade to, or a `FeatureUpdate`, which can also lower the level.
            validate_only: whether the controller should check the changes without making them.

        Returns:
            The features that were changed, and the errors of others; only brokers older than Apache Kafka 4.0 change
                some of them although others fail.

        Raises:
            BrokerError: nothing was changed: INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED and others.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.7 (KIP-584), or 3.3 (KIP-778) if
                `validate_only` is True.
        """
        from kafkawire.sdk.admin.features import update_features

        checked = checked_feature_updates(updates)
        return await self._do(
            update_features, checked, validate_only=bool(validate_only), timeout_ms=self._broker_timeout_ms
        )

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Return the KRaft quorum that keeps the cluster's metadata: its leader, its voters and its observers.

        Raises:
            BrokerError: the broker rejected the request; UNSUPPORTED_VERSION if the cluster has no quorum.
            UnsupportedVersion: the broker is older than Apache Kafka 3.3 (KIP-836), or uses ZooKeeper.
        """
        from kafkawire.sdk.admin.metadata_quorum import describe_metadata_quorum

        return await self._do(describe_metadata_quorum)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker that is gone for good; a running broker must be stopped first.

        Args:
            broker_id: the broker.

        Raises:
            BrokerError: BROKER_ID_NOT_REGISTERED and others.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.8 (KIP-631), or use ZooKeeper.
        """
        from kafkawire.sdk.admin.broker_registrations import unregister_broker

        await self._do(unregister_broker, *checked_node_ids((broker_id,)))

    async def create_delegation_token(
        self, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None
    ) -> DelegationToken:
        """Create a delegation token, a credential that expires (KIP-48).

        Args:
            owner: the principal for which the token stands, such as `User:alice`; None for this client's own.
            renewers: other principals that may renew the token.
            max_lifetime_ms: how long the token can be renewed; None, or Kafka's -1, for the broker's limit, which
                applies in any case.

        Returns:
            The token; its `hmac` is the password of clients that log in with it.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if this client has not
                logged in or has logged in with a token, DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.0, or 3.3 (KIP-373) if `owner` is given.
        """
        from kafkawire.sdk.admin.delegation_tokens import create_delegation_token

        lifetime_ms = _period_ms("max_lifetime_ms", max_lifetime_ms, 1)
        return await self._do(
            create_delegation_token,
            None if owner is None else checked_principal("owner", owner),
            checked_principals("renewers", renewers),
            lifetime_ms,
        )

    async def renew_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, renew_period_ms: int | None = None
    ) -> int:
        """Let a delegation token expire later; its owner and its renewers may do this.

        Args:
            hmac: the token, or its HMAC: as a `Secret` or as text in base64, or its bytes.
            renew_period_ms: how long the token is valid from now; None, or Kafka's -1, for the broker's limit.

        Returns:
            When the token now expires, in ms since the epoch.

        Raises:
            BrokerError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH, or an
                error as for `create_delegation_token`.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.0.
        """
        from kafkawire.sdk.admin.delegation_tokens import renew_delegation_token

        period_ms = _period_ms("renew_period_ms", renew_period_ms, 1)
        return await self._do(renew_delegation_token, checked_hmac(hmac), period_ms)

    async def expire_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, expiry_period_ms: int | None = None
    ) -> int:
        """Let a delegation token expire at another time, or remove it; its owner and its renewers may do this.

        Args:
            hmac: the token, or its HMAC: as a `Secret` or as text in base64, or its bytes.
            expiry_period_ms: when the token expires, from now; None, or Kafka's -1, removes it at once.

        Returns:
            When the token expires, in ms since the epoch.

        Raises:
            BrokerError: as for `renew_delegation_token`.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.0.
        """
        from kafkawire.sdk.admin.delegation_tokens import expire_delegation_token

        period_ms = _period_ms("expiry_period_ms", expiry_period_ms, 0)
        return await self._do(expire_delegation_token, checked_hmac(hmac), period_ms)

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return delegation tokens that this client may see.

        Args:
            owners: only tokens that one of these principals owns, has requested or may renew; None for all tokens.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, or DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.0.
        """
        from kafkawire.sdk.admin.delegation_tokens import describe_delegation_tokens

        chosen = None if owners is None else checked_principals("owners", owners)
        return await self._do(describe_delegation_tokens, chosen)

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
    ) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id.

        Args:
            states: only groups in one of these states, such as `Stable` and `Empty`, in any case; groups in all states
                if empty.
            types: only groups of these types: `classic`, `consumer`, `share` or `streams`; all types if empty.
            protocol_types: only groups of these protocol types, such as `consumer`, `connect`, or an empty string for
                groups that have only committed offsets; all protocol types if empty.

        Raises:
            BrokerError: a broker rejected the request; the groups of the other brokers, keyed by node id, are in
                `results` of the error.
            LocalProtocolError: there is no such state or type.
            UnsupportedVersion: states were given, but a broker is older than Apache Kafka 2.6 (KIP-518); or types, and
                it is older than 3.8 (KIP-848).
        """
        from kafkawire.sdk.admin.groups import STATES, TYPES, list_groups

        return await self._do(
            list_groups,
            states=checked_choices("states", states, STATES),
            types=checked_choices("types", types, TYPES),
            protocol_types=checked_words("protocol_types", protocol_types),
        )

    async def describe_groups(
        self, *group_ids: str | Iterable[str], include_authorized_operations: bool = False
    ) -> dict[str, GroupDescription]:
        """Return consumer groups, classic or KIP-848, by group id.

        Args:
            group_ids: as separate arguments or in one list.
            include_authorized_operations: whether to ask what this user may do with each group (KIP-430).

        Raises:
            BrokerError: the error of the first group that cannot be described: GROUP_ID_NOT_FOUND if it does not exist,
                or if it is a share group or a Kafka Streams group (KIP-1071), as the message then says. The other
                groups are in `results` of the error.
        """
        from kafkawire.sdk.admin.groups import describe_groups

        results = await self._do(
            describe_groups,
            checked_names("group_id", some("describe_groups", "group ids", group_ids)),
            include_authorized_operations=bool(include_authorized_operations),
        )
        return results.all()

    async def describe_streams_groups(
        self, *group_ids: str | Iterable[str]
    ) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups by group id (KIP-1071).

        Args:
            group_ids: as separate arguments or in one list.

        Returns:
            The groups, or the errors: GROUP_ID_NOT_FOUND if no such group exists or the group is of another kind,
            GROUP_AUTHORIZATION_FAILED and others.

        Raises:
            LocalProtocolError: a group id is not a string.
        """
        from kafkawire.sdk.admin.streams_groups import describe_streams_groups

        chosen = some("describe_streams_groups", "group ids", group_ids)
        return await self._do(describe_streams_groups, checked_names("group_id", chosen))

    async def delete_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete groups without members, of any type, with their committed offsets.

        Args:
            group_ids: as separate arguments or in one list.

        Returns:
            The groups that were deleted, and the error of each other group: NON_EMPTY_GROUP if it has members,
                GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED and so on.
        """
        from kafkawire.sdk.admin.groups import delete_groups

        return await self._do(delete_groups, checked_names("group_id", some("delete_groups", "group ids", group_ids)))

    async def remove_group_members(
        self,
        group_id: str,
        *group_instance_ids: str | Iterable[str],
        member_ids: Iterable[str] = (),
        all_members: bool = False,
        reason: str = "member was removed by an admin",
    ) -> ItemResults[str, None]:
        """Remove members from a group, which then distributes their partitions among the others.

        A member that still runs joins again. This is meant for static members, whose partitions would otherwise wait
        until their sessions time out.

        Args:
            group_id: the group.
            group_instance_ids: the static members, as separate arguments or in one list.
            member_ids: members without an instance id.
            all_members: whether to remove all members, static or not, in place of those named.
            reason: the reason, for the brokers' logs; at most 255 characters of it are sent (KIP-800).

        Returns:
            The members that were removed, by instance id or member id, and the error of each other member:
                UNKNOWN_MEMBER_ID, or the error of the group.

        Raises:
            BrokerError: all members were to be removed, but the group cannot be described.
        """
        from kafkawire.sdk.admin.groups import remove_group_members

        dynamic = checked_words("member_ids", member_ids)
        given = (*group_instance_ids, *dynamic) or ((member_ids,) if _was_given(member_ids) else ())
        _check_all("remove_group_members", "members", given, all_members=bool(all_members))
        return await self._do(
            remove_group_members,
            checked_text("group_id", group_id),
            None if all_members else checked_names("group_instance_id", group_instance_ids),
            dynamic,
            reason=checked_text("reason", reason),
        )

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int | datetime],
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition.

        Args:
            timestamps: for each partition, milliseconds since the epoch, a datetime with a time zone, or an
                `OffsetTimestamp` (EARLIEST, LATEST, …).
            isolation_level: `read_uncommitted` or `read_committed`; with the latter, the latest offset is the last
                stable one: that of the first record of an open transaction, if there is one.

        Returns:
            The offset, timestamp and leader epoch for each partition. The offset is -1 if no record is that recent; the
                timestamp is -1 if the offset does not belong to a record.

        Raises:
            BrokerError: the first error: a topic does not exist, this user is not allowed to read it, or an existing
                topic still lacks a partition after five seconds. The others are in the error's `results`.
        """
        from kafkawire.sdk.admin.records import list_offsets

        results = await self._do(
            list_offsets,
            checked_times(timestamps, special=True),
            isolation_level=checked_isolation_level(isolation_level),
            timeout_ms=self._broker_timeout_ms,
        )
        return results.all()

    async def delete_records(self, before: Mapping[TopicPartition, int | None]) -> ItemResults[TopicPartition, int]:
        """Delete the oldest records of partitions.

        Args:
            before: for each partition, the offset of the first record to keep; None to delete all records up to the
                high watermark.

        Returns:
            For each partition, the lowest first offset of all its replicas; and the error of each other partition:
                OFFSET_OUT_OF_RANGE if the offset is beyond the high watermark, POLICY_VIOLATION if the topic's
                `cleanup.policy` does not include `delete`, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED and
                so on.
        """
        from kafkawire.sdk.admin.records import delete_records

        return await self._do(delete_records, checked_record_ends(before), timeout_ms=self._broker_timeout_ms)

    async def list_group_offsets(
        self,
        group_id: str,
        *partitions: TopicPartition | Iterable[TopicPartition],
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        Args:
            group_id: the group.
            partitions: as separate arguments or in one list; if none is given, all partitions for which the group has
                committed offsets.
            require_stable: whether to wait for the end of open transactions that may change the offsets (KIP-447).

        Returns:
            The offsets, keyed by partition; partitions without a commit are left out.

        Raises:
            BrokerError: this user is not allowed to read the group or a partition.
            UnsupportedVersion: stable offsets were required, but the broker is older than Apache Kafka 2.5.
        """
        from kafkawire.sdk.admin.group_offsets import list_group_offsets

        chosen = checked_partitions(partitions) if partitions else None
        groups = {checked_text("group_id", group_id): chosen}
        results = await self._do(list_group_offsets, groups, require_stable=bool(require_stable))
        return results.all()[group_id]

    async def describe_share_groups(
        self, *group_ids: str | Iterable[str], include_authorized_operations: bool = False
    ) -> ItemResults[str, ShareGroupDescription]:
        """Return share groups by group id (KIP-932).

        Args:
            group_ids: as separate arguments or in one list.
            include_authorized_operations: whether to ask what this user may do with each group (KIP-430).

        Returns:
            The groups, or the errors: GROUP_ID_NOT_FOUND if no such group exists or the group is of another kind,
            GROUP_AUTHORIZATION_FAILED and others.

        Raises:
            LocalProtocolError: a group id is not a string.
        """
        from kafkawire.sdk.admin.share_groups import describe_share_groups

        names = checked_names("group_id", some("describe_share_groups", "group ids", group_ids))
        includes = bool(include_authorized_operations)
        return await self._do(describe_share_groups, names, include_authorized_operations=includes)

    async def delete_share_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete share groups that have no members, and their start offsets.

        Args:
            group_ids: as separate arguments or in one list.

        Returns:
            None for each deleted group, or the errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND and others.

        Raises:
            LocalProtocolError: a group id is not a string.
        """
        from kafkawire.sdk.admin.share_groups import delete_share_groups

        chosen = some("delete_share_groups", "group ids", group_ids)
        return await self._do(delete_share_groups, checked_names("group_id", chosen))

    async def list_share_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, SharePartitionOffset | None]:
        """Return the start offsets of a share group, and its lag in each partition.

        Args:
            group_id: the group.
            partitions: as separate arguments or in one list; all partitions of the group if none is given.

        Returns:
            The start offset of each partition, None if the group has not read from it, or the partition's error.

        Raises:
            BrokerError: this user is not allowed to describe the group. A group that does not exist has no offsets.
            LocalProtocolError: a partition is invalid.
        """
        from kafkawire.sdk.admin.share_groups import list_share_group_offsets

        chosen = checked_partitions(partitions) if partitions else None
        return await self._do(list_share_group_offsets, checked_text("group_id", group_id), chosen)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> ItemResults[TopicPartition, None]:
        """Change the start offsets of a share group that has no members.

        Records before the new offset are no longer delivered; records from it on are delivered, even if the group
        has processed them.

        Args:
            group_id: the group, which is created if it does not exist.
            offsets: the new start offsets, keyed by partition.

        Returns:
            None for each changed partition, or its error.

        Raises:
            BrokerError: nothing was changed: NON_EMPTY_GROUP, GROUP_AUTHORIZATION_FAILED and others.
            LocalProtocolError: a partition or an offset is invalid.
        """
        from kafkawire.sdk.admin.share_groups import alter_share_group_offsets

        checked: dict[TopicPartition, int] = {}
        for key, offset in checked_mapping("offsets", offsets).items():
            partition = checked_partition(key)
            checked[partition] = checked_offset(partition, offset)
        return await self._do(alter_share_group_offsets, checked_text("group_id", group_id), checked)

    async def delete_share_group_offsets(self, group_id: str, *topics: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete the start offsets of a share group that has no members, for whole topics.

        Args:
            group_id: the group.
            topics: as separate arguments or in one list.

        Returns:
            None for each topic whose offsets are deleted, or its error.

        Raises:
            BrokerError: nothing was deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND and others.
            LocalProtocolError: a topic name is invalid.
        """
        from kafkawire.sdk.admin.share_groups import delete_share_group_offsets

        names = _topics(some("delete_share_group_offsets", "topics", topics))
        return await self._do(delete_share_group_offsets, checked_text("group_id", group_id), names)

    async def list_group_offsets_of(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None] | Iterable[str],
        *,
        require_stable: bool = False,
    ) -> ItemResults[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that several groups have committed.

        Args:
            groups: group ids; or the partitions, keyed by group id, with None for all.
            require_stable: whether to wait for the end of open transactions that may change the offsets (KIP-447).

        Returns:
            The offsets of each group, keyed by partition, and the error of each group that this user is not allowed to
                read. Partitions without a commit are left out, and a group that does not exist has none.
        """
        from kafkawire.sdk.admin.group_offsets import list_group_offsets

        checked = checked_groups(groups)
        return await self._do(list_group_offsets, checked, require_stable=bool(require_stable))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> ItemResults[TopicPartition, None]:
        """Commit offsets for a group that has no members.

        Args:
            group_id: the group, which is created if it does not exist.
            offsets: the offset of the next record to read, keyed by partition.

        Returns:
            The partitions whose offset was committed, and the error of each other partition: UNKNOWN_MEMBER_ID if the
                group has members, UNKNOWN_TOPIC_OR_PARTITION, GROUP_AUTHORIZATION_FAILED and so on.
        """
        from kafkawire.sdk.admin.group_offsets import alter_group_offsets

        group = checked_text("group_id", group_id)
        return await self._do(alter_group_offsets, group, checked_offsets(offsets))

    async def delete_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, None]:
        """Delete offsets that a group has committed, for topics to which it does not subscribe.

        Args:
            group_id: the group.
            partitions: as separate arguments or in one list.

        Returns:
            The partitions whose offset was deleted, or that had none, and the error of each other partition:
                GROUP_SUBSCRIBED_TO_TOPIC, GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION and so on.
        """
        from kafkawire.sdk.admin.group_offsets import delete_group_offsets

        group = checked_text("group_id", group_id)
        chosen = checked_partitions(some("delete_group_offsets", "partitions", partitions))
        return await self._do(delete_group_offsets, group, chosen)

    async def lag(
        self,
        group_id: str,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> GroupLag:
        """Return how far a group is behind, as kafka-consumer-groups.sh does.

        Args:
            group_id: the group.
            isolation_level: `read_uncommitted` to count up to the last record, `read_committed` to count up to the
                first record of an open transaction.

        Returns:
            The group, and for each partition its committed offset, end offset, lag and member. A partition whose leader
                cannot be asked within `api_timeout_ms` has an error instead of an end offset.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED and so on; see `describe_groups`.
        """
        from kafkawire.sdk.admin.lag import group_lag

        group = checked_text("group_id", group_id)
        return await self._do(
            group_lag,
            group,
            isolation_level=checked_isolation_level(isolation_level),
            timeout_ms=self._broker_timeout_ms,
        )

    async def describe_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        *keys: str | Iterable[str],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """Return the configuration of a topic, broker or group.

        Args:
            resource_type: the kind of resource.
            name: the topic or group; the node id of a broker, as a string, or an empty string for the defaults of all
                brokers.
            keys: names of the entries to return, as separate arguments or in one list; all if none is given.
            include_synonyms: whether to return the places that define a value for each entry (KIP-226).
            include_documentation: whether to return what each entry means (KIP-569).

        Returns:
            The entries, keyed by name.

        Raises:
            BrokerError: the resource does not exist, or this user is not allowed to describe it.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
        """
        from kafkawire.sdk.admin.config_entries import describe_configs

        resource = checked_resource(resource_type, name)
        chosen = checked_names("key", keys) if keys else None
        results = await self._do(
            describe_configs,
            {resource: chosen},
            include_synonyms=bool(include_synonyms),
            include_documentation=bool(include_documentation),
        )
        return results.all()[resource]

    async def describe_configs_of(
        self,
        *resources: ConfigResource | Iterable[ConfigResource],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> ItemResults[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configurations of several resources.

        Args:
            resources: as separate arguments or in one list.
            include_synonyms: whether to return the places that define a value for each entry (KIP-226).
            include_documentation: whether to return what each entry means (KIP-569).

        Returns:
            The entries of each resource, keyed by name, and the error of each resource that does not exist or may not
                be described.

        Raises:
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
        """
        from kafkawire.sdk.admin.config_entries import describe_configs

        return await self._do(
            describe_configs,
            dict.fromkeys(checked_resources(some("describe_configs_of", "resources", resources))),
            include_synonyms=bool(include_synonyms),
            include_documentation=bool(include_documentation),
        )

    async def list_config_resources(
        self, *resource_types: enums.ConfigResourceType | Iterable[enums.ConfigResourceType]
    ) -> list[ConfigResource]:
        """Return the resources that have a configuration, sorted.

        Args:
            resource_types: as separate arguments or in one list; all kinds of resources if none is given. Groups and
                subscriptions of client metrics are listed only if they have a configuration of their own.

        Raises:
            BrokerError: the broker rejected the request, for example with CLUSTER_AUTHORIZATION_FAILED.
            UnsupportedVersion: the broker is older than Apache Kafka 4.1 (KIP-1142) or, for nothing but subscriptions
                of client metrics, 3.7; or it uses ZooKeeper.
        """
        from kafkawire.sdk.admin.config_entries import list_config_resources

        return await self._do(list_config_resources, checked_resource_types(resource_types))

    async def incremental_alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        changes: Mapping[str, str | None] | Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change entries of the configuration of a topic, broker or group; other entries stay unchanged.

        Args:
            resource_type: the kind of resource; a single broker's configuration and logger levels are changed at that
                broker.
            name: the topic or group; the node id of a broker, as a string, or an empty string for the defaults of all
                brokers.
            changes: the new value of each entry, keyed by name, with None to return to the default; or `ConfigChange`s,
                to append to lists or subtract from them.
            validate_only: whether the broker should check the changes without making them.

        Raises:
            BrokerError: nothing was changed: INVALID_CONFIG, INVALID_REQUEST if an entry cannot be changed,
                UNKNOWN_TOPIC_OR_PARTITION, CLUSTER_AUTHORIZATION_FAILED and others.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
            UnsupportedVersion: the broker is older than Apache Kafka 2.3 (KIP-339).
        """
        from kafkawire.sdk.admin.config_changes import incremental_alter_configs

        wanted = {checked_resource(resource_type, name): checked_config_changes(changes)}
        results = await self._do(incremental_alter_configs, wanted, validate_only=bool(validate_only))
        results.all()

    async def incremental_alter_configs_of(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None] | Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> ItemResults[ConfigResource, None]:
        """Change entries of the configurations of several resources; see `incremental_alter_configs`.

        Args:
            changes: for each resource, the new value of each entry, or `ConfigChange`s.
            validate_only: whether the brokers should check the changes without making them.

        Returns:
            The resources that were changed, and the error of each other resource, of which nothing was changed.

        Raises:
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
        """
        from kafkawire.sdk.admin.config_changes import incremental_alter_configs

        checked = checked_resource_changes(changes)
        return await self._do(incremental_alter_configs, checked, validate_only=bool(validate_only))

    async def alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the whole configuration of a topic or broker; entries that are not given return to their defaults.

        Changes that other clients make at the same time are lost; prefer `incremental_alter_configs`.

        Args:
            resource_type: the kind of resource; a single broker's configuration is changed at that broker.
            name: the topic; the node id of a broker, as a string, or an empty string for the defaults of all brokers.
            configs: every entry whose value differs from the default.
            validate_only: whether the broker should check the entries without storing them.

        Raises:
            BrokerError: nothing was changed: INVALID_CONFIG, INVALID_REQUEST if an entry cannot be changed,
                UNKNOWN_TOPIC_OR_PARTITION, CLUSTER_AUTHORIZATION_FAILED and others.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
            UnsupportedVersion: the broker is older than Apache Kafka 0.11 (KIP-133).
        """
        from kafkawire.sdk.admin.config_changes import alter_configs

        wanted = {checked_resource(resource_type, name): checked_configs(configs)}
        results = await self._do(alter_configs, wanted, validate_only=bool(validate_only))
        results.all()

    async def create_acls(self, *acls: AclBinding | Iterable[AclBinding]) -> ItemResults[AclBinding, None]:
        """Create ACLs, which allow or deny operations on resources.

        An ACL that exists already stays as it is.

        Args:
            acls: as separate arguments or in one list; duplicates are ignored.

        Returns:
            The ACLs that the cluster has stored, and the error of each other one: INVALID_REQUEST if the broker refuses
                it, SECURITY_DISABLED if the brokers have no authorizer, CLUSTER_AUTHORIZATION_FAILED. It may take a
                moment until every broker enforces a new ACL.

        Raises:
            LocalProtocolError: an argument is not an `AclBinding`, or an attribute is wrong or only for filters.
        """
        from kafkawire.sdk.admin.acl_arguments import checked_acls
        from kafkawire.sdk.admin.acls import create_acls

        return await self._do(create_acls, checked_acls(some("create_acls", "ACLs", acls)))

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return ACLs.

        Args:
            wanted: selects the ACLs; None for all of them.

        Raises:
            BrokerError: SECURITY_DISABLED if the broker has no authorizer; CLUSTER_AUTHORIZATION_FAILED.
            LocalProtocolError: `wanted` is not an `AclBindingFilter`, or an attribute is wrong.
        """
        from kafkawire.sdk.admin.acl_arguments import checked_filter
        from kafkawire.sdk.admin.acls import describe_acls

        return await self._do(describe_acls, checked_filter(wanted))

    async def delete_acls(
        self, *filters: AclBindingFilter | Iterable[AclBindingFilter]
    ) -> ItemResults[AclBindingFilter, ItemResults[AclBinding, None]]:
        """Delete all ACLs that match at least one filter.

        Args:
            filters: as separate arguments or in one list; `AclBindingFilter()` matches every ACL.

        Returns:
            For each filter, the ACLs that it has deleted, and the error of each ACL that matched but was not deleted;
                and the error of each filter that the broker refused: SECURITY_DISABLED if the brokers have no
                authorizer, CLUSTER_AUTHORIZATION_FAILED.

        Raises:
            LocalProtocolError: an argument is not an `AclBindingFilter`, or an attribute is wrong.
        """
        from kafkawire.sdk.admin.acl_arguments import checked_filters
        from kafkawire.sdk.admin.acls import delete_acls

        return await self._do(delete_acls, checked_filters(some("delete_acls", "filters", filters)))

    async def describe_client_quotas(
        self, wanted: ClientQuotaFilter | ClientQuotaEntity | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of users, client ids and addresses, each keyed by name, such as `producer_byte_rate`.

        Args:
            wanted: selects entities, or is the only entity to return; None for all that have quotas.

        Raises:
            BrokerError: INVALID_REQUEST if the filter combines an address with a user or a client id;
                CLUSTER_AUTHORIZATION_FAILED.
            UnsupportedVersion: the broker is older than Apache Kafka 2.6 (KIP-546).
        """
        from kafkawire.sdk.admin.client_quotas import describe_client_quotas

        return await self._do(describe_client_quotas, checked_filter(wanted))

    async def alter_client_quotas(
        self, *alterations: ClientQuotaAlteration | Iterable[ClientQuotaAlteration], validate_only: bool = False
    ) -> ItemResults[ClientQuotaEntity, None]:
        """Set and remove quotas of users, client ids and addresses; quotas that are not named stay unchanged.

        Args:
            alterations: as separate arguments or in one list, at most one for each entity.
            validate_only: whether the broker should check the changes without making them.

        Returns:
            The entities that were changed, and the error of each other entity: INVALID_REQUEST for an unknown quota,
                a value that is not allowed, or an impossible combination of names.

        Raises:
            BrokerError: nothing was changed: CLUSTER_AUTHORIZATION_FAILED.
            UnsupportedVersion: the broker is older than Apache Kafka 2.6 (KIP-546).
        """
        from kafkawire.sdk.admin.client_quotas import alter_client_quotas

        checked = checked_alterations(some("alter_client_quotas", "alterations", alterations))
        return await self._do(alter_client_quotas, checked, validate_only=bool(validate_only))

    async def describe_user_scram_credentials(
        self, *users: str | Iterable[str]
    ) -> ItemResults[str, UserScramCredentialsDescription]:
        """Return the mechanisms of users' SCRAM credentials, and the iterations of the hash; secrets are not shown.

        Args:
            users: as separate arguments or in one list; all users with credentials if none is given.

        Returns:
            The users with credentials, and the error of each other user: RESOURCE_NOT_FOUND.

        Raises:
            BrokerError: CLUSTER_AUTHORIZATION_FAILED.
            UnsupportedVersion: the broker is older than Apache Kafka 2.7 (KIP-554).
        """
        from kafkawire.sdk.admin.scram_credentials import describe_user_scram_credentials

        names = list(dict.fromkeys(checked_names("user", users))) if users else None
        return await self._do(describe_user_scram_credentials, names)

    async def alter_user_scram_credentials(
        self,
        *alterations: UserScramCredentialUpsertion
        | UserScramCredentialDeletion
        | Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    ) -> ItemResults[str, None]:
        """Create, replace and delete SCRAM credentials. Passwords are hashed before they are sent.

        Args:
            alterations: `UserScramCredentialUpsertion`s and `UserScramCredentialDeletion`s, as separate arguments or in
                one list.

        Returns:
            The users that were changed, and the error of each other user: UNACCEPTABLE_CREDENTIAL for too few or too
                many iterations, RESOURCE_NOT_FOUND if a credential to delete does not exist, DUPLICATE_RESOURCE if a
                user is named twice.

        Raises:
            BrokerError: nothing was changed: CLUSTER_AUTHORIZATION_FAILED.
            UnsupportedVersion: the broker is older than Apache Kafka 2.7 (KIP-554).
        """
        from kafkawire.sdk.admin.scram_credentials import alter_user_scram_credentials

        checked = checked_scram_alterations(some("alter_user_scram_credentials", "alterations", alterations))
        return await self._do(alter_user_scram_credentials, checked)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, sorted.

        Args:
            states: only ids in one of these states, such as `Ongoing`, in any case; ids in all states if empty.
            producer_ids: only ids of these producers; ids of all producers if empty.
            longer_than_ms: only ids whose transaction began longer ago than this (KIP-994); None for all ids.
            pattern: only ids that match this regular expression as a whole, in RE2's syntax (KIP-1152); None for all
                ids.

        Raises:
            BrokerError: a broker rejected the request; the transactional ids of the other brokers, keyed by node id,
                are in `results` of the error.
            LocalProtocolError: there is no such state.
            UnsupportedVersion: a broker is older than Apache Kafka 3.0 (KIP-664); or a duration was given, and it is
                older than 3.8; or a pattern, and it is older than 4.1.
        """
        from kafkawire.sdk.admin.transactions import STATES, list_transactions

        longest = None if longer_than_ms is None else checked_number("longer_than_ms", longer_than_ms, 0, MAX_INT64)
        results = await self._do(
            list_transactions,
            states=checked_choices("states", states, STATES),
            producer_ids=checked_numbers("producer_ids", producer_ids, MAX_INT64),
            longer_than_ms=longest,
            pattern=None if pattern is None else checked_text("pattern", pattern),
        )
        return sorted(listing for listings in results.all().values() for listing in listings)

    async def describe_transactions(
        self, *transactional_ids: str | Iterable[str]
    ) -> ItemResults[str, TransactionDescription]:
        """Return the state of transactional ids.

        Args:
            transactional_ids: as separate arguments or in one list.

        Returns:
            The state of each id, and the error of each other id: TRANSACTIONAL_ID_NOT_FOUND,
                TRANSACTIONAL_ID_AUTHORIZATION_FAILED, or an error saying that the broker is older than Apache Kafka 3.0
                (KIP-664).
        """
        from kafkawire.sdk.admin.transactions import describe_transactions

        chosen = checked_names("transactional_id", some("describe_transactions", "ids", transactional_ids))
        return await self._do(describe_transactions, chosen)

    async def describe_producers(
        self, *partitions: TopicPartition | Iterable[TopicPartition], node_id: int | None = None
    ) -> ItemResults[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the producers that have written to partitions, idempotently or in transactions.

        Args:
            partitions: as separate arguments or in one list.
            node_id: the broker to ask, which may be a follower; None for the leader of each partition.

        Returns:
            The producers of each partition, and the error of each other partition: UNKNOWN_TOPIC_OR_PARTITION,
                TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER if the chosen broker does not have it, or an error
                saying that the broker is older than Apache Kafka 2.8 (KIP-664).
        """
        from kafkawire.sdk.admin.transactions import describe_producers

        chosen = checked_partitions(some("describe_producers", "partitions", partitions))
        return await self._do(describe_producers, chosen, checked_node_id(node_id))

    async def find_hanging_transactions(
        self, *topics: str | Iterable[str], node_id: int | None = None, silent_for_ms: int = SILENT_MS
    ) -> list[HangingTransaction]:
        """Return transactions that are open in a partition but unknown to their coordinators (KIP-664).

        Consumers that read committed records cannot get past such a transaction. `abort_transaction` ends it.

        Args:
            topics: the topics to search, as separate arguments or in one list; all topics if none is given.
            node_id: the broker to ask about the partitions of which it has a replica; None to ask all leaders.
            silent_for_ms: only transactions whose producer has not written for longer than this, which should be at
                least the brokers' `transaction.max.timeout.ms`.

        Raises:
            BrokerError: a topic does not exist, this user is not allowed to describe it, or a broker rejected a
                request.
            UnsupportedVersion: a broker is older than Apache Kafka 3.0.
        """
        from kafkawire.sdk.admin.hanging_transactions import find_hanging_transactions
        from kafkawire.sdk.clock import now_ms

        return await self._do(
            find_hanging_transactions,
            _topics(topics) if topics else None,
            node_id=checked_node_id(node_id),
            silent_for_ms=checked_number("silent_for_ms", silent_for_ms, 0, MAX_INT64),
            now_ms=now_ms(),
        )

    async def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition, by writing an abort marker there.

        The coordinator is not told: of a transaction that it knows, use `force_terminate_transaction` instead. The
        arguments are those of the `producer` of a `HangingTransaction`.

        Args:
            partition: the partition.
            producer_id: the id of the producer.
            producer_epoch: the epoch of the producer.
            coordinator_epoch: the epoch of the coordinator; None if the producer has not ended a transaction yet.

        Raises:
            BrokerError: CLUSTER_AUTHORIZATION_FAILED; INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if an
                epoch is outdated; UNKNOWN_TOPIC_OR_PARTITION and so on.
        """
        from kafkawire.sdk.admin.transactions import abort_transaction

        epoch = 0 if coordinator_epoch is None else checked_number("coordinator_epoch", coordinator_epoch, 0, MAX_INT32)
        await self._do(
            abort_transaction,
            checked_partition(partition),
            producer_id=checked_number("producer_id", producer_id, 0, MAX_INT64),
            producer_epoch=checked_number("producer_epoch", producer_epoch, 0, MAX_INT16),
            coordinator_epoch=epoch,
        )

    async def fence_producers(self, *transactional_ids: str | Iterable[str]) -> ItemResults[str, FencedProducer]:
        """Fence the producers of transactional ids, which aborts their open transactions (KIP-360).

        Args:
            transactional_ids: as separate arguments or in one list.

        Returns:
            The identity that the next producer of each id will exceed, and the error of each other id:
                TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_TRANSACTION_TIMEOUT and so on.
        """
        from kafkawire.sdk.admin.transactions import fence_producers

        chosen = checked_names("transactional_id", some("fence_producers", "ids", transactional_ids))
        return await self._do(fence_producers, chosen, timeout_ms=self._broker_timeout_ms)

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """End the transaction of a transactional id, even a prepared one, by fencing its producer (KIP-939).

        Args:
            transactional_id: the transactional id.

        Raises:
            BrokerError: the transaction cannot be ended; see `fence_producers`.
        """
        from kafkawire.sdk.admin.transactions import fence_producers

        chosen = [checked_text("transactional_id", transactional_id)]
        (await self._do(fence_producers, chosen, timeout_ms=self._broker_timeout_ms)).all()

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    async def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics, as 22 characters (KIP-714).

        Args:
            timeout_ms: how long to wait for a broker to give it.

        Raises:
            RequestTimedOut: no broker has given an id in time.
            UnsupportedVersion: the brokers do not want the metrics of clients.
            LocalProtocolError: `enable_metrics_push` is False.
            Closed: the admin is not started or is closed.
        """
        return await self._running().client_instance_id(checked_timeout_ms(timeout_ms))

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; any thread may call this. docs/observability.md lists them.

        Raises:
            Closed: the admin is not started or is closed.
        """
        return self._running().metrics()

    @property
    def _broker_timeout_ms(self) -> int:
        """How long a broker may take for a change, such as creating topics."""
        return self._options.request_timeout_ms

    @property
    def _operations(self) -> Operations:
        return self._running().operations

    def _running(self) -> ClientCore:
        started = self._started  # read only once, because a signal handler may close the admin at any moment
        if started is None:
            raise not_running("admin", is_closed=self._is_closed)
        return started

    async def _do(
        self,
        function: Callable[Concatenate[Operations, P], Coroutine[Any, Any, Result]],
        /,
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Result:
        """Have the driver run a function, which sends requests until it has a result or its time is up."""
        return await self._running().perform(function(self._operations, *arguments, **options))


class _Limited(Admin):
    """An admin whose calls have another limit; see `Admin.within`.

    Args:
        whole: the admin.
        timeout_ms: the limit.
    """

    def __init__(self, whole: Admin, timeout_ms: int) -> None:
        self._whole = whole
        self._timeout_ms = timeout_ms
        self._options = whole._options

    def __repr__(self) -> str:
        return repr(self._whole)

    def _state(self) -> tuple[AdminOptions | None, State]:
        return self._whole._state()

    @property
    def _broker_timeout_ms(self) -> int:
        return min(self._whole._broker_timeout_ms, self._timeout_ms)

    @property
    def _operations(self) -> Operations:
        return self._whole._operations.within(self._timeout_ms)

    def _running(self) -> ClientCore:
        return self._whole._running()

    async def start(self) -> NoReturn:
        """Refuse to start, because the admin itself is started.

        Raises:
            LocalProtocolError: always.
        """
        raise LocalProtocolError("start the admin itself, not the result of within")

    async def close(self) -> NoReturn:
        """Refuse to close, because the admin itself is closed.

        Raises:
            LocalProtocolError: always.
        """
        raise LocalProtocolError("close the admin itself, not the result of within")


def _topics(names: tuple[Any, ...]) -> list[str]:
    return [checked_topic(name) for name in checked_names("topic", names)]


def _check_all(call: str, items: str, given: tuple[Any, ...], **is_all: bool) -> None:
    """Check that an operation is given either items or the argument that stands for all of them."""
    ((argument, chosen),) = is_all.items()
    if not chosen:
        some(call, items, given, f"; for all, pass {argument}=True")
    elif given:
        raise LocalProtocolError(f"{call}: {argument}=True leaves no room for other {items}")


def _period_ms(what: str, given: object, first: int) -> int | None:
    """Return a period in milliseconds of at least `first`; None, which is -1 in Kafka, stands for the default."""
    if given is None or given == -1:
        return None
    return checked_number(what, given, first, INT64_MAX)


def _was_given(items: Iterable[object]) -> bool:
    """Return whether an argument that is `()` by default was given, even as an empty list."""
    return type(items) is not tuple or bool(items)
