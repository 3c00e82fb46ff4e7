"""Requests in every version family of every API, and the rights that each one needs.

`authorization_answers.json` has Apache Kafka 4.3's answer to each case without any right and with all of them. The
answers come from a real broker; `tests/kafka/test_authorization.py` verifies them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkawire.sdk.protocol.acls import CLUSTER_NAME, AccessControlEntry, AclBinding, ResourcePattern
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafkawire.sdk.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest
from kafkawire.sdk.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkawire.sdk.protocol.messages.describe_producers import DescribeProducersRequest
from kafkawire.sdk.protocol.messages.describe_quorum import DescribeQuorumRequest
from kafkawire.sdk.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkawire.sdk.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkawire.sdk.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kafkawire.sdk.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kafkawire.sdk.protocol.messages.update_features import UpdateFeaturesRequest
from kafkawire.sdk.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    AUTHORIZED_OPERATIONS_OMITTED,
    AclOperation,
    AclPermissionType,
    ConfigResourceType,
    CoordinatorType,
    OffsetTimestamp,
    PatternType,
    QuotaMatchType,
    ResourceType,
    ScramMechanism,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import produced

__all__ = [
    "ANSWERS",
    "CASES",
    "GROUP",
    "MISSING",
    "OPEN",
    "TOPIC",
    "TXN_ID",
    "Case",
    "Facts",
    "Right",
    "answers",
    "name_of",
]

#: A topic, one that does not exist, a group, and a transactional id.
TOPIC, MISSING, GROUP, TXN_ID = "authz.a", "authz.none", "authz-g", "authz-x"

#: A group that does not exist.
NO_GROUP = "authz-none"

#: A share group that a case creates, and the member that sends requests.
SHARE_GROUP, MEMBER = "authz-share", "authz-member"

#: APIs that anybody may use. No ACL covers renewing or expiring a delegation token, which is left to its
#: owner, requester and renewers.
OPEN: Final = frozenset(
    {
        *(ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
        *(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
    }
)

#: The answers of Apache Kafka, keyed by the name of the case.
ANSWERS: Final[dict[str, dict[str, list[str]]]] = json.loads(
    Path(__file__).with_name("authorization_answers.json").read_text()
)


class Facts(NamedTuple):
    """What a request needs to know about the broker.

    Attributes:
        topic_id: the id of `TOPIC`.
    """

    topic_id: bytes


class Right(NamedTuple):
    """An operation on a resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str

    def of(self, principal: str) -> AclBinding:
        """Return the ACL that gives a principal this right."""
        entry = AccessControlEntry(principal, "*", self.operation, AclPermissionType.ALLOW)
        return AclBinding(ResourcePattern(self.resource_type, self.name), entry)


class Case(NamedTuple):
    """A request.

    Attributes:
        name: the API, the versions, and the subject.
        version: the version of the request.
        request: returns the request.
        rights: the rights that it needs, each of them.
    """

    name: str
    version: int
    request: Callable[[Facts], Message]
    rights: tuple[Right, ...]


def name_of(case: Case) -> str:
    return case.name


Op = AclOperation


def on_topic(operation: AclOperation, name: str = TOPIC) -> Right:
    return Right(operation, ResourceType.TOPIC, name)


def on_group(operation: AclOperation, name: str = GROUP) -> Right:
    return Right(operation, ResourceType.GROUP, name)


def on_txn(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID, TXN_ID)


def on_cluster(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)


class _Versions(NamedTuple):
    """The versions of an API that serve the same purpose."""

    first: int | None = None
    last: int | None = None


_ALL = _Versions()


def _cases(
    key: ApiKey,
    about: str,
    request: Callable[[Facts], Message],
    *rights: Right,
    versions: _Versions = _ALL,
) -> Iterator[Case]:
    """Yield a case for the first version and for the last one."""
    stable = KNOWN_APIS[key].stable_versions
    first = stable.first if versions.first is None else versions.first
    last = stable.last if versions.last is None else versions.last
    for version in dict.fromkeys((first, last)):
        name = f"{KNOWN_APIS[key].name} v{version} {about}".rstrip()
        yield Case(name, version, request, rights)


