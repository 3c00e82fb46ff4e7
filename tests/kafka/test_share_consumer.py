"""Share consumers process every record at least once on Apache Kafka, whatever happens to them and to their locks.

Method: use a node with short locks and sessions; each test has its own topic and share group, which starts at the first
record. Each record that a consumer has accepted is counted.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest

from kafkawire import (
    Admin,
    ConfigResourceType,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareDelivery,
    ShareDeliveryState,
    TopicPartition,
)
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.cleaning import until_async

TIMEOUT_SECONDS = 60
LOCK_MS = 5_000

_SETTINGS = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.assignment.interval.ms": "0",
}

_EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}

_numbers = count()


@pytest.fixture(scope="module")
def node() -> Iterator[ApacheKafka]:
    """A node whose share groups react quickly."""
    with ApacheKafka(settings=_SETTINGS) as made:
        yield made


class Scene:
    """A topic and a share group on a node.

    Attributes:
        bootstrap: the node's address.
        topic: the topic.
        group: the group.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        number = next(_numbers)
        self.topic, self.group = f"shared-{number}", f"share-group-{number}"

    async def prepare(self, partitions: int = 1, **configs: str) -> None:
        """Create the topic, and configure the group."""
        await topics.create(self.bootstrap, NewTopic(self.topic, partitions))
        given = {"share.auto.offset.reset": "earliest"} | {
            key.replace("_", "."): value for key, value in configs.items()
        }
        async with Admin(self.bootstrap) as admin:
            await admin.incremental_alter_configs(ConfigResourceType.GROUP, self.group, given)

    async def produce(self, first: int, last: int, partition: int = 0) -> None:
        """Write records whose values are these numbers, one batch per ten records."""
        async with Producer(self.bootstrap, linger_ms=5) as producer:
            for start in range(first, last, 10):
                numbers = range(start, min(start + 10, last))
                await asyncio.gather(
                    *(producer.send(self.topic, b"%d" % each, partition=partition) for each in numbers)
                )

    def consumer(self, **options: Any) -> ShareConsumer[bytes, bytes]:
        """Return a member of the group that has not started."""
        return ShareConsumer(self.bootstrap, self.topic, group_id=self.group, **options)

    @asynccontextmanager
    async def consuming(self, **options: Any) -> AsyncIterator[ShareConsumer[bytes, bytes]]:
        """Run a member of the group."""
        async with self.consumer(**options) as consumer:
            yield consumer

    async def await_members(self, number: int) -> None:
        """Wait until the group has this many members."""
        async with Admin(self.bootstrap) as admin:

            async def has_them() -> bool:
                found = (await admin.describe_share_groups(self.group)).values.get(self.group)
                return found is not None and len(found.members) == number

            await until_async(has_them, f"{self.group} does not have {number} members")

    async def lag(self) -> int | None:
        """Return the group's lag in the first partition."""
        async with Admin(self.bootstrap) as admin:
            partition = TopicPartition(self.topic, 0)
            found = (await admin.list_share_group_offsets(self.group, partition)).values[partition]
            return None if found is None else found.lag


