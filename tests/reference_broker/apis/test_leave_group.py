"""LeaveGroup removes one member in old versions, and several in new ones.

Method: send requests to a broker without sockets that has a group of one member.
"""

import pytest

from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import group_in, stable
from tests.reference_broker.broker_bench import versions_of

Identity = LeaveGroupRequest.MemberIdentity


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
def test_every_version(bench, version):
    member = stable(bench)
    if version < 3:
        assert bench.ask(LeaveGroupRequest("g", "nobody"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert bench.ask(LeaveGroupRequest("g", member), version).error_code == ErrorCode.NONE
    else:
        response = bench.ask(LeaveGroupRequest("g", members=[Identity("nobody"), Identity(member)]), version)
        assert response.error_code == ErrorCode.NONE
        found = [(entry.member_id, entry.error_code) for entry in response.members]
        assert found == [("nobody", ErrorCode.UNKNOWN_MEMBER_ID), (member, ErrorCode.NONE)]
    assert not group_in(bench).members


def test_static_member_by_its_instance_id(bench):
    stable(bench, instance="i")
    (entry,) = bench.ask(LeaveGroupRequest("g", members=[Identity("", "i")])).members
    assert (entry.group_instance_id, entry.error_code) == ("i", ErrorCode.NONE)


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
def test_group_without_a_name(bench, version):
    request = LeaveGroupRequest("", "m") if version < 3 else LeaveGroupRequest("", members=[Identity("m")])
    assert bench.ask(request, version).error_code == ErrorCode.INVALID_GROUP_ID
