"""A compacted log has the latest record of each key, and no reader loses its place.

Method: write random records and transactions to logs on an in-memory disk, compact them repeatedly and reopen them; cut
the power, or let the disk fail, at every disk call of a compaction.
"""

import dataclasses
import random

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs
from kafkawire.reference_broker.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkawire.reference_broker.storage.cleaning.compaction import Compaction, CompactionServices
from kafkawire.reference_broker.storage.cleaning.log_to_clean import CompactionBounds, log_to_clean
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producer_snapshots import encode_snapshot, producer_state_entries
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import at_once
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.committed_records import committed_in
from tests.reference_broker.storage.compacting import batches_of, compact, entries_of, latest_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.transacting_logs import TransactingLog, aborted_in
from tests.thorough import sampled

CONFIG = dataclasses.replace(
    log_config({"cleanup.policy": "compact", "delete.retention.ms": "1000"}),
    segment_bytes=600,
    index_interval_bytes=100,
)


class Bench:
    """A compacted log on an in-memory disk."""

    def __init__(self, disk=None, config=CONFIG, **arguments):
        self.disk = disk or MemoryDisk()
        self.disk.make_folder("t-0")
        self.services = LogServices(self.disk)
        self.log = PartitionLog(self.services, "t-0", config, **arguments)

    def append(self, key, *values, **fields):
        data = produced(*values, key=key, **fields)
        self.log.append(data, parse_header(data), NOW_MS, lambda result: None)

    def compact(self, **options):
        return compact(self.log, self.services, **options)

    def again(self, *, is_clean=True):
        """Reopen the log, and return it."""
        if is_clean:
            self.log.close()
        disk = self.disk.crash()
        return Bench(disk, self.log.config, is_clean=is_clean, recovery_point=self.log.recovery_point)


def filled(records=60, keys=4, config=CONFIG):
    bench = Bench(None, config)
    for number in range(records):
        bench.append(b"k%d" % (number % keys), b"v%02d" % number)
    return bench


def merging(bench):
    """Raise the segment size of a log."""
    bench.log.config = dataclasses.replace(bench.log.config, segment_bytes=2000)
    return bench


def test_latest_of_each_key_stays_where_it_was():
    bench = filled()
    before, entries = latest_of(bench.log), entries_of(bench.log)
    active = bench.log.segments.last.base_offset
    compacted = bench.compact()
    assert compacted.end_offset == active
    written = [segment for segment in bench.log.segments if segment.base_offset < active]
    assert compacted.bytes_after == sum(segment.size_bytes for segment in written) < compacted.bytes_before
    assert latest_of(bench.log) == before
    left = entries_of(bench.log)
    assert left == [entry for entry in entries if entry in left]
    assert len([entry for entry in left if entry[0] < active]) == 4
    assert bench.log.next_offset == 60
    again = bench.again()
    assert entries_of(again.log) == left
    assert again.log.log_start_offset == 0


@pytest.mark.parametrize("records", [0, 60])
def test_log_that_is_not_dirty_is_refused(records):
    bench = filled(records)
    active = bench.log.segments.last.base_offset
    with pytest.raises(OSError, match=f"cannot get past offset {active}"):
        bench.compact(cleaned_to=active)


def test_every_offset_can_still_be_read():
    bench = filled()
    bench.compact()
    places = [batch.base_offset for batch in batches_of(bench.log)]
    for log in (bench.log, bench.again().log):
        for offset in range(60):
            read = log.read(offset, 10, at_least_one=True)
            assert read.records is not None
            assert parse_header(read.records.read()).base_offset == next(place for place in places if place >= offset)
        assert log.offset_for_timestamp(0) is not None


def test_small_segments_become_one():
    bench = merging(filled())
    assert len(bench.log.segments) == 8
    bench.compact()
    assert len(bench.log.segments) == 4
    bench.compact()
    assert len(bench.log.segments) == 2
    names = bench.disk.names("t-0")
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    logs = [int(name[:20]) for name in names if name.endswith(".log")]
    assert logs == bench.log.segments.base_offsets
    snapshots = [int(name[:20]) for name in names if name.endswith(".snapshot")]
    assert set(snapshots) <= set(logs)


