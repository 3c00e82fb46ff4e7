"""Replies that leave once what a step writes is committed, although the step may give them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.sdk.errors import BrokerError

__all__ = ["held_reply"]

M = TypeVar("M")


def held_reply(
    outbox: Outbox, reply: Callable[[M], None], failed: Callable[[BrokerError], None]
) -> Callable[[M], None]:
    """Return a reply that is held until the records of the step are committed.

    Args:
        outbox: of the step.
        reply: called with what was replied by then, or is replied later; never after an error.
        failed: called with the error that prevents it.
    """
    waiting: list[M] = []
    is_committed = False

    def committed(error: BrokerError | None) -> None:
        nonlocal is_committed
        if error is not None:
            failed(error)
            return
        is_committed = True
        for response in waiting:
            reply(response)

    def answer(response: M) -> None:
        if is_committed:
            reply(response)
        else:
            waiting.append(response)

    outbox.on_committed(committed)
    return answer
