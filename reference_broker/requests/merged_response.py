"""Parts of one response that come from several shards, each in its own time.

What a request names more than once is asked about once, and the same part answers each; as in Kafka, there are as many
as there are names. So a kilobyte could ask for any number of megabytes: what is repeated is limited.
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

__all__ = ["Gathering", "Repetitions", "collect", "gather", "size_of"]

A = TypeVar("A", bound=Hashable)
P = TypeVar("P")
PartMessage = TypeVar("PartMessage", bound=Message)

#: A number, or the length of what has one.
_NUMBER_BYTES = 4


class Gathering(Generic[P]):
    """Waits for all parts.

    Args:
        count: how many there are; 0 completes at once.
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
    """Counts the bytes of a response that are in it because a client names things again.

    Args:
        call: the context of the request.
    """

    def __init__(self, call: Call) -> None:
        self._limit_bytes = call.services.repeated_bytes_max
        self._bytes = 0

    def add(self, size_bytes: int) -> None:
        """Add bytes.

        Raises:
            BrokerError: POLICY_VIOLATION, they are too many.
        """
        self._bytes += size_bytes
        if self._bytes > self._limit_bytes:
            reason = f"The response would repeat more than {self._limit_bytes} bytes: name everything once."
            raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)


def collect(
    call: Call,
    asked: Iterable[A],
    ask: Callable[[A, Callable[[P], None]], None],
    respond: Callable[[Mapping[A, P]], Work[Message]],
) -> Work[Message | DelayedOperation]:
    """Answer a request that asks about any number of things.

    Args:
        call: the context of the request.
        asked: what it asks about, nothing twice.
        ask: asks about one thing, and passes on its part of the response when it is known.
        respond: returns the response from all parts.
    """
    delayed = DelayedOperation()
    parts: dict[A, P] = {}
    unknown = 1  # until all is asked

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


def gather(
    call: Call,
    asked: Sequence[A],
    ask: Callable[[A, Callable[[PartMessage], None]], None],
    respond: Callable[[list[PartMessage]], Message],
) -> Work[Message | DelayedOperation]:
    """Answer a request that asks about any number of things, some of them more than once.

    Args:
        call: the context of the request.
        asked: what it asks about.
        ask: see `collect`.
        respond: returns the response with a part for each, in order.

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
    """Return about how many bytes a part of a response takes."""
    if isinstance(value, Message):
        return sum(size_of(getattr(value, field.name)) for field in value.FIELDS)
    if isinstance(value, str | bytes):
        return _NUMBER_BYTES + len(value)
    if isinstance(value, list | tuple) and value:
        inner = len(value) * _NUMBER_BYTES if isinstance(value[0], int) else sum(map(size_of, value))
        return _NUMBER_BYTES + inner
    return _NUMBER_BYTES
