"""On each answer from the leader and each report from its log, a partition takes the step in its table, and no other.

Method: use a log that merely records the operations requested of it, and report their completion; run one story for
each edge of the table, and check that the stories take all edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.replicas.followed import FOLLOWED_EDGES, Followed, FollowedState
from kafkawire.reference_broker.storage.log.appends import Appended, Done
from kafkawire.reference_broker.storage.log.truncations import Settled
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.edges import taken
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.replicated_logs import placed

FETCHING, APPENDING, TRUNCATING = FollowedState.FETCHING, FollowedState.APPENDING, FollowedState.TRUNCATING
ASKING, PAUSED, FENCED, FAILED = (
    FollowedState.ASKING,
    FollowedState.PAUSED,
    FollowedState.FENCED,
    FollowedState.FAILED,
)
NOW_MS = 1_000
RECORDS = placed(produced(b"a", b"b"), 10, 3)


class Log:
    """A log of ten records in epoch 3, seven of them committed; tests may change it."""

    def __init__(self) -> None:
        self.error: BrokerError | None = None
        self.log_start_offset = 0
        self.next_offset = self.acknowledged_to = 10
        self.high_watermark = 7
        self.leader_epoch = 3
        self.is_unsettled = False
        self.asked: list[tuple[object, ...]] = []
        self.append_done: Done | None = None
        self.settled: Settled | None = None

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return epoch, self.next_offset

    def append_as_follower(self, data: Buffer, from_offset: int, leader_epoch: int, now_ms: int, done: Done) -> None:
        self.asked.append(("append", from_offset, leader_epoch, now_ms))
        self.append_done = done

    def truncate_to(self, offset: int, done: Settled) -> None:
        self.asked.append(("truncate", offset))
        self.settled = done

    def start_at(self, offset: int, done: Settled) -> None:
        self.asked.append(("start", offset))
        self.settled = done

    def sync(self) -> None:
        self.asked.append(("sync",))

    def refuse_waiting(self, error: BrokerError) -> None:
        self.asked.append(("refuse", error.code))


class Case:
    """A partition in epoch 5 with such a log; the case acts as the partition's keeper and replica."""

    topic_id = b"T" * 16

    def __init__(self) -> None:
        self.log = Log()
        self.heard: list[object] = []
        self.followed_ends: list[tuple[int, int]] = []
        self.one = Followed(TopicPartition("t", 0), self, 5, 1_000, self)

    def followed(self, high_watermark: int, start_offset: int) -> None:
        self.followed_ends.append((high_watermark, start_offset))

    def changed(self, followed: Followed) -> None:
        self.heard.append(followed.state)

    def took(self, followed: Followed) -> None:
        self.heard.append("took")

    def released(self, followed: Followed) -> None:
        self.heard.append("released")

    def begun(self) -> Case:
        """Begin to follow, and have the partition fetched."""
        self.one.begin()
        self.one.to_fetch()
        return self

    def answer(self, **given: Any) -> None:
        data = {"high_watermark": 9, "log_start_offset": 1, **given}
        self.one.answered(FetchResponse.PartitionData(0, **data), NOW_MS)

    def diverge(self, end_offset: int) -> None:
        self.answer(diverging_epoch=FetchResponse.EpochEndOffset(3, end_offset))

    def append(self, count: int = 2, *, is_durable: bool = True) -> None:
        """Report that the append has ended."""
        self.log.next_offset += count
        if is_durable:
            self.log.acknowledged_to = self.log.next_offset
        assert self.log.append_done is not None
        self.log.append_done(Appended(10, self.log.next_offset - 1, -1))

    def refuse(self, code: ErrorCode = ErrorCode.OFFSET_OUT_OF_RANGE) -> None:
        """Report that the append was refused."""
        assert self.log.append_done is not None
        self.log.append_done(BrokerError(code))

    def settle(self, next_offset: int | None = None, error: BrokerError | None = None) -> None:
        """Report that the truncation has ended."""
        if next_offset is not None:
            self.log.next_offset = next_offset
            self.log.acknowledged_to = min(self.log.acknowledged_to, next_offset)
        assert self.log.settled is not None
        self.log.settled(error)

    def list(self, offset: int, code: int = ErrorCode.NONE) -> None:
        self.one.listed(ListOffsetsResponse.ListOffsetsPartitionResponse(0, code, offset=offset))

    def fail(self) -> None:
        self.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)


def story(*steps: Callable[[Case], object]) -> Callable[[], Case]:
    """Return a function that takes a partition through the given steps, and returns its case."""

    def tell() -> Case:
        case = Case().begun()
        for step in steps:
            step(case)
        return case

    return tell


def fetch(case: Case) -> None:
    case.answer(records=RECORDS)


