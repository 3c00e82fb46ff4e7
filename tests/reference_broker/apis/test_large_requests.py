"""A large request of any kind is handled in steps; each loop counts every entry as work, even an empty one.

Method: send requests to a broker without sockets, and count the turns that each takes, both until it waits for another
part of the broker, and while its response is built afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkawire.reference_broker.requests.long_requests import AT_A_TIME
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.describe_producers import DescribeProducersRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.group_of_one import commit
from tests.reference_broker.broker_bench import BrokerBench, all_steps
from tests.reference_broker.storage.produced_batches import produced

#: Enough entries to take many turns, both in a request and in the work after a wait.
MANY = 1_000

#: Entries handled per turn after a wait.
LATE_AT_A_TIME = 500

#: Partitions of a produce request handled per turn.
LOOKED_AT_A_TIME = 2_000

NUMBERS = list(range(MANY))
NAMES = [f"name{number}" for number in NUMBERS]
IDS = [number.to_bytes(16, "big") for number in range(100, 100 + MANY)]

AddedTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
AddedTo = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Assignment = SyncGroupRequest.SyncGroupRequestAssignment
OwnedTopic = ConsumerGroupHeartbeatRequest.TopicPartitions
Protocol = JoinGroupRequest.JoinGroupRequestProtocol
GrowingTopic = CreatePartitionsRequest.CreatePartitionsTopic
GrowingPlace = CreatePartitionsRequest.CreatePartitionsAssignment
DeletedTopic = DeleteRecordsRequest.DeleteRecordsTopic
DeletedPartition = DeleteRecordsRequest.DeleteRecordsPartition
ListedTopic = ListOffsetsRequest.ListOffsetsTopic
ListedPartition = ListOffsetsRequest.ListOffsetsPartition
MetadataTopic = MetadataRequest.MetadataRequestTopic
CommittedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
CommittedPartition = OffsetCommitRequest.OffsetCommitRequestPartition
ForgottenTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
ForgottenPartition = OffsetDeleteRequest.OffsetDeleteRequestPartition
FetchedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
FetchedTopic = OffsetFetchRequest.OffsetFetchRequestTopic
FetchedTopics = OffsetFetchRequest.OffsetFetchRequestTopics
EpochTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
EpochPartition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
TxnTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
TxnPartition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic

COMMITTED = [CommittedPartition(number) for number in NUMBERS]


class Large(NamedTuple):
    """A request of `MANY` entries, and the number of loops over them.

    Attributes:
        request: the request.
        loops: the number of loops over the entries before the response, or before the wait.
        late_loops: the number of loops after the wait.
        version: the version to send; None for the highest stable one.
    """

    request: Message
    loops: float
    late_loops: int = 0
    version: int | None = None


LARGE = [
    Large(AddPartitionsToTxnRequest(transactions=[AddedTo("x", topics=[AddedTopic("t", NUMBERS)])]), 1, 1),
    Large(AddPartitionsToTxnRequest(transactions=[AddedTo("x", topics=[AddedTopic(name) for name in NAMES])]), 1, 1),
    Large(AddPartitionsToTxnRequest(transactions=[AddedTo(name) for name in NAMES]), 1, 1),
    Large(ConsumerGroupDescribeRequest(NAMES), 4),
    Large(ConsumerGroupHeartbeatRequest("g", "m", topic_partitions=[OwnedTopic(topic_id) for topic_id in IDS]), 1),
    Large(CreatePartitionsRequest([GrowingTopic(name, 2) for name in NAMES]), 3),
    Large(CreatePartitionsRequest([GrowingTopic("t", 1 + MANY, [GrowingPlace([1])] * MANY)], 1_000, True), 2),
    Large(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(f"{name}/", 1, 1) for name in NAMES]), 3),
    Large(DeleteGroupsRequest(NAMES), 5),
    Large(DeleteRecordsRequest([DeletedTopic("t", [DeletedPartition(number) for number in NUMBERS])]), 2),
    Large(DeleteRecordsRequest([DeletedTopic(name) for name in NAMES]), 2),
    Large(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name) for name in NAMES]), 2),
    Large(DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(2, name) for name in NAMES]), 5),
    Large(DescribeGroupsRequest(NAMES), 4),
    Large(DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", NUMBERS)]), 1),
    Large(DescribeProducersRequest([DescribeProducersRequest.TopicRequest(name) for name in NAMES]), 1),
    Large(DescribeTransactionsRequest(NAMES), 4),
    Large(FindCoordinatorRequest(coordinator_keys=NAMES), 4),
    Large(JoinGroupRequest("g", 10_000, protocols=[Protocol(name) for name in NAMES]), 1),
    # Members leave in batches of a hundred, which adds a tenth of a loop.
    Large(LeaveGroupRequest("g", members=[LeaveGroupRequest.MemberIdentity(name) for name in NAMES * 10]), 10.1, 10),
    Large(ListOffsetsRequest(topics=[ListedTopic("t", [ListedPartition(number) for number in NUMBERS])]), 2),
    Large(ListOffsetsRequest(topics=[ListedTopic(name) for name in NAMES]), 2),
    Large(MetadataRequest([MetadataTopic(name=name) for name in NAMES], False), 2),
    Large(MetadataRequest([MetadataTopic(name=f"{name}/") for name in NAMES]), 2),
    Large(MetadataRequest([MetadataTopic(name=name) for name in NAMES], False, False, True), 3),
    Large(MetadataRequest([MetadataTopic(topic_id, None) for topic_id in IDS]), 2),
    Large(MetadataRequest([MetadataTopic(topic_id, None) for topic_id in IDS], False, False, True), 3),
    Large(OffsetCommitRequest("g", topics=[CommittedTopic("t", partitions=COMMITTED)]), 1, 1, version=9),
    Large(OffsetCommitRequest("g", topics=[CommittedTopic(name=name) for name in NAMES]), 2, version=9),
    Large(OffsetDeleteRequest("g", [ForgottenTopic("t", [ForgottenPartition(number) for number in NUMBERS])]), 1, 1),
    Large(OffsetDeleteRequest("g", [ForgottenTopic(name) for name in NAMES]), 1, 1),
    Large(OffsetFetchRequest(groups=[FetchedGroup(name) for name in NAMES]), 4),
    Large(
        OffsetFetchRequest(groups=[FetchedGroup("g", topics=[FetchedTopics("t", ZERO_UUID, NUMBERS)])]), 1, version=9
    ),
    Large(OffsetFetchRequest(groups=[FetchedGroup("g", topics=[FetchedTopics(name) for name in NAMES])]), 1, version=9),
    Large(OffsetFetchRequest("g", [FetchedTopic("t", NUMBERS)]), 1, version=7),
    Large(OffsetFetchRequest("g", [FetchedTopic(name) for name in NAMES]), 1, version=7),
    Large(OffsetForLeaderEpochRequest(topics=[EpochTopic("t", [EpochPartition(number) for number in NUMBERS])]), 1),
    Large(OffsetForLeaderEpochRequest(topics=[EpochTopic(name) for name in NAMES]), 1),
    Large(SyncGroupRequest("g", 1, "m", None, "p", "p", [Assignment(name) for name in NAMES]), 1),
    Large(TxnOffsetCommitRequest("x", "g", topics=[TxnTopic("t", [TxnPartition(n) for n in NUMBERS])]), 1, 1),
    Large(TxnOffsetCommitRequest("x", "g", topics=[TxnTopic(name) for name in NAMES]), 2),
    Large(WriteTxnMarkersRequest([Marker(1, 1, topics=[MarkerTopic("t", NUMBERS)])]), 1),
    Large(WriteTxnMarkersRequest([Marker(1, 1, topics=[MarkerTopic(name) for name in NAMES])]), 1),
    Large(WriteTxnMarkersRequest([Marker(number, 1, topics=[MarkerTopic("t", [7])]) for number in NUMBERS]), 3),
]


@pytest.mark.parametrize("large", LARGE, ids=lambda large: type(large.request).__name__)
def test_each_entry_counts_in_each_loop(bench: BrokerBench, large: Large) -> None:
    bench.create()
    commit(bench, 0)
    delayed = bench.begin(large.request, large.version)
    assert all_steps(delayed) >= large.loops * MANY // AT_A_TIME
    for _ in range(large.late_loops * MANY // LATE_AT_A_TIME):
        assert delayed.response is None
        bench.advance(0)
    assert delayed.response is not None


def test_all_topics_are_described_in_turns_but_those_deleted_meanwhile(bench: BrokerBench) -> None:
    for number in range(2 * AT_A_TIME):
        bench.create(f"t{number}")
    delayed = bench.begin(MetadataRequest(None))
    assert delayed.response is None
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(f"t{2 * AT_A_TIME - 1}")], timeout_ms=1))
    # Both topics and partitions are counted.
    assert all_steps(delayed) >= 3
    assert isinstance(delayed.response, MetadataResponse)
    assert len(delayed.response.topics) == 2 * AT_A_TIME - 1


def test_groups_are_listed_in_turns(bench: BrokerBench) -> None:
    bench.create()
    for number in range(2 * AT_A_TIME):
        commit(bench, 0, f"g{number}")
    delayed = bench.begin(ListGroupsRequest())
    assert all_steps(delayed) >= 2
    assert isinstance(delayed.response, ListGroupsResponse)
    assert len(delayed.response.groups) == 2 * AT_A_TIME


def test_all_offsets_of_a_group_are_fetched_in_turns(bench: BrokerBench) -> None:
    for number in range(2 * AT_A_TIME):
        bench.create(f"t{number}")
        commit(bench, 0, topic=f"t{number}")
    of_any, of_one = OffsetFetchRequest(groups=[FetchedGroup("g", topics=None)]), OffsetFetchRequest("g", None)
    for request, version in ((of_any, None), (of_one, 7)):
        # Both topics and partitions are counted.
        assert all_steps(bench.begin(request, version)) >= 4


@pytest.mark.parametrize(
    "batch",
    [produced(b"x" * 64 * 1024), produced(b"x", compression=Compression.GZIP)],
    ids=["long", "compressed"],
)
def test_what_follows_a_batch_that_may_take_long_is_another_turn(bench: BrokerBench, batch: bytes) -> None:
    bench.create(partitions=2)
    partitions = [ProduceRequest.PartitionProduceData(number, batch) for number in range(2)]
    topics = [ProduceRequest.TopicProduceData("t", partition_data=partitions)]
    delayed = bench.begin(ProduceRequest(None, -1, 1_000, topics), 9)
    logs = bench.core.directory.of("t").values()
    assert [log.next_offset for log in logs] == [1, 0]
    delayed.step()
    assert [log.next_offset for log in logs] == [1, 1]


def test_partitions_are_looked_at_in_turns_before_any_is_appended_to(bench: BrokerBench) -> None:
    bench.create()
    partitions = [ProduceRequest.PartitionProduceData(0, produced(b"x"))] * LOOKED_AT_A_TIME
    topics = [ProduceRequest.TopicProduceData("t", partition_data=partitions)]
    delayed = bench.begin(ProduceRequest(None, -1, 1_000, topics), 9)
    log = bench.core.directory.of("t")[0]
    assert log.next_offset == 0
    while log.next_offset == 0:
        delayed.step()
    assert log.next_offset <= AT_A_TIME


def test_topics_without_partitions_are_looked_at_and_answered_in_turns(bench: BrokerBench) -> None:
    topics = [ProduceRequest.TopicProduceData(name) for name in NAMES] * 4
    delayed = bench.begin(ProduceRequest(None, -1, 1_000, topics), 9)
    assert all_steps(delayed) >= len(topics) // LOOKED_AT_A_TIME + len(topics) // (AT_A_TIME + 1)
    assert isinstance(delayed.response, ProduceResponse)
    assert len(delayed.response.responses) == len(topics)
