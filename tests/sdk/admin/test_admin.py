"""Each method of an admin sends the right request and returns plain values; errors name their subject.

Method: the scripted broker in memory, with hand-made responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import ConfigEntry, GroupListing, NewTopic
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.consumer.consumer_protocol import encode_assignment
from kafkawire.sdk.errors import BrokerError, Closed, LocalProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

T0 = TopicPartition("t", 0)


def administering(test: Callable[[StoringBroker, Admin], Awaitable[None]]) -> None:
    """Run a test with a broker that has topic t, and an admin."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        async with Admin(str(BROKER), network=broker.network, retry_backoff_ms=1) as admin:
            await test(broker, admin)

    asyncio.run(run())


def created(*codes: int) -> Callable[[Request], CreateTopicsResponse]:
    """Answer CreateTopics, with an error code for each topic."""

    def respond(request: Request) -> CreateTopicsResponse:
        kind = CreateTopicsResponse.CreatableTopicResult
        wanted = zip(request.message.topics, codes, strict=True)
        return CreateTopicsResponse(
            topics=[kind(topic.name, topic_id_of(topic.name), code, "said the broker") for topic, code in wanted]
        )

    return respond


def test_create_topics() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.NOT_CONTROLLER, 0), created(0, 0))
        ids = await admin.create_topics([NewTopic("a", 3, 1, {"cleanup.policy": "compact"}), "b"])
        assert ids == {"a": topic_id_of("a"), "b": topic_id_of("b")}
        request = broker.asked(ApiKey.CREATE_TOPICS)[-1]
        assert isinstance(request, CreateTopicsRequest)
        first, second = request.topics
        assert (first.num_partitions, first.replication_factor) == (3, 1)
        assert [(each.name, each.value) for each in first.configs] == [("cleanup.policy", "compact")]
        assert (second.num_partitions, second.replication_factor) == (-1, -1)

    administering(test)


def test_create_a_topic_that_is_there() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.TOPIC_ALREADY_EXISTS))
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS: create topic t: said the broker"):
            await admin.create_topics("t")

    administering(test)


def test_replicas_by_hand() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(0))
        await admin.create_topics(NewTopic("a", assignments={0: (1, 2), 1: (2, 1)}))
        request = broker.asked(ApiKey.CREATE_TOPICS)[-1]
        assert isinstance(request, CreateTopicsRequest)
        (topic,) = request.topics
        assert [(each.partition_index, list(each.broker_ids)) for each in topic.assignments] == [
            (0, [1, 2]),
            (1, [2, 1]),
        ]

    administering(test)


@pytest.mark.parametrize("highest", [5, 6])
def test_delete_topics(highest: int) -> None:
    def respond(request: Request) -> DeleteTopicsResponse:
        names = [topic.name for topic in request.message.topics] or request.message.topic_names
        codes = {"t": 0, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        kind = DeleteTopicsResponse.DeletableTopicResult
        return DeleteTopicsResponse(responses=[kind(name, error_code=codes[name]) for name in names])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_TOPICS] = respond
        await admin.delete_topics("t")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: delete topic u"):
            await admin.delete_topics(["t", "u"])

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.supported[ApiKey.DELETE_TOPICS] = VersionRange(1, highest)
        async with Admin(str(BROKER), network=broker.network) as admin:
            await test(broker, admin)

    asyncio.run(run())


def test_topics() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        assert list(await admin.list_topics()) == ["t"]
        assert len((await admin.describe_topics("t"))["t"].partitions) == 2
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic u"):
            await admin.describe_topics(["t", "u"])

    administering(test)


def test_cluster() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id) == ("scripted", 1)
        assert {node: each.address for node, each in cluster.brokers.items()} == {1: BROKER}

    administering(test)


def test_groups() -> None:
    def listed(request: Request) -> ListGroupsResponse:
        kind = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(groups=[kind("h", "consumer", "Stable", "classic"), kind("g")])

    def described(request: Request) -> DescribeGroupsResponse:
        member = DescribeGroupsResponse.DescribedGroupMember(
            "m1", None, "me", "/127.0.0.1", member_assignment=encode_assignment([T0])
        )
        joining = DescribeGroupsResponse.DescribedGroupMember("m2", "static")
        group = DescribeGroupsResponse.DescribedGroup(0, None, "h", "Stable", "consumer", "range", [member, joining])
        return DescribeGroupsResponse(groups=[group])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_GROUPS] = listed
        broker.responders[ApiKey.DESCRIBE_GROUPS] = described
        assert await admin.list_groups() == [
            GroupListing("g", "", "", ""),
            GroupListing("h", "consumer", "Stable", "classic"),
        ]
        group = (await admin.describe_groups("h"))["h"]
        assert (group.state, group.protocol) == ("Stable", "range")
        assert [(each.member_id, each.group_instance_id, each.assignment) for each in group.members] == [
            ("m1", None, (T0,)),
            ("m2", "static", ()),
        ]

    administering(test)


def test_offsets() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.fill("t", b"a", b"b")
        broker.commits["g", "t", 0] = 1
        assert await admin.list_offsets({T0: OffsetTimestamp.LATEST}) == {T0: OffsetAndTimestamp(2, -1)}
        assert await admin.list_offsets({T0: datetime(1970, 1, 1, tzinfo=UTC)}) == {T0: OffsetAndTimestamp(0, -1)}
        assert await admin.list_group_offsets("g", [T0]) == {T0: OffsetAndMetadata(1)}

    administering(test)


def test_configs() -> None:
    def respond(request: Request) -> DescribeConfigsResponse:
        (resource,) = request.message.resources
        if resource.resource_name == "u":
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(code)])
        entry = DescribeConfigsResponse.DescribeConfigsResourceResult(
            "cleanup.policy", "delete", False, ConfigSource.DEFAULT_CONFIG
        )
        return DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(configs=[entry])])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CONFIGS] = respond
        expected = {
            "cleanup.policy": ConfigEntry("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG, False, False)
        }
        assert await admin.describe_configs(ConfigResourceType.TOPIC, "t", ["cleanup.policy"]) == expected
        assert await admin.describe_configs(ConfigResourceType.BROKER, "1") == expected
        with pytest.raises(BrokerError, match="configuration of topic u"):
            await admin.describe_configs(ConfigResourceType.TOPIC, "u")

    administering(test)


def test_started_twice_at_once() -> None:
    async def run() -> None:
        broker = StoringBroker()
        admin = Admin(str(BROKER), network=broker.network)
        first, second = await asyncio.gather(admin.start(), admin.start(), return_exceptions=True)
        assert first is None
        assert isinstance(second, LocalProtocolError)
        await admin.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_start_and_close() -> None:
    async def run() -> None:
        broker = StoringBroker()
        admin = Admin(str(BROKER), network=broker.network)
        with pytest.raises(Closed, match="the admin is not started"):
            await admin.list_topics()
        await admin.close()
        await admin.start()
        with pytest.raises(LocalProtocolError, match="started already"):
            await admin.start()
        await admin.close()
        with pytest.raises(Closed):
            await admin.describe_cluster()

    asyncio.run(run())
