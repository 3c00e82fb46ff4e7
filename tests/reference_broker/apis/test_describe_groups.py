"""DescribeGroups shows groups in every version; an unknown group is reported as dead or, since version 6, as an error.

Method: send requests to a broker without sockets that has a group of one member.
"""

import pytest

from kafkawire.reference_broker.requests.authorized_operations import GROUP_OPERATIONS
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import join, stable
from tests.reference_broker.broker_bench import NOT_ASKED, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_GROUPS))
def test_every_version(bench, version):
    member_id = stable(bench)
    group, unknown = bench.ask(DescribeGroupsRequest(["g", "none"]), version).groups
    assert (group.error_code, group.group_state, group.protocol_type) == (ErrorCode.NONE, "Stable", "consumer")
    assert group.protocol_data == "range"
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/host")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"subscription", b"assignment")
    assert (unknown.group_id, unknown.group_state) == ("none", "Dead")
    is_told = version >= 6
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE)
    assert unknown.error_message == ("Group none not found." if is_told else None)


def test_rebalancing_group_shows_no_assignment(bench):
    join(bench)
    (group,) = bench.ask(DescribeGroupsRequest(["g"])).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert bytes(group.members[0].member_assignment) == b""


@pytest.mark.parametrize(("version", "knows_none"), [(3, True), (5, True), (6, False)])
def test_authorized_operations(bench, version, knows_none):
    stable(bench)
    asked = bench.ask(DescribeGroupsRequest(["g", "none"], True), version).groups
    # The member of a cluster answers as Kafka 3.9, where these operations did not apply to groups.
    since_4 = 1 << AclOperation.DESCRIBE_CONFIGS | 1 << AclOperation.ALTER_CONFIGS
    supported = GROUP_OPERATIONS & ~since_4 if bench.core.authorizer.is_registry else GROUP_OPERATIONS
    assert [group.authorized_operations for group in asked] == [supported, supported if knows_none else NOT_ASKED]
    not_asked = bench.ask(DescribeGroupsRequest(["g", "none"]), version).groups
    assert [group.authorized_operations for group in not_asked] == [NOT_ASKED, NOT_ASKED]
