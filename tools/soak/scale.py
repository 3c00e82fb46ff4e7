"""Compare ten partitions with ten thousand: `python -m tools.soak scale [--seconds N] [--partitions N] …`.

One process reads ten partitions, and another one reads ten thousand, of which ten get records. In turn, each is idle
for some time and reads the same records; the results are the CPU time per record, and per idle second. In addition, the
records are spread over all partitions, which makes their batches smaller, and the sizes of fetch requests are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from kafkawire import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkawire.errors import BufferFull
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address, Receiver, Wire
from tests.kafka.apache import ApacheKafka

__all__ = ["Reader", "main", "read"]

FEW = 10
RECORDS = 200_000
VALUE = b"x" * 100
ROUNDS = 5

#: The number of partitions per topic, since the controller cannot create all partitions at once.
TOPIC_PARTITIONS = 1_000

#: The time limit for creating the logs, of which a broker creates a few hundred per second.
START_TIMEOUT_MS = 600_000

#: The maximum ratio of the CPU time with many partitions to that with few.
RATIO_MAX = 1.2

#: With the default indexes of 10 MiB each, a small machine cannot map ten thousand logs.
BROKER_SETTINGS = {"log.index.size.max.bytes": "4096", "auto.create.topics.enable": "false"}


class _MeasuringNetwork(TcpNetwork):
    """A TCP transport that records the size of each fetch request."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = lambda state: None,
    ) -> Receiver:
        def measured(wire: Wire) -> Receiver:
            write = wire.write

            def noted(parts: Sequence[Buffer]) -> None:
                if int.from_bytes(bytes(parts[0])[4:6], "big") == ApiKey.FETCH:
                    self.sizes.append(sum(map(len, parts)))
                write(parts)

            wire.write = noted  # type: ignore[method-assign]  # the connection does not write otherwise
            return receiver(wire)

        return await super().open(address, measured, enter)


def places(name: str, count: int) -> list[TopicPartition]:
    """Return the given number of partitions, in as many topics as necessary."""
    return [TopicPartition(f"{name}-{at // TOPIC_PARTITIONS}", at % TOPIC_PARTITIONS) for at in range(count)]


async def read(bootstrap: str, name: str, partitions: int) -> None:
    """Execute the commands on standard input, and answer each with a line of JSON.

    `idle SECONDS` returns the CPU ms per second; `mark` starts counting; `read COUNT` returns the CPU µs per record
    since then; `bytes` returns the sizes of the fetch requests.
    """
    network = _MeasuringNetwork()
    patient = START_TIMEOUT_MS
    async with Consumer(bootstrap, auto_offset_reset="latest", api_timeout_ms=patient, network=network) as consumer:
        assigned = places(name, partitions)
        consumer.assign(assigned)
        for partition in assigned:
            await consumer.position(partition)
        marked = 0.0
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, _, argument = line.strip().partition(" ")
            answer: object = None
            if command == "idle":
                before = time.process_time()
                await asyncio.sleep(float(argument))
                answer = (time.process_time() - before) * 1000 / float(argument)
            elif command == "mark":
                marked = time.process_time()
            elif command == "read":
                left = int(argument)
                async for _ in consumer:
                    left -= 1
                    if not left:
                        break
                answer = (time.process_time() - marked) * 1e6 / int(argument)
            else:
                answer = network.sizes
            print(json.dumps(answer), flush=True)


class Reader:
    """A process that reads a given number of partitions."""

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self.name = name
        command = [sys.executable, "-m", "tools.soak.scale", "--read", bootstrap, name, str(partitions)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> Any:
        """Send a command and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Close the consumer and wait for the process to exit."""
        self._process.communicate(timeout=60)


async def _create(bootstrap: str, counts: dict[str, int]) -> None:
    async with Admin(bootstrap, request_timeout_ms=START_TIMEOUT_MS, api_timeout_ms=START_TIMEOUT_MS) as admin:
        for name, count in counts.items():
            for topic, partitions in Counter(place.topic for place in places(name, count)).items():
                await admin.create_topics(NewTopic(topic, partitions, 1))


async def _produce(bootstrap: str, name: str, count: int, records: int) -> None:
    partitions = places(name, count)
    async with Producer(bootstrap, linger_ms=20) as producer:
        for number in range(records):
            topic, partition = partitions[number % count]
            try:
                producer.send(topic, VALUE, partition=partition)
            except BufferFull:
                await producer.drain()
                producer.send(topic, VALUE, partition=partition)
            if number % 1_000 == 0:
                await asyncio.sleep(0)


def main(arguments: list[str]) -> int:
    """Measure, print the results, and return the exit status, which is 1 if many partitions take too much CPU time."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak scale")
    parser.add_argument("--seconds", type=float, default=60, help="idle time for each of the two processes")
    parser.add_argument("--seed", help="has no effect, since this soak is not random")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--bootstrap", help="address of an Apache Kafka broker; by default, one is started")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(ApacheKafka(settings=BROKER_SETTINGS)).bootstrap
        name = f"scale-{time.time_ns()}"
        counts = {f"{name}-few": FEW, f"{name}-many": given.partitions}
        asyncio.run(_create(bootstrap, counts))
        readers = [Reader(bootstrap, *counted) for counted in counts.items()]
        for reader in readers:
            stack.callback(reader.end)
            reader.ask("idle 1")
        return _measured(bootstrap, readers, given)


def _measured(bootstrap: str, readers: list[Reader], given: argparse.Namespace) -> int:
    idle: list[list[float]] = [[], []]
    per_record: list[list[float]] = [[], []]
    for number in range(ROUNDS + 1):
        for which, reader in enumerate(readers):
            idle_ms = reader.ask(f"idle {given.seconds / ROUNDS}")
            reader.ask("mark")
            asyncio.run(_produce(bootstrap, reader.name, FEW, given.records))
            record_us = reader.ask(f"read {given.records}")
            if number:  # the first round warms up
                idle[which].append(idle_ms)
                per_record[which].append(record_us)
    is_good = True
    for what, values, unit in (("idle", idle, "ms CPU a second"), ("a record", per_record, "µs CPU")):
        few, many = (median(each) for each in values)
        is_good &= many / few <= RATIO_MAX
        print(
            f"scale: {what}: {FEW} partitions {few:.3f}, {given.partitions:,} {many:.3f} {unit}, {many / few:.2f} times"
        )
    sizes = [reader.ask("bytes") for reader in readers]
    for count, each in zip((FEW, given.partitions), sizes, strict=True):
        print(
            f"scale: fetch requests of {count:,} partitions: the largest {max(each):,} bytes, median {median(each):,}"
        )
    few_reader, many_reader = readers
    for reader, partitions in ((few_reader, FEW), (many_reader, given.partitions)):
        reader.ask("mark")
        asyncio.run(_produce(bootstrap, reader.name, partitions, given.records))
        print(f"scale: records spread over {partitions:,}: {reader.ask(f'read {given.records}'):.3f} µs CPU each")
    return 0 if is_good else 1


if __name__ == "__main__":  # started by `Reader`
    asyncio.run(read(sys.argv[2], sys.argv[3], int(sys.argv[4])))
