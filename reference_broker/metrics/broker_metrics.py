"""Collect the state of a broker for a scrape, in pieces between which requests are handled.

Nothing here is counted while requests are handled: the values are read from the parts of the broker that have them. A
broker with 10,000 partitions is thus read in many small steps, and the values of one scrape may be milliseconds apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.groups.share.group import SHARE_GROUP_TYPE
from kafkawire.reference_broker.groups.streams.group import STREAMS_GROUP_TYPE
from kafkawire.reference_broker.metrics.exposition import Measured, Sample
from kafkawire.reference_broker.metrics.families import FAMILIES
from kafkawire.reference_broker.metrics.histogram import Histogram
from kafkawire.reference_broker.metrics.process_metrics import process_metrics
from kafkawire.reference_broker.metrics.request_metrics import TOPICS_MAX, RequestMetrics
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.transactions.transaction import state_name
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.version import __version__

__all__ = ["BrokerMetrics", "Observed"]

#: The protocols of groups, as in ListGroups.
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"


class Observed(Protocol):
    """A broker, as far as its metrics and its health need it."""

    @property
    def running_core(self) -> Core | None:
        """The core; None if the broker is not running."""
        ...

    @property
    def sessions(self) -> Iterable[Session]:
        """The sessions of all connections."""
        ...

    @property
    def held_bytes(self) -> int:
        """The memory of all connections."""
        ...

    @property
    def unready_reason(self) -> str:
        """Why clients cannot use the broker now; empty if they can."""
        ...


class _Logs:
    """What the replicas of a broker add up to."""

    def __init__(self) -> None:
        self.replicas = self.leaders = self.under_replicated = self.offline = self.size_bytes = 0
        self.isr_shrinks = self.isr_expands = 0
        self.topics: dict[str, tuple[int, int]] = {}

    def add(self, partition: Partition, replica: Replica) -> None:
        """Add a replica."""
        self.replicas += 1
        if replica.role is Role.OFFLINE:
            self.offline += 1
        if replica.role is Role.LEADER:
            self.leaders += 1
            replicas = () if replica.term is None else replica.term.replicas
            isr = replica.isr if isinstance(replica, ClusterReplica) else replicas
            self.under_replicated += len(isr) < len(replicas)
        if isinstance(replica, ClusterReplica):
            changes = replica.isr_changes  # of all replicas together
            self.isr_shrinks, self.isr_expands = changes.shrinks, changes.expands
        size_bytes = replica.log.size_bytes
        self.size_bytes += size_bytes
        topic = partition[0]
        if topic in self.topics or len(self.topics) < TOPICS_MAX:
            before_bytes, segments = self.topics.get(topic, (0, 0))
            self.topics[topic] = before_bytes + size_bytes, segments + len(replica.log.segments)


class BrokerMetrics:
    """The metrics of one broker.

    Args:
        broker: see `Observed`.
        requests: counts requests.
        loop_delay: how late the event loop wakes up.
    """

    def __init__(self, broker: Observed, requests: RequestMetrics, loop_delay: Histogram) -> None:
        self._broker = broker
        self._requests = requests
        self._loop_delay = loop_delay

    def collect(self) -> Work[list[Measured]]:
        """Return all metrics; yield now and then. A broker that is not running has only those of its process."""
        found = [Measured(FAMILIES["build"], (Sample(1, (__version__,)),)), *process_metrics()]
        found.append(Measured(FAMILIES["loop_delay"], tuple(self._loop_delay.samples())))
        core = self._broker.running_core
        if core is None:
            return found
        yield
        self._requests.forget_missing(core.metadata.image.topics)
        for measured in self._requests.measured():
            found.append(measured)
            yield
        found.extend((yield from self._connections()))
        found.extend((yield from _replicas(core)))
        found.extend((yield from _cluster(core)))
        found.extend((yield from _coordinators(core)))
        return found

    def _connections(self) -> Work[list[Measured]]:
        listeners: Counter[str] = Counter()
        delayed: Counter[str] = Counter()
        for session in list(self._broker.sessions):
            listeners[session.peer.listener.name] += 1
            if (api := session.delayed_api) is not None:
                delayed[api.name] += 1
            yield
        return [
            _counted("connections", listeners),
            _counted("purgatory", delayed),
            _single("memory_used", self._broker.held_bytes),
        ]


def _single(key: str, value: float) -> Measured:
    return Measured(FAMILIES[key], (Sample(value),))


def _counted(key: str, counts: Counter[str]) -> Measured:
    return Measured(FAMILIES[key], tuple(Sample(count, (name,)) for name, count in sorted(counts.items())))


def _replicas(core: Core) -> Work[list[Measured]]:
    logs = _Logs()
    for partition, replica in list(core.replicas.all()):
        logs.add(partition, replica)
        yield
    topics = sorted(logs.topics.items())
    return [
        _single("partitions", logs.replicas),
        _single("leaders", logs.leaders),
        _single("under_replicated", logs.under_replicated),
        _single("offline_replicas", logs.offline),
        _single("isr_shrinks", logs.isr_shrinks),
        _single("isr_expands", logs.isr_expands),
        _single("logs_bytes", logs.size_bytes),
        Measured(FAMILIES["log_size"], tuple(Sample(size_bytes, (topic,)) for topic, (size_bytes, _) in topics)),
        Measured(FAMILIES["log_segments"], tuple(Sample(segments, (topic,)) for topic, (_, segments) in topics)),
        _single("uncleanable", core.upkeep.failed_logs),
        _single("fetch_sessions", len(core.fetch_sessions)),
        _single("timers", core.timers.count),
    ]


def _cluster(core: Core) -> Work[list[Measured]]:
    """Count what Kafka's controller reports; other brokers report zeros, as in Kafka."""
    is_controller, offline, topics = core.is_controller, 0, 0
    if is_controller:
        image = core.metadata.image  # it is replaced as a whole
        topics = len(image.topics)
        for topic in image.topics.values():
            offline += sum(not partition.has_leader for partition in topic.partitions)
            yield
    return [
        _single("controller", int(is_controller)),
        _single("offline_partitions", offline),
        _single("topics", topics),
    ]


def _coordinators(core: Core) -> Work[list[Measured]]:
    groups: Counter[tuple[str, str]] = Counter()
    for classic in list(core.groups.classic_groups()):
        groups[_CLASSIC, classic.state.value] += 1
        yield
    for consumer in list(core.groups.consumer_groups()):
        groups[_CONSUMER, consumer.state.value] += 1
        yield
    for share in list(core.groups.share_groups()):
        groups[SHARE_GROUP_TYPE, share.state.value] += 1
        yield
    for streams in list(core.groups.streams_groups()):
        groups[STREAMS_GROUP_TYPE, streams.state.value] += 1
        yield
    states: Counter[str] = Counter()
    for transaction in list(core.transactions.transactions()):
        states[state_name(transaction.state)] += 1
        yield
    counted = tuple(Sample(count, labels) for labels, count in sorted(groups.items()))
    return [Measured(FAMILIES["groups"], counted), _counted("transactions", states)]
