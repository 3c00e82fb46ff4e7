"""Arguments for topics and resources are converted exactly, or rejected with an error that names the fault.

Method: check tables of arguments. More wrong arguments are in tests/test_arguments.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.admin import transactions
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.arguments import (
    broker_of,
    checked_choices,
    checked_new_partitions,
    checked_new_topics,
    checked_resource,
)
from kafkawire.sdk.admin.descriptions import ConfigResource, NewPartitions, NewTopic
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ElectionType
from kafkawire.sdk.routing.partitions import TopicPartition

BROKER = ConfigResourceType.BROKER


def test_new_topics() -> None:
    whole = NewTopic("b", 2, 1, {"cleanup.policy": "compact", "retention.ms": None}, {0: (1, 2)})
    assert checked_new_topics(("a", whole)) == checked_new_topics((["a", whole],)) == [NewTopic("a"), whole]
    assert checked_new_topics(("a",)) == checked_new_topics((NewTopic("a"),)) == [NewTopic("a")]
    assert checked_new_topics((whole,)) == checked_new_topics(([whole],)) == [whole]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "topic 5: expected a NewTopic or a name, got int"),
        (["a", "b", NewTopic("a")], "create topic a: the topic is given twice"),
        (NewTopic("a", -2), "partitions of a: expected -1 to 2147483647, got -2"),
        (NewTopic("a", 1, 1 << 15), "replication_factor of a: expected -1 to 32767, got 32768"),
        (NewTopic("a", configs={"k": 5}), "k of a: expected a string, got 5"),  # type: ignore[dict-item]  # wrong
        (NewTopic("a", assignments={0: 1}), "replicas of a-0: expected node ids, got 1"),  # type: ignore[dict-item]  # wrong
        (NewTopic("a", assignments={0: (-1,)}), "replica of a-0: expected 0 to 2147483647, got -1"),
        (
            {"orders": 5},
            "topics: expected NewTopics or names, such as NewTopic('orders', partitions=3), got {'orders': 5}",
        ),
    ],
)
def test_topics_that_cannot_be_created(given: object, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_new_topics((given,))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "name", "node_id"),
    [
        (ConfigResourceType.TOPIC, "t", None),
        (BROKER, "7", 7),
        (BROKER, "", None),
        (ConfigResourceType.BROKER_LOGGER, "7", 7),
        (ConfigResourceType.GROUP, "g", None),
    ],
)
def test_who_is_asked(kind: ConfigResourceType, name: str, node_id: int | None) -> None:
    resource = checked_resource(kind, name)
    assert resource == checked_resource(int(kind), name) == ConfigResource(kind, name)
    assert broker_of(resource) == node_id


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (BROKER, "x", "name of a BROKER: expected a node id as text, got 'x'"),
        (ConfigResourceType.BROKER_LOGGER, "", "name of a BROKER_LOGGER: expected a node id as text, got ''"),
        (ConfigResourceType.TOPIC, 5, "name: expected a string, got 5"),
        (
            "topic",
            "t",
            "resource_type: expected a ConfigResourceType (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP), "
            "got 'topic'",
        ),
    ],
)
def test_resources_that_cannot_be(kind: object, name: object, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_resource(kind, name)
    assert str(caught.value) == message


def test_new_partitions() -> None:
    given = {"a": 3, "b": NewPartitions(2, [[1, 2]])}  # type: ignore[arg-type]  # lists are accepted too
    assert checked_new_partitions(given) == {"a": NewPartitions(3), "b": NewPartitions(2, ((1, 2),))}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "partitions: expected a mapping, got 5"),
        ({"a/b": 1}, "topic 'a/b': expected 1 to 249 of the characters"),
        ({"a": 0}, "total_count of a: expected 1 to 2147483647, got 0"),
        ({"a": "3"}, "total_count of a: expected an integer, got '3'"),
        ({"a": NewPartitions(2, 1)}, "assignments of a: expected node ids for each new partition, got 1"),  # type: ignore[arg-type]  # wrong
        ({"a": NewPartitions(2, (1,))}, "replicas of a new partition of a: expected node ids, got 1"),  # type: ignore[arg-type]  # wrong
        ({"a": NewPartitions(2, ("12",))}, "replicas of a new partition of a: expected node ids, got '12'"),  # type: ignore[arg-type]  # wrong
        ({"a": NewPartitions(2, ((-1,),))}, "replica of a new partition of a: expected 0 to 2147483647, got -1"),
    ],
)
def test_partitions_that_cannot_be_created(given: object, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_new_partitions(given)
    assert str(caught.value).startswith(message)


def test_the_words_of_a_filter() -> None:
    words = ("classic", "PreparingRebalance")
    assert checked_choices("types", ["Classic", "preparingrebalance", "classic"], words) == [*words]
    assert checked_choices("types", (), words) == []
    with pytest.raises(LocalProtocolError) as caught:
        checked_choices("types", ["clasic"], words)
    assert str(caught.value) == (
        "one of types: expected classic, PreparingRebalance, got 'clasic'; did you mean classic?"
    )


def test_states_of_transactions_and_groups() -> None:
    assert (
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
        "PrepareEpochFence",
    ) == transactions.STATES

    async def run() -> None:
        for call in (
            Admin("broker:9092").list_transactions(states=["Odd"]),
            Admin("broker:9092").list_groups(states=["Odd"]),
            Admin("broker:9092").list_groups(types=["Odd"]),
        ):
            with pytest.raises(LocalProtocolError, match=r"expected .*, got 'Odd'"):
                await call

    asyncio.run(run())


#: Calls without anything to work on, and what their errors say.
WITHOUT_ITEMS: list[tuple[Callable[[Admin], Awaitable[object]], str]] = [
    (lambda admin: admin.create_topics(), "create_topics: expected topics; for none, pass an empty list"),
    (lambda admin: admin.delete_topics(), "delete_topics: expected topics; for none, pass an empty list"),
    (
        lambda admin: admin.describe_topics(),
        "describe_topics: expected topics; for none, pass an empty list; for all, use list_topics",
    ),
    (
        lambda admin: admin.elect_leaders(ElectionType.UNCLEAN),
        "elect_leaders: expected partitions; for none, pass an empty list; for all, pass all_partitions=True",
    ),
    (
        lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, TopicPartition("t", 0), all_partitions=True),
        "elect_leaders: all_partitions=True leaves no room for other partitions",
    ),
    (
        lambda admin: admin.remove_group_members("g"),
        "remove_group_members: expected members; for none, pass an empty list; for all, pass all_members=True",
    ),
    (
        lambda admin: admin.remove_group_members("g", member_ids=["m"], all_members=True),
        "remove_group_members: all_members=True leaves no room for other members",
    ),
    (lambda admin: admin.describe_replica_log_dirs(), "describe_replica_log_dirs: expected replicas"),
    (lambda admin: admin.describe_groups(), "describe_groups: expected group ids"),
    (lambda admin: admin.delete_groups(), "delete_groups: expected group ids"),
    (lambda admin: admin.describe_streams_groups(), "describe_streams_groups: expected group ids"),
    (lambda admin: admin.describe_share_groups(), "describe_share_groups: expected group ids"),
    (lambda admin: admin.delete_share_groups(), "delete_share_groups: expected group ids"),
    (lambda admin: admin.delete_share_group_offsets("g"), "delete_share_group_offsets: expected topics"),
    (lambda admin: admin.delete_group_offsets("g"), "delete_group_offsets: expected partitions"),
    (lambda admin: admin.describe_configs_of(), "describe_configs_of: expected resources"),
    (lambda admin: admin.create_acls(), "create_acls: expected ACLs"),
    (lambda admin: admin.delete_acls(), "delete_acls: expected filters"),
    (lambda admin: admin.alter_client_quotas(), "alter_client_quotas: expected alterations"),
    (lambda admin: admin.alter_user_scram_credentials(), "alter_user_scram_credentials: expected alterations"),
    (lambda admin: admin.describe_transactions(), "describe_transactions: expected ids"),
    (lambda admin: admin.describe_producers(), "describe_producers: expected partitions"),
    (lambda admin: admin.fence_producers(), "fence_producers: expected ids"),
]


@pytest.mark.parametrize(("call", "message"), WITHOUT_ITEMS)
def test_a_call_without_items_is_refused(call: Callable[[Admin], Awaitable[object]], message: str) -> None:
    async def run() -> None:
        with pytest.raises(LocalProtocolError) as caught:
            await call(Admin("broker:9092"))
        assert str(caught.value).startswith(message)

    asyncio.run(run())
