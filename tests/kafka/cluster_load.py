"""A load for a cluster whose brokers are killed and restarted; it counts everything that goes wrong.

    with ClusterLoad(bootstrap, "kills") as load:
        load.await_progress()  # before and after a broker is killed, for example
        counts = load.finish()
    assert not counts.wrong, counts
    assert not segments_equal(folders, load.topics).different

A producer writes numbered records with a few keys and acks=all; two members of a classic group read them and commit
their offsets; a transactional producer copies them to another topic, with its own group's offsets. All run on an event
loop in a thread. Every wait is for a condition, with a limit that is many times what a loaded machine needs.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from kafkawire import (
    Admin,
    BrokerError,
    Consumer,
    Delivery,
    ErrorCode,
    GroupMetadata,
    NewTopic,
    Producer,
    Record,
    TopicPartition,
)
from kafkawire.errors import KafkaWireError, TransactionAborted

__all__ = ["ClusterLoad", "Counts", "Notes", "Place", "Segments", "Stored", "count", "segments_equal"]

Result = TypeVar("Result")

#: The time limit for every wait and client call: many times what a leader election takes.
PATIENCE_SECONDS: Final = 300
_PATIENCE_MS: Final = PATIENCE_SECONDS * 1_000

#: The number of keys; each has its own sequence of numbers.
KEYS: Final = 24

#: The maximum number of unacknowledged records.
_UNACKNOWLEDGED_MAX: Final = 2_400

#: The pause between two records of a key.
_PAUSE_SECONDS: Final = 0.1

#: The pause between checks of a condition.
_LOOK_SECONDS: Final = 0.1

#: The pause between checks of the group's offsets.
_WATCH_SECONDS: Final = 0.5

#: Longer than a coordinator is unavailable; otherwise killing a broker would end a member's session.
_SESSION_TIMEOUT_MS: Final = 45_000

#: A partition's folder. If it is being deleted or moved, or is stray, its name has a suffix.
_PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<number>\d+)")


@dataclass(frozen=True)
class Counts:
    """What a load has done, and what went wrong.

    Attributes:
        acknowledged: records acknowledged to the producer as stored.
        failed: records whose delivery failed.
        lost: acknowledged records that are not stored.
        misplaced: acknowledged records that are not at the offset that was acknowledged.
        duplicates: extra copies of stored records.
        out_of_order: records that are stored after a later record with the same key.
        unread: stored records that no member of the group has read.
        commits: successful commits by members of the group.
        offsets_back: how many times a committed offset of the group moved backwards.
        copied: records in the copy.
        not_copied: stored records that are not in the copy.
        copied_again: extra copies of records in the copy.
        copied_out_of_order: records that come after a later record with the same key in the copy.
        transactions: committed transactions.
        aborted: how many times the copy had to restart from its committed offsets, for each reason.
        pauses_seconds: the longest time without progress, keyed by part: "write", "read", "copy".
    """

    acknowledged: int
    failed: int
    lost: int
    misplaced: int
    duplicates: int
    out_of_order: int
    unread: int
    commits: int
    offsets_back: int
    copied: int
    not_copied: int
    copied_again: int
    copied_out_of_order: int
    transactions: int
    aborted: Mapping[str, int]
    pauses_seconds: Mapping[str, float]

    @property
    def wrong(self) -> dict[str, int]:
        """The counts that should be zero but are not."""
        return {name: count for name in _FAULTS if (count := getattr(self, name))}


_FAULTS: Final = (
    "failed",
    "lost",
    "misplaced",
    "duplicates",
    "out_of_order",
    "unread",
    "offsets_back",
    "not_copied",
    "copied_again",
    "copied_out_of_order",
)


class Place(NamedTuple):
    """The place where a record is stored."""

    partition: int
    offset: int


class Stored(NamedTuple):
    """A stored record of the load: its place, its key and its number."""

    place: Place
    key: int
    number: int


@dataclass
class Notes:
    """What the parts of a load have observed.

    Attributes:
        acknowledged: the place of each acknowledged record, keyed by key and number.
        failures: the errors of failed deliveries.
        read: the places that members of the group have read.
        commits, offsets_back, transactions, aborted: see `Counts`.
    """

    acknowledged: dict[tuple[int, int], Place] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    read: set[Place] = field(default_factory=set)
    commits: int = 0
    offsets_back: int = 0
    transactions: int = 0
    aborted: Counter[str] = field(default_factory=Counter)


def count(
    notes: Notes, stored: Sequence[Stored], copies: Sequence[Stored], pauses_seconds: Mapping[str, float]
) -> Counts:
    """Compare what clients were told with the stored records.

    Args:
        notes: what the clients were told.
        stored: the records of the source, in offset order within each partition.
        copies: the records of the target.
        pauses_seconds: see `Counts`.
    """
    times = Counter((record.key, record.number) for record in stored)
    times_copied = Counter((record.key, record.number) for record in copies)
    at = {record.place: (record.key, record.number) for record in stored}
    return Counts(
        acknowledged=len(notes.acknowledged),
        failed=len(notes.failures),
        lost=sum(record not in times for record in notes.acknowledged),
        misplaced=sum(at.get(place) != record for record, place in notes.acknowledged.items()),
        duplicates=times.total() - len(times),
        out_of_order=_late(stored),
        unread=len(at.keys() - notes.read),
        commits=notes.commits,
        offsets_back=notes.offsets_back,
        copied=times_copied.total(),
        not_copied=len(times.keys() - times_copied.keys()),
        copied_again=times_copied.total() - len(times_copied),
        copied_out_of_order=_late(copies),
        transactions=notes.transactions,
        aborted=dict(notes.aborted),
        pauses_seconds=pauses_seconds,
    )


def _late(records: Iterable[Stored]) -> int:
    """Return how many records come after a later record with the same key."""
    latest: dict[int, int] = {}
    late = 0
    for record in records:
        late += record.number < latest.get(record.key, -1)
        latest[record.key] = max(record.number, latest.get(record.key, -1))
    return late


class _Progress:
    """The progress of one part of the load, with timestamps."""

    def __init__(self) -> None:
        self.done = 0
        self._last = time.monotonic()
        self._longest_seconds = 0.0

    def note(self) -> None:
        now = time.monotonic()
        self._longest_seconds = max(self._longest_seconds, now - self._last)
        self._last = now
        self.done += 1

    @property
    def longest_seconds(self) -> float:
        """The longest time without progress, including the current pause."""
        return max(self._longest_seconds, time.monotonic() - self._last)


class ClusterLoad:
    """A load on two topics, running inside a `with` block until `finish`.

    Args:
        bootstrap: the addresses of all brokers, since any of them may be down.
        name: the source's name; the names of the target, the groups and the transactional id begin with it.
        partitions, replicas: the numbers with which topics are created if they do not exist.
        request_timeout_ms: how long clients wait for a broker that does not answer.

    Attributes:
        topics: the source and the target.
    """

    def __init__(
        self, bootstrap: str, name: str, partitions: int = 6, replicas: int = 3, request_timeout_ms: int = 30_000
    ) -> None:
        self.topics: Final = (name, f"{name}-copy")
        self._bootstrap = bootstrap
        self._limits: Final[dict[str, Any]] = {
            "request_timeout_ms": request_timeout_ms,
            "api_timeout_ms": _PATIENCE_MS,
        }
        self._partitions = partitions
        self._replicas = replicas
        self._notes = Notes()
        self._progress = {part: _Progress() for part in ("write", "read", "copy")}
        self._is_ending = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"load-{name}", daemon=True)
        self._running: list[asyncio.Task[None]] = []
        self._committed: dict[TopicPartition, int] = {}
        self._number = 0

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._start())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def await_progress(self, more: int = 5) -> None:
        """Wait until each part has made a given amount of further progress.

        Args:
            more: how many numbers (each acknowledged for all keys, and thus in all partitions), commits and
                transactions to await.

        Raises:
            AssertionError: a part makes no progress.
            KafkaWireError: a part has failed.
        """
        goals = {part: progress.done + more for part, progress in self._progress.items()}

        def are_reached() -> bool:
            return all(self._progress[part].done >= goal for part, goal in goals.items())

        deadline = time.monotonic() + PATIENCE_SECONDS
        while not are_reached():
            self._raise_failure()
            done = {part: progress.done for part, progress in self._progress.items()}
            assert time.monotonic() < deadline, f"no progress in {PATIENCE_SECONDS} s: {done}, expected {goals}"
            time.sleep(_LOOK_SECONDS)

    def await_every_partition(self, limit_seconds: float, parts: Iterable[str] = ("read", "copy")) -> float:
        """Wait until a newly sent record of each key is acknowledged and the other parts have made progress.

        Every partition of the source has keys, unless there are more partitions than keys.

        Args:
            limit_seconds: the maximum duration of the wait.
            parts: the parts that have to make progress.

        Returns:
            The elapsed seconds.

        Raises:
            AssertionError: the wait takes longer than that.
            KafkaWireError: a part has failed.
        """
        begin, number = time.monotonic(), self._number
        # A part's first progress may stem from work begun before the call.
        goals = {part: self._progress[part].done + 2 for part in parts}
        while True:
            self._raise_failure()
            waiting = [key for key in range(KEYS) if (key, number) not in self._notes.acknowledged]
            late = [part for part, goal in goals.items() if self._progress[part].done < goal]
            seconds = time.monotonic() - begin
            if not waiting and not late:
                return seconds
            partitions = sorted({key % self._partitions for key in waiting})
            assert seconds < limit_seconds, f"after {seconds:.0f} s: no progress in {late}, in partitions {partitions}"
            time.sleep(_LOOK_SECONDS)

    def finish(self) -> Counts:
        """Stop writing, wait until everything is read and copied, and return the counts.

        Raises:
            KafkaWireError: a part has failed.
            TimeoutError: something was not read or copied.
        """
        counts = self._call(self._finish())
        self._raise_failure()
        return counts

    # Parts.

    async def _start(self) -> None:
        """Create the topics, and start the parts."""
        async with Admin(self._bootstrap, **self._limits) as admin:
            for topic in self.topics:
                try:
                    await admin.create_topics(NewTopic(topic, self._partitions, self._replicas))
                except BrokerError as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
        self._progress = {part: _Progress() for part in self._progress}
        parts = (self._write(), self._read(), self._read(), self._watch(), self._copy())
        self._running = [asyncio.create_task(part) for part in parts]

    async def _write(self) -> None:
        """Write numbers until the load ends, then wait for all acknowledgements."""
        notes, progress = self._notes, self._progress["write"]
        missing: dict[int, int] = {}  # the number of outstanding acknowledgements, keyed by number

        def settled(record: tuple[int, int], delivery: Delivery) -> None:
            error = delivery.exception()
            if error is None:
                metadata = delivery.result()
                notes.acknowledged[record] = Place(metadata.partition, metadata.offset)
                missing[record[1]] -= 1
                if not missing[record[1]]:
                    del missing[record[1]]
                    progress.note()
            else:
                notes.failures.append(str(error))

        async with Producer(
            self._bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            delivery_timeout_ms=_PATIENCE_MS,
            **self._limits,
        ) as producer:
            while not self._is_ending.is_set():
                number = self._number
                waiting = number * KEYS - len(notes.acknowledged) - len(notes.failures)
                if waiting < _UNACKNOWLEDGED_MAX:
                    missing[number] = KEYS
                    for key in range(KEYS):
                        value, on_delivery = f"{key}:{number}", partial(settled, (key, number))
                        producer.send(
                            self.topics[0],
                            value,
                            key=str(key),
                            partition=key % self._partitions,
                            on_delivery=on_delivery,
                        )
                    self._number += 1
                await asyncio.sleep(_PAUSE_SECONDS)
            while len(notes.acknowledged) + len(notes.failures) < self._number * KEYS:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _read(self) -> None:
        """Read as a member of a classic group, and commit."""
        async with Consumer(self._bootstrap, self.topics[0], **self._member("readers")) as consumer:
            while True:
                found = await consumer.getmany(500)
                if not found:
                    continue
                self._notes.read.update(
                    Place(record.partition, record.offset) for records in found.values() for record in records
                )
                offsets, before = _next_offsets(found), dict(self._committed)
                try:
                    await consumer.commit(offsets)
                except BrokerError as error:  # the new owners of the partitions read the records again
                    if error.fatal:
                        raise
                    continue
                self._notes.commits += 1
                self._progress["read"].note()
                for partition, offset in offsets.items():
                    self._notes.offsets_back += offset < before.get(partition, 0)
                    self._committed[partition] = max(offset, self._committed.get(partition, 0))

    async def _watch(self) -> None:
        """Watch the group's offsets."""
        async with Admin(self._bootstrap, **self._limits) as admin:
            while True:
                before = dict(self._committed)
                found = await admin.list_group_offsets(f"{self.topics[0]}-readers")
                for partition, offset in before.items():
                    self._notes.offsets_back += partition not in found or found[partition].offset < offset
                await asyncio.sleep(_WATCH_SECONDS)

    async def _copy(self) -> None:
        """Copy in transactions; after a fatal error of the producer or the consumer, continue with a new one."""
        while True:
            try:
                async with AsyncExitStack() as stack:
                    consumer = await stack.enter_async_context(
                        Consumer(
                            self._bootstrap,
                            self.topics[0],
                            isolation_level="read_committed",
                            **self._member("copy"),
                        )
                    )
                    producer = await stack.enter_async_context(
                        Producer(
                            self._bootstrap,
                            transactional_id=f"{self.topics[0]}-copy",
                            transaction_timeout_ms=60_000,
                            delivery_timeout_ms=_PATIENCE_MS,
                            **self._limits,
                        )
                    )
                    while True:
                        await self._copy_some(consumer, producer)
            except (BrokerError, TransactionAborted) as error:
                if not error.fatal:
                    raise
                self._notes.aborted[_name(error)] += 1

    async def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        """Copy the next records in one transaction; after an error, make the consumer read them again."""
        found = await consumer.getmany(500)
        if not found:
            return
        try:
            group: GroupMetadata = consumer.group_metadata()
            async with producer.transaction() as transaction:
                for partition, records in found.items():
                    for record in records:
                        producer.send(self.topics[1], record.value, key=record.key, partition=partition.partition)
                await transaction.send_offsets(_next_offsets(found), group)
        except (BrokerError, TransactionAborted) as error:
            if error.fatal:
                raise
            self._notes.aborted[_name(error)] += 1
            committed = await consumer.committed(*consumer.assignment)
            for partition in consumer.assignment & found.keys():
                if partition in committed:
                    consumer.seek(partition, committed[partition].offset)
                else:
                    consumer.seek_to_beginning(partition)
        else:
            self._notes.transactions += 1
            self._progress["copy"].note()

    # Finish.

    async def _finish(self) -> Counts:
        self._is_ending.set()
        writing, *others = self._running
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            await writing
            for group in ("readers", "copy"):
                await self._reach_end(f"{self.topics[0]}-{group}", others)
        pauses_seconds = {part: round(progress.longest_seconds, 1) for part, progress in self._progress.items()}
        await _ended(others)
        stored, copies = [await self._stored(topic) for topic in self.topics]
        return count(self._notes, stored, copies, pauses_seconds)

    async def _reach_end(self, group: str, parts: Iterable[asyncio.Task[None]]) -> None:
        """Wait until a group has committed the end of each partition of the source."""
        async with (
            Consumer(self._bootstrap, **self._limits) as reader,
            Admin(self._bootstrap, **self._limits) as admin,
        ):
            ends = await reader.end_offsets(await reader.partitions_for(self.topics[0]))
            while True:
                committed = await admin.list_group_offsets(group)
                if all(end == 0 or (at in committed and committed[at].offset >= end) for at, end in ends.items()):
                    return
                if any(part.done() for part in parts):
                    raise AssertionError(
                        f"part of the load has ended, but {group} committed {committed}, expected {ends}"
                    )
                await asyncio.sleep(_LOOK_SECONDS)

    async def _stored(self, topic: str) -> list[Stored]:
        """Return the committed records of a topic, one partition after another."""
        found = []
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            Consumer(
                self._bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                **self._limits,
            ) as reader,
        ):
            for partition in await reader.partitions_for(topic):
                reader.assign(partition)
                async for record in reader.records(stop_at_end=True):
                    found.append(_stored(record))
        return found

    def _member(self, group: str) -> dict[str, Any]:
        return {
            "group_id": f"{self.topics[0]}-{group}",
            "group_protocol": "classic",
            "session_timeout_ms": _SESSION_TIMEOUT_MS,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            **self._limits,
        }

    def _raise_failure(self) -> None:
        """Raise the error of a part that has failed."""
        for part in self._running:
            if part.done() and not part.cancelled():
                part.result()

    def _call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _close(self) -> None:
        if self._thread.is_alive():
            self._call(_ended(self._running))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()


