"""ShareGroupDescribe shows share groups and their members.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.apis.share_bench import ShareBench
from tests.reference_broker.broker_bench import NOT_ASKED


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    return bench


def described(bench, *group_ids, operations=False):
    return bench.ask(ShareGroupDescribeRequest(list(group_ids), operations)).groups


def test_a_group(bench):
    (group,) = described(bench, "g")
    assert (group.error_code, group.error_message, group.group_id) == (ErrorCode.NONE, None, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert (group.assignor_name, group.authorized_operations) == ("simple", NOT_ASKED)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == ("m", 3, "client", "/host")
    assert (member.rack_id, list(member.subscribed_topic_names)) == (None, ["t"])
    (part,) = member.assignment.topic_partitions
    assert (part.topic_id, part.topic_name, list(part.partitions)) == (bench.topic_id, "t", [0, 1])


def test_an_empty_group(bench):
    bench.beat("m", -1)
    (group,) = described(bench, "g", operations=True)
    assert (group.group_state, list(group.members)) == ("Empty", [])
    assert group.authorized_operations != NOT_ASKED


def test_other_groups(bench):
    stable(bench, "classic")
    found = described(bench, "", "classic", "none", "g", operations=True)
    assert [(group.group_id, group.error_code, group.error_message) for group in found] == [
        ("", ErrorCode.INVALID_GROUP_ID, None),
        ("classic", ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
        ("g", ErrorCode.NONE, None),
    ]
    assert [group.authorized_operations == NOT_ASKED for group in found] == [True, True, True, False]
