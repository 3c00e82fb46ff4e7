"""Committed offsets of groups are listed in one request to each coordinator, and changed group by group.

Method: call two scripted in-memory brokers with hand-built responses. test_places.py covers coordinators that move.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.admin.administering import Pair, following
from tests.sdk.scripted_broker import topic_id_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Fetched: Any = messages.OffsetFetchResponse
Committed = messages.OffsetCommitResponse
Removed = messages.OffsetDeleteResponse


def fetched(group: Any, code: int = 0, **partitions: tuple[int, int]) -> Any:
    """Return one group of a response, with the offset and error code of partitions of t, keyed by `p0` and so on."""
    kind = Fetched.OffsetFetchResponsePartitions
    each = [kind(int(number[1:]), offset, -1, "", code) for number, (offset, code) in partitions.items()]
    return Fetched.OffsetFetchResponseGroup(group, [Fetched.OffsetFetchResponseTopics("t", partitions=each)], code)


def committed(**codes: int) -> Committed:
    kind = Committed.OffsetCommitResponsePartition
    each = [kind(int(number[1:]), code) for number, code in codes.items()]
    return Committed(topics=[Committed.OffsetCommitResponseTopic("t", topic_id_of("t"), each)])


def removed(code: int = 0, **codes: int) -> Removed:
    kind = Removed.OffsetDeleteResponsePartition
    each = [kind(int(number[1:]), partition_code) for number, partition_code in codes.items()]
    return Removed(code, topics=[Removed.OffsetDeleteResponseTopic("t", each)])


def test_groups_of_two_coordinators() -> None:
    pair = Pair()
    pair.coordinators = {"b": 2}
    groups = {
        "a": fetched("a", p0=(5, 0), p1=(-1, 0)),
        "b": fetched("b", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        "c": fetched("c", p0=(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
    }
    pair.answer(
        ApiKey.OFFSET_FETCH,
        lambda node_id, request: Fetched(groups=[groups[each.group_id] for each in request.groups]),
    )

    async def test(admin: Admin) -> None:
        results = await admin.list_group_offsets_of({"c": [T0], "b": None, "a": None})
        assert results.values == {"a": {T0: OffsetAndMetadata(5)}}
        assert {key: str(error) for key, error in results.errors.items()} == {
            "c": "TOPIC_AUTHORIZATION_FAILED: committed offset of group c in t-0",
            "b": "GROUP_AUTHORIZATION_FAILED: committed offsets of group b",
        }

    pair.administering(test)
    asked = {
        node_id: [[(group.group_id, group.topics) for group in each.groups] for each in requests]
        for node_id, requests in pair.asked(ApiKey.OFFSET_FETCH).items()
    }
    ((_, topics), (_, everything)) = asked[1][0]
    assert [(topic.name, topic.partition_indexes) for topic in topics] == [("t", (0,))]
    assert everything is None
    assert asked[2] == [[("b", None)]]


def test_a_group_with_an_open_transaction_is_asked_again() -> None:
    pair = Pair()
    script = [fetched("a", p0=(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)), fetched("a", p0=(5, 0))]
    pair.answer(ApiKey.OFFSET_FETCH, lambda node_id, request: Fetched(groups=[following(script)]))

    async def test(admin: Admin) -> None:
        assert await admin.list_group_offsets("a", T0, require_stable=True) == {T0: OffsetAndMetadata(5)}

    pair.administering(test)
    asked = pair.asked(ApiKey.OFFSET_FETCH)[1]
    assert [each.require_stable for each in asked] == [True, True]


def test_brokers_that_take_one_group_in_each_request() -> None:
    pair = Pair()
    kind, partition = Fetched.OffsetFetchResponseTopic, Fetched.OffsetFetchResponsePartition

    def responder(node_id: int, request: Any) -> Any:
        if request.group_id == "c":
            return Fetched(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return Fetched(topics=[kind("t", [partition(0, 5)])])

    pair.answer(ApiKey.OFFSET_FETCH, responder)
    for broker in pair.brokers.values():
        broker.supported[ApiKey.OFFSET_FETCH] = VersionRange(1, 7)

    async def test(admin: Admin) -> None:
        results = await admin.list_group_offsets_of(["a", "b", "c"])
        assert results.values == {group: {T0: OffsetAndMetadata(5)} for group in "ab"}
        assert str(results.errors["c"]) == "GROUP_AUTHORIZATION_FAILED: committed offsets of group c"

    pair.administering(test)
    assert sorted(each.group_id for each in pair.asked(ApiKey.OFFSET_FETCH)[1]) == ["a", "b", "c"]


def test_offsets_are_changed() -> None:
    pair = Pair()
    pair.coordinators = {"g": 2}
    pair.answer(ApiKey.OFFSET_COMMIT, lambda node_id, request: committed(p0=0, p1=ErrorCode.OFFSET_METADATA_TOO_LARGE))

    async def test(admin: Admin) -> None:
        assert await admin.alter_group_offsets("g", {}) == ({}, {})
        results = await admin.alter_group_offsets("g", {T1: 3, T0: OffsetAndMetadata(5, "note", 7)})
        assert results.values == {T0: None}
        assert str(results.errors[T1]) == "OFFSET_METADATA_TOO_LARGE: commit of group g in t-1"

    pair.administering(test)
    ((request,),) = [requests for requests in pair.asked(ApiKey.OFFSET_COMMIT).values() if requests]
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    (topic,) = request.topics
    assert [tuple(getattr(each, name) for name in each.__slots__)[:2] for each in topic.partitions] == [(1, 3), (0, 5)]


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_a_change_is_repeated_as_a_whole(code: ErrorCode) -> None:
    pair = Pair()
    script = [committed(p0=0, p1=code), committed(p0=0, p1=0)]
    pair.answer(ApiKey.OFFSET_COMMIT, lambda node_id, request: following(script))

    async def test(admin: Admin) -> None:
        assert (await admin.alter_group_offsets("g", {T0: 1, T1: 2})).all() == {T0: None, T1: None}

    pair.administering(test)
    assert len(pair.asked(ApiKey.OFFSET_COMMIT)[1]) == 2


def test_a_group_that_rebalances_for_too_long() -> None:
    pair = Pair()
    pair.answer(ApiKey.OFFSET_COMMIT, lambda node_id, request: committed(p0=ErrorCode.REBALANCE_IN_PROGRESS))

    async def test(admin: Admin) -> None:
        results = await admin.within(30).alter_group_offsets("g", {T0: 1, T1: 2})
        text = "REBALANCE_IN_PROGRESS: commit of group g in t-0"
        assert [str(error) for error in results.errors.values()] == [text, text]

    pair.administering(test)


def test_offsets_are_deleted() -> None:
    pair = Pair()
    script = [
        removed(p0=0, p1=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        removed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        removed(ErrorCode.NON_EMPTY_GROUP),
        removed(p0=0),
    ]
    pair.answer(ApiKey.OFFSET_DELETE, lambda node_id, request: following(script))

    async def test(admin: Admin) -> None:
        assert await admin.delete_group_offsets("g", []) == ({}, {})
        results = await admin.delete_group_offsets("g", T0, T1, T0)
        assert results.values == {T0: None}
        assert str(results.errors[T1]) == "GROUP_SUBSCRIBED_TO_TOPIC: committed offset of group g in t-1"
        results = await admin.delete_group_offsets("g", T0, T1)
        text = "NON_EMPTY_GROUP: committed offsets of group g"
        assert [str(error) for error in results.errors.values()] == [text, text]
        results = await admin.delete_group_offsets("g", T0, T1)
        assert str(results.errors[T1]) == "the response to OffsetDelete lacks partition t-1"

    pair.administering(test)
    request = pair.asked(ApiKey.OFFSET_DELETE)[1][0]
    assert [[each.partition_index for each in topic.partitions] for topic in request.topics] == [[0, 1]]


def test_offsets_of_a_group_that_has_members() -> None:
    pair = Pair()
    pair.answer(ApiKey.OFFSET_COMMIT, lambda node_id, request: committed(p0=ErrorCode.UNKNOWN_MEMBER_ID))

    async def test(admin: Admin) -> None:
        results = await admin.alter_group_offsets("g", {T0: 1})
        assert str(results.errors[T0]) == (
            "UNKNOWN_MEMBER_ID: commit of group g in t-0: the group has members, and only they may commit: "
            "stop them first"
        )

    pair.administering(test)
