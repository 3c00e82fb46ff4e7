"""An in-process cluster: several brokers on real sockets and one event loop, with an embedded registry.

Each broker has its own in-memory disk and session; it can be stopped, killed, and started again on its disk. The
session of a killed broker ends immediately, as if it had timed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry, EmbeddedSession
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["PATIENCE_SECONDS", "BrokerCluster", "until"]

#: No test waits this long unless something hangs.
PATIENCE_SECONDS = 30

_PAUSE_SECONDS = 0.002

_OPTIONS = {
    "zookeeper_connect": "embedded",
    "default_replication_factor": 3,
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 2,
    "transaction_state_log_num_partitions": 3,
    "controlled_shutdown_retry_backoff_ms": 50,
    "replica_fetch_backoff_ms": 50,
    "log_cleaner_enable": False,
}


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"timed out before {what}") from None


class BrokerCluster:
    """Brokers 1 to `size`, which are up inside an `async with` block.

    Args:
        size: the number of brokers.
        options: the options of all brokers.

    Attributes:
        registry: the registry of the brokers.
        brokers: the brokers that are up, keyed by id.
        disks: the disks of the brokers, keyed by id.
    """

    def __init__(self, size: int = 3, **options: object) -> None:
        self.registry = EmbeddedRegistry(now_ms)
        self.disks = {broker_id: MemoryDisk() for broker_id in range(1, size + 1)}
        self.brokers: dict[int, Broker] = {}
        self._sessions: dict[int, EmbeddedSession] = {}
        self._options = {**_OPTIONS, **options}

    async def start(self, broker_id: int) -> Broker:
        """Start a broker, and wait until the controller has announced it."""

        def open_registry(post: Post) -> EmbeddedSession:
            self._sessions[broker_id] = session = self.registry.session(post, name=f"broker {broker_id}")
            return session

        own = {"broker_id": broker_id, "broker_rack": f"rack{broker_id}"}
        broker = Broker(self.disks[broker_id], registry=open_registry, **{**own, **self._options})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def stop(self, broker_id: int) -> None:
        """Stop a broker after it has handed over leadership of its partitions."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.brokers.pop(broker_id).stop()

    async def kill(self, broker_id: int) -> None:
        """End a broker as in a crash, along with its session."""
        session_id = self._sessions[broker_id].session_id
        await self.brokers.pop(broker_id).kill()
        self.registry.expire(session_id)

    def expire(self, broker_id: int) -> None:
        """End the session of a broker that keeps running."""
        self.registry.expire(self._sessions[broker_id].session_id)

    def has_node(self, path: str) -> bool:
        """Return whether the registry has a node."""
        return any(node.path == path for node in self.registry.tree.nodes())

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers that are up."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def controller_id(self) -> int:
        """The id of the controller, on which all running brokers must agree."""
        (controller_id,) = {broker.core.metadata.image.controller_id for broker in self.brokers.values()}
        return controller_id

    def epoch_of(self, broker_id: int) -> int:
        """Return the epoch of the latest registration that a broker knows."""
        node = self.brokers[broker_id].node
        assert node is not None
        assert node.membership is not None
        return node.membership.epoch

    def leader_of(self, topic: str, number: int = 0) -> int:
        """Return the leader of a partition according to the first broker."""
        image = next(iter(self.brokers.values())).core.metadata.image
        known = image.topics.get(topic)
        return -1 if known is None else known.partition(number).leader

    async def led(self, topic: str, numbers: Iterable[int], isr: int) -> None:
        """Wait until all brokers know a leader and the given number of in-sync replicas for each of the partitions."""

        def holds() -> bool:
            for broker in self.brokers.values():
                known = broker.core.metadata.image.topics.get(topic)
                for number in numbers:
                    partition = None if known is None else known.partition(number)
                    if partition is None or partition.leader not in self.brokers or len(partition.isr) != isr:
                        return False
            return True

        await until(holds, f"{topic} has {isr} replicas in sync")

    def content(self, broker_id: int, partition: Partition) -> bytes:
        """Return all bytes of a partition's log on a broker."""
        log = self.brokers[broker_id].core.directory.log(*partition)
        assert log is not None, f"broker {broker_id} has no log for {partition}"
        records = log.read(log.log_start_offset, 2**30, at_least_one=True, up_to=log.next_offset).records
        return b"" if records is None else bytes(records.read())

    async def alike(self, topic: str, numbers: Iterable[int]) -> None:
        """Wait until the logs of partitions are identical on all running brokers."""
        for number in numbers:

            def same(number: int = number) -> bool:
                return len({self.content(broker_id, (topic, number)) for broker_id in self.brokers}) == 1

            await until(same, f"the logs of {topic}-{number} are the same")

    async def __aenter__(self) -> Self:
        try:
            for broker_id in self.disks:
                await self.start(broker_id)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        for broker in self.brokers.values():
            await broker.kill()