def test_new_segments_know_their_highest_timestamp_after_a_restart():
    bench = Bench()
    for number in range(60):
        bench.append(b"k%d" % (number % 4), b"v%02d" % number, timestamps=(NOW_MS + number,))
    bench.compact()
    for segment in bench.again().log.segments:
        found = (batch.max_timestamp for batch in segment.headers(0))
        assert segment.highest_timestamp() == max(found, default=NO_TIMESTAMP)


def test_old_files_are_given_to_whoever_removes_them():
    bench = filled()
    retired = []
    bench.compact(retired=retired)
    deleted = [f"t-0/{name}" for name in bench.disk.names("t-0") if name.endswith(".deleted")]
    assert sorted(retired) == sorted(deleted)
    assert deleted


def test_keys_that_do_not_fit_take_several_rounds():
    bench = filled(keys=17)
    before = latest_of(bench.log)
    active = bench.log.segments.last.base_offset
    ends = [0]
    while ends[-1] < active:
        ends.append(bench.compact(cleaned_to=ends[-1], keys_bytes=1000).end_offset)
        assert latest_of(bench.log) == before
    assert len(ends) > 4
    assert ends == sorted(set(ends))
    clean = [key for offset, key, _ in entries_of(bench.log) if offset < active]
    assert len(clean) <= 2 * 17


def test_what_was_aborted_takes_no_room_for_keys():
    log = TransactingLog(CONFIG)
    write(log, -1, b"a", [b"1"], is_transactional=False)
    write(log, 1, b"c", [b"x"], is_transactional=True)
    write(log, -1, b"b", [b"2"], is_transactional=False)
    log.end(1, False)
    for number in range(20):
        write(log, -1, b"a", [b"%d" % number], is_transactional=False)
    assert compact(log.log, LogServices(log.disk), keys_bytes=1).end_offset == 2


def test_what_a_producer_commits_after_an_abort_that_is_clean_replaces_what_was_before():
    """There is no second abort marker, so no later batch may be mistaken for a part of the aborted transaction."""
    log = TransactingLog(CONFIG)
    services = LogServices(log.disk)

    def fill() -> None:
        for number in range(12):
            write(log, -1, b"f", [b"%d" % number], is_transactional=False)

    write(log, 1, b"a", [b"x"], is_transactional=True)
    log.end(1, False)
    write(log, -1, b"k", [b"old"], is_transactional=False)
    fill()
    cleaned_to = compact(log.log, services).end_offset
    write(log, 1, b"k", [b"new"], is_transactional=True)
    log.end(1, True)
    fill()
    compact(log.log, services, cleaned_to=cleaned_to)
    assert [value for _, key, value in entries_of(log.log) if key == b"k"] == [b"new"]


def test_last_batch_before_the_end_is_kept_empty():
    bench = Bench()
    for number in range(8):
        bench.append(b"a", b"v%d" % number)
    bench.log.roll(lambda: None)
    bench.append(b"a", None)
    bench.log.roll(lambda: None)
    bench.append(b"b", b"v")
    bench.compact()
    assert [(b.base_offset, b.records_count) for b in batches_of(bench.log)] == [(8, 1), (9, 1)]
    bench.compact(now_ms=NOW_MS + 1000)
    assert [(b.base_offset, b.records_count) for b in batches_of(bench.log)] == [(8, 0), (9, 1)]
    assert bench.again().log.read(0, 100, at_least_one=True).records is not None
    bench.log.roll(lambda: None)
    bench.append(b"c", b"v")
    bench.compact()
    assert [(b.base_offset, b.records_count) for b in batches_of(bench.log)] == [(9, 1), (10, 1)]


