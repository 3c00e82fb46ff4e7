"""Share a topic among members that crash: `python -m tools.soak shares [--records N] [--seconds S] [--seed S] …`.

Eight processes share six partitions while records are written. Members are killed, stopped for longer than their locks
last, and replaced, and the broker is restarted. Each member writes down what it receives and acknowledges
(`share_member.py`). At the end, the group has no lag, and

- every record was accepted or rejected, or was delivered as often as the group allows;
- no record was delivered again after it had been accepted or rejected, and no delivery was accepted or rejected twice;
- no delivery count exceeds the limit, and none occurs twice for the same record, unless the broker was restarted in
  between: it does not store which records are acquired.

A member that was stopped may accept records too late, which a broker may confirm without any effect; that is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from kafkawire import Admin, ConfigResourceType, NewTopic, Producer
from kafkawire.errors import KafkaWireError
from tests.kafka.apache import ApacheKafka
from tests.ports import free_port
from tools.soak.broker_process import BrokerProcess
from tools.soak.share_member import ENTRY, Event

__all__ = ["Entry", "Restart", "Soak", "judged", "main"]

TOPIC = GROUP = "soak-shares"
PARTITIONS = 6
MEMBERS = 8

#: The group's limits: locks are short, so that those of stopped members run out, and the limit of deliveries is
#: Kafka's default.
LOCK_MS = 3_000
DELIVERIES_MAX = 5

#: How many offsets of a partition may be in delivery; with it, a member's fetch often finds no room.
RECORD_LOCKS_MAX = 2_000

#: How long a member is stopped.
STOPPED_SECONDS = LOCK_MS / 1000 + 1.5

#: How long the broker is away.
AWAY_SECONDS = 1.0

#: The range of times between two faults of members.
FAULT_SECONDS = (0.5, 4.0)

#: The maximum age of what a member writes down: a response may have waited in a socket, or the member was stopped.
LATE_SECONDS = STOPPED_SECONDS + 5.0

#: The time for processing the rest after the last fault.
PATIENCE_SECONDS = 180.0

#: The maximum number of records that the feeder writes at once, so that members and faults get their share of time.
FED_AT_ONCE = 2_000

#: The most memory that the broker may use: several times what it needs for the records in delivery and its caches.
MEMORY_MAX_BYTES = 400 << 20

#: Settings of Apache Kafka that allow these limits, and groups that react as quickly as the reference broker's.
KAFKA_SETTINGS = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.assignment.interval.ms": "0",
}
BROKER_OPTIONS = {
    "group_share_record_lock_duration_ms": LOCK_MS,
    "group_share_heartbeat_interval_ms": 500,
    "group_share_session_timeout_ms": 6_000,
    "group_share_assignment_interval_ms": 0,
}
GROUP_CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.partition.max.record.locks": str(RECORD_LOCKS_MAX),
}


class Entry(NamedTuple):
    """What a member has written down; see `ENTRY`."""

    partition: int
    offset: int
    event: int
    delivery_count: int
    at: float


class Restart(NamedTuple):
    """When the broker was stopped, and when it was up again, on the system's monotonic clock."""

    stopped: float
    up: float


class _Record:
    """What is known about one record.

    Attributes:
        deliveries: the count and the time of each delivery.
        ended: the count and the time of each confirmed acceptance or rejection.
        is_acknowledged: whether it was accepted or rejected, with whatever outcome.
    """

    __slots__ = ("deliveries", "ended", "is_acknowledged")

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, float]] = []
        self.ended: list[tuple[int, float]] = []
        self.is_acknowledged = False


