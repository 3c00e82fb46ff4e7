"""A producer without a face: what it asks of its driver comes back as promises, for asyncio and for threads."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.client.call import ANY_BROKER, Call
from kafkawire.sdk.client.link import Link
from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.retry import Backoff
from kafkawire.sdk.client.router import Router
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.identity import ProducerIdentity
from kafkawire.sdk.producer.sender import Sender
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.wire import Network

__all__ = ["ProducerCore", "machines"]


def machines(
    options: ProducerOptions, clock: Callable[[], int], fraction: Callable[[], float], wake: Callable[[], None]
) -> tuple[Router, Accumulator, ProducerIdentity, Sender]:
    """Return the parts of a producer that decide, joined; they do no I/O.

    Args:
        options: checked.
        clock: returns the time of the driver.
        fraction: returns a random number in [0, 1).
        wake: has the driver take a turn.
    """
    backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, fraction)
    router = Router(options, backoff, creates_topics=True)

    def has_leader(topic: str, number: int) -> bool:
        known = router.metadata.topics.get(topic)
        partition = None if known is None else known.partitions.get(number)
        return partition is not None and partition.leader is not None

    accumulator = Accumulator(options, backoff, clock, has_leader, wake)
    identity = ProducerIdentity(router, options.api_timeout_ms, options.enable_idempotence)
    return router, accumulator, identity, Sender(options, router, accumulator, identity)


class ProducerCore:
    """The machines of one producer and their driver.

    Args:
        options: checked.
        network: reaches the brokers.
        clock: the one that the driver uses.

    Attributes:
        accumulator: takes the records.
        driver: to be started on its event loop, before anything else.
    """

    def __init__(self, options: ProducerOptions, network: Network, clock: Callable[[], int]) -> None:
        self._options = options
        self._router, self.accumulator, self._identity, self._sender = machines(
            options, clock, random_fraction, self._wake
        )
        settings = ConnectionSettings(options.client_id, options.connect_timeout_ms, options.request_timeout_ms)
        self.driver: Driver[Link, Call] = Driver(self._router, [self._sender], network, settings)
        fork.watch(self)

    def forked(self, error: fork.Forked) -> None:
        """Refuse records in a child process."""
        self.accumulator.appender.refusal = error

    def connect(self) -> Promise[None]:
        """Have a broker reached, and a producer id given if the options insist on one."""
        return self.driver.ask(self._connect)

    def flush(self) -> Promise[None]:
        """Have everything that was buffered so far settled."""
        return self.driver.ask(self._sender.flush)

    def drain(self) -> Promise[None]:
        """Have half of `buffer_memory` free."""
        return self.driver.ask(self._sender.drain)

    def refuse(self, error: KafkaWireError) -> None:
        """Take no records from now on; those that are buffered go their way."""
        self.accumulator.appender.refusal = error

    def raise_unobserved(self) -> None:
        """Raise the first error, since the last call, of a record whose outcome nobody has asked for."""
        outcome, self.accumulator.unobserved = self.accumulator.unobserved, None
        if outcome is not None and not outcome.observed and (error := outcome.exception(0)) is not None:
            raise error

    def _wake(self) -> None:
        self.driver.wake()

    def _connect(self, promise: Promise[None], now_ms: int) -> None:
        def reached(call: Call, now_ms: int) -> None:
            if call.error is not None:
                promise.fail(call.error)
            elif self._options.enable_idempotence:
                self._identity.ready.add_done_callback(lambda: _pass_on(self._identity, promise))
            else:
                promise.keep(None)

        request = MetadataRequest([])
        deadline_ms = now_ms + self._options.api_timeout_ms
        self._router.submit(
            Call(ANY_BROKER, lambda _: (request, None), MetadataResponse, deadline_ms, reached, retries=False), now_ms
        )


def _pass_on(identity: ProducerIdentity, promise: Promise[None]) -> None:
    if identity.error is None:
        promise.keep(None)
    else:
        promise.fail(identity.error)
