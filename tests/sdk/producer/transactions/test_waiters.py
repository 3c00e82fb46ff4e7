"""Each promise is settled once: at the end, with the error that it should report, or at its limit."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut, TransactionAborted
from kafkawire.sdk.producer.transactions.waiters import TransactionWaiters
from kafkawire.sdk.transport.promise import Promise


def waiting(*limits: tuple[int, bool]) -> tuple[TransactionWaiters, list[Promise[None]]]:
    waiters, promises = TransactionWaiters(), []
    for timeout_ms, hears in limits:
        promises.append(Promise[None]())
        waiters.add(promises[-1], timeout_ms, 1_000, hears=hears)
    return waiters, promises


def test_the_end() -> None:
    waiters, (hearing, deaf) = waiting((10, True), (10, False))
    waiters.ended(TransactionAborted("over"))
    with pytest.raises(TransactionAborted):
        hearing.wait(0)
    deaf.wait(0)
    assert waiters.due_ms() is None


def test_limits() -> None:
    waiters, (early, late) = waiting((10, True), (20, False))
    assert waiters.due_ms() == 1_010
    waiters.expire(1_009, lambda timeout_ms: RequestTimedOut(str(timeout_ms)))
    assert not early.done
    waiters.expire(1_010, lambda timeout_ms: RequestTimedOut(str(timeout_ms)))
    with pytest.raises(RequestTimedOut, match=r"^10$"):
        early.wait(0)
    assert (late.done, waiters.due_ms()) == (False, 1_020)
    waiters.ended(None)
    late.wait(0)


def test_all_fail() -> None:
    waiters, promises = waiting((10, True), (10, False))
    waiters.fail(KafkaWireError("gone"))
    for promise in promises:
        with pytest.raises(KafkaWireError, match="gone"):
            promise.wait(0)
    assert waiters.due_ms() is None
