"""Members of this package and of Kafka 1.1 in one group: no partition has two readers, and no record is missed.

Method: processes over a real ZooKeeper and a broker of Kafka 3.9; members join, leave and are killed in an order from a
seed, while records are written. What the members tell and what the registry shows is compared afterwards.
KAFKAWIRE_ZOOKEEPER_SECONDS sets how long that goes on; KAFKAWIRE_ZOOKEEPER_SEED gives another order.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

import pytest

from kafkawire import NewTopic
from kafkawire.sync import Admin, Producer
from tests.kafka.cleaning import until
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.kafka.zookeeper_members import Member, Owners, Place, Seen, await_so

SECONDS = int(os.environ.get("KAFKAWIRE_ZOOKEEPER_SECONDS", "25"))
SEED = int(os.environ.get("KAFKAWIRE_ZOOKEEPER_SEED", "1"))

PARTITIONS = 6

#: Members of each kind.
KIND = 2

SESSION_TIMEOUT_MS = 2_000

#: Records that are written between two changes, at most: one each 10 ms.
PAUSE_RECORDS = 100

#: A rebalance, in which a member of Kafka 1.1 pauses after each attempt, on a loaded machine. A killed member is the
#: owner until its session ends.
GAP_MS = 10_000

_groups = count()

#: Starts and ends of servers and members, beside the story.
pytestmark = pytest.mark.timeout(300 + SECONDS)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ZooKeeper, ZooKeeperKafka]]:
    with ZooKeeper() as zookeeper, ZooKeeperKafka(0, f"{zookeeper.address}/kafka") as kafka:
        yield zookeeper, kafka


class Writing:
    """Writes numbers while a `with` block runs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written = 0

    def _write(self) -> None:
        with Producer(self._place.bootstrap) as producer:
            while not self._has_ended.wait(0.01):
                partition = self.written % self._place.partitions
                producer.send(self._place.topic, str(self.written).encode(), partition=partition)
                self.written += 1
            producer.flush()

    def begin(self) -> None:
        self._thread.start()

    def await_more(self, count: int) -> None:
        """Wait until so many more are written."""
        target = self.written + count
        until(lambda: self.written >= target, "the producer writes no more")

    def end(self) -> range:
        """Return the numbers that were written."""
        self._has_ended.set()
        self._thread.join()
        return range(self.written)


class Scene:
    """A group, its members, and what is written for it."""

    def __init__(self, servers: tuple[ZooKeeper, ZooKeeperKafka], folder: Path) -> None:
        zookeeper, kafka = servers
        topic = f"t{next(_groups)}"
        self.place = Place(kafka.bootstrap, f"{zookeeper.address}/kafka", topic, f"{topic}-group", PARTITIONS)
        with Admin(kafka.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS)])
        self.seen = Seen()
        self.members: list[Member] = []
        self.all: list[Member] = []
        self.owners = Owners(self.place)
        self.writing = Writing(self.place)
        self._folder = folder

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the owners, and end the members that still run."""
        with self.owners:
            try:
                yield
            finally:
                for member in self.members:
                    member.kill()

    def join(self, is_ours: bool, **settings: str) -> Member:
        """Have a member join, and wait until each member has its part."""
        name = f"{'ours' if is_ours else 'theirs'}{len(self.all)}"
        given = {key.replace("_", "."): value for key, value in settings.items()}
        member = Member(
            self.place,
            self.seen,
            name,
            self._folder,
            is_ours=is_ours,
            settings=given,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        self.members.append(member)
        self.all.append(member)
        self.await_balance()
        return member

    def begin(self, **settings: str) -> None:
        """Write, and have one of ours read, until each partition has an offset."""
        self.writing.begin()
        self.join(is_ours=True, **settings)
        await_so(lambda: None not in self.owners.offsets(), "not all offsets were committed", self.members)

    def leave(self, member: Member, is_killed: bool = False) -> None:
        """Have a member end, and wait until the others have its part."""
        self.members.remove(member)
        if is_killed:
            member.kill()
        else:
            member.stop()
        if self.members:
            self.await_balance()

    def await_balance(self) -> None:
        def is_balanced() -> bool:
            owned = self.owners.members()
            return None not in owned and len(owned) == len(self.members)

        await_so(is_balanced, lambda: f"never balanced: {self.owners.members()}", self.members)

    def await_all(self, values: range) -> None:
        await_so(lambda: self.seen.has_all(values), "records were missed", self.members)


def test_members_of_both_kinds_join_leave_and_are_killed(
    servers: tuple[ZooKeeper, ZooKeeperKafka], tmp_path: Path
) -> None:
    random, scene = Random(SEED), Scene(servers, tmp_path)
    deadline = time.monotonic() + SECONDS
    kills = changes = 0
    with scene.running():
        scene.begin()
        for is_ours in (False, True, False):
            scene.join(is_ours)
        while time.monotonic() < deadline or kills < 2 * KIND:
            leaver = scene.members[changes % len(scene.members)] if changes < 2 * KIND else random.choice(scene.members)
            is_killed = bool(changes % 2) if changes < 2 * KIND else random.random() < 0.5
            scene.leave(leaver, is_killed)
            changes, kills = changes + 1, kills + is_killed
            if random.random() < 0.7 or len(scene.members) < KIND:
                scene.join(leaver.is_ours)
            scene.writing.await_more(random.randrange(PAUSE_RECORDS))
        written = scene.writing.end()
        scene.await_all(written)
        for member in list(scene.members):
            scene.leave(member)
        assert not scene.owners.nodes()
    twice = sum(times - 1 for times in scene.seen.times.values())
    gap_ms = scene.owners.longest_gap_ms()
    print(
        f"{len(written)} records, {twice} read again; {changes} departures, {kills} by SIGKILL; "
        f"{len(scene.owners.looks)} looks, longest time without an owner {gap_ms:.0f} ms"
    )
    assert list(scene.owners.conflicts(scene.all)) == []
    assert gap_ms < GAP_MS
