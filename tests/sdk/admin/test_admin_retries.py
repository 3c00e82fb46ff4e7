"""An admin retries after retriable errors, each time at the broker that is responsible by then.

Method: let a scripted in-memory broker refuse a few times. test_admin.py covers what each method sends and returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError, Closed, RemoteProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0 = TopicPartition("t", 0)


def admin(broker: StoringBroker, **options: Any) -> Admin:
    """Return an admin that retries after short pauses."""
    return Admin(str(BROKER), network=broker.network, retry_backoff_ms=1, retry_backoff_max_ms=5, **options)


def created(code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult("a", error_code=code)])


def listed(code: int) -> ListOffsetsResponse:
    partition = ListOffsetsResponse.ListOffsetsPartitionResponse(0, code, timestamp=-1, offset=7)
    return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", [partition])])


def test_another_controller_is_found() -> None:
    async def run() -> None:
        broker = StoringBroker()
        for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE):
            broker.script(ApiKey.CREATE_TOPICS, lambda request, code=code: created(code))
        async with admin(broker) as client:
            await client.create_topics("a")
        assert len(broker.asked(ApiKey.CREATE_TOPICS)) == 3

    asyncio.run(run())


def test_another_leader_is_found() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE):
            broker.script(ApiKey.LIST_OFFSETS, lambda request, code=code: listed(code))
        async with admin(broker) as client:
            assert await client.list_offsets({T0: OffsetTimestamp.LATEST}) == {T0: OffsetAndTimestamp(7, -1)}

    asyncio.run(run())


@pytest.mark.parametrize(("name", "number", "api_timeout_ms"), [("gone", 0, 3_600_000), ("t", 9, 100)])
def test_offsets_of_what_does_not_exist(name: str, number: int, api_timeout_ms: int) -> None:
    """A missing topic is reported immediately; a missing partition is reported only after a while."""
    partition = TopicPartition(name, number)

    async def run() -> None:
        async with admin(StoringBroker({"t": 1}), api_timeout_ms=api_timeout_ms) as client:
            with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_OR_PARTITION.*{name}"):
                await client.list_offsets({partition: OffsetTimestamp.LATEST})

    asyncio.run(run())


@pytest.mark.parametrize("newest", [5, 7, 8, 9, 10])
def test_committed_offsets_in_every_shape(newest: int) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        supported = broker.supported[ApiKey.OFFSET_FETCH]
        broker.supported[ApiKey.OFFSET_FETCH] = VersionRange(supported.first, min(newest, supported.last))
        broker.commits["g", "t", 0] = 5
        async with admin(broker) as client:
            assert await client.list_group_offsets("g", [T0]) == {T0: OffsetAndMetadata(5)}
            assert await client.list_group_offsets("g") == {T0: OffsetAndMetadata(5)}
            assert await client.list_group_offsets("other", [T0]) == {}

    asyncio.run(run())


def test_many_groups_at_once() -> None:
    def described(request: Request) -> DescribeGroupsResponse:
        kind = DescribeGroupsResponse.DescribedGroup
        return DescribeGroupsResponse(groups=[kind(group_id=group_id) for group_id in request.message.groups])

    async def run() -> None:
        broker = StoringBroker()
        broker.responders[ApiKey.DESCRIBE_GROUPS] = described
        wanted = [f"group-{number}" for number in range(500)]
        async with admin(broker) as client:
            assert list(await client.describe_groups(wanted)) == wanted
        assert len(broker.requests) == 3  # to find their coordinator, and for either kind of group

    asyncio.run(run())


ANSWERED_NOTHING: list[tuple[ApiKey, Message, Callable[[Admin], Awaitable[object]], str]] = [
    (
        ApiKey.CREATE_TOPICS,
        CreateTopicsResponse(),
        lambda client: client.create_topics("a"),
        "CreateTopics lacks topic a",
    ),
    (
        ApiKey.DELETE_TOPICS,
        DeleteTopicsResponse(),
        lambda client: client.delete_topics("t"),
        "DeleteTopics lacks topic t",
    ),
    (
        ApiKey.DESCRIBE_GROUPS,
        DescribeGroupsResponse(),
        lambda client: client.describe_groups("g"),
        "DescribeGroups lacks group g",
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsResponse(),
        lambda client: client.describe_configs(ConfigResourceType.TOPIC, "t"),
        "DescribeConfigs lacks the configuration of topic t",
    ),
    (
        ApiKey.OFFSET_FETCH,
        OffsetFetchResponse(),
        lambda client: client.list_group_offsets("g"),
        "OffsetFetch lacks group g",
    ),
    (
        ApiKey.OFFSET_FETCH,
        OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g")]),
        lambda client: client.list_group_offsets("g", [T0]),
        "OffsetFetch lacks partition t-0",
    ),
    (
        ApiKey.LIST_OFFSETS,
        ListOffsetsResponse(),
        lambda client: client.list_offsets({T0: OffsetTimestamp.LATEST}),
        "ListOffsets lacks partition t-0",
    ),
    (
        ApiKey.FIND_COORDINATOR,
        FindCoordinatorResponse(),
        lambda client: client.describe_groups("g"),
        "FindCoordinator lacks the coordinator of group g",
    ),
]


@pytest.mark.parametrize(("key", "response", "action", "text"), ANSWERED_NOTHING)
def test_a_response_that_leaves_out_what_was_asked_for(
    key: ApiKey, response: Message, action: Callable[[Admin], Awaitable[object]], text: str
) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.responders[key] = lambda request: response
        async with admin(broker) as client:
            with pytest.raises(RemoteProtocolError, match=text):
                await action(client)
            assert await client.list_topics()

    asyncio.run(run())


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_closing_ends_what_waits(io: Any) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def silent(request: Request) -> Message | None:
            loop.call_soon_threadsafe(asked.set)
            return None

        broker.responders[ApiKey.LIST_OFFSETS] = silent
        client = admin(broker, io=io)
        await client.start()
        waiting = asyncio.ensure_future(client.list_offsets({T0: OffsetTimestamp.LATEST}))
        await asked.wait()
        await client.close()
        with pytest.raises(Closed, match="the admin is not started, or is closed"):
            await waiting

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_a_cancelled_call_leaves_the_admin_in_order() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.script(ApiKey.LIST_OFFSETS, lambda request: None)
        async with admin(broker, request_timeout_ms=100) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await client.list_offsets({T0: OffsetTimestamp.LATEST})
            assert await client.list_topics()

    asyncio.run(run())


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_cancelled_change_that_was_not_sent_is_never_sent(io: Any) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        received: list[Request] = []
        broker.responders[ApiKey.DELETE_TOPICS] = received.append  # type: ignore[assignment]  # there is no response
        async with admin(broker, io=io) as client:
            await client.list_topics()
            broker.stop()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.delete_topics("t")
            core = client._running()
            broker.start()
            assert await client.list_topics()
            assert not received
            assert "delete_topics" not in str(core.driver._performed)
            assert not [entry.call for entry in core.router._unsettled.values() if "DeleteTopics" in str(entry.call)]

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_calls_that_were_given_up_leave_no_tasks() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        for key in (ApiKey.FIND_COORDINATOR, ApiKey.LIST_OFFSETS, ApiKey.LIST_GROUPS):
            broker.responders[key] = lambda request: None
        async with admin(broker) as client:
            await client.list_topics()
            before = len(asyncio.all_tasks())
            for call in (
                lambda: client.describe_groups("g"),
                lambda: client.list_offsets({T0: 1}),
                client.list_groups,
                lambda: client.lag("g"),
            ):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await call()
            await client.list_topics()
            assert len(asyncio.all_tasks()) == before

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_a_silent_broker_does_not_outlast_the_limit() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: None
        async with admin(broker, api_timeout_ms=100) as client:
            with pytest.raises(RequestTimedOut):
                await client.list_offsets({T0: OffsetTimestamp.LATEST})

    asyncio.run(run())
