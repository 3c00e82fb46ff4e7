"""Members of a group, and every record that they receive."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from kafkawire import Consumer, TopicPartition

__all__ = ["KINDS", "PARTITIONS", "Member", "Seen"]

PARTITIONS = 6

KINDS: dict[str, dict[str, Any]] = {
    "range": {"assignors": "range"},
    "cooperative": {"assignors": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
    "auto": {"group_protocol": "auto"},
    "thread": {"assignors": "cooperative-sticky", "io": "thread"},
}


class Seen:
    """The received records, keyed by partition and offset."""

    def __init__(self) -> None:
        self.times: Counter[tuple[int, int]] = Counter()
        self._has_more = asyncio.Event()
        self._end: BaseException | None = None

    def note(self, partition: int, offset: int) -> None:
        self.times[partition, offset] += 1
        self._has_more.set()

    def note_end(self, task: asyncio.Task[Any]) -> None:
        """Record that a reading or writing task has ended."""
        if not task.cancelled():
            self._end = self._end or task.exception()
            self._has_more.set()

    async def more(self) -> None:
        """Wait for the next record; fail if a task has ended with an error."""
        self._has_more.clear()
        if self._end is None:
            await self._has_more.wait()
        if self._end is not None:
            raise AssertionError("a member or the producer has stopped") from self._end


class Member:
    """A consumer and its reading task; the consumer commits automatically on rebalances and when it leaves."""

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
        await self.consumer.commit()  # this includes records that the application has received but not yet finished

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("lost")

    async def _read(self) -> None:
        async for record in self.consumer:
            self._seen.note(record.partition, record.offset)
