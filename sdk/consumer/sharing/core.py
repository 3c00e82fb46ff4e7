"""The machines of a share consumer, with methods that return promises for `ShareConsumer`.

Nothing in this module waits, so asyncio and threads can share it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import ShareConsumerOptions
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome, Acquired, Ledger
from kafkawire.sdk.consumer.sharing.planner import SharePlanner
from kafkawire.sdk.consumer.sharing.queue import ShareQueue
from kafkawire.sdk.consumer.sharing.reader import Handed, ShareReader
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.groups.share_group import ShareGroup
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.metrics.catalogue import SHARE, SHARE_COORDINATOR
from kafkawire.sdk.records import Record
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.wire import Network

__all__ = ["ShareConsumerCore"]

#: The time limit of `leave`, divided by this number, is reserved for leaving the group once the sessions are closed.
_LEAVE_SHARE: Final = 5

_SECOND_MS: Final = 1_000


class ShareConsumerCore:
    """The machines of one share consumer.

    Args:
        options: the consumer's options.
        network: how to connect to the brokers; None for TCP.
        make: creates a delivery from a record, its delivery count and its acquisition.
        reject_on: the exceptions after which `with delivery` rejects the record rather than releasing it.

    Attributes:
        queue: the acquired records.
        ledger: the acknowledgements on their way.
        reader: hands out acquired records.
        planner: plans the fetches and acknowledgements.
        group: the membership.
        client: runs the machines.
        driver: the client's driver.
        router: sends the machines' requests.
    """

    def __init__(
        self,
        options: ShareConsumerOptions,
        network: Network | None,
        make: Callable[[Record, int, Acquired], Handed],
        reject_on: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._options = options
        self.client = ClientCore("share consumer", options, network)
        self.router, self.driver = self.client.router, self.client.driver
        backoff, wake = self.client.backoff, self.driver.wake
        self.queue = ShareQueue(wake)
        is_explicit = options.share_acknowledgement_mode == "explicit"
        self.ledger = Ledger(wake, monotonic_ms, is_explicit=is_explicit, reject_on=reject_on)
        self.reader: ShareReader[Any] = ShareReader(self.queue, self.ledger, make, check_crcs=options.check_crcs)
        member_id = str(uuid.uuid4())
        self.planner = SharePlanner(self.router, options, backoff, member_id, self.queue, self.ledger)
        queue = self.queue
        self.group = ShareGroup(
            self.router,
            backoff,
            GroupSettings(
                options.group_id,
                max_poll_interval_ms=options.max_poll_interval_ms,
                api_timeout_ms=options.api_timeout_ms,
                rack=options.client_rack or None,
            ),
            member_id,
            self.reader,
            self.planner.assign,
            lambda error, now_ms: queue.fail(error),
        )
        self.client.machines += (self.group, self.planner)
        self._show_metrics()
        fork.watch(self)

    def forked(self, error: fork.Forked) -> None:
        """Stop handing out records in a forked child process, because the parent hands them out."""
        self.reader.abandon(error)
        self.ledger.is_awaited = True  # an acknowledgement wakes the driver, which refuses it

    def start(self, topics: frozenset[str]) -> Promise[None]:
        """Connect to the cluster.

        Args:
            topics: the topics that will be subscribed to.

        Returns:
            A promise that is kept once the first metadata has arrived; it fails if no bootstrap server can be reached,
            or if access to a topic is denied.
        """
        metadata = self.router.metadata
        metadata.wanted = set(topics)
        started = self.client.start()

        async def described() -> None:
            await started
            for topic in topics:
                code = metadata.errors.get(topic)
                error = None if code is None else BrokerError(code, f"topic {topic}")
                if error is not None and not error.retriable:  # a missing topic may still be created
                    raise error

        return self.client.perform(described())

    def subscribe(self, topics: frozenset[str]) -> None:
        """Replace the topics to read."""
        subscription = Subscription(topics)
        self.reader.subscribed = topics
        self.driver.run(lambda now_ms: self.group.subscribe(subscription, now_ms))

    def commit(self, timeout_ms: int) -> Promise[list[AcknowledgeOutcome]]:
        """Send the acknowledgements given so far, and return a promise of their outcomes."""
        return self.driver.ask(lambda promise, now_ms: self.planner.commit(timeout_ms, promise, now_ms))

    def leave(self, timeout_ms: int) -> Promise[None]:
        """Send the acknowledgements, close the sessions, and leave the group.

        Returns:
            A promise that is kept within the limit.
        """
        planner, group = self.planner, self.group

        def step(promise: Promise[None], now_ms: int) -> None:
            closed: Promise[None] = Promise()
            closed.add_done_callback(lambda: group.stop(now_ms + timeout_ms, promise, monotonic_ms()))
            planner.close(now_ms + timeout_ms - timeout_ms // _LEAVE_SHARE, closed, now_ms)

        return self.driver.ask(step)

    def let_go(self, timeout_ms: int) -> bool:
        """Leave the group and disconnect, because the consumer was garbage-collected.

        Returns:
            Whether there is anything left to end.
        """

        async def last() -> None:
            self.planner.settlements.notify = None  # the application no longer holds the consumer
            await self.leave(timeout_ms)

        return self.client.let_go(last)

    def _show_metrics(self) -> None:
        reader, group, metrics = self.reader, self.group, self.router.metrics

        def since_last_read(now_ms: int) -> float:
            handed_out_ms = reader.last_handed_out_ms
            return 0 if handed_out_ms is None else max(now_ms - handed_out_ms, 0) / _SECOND_MS

        def since_heartbeat(now_ms: int) -> float:
            confirmed_ms = group.last_heartbeat_ms
            return float("nan") if confirmed_ms is None else (now_ms - confirmed_ms) / _SECOND_MS

        metrics.gauge(SHARE, "last-poll-seconds-ago", since_last_read)
        metrics.gauge(SHARE_COORDINATOR, "last-heartbeat-seconds-ago", since_heartbeat)
