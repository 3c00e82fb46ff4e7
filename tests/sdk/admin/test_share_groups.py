"""Share groups are described, deleted and reset; each group, partition and topic fails on its own.

Method: call a scripted in-memory broker with hand-built responses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.share_group_descriptions import (
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafkawire.sdk.errors import BrokerError, KafkaWireError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsResponse
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kafkawire.sdk.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker, topic_id_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Described = ShareGroupDescribeResponse


def code_of(error: KafkaWireError) -> ErrorCode:
    assert isinstance(error, BrokerError)
    return ErrorCode(error.code)


def asking(
    key: ApiKey, response: Message, test: Callable[[Admin], Awaitable[None]], older: dict[ApiKey, int] | None = None
) -> list[Any]:
    """Run a test against a broker that gives this response, and return the requests."""
    asked: list[Any] = []

    async def run(broker: StoringBroker, admin: Admin) -> None:
        def respond(request: Request) -> Message:
            asked.append(request.message)
            return response

        broker.responders[key] = respond
        await test(admin)

    administering(run, older or {})
    return asked


def group(name: str, code: int = 0, message: str | None = None, **given: Any) -> Any:
    return Described.DescribedGroup(code, message, name, **given)


def test_describing() -> None:
    assignment = Described.Assignment([Described.TopicPartitions(topic_id_of("t"), "t", [0, 1])])
    members = [
        Described.Member("m1", "rack", 6, "me", "/127.0.0.1", ["t", "u"], assignment),
        Described.Member("m2", None, 7, "you", "/::1", ["t"], Described.Assignment([])),
    ]
    bits = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    found = group(
        "g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="simple",
        members=members,
        authorized_operations=bits,
    )
    expected = ShareGroupDescription(
        "g",
        "Stable",
        "simple",
        (
            ShareMemberDescription("m1", "rack", "me", "/127.0.0.1", ("t", "u"), (T0, T1), 6),
            ShareMemberDescription("m2", None, "you", "/::1", ("t",), (), 7),
        ),
        7,
        6,
        frozenset({AclOperation.READ, AclOperation.DESCRIBE}),
    )

    async def test(admin: Admin) -> None:
        results = await admin.describe_share_groups("g", include_authorized_operations=True)
        assert (dict(results.values), results.errors) == ({"g": expected}, {})

    (request,) = asking(ApiKey.SHARE_GROUP_DESCRIBE, Described(groups=[found]), test)
    assert (list(request.group_ids), request.include_authorized_operations) == (["g"], True)


def test_operations_that_were_not_requested() -> None:
    async def test(admin: Admin) -> None:
        results = await admin.describe_share_groups("g")
        assert results.values["g"].authorized_operations is None

    asking(ApiKey.SHARE_GROUP_DESCRIBE, Described(groups=[group("g")]), test)


def test_groups_fail_on_their_own() -> None:
    """One request asks about all groups of a coordinator; only one whose error may pass is asked about again."""
    moving = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]

    def answer(name: str) -> Any:
        code = {"missing": ErrorCode.GROUP_ID_NOT_FOUND, "moving": moving[0]}.get(name, ErrorCode.NONE)
        return group(name, code, "no such group" if code else None)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        def respond(request: Request) -> Message:
            names: list[str] = list(request.message.group_ids)
            asked.append(names)
            groups = [answer(name) for name in names]
            moving.pop(0)
            return Described(groups=groups)

        broker.responders[ApiKey.SHARE_GROUP_DESCRIBE] = respond
        results = await admin.describe_share_groups(["a", "missing", "moving", "a"])
        assert list(results.values) == ["a", "moving"]
        assert code_of(results.errors["missing"]) is ErrorCode.GROUP_ID_NOT_FOUND
        assert "share group missing: no such group" in str(results.errors["missing"])

    asked: list[list[str]] = []
    administering(test)
    assert asked == [["a", "missing", "moving"], ["moving"]]


def test_response_without_a_group() -> None:
    async def test(admin: Admin) -> None:
        results = await admin.describe_share_groups("g", "h")
        assert list(results.values) == ["g"]
        assert str(results.errors["h"]) == "the response to ShareGroupDescribe lacks share group h"

    asking(ApiKey.SHARE_GROUP_DESCRIBE, Described(groups=[group("g")]), test)


def test_deleting_groups() -> None:
    def result(name: str) -> DeleteGroupsResponse.DeletableGroupResult:
        return DeleteGroupsResponse.DeletableGroupResult(name, ErrorCode.NON_EMPTY_GROUP if name == "busy" else 0)

    async def test(admin: Admin) -> None:
        results = await admin.delete_share_groups("g", "busy")
        assert dict(results.values) == {"g": None}
        assert str(results.errors["busy"]) == "NON_EMPTY_GROUP: share group busy"

    response = DeleteGroupsResponse(results=[result("g"), result("busy")])
    (request,) = asking(ApiKey.DELETE_GROUPS, response, test)
    assert list(request.groups_names) == ["g", "busy"]


def offsets(*partitions: Any, code: int = 0) -> DescribeShareGroupOffsetsResponse:
    kind = DescribeShareGroupOffsetsResponse
    topics = [kind.DescribeShareGroupOffsetsResponseTopic("t", topic_id_of("t"), list(partitions))]
    return kind(groups=[kind.DescribeShareGroupOffsetsResponseGroup("g", topics, code, "said the broker")])


def test_listing_offsets() -> None:
    kind = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition

    async def test(admin: Admin) -> None:
        results = await admin.list_share_group_offsets("g")
        assert dict(results.values) == {T0: SharePartitionOffset(5, 3, 10), T1: None}
        refused = results.errors[TopicPartition("t", 2)]
        assert code_of(refused) is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    response = offsets(
        kind(0, 5, 3, 10), kind(1, -1, -1, -1), kind(2, -1, -1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )
    (request,) = asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, response, test)
    (asked,) = request.groups
    assert (asked.group_id, asked.topics) == ("g", None)


def test_listing_offsets_of_some_partitions_of_an_older_broker() -> None:
    kind = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition

    async def test(admin: Admin) -> None:
        results = await admin.list_share_group_offsets("g", T0, T1)
        assert dict(results.values) == {T0: SharePartitionOffset(5, None, None)}
        assert isinstance(results.errors[T1], RemoteProtocolError), "the response lacks it"

    older = {ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0}
    (request,) = asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets(kind(0, 5, -1)), test, older)
    assert [(topic.topic_name, list(topic.partitions)) for topic in request.groups[0].topics] == [("t", [0, 1])]


def test_a_group_whose_offsets_may_not_be_read() -> None:
    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match="start offsets of share group g: said the broker") as raised:
            await admin.list_share_group_offsets("g")
        assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED

    asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), test)


def test_changing_offsets() -> None:
    kind = AlterShareGroupOffsetsResponse
    partitions = [
        kind.AlterShareGroupOffsetsResponsePartition(0),
        kind.AlterShareGroupOffsetsResponsePartition(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "said the broker"),
    ]
    response = kind(responses=[kind.AlterShareGroupOffsetsResponseTopic("t", topic_id_of("t"), partitions)])

    async def test(admin: Admin) -> None:
        results = await admin.alter_share_group_offsets("g", {T0: 5, T1: 0, TopicPartition("u", 0): 1})
        assert dict(results.values) == {T0: None}
        assert code_of(results.errors[T1]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert isinstance(results.errors[TopicPartition("u", 0)], RemoteProtocolError)

    (request,) = asking(ApiKey.ALTER_SHARE_GROUP_OFFSETS, response, test)
    assert [
        (topic.topic_name, [(each.partition_index, each.start_offset) for each in topic.partitions])
        for topic in request.topics
    ] == [("t", [(0, 5), (1, 0)]), ("u", [(0, 1)])]


def test_a_group_that_is_in_use() -> None:
    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match="start offsets of share group g: it has members") as raised:
            await admin.alter_share_group_offsets("g", {T0: 5})
        assert raised.value.code is ErrorCode.NON_EMPTY_GROUP

    refused = AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP, error_message="it has members")
    asking(ApiKey.ALTER_SHARE_GROUP_OFFSETS, refused, test)


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_errors_that_pass(code: ErrorCode) -> None:
    kind = DeleteShareGroupOffsetsResponse
    answers = [
        kind(error_code=code),
        kind(responses=[kind.DeleteShareGroupOffsetsResponseTopic("t", topic_id_of("t"))]),
    ]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_SHARE_GROUP_OFFSETS] = lambda request: answers.pop(0)
        results = await admin.delete_share_group_offsets("g", "t")
        assert dict(results.values) == {"t": None}
        assert answers == []

    administering(test)


def test_deleting_offsets() -> None:
    kind = DeleteShareGroupOffsetsResponse
    topics = [
        kind.DeleteShareGroupOffsetsResponseTopic("t", topic_id_of("t")),
        kind.DeleteShareGroupOffsetsResponseTopic("u", topic_id_of("u"), ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"),
    ]

    async def test(admin: Admin) -> None:
        results = await admin.delete_share_group_offsets("g", "t", "u")
        assert dict(results.values) == {"t": None}
        assert "start offsets of share group g in topic u: no" in str(results.errors["u"])

    (request,) = asking(ApiKey.DELETE_SHARE_GROUP_OFFSETS, kind(responses=topics), test)
    assert (request.group_id, [each.topic_name for each in request.topics]) == ("g", ["t", "u"])


def test_invalid_arguments_send_nothing() -> None:
    async def test(broker: StoringBroker, typed: Admin) -> None:
        admin: Any = typed
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: admin.describe_share_groups(7),
            lambda: admin.delete_share_groups("g", None),
            lambda: admin.list_share_group_offsets("g", "t"),
            lambda: admin.list_share_group_offsets(None),
            lambda: admin.alter_share_group_offsets("g", {T0: -1}),
            lambda: admin.alter_share_group_offsets("g", {"t": 1}),
            lambda: admin.delete_share_group_offsets("g", "a/b"),
        ]
        for call in calls:
            with pytest.raises(LocalProtocolError):
                await call()
        assert broker.asked(ApiKey.FIND_COORDINATOR) == []

    administering(test)
