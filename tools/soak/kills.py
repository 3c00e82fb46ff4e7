"""Repeatedly kill a broker under load: `python -m tools.soak kills [--kills N] [--seconds S] [--seed S]`.

Producers send numbers, some of them idempotently and some in transactions (`killed_transactions.py`), and groups commit
offsets. After a moment, the process gets SIGKILL, or one time in four SIGTERM. It is restarted on the same files, and
the stored records are compared with the acknowledged ones, all of which must exist, in order and exactly once. In
addition, everything that an idempotent producer has sent must exist once it has resent unanswered batches, each
transaction must be complete or absent, a cleanly stopped broker must have no unacknowledged records, and no committed
offset may move back.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NoReturn

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from kafkawire.sdk.transport.blocking import ConnectionEnded
from tools.soak.broker_process import PRODUCE_VERSION, BrokerProcess, RawClient, produce_request
from tools.soak.killed_transactions import TOPICS as TRANSACTION_TOPICS
from tools.soak.killed_transactions import Failure, Transactor

__all__ = ["main"]

#: The range of times for which a broker runs before it is killed.
WORK_SECONDS = (0.005, 0.08)

#: One kill in this many is a SIGTERM.
TERM_EVERY = 4

#: Number of kills with the same files. After that, everything is read again, and the next kill gets new files.
KILLS_A_FOLDER = 50

#: The number of a producer's unanswered requests, which is how many resent batches a broker recognises, even after a
#: crash.
IN_FLIGHT = 5

#: The topics, whose small segments make their logs roll all the time.
TOPICS = {
    "plain": {"segment.bytes": str(1 << 20), "index.interval.bytes": "0"},
    "synced": {"flush.messages": "1"},
    **{name: {"segment.index.bytes": "480", "index.interval.bytes": "0"} for name in TRANSACTION_TOPICS},
}
_COMMITTED_TOPIC = "plain"
_COMMIT_VERSION = 8
_COORDINATOR_VERSION = 4
_FETCH_OFFSETS_VERSION = 8
_PRODUCER_ID_VERSION = 4

#: Time for the coordinator to load its part of the offsets topic.
_RETRIABLE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

#: Errors of a connection whose broker has ended; a hang raises none of these.
_ENDS = (ConnectionError, ConnectionEnded)


class Writer:
    """A producer for one partition that survives many restarts of the broker.

    Args:
        topic: the topic to which it writes.
        partition: the partition number.
        is_idempotent: whether it resends unanswered batches.
    """

    def __init__(self, topic: str, partition: int, *, is_idempotent: bool) -> None:
        self.name = f"{topic}-{partition}"
        self.topic = topic
        self.partition = partition
        self.is_idempotent = is_idempotent
        self.sent = 0
        #: Unanswered numbers, each with the sequence number at which it begins.
        self.in_flight: deque[tuple[int, int]] = deque()
        self.acknowledged: dict[int, int] = {}
        self.producer_id = -1
        self.checked_offset = 0
        self.last_number = -1

    def begin(self, client: RawClient) -> None:
        """Request a producer id, and resend unanswered batches."""
        if not self.is_idempotent:
            self.in_flight.clear()
            return
        if self.producer_id < 0:
            request = InitProducerIdRequest(None, 60_000)
            self.producer_id = client.ask(request, _PRODUCER_ID_VERSION, InitProducerIdResponse).producer_id
        for number, count in self.in_flight:
            self._send(client, number, count)
        while self.in_flight:
            self._receive(client)

    def work(self, client: RawClient, size_bytes: int, count: int) -> None:
        """Send a batch, and wait for a response if enough are in flight."""
        self._send(client, self.sent, count, size_bytes)
        self.in_flight.append((self.sent, count))
        self.sent += count
        if len(self.in_flight) >= IN_FLIGHT:
            self._receive(client)

    def _send(self, client: RawClient, number: int, count: int, size_bytes: int = 0) -> None:
        values = [b"%d " % each + bytes(size_bytes) for each in range(number, number + count)]
        sequence = number if self.is_idempotent else -1
        epoch = 0 if self.is_idempotent else -1
        request = produce_request(
            self.topic,
            self.partition,
            values,
            now_ms(),
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        client.send(request, PRODUCE_VERSION)

    def _receive(self, client: RawClient) -> None:
        answer = client.receive(ProduceResponse).responses[0].partition_responses[0]
        number, count = self.in_flight[0]
        if answer.error_code:
            raise Failure(f"{self.name}: record {number} was refused: {ErrorCode(answer.error_code).name}")
        for delta in range(count):
            self.acknowledged[answer.base_offset + delta] = number + delta
        self.in_flight.popleft()

    def finish(self, client: RawClient) -> None:
        """Read the remaining responses from a broker that is stopping."""
        while self.in_flight:
            self._receive(client)

    def check(self, client: RawClient, *, is_stopped: bool) -> None:
        """Compare the records stored since the last check with the acknowledged ones.

        Raises:
            Failure: they differ.
        """
        for offset, number in self._stored(client):
            if number <= self.last_number:
                raise Failure(f"{self.name}: record {number} at offset {offset} follows record {self.last_number}")
            if number >= self.sent:
                raise Failure(f"{self.name}: record {number} at offset {offset} was never sent")
            expected = self.acknowledged.pop(offset, None)
            if expected is None and (is_stopped or self.is_idempotent):
                raise Failure(f"{self.name}: record {number} at offset {offset} was stored, but not acknowledged")
            if expected not in (None, number):
                raise Failure(
                    f"{self.name}: record {number} is at offset {offset}, but record {expected} was acknowledged"
                )
            if self.is_idempotent and number != self.last_number + 1:
                raise Failure(f"{self.name}: record {number} at offset {offset} follows record {self.last_number}")
            self.last_number = number
            self.checked_offset = offset + 1
        if self.is_idempotent and self.last_number != self.sent - 1:
            raise Failure(f"{self.name}: the last record is {self.last_number}, expected {self.sent - 1}")
        if self.acknowledged:
            offset, number = next(iter(self.acknowledged.items()))
            raise Failure(
                f"{self.name}: {len(self.acknowledged)} acknowledged records are lost, "
                f"such as {number} at offset {offset}"
            )

    def _stored(self, client: RawClient) -> Iterator[tuple[int, int]]:
        offset = self.checked_offset
        while records := client.fetch(self.topic, self.partition, offset):
            try:
                for batch in walk(records):
                    for record in batch.records():
                        if record.offset >= offset:
                            yield record.offset, int(bytes(record.value or b"").partition(b" ")[0])
                            offset = record.offset + 1
            except PartialBatch:
                pass


class Committer:
    """A group whose committed offset only increases.

    Args:
        group: the group id.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.sent = 0
        self.acknowledged = 0

    def work(self, client: RawClient) -> None:
        """Commit the next offset."""
        self.sent += 1
        Topic, Place = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
        topic = Topic(_COMMITTED_TOPIC, partitions=[Place(0, self.sent)])
        request = OffsetCommitRequest(self.group, -1, "", topics=[topic])
        (answer,) = client.ask(request, _COMMIT_VERSION, OffsetCommitResponse).topics
        code = answer.partitions[0].error_code
        if not code:
            self.acknowledged = self.sent
        elif code not in _RETRIABLE:
            raise Failure(f"{self.group}: a commit was refused: {ErrorCode(code).name}")

    def check(self, client: RawClient) -> None:
        """Compare the committed offset with the acknowledged ones.

        Raises:
            Failure: the offset is older than an acknowledged one.
        """
        Group, Topic = OffsetFetchRequest.OffsetFetchRequestGroup, OffsetFetchRequest.OffsetFetchRequestTopics
        request = OffsetFetchRequest(
            groups=[Group(self.group, topics=[Topic(_COMMITTED_TOPIC, partition_indexes=[0])])]
        )
        deadline = time.monotonic() + 30
        while True:
            (found,) = client.ask(request, _FETCH_OFFSETS_VERSION, OffsetFetchResponse).groups
            if found.error_code not in _RETRIABLE:
                break
            if time.monotonic() > deadline:
                raise Failure(f"{self.group}: the coordinator did not finish loading")
        offset = max(found.topics[0].partitions[0].committed_offset, 0)
        if not self.acknowledged <= offset <= self.sent:
            raise Failure(f"{self.group}: committed {offset}, acknowledged {self.acknowledged}, and sent {self.sent}")