def test_segment_whose_last_records_have_gone_is_done_with():
    bench = Bench(config=dataclasses.replace(CONFIG, segment_bytes=1000))
    for key, size, timestamp in ((b"b", 300, 1), (b"a", 500, 1), (b"a", 900, NOW_MS), (b"c", 900, NOW_MS)):
        bench.append(key, bytes(size), timestamps=(timestamp,))
    bases = bench.log.segments.base_offsets
    bench.compact()
    assert bench.log.segments.base_offsets == bases == [0, 2, 3]
    assert [offset for offset, _, _ in entries_of(bench.log)] == [0, 2, 3]
    bench.log.config = dataclasses.replace(bench.log.config, min_compaction_lag_ms=1_000)
    assert bench.compact().end_offset == 2, "without this, the log would be found dirty again"


def test_open_transaction_ends_what_is_compacted():
    log = TransactingLog(CONFIG)
    for number in range(10):
        log.plain(b"a%d" % number)
    log.append(1, b"open")
    for number in range(20):
        log.plain(b"b%d" % number)
    unstable = log.log.last_stable_offset
    assert unstable == 10
    compacted = compact(log.log, LogServices(log.disk))
    assert compacted.end_offset <= 10
    assert len([entry for entry in entries_of(log.log) if entry[0] >= 10]) == 21


def random_history(seed):
    """Return a log with random records and transactions; all transactions are decided."""
    chance = random.Random(seed)
    log = TransactingLog(CONFIG)
    is_open = dict.fromkeys((1, 2, 3), False)
    for number in range(150):
        producer = chance.choice((-1, 1, 2, 3, 4))
        values = [chance.choice((None, b"v%d" % number, b"w%d" % number)) for _ in range(chance.randint(1, 3))]
        key = b"k%d" % chance.randrange(6)
        if producer in is_open and is_open[producer] and chance.random() < 0.5:
            log.end(producer, chance.random() < 0.5)
            is_open[producer] = False
        else:
            write(log, producer, key, values, is_transactional=producer in is_open)
            if producer in is_open:
                is_open[producer] = True
    for producer, has_open in is_open.items():
        if has_open:
            log.end(producer, chance.random() < 0.5)
    return log, chance


def write(log, producer, key, values, *, is_transactional):
    """Append a batch with one key."""
    place = producer, 0
    sequence = log.sequences.get(place, 0) if producer >= 0 else -1
    epoch = 0 if producer >= 0 else -1
    names = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    data = produced(*values, key=key, is_transactional=is_transactional, **names)
    log.sequences[place] = sequence + len(values)
    guard = None
    if is_transactional:
        guard = log.log.producers.begin_verification(producer, 0, sequence, NOW_MS, has_epoch_per_transaction=False)
    results = []
    log.log.append(data, parse_header(data), NOW_MS, results.append, verification=guard)
    assert not isinstance(results[0], BrokerError)


def state_of(log):
    """Return the latest committed value of each key, as a consumer reads it in one fetch."""
    aborted = [entry for entries in aborted_in(log).values() for entry in entries]
    content = b"".join(bytes(batch.data) for batch in batches_of(log))
    offsets = {offset for offset, _ in committed_in(content, aborted)[0]}
    latest = {key: value for offset, key, value in entries_of(log) if offset in offsets}
    return {key: value for key, value in latest.items() if value is not None}