def play(node: ApacheKafka, test: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a test within the time limit."""

    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test(Scene(node.bootstrap))

    asyncio.run(run())


async def _is(so: bool) -> bool:
    return so


def value_of(delivery: ShareDelivery[bytes, bytes]) -> int:
    assert delivery.record.value is not None
    return int(delivery.record.value)


async def take(consumer: ShareConsumer[bytes, bytes], number: int) -> list[ShareDelivery[bytes, bytes]]:
    """Return the next deliveries."""
    found: list[ShareDelivery[bytes, bytes]] = []
    async for delivery in consumer:
        found.append(delivery)
        if len(found) == number:
            break
    return found


async def nothing(consumer: ShareConsumer[bytes, bytes]) -> None:
    """Check that there is nothing to deliver at present."""
    found = await consumer.getmany(1_500)
    assert found == {}


def test_each_record_once_without_acknowledgements_by_the_application(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare(partitions=2)
        await scene.produce(0, 50)
        await scene.produce(50, 100, partition=1)
        async with scene.consuming() as consumer:
            found = await take(consumer, 60)
            while len(found) < 100:
                found += [each for several in (await consumer.getmany(5_000)).values() for each in several]
        assert sorted(map(value_of, found)) == list(range(100))
        assert {each.delivery_count for each in found} == {1}
        assert await scene.lag() == 0
        async with scene.consuming() as consumer:
            await nothing(consumer)

    play(node, test)


def test_accept_release_reject_and_renew(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare()
        await scene.produce(0, 10)
        outcomes: list[Any] = []
        async with scene.consuming(**_EXPLICIT, on_acknowledged=outcomes.append) as consumer:
            found = await take(consumer, 10)
            assert consumer.acquisition_lock_timeout_ms == LOCK_MS
            for each in found:
                match value_of(each) % 5:
                    case 0:
                        each.release()
                    case 1:
                        each.reject()
                    case 2:
                        await each.renew()
                        assert LOCK_MS - 1_000 < each.lock_left_ms <= LOCK_MS
                        each.accept()
                    case _:
                        each.accept()
            (outcome,) = await consumer.commit()
            assert (outcome.partition, outcome.error) == (TopicPartition(scene.topic, 0), None)
            assert {each.state for each in found} == {ShareDeliveryState.CONFIRMED}
            again = await take(consumer, 2)
            assert [(value_of(each), each.delivery_count) for each in again] == [(0, 2), (5, 2)]
            for each in again:
                each.accept()
            assert await consumer.commit() != []
            await nothing(consumer)
        assert Counter(offset for each in outcomes for offset in each.offsets) == Counter([*range(10), 0, 5])
        assert await scene.lag() == 0

    play(node, test)


def test_a_record_is_delivered_a_limited_number_of_times(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare()
        await scene.produce(0, 2)
        counts: Counter[int] = Counter()
        async with scene.consuming(**_EXPLICIT) as consumer:
            while counts[0] < 5:
                for each in await take(consumer, 1):
                    counts[value_of(each)] += 1
                    assert each.delivery_count == counts[value_of(each)]
                    if value_of(each):
                        each.accept()
                    else:
                        each.release()
            await consumer.commit()
            await nothing(consumer)
        assert counts == {0: 5, 1: 1}

    play(node, test)


def test_a_lock_that_runs_out(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare(share_record_lock_duration_ms="1000")
        await scene.produce(0, 3)
        async with scene.consuming(**_EXPLICIT) as slow, scene.consuming(**_EXPLICIT) as quick:
            late = await take(slow, 3)
            late[0].accept()
            await slow.commit()
            await late[2].renew()
            found = await take(quick, 1)
            assert [(value_of(each), each.delivery_count) for each in found] == [(1, 2)]
            found[0].accept()
            await quick.commit()
            assert late[1].state is ShareDeliveryState.LOST
            late[1].accept()
            late[2].accept()
            outcomes = await slow.commit()
            assert all(each.error is not None for each in outcomes if 1 in each.offsets)

    play(node, test)


@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_members_share_a_partition(node: ApacheKafka, mode: str) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare()
        counts: Counter[int] = Counter()
        by_member: Counter[int] = Counter()

        async def work(number: int) -> None:
            async with scene.consuming(**_EXPLICIT, share_acquire_mode=mode, max_poll_records=20) as consumer:
                async for delivery in consumer:
                    async with delivery:
                        counts[value_of(delivery)] += 1
                        by_member[number] += 1
                        await asyncio.sleep(0)

        workers = [asyncio.create_task(work(number)) for number in range(3)]
        await scene.await_members(3)
        await scene.produce(0, 1_000)
        await until_async(lambda: _is(len(counts) >= 1_000), "records are missing")
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert set(counts) == set(range(1_000))
        assert set(counts.values()) == {1}
        assert len(by_member) == 3, "each member has processed some of the records"

    play(node, test)


_TAKES = """
import asyncio, sys
from kafkawire import ShareConsumer

async def main():
    async with ShareConsumer(sys.argv[1], sys.argv[2], group_id=sys.argv[3]) as consumer:
        while not (found := await consumer.getmany(1_000)):
            pass
        print(sum(map(len, found.values())), flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_member_that_is_killed(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare(share_record_lock_duration_ms="60000")
        await scene.produce(0, 10)
        command = [sys.executable, "-c", _TAKES, scene.bootstrap, scene.topic, scene.group]
        victim = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert victim.stdout is not None
        assert int(await victim.stdout.readline()) == 10
        async with scene.consuming() as consumer:
            await nothing(consumer)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
            found = await take(consumer, 10)
        assert [(value_of(each), each.delivery_count) for each in found] == [(number, 2) for number in range(10)]

    play(node, test)


def test_a_broker_that_restarts() -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare()
        await scene.produce(0, 20)
        accepted: Counter[int] = Counter()
        async with scene.consuming(**_EXPLICIT, max_poll_records=10) as consumer:
            first = await take(consumer, 10)
            for each in first[:5]:
                each.accept()
                accepted[value_of(each)] += 1
            await consumer.commit()
            await asyncio.to_thread(node.kill)
            await asyncio.to_thread(node.start)
            while len(accepted) < 20:
                for each in await take(consumer, 1):
                    each.accept()
                    accepted[value_of(each)] += 1
            outcomes = await consumer.commit()
            assert all(each.error is None for each in outcomes)
            assert {each.state for each in first[5:]} == {ShareDeliveryState.LOST}
        assert all(accepted[number] == 1 for number in range(5)), "they were accepted before the restart"

    with ApacheKafka(settings=_SETTINGS) as node:
        play(node, test)


def test_transactions(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare(share_isolation_level="read_committed")
        async with Producer(scene.bootstrap, transactional_id=scene.group) as producer:
            async with producer.transaction():
                await producer.send(scene.topic, b"0", partition=0)
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(scene.topic, b"1", partition=0)
                    raise ZeroDivisionError
            async with scene.consuming() as consumer:
                assert [value_of(each) for each in await take(consumer, 1)] == [0]
                async with producer.transaction():
                    await producer.send(scene.topic, b"2", partition=0)
                    await nothing(consumer)
                assert [value_of(each) for each in await take(consumer, 1)] == [2]
                await consumer.commit()
                await nothing(consumer)
        assert await scene.lag() == 0

    play(node, test)


def test_a_changed_subscription(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        other = Scene(scene.bootstrap)
        await scene.prepare()
        await other.prepare()
        await scene.produce(0, 5)
        await other.produce(5, 10)
        async with scene.consuming() as consumer:
            assert {each.record.topic for each in await take(consumer, 5)} == {scene.topic}
            await consumer.subscribe(other.topic)
            assert {each.record.topic for each in await take(consumer, 5)} == {other.topic}

    play(node, test)


def test_a_group_with_a_member_of_java(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare()
        given = ["--bootstrap-server", scene.bootstrap, "--topic", scene.topic, "--group", scene.group]
        console = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        javas = asyncio.create_task(asyncio.to_thread(run_tool, console, *given, "--timeout-ms", "8000"))
        ours: list[int] = []

        async def work() -> None:
            async with scene.consuming(max_poll_records=10) as consumer:
                async for delivery in consumer:
                    ours.append(value_of(delivery))
                    await asyncio.sleep(0)

        await scene.await_members(1)
        worker = asyncio.create_task(work())
        await scene.await_members(2)
        for start in range(0, 500, 50):
            await scene.produce(start, start + 50)
        ended = await javas
        theirs = [int(line) for line in ended.stdout.splitlines() if line.isdigit()]
        await until_async(lambda: _is(len(ours) + len(theirs) >= 500), "records are missing")
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert sorted(ours + theirs) == list(range(500))
        assert ours, "this consumer has processed some of the records"
        assert theirs, "Java's consumer has processed some of the records"

    play(node, test)


def test_administration(node: ApacheKafka) -> None:
    async def test(scene: Scene) -> None:
        await scene.prepare(partitions=2)
        await scene.produce(0, 10)
        partition = TopicPartition(scene.topic, 0)
        async with Admin(scene.bootstrap) as admin:
            async with scene.consuming(client_id="worker") as consumer:
                await take(consumer, 10)
                group = (await admin.describe_share_groups(scene.group, include_authorized_operations=True)).values[
                    scene.group
                ]
                (member,) = group.members
                assert (group.state, group.assignor, member.client_id) == ("Stable", "simple", "worker")
                assert set(member.assignment) == {partition, TopicPartition(scene.topic, 1)}
                assert group.authorized_operations
                refused = await admin.delete_share_groups(scene.group)
                assert scene.group in refused.errors
            assert (await admin.alter_share_group_offsets(scene.group, {partition: 4})).errors == {}
            async with scene.consuming() as consumer:
                assert [value_of(each) for each in await take(consumer, 6)] == [4, 5, 6, 7, 8, 9]
            assert (await admin.delete_share_group_offsets(scene.group, scene.topic)).errors == {}
            assert (await admin.delete_share_groups(scene.group)).errors == {}
            assert scene.group in (await admin.describe_share_groups(scene.group)).errors

    play(node, test)
