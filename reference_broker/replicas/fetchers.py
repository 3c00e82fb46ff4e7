"""The assignment of partitions to fetchers, and the fetchers' requests over the links between brokers.

There are up to `num.replica.fetchers` fetchers for each leader, and a given partition always has the same one. A woken
fetcher runs in the next turn of the event loop, so a thousand partitions that change together share one request.

Source: `AbstractFetcherManager`, `ReplicaFetcherManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.cluster.links import Cancel, Done
from kafkawire.reference_broker.replicas.fetcher import CURRENT_VERSIONS, Fetcher, FetcherOptions, FetcherVersions
from kafkawire.reference_broker.replicas.followed import FollowedState, FollowerReplica
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.work.timers import Later
from kafkawire.sdk.protocol.java_order import string_hash
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import Node, Purpose, Target
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Fetchers", "ReplicationLinks", "fetcher_number"]


class ReplicationLinks(Protocol):
    """The part of `Links` that fetchers use."""

    def ask(
        self,
        target: Target,
        request: Message,
        done: Done,
        *,
        timeout_ms: int,
        purpose: Purpose,
        version: int | None = None,
    ) -> Cancel:
        """See `Links.ask`."""
        ...


class _Place(NamedTuple):
    """A fetcher's leader, and its number among the fetchers for that leader."""

    leader_id: int
    number: int