def _produce(facts: Facts, *, by_id: bool = False, is_transactional: bool = False) -> ProduceRequest:
    records = (
        produced(b"v", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        if is_transactional
        else produced(b"v")
    )
    Data = ProduceRequest.TopicProduceData
    parts = [ProduceRequest.PartitionProduceData(0, records)]
    data = Data(topic_id=facts.topic_id, partition_data=parts) if by_id else Data(TOPIC, partition_data=parts)
    # Nothing is written: the producer has no transaction, and the number of acknowledgements is not allowed.
    transactional_id, acks = (TXN_ID, -1) if is_transactional else (None, 5)
    return ProduceRequest(transactional_id, acks, 1_000, [data])


def _fetch(facts: Facts, *, by_id: bool = False, replica_id: int = -1) -> FetchRequest:
    parts = [FetchRequest.FetchPartition(0, partition_max_bytes=1_000)]
    Topic = FetchRequest.FetchTopic
    topic = Topic(topic_id=facts.topic_id, partitions=parts) if by_id else Topic(TOPIC, partitions=parts)
    return FetchRequest(replica_id=replica_id, max_bytes=1_000, session_epoch=-1, topics=[topic])


def _list_offsets(facts: Facts) -> ListOffsetsRequest:
    parts = [ListOffsetsRequest.ListOffsetsPartition(0, timestamp=OffsetTimestamp.EARLIEST)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(TOPIC, parts)])


def _metadata(*names: str, creates: bool | None = None, operations: bool = False) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics or None, include_topic_authorized_operations=operations)
    if creates is not None:
        request.allow_auto_topic_creation = creates
    return request


def _offset_commit(facts: Facts, *, by_id: bool = False) -> OffsetCommitRequest:
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    parts = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)]
    topic = Topic(topic_id=facts.topic_id, partitions=parts) if by_id else Topic(TOPIC, partitions=parts)
    return OffsetCommitRequest(GROUP, 5, "nobody", topics=[topic])


def _offset_fetch(facts: Facts, *, several: bool = True, by_id: bool = False, all_topics: bool = False) -> Message:
    if not several:
        asked = [OffsetFetchRequest.OffsetFetchRequestTopic(TOPIC, [0])]
        return OffsetFetchRequest(GROUP, None if all_topics else asked)
    Topic = OffsetFetchRequest.OffsetFetchRequestTopics
    topics = [Topic(topic_id=facts.topic_id, partition_indexes=[0]) if by_id else Topic(TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(GROUP, topics=None if all_topics else topics)
    return OffsetFetchRequest(groups=[group])


def _coordinator(key: str, kind: CoordinatorType, *, several: bool = False) -> FindCoordinatorRequest:
    return FindCoordinatorRequest("" if several else key, kind, [key] if several else ())


def _create_topics(facts: Facts) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(MISSING, 1, 1)], 5_000, True)


def _delete_topics(facts: Facts, *, by_id: bool = False, several: bool = True) -> DeleteTopicsRequest:
    if not several:
        return DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=5_000)
    State = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest([State(None, facts.topic_id) if by_id else State(MISSING)], timeout_ms=5_000)


def _add_partitions(facts: Facts, *, several: bool) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [0])]
    if several:
        Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        return AddPartitionsToTxnRequest([Transaction(TXN_ID, 5, 0, True, topics)])
    return AddPartitionsToTxnRequest((), TXN_ID, 5, 0, topics)


def _markers(facts: Facts) -> WriteTxnMarkersRequest:
    topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(MISSING, [0])]
    return WriteTxnMarkersRequest([WriteTxnMarkersRequest.WritableTxnMarker(5, 0, False, topics)])


def _txn_offset_commit(facts: Facts) -> TxnOffsetCommitRequest:
    Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    parts = [TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 1)]
    return TxnOffsetCommitRequest(TXN_ID, GROUP, 5, 0, topics=[Topic(TOPIC, parts)])


def _create_acl(facts: Facts) -> CreateAclsRequest:
    # The name is refused, so that nothing is created.
    creation = CreateAclsRequest.AclCreation(
        ResourceType.CLUSTER, "no", PatternType.LITERAL, "User:x", "*", Op.READ, AclPermissionType.ALLOW
    )
    return CreateAclsRequest([creation])


_NO_ACL: Final = (
    ResourceType.TOPIC, MISSING, PatternType.LITERAL, "User:nobody", None, Op.ANY, AclPermissionType.ANY
)  # fmt: skip


def _described(kind: ConfigResourceType, name: str) -> Callable[[Facts], Message]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, ["none"])
    return lambda facts: DescribeConfigsRequest([resource])


def _altered(kind: ConfigResourceType, name: str, config: str, value: str) -> Callable[[Facts], Message]:
    config_ = AlterConfigsRequest.AlterableConfig(config, value)
    return lambda facts: AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(kind, name, [config_])], True)


def _operated(kind: ConfigResourceType, name: str, config: str, value: str) -> Callable[[Facts], Message]:
    config_ = IncrementalAlterConfigsRequest.AlterableConfig(config, 0, value)
    Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return lambda facts: IncrementalAlterConfigsRequest([Resource(kind, name, [config_])], True)


