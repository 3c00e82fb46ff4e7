"""Members of one group in ZooKeeper, ours and Kafka 1.1's, each a process; and what they read and own.

All times are from the machine's monotonic clock, in ns, so the reports of different processes can be compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.kafka.apache import copy_jars
from tests.kafka.cleaning import until

__all__ = ["Member", "Owners", "Place", "Seen", "await_so"]

#: The last release that includes the consumer that registers in ZooKeeper.
OLD_RELEASE = "1.1.1"

#: A step that has not happened after this time never will; Java starts slowly on a loaded machine.
TIMEOUT_SECONDS = 60

#: The pause between checks of the owners.
_LOOK_SECONDS = 0.02

_ROOT = Path(__file__).parents[2]

_LOGGING = """log4j.rootLogger=ERROR, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.Target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d %p %m (%c)%n
"""


class Place(NamedTuple):
    """The place where a group reads.

    Attributes:
        bootstrap: a broker.
        connect: `zookeeper.connect`.
        topic: the topic that all members read.
        group: the group.
        partitions: the topic's number of partitions.
        white_list: a regular expression that the members use instead of the topic; empty for none.
        black_list: likewise, for excluded topics.
    """

    bootstrap: str
    connect: str
    topic: str
    group: str
    partitions: int
    white_list: str = ""
    black_list: str = ""


class Seen:
    """The values of records that members have read."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()
        self._lock = threading.Lock()

    def note(self, value: int) -> None:
        with self._lock:
            self.times[value] += 1

    def has_all(self, values: range) -> bool:
        with self._lock:
            return all(self.times[value] for value in values)