class _Running:
    """A fetcher and its pending request or timer."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.stop_request: Cancel | None = None
        self.stop_timer: Cancel | None = None
        #: When the timer fires; None if there is no timer.
        self.due_ms: int | None = None
        #: Whether an outcome is being processed, after which the fetcher runs anyway.
        self.is_answered = False


class Fetchers:
    """The fetchers of a broker. Methods return before any request is sent or callback is called.

    Args:
        links: returns the links to the other brokers for the fetchers with a given number, counting from 0. A broker
            answers the requests on a connection in order, and a fetch waits for records, so each number needs its own
            links.
        replica_of: returns this broker's replica of a partition, or None if there is none.
        options: the options of all fetchers.
        broker_epoch: returns the epoch of this broker's registration.
        later: calls a function after some time.
        now_ms: the broker's clock, which its logs also use.
        quota: the followers' quota.
        fetchers_per_leader: as in `num.replica.fetchers`.
        versions: the versions of the requests.
    """

    def __init__(
        self,
        links: Callable[[int], ReplicationLinks],
        replica_of: Callable[[Partition], FollowerReplica | None],
        options: FetcherOptions,
        broker_epoch: Callable[[], int],
        later: Later,
        now_ms: Callable[[], int],
        quota: ReplicationQuota,
        fetchers_per_leader: int = 1,
        versions: FetcherVersions = CURRENT_VERSIONS,
    ) -> None:
        self._links = links
        self._replica_of = replica_of
        self._options = options
        self._broker_epoch = broker_epoch
        self._later = later
        self._now_ms = now_ms
        self._quota = quota
        self._fetchers_per_leader = fetchers_per_leader
        self._versions = versions
        self._running: dict[_Place, _Running] = {}
        self._places: dict[TopicPartition, _Place] = {}

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Fetch a partition from its leader; a repeated leader epoch has an effect only if fetching has stopped.

        Args:
            partition: its topic and number; this broker must have a replica of it that is a follower.
            leader_id: the node id of the leader.
            leader_epoch: the epoch in which that broker leads.
        """
        key, replica = TopicPartition(*partition), self._replica_of(partition)
        if replica is None:
            self.forget([partition])
            return
        place = _Place(leader_id, fetcher_number(partition, self._fetchers_per_leader))
        former = self._places.get(key)
        if former is not None:
            known = self._running[former].fetcher.partitions[key]
            is_same = known.replica is replica and known.topic_id == replica.topic_id
            is_over = known.state in (FollowedState.FENCED, FollowedState.FAILED)
            if former == place and is_same and known.leader_epoch == leader_epoch and not is_over:
                return
            self._running[former].fetcher.remove(key)
            self._wake(former)
        self._places[key] = place
        running = self._running.get(place)
        if running is None:
            wake = partial(self._wake, place)
            fetcher = Fetcher(leader_id, self._options, self._broker_epoch, wake, self._quota, self._versions)
            running = self._running[place] = _Running(fetcher)
        running.fetcher.add(key, replica, leader_epoch)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Stop fetching partitions; no more fetched records are appended."""
        for partition in partitions:
            key = TopicPartition(*partition)
            place = self._places.pop(key, None)
            if place is not None:
                self._running[place].fetcher.remove(key)
                self._wake(place)

    def close(self) -> None:
        """Abandon all requests and partitions, since the broker is stopping."""
        self._places.clear()
        for place, running in list(self._running.items()):
            self._end(place, running)

    def moved(self, partition: Partition) -> None:
        """Record that more of a follower's log can be acknowledged, or that its start offset has increased.

        A follower's replica calls this whenever its log reports such a change; partitions that are not followed are
        ignored.
        """
        place = self._places.get(TopicPartition(*partition))
        if place is not None:
            self._running[place].fetcher.moved(TopicPartition(*partition))

    def resize(self, fetchers_per_leader: int) -> None:
        """Change the number of fetchers for each leader.

        Args:
            fetchers_per_leader: as in `num.replica.fetchers`.
        """
        if fetchers_per_leader == self._fetchers_per_leader:
            return
        self._fetchers_per_leader = fetchers_per_leader
        for key, place in list(self._places.items()):
            self.follow(key, place.leader_id, self._running[place].fetcher.partitions[key].leader_epoch)

    def heed_quota(self) -> None:
        """Apply the quota again, since its rate or its partitions have changed."""
        for place in self._running:
            self._wake(place)

    def state_of(self, partition: Partition) -> FollowedState | None:
        """Return the state of a partition; None if it is not followed."""
        key = TopicPartition(*partition)
        place = self._places.get(key)
        return None if place is None else self._running[place].fetcher.partitions[key].state

    # Turns.

    def _wake(self, place: _Place) -> None:
        """Give a fetcher its turn, unless the end of its current request will do that."""
        running = self._running.get(place)
        if running is None or running.is_answered:
            return
        if running.stop_request is None or not running.fetcher.partitions:
            self._set_timer(place, running, self._now_ms())

    def _set_timer(self, place: _Place, running: _Running, due_ms: int) -> None:
        if running.due_ms is not None and running.due_ms <= due_ms:
            return
        if running.stop_timer is not None:
            running.stop_timer()
        running.due_ms = due_ms
        running.stop_timer = self._later(max(due_ms - self._now_ms(), 0), partial(self._fire, place, running))

    def _fire(self, place: _Place, running: _Running) -> None:
        running.stop_timer = running.due_ms = None
        self._take_turn(place, running)

    def _take_turn(self, place: _Place, running: _Running) -> None:
        """Send the request that is due, or set a timer for the next request."""
        if not running.fetcher.partitions:
            self._end(place, running)
            return
        now_ms = self._now_ms()
        planned = running.fetcher.plan(now_ms)
        if planned is not None:
            running.stop_request = self._links(place.number).ask(
                Node(place.leader_id),
                planned.request,
                partial(self._answered, place, running),
                timeout_ms=planned.timeout_ms,
                purpose=Purpose.REPLICATION,
                version=planned.version,
            )
        elif (due_ms := running.fetcher.due_ms(now_ms)) is not None:
            self._set_timer(place, running, due_ms)

    def _answered(self, place: _Place, running: _Running, outcome: Message | Exception) -> None:
        running.stop_request, running.is_answered = None, True
        try:
            running.fetcher.answered(outcome, self._now_ms())
        finally:
            running.is_answered = False
            self._take_turn(place, running)

    def _end(self, place: _Place, running: _Running) -> None:
        """Drop a fetcher that has no partitions."""
        for stop in (running.stop_request, running.stop_timer):
            if stop is not None:
                stop()
        del self._running[place]


def fetcher_number(partition: Partition, fetchers_per_leader: int) -> int:
    """Return the number of the fetcher for a partition, chosen as in Apache Kafka.

    Args:
        partition: its topic and number.
        fetchers_per_leader: the number of fetchers for a leader.
    """
    topic, number = partition
    hashed = (31 * string_hash(topic) + number) % 2**32
    magnitude = min(hashed, 2**32 - hashed)
    return (0 if magnitude == 2**31 else magnitude) % fetchers_per_leader
