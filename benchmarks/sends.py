"""Measure the cost of one `send` call, compared with confluent-kafka's `produce`, without a broker.

The records have 100 B, for three partitions, without a key and with an 8-byte key. For kafkawire, the time includes
everything in the caller's thread: a `Delivery` for each record, and opening, filling, sealing and settling batches. For
confluent-kafka, it is the time to enqueue a record without a callback; a separate thread creates the batches later,
which is not measured. For both, the calling loop is included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.goals import Goal
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.producer.producer_topic import ProducerTopic
from kafkawire.sdk.producer.settings import read_producer_options
from kafkawire.sdk.routing.retry import Backoff

__all__ = ["KEYED", "KEYLESS", "Result", "goals", "measure", "tables"]

KEYLESS = "without a key"
KEYED = "with a key of 8 bytes"

#: Time limits for a call in nanoseconds, keyed by case.
_LIMITS_NS = {KEYLESS: 110, KEYED: 180}

_OURS = "kafkawire send"
_PEER = "confluent-kafka produce"

_RECORDS = 20_000
_PARTITIONS = 3
_KEYS = 5_000
_BATCH_BYTES = 262_144
_TOPIC = "t"
_NANOSECONDS = 1_000_000_000

#: Sends records with the given keys, and returns how many seconds that took.
Sends = Callable[[Sequence[bytes] | None], float]


class Result(NamedTuple):
    """The cost of a call.

    Attributes:
        name: the name of the case.
        nanoseconds: the time of one call, keyed by client.
    """

    name: str
    nanoseconds: dict[str, float]


def measure(seconds: float = 0.2, rounds: int = 15) -> list[Result]:
    """Measure all clients, which take turns.

    Args:
        seconds: the time per client and case, over all rounds; each round sends at least `_RECORDS` records.
        rounds: how many turns each client gets.
    """
    clients: dict[str, Sends] = {_OURS: _ours()}
    if peer := _peer():
        clients[_PEER] = peer
    keys = [b"%08d" % (number % _KEYS) for number in range(_RECORDS)]
    cases: list[tuple[str, list[bytes] | None]] = [(KEYLESS, None), (KEYED, keys)]
    best = {(case, name): float("inf") for case, _ in cases for name in clients}
    for _ in range(rounds):
        for case, given in cases:
            for name, sends in clients.items():
                spent = 0.0
                while spent < seconds / rounds:
                    took = sends(given)
                    spent += took
                    best[case, name] = min(best[case, name], took)
    return [Result(case, {name: best[case, name] / _RECORDS * _NANOSECONDS for name in clients}) for case, _ in cases]


def _ours() -> Sends:
    options = read_producer_options("127.0.0.1:9092", {"batch_size": _BATCH_BYTES})
    value = os.urandom(100)

    def settle() -> None:
        """Process a full batch as if it had been sent and acknowledged, without sending it."""
        news = accumulator.news
        while news:
            item = news.popleft()
            if isinstance(item, PartitionQueue):
                item.gather()
                while item.waiting and item.waiting[0].is_closed:
                    batch = item.waiting.popleft()
                    accumulator.close(batch)
                    batch.sealed()
                    accumulator.release(batch.kept_bytes)
                    batch.outcome.settle(0)

    accumulator = Accumulator(options, Backoff(1, 1, lambda: 0.0), lambda: 0, lambda topic, number: True, settle)
    topic = accumulator.topics[_TOPIC] = ProducerTopic(_TOPIC)
    accumulator.place_held(topic, _PARTITIONS, lambda before, after: None, lambda outcome: None)
    send = accumulator.appender.send

    def sends(keys: Sequence[bytes] | None) -> float:
        start = perf_counter()
        if keys is None:
            for _ in range(_RECORDS):
                send(_TOPIC, value)
        else:
            for key in keys:
                send(_TOPIC, value, key=key)
        return perf_counter() - start

    return sends


def _peer() -> Sends | None:
    try:
        from confluent_kafka import Producer
    except ImportError as error:
        print(f"{_PEER} skipped: {error}")
        return None
    # Nothing listens at this address, so records stay in the queue, which is purged after each round.
    settings: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda error: None}
    producer = Producer(settings)
    value = os.urandom(100)
    produce = producer.produce

    def sends(keys: Sequence[bytes] | None) -> float:
        start = perf_counter()
        if keys is None:
            for _ in range(_RECORDS):
                produce(_TOPIC, value)
        else:
            for key in keys:
                produce(_TOPIC, value, key)
        took = perf_counter() - start
        producer.purge()
        producer.flush(10)
        return took

    return sends


def goals(results: Iterable[Result]) -> list[Goal]:
    """Return the goals: the time limit for a call divided by the measured time."""
    return [
        Goal(
            f"send(), {result.name}: {_LIMITS_NS[result.name]} ns over the time of a call",
            1.0,
            {"100 B": _LIMITS_NS[result.name] / result.nanoseconds[_OURS]},
        )
        for result in results
    ]


def tables(results: list[Result]) -> str:
    """Return the results as a Markdown table."""
    names = list(results[0].nanoseconds)
    lines = [f"| record of 100 B | {' | '.join(f'{name} ns' for name in names)} |", "|---|" + "--:|" * len(names)]
    for result in results:
        cells = [f"{result.nanoseconds[name]:,.0f}" for name in names]
        lines.append(f"| {result.name} | {' | '.join(cells)} |")
    return "\n".join(lines)
