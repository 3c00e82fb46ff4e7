"""A whole simulated broker, which gets a random sequence of transactional requests; its disk is slow and loses power.

    python -m tests.reference_broker.transactions.simulation SEQUENCES [SEED]

Along the way, it checks that high watermarks and last stable offsets only increase; `read_committed` consumers see the
records that the batches and markers in the log define, in order; the coordinators agree with their logs; a fenced
producer appends nothing; no producer id and epoch is assigned twice; and every request is answered once, and in time.
At the end, it checks that every transaction ends, the visibility of acknowledged items agrees with the answers, and a
new producer succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    CoordinatorType,
    TransactionState,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.answered_once import answered_once
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.seeds import run_seeds
from tests.reference_broker.storage.committed_records import committed
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.transactions import sequences
from tests.reference_broker.transactions.asking import Names, Requested, codes_of, message, version_of
from tests.reference_broker.transactions.ledger import Ledger, offset_name
from tests.reference_broker.transactions.sequences import (
    GROUP,
    PARTITIONS,
    SHORT_MS,
    TOPICS,
    TRANSACTIONAL_IDS,
    Asked,
    Commit,
    End,
    Initialize,
    Mark,
    Produce,
    Script,
    Share,
)
from tests.reference_broker.transactions.stored_logs import committed_offsets, stored_in, stored_transactions

__all__ = ["Simulation", "run"]

#: The timeouts of honest and of malicious clients.
HONEST_TIMEOUTS_MS = (60_000, 900_000)
TIMEOUTS_MS = (1, 2, 1_000, 60_000, 900_000)
WRONG_TIMEOUTS_MS = (0, -1, -(2**31), 900_001, 2**31 - 1)

#: The steps by which time advances: none, a little, about a timeout, longer than an id is kept.
TIMES_MS = (0, 0, 1, 19, 99, 1_000, 10_001, 61_000, 1_000_000, 4_000_000)
HONEST_TIMES_MS = (0, 1, 19, 99, 3_000)

ABORT_INTERVAL_MS = 10_000

#: The maximum time until a request is answered if the disk works.
ANSWER_MS = 6_000

_STEPS = 40

#: The maximum number of timers that may fire in one step of time.
_TIMERS_MAX = 5_000

_OPTIONS = {
    "log_cleaner_enable": False,
    "log_retention_check_interval_ms": 2**31 - 1,
    "transactional_id_expiration_ms": 3_600_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 600_000,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": ABORT_INTERVAL_MS,
}

#: Options with which every log starts a new segment after a few batches.
_ROLLING = {"log_index_interval_bytes": 0, "log_index_size_max_bytes": 24}


class Simulation:
    """One sequence.

    Args:
        seed: the seed for every choice.
    """

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        is_honest = random.random() < 0.5
        self.times_ms = HONEST_TIMES_MS if is_honest else TIMES_MS
        share = random.choice((Share(), Share(), Share(marks=1), Share(deletes=0.4), Share(waits=0.7)))
        timeouts_ms = HONEST_TIMEOUTS_MS if is_honest else TIMEOUTS_MS
        self.script = Script(random, timeouts_ms, WRONG_TIMEOUTS_MS, share)
        self.ledger = Ledger(believes=not share.marks)
        #: Whether acknowledged data is on the disk.
        self.is_synced = random.random() < 0.7
        #: Whether the disk may have lost the coordinator's state of transactions.
        self.may_hang = False
        self.is_held = False
        self.work = HeldWork()
        self.disk = MemoryDisk()
        self.bench = BrokerBench(
            self.disk,
            self.work,
            log_flush_interval_messages=1 if self.is_synced else 2**63 - 1,
            transaction_state_log_num_partitions=random.choice((1, 2)),
            producer_id_expiration_ms=random.choice((1_800_000, 86_400_000)),
            **(_OPTIONS | (_ROLLING if random.random() < 0.4 else {})),
        )
        self.names = Names()
        #: Unanswered requests, each with the time at which it was sent.
        self.waiting: dict[int, int] = {}
        self.numbers = 0
        self.codes: dict[int, ErrorCode] = {}
        self.watermarks: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.given: set[ProducerIdAndEpoch] = set()
        self.fences: dict[int, int] = {}
        self.failures: list[AssertionError] = []
        #: The ids of the topics after the previous step.
        self.topics: dict[str, bytes] = {}
        self.create()
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            self.bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]))
            self.work.run()
        self.advance(0)

    def run(self) -> None:
        """Run to the end."""
        for _ in range(_STEPS):
            self.step()
            self.check()
        self.settle()

    # Steps.

    def step(self) -> None:
        """Do something at random."""
        kinds = {
            self.ask_next: 20,
            self.pass_time: 4,
            self.hold: 1.5,
            self.unload: 0.4,
            self.load: 2,
            self.restart: 0.2,
            self.crash: 0.15,
            self.cut_power: 0.3,
            self.create: 1,
            self.check_logs: 1,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0]()
        self.work.run(self.random.choice((0, 0, 1, 2)) if self.is_held else None)

    def ask_next(self) -> None:
        """Send the script's next request."""
        asked = self.script.next()
        if isinstance(asked, sequences.Wait):
            self.advance(SHORT_MS + ABORT_INTERVAL_MS)
        else:
            self.ask(asked)

    def pass_time(self) -> None:
        """Let some time pass."""
        self.advance(self.random.choice(self.times_ms))

    def hold(self) -> None:
        """Make the disk slow, or fast again, in which case waiting requests are answered in time from then on."""
        self.is_held = not self.is_held
        self.waiting = dict.fromkeys(self.waiting, self.bench.now_ms)

    def unload(self) -> None:
        """Take the coordinators' partitions away; requests waiting for them are answered."""
        self.bench.core.unload()

    def load(self) -> None:
        """Let the coordinators start to load their lost partitions."""
        self.bench.elect()

    def restart(self) -> None:
        """Stop the broker cleanly, and restart it."""
        self.work.run()
        self.bench.core.close()
        self._restart(self.disk.crash())

    def crash(self) -> None:
        """Kill the broker, and restart it."""
        self._restart(self.disk.crash())

    def cut_power(self) -> None:
        """Cut the power, and start the broker on the remaining files."""
        self._restart(self.disk.crash(self.random.getrandbits(32)))
        if not self.is_synced:
            # Kafka's default settings promise nothing in this case.
            self.may_hang = True
            self.ledger.doubt()
            self.fences.clear()
            self.given.clear()
            self.watermarks.clear()

    def _restart(self, disk: MemoryDisk) -> None:
        self.work.pending.clear()
        self.waiting.clear()
        self.ledger.crashed()
        self.disk = self.bench.disk = disk
        self.bench.crash()
        self.work.run()

    def create(self) -> None:
        """Create the topics that are missing."""
        for name, count in TOPICS.items():
            if name not in self.bench.store.topics:
                self.bench.core.topics.create(NewTopic(name, count), lambda _: None)
        self.work.run()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at each deadline."""
        bench = self.bench
        end_ms = bench.now_ms + milliseconds
        for _ in range(_TIMERS_MAX):
            deadline_ms = bench.core.timers.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            bench.now_ms = max(bench.now_ms, deadline_ms)
            bench.core.advance(bench.now_ms)
            if not self.is_held:
                self.work.run()
        else:
            raise AssertionError(f"{_TIMERS_MAX} timers fired within {milliseconds} ms")
        bench.now_ms = end_ms

    # Requests.

    def ask(self, asked: Requested) -> int:
        """Send a request, and record its response when it arrives; return the request's number."""
        self.numbers += 1
        number = self.numbers
        self.names.now_ms = self.bench.now_ms
        self.ledger.asked(number, asked, may_be_prepared=self._may_be_prepared())
        self.waiting[number] = self.bench.now_ms
        is_fenced = self._is_fenced(asked)
        version = version_of(asked)
        answer = self.bench.ask(message(asked, self.names), version)

        def answered(response: Message) -> None:
            self.note(lambda: self.answered(number, asked, self.bench.through(response, version), is_fenced))

        if isinstance(answer, DelayedOperation):
            answer.then(answered)
        else:
            answered(answer)
        return number

    def _may_be_prepared(self) -> bool:
        """Return whether markers are, or may be, being written."""
        transactions = self.transactions()
        is_unknown = not transactions or self.bench.core.transactions.is_loading
        return is_unknown or any(transaction.is_prepared for transaction in transactions.values())

    def _is_fenced(self, asked: Asked) -> bool:
        """Return whether a transactional request comes from a producer that has a successor."""
        if not isinstance(asked, Produce | Commit | End) or asked.transactional_id is None:
            return False
        return asked.producer.epoch < self.fences.get(asked.producer.producer_id, 0)

    def answered(self, number: int, asked: Asked, response: Any, is_fenced: bool) -> None:
        """Check an answer."""
        assert self.waiting.pop(number, None) is not None, f"{asked} was answered twice"
        code = next((code for code in codes_of(response) if code is not ErrorCode.NONE), ErrorCode.NONE)
        self.codes[number] = code
        producer = None
        if isinstance(asked, Initialize | End) and code is ErrorCode.NONE and response.producer_id >= 0:
            producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self.ledger.answered(number, asked, code, producer)
        self.script.answered(asked, response)
        if isinstance(asked, Initialize) and producer is not None:
            if asked.producer is None:
                assert producer not in self.given, f"{producer} had been assigned before"
            if asked.transactional_id is not None:
                self.fences[producer.producer_id] = max(self.fences.get(producer.producer_id, 0), producer.epoch)
        if producer is not None:
            self.given.add(producer)
        if isinstance(asked, Produce | Commit) and is_fenced and not self.may_hang:
            assert code is not ErrorCode.NONE, f"{asked} from a fenced producer was stored"

    def note(self, check: Callable[[], None]) -> None:
        """Run a check inside the broker, which would otherwise treat a failure as its own defect."""
        try:
            check()
        except AssertionError as error:
            self.failures.append(error)

    # Invariants.

    def logs(self) -> Iterator[tuple[str, int, bytes, PartitionLog]]:
        """Yield every log with its topic, its partition and the topic's id."""
        for topic in self.bench.store.topics.values():
            for number, log in self.bench.core.directory.of(topic.name).items():
                yield topic.name, number, topic.topic_id, log

    def transactions(self) -> dict[str, Transaction]:
        """Return the coordinator's state."""
        return {found.transactional_id: found for found in self.bench.core.transactions.transactions()}

    def check(self) -> None:
        """Check the invariants."""
        if self.failures:
            raise self.failures[0]
        topics = {name: topic.topic_id for name, topic in self.bench.store.topics.items()}
        for name, topic_id in self.topics.items():
            if topics.get(name) != topic_id:
                self.ledger.forget(name)
        self.topics = topics
        for name, number, topic_id, log in self.logs():
            assert log.error is None, f"{name}-{number}: {log.error}"
            found = log.high_watermark, log.last_stable_offset
            before = self.watermarks.get((topic_id, number), (0, 0))
            assert found[1] <= found[0] <= log.next_offset, f"{name}-{number}: {found}, {log.next_offset}"
            assert found >= before, f"{name}-{number}: {found} after {before}"
            assert found[1] >= before[1], f"{name}-{number}: {found} after {before}"
            self.watermarks[topic_id, number] = found
        if self._late() and not self.is_held:
            self.advance(0)
            assert not self._late(), f"requests {self._late()} were not answered"

    def _late(self) -> list[int]:
        """Return the requests that have been waiting too long, which they may do while the disk is slow."""
        return [number for number, asked_ms in self.waiting.items() if asked_ms < self.bench.now_ms - ANSWER_MS]

    def check_logs(self, *, is_over: bool = False) -> None:
        """Check that consumers and coordinators agree with the logs, and the logs with the answers to clients."""
        stored: set[bytes] = set()
        visible: set[bytes] = set()
        offsets: dict[tuple[str, int], tuple[int, int | None]] = {}
        for name, number, _, log in self.logs():
            found = stored_in(log)
            assert log.last_stable_offset == found.last_stable_offset, f"{name}-{number}: {found}"
            if name == TRANSACTION_STATE_TOPIC:
                self.check_transactions(log)
            elif name == CONSUMER_OFFSETS_TOPIC:
                stored.update(
                    offset_name(offset) for _, offset in committed_offsets(found.entries) if offset is not None
                )
                for entry in found.committed:
                    for partition, offset in committed_offsets([entry]):
                        visible.add(offset_name(offset or 0))
                        if entry.offset >= offsets.get(partition, (0, None))[0]:
                            offsets[partition] = entry.offset, offset
            else:
                expected = [entry.value or b"" for entry in found.committed if entry.offset < found.last_stable_offset]
                read = list(committed(log, self.random.choice((1, 300, 2**20))))
                assert read == expected, f"{name}-{number}: expected the reader to see {expected}, got {read}"
                assert len(set(read)) == len(read), f"{name}-{number}: there are duplicates in {read}"
                stored.update(entry.value or b"" for entry in found.entries)
                visible.update(entry.value or b"" for entry in found.committed)
        groups = self.bench.core.groups
        if not groups.is_loading and not self.work.pending and any(groups.classic_groups()):
            held = {partition: entry.offset for partition, entry in groups.offsets(GROUP).items()}
            assert held == {partition: offset for partition, (_, offset) in offsets.items() if offset is not None}
        if not self.work.pending:
            self.ledger.check(stored, visible, is_over=is_over)

    def check_transactions(self, log: PartitionLog) -> None:
        """Check that the coordinator agrees with its log."""
        coordinator = self.bench.core.transactions
        held = self.transactions()
        if coordinator.is_loading or self.work.pending or not held:
            return
        for transactional_id, transaction in stored_transactions(log).items():
            # The log does not contain the previous epoch.
            assert replace(held[transactional_id], last_epoch=-1) == transaction

    # The end.

    def settle(self) -> None:
        """Let all clients fall silent until all transactions have ended; then a new producer must succeed."""
        self.is_held = False
        self.work.run()
        self.load()
        self.create()
        self.script.plan.clear()
        self.advance(max(TIMEOUTS_MS) + 2 * ABORT_INTERVAL_MS)
        self.check()
        assert not self.waiting, f"requests {self.waiting} were not answered"
        for transaction in self.transactions().values():
            assert transaction.can_expire, f"{transaction} did not end"
        if self.may_hang:
            self.abort_hanging()
        for name, number, _, log in self.logs():
            assert log.last_stable_offset == log.high_watermark == log.next_offset, f"{name}-{number} is unstable"
        self.check_logs(is_over=True)
        # The logs may remember epochs that the coordinator has forgotten, and refuse producers with lower ones.
        for transactional_id in ("new",) if self.may_hang else TRANSACTIONAL_IDS:
            self.transact(transactional_id)
        self.check()
        self.check_logs(is_over=True)

    def abort_hanging(self) -> None:
        """Abort transactions that no coordinator knows, as an administrator would."""
        for name, number, _, log in self.logs():
            for known in [known for known in log.producers if known.transaction_start is not None]:
                producer = ProducerIdAndEpoch(known.producer_id, known.epoch)
                self.finish(Mark(producer, False, ((name, number),), known.coordinator_epoch, 0, 1))

    def transact(self, transactional_id: str) -> None:
        """Let a new producer commit a transaction with records and offsets."""
        script = self.script
        for _ in range(2):  # the script may have guessed the first epoch
            self.finish(Initialize(transactional_id, 60_000, None, 5))
        producer = script.known[-1].producer
        for partition in self.random.sample(PARTITIONS, 2):
            script.made += 1
            self.finish(Produce(transactional_id, producer, partition, 0, (b"%d" % script.made,), 12))
            script.made += 1
            self.finish(Commit(transactional_id, producer, partition, script.made, "", 5))
        self.finish(End(transactional_id, producer, True, 5))
        assert self.transactions()[transactional_id].state is TransactionState.COMPLETE_COMMIT

    def finish(self, asked: Requested) -> None:
        """Send a request that must succeed."""
        number = self.ask(asked)
        self.work.run()
        assert self.codes.get(number) is ErrorCode.NONE, f"{asked}: {self.codes.get(number)}"


def run(seed: int) -> None:
    """Run one sequence; a failure names its seed."""
    try:
        simulation = Simulation(seed)
        with answered_once(simulation.failures):
            simulation.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


if __name__ == "__main__":
    run_seeds(run)
