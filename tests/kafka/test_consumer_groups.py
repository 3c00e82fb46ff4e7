"""Consumers of a group join, share, commit and leave beside Apache Kafka, by each protocol, on either side of a thread.

Method: a producer writes all the time; each record that is handed out is counted, and none may be missing or come twice
while members only join and leave.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kafkawire import Consumer, NewTopic, Producer, TopicPartition
from tests.kafka import topics
from tests.kafka.servers import Server

PARTITIONS = 6
TIMEOUT_SECONDS = 60

KINDS: dict[str, dict[str, Any]] = {
    "range": {"assignors": "range"},
    "cooperative": {"assignors": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
    "auto": {"group_protocol": "auto"},
    "thread": {"assignors": "cooperative-sticky", "io": "thread"},
}


class Seen:
    """What was handed out, by partition and offset."""

    def __init__(self) -> None:
        self.times: Counter[tuple[int, int]] = Counter()
        self._has_more = asyncio.Event()
        self._end: BaseException | None = None

    def note(self, partition: int, offset: int) -> None:
        self.times[partition, offset] += 1
        self._has_more.set()

    def note_end(self, task: asyncio.Task[Any]) -> None:
        """Note that a task has ended that reads or writes."""
        if not task.cancelled():
            self._end = self._end or task.exception()
            self._has_more.set()

    async def more(self) -> None:
        """Wait for the next record; fail if a task has ended by an error."""
        self._has_more.clear()
        if self._end is None:
            await self._has_more.wait()
        if self._end is not None:
            raise AssertionError("a member or the producer has stopped") from self._end


class Member:
    """A consumer, and the task that reads; it commits by itself on rebalances and when it leaves."""

    def __init__(self, bootstrap: str, topic: str, seen: Seen, options: dict[str, Any]) -> None:
        self.consumer = Consumer(
            bootstrap,
            topic,
            listener=self,
            group_id=topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            **options,
        )
        self._seen = seen
        self._reading: asyncio.Task[None] | None = None
        self.told: list[str] = []

    async def start(self) -> None:
        await self.consumer.start()
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._seen.note_end)

    async def stop(self) -> None:
        assert self._reading is not None
        await self.consumer.close()
        await self._reading

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("assigned")

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("revoked")
        await self.consumer.commit()  # also what the application was handed and has not said to be finished

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("lost")

    async def _read(self) -> None:
        async for record in self.consumer:
            self._seen.note(record.partition, record.offset)


async def _shared(seen: Seen, *members: Member) -> None:
    """Wait until these members have all partitions, and each of them its share."""
    while not all(len(each.consumer.assignment) == PARTITIONS // len(members) for each in members):
        await seen.more()


async def _produce(producer: Producer, topic: str, ended: asyncio.Event) -> int:
    count = 0
    while not ended.is_set():
        await asyncio.gather(*(producer.send(topic, b"x", partition=number) for number in range(PARTITIONS)))
        count += PARTITIONS
    return count


async def _join_and_leave(bootstrap: str, kind: str) -> None:
    topic = f"consumer-groups-{kind}"
    await topics.create(bootstrap, NewTopic(topic, PARTITIONS))
    seen = Seen()
    ended = asyncio.Event()
    first, second, third = (Member(bootstrap, topic, seen, KINDS[kind]) for _ in range(3))
    async with Producer(bootstrap) as producer:
        producing = asyncio.create_task(_produce(producer, topic, ended))
        producing.add_done_callback(seen.note_end)
        await first.start()
        await _shared(seen, first)
        await second.start()
        await _shared(seen, first, second)
        await third.start()
        await _shared(seen, first, second, third)
        await first.stop()
        await _shared(seen, second, third)
        await third.stop()
        await _shared(seen, second)
        ended.set()
        count = await producing
    while len(seen.times) < count:
        await seen.more()
    await second.stop()
    assert len(seen.times) == count
    assert [place for place, times in seen.times.items() if times > 1] == []
    assert {event for member in (first, second, third) for event in member.told} == {"assigned", "revoked"}


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_join_and_leave_without_a_duplicate_or_a_gap(either: Server, kind: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await _join_and_leave(either.bootstrap, kind)

    asyncio.run(run())
