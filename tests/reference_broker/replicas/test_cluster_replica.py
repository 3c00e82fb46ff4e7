"""A leader commits records that all potentially in-sync replicas have; a follower commits those that its leader did.

Method: use scripted followers and a scripted controller, with one test for each rule in Kafka's `Partition`; time
passes only when the test moves the clock.
"""

import pytest

from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.disk.memory import fail_at
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.replicas.leader_bench import EPOCH, LAG_MAX_MS, TOPIC_ID, LeaderBench
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced


def out_of_sync(**fields):
    """Return a leader without any in-sync follower."""
    bench = LeaderBench(isr=(1,), **fields).lead()
    bench.append(3)
    return bench


# The high watermark.


def test_all_in_sync_replicas_have_what_is_committed():
    bench = LeaderBench().lead()
    bench.append(4)
    assert bench.log.high_watermark == 0
    for broker_id, offset, high_watermark in [(2, 3, 0), (3, 1, 1), (3, 4, 3), (2, 4, 4)]:
        bench.fetch(broker_id, offset)
        assert bench.log.high_watermark == high_watermark


def test_a_leader_alone_commits_what_it_has():
    bench = LeaderBench(replicas=(1,), isr=(1,)).lead()
    bench.append(2)
    assert bench.log.high_watermark == 2


def test_a_follower_that_is_out_of_sync_does_not_count():
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.append(2)
    bench.fetch_all(2)
    assert bench.log.high_watermark == 2


def test_the_disk_of_the_leader_counts():
    work = HeldWork()
    bench = LeaderBench(background=work, flush_messages="1").lead()
    bench.append()
    bench.fetch_all(2, 3)
    assert bench.log.high_watermark == 0
    work.run()
    assert bench.log.high_watermark == 1


def test_the_high_watermark_never_moves_back_in_an_epoch():
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.append(4)
    bench.fetch(2, 4)
    bench.fetch(2, 1)  # its log was truncated
    bench.append()
    assert bench.log.high_watermark == 4


@pytest.mark.parametrize(
    ("end_offset", "is_alive", "high_watermark"),
    [
        pytest.param(2, True, 3, id="in sync from the end of the epoch on: its joining is requested, and it counts"),
        pytest.param(2, False, 4, id="not alive"),
    ],
)
def test_a_follower_that_catches_up_counts_before_it_joins(end_offset, is_alive, high_watermark):
    """The follower lags only slightly, so it will soon join; a leader that commits alone must not leave it behind."""
    bench = out_of_sync()
    if not is_alive:
        bench.alive.remove(2)
    bench.fetch(2, bench.log.next_offset)
    bench.append()
    assert bench.log.high_watermark == high_watermark
    assert bench.fetch(2, end_offset).data.error_code == ErrorCode.NONE
    assert bench.log.high_watermark == high_watermark


def test_a_follower_that_has_caught_up_once_is_not_waited_for_without_end():
    bench = out_of_sync()
    bench.fetch(2, 3)
    bench.answer(ErrorCode.INELIGIBLE_REPLICA)
    bench.append()
    assert bench.log.high_watermark == 3
    bench.now_ms += LAG_MAX_MS + 1
    bench.append()
    assert bench.log.high_watermark == 5


