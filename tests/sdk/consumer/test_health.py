"""A consumer reports what it is waiting for at every stage from startup to the last record.

Method: run the whole consumer against a scripted broker that stops answering one kind of request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.health import WaitsFor
from kafkawire.sdk.errors import BrokerError, Closed, NoOffset
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.grouped import heartbeat
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 5,
}
GROUP: dict[str, Any] = {"group_id": "g"}
NEW: dict[str, Any] = {"group_id": "g", "group_protocol": "consumer"}
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Hanging:
    """A listener that never returns."""

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.Event().wait()

    on_revoked = on_lost = on_assigned


def consuming(
    test: Callable[[StoringBroker, Consumer], Awaitable[None]],
    *topics: str,
    silent: ApiKey | None = None,
    listener: Any = None,
    **options: Any,
) -> None:
    """Run a test with a consumer and a broker that does not answer one API's requests."""

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b", b"c")
        if silent is not None:
            broker.responders[silent] = lambda request: None
        given = {**QUICK, **options}
        consumer = Consumer(str(BROKER), *topics, network=broker.network, listener=listener, **given)
        await consumer.start()
        try:
            async with asyncio.timeout(20):
                await test(broker, consumer)
        finally:
            await consumer.close(timeout_ms=50)

    asyncio.run(run())


async def becomes(consumer: Consumer, waits_for: WaitsFor) -> None:
    """Wait until a consumer's health gives this reason for waiting."""
    while consumer.health().waits_for is not waits_for:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("topic", "silent", "options", "waits_for"),
    [
        (None, None, {}, WaitsFor.ASSIGNMENT),
        ("missing", None, {}, WaitsFor.METADATA),
        ("t", ApiKey.LIST_OFFSETS, {}, WaitsFor.POSITION),
        ("t", None, {}, WaitsFor.APPLICATION),
        (None, None, GROUP, WaitsFor.ASSIGNMENT),
        ("t", ApiKey.FIND_COORDINATOR, GROUP, WaitsFor.COORDINATOR),
        ("t", ApiKey.JOIN_GROUP, GROUP, WaitsFor.JOIN),
        ("t", ApiKey.SYNC_GROUP, GROUP, WaitsFor.ASSIGNMENT),
        ("t", ApiKey.OFFSET_FETCH, GROUP, WaitsFor.POSITION),
        ("t", None, GROUP, WaitsFor.APPLICATION),
        ("t", ApiKey.CONSUMER_GROUP_HEARTBEAT, NEW, WaitsFor.JOIN),
        ("t", ApiKey.CONSUMER_GROUP_HEARTBEAT, {**NEW, "group_protocol": "auto"}, WaitsFor.JOIN),
    ],
)
def test_stations(topic: str | None, silent: ApiKey | None, options: dict[str, Any], waits_for: WaitsFor) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await becomes(consumer, waits_for)
        health = consumer.health()
        assert (health.waits_for, health.error) == (waits_for, None)
        assert set(health.partitions) == consumer.assignment
        fetched = waits_for is WaitsFor.APPLICATION
        assert (health.since_fetch_ms is not None) is fetched
        joined = "group_id" in options and (fetched or silent in (ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH))
        assert (health.since_heartbeat_ms is not None) is joined

    consuming(test, *([topic] if topic else ()), silent=silent, **options)


def test_reading() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        reading = asyncio.ensure_future(consumer.getmany(10_000))
        assert len((await reading)[T0]) == 3
        reading = asyncio.ensure_future(consumer.getmany(10_000))
        await becomes(consumer, WaitsFor.RECORDS)
        assert consumer.health().partitions == {T0: WaitsFor.RECORDS}
        consumer.pause(T0)
        assert consumer.health().waits_for is WaitsFor.RESUME
        broker.fill("t", b"d")
        consumer.resume(T0)
        assert len((await reading)[T0]) == 1

    consuming(test, "t")


def test_partitions_of_their_own() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0, T1])
        await becomes(consumer, WaitsFor.APPLICATION)
        consumer.pause(T0)
        assert consumer.health().partitions == {T0: WaitsFor.RESUME, T1: WaitsFor.METADATA}
        assert consumer.health().waits_for is WaitsFor.METADATA

    consuming(test)


def test_a_listener_that_takes_its_time() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await becomes(consumer, WaitsFor.REBALANCE)
        assert consumer.health().partitions == {T0: WaitsFor.REBALANCE}

    consuming(test, "t", listener=Hanging(), **GROUP)


def test_a_member_that_nobody_reads_from() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await becomes(consumer, WaitsFor.APPLICATION)
        while consumer.assignment:
            await asyncio.sleep(0)
        assert consumer.health().waits_for is WaitsFor.APPLICATION

    consuming(test, "t", heartbeat_interval_ms=10, max_poll_interval_ms=60, **GROUP)


