"""Scripted brokers in a cluster: the test decides which broker leads, when time passes, and what the answers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkawire.reference_broker.cluster.links import Cancel, Done
from kafkawire.reference_broker.metadata.image import (
    UNKNOWN_PARTITION,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkawire.reference_broker.transactions.peers import Peers
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import Node, Purpose, Target
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.transport.wire import Address

__all__ = ["OWN", "TIMEOUT_MS", "Asked", "PeerBench"]

#: This broker's id, and the time limit for responses.
OWN = 1
TIMEOUT_MS = 30_000

LISTENER = "BETWEEN"


class Asked:
    """A request to another broker that is waiting for its outcome."""

    def __init__(self, broker_id: int, request: Any, done: Done, purpose: Purpose) -> None:
        self.broker_id = broker_id
        self.request = request
        self.purpose = purpose
        self._done: list[Done] = [done]

    def end(self, outcome: Message | Exception) -> None:
        """Report the outcome exactly once; a response passes through the codec of its highest stable version."""
        if isinstance(outcome, Message):
            version = outcome.SCHEMA.versions.last
            outcome, _ = program(type(outcome), version).decode(program(type(outcome), version).encode(outcome))
        self._done.pop()(outcome)


class PeerBench:
    """Brokers 1 (this one), 2 and 3.

    Attributes:
        leaders: the leader of each partition, or -1 for none; other partitions do not exist.
        alive: the reachable brokers.
        asked: the requests in flight.
    """

    def __init__(self, leaders: Mapping[Partition, int] | None = None) -> None:
        self.leaders: dict[Partition, int] = dict(leaders or {})
        self.alive = {1, 2, 3}
        self.asked: list[Asked] = []
        self.now_ms = 1_000
        self.timers = Timers()
        self._posted: list[Callable[[], None]] = []
        self.peers = Peers(
            OWN, LISTENER, self.image, self, TIMEOUT_MS, self._posted.append, self.later, lambda: self.now_ms
        )

    def image(self) -> MetadataImage:
        """Return the metadata image."""
        topics: dict[str, TopicImage] = {}
        for name in {name for name, _ in self.leaders}:
            known = {number: leader for (topic, number), leader in self.leaders.items() if topic == name}
            partitions = tuple(
                PartitionImage(known[number], 0, (), (1, 2, 3)) if number in known else UNKNOWN_PARTITION
                for number in range(max(known) + 1)
            )
            topics[name] = TopicImage(name, name.encode().ljust(16), partitions, {})
        brokers = {
            each: BrokerRegistration(each, {LISTENER: Address(f"broker-{each}", 9092)}) for each in sorted(self.alive)
        }
        return MetadataImage("cluster", 1, brokers, topics, {})

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel:
        """Set a timer."""
        return self.timers.at(self.now_ms + delay_ms, lambda now_ms: action()).cancel

    def turn(self) -> None:
        """Run everything scheduled for the next turn of the loop."""
        posted = list(self._posted)
        self._posted.clear()
        for step in posted:
            step()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer."""
        self.turn()
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.timers.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.timers.fire(self.now_ms)
            self.turn()
        self.now_ms = end_ms

    def take(self, broker_id: int | None = None) -> Asked:
        """Return the only request in flight, to a given broker or to any broker, after a turn of the loop."""
        self.turn()
        (found,) = [each for each in self.asked if broker_id in (None, each.broker_id)]
        self.asked.remove(found)
        return found

    # The links.

    def know(self, brokers: Mapping[int, Address], controller_id: int | None) -> None:
        raise AssertionError("the brokers are told by others")

    def drop(self, broker_id: int) -> None:
        raise AssertionError("connections are closed by others")

    def ask(
        self,
        target: Target,
        request: Message,
        done: Done,
        *,
        timeout_ms: int,
        purpose: Purpose,
        version: int | None = None,
        retries: bool = False,
    ) -> Cancel:
        """Send a request; a broker gets one at a time for each purpose, in the highest version that both know."""
        assert isinstance(target, Node)
        assert (timeout_ms, version, retries) == (TIMEOUT_MS, None, False)
        assert not [each for each in self.asked if (each.broker_id, each.purpose) == (target.node_id, purpose)]
        known = program(type(request), request.SCHEMA.versions.last)
        decoded, _ = known.decode(known.encode(request))
        self.asked.append(Asked(target.node_id, decoded, done, purpose))
        return lambda: None