def test_who_waits_for_a_follower_that_has_died_before_it_joined_is_acknowledged_in_time():
    bench = out_of_sync()
    bench.fetch(2, 3)
    bench.answer(ErrorCode.INELIGIBLE_REPLICA)
    bench.produce()
    bench.pass_time(LAG_MAX_MS)
    assert bench.acknowledged == [None]
    bench.pass_time(LAG_MAX_MS // 2)
    assert bench.acknowledged == [ErrorCode.NONE]


# min.insync.replicas.


def test_too_few_in_sync_replicas_commit_nothing():
    bench = LeaderBench(isr=(1,), min_insync_replicas="2").lead()
    bench.append(2)
    assert bench.log.high_watermark == 0
    bench.fetch_all(2)
    assert (bench.log.high_watermark, bench.wanted()) == (0, (1, 2))
    bench.answer((1, 2))
    assert bench.log.high_watermark == 2


def test_no_more_replicas_are_required_than_there_are():
    bench = LeaderBench(replicas=(1, 2), isr=(1, 2), min_insync_replicas="3").lead()
    bench.produce()
    bench.fetch_all(2)
    assert bench.acknowledged == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("acks", "code"),
    [(Acks.ALL, ErrorCode.NOT_ENOUGH_REPLICAS), (Acks.LEADER, ErrorCode.NONE), (Acks.NONE, ErrorCode.NONE)],
)
def test_too_few_replicas_before_the_append(acks, code):
    bench = LeaderBench(isr=(1,), min_insync_replicas="2").lead()
    bench.produce(acks)
    assert bench.acknowledged == [code]
    assert bench.log.next_offset == (code == ErrorCode.NONE)


def test_a_batch_waits_while_too_few_replicas_are_in_sync():
    """The ISR shrinks after the append, and the batch is acknowledged once min.insync.replicas is lowered."""
    bench = LeaderBench(replicas=(1, 2, 3), min_insync_replicas="2").lead()
    bench.produce()
    bench.fetch_all(2)
    bench.pass_time(LAG_MAX_MS)
    bench.fetch_all(2)
    bench.pass_time(1)
    assert bench.wanted() == (1, 2)
    bench.answer((1,))  # another change has been made as well
    assert bench.acknowledged == [None]
    bench.log.configure(LeaderBench(min_insync_replicas="1").log.config)
    assert bench.acknowledged == [ErrorCode.NONE]


def test_too_few_replicas_after_the_append():
    bench = LeaderBench(replicas=(1, 2), isr=(1, 2)).lead()
    bench.append()
    bench.fetch_all(2)
    results = []
    bench.log.configure(LeaderBench(min_insync_replicas="2").log.config)
    bench.lead(EPOCH + 1, isr=(1,))
    bench.replica.when_acknowledged(Acks.ALL, 1, results.append)
    assert [error.code for error in results] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


# Acknowledgement.


def test_acks_of_the_leader_wait_for_its_disk_alone():
    work = HeldWork()
    bench = LeaderBench(background=work, flush_messages="1").lead()
    bench.produce(Acks.LEADER)
    bench.produce(Acks.ALL)
    assert bench.acknowledged == [None, None]
    work.run()
    assert bench.acknowledged == [ErrorCode.NONE, None]
    bench.fetch_all(2, 3)
    assert bench.acknowledged == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.ALL])
def test_who_waits_is_refused_when_the_role_ends(acks):
    work = HeldWork()
    bench = LeaderBench(background=work, flush_messages="1").lead()
    bench.produce(acks)
    bench.replica.follow(bench.term(EPOCH + 1, leader=2))
    work.run()
    assert bench.acknowledged == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    bench.lead(EPOCH + 2)
    bench.produce(acks)
    assert bench.acknowledged[1] is None
    bench.fetch_all(2, 3)
    work.run()
    assert bench.acknowledged[1] == ErrorCode.NONE


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.ALL])
def test_who_waits_is_refused_when_the_log_fails(acks):
    work = HeldWork()
    bench = LeaderBench(background=work, flush_messages="1").lead()
    bench.produce(acks)
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    work.run()
    assert bench.acknowledged == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert bench.replica.isr == ()


@pytest.mark.parametrize(("epochs", "expected"), [(1, ErrorCode.NONE), (2, None)])
def test_what_a_follower_had_before_an_epoch_of_another_leader_proves_nothing(epochs, expected):
    """If another broker may have led in between, the follower may have truncated its log."""
    bench = LeaderBench().lead()
    bench.produce()
    bench.fetch_all(2)
    bench.lead(EPOCH + epochs, isr=(1, 2))
    assert bench.acknowledged == [expected]
    bench.fetch(2, 0)
    bench.fetch_all(2)
    assert bench.acknowledged == [ErrorCode.NONE]


