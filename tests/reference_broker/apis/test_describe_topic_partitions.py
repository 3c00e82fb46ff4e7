"""DescribeTopicPartitions lists topics by name, page by page.

Method: send a table of requests, with Apache Kafka's answers, to a broker without sockets; then request pages of every
size to the end, delete topics between pages, and take a log offline.
"""

import pytest

from kafkawire.reference_broker.apis.describe_topic_partitions import PARTITIONS_MAX
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, PartitionImage, TopicImage
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.asked_bench import check, fill
from tests.reference_broker.apis.asked_cases import cases, name_of

Cursor = DescribeTopicPartitionsRequest.Cursor
Named = DescribeTopicPartitionsRequest.TopicRequest


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_TOPIC_PARTITIONS), ids=name_of)
def test_answers(bench, case):
    check(fill(bench), case)


@pytest.mark.parametrize("limit", range(1, 9))
@pytest.mark.parametrize("names", [(), ("c", "d", "a", "b")])
def test_pages_follow_each_other_without_gaps(bench, limit, names):
    present = {"b": 2, "d": 1, "a": 4}
    for name, count in present.items():
        bench.create(name, count)
    found, cursor = [], None
    while True:
        page = bench.ask(DescribeTopicPartitionsRequest([Named(name) for name in names], limit, cursor))
        listed = [(topic.name, each.partition_index) for topic in page.topics for each in topic.partitions]
        assert len(listed) <= limit
        found += listed
        if page.next_cursor is None:
            break
        assert len(listed) == limit
        cursor = Cursor(page.next_cursor.topic_name, page.next_cursor.partition_index)
    assert found == [(name, number) for name in sorted(present) for number in range(present[name])]


@pytest.mark.thorough
def test_no_page_is_longer_than_the_broker_allows(bench):
    bench.create("t", PARTITIONS_MAX + 1)
    page = bench.ask(DescribeTopicPartitionsRequest([], PARTITIONS_MAX + 1))
    assert len(page.topics[0].partitions) == PARTITIONS_MAX
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("t", PARTITIONS_MAX)


def test_a_page_is_of_one_moment(bench):
    names = [f"t{number:02}" for number in range(50)]
    for name in names:
        bench.create(name)
    begun = bench.begin(DescribeTopicPartitionsRequest())
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t49")], timeout_ms=60_000))
    while begun.response is None:
        begun.step()
    assert [topic.name for topic in begun.response.topics] == names
    after = bench.ask(DescribeTopicPartitionsRequest())
    assert [topic.name for topic in after.topics] == names[:-1]


def test_partition_on_a_disk_that_has_failed(bench):
    """An Apache Kafka broker with two log directories, one of which has failed, gives the same answers."""
    bench.create("t", 2)
    bench.core.directory.log("t", 1).fail(OSError(5, "broken"))
    (topic,) = bench.ask(DescribeTopicPartitionsRequest([Named("t")])).topics
    good, bad = topic.partitions
    assert (good.error_code, good.leader_id, good.isr_nodes, good.offline_replicas) == (ErrorCode.NONE, 1, (1,), ())
    assert (good.eligible_leader_replicas, good.last_known_elr) == ((), ())
    assert (bad.error_code, bad.leader_id, bad.isr_nodes, bad.offline_replicas) == (ErrorCode.NONE, -1, (), (1,))
    assert (bad.replica_nodes, bad.eligible_leader_replicas, bad.last_known_elr) == ((1,), (1,), (1,))


def test_partitions_that_the_broker_has_not_heard_of_are_left_out(bench):
    """These partitions still count towards the page size, since the cursor is a partition number."""
    known = PartitionImage(1, 0, (1,), (1,))
    topic = TopicImage("t", b"t" * 16, (known, UNKNOWN_PARTITION, known, UNKNOWN_PARTITION, known), {})
    bench.core.metadata.publish([topic])
    found, cursor = [], Cursor("t", 0)
    while cursor is not None:
        page = bench.ask(
            DescribeTopicPartitionsRequest([Named("t")], 2, Cursor(cursor.topic_name, cursor.partition_index))
        )
        found.append([each.partition_index for topic in page.topics for each in topic.partitions])
        cursor = page.next_cursor
    assert found == [[0], [2], [4]]