def _partitions(facts: Facts) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic(TOPIC, 5, None)], 5_000, True)


def _delete_records(facts: Facts) -> DeleteRecordsRequest:
    parts = [DeleteRecordsRequest.DeleteRecordsPartition(0, 99)]
    return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(TOPIC, parts)], 5_000)


def _delete_offsets(facts: Facts) -> OffsetDeleteRequest:
    parts = [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
    return OffsetDeleteRequest(GROUP, [OffsetDeleteRequest.OffsetDeleteRequestTopic(TOPIC, parts)])


def _epoch(facts: Facts) -> OffsetForLeaderEpochRequest:
    parts = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, leader_epoch=0)]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(TOPIC, parts)])


def _given(request: Message) -> Callable[[Facts], Message]:
    """Return a function for a request that needs to know nothing."""
    return lambda facts: request


def _metadata_by_id(facts: Facts) -> MetadataRequest:
    return MetadataRequest([MetadataRequest.MetadataRequestTopic(facts.topic_id, None)], False)


K, V = ApiKey, _Versions
_TO_CLUSTER = "by a right to the cluster"
_READ, _WRITE, _DESCRIBE = on_topic(Op.READ), on_topic(Op.WRITE), on_topic(Op.DESCRIBE)
_READ_GROUP, _DESCRIBE_GROUP = on_group(Op.READ), on_group(Op.DESCRIBE)
_WRITE_TXN, _DESCRIBE_TXN = on_txn(Op.WRITE), on_txn(Op.DESCRIBE)
_CLUSTER_ACTION = on_cluster(Op.CLUSTER_ACTION)


def _data() -> Iterator[Case]:
    """Yield the cases about records and topics."""
    by_id, in_transaction = partial(_produce, by_id=True), partial(_produce, is_transactional=True)
    yield from _cases(K.PRODUCE, "by name", _produce, _WRITE, versions=V(last=12))
    yield from _cases(K.PRODUCE, "by id", by_id, _WRITE, versions=V(13))
    yield from _cases(K.PRODUCE, "in a transaction", in_transaction, _WRITE_TXN, _WRITE, versions=V(last=12))
    follower = partial(_fetch, replica_id=7)
    yield from _cases(K.FETCH, "by name", _fetch, _READ, versions=V(last=12))
    yield from _cases(K.FETCH, "by id", partial(_fetch, by_id=True), _READ, versions=V(13))
    yield from _cases(K.FETCH, "as a follower", follower, _CLUSTER_ACTION, versions=V(last=12))
    yield from _cases(K.LIST_OFFSETS, "", _list_offsets, _DESCRIBE)
    yield from _cases(K.OFFSET_FOR_LEADER_EPOCH, "of a client", _epoch, _DESCRIBE)
    yield from _cases(K.OFFSET_FOR_LEADER_EPOCH, "of a broker", _epoch, _CLUSTER_ACTION)
    yield from _cases(K.DELETE_RECORDS, "", _delete_records, on_topic(Op.DELETE))
    producers = _given(DescribeProducersRequest([DescribeProducersRequest.TopicRequest(TOPIC, [0])]))
    yield from _cases(K.DESCRIBE_PRODUCERS, "", producers, _READ)