def test_a_later_epoch_of_the_same_leader_keeps_those_who_wait():
    bench = LeaderBench().lead()
    bench.produce()
    bench.lead(EPOCH + 1)
    bench.fetch_all(2, 3)
    assert bench.acknowledged == [ErrorCode.NONE]


# The ISR grows.


@pytest.mark.parametrize(
    ("offset", "is_alive", "expected"),
    [
        pytest.param(3, True, (1, 2), id="at the high watermark"),
        pytest.param(2, True, (), id="below it"),
        pytest.param(3, False, (), id="not alive"),
    ],
)
def test_a_follower_joins(offset, is_alive, expected):
    bench = out_of_sync()
    if not is_alive:
        bench.alive.remove(2)
    bench.fetch(2, offset)
    assert bench.wanted() == expected


def test_a_follower_joins_only_with_the_records_of_earlier_leaders():
    """Those records may be committed even if this leader does not know it yet."""
    bench = LeaderBench(replicas=(1, 2, 3), isr=(1, 2)).lead()
    bench.append(4)
    bench.lead(EPOCH + 1)
    assert (bench.replica.epoch_start, bench.log.high_watermark) == (4, 0)
    bench.fetch(3, 3)
    assert bench.wanted() == ()
    bench.fetch(3, 4)
    assert bench.wanted() == (1, 2, 3)


def test_a_request_to_add_a_follower():
    bench = out_of_sync()
    bench.fetch_all(2)
    ((change, _),) = bench.asked
    assert (change.partition, change.topic_id) == (("t", 0), TOPIC_ID)
    assert change.proposed == ((1, 2), EPOCH, 10 * EPOCH)
    assert change.broker_epochs == {2: 102, 3: -1}


def test_a_follower_that_joins_counts_at_once():
    bench = out_of_sync()
    bench.fetch_all(2)
    bench.now_ms += 2 * LAG_MAX_MS
    bench.append()
    assert (bench.replica.isr, bench.replica.maximal_isr, bench.log.high_watermark) == ((1,), {1, 2}, 3)
    bench.answer((1, 2))
    assert (bench.replica.isr, bench.log.high_watermark) == ((1, 2), 3)
    bench.fetch_all(2)
    assert bench.log.high_watermark == 4


def test_the_next_follower_joins_at_its_next_fetch():
    bench = out_of_sync()
    bench.fetch_all(2, 3)
    bench.answer((1, 2))
    assert bench.wanted() == ()
    assert not bench.fetch(3, 3).is_at_end, "the position has to be read at the next fetch as well"
    assert bench.wanted() == (1, 2, 3)


def test_changes_of_the_isr_are_counted_once_they_are_committed():
    bench = LeaderBench(isr=(1, 2)).lead()
    changes = bench.replica.isr_changes
    bench.append()
    bench.pass_time(2 * LAG_MAX_MS)
    assert (changes.shrinks, changes.expands) == (0, 0)
    bench.answer((1,))
    assert (changes.shrinks, changes.expands) == (1, 0)
    bench.fetch_all(2)
    bench.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert (changes.shrinks, changes.expands) == (1, 0)
    bench.fetch_all(2)
    bench.answer((1, 2))
    assert (changes.shrinks, changes.expands) == (1, 1)


def test_who_is_in_sync_is_not_asked_for():
    bench = LeaderBench().lead()
    bench.append()
    bench.fetch_all(2, 3)
    assert bench.asked == []


