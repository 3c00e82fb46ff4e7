"""Three of our brokers and three of Apache Kafka 3.9.1, each cluster with its own ZooKeeper and the same settings.

Both clusters use the ids 1, 2 and 3, and stop, kill and start a broker in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Protocol

from kafkawire import sync
from kafkawire.testing import Cluster
from tests.kafka.cluster import NODES
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka

__all__ = ["ClusterOfThree", "TheirCluster", "our_cluster", "their_cluster"]

#: Settings that the tests rely on, or whose defaults differ between the two kinds of broker.
_SETTINGS = {
    "default.replication.factor": "3",
    "num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    # Kafka's default, which is longer than a loaded machine's pauses.
    "zookeeper.session.timeout.ms": "18000",
    "zookeeper.connection.timeout.ms": "120000",
    # Leaders move only when a test moves them.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class ClusterOfThree(Protocol):
    """A cluster of either kind."""

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        ...

    @property
    def addresses(self) -> Mapping[int, str]:
        """The address of each broker."""
        ...

    def kill(self, member: int) -> None:
        """Kill a broker, to simulate a crash."""

    def stop(self, member: int) -> None:
        """Shut a broker down cleanly."""

    def restart(self, member: int) -> None:
        """Start a broker with its files."""


class TheirCluster:
    """Three brokers of Apache Kafka 3.9.1.

    Args:
        brokers: the brokers, keyed by id.
    """

    def __init__(self, brokers: Mapping[int, ZooKeeperKafka]) -> None:
        self._brokers = brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    @property
    def addresses(self) -> Mapping[int, str]:
        return {broker_id: broker.address for broker_id, broker in self._brokers.items()}

    def kill(self, member: int) -> None:
        self._brokers[member].kill()

    def stop(self, member: int) -> None:
        self._brokers[member].shut_down()

    def restart(self, member: int) -> None:
        self._brokers[member].start()


@contextmanager
def our_cluster(settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run three of our brokers, with these settings in addition to the common ones."""
    with (
        ZooKeeper() as zookeeper,
        Cluster(brokers=len(NODES), zookeeper=zookeeper.address, options=_SETTINGS | dict(settings or {})) as cluster,
    ):
        for address in cluster.addresses.values():
            with sync.Admin(address) as admin:
                while len(admin.describe_cluster().brokers) < len(NODES):
                    pass  # it takes a moment until the brokers know each other
        yield cluster


@contextmanager
def their_cluster(settings: Mapping[str, str] | None = None) -> Iterator[TheirCluster]:
    """Run three brokers of Apache Kafka 3.9.1, with these settings in addition to the common ones."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper())
        given = _SETTINGS | dict(settings or {})
        brokers = {broker_id: ZooKeeperKafka(broker_id, zookeeper.address, given) for broker_id in NODES}
        for broker in brokers.values():
            stack.callback(broker.stop)
        with ThreadPoolExecutor(len(NODES)) as together:
            list(together.map(ZooKeeperKafka.__enter__, brokers.values()))
        yield TheirCluster(brokers)
