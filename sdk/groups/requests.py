"""A group request whose shape has changed between versions, and access to one of several groups in a response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.requests import carries, lacking

__all__ = ["group_in", "leave_group"]


class _Group(Protocol):
    group_id: str


OfGroup = TypeVar("OfGroup", bound=_Group)


def group_in(response: Message, groups: Iterable[OfGroup], group_id: str) -> OfGroup:
    """Return a response's entry for a group.

    Raises:
        RemoteProtocolError: the response does not contain the group.
    """
    for group in groups:
        if group.group_id == group_id:
            return group
    raise lacking(response, f"group {group_id}")


def leave_group(
    group_id: str, member_id: str, group_instance_id: str | None, reason: str, version: int
) -> messages.LeaveGroupRequest:
    """Return the request that removes a member from its group."""
    if carries(messages.LeaveGroupRequest, "members", version):
        identity = messages.LeaveGroupRequest.MemberIdentity(member_id, group_instance_id, reason)
        return messages.LeaveGroupRequest(group_id, members=[identity])
    return messages.LeaveGroupRequest(group_id, member_id)
