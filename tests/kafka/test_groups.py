"""Members of a group join, share partitions, commit and leave on Apache Kafka, with each protocol and assignor.

Method: run the state machines on the real driver, with a simulated reader: it starts at the committed offset and
finishes a record in each partition every 10 ms; no record may be finished twice or skipped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress

import pytest

from kafkawire import NewTopic
from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.groups.assignments import ConsumerAssignments
from kafkawire.sdk.groups.auto_group import AutoGroup
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets, Found
from kafkawire.sdk.groups.consumer_group import ConsumerGroup
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import Event, GroupProtocol, GroupSettings, OnFailure
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.stream import TcpNetwork
from tests.kafka import topics
from tests.kafka.servers import Server
from tests.sdk.groups.readers import MemoryReader

PARTITIONS = 6
TIMEOUT_SECONDS = 40

KINDS = ["range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky", "consumer", "auto"]


class CommittedReader(MemoryReader):
    """A reader that starts at the committed offset.

    Args:
        committed: returns the committed offset.
    """

    def __init__(self, committed: CommittedOffsets) -> None:
        super().__init__()
        self._committed = committed
        self.unknown: set[TopicPartition] = set()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        added = set(partitions) - self.positions.keys()
        super().assign(partitions)
        self.unknown = (self.unknown | added) & self.positions.keys()
        if added:
            self._committed.find(added, monotonic_ms() + 30_000, self._found)

    def _found(self, found: Found, now_ms: int) -> None:
        for partition, offset in found.items():
            assert not isinstance(offset, KafkaWireError), offset
            if partition in self.unknown:
                self.unknown.discard(partition)
                self.positions[partition] = 0 if offset is None else offset.offset

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = super().to_commit(partitions)
        return {partition: offset for partition, offset in offsets.items() if partition not in self.unknown}


class Member:
    """A separate client; `handled` is called with each finished record, and `ticked` is set after each read."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, kind: str, handled: list[tuple[int, int]], ticked: asyncio.Event
    ) -> None:
        options = read_options(ClientOptions, bootstrap, {})
        backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, lambda: 0.5)
        router = Router(options, backoff)
        committed = CommittedOffsets(router, backoff, group)
        self.reader = CommittedReader(committed)
        offsets = Offsets(router, backoff, group, self.reader, 500, 10_000)
        settings = GroupSettings(group, session_timeout_ms=6_000, heartbeat_interval_ms=300, api_timeout_ms=10_000)
        self.failures: list[KafkaWireError] = []

        def classic(subscription: Subscription, on_failure: OnFailure) -> GroupProtocol:
            assignments = ConsumerAssignments(["range"] if kind == "auto" else kind.split(","))
            return ClassicGroup(
                router, backoff, settings, assignments, subscription, self.reader, offsets, self._told, on_failure
            )

        def consumer(subscription: Subscription, on_failure: OnFailure) -> GroupProtocol:
            return ConsumerGroup(
                router, backoff, settings, uuid.uuid4().hex, subscription, self.reader, offsets, self._told, on_failure
            )

        subscription = Subscription([topic])
        if kind == "auto":
            self.group: GroupProtocol = AutoGroup(consumer, classic, subscription, self._failed)
        else:
            make = consumer if kind == "consumer" else classic
            self.group = make(subscription, self._failed)
        machines = [self.group, offsets, committed]
        self._driver: Driver = Driver(router, machines, TcpNetwork(), ConnectionSettings())  # type: ignore[type-arg]  # of the router's links and calls
        self._handled = handled
        self._ticked = ticked
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self._driver.start()
        self._driver.run(self.group.start)
        self._read()

    async def stop(self) -> None:
        def stop(promise: Promise[None], now_ms: int) -> None:
            self.group.stop(now_ms + 5_000, promise, now_ms)

        await self._driver.ask(stop)
        assert self._timer is not None
        self._timer.cancel()
        await self._driver.end(Closed("the member has left"))

    @property
    def reads(self) -> frozenset[TopicPartition]:
        return self.reader.handed_out - self.reader.unknown

    def _read(self) -> None:
        for partition in self.reads:
            self._handled.append((partition.partition, self.reader.positions[partition]))
            self.reader.positions[partition] += 1
        self._ticked.set()
        self._timer = asyncio.get_running_loop().call_later(0.01, self._read)

    def _told(self, event: Event, now_ms: int) -> None:
        """Delay the listener by 50 ms."""

        def acknowledge() -> None:
            with suppress(Closed):
                self._driver.run(lambda now_ms: self.group.acknowledge(event, now_ms))

        asyncio.get_running_loop().call_later(0.05, acknowledge)

    def _failed(self, error: KafkaWireError, now_ms: int) -> None:
        self.failures.append(error)


async def shared(ticked: asyncio.Event, *members: Member) -> None:
    """Wait until these members read all partitions, each of them its share."""

    def is_shared() -> bool:
        parts = [member.reads for member in members]
        whole = sum(map(len, parts)) == PARTITIONS == len(frozenset().union(*parts))
        return whole and all(len(part) == PARTITIONS // len(members) for part in parts)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not is_shared():
            ticked.clear()
            await ticked.wait()


async def _join_and_leave(bootstrap: str, kind: str) -> None:
    topic = group = f"groups-{kind.replace(',', '-')}"
    await topics.create(bootstrap, NewTopic(topic, PARTITIONS))
    handled: list[tuple[int, int]] = []
    ticked = asyncio.Event()
    first, second, third = (Member(bootstrap, group, topic, kind, handled, ticked) for _ in range(3))
    await first.start()
    await shared(ticked, first)
    await second.start()
    await shared(ticked, first, second)
    await third.start()
    await shared(ticked, first, second, third)
    await first.stop()
    await shared(ticked, second, third)
    await third.stop()
    await shared(ticked, second)
    await second.stop()
    assert first.failures == second.failures == third.failures == []
    assert len(handled) == len(set(handled)) > 100
    for number in range(PARTITIONS):
        offsets = sorted(offset for partition, offset in handled if partition == number)
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("kind", KINDS)
def test_members_join_and_leave_without_a_duplicate_or_a_gap(either: Server, kind: str) -> None:
    asyncio.run(_join_and_leave(either.bootstrap, kind))