def test_a_follower_that_has_joined_counts_after_the_topic_has_got_an_id():
    """The term predates the follower's joining; if the follower were elected, unreplicated records would be lost."""
    bench = LeaderBench(isr=(1,))
    bench.topic_id = ZERO_UUID
    bench.lead()
    bench.fetch_all(2)
    bench.answer((1, 2))
    bench.replica.identify(TOPIC_ID)
    assert (bench.replica.topic_id, bench.replica.isr) == (TOPIC_ID, (1, 2))
    bench.now_ms += LAG_MAX_MS + 1
    bench.produce()
    assert bench.acknowledged == [None]
    bench.pass_time(0)
    assert bench.asked[0][0].proposed.partition_epoch == 10 * EPOCH + 1


# The ISR shrinks.


def test_followers_that_are_not_heard_of_leave():
    bench = LeaderBench().lead()
    bench.append()
    bench.pass_time(LAG_MAX_MS)
    assert bench.wanted() == ()
    bench.pass_time(1)
    assert bench.wanted() == (1,)
    assert bench.log.high_watermark == 0
    bench.answer((1,))
    assert (bench.replica.isr, bench.log.high_watermark) == ((1,), 1)


def test_a_slow_follower_leaves():
    """The follower keeps fetching, but was last caught up too long ago."""
    bench = LeaderBench(replicas=(1, 2), isr=(1, 2)).lead()
    fetches = 0
    while not bench.asked and fetches < 40:
        bench.append(3)
        bench.fetch(2, fetches)
        bench.pass_time(1_000)
        fetches += 1
    assert (bench.wanted(), fetches) == ((1,), 31)


def test_a_follower_at_the_end_stays():
    bench = LeaderBench().lead()
    bench.append()
    bench.fetch_all(2, 3)
    bench.pass_time(10 * LAG_MAX_MS)
    assert bench.asked == []


def test_a_replica_in_sync_that_is_not_assigned_leaves():
    bench = LeaderBench().lead(replicas=(1, 2), isr=(1, 2, 3))
    bench.pass_time(0)
    assert bench.wanted() == (1, 2)


def test_one_change_at_a_time():
    bench = LeaderBench(isr=(1, 3)).lead()
    bench.append()
    bench.fetch_all(2)
    asked = bench.asked
    bench.pass_time(LAG_MAX_MS + 1)
    assert bench.asked is asked
    bench.answer((1, 3, 2))
    bench.pass_time(0)
    assert bench.wanted() == (1, 2)


# Answers.


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_rejected_follower_is_asked_for_at_its_next_fetch(code):
    bench = out_of_sync()
    bench.fetch_all(2)
    bench.answer(code)
    assert (bench.wanted(), bench.replica.maximal_isr) == ((), {1})
    bench.fetch_all(2)
    assert bench.wanted() == (1, 2)


def test_another_error_repeats_the_change():
    bench = out_of_sync()
    bench.fetch_all(2)
    bench.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (bench.wanted(), bench.replica.maximal_isr) == ((1, 2), {1, 2})


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_after_other_errors_only_a_new_term_tells(code):
    bench = out_of_sync()
    bench.fetch_all(2)
    bench.answer(code)
    bench.fetch_all(2)
    bench.now_ms += 2 * LAG_MAX_MS
    bench.append()
    bench.pass_time(0)
    assert (bench.asked, bench.log.high_watermark) == ([], 3)
    bench.lead(EPOCH + 1, isr=(1, 2))
    assert bench.replica.isr == (1, 2)


