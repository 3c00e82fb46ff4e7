"""Send the items of an operation to the brokers that are responsible for them, in batches, and repeat them one by one.

An operation on partitions, groups or transactional ids needs the broker that is responsible for each of them, which
`places.py` looks up. Each broker gets one batch. An item whose error may pass is looked up again and sent again, on its
own schedule, while the other items are already done: a broker that is slow or down delays only its own items.

Source: Apache Kafka, `AdminApiDriver`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

from kafkawire.sdk.admin.descriptions import Item, ItemResults, Value
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.requests import lacking
from kafkawire.sdk.routing.retry import may_pass
from kafkawire.sdk.transport.timing import sleep_ms, together

__all__ = ["AT_ONCE_MAX", "Ask", "Placed", "Places", "answered", "in_batches", "in_parallel", "one_by_one"]

#: The maximum number of requests of one operation that are in flight if each item needs a request of its own: enough to
#: keep every broker busy, and far below the router's limit, which other operations share.
AT_ONCE_MAX = 500


class Placed(NamedTuple, Generic[Item]):
    """The brokers that are responsible for items.

    Attributes:
        nodes: the items of each broker, keyed by node id.
        errors: why an item has no broker; a retriable error is tried again.
        refused: why an item has no broker, if that is final although the error is retriable elsewhere.
    """

    nodes: dict[int, list[Item]]
    errors: dict[Item, KafkaWireError]
    refused: dict[Item, KafkaWireError]


class Places(Protocol[Item]):
    """Finds the brokers that are responsible for items."""

    async def find(self, items: Collection[Item], deadline_ms: int, *, is_first: bool) -> Placed[Item]:
        """Return the brokers of items.

        Args:
            items: the items.
            deadline_ms: when to give up.
            is_first: whether this is the first attempt; after a failed one, nothing that was known before is used.

        Raises:
            KafkaWireError: nothing could be found out.
        """
        ...


#: Asks a broker, given its node id, about a batch of items until a deadline in ms, and returns their values and errors.
Ask = Callable[[int, list[Item], int], Awaitable[Mapping[Item, Value | KafkaWireError]]]


async def in_batches(
    operations: Operations,
    items: Iterable[Item],
    places: Places[Item],
    ask: Ask[Item, Value],
    *,
    final: Collection[ErrorCode] = (),
    also: Collection[ErrorCode] = (),
) -> ItemResults[Item, Value]:
    """Apply an operation to items.

    Args:
        operations: knows the pauses between attempts and the deadline.
        items: the items; repetitions are ignored.
        places: finds the broker of each item.
        ask: sends one request, without repeating it, and returns the outcome of each item; if it raises, all items of
            the batch have failed with that error.
        final: codes that are retriable in the schema but end an item here.
        also: codes that are not retriable in the schema but are here.

    Returns:
        The value or the error of each item, in the order given.

    Raises:
        Closed: the client was closed.
    """
    batches = _Batches(operations, places, ask, final, also)
    wanted = dict.fromkeys(items)
    if wanted:
        await batches.run(wanted)
    return _results(wanted, batches.outcomes)


async def in_parallel(
    operations: Operations, items: Iterable[Item], ask: Callable[[Item, int], Awaitable[Value]]
) -> ItemResults[Item, Value]:
    """Send a request for each item, which the router repeats and takes to the responsible broker.

    Args:
        operations: knows the deadline.
        items: the items; repetitions are ignored.
        ask: asks about one item until a deadline in ms, and raises its error.

    Returns:
        The value or the error of each item, in the order given.

    Raises:
        Closed: the client was closed.
    """
    deadline_ms = operations.attempts().deadline_ms
    assert deadline_ms is not None
    wanted = dict.fromkeys(items)
    return _results(wanted, await _outcomes(list(wanted), ask, deadline_ms))


def one_by_one(ask: Callable[[int, Item, int], Awaitable[Value]]) -> Ask[Item, Value]:
    """Return a function for `in_batches` that sends a request for each item, because the API takes only one.

    Args:
        ask: asks a broker about one item, and raises its error.
    """

    async def ask_all(node_id: int, batch: list[Item], deadline_ms: int) -> dict[Item, Value | KafkaWireError]:
        return await _outcomes(batch, partial(ask, node_id), deadline_ms)

    return ask_all


async def _outcomes(
    items: Sequence[Item], ask: Callable[[Item, int], Awaitable[Value]], deadline_ms: int
) -> dict[Item, Value | KafkaWireError]:
    """Ask about items, each with a request of its own, and return their values and errors."""
    found: dict[Item, Value | KafkaWireError] = {}
    waiting = iter(items)

    async def ask_in_turn() -> None:
        for item in waiting:
            try:
                found[item] = await ask(item, deadline_ms)
            except Closed:  # the client has ended, so the whole operation fails
                raise
            except KafkaWireError as error:
                found[item] = error

    # An item without an answer holds up one of the turns, and no other item.
    await together(ask_in_turn() for _ in range(min(len(items), AT_ONCE_MAX)))
    return found


def _results(items: Iterable[Item], outcomes: Mapping[Item, Value | KafkaWireError]) -> ItemResults[Item, Value]:
    """Return the value or the error of each item, in order."""
    values: dict[Item, Value] = {}
    errors: dict[Item, KafkaWireError] = {}
    for item in items:
        outcome = outcomes[item]
        if isinstance(outcome, KafkaWireError):
            errors[item] = outcome
        else:
            values[item] = outcome
    return ItemResults(values, errors)


def answered(response: Message, found: Mapping[Item, Any], batch: Iterable[Item], noun: str) -> dict[Item, Any]:
    """Return the outcome of each item of a batch; an item that the response lacks has an error that says so.

    Args:
        response: the response, for the error.
        found: the values and errors in the response.
        batch: the items that were asked about.
        noun: what an item is, for the error.
    """
    return {item: found[item] if item in found else lacking(response, f"{noun} {item}") for item in batch}


class _Batches(Generic[Item, Value]):
    """The batches of one operation; see `in_batches` for the arguments.

    Attributes:
        outcomes: the last outcome of each item.
    """

    def __init__(
        self,
        operations: Operations,
        places: Places[Item],
        ask: Ask[Item, Value],
        final: Collection[ErrorCode],
        also: Collection[ErrorCode],
    ) -> None:
        self._operations = operations
        self._places = places
        self._ask = ask
        self._final = final
        self._also = also
        deadline_ms = operations.attempts().deadline_ms
        assert deadline_ms is not None
        self._deadline_ms = deadline_ms
        self.outcomes: dict[Item, Value | KafkaWireError] = {}
        #: The last error that a broker or a lookup gave for each item, which says more than a later timeout.
        self._reasons: dict[Item, KafkaWireError] = {}

    async def run(self, items: Collection[Item]) -> None:
        """Attempt items until each of them has its last outcome."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._begin(items, 0)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _begin(self, batch: Collection[Item], failures: int) -> None:
        """Begin the next attempt at items after a number of failures, in a task of its own: attempts do not nest."""
        self._tasks.create_task(self._attempt(batch, failures))

    async def _attempt(self, batch: Collection[Item], failures: int) -> None:
        try:
            placed = await self._places.find(batch, self._deadline_ms, is_first=not failures)
        except Closed:
            raise
        except KafkaWireError as error:
            for item in batch:
                self._note(item, error)
            return
        self.outcomes.update(placed.refused)
        for node_id, some in placed.nodes.items():
            self._tasks.create_task(self._at(node_id, some, failures))
        await self._conclude(placed.errors, failures)

    async def _at(self, node_id: int, batch: list[Item], failures: int) -> None:
        found: Mapping[Item, Value | KafkaWireError]
        try:
            found = await self._ask(node_id, batch, self._deadline_ms)
        except Closed:
            raise
        except KafkaWireError as error:
            found = dict.fromkeys(batch, error)
        await self._conclude(found, failures)

    async def _conclude(self, found: Mapping[Item, Value | KafkaWireError], failures: int) -> None:
        """Keep the outcomes of one batch, and attempt the items again whose errors may pass."""
        again: dict[Item, KafkaWireError] = {}
        for item, outcome in found.items():
            self._note(item, outcome)
            if isinstance(outcome, KafkaWireError) and may_pass(outcome, self._final, self._also):
                again[item] = outcome
        if not again:
            return
        now_ms, attempts = monotonic_ms(), self._operations.attempts()
        attempts.failures = failures
        attempts.failed(next(iter(again.values())), now_ms)
        if attempts.not_before_ms < self._deadline_ms:
            await sleep_ms(attempts.not_before_ms - now_ms)
            self._begin(list(again), attempts.failures)

    def _note(self, item: Item, outcome: Value | KafkaWireError) -> None:
        """Keep the outcome of an item; a former error takes precedence over a timeout."""
        self.outcomes[item] = outcome
        if isinstance(outcome, RequestTimedOut):
            if item in self._reasons:
                self.outcomes[item] = former = self._reasons[item].again()
                former.__cause__ = outcome
        elif isinstance(outcome, KafkaWireError):
            self._reasons[item] = outcome
