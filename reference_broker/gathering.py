"""Parts of one response that come from several shards, each in its own time.

A request may ask about a hundred thousand things: after some of them, other requests have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import Generic, NoReturn, TypeVar

from kafkawire.reference_broker.apis.registry import Call
from kafkawire.reference_broker.broker_end import BrokerEnd
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.schema import Message

__all__ = ["AT_A_TIME", "Gathering", "gather"]

A = TypeVar("A")
P = TypeVar("P")

#: So many groups can be asked about in a few milliseconds.
AT_A_TIME = 500


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


def gather(
    call: Call,
    asked: Collection[A],
    ask: Callable[[A, Callable[[P], None]], None],
    respond: Callable[[list[P]], Message],
    at_a_time: int = AT_A_TIME,
) -> DelayedOperation:
    """Answer a request that asks about any number of things.

    Args:
        call: the context of the request.
        asked: what it asks about.
        ask: asks about one thing, and passes on the part of the response when it is known.
        respond: returns the response with all parts, in order.
        at_a_time: after how many of them other requests have their turn.
    """
    delayed = DelayedOperation()
    parts = Gathering[P](len(asked), lambda found: delayed.complete(respond(found)))

    def in_turns() -> Generator[None, None, None]:
        try:
            for number, each in enumerate(asked):
                if number and not number % at_a_time:
                    yield
                ask(each, partial(parts.put, number))
        except (BrokerEnd, GeneratorExit):
            raise
        except BaseException as error:
            delayed.complete_by(partial(_fail, error))

    call.core.slices.begin(in_turns(), lambda: not delayed.is_cancelled, _ignore, call.now_ms)
    return delayed


def _fail(error: BaseException) -> NoReturn:
    raise error


def _ignore(result: None, now_ms: int) -> None:
    """What was asked is answered by then, or waits for a shard."""