def test_troubles() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        while not isinstance(error := consumer.health().error, BrokerError):
            await asyncio.sleep(0)
        assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.responders[ApiKey.FIND_COORDINATOR] = found
        refuse_joins(broker, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        while "GROUP_AUTHORIZATION_FAILED" not in str(consumer.health().error):
            await asyncio.sleep(0)
        assert consumer.health().waits_for is WaitsFor.APPLICATION
        refuse_joins(broker, ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.getmany()
        with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
            await consumer.getmany(20_000)
        assert consumer.health().waits_for is WaitsFor.NOTHING
        assert "FENCED_INSTANCE_ID" in str(consumer.health().error)

    def refuse_joins(broker: StoringBroker, code: ErrorCode) -> None:
        broker.responders[ApiKey.JOIN_GROUP] = lambda request: JoinGroupResponse(error_code=code)

    broker = StoringBroker()
    found = broker.responders[ApiKey.FIND_COORDINATOR]
    refused = FindCoordinatorResponse.Coordinator("g", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def run(broker: StoringBroker, consumer: Consumer) -> None:
        broker.responders[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(coordinators=[refused])
        await consumer.subscribe("t")
        await test(broker, consumer)

    consuming(run, **GROUP)


@pytest.mark.parametrize(
    ("options", "api", "denial"),
    [
        (GROUP, ApiKey.JOIN_GROUP, JoinGroupResponse(error_code=DENIED)),
        (GROUP, ApiKey.SYNC_GROUP, SyncGroupResponse(error_code=DENIED)),
        (NEW, ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=DENIED)),
        (
            {**NEW, "group_protocol": "auto"},
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatResponse(error_code=DENIED),
        ),
    ],
)
def test_a_denied_group_is_a_problem_until_the_member_has_joined(
    options: dict[str, Any], api: ApiKey, denial: Message
) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        broker.responders[ApiKey.CONSUMER_GROUP_HEARTBEAT] = heartbeat
        broker.script(api, *[lambda request: denial] * 2)
        await consumer.subscribe("t")
        for _ in range(2):
            with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
                await consumer.getmany(20_000)
            health = consumer.health()
            assert health.waits_for is WaitsFor.ACCESS
            assert isinstance(health.error, BrokerError)
            assert health.error.code is DENIED
        assert len((await consumer.getmany(20_000))[T0]) == 3
        assert consumer.health().error is None

    consuming(test, **options)


def test_a_partition_in_trouble() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        data = FetchResponse.PartitionData(0, ErrorCode.KAFKA_STORAGE_ERROR)
        topic_id = consumer._started().router.metadata.topic_id("t")
        response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", topic_id, [data])])
        broker.responders[ApiKey.FETCH] = lambda request: response
        consumer.seek_to_beginning()
        while "KAFKA_STORAGE_ERROR: fetch from t-0" not in str(consumer.health().error):
            await asyncio.sleep(0)

    consuming(test, "t")


@pytest.mark.parametrize(("side", "is_raised"), [("user", True), ("io", True), ("io", False)])
def test_a_partition_that_an_error_has_stopped_waits_for_the_application(side: str, is_raised: bool) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert len((await consumer.getmany(10_000))[T0]) == 3
        core = consumer._started()
        await becomes(consumer, WaitsFor.RECORDS)
        fetch = core.planner.current(T0)
        assert fetch is not None
        if side == "user":
            core.assignment[T0].halt(NoOffset("stopped"))
        else:
            core.planner.halt_with(fetch, NoOffset("stopped"), 0)
        health = consumer.health()
        assert health.partitions == {T0: WaitsFor.APPLICATION}
        assert health.stopped.keys() == {T0}
        assert isinstance(health.stopped[T0], NoOffset)
        assert health.error is health.stopped[T0]
        if side == "io" and is_raised:
            with pytest.raises(NoOffset):
                await consumer.getmany(10_000)
        assert consumer.health().stopped.keys() == {T0}
        consumer.resume(T0)
        assert consumer.health().stopped == {}
        broker.fill("t", b"d")
        assert len((await consumer.getmany(10_000))[T0]) == 1

    consuming(test, "t")


def test_a_blocked_loop_shows() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await becomes(consumer, WaitsFor.APPLICATION)
        while consumer.health().loop_lag_ms < 200:
            await asyncio.sleep(0)
            end_ms = monotonic_ms() + 400
            while monotonic_ms() < end_ms:  # programs must not do this; a heartbeat is due after a quarter of it
                pass

    consuming(test, "t", heartbeat_interval_ms=100, **GROUP)


def test_after_the_end() -> None:
    with pytest.raises(Closed):
        Consumer(str(BROKER), "t").health()
