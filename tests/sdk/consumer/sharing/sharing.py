"""A share consumer's machines on a simulated clock, with brokers of share partitions."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafkawire.sdk.client.options import ShareConsumerOptions
from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome, Ledger
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.consumer.sharing.planner import SharePlanner
from kafkawire.sdk.consumer.sharing.queue import ShareQueue
from kafkawire.sdk.consumer.sharing.reader import ShareReader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.sharing.share_broker import ShareBroker
from tests.sdk.simulation import Later, Silent, Simulation, backoff, cluster, options, topic_id

__all__ = ["MEMBER", "Sharing", "place"]

MEMBER = "4a1f0d7e-0000-4000-8000-000000000001"


def place(number: int = 0, topic: str = "t") -> tuple[bytes, int]:
    """Return a partition as the brokers name it."""
    return topic_id(topic), number


class Sharing:
    """One share consumer without a group, and its brokers.

    Args:
        leaders: the leader of each partition of topic t.
        given: the consumer's options.

    Attributes:
        brokers: the brokers, keyed by node id.
        outcomes: the outcomes of acknowledgements, in order.
        leaders: the leaders that the metadata will name from now on.
    """

    def __init__(self, leaders: tuple[int, ...] = (1,), **given: Any) -> None:
        given = {"group_id": "g", "share_acknowledgement_mode": "explicit", "fetch_max_wait_ms": 50, **given}
        self.options: ShareConsumerOptions = options(ShareConsumerOptions, **given)
        self.router = Router(self.options, backoff())
        self.simulation = Simulation(self.router)
        self.queue = ShareQueue(lambda: None)
        is_explicit = self.options.share_acknowledgement_mode == "explicit"
        self.ledger = Ledger(lambda: None, lambda: self.now_ms, is_explicit=is_explicit)
        self.reader = ShareReader(self.queue, self.ledger, ShareDelivery[Any, Any], check_crcs=True)
        self.reader.subscribed = {"t"}
        self.planner = SharePlanner(self.router, self.options, backoff(), MEMBER, self.queue, self.ledger)
        self.outcomes: list[AcknowledgeOutcome] = []
        self.planner.settlements.notify = self.outcomes.append
        self.simulation.machines.append(self.planner)
        self.leaders = leaders
        self.lives = 0
        self.brokers = {node_id: ShareBroker(lambda: self.now_ms) for node_id in sorted({1, *leaders})}
        self.router.metadata.wanted = {"t"}
        handlers = self.simulation.handlers
        handlers[MetadataRequest] = lambda request, version: cluster(
            self.brokers, {"t": self.leaders}, lives={"t": self.lives}
        )(request, version)
        for node_id in self.brokers:
            handlers[node_id, ShareFetchRequest] = partial(self.answered, node_id)
            handlers[node_id, ShareAcknowledgeRequest] = partial(self.answered, node_id)
        self.simulation.run(10)
        self.planner.assign(self.partitions, self.now_ms)

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.simulation.now_ms

    @property
    def broker(self) -> ShareBroker:
        """The first broker."""
        return self.brokers[1]

    @property
    def partitions(self) -> dict[TopicPartition, bytes]:
        """All partitions, as a group assigns them."""
        return {TopicPartition("t", number): topic_id("t", self.lives) for number in range(len(self.leaders))}

    def answered(self, node_id: int, request: Any, version: int) -> Message | Later | Silent:
        """Return a broker's response, which comes later if a fetch waits for records."""
        if isinstance(request, ShareAcknowledgeRequest):
            return self.brokers[node_id].share_acknowledge(request)
        response = self.brokers[node_id].share_fetch(request)
        has_news = any(
            each.acquired_records or each.error_code for topic in response.responses for each in topic.partitions
        )
        if response.error_code or has_news or not request.max_wait_ms:
            return response
        later = Later()
        self.simulation.at(request.max_wait_ms, lambda: later.answer(response))
        return later

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.simulation.run(duration_ms)

    def read(self, limit: int = 1_000, timeout_ms: int = 2_000) -> list[ShareDelivery[Any, Any]]:
        """Return deliveries, waiting for the first as a read does."""
        end_ms = self.now_ms + timeout_ms
        while not (found := self.reader.take_many(limit)) and self.now_ms < end_ms:
            self.run(1)
        return [delivery for several in found.values() for delivery in several]

    def commit(self, timeout_ms: int = 5_000) -> Promise[list[AcknowledgeOutcome]]:
        """Commit as the user's side does."""
        self.reader.finish()
        promise: Promise[list[AcknowledgeOutcome]] = Promise()
        self.planner.commit(timeout_ms, promise, self.now_ms)
        return promise

    def committed(self, timeout_ms: int = 5_000) -> list[AcknowledgeOutcome]:
        """Commit, and return the outcomes."""
        promise = self.commit(timeout_ms)
        while not promise.done:
            self.run(1)
        return promise.wait()

    def close(self, timeout_ms: int = 5_000) -> Promise[None]:
        """Close the sessions."""
        promise: Promise[None] = Promise()
        self.planner.close(self.now_ms + timeout_ms, promise, self.now_ms)
        return promise

    def disconnect(self, node_id: int = 1) -> None:
        """Break the connections to a broker, which ends the session there."""
        self.brokers[node_id].disconnect(MEMBER)
        self.simulation.break_connections(node_id)

    def acknowledged(self, type: int, node_id: int = 1) -> list[int]:
        """Return the offsets that a broker has seen acknowledged in one way."""
        return [each.offset for each in self.brokers[node_id].applied if each.type == type]