def test_an_answer_after_the_role_has_no_effect():
    bench = out_of_sync()
    bench.fetch_all(2)
    ((_, done),) = bench.asked
    bench.replica.follow(bench.term(EPOCH + 1, leader=2))
    assert bench.withdrawn == 1
    done(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (bench.asked, bench.replica.isr, bench.replica.maximal_isr) == ([], (), set())


def test_a_new_term_withdraws_the_change_of_the_one_before():
    bench = out_of_sync()
    bench.fetch_all(2)
    ((_, done),) = bench.asked
    bench.lead(EPOCH + 1, isr=(1, 3))
    done(ErrorCode.INELIGIBLE_REPLICA)
    assert (bench.withdrawn, bench.replica.isr) == (1, (1, 3))


# Terms.


def test_a_new_leader_knows_no_follower():
    bench = LeaderBench().lead()
    bench.append(2)
    bench.fetch_all(2, 3)
    bench.replica.follow(bench.term(EPOCH + 1, leader=2))
    bench.lead(EPOCH + 2)
    bench.append()
    assert bench.log.high_watermark == 2
    bench.fetch_all(2, 3)
    assert bench.log.high_watermark == 3


def test_the_same_leader_knows_its_followers():
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.append(2)
    bench.fetch(2, 2)
    bench.lead(EPOCH + 1)
    position = bench.replica.position(2)
    assert position is not None
    assert position.end_offset == 2


def test_a_change_of_the_partition_begins_no_epoch():
    bench = LeaderBench().lead()
    bench.append(2)
    bench.fetch_all(2, 3)
    bench.lead(EPOCH, partition_epoch=99, replicas=(1, 2, 4), isr=(1, 2))
    assert (bench.replica.epoch_start, bench.replica.isr) == (0, (1, 2))
    assert bench.replica.position(3) is None
    assert bench.replica.position(4) is not None


@pytest.mark.parametrize("answer", [None, ErrorCode.INVALID_UPDATE_VERSION, (1, 2)])
def test_a_term_that_is_known_says_nothing_of_a_change(answer):
    """For example, when a topic is given an id, the controller may have made the change already, or may yet make it."""
    bench = out_of_sync()
    bench.fetch_all(2)
    if answer is not None:
        bench.answer(answer)
    term = bench.replica.term
    assert term is not None
    bench.replica.lead(term)
    assert (bench.replica.maximal_isr, bench.wanted()) == ({1, 2}, (1, 2) if answer is None else ())
    assert (term.isr, term.partition_epoch) == (((1, 2), 51) if answer == (1, 2) else ((1,), 50))


def test_without_followers_in_sync_a_new_term_commits():
    bench = LeaderBench().lead()
    bench.append(2)
    bench.lead(EPOCH + 1, isr=(1,))
    assert bench.log.high_watermark == 2


def test_a_follower_has_no_followers():
    bench = LeaderBench()
    bench.replica.follow(bench.term(leader=2))
    assert bench.replica.position(3) is None
    bench.pass_time(2 * LAG_MAX_MS)
    assert bench.asked == []


def test_a_term_that_the_log_cannot_begin_changes_nothing():
    bench = LeaderBench().lead()
    bench.append()
    bench.replica.follow(bench.term(EPOCH + 1, leader=2))
    with pytest.raises(Exception, match="cannot begin leader epoch"):
        bench.lead(EPOCH - 1)
    assert (bench.replica.role, bench.replica.isr) == (Role.FOLLOWER, ())


# A follower.


def follower(count=4):
    """Return a follower with some records, none of them committed."""
    bench = LeaderBench()
    bench.replica.follow(bench.term(leader=2))
    for _ in range(count):
        data = produced(b"v")
        offset = bench.log.next_offset
        data[0:8] = offset.to_bytes(8, "big")
        data[12:16] = EPOCH.to_bytes(4, "big")
        bench.log.append_as_follower(bytes(data), offset, EPOCH, bench.now_ms, lambda result: None)
    assert bench.log.next_offset == count
    return bench


def test_a_follower_commits_what_its_leader_has_committed():
    bench = follower()
    readable = []
    bench.replica.watch(readable.append)
    assert bench.log.high_watermark == 0
    for told, high_watermark in [(2, 2), (9, 4), (3, 3), (4, 4)]:
        bench.replica.followed(told, 0)
        assert bench.log.high_watermark == high_watermark
    assert [size > 0 for size in readable[:2]] == [True, True]


@pytest.mark.parametrize(("told", "start_offset"), [(2, 2), (4, 3)])
def test_a_follower_begins_where_its_leader_does_if_that_is_committed(told, start_offset):
    bench = follower()
    bench.replica.followed(told, 3)
    assert bench.log.log_start_offset == start_offset


def test_what_a_leader_has_told_does_not_count_after_the_role():
    bench = follower()
    bench.lead(EPOCH + 1)
    bench.replica.followed(3, 2)
    assert (bench.log.high_watermark, bench.log.log_start_offset) == (0, 0)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (EPOCH, None),
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_follower_can_be_read(epoch, code):
    bench = follower()
    assert refusal(bench.replica.check_readable, epoch) is code
    assert refusal(bench.replica.check, epoch) is (code or ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.replica.stop()
    assert refusal(bench.replica.check_readable, epoch) is (code or ErrorCode.NOT_LEADER_OR_FOLLOWER)


def refusal(check, *arguments):
    try:
        check(*arguments)
    except BrokerError as error:
        return error.code
    return None


# The low watermark.


def test_the_low_watermark_is_the_lowest_start_of_those_alive():
    bench = LeaderBench().lead()
    bench.append(4)
    bench.fetch(2, 4, log_start_offset=1)
    bench.fetch(3, 4, log_start_offset=3)
    bench.log.begin_at(2)
    assert bench.replica.low_watermark == 1
    bench.alive.remove(2)
    assert bench.replica.low_watermark == 2


def test_who_waits_for_the_low_watermark():
    bench = LeaderBench().lead()
    bench.append(4)
    bench.fetch_all(2, 3)
    bench.log.begin_at(2)
    reached = []
    bench.replica.when_low_watermark(2, lambda error: reached.append(error))
    bench.fetch(2, 4, log_start_offset=2)
    assert reached == []
    bench.fetch(3, 4, log_start_offset=2)
    assert reached == [None]
    bench.replica.when_low_watermark(2, lambda error: reached.append(error))
    assert reached == [None, None]


def test_a_broker_that_comes_back_is_waited_for():
    bench = LeaderBench().lead()
    bench.append(4)
    bench.alive -= {2, 3}
    bench.log.begin_at(2)
    reached = []
    bench.replica.when_low_watermark(2, lambda error: reached.append(error))
    bench.alive |= {2}
    bench.replica.when_low_watermark(2, lambda error: reached.append(error))
    assert reached == [None]
    bench.alive -= {2}
    bench.pass_time(1)
    assert reached == [None, None]


def test_who_waits_for_the_low_watermark_is_refused_when_the_role_ends():
    bench = LeaderBench().lead()
    bench.append(4)
    reached = []
    bench.replica.when_low_watermark(2, lambda error: reached.append(error and error.code))
    bench.replica.stop()
    assert reached == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# Watchers of the end.


def test_followers_are_told_of_what_is_not_committed():
    bench = LeaderBench().lead()
    told, readable = [], []
    bench.replica.watch(told.append, is_follower=True)
    bench.replica.watch(readable.append)
    size = len(produced(b"v"))
    bench.append(2)
    assert (told, readable) == ([size, size], [])
    bench.fetch_all(2, 3)
    assert (told, readable) == ([size, size], [2 * size])
    bench.replica.unwatch(told.append)
    bench.append()
    assert len(told) == 2


@pytest.mark.parametrize("event", ["role", "end", "truncation", "prepared"])
def test_followers_read_again(event):
    bench = LeaderBench().lead()
    bench.append(2)
    told = []
    bench.replica.watch(told.append, is_follower=True)
    if event == "role":
        bench.replica.stop()
    elif event == "end":
        bench.log.end(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone"))
    elif event == "truncation":
        bench.log.truncate_to(1, lambda error: None)
    else:
        bench.replica.prepared()
    assert told[0] == COMPLETES_ANY_FETCH_BYTES


def test_what_a_follower_has_appended_is_not_told_to_its_own_followers():
    bench = follower()
    told = []
    bench.replica.watch(told.append, is_follower=True)
    bench.lead(EPOCH + 1)
    size = len(produced(b"v"))
    bench.append()
    assert told == [size]
