"""A client sees the groups that it may describe, and for each other group why not.

Method: describe groups that the test makes, with an authorizer that knows a few names. The tests in `apis/` cover what
groups of each type look like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.requests.described_groups import GroupDescriptions, describe_groups
from kafkawire.reference_broker.security.authorizer import NoAuthorizer
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AUTHORIZED_OPERATIONS_OMITTED, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

Described = ShareGroupDescribeResponse.DescribedGroup

#: Each group's state is the topic that it uses.
DESCRIPTIONS = GroupDescriptions(
    Described,
    lambda group: {group.group_state},
    "hidden",
    lambda found: ShareGroupDescribeResponse(groups=found),
)


class Rights(NoAuthorizer):
    """Allows DESCRIBE for some names."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.acls: Any = object()
        self._names = names

    def allows(
        self, requester: object, operation: AclOperation, resource_type: ResourceType, name: str, **logs: Any
    ) -> bool:
        return operation is AclOperation.DESCRIBE and name in self._names


def describe(group_id: str, put: Callable[[Described], None]) -> None:
    put(Described(ErrorCode.GROUP_ID_NOT_FOUND if group_id == "none" else 0, group_id=group_id, group_state="t"))


def ask(authorizer: NoAuthorizer, *group_ids: str, include_operations: bool = False) -> list[Described]:
    """Return the groups in a response."""
    request = ShareGroupDescribeRequest(group_ids, include_operations)
    call = BrokerBench(MemoryDisk()).call(Request(APIS[ApiKey.SHARE_GROUP_DESCRIBE], 1, 0, "client", request, 1))
    work = describe_groups(call, request, authorizer, DESCRIPTIONS, describe)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return list(end.value.groups)


def test_groups_of_others_come_first_and_have_no_text() -> None:
    found = ask(Rights("own", "t"), "own", "b", "own", "a")
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [(group.group_id, group.error_code, group.error_message) for group in found] == [
        ("b", refused, None),
        ("a", refused, None),
        ("own", 0, None),
        ("own", 0, None),
    ]


def test_a_group_with_hidden_topics() -> None:
    assert ask(Rights("own"), "own") == [Described(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "hidden", "own")]


@pytest.mark.parametrize(("authorizer", "bits"), [(NoAuthorizer(), 3400), (Rights("own", "t"), 1 << 8)])
def test_authorized_operations(authorizer: NoAuthorizer, bits: int) -> None:
    assert [group.authorized_operations for group in ask(authorizer, "own", include_operations=True)] == [bits]
    assert [group.authorized_operations for group in ask(authorizer, "own")] == [AUTHORIZED_OPERATIONS_OMITTED]


def test_an_error_has_no_authorized_operations() -> None:
    (group,) = ask(NoAuthorizer(), "none", include_operations=True)
    assert group.authorized_operations == AUTHORIZED_OPERATIONS_OMITTED
