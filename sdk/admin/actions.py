"""The operations of an admin, as coroutines on the driver's loop; `Admin` passes them to the driver.

Each operation sends requests to the responsible broker, and retries retriable errors until `api_timeout_ms` has passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkawire.sdk.admin.broker_registrations import unregister_broker
from kafkawire.sdk.admin.client_quotas import alter_client_quotas, describe_client_quotas
from kafkawire.sdk.admin.cluster import describe_cluster
from kafkawire.sdk.admin.config_changes import alter_configs, incremental_alter_configs
from kafkawire.sdk.admin.config_entries import describe_configs, list_config_resources
from kafkawire.sdk.admin.delegation_tokens import (
    create_delegation_token,
    describe_delegation_tokens,
    expire_delegation_token,
    renew_delegation_token,
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
from kafkawire.sdk.admin.feature_updates import FeatureUpdate
from kafkawire.sdk.admin.features import describe_features, update_features
from kafkawire.sdk.admin.group_offsets import alter_group_offsets, delete_group_offsets, list_group_offsets
from kafkawire.sdk.admin.groups import delete_groups, describe_groups, list_groups, remove_group_members
from kafkawire.sdk.admin.hanging_transactions import find_hanging_transactions
from kafkawire.sdk.admin.lag import group_lag
from kafkawire.sdk.admin.log_dirs import alter_replica_log_dirs, describe_log_dirs, describe_replica_log_dirs
from kafkawire.sdk.admin.metadata_quorum import describe_metadata_quorum
from kafkawire.sdk.admin.partition_changes import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from kafkawire.sdk.admin.quorum_values import QuorumInfo
from kafkawire.sdk.admin.quota_values import ClientQuotaAlteration, ClientQuotaEntity, ClientQuotaFilter
from kafkawire.sdk.admin.records import delete_records, list_offsets
from kafkawire.sdk.admin.scram_credentials import alter_user_scram_credentials, describe_user_scram_credentials
from kafkawire.sdk.admin.scram_values import ScramAlteration, UserScramCredentialsDescription
from kafkawire.sdk.admin.share_group_descriptions import ShareGroupDescription, SharePartitionOffset
from kafkawire.sdk.admin.share_groups import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_groups,
    describe_share_groups,
    list_share_group_offsets,
)
from kafkawire.sdk.admin.streams_group_descriptions import StreamsGroupDescription
from kafkawire.sdk.admin.streams_groups import describe_streams_groups
from kafkawire.sdk.admin.token_values import DelegationToken, Principal
from kafkawire.sdk.admin.topics import create_partitions, create_topics, delete_topics, describe_topics
from kafkawire.sdk.admin.transaction_descriptions import (
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.sdk.admin.transactions import (
    abort_transaction,
    describe_producers,
    describe_transactions,
    fence_producers,
    list_transactions,
)
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.acls import AclBinding, AclBindingFilter
    from kafkawire.sdk.routing.metadata import Topic

__all__ = ["Actions"]


class Actions:
    """The operations of an admin.

    Args:
        operations: sends the requests.
        timeout_ms: how long a broker may take for a change, such as creating topics.
    """

    def __init__(self, operations: Operations, timeout_ms: int) -> None:
        self._operations = operations
        self._timeout_ms = timeout_ms

    def within(self, timeout_ms: int) -> Actions:
        """Return the same operations with another limit for each."""
        return Actions(self._operations.within(timeout_ms), min(self._timeout_ms, timeout_ms))

    async def create_topics(
        self, new: Sequence[NewTopic], *, validate_only: bool, retry_on_quota_violation: bool
    ) -> dict[str, CreatedTopic]:
        """Create topics; see `Admin.create_topics`."""
        results = await create_topics(
            self._operations,
            new,
            validate_only=validate_only,
            retry_on_quota_violation=retry_on_quota_violation,
            timeout_ms=self._timeout_ms,
        )
        return results.all()

    async def delete_topics(
        self, names: Sequence[str], topic_ids: Sequence[bytes], *, retry_on_quota_violation: bool
    ) -> None:
        """Delete topics; see `Admin.delete_topics`."""
        results = await delete_topics(
            self._operations,
            names,
            topic_ids,
            retry_on_quota_violation=retry_on_quota_violation,
            timeout_ms=self._timeout_ms,
        )
        results.all()

    async def create_partitions(
        self, wanted: Mapping[str, NewPartitions], *, validate_only: bool, retry_on_quota_violation: bool
    ) -> ItemResults[str, None]:
        """Add partitions to topics; see `Admin.create_partitions`."""
        return await create_partitions(
            self._operations,
            wanted,
            validate_only=validate_only,
            retry_on_quota_violation=retry_on_quota_violation,
            timeout_ms=self._timeout_ms,
        )

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[int, ...] | None], *, allow_replication_factor_change: bool
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas; see `Admin.alter_partition_reassignments`."""
        return await alter_partition_reassignments(
            self._operations,
            reassignments,
            allow_replication_factor_change=allow_replication_factor_change,
            timeout_ms=self._timeout_ms,
        )

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress; see `Admin.list_partition_reassignments`."""
        return await list_partition_reassignments(self._operations, partitions, timeout_ms=self._timeout_ms)

    async def elect_leaders(
        self, election_type: enums.ElectionType, partitions: Collection[TopicPartition] | None
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions; see `Admin.elect_leaders`."""
        return await elect_leaders(self._operations, election_type, partitions, timeout_ms=self._timeout_ms)

    async def describe_log_dirs(self, node_ids: Collection[int] | None) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers; see `Admin.describe_log_dirs`."""
        return await describe_log_dirs(self._operations, node_ids)

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories; see `Admin.alter_replica_log_dirs`."""
        return await alter_replica_log_dirs(self._operations, moves)

    async def list_topics(self, include_internal: bool) -> dict[str, Topic]:
        """Return all topics by name."""
        listed = await self._operations.describe(None)
        return {name: topic for name, topic in listed.items() if include_internal or not topic.is_internal}

    async def describe_topics(
        self,
        names: Sequence[str],
        topic_ids: Sequence[bytes],
        *,
        include_eligible_leaders: bool,
        include_authorized_operations: bool,
    ) -> dict[str, Topic]:
        """Return topics by name; see `Admin.describe_topics`."""
        results = await describe_topics(
            self._operations,
            names,
            topic_ids,
            include_eligible_leaders=include_eligible_leaders,
            include_authorized_operations=include_authorized_operations,
        )
        return {topic.name: topic for topic in results.all().values()}

    async def describe_cluster(
        self, *, include_authorized_operations: bool, include_fenced_brokers: bool
    ) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers; see `Admin.describe_cluster`."""
        return await describe_cluster(
            self._operations,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )

    async def describe_features(self, node_id: int | None) -> FeatureMetadata:
        """Return the features of the cluster; see `Admin.describe_features`."""
        return await describe_features(self._operations, node_id)

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool
    ) -> ItemResults[str, None]:
        """Change the finalized levels of features; see `Admin.update_features`."""
        return await update_features(
            self._operations, updates, validate_only=validate_only, timeout_ms=self._timeout_ms
        )

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Return the KRaft quorum; see `Admin.describe_metadata_quorum`."""
        return await describe_metadata_quorum(self._operations)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker; see `Admin.unregister_broker`."""
        await unregister_broker(self._operations, broker_id)

    async def create_delegation_token(
        self, owner: Principal | None, renewers: Sequence[Principal], max_lifetime_ms: int | None
    ) -> DelegationToken:
        """Create a delegation token; see `Admin.create_delegation_token`."""
        return await create_delegation_token(self._operations, owner, renewers, max_lifetime_ms)

    async def renew_delegation_token(self, hmac: bytes, renew_period_ms: int | None) -> int:
        """Let a delegation token expire later; see `Admin.renew_delegation_token`."""
        return await renew_delegation_token(self._operations, hmac, renew_period_ms)

    async def expire_delegation_token(self, hmac: bytes, expiry_period_ms: int | None) -> int:
        """Let a delegation token expire at another time; see `Admin.expire_delegation_token`."""
        return await expire_delegation_token(self._operations, hmac, expiry_period_ms)

    async def describe_delegation_tokens(self, owners: Collection[Principal] | None) -> list[DelegationToken]:
        """Return delegation tokens; see `Admin.describe_delegation_tokens`."""
        return await describe_delegation_tokens(self._operations, owners)

    async def list_groups(
        self, *, states: Sequence[str], types: Sequence[str], protocol_types: Sequence[str]
    ) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id; see `Admin.list_groups`."""
        results = await list_groups(self._operations, states=states, types=types, protocol_types=protocol_types)
        # A group may be listed twice if its coordinator moves.
        found = {group.group_id: group for listed in results.all().values() for group in listed}
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(
        self, group_ids: Sequence[str], *, include_authorized_operations: bool
    ) -> dict[str, GroupDescription]:
        """Return groups by group id; see `Admin.describe_groups`."""
        results = await describe_groups(
            self._operations, group_ids, include_authorized_operations=include_authorized_operations
        )
        return results.all()

    async def describe_streams_groups(self, group_ids: Collection[str]) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups; see `Admin.describe_streams_groups`."""
        return await describe_streams_groups(self._operations, group_ids)

    async def describe_configs(
        self,
        resources: Mapping[ConfigResource, Collection[str] | None],
        *,
        include_synonyms: bool,
        include_documentation: bool,
    ) -> ItemResults[ConfigResource, dict[str, ConfigEntry]]:
        """Return configurations; see `Admin.describe_configs_of`."""
        return await describe_configs(
            self._operations,
            resources,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool
    ) -> ItemResults[ConfigResource, None]:
        """Change entries of configurations; see `Admin.incremental_alter_configs_of`."""
        return await incremental_alter_configs(self._operations, changes, validate_only=validate_only)

    async def alter_configs(self, resource: ConfigResource, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace a configuration; see `Admin.alter_configs`."""
        altered = {resource: configs}
        (await alter_configs(self._operations, altered, validate_only=validate_only)).all()

    async def create_acls(self, acls: Sequence[AclBinding]) -> ItemResults[AclBinding, None]:
        """Create ACLs; see `Admin.create_acls`."""
        from kafkawire.sdk.admin.acls import create_acls

        return await create_acls(self._operations, acls)

    async def describe_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Return ACLs; see `Admin.describe_acls`."""
        from kafkawire.sdk.admin.acls import describe_acls

        return await describe_acls(self._operations, wanted)

    async def delete_acls(
        self, filters: Sequence[AclBindingFilter]
    ) -> ItemResults[AclBindingFilter, ItemResults[AclBinding, None]]:
        """Delete ACLs; see `Admin.delete_acls`."""
        from kafkawire.sdk.admin.acls import delete_acls

        return await delete_acls(self._operations, filters)

    async def describe_client_quotas(self, wanted: ClientQuotaFilter) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of entities; see `Admin.describe_client_quotas`."""
        return await describe_client_quotas(self._operations, wanted)

    async def alter_client_quotas(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool
    ) -> ItemResults[ClientQuotaEntity, None]:
        """Change the quotas of entities; see `Admin.alter_client_quotas`."""
        return await alter_client_quotas(self._operations, alterations, validate_only=validate_only)

    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None
    ) -> ItemResults[str, UserScramCredentialsDescription]:
        """Return the credentials of users; see `Admin.describe_user_scram_credentials`."""
        return await describe_user_scram_credentials(self._operations, users)

    async def alter_user_scram_credentials(self, alterations: Sequence[ScramAlteration]) -> ItemResults[str, None]:
        """Change the credentials of users; see `Admin.alter_user_scram_credentials`."""
        return await alter_user_scram_credentials(self._operations, alterations)

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, isolation_level: enums.IsolationLevel
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition; see `Admin.list_offsets`."""
        results = await list_offsets(
            self._operations, times, isolation_level=isolation_level, timeout_ms=self._timeout_ms
        )
        return results.all()

    async def list_group_offsets(
        self, wanted: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool
    ) -> ItemResults[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that groups have committed; see `Admin.list_group_offsets_of`."""
        return await list_group_offsets(self._operations, wanted, require_stable=require_stable)

    async def describe_share_groups(
        self, group_ids: Collection[str], *, include_authorized_operations: bool
    ) -> ItemResults[str, ShareGroupDescription]:
        """Return share groups; see `Admin.describe_share_groups`."""
        return await describe_share_groups(
            self._operations, group_ids, include_authorized_operations=include_authorized_operations
        )

    async def delete_share_groups(self, group_ids: Collection[str]) -> ItemResults[str, None]:
        """Delete share groups; see `Admin.delete_share_groups`."""
        return await delete_share_groups(self._operations, group_ids)

    async def list_share_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None
    ) -> ItemResults[TopicPartition, SharePartitionOffset | None]:
        """Return the start offsets of a share group; see `Admin.list_share_group_offsets`."""
        return await list_share_group_offsets(self._operations, group_id, partitions)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> ItemResults[TopicPartition, None]:
        """Change the start offsets of a share group; see `Admin.alter_share_group_offsets`."""
        return await alter_share_group_offsets(self._operations, group_id, offsets)

    async def delete_share_group_offsets(self, group_id: str, topics: Sequence[str]) -> ItemResults[str, None]:
        """Delete the start offsets of a share group; see `Admin.delete_share_group_offsets`."""
        return await delete_share_group_offsets(self._operations, group_id, topics)

    async def describe_replica_log_dirs(
        self, replicas: Sequence[TopicPartitionReplica]
    ) -> ItemResults[TopicPartitionReplica, ReplicaLogDirs]:
        """Return the log directories of replicas; see `Admin.describe_replica_log_dirs`."""
        return await describe_replica_log_dirs(self._operations, replicas)

    async def delete_records(self, before: Mapping[TopicPartition, int | None]) -> ItemResults[TopicPartition, int]:
        """Delete the oldest records of partitions; see `Admin.delete_records`."""
        return await delete_records(self._operations, before, timeout_ms=self._timeout_ms)

    async def list_config_resources(self, kinds: Collection[enums.ConfigResourceType]) -> list[ConfigResource]:
        """Return the resources that have a configuration; see `Admin.list_config_resources`."""
        return await list_config_resources(self._operations, kinds)

    async def delete_groups(self, group_ids: Sequence[str]) -> ItemResults[str, None]:
        """Delete groups; see `Admin.delete_groups`."""
        return await delete_groups(self._operations, group_ids)

    async def remove_group_members(
        self, group_id: str, instance_ids: Sequence[str] | None, member_ids: Sequence[str], *, reason: str
    ) -> ItemResults[str, None]:
        """Remove members from a group; see `Admin.remove_group_members`."""
        return await remove_group_members(self._operations, group_id, instance_ids, member_ids, reason=reason)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> ItemResults[TopicPartition, None]:
        """Change the offsets that a group has committed; see `Admin.alter_group_offsets`."""
        return await alter_group_offsets(self._operations, group_id, offsets)

    async def delete_group_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> ItemResults[TopicPartition, None]:
        """Delete offsets that a group has committed; see `Admin.delete_group_offsets`."""
        return await delete_group_offsets(self._operations, group_id, partitions)

    async def lag(self, group_id: str, *, isolation_level: enums.IsolationLevel) -> GroupLag:
        """Return how far a group is behind; see `Admin.lag`."""
        return await group_lag(self._operations, group_id, isolation_level=isolation_level, timeout_ms=self._timeout_ms)

    async def list_transactions(
        self,
        *,
        states: Sequence[str],
        producer_ids: Sequence[int],
        longer_than_ms: int | None,
        pattern: str | None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers; see `Admin.list_transactions`."""
        results = await list_transactions(
            self._operations,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )
        return sorted(listing for listings in results.all().values() for listing in listings)

    async def describe_transactions(self, transactional_ids: Sequence[str]) -> ItemResults[str, TransactionDescription]:
        """Return the state of transactional ids; see `Admin.describe_transactions`."""
        return await describe_transactions(self._operations, transactional_ids)

    async def describe_producers(
        self, partitions: Sequence[TopicPartition], node_id: int | None
    ) -> ItemResults[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the producers of partitions; see `Admin.describe_producers`."""
        return await describe_producers(self._operations, partitions, node_id)

    async def find_hanging_transactions(
        self, names: Sequence[str] | None, *, node_id: int | None, silent_for_ms: int
    ) -> list[HangingTransaction]:
        """Return the transactions that hang; see `Admin.find_hanging_transactions`."""
        return await find_hanging_transactions(
            self._operations, names, node_id=node_id, silent_for_ms=silent_for_ms, now_ms=now_ms()
        )

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an abort marker into a partition; see `Admin.abort_transaction`."""
        await abort_transaction(
            self._operations,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )

    async def fence_producers(self, transactional_ids: Sequence[str]) -> ItemResults[str, FencedProducer]:
        """Fence the producers of transactional ids; see `Admin.fence_producers`."""
        return await fence_producers(self._operations, transactional_ids, timeout_ms=self._timeout_ms)
