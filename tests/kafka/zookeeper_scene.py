"""A group in ZooKeeper whose members are processes, and the records written for it while they come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from kafkawire import NewTopic
from kafkawire.sync import Admin, Producer
from tests.kafka.cleaning import until
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.kafka.zookeeper_members import Member, Owners, Place, Seen, await_so

__all__ = ["Scene", "Writing"]

PARTITIONS = 6

SESSION_TIMEOUT_MS = 2_000

#: The pause between records.
_PAUSE_SECONDS = 0.01

_groups = count()


class Writing:
    """Writes numbers while a `with` block runs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._has_ended = threading.Event()
        self._may_write = threading.Event()
        self._is_paused = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written = 0

    def _write(self) -> None:
        with Producer(self._place.bootstrap) as producer:
            while not self._has_ended.wait(_PAUSE_SECONDS):
                if not self._may_write.is_set():
                    producer.flush()
                    self._is_paused.set()
                    self._may_write.wait()
                partition = self.written % self._place.partitions
                producer.send(self._place.topic, str(self.written).encode(), partition=partition)
                self.written += 1
            producer.flush()

    def begin(self) -> None:
        self._may_write.set()
        self._thread.start()

    def pause(self) -> range:
        """Pause writing, and return the numbers written so far."""
        self._may_write.clear()
        self._is_paused.wait()
        return range(self.written)

    def resume(self) -> None:
        self._is_paused.clear()
        self._may_write.set()

    def await_more(self, count: int) -> None:
        """Wait until the given number of further numbers have been written."""
        target = self.written + count
        until(lambda: self.written >= target, "the producer writes no more")

    def end(self) -> range:
        """End writing, and return the numbers that were written."""
        self._has_ended.set()
        self._may_write.set()
        self._thread.join()
        return range(self.written)


class Scene:
    """A group, its members, and the records written for it.

    Args:
        servers: the ZooKeeper server, and a broker.
        folder: the folder for logs.
        expressions: `white_list` or `black_list`, with `{topic}` for the topic; without one, members read the topic.
    """

    def __init__(self, servers: tuple[ZooKeeper, ZooKeeperKafka], folder: Path, **expressions: str) -> None:
        zookeeper, kafka = servers
        topic = f"t{next(_groups)}"
        filters = {name: expression.format(topic=topic) for name, expression in expressions.items()}
        connect = f"{zookeeper.address}/kafka"
        self.place = Place(kafka.bootstrap, connect, topic, f"{topic}-group", PARTITIONS, **filters)
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
        """Watch the owners; at the end, stop the members that are still running."""
        with self.owners:
            try:
                yield
            finally:
                for member in self.members:
                    member.kill()

    def join(self, is_ours: bool, **settings: str) -> Member:
        """Make a member join, and wait until each member has its share."""
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
        """Write records, and let one of our members read them, until each partition has an offset."""
        self.writing.begin()
        self.join(is_ours=True, **settings)
        await_so(lambda: None not in self.owners.offsets(), "not all offsets were committed", self.members)

    def leave(self, member: Member, is_killed: bool = False) -> None:
        """Make a member leave, and wait until the others have taken over its share."""
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
