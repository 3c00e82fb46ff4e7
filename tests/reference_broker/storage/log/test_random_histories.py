"""Whatever happens to a log, in any order, it has each acknowledged record once, in order, and its files match it.

Method: run seeded sequences of appends with odd timestamps, producer retries, rolls, retention, deleted records,
compaction, clock jumps, recreated topics, indexes and checkpoints that are lost or cannot be written, kills and power
cuts, with background work in any order. After each restart, compare the log with a model.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from kafkawire.reference_broker.metadata.topic_files import LocalTopic
from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.cleaner_checkpoint import CleanerCheckpoint
from kafkawire.reference_broker.storage.cleaning.upkeep import Upkeep, UpkeepLimits
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.segments.segments import Read
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.storage.checkpoints import RECOVERY_POINTS
from tests.reference_broker.storage.held_work import ShuffledWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.thorough import sampled

STEPS = 120
PRODUCERS = 3
LIMITS = UpkeepLimits(100, 500, 300, 2**20, is_cleaner_enabled=True)

#: The memory for the keys of a log: enough for one or two keys, in which case a log needs several compactions, or for
#: all keys.
KEYS_BYTES = [300, 400, 2**20]

CONFIGS: list[Mapping[str, str]] = [
    {"segment.bytes": "300"},
    {"segment.index.bytes": "24", "index.interval.bytes": "0", "file.delete.delay.ms": "0"},
    {"segment.index.bytes": "4", "retention.ms": "0", "message.timestamp.type": "LogAppendTime"},
    {"segment.bytes": "400", "retention.bytes": "900", "file.delete.delay.ms": "700"},
    {"segment.ms": "50", "flush.messages": "1", "segment.jitter.ms": "40"},
    {"segment.bytes": "250", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"},
    {"segment.ms": "20", "cleanup.policy": "compact,delete", "retention.ms": "1000", "delete.retention.ms": "0"},
]

#: An offset, a key and a value.
Entry = tuple[int, bytes, bytes | None]


class History:
    """A broker's logs, and the data that they must have."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.config = {"retention.ms": "-1", **self.random.choice(CONFIGS)}
        self.limits = LIMITS._replace(cleaner_keys_bytes=self.random.choice(KEYS_BYTES))
        self.disk = MemoryDisk()
        self.now_ms = NOW_MS
        self.acknowledged: list[Entry] = []
        #: The next sequence number of each producer, and the batches that it has sent, keyed by sequence number.
        self.sequences = [0] * PRODUCERS
        self.sent: list[dict[int, tuple[int, bytearray]]] = [{} for _ in range(PRODUCERS)]
        self.made = 0
        self.deleted_to = 0
        self.open()
        self.make_topic()

    @property
    def log(self) -> PartitionLog:
        return self.directory.of("t")[0]

    # The broker.

    def open(self) -> None:
        self.work = ShuffledWork(self.random.randrange(2**32))
        self.timers = Timers()
        services = LogServices(self.disk, self.work, self.timers)
        self.store = open_alone(services, 1, self.new_uuid)
        self.directory = self.store.directory
        self.upkeep = Upkeep(self.directory, self.limits, self.now_ms)

    def new_uuid(self) -> bytes:
        self.made += 1
        return self.made.to_bytes(16, "big")

    def make_topic(self) -> None:
        made: list[LocalTopic | BrokerError] = []
        self.store.create("t", 1, self.config, made.append)
        while not made:
            assert self.work.step()
        if isinstance(made[0], BrokerError):
            assert self.disk.plan is not None, made[0]
            self.disk.plan = None
            self.make_topic()
            return
        self.disk.plan = None
        self.forget()

    def forget(self) -> None:
        self.acknowledged.clear()
        self.deleted_to = 0
        self.sequences = [0] * PRODUCERS
        self.sent = [{} for _ in range(PRODUCERS)]

    # Events.

    def append(self) -> None:
        number = self.random.randrange(PRODUCERS)
        count = self.random.randint(1, 3)
        sequence = self.sequences[number]
        key = b"k%d" % self.random.randrange(4)
        values = [None if self.random.random() < 0.1 else b"%d %d" % (number, sequence + n) for n in range(count)]
        at_ms = self.now_ms + self.random.choice([0, 0, 0, -10, 10**9, -(10**9), 100])
        timestamps = tuple(self.random.choice([at_ms, at_ms, -1]) for _ in values)
        data = produced(
            *values, key=key, timestamps=timestamps, producer_id=number, producer_epoch=0, base_sequence=sequence
        )
        copy = bytearray(data)
        self.sequences[number] += count

        def done(result: Appended | BrokerError) -> None:
            assert isinstance(result, Appended), result
            self.acknowledged.extend((result.base_offset + n, key, value) for n, value in enumerate(values))
            self.sent[number][sequence] = result.base_offset, copy

        self.log.append(data, parse_header(data), self.now_ms, done)
        while sequence not in self.sent[number]:
            assert self.work.step(), "an append was never answered"

    def send_again(self) -> None:
        """Resend the last batches, as many as may be in flight; each keeps its offset."""
        number = self.random.randrange(PRODUCERS)
        for offset, data in [self.sent[number][sequence] for sequence in sorted(self.sent[number])][-5:]:
            results: list[Appended | BrokerError] = []
            again = bytearray(data)
            self.log.append(again, parse_header(again), self.now_ms, results.append)
            while not results:
                assert self.work.step()
            assert isinstance(results[0], Appended), results[0]
            assert results[0].base_offset == offset

    def pass_time(self) -> None:
        jump_ms = self.random.choice([1, 50, 400, 2000, -3000])
        self.now_ms += jump_ms
        if jump_ms < 0:
            self.timers.shift(jump_ms)
        self.timers.fire(self.now_ms)

    def delete_records(self) -> None:
        if self.log.config.has_retention:
            offset = self.random.randint(self.log.log_start_offset, self.log.high_watermark)
            self.log.begin_at(offset)
            self.checkpoint()
            self.deleted_to = max(self.deleted_to, offset)

    def roll(self) -> None:
        if self.log.segments.last.size_bytes:
            self.log.roll(lambda: None)

    def make_again(self) -> None:
        """Delete the topic and create another with its name, with or without a kill and failing checkpoints."""
        told: list[BrokerError | None] = []
        self.log.sync()
        if self.random.random() < 0.5:
            self.disk.plan = no_room_for_checkpoints
        self.store.delete(self.store.topics["t"], told.append)
        while not told:
            assert self.work.step()
        if self.random.random() < 0.5:
            self.work.run(self.random.randint(0, 3))
            self.disk = self.disk.crash()
            self.open()
            assert not self.store.topics
        self.make_topic()
        if self.random.random() < 0.5:
            for _ in range(self.random.randint(1, 5)):
                self.append()
            self.restart("kill")

    def lose_files(self) -> None:
        """Lose indexes, and perhaps recovery points, which are then rebuilt, perhaps with a checkpoint and a kill."""
        self.now_ms += LIMITS.cleaner_backoff_ms
        self.timers.fire(self.now_ms)
        self.work.run()  # this gives a compacted log gaps
        if self.random.random() < 0.5:
            with suppress(FileNotFoundError):
                self.disk.remove(RECOVERY_POINTS)
            self.restart("kill")
        for name in self.disk.names(self.log.folder):
            if name.endswith((".index", ".timeindex")) and self.random.random() < 0.7:
                self.disk.remove(f"{self.log.folder}/{name}")
        self.read()
        if self.random.random() < 0.5:
            self.checkpoint()
            self.restart("kill")

    def checkpoint(self) -> None:
        told: list[BrokerError | None] = []
        self.directory.checkpoint(told.append)
        while not told:
            assert self.work.step()

    def read(self) -> None:
        """Read from every segment in ways that need its indexes."""
        log = self.log
        for base_offset in log.segments.base_offsets:
            found: list[Read | BrokerError] = []
            read = partial(log.read, max(base_offset, log.log_start_offset), 500, at_least_one=True)
            log.when_prepared(read, found.append)
            while not found:
                assert self.work.step()
            is_gone = base_offset < log.log_start_offset  # meanwhile
            assert isinstance(found[0], Read) or is_gone, found[0]

    def work_on(self) -> None:
        self.work.run(self.random.randint(1, 20))

    def restart(self, how: str = "") -> None:
        how = how or self.random.choice(["stop", "kill", "power"])
        if RECOVERY_POINTS not in self.disk.names(""):
            how = "kill"  # after a power cut, lost batches in a compacted log would look like gaps left by compaction
        durable_to = self.log.recovery_point
        start = self.log.log_start_offset
        if how == "stop":
            self.upkeep.stop()
            self.work.run()
            self.directory.close()
        self.disk = self.disk.crash(self.random.randrange(2**32) if how == "power" else None)
        self.open()
        if "t" not in self.store.topics:
            assert how == "power"
            self.make_topic()
            return
        self.check(durable_to if how == "power" else None, start)
        # After a stop, every request has been answered; duplicates of compacted or removed batches cannot be
        # recognised.
        known_from = self.log.segments.recent(6, 2**30).base_offset
        for sent in self.sent:
            first = max(sent, default=0) if how == "stop" or self.log.config.is_compacted else 0
            for sequence in [each for each in sent if each < first or sent[each][0] < known_from]:
                if sequence != max(sent):
                    del sent[sequence]

    # Checks.

    def check(self, durable_to: int | None, start: int) -> None:
        """Compare the log with the model, and continue with the remaining records.

        Args:
            durable_to: the offset before which all records must exist; None if all acknowledged records must exist.
            start: the previous log start offset.
        """
        log, acknowledged = self.log, self.acknowledged
        assert not log.is_offline
        assert self.deleted_to <= log.log_start_offset <= log.high_watermark <= log.next_offset
        end = acknowledged[-1][0] + 1 if acknowledged else 0
        assert log.next_offset == end if durable_to is None else durable_to <= log.next_offset <= max(end, start)
        found = list(self.entries())
        expected = [entry for entry in acknowledged if log.log_start_offset <= entry[0] < log.next_offset]
        found = [entry for entry in found if entry[0] >= log.log_start_offset]
        if not log.config.is_compacted:
            assert found == expected
        else:
            assert set(found) <= set(expected)
            assert latest_of(found) == latest_of(expected)
            noted = CleanerCheckpoint(self.directory).offset_of(log)
            clean = [key for offset, key, _ in found if offset < noted]
            assert len(clean) == len(set(clean)), f"according to the checkpoint, the log is compacted to offset {noted}"
        assert [entry[0] for entry in found] == sorted({entry[0] for entry in found})
        self.check_files()
        self.acknowledged = [entry for entry in acknowledged if entry[0] < log.next_offset]
        for number in range(PRODUCERS):
            self.sent[number] = {
                sequence: (offset, data)
                for sequence, (offset, data) in self.sent[number].items()
                if offset < log.next_offset
            }
            known = log.producers.get(number)
            sent = self.sent[number]
            if durable_to is not None and durable_to < start:
                sent.clear()  # the deleted records were not durable, so neither is their producer's state
            ends = [sequence + parse_header(data).last_offset_delta for sequence, (_, data) in sent.items()]
            last = known.last_sequence if known is not None and known.batches else -1
            assert not ends or last == max(ends)
            self.sequences[number] = last + 1

    def entries(self) -> list[Entry]:
        """Return the records in the log."""
        return [
            (record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value))
            for file, header in self.log.headers()
            for record in RecordBatch(file.read(header.position, header.size_bytes)).records()
        ]

    def check_files(self) -> None:
        names = self.disk.names(self.log.folder)
        bases = {name[:20] for name in names if name.endswith(".log")}
        assert bases == {f"{segment.base_offset:020}" for segment in self.log.segments}
        for name in names:
            assert not name.endswith((".deleted", ".cleaned", ".swap")), name
            if name.endswith((".index", ".timeindex", ".txnindex")):
                assert name[:20] in bases, f"{name} has no segment"

    def run(self) -> None:
        actions = {
            self.append: 12,
            self.work_on: 8,
            self.pass_time: 5,
            self.send_again: 2,
            self.roll: 1,
            self.delete_records: 1,
            self.lose_files: 1,
            self.restart: 2,
            self.make_again: 0.3,
        }
        for _ in range(STEPS):
            (action,) = self.random.choices(list(actions), list(actions.values()))
            action()
        self.restart()


def no_room_for_checkpoints(call: DiskCall) -> None:
    if call.name == "append" and "-offset-checkpoint" in call.path:
        raise OSError(errno.ENOSPC, "No space left on device", call.path)


def latest_of(entries: list[Entry]) -> dict[bytes, bytes]:
    """Return the latest value of each key that has not been deleted."""
    latest = {key: value for _, key, value in entries}
    return {key: value for key, value in latest.items() if value is not None}


@pytest.mark.parametrize("seed", sampled(range(60), 3))
def test_histories(seed: int) -> None:
    History(seed).run()
