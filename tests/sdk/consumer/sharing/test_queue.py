"""Acquired records arrive in order, and a read that finds nothing asks for more.

Method: use both sides of a queue in one thread.
"""

from __future__ import annotations

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, Ledger
from kafkawire.sdk.consumer.sharing.queue import ShareFetched, ShareQueue
from kafkawire.sdk.routing.partitions import TopicIdPartition


def test_a_queue() -> None:
    woken: list[int] = []
    queue = ShareQueue(lambda: woken.append(1))
    ledger = Ledger(lambda: None, lambda: 0, is_explicit=True)
    acquired = Acquired(TopicIdPartition(b"i" * 16, "t", 0), 1, 1, 30_000, 30_000, ledger)
    first, second = ShareFetched(acquired, (), b"1"), ShareFetched(acquired, (), b"2")
    assert queue.first() is None
    queue.ask()
    waiting = queue.wait()
    assert (queue.is_asked, queue.is_empty, woken) == (True, True, [1])
    queue.put(first)
    queue.put(second)
    queue.signal()
    assert waiting.done
    assert (queue.is_asked, queue.is_empty) == (False, False)
    queue.drop(second)
    assert queue.first() is first
    queue.drop(first)
    queue.drop(first)
    assert queue.first() is second
    queue.clear()
    assert queue.first() is None
    queue.drop(second)
