"""A scripted workload that covers everything the broker stores, and a check of its data after a disk failure.

The workload has idempotent producers, transactions over partitions of several topics and the offsets topic, timeouts,
commits, topics that are deleted and created again, retention, DeleteRecords, compaction, rolls and a restart. Every log
syncs each batch, so acknowledged data must survive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.tables.enums import CoordinatorType, IsolationLevel, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench
from tests.reference_broker.patient_clients import Client, Clients, Committer, Driver, Program, Writer
from tests.reference_broker.patient_transactors import Transactor
from tests.reference_broker.storage.committed_records import committed_in
from tests.reference_broker.storage.produced_batches import produced, values_in

__all__ = ["TransactionWorkload"]

_KEPT_MS = 40_000
_ROLLING = {"segment.index.bytes": "36"}
_TOPICS: dict[str, dict[str, str]] = {
    "numbers": {**_ROLLING, "file.delete.delay.ms": "1000"},
    "aged": {**_ROLLING, "file.delete.delay.ms": "1000", "retention.ms": str(_KEPT_MS)},
    "left": _ROLLING,
    "right": {**_ROLLING, "cleanup.policy": "compact"},
}
_SHORT = "short"

#: Options with which every log syncs each batch, and the coordinators' logs are rolled and compacted all the time.
_OPTIONS: dict[str, object] = {
    "transaction_state_log_num_partitions": 1,
    "log_flush_interval_messages": 1,
    "log_index_interval_bytes": 0,
    "log_index_size_max_bytes": 96,
    "log_cleaner_min_cleanable_ratio": 0.3,
    "log_cleaner_backoff_ms": 15_000,
    "log_initial_task_delay_ms": 15_000,
    "log_retention_check_interval_ms": 15_000,
    "log_segment_delete_delay_ms": 1_000,
}

#: Long enough for the longest transaction to time out and for its markers to be retried.
_CALM_MS = 80_000

#: A function that runs some of the background work, or all of it.
Settle = Callable[[bool], None]


class Bench(BrokerBench):
    """A broker that never repeats the topic id of an earlier broker."""

    _numbers = count(1)

    def new_numbers(self) -> Iterator[int]:
        return self._numbers


class Janitor(Client):
    """A client that deletes records, deletes a topic, and creates it again.

    Attributes:
        deleted_to: the offset up to which deletions were acknowledged.
        asked_to: the offset up to which deletions were requested.
        ids: the ids of the created topics, keyed by name.
        gone: the ids of topics whose deletion was acknowledged.
    """

    def __init__(self, shared: Clients) -> None:
        super().__init__(shared)
        self.deleted_to = self.asked_to = 0
        self.ids: dict[str, bytes] = {}
        self.gone: set[bytes] = set()
        self.maybe_gone: set[bytes] = set()

    def create(self, name: str, configs: dict[str, str]) -> Program:
        """Create a topic."""
        entries = [CreateTopicsRequest.CreatableTopicConfig(*entry) for entry in configs.items()]
        request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1, configs=entries)])
        response = yield from self.ask(request, None, lambda found: found.topics[0].error_code)
        if response is not None and not self.error:
            self.ids[name] = bytes(response.topics[0].topic_id)

    def delete(self, name: str) -> Program:
        """Delete a topic."""
        topic_id = self.ids[name]
        self.maybe_gone.add(topic_id)
        request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], timeout_ms=60_000)
        response = yield from self.ask(request, None, lambda found: found.responses[0].error_code)
        if response is not None and not self.error:
            self.gone.add(topic_id)

    def renew(self, name: str) -> Program:
        """Delete a topic, and create another one with its name."""
        if name in self.ids:
            yield from self.delete(name)
        yield from self.create(name, {})

    def delete_records(self, topic: str, offset: int) -> Program:
        """Delete the records before an offset."""
        self.asked_to = max(self.asked_to, offset)
        partition = DeleteRecordsRequest.DeleteRecordsPartition(0, offset)
        request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [partition])], 60_000)
        response = yield from self.ask(request, None, lambda found: found.topics[0].partitions[0].error_code)
        # If a fault lost records before they were acknowledged, there may be none to delete.
        if response is not None and not self.error:
            self.deleted_to = max(self.deleted_to, response.topics[0].partitions[0].low_watermark)


class TransactionWorkload:
    """The requests to a broker, and its responses.

    Attributes:
        janitor: see `Janitor`.
        writers: idempotent producers.
        committer: see `Committer`.
        steady: a producer of transactions of version 2.
        old: a producer of transactions of version 1.
        lazy: a producer that leaves transactions open until they time out.
    """

    def __init__(self) -> None:
        self.shared = Clients()
        self.janitor = Janitor(self.shared)
        self.writers = [Writer(self.shared, "numbers"), Writer(self.shared, "aged")]
        self.committer = Committer(self.shared, "numbers")
        self.steady = Transactor(self.shared, "steady", TransactionVersion.TV_2, "numbers")
        self.old = Transactor(self.shared, "old", TransactionVersion.TV_1, "numbers")
        self.lazy = Transactor(self.shared, "lazy", TransactionVersion.TV_2, "numbers", timeout_ms=2_000)
        self.transactors = [self.steady, self.old, self.lazy]
        #: The latest broker; it is kept because time must not go backwards on a restart.
        self._bench: BrokerBench | None = None

    @staticmethod
    def bench(disk: Disk, *arguments: Any) -> BrokerBench:
        """Return a broker for this workload."""
        return Bench(disk, *arguments, **_OPTIONS)

    def prepare(self, bench: BrokerBench) -> None:
        """Create the topics, and start all clients; nothing may fail."""
        self.shared.is_strict = True
        driver = Driver(bench)
        for name, configs in _TOPICS.items():
            driver.run(self.janitor.create(name, configs))
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]))
        driver.run(self.janitor.create(_SHORT, {}))
        driver.run(*(client.begin() for client in (*self.writers, *self.transactors)))
        self.shared.is_strict = False

    # The script.

    def run(self, bench: BrokerBench, settle: Settle = lambda is_all: None) -> None:
        """Do everything once, with a restart in the middle.

        Args:
            bench: the broker.
            settle: runs some of the background work, or all of it.
        """
        self._bench = bench
        driver = Driver(bench, settle)
        steady, old, lazy, janitor = self.steady, self.old, self.lazy, self.janitor
        both = {"left": 1, "right": 1}
        driver.run(lazy.transact({"left": 1, "right": 1}, None, bench.now_ms))
        self._round(driver, steady.transact({"left": 2, "right": 1}, True, bench.now_ms), old.transact(both, True, 0))
        self._round(driver, steady.transact(both, False, bench.now_ms), old.transact({"left": 1}, False, 0))
        short = steady.transact({_SHORT: 1, **both}, True, bench.now_ms, janitor.renew(_SHORT))
        self._round(driver, short, old.transact({"right": 2}, True, 0))
        driver.run(janitor.delete_records("numbers", 3))
        driver.wait(16_000)  # the lazy producer times out; retention and compaction run
        self._look(bench)
        driver.run(steady.begin(), self.writers[0].skip(bench.now_ms))
        driver.run(steady.haunt("left", bench.now_ms), lazy.begin())
        driver.run(old.transact(both, None, 0), lazy.transact(both, True, bench.now_ms))
        driver.run(old.begin())  # its open transaction is aborted
        settle(True)
        self._restart(bench)
        driver.run(*self._recover(bench))
        self._round(driver, steady.transact(both, True, bench.now_ms), old.transact(both, True, 0))
        driver.run(janitor.delete_records("numbers", 5), janitor.renew(_SHORT))
        driver.wait(31_000)  # the first records have expired by now
        self._round(driver, steady.transact({_SHORT: 1, **both}, True, bench.now_ms), lazy.transact(both, False, 0))
        driver.run(self.writers[0].skip(bench.now_ms), old.transact(both, None, 0))
        self._look(bench)
        settle(True)

    def _round(self, driver: Driver, *transactions: Program) -> None:
        now_ms = driver.bench.now_ms
        driver.run(*transactions, self.committer.commit(), *(writer.write(now_ms) for writer in self.writers))
        driver.run(*(writer.write(now_ms) for writer in self.writers for _ in range(2)))

    def _recover(self, bench: BrokerBench) -> list[Program]:
        self.janitor.is_stuck = False
        programs = [client.recover() for client in (*self.writers, self.committer, *self.transactors)]
        if _SHORT not in bench.store.topics:
            programs.append(self.janitor.create(_SHORT, {}))
        return programs

    def _restart(self, bench: BrokerBench) -> None:
        try:
            bench.restart()
        except OSError:
            # Reading failed: the operator restarts the broker.
            bench.restart_again()

    def _look(self, bench: BrokerBench) -> None:
        """Read all records, as consumers constantly would; a read may fail."""
        for name in _TOPICS:
            log = bench.core.directory.of(name)[0]
            # Once a response is being sent, the broker can only close the connection.
            with contextlib.suppress(OSError):
                data = fetch(bench, name, log.log_start_offset, IsolationLevel.READ_COMMITTED)
                assert data.error_code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)

    # The check.

    def check_works_on(self, bench: BrokerBench) -> None:
        """Check that a broker whose disk has failed serves everything that the fault did not affect."""
        directory = bench.core.directory
        bench.create("fresh")
        assert not bench.produce(produced(b"fresh"), "fresh").error_code
        if not any(directory.of(name)[0].is_offline for name in _COORDINATORS):
            driver, again = Driver(bench), Transactor(Clients(), "another", TransactionVersion.TV_2, "fresh")
            again.shared.is_strict = True
            driver.run(again.begin())
            driver.run(again.transact({"fresh": 1}, True, bench.now_ms))
            assert again.transactions[0].is_committed
        for name, topic in bench.store.topics.items():
            if directory.of(topic.name)[0].is_offline:
                assert fetch(bench, name, 0, IsolationLevel.READ_COMMITTED).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    def check(self, bench: BrokerBench) -> tuple[int, ...]:
        """Check the data of a broker started on the remaining files; return the number of records in each topic.

        Nothing may fail from now on.
        """
        bench.now_ms = NOW_MS if self._bench is None else self._bench.now_ms
        self._bench = bench
        self.shared.is_strict = True
        for name, log in self._logs(bench):
            assert log.error is None, f"{name}: {log.error}"
        self._check_topics(bench)
        for writer in self.writers:
            self._check_numbers(bench, writer, is_complete=False)
        driver = Driver(bench)
        driver.run(*self._recover(bench))
        self._check_everything(bench)
        # The workload continues, and abandoned transactions are ended.
        both = {"left": 1, "right": 1}
        driver.run(self.lazy.transact(both, None, bench.now_ms))
        self._round(driver, self.steady.transact(both, True, bench.now_ms), self.old.transact(both, True, 0))
        driver.wait(_CALM_MS)
        self._check_calm(bench)
        return self._check_everything(bench)

    def _logs(self, bench: BrokerBench) -> list[tuple[str, Any]]:
        return [(name, log) for name, _, log in bench.core.directory.logs()]

    def _check_topics(self, bench: BrokerBench) -> None:
        store = bench.store
        for topic_id in self.janitor.gone:
            assert topic_id not in store.topics_by_id, "a deleted topic has reappeared"
        for name, topic_id in self.janitor.ids.items():
            assert topic_id in store.topics_by_id or topic_id in self.janitor.maybe_gone, f"{name} is gone"

    def _check_numbers(self, bench: BrokerBench, writer: Writer, *, is_complete: bool) -> int:
        log = bench.core.directory.of(writer.topic)[0]
        start, offset = log.log_start_offset, log.log_start_offset
        found: list[int] = []
        while offset < log.high_watermark:
            data = fetch(bench, writer.topic, offset, IsolationLevel.READ_UNCOMMITTED)
            assert not data.error_code
            values = [int(value) for value in values_in(data.records)]
            # A fetch returns whole batches, and these have one record each.
            assert values == list(range(offset, offset + len(values))), f"{writer}: found {values} at offset {offset}"
            assert values, f"{writer}: there is no record at offset {offset}"
            found += values
            offset += len(values)
        assert offset <= writer.sent
        lost = {number for number in writer.acknowledged if number >= start} - set(found)
        assert not lost, f"{writer}: {lost} were acknowledged but lost"
        assert not is_complete or offset == writer.sent, f"{writer}: only {offset} of {writer.sent} records are present"
        if writer.topic == "numbers":
            assert self.janitor.deleted_to <= start <= self.janitor.asked_to
        else:
            early = [number for number in range(start) if writer.times[number] > bench.now_ms - _KEPT_MS]
            assert not early, f"{writer}: {early} were removed too early"
        return len(found)

    def _check_everything(self, bench: BrokerBench) -> tuple[int, ...]:
        counts = [self._check_numbers(bench, writer, is_complete=True) for writer in self.writers]
        found = {name: read_committed(bench, name) for name in ("left", "right", _SHORT)}
        for name, values in found.items():
            assert len(set(values)) == len(values), f"{name}: a value appears twice: {values}"
            known = {
                value
                for transactor in self.transactors
                for made in transactor.transactions
                for value in made.values(name)
            }
            assert set(values) <= known, f"{name}: {set(values) - known}"
            assert b"refused" not in read_all(bench, name), f"{name}: a refused record is readable"
        for transactor in self.transactors:
            self._check_transactions(bench, transactor, found)
        assert self.committer.acknowledged <= offset_of(bench, self.committer.group_id) <= self.committer.sent
        return (*counts, *(len(values) for values in found.values()))

    def _check_transactions(self, bench: BrokerBench, transactor: Transactor, found: dict[str, list[bytes]]) -> None:
        expected: dict[str, list[bytes]] = {"left": [], "right": []}
        for made in transactor.transactions:
            is_there = offset_of(bench, made.name) == 7
            assert is_there or not made.is_committed, f"{made} was committed, but its offset is gone"
            assert made.is_commit_asked or not is_there, f"{made} was not committed, but its offset was"
            for topic, values in expected.items():
                values.extend(made.values(topic) if is_there else [])
            if not is_there:
                assert not set(found[_SHORT]) & set(made.values(_SHORT)), f"{made} is in {_SHORT} without its offset"
        mine = transactor.transactional_id.encode() + b"-"
        for topic, values in expected.items():
            present = [value for value in found[topic] if value.startswith(mine)]
            assert present == values, f"{topic} has {present} of {transactor}, expected {values}"

    def _check_calm(self, bench: BrokerBench) -> None:
        for name, log in self._logs(bench):
            assert log.error is None, f"{name}: {log.error}"
            assert log.last_stable_offset == log.next_offset, f"{name}: a transaction is hanging"
            leftovers = (".deleted", ".cleaned", ".swap")
            assert not [entry for entry in bench.disk.names(log.folder) if entry.endswith(leftovers)]
        states = {entry.transaction_state for entry in bench.ask(ListTransactionsRequest()).transaction_states}
        assert states <= {"Empty", "CompleteCommit", "CompleteAbort"}, states


_COORDINATORS = ("__consumer_offsets", "__transaction_state")


def fetch(bench: BrokerBench, name: str, offset: int, isolation: IsolationLevel) -> Any:
    """Return the response to a consumer's fetch from partition 0 of a topic."""
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    topics = [FetchRequest.FetchTopic(name, partitions=[partition])]
    request = FetchRequest(topics=topics, max_bytes=2**20, isolation_level=isolation)
    return bench.ask(request, 12).responses[0].partitions[0]