#: Workers, each of which has a thread and a connection of its own.
Worker = Writer | Transactor | list[Committer]


class Lives:
    """A broker that is repeatedly ended and restarted.

    Args:
        folder: the folder for its files.
        random: the source of all choices.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self.writers = [
            Writer("plain", 0, is_idempotent=False),
            Writer("plain", 1, is_idempotent=True),
            Writer("synced", 0, is_idempotent=True),
        ]
        self.committers = [Committer(f"group-{number}") for number in range(3)]
        self.transactors = [Transactor(f"transactor-{number}", number) for number in range(2)]
        self._broker = BrokerProcess(folder)
        with RawClient(self._broker.bootstrap) as client:
            for name, configs in TOPICS.items():
                client.create({name: 2}, configs)
            request = FindCoordinatorRequest(coordinator_keys=["group-0"])
            client.ask(request, _COORDINATOR_VERSION, FindCoordinatorResponse)
            request = FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, coordinator_keys=["transactor-0"])
            client.ask(request, _COORDINATOR_VERSION, FindCoordinatorResponse)
            for worker in (*self.writers, *self.transactors):
                worker.begin(client)

    def live_and_die(self, *, by_kill: bool) -> None:
        """Let the workers work, end the broker, restart it, and check.

        Raises:
            Failure: a promise was broken.
        """
        failures: list[Failure] = []
        is_ending = threading.Event()
        threads = [
            threading.Thread(target=self._worked, args=(worker, is_ending, failures))
            for worker in (*self.writers, *self.transactors, self.committers)
        ]
        for thread in threads:
            thread.start()
        time.sleep(self._random.uniform(*WORK_SECONDS))
        is_ending.set()
        if by_kill:
            self._broker.kill()
        elif self._broker.stop():
            raise Failure("a broker that was told to stop exited with a status other than 0")
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        self._broker = BrokerProcess(self._folder)
        self.check(is_stopped=not by_kill)

    def check(self, *, is_stopped: bool) -> None:
        """Compare everything with the acknowledged state."""
        with RawClient(self._broker.bootstrap) as client:
            for writer in self.writers:
                writer.begin(client)
                writer.check(client, is_stopped=is_stopped)
            for committer in self.committers:
                committer.check(client)
            for transactor in self.transactors:
                transactor.begin(client)
                transactor.check(client)

    def counts(self) -> tuple[int, int, int]:
        """Return the number of kept records, commits and transactions."""
        records = sum(writer.last_number + 1 for writer in self.writers)
        commits = sum(committer.acknowledged for committer in self.committers)
        return records, commits, sum(transactor.kept for transactor in self.transactors)

    def end(self) -> None:
        """Kill the broker."""
        self._broker.kill()

    def _worked(self, worker: Worker, is_ending: threading.Event, failures: list[Failure]) -> None:
        """Work until the broker ends, and read its last responses; a connection that ends earlier is a failure."""
        random = Random(self._random.random())
        client = None
        try:
            try:
                client = RawClient(self._broker.bootstrap)
                self._work(worker, client, random)
            except _ENDS as end:
                if not is_ending.is_set():
                    raise Failure(f"a connection ended before the broker: {end}") from end
            if isinstance(worker, Writer) and client is not None:
                with suppress(*_ENDS):
                    worker.finish(client)
        except Failure as failure:
            failures.append(failure)
        except Exception:
            failures.append(Failure(traceback.format_exc()))
        finally:
            if client is not None:
                client.close()

    def _work(self, worker: Worker, client: RawClient, random: Random) -> NoReturn:
        while True:
            if isinstance(worker, Writer):
                worker.work(client, random.choice((10, 1_000, 50_000)), random.randint(1, 4))
            elif isinstance(worker, Transactor):
                worker.work(client, random)
            else:
                random.choice(worker).work(client)


def main(arguments: list[str]) -> int:
    """Kill the broker repeatedly, print what was kept, and return the exit status, which is 1 if something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak kills")
    parser.add_argument("--kills", type=int, help="number of kills; by default, as many as the time allows")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="not supported, since this soak starts its own broker")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    killed = stopped = 0
    kept = [0, 0, 0]
    folder = Path(tempfile.mkdtemp(prefix="kafkawire-kills-"))
    lives: Lives | None = None
    try:
        while killed + stopped < given.kills if given.kills is not None else time.monotonic() - begun < given.seconds:
            number = killed + stopped
            if number % KILLS_A_FOLDER == 0:
                if lives is not None:
                    lives.end()
                shutil.rmtree(folder)
                folder.mkdir()
                random = Random(f"{given.seed} {number}")
                lives = Lives(folder, random)
            assert lives is not None
            by_kill = number % TERM_EVERY != TERM_EVERY - 1
            before = lives.counts()
            try:
                lives.live_and_die(by_kill=by_kill)
            except Failure as failure:
                print(f"kills: seed {given.seed}, end {number}: {failure}; the files are in {folder}")
                return 1
            kept = [sum(entry) - before[number] for number, entry in enumerate(zip(kept, lives.counts(), strict=True))]
            killed += by_kill
            stopped += not by_kill
        shutil.rmtree(folder)
    finally:
        if lives is not None:
            lives.end()
    seconds = time.monotonic() - begun
    records, commits, transactions = kept
    print(
        f"kills: {killed} SIGKILL, {stopped} SIGTERM in {seconds:.0f} s; "
        f"{records:,} records, {commits:,} commits, {transactions:,} transactions kept"
    )
    return 0
