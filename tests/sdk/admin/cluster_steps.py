"""Operations of an admin on items that are spread over all brokers of a cluster of three, on any broker.

`prepare` fills the cluster; `take` calls the operations and checks their results.
"""

from __future__ import annotations

import asyncio

from kafkawire import Admin, NewTopic, OffsetTimestamp, Producer, TopicPartition

__all__ = ["GROUPS", "PARTITIONS", "prepare", "take"]

PARTITIONS = [TopicPartition("t", number) for number in range(6)]
GROUPS = [f"group-{number}" for number in range(12)]
IDS = [f"id-{number}" for number in range(6)]


async def prepare(admin: Admin, bootstrap: str) -> None:
    """Create a topic with three replicas, store two records in each partition, and commit an offset for each group."""
    await admin.create_topics(NewTopic("t", len(PARTITIONS), 3))
    async with Producer(bootstrap) as producer:
        for partition in PARTITIONS:
            for value in (b"a", b"b"):
                producer.send("t", value, partition=partition.partition)
        await producer.flush()
    for results in await asyncio.gather(*(admin.alter_group_offsets(group, {PARTITIONS[0]: 1}) for group in GROUPS)):
        assert results.all() == {PARTITIONS[0]: None}


async def take(admin: Admin) -> None:
    """Call every operation that is split by leader or coordinator."""
    topic = (await admin.describe_topics("t"))["t"]
    assert {partition.leader for partition in topic.partitions.values()} == {1, 2, 3}
    ends = await admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetTimestamp.LATEST))
    assert {partition: end.offset for partition, end in ends.items()} == dict.fromkeys(PARTITIONS, 2)
    assert (await admin.delete_records(dict.fromkeys(PARTITIONS, 1))).all() == dict.fromkeys(PARTITIONS, 1)
    assert (await admin.describe_producers(PARTITIONS)).all().keys() == set(PARTITIONS)
    listed = (await admin.list_group_offsets_of(GROUPS)).all()
    offsets = {group: [place.offset for place in found.values()] for group, found in listed.items()}
    assert offsets == {group: [1] for group in GROUPS}
    described = await admin.describe_groups(GROUPS)
    assert len({group.coordinator_id for group in described.values()}) > 1
    assert [group.group_id for group in await admin.list_groups(states=["Empty"])] == sorted(GROUPS)
    assert (await admin.lag(GROUPS[0])).partitions[PARTITIONS[0]].lag == 1
    assert (await admin.fence_producers(IDS)).all().keys() == set(IDS)
    transactions = await admin.describe_transactions(IDS)
    assert len({each.coordinator_id for each in transactions.all().values()}) > 1
    assert sorted(each.transactional_id for each in await admin.list_transactions()) == IDS
    assert await admin.find_hanging_transactions(silent_for_ms=0) == []
    assert (await admin.delete_groups(GROUPS)).all().keys() == set(GROUPS)
