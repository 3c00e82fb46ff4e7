"""The core of a producer, shared by the asyncio and blocking producers; its methods return promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkawire.sdk.client.arguments import MAX_INT32, checked_number, checked_offsets, checked_text, checked_timeout_ms
from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError, LocalProtocolError
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.identity import ProducerIdentity
from kafkawire.sdk.producer.producer_metrics import TransactionTimes
from kafkawire.sdk.producer.sender import Sender
from kafkawire.sdk.producer.transactions.errors import OUTSIDE
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.waiting import yield_to_loop
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.groups.protocol import GroupMetadata
    from kafkawire.sdk.producer.transactions.machine import Transactions
    from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction

__all__ = ["ProducerCore", "machines"]


def machines(
    options: ProducerOptions,
    router: Router,
    clock: Callable[[], int],
    fraction: Callable[[], float],
    wake: Callable[[], None],
) -> tuple[Accumulator, ProducerIdentity, Sender, Transactions | None]:
    """Return a producer's connected state machines, which do no I/O; the last is None if there are no transactions.

    Args:
        options: the checked options.
        router: the client's router.
        clock: returns the driver's time.
        fraction: returns a random number in [0, 1).
        wake: makes the driver run the machines.
    """
    backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, fraction)

    def has_leader(topic: str, number: int) -> bool:
        known = router.metadata.topics.get(topic)
        partition = None if known is None else known.partitions.get(number)
        return partition is not None and partition.leader is not None

    accumulator = Accumulator(options, backoff, clock, has_leader, wake)
    name = options.transactional_id
    if name is None:
        identity = ProducerIdentity(router, backoff, options.api_timeout_ms, options.enable_idempotence)
        return accumulator, identity, Sender(options, router, accumulator, identity), None
    from kafkawire.sdk.producer.transactions.machine import Transactions  # many producers never need it

    identity = ProducerIdentity(router, backoff, options.api_timeout_ms, True, name, options.transaction_timeout_ms)
    partitions = TransactionPartitions(name)
    sender = Sender(options, router, accumulator, identity, partitions)
    return accumulator, identity, sender, Transactions(options, router, accumulator, identity, sender, partitions)


class ProducerCore:
    """The machines of one producer and the client that runs them.

    Args:
        options: the checked options.
        network: how to connect to the brokers; None for TCP.

    Attributes:
        accumulator: collects the records.
        client: runs the machines.
        is_transactional: whether the producer uses transactions.
    """

    def __init__(self, options: ProducerOptions, network: Network | None) -> None:
        self._options = options
        self.client = ClientCore("producer", options, network, creates_topics=True)
        self.accumulator, self._identity, self._sender, self._transactions = machines(
            options, self.client.router, monotonic_ms, random_fraction, self.client.driver.wake
        )
        self.client.machines.append(self._sender)
        if self._transactions is not None:
            self.client.machines.append(self._transactions)
        self.is_transactional = self._transactions is not None
        self._times = TransactionTimes(self.client.router.metrics)
        self._rested_ms = 0
        fork.watch(self)

    def forked(self, error: fork.Forked) -> None:
        """Reject records in a forked child process."""
        self.accumulator.refuse(error)

    def start(self) -> Promise[None]:
        """Connect, and obtain a producer id if the options require one."""
        started = self.client.start()

        async def identified() -> None:
            await started
            await self._identity.ready

        if not self._options.enable_idempotence:
            return started
        ready = self.client.perform(identified())
        return self._times.measured("init", ready) if self.is_transactional else ready

    async def rest(self) -> None:
        """Yield to the driver if it has work to do, and to the rest of the event loop every millisecond.

        A caller that sends in a tight loop would keep both from running. The event loop runs only every millisecond
        because one of its iterations costs as much as sending 100 records.
        """
        now_ms = monotonic_ms()
        if self.client.driver.is_scheduled or now_ms != self._rested_ms:
            await yield_to_loop()
            self._rested_ms = now_ms

    def flush(self) -> Promise[None]:
        """Settle all records buffered so far."""
        return self.client.driver.ask(self._sender.flush)

    def drain(self) -> Promise[None]:
        """Wait until half of `buffer_memory` is free."""
        return self.client.driver.ask(self._sender.drain)

    # Transactions; these methods raise `LocalProtocolError` without a `transactional_id`.

    def begin(self) -> Promise[None]:
        """Begin a transaction; no other may be open or ending."""
        return self._times.measured("begin", self.client.driver.ask(self._transactional().begin))

    def transaction_ended(self) -> Promise[None]:
        """Wait up to `api_timeout_ms` until the transaction that is being ended has ended."""
        transactions, limit_ms = self._transactional(), self._options.api_timeout_ms
        ended: Promise[None] = self.client.driver.ask(partial(transactions.await_end, limit_ms))
        return self._times.measured("begin", ended)

    async def prepare(self, timeout_ms: int | None) -> PreparedTransaction | None:
        """Store all records of the open transaction and leave it open; new records are rejected."""
        transactions, limit_ms = self._transactional(), self._limit_ms(timeout_ms)
        self.accumulator.refuse(OUTSIDE)
        prepared: Promise[None] = self.client.driver.ask(partial(transactions.prepare, limit_ms))
        await prepared
        return transactions.prepared()

    def commit(self, timeout_ms: int | None) -> Promise[None]:
        """Commit the open transaction; new records are rejected."""
        transactions, limit_ms = self._transactional(), self._limit_ms(timeout_ms)
        self.accumulator.refuse(OUTSIDE)
        ended: Promise[None] = self.client.driver.ask(partial(transactions.commit, limit_ms))
        return self._times.measured("commit", ended)

    def abort(self, timeout_ms: int | None) -> Promise[None]:
        """Abort the open transaction; new records are rejected."""
        transactions, limit_ms = self._transactional(), self._limit_ms(timeout_ms)
        self.accumulator.refuse(OUTSIDE)
        ended: Promise[None] = self.client.driver.ask(partial(transactions.abort, limit_ms))
        return self._times.measured("abort", ended)

    def finish(self, timeout_ms: int | None) -> Promise[None]:
        """Abort the open transaction, or wait until a transaction that is already ending has ended."""
        transactions, limit_ms = self._transactional(), self._limit_ms(timeout_ms)
        return self.client.driver.ask(lambda promise, now_ms: transactions.finish(limit_ms, promise, now_ms))

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None,
    ) -> Promise[None]:
        """Commit a group's offsets with the open transaction."""
        transactions, limit_ms = self._transactional(), self._limit_ms(timeout_ms)
        exact, member = checked_offsets(offsets), _checked_member(group)
        sent: Promise[None] = self.client.driver.ask(
            lambda promise, now_ms: transactions.send_offsets(exact, member, limit_ms, promise, now_ms)
        )
        return self._times.measured("send-offsets", sent)

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise LocalProtocolError("transactions need the option transactional_id")
        return self._transactions

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return self._options.api_timeout_ms if timeout_ms is None else checked_timeout_ms(timeout_ms)

    def let_go(self) -> bool:
        """Send buffered records or abort the transaction, then disconnect, because the producer was garbage-collected.

        Returns:
            Whether there is anything left to end.
        """

        async def last() -> None:
            self.refuse(Closed("the producer was dropped without being closed"))
            await (self.finish(None) if self.is_transactional else self.flush())

        return self.client.let_go(last)

    def refuse(self, error: KafkaWireError) -> None:
        """Reject new records; buffered ones are still sent."""
        self.accumulator.refuse(error)

    def raise_unobserved(self) -> None:
        """Raise the first error since the last call among records whose delivery the application has not checked."""
        outcome, self.accumulator.unobserved = self.accumulator.unobserved, None
        if outcome is not None and not outcome.observed:
            outcome.raise_error()


def _checked_member(given: object) -> GroupMetadata:
    """Check and return the identity of a group member.

    Raises:
        LocalProtocolError: the argument is not a `GroupMetadata`.
    """
    from kafkawire.sdk.groups.protocol import GroupMetadata  # only transactions that commit offsets need it

    if not isinstance(given, GroupMetadata):
        raise LocalProtocolError(f"group: expected a GroupMetadata, got {quoted(given, 100)}")
    return GroupMetadata(
        checked_text("group_id", given.group_id),
        checked_number("generation_id", given.generation_id, -1, MAX_INT32),
        checked_text("member_id", given.member_id),
        None if given.group_instance_id is None else checked_text("group_instance_id", given.group_instance_id),
    )
