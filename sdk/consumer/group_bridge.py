"""Joins the consumer with the membership that still awaits its own network calls.

It goes when the group protocols are machines of the same driver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.offsets import commit_offsets, fetch_committed
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.consumer.assignment import Assignment
from kafkawire.sdk.consumer.membership import Membership, RebalanceListener
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.wire import Network

__all__ = ["GroupBridge"]

logger = logging.getLogger("kafkawire.consumer")

Result = TypeVar("Result")


class GroupBridge:
    """A consumer's group, on an event loop.

    Args:
        options: of the consumer.
        network: reaches the brokers; None for TCP.
        listener: called when the assignment changes; None for none.
        assignment: of the consumer.
        fail: makes every read raise an error.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        network: Network | None,
        listener: RebalanceListener | None,
        assignment: Assignment,
        fail: Callable[[Exception], None],
    ) -> None:
        assert options.group_id is not None
        self._options = options
        self._group_id = options.group_id
        self._cluster = Cluster(options, network)
        self._listener = listener
        self._assignment = assignment
        self._fail = fail
        self._membership: Membership | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, topics: Collection[str]) -> None:
        """Commit regularly, and join the group if there are topics; later calls change the subscription."""
        if self._membership is not None:
            self._membership.subscribe(topics)
        elif topics:
            self._membership = Membership(
                self._options,
                self._cluster,
                self._assignment,
                topics,
                self._listener,
                self._fail,
                self._idle_since_ms,
            )
            self._membership.start()
        if self._options.enable_auto_commit and not self._tasks:
            self._start(self._commit_regularly())

    def reading(self) -> None:
        """Take note that the application reads: a member that left because it did not joins again."""
        if self._membership is not None:
            self._membership.reading()

    def committed(
        self, partitions: Collection[TopicPartition], promise: Promise[Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> None:
        """Look up committed offsets."""
        self._start(_settled(fetch_committed(self._cluster, self._group_id, partitions), promise))

    async def look_up(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed."""
        return await fetch_committed(self._cluster, self._group_id, partitions)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets, as the member if there is one."""
        if self._membership is not None:
            await self._membership.commit(offsets)
        else:
            await commit_offsets(self._cluster, self._group_id, offsets)
            self._assignment.committed(offsets)

    async def leave(self) -> None:
        """Commit what is finished, and leave the group."""
        if self._membership is not None:
            await self._membership.close()
        elif self._options.enable_auto_commit:
            await self.commit(self._assignment.to_commit())

    async def end(self) -> None:
        """Disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()

    def _idle_since_ms(self) -> int | None:
        return self._assignment.last_handed_out_ms

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            try:
                await self.commit(self._assignment.to_commit())
            except KafkaWireError as error:
                logger.warning("offsets of group %s were not committed: %s", self._group_id, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _settled(work: Coroutine[Any, Any, Result], promise: Promise[Result]) -> None:
    try:
        promise.keep(await work)
    except KafkaWireError as error:
        promise.fail(error)
