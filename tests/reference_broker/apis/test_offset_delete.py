"""OffsetDelete permanently deletes the offsets of known partitions that no member is subscribed to.

Method: send requests to a broker without sockets.
"""

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import commit

Topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
Partition = OffsetDeleteRequest.OffsetDeleteRequestPartition


def delete(bench, group="g", **partitions):
    topics = [Topic(name, [Partition(number) for number in numbers]) for name, numbers in partitions.items()]
    response = bench.ask(OffsetDeleteRequest(group, topics), 0)
    found = {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }
    return response.error_code, found


def test_offsets_are_deleted(bench):
    bench.create(partitions=2)
    commit(bench, 5)
    code, found = delete(bench, t=[0, 1, 2], none=[0])
    assert (code, found) == (
        ErrorCode.NONE,
        {
            ("t", 0): ErrorCode.NONE,
            ("t", 1): ErrorCode.NONE,
            ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
    )
    bench.crash()
    assert not bench.core.groups.offsets("g")


def test_errors_of_the_group(bench):
    bench.create()
    commit(bench, 5)
    assert delete(bench, "none", t=[0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete(bench, "", t=[0]) == (ErrorCode.INVALID_GROUP_ID, {})
    assert delete(bench, "none", none=[0]) == delete(bench, "none") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete(bench, "", none=[0]) == (ErrorCode.INVALID_GROUP_ID, {})
    assert delete(bench) == (ErrorCode.NONE, {})
    assert delete(bench, none=[0]) == (ErrorCode.NONE, {("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def test_a_partition_that_the_broker_has_not_heard_of_is_unknown(bench):
    bench.create(partitions=2)
    commit(bench, 5)
    topic = bench.core.metadata.image.topics["t"]
    bench.core.metadata.publish([topic._replace(partitions=(UNKNOWN_PARTITION, topic.partitions[1]))])
    assert delete(bench, t=[-1, 0, 1])[1] == {
        ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 1): ErrorCode.NONE,
    }
