"""Apache Kafka's wire and storage formats from one set of declarative schemas.

The names below are loaded on first use: `import kafkawire` itself imports nothing. The clients' modules do not import
types that only annotations name. `typing.get_type_hints` of a method therefore needs them as `localns`:
`{"datetime": datetime} | {name: getattr(kafkawire, name) for name in kafkawire.__all__}` has almost all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.sdk.admin.admin import Admin
    from kafkawire.sdk.admin.descriptions import (
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSynonym,
        CreatedTopic,
        FeatureMetadata,
        GroupDescription,
        GroupLag,
        GroupListing,
        GroupMemberDescription,
        ItemResults,
        LogDir,
        LogDirReplica,
        NewPartitions,
        NewTopic,
        PartitionLag,
        PartitionReassignment,
        ReplicaLogDirs,
        TopicPartitionReplica,
    )
    from kafkawire.sdk.admin.feature_updates import FeatureUpdate
    from kafkawire.sdk.admin.quorum_values import QuorumInfo, QuorumReplica
    from kafkawire.sdk.admin.quota_values import (
        ClientQuotaAlteration,
        ClientQuotaEntity,
        ClientQuotaFilter,
        ClientQuotaFilterComponent,
        DefaultEntity,
    )
    from kafkawire.sdk.admin.scram_values import (
        ScramCredentialInfo,
        UserScramCredentialDeletion,
        UserScramCredentialsDescription,
        UserScramCredentialUpsertion,
    )
    from kafkawire.sdk.admin.share_group_descriptions import (
        ShareGroupDescription,
        ShareMemberDescription,
        SharePartitionOffset,
    )
    from kafkawire.sdk.admin.streams_group_descriptions import (
        StreamsGroupDescription,
        StreamsMemberDescription,
        StreamsSubtopology,
        StreamsTask,
        StreamsTasks,
        StreamsTopic,
    )
    from kafkawire.sdk.admin.token_values import DelegationToken
    from kafkawire.sdk.admin.transaction_descriptions import (
        ActiveProducer,
        FencedProducer,
        HangingTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from kafkawire.sdk.client.keywords import AdminKeywords, ConsumerKeywords, ProducerKeywords, ShareConsumerKeywords
    from kafkawire.sdk.client.partitioner import Partitioner
    from kafkawire.sdk.client.security_options import TokenProvider
    from kafkawire.sdk.consumer.batch import ConsumerBatch
    from kafkawire.sdk.consumer.consumer import Consumer
    from kafkawire.sdk.consumer.health import ConsumerHealth, WaitsFor
    from kafkawire.sdk.consumer.listener import RebalanceListener
    from kafkawire.sdk.consumer.reading.hooks import ConsumerInterceptor
    from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
    from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery, ShareDeliveryState
    from kafkawire.sdk.consumer.sharing.share_consumer import ShareConsumer, ShareStream
    from kafkawire.sdk.errors import BrokerError, BufferFull, KafkaWireError
    from kafkawire.sdk.groups.assignor import (
        Assignor,
        MemberSubscription,
        PartitionCounts,
        ReplicaRacks,
        Subscriptions,
    )
    from kafkawire.sdk.groups.protocol import GroupMetadata
    from kafkawire.sdk.metrics.names import MetricName, MetricsReporter
    from kafkawire.sdk.producer.engine import Delivery
    from kafkawire.sdk.producer.hooks import OutgoingRecord, ProducerInterceptor
    from kafkawire.sdk.producer.outcome import RecordMetadata
    from kafkawire.sdk.producer.producer import Producer, Transaction
    from kafkawire.sdk.protocol.acls import (
        AccessControlEntry,
        AccessControlEntryFilter,
        AclBinding,
        AclBindingFilter,
        ResourcePattern,
        ResourcePatternFilter,
    )
    from kafkawire.sdk.protocol.tables.enums import (
        AclOperation,
        AclPermissionType,
        AlterConfigOperation,
        ConfigResourceType,
        ConfigSource,
        ConfigType,
        ElectionType,
        FeatureUpgradeType,
        OffsetTimestamp,
        PatternType,
        ResourceType,
        ScramMechanism,
    )
    from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
    from kafkawire.sdk.protocol.values import Buffer
    from kafkawire.sdk.records import Batch, Compression, Headers, Record, TimestampType
    from kafkawire.sdk.records.content import HeadersInput
    from kafkawire.sdk.routing.metadata import ClusterBroker, Partition, Topic
    from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
    from kafkawire.sdk.secret import Secret
    from kafkawire.sdk.transport.wire import Address, Network
    from kafkawire.sdk.version import __version__

__all__ = [
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AcknowledgeOutcome",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "ActiveProducer",
    "Address",
    "Admin",
    "AdminKeywords",
    "AlterConfigOperation",
    "Assignor",
    "Batch",
    "BrokerError",
    "Buffer",
    "BufferFull",
    "ClientQuotaAlteration",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientQuotaFilterComponent",
    "ClusterBroker",
    "ClusterDescription",
    "Compression",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Consumer",
    "ConsumerBatch",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "ConsumerKeywords",
    "CreatedTopic",
    "DefaultEntity",
    "DelegationToken",
    "Delivery",
    "ElectionType",
    "ErrorCode",
    "FeatureMetadata",
    "FeatureUpdate",
    "FeatureUpgradeType",
    "FencedProducer",
    "GroupDescription",
    "GroupLag",
    "GroupListing",
    "GroupMemberDescription",
    "GroupMetadata",
    "HangingTransaction",
    "Headers",
    "HeadersInput",
    "ItemResults",
    "KafkaWireError",
    "LogDir",
    "LogDirReplica",
    "MemberSubscription",
    "MetricName",
    "MetricsReporter",
    "Network",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetTimestamp",
    "OutgoingRecord",
    "Partition",
    "PartitionCounts",
    "PartitionLag",
    "PartitionReassignment",
    "Partitioner",
    "PatternType",
    "Producer",
    "ProducerInterceptor",
    "ProducerKeywords",
    "QuorumInfo",
    "QuorumReplica",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "ReplicaLogDirs",
    "ReplicaRacks",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "Secret",
    "ShareConsumer",
    "ShareConsumerKeywords",
    "ShareDelivery",
    "ShareDeliveryState",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "SharePartitionOffset",
    "ShareStream",
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTasks",
    "StreamsTopic",
    "Subscriptions",
    "TimestampType",
    "TokenProvider",
    "Topic",
    "TopicPartition",
    "TopicPartitionReplica",
    "Transaction",
    "TransactionDescription",
    "TransactionListing",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "UserScramCredentialsDescription",
    "WaitsFor",
    "__version__",
]

#: The module that defines each name.
_HOMES = {
    "AccessControlEntry": "sdk.protocol.acls",
    "AccessControlEntryFilter": "sdk.protocol.acls",
    "AcknowledgeOutcome": "sdk.consumer.sharing.acquisitions",
    "AclBinding": "sdk.protocol.acls",
    "AclBindingFilter": "sdk.protocol.acls",
    "AclOperation": "sdk.protocol.tables.enums",
    "AclPermissionType": "sdk.protocol.tables.enums",
    "ActiveProducer": "sdk.admin.transaction_descriptions",
    "Address": "sdk.transport.wire",
    "Admin": "sdk.admin.admin",
    "AdminKeywords": "sdk.client.keywords",
    "AlterConfigOperation": "sdk.protocol.tables.enums",
    "Assignor": "sdk.groups.assignor",
    "Batch": "sdk.records",
    "BrokerError": "sdk.errors",
    "Buffer": "sdk.protocol.values",
    "BufferFull": "sdk.errors",
    "ClientQuotaAlteration": "sdk.admin.quota_values",
    "ClientQuotaEntity": "sdk.admin.quota_values",
    "ClientQuotaFilter": "sdk.admin.quota_values",
    "ClientQuotaFilterComponent": "sdk.admin.quota_values",
    "ClusterBroker": "sdk.routing.metadata",
    "ClusterDescription": "sdk.admin.descriptions",
    "Compression": "sdk.records",
    "ConfigChange": "sdk.admin.descriptions",
    "ConfigEntry": "sdk.admin.descriptions",
    "ConfigResource": "sdk.admin.descriptions",
    "ConfigResourceType": "sdk.protocol.tables.enums",
    "ConfigSource": "sdk.protocol.tables.enums",
    "ConfigSynonym": "sdk.admin.descriptions",
    "ConfigType": "sdk.protocol.tables.enums",
    "Consumer": "sdk.consumer.consumer",
    "ConsumerBatch": "sdk.consumer.batch",
    "ConsumerHealth": "sdk.consumer.health",
    "ConsumerInterceptor": "sdk.consumer.reading.hooks",
    "ConsumerKeywords": "sdk.client.keywords",
    "CreatedTopic": "sdk.admin.descriptions",
    "DefaultEntity": "sdk.admin.quota_values",
    "DelegationToken": "sdk.admin.token_values",
    "Delivery": "sdk.producer.engine",
    "ElectionType": "sdk.protocol.tables.enums",
    "ErrorCode": "sdk.protocol.tables.error_codes",
    "FeatureMetadata": "sdk.admin.descriptions",
    "FeatureUpdate": "sdk.admin.feature_updates",
    "FeatureUpgradeType": "sdk.protocol.tables.enums",
    "FencedProducer": "sdk.admin.transaction_descriptions",
    "GroupDescription": "sdk.admin.descriptions",
    "GroupLag": "sdk.admin.descriptions",
    "GroupListing": "sdk.admin.descriptions",
    "GroupMemberDescription": "sdk.admin.descriptions",
    "GroupMetadata": "sdk.groups.protocol",
    "HangingTransaction": "sdk.admin.transaction_descriptions",
    "Headers": "sdk.records",
    "HeadersInput": "sdk.records.content",
    "ItemResults": "sdk.admin.descriptions",
    "KafkaWireError": "sdk.errors",
    "LogDir": "sdk.admin.descriptions",
    "LogDirReplica": "sdk.admin.descriptions",
    "MemberSubscription": "sdk.groups.assignor",
    "MetricName": "sdk.metrics.names",
    "MetricsReporter": "sdk.metrics.names",
    "Network": "sdk.transport.wire",
    "NewPartitions": "sdk.admin.descriptions",
    "NewTopic": "sdk.admin.descriptions",
    "OffsetAndMetadata": "sdk.routing.partitions",
    "OffsetAndTimestamp": "sdk.routing.partitions",
    "OffsetTimestamp": "sdk.protocol.tables.enums",
    "OutgoingRecord": "sdk.producer.hooks",
    "Partition": "sdk.routing.metadata",
    "PartitionCounts": "sdk.groups.assignor",
    "PartitionLag": "sdk.admin.descriptions",
    "PartitionReassignment": "sdk.admin.descriptions",
    "Partitioner": "sdk.client.partitioner",
    "PatternType": "sdk.protocol.tables.enums",
    "Producer": "sdk.producer.producer",
    "ProducerInterceptor": "sdk.producer.hooks",
    "ProducerKeywords": "sdk.client.keywords",
    "QuorumInfo": "sdk.admin.quorum_values",
    "QuorumReplica": "sdk.admin.quorum_values",
    "RebalanceListener": "sdk.consumer.listener",
    "Record": "sdk.records",
    "RecordMetadata": "sdk.producer.outcome",
    "ReplicaLogDirs": "sdk.admin.descriptions",
    "ReplicaRacks": "sdk.groups.assignor",
    "ResourcePattern": "sdk.protocol.acls",
    "ResourcePatternFilter": "sdk.protocol.acls",
    "ResourceType": "sdk.protocol.tables.enums",
    "ScramCredentialInfo": "sdk.admin.scram_values",
    "ScramMechanism": "sdk.protocol.tables.enums",
    "Secret": "sdk.secret",
    "ShareConsumer": "sdk.consumer.sharing.share_consumer",
    "ShareConsumerKeywords": "sdk.client.keywords",
    "ShareDelivery": "sdk.consumer.sharing.delivery",
    "ShareDeliveryState": "sdk.consumer.sharing.delivery",
    "ShareGroupDescription": "sdk.admin.share_group_descriptions",
    "ShareMemberDescription": "sdk.admin.share_group_descriptions",
    "SharePartitionOffset": "sdk.admin.share_group_descriptions",
    "ShareStream": "sdk.consumer.sharing.share_consumer",
    "StreamsGroupDescription": "sdk.admin.streams_group_descriptions",
    "StreamsMemberDescription": "sdk.admin.streams_group_descriptions",
    "StreamsSubtopology": "sdk.admin.streams_group_descriptions",
    "StreamsTask": "sdk.admin.streams_group_descriptions",
    "StreamsTasks": "sdk.admin.streams_group_descriptions",
    "StreamsTopic": "sdk.admin.streams_group_descriptions",
    "Subscriptions": "sdk.groups.assignor",
    "TimestampType": "sdk.records",
    "TokenProvider": "sdk.client.security_options",
    "Topic": "sdk.routing.metadata",
    "TopicPartition": "sdk.routing.partitions",
    "TopicPartitionReplica": "sdk.admin.descriptions",
    "Transaction": "sdk.producer.producer",
    "TransactionDescription": "sdk.admin.transaction_descriptions",
    "TransactionListing": "sdk.admin.transaction_descriptions",
    "UserScramCredentialDeletion": "sdk.admin.scram_values",
    "UserScramCredentialUpsertion": "sdk.admin.scram_values",
    "UserScramCredentialsDescription": "sdk.admin.scram_values",
    "WaitsFor": "sdk.consumer.health",
    "__version__": "sdk.version",
}

#: Modules that can be used as attributes, and are loaded on first use, as in `except kafkawire.errors.Closed`.
_MODULES = frozenset({"errors", "metrics", "protocol", "records", "sync", "testing"})


def __getattr__(name: str) -> object:
    """Load a public name from its module (PEP 562)."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        from kafkawire.sdk.client.name_hints import missing  # only needed to report an error

        raise missing(__name__, name)
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
