"""ConsumerGroupDescribe shows members with their current and target assignments; ListGroups shows the group's type.

Method: send requests to a broker without sockets that has a group of one member.
"""

import pytest

from kafkawire.reference_broker.requests.authorized_operations import GROUP_OPERATIONS
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import NOT_ASKED, versions_of
from tests.reference_broker.groups.consumer_bench import subscription


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_every_version(bench, version):
    bench.create(partitions=2)
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    joined = bench.ask(ConsumerGroupHeartbeatRequest("g", server_assignor="range", **joining), 0)
    group, unknown, nameless = bench.ask(ConsumerGroupDescribeRequest(["g", "none", ""]), version).groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "range"
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id) == (joined.member_id, 2, "client")
    assert list(member.subscribed_topic_names) == ["t"]
    for assignment in (member.assignment, member.target_assignment):
        assert [(part.topic_name, list(part.partitions)) for part in assignment.topic_partitions] == [("t", [0, 1])]
    assert member.member_type == (1 if version >= 1 else -1)
    assert (unknown.error_code, unknown.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "none")
    assert unknown.error_message == "Group none not found."
    assert (nameless.error_code, nameless.error_message) == (ErrorCode.INVALID_GROUP_ID, None)


def test_members_of_the_classic_protocol(bench):
    test_every_version(bench, 1)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", subscription(("t",)))
    joined = bench.ask(JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=[protocol]), 3)
    (group,) = bench.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
    types = {member.member_id: member.member_type for member in group.members}
    assert (types.pop(joined.member_id), list(types.values())) == (0, [1])


def test_listed(bench):
    test_every_version(bench, 1)
    (listed,) = bench.ask(ListGroupsRequest()).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "consumer",
        "Stable",
        "consumer",
    )
    assert not bench.ask(ListGroupsRequest([], ["classic"])).groups


def test_without_a_coordinator(bench):
    (group,) = bench.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_authorized_operations(bench, version):
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    bench.ask(ConsumerGroupHeartbeatRequest("g", "m", **joining), 1)
    asked = bench.ask(ConsumerGroupDescribeRequest(["g", "none"], True), version).groups
    assert [group.authorized_operations for group in asked] == [GROUP_OPERATIONS, NOT_ASKED]
    not_asked = bench.ask(ConsumerGroupDescribeRequest(["g", "none"]), version).groups
    assert [group.authorized_operations for group in not_asked] == [NOT_ASKED, NOT_ASKED]