@pytest.mark.parametrize("seed", sampled(range(25), 3))
def test_random_histories(seed):
    """The last committed records stay, aborted records never reappear, and producer state is unchanged."""
    log, chance = random_history(seed)
    memory = log.disk
    assert isinstance(memory, MemoryDisk)
    services = LogServices(memory)
    before, producers = state_of(log.log), encode_snapshot(producer_state_entries(log.log.producers))
    offsets = [entry[0] for entry in entries_of(log.log)]
    active = log.log.segments.last.base_offset
    cleaned_to, now_ms = 0, NOW_MS
    for _ in range(4):
        keys_bytes = chance.choice((500, 2**20))
        cleaned_to = compact(
            log.log, services, cleaned_to=cleaned_to % active, now_ms=now_ms, keys_bytes=keys_bytes
        ).end_offset
        assert state_of(log.log) == before
        assert {entry[0] for entry in entries_of(log.log)} <= set(offsets)
        offsets = [entry[0] for entry in entries_of(log.log)]
        crashed = log.opened(is_clean=False, disk=memory.crash(), recovery_point=log.log.recovery_point)
        assert state_of(crashed) == before
        assert encode_snapshot(producer_state_entries(crashed.producers)) == producers
        assert aborted_in(crashed) == aborted_in(log.log)
        now_ms += 600
    # If there are no snapshots, producer state is rebuilt from the remaining batches.
    disk = memory.crash()
    for name in [name for name in disk.names("t-0") if name.endswith((".snapshot", ".txnindex"))]:
        disk.remove(f"t-0/{name}")
    bare = log.opened(is_clean=False, disk=disk, recovery_point=log.log.recovery_point)
    assert {(p.producer_id, p.epoch, p.last_sequence) for p in bare.producers} == {
        (p.producer_id, p.epoch, p.last_sequence) for p in log.log.producers
    }


SYNCING = dataclasses.replace(CONFIG, flush_messages=1)


@pytest.mark.thorough
def test_power_goes_at_every_call():
    number, is_done, outcomes = 0, False, set()
    while not is_done:
        number += 1
        bench = merging(filled(60, config=SYNCING))
        before, entries = latest_of(bench.log), set(entries_of(bench.log))
        bench.disk.sync_folder("")
        bench.disk.plan = cut_power_at(bench.disk.calls + number)
        try:
            bench.compact()
            is_done = True
        except PowerCut:
            pass
        for seed in (None, *range(4)):
            recovery_point = bench.log.segments.last.base_offset
            again = Bench(bench.disk.crash(seed), SYNCING, is_clean=False, recovery_point=recovery_point)
            assert latest_of(again.log) == before
            assert set(entries_of(again.log)) <= entries
            names = again.disk.names("t-0")
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
            outcomes.add(len(again.log.segments))
    assert number > 40
    assert len(outcomes) > 2, "cuts at different places leave different results"


@pytest.mark.parametrize("is_full", [False, True])
def test_disk_fails_at_every_call(is_full):
    """A failure before segments are swapped changes nothing; a later failure takes the log offline until a restart."""
    number, is_done, outcomes = 0, False, set()
    while not is_done:
        number += 1
        bench = merging(filled(40))
        before, is_done = latest_of(bench.log), True
        bench.disk.plan = fail_at(bench.disk.calls + number, 28 if is_full else 5)
        try:
            bench.compact()
        except (OSError, BrokerError):
            is_done = False
        outcomes.add(bench.log.is_offline)
        bench.disk.plan = None
        if not bench.log.is_offline:
            assert latest_of(bench.log) == before
            retired = []
            bench.compact(retired=retired)
            assert not [name for name in bench.disk.names("t-0") if name.endswith((".cleaned", ".swap"))]
            assert latest_of(bench.log) == before
        assert latest_of(bench.again(is_clean=False).log) == before
    assert number > 40
    assert outcomes == {True, False}


def test_full_disk_before_the_new_segment_counts_takes_nothing_offline():
    bench = merging(filled(40))
    before = latest_of(bench.log)
    calls = []

    def plan(call):
        calls.append(call.path)
        if call.name == "create" and call.path.endswith(".log.swap"):
            fail_at(call.number, 28)(call)

    bench.disk.plan = plan
    with pytest.raises(OSError, match="No space"):
        bench.compact()
    bench.disk.plan = None
    assert any(path.endswith(".log.swap") for path in calls)
    assert not bench.log.is_offline
    assert not [name for name in bench.disk.names("t-0") if name.endswith((".cleaned", ".swap"))]
    assert latest_of(bench.log) == latest_of(bench.again(is_clean=False).log) == before


def test_damaged_batch_is_not_copied():
    bench = filled()
    names = [name for name in bench.disk.names("t-0") if name.endswith(".log")]
    path = f"t-0/{names[1]}"
    file = bench.disk.open(path)
    content = bytearray(file.read(0, 10_000))
    content[-1] ^= 1
    file.truncate(0)
    file.append(bytes(content))
    with pytest.raises(DecodeError):
        bench.compact()
    assert not [name for name in bench.disk.names("t-0") if name.endswith((".cleaned", ".swap"))]
    assert not bench.log.is_offline


