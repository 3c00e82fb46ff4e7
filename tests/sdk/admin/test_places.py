"""The brokers of items are looked up in one request, and again after each failure; an item without a broker says why.

Method: let operations look up leaders and coordinators at two scripted in-memory brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.places import ANY_NODE, Anywhere, Nodes
from kafkawire.sdk.client.operations import ABSENT_MS
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import Pair

A0, A1, B0, GONE = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0), ("gone", 0)))

Deleted = messages.DeleteRecordsResponse
DeletedGroups = messages.DeleteGroupsResponse


def lowered(node_id: int, request: Any) -> Deleted:
    """Answer DeleteRecords with the node id as the first offset; node 1 leads nothing from the second request on."""
    kind = Deleted.DeleteRecordsPartitionResult
    topics = [
        Deleted.DeleteRecordsTopicResult(topic.name, [kind(each.partition_index, node_id) for each in topic.partitions])
        for topic in request.topics
    ]
    return Deleted(topics=topics)


def deleted(node_id: int, request: Any) -> DeletedGroups:
    return DeletedGroups(results=[DeletedGroups.DeletableGroupResult(name) for name in request.groups_names])


def test_leaders() -> None:
    pair = Pair()
    pair.leaders = {A0: 1, A1: 2, B0: 2}
    pair.answer(ApiKey.DELETE_RECORDS, lowered)

    async def test(admin: Admin) -> None:
        results = await admin.delete_records({B0: 5, A0: None, GONE: 0, A1: 6})
        assert list(results.values.items()) == [(B0, 2), (A0, 1), (A1, 2)]
        assert {key: str(error) for key, error in results.errors.items()} == {
            GONE: "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0"
        }

    pair.administering(test)
    asked = pair.asked(ApiKey.DELETE_RECORDS)
    assert [len(requests) for requests in asked.values()] == [1, 1]


def test_a_leader_that_moves_during_the_call() -> None:
    pair = Pair()
    pair.leaders = {A0: [1, 2], A1: [-1, -1, 2]}

    def responder(node_id: int, request: Any) -> Deleted:
        response = lowered(node_id, request)
        if node_id == 1:
            response.topics[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return response

    pair.answer(ApiKey.DELETE_RECORDS, responder)

    async def test(admin: Admin) -> None:
        assert (await admin.delete_records({A0: 1, A1: 1})).all() == {A0: 2, A1: 2}

    pair.administering(test)


@pytest.mark.parametrize(
    ("partition", "leader", "text"),
    [
        (TopicPartition("a", 7), 1, "UNKNOWN_TOPIC_OR_PARTITION: partition a-7: topic a has partitions 0 to 0"),
        (A0, -1, "LEADER_NOT_AVAILABLE: partition a-0"),
        (A0, 9, "LEADER_NOT_AVAILABLE: partition a-0"),
    ],
)
def test_a_missing_partition_or_leader(partition: TopicPartition, leader: int, text: str) -> None:
    pair = Pair()
    pair.leaders = {A0: leader}

    async def test(admin: Admin) -> None:
        results = await admin.within(50).delete_records({partition: 1})
        assert [str(error) for error in results.errors.values()] == [text]

    pair.administering(test)


@pytest.mark.usefixtures("time_skips")
def test_mistakes_do_not_take_as_long_as_a_broker_that_is_down() -> None:
    pair = Pair()
    pair.leaders = {A0: 1}

    async def test(admin: Admin) -> None:
        missing, absent = TopicPartition("a", 7), "cannot connect to node 9: the cluster does not include it"
        calls: list[tuple[Awaitable[Any], str]] = [
            (admin.list_offsets({missing: OffsetTimestamp.LATEST}), "topic a has partitions 0 to 0"),
            (admin.describe_configs(ConfigResourceType.BROKER, "9"), absent),
            (admin.describe_features(9), absent),
        ]
        for call, text in calls:
            begun_ms = monotonic_ms()
            with pytest.raises(KafkaWireError, match=text):
                await call
            assert ABSENT_MS <= monotonic_ms() - begun_ms < 2 * ABSENT_MS
        begun_ms = monotonic_ms()
        results = await admin.describe_producers(A0, missing, node_id=9)
        assert [str(error) for error in results.errors.values()] == [absent] * 2
        assert [str(error) for error in (await admin.describe_log_dirs(9)).errors.values()] == [absent]
        assert monotonic_ms() - begun_ms < 4 * ABSENT_MS

    pair.administering(test)


def test_coordinators() -> None:
    pair = Pair()
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    pair.coordinators = {"b": 2, "c": denied, "d": [ErrorCode.COORDINATOR_NOT_AVAILABLE, 2]}
    pair.answer(ApiKey.DELETE_GROUPS, deleted)

    async def test(admin: Admin) -> None:
        results = await admin.delete_groups("d", "c", "b", "a", "d")
        assert list(results.values) == ["d", "b", "a"]
        text = "GROUP_AUTHORIZATION_FAILED: the coordinator of group c"
        assert {key: str(error) for key, error in results.errors.items()} == {"c": text}

    pair.administering(test)
    asked = [each for requests in pair.asked(ApiKey.DELETE_GROUPS).values() for each in requests]
    assert sorted(each.groups_names for each in asked) == [("a",), ("b",), ("d",)]
    lookups = [each for requests in pair.asked(ApiKey.FIND_COORDINATOR).values() for each in requests]
    assert [each.coordinator_keys for each in lookups] == [("d", "c", "b", "a"), ("d",)]


def test_a_coordinator_that_moves_during_the_call() -> None:
    pair = Pair()
    pair.coordinators = {"a": [1, 2], "b": 1}

    def responder(node_id: int, request: Any) -> DeletedGroups:
        response = deleted(node_id, request)
        for each in response.results:
            if each.group_id == "a" and node_id == 1:
                each.error_code = ErrorCode.NOT_COORDINATOR
        return response

    pair.answer(ApiKey.DELETE_GROUPS, responder)

    async def test(admin: Admin) -> None:
        assert (await admin.delete_groups("a", "b")).all() == {"a": None, "b": None}

    pair.administering(test)
    asked = {
        node_id: [each.groups_names for each in some] for node_id, some in pair.asked(ApiKey.DELETE_GROUPS).items()
    }
    assert asked == {1: [("a", "b")], 2: [("a",)]}


def test_a_coordinator_that_is_down_until_another_takes_over() -> None:
    pair = Pair()
    pair.brokers[2].stop()
    pair.brokers[1].network.servers.pop(Pair.ADDRESSES[2])
    pair.coordinators = {"a": [2, 2, 1], "b": 1}
    pair.answer(ApiKey.DELETE_GROUPS, deleted)

    async def test(admin: Admin) -> None:
        assert (await admin.delete_groups("a", "b")).all() == {"a": None, "b": None}

    pair.administering(test)


def test_brokers_that_take_one_key_in_each_lookup() -> None:
    pair = Pair()
    pair.coordinators = {"b": 2, "c": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    pair.answer(ApiKey.DELETE_GROUPS, deleted)
    for broker in pair.brokers.values():
        broker.supported[ApiKey.FIND_COORDINATOR] = VersionRange(0, 3)

    async def test(admin: Admin) -> None:
        results = await admin.delete_groups("a", "b", "c")
        assert results.values == {"a": None, "b": None}
        assert str(results.errors["c"]) == "GROUP_AUTHORIZATION_FAILED: the coordinator of group c"

    pair.administering(test)
    lookups = [each for requests in pair.asked(ApiKey.FIND_COORDINATOR).values() for each in requests]
    assert sorted(each.key for each in lookups) == ["a", "b", "c"]


def test_a_lookup_that_leaves_out_a_key() -> None:
    pair = Pair()
    for broker in pair.brokers.values():
        broker.responders[ApiKey.FIND_COORDINATOR] = lambda request: messages.FindCoordinatorResponse()

    async def test(admin: Admin) -> None:
        results = await admin.delete_groups("a")
        assert [str(error) for error in results.errors.values()] == [
            "the response to FindCoordinator lacks the coordinator of group a"
        ]

    pair.administering(test)


def test_brokers_that_the_items_name() -> None:
    async def test() -> None:
        assert (await Nodes[str](len).find(["a", "bb", "c"], 0, is_first=True)).nodes == {1: ["a", "c"], 2: ["bb"]}
        assert (await Anywhere[str]().find(["a", "bb"], 0, is_first=True)).nodes == {ANY_NODE: ["a", "bb"]}

    asyncio.run(test())


def test_a_refusal_while_leaders_are_looked_up() -> None:
    pair = Pair()
    kind = MetadataResponse.MetadataResponseTopic
    for broker in pair.brokers.values():
        usual = broker.responders[ApiKey.METADATA]

        def refuse(request: Request, usual: Any = usual) -> MetadataResponse:
            response: MetadataResponse = usual(request)
            response.topics = [kind(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each.name) for each in response.topics]
            return response

        broker.responders[ApiKey.METADATA] = refuse

    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match=r"^TOPIC_AUTHORIZATION_FAILED: partition a-0$"):
            (await admin.delete_records({A0: 1})).all()

    pair.administering(test)
