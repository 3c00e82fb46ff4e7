"""Copy a topic exactly once despite crashes: `python -m tools.soak transactions [--seconds N] [--seed S] …`.

The cluster consists of three nodes of Apache Kafka. A feeder writes numbered records. Worker processes read them as one
group and write them to another topic, in transactions that include the offsets. Depending on the seed, workers are
killed, or stopped for longer than their session, and restarted; transactions are abandoned halfway; and brokers are
killed and restarted, one after another. At the end, readers of committed records must find each number in the other
topic exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from random import Random

from kafkawire import Admin, Consumer, NewTopic, Producer, Record, TopicPartition
from kafkawire.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_VERSION_FEATURE
from tests.kafka.apache import run_tool
from tests.kafka.cluster import NODES, KafkaCluster

__all__ = ["Soak", "Worker", "main", "run"]

SOURCE, TARGET, GROUP = "soak-source", "soak-target", "soak"
PARTITIONS = 6
WORKERS = 3

#: The number of records that the feeder writes per second, with which the workers keep up between faults.
RECORDS_PER_SECOND = 1_000

#: The session timeout of workers; a stopped worker stays away longer.
SESSION_TIMEOUT_MS = 6_000
STOPPED_SECONDS = 9.0

#: The range of times between two faults.
FAULT_SECONDS = (1.0, 5.0)
#: One fault in this many kills a broker, and one stops a worker; the others kill workers.
FAULT_KINDS = 6
#: How long a broker is down.
BROKER_AWAY_SECONDS = 6.0

#: One transaction in this many is abandoned by the application.
GIVEN_UP_ONE_IN = 40

#: The time after the last fault for copying the rest, which has to wait for sessions and transactions to time out.
CALM_SECONDS = 120.0


class GivenUp(Exception):
    """The application abandoned a transaction."""


class Worker:
    """Copy records in transactions until SIGTERM; after any error, continue from the committed offsets.

    Args:
        bootstrap: the address of the cluster.
        name: the transactional id.
        protocol: the group protocol.
        seed: determines which transactions are abandoned.
    """

    def __init__(self, bootstrap: str, name: str, protocol: str, seed: str) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._protocol = protocol
        self._random = Random(seed)
        self._is_ending = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Work until SIGTERM; replace a producer in a fatal state."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._is_ending.set)
        session = {} if self._protocol == "consumer" else {"session_timeout_ms": SESSION_TIMEOUT_MS}
        while not self._is_ending.is_set():
            try:
                async with AsyncExitStack() as stack:
                    consumer = await stack.enter_async_context(
                        Consumer(
                            self._bootstrap,
                            SOURCE,
                            group_id=GROUP,
                            group_protocol=self._protocol,  # type: ignore[arg-type]  # a choice of the command line
                            auto_offset_reset="earliest",
                            enable_auto_commit=False,
                            isolation_level="read_committed",
                            **session,  # type: ignore[arg-type]  # not for KIP-848 groups
                        )
                    )
                    producer = await stack.enter_async_context(
                        Producer(self._bootstrap, transactional_id=self._name, transaction_timeout_ms=20_000)
                    )
                    await self._copy(consumer, producer)
            except KafkaWireError as error:
                self.counts[f"started again after {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)

    async def _copy(self, consumer: Consumer, producer: Producer) -> None:
        while not self._is_ending.is_set():
            records = await consumer.getmany(500, 200)
            if not records:
                continue
            try:
                group = consumer.group_metadata()
                async with producer.transaction() as transaction:
                    for partition, batch in records.items():
                        for record in batch:
                            producer.send(TARGET, record.value, partition=partition.partition)
                    await transaction.send_offsets(_next_offsets(records), group)
                    if not self._random.randrange(GIVEN_UP_ONE_IN):
                        raise GivenUp
            except (GivenUp, KafkaWireError) as error:
                self.counts[type(error).__name__] += 1
                if isinstance(error, KafkaWireError) and error.fatal:
                    raise
                await self._rewind(consumer)
            else:
                self.counts["committed"] += 1

    async def _rewind(self, consumer: Consumer) -> None:
        """Return to the committed offsets, to read uncommitted records again."""
        assigned = consumer.assignment
        committed = await consumer.committed(*assigned)
        for partition in assigned & consumer.assignment:
            if partition in committed:
                consumer.seek(partition, committed[partition].offset)
            else:
                consumer.seek_to_beginning(partition)


def _next_offsets(records: Mapping[TopicPartition, list[Record]]) -> dict[TopicPartition, int]:
    return {partition: batch[-1].offset + 1 for partition, batch in records.items()}


class Soak:
    """The cluster, the feeder, the worker processes, and the faults.

    Args:
        cluster: the cluster of three nodes.
        protocol: the group protocol.
        seed: determines the faults.

    Attributes:
        counts: the numbers of operations.
    """

    def __init__(self, cluster: KafkaCluster, protocol: str, seed: int) -> None:
        self._cluster = cluster
        self._protocol = protocol
        self._seed = seed
        self._random = Random(seed)
        self._workers: dict[int, asyncio.subprocess.Process] = {}
        self._starts = 0
        self._fed = 0
        self.counts: Counter[str] = Counter()

    async def run(self, seconds: float) -> Counter[str]:
        """Run for a period of faults, copy the rest, and return the failures, keyed by kind."""
        async with Admin(self._cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic(SOURCE, PARTITIONS, 3), NewTopic(TARGET, PARTITIONS, 3)])
        end = time.monotonic() + seconds
        try:
            for number in range(WORKERS):
                await self._start(number)
            await asyncio.gather(self._feed(end), self._break(end))
            is_done = await self._await_copy()
        finally:
            await self._stop()
        faults = await self._compare()
        if not is_done:
            faults["not copied in time"] += 1
        return faults

    async def _feed(self, end: float) -> None:
        """Write numbers; when this method returns, all of them have been acknowledged."""
        async with Producer(self._cluster.bootstrap, delivery_timeout_ms=300_000) as producer:
            while time.monotonic() < end:
                for _ in range(RECORDS_PER_SECOND // 20):
                    producer.send(SOURCE, b"%d" % self._fed, partition=self._fed % PARTITIONS)
                    self._fed += 1
                await asyncio.sleep(0.05)
            await producer.flush()

    async def _break(self, end: float) -> None:
        """Kill and stop processes, depending on the seed, until the time is up; at the end, all are running."""
        restarts: list[asyncio.Task[None]] = []
        while time.monotonic() < end:
            await asyncio.sleep(self._random.uniform(*FAULT_SECONDS))
            kind, number = self._random.randrange(FAULT_KINDS), self._random.randrange(WORKERS)
            if kind == 0 and all(task.done() for task in restarts):  # two of the three nodes must be up
                restarts.append(asyncio.create_task(self._restart(self._random.choice(NODES))))
            elif kind == 1:
                restarts.append(asyncio.create_task(self._suspend(number)))
            else:
                await self._kill(number)
                await self._start(number)
        await asyncio.gather(*restarts)

    async def _restart(self, node: int) -> None:
        self.counts["brokers killed"] += 1
        await asyncio.to_thread(self._cluster.kill, node)
        await asyncio.sleep(BROKER_AWAY_SECONDS)
        await asyncio.to_thread(self._cluster.restart, node)

    async def _suspend(self, number: int) -> None:
        process = self._workers[number]
        self.counts["workers stopped"] += 1
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(STOPPED_SECONDS)
            process.send_signal(signal.SIGCONT)

    async def _start(self, number: int) -> None:
        self._starts += 1
        arguments = (
            "worker",
            self._cluster.bootstrap,
            f"soak-{number}",
            self._protocol,
            f"{self._seed}-{self._starts}",
        )
        self._workers[number] = await asyncio.create_subprocess_exec(sys.executable, "-m", __spec__.name, *arguments)

    async def _kill(self, number: int) -> None:
        self.counts["workers killed"] += 1
        with suppress(ProcessLookupError):
            self._workers[number].kill()
        await self._workers[number].wait()

    async def _stop(self) -> None:
        for process in self._workers.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        try:
            async with asyncio.timeout(30):
                await asyncio.gather(*(process.wait() for process in self._workers.values()))
        except TimeoutError:
            self.counts["workers that did not end"] += 1
            for number in self._workers:
                await self._kill(number)

    async def _await_copy(self) -> bool:
        """Wait until the group has committed everything; return whether it has."""
        places = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + CALM_SECONDS
        async with Consumer(self._cluster.bootstrap, group_id=GROUP, enable_auto_commit=False) as watcher:
            ends = await watcher.end_offsets(places)
            while time.monotonic() < deadline:
                committed = await watcher.committed(*places)
                if all(place in committed and committed[place].offset >= ends[place] for place in places):
                    return True
                await asyncio.sleep(0.5)
        return False

    async def _compare(self) -> Counter[str]:
        """Return how many numbers in the copy are missing, duplicated or unknown."""
        found: Counter[int] = Counter()
        reader = Consumer(
            self._cluster.bootstrap, TARGET, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        async with reader, asyncio.timeout(CALM_SECONDS):
            async for record in reader.records(stop_at_end=True):
                found[int(record.value or b"-1")] += 1
        self.counts["fed"], self.counts["found"] = self._fed, found.total()
        return +Counter(
            {
                "missing": sum(number not in found for number in range(self._fed)),
                "doubled": sum(times - 1 for times in found.values()),
                "unknown": sum(not 0 <= number < self._fed for number in found),
            }
        )


async def run(
    seconds: float, seed: int, protocol: str = "classic", version: int = 2
) -> tuple[Counter[str], Counter[str]]:
    """Run one soak on its own cluster; return the numbers of failures and of operations, keyed by kind.

    Args:
        seconds: the duration of the faults.
        seed: determines the faults.
        protocol: the group protocol, classic or consumer.
        version: the level of transaction.version.
    """
    with KafkaCluster() as cluster:
        tool = "org.apache.kafka.tools.FeatureCommand"
        level = f"{TRANSACTION_VERSION_FEATURE}={version}"
        way = "upgrade" if version > 1 else "downgrade"
        await asyncio.to_thread(run_tool, tool, "--bootstrap-server", cluster.bootstrap, way, "--feature", level)
        soak = Soak(cluster, protocol, seed)
        return await soak.run(seconds), soak.counts


def main(arguments: list[str]) -> int:
    """Run the soak, or one of its workers, and return the exit status, which is 1 if anything went wrong."""
    logging.getLogger("kafkawire").setLevel(logging.CRITICAL)  # every fault would log a page of text
    if arguments[:1] == ["worker"]:
        worker = Worker(*arguments[1:])
        asyncio.run(worker.run())
        print(f"{arguments[2]}: " + ", ".join(f"{name} {count:,}" for name, count in worker.counts.most_common()))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tools.soak transactions")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--version", type=int, choices=(1, 2), default=2, help="transaction version")
    given = parser.parse_args(arguments)
    faults, counts = asyncio.run(run(given.seconds, given.seed, given.protocol, given.version))
    print("transactions: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    wrong = ", ".join(f"{name} {count:,}" for name, count in faults.items())
    print(f"transactions: {wrong or 'each record once'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