def _topics() -> Iterator[Case]:
    """Yield the cases about metadata and the administration of topics."""
    yield from _cases(K.METADATA, "of a topic", _given(_metadata(TOPIC)), _DESCRIBE)
    yield from _cases(K.METADATA, "by id", _metadata_by_id, _DESCRIBE, versions=V(12))
    yield from _cases(K.METADATA, "of all topics", _given(_metadata()), _DESCRIBE, versions=V(1))
    for version in (4, KNOWN_APIS[K.METADATA].stable_versions.last):
        name = f"authz.new{version}"
        rights = (on_topic(Op.DESCRIBE, name), on_topic(Op.CREATE, name))
        yield Case(f"Metadata v{version} that creates", version, _given(_metadata(name, creates=True)), rights)
    topics_operations = _given(_metadata(TOPIC, operations=True))
    clusters_operations = _given(MetadataRequest([], include_cluster_authorized_operations=True))
    of_cluster = on_cluster(Op.DESCRIBE), on_cluster(Op.ALTER_CONFIGS)
    yield from _cases(K.METADATA, "with a topic's operations", topics_operations, on_topic(Op.ALTER), versions=V(8))
    yield from _cases(K.METADATA, "with the cluster's operations", clusters_operations, *of_cluster, versions=V(8, 10))
    yield from _cases(K.DESCRIBE_CLUSTER, "with operations", _given(DescribeClusterRequest(True)), *of_cluster)
    asked = DescribeTopicPartitionsRequest.TopicRequest(TOPIC)
    yield from _cases(K.DESCRIBE_TOPIC_PARTITIONS, "", _given(DescribeTopicPartitionsRequest([asked])), _DESCRIBE)
    yield from _cases(K.DESCRIBE_TOPIC_PARTITIONS, "of all topics", _given(DescribeTopicPartitionsRequest()), _DESCRIBE)
    create = on_topic(Op.CREATE, MISSING)
    shown = on_topic(Op.DESCRIBE_CONFIGS, MISSING)
    yield from _cases(K.CREATE_TOPICS, "by a right to the topic", _create_topics, create)
    yield from _cases(K.CREATE_TOPICS, _TO_CLUSTER, _create_topics, on_cluster(Op.CREATE))
    yield from _cases(K.CREATE_TOPICS, "with configurations", _create_topics, create, shown, versions=V(5))
    delete, by_id = partial(_delete_topics, several=False), partial(_delete_topics, by_id=True)
    yield from _cases(K.DELETE_TOPICS, "", delete, on_topic(Op.DELETE, MISSING), versions=V(last=5))
    yield from _cases(K.DELETE_TOPICS, "by name", _delete_topics, on_cluster(Op.DELETE), versions=V(6))
    yield from _cases(K.DELETE_TOPICS, "by id, of a described topic", by_id, _DESCRIBE, versions=V(6))
    yield from _cases(K.CREATE_PARTITIONS, "", _partitions, on_topic(Op.ALTER))


