"""A producer without a face: what it asks of its driver comes back as promises, for asyncio and for threads."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.retry import Backoff
from kafkawire.sdk.client.router import Router
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.identity import ProducerIdentity
from kafkawire.sdk.producer.sender import Sender
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.wire import Network

__all__ = ["ProducerCore", "machines"]


def machines(
    options: ProducerOptions,
    router: Router,
    clock: Callable[[], int],
    fraction: Callable[[], float],
    wake: Callable[[], None],
) -> tuple[Accumulator, ProducerIdentity, Sender]:
    """Return the parts of a producer that decide, joined; they do no I/O.

    Args:
        options: checked.
        router: of the client.
        clock: returns the time of the driver.
        fraction: returns a random number in [0, 1).
        wake: has the driver take a turn.
    """
    backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, fraction)

    def has_leader(topic: str, number: int) -> bool:
        known = router.metadata.topics.get(topic)
        partition = None if known is None else known.partitions.get(number)
        return partition is not None and partition.leader is not None

    accumulator = Accumulator(options, backoff, clock, has_leader, wake)
    identity = ProducerIdentity(router, options.api_timeout_ms, options.enable_idempotence)
    return accumulator, identity, Sender(options, router, accumulator, identity)


class ProducerCore:
    """The machines of one producer and what runs them.

    Args:
        options: checked.
        network: reaches the brokers; None for TCP.

    Attributes:
        accumulator: takes the records.
        client: runs the machines.
    """

    def __init__(self, options: ProducerOptions, network: Network | None) -> None:
        self._options = options
        self.client = ClientCore("producer", options, network, creates_topics=True)
        self.accumulator, self._identity, self._sender = machines(
            options, self.client.router, monotonic_ms, random_fraction, self.client.driver.wake
        )
        self.client.machines.append(self._sender)
        fork.watch(self)

    def forked(self, error: fork.Forked) -> None:
        """Refuse records in a child process."""
        self.accumulator.appender.refusal = error

    def start(self) -> Promise[None]:
        """Connect, and get a producer id if the options insist on one."""
        started = self.client.start()

        async def identified() -> None:
            await started
            await self._identity.ready

        return self.client.perform(identified()) if self._options.enable_idempotence else started

    def flush(self) -> Promise[None]:
        """Have everything that was buffered so far settled."""
        return self.client.driver.ask(self._sender.flush)

    def drain(self) -> Promise[None]:
        """Have half of `buffer_memory` free."""
        return self.client.driver.ask(self._sender.drain)

    def refuse(self, error: KafkaWireError) -> None:
        """Take no records from now on; those that are buffered go their way."""
        self.accumulator.appender.refusal = error

    def raise_unobserved(self) -> None:
        """Raise the first error, since the last call, of a record whose outcome nobody has asked for."""
        outcome, self.accumulator.unobserved = self.accumulator.unobserved, None
        if outcome is not None and not outcome.observed and (error := outcome.exception(0)) is not None:
            raise error
