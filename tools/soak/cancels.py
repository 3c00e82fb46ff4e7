"""Seeded cancellations and failures: `python -m tools.soak cancels [--seconds N] [--seed S] [--bootstrap …]`.

In each round, tasks use a producer and a consumer with random options, and are cancelled at any await. Meanwhile,
connections break, the broker is stopped, continued or killed, and callbacks, partitioners and listeners raise. The soak
counts missing acknowledged records, records that were never handed out, deliveries that were settled late or never,
calls that ended after their limit, and leftover tasks and threads. Each round prints its seed; `--rounds 1` with that
seed repeats the round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from random import Random
from typing import Any

from kafkawire import Admin, Consumer, NewTopic, Producer, Record, TopicPartition
from kafkawire.errors import BufferFull, KafkaWireError
from kafkawire.sdk.producer.engine import Delivery
from tools.soak.weather import BrokerProcess, StormyNetwork

__all__ = ["Round", "main"]

PARTITIONS = 3

#: Duration of the injected faults in each round.
STORM_SECONDS = 5.0

#: How long after its limit a call or a delivery may end, in addition to the event loop's own delay.
GRACE_MS = 100

#: The time in which everything must finish after the faults.
CALM_SECONDS = 60

#: The time limit for calls that have no limit of their own.
API_TIMEOUT_MS = 2_000


class Round:
    """One round: its clients, their input and their output.

    Args:
        bootstrap: the broker.
        broker: its process; None if it must not be stopped.
        seed: determines everything except the timing.

    Attributes:
        faults: the failures, keyed by kind.
        counts: the numbers of operations.
    """

    def __init__(self, bootstrap: str, broker: BrokerProcess | None, seed: str) -> None:
        self._bootstrap = bootstrap
        self._broker = broker
        self._random = Random(seed)
        self._topic = "cancels-" + seed
        self._network = StormyNetwork(Random(seed + "network"))
        choice = self._random.choice
        self._delivery_timeout_ms = choice([1_500, 3_000])
        common: dict[str, Any] = {
            "io": choice(["loop", "thread"]),
            "request_timeout_ms": choice([300, 1_000]),
            "connect_timeout_ms": 500,
            "api_timeout_ms": API_TIMEOUT_MS,
            "retry_backoff_ms": choice([5, 50]),
            "retry_backoff_max_ms": 200,
        }
        self._producer_options = common | {
            "acks": choice(["all", 1]),
            "linger_ms": choice([0, 5, 50]),
            "batch_size": choice([256, 16_384]),
            "buffer_memory": choice([65_536, 33_554_432]),
            "compression": choice(["none", "gzip"]),
            "max_in_flight": choice([1, 5]),
            "delivery_timeout_ms": self._delivery_timeout_ms,
            "partitioner": self._partition,
        }
        self._group = choice([None, self._topic])
        self._consumer_options = common | {
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": choice([10, 100]),
            "max_partition_fetch_bytes": choice([500, 1_048_576]),
        }
        if self._group is not None:
            self._consumer_options |= {
                "group_id": self._group,
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 300,
                "auto_commit_interval_ms": 50,
                "assignors": choice(["range", "cooperative-sticky"]),
            }
        self._way = choice(["record", "getmany", "getbatches", "batches"])
        self._storms = True
        self._has_produced = asyncio.Event()
        self._ends_read: dict[TopicPartition, int] = {}
        self._given: list[tuple[bytes, float, Delivery]] = []
        self._settled: dict[int, float] = {}
        self._found: Counter[tuple[int, int]] = Counter()
        self._lag_ms = 0.0
        self._loops = 2 if common["io"] == "thread" else 1
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Run the round."""
        async with Admin(self._bootstrap) as admin:
            await admin.create_topics(NewTopic(self._topic, PARTITIONS, 1))
        watching = asyncio.create_task(self._watch())
        weather = asyncio.create_task(self._weather())
        await asyncio.gather(self._produce(), self._consume())
        await weather
        await self._check()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.sleep(0.05)
        gc.collect()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            self._fault("tasks left", repr(task))
        named = {thread.name for thread in threading.enumerate() if thread.name.startswith("kafkawire")}
        if left := named - {"kafkawire-log"}:  # begun once handlers are slow, that one serves the rest of the process
            self._fault("threads left", ", ".join(sorted(left)))

    # Faults and time.

    async def _watch(self) -> None:
        """Measure the delay of the event loop, which also delays everything else."""
        while True:
            due = time.monotonic() + 0.01
            await asyncio.sleep(0.01)
            self._lag_ms = max(self._lag_ms, (time.monotonic() - due) * 1000 * self._loops)

    async def _weather(self) -> None:
        self._network.storm = self._random.choice([0, 0.05, 0.2])
        end = time.monotonic() + STORM_SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(self._random.choice([0.02, 0.1, 0.5]))
            happening = self._random.random()
            if happening < 0.5:
                self._network.cut()
            elif happening < 0.65 and self._broker is not None:
                self._broker.signal(signal.SIGSTOP)
                self.counts["stops"] += 1
                await asyncio.sleep(self._random.choice([0.1, 0.6, 2.5]))
                self._broker.signal(signal.SIGCONT)
            elif happening < 0.68 and self._broker is not None:
                self._broker.kill()
                self.counts["kills"] += 1
                await asyncio.to_thread(self._broker.start)
        self._network.storm = 0
        self._storms = False

    # Calls.

    async def _call(self, name: str, made: Awaitable[Any], limit_ms: float | None = None) -> Any:
        """Await a call within its limit, and sometimes cancel it; count errors that the call should not raise."""
        task = asyncio.ensure_future(made)
        begun = time.monotonic()
        cancelled = None
        if self._storms and self._random.random() < 0.4:
            for _ in range(self._random.choice([0, 1, 3, 10])):
                await asyncio.sleep(0)
            if not task.done() and self._random.random() < 0.5:
                await asyncio.wait([task], timeout=self._random.choice([0.001, 0.01, 0.1, 0.5]))
            if not task.done():
                task.cancel()
                cancelled = time.monotonic()
                self.counts["cancels"] += 1
        longest = CALM_SECONDS if limit_ms is None else limit_ms / 1000 + 5
        await asyncio.wait([task], timeout=longest)
        since, allowed_ms = (cancelled, 0) if cancelled is not None else (begun, limit_ms)
        took_ms = (time.monotonic() - since) * 1000
        if took_ms > GRACE_MS:
            await asyncio.sleep(0.02)  # the event loop may have been delayed; let that be measured first
        if allowed_ms is not None and took_ms > allowed_ms + GRACE_MS + self._lag_ms:
            what = "after a cancel" if cancelled is not None else f"limit {limit_ms:.0f} ms"
            self._fault("late calls", f"{name}: {took_ms:.0f} ms, {what}, lag {self._lag_ms:.0f} ms")
        if not task.done():
            self._fault("calls without an end", name)
            task.cancel()
            return None
        if task.cancelled():
            return None
        error = task.exception()
        self.counts[name] += 1
        if error is None:
            return task.result()
        if not isinstance(error, KafkaWireError | _Planned):
            self._fault("defects", f"{name}: {error!r}")
        if "defect" in str(error):
            self._fault("defects", f"{name}: {error}")
        return None

    def _fault(self, kind: str, text: str) -> None:
        self.faults[kind] += 1
        print(f"  {self._topic}: {kind}: {text}", flush=True)

    # The producer.

    def _partition(self, key: bytes, partitions: int) -> int:
        fate = key[0] % 50
        if fate == 1:
            raise _Planned
        return partitions if fate == 2 else key[0] % partitions

    def _on_delivery(self, delivery: Delivery) -> None:
        if id(delivery) in self._settled:
            self._fault("settled twice", repr(delivery))
        self._settled[id(delivery)] = time.monotonic()
        if len(self._settled) % 97 == 0:
            raise _Planned

    def _send(self, producer: Producer, number: int) -> None:
        value = b"%d " % number + b"x" * self._random.choice([1, 100, 1_000])
        key = self._random.choice([None, bytes([self._random.randrange(256)])])
        try:
            delivery = producer.send(self._topic, value, key=key, on_delivery=self._on_delivery)
        except BufferFull:
            self.counts["full"] += 1
        except (KafkaWireError, _Planned) as error:
            self.counts[type(error).__name__] += 1
        else:
            self._given.append((value, time.monotonic(), delivery))

    async def _started(self, made: Callable[[], Any]) -> Any:
        while True:
            client = made()
            await self._call("start", client.start(), API_TIMEOUT_MS)
            if client._core is not None:
                return client
            await asyncio.sleep(0.02)

    async def _produce(self) -> None:
        options = self._producer_options
        producer = await self._started(lambda: Producer(self._bootstrap, network=self._network, **options))
        number = 0
        while self._storms:
            for _ in range(self._random.choice([1, 20, 200])):
                self._send(producer, number)
                number += 1
            await asyncio.sleep(self._random.choice([0, 0.001, 0.02]))
            fate = self._random.random()
            if fate < 0.1 and self._given:
                await self._call("delivery", _awaited(self._given[-1][2]), self._delivery_timeout_ms)
            elif fate < 0.2:
                await self._call("flush", producer.flush(), self._delivery_timeout_ms)
            elif fate < 0.3:
                await self._call("drain", producer.drain(), self._delivery_timeout_ms)
            elif fate < 0.4:
                await self._call("send_many", producer.send_many(self._topic, [b"many"] * 50))
        limit_ms = self._random.choice([50, 500])
        if self._random.random() < 0.5:
            await self._paused("close", producer.close(timeout_ms=limit_ms), limit_ms)
        elif self._random.random() < 0.5:
            await self._paused("close", producer.close(flush=False), 0)
        else:
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(self._random.choice([0, 0.001, 0.1]))
            closing.cancel()
            await self._paused("cancelled close", closing, 0)
        if unsettled := len(self._given) - len(self._settled):
            await asyncio.sleep(0.1)  # callbacks run one turn later
            if unsettled := len(self._given) - len(self._settled):
                self._fault("unsettled deliveries", f"{unsettled} after close")
        self._has_produced.set()

    async def _paused(self, name: str, call: Awaitable[Any], limit_ms: float) -> None:
        """Make a call, sometimes while the broker is stopped."""
        stops = self._broker is not None and self._random.random() < 0.5
        if stops and self._broker is not None:
            self._broker.signal(signal.SIGSTOP)
        await self._call(name, call, limit_ms)
        if stops and self._broker is not None:
            self._broker.signal(signal.SIGCONT)

    # The consumer.

    def _note(self, records: list[Record]) -> None:
        for record in records:
            self._found[record.partition, record.offset] += 1

    async def _read(self, consumer: Consumer) -> None:
        """Read once; await nothing between the end of the read and the counting."""
        if self._way == "record":
            self._note([await anext(aiter(consumer))])
        elif self._way == "getmany":
            for records in (await consumer.getmany(100, self._random.choice([1, 50]))).values():
                self._note(records)
        elif self._way == "getbatches":
            for batch in await consumer.getbatches(100):
                self._note(list(batch))
        else:
            async for batch in consumer.batches():
                self._note(list(batch))
                break

    async def _read_for_100_ms(self, consumer: Consumer) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await self._read(consumer)

    async def _consumer(self) -> Consumer:
        topics = () if self._group is None else (self._topic,)

        def made() -> Consumer:
            listener = None if self._group is None else _Listener(self._random)
            options = self._consumer_options
            consumer = Consumer(self._bootstrap, *topics, listener=listener, network=self._network, **options)
            if self._group is None:
                consumer.assign([TopicPartition(self._topic, number) for number in range(PARTITIONS)])
            return consumer

        started: Consumer = await self._started(made)
        return started

    async def _consume(self) -> None:
        consumer = await self._consumer()
        while self._storms:
            await self._call(self._way, self._read_for_100_ms(consumer), 100)
            fate = self._random.random()
            partition = TopicPartition(self._topic, self._random.randrange(PARTITIONS))
            if fate < 0.02:
                await self._call("position", consumer.position(partition), API_TIMEOUT_MS)
            elif fate < 0.04:
                await self._call("end_offsets", consumer.end_offsets([partition]), API_TIMEOUT_MS)
            elif fate < 0.1 and self._group is not None:
                await self._call("commit", consumer.commit(timeout_ms=300), 300)
            elif fate < 0.12 and self._group is not None:
                await self._call("committed", consumer.committed(partition), API_TIMEOUT_MS)
            elif fate < 0.13 and self._group is not None:
                await self._paused("consumer close", consumer.close(timeout_ms=500), 500)
                with suppress(Exception):  # a cancelled close continues where it stopped
                    await consumer.close(timeout_ms=500)
                consumer = await self._consumer()
        await self._finish(consumer)

    async def _finish(self, consumer: Consumer) -> None:
        """Read the remaining records without faults; if a listener raises, replace its consumer."""
        await self._has_produced.wait()  # from now on, all acknowledged records are before the ends
        deadline = time.monotonic() + CALM_SECONDS
        self._ends_read = await self._ends()
        while self._missing(self._ends_read) and time.monotonic() < deadline:
            try:
                async with asyncio.timeout(1):
                    for _ in range(1_000):
                        await self._read(consumer)
            except TimeoutError:
                pass
            except _Planned:
                await asyncio.gather(consumer.close(timeout_ms=500), return_exceptions=True)
                consumer = await self._consumer()
        await self._paused("consumer close", consumer.close(timeout_ms=500), 500)
        await asyncio.gather(consumer.close(timeout_ms=500), return_exceptions=True)

    async def _ends(self) -> dict[TopicPartition, int]:
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        async with Consumer(self._bootstrap) as reader:
            return await reader.end_offsets(partitions)

    def _missing(self, ends: dict[TopicPartition, int]) -> list[tuple[int, int]]:
        places = ((each.partition, offset) for each, end in ends.items() for offset in range(end))
        return [place for place in places if place not in self._found]

    # The result.

    async def _check(self) -> None:
        """Compare the acknowledged records with those that were stored, and with those that were read."""
        stored: dict[tuple[int, int], bytes | None] = {}
        async with Consumer(self._bootstrap, self._topic, auto_offset_reset="earliest") as reader:
            async for record in reader.records(stop_at_end=True):
                stored[record.partition, record.offset] = record.value
        for value, sent, delivery in self._given:
            settled = self._settled.get(id(delivery))
            took_ms = ((settled or sent) - sent) * 1000
            if took_ms > self._delivery_timeout_ms + GRACE_MS + self._lag_ms:
                self._fault("late deliveries", f"{took_ms:.0f} ms of {self._delivery_timeout_ms}")
            if delivery.done and delivery.exception() is None:
                place = await delivery
                self.counts["acknowledged"] += 1
                if stored.get((place.partition, place.offset)) != value:
                    self._fault("lost records", f"{value[:20]!r} acknowledged at {place}")
        self.counts["stored"] += len(stored)
        unread = self._missing(self._ends_read)
        if unread:
            first = f"the first {unread[:3]}"
            self._fault("unread records", f"{len(unread)}, {first}, way {self._way}, group {self._group}")
        twice = [place for place, times in self._found.items() if times > 1]
        if twice and self._group is None:
            self._fault("records read twice", f"{len(twice)}, the first {twice[:3]}, way {self._way}")