def _groups() -> Iterator[Case]:
    """Yield the cases about groups."""
    commit_by_id = partial(_offset_commit, by_id=True)
    yield from _cases(K.OFFSET_COMMIT, "by name", _offset_commit, _READ_GROUP, _READ, versions=V(last=9))
    yield from _cases(K.OFFSET_COMMIT, "by id", commit_by_id, _READ_GROUP, _READ, versions=V(10))
    one, all_of_one = partial(_offset_fetch, several=False), partial(_offset_fetch, several=False, all_topics=True)
    by_id, everything = partial(_offset_fetch, by_id=True), partial(_offset_fetch, all_topics=True)
    both = _DESCRIBE_GROUP, _DESCRIBE
    yield from _cases(K.OFFSET_FETCH, "", one, *both, versions=V(last=7))
    yield from _cases(K.OFFSET_FETCH, "of all topics", all_of_one, *both, versions=V(2, 7))
    yield from _cases(K.OFFSET_FETCH, "of groups", _offset_fetch, *both, versions=V(8, 9))
    yield from _cases(K.OFFSET_FETCH, "of all of a group", everything, *both, versions=V(8, 9))
    yield from _cases(K.OFFSET_FETCH, "by id", by_id, *both, versions=V(10))
    yield from _cases(K.OFFSET_DELETE, "", _delete_offsets, on_group(Op.DELETE), _READ)
    kinds = (CoordinatorType.GROUP, GROUP, _DESCRIBE_GROUP), (CoordinatorType.TRANSACTION, TXN_ID, _DESCRIBE_TXN)
    for kind, key, right in kinds:
        about, single = kind.name.lower(), V(1 if kind == CoordinatorType.TRANSACTION else None, 3)
        of_several = _given(_coordinator(key, kind, several=True))
        yield from _cases(K.FIND_COORDINATOR, f"of a {about}", _given(_coordinator(key, kind)), right, versions=single)
        yield from _cases(K.FIND_COORDINATOR, f"of several {about}s", of_several, right, versions=V(4))
    share = _given(_coordinator("no", CoordinatorType.SHARE, several=True))
    yield from _cases(K.FIND_COORDINATOR, "of a share partition", share, _CLUSTER_ACTION, versions=V(6))
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    join = JoinGroupRequest(GROUP, 1, member_id="m", protocol_type="consumer", protocols=[protocol])
    member = LeaveGroupRequest.MemberIdentity("m")
    sync = SyncGroupRequest(GROUP, 5, "m")
    sync_with_protocol = SyncGroupRequest(GROUP, 5, "m", None, "consumer", "range")
    yield from _cases(K.JOIN_GROUP, "", _given(join), _READ_GROUP)
    yield from _cases(K.HEARTBEAT, "", _given(HeartbeatRequest(GROUP, 5, "m")), _READ_GROUP)
    yield from _cases(K.LEAVE_GROUP, "", _given(LeaveGroupRequest(GROUP, "m")), _READ_GROUP, versions=V(last=2))
    leave = _given(LeaveGroupRequest(GROUP, members=[member]))
    yield from _cases(K.LEAVE_GROUP, "of members", leave, _READ_GROUP, versions=V(3))
    yield from _cases(K.SYNC_GROUP, "", _given(sync), _READ_GROUP, versions=V(last=4))
    yield from _cases(K.SYNC_GROUP, "with a protocol", _given(sync_with_protocol), _READ_GROUP, versions=V(5))
    yield from _cases(K.DESCRIBE_GROUPS, "", _given(DescribeGroupsRequest([GROUP])), _DESCRIBE_GROUP)
    operations = _given(DescribeGroupsRequest([GROUP], True))
    yield from _cases(K.DESCRIBE_GROUPS, "with operations", operations, on_group(Op.READ), versions=V(3, 5))
    yield from _cases(K.LIST_GROUPS, "by a right to the group", _given(ListGroupsRequest()), _DESCRIBE_GROUP)
    yield from _cases(K.LIST_GROUPS, _TO_CLUSTER, _given(ListGroupsRequest()), on_cluster(Op.DESCRIBE))
    delete = _given(DeleteGroupsRequest([NO_GROUP]))
    yield from _cases(K.DELETE_GROUPS, "", delete, on_group(Op.DELETE, NO_GROUP))
    beat = ConsumerGroupHeartbeatRequest(
        NO_GROUP, "m", 5, rebalance_timeout_ms=1_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    yield from _cases(K.CONSUMER_GROUP_HEARTBEAT, "", _given(beat), on_group(Op.READ, NO_GROUP), _DESCRIBE)
    describe = _given(ConsumerGroupDescribeRequest([NO_GROUP]))
    yield from _cases(K.CONSUMER_GROUP_DESCRIBE, "", describe, on_group(Op.DESCRIBE, NO_GROUP))


def _transactions() -> Iterator[Case]:
    """Yield the cases about producer ids and transactions."""
    idempotent, transactional = InitProducerIdRequest(None, 1_000), InitProducerIdRequest(TXN_ID, 1_000)
    write_any = on_topic(Op.WRITE, "any")
    yield from _cases(K.INIT_PRODUCER_ID, "by a right to a topic", _given(idempotent), write_any)
    yield from _cases(K.INIT_PRODUCER_ID, _TO_CLUSTER, _given(idempotent), on_cluster(Op.IDEMPOTENT_WRITE))
    yield from _cases(K.INIT_PRODUCER_ID, "in transactions", _given(transactional), _WRITE_TXN)
    of_client, of_broker = partial(_add_partitions, several=False), partial(_add_partitions, several=True)
    yield from _cases(K.ADD_PARTITIONS_TO_TXN, "of a client", of_client, _WRITE_TXN, _WRITE, versions=V(last=3))
    yield from _cases(K.ADD_PARTITIONS_TO_TXN, "of a broker", of_broker, _CLUSTER_ACTION, versions=V(4))
    offsets = _given(AddOffsetsToTxnRequest(TXN_ID, 5, 0, GROUP))
    yield from _cases(K.ADD_OFFSETS_TO_TXN, "", offsets, _WRITE_TXN, _READ_GROUP)
    yield from _cases(K.END_TXN, "", _given(EndTxnRequest(TXN_ID, 5, 0, True)), _WRITE_TXN)
    yield from _cases(K.WRITE_TXN_MARKERS, "of a broker", _markers, _CLUSTER_ACTION)
    yield from _cases(K.WRITE_TXN_MARKERS, "of an administrator", _markers, on_cluster(Op.ALTER))
    yield from _cases(K.TXN_OFFSET_COMMIT, "", _txn_offset_commit, _WRITE_TXN, _READ_GROUP, _READ)
    yield from _cases(K.DESCRIBE_TRANSACTIONS, "", _given(DescribeTransactionsRequest([TXN_ID])), _DESCRIBE_TXN)
    yield from _cases(K.LIST_TRANSACTIONS, "", _given(ListTransactionsRequest()), _DESCRIBE_TXN)


def _administration() -> Iterator[Case]:
    """Yield the cases about ACLs, configurations and log directories."""
    R = ConfigResourceType
    see, change = on_cluster(Op.DESCRIBE_CONFIGS), on_cluster(Op.ALTER_CONFIGS)
    delete = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*_NO_ACL)])
    yield from _cases(K.DESCRIBE_ACLS, "", _given(DescribeAclsRequest(*_NO_ACL)), on_cluster(Op.DESCRIBE))
    yield from _cases(K.CREATE_ACLS, "", _create_acl, on_cluster(Op.ALTER))
    yield from _cases(K.DELETE_ACLS, "", _given(delete), on_cluster(Op.ALTER))
    see_topic, change_topic = on_topic(Op.DESCRIBE_CONFIGS), on_topic(Op.ALTER_CONFIGS)
    yield from _cases(K.DESCRIBE_CONFIGS, "of a topic", _described(R.TOPIC, TOPIC), see_topic)
    yield from _cases(K.DESCRIBE_CONFIGS, "of a changeable topic", _described(R.TOPIC, TOPIC), change_topic)
    yield from _cases(K.DESCRIBE_CONFIGS, "of a broker", _described(R.BROKER, "1"), see)
    yield from _cases(K.DESCRIBE_CONFIGS, "of loggers", _described(R.BROKER_LOGGER, "1"), see)
    yield from _cases(K.DESCRIBE_CONFIGS, "of metrics", _described(R.CLIENT_METRICS, "m"), see)
    yield from _cases(K.DESCRIBE_CONFIGS, "of a group", _described(R.GROUP, GROUP), on_group(Op.DESCRIBE_CONFIGS))
    of_topic, of_brokers = (R.TOPIC, TOPIC, "retention.ms", "5000"), (R.BROKER, "", "log.retention.ms", "5000")
    of_metrics = R.CLIENT_METRICS, "m", "interval.ms", "5000"
    of_group = R.GROUP, GROUP, "consumer.session.timeout.ms", "50000"
    yield from _cases(K.ALTER_CONFIGS, "of a topic", _altered(*of_topic), change_topic)
    yield from _cases(K.ALTER_CONFIGS, "of metrics", _altered(*of_metrics), change)
    yield from _cases(K.INCREMENTAL_ALTER_CONFIGS, "of a topic", _operated(*of_topic), change_topic)
    yield from _cases(K.INCREMENTAL_ALTER_CONFIGS, "of brokers", _operated(*of_brokers), change)
    yield from _cases(K.INCREMENTAL_ALTER_CONFIGS, "of metrics", _operated(*of_metrics), change)
    change_group = on_group(Op.ALTER_CONFIGS)
    yield from _cases(K.INCREMENTAL_ALTER_CONFIGS, "of a group", _operated(*of_group), change_group)
    kinds = _given(ListConfigResourcesRequest([R.CLIENT_METRICS]))
    yield from _cases(K.LIST_CONFIG_RESOURCES, "", _given(ListConfigResourcesRequest()), see, versions=V(last=0))
    yield from _cases(K.LIST_CONFIG_RESOURCES, "of a kind", kinds, see, versions=V(1))
    yield from _cases(K.DESCRIBE_LOG_DIRS, "", _given(DescribeLogDirsRequest([])), on_cluster(Op.DESCRIBE))


