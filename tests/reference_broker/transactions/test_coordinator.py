"""The coordinator fences producers, ends transactions in both versions, and finishes them after a restart.

Method: use a coordinator with an in-memory log; the test records, delays or refuses markers.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.transactions.transaction import LAST_EPOCH, ProducerIdAndEpoch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.transactions.transaction_bench import TIMEOUT_MS, TransactionBench, code_of

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def codes(answers):
    return [code_of(answer) for answer in answers]


# Producers.


def test_each_producer_fences_the_one_before():
    bench = TransactionBench()
    first = bench.producer()
    assert first == (1000, 0)
    second = bench.producer()
    assert second == (1000, 1)
    assert codes(bench.add(first)) == [ErrorCode.PRODUCER_FENCED]
    assert codes(bench.add(second)) == [ErrorCode.NONE]
    assert codes(bench.end(first)) == [ErrorCode.PRODUCER_FENCED]
    assert bench.producer("other") == (1001, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_are_limited(timeout_ms):
    assert codes(TransactionBench().init(timeout_ms=timeout_ms)) == [ErrorCode.INVALID_TRANSACTION_TIMEOUT]


def test_an_open_transaction_is_aborted_before_the_next_producer_begins():
    bench = TransactionBench()
    first = bench.producer()
    bench.add(first)
    assert codes(bench.init()) == [CONCURRENT]
    assert [marker for _, marker, _ in bench.markers] == [(1000, 1, False, 0)]
    assert bench.state is TransactionState.COMPLETE_ABORT
    assert bench.producer() == (1000, 2)
    assert codes(bench.end(first)) == [ErrorCode.PRODUCER_FENCED]


def test_a_producer_raises_its_own_epoch():
    bench = TransactionBench()
    bench.producer()
    assert bench.init((1000, 0)) == [(1000, 1)]
    assert bench.init((1000, 0)) == [(1000, 1)], "the response was lost"
    assert bench.init((1000, 1)) == [(1000, 2)]
    assert codes(bench.init((1000, 0))) == [ErrorCode.PRODUCER_FENCED]
    assert codes(bench.init((999, 2))) == [ErrorCode.PRODUCER_FENCED]
    assert bench.init((7, 7), transactional_id="new") == [(1001, 0)]


def test_ids_rotate_when_the_epochs_are_used_up():
    bench = TransactionBench()
    bench.producer()
    for _ in range(LAST_EPOCH):
        bench.producer()
    assert bench.transaction.epoch == LAST_EPOCH
    last = bench.transaction.producer
    assert bench.init(last) == [(1001, 0)]
    assert bench.init(last) == [(1001, 0)], "the response was lost"
    assert codes(bench.init((1000, 3))) == [ErrorCode.PRODUCER_FENCED]


def test_a_transaction_with_the_last_epoch_ends_with_a_new_id():
    bench = TransactionBench()
    bench.producer()
    for _ in range(LAST_EPOCH):
        bench.producer()
    last = bench.transaction.producer
    bench.add(last)
    assert bench.end(last) == [(1001, 0)]
    assert bench.markers[-1][1] == (1000, LAST_EPOCH + 1, True, 0)
    assert bench.end(last) == [(1001, 0)], "the response was lost"
    assert codes(bench.end(last, False)) == [ErrorCode.INVALID_TXN_STATE]
    assert codes(bench.add(ProducerIdAndEpoch(1001, 0))) == [ErrorCode.NONE]


def test_without_ids_nobody_begins():
    bench = TransactionBench()
    bench.no_ids = True
    assert codes(bench.init()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.no_ids = False
    assert bench.init() == [(1000, 0)]


# Ends.


@pytest.mark.parametrize("is_commit", [True, False])
def test_every_end_of_version_2_raises_the_epoch(is_commit):
    bench = TransactionBench()
    producer = bench.producer()
    for epoch in range(3):
        assert producer == (1000, epoch)
        bench.add(producer, ("a", 0), ("b", 1))
        (following,) = bench.end(producer, is_commit)
        assert bench.end(producer, is_commit) == [following], "the response was lost"
        assert codes(bench.end(producer, not is_commit)) == [ErrorCode.INVALID_TXN_STATE]
        producer = following
    assert [(partition, marker[1:3], version) for partition, marker, version in bench.markers[:4]] == [
        (("a", 0), (1, is_commit), 2),
        (("b", 1), (1, is_commit), 2),
        (("a", 0), (2, is_commit), 2),
        (("b", 1), (2, is_commit), 2),
    ]
    assert bench.transaction.partitions == frozenset()


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_epoch_of_version_1_stays(is_commit):
    bench = TransactionBench()
    producer = bench.producer()
    for _ in range(2):
        bench.add(producer, version=0)
        assert bench.end(producer, is_commit, version=0) == [producer]
        assert bench.end(producer, is_commit, version=0) == [producer], "the response was lost"
        assert codes(bench.end(producer, not is_commit, version=0)) == [ErrorCode.INVALID_TXN_STATE]
    assert [(marker[1:3], version) for _, marker, version in bench.markers] == [((0, is_commit), 0)] * 2


def test_nothing_to_end():
    bench = TransactionBench()
    producer = bench.producer()
    assert codes(bench.end(producer, True)) == [ErrorCode.INVALID_TXN_STATE]
    assert codes(bench.end(producer, True, version=0)) == [ErrorCode.INVALID_TXN_STATE]
    assert codes(bench.end(producer, False, version=0)) == [ErrorCode.INVALID_TXN_STATE]
    assert bench.end(producer, False) == [(1000, 1)], "its partitions may never have been added"
    assert bench.end((1000, 1), False) == [(1000, 2)]
    assert codes(bench.end((1000, 2), True)) == [ErrorCode.INVALID_TXN_STATE]
    assert bench.markers == []
    assert codes(bench.end((999, 2), False)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert codes(bench.end((1000, 9), False)) == [ErrorCode.PRODUCER_FENCED]


def test_unknown_and_empty_ids():
    bench = TransactionBench()
    unknown, empty = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_REQUEST
    for transactional_id, code in (("none", unknown), ("", empty)):
        assert codes(bench.add((1, 0), transactional_id=transactional_id)) == [code]
        assert codes(bench.end((1, 0), transactional_id=transactional_id)) == [code]
    answers = []
    bench.transactions.check_partitions("", ProducerIdAndEpoch(1, 0), [("a", 0)], answers.append, 0)
    assert codes(answers) == [empty]
    assert bench.find("none") is None


def test_while_markers_are_written_nothing_else_happens():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer, ("a", 0), ("b", 0))
    bench.held = []
    assert bench.end(producer) == [(1000, 1)]
    for answers in (bench.end(producer), bench.end((1000, 1)), bench.init(), bench.add((1000, 1))):
        assert codes(answers) == [CONCURRENT]
    assert bench.state is TransactionState.PREPARE_COMMIT
    bench.held.pop(0)()
    assert bench.transaction.partitions == {("b", 0)}, "these partitions have no marker"
    bench.held.pop(0)()
    assert bench.state is TransactionState.COMPLETE_COMMIT
    assert codes(bench.add((1000, 1))) == [ErrorCode.NONE]


# Partitions.


def test_verification_adds_or_asks():
    bench = TransactionBench()
    producer = bench.producer()
    a, b = ("a", 0), ("b", 0)
    assert bench.ensure(producer, a, b, version=1) == [dict.fromkeys((a, b), ErrorCode.TRANSACTION_ABORTABLE)]
    assert bench.ensure(producer, a, version=0) == [{a: ErrorCode.INVALID_TXN_STATE}]
    assert bench.ensure(producer, a, version=2) == [{}]
    assert bench.ensure(producer, a, b, version=1) == [{b: ErrorCode.TRANSACTION_ABORTABLE}]
    before = bench.log.next_offset
    assert bench.ensure(producer, a, version=2) == [{}]
    assert bench.log.next_offset == before, "the partition is already in the transaction"
    for version in (0, 2):
        assert bench.ensure((1000, 9), a, version=version) == [{a: ErrorCode.INVALID_PRODUCER_EPOCH}]
        assert bench.ensure((9, 0), a, version=version) == [{a: ErrorCode.INVALID_PRODUCER_ID_MAPPING}]


def test_adding_waits_a_little_for_the_markers():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.held = []
    bench.end(producer)
    refused, waiting = bench.ensure((1000, 1), version=1), bench.ensure((1000, 1))
    assert (refused, waiting) == ([{("a", 0): CONCURRENT}], [])
    bench.advance(100)
    assert waiting == [{("a", 0): CONCURRENT}]
    waiting = bench.ensure((1000, 1))
    bench.advance(30)
    bench.held.pop()()
    bench.advance(20)
    assert waiting == [{}]
    assert bench.state is TransactionState.ONGOING


# Timeouts and expiry.


def test_open_transactions_time_out():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.advance(TIMEOUT_MS)
    assert bench.state is TransactionState.ONGOING
    bench.add(producer, ("b", 0))
    bench.advance(10_000)
    assert bench.state is TransactionState.COMPLETE_ABORT
    assert [(partition, marker[1:3]) for partition, marker, _ in bench.markers] == [
        (("a", 0), (1, False)),
        (("b", 0), (1, False)),
    ]
    assert codes(bench.end(producer)) == [ErrorCode.INVALID_TXN_STATE]
    assert bench.end(producer, False) == [(1000, 1)], "the producer continues"
    bench.add((1000, 1))
    assert bench.end((1000, 1)) == [(1000, 2)]
    bench.advance(10 * TIMEOUT_MS)
    assert bench.state is TransactionState.COMPLETE_COMMIT


def test_a_timeout_with_the_last_epoch():
    bench = TransactionBench()
    for _ in range(LAST_EPOCH + 1):
        bench.producer()
    bench.add(bench.transaction.producer)
    bench.no_ids = True
    bench.producer_ids._blocks.clear()
    bench.advance(TIMEOUT_MS + 10_000)
    assert bench.state is TransactionState.ONGOING, "there is no id for the next transaction"
    bench.no_ids = False
    bench.advance(10_000)
    assert bench.transaction.producer == (2000, 0)


def test_idle_ids_expire():
    bench = TransactionBench(id_expiration_ms=100_000, id_expiration_interval_ms=1_000)
    bench.producer()
    open_ = bench.producer("open")
    bench.add(open_, transactional_id="open")
    bench.held = []
    bench.advance(90_000)
    other = bench.producer("other")
    bench.advance(20_000)
    assert bench.find() is None
    assert [found.transactional_id for found in bench.transactions.transactions()] == ["open", "other"]
    again = bench.loaded()
    assert sorted(found.transactional_id for found in again.transactions.transactions()) == ["open", "other"]
    assert codes(bench.init(other, transactional_id="t")) == [ErrorCode.NONE], "the id is treated as a new one"


# Logs.


def test_without_the_topic_nobody_is_coordinated():
    bench = TransactionBench()
    bench.transactions.unload()
    bench.logs = []
    assert codes(bench.init()) == [ErrorCode.NOT_COORDINATOR]


def test_without_the_topic_no_marker_is_tried_again():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer, ("a", 0))
    bench.failing[("a", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.end(producer)
    bench.transactions.unload()
    bench.logs = []
    bench.failing.clear()
    bench.advance(60_000)
    assert bench.markers == []


def test_while_loading_nobody_is_coordinated():
    bench = TransactionBench()
    bench.producer()
    again = TransactionBench(bench.log)
    assert again.transactions.is_loading
    assert codes(again.init()) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def two_partitions(**limits):
    """Return a coordinator with two partitions, and a transactional id for each."""
    bench = TransactionBench(**limits)
    bench.transactions.unload()
    bench.logs.append(MemoryLog())
    bench.elect()
    ids = [next(each for each in map(str, range(9)) if partition_of(each, 2) == number) for number in range(2)]
    return bench, ids


@pytest.mark.parametrize("epoch", [1, None])
def test_resignation_ends_the_markers_of_its_ids_only(epoch):
    bench, ids = two_partitions()
    for number, transactional_id in enumerate(ids):
        producer = bench.producer(transactional_id)
        partition = (f"of {number}", 0)
        bench.failing[partition] = ErrorCode.KAFKA_STORAGE_ERROR
        bench.add(producer, partition, transactional_id=transactional_id)
        bench.end(producer, transactional_id=transactional_id)
    bench.transactions.resigned(0, epoch)
    bench.failing.clear()
    bench.advance(60_000)
    assert [partition for partition, _, _ in bench.markers] == [("of 1", 0)]
    assert [each.transactional_id for each in bench.transactions.transactions()] == [ids[1]]
    assert codes(bench.init(transactional_id=ids[0])) == [ErrorCode.NOT_COORDINATOR]
    assert codes(bench.init(transactional_id=ids[1])) == [ErrorCode.NONE]


def test_old_resignation_has_no_effect():
    bench = TransactionBench(leader_epoch=5)
    producer = bench.producer()
    bench.add(producer, ("a", 0))
    bench.failing[("a", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.end(producer)
    bench.transactions.resigned(0, 4)
    bench.failing.clear()
    bench.advance(60_000)
    assert len(bench.markers) == 1
    assert bench.transaction.state is TransactionState.COMPLETE_COMMIT


def test_resignation_answers_who_waits_for_a_producer_id():
    bench, ids = two_partitions()
    bench.held_work = []
    answers = [bench.init(transactional_id=each) for each in ids]
    assert answers == [[], []]
    bench.transactions.resigned(0, 1)
    assert [codes(each) for each in answers] == [[ErrorCode.NOT_COORDINATOR], []]
    bench.transactions.elected(0, bench.logs[0], 2, bench.now_ms)
    bench.held_work.pop()()
    assert [codes(each) for each in answers] == [[ErrorCode.NOT_COORDINATOR], [ErrorCode.NONE]]
    assert [log.next_offset for log in bench.logs] == [0, 1], "the late id is not used"


def test_unloading_answers_who_waits_for_a_producer_id():
    bench = TransactionBench()
    bench.held_work = []
    answers = bench.init()
    bench.transactions.unload()
    assert codes(answers) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("request_of", ["init", "end", "add"])
def test_resignation_answers_what_is_not_committed(request_of):
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.log.is_committed = False
    answers = {
        "init": bench.init,
        "end": lambda: bench.end(producer),
        "add": lambda: bench.add(producer, ("b", 0)),
    }[request_of]()
    assert answers == []
    bench.transactions.resigned(0, 1)
    assert codes(answers) == [ErrorCode.NOT_COORDINATOR]
    bench.log.commit(bench.log.next_offset)
    bench.advance(600_000)
    assert (len(answers), bench.markers, bench.timers.next_deadline_ms) == (1, [], None)


@pytest.mark.parametrize("is_unloaded", [False, True])
@pytest.mark.parametrize("is_complete", [False, True])
def test_resignation_ends_steps_that_are_taken_again(is_complete, is_unloaded):
    """The repeated step either writes the markers or records that they have been written."""
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer, ("a", 0))
    if is_complete:
        bench.held = []
        bench.end(producer)
        bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        bench.held.pop()()
        bench.log.error = None
    else:
        bench.log.is_committed = False
        bench.end(producer)
        bench.timers.fire(bench.now_ms + 6_000)
        bench.log.commit(bench.log.next_offset)
        bench.log.is_committed = True
    assert bench.transactions._retries
    written = bench.log.next_offset
    if is_unloaded:
        bench.transactions.unload()
    else:
        bench.transactions.resigned(0, 1)
    assert bench.timers.next_deadline_ms is None
    bench.advance(60_000)
    assert (bench.log.next_offset, len(bench.markers)) == (written, int(is_complete))


def test_failed_partition_that_is_loaded_again_writes_its_markers_in_the_new_epoch():
    bench = TransactionBench(leader_epoch=3)
    producer = bench.producer()
    bench.add(producer, ("a", 0))
    bench.failing[("a", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.end(producer)
    copy = MemoryLog()
    copy.batches = list(bench.log.batches)
    copy.next_offset = copy.high_watermark = bench.log.next_offset
    bench.log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    bench.transactions.elected(0, copy, 4, bench.now_ms)
    bench.failing.clear()
    bench.advance(60_000)
    assert [marker.coordinator_epoch for _, marker, _ in bench.markers] == [4]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_restart_finishes_what_is_prepared(is_commit):
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer, ("a", 0), ("b", 0))
    bench.held = []
    bench.end(producer, is_commit)
    bench.held.pop(0)()
    bench.transactions.unload()
    bench.held.pop(0)()
    again = bench.loaded(leader_epoch=7)
    again.advance(0)
    assert [(partition, marker[1:]) for partition, marker, _ in again.markers] == [
        (("a", 0), (1, is_commit, 7)),
        (("b", 0), (1, is_commit, 7)),
    ], "the markers are written again, to all partitions"
    assert again.transaction.is_prepared is False
    assert again.end(producer, is_commit) == [(1000, 1)]


def elected_before_the_image(log):
    """Return a coordinator that leads the only partition while its image still lacks the topic."""
    bench = TransactionBench()
    bench.transactions.unload()
    bench.logs = []
    bench.transactions.elected(0, log, 7, bench.now_ms)
    while bench.transactions.is_loading:
        bench.timers.fire(bench.now_ms)
    bench.advance(0)
    return bench


def test_what_is_prepared_ends_although_the_image_lacks_the_topic():
    """This happens because a controller sends LeaderAndIsr before UpdateMetadata."""
    before = TransactionBench()
    producer = before.producer()
    before.add(producer, ("a", 0))
    before.held = []
    before.end(producer)
    bench = elected_before_the_image(before.log)
    assert [marker for _, marker, _ in bench.markers] == [(1000, 1, True, 7)]
    bench.logs = [before.log]
    assert bench.state is TransactionState.COMPLETE_COMMIT


def test_late_transactions_are_aborted_although_the_image_lacks_the_topic():
    before = TransactionBench()
    before.add(before.producer(), ("a", 0))
    bench = elected_before_the_image(before.log)
    bench.advance(2 * TIMEOUT_MS)
    assert [marker for _, marker, _ in bench.markers] == [(1000, 1, False, 7)]


def test_a_deleted_topic_that_is_created_again_is_served():
    """The topic disappears from the image before the replicas are stopped; a new topic starts with epoch 0."""
    log = MemoryLog()
    bench = elected_before_the_image(log)
    bench.logs = [log]
    producer = bench.producer()
    bench.add(producer, ("a", 0))
    bench.failing[("a", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.end(producer)
    bench.logs = []
    bench.transactions.resigned(0)
    bench.failing.clear()
    bench.advance(60_000)
    assert bench.markers == []
    bench.logs = [MemoryLog()]
    bench.transactions.elected(0, bench.logs[0], 0, bench.now_ms)
    assert codes(bench.init()) == [ErrorCode.NONE]


def test_an_open_transaction_survives_a_restart():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    again = bench.loaded()
    assert again.transaction == bench.transaction
    assert again.end(producer) == [(1000, 1)]
    bench = bench.loaded()
    bench.advance(10 * TIMEOUT_MS)
    assert bench.markers == []


def test_a_failed_append_changes_nothing():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    for answers in (bench.end(producer), bench.init(), bench.add(producer, ("b", 0))):
        assert codes(answers) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.log.error = None
    assert bench.transaction.partitions == {("a", 0)}
    assert bench.end(producer) == [(1000, 1)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_failed_completion_is_tried_again(code):
    """A log refuses appends that are waiting when a new epoch begins, in which the coordinator continues."""
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.held = []
    bench.end(producer)
    bench.log.error = BrokerError(code)
    bench.held.pop()()
    assert bench.state is TransactionState.PREPARE_COMMIT
    bench.advance(1_000)
    bench.log.error = None
    bench.advance(100)
    assert bench.state is TransactionState.COMPLETE_COMMIT


def test_markers_wait_for_the_high_watermark():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.log.is_committed = False
    answers = bench.end(producer)
    assert (answers, bench.markers) == ([], [])
    bench.advance(20_000)
    assert (codes(answers), bench.markers) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
    bench.log.is_committed = True
    bench.log.commit(bench.log.next_offset)
    bench.advance(200)
    assert len(bench.markers) == 1, "the record is in the log, whether or not a request waits for it"
    assert bench.state is TransactionState.COMPLETE_COMMIT


def test_a_log_that_fails_unloads_the_partition():
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.log.is_committed = False
    answers = bench.end(producer)
    bench.log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert codes(answers) == [ErrorCode.NOT_COORDINATOR]
    bench.advance(60_000)
    assert bench.markers == []
    assert codes(bench.init()) == [ErrorCode.NOT_COORDINATOR]


def test_a_step_that_is_tried_again_does_not_complete_the_next_transaction():
    """In version 1, the next transaction has the same epoch, and its markers have yet to be written."""
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer, version=0)
    bench.held = []
    bench.end(producer, version=0)
    first = bench.transaction
    bench.held.pop()()
    bench.advance(5)
    bench.add(producer, version=0)
    bench.end(producer, version=0)
    assert (bench.state, bench.transaction.producer) == (TransactionState.PREPARE_COMMIT, first.producer)
    bench.transactions._complete(0, first, bench.now_ms)
    assert bench.state is TransactionState.PREPARE_COMMIT
    bench.held.pop()()
    assert bench.state is TransactionState.COMPLETE_COMMIT
    assert len(bench.markers) == 2


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_adding_waits_as_long_when_the_clock_has_jumped(jump_ms):
    bench = TransactionBench()
    producer = bench.producer()
    bench.add(producer)
    bench.held = []
    bench.end(producer)
    bench.timers.shift(jump_ms)
    bench.now_ms += jump_ms
    waiting = bench.ensure((1000, 1))
    bench.advance(99)
    assert waiting == []
    bench.advance(1)
    assert waiting == [{("a", 0): CONCURRENT}]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_the_look_for_late_transactions_follows_the_clock(jump_ms):
    bench = TransactionBench()
    producer = bench.producer()
    bench.log.held = []
    bench.add(producer)
    bench.timers.shift(jump_ms)
    bench.log.release()
    assert bench.timers.next_deadline_ms == jump_ms + bench.now_ms + 10_000
