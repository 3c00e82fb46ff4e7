"""The blocking admin client: `kafkawire.Admin` on an I/O thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from kafkawire.sdk.admin.admin import SILENT_MS
from kafkawire.sdk.admin.admin import Admin as AsyncAdmin
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
from kafkawire.sdk.admin.feature_updates import FeatureUpdate
from kafkawire.sdk.admin.quorum_values import QuorumInfo
from kafkawire.sdk.admin.quota_values import ClientQuotaAlteration, ClientQuotaEntity, ClientQuotaFilter
from kafkawire.sdk.admin.scram_values import (
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from kafkawire.sdk.admin.share_group_descriptions import ShareGroupDescription, SharePartitionOffset
from kafkawire.sdk.admin.streams_group_descriptions import StreamsGroupDescription
from kafkawire.sdk.admin.token_values import DelegationToken
from kafkawire.sdk.client.method_hints import ADMIN, Hinting
from kafkawire.sdk.client.summary import blocking_summary
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.sync.options import on_io_thread
from kafkawire.sdk.transport.waiting import result_of
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
    from kafkawire.sdk.client.keywords import AdminKeywords
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.protocol.acls import AclBinding, AclBindingFilter
    from kafkawire.sdk.routing.metadata import Topic
    from kafkawire.sdk.secret import Secret

__all__ = ["Admin"]


class Admin(Hinting, hints=ADMIN):
    """Manage a cluster, blocking the caller where `kafkawire.Admin` awaits.

    The constructor does no I/O; use `with Admin(…) as admin`, or call `start` and `close`. Any thread may call any
    method. `kafkawire.Admin` describes the errors that methods raise.

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
        self._inner = AsyncAdmin(servers, network=network, **on_io_thread(options))

    def __repr__(self) -> str:
        return blocking_summary(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect to the cluster; see `kafkawire.Admin.start`."""
        result_of(self._inner.start)

    def close(self) -> None:
        """Disconnect; calls still running raise `Closed`."""
        result_of(self._inner.close)

    def within(self, timeout_ms: int) -> Admin:
        """Return this admin with another limit for each call; see `kafkawire.Admin.within`."""
        limited = copy(self)
        limited._inner = self._inner.within(timeout_ms)
        return limited

    def create_topics(
        self,
        *topics: NewTopic | str | Iterable[NewTopic | str],
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, CreatedTopic]:
        """Create topics; see `kafkawire.Admin.create_topics`."""
        return result_of(
            self._inner.create_topics,
            *topics,
            validate_only=validate_only,
            retry_on_quota_violation=retry_on_quota_violation,
        )

    def delete_topics(
        self,
        *names: str | Iterable[str],
        topic_ids: Iterable[bytes | str] = (),
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Delete topics and all their records; see `kafkawire.Admin.delete_topics`."""
        result_of(
            self._inner.delete_topics, *names, topic_ids=topic_ids, retry_on_quota_violation=retry_on_quota_violation
        )

    def create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
    ) -> ItemResults[str, None]:
        """Add partitions to topics; see `kafkawire.Admin.create_partitions`."""
        return result_of(
            self._inner.create_partitions,
            partitions,
            validate_only=validate_only,
            retry_on_quota_violation=retry_on_quota_violation,
        )

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas, or cancel moves; the brokers copy the records afterwards.

        See `kafkawire.Admin.alter_partition_reassignments`.
        """
        return result_of(
            self._inner.alter_partition_reassignments,
            reassignments,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    def list_partition_reassignments(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, by partition; see `kafkawire.Admin.list_partition_reassignments`."""
        return result_of(self._inner.list_partition_reassignments, *partitions)

    def elect_leaders(
        self,
        election_type: enums.ElectionType,
        *partitions: TopicPartition | Iterable[TopicPartition],
        all_partitions: bool = False,
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions; see `kafkawire.Admin.elect_leaders`."""
        return result_of(self._inner.elect_leaders, election_type, *partitions, all_partitions=all_partitions)

    def describe_log_dirs(self, *node_ids: int | Iterable[int]) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers and the replicas in them; see `kafkawire.Admin.describe_log_dirs`."""
        return result_of(self._inner.describe_log_dirs, *node_ids)

    def describe_replica_log_dirs(
        self, *replicas: TopicPartitionReplica | Iterable[TopicPartitionReplica]
    ) -> ItemResults[TopicPartitionReplica, ReplicaLogDirs]:
        """Return the log directories of replicas, and how far moves to other directories have got.

        See `kafkawire.Admin.describe_replica_log_dirs`.
        """
        return result_of(self._inner.describe_replica_log_dirs, *replicas)

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers, which copy the records afterwards.

        See `kafkawire.Admin.alter_replica_log_dirs`.
        """
        return result_of(self._inner.alter_replica_log_dirs, log_dirs)

    def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Return all topics by name; see `kafkawire.Admin.list_topics`."""
        return result_of(self._inner.list_topics, include_internal=include_internal)

    def describe_topics(
        self,
        *names: str | Iterable[str],
        topic_ids: Iterable[bytes | str] = (),
        include_eligible_leaders: bool = False,
        include_authorized_operations: bool = False,
    ) -> dict[str, Topic]:
        """Return topics by name, with the leader and replicas of each partition.

        See `kafkawire.Admin.describe_topics`.
        """
        return result_of(
            self._inner.describe_topics,
            *names,
            topic_ids=topic_ids,
            include_eligible_leaders=include_eligible_leaders,
            include_authorized_operations=include_authorized_operations,
        )

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers with their racks.

        See `kafkawire.Admin.describe_cluster`.
        """
        return result_of(
            self._inner.describe_cluster,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )

    def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """Return the features of the cluster (KIP-584); see `kafkawire.Admin.describe_features`."""
        return result_of(self._inner.describe_features, node_id)

    def update_features(
        self, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False
    ) -> ItemResults[str, None]:
        """Change the finalized levels of features (KIP-584); see `kafkawire.Admin.update_features`."""
        return result_of(self._inner.update_features, updates, validate_only=validate_only)

    def describe_metadata_quorum(self) -> QuorumInfo:
        """Return the KRaft quorum that keeps the cluster's metadata; see `kafkawire.Admin.describe_metadata_quorum`."""
        return result_of(self._inner.describe_metadata_quorum)

    def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker that is gone for good; see `kafkawire.Admin.unregister_broker`."""
        result_of(self._inner.unregister_broker, broker_id)

    def create_delegation_token(
        self, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None
    ) -> DelegationToken:
        """Create a delegation token; see `kafkawire.Admin.create_delegation_token`."""
        return result_of(self._inner.create_delegation_token, owner, renewers, max_lifetime_ms)

    def renew_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, renew_period_ms: int | None = None
    ) -> int:
        """Let a delegation token expire later; see `kafkawire.Admin.renew_delegation_token`."""
        return result_of(self._inner.renew_delegation_token, hmac, renew_period_ms)

    def expire_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, expiry_period_ms: int | None = None
    ) -> int:
        """Let a delegation token expire at another time; see `kafkawire.Admin.expire_delegation_token`."""
        return result_of(self._inner.expire_delegation_token, hmac, expiry_period_ms)

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return delegation tokens that this client may see; see `kafkawire.Admin.describe_delegation_tokens`."""
        return result_of(self._inner.describe_delegation_tokens, owners)

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
    ) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id; see `kafkawire.Admin.list_groups`."""
        return result_of(self._inner.list_groups, states=states, types=types, protocol_types=protocol_types)

    def describe_groups(
        self, *group_ids: str | Iterable[str], include_authorized_operations: bool = False
    ) -> dict[str, GroupDescription]:
        """Return consumer groups, classic or KIP-848, by group id; see `kafkawire.Admin.describe_groups`."""
        return result_of(
            self._inner.describe_groups, *group_ids, include_authorized_operations=include_authorized_operations
        )

    def describe_streams_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups by group id (KIP-1071); see `kafkawire.Admin.describe_streams_groups`."""
        return result_of(self._inner.describe_streams_groups, *group_ids)

    def delete_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete groups without members, of any type, with their committed offsets.

        See `kafkawire.Admin.delete_groups`.
        """
        return result_of(self._inner.delete_groups, *group_ids)

    def remove_group_members(
        self,
        group_id: str,
        *group_instance_ids: str | Iterable[str],
        member_ids: Iterable[str] = (),
        all_members: bool = False,
        reason: str = "member was removed by an admin",
    ) -> ItemResults[str, None]:
        """Remove members from a group, which then distributes their partitions among the others.

        See `kafkawire.Admin.remove_group_members`.
        """
        return result_of(
            self._inner.remove_group_members,
            group_id,
            *group_instance_ids,
            member_ids=member_ids,
            all_members=all_members,
            reason=reason,
        )

    def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int | datetime],
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition; see `kafkawire.Admin.list_offsets`."""
        return result_of(self._inner.list_offsets, timestamps, isolation_level=isolation_level)

    def delete_records(self, before: Mapping[TopicPartition, int | None]) -> ItemResults[TopicPartition, int]:
        """Delete the oldest records of partitions; see `kafkawire.Admin.delete_records`."""
        return result_of(self._inner.delete_records, before)

    def list_group_offsets(
        self,
        group_id: str,
        *partitions: TopicPartition | Iterable[TopicPartition],
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed; see `kafkawire.Admin.list_group_offsets`."""
        return result_of(self._inner.list_group_offsets, group_id, *partitions, require_stable=require_stable)

    def describe_share_groups(
        self, *group_ids: str | Iterable[str], include_authorized_operations: bool = False
    ) -> ItemResults[str, ShareGroupDescription]:
        """Return share groups by group id (KIP-932); see `kafkawire.Admin.describe_share_groups`."""
        return result_of(
            self._inner.describe_share_groups, *group_ids, include_authorized_operations=include_authorized_operations
        )

    def delete_share_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete share groups that have no members; see `kafkawire.Admin.delete_share_groups`."""
        return result_of(self._inner.delete_share_groups, *group_ids)

    def list_share_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, SharePartitionOffset | None]:
        """Return the start offsets of a share group; see `kafkawire.Admin.list_share_group_offsets`."""
        return result_of(self._inner.list_share_group_offsets, group_id, *partitions)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> ItemResults[TopicPartition, None]:
        """Change the start offsets of a share group that has no members.

        See `kafkawire.Admin.alter_share_group_offsets`.
        """
        return result_of(self._inner.alter_share_group_offsets, group_id, offsets)

    def delete_share_group_offsets(self, group_id: str, *topics: str | Iterable[str]) -> ItemResults[str, None]:
        """Delete the start offsets of a share group that has no members, for whole topics.

        See `kafkawire.Admin.delete_share_group_offsets`.
        """
        return result_of(self._inner.delete_share_group_offsets, group_id, *topics)

    def list_group_offsets_of(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None] | Iterable[str],
        *,
        require_stable: bool = False,
    ) -> ItemResults[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that several groups have committed; see `kafkawire.Admin.list_group_offsets_of`."""
        return result_of(self._inner.list_group_offsets_of, groups, require_stable=require_stable)

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> ItemResults[TopicPartition, None]:
        """Commit offsets for a group that has no members; see `kafkawire.Admin.alter_group_offsets`."""
        return result_of(self._inner.alter_group_offsets, group_id, offsets)

    def delete_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, None]:
        """Delete offsets that a group has committed, for topics to which it does not subscribe.

        See `kafkawire.Admin.delete_group_offsets`.
        """
        return result_of(self._inner.delete_group_offsets, group_id, *partitions)

    def lag(
        self,
        group_id: str,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> GroupLag:
        """Return how far a group is behind, as kafka-consumer-groups.sh does; see `kafkawire.Admin.lag`."""
        return result_of(self._inner.lag, group_id, isolation_level=isolation_level)

    def describe_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        *keys: str | Iterable[str],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """Return the configuration of a topic, broker or group; see `kafkawire.Admin.describe_configs`."""
        return result_of(
            self._inner.describe_configs,
            resource_type,
            name,
            *keys,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    def describe_configs_of(
        self,
        *resources: ConfigResource | Iterable[ConfigResource],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> ItemResults[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configurations of several resources; see `kafkawire.Admin.describe_configs_of`."""
        return result_of(
            self._inner.describe_configs_of,
            *resources,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    def list_config_resources(
        self, *resource_types: enums.ConfigResourceType | Iterable[enums.ConfigResourceType]
    ) -> list[ConfigResource]:
        """Return the resources that have a configuration, sorted; see `kafkawire.Admin.list_config_resources`."""
        return result_of(self._inner.list_config_resources, *resource_types)

    def incremental_alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        changes: Mapping[str, str | None] | Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change entries of the configuration of a topic, broker or group; other entries stay unchanged.

        See `kafkawire.Admin.incremental_alter_configs`.
        """
        result_of(self._inner.incremental_alter_configs, resource_type, name, changes, validate_only=validate_only)

    def incremental_alter_configs_of(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None] | Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> ItemResults[ConfigResource, None]:
        """Change entries of the configurations of several resources; see `incremental_alter_configs`.

        See `kafkawire.Admin.incremental_alter_configs_of`.
        """
        return result_of(self._inner.incremental_alter_configs_of, changes, validate_only=validate_only)

    def alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the whole configuration of a topic or broker; entries that are not given return to their defaults.

        See `kafkawire.Admin.alter_configs`.
        """
        result_of(self._inner.alter_configs, resource_type, name, configs, validate_only=validate_only)

    def create_acls(self, *acls: AclBinding | Iterable[AclBinding]) -> ItemResults[AclBinding, None]:
        """Create ACLs, which allow or deny operations on resources; see `kafkawire.Admin.create_acls`."""
        return result_of(self._inner.create_acls, *acls)

    def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return ACLs; see `kafkawire.Admin.describe_acls`."""
        return result_of(self._inner.describe_acls, wanted)

    def delete_acls(
        self, *filters: AclBindingFilter | Iterable[AclBindingFilter]
    ) -> ItemResults[AclBindingFilter, ItemResults[AclBinding, None]]:
        """Delete all ACLs that match at least one filter; see `kafkawire.Admin.delete_acls`."""
        return result_of(self._inner.delete_acls, *filters)

    def describe_client_quotas(
        self, wanted: ClientQuotaFilter | ClientQuotaEntity | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of users, client ids and addresses; see `kafkawire.Admin.describe_client_quotas`."""
        return result_of(self._inner.describe_client_quotas, wanted)

    def alter_client_quotas(
        self, *alterations: ClientQuotaAlteration | Iterable[ClientQuotaAlteration], validate_only: bool = False
    ) -> ItemResults[ClientQuotaEntity, None]:
        """Set and remove quotas of users, client ids and addresses; quotas that are not named stay unchanged.

        See `kafkawire.Admin.alter_client_quotas`.
        """
        return result_of(self._inner.alter_client_quotas, *alterations, validate_only=validate_only)

    def describe_user_scram_credentials(
        self, *users: str | Iterable[str]
    ) -> ItemResults[str, UserScramCredentialsDescription]:
        """Return the mechanisms of users' SCRAM credentials, and the iterations of the hash; secrets are not shown.

        See `kafkawire.Admin.describe_user_scram_credentials`.
        """
        return result_of(self._inner.describe_user_scram_credentials, *users)

    def alter_user_scram_credentials(
        self,
        *alterations: UserScramCredentialUpsertion
        | UserScramCredentialDeletion
        | Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    ) -> ItemResults[str, None]:
        """Create, replace and delete SCRAM credentials; see `kafkawire.Admin.alter_user_scram_credentials`."""
        return result_of(self._inner.alter_user_scram_credentials, *alterations)

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, sorted; see `kafkawire.Admin.list_transactions`."""
        return result_of(
            self._inner.list_transactions,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )

    def describe_transactions(
        self, *transactional_ids: str | Iterable[str]
    ) -> ItemResults[str, TransactionDescription]:
        """Return the state of transactional ids; see `kafkawire.Admin.describe_transactions`."""
        return result_of(self._inner.describe_transactions, *transactional_ids)

    def describe_producers(
        self, *partitions: TopicPartition | Iterable[TopicPartition], node_id: int | None = None
    ) -> ItemResults[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the producers that have written to partitions, idempotently or in transactions.

        See `kafkawire.Admin.describe_producers`.
        """
        return result_of(self._inner.describe_producers, *partitions, node_id=node_id)

    def find_hanging_transactions(
        self, *topics: str | Iterable[str], node_id: int | None = None, silent_for_ms: int = SILENT_MS
    ) -> list[HangingTransaction]:
        """Return transactions that are open in a partition but unknown to their coordinators (KIP-664).

        See `kafkawire.Admin.find_hanging_transactions`.
        """
        return result_of(self._inner.find_hanging_transactions, *topics, node_id=node_id, silent_for_ms=silent_for_ms)

    def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition, by writing an abort marker there.

        See `kafkawire.Admin.abort_transaction`.
        """
        result_of(
            self._inner.abort_transaction,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )

    def fence_producers(self, *transactional_ids: str | Iterable[str]) -> ItemResults[str, FencedProducer]:
        """Fence the producers of transactional ids, which aborts their open transactions (KIP-360).

        See `kafkawire.Admin.fence_producers`.
        """
        return result_of(self._inner.fence_producers, *transactional_ids)

    def force_terminate_transaction(self, transactional_id: str) -> None:
        """End the transaction of a transactional id, even a prepared one, by fencing its producer (KIP-939).

        See `kafkawire.Admin.force_terminate_transaction`.
        """
        result_of(self._inner.force_terminate_transaction, transactional_id)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._inner.client_id

    def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics; see `kafkawire.Admin.client_instance_id`."""
        return result_of(self._inner.client_instance_id, timeout_ms)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `kafkawire.Admin.metrics`."""
        return self._inner.metrics()