def _share_fetch(facts: Facts) -> ShareFetchRequest:
    # The partition does not exist, so that the answer comes at once.
    topic = ShareFetchRequest.FetchTopic(facts.topic_id, [ShareFetchRequest.FetchPartition(9)])
    return ShareFetchRequest(NO_GROUP, MEMBER, max_wait_ms=0, max_records=1, batch_size=1, topics=[topic])


def _states() -> Iterator[tuple[ApiKey, Message]]:
    """Yield the requests about the states of share partitions; without a group, they have no effect."""
    for key, Request, Topic in (
        (K.INITIALIZE_SHARE_GROUP_STATE, InitializeShareGroupStateRequest, "InitializeStateData"),
        (K.READ_SHARE_GROUP_STATE, ReadShareGroupStateRequest, "ReadStateData"),
        (K.WRITE_SHARE_GROUP_STATE, WriteShareGroupStateRequest, "WriteStateData"),
        (K.DELETE_SHARE_GROUP_STATE, DeleteShareGroupStateRequest, "DeleteStateData"),
        (K.READ_SHARE_GROUP_STATE_SUMMARY, ReadShareGroupStateSummaryRequest, "ReadStateSummaryData"),
    ):
        topic = getattr(Request, Topic)(partitions=[Request.PartitionData(0)])
        yield key, Request(topics=[topic])