class _Planned(Exception):
    """The error that callbacks, partitioners and listeners raise."""


class _Listener:
    """A listener that is slow and sometimes fails."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await self._called()

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._called()

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        pass

    async def _called(self) -> None:
        await asyncio.sleep(self._random.choice([0, 0.01]))
        if self._random.random() < 0.05:
            raise _Planned


async def _awaited(delivery: Delivery) -> None:
    await delivery


def main(arguments: list[str]) -> int:
    """Run rounds for a given time, and return the exit status, which is 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak cancels")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--bootstrap", help="the broker to use, which is not stopped; by default, the reference broker")
    given = parser.parse_args(arguments)
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    end = time.monotonic() + given.seconds
    number = 0
    with ExitStack() as stack:
        broker = None if given.bootstrap else stack.enter_context(BrokerProcess())
        while number < given.rounds and time.monotonic() < end:
            seed = given.seed if number == 0 else f"{given.seed}-{number}"
            current = Round(given.bootstrap or (broker.bootstrap if broker else ""), broker, seed)
            asyncio.run(current.run())
            faults += current.faults
            counts += current.counts
            number += 1
            print(f"round {seed}: {sum(current.faults.values())} faults", flush=True)
    print(f"cancels: {number} rounds; " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common()))
    print("cancels: " + (", ".join(f"{name} {count:,}" for name, count in faults.items()) or "0 faults"))
    return 1 if faults else 0
