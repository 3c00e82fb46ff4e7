"""A follower that has diverged from its leader ends up with the leader's records (KIP-101, KIP-279).

Method: see `test_fetcher`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.fetcher import ASKED_MAX
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.following import T0, Following, error, exchange, followed, many, once
from tests.reference_broker.replicas.scripted_leaders import ScriptedLog
from tests.reference_broker.storage.held_work import HeldWork

FETCHING, TRUNCATING, ASKING = FollowedState.FETCHING, FollowedState.TRUNCATING, FollowedState.ASKING
PAUSED, FENCED = FollowedState.PAUSED, FollowedState.FENCED


@pytest.mark.parametrize("upto", [0, 1, 4, 6])
def test_a_former_leader_truncates_what_the_next_one_lacks(upto: int) -> None:
    following = followed(6)
    following.lead(3, upto=upto)
    following.leader.append(b"new")
    following.settle()
    assert following.state is FETCHING
    assert following.is_equal
    assert following.log.next_offset == upto + 1


def test_the_ends_of_a_diverging_response_do_not_count() -> None:
    following = followed(4)
    following.lead(2, upto=2)
    following.leader.append(b"x")
    following.leader.append(b"y", is_committed=True)
    following.leader.start_offset = 1
    following.log.set_high_watermark(1)
    following.exchange()
    assert (following.log.next_offset, following.log.high_watermark, following.log.log_start_offset) == (2, 1, 0)
    following.settle()
    assert following.is_equal


def test_the_ends_of_a_diverging_answer_count_once_the_leader_has_no_other_news() -> None:
    """The leader considers these ends sent, and includes the partition again only if they change."""
    following = followed(4)
    following.log.set_high_watermark(1)
    following.lead(2, upto=3)
    following.exchange()
    assert (following.log.next_offset, following.log.high_watermark) == (3, 1)
    following.exchange()
    assert following.log.high_watermark == 3


def test_the_ends_of_a_diverging_answer_do_not_count_in_another_session() -> None:
    following = followed(4)
    following.log.set_high_watermark(1)
    following.lead(2, upto=3)
    following.exchange()
    for answer in (ConnectionLost("lost"), FetchResponse(session_id=9)):
        assert following.plan() is not None
        following.give(answer)
        following.now_ms += 1_000
    assert following.log.high_watermark == 1


def test_nothing_is_kept_of_a_partition_that_is_gone() -> None:
    fetcher, broker = many(2)
    exchange(fetcher, broker, 0)
    broker.change = once(lambda data: setattr(data, "diverging_epoch", FetchResponse.EpochEndOffset(0, 0)))
    broker.logs["t", 0].high_watermark = 5
    exchange(fetcher, broker, 0)
    fetcher.remove(T0)
    exchange(fetcher, broker, 0)
    assert fetcher._untaken == {}


def test_the_ends_of_an_answer_for_the_former_epoch_count_likewise() -> None:
    following = followed()
    following.exchange()
    following.leader.append(b"more")
    following.exchange()
    following.leader.high_watermark = 4
    planned = following.plan()
    assert planned is not None
    stale = following.broker.answer(planned)
    following.leader.epoch = 1
    following.follow()
    following.give(stale)
    assert following.log.high_watermark == 3
    following.exchange()
    assert following.log.high_watermark == 4


def test_epochs_that_only_one_of_them_knows() -> None:
    """This is the case from KIP-279: two leaders fail one after the other, and a third takes over."""
    following = Following()
    first = following.leader
    for _ in range(2):
        first.append(b"a")
    following.follow()
    following.settle()
    second = ScriptedLog(1, first)
    for _ in range(3):
        second.append(b"b")
    following.leader = second
    following.follow()
    following.settle()
    third = ScriptedLog(2, first)
    third.append(b"c")
    following.leader = ScriptedLog(5, third)
    following.leader.append(b"d")
    following.follow()
    following.settle()
    assert following.is_equal
    assert following.log.epochs.entries() == [(0, 0), (2, 2), (5, 3)]


def test_a_leader_that_was_never_written_to_drops_its_epoch() -> None:
    following = followed(3)
    following.log.lead(1)
    following.lead(2)
    following.settle(2)
    assert following.log.epochs.entries() == [(0, 0)]
    assert following.state is FETCHING


def test_without_a_known_end_committed_records_stay() -> None:
    following = followed(4)
    following.log.set_high_watermark(2)
    following.lead(1)
    diverging = FetchResponse.EpochEndOffset(0, -1)
    following.broker.change = once(lambda data: setattr(data, "diverging_epoch", diverging))
    following.exchange()
    assert following.log.next_offset == 2
    following.settle()
    assert following.is_equal


def test_a_log_without_epochs_begins_with_its_committed_records() -> None:
    following = followed(4)
    following.log.set_high_watermark(2)
    following.log.epochs.end_at(0)
    following.lead(1)
    assert following.log.next_offset == 2
    following.settle()
    assert following.is_equal


def test_a_wrong_divergence_is_not_asked_for_without_a_pause() -> None:
    following = followed()
    diverging = FetchResponse.EpochEndOffset(0, 3)
    following.broker.change = once(lambda data: setattr(data, "diverging_epoch", diverging))
    following.exchange()
    assert following.state is PAUSED
    assert following.log.next_offset == 3


def test_an_epoch_that_begins_while_the_log_is_truncated_waits() -> None:
    work = HeldWork()
    following = Following(background=work)
    for number in range(4):
        following.leader.append(b"%d" % number)
    following.follow()
    following.exchange()
    following.lead(1, upto=2)
    following.exchange()
    assert following.state is TRUNCATING
    following.lead(2, upto=1)
    following.leader.append(b"x")
    assert following.state is TRUNCATING
    assert following.plan() is None
    work.run()
    assert following.state is FETCHING
    following.settle()
    work.run()
    following.settle()
    work.run()
    following.settle()
    assert following.is_equal


# Out of range.


def test_a_leader_that_ends_earlier() -> None:
    following = followed(4)
    following.leader = ScriptedLog(1)
    following.leader.begin_at(2)
    following.leader.append(b"x")
    following.follow()
    following.broker.change = once(error(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.exchange()
    assert following.state is ASKING
    request = following.exchange()
    assert following.broker.requests[-1][1] == 9
    assert request == ListOffsetsRequest(
        2,
        0,
        [
            ListOffsetsRequest.ListOffsetsTopic(
                "t", [ListOffsetsRequest.ListOffsetsPartition(0, 1, OffsetTimestamp.LATEST)]
            )
        ],
    )
    assert (following.state, following.log.next_offset) == (FETCHING, 3)
    following.settle()
    assert following.leader.epoch == following.log.leader_epoch


def test_a_leader_that_begins_later() -> None:
    following = followed(2)
    following.lead(1)
    for number in range(6):
        following.leader.append(b"%d" % number, is_committed=True)
    following.leader.begin_at(5)
    asked = [following.exchange() for _ in range(3)][1:]
    assert [each.topics[0].partitions[0].timestamp for each in asked] == [
        OffsetTimestamp.LATEST,
        OffsetTimestamp.EARLIEST,
    ]
    assert (following.log.log_start_offset, following.log.next_offset) == (5, 5)
    following.settle()
    assert following.is_equal
    assert following.log.high_watermark == 8


def test_a_leader_that_begins_in_the_middle_of_a_batch_where_the_follower_ends() -> None:
    """The follower's records before that offset differ, which the epochs no longer reveal."""
    following = followed(2)
    following.lead(1, upto=1)
    following.leader.append(b"x", b"y", b"z", is_committed=True)
    following.leader.begin_at(2)
    following.settle()
    assert following.is_equal
    assert (following.log.log_start_offset, following.log.high_watermark) == (2, 4)