def _shares() -> Iterator[Case]:
    """Yield the cases about share groups."""
    read, describe = on_group(Op.READ, NO_GROUP), on_group(Op.DESCRIBE, NO_GROUP)
    beat = ShareGroupHeartbeatRequest(NO_GROUP, MEMBER, 5, subscribed_topic_names=[TOPIC])
    yield from _cases(K.SHARE_GROUP_HEARTBEAT, "", _given(beat), read, _DESCRIBE)
    yield from _cases(K.SHARE_GROUP_DESCRIBE, "", _given(ShareGroupDescribeRequest([NO_GROUP])), describe)
    yield from _cases(K.SHARE_FETCH, "", _share_fetch, read, _READ)
    yield from _cases(K.SHARE_ACKNOWLEDGE, "", _given(ShareAcknowledgeRequest(NO_GROUP, "other", 5)), read)
    Described = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    DescribedTopic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
    described = DescribeShareGroupOffsetsRequest([Described(NO_GROUP, [DescribedTopic(MISSING, [0])])])
    of_missing = on_topic(Op.DESCRIBE, MISSING)
    yield from _cases(K.DESCRIBE_SHARE_GROUP_OFFSETS, "", _given(described), describe, of_missing)
    Altered = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    altered = [Altered(MISSING, [AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(0, 1)])]
    alter = _given(AlterShareGroupOffsetsRequest(SHARE_GROUP, altered))
    rights = on_group(Op.READ, SHARE_GROUP), on_topic(Op.READ, MISSING)
    yield from _cases(K.ALTER_SHARE_GROUP_OFFSETS, "", alter, *rights)
    deleted = [DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(MISSING)]
    delete = _given(DeleteShareGroupOffsetsRequest(NO_GROUP, deleted))
    yield from _cases(K.DELETE_SHARE_GROUP_OFFSETS, "", delete, on_group(Op.DELETE, NO_GROUP))
    for key, request in _states():
        yield from _cases(key, "", _given(request), _CLUSTER_ACTION)


def _streams() -> Iterator[Case]:
    """Yield the cases about streams groups."""
    read, describe = on_group(Op.READ, NO_GROUP), on_group(Op.DESCRIBE, NO_GROUP)
    beat = StreamsGroupHeartbeatRequest(NO_GROUP, MEMBER, 5)
    yield from _cases(K.STREAMS_GROUP_HEARTBEAT, "", _given(beat), read)
    part = StreamsGroupHeartbeatRequest.Subtopology("0", [TOPIC])
    joining = StreamsGroupHeartbeatRequest(
        NO_GROUP,
        MEMBER,
        rebalance_timeout_ms=-5,  # so that nothing changes
        topology=StreamsGroupHeartbeatRequest.Topology(0, [part]),
    )
    yield from _cases(K.STREAMS_GROUP_HEARTBEAT, "with a topology", _given(joining), read, _DESCRIBE)
    yield from _cases(K.STREAMS_GROUP_DESCRIBE, "", _given(StreamsGroupDescribeRequest([NO_GROUP])), describe)


def _identities() -> Iterator[Case]:
    """Yield the cases about quotas, credentials and delegation tokens; none of them changes anything."""
    see, change = on_cluster(Op.DESCRIBE), on_cluster(Op.ALTER)
    nobody = "authz-nobody"
    Entry = AlterClientQuotasRequest.EntryData
    entity = [AlterClientQuotasRequest.EntityData("user", nobody)]
    entry = Entry(entity, [AlterClientQuotasRequest.OpData("consumer_byte_rate", 1_000)])
    alter = _given(AlterClientQuotasRequest([entry], True))
    yield from _cases(K.ALTER_CLIENT_QUOTAS, "", alter, on_cluster(Op.ALTER_CONFIGS))
    component = DescribeClientQuotasRequest.ComponentData("user", QuotaMatchType.EXACT, nobody)
    describe = _given(DescribeClientQuotasRequest([component]))
    yield from _cases(K.DESCRIBE_CLIENT_QUOTAS, "", describe, on_cluster(Op.DESCRIBE_CONFIGS))
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(nobody, ScramMechanism.SCRAM_SHA_256)
    yield from _cases(K.ALTER_USER_SCRAM_CREDENTIALS, "", _given(AlterUserScramCredentialsRequest([deletion])), change)
    users = [DescribeUserScramCredentialsRequest.UserName(nobody)]
    yield from _cases(K.DESCRIBE_USER_SCRAM_CREDENTIALS, "", _given(DescribeUserScramCredentialsRequest(users)), see)
    # The renewer is refused, so that no token is created.
    renewers = [CreateDelegationTokenRequest.CreatableRenewers("Group", "g")]
    create_tokens = Right(Op.CREATE_TOKENS, ResourceType.USER, f"User:{nobody}")
    of_other = _given(CreateDelegationTokenRequest("User", nobody, renewers))
    yield from _cases(K.CREATE_DELEGATION_TOKEN, "of another user", of_other, create_tokens, versions=V(3))
    owners = [DescribeDelegationTokenRequest.DescribeDelegationTokenOwner("User", nobody)]
    # Tokens that the client may not see are left out; see `test_authorization.py`.
    yield from _cases(K.DESCRIBE_DELEGATION_TOKEN, "", _given(DescribeDelegationTokenRequest(owners)))


