"""Members that join, leave, are killed and restart: `python -m tools.soak rebalance [--seconds N] [--seed S] …`.

Eight processes read 24 partitions of an Apache Kafka broker, using each protocol for some time, while a million records
    are written. Every record must be handed out. Records handed out twice are counted: after a graceful change, there
    may be one per assigned partition, and after a SIGKILL, those that the killed member had not committed.
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
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafkawire import Admin, NewTopic, Producer
from tests.kafka.apache import ApacheKafka
from tools.soak.member import ASSIGNED, ENTRY, LOST

__all__ = ["Member", "Result", "counted", "main"]

PARTITIONS = 24
MEMBERS = 8

#: Number of members with an instance id.
STATIC = 3

#: Minimum number of running members.
ALIVE_MIN = 3

#: A killed member's records may have been uncommitted for this long: a commit is sent every second, and may be in
#: flight.
COMMIT_INTERVAL_MS = 1_000
WINDOW_SECONDS = COMMIT_INTERVAL_MS / 1000 + 1.5

#: Interval between changes; a rebalance takes a second or two.
PAUSES_SECONDS = (0.3, 2, 5)

#: Time for reading the remaining records after the changes; a killed KIP-848 member is removed when its session
#: expires.
PATIENCE_SECONDS = 120

_SESSION_MS = 6_000

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"assignors": "range", "session_timeout_ms": _SESSION_MS, "heartbeat_interval_ms": 1_000},
    "cooperative-sticky": {
        "assignors": "cooperative-sticky",
        "session_timeout_ms": _SESSION_MS,
        "heartbeat_interval_ms": 1_000,
    },
    "consumer": {"group_protocol": "consumer"},
}

#: With KIP-848, these are settings of the broker.
BROKER_SETTINGS = {
    "group.consumer.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}


class Member:
    """A process that reads records, from its startup to its exit.

    Attributes:
        path: the file with the records handed to it.
        killed: the time of the SIGKILL; None if it was not killed.
    """

    def __init__(self, bootstrap: str, topic: str, path: Path, options: dict[str, Any]) -> None:
        self.path = path
        self.killed: float | None = None
        path.touch()
        command = [sys.executable, "-m", "tools.soak.member", bootstrap, topic, str(path), json.dumps(options)]
        with path.with_suffix(".log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def end(self, number: signal.Signals) -> None:
        """Send SIGTERM or SIGKILL, and wait until the process has ended."""
        if number == signal.SIGKILL:
            self.killed = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(30)

    def entries(self) -> Iterator[tuple[int, int, float]]:
        """Yield the entries for records handed to the member, except for an entry that SIGKILL cut off."""
        data = self.path.read_bytes()
        yield from ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])


class Result(NamedTuple):
    """The result for one protocol.

    Attributes:
        found: the number of distinct records handed out.
        assigned: the number of partition assignments.
        graceful: the number of records handed out again although their first member had neither died nor lost the
            partition.
        lost: the number of records whose first member was considered dead by the coordinator, and learned that only
            later.
        crashed: the number of records whose first member was killed before they were handed out again.
        oldest_seconds: the longest time between the handing out of such a record and the SIGKILL.
    """

    found: int
    assigned: int
    graceful: int
    lost: int
    crashed: int
    oldest_seconds: float


def counted(members: list[Member]) -> Result:
    """Count the records handed to the members."""
    places: dict[tuple[int, int], list[tuple[float, Member]]] = {}
    losses: dict[tuple[Member, int], float] = {}
    assigned = 0
    for member in members:
        for partition, offset, at in member.entries():
            if offset == ASSIGNED:
                assigned += 1
            elif offset == LOST:
                losses[member, partition] = at
            else:
                places.setdefault((partition, offset), []).append((at, member))
    graceful = lost = crashed = 0
    oldest_seconds = 0.0
    for (partition, _), reads in places.items():
        reads.sort(key=lambda read: read[0])
        for (at, member), (again, _) in pairwise(reads):
            if member.killed is not None and member.killed <= again:
                crashed += 1
                oldest_seconds = max(oldest_seconds, member.killed - at)
            elif losses.get((member, partition), 0) > at:
                lost += 1
            else:
                graceful += 1
    return Result(len(places), assigned, graceful, lost, crashed, oldest_seconds)


class Soak:
    """A run with one protocol for a period of time.

    Args:
        bootstrap: the broker.
        protocol: one of `PROTOCOLS`.
        folder: the folder for the members' files.
        random: chooses the changes.
    """

    def __init__(self, bootstrap: str, protocol: str, folder: Path, random: Random) -> None:
        self._bootstrap = bootstrap
        self._topic = f"soak-{protocol}-{random.randrange(10**9)}"
        self._folder = folder
        self._random = random
        self._options = PROTOCOLS[protocol] | {
            "group_id": self._topic,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": COMMIT_INTERVAL_MS,
        }
        self._slots: list[Member | None] = [None] * MEMBERS
        self.members: list[Member] = []
        self.changes: Counter[str] = Counter()
        self.failures: list[str] = []

    async def run(self, seconds: float, records: int) -> Result:
        """Run for the given time, then wait until everything has been read."""
        async with Admin(self._bootstrap) as admin:
            await admin.create_topics(NewTopic(self._topic, PARTITIONS, 1))
        for slot in range(MEMBERS):
            self._start(slot)
        producing = asyncio.create_task(self._produce(seconds, records))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(self._random.choice(PAUSES_SECONDS))
            await asyncio.to_thread(self._change)
        await producing
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (result := counted(self.members)).found < records and time.monotonic() < deadline:
            self._look()
            await asyncio.sleep(2)
        for member in self.members:
            if member.is_alive:
                await asyncio.to_thread(member.end, signal.SIGTERM)
        self._look()
        return result

    async def _produce(self, seconds: float, records: int) -> None:
        """Write all records, spread evenly over the time."""
        begun, sent = time.monotonic(), 0
        async with Producer(self._bootstrap) as producer:
            while sent < records:
                due = min(records, int(records * (time.monotonic() - begun) / seconds) + 1)
                for number in range(sent, due):
                    producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
                sent = due
                await asyncio.sleep(0.02)
            await producer.flush()

    def _start(self, slot: int) -> None:
        options = self._options | ({"group_instance_id": f"static-{slot}"} if slot < STATIC else {})
        path = self._folder / f"{self._topic}-{len(self.members)}"
        member = self._slots[slot] = Member(self._bootstrap, self._topic, path, options)
        self.members.append(member)

    def _change(self) -> None:
        """Start or end one member."""
        self._look()
        slot = self._random.randrange(MEMBERS)
        member = self._slots[slot]
        if member is None:
            self._start(slot)
            self.changes["joined"] += 1
        elif sum(each is not None for each in self._slots) > ALIVE_MIN or slot < STATIC:
            dies = self._random.random() < 0.3
            member.end(signal.SIGKILL if dies else signal.SIGTERM)
            self._slots[slot] = None
            self.changes["killed" if dies else "left"] += 1
            if slot < STATIC:  # it returns before its session expires
                time.sleep(self._random.choice([0, 1]))
                self._start(slot)
                self.changes["static came back"] += 1

    def _look(self) -> None:
        """Record members that have ended on their own."""
        for slot, member in enumerate(self._slots):
            if member is not None and not member.is_alive:
                self._slots[slot] = None
                if member.process.returncode:
                    self.failures.append(member.path.with_suffix(".log").read_text()[-500:])


def main(arguments: list[str]) -> int:
    """Run the protocols one after another, and return the exit status, which is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak rebalance")
    parser.add_argument("--seconds", type=float, default=180, help="duration for each protocol")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="repeatable; all by default")
    parser.add_argument("--bootstrap", help="address of an Apache Kafka broker; by default, one is started")
    given = parser.parse_args(arguments)
    results: dict[str, Result] = {}
    is_good = True
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(ApacheKafka(settings=BROKER_SETTINGS)).bootstrap
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-soak-")))
        for protocol in given.protocol or PROTOCOLS:
            soak = Soak(bootstrap, protocol, folder, Random(f"{given.seed} {protocol}"))
            result = results[protocol] = asyncio.run(soak.run(given.seconds, given.records))
            changes = ", ".join(f"{count} {name}" for name, count in soak.changes.items())
            print(f"{protocol}: {given.records - result.found:,} of {given.records:,} lost; {changes}")
            print(f"  twice after graceful changes: {result.graceful:,}, partitions assigned: {result.assigned:,}")
            print(f"  twice after SIGKILL: {result.crashed:,}, read up to {result.oldest_seconds:.1f} s before")
            print(f"  twice after the coordinator considered a member dead: {result.lost:,}")
            print(f"  members that failed: {len(soak.failures)}", flush=True)
            for failure in soak.failures:
                print(failure)
            is_good &= result.found == given.records and result.graceful <= result.assigned
            is_good &= not soak.failures and result.oldest_seconds <= WINDOW_SECONDS
    if {"range", "cooperative-sticky"} <= results.keys():
        is_good &= results["cooperative-sticky"].graceful <= results["range"].graceful
    return 0 if is_good else 1
