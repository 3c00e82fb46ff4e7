"""A share consumer's fetches and acknowledgements reach the right broker, in one request at a time.

Method: use a share consumer without a group on a simulated clock, with brokers that check sessions, locks and
acknowledgements as Kafka's do.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery, ShareDeliveryState
from kafkawire.sdk.consumer.sharing.node_shares import ACKNOWLEDGE_LINGER_MS
from kafkawire.sdk.errors import BrokerError, Closed, RecordTooLarge, RequestTimedOut, UnsupportedVersion
from kafkawire.sdk.protocol.frames import FrameTooLarge
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.share_session import ShareSessionState
from tests.sdk.consumer.sharing.share_broker import LOCK_MS
from tests.sdk.consumer.sharing.sharing import MEMBER, Sharing, place
from tests.sdk.simulation import SILENT, Later, cluster


def filled(count: int = 5, leaders: tuple[int, ...] = (1,), **given: Any) -> Sharing:
    """Return a consumer whose first partition has one batch."""
    sharing = Sharing(leaders, **given)
    sharing.brokers[leaders[0]].fill(place(), *[b"%d" % number for number in range(count)])
    return sharing


def fetches(sharing: Sharing, node_id: int | None = None) -> list[ShareFetchRequest]:
    return sharing.simulation.requests(ShareFetchRequest, node_id)


def offsets(deliveries: list[ShareDelivery[Any, Any]]) -> list[int]:
    return [delivery.record.offset for delivery in deliveries]


def codes(sharing: Sharing) -> list[ErrorCode | None]:
    """Return the code of each outcome."""
    return [each.error.code if isinstance(each.error, BrokerError) else None for each in sharing.outcomes]


def test_nothing_is_acquired_before_a_read_has_found_nothing() -> None:
    sharing = filled()
    sharing.run(1_000)
    assert fetches(sharing) == []
    assert offsets(sharing.read()) == [0, 1, 2, 3, 4]
    sent = len(fetches(sharing))
    sharing.run(2_000)
    assert len(fetches(sharing)) == sent, "no further fetch until the next read"


def test_a_fetch_has_the_options_and_the_session() -> None:
    sharing = filled(fetch_min_bytes=7, fetch_max_bytes=1_000, max_poll_records=9)
    sharing.read()
    first = fetches(sharing)[0]
    assert (first.group_id, first.member_id, first.share_session_epoch) == ("g", MEMBER, 0)
    assert (first.max_wait_ms, first.min_bytes, first.max_bytes) == (50, 7, 1_000)
    assert (first.max_records, first.batch_size, first.share_acquire_mode, first.is_renew_ack) == (9, 9, 0, False)
    assert [(topic.topic_id, [each.partition_index for each in topic.partitions]) for topic in first.topics] == [
        (place()[0], [0])
    ]
    sharing.read(timeout_ms=100)
    second = fetches(sharing)[1]
    assert (second.share_session_epoch, second.topics) == (1, ()), "an incremental request names what has changed"


def test_acknowledgements_travel_with_the_next_fetch() -> None:
    sharing = filled()
    first, second, third, *rest = sharing.read()
    first.accept()
    second.release()
    third.reject()
    for each in rest:
        each.accept()
    sharing.read()
    assert sharing.simulation.requests(ShareAcknowledgeRequest) == []
    assert sharing.acknowledged(AcknowledgeType.ACCEPT) == [0, 3, 4]
    assert sharing.acknowledged(AcknowledgeType.RELEASE) == [1]
    assert sharing.acknowledged(AcknowledgeType.REJECT) == [2]
    assert first.state is second.state is third.state is ShareDeliveryState.CONFIRMED
    assert [each.offsets for each in sharing.outcomes] == [(0, 1, 2, 3, 4)]


def test_without_a_fetch_acknowledgements_are_sent_after_a_moment() -> None:
    sharing = filled()
    first, second, *_ = sharing.read()
    first.accept()
    sharing.run(ACKNOWLEDGE_LINGER_MS // 2)
    second.accept()
    assert sharing.broker.applied == []
    sharing.run(ACKNOWLEDGE_LINGER_MS // 2 + 2)
    assert sharing.acknowledged(AcknowledgeType.ACCEPT) == [0, 1]
    (request,) = sharing.simulation.requests(ShareAcknowledgeRequest)
    assert (request.share_session_epoch, request.is_renew_ack) == (1, False)


def test_a_commit_does_not_wait_and_reports_what_the_brokers_said() -> None:
    sharing = filled(leaders=(1, 2))
    sharing.brokers[2].fill(place(1), b"x", b"y")
    deliveries = sharing.read() + sharing.read()
    for delivery in deliveries:
        delivery.accept()
    sharing.brokers[2].faults[place(1)] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    began_ms = sharing.now_ms
    first, second = sharing.committed()
    assert sharing.now_ms - began_ms < ACKNOWLEDGE_LINGER_MS
    assert (first.partition, first.offsets, first.error) == (("t", 0), (0, 1, 2, 3, 4), None)
    assert (second.partition, second.offsets) == (("t", 1), (0, 1))
    assert isinstance(second.error, BrokerError)
    assert second.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert {delivery.state for delivery in deliveries[5:]} == {ShareDeliveryState.LOST}
    assert sharing.committed() == []


def test_a_commit_fails_at_its_deadline_and_the_acknowledgements_go_on() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    handlers = sharing.simulation.handlers
    usual = handlers[1, ShareAcknowledgeRequest]
    handlers[1, ShareAcknowledgeRequest] = lambda request, version: SILENT
    promise = sharing.commit(200)
    sharing.run(210)
    with pytest.raises(RequestTimedOut, match="within 200 ms; 1 are still on their way"):
        promise.wait()
    handlers[1, ShareAcknowledgeRequest] = usual
    assert sharing.outcomes == []


def test_locks_that_ran_out_while_the_response_was_on_its_way() -> None:
    sharing = filled(request_timeout_ms=2 * LOCK_MS)
    handlers = sharing.simulation.handlers
    usual = handlers[1, ShareFetchRequest]

    def late(request: ShareFetchRequest, version: int) -> Later:
        answer, later = usual(request, version), Later()
        assert isinstance(answer, ShareFetchResponse)
        sharing.simulation.at(LOCK_MS + 100, lambda: later.answer(answer))
        return later

    handlers[1, ShareFetchRequest] = late
    sharing.read(timeout_ms=10)
    handlers[1, ShareFetchRequest] = usual
    sharing.run(LOCK_MS + 100)
    found = sharing.read()
    assert [(each.record.offset, each.delivery_count) for each in found] == [(offset, 2) for offset in range(5)]
    assert found[0].lock_left_ms > LOCK_MS - 100


def test_a_renewal_keeps_the_lock_and_is_sent_at_once() -> None:
    sharing = filled()
    first, second, *_ = sharing.read()
    sharing.run(LOCK_MS - 1_000)
    renewal = first._renew()
    assert first._renew() is renewal, "one is enough"
    sharing.run(10)
    assert renewal.is_kept
    (request,) = sharing.simulation.requests(ShareAcknowledgeRequest)
    assert request.is_renew_ack
    sharing.run(2_000)
    assert (first.state, second.state) == (ShareDeliveryState.ACQUIRED, ShareDeliveryState.LOST)
    assert LOCK_MS - 3_000 < first.lock_left_ms < LOCK_MS
    first.accept()
    (outcome,) = sharing.committed()
    assert (outcome.offsets, outcome.error) == ((0,), None)


def test_a_renewal_is_apart_from_a_fetch() -> None:
    """A fetch that renews a lock acquires nothing (KIP-1222)."""
    sharing = filled()
    renewal = sharing.read()[0]._renew()
    sharing.broker.fill(place(), b"more")
    assert offsets(sharing.read()) == [5]
    assert renewal.is_kept
    assert not any(fetch.is_renew_ack for fetch in fetches(sharing))


def test_a_renewal_is_about_one_record() -> None:
    """The others of the response are not handed out once their locks have run out, and spoil no acknowledgement."""
    sharing = Sharing()
    sharing.broker.fill(place(), b"a")
    sharing.broker.fill(place(), b"b")
    (first,) = sharing.read(limit=1)
    sharing.run(LOCK_MS - 1_000)
    renewal = first._renew()
    sharing.run(10)
    assert renewal.is_kept
    sharing.run(2_000)
    (second,) = sharing.read(limit=1)
    assert (second.record.offset, second.delivery_count) == (1, 2)
    for delivery in (first, second):
        delivery.accept()
    assert [(each.offsets, each.error) for each in sharing.committed()] == [((0, 1), None)]
    assert sharing.broker.refused == []


def test_a_gap_is_not_renewed_with_a_record() -> None:
    """The lock of an offset without a record runs out, and its acknowledgement spoils no other."""
    sharing = Sharing()
    sharing.broker.fill(place(), b"a")
    sharing.broker.append(place(), 1, b"")
    (first,) = sharing.read(limit=1)
    sharing.run(LOCK_MS - 1_000)
    renewal = first._renew()
    sharing.run(2_000)
    assert renewal.is_kept
    sharing.reader.take()
    first.accept()
    assert [each.error for each in sharing.committed()] == [None]
    assert sharing.broker.refused == []


def test_a_record_whose_renewal_has_failed_does_not_count_twice() -> None:
    sharing = filled(2, max_unacknowledged_records=1)
    first, second = sharing.read()
    sharing.broker.faults[place()] = [ErrorCode.INVALID_RECORD_STATE]
    renewal = first._renew()
    sharing.run(10)
    with pytest.raises(BrokerError, match="INVALID_RECORD_STATE"):
        renewal.wait()
    first.acknowledged(AcknowledgeType.RELEASE)  # as a `with` block does when the error leaves it
    sharing.run(200)
    assert codes(sharing) == [ErrorCode.INVALID_RECORD_STATE]
    sharing.broker.fill(place(), b"more")
    assert sharing.read(timeout_ms=200) == [], "the second record is still held"
    sharing.disconnect()
    second.accept()
    assert offsets(sharing.read()) == [0, 1, 2]
    assert second.state is ShareDeliveryState.LOST
    assert [each.share_session_epoch for each in fetches(sharing)] == [0, 0]
    assert sharing.broker.applied == []


def test_a_record_whose_renewal_outlives_the_other_locks_is_held() -> None:
    sharing = filled(2, max_unacknowledged_records=2, request_timeout_ms=LOCK_MS)
    handlers = sharing.simulation.handlers
    usual = handlers[1, ShareAcknowledgeRequest]

    def late(request: ShareAcknowledgeRequest, version: int) -> Later:
        answer, later = usual(request, version), Later()
        assert isinstance(answer, ShareAcknowledgeResponse)
        sharing.simulation.at(2_000, lambda: later.answer(answer))
        return later

    first, second = sharing.read()
    sharing.run(LOCK_MS - 1_000)
    handlers[1, ShareAcknowledgeRequest] = late
    renewal = first._renew()
    sharing.read(timeout_ms=1_500)
    sharing.run(1_000)
    handlers[1, ShareAcknowledgeRequest] = usual
    assert renewal.is_kept
    assert (first.state, second.state) == (ShareDeliveryState.ACQUIRED, ShareDeliveryState.LOST)
    sharing.disconnect()
    first.accept()
    sharing.run(200)
    assert first.state is ShareDeliveryState.LOST
    assert codes(sharing) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_an_acknowledgement_replaces_a_renewal_that_was_not_sent() -> None:
    sharing = filled()
    first = sharing.read()[0]
    renewal = first._renew()
    first.accept()
    sharing.run(200)
    assert renewal.is_kept
    assert [each.type for each in sharing.broker.applied] == [AcknowledgeType.ACCEPT]


def test_an_old_broker_cannot_renew_nor_limit_records() -> None:
    sharing = filled()
    sharing.simulation.newest |= {ApiKey.SHARE_FETCH: 1, ApiKey.SHARE_ACKNOWLEDGE: 1}
    first, second, *_ = sharing.read()
    renewal = first._renew()
    second.accept()
    sharing.run(10)
    with pytest.raises(UnsupportedVersion, match=r"needs Apache Kafka 4\.2"):
        renewal.wait()
    assert sharing.acknowledged(AcknowledgeType.ACCEPT) == [1]
    limited = filled(share_acquire_mode="record_limit")
    limited.simulation.newest[ApiKey.SHARE_FETCH] = 1
    with pytest.raises(UnsupportedVersion, match=r"as Kafka 4\.2 or later can"):
        limited.read()


def test_reads_wait_again_once_the_broker_is_new_enough() -> None:
    sharing = filled(share_acquire_mode="record_limit")
    sharing.simulation.newest[ApiKey.SHARE_FETCH] = 1
    with pytest.raises(UnsupportedVersion):
        sharing.read()
    sharing.simulation.newest.clear()
    sharing.disconnect()
    sharing.run(100)
    sharing.queue.errors.clear()
    assert len(sharing.read()) == 5
    assert sharing.read(timeout_ms=10) == []
    assert not sharing.queue.wait().done


def test_a_lock_that_has_run_out_does_not_make_other_acknowledgements_fail() -> None:
    sharing = filled(2)
    early = sharing.read()
    sharing.run(LOCK_MS - 50)
    sharing.broker.fill(place(), b"late")
    (late,) = sharing.read()
    for delivery in (*early, late):
        delivery.accept()
    sharing.run(200)
    assert sharing.acknowledged(AcknowledgeType.ACCEPT) == [2]
    assert sharing.broker.refused == []
    assert codes(sharing) == [ErrorCode.INVALID_RECORD_STATE, None]
    assert {each.state for each in early} == {ShareDeliveryState.LOST}


def test_acknowledgements_that_may_pass_are_sent_again() -> None:
    sharing = filled()
    first = sharing.read()[0]
    first.accept()
    sharing.broker.faults[place()] = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION]
    (outcome,) = sharing.committed()
    assert outcome.error is None
    assert sharing.broker.refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION]
    assert first.state is ShareDeliveryState.CONFIRMED


def test_a_whole_request_that_may_pass_is_sent_again() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    sharing.broker.top_faults = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    (outcome,) = sharing.committed()
    assert outcome.error is None
    assert [each.share_session_epoch for each in sharing.simulation.requests(ShareAcknowledgeRequest)] == [1, 2]


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_session_ends_with_its_connection(is_idle: bool) -> None:
    """Nothing is sent for the records of a lost session, whether a request was on its way or not."""
    sharing = filled()
    first, second, *_ = sharing.read()
    first.accept()
    handlers = sharing.simulation.handlers
    usual = handlers[1, ShareAcknowledgeRequest]
    if not is_idle:
        handlers[1, ShareAcknowledgeRequest] = lambda request, version: SILENT
        sharing.run(ACKNOWLEDGE_LINGER_MS + 10)
    sharing.disconnect()
    handlers[1, ShareAcknowledgeRequest] = usual
    assert [each.delivery_count for each in sharing.read()] == [2] * 5
    assert second.state is ShareDeliveryState.LOST
    second.accept()
    sharing.run(300)
    assert sharing.broker.applied == []
    assert all(outcome.error is not None for outcome in sharing.outcomes)
    assert len(sharing.outcomes) == 2
    assert fetches(sharing)[-1].share_session_epoch == 0


def test_a_session_that_the_broker_forgot_is_opened_again() -> None:
    sharing = filled()
    first = sharing.read()[0]
    sharing.broker.disconnect(MEMBER)
    first.accept()
    (outcome,) = sharing.committed()
    assert isinstance(outcome.error, BrokerError)
    assert outcome.error.code is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(sharing.read()) == 5


def test_a_broker_without_room_for_a_session_is_asked_again_after_a_pause() -> None:
    sharing = filled()
    sharing.broker.max_sessions = 0
    sharing.read(timeout_ms=1_000)
    assert 2 <= len(fetches(sharing)) < 10
    sharing.broker.max_sessions = 1
    assert len(sharing.read()) == 5


def test_pauses_after_failed_fetches_begin_anew_once_one_has_succeeded() -> None:
    sharing = filled()
    sent: list[int] = []
    for _ in range(2):
        assert len(sharing.read()) == 5
        sharing.broker.max_sessions = 0
        sharing.broker.disconnect(MEMBER)
        before = len(fetches(sharing))
        sharing.read(timeout_ms=1_000)
        sent.append(len(fetches(sharing)) - before)
        sharing.broker.max_sessions = 1
    assert sent[0] == sent[1] > 2


def test_pauses_after_failed_acknowledgements_begin_anew_once_one_has_succeeded() -> None:
    sharing = filled()
    durations_ms: list[int] = []
    for delivery in sharing.read()[:2]:
        delivery.accept()
        sharing.broker.faults[place()] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        began_ms = sharing.now_ms
        sharing.committed()
        durations_ms.append(sharing.now_ms - began_ms)
    assert durations_ms[0] == durations_ms[1] > 0


def test_a_partition_moves_to_another_leader() -> None:
    sharing = filled(leaders=(1, 2))
    first, second, *_ = sharing.read()
    first.accept()
    sharing.broker.hand_over(place(), sharing.brokers[2])
    sharing.leaders = (2, 2)
    sharing.router.metadata.invalidate()
    moved = sharing.read()
    assert [each.delivery_count for each in moved] == [2] * 5
    assert second.state is ShareDeliveryState.LOST
    sharing.run(300)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in codes(sharing)
    sharing.read(timeout_ms=200)
    forgotten = [topic for fetch in fetches(sharing, 1) for topic in fetch.forgotten_topics_data]
    assert forgotten == [], "without partitions, the former leader gets no fetch"


def test_metadata_is_left_alone_once_every_partition_has_a_leader() -> None:
    sharing = filled()
    handlers = sharing.simulation.handlers
    usual = handlers[MetadataRequest]
    handlers[MetadataRequest] = cluster(sharing.brokers, {"t": (None,)})
    sharing.router.metadata.invalidate()
    sharing.run(2_000)
    asked = len(sharing.simulation.requests(MetadataRequest))
    assert asked > 2
    handlers[MetadataRequest] = usual
    assert len(sharing.read()) == 5
    asked = len(sharing.simulation.requests(MetadataRequest))
    sharing.run(10_000)
    assert len(sharing.simulation.requests(MetadataRequest)) == asked


def test_a_response_names_the_new_leader() -> None:
    sharing = filled(leaders=(1, 2))
    sharing.broker.hand_over(place(), sharing.brokers[2])
    usual = sharing.simulation.handlers[1, ShareFetchRequest]

    def answer(request: ShareFetchRequest, version: int) -> Any:
        response = usual(request, version)
        assert isinstance(response, ShareFetchResponse)
        for topic in response.responses:
            for each in topic.partitions:
                each.current_leader = ShareFetchResponse.LeaderIdAndEpoch(2, 9)
        return response

    sharing.simulation.handlers[1, ShareFetchRequest] = answer
    assert len(sharing.read()) == 5


def test_a_partition_that_is_no_longer_assigned_is_forgotten_and_can_be_acknowledged() -> None:
    sharing = filled(leaders=(1, 1))
    sharing.broker.fill(place(1), b"x")
    deliveries = sharing.read()
    kept = TopicPartition("t", 1)
    sharing.planner.assign({kept: sharing.partitions[kept]}, sharing.now_ms)
    for each in deliveries:
        each.accept()
    sharing.read(timeout_ms=100)
    session = sharing.broker.sessions[MEMBER]
    assert list(session.places) == [place(1)], "an acknowledgement does not put the partition back into the session"
    assert len(sharing.acknowledged(AcknowledgeType.ACCEPT)) == len(deliveries)


def test_a_topic_that_was_created_again() -> None:
    sharing = filled()
    former = sharing.read()[0]
    sharing.lives = 1
    sharing.broker.batches.clear()
    sharing.router.metadata.invalidate()
    sharing.planner.assign(sharing.partitions, sharing.now_ms)
    sharing.broker.fill((sharing.partitions[TopicPartition("t", 0)], 0), b"new")
    (found,) = sharing.read()
    assert found.record.value == b"new"
    assert former.state is ShareDeliveryState.LOST


@pytest.mark.parametrize(
    ("code", "is_raised"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, False),
    ],
)
def test_the_error_of_a_partition(code: ErrorCode, is_raised: bool) -> None:
    sharing = filled()
    sharing.broker.fetch_faults[place()] = [code]
    if is_raised:
        with pytest.raises(BrokerError, match=code.name):
            sharing.read()
    assert len(sharing.read()) == 5


def test_errors_of_a_busy_application_are_those_that_still_apply() -> None:
    sharing = filled()
    sharing.broker.fetch_faults[place()] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 1_000
    sharing.queue.ask()
    sharing.simulation.run(20_000)
    assert len(sharing.queue.errors) == 1
    sharing.planner.assign({}, sharing.now_ms)
    assert not sharing.queue.errors
    sharing.planner.assign(sharing.partitions, sharing.now_ms)
    sharing.simulation.run(2_000)
    assert len(sharing.queue.errors) == 1
    sharing.broker.fetch_faults[place()] = []
    sharing.simulation.run(2_000)
    assert not sharing.queue.errors
    assert len(sharing.read()) == 5


def test_a_topic_whose_metadata_is_denied_is_raised_and_read_after_the_grant() -> None:
    sharing = filled()
    sharing.simulation.run(10)
    usual = sharing.simulation.handlers[MetadataRequest]

    def denied(request: MetadataRequest, version: int) -> MetadataResponse:
        response = usual(request, version)
        assert isinstance(response, MetadataResponse)
        for topic in response.topics:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    sharing.simulation.handlers[MetadataRequest] = denied
    sharing.router.metadata.invalidate()
    for _ in range(2):
        sharing.simulation.run(3_000)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: topic t"):
            sharing.read()
    sharing.simulation.handlers[MetadataRequest] = usual
    sharing.simulation.run(2_000)
    assert len(sharing.read()) == 5


def test_the_error_of_a_fetch() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    sharing.broker.top_faults = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED: share fetch from node 1"):
        sharing.read()
    assert codes(sharing) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


def test_a_response_that_leaves_out_acknowledgements() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    handlers = sharing.simulation.handlers
    handlers[1, ShareAcknowledgeRequest] = lambda request, version: ShareAcknowledgeResponse()
    (outcome,) = sharing.committed()
    assert isinstance(outcome.error, BrokerError)
    assert outcome.error.code is ErrorCode.INVALID_RECORD_STATE


def test_a_response_that_is_too_large() -> None:
    sharing = filled()
    handlers = sharing.simulation.handlers
    error = RequestTimedOut("the frame is too large")
    error.__cause__ = FrameTooLarge(2_000, 1_000)
    handlers[1, ShareFetchRequest] = lambda request, version: error
    with pytest.raises(RecordTooLarge, match="2000 bytes, but max_frame_bytes is 1000"):
        sharing.read()


def test_the_limit_on_unacknowledged_records() -> None:
    sharing = filled(5, max_unacknowledged_records=5, max_poll_records=5)
    held = sharing.read()
    sharing.broker.fill(place(), b"more")
    assert sharing.read(timeout_ms=500) == []
    held[0].accept()
    assert offsets(sharing.read()) == [5]
    assert sharing.read(timeout_ms=500) == []
    sharing.run(LOCK_MS)
    assert {each.state for each in held[1:]} == {ShareDeliveryState.LOST}
    again = sharing.read() + sharing.read(timeout_ms=500)
    assert set(offsets(again)) == {1, 2, 3, 4, 5}, "records whose locks have run out do not count"


def test_locks_are_not_awaited_once_there_is_room_for_records() -> None:
    sharing = filled(5, max_unacknowledged_records=5, max_poll_records=5)
    held = sharing.read()
    assert sharing.read(timeout_ms=500) == []
    assert sharing.planner._locks_end_ms == held[0].locked_until_ms
    for delivery in held:
        delivery.accept()
    sharing.committed()
    assert sharing.planner._locks_end_ms is None


def test_a_renewal_is_not_tried_without_pause_while_the_connection_takes_no_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sharing = filled()
    first = sharing.read()[0]
    monkeypatch.setattr(sharing.router, "reach", lambda node_id, now_ms: None)
    first._renew()
    sharing.planner.poll(sharing.now_ms)
    assert sharing.planner._nodes[1].due_ms == sharing.now_ms + ACKNOWLEDGE_LINGER_MS


def test_with_a_limit_on_records_brokers_are_fetched_from_in_turn() -> None:
    sharing = Sharing((1, 2), share_acquire_mode="record_limit", max_poll_records=2)
    for node_id in (1, 2):
        sharing.brokers[node_id].fill(place(node_id - 1), b"a", b"b", b"c", b"d")
        sharing.router.reach(node_id, sharing.now_ms)
    sharing.run(10)
    found = [[each.record.partition for each in sharing.read()] for _ in range(4)]
    assert found == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert {fetch.share_acquire_mode for fetch in fetches(sharing)} == {1}


def test_closing_sends_acknowledgements_and_releases_the_rest() -> None:
    sharing = filled(leaders=(1, 2))
    first, second, *_ = sharing.read()
    first.accept()
    closed = sharing.close()
    sharing.run(100)
    assert closed.done
    assert sharing.acknowledged(AcknowledgeType.ACCEPT) == [0]
    assert sharing.broker.sessions == {}
    assert sharing.broker.held == {}
    (request,) = sharing.simulation.requests(ShareAcknowledgeRequest, 1)
    assert request.share_session_epoch == -1
    assert second.state is ShareDeliveryState.ACQUIRED, "the machine learns nothing; the client ends it next"
    sharing.planner.fail(Closed("closed"), sharing.now_ms)
    assert second.state is ShareDeliveryState.LOST
    assert first.state is ShareDeliveryState.CONFIRMED


def test_closing_waits_for_a_fetch_on_its_way_and_no_longer_than_its_limit() -> None:
    sharing = Sharing()
    sharing.read(timeout_ms=10)
    closed = sharing.close()
    assert not closed.done
    sharing.run(200)
    assert closed.done
    assert sharing.broker.sessions == {}
    sharing = filled()
    sharing.read()
    sharing.simulation.handlers[1, ShareAcknowledgeRequest] = lambda request, version: SILENT
    closed = sharing.close(300)
    sharing.run(299)
    assert not closed.done
    sharing.run(2)
    assert closed.done


def test_closing_without_the_broker_is_immediate() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    sharing.simulation.down.add(1)
    sharing.disconnect()
    closed = sharing.close()
    sharing.run(300)
    assert closed.done
    assert codes(sharing) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert sharing.planner._nodes[1].session.state is ShareSessionState.CLOSED


def test_the_end_of_the_client_ends_everything() -> None:
    sharing = filled()
    first, second, third, *_ = sharing.read()
    first.accept()
    commit = sharing.commit()
    renewal = second._renew()
    sharing.planner.fail(Closed("the client was closed"), sharing.now_ms)
    for promise in (commit, renewal):
        with pytest.raises(Closed):
            promise.wait()
    third.accept()
    assert third.state is ShareDeliveryState.LOST
    assert list(sharing.ledger.given) == []
    with pytest.raises(Closed):
        sharing.reader.take()
    closed = sharing.close()
    assert closed.done
    assert sharing.planner.due_ms(sharing.now_ms) is None


def test_duplicate_acquired_offsets_count_once() -> None:
    sharing = filled(3)
    usual = sharing.simulation.handlers[1, ShareFetchRequest]

    def answer(request: ShareFetchRequest, version: int) -> Any:
        response = usual(request, version)
        for topic in getattr(response, "responses", ()):
            for each in topic.partitions:
                each.acquired_records = [*each.acquired_records, *each.acquired_records]
        return response

    sharing.simulation.handlers[1, ShareFetchRequest] = answer
    assert offsets(sharing.read()) == [0, 1, 2]


def test_metrics() -> None:
    sharing = filled()
    sharing.read()[0].accept()
    sharing.broker.faults[place()] = [ErrorCode.INVALID_RECORD_STATE]
    sharing.committed()
    found = {name.name: value for name, value in sharing.router.metrics.read(sharing.now_ms).items()}
    assert (found["records-consumed-total"], found["acknowledgements-send-total"]) == (5, 1)
    assert found["acknowledgements-error-total"] == 1
    assert found["bytes-consumed-total"] > 0
