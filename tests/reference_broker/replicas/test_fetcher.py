"""A follower ends up identical to its leader, whatever the leader answers and however the two logs have diverged.

Method: use scripted leaders whose answers a test may change, and a follower with a real log on an in-memory disk, whose
background work a test may hold back. See `test_followed` for the edges of the table of states.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from kafkawire.reference_broker.replicas.fetcher import (
    APPEND_PATIENCE_MS,
    RESPONSES_HELD_MAX,
    Fetcher,
    FetcherVersions,
)
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.sdk.errors import BrokerError, ConnectionLost, RequestTimedOut
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.replicas.following import (
    ID,
    OPTIONS,
    SYNCED,
    T0,
    Following,
    FollowingReplica,
    error,
    exchange,
    followed,
    many,
    once,
)
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker, ScriptedLog
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import records_in
from tests.reference_broker.storage.replicated_logs import SMALL, Replica

FETCHING, APPENDING, TRUNCATING = FollowedState.FETCHING, FollowedState.APPENDING, FollowedState.TRUNCATING
ASKING, PAUSED, FENCED, FAILED = (
    FollowedState.ASKING,
    FollowedState.PAUSED,
    FollowedState.FENCED,
    FollowedState.FAILED,
)


# Requests.


def test_the_first_request_names_all_that_a_leader_has_to_know() -> None:
    following = followed()
    request, version = following.broker.requests[0]
    assert version == 17
    assert request == FetchRequest(
        replica_state=FetchRequest.ReplicaState(2, 77),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 * 2**20,
        session_epoch=0,
        topics=[
            FetchRequest.FetchTopic(
                topic_id=ID,
                partitions=[FetchRequest.FetchPartition(0, 0, 0, -1, 0, 2**20)],
            )
        ],
    )


def test_later_requests_name_what_has_changed() -> None:
    following = followed()
    (topic,) = following.exchange().topics
    (wanted,) = topic.partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (3, 0)
    request = following.exchange()
    assert (request.session_id, request.session_epoch, request.topics) == (1, 2, ())
    following.leader.append(b"more")
    following.exchange()
    assert following.exchange().topics[0].partitions[0].fetch_offset == 4


def test_a_topic_without_an_id_is_named_in_another_version() -> None:
    following = Following()
    following.broker.ids = {}
    following.replica.topic_id = ZERO_UUID
    following.leader.append(b"a", is_committed=True)
    following.follow()
    request = following.exchange()
    assert following.broker.requests[-1][1] == 12
    assert (request.replica_id, request.topics[0].topic) == (2, "t")
    assert following.is_equal
    following.exchange()
    assert following.log.high_watermark == 1


def test_an_older_leader_gets_no_broker_epoch() -> None:
    following = Following(versions=FetcherVersions(fetch=13))
    following.leader.append(b"a", is_committed=True)
    following.follow()
    request = following.exchange()
    assert isinstance(request, FetchRequest)
    assert following.broker.requests[-1][1] == 13
    assert (request.replica_id, request.replica_state) == (2, FetchRequest.ReplicaState())
    assert request.topics[0].topic_id == ID
    assert following.is_equal


def test_no_partition_no_request() -> None:
    following = Following()
    assert following.plan() is None
    assert following.fetcher.due_ms(0) is None
    following.follow()
    assert following.fetcher.due_ms(5) == 5
    following.fetcher.remove(T0)
    following.fetcher.remove(T0)
    assert following.plan() is None


def test_one_request_is_in_flight() -> None:
    following = Following()
    following.follow()
    assert following.plan() is not None
    assert following.plan() is None
    assert following.fetcher.due_ms(0) is None


def test_the_leaders_start_and_high_watermark_are_taken_over_and_reported() -> None:
    following = followed(6)
    following.leader.begin_at(2)
    following.exchange()
    assert (following.log.log_start_offset, following.log.high_watermark) == (2, 6)
    assert following.exchange().topics[0].partitions[0].log_start_offset == 2
    assert following.exchange().topics == ()


def test_a_follower_that_leader_does_not_tell_a_high_watermark_keeps_its_own() -> None:
    following = followed()
    following.broker.change = once(lambda data: setattr(data, "high_watermark", -1))
    following.leader.append(b"more")
    following.exchange()
    assert (following.log.next_offset, following.log.high_watermark) == (4, 3)


def test_a_local_removal_is_reported() -> None:
    following = followed()
    following.exchange()
    following.log.begin_at(2)
    following.fetcher.moved(T0)
    assert following.exchange().topics[0].partitions[0].log_start_offset == 2


def test_a_log_that_moves_without_news_for_the_leader() -> None:
    following = followed()
    following.exchange()
    following.fetcher.moved(T0)
    following.fetcher.moved(TopicPartition("other", 0))
    assert following.exchange().topics == ()


# Failures.


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        12_345,
    ],
)
def test_after_an_error_a_partition_waits(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    following.broker.change = once(error(code))
    with caplog.at_level(logging.WARNING):
        following.exchange()
        assert following.state is PAUSED
        assert following.plan() is None
    assert "t-0 cannot follow broker 1 for now" in caplog.text
    assert following.fetcher.due_ms(following.now_ms) == following.now_ms + 1_000
    following.now_ms += 999
    assert following.plan() is None
    following.now_ms += 1
    following.exchange()
    assert following.is_equal


@pytest.mark.parametrize("cause", ["a failed request", "an error of a partition"])
def test_a_pause_ends_in_time_even_if_the_clock_is_set_back(cause: str) -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    if cause == "a failed request":
        assert following.plan() is not None
        following.give(ConnectionLost("lost"))
    else:
        following.broker.change = once(error(ErrorCode.KAFKA_STORAGE_ERROR))
        following.exchange()
    assert following.plan() is None
    following.now_ms -= 600_000
    assert following.plan() is None
    assert following.fetcher.due_ms(following.now_ms) == following.now_ms + 1_000
    following.now_ms += 1_000
    following.exchange()
    assert following.is_equal


def test_a_fenced_partition_waits_for_its_next_epoch() -> None:
    following = followed()
    following.leader = ScriptedLog(1, following.leader)
    following.exchange()
    assert following.state is FENCED
    following.now_ms += 10**6
    assert following.plan() is None
    following.leader.append(b"more")
    following.follow()
    following.settle()
    assert following.is_equal


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda records: records[:-1] + bytes([records[-1] ^ 1]), id="a flipped bit"),
        pytest.param(lambda records: bytes(16) + b"\1" + records[17:], id="a former format"),
        pytest.param(lambda records: records[:12] + b"\0\0\0\7" + records[16:], id="a later epoch"),
        pytest.param(lambda records: bytes(8) + records[8:], id="other offsets"),
    ],
)
def test_damaged_records_are_fetched_again_later(damage: Callable[[bytes], bytes]) -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    following.broker.change = once(lambda data: setattr(data, "records", damage(bytes(data.records or b""))))
    following.exchange()
    assert following.state is PAUSED
    assert (following.log.next_offset, following.log.high_watermark) == (3, 3)
    following.settle()
    assert following.is_equal


def test_a_part_of_a_batch_changes_nothing() -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    following.broker.change = once(lambda data: setattr(data, "records", bytes(data.records or b"")[:30]))
    following.exchange()
    assert (following.state, following.log.next_offset) == (FETCHING, 3)
    following.exchange()
    assert following.is_equal


@pytest.mark.parametrize("outcome", [ConnectionLost("lost"), RequestTimedOut("late"), BrokerError(1), ValueError("x")])
def test_a_request_without_a_response_is_repeated_whole(outcome: Exception) -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    assert following.plan() is not None
    following.give(outcome)
    assert following.state is FETCHING
    assert following.plan() is None
    assert following.fetcher.due_ms(following.now_ms) == following.now_ms + 1_000
    following.now_ms += 1_000
    request = following.exchange()
    assert (request.session_id, request.session_epoch) == (1, 0)
    assert following.is_equal


def test_a_lost_question_is_asked_again() -> None:
    following = followed()
    following.broker.change = once(error(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.exchange()
    assert following.plan() is not None
    following.give(ConnectionLost("lost"))
    assert following.plan() is None
    following.now_ms += 1_000
    assert isinstance(following.exchange(), ListOffsetsRequest)


def test_a_leader_that_has_lost_the_session() -> None:
    following = followed()
    following.leader.append(b"more", is_committed=True)
    following.broker.forget_sessions()
    following.exchange()
    assert following.exchange().session_epoch == 0
    assert following.is_equal


def test_a_leader_that_refuses_every_session_is_not_asked_without_pauses() -> None:
    following = Following()
    following.follow()
    for code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
        assert following.plan() is not None
        following.give(FetchResponse(error_code=code))
        assert following.plan() is None
        following.now_ms += 1_000


def test_a_leader_without_room_for_a_session() -> None:
    following = Following()
    following.broker.keeps_sessions = False
    following.follow()
    for number in range(3):
        following.leader.append(b"%d" % number)
        assert following.exchange().session_epoch == 0
    assert following.is_equal


def test_in_a_full_request_those_without_records_come_first() -> None:
    """A leader fills its response in the order of the partitions in the request."""
    fetcher, broker = many(3)
    broker.keeps_sessions = False
    broker.logs["t", 0].append(b"a")
    exchange(fetcher, broker, 0)
    (topic,) = exchange(fetcher, broker, 0).topics
    assert [each.partition for each in topic.partitions] == [1, 2, 0]


def test_the_disk_of_the_follower_fails() -> None:
    following = followed()
    following.log.fail(OSError("broken"))
    following.leader.append(b"more")
    following.exchange()
    assert following.state is FAILED
    assert following.plan() is None
    following.follow()
    assert following.state is FAILED


class BrokenReplica(FollowingReplica):
    """A replica with a defect."""

    def followed(self, high_watermark: int, start_offset: int) -> None:
        raise RuntimeError("planted")


@pytest.mark.defect
def test_a_defect_ends_only_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    fetcher, broker = many(2, kind=BrokenReplica)
    broker.logs["t", 1].high_watermark = -1
    planned = fetcher.plan(0)
    assert planned is not None
    fetcher.answered(broker.answer(planned), 0)
    assert [each.state for each in fetcher.partitions.values()] == [FAILED, FETCHING]
    assert "t-0 can no longer follow broker 1" in caplog.text


# Stale answers.


def test_an_answer_for_the_former_epoch() -> None:
    following = followed()
    following.leader.append(b"of the former leader")
    planned = following.plan()
    assert planned is not None
    stale = following.broker.answer(planned)
    following.lead(1, upto=3)
    following.leader.append(b"of the next leader")
    following.give(stale)
    assert following.log.next_offset == 3
    following.settle()
    assert following.is_equal


def test_a_refusal_of_the_former_epoch() -> None:
    following = followed()
    planned = following.plan()
    assert planned is not None
    following.leader = ScriptedLog(1, following.leader)
    stale = following.broker.answer(planned)
    following.follow()
    following.give(stale)
    assert following.state is FETCHING


def test_a_listing_for_the_former_epoch() -> None:
    following = followed()
    following.broker.change = once(error(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.exchange()
    following.leader.batches.clear()
    planned = following.plan()
    assert planned is not None
    stale = following.broker.answer(planned)
    following.leader = ScriptedLog(1)
    following.follow()
    following.give(stale)
    assert following.log.next_offset == 3


def test_an_answer_for_a_partition_that_is_gone() -> None:
    following = followed()
    following.leader.append(b"more")
    planned = following.plan()
    assert planned is not None
    answer = following.broker.answer(planned)
    following.fetcher.remove(T0)
    following.give(answer)
    assert following.log.next_offset == 3


def test_an_answer_that_names_what_was_not_asked_for() -> None:
    following = followed()
    assert following.plan() is not None
    data = FetchResponse.PartitionData(9, records=b"x")
    topics = [FetchResponse.FetchableTopicResponse(topic_id=each, partitions=[data]) for each in (ID, b"?" * 16)]
    following.give(FetchResponse(session_id=1, responses=topics))
    assert following.state is FETCHING


def test_the_wrong_kind_of_answer() -> None:
    following = followed()
    assert following.plan() is not None
    following.give(ListOffsetsResponse())
    assert following.plan() is None
    following.now_ms += 1_000
    following.leader.append(b"more")
    following.exchange()
    assert following.is_equal


# Appends that take a while.


def test_what_is_not_durable_is_not_acknowledged_by_the_next_fetch() -> None:
    work = HeldWork()
    following = Following(SYNCED, work)
    following.leader.append(b"a", is_committed=True)
    following.follow()
    following.exchange()
    assert (following.state, following.log.next_offset) == (APPENDING, 1)
    assert following.fetcher.due_ms(following.now_ms) == following.now_ms + APPEND_PATIENCE_MS
    following.now_ms += APPEND_PATIENCE_MS - 1
    assert following.plan() is None
    wakes = following.wakes
    work.run()
    assert following.state is FETCHING
    assert following.wakes > wakes
    request = following.exchange()
    assert request.forgotten_topics_data == ()
    assert request.topics[0].partitions[0].fetch_offset == 1


def test_a_slow_append_leaves_the_session_in_time_even_if_the_clock_is_set_back() -> None:
    fetcher, broker = many(2, background=HeldWork(), config=SYNCED)
    exchange(fetcher, broker, 600_000)
    broker.logs[TopicPartition("t", 0)].append(b"a")
    exchange(fetcher, broker, 600_000)
    assert fetcher.plan(0) is None
    assert fetcher.due_ms(0) == APPEND_PATIENCE_MS
    request = exchange(fetcher, broker, APPEND_PATIENCE_MS)
    assert [each.partitions for each in request.forgotten_topics_data] == [(0,)]


def test_a_slow_append_leaves_the_session_until_it_is_done() -> None:
    work = HeldWork()
    fetcher, broker = many(2, background=work, config=SYNCED)
    slow, idle = (TopicPartition("t", number) for number in range(2))
    exchange(fetcher, broker, 0)
    broker.logs[slow].append(b"a")
    exchange(fetcher, broker, 0)
    assert fetcher.plan(APPEND_PATIENCE_MS - 1) is None
    request = exchange(fetcher, broker, APPEND_PATIENCE_MS)
    assert [each.partitions for each in request.forgotten_topics_data] == [(0,)]
    broker.logs[idle].append(b"b")
    request = exchange(fetcher, broker, APPEND_PATIENCE_MS)
    assert fetcher.partitions[idle].replica.log.next_offset == 1
    work.run()
    request = exchange(fetcher, broker, 100)
    assert [each.partition for each in request.topics[0].partitions] == [0, 1]


def test_a_roll_takes_its_time_and_then_the_leaders_ends_count() -> None:
    work = HeldWork()
    following = Following(background=work)
    for number in range(12):
        following.leader.append(b"%d" % number * 40, is_committed=True)
    following.follow()
    following.exchange()
    assert following.state is APPENDING
    assert 0 < following.log.next_offset < 12
    assert following.log.high_watermark == 0
    work.run()
    assert (following.state, following.log.next_offset, following.log.high_watermark) == (FETCHING, 12, 12)
    assert following.is_equal


def test_a_new_epoch_refuses_what_waits_for_a_segment() -> None:
    work = HeldWork()
    following = Following(background=work)
    for number in range(12):
        following.leader.append(b"%d" % number * 40)
    following.follow()
    following.exchange()
    before = following.log.next_offset
    following.fetcher.remove(T0)
    work.run()
    assert following.log.next_offset == before
    following.lead(1, upto=6)
    for _ in range(6):
        following.settle()
        work.run()
    assert following.is_equal


def test_an_epoch_that_begins_before_the_records_are_durable() -> None:
    work = HeldWork()
    following = Following(SYNCED, work)
    following.leader.append(b"a")
    following.follow()
    following.exchange()
    following.lead(1)
    assert following.state is APPENDING
    assert following.plan() is None
    work.run()
    assert following.state is FETCHING


def test_responses_that_logs_still_need_are_few() -> None:
    """If there are too many, only the partitions with such responses wait until a log no longer needs one of them."""
    work = HeldWork()
    count = RESPONSES_HELD_MAX + 2
    fetcher, broker = many(count, background=work)
    now_ms, held = 0, 0
    for number in range(count):
        for _ in range(12):
            broker.logs["t", number].append(b"x" * 100)
        now_ms += APPEND_PATIENCE_MS
        planned = fetcher.plan(now_ms)
        if planned is None:
            continue
        fetcher.answered(broker.answer(planned), now_ms)
        held += sum(each.is_appending for each in fetcher.partitions.values()) > held
    assert held == RESPONSES_HELD_MAX
    assert fetcher.due_ms(now_ms) is None
    for _ in range(40):
        work.run()
        now_ms += APPEND_PATIENCE_MS
        if (planned := fetcher.plan(now_ms)) is not None:
            fetcher.answered(broker.answer(planned), now_ms)
    assert [each.replica.log.next_offset for each in fetcher.partitions.values()] == [12] * count


def test_no_log_gets_records_twice_and_none_is_left_out() -> None:
    following = Following()
    for number in range(30):
        following.leader.append(b"%d" % number)
    following.follow()
    following.settle()
    assert [value for _, value in records_in(following.log)] == [b"%d" % number for number in range(30)]


# Scale.


class CountingReplica(FollowingReplica):
    """Counts accesses to the replica and its log."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "log":
            CountingReplica.looks += 1
        return super().__getattribute__(name)