def _next_offsets(found: Mapping[TopicPartition, list[Record]]) -> dict[TopicPartition, int]:
    return {partition: records[-1].offset + 1 for partition, records in found.items()}


def _name(error: KafkaWireError) -> str:
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__


def _stored(record: Record) -> Stored:
    key, _, number = bytes(record.value or b"").decode().partition(":")
    return Stored(Place(record.partition, record.offset), int(key), int(number))


async def _ended(parts: Iterable[asyncio.Task[None]]) -> None:
    """Cancel parts, and wait until they have ended."""
    parts = list(parts)
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)


@dataclass(frozen=True)
class Segments:
    """A comparison of the segments of all replicas of some partitions.

    Attributes:
        partitions: the number of partitions that were compared.
        size_bytes: the total size of the segments of one replica of each partition.
        different: the differences between replicas.
    """

    partitions: int
    size_bytes: int
    different: tuple[str, ...]


def segments_equal(
    folders: Mapping[int, Path], topics: Iterable[str] | None = None, replicas: int = 3, *, until_equal: bool = True
) -> Segments:
    """Compare the segments of partitions byte for byte, once followers have caught up.

    The records are compared across segment boundaries, since a Kafka follower may roll at other offsets.

    Args:
        folders: the log directory of each broker, by its id.
        topics: the topics to compare; None for all topics that any broker has.
        replicas: the number of brokers that must have each partition.
        until_equal: whether to wait, up to the limit, until no differences are left.
    """
    wanted = None if topics is None else set(topics)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = _compared(folders, wanted, replicas)
        if not found.different or not until_equal or time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_SECONDS)


