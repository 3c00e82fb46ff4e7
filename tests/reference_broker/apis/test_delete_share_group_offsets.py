"""DeleteShareGroupOffsets deletes the states of topics of a share group without members.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.apis.share_bench import ShareBench
from tests.reference_broker.apis.share_offsets import answered, delete, describe


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    return bench


def topics(answer):
    return {topic.topic_name: (topic.error_code, topic.error_message) for topic in answer.responses}


def test_offsets_are_deleted(bench):
    bench.create("u")
    bench.beat("m", -1)
    answer = delete(bench, "t", "u", "v", "t")
    assert answer.error_code == ErrorCode.NONE
    assert topics(answer) == {
        "t": (0, None),
        "u": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
        "v": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
    }
    assert list(describe(bench).topics) == []
    assert topics(delete(bench, "t")) == {
        "t": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
    }
    bench.join()
    assert len(describe(bench).topics[0].partitions) == 2


def test_a_group_with_members(bench):
    answer = delete(bench, "t")
    assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


@pytest.mark.parametrize(
    ("group_id", "code"),
    [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("classic", ErrorCode.GROUP_ID_NOT_FOUND),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_other_groups(bench, group_id, code):
    stable(bench, "classic")
    assert delete(bench, "t", group_id=group_id).error_code == code


def test_a_group_is_deleted_with_its_states(bench):
    (result,) = answered(bench, DeleteGroupsRequest(["g"])).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    bench.beat("m", -1)
    (result,) = answered(bench, DeleteGroupsRequest(["g"]), 2).results
    assert result.error_code == ErrorCode.NONE
    (result,) = answered(bench, DeleteGroupsRequest(["g"]), 2).results
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(bench, {"t": [0]}).topics[0].partitions[0].start_offset == -1
