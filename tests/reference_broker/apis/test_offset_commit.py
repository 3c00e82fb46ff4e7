"""In every version, OffsetCommit stores offsets, preserves them across restarts and crashes, and refuses the same
requests as Kafka.

Method: send requests to a broker without sockets, and read the committed offsets from the store, and again after a
restart on the same files.
"""

import errno

import pytest

from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.group_of_one import group_in, stable
from tests.reference_broker.broker_bench import BrokerBench, versions_of

Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = OffsetCommitRequest.OffsetCommitRequestPartition
OffsetDeletePartition = OffsetDeleteRequest.OffsetDeleteRequestPartition


def request(*partitions, generation=-1, member="", name="t", topic_id=ZERO_UUID, group="g"):
    return OffsetCommitRequest(group, generation, member, topics=[Topic(name, topic_id, list(partitions))])


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_COMMIT))
@pytest.mark.parametrize("end", ["restart", "crash"])
def test_every_version(bench, version, end):
    topic_id = bench.create(partitions=2)
    bench.offsets_topic()
    bench.ask(request(Partition(1, 5, 0, "old"), topic_id=topic_id), version)
    response = bench.ask(request(Partition(1, 7, 0, "meta"), Partition(2, 1), topic_id=topic_id), version)
    (topic,) = response.topics
    assert (topic.name, topic.topic_id) == (("", topic_id) if version >= 10 else ("t", ZERO_UUID))
    codes = [(partition.partition_index, partition.error_code) for partition in topic.partitions]
    assert codes == [(1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    epoch = 0 if version >= 6 else -1
    expected = {("t", 1): Committed(7, epoch, "meta", bench.now_ms, topic_id)}
    assert bench.core.groups.offsets("g") == expected
    getattr(bench, end)()
    assert bench.core.groups.offsets("g") == expected
    assert group_in(bench).group_id == "g"


@pytest.mark.parametrize(
    ("generation", "member", "code"),
    [
        (1, None, ErrorCode.NONE),
        (2, None, ErrorCode.ILLEGAL_GENERATION),
        (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members(bench, generation, member, code):
    bench.create()
    known = stable(bench)
    message = request(Partition(0, 3), generation=generation, member=known if member is None else member)
    (topic,) = bench.ask(message, 9).topics
    assert topic.partitions[0].error_code == code
    assert bool(bench.core.groups.offsets("g")) is (code == ErrorCode.NONE)


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.UNSUPPORTED_VERSION), (9, ErrorCode.NONE)])
def test_members_with_epochs_need_a_version_that_has_them(bench, version, code):
    bench.create()
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    joined = bench.ask(ConsumerGroupHeartbeatRequest("g", **joining), 0)
    message = request(Partition(0, 3), generation=joined.member_epoch, member=joined.member_id)
    assert bench.ask(message, version).topics[0].partitions[0].error_code == code
    assert bool(bench.core.groups.offsets("g")) is (code == ErrorCode.NONE)


@pytest.mark.parametrize(
    ("message", "version", "code"),
    [
        (request(Partition(0, 3), name="none"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(Partition(0, 3), topic_id=b"x" * 16), 10, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(Partition(0, 3, committed_metadata="x" * 11)), 9, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (request(Partition(0, 3, committed_metadata=None)), 9, ErrorCode.NONE),
        (request(Partition(0, 3), group=""), 9, ErrorCode.NONE),
        (
            OffsetCommitRequest("g", retention_time_ms=2**63 - 1, topics=[Topic("t", partitions=[Partition(0, 3)])]),
            2,
            ErrorCode.NONE,
        ),
        (request(Partition(0, 3), generation=4, member="m"), 8, ErrorCode.ILLEGAL_GENERATION),
        (request(Partition(0, 3), generation=4, member="m"), 9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_errors(tmp_path, message, version, code):
    bench = BrokerBench(tmp_path / "data", offset_metadata_max_bytes=10)
    bench.create()
    bench.offsets_topic()
    assert bench.ask(message, version).topics[0].partitions[0].error_code == code


def test_failing_disk_is_reported_and_nothing_remembered():
    bench = BrokerBench(disk := MemoryDisk())
    bench.create()
    bench.offsets_topic()
    disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    (topic,) = bench.ask(request(Partition(0, 3)), 9).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert not bench.core.groups.offsets("g")


def test_response_to_a_commit_of_many_partitions_is_made_in_turns(bench):
    bench.create()
    bench.offsets_topic()
    many = range(2_000)
    delayed = bench.ask(request(*(Partition(number, 3) for number in many)), 9)
    assert isinstance(delayed, DelayedOperation)
    assert bench.core.groups.offsets("g"), "the offset is committed"
    for _ in many:
        bench.advance(0)
    (topic,) = bench.through(delayed.response, 9).topics
    assert [partition.partition_index for partition in topic.partitions] == list(many)


def test_long_run_of_commits_stays_small_and_is_loaded_after_compaction():
    """After 60,000 commits of 10 partitions, the log used to take up 42 MB, and startup took 4 s."""
    bench = BrokerBench(MemoryDisk())
    bench.create(partitions=10)
    small = {"cleanup.policy": "compact", "segment.ms": "1000", "segment.index.bytes": "240"}
    bench.core.topics.create(NewTopic(CONSUMER_OFFSETS_TOPIC, 1, configs=small), lambda topic: None)
    bench.restart()
    log = bench.core.directory.log(CONSUMER_OFFSETS_TOPIC, 0)
    assert log is not None
    sizes = []
    for number in range(3_000):
        bench.ask(request(*(Partition(index, number, 0, "") for index in range(10))), 9)
        bench.advance(100)
        sizes.append(log.size_bytes)
    one = sizes[0]
    assert max(sizes[1000:]) < 400 * one, "the log holds few of the 3,000 commits"
    assert max(sizes[2000:]) <= max(sizes[1000:2000]) * 1.1
    expected = bench.core.groups.offsets("g")
    assert {committed.offset for committed in expected.values()} == {2_999}
    for end in (bench.crash, bench.restart):
        end()
        assert bench.core.groups.offsets("g") == expected
        assert bench.core.groups.offsets("other") == {}
    bench.ask(OffsetDeleteRequest("g", [OffsetDeleteRequest.OffsetDeleteRequestTopic("t", [OffsetDeletePartition(3)])]))
    for number in range(400):
        bench.ask(request(Partition(0, number, 0, "")), 9)
        bench.advance(100)
    bench.crash()
    assert ("t", 3) not in bench.core.groups.offsets("g"), "a tombstone is not compacted away too early"
    assert len(bench.core.groups.offsets("g")) == 9