class Member:
    """One process.

    Args:
        place: where it reads.
        seen: receives the records.
        name: part of its id in ZooKeeper.
        folder: the folder for its logs.
        is_ours: whether the process runs this package's consumer.
        settings: further options, under Kafka's names.
        session_timeout_ms: the timeout of its ZooKeeper session.

    Attributes:
        owned: the periods in which this member was told that it owns a partition, keyed by partition: begin, and end or
            None; only our members report them.
        ended_ns: when the process was killed.
    """

    def __init__(
        self,
        place: Place,
        seen: Seen,
        name: str,
        folder: Path,
        *,
        is_ours: bool,
        settings: Mapping[str, str] | None = None,
        session_timeout_ms: int = 2_000,
    ) -> None:
        self.name = name
        self.is_ours = is_ours
        self.owned: dict[int, list[tuple[int, int | None]]] = {}
        self._seen = seen
        options = {
            "group.id": place.group,
            "zookeeper.connect": place.connect,
            "zookeeper.session.timeout.ms": str(session_timeout_ms),
            "auto.commit.interval.ms": "500",
        } | dict(settings or {})
        command = _ours(place, options) if is_ours else _theirs(place, name, options, folder)
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self._process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def stop(self) -> None:
        """Make the member leave, and wait until it has left."""
        self._process.terminate()
        self._end()

    def kill(self) -> None:
        """Kill the member, to simulate a crash."""
        self._process.kill()
        self._end()

    def check(self) -> None:
        """Fail if the process has ended on its own."""
        assert self._process.poll() is None, f"{self.name} has ended: {self._log.read_text()[-2_000:]}"

    def _end(self) -> None:
        self._process.wait(TIMEOUT_SECONDS)
        ended_ns = time.monotonic_ns()
        self._reading.join(TIMEOUT_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for times in self.owned.values():
            times[:] = [(begin, ended_ns if end is None else end) for begin, end in times]

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            words = line.split()
            if not self.is_ours:
                self._seen.note(int(words[0]))
            elif words[0] == "r":
                self._seen.note(int(words[1]))
            else:
                self._note_change(words[0], int(words[1]), [int(word) for word in words[2:]])

    def _note_change(self, sign: str, at_ns: int, partitions: Sequence[int]) -> None:
        for partition in partitions:
            times = self.owned.setdefault(partition, [])
            if sign == "+":
                times.append((at_ns, None))
            else:
                times[-1] = (times[-1][0], at_ns)


def _ours(place: Place, options: Mapping[str, str]) -> list[str]:
    given: dict[str, str | None] = {
        "bootstrap_servers": place.bootstrap,
        "group.protocol": "zookeeper",
        "auto.offset.reset": "earliest",
        **options,
    }
    if place.white_list or place.black_list:
        given |= {"pattern": place.white_list or None, "excluded_pattern": place.black_list or None}
    return [sys.executable, "-m", "tests.kafka.zookeeper_reader", place.topic, json.dumps(given)]


def _theirs(place: Place, name: str, options: Mapping[str, str], folder: Path) -> list[str]:
    jars = copy_jars("zookeeper_consumer_pom.xml", f"zookeeper-consumer-{OLD_RELEASE}", {"kafka.version": OLD_RELEASE})
    logging = folder / "log4j.properties"
    logging.write_text(_LOGGING)
    java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{logging}"]
    # The tool refuses to begin at the smallest offset if the group has offsets. The group must therefore have some:
    # without them, this member would begin at the end and miss earlier records.
    given = {"consumer.id": name, "rebalance.backoff.ms": "500", "rebalance.max.retries": "20", **options}
    properties = [each for key, value in given.items() for each in ("--consumer-property", f"{key}={value}")]
    topics = ["--topic", place.topic]
    if place.white_list or place.black_list:
        topics = ["--whitelist", place.white_list] if place.white_list else ["--blacklist", place.black_list]
    tool = ["kafka.tools.ConsoleConsumer", "--zookeeper", place.connect, *topics]
    return [*java, "-cp", f"{jars}/*", *tool, *properties]


class Owners(threading.Thread):
    """Watches the owners of all partitions while a `with` block runs.

    Args:
        place: the group to watch.

    Attributes:
        looks: for each check, the times before and after it, and the owner found for each partition, or None.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        from kazoo.client import KazooClient

        self._place = place
        self._client: Any = KazooClient(place.connect)
        self._has_ended = threading.Event()
        self.looks: list[tuple[int, int, tuple[str | None, ...]]] = []

    def __enter__(self) -> Owners:
        self._client.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self.join()
        self._client.stop()
        self._client.close()

    def run(self) -> None:
        while not self._has_ended.wait(_LOOK_SECONDS):
            before_ns = time.monotonic_ns()
            found = tuple(self._owner(partition) for partition in range(self._place.partitions))
            self.looks.append((before_ns, time.monotonic_ns(), found))

    def _owner(self, partition: int) -> str | None:
        from kazoo.exceptions import NoNodeError

        try:
            path = f"/consumers/{self._place.group}/owners/{self._place.topic}/{partition}"
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return data.decode()

    def members(self) -> Counter[str | None]:
        """Return how many partitions each member owns now, and, under None, how many have no owner."""
        found = self.looks[-1][2] if self.looks else (None,) * self._place.partitions
        return Counter(None if owner is None else owner.rpartition("-")[0] for owner in found)

    def offsets(self) -> list[int | None]:
        """Return the offsets in ZooKeeper, keyed by partition."""
        from kazoo.exceptions import NoNodeError

        offsets: list[int | None] = []
        for partition in range(self._place.partitions):
            try:
                path = f"/consumers/{self._place.group}/offsets/{self._place.topic}/{partition}"
                offsets.append(int(self._client.get(path)[0]))
            except NoNodeError:
                offsets.append(None)
        return offsets

    def nodes(self) -> list[str]:
        """Return the nodes for ids and owners that a group has left behind."""
        base = f"/consumers/{self._place.group}"
        owners = self._client.get_children(f"{base}/owners/{self._place.topic}")
        return [*self._client.get_children(f"{base}/ids"), *owners]

    def longest_gap_ms(self) -> float:
        """Return the longest time that a previously owned partition had no owner."""
        longest_ns = 0
        for partition in range(self._place.partitions):
            lost_ns: int | None = None
            has_begun = False
            for before_ns, after_ns, found in self.looks:
                if found[partition] is not None:
                    has_begun, lost_ns = True, None
                elif has_begun:
                    lost_ns = before_ns if lost_ns is None else lost_ns
                    longest_ns = max(longest_ns, after_ns - lost_ns)
        return longest_ns / 1e6

    def conflicts(self, members: Sequence[Member]) -> Iterator[str]:
        """Yield the times when a partition was read by both one of our members and another member."""
        ours = [member for member in members if member.is_ours]
        theirs = {f"{self._place.group}_{member.name}" for member in members if not member.is_ours}
        for partition in range(self._place.partitions):
            times = sorted((*each, m.name) for m in ours for each in m.owned.get(partition, ()) if each[1] is not None)
            for (_, end, one), (begin, _, other) in pairwise(times):
                if end is not None and begin < end:
                    yield f"partition {partition} is read by {one} and by {other}"
            foreign = [look for look in self.looks if (look[2][partition] or "").rpartition("-")[0] in theirs]
            for begin, end, name in times:
                if end is not None and any(begin < before and after < end for before, after, _ in foreign):
                    yield f"partition {partition} is read by {name}, and owned by one of theirs"


def await_so(is_so: Callable[[], bool], what: str | Callable[[], str], members: Sequence[Member]) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: the condition does not hold in time, or a member has ended on its own.
    """

    def is_so_with_all() -> bool:
        for member in members:
            member.check()
        return is_so()

    until(is_so_with_all, what)