def judged(
    entries: Iterable[Entry], lengths: Mapping[int, int], restarts: Sequence[Restart]
) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of records by what became of them, and of broken promises by kind.

    Args:
        entries: what the members have written down, in any order.
        lengths: the number of records of each partition.
        restarts: the restarts of the broker.
    """
    records = {(partition, offset): _Record() for partition, length in lengths.items() for offset in range(length)}
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for partition, offset, event, count, at in entries:
        record = records.get((partition, offset))
        if record is None:
            faults["delivered, but never written"] += 1
        elif event == Event.DELIVERED:
            record.deliveries.append((count, at))
        elif event == Event.ENDED:
            record.ended.append((count, at))
        else:
            record.is_acknowledged |= event in (Event.ACCEPTED, Event.REJECTED)
    for record in records.values():
        _judge(record, restarts, counts, faults)
    return counts, +faults


def _judge(record: _Record, restarts: Sequence[Restart], counts: Counter[str], faults: Counter[str]) -> None:
    deliveries, ended = sorted(record.deliveries, key=lambda delivery: delivery[1]), record.ended
    highest = max((count for count, _ in deliveries), default=0)
    counts["deliveries"] += len(deliveries)
    counts["delivered again"] += max(len(deliveries) - 1, 0)
    if ended:
        counts["acknowledged once"] += 1
    elif record.is_acknowledged:
        counts["acknowledged, without an answer"] += 1
    elif highest >= DELIVERIES_MAX:
        counts["given up"] += 1
    else:
        faults["lost"] += 1
    late = len({count for count, _ in ended}) - 1
    counts["acknowledged late"] += max(late, 0)
    faults["acknowledged twice"] += max(len(ended) - 1 - late, 0)
    faults["delivered beyond the limit"] += highest > DELIVERIES_MAX
    faults["delivered after the end"] += any(
        count > final and delivered > at for final, at in ended for count, delivered in deliveries
    )
    last: dict[int, float] = {}
    for count, at in deliveries:
        if count in last:
            kind = counts if _has_restart(restarts, last[count], at) else faults
            kind["delivered with the same count"] += 1
        last[count] = at


def _has_restart(restarts: Sequence[Restart], first: float, second: float) -> bool:
    """Return whether the broker may have been restarted between two events."""
    return any(first <= restart.up + LATE_SECONDS and restart.stopped <= second for restart in restarts)


class Member:
    """A member's process, from its startup to its exit."""

    def __init__(self, bootstrap: str, path: Path, seed: str) -> None:
        self.path = path
        self.is_stopped = False
        path.touch()
        options = json.dumps({"group_id": GROUP, "max_poll_records": 200})
        command = [sys.executable, "-m", "tools.soak.share_member", bootstrap, TOPIC, str(path), seed, options]
        with path.with_suffix(".log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def is_alive(self) -> bool:
        """Whether the process exists."""
        return self.process.poll() is None

    def end(self, number: signal.Signals) -> None:
        """Send SIGTERM or SIGKILL, and wait until the process has ended."""
        self.process.send_signal(number)
        self.process.wait(60)

    def entries(self) -> Iterator[Entry]:
        """Yield what it has written down, except for an entry that SIGKILL cut off."""
        data = self.path.read_bytes()
        yield from map(Entry._make, ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]))


class Node(Protocol):
    """A broker that can be stopped and started again, with the same address and files."""

    bootstrap: str

    def stop(self, *, by_kill: bool) -> None:
        """Stop the broker, and wait until it has ended."""

    def start(self) -> None:
        """Start the broker again."""

    def used_bytes(self) -> int | None:
        """Return its memory; None if that is not checked."""


