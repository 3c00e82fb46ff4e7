"""Positions come from the group's commits, or else from the reset policy; a failure is raised by every later read.

Method: the loop with its positions and a scripted broker, without the consumer around it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.fetch_loop import FetchLoop
from kafkawire.sdk.consumer.positions import Positions
from kafkawire.sdk.errors import BrokerError, NoOffset
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Setting:
    """A loop and what it works on: two partitions with three records each, a commit for the first."""

    def __init__(self, **options: object) -> None:
        self.broker = StoringBroker({"t": 2})
        for number in range(2):
            self.broker.fill("t", b"a", b"b", b"c", partition=number)
        self.broker.commits["g", "t", 0] = 2
        given = {"group_id": "g", "fetch_max_wait_ms": 5, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, **options}
        read = read_options(ConsumerOptions, str(BROKER), given)
        self.cluster = Cluster(read, self.broker.network)
        self.cluster.topics = {"t"}
        self.positions = Positions()
        self.positions.assign([T0, T1])
        self.loop = FetchLoop(read, self.cluster, self.positions)


def looping(test: Callable[[Setting], Awaitable[None]], **options: object) -> None:
    """Run a test with a loop that is not started."""

    async def run() -> None:
        setting = Setting(**options)
        await test(setting)
        await setting.loop.close()
        await setting.cluster.close()

    asyncio.run(run())


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 3)])
def test_positions(policy: str, expected: int) -> None:
    async def test(setting: Setting) -> None:
        await setting.loop.look_up_positions()
        assert setting.positions[T0].position == 2
        assert setting.positions[T0].committed == 2
        assert setting.positions[T1].position == expected
        setting.positions[T0].look_up("earliest")
        await setting.loop.look_up_positions()
        assert setting.positions[T0].position == 0

    looping(test, auto_offset_reset=policy)


def test_no_policy() -> None:
    async def test(setting: Setting) -> None:
        with pytest.raises(NoOffset, match="t-1 has no committed offset"):
            await setting.loop.look_up_positions()
        assert setting.positions[T0].position == 2

    looping(test, auto_offset_reset="none")


def test_a_seek_during_the_look_up_wins() -> None:
    async def test(setting: Setting) -> None:
        looking = asyncio.ensure_future(setting.loop.look_up_positions())
        await asyncio.sleep(0)
        setting.positions[T0].seek(1)
        await looking
        assert setting.positions[T0].position == 1

    looping(test, auto_offset_reset="earliest")


def test_batches_and_waiting() -> None:
    async def test(setting: Setting) -> None:
        setting.loop.start()
        setting.loop.start()
        found = [await setting.loop.next() for _ in range(2)]
        assert sorted((each.partition, each.offset, each.next_offset) for each in found if each) == [
            (T0, 2, 3),
            (T1, 0, 3),
        ]
        assert await setting.loop.next(monotonic_ms() + 5) is None

    looping(test, auto_offset_reset="earliest")


def test_a_failure_is_raised_by_every_read() -> None:
    async def test(setting: Setting) -> None:
        waiting = asyncio.ensure_future(setting.loop.next())
        await asyncio.sleep(0)
        setting.loop.fail(RuntimeError("no more"))
        for read in (waiting, setting.loop.next()):
            with pytest.raises(RuntimeError, match="no more"):
                await read

    looping(test)


@pytest.mark.parametrize("error", [BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED), RuntimeError("a defect")])
def test_the_traceback_of_a_failure_does_not_grow(error: Exception) -> None:
    async def test(setting: Setting) -> None:
        setting.loop.fail(error)
        lengths = set()
        for _ in range(1_000):
            with pytest.raises(type(error)) as caught:
                await setting.loop.next()
            lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        assert len(lengths) == 1

    looping(test)


def test_a_defect_is_raised_by_the_read() -> None:
    async def test(setting: Setting) -> None:
        def fail(now_ms: int) -> bool:
            raise ZeroDivisionError("a defect")

        setting.cluster.metadata.is_stale = fail  # type: ignore[method-assign]  # stands for any defect
        setting.loop.start()
        with pytest.raises(ZeroDivisionError, match="a defect"):
            await setting.loop.next()

    looping(test, auto_offset_reset="earliest")