def test_idle_partitions_cost_nothing() -> None:
    """A request touches only the partitions that have changed, no matter how many others there are."""
    fetcher = Fetcher(1, OPTIONS, lambda: 77, lambda: None, ReplicationQuota(11, 1_000))
    stored = Replica()
    count = 10_000
    for number in range(count):
        fetcher.add(TopicPartition("t", number), CountingReplica(stored.log, lambda: None), 0)
    planned = fetcher.plan(0)
    assert planned is not None
    fetcher.answered(FetchResponse(session_id=1), 0)
    for partition in ((), (4_711,), ()):
        CountingReplica.looks = 0
        planned = fetcher.plan(0)
        assert planned is not None
        assert planned.request.topics == []
        data = [FetchResponse.PartitionData(each, high_watermark=0, log_start_offset=0) for each in partition]
        topics = [FetchResponse.FetchableTopicResponse(topic_id=ID, partitions=data)]
        fetcher.answered(FetchResponse(session_id=1, responses=topics), 0)
        fetcher.due_ms(0)
        assert CountingReplica.looks <= 10 * len(partition)


def test_partitions_that_are_refused_together_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """After an election, a leader may refuse thousands of partitions."""
    topics = {f"t{number}": bytes([number + 1]) * 16 for number in range(5)}
    broker = ScriptedBroker(topics)
    fetcher = Fetcher(1, OPTIONS, lambda: 77, lambda: None, ReplicationQuota(11, 1_000))
    for name, topic_id in topics.items():
        key = TopicPartition(name, 0)
        broker.logs[key] = ScriptedLog()
        fetcher.add(key, FollowingReplica(Replica(SMALL, None).log, lambda: None, topic_id), 0)

    def refuse(data: FetchResponse.PartitionData) -> None:
        error(ErrorCode.NOT_LEADER_OR_FOLLOWER if len(refused) < 4 else ErrorCode.KAFKA_STORAGE_ERROR)(data)
        refused.append(data)

    refused: list[object] = []
    broker.change = refuse
    with caplog.at_level(logging.WARNING):
        exchange(fetcher, broker, 0)
        assert fetcher.plan(0) is None
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[0] for line in lines] == [
        "t0-0 and 3 more cannot follow broker 1 for now",
        "t4-0 cannot follow broker 1 for now",
    ]
    assert "NOT_LEADER_OR_FOLLOWER" in lines[0]