def _compared(folders: Mapping[int, Path], topics: set[str] | None, replicas: int) -> Segments:
    logs: dict[str, dict[int, bytes]] = {}
    for broker_id, folder in folders.items():
        for path in folder.iterdir():
            match = _PARTITION_FOLDER.fullmatch(path.name)
            if match is not None and path.is_dir() and (topics is None or match["topic"] in topics):
                logs.setdefault(path.name, {})[broker_id] = _records(path)
    different = [f"there is no partition of {topic}" for topic in _missing(topics, logs)]
    size_bytes = 0
    for name, contents in sorted(logs.items()):
        sizes = {broker_id: len(content) for broker_id, content in sorted(contents.items())}
        size_bytes += min(sizes.values())
        if len(contents) != replicas:
            different.append(f"{name} is on {sorted(contents)}")
        elif len(set(contents.values())) > 1:
            different.append(f"{name}: {sizes} bytes, the first difference at {_first_difference(contents.values())}")
    return Segments(len(logs), size_bytes, tuple(different))


def _records(partition: Path) -> bytes:
    """Return the content of all segments, skipping those that are deleted in the meantime."""
    content = b""
    for segment in sorted(partition.glob("*.log")):
        try:
            content += segment.read_bytes()
        except FileNotFoundError:
            continue
    return content


def _missing(topics: set[str] | None, logs: Iterable[str]) -> list[str]:
    return sorted((topics or set()) - {name.rpartition("-")[0] for name in logs})


def _first_difference(contents: Iterable[bytes]) -> int:
    """Return the position of the first byte that differs or that one of the inputs lacks."""
    contents = list(contents)
    shortest = min(map(len, contents))
    low, high = 0, shortest  # all are equal below `low`
    while low < high:
        middle = (low + high + 1) // 2
        if len({content[:middle] for content in contents}) == 1:
            low = middle
        else:
            high = middle - 1
    return low
