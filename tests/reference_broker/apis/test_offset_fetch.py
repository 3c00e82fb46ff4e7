"""OffsetFetch returns committed offsets in every version: for one group, for several groups, or for all partitions.

Method: ask a broker without sockets on which offsets have been committed.
"""

import pytest

from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.group_of_one import commit
from tests.reference_broker.broker_bench import versions_of

Topic = OffsetFetchRequest.OffsetFetchRequestTopic
Topics = OffsetFetchRequest.OffsetFetchRequestTopics
Group = OffsetFetchRequest.OffsetFetchRequestGroup

VERSIONS = versions_of(ApiKey.OFFSET_FETCH)


@pytest.fixture
def topic_id(bench):
    topic_id = bench.create(partitions=3)
    commit(bench, 7, partition=2)
    return topic_id


def found(topics):
    return [
        (topic.name, partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version < 8])
def test_one_group(bench, topic_id, version):
    response = bench.ask(OffsetFetchRequest("g", [Topic("t", [0, 2])]), version)
    assert response.error_code == ErrorCode.NONE
    assert found(response.topics) == [("t", 0, -1, "", ErrorCode.NONE), ("t", 2, 7, "meta", ErrorCode.NONE)]
    epochs = [partition.committed_leader_epoch for partition in response.topics[0].partitions]
    assert epochs == [-1, 0 if version >= 5 else -1]
    if version >= 2:
        assert found(bench.ask(OffsetFetchRequest("g", None), version).topics) == [("t", 2, 7, "meta", 0)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_all_offsets_of_a_group_may_not_be_asked_for_too_often(bench, topic_id, version):
    """The limit takes the size of the metadata into account."""
    commit(bench, 7, metadata="m" * 4_000)
    repeated_max = bench.core.options.queued_max_request_bytes // 2 // 4_000
    for count, error in ((repeated_max // 2, ErrorCode.NONE), (repeated_max + 2, ErrorCode.POLICY_VIOLATION)):
        response = bench.ask(OffsetFetchRequest(groups=[Group("g", topics=None)] * count), version)
        assert {group.error_code for group in response.groups} == {error}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_several_groups(bench, topic_id, version):
    asked = Topics("t", topic_id, [2, 0])
    groups = [Group("g", topics=[asked]), Group("g", topics=None), Group("other", topics=None)]
    named, everything, nothing = bench.ask(OffsetFetchRequest(groups=groups), version).groups
    name = "t" if version < 10 else ""
    assert found(named.topics) == [(name, 2, 7, "meta", 0), (name, 0, -1, "", 0)]
    assert found(everything.topics) == [(name, 2, 7, "meta", 0)]
    assert everything.topics[0].topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert (nothing.group_id, nothing.topics, nothing.error_code) == ("other", (), ErrorCode.NONE)


@pytest.mark.parametrize("version", VERSIONS)
def test_error_of_a_group_stands_where_the_version_has_a_place_for_it(bench, version):
    code = ErrorCode.NOT_COORDINATOR
    if version >= 8:
        (group,) = bench.ask(OffsetFetchRequest(groups=[Group("g", topics=None)]), version).groups
        assert (group.group_id, group.error_code, group.topics) == ("g", code, ())
        return
    response = bench.ask(OffsetFetchRequest("g", [Topic("t", [0, 2])]), version)
    if version >= 2:
        assert (response.error_code, response.topics) == (code, ())
    else:
        assert found(response.topics) == [("t", 0, -1, "", code), ("t", 2, -1, "", code)]


def test_unknown_topic_id(bench, topic_id):
    request = OffsetFetchRequest(groups=[Group("g", topics=[Topics(topic_id=b"x" * 16, partition_indexes=[0])])])
    (topic,) = bench.ask(request, 10).groups[0].topics
    assert topic.topic_id == b"x" * 16
    assert found([topic]) == [("", 0, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_member_of_kip_848_is_checked_since_version_9(bench, topic_id, version):
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    member = bench.ask(ConsumerGroupHeartbeatRequest("new", **joining), 0)
    codes = [
        bench.ask(OffsetFetchRequest(groups=[Group("new", *who, topics=None)]), version).groups[0].error_code
        for who in ((member.member_id, member.member_epoch), (member.member_id, 1), ("other", 1))
    ]
    refused = [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes == [ErrorCode.NONE, *(refused if version >= 9 else [ErrorCode.NONE] * 2)]