def read_committed(bench: BrokerBench, name: str) -> list[bytes]:
    """Return the values that a `read_committed` consumer reads, up to the last stable offset."""
    log = bench.core.directory.of(name)[0]
    offset, values = log.log_start_offset, []
    while offset < log.last_stable_offset:
        data = fetch(bench, name, offset, IsolationLevel.READ_COMMITTED)
        assert not data.error_code, f"{name} at offset {offset}: error code {data.error_code}"
        found, next_offset = committed_in(data.records, data.aborted_transactions or (), offset)
        if next_offset == offset:
            break  # compaction has removed everything after this offset
        values += [value for _, value in found]
        offset = next_offset
    return values


def read_all(bench: BrokerBench, name: str) -> list[bytes]:
    """Return the values of all records, committed or not."""
    log = bench.core.directory.of(name)[0]
    offset, values = log.log_start_offset, []
    while offset < log.high_watermark:
        data = fetch(bench, name, offset, IsolationLevel.READ_UNCOMMITTED)
        found, next_offset = committed_in(data.records, (), offset)
        if next_offset == offset:
            break
        values += [value for _, value in found]
        offset = next_offset
    return values


def offset_of(bench: BrokerBench, group_id: str) -> int:
    """Return the committed offset of a group; -1 if there is none."""
    asked = [OffsetFetchRequest.OffsetFetchRequestTopics("numbers", partition_indexes=[0])]
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id, topics=asked)]
    (group,) = bench.ask(OffsetFetchRequest(groups=groups, require_stable=True), 9).groups
    assert not group.error_code, group
    ((partition,),) = [topic.partitions for topic in group.topics]
    assert not partition.error_code, partition
    return int(partition.committed_offset)
