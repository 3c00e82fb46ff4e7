"""Consumers join, share partitions, commit and leave on Apache Kafka, with each protocol, with or without a thread.

Method: keep a producer writing, and count each received record; none may be missing or repeated as long as members
merely join and leave.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire import NewTopic, Producer
from tests.kafka import topics
from tests.kafka.members import KINDS, PARTITIONS, Member, Seen
from tests.kafka.servers import Server

TIMEOUT_SECONDS = 60


async def _shared(seen: Seen, *members: Member) -> None:
    """Wait until these members own all partitions, each of them its share."""
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
