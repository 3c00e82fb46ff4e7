"""A request to leave is built for each version, and a group is found among others in a response.

Method: encode the request in every version, and search a hand-built response.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.groups.requests import group_in, leave_group
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.schema import Message


def versions(request: type[Message]) -> range:
    """Return all versions of a message."""
    low, high = request.SCHEMA.versions
    return range(low, high + 1)


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
def test_leave_group(version: int) -> None:
    data = codec(LeaveGroupRequest, version).encode(leave_group("group", "member", None, "reason", version))
    assert b"group" in data
    assert b"member" in data


def test_a_group_among_others() -> None:
    groups = [DescribeGroupsResponse.DescribedGroup(group_id=group_id) for group_id in ("f", "g")]
    response = DescribeGroupsResponse(groups=groups)
    assert group_in(response, groups, "g") is groups[1]
    with pytest.raises(RemoteProtocolError, match=r"^the response to DescribeGroups lacks group h$"):
        group_in(response, groups, "h")