def test_log_that_ends_meanwhile_is_left_alone():
    bench = filled()
    gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    bench.disk.plan = lambda call: bench.log.end(gone) if call.name == "append" else None
    with pytest.raises(BrokerError):
        bench.compact()
    assert [name for name in bench.disk.names("t-0") if name.endswith(".log")]


def test_aborted_transactions_are_sorted_in_the_background(monkeypatch):
    """A log may have millions of aborted transactions."""
    bench, is_behind = filled(), []
    is_background = False

    def background(work, done):
        nonlocal is_background
        is_background = True
        work()
        is_background = False
        done(None)

    class Noted(CleanedTransactions):
        def __init__(self, aborted):
            super().__init__(aborted)
            is_behind.append(is_background)

    monkeypatch.setattr("kafkawire.reference_broker.storage.cleaning.compaction.CleanedTransactions", Noted)
    bench.services.background = background
    bench.compact()
    assert is_behind == [True, True]


def test_damage_names_segment_and_position():
    bench = filled()
    segment = bench.log.segments.first
    second = list(segment.headers(0))[1]
    content = bytearray(segment.file.read(0, 10_000))
    content[second.position + 70] ^= 1
    segment.file.truncate(0)
    segment.file.append(content)
    with pytest.raises(DecodeError, match=f"segment 0: batch at byte {second.position}: crc"):
        bench.compact()


def test_work_is_done_in_pieces(monkeypatch):
    sizes = [[header.size_bytes for header in segment.headers(0)] for segment in list(filled().log.segments)[:-1]]
    works = []

    def background(work, done):
        works.append(batches)
        at_once(work, done)

    for batches in (2, 1_000):
        monkeypatch.setattr(
            "kafkawire.reference_broker.storage.cleaning.compaction._PIECE_BYTES", batches * sizes[0][0]
        )
        bench = filled()
        bench.services.background = background
        bench.compact()
    assert works.count(2) - works.count(1_000) == sum(len(each) // 2 for each in sizes) * 2, (
        "one pass reads keys, and another reads records"
    )


@pytest.mark.parametrize("end", [3, 30, 55, 100])
def test_truncation_in_the_meantime(end):
    """Whatever is truncated at any time during a compaction, the files match the log."""
    outcomes = set()
    for pieces in range(0, 60, 3):
        bench = filled()
        bench.log.sync()
        work, told = HeldWork(), []
        bench = Bench(bench.disk.crash(), recovery_point=bench.log.recovery_point)
        bench.services.background = work
        log = bench.log
        jobs, errors = BackgroundJobs(), []
        bounds = CompactionBounds(0, 0, log.last_stable_offset, log.recovery_point)
        tools = CompactionServices(bench.services, BackgroundQueue(work), 2**20, lambda paths: None)

        def job(tools=tools, log=log, bounds=bounds):
            yield from Compaction(tools, log, log_to_clean(log.segments, log.config, bounds, NOW_MS), NOW_MS).run()

        jobs.add(job(), errors.append)
        work.run(pieces)
        if end < log.next_offset:
            log.truncate_to(end, told.append)
        else:
            log.start_at(end, told.append)
        work.run()
        assert (told, log.error) == ([None], None)
        assert log.next_offset <= end
        assert not errors or log.truncations == 1
        outcomes.add(bool(errors))
        names = bench.disk.names("t-0")
        assert [int(name[:20]) for name in names if name.endswith(".log")] == log.segments.base_offsets
        assert not [name for name in names if name.endswith((".swap", ".truncation"))]
        found = entries_of(log)
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        again = Bench(bench.disk.crash(), is_clean=False, recovery_point=min(bench.log.recovery_point, log.stored_to))
        assert entries_of(again.log) == found
    assert outcomes == ({False} if end > 100 else {False, True})