def _quorum() -> Iterator[Case]:
    """Yield the cases about the quorum of controllers, and its brokers."""
    see, change = on_cluster(Op.DESCRIBE), on_cluster(Op.ALTER)
    topic = DescribeQuorumRequest.TopicData(MISSING, [DescribeQuorumRequest.PartitionData(0)])
    yield from _cases(K.DESCRIBE_QUORUM, "", _given(DescribeQuorumRequest([topic])), see)
    yield from _cases(K.ADD_RAFT_VOTER, "", _given(AddRaftVoterRequest("none", voter_id=9)), change)
    yield from _cases(K.REMOVE_RAFT_VOTER, "", _given(RemoveRaftVoterRequest("none", 9)), change)
    features = UpdateFeaturesRequest(feature_updates=[UpdateFeaturesRequest.FeatureUpdateKey("x", 1)])
    yield from _cases(K.UPDATE_FEATURES, "", _given(features), change)
    yield from _cases(K.UNREGISTER_BROKER, "", _given(UnregisterBrokerRequest(99)), change)


def _replicas() -> Iterator[Case]:
    """Yield the cases about replicas and leaders."""
    see, change = on_cluster(Op.DESCRIBE), on_cluster(Op.ALTER)
    Move, Moved = AlterReplicaLogDirsRequest.AlterReplicaLogDir, AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    Reassigned = AlterPartitionReassignmentsRequest.ReassignableTopic
    Reassignment = AlterPartitionReassignmentsRequest.ReassignablePartition
    elect = ElectLeadersRequest(topic_partitions=[ElectLeadersRequest.TopicPartitions(TOPIC, [0])])
    reassign = AlterPartitionReassignmentsRequest(topics=[Reassigned(TOPIC, [Reassignment(0, [1])])])
    yield from _cases(K.ELECT_LEADERS, "", _given(elect), change)
    yield from _cases(K.ALTER_PARTITION_REASSIGNMENTS, "", _given(reassign), change)
    yield from _cases(K.LIST_PARTITION_REASSIGNMENTS, "", _given(ListPartitionReassignmentsRequest(topics=None)), see)
    move = _given(AlterReplicaLogDirsRequest([Move("/d", [Moved(TOPIC, [0])])]))
    yield from _cases(K.ALTER_REPLICA_LOG_DIRS, "", move, change)


CASES: Final = (
    *(*_data(), *_topics(), *_groups(), *_transactions(), *_administration()),
    *(*_identities(), *_quorum(), *_shares(), *_streams(), *_replicas()),
)

_IDENTITIES: Final = (
    "name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name", "partition_index",
    "partition", "index",
)  # fmt: skip

#: What is compared of a topic, a group, or the cluster, besides its error.
_OPERATIONS: Final = ("topic_authorized_operations", "authorized_operations", "cluster_authorized_operations")

_NEEDS: Final = re.compile(r".* needs (\w+) permission\.")


def answers(response: Message | None, version: int) -> list[str]:
    """Return what a response says about each thing that was asked about, sorted."""
    return ["closed"] if response is None else sorted(set(_lines(response, version, "")))


def _lines(message: Any, version: int, place: str) -> Iterator[str]:
    fields = [each for each in message.FIELDS if version in each.versions]
    names = {each.name for each in fields}
    given = next((getattr(message, name) for name in _IDENTITIES if name in names), "")
    own = f"{place}/{given}" if given not in ("", None) else place
    structures = [each for each in fields if isinstance(each.type, type)]
    words = [own or "all"]
    field = next((each for each in ("error_code", "partition_error_code") if each in names), None)
    code = None if field is None else ErrorCode(getattr(message, field))
    if code is not None:
        words.append(code.name)
        text = getattr(message, "error_message", None) if "error_message" in names else None
        if text and "AUTHORIZATION" in code.name:
            found = _NEEDS.fullmatch(text)
            words.append(f"needs {found[1]}" if found else text)
    for name in _OPERATIONS:
        if name in names and getattr(message, name) != AUTHORIZED_OPERATIONS_OMITTED:
            words.append(f"{getattr(message, name):b}")
    if code is not None or len(words) > 1 or (given not in ("", None) and not structures):
        yield " ".join(words)
    for each in structures:
        value = getattr(message, each.name)
        for inner in (value or ()) if each.array else (value,):
            if inner is not None:
                yield from _lines(inner, version, own)