def test_an_empty_follower_of_a_leader_that_begins_later() -> None:
    following = Following()
    following.leader.begin_at(7)
    following.leader.append(b"x", is_committed=True)
    following.follow()
    following.settle()
    assert following.is_equal
    assert following.log.epochs.entries() == [(0, 7)]


def test_an_offset_that_is_in_range_by_now_and_one_that_is_refused_again() -> None:
    following = followed()
    refusal = error(ErrorCode.OFFSET_OUT_OF_RANGE)
    following.broker.change = once(refusal)
    for _ in range(3):
        following.exchange()
    assert following.state is FETCHING
    following.exchange()  # a correct answer
    following.broker.change = refusal
    for _ in range(3):
        following.exchange()
    assert following.state is FETCHING
    for _ in range(3):
        following.exchange()
    assert following.state is PAUSED


@pytest.mark.parametrize(
    ("code", "offset", "state"),
    [
        (ErrorCode.NONE, None, PAUSED),
        (ErrorCode.NONE, -1, PAUSED),
        (ErrorCode.OFFSET_NOT_AVAILABLE, -1, PAUSED),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, PAUSED),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, FENCED),
    ],
)
def test_answers_without_an_offset(code: ErrorCode, offset: int | None, state: FollowedState) -> None:
    following = followed()
    following.broker.change = once(error(ErrorCode.OFFSET_OUT_OF_RANGE))
    following.exchange()
    assert isinstance(getattr(following.plan(), "request", None), ListOffsetsRequest)
    found = []
    if offset is not None:
        found.append(ListOffsetsResponse.ListOffsetsPartitionResponse(0, code, offset=offset))
    following.give(ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", found)]))
    assert following.state is state


def test_many_are_asked_about_in_several_requests() -> None:
    fetcher, broker = many(ASKED_MAX + 1)
    broker.change = error(ErrorCode.OFFSET_OUT_OF_RANGE)
    sizes = []
    for _ in range(5):
        planned = fetcher.plan(0)
        assert planned is not None
        sizes.append(sum(len(topic.partitions) for topic in planned.request.topics))
        fetcher.answered(broker.answer(planned), 0)
    assert sizes == [ASKED_MAX + 1, ASKED_MAX, ASKED_MAX, 2, ASKED_MAX + 1]