class OwnNode:
    """The reference broker.

    Args:
        folder: the folder for its files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        self._process = BrokerProcess(
            self._folder / "data", port=self._port, log=self._folder / "broker.log", **BROKER_OPTIONS
        )

    def stop(self, *, by_kill: bool) -> None:
        if by_kill:
            self._process.kill()
        else:
            self._process.stop()

    def used_bytes(self) -> int | None:
        return self._process.resident_bytes if self._process.is_running else 0


class KafkaNode:
    """Apache Kafka.

    Args:
        kafka: the node.
    """

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap

    def start(self) -> None:
        self._kafka.start()

    def stop(self, *, by_kill: bool) -> None:
        self._kafka.kill()  # there is no difference for what is stored

    def used_bytes(self) -> int | None:
        return None


class Soak:
    """The feeder, the members, and the faults.

    Args:
        node: the broker.
        folder: the folder for the members' files.
        seed: determines the faults.

    Attributes:
        members: all members so far.
        restarts: the restarts of the broker.
        counts: the numbers of faults.
        failures: the last lines of members that have failed.
        used_bytes: the most memory that the broker has used.
    """

    def __init__(self, node: Node, folder: Path, seed: str) -> None:
        self._node = node
        self._folder = folder
        self._seed = seed
        self._random = Random(seed)
        self._slots: list[Member] = []
        self._paused: list[asyncio.Task[None]] = []
        self.members: list[Member] = []
        self.restarts: list[Restart] = []
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.used_bytes = 0

    async def run(self, records: int, seconds: float, restarts: int) -> bool:
        """Run for a period of faults, and until everything is processed; return whether the lag is gone in time.

        Args:
            records: the number of records.
            seconds: the time in which they are written, and faults occur.
            restarts: how many times the broker is restarted.
        """
        async with Admin(self._node.bootstrap) as admin:
            await admin.create_topics(NewTopic(TOPIC, PARTITIONS, 1))
            await admin.incremental_alter_configs(ConfigResourceType.GROUP, GROUP, GROUP_CONFIGS)
        watching = asyncio.create_task(self._watch())
        try:
            self._slots = [self._started() for _ in range(MEMBERS)]
            end = time.monotonic() + seconds
            await asyncio.gather(self._feed(records, seconds), self._break(end), self._restart(seconds, restarts))
            await asyncio.gather(*self._paused)
            return await self._await_end()
        finally:
            watching.cancel()
            for member in self._slots:
                if member.is_alive:
                    await asyncio.to_thread(member.end, signal.SIGTERM)
            self._look()

    def _started(self) -> Member:
        number = len(self.members)
        member = Member(self._node.bootstrap, self._folder / f"member-{number}", f"{self._seed}-{number}")
        self.members.append(member)
        return member

    async def _feed(self, records: int, seconds: float) -> None:
        """Write numbers, spread over the time; when this method returns, all of them are stored."""
        begun, sent = time.monotonic(), 0
        async with Producer(self._node.bootstrap, delivery_timeout_ms=300_000) as producer:
            while sent < records:
                due = min(records, int(records * (time.monotonic() - begun) / seconds) + 1, sent + FED_AT_ONCE)
                for number in range(sent, due):
                    producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                sent = due
                await producer.drain()
                await asyncio.sleep(0.02)
            await producer.flush()

    async def _break(self, end: float) -> None:
        """Kill, stop and replace members until the time is up."""
        while (pause := self._random.uniform(*FAULT_SECONDS)) < end - time.monotonic():
            await asyncio.sleep(pause)
            self._look()
            slot = self._random.randrange(MEMBERS)
            member = self._slots[slot]
            if member.is_stopped:
                continue
            match self._random.randrange(4):
                case 0:
                    self.counts["members stopped for a while"] += 1
                    self._paused.append(asyncio.create_task(self._pause(member)))
                case 1:
                    self.counts["members that left"] += 1
                    await asyncio.to_thread(member.end, signal.SIGTERM)
                case _:
                    self.counts["members killed"] += 1
                    await asyncio.to_thread(member.end, signal.SIGKILL)
            if not member.is_alive:
                self._slots[slot] = self._started()

    async def _pause(self, member: Member) -> None:
        member.is_stopped = True
        member.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_SECONDS)
        member.process.send_signal(signal.SIGCONT)
        member.is_stopped = False

    async def _restart(self, seconds: float, restarts: int) -> None:
        """Restart the broker at regular intervals; every other time, it is killed."""
        for number in range(restarts):
            await asyncio.sleep(seconds / (restarts + 1))
            by_kill = number % 2 == 0
            stopped = time.monotonic()
            await asyncio.to_thread(self._node.stop, by_kill=by_kill)
            await asyncio.sleep(AWAY_SECONDS)
            await asyncio.to_thread(self._node.start)
            self.restarts.append(Restart(stopped, time.monotonic()))
            self.counts["brokers killed" if by_kill else "brokers stopped"] += 1

    async def _watch(self) -> None:
        """Note how much memory the broker uses."""
        while True:
            self.used_bytes = max(self.used_bytes, self._node.used_bytes() or 0)
            await asyncio.sleep(0.5)

    async def _await_end(self) -> bool:
        """Wait until the group has no lag; return whether it has none."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        async with Admin(self._node.bootstrap) as admin:
            while time.monotonic() < deadline:
                try:
                    offsets = (await admin.list_share_group_offsets(GROUP)).values
                except KafkaWireError as error:
                    self.counts[f"lag unknown: {error}"] += 1
                    offsets = {}
                if len(offsets) == PARTITIONS and all(each is not None and each.lag == 0 for each in offsets.values()):
                    return True
                self._look()
                await asyncio.sleep(0.5)
        return False

    def _look(self) -> None:
        """Replace members that have ended by themselves, which is a failure, and note their last lines."""
        for slot, member in enumerate(self._slots):
            status = member.process.poll()
            if status not in (None, 0, -signal.SIGKILL):
                self.failures.append(member.path.with_suffix(".log").read_text()[-500:])
                self._slots[slot] = self._started()


def main(arguments: list[str]) -> int:
    """Run the soak, and return the exit status, which is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak shares")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=60, help="the time in which they are written")
    parser.add_argument("--restarts", type=int, default=2, help="how often the broker is restarted in that time")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kafka", action="store_true", help="run on Apache Kafka instead of the reference broker")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-soak-")))
        node: Node
        if given.kafka:
            node = KafkaNode(stack.enter_context(ApacheKafka(settings=KAFKA_SETTINGS)))
        else:
            node = OwnNode(folder)
            stack.callback(node.stop, by_kill=True)
        soak = Soak(node, folder, given.seed)
        is_done = asyncio.run(soak.run(given.records, given.seconds, given.restarts))
        lengths = {number: len(range(number, given.records, PARTITIONS)) for number in range(PARTITIONS)}
        entries = (entry for member in soak.members for entry in member.entries())
        counts, faults = judged(entries, lengths, soak.restarts)
    for told in (soak.counts, counts):
        print("shares: " + ", ".join(f"{name} {count:,}" for name, count in told.items()))
    print(f"shares: {len(soak.members)} members, at most {soak.used_bytes >> 20:,} MB used by the broker")
    faults["not processed in time"] += not is_done
    faults["too much memory"] += soak.used_bytes > MEMORY_MAX_BYTES
    faults["members that failed"] += len(soak.failures)
    wrong = ", ".join(f"{name} {count:,}" for name, count in (+faults).items())
    print(f"shares: {wrong or 'each record ended once'}", *soak.failures, sep="\n", flush=True)
    return 1 if +faults else 0