def fetch_at_start(case: Case) -> None:
    """Fetch from the start of the leader's log; the records begin earlier and are refused."""
    case.one.to_fetch()
    case.answer(records=RECORDS, log_start_offset=10)
    case.refuse()


def out_of_range(case: Case) -> None:
    case.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)


def unsynced(case: Case) -> None:
    case.log.acknowledged_to = 5


#: Each story, with its final state and the operations requested of the log.
STORIES: dict[str, tuple[Callable[[], Case], FollowedState, list[tuple[object, ...]]]] = {
    "nothing new": (story(lambda case: case.answer()), FETCHING, []),
    "records": (story(fetch), APPENDING, [("append", 10, 5, NOW_MS)]),
    "records in the log": (story(fetch, Case.append), FETCHING, [("append", 10, 5, NOW_MS)]),
    "records that wait for a sync": (
        story(fetch, lambda case: case.append(is_durable=False)),
        APPENDING,
        [("append", 10, 5, NOW_MS), ("sync",)],
    ),
    "records that are synced": (
        story(
            fetch,
            lambda case: case.append(is_durable=False),
            lambda case: setattr(case.log, "acknowledged_to", 12),
            lambda case: case.one.moved(),
        ),
        FETCHING,
        [("append", 10, 5, NOW_MS), ("sync",)],
    ),
    "a log that moves before it has the records": (
        story(fetch, lambda case: case.one.moved()),
        APPENDING,
        [("append", 10, 5, NOW_MS)],
    ),
    "records that are refused": (story(fetch, Case.refuse), PAUSED, [("append", 10, 5, NOW_MS)]),
    "records that begin before the leader's log": (
        story(fetch_at_start, lambda case: case.settle(10)),
        FETCHING,
        [("append", 10, 5, NOW_MS), ("start", 10)],
    ),
    "records that are refused although the log is empty": (
        story(fetch_at_start, Case.settle, fetch_at_start),
        PAUSED,
        [("append", 10, 5, NOW_MS), ("start", 10), ("append", 10, 5, NOW_MS)],
    ),
    "a disk that fails": (story(fetch, Case.fail, Case.refuse), FAILED, [("append", 10, 5, NOW_MS)]),
    "a disk that has failed": (story(Case.fail, fetch), FAILED, []),
    "another end": (story(lambda case: case.diverge(8)), TRUNCATING, [("truncate", 8)]),
    "another end, done": (
        story(lambda case: case.diverge(8), lambda case: case.settle(8)),
        FETCHING,
        [("truncate", 8)],
    ),
    "the same end": (story(lambda case: case.diverge(10), Case.settle), PAUSED, [("truncate", 10)]),
    "the same end, another epoch": (
        story(lambda case: case.diverge(10), lambda case: setattr(case.log, "leader_epoch", 2), Case.settle),
        FETCHING,
        [("truncate", 10)],
    ),
    "a truncation that leaves no epoch": (
        story(
            lambda case: case.diverge(8),
            lambda case: setattr(case.log, "leader_epoch", -1),
            lambda case: case.settle(8),
        ),
        TRUNCATING,
        [("truncate", 8), ("truncate", 7)],
    ),
    "a truncation that fails": (
        story(lambda case: case.diverge(8), Case.fail, lambda case: case.settle(error=case.log.error)),
        FAILED,
        [("truncate", 8)],
    ),
    "a truncation before a sync": (
        story(unsynced, lambda case: case.diverge(8), lambda case: case.settle(8)),
        APPENDING,
        [("truncate", 8), ("sync",)],
    ),
    "out of range": (story(out_of_range), ASKING, []),
    "a leader that ends earlier": (story(out_of_range, lambda case: case.list(4)), TRUNCATING, [("truncate", 4)]),
    "a leader that ends later": (story(out_of_range, lambda case: case.list(12)), ASKING, []),
    "a leader that begins later": (
        story(out_of_range, lambda case: case.list(20), lambda case: case.list(15)),
        TRUNCATING,
        [("start", 15)],
    ),
    "in range by now": (story(out_of_range, lambda case: case.list(20), lambda case: case.list(2)), FETCHING, []),
    "refused again": (
        story(
            *(out_of_range, lambda case: case.list(20), lambda case: case.list(2), lambda case: case.one.to_fetch()),
            *(out_of_range, lambda case: case.list(20), lambda case: case.list(2)),
        ),
        PAUSED,
        [],
    ),
    "no answer for the partition": (story(out_of_range, lambda case: case.one.listed(None)), PAUSED, []),
    "fenced while it asks": (
        story(out_of_range, lambda case: case.list(-1, ErrorCode.FENCED_LEADER_EPOCH)),
        FENCED,
        [],
    ),
    "fenced": (story(lambda case: case.answer(error_code=ErrorCode.FENCED_LEADER_EPOCH)), FENCED, []),
    "an error": (story(lambda case: case.answer(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)), PAUSED, []),
    "the end of a pause": (story(lambda case: case.one.pause(""), lambda case: case.one.resume()), FETCHING, []),
    "the end of a pause before a sync": (
        story(unsynced, lambda case: case.one.pause(""), lambda case: case.one.resume()),
        APPENDING,
        [("sync",)],
    ),
    "a log that fails during a pause": (
        story(lambda case: case.one.pause(""), Case.fail, lambda case: case.one.resume()),
        FAILED,
        [],
    ),
    "a defect while it asks": (story(out_of_range, lambda case: case.one.fail()), FAILED, []),
    "an end that is reported after a defect": (
        story(fetch, lambda case: case.one.fail(), Case.append),
        FAILED,
        [("append", 10, 5, NOW_MS)],
    ),
    "an offset that is not asked for": (story(lambda case: case.list(4)), FETCHING, []),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story(name: str) -> None:
    tell, state, asked = STORIES[name]
    case = tell()
    assert case.one.state is state
    assert case.log.asked == asked


def test_the_stories_take_every_edge() -> None:
    """Every state may be followed by a failure; the stories have those that the state machine itself can encounter."""
    with taken(FOLLOWED_EDGES) as steps:
        for tell, _, _ in STORIES.values():
            tell()
    expected = {(before, after) for before, follows in FOLLOWED_EDGES.edges.items() for after in follows}
    assert expected - steps == set()
    assert {before for before, after in steps if after is FAILED} >= {FETCHING, APPENDING, TRUNCATING, ASKING, PAUSED}


@pytest.mark.parametrize(
    ("is_unsettled", "acknowledged_to", "leader_epoch", "state", "asked"),
    [
        (False, 10, 3, FETCHING, []),
        (False, 5, 3, APPENDING, [("sync",)]),
        (True, 10, 3, TRUNCATING, [("truncate", 10)]),
        (False, 10, -1, TRUNCATING, [("truncate", 7)]),
    ],
)
def test_the_beginning(
    is_unsettled: bool, acknowledged_to: int, leader_epoch: int, state: FollowedState, asked: list[tuple[object, ...]]
) -> None:
    case = Case()
    case.log.is_unsettled, case.log.acknowledged_to = is_unsettled, acknowledged_to
    case.log.leader_epoch = leader_epoch
    case.one.begin()
    assert (case.one.state, case.log.asked) == (state, asked)
    assert case.heard


def test_a_beginning_on_a_broken_disk() -> None:
    case = Case()
    case.log.is_unsettled = True
    case.fail()
    case.one.begin()
    assert (case.one.state, case.log.asked) == (FAILED, [])


def test_what_is_sent() -> None:
    case = Case()
    assert case.one.to_fetch() == FetchRequest.FetchPartition(0, 5, 10, 3, 0, 1_000)
    assert case.one.is_sent
    case.log.log_start_offset = 1
    assert not case.one.is_sent


def test_the_leaders_ends_count_once_the_records_are_in_the_log() -> None:
    case = story(fetch)()
    assert case.followed_ends == []
    case.append()
    assert case.followed_ends == [(9, 1)]
    assert case.one.lag == 0


@pytest.mark.parametrize("name", ["another end", "records that are refused", "out of range", "an error"])
def test_other_answers_have_no_ends(name: str) -> None:
    assert STORIES[name][0]().followed_ends == []


def test_an_answer_counts_only_for_the_entry_that_was_sent() -> None:
    case = Case()
    case.one.begin()
    fetch(case)  # before anything has been sent
    case.one.to_fetch()
    case.log.next_offset = 9
    fetch(case)
    assert case.log.asked == []


@pytest.mark.parametrize("report", [pytest.param(Case.append, id="appended"), pytest.param(Case.refuse, id="refused")])
def test_what_a_log_reports_after_the_end_has_no_effect(report: Callable[[Case], None]) -> None:
    case = story(fetch)()
    case.one.end()
    assert case.log.asked[-1] == ("refuse", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    del case.heard[:]
    report(case)
    assert case.heard == ["released"]
    assert case.followed_ends == []


@pytest.mark.parametrize("name", ["records", "another end", "out of range", "an error"])
def test_what_was_sent_does_not_count_after_a_step(name: str) -> None:
    assert STORIES[name][0]().one.sent is None


def test_a_truncation_outlives_the_end() -> None:
    case = story(lambda case: case.diverge(8))()
    case.one.end()
    del case.heard[:]
    case.settle(8)
    assert (case.heard, case.log.asked) == ([], [("truncate", 8)])


def test_a_listing_asks_for_the_end_first() -> None:
    case = story(out_of_range)()
    assert case.one.asks is OffsetTimestamp.LATEST
    case.list(12)
    assert case.one.asks is OffsetTimestamp.EARLIEST
