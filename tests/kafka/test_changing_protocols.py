"""Consumers of a group change from the classic protocol to KIP-848 and back, one at a time, under load.

Method: keep a producer writing, and count each received record; none may be missing. No record may be repeated before
the last KIP-848 member leaves. Then the group becomes a classic group, and its epoch becomes the generation; a member
that has not reached that epoch rejoins without committing, and its last records may be repeated. The next member is
replaced once the group is stable: one that leaves while it joins a new generation cannot commit in its former one, as
with Kafka's own client. Both brokers ask for frequent heartbeats, which carry the assignments of KIP-848 members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire import Admin, NewTopic, Producer
from kafkawire.testing import Broker, BrokerKeywords
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.members import KINDS, PARTITIONS, Member, Seen
from tests.kafka.servers import BROKER_OPTIONS, Server

TIMEOUT_SECONDS = 100

#: Longer than the timeouts below plus the startup of a node.
pytestmark = pytest.mark.timeout(300)

HEARTBEAT_MS = 200


@pytest.fixture(scope="module")
def quick_kafka() -> Iterator[ApacheKafka]:
    """A node whose groups react quickly."""
    settings = dict.fromkeys(
        ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"), str(HEARTBEAT_MS)
    )
    with ApacheKafka(settings={**settings, "group.consumer.assignment.interval.ms": "0"}) as node:
        yield node


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    """A reference broker whose groups react quickly."""
    options: BrokerKeywords = {**BROKER_OPTIONS, "group_consumer_heartbeat_interval_ms": HEARTBEAT_MS}
    with Broker(**options) as node:
        yield node


@pytest.mark.parametrize("name", ["quick_kafka", "quick_broker"])
@pytest.mark.parametrize("kind", ["range", "cooperative"])
def test_a_rolling_change_loses_nothing(request: pytest.FixtureRequest, name: str, kind: str) -> None:
    server: Server = request.getfixturevalue(name)

    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await roll(server.bootstrap, kind)

    asyncio.run(run())


async def roll(bootstrap: str, kind: str) -> None:
    topic = f"changing-protocols-{kind}"
    await topics.create(bootstrap, NewTopic(topic, PARTITIONS))
    seen, ended = Seen(), asyncio.Event()
    classic: dict[str, Any] = {**KINDS[kind], "heartbeat_interval_ms": HEARTBEAT_MS}
    members = [Member(bootstrap, topic, seen, classic) for _ in range(3)]
    async with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        producing = asyncio.create_task(produce(producer, topic, ended))
        producing.add_done_callback(seen.note_end)
        for member in members:
            await member.start()
        await shared(admin, topic, seen, members)
        for options in (KINDS["consumer"], classic):
            for left in (2, 1, 0):
                if options is classic and not left:
                    assert max(seen.times.values()) == 1
                await members.pop(0).stop()
                members.append(Member(bootstrap, topic, seen, options))
                await members[-1].start()
                await shared(admin, topic, seen, members)
        ended.set()
        count = await producing
    while len(seen.times) < count:
        await seen.more()
    for member in members:
        await member.stop()
    assert len(seen.times) == count
    assert max(seen.times.values()) <= 2


async def produce(producer: Producer, topic: str, ended: asyncio.Event) -> int:
    count = 0
    while not ended.is_set():
        await asyncio.gather(*(producer.send(topic, b"x", partition=number) for number in range(PARTITIONS)))
        count += PARTITIONS
    return count


async def shared(admin: Admin, group: str, seen: Seen, members: list[Member]) -> None:
    """Wait until these members own all partitions, each of them its share, and the group is stable."""
    while (
        sorted(len(each.consumer.assignment) for each in members) != [PARTITIONS // len(members)] * len(members)
        or (await admin.describe_groups(group))[group].state != "Stable"
    ):
        await seen.more()
