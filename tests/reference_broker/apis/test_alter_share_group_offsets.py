"""AlterShareGroupOffsets moves the start of a share group without members.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.apis.share_bench import ShareBench, acquired
from tests.reference_broker.apis.share_offsets import alter, describe

UNKNOWN = "This server does not host this topic-partition."


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    bench.produce_values(b"a", b"b", b"c", b"d")
    return bench


def parts(answer):
    return {
        (topic.topic_name, part.partition_index): (part.error_code, part.error_message)
        for topic in answer.responses
        for part in topic.partitions
    }


def test_offsets_are_moved(bench):
    bench.fetch()
    bench.acknowledge(1, (0, 3, [1]))
    bench.acknowledge(-1)
    bench.beat("m", -1)
    bench.peer.lost()
    bench.use_connection()
    answer = alter(bench, {"t": {0: 2, 1: 5, 7: 0}, "u": {0: 1}})
    assert answer.error_code == ErrorCode.NONE
    assert parts(answer) == {
        ("t", 0): (0, None),
        ("t", 1): (0, None),
        ("t", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
        ("u", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
    }
    assert {topic.topic_name: topic.topic_id for topic in answer.responses} == {"t": bench.topic_id, "u": ZERO_UUID}
    assert [part.start_offset for part in describe(bench).topics[0].partitions] == [2, 5]
    bench.join()
    assert acquired(bench.fetch()) == [(2, 3, 1)]


def test_a_group_with_members(bench):
    answer = alter(bench, {"t": {0: 2}})
    assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


@pytest.mark.parametrize(
    ("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("classic", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_other_groups(bench, group_id, code):
    stable(bench, "classic")
    assert alter(bench, {"t": {0: 2}}, group_id).error_code == code


def test_a_group_that_does_not_exist_is_created(bench):
    assert parts(alter(bench, {"t": {0: 2}}, "new")) == {("t", 0): (0, None)}
    assert describe(bench, group_id="new").topics[0].partitions[0].start_offset == 2


def test_nothing_is_altered(bench):
    answer = alter(bench, {"u": {0: 2}}, "new")
    assert parts(answer) == {("u", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)}
