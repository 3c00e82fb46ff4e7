"""Responses merged from parts that arrive from several shards at different times.

Duplicates in a request cause a single lookup, whose part of the response is repeated for each of them, as in Kafka. A
one-kilobyte request could thus ask for any number of megabytes, so the number of repeated bytes is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.work.pieces import Work, counted, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["AwaitedParts", "Repetitions", "collect", "collect_with_repetitions", "size_of"]

A = TypeVar("A", bound=Hashable)
P = TypeVar("P")
PartMessage = TypeVar("PartMessage", bound=Message)

#: The size of a number or of a length prefix.
_NUMBER_BYTES = 4


class AwaitedParts(Generic[P]):
    """Waits for all parts.

    Args:
        count: the number of parts; if it is 0, `complete` is called immediately.
        complete: called with all parts in order.
    """

    def __init__(self, count: int, complete: Callable[[list[P]], None]) -> None:
        self._parts: dict[int, P] = {}
        self._count = count
        self._complete = complete
        if not count:
            complete([])

    def put(self, number: int, part: P) -> None:
        """Set a part."""
        self._parts[number] = part
        if len(self._parts) == self._count:
            self._complete([self._parts[number] for number in range(self._count)])


class Repetitions:
    """Counts the response bytes caused by duplicates in the request.

    Args:
        call: the context of the request.
    """

    def __init__(self, call: Call) -> None:
        self._limit_bytes = call.services.repeated_bytes_max
        self._bytes = 0

    def add(self, size_bytes: int) -> None:
        """Add bytes.

        Raises:
            BrokerError: POLICY_VIOLATION if the limit is exceeded.
        """
        self._bytes += size_bytes
        if self._bytes > self._limit_bytes:
            reason = f"Repeated items would take more than {self._limit_bytes} bytes; include each item only once."
            raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)


def collect(
    call: Call,
    asked: Iterable[A],
    ask: Callable[[A, Callable[[P], None]], None],
    respond: Callable[[Mapping[A, P]], Work[Message]],
) -> Work[Message | DelayedOperation]:
    """Answer a request for any number of items.

    Args:
        call: the context of the request.
        asked: the items, without duplicates.
        ask: looks up one item, and passes on its part of the response once it is known.
        respond: builds the response from all parts.
    """
    delayed = DelayedOperation()
    parts: dict[A, P] = {}
    unknown = 1  # stands for the items that have not been requested yet

    def put(one: A, part: P) -> None:
        nonlocal unknown
        parts[one] = part
        unknown -= 1
        if not unknown:
            complete_by_work(call, delayed, respond(parts))

    for one in asked:
        unknown += 1
        ask(one, partial(put, one))
        yield
    unknown -= 1
    return delayed if unknown else (yield from respond(parts))


def collect_with_repetitions(
    call: Call,
    asked: Sequence[A],
    ask: Callable[[A, Callable[[PartMessage], None]], None],
    respond: Callable[[list[PartMessage]], Message],
) -> Work[Message | DelayedOperation]:
    """Answer a request for any number of items, possibly with duplicates.

    Args:
        call: the context of the request.
        asked: the items.
        ask: see `collect`.
        respond: builds the response from a part for each item, in order.

    Raises:
        BrokerError: see `Repetitions`.
    """
    counts = yield from counted(asked)

    def repeat(parts: Mapping[A, PartMessage]) -> Work[Message]:
        repetitions = Repetitions(call)
        for one, count in counts.items():
            if count > 1:
                repetitions.add((count - 1) * size_of(parts[one]))
            yield
        return respond((yield from each(asked, parts.__getitem__)))

    return (yield from collect(call, counts, ask, repeat))


def size_of(value: object) -> int:
    """Return the approximate size of a part of a response, in bytes."""
    if isinstance(value, Message):
        return sum(size_of(getattr(value, field.name)) for field in value.FIELDS)
    if isinstance(value, str | bytes):
        return _NUMBER_BYTES + len(value)
    if isinstance(value, list | tuple) and value:
        inner = len(value) * _NUMBER_BYTES if isinstance(value[0], int) else sum(map(size_of, value))
        return _NUMBER_BYTES + inner
    return _NUMBER_BYTES
