"""Every marker has exactly one outcome, from its partition's current leader, whatever fails on the way.

Method: use a scripted cluster; the test answers requests, moves leaders and lets time pass. Sequences of random events
end with a working cluster.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions import marker_channels as module
from kafkawire.reference_broker.transactions.marker_channels import ABSENCES_MAX, MarkerChannels
from kafkawire.sdk.errors import BrokerError, ConnectionLost, RequestTimedOut, UnsupportedVersion
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_STATE_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.transactions.peer_bench import OWN, Asked, PeerBench
from tests.sdk.stories import Kinds, Step, run_stories, steps

A, B, C = ("a", 0), ("b", 0), ("c", 0)
STATE = (TRANSACTION_STATE_TOPIC, 0)
MARKER = Marker(7, 1, True, 5)

MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

PASSING = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
]
FINAL = [
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
]
UNEXPECTED = [ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR]


def response(asked: Asked, codes: Any = None) -> WriteTxnMarkersResponse:
    """Return the response to a request, with given codes for some partitions."""
    return WriteTxnMarkersResponse(
        [
            MarkerResult(
                marker.producer_id,
                [
                    TopicResult(
                        topic.name,
                        [
                            PartitionResult(number, (codes or {}).get((topic.name, number), ErrorCode.NONE))
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in asked.request.markers
        ]
    )


def sent(asked: Asked) -> list[tuple[Marker, tuple[str, int]]]:
    """Return the markers and partitions in a request."""
    return [
        (
            Marker(each.producer_id, each.producer_epoch, each.transaction_result, each.coordinator_epoch),
            (topic.name, number),
        )
        for each in asked.request.markers
        for topic in each.topics
        for number in topic.partition_indexes
    ]


def partitions(asked: Asked) -> list[tuple[str, int]]:
    return [partition for _, partition in sent(asked)]


class Bench(PeerBench):
    """The channels of broker 1; by default, broker 2 leads the partitions a-0 and b-0, and this broker c-0.

    Attributes:
        own: the markers that this broker wrote.
        own_error: the error for its next markers.
        outcomes: the outcomes of each marker, in the order of `write`.
    """

    def __init__(self, leaders: Any = None) -> None:
        super().__init__({A: 2, B: 2, C: OWN, STATE: OWN} if leaders is None else leaders)
        self.own: list[Any] = []
        self.own_error: BrokerError | None = None
        self.outcomes: list[list[Any]] = []
        self.channels = MarkerChannels(self.peers, self.write_own)

    def write_own(self, partition: Any, marker: Any, version: Any, done: Any, now_ms: int) -> Any:
        assert now_ms == self.now_ms
        self.own.append((partition, marker, version))
        done(self.own_error)
        return lambda: None

    def write(self, partition: Any = A, marker: Marker = MARKER, version: int = 0) -> Any:
        """Write a marker; return the function that abandons it."""
        outcomes: list[Any] = []
        self.outcomes.append(outcomes)

        def done(error: BrokerError | None) -> None:
            outcomes.append(ErrorCode.NONE if error is None else error.code)

        return self.channels.write(partition, marker, version, done, self.now_ms)

    @property
    def codes(self) -> list[ErrorCode | None]:
        """The outcome of each marker, or None if there is none yet."""
        assert all(len(each) <= 1 for each in self.outcomes)
        return [each[0] if each else None for each in self.outcomes]


def test_markers_of_a_turn_share_a_request():
    bench = Bench()
    bench.write(A)
    bench.write(B)
    bench.write(A, MARKER._replace(producer_id=8, is_commit=False), version=2)
    assert bench.asked == [], "other markers may follow in this turn"
    asked = bench.take()
    assert sent(asked) == [(MARKER, A), (MARKER, B), (MARKER._replace(producer_id=8, is_commit=False), A)]
    assert [each.transaction_version for each in asked.request.markers] == [0, 2]
    assert bench.codes == [None] * 3
    asked.end(response(asked))
    assert bench.codes == [ErrorCode.NONE] * 3
    bench.advance(60_000)
    assert bench.asked == []


def test_own_markers_need_no_request():
    bench = Bench()
    bench.write(C, version=2)
    bench.turn()
    assert (bench.own, bench.codes, bench.asked) == ([(C, MARKER, 2)], [ErrorCode.NONE], [])


def test_markers_that_come_meanwhile_share_the_next_request(monkeypatch):
    monkeypatch.setattr(module, "MARKERS_MAX", 3)
    bench = Bench({("a", number): 2 for number in range(8)} | {B: 3})
    bench.write(("a", 0))
    first = bench.take()
    for number in range(1, 8):
        bench.write(("a", number))
    bench.write(B)
    assert partitions(bench.take(3)) == [B], "other brokers are not kept waiting"
    bench.turn()
    assert bench.asked == []
    for numbers in ([1, 2, 3], [4, 5, 6], [7]):
        first.end(response(first))
        first = bench.take()
        assert partitions(first) == [("a", number) for number in numbers]


@pytest.mark.parametrize("code", PASSING)
def test_passing_errors(code):
    bench = Bench()
    bench.write(A)
    bench.write(B)
    asked = bench.take()
    asked.end(response(asked, {A: code}))
    assert bench.codes == [None, ErrorCode.NONE]
    bench.leaders[A] = 3
    bench.advance(20)
    again = bench.take()
    assert (again.broker_id, sent(again)) == (3, [(MARKER, A)]), "the marker is sent to the new leader"
    again.end(response(again))
    assert bench.codes == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("code", FINAL)
def test_final_errors(code):
    bench = Bench()
    bench.write(A)
    bench.write(B)
    asked = bench.take()
    asked.end(response(asked, {A: code}))
    assert bench.codes == [code, ErrorCode.NONE]
    bench.advance(60_000)
    assert bench.asked == []


@pytest.mark.parametrize("code", UNEXPECTED)
def test_unexpected_errors_are_told_and_tried_again(code, caplog):
    bench = Bench()
    bench.write(A)
    asked = bench.take()
    asked.end(response(asked, {A: code}))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "resending the marker of producer 7 for a-0" in caplog.messages[0]
    bench.advance(20)
    assert partitions(bench.take()) == [A]


@pytest.mark.parametrize(
    "error", [ConnectionLost("reset"), RequestTimedOut("late"), UnsupportedVersion("old"), BrokerError(1), OSError()]
)
def test_lost_requests(error):
    bench = Bench()
    bench.write(A)
    bench.write(B)
    bench.take().end(error)
    assert bench.codes == [None, None]
    bench.leaders[B] = OWN
    bench.advance(20)
    assert partitions(bench.take()) == [A]
    assert (bench.own, bench.codes) == ([(B, MARKER, 0)], [None, ErrorCode.NONE])


def test_pauses_grow_to_a_limit():
    bench = Bench()
    bench.write(A)
    tried = []
    for _ in range(10):
        bench.advance(0)
        while not bench.asked:
            bench.advance(1)
        tried.append(bench.now_ms)
        bench.take().end(ConnectionLost("reset"))
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]


@pytest.mark.parametrize("code", [*PASSING, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_own_markers_are_tried_again(code):
    bench = Bench()
    bench.own_error = BrokerError(code)
    bench.write(C)
    assert bench.codes == [None]
    bench.own_error = None
    bench.advance(20)
    assert (len(bench.own), bench.codes) == (2, [ErrorCode.NONE])


@pytest.mark.parametrize("code", FINAL)
def test_own_markers_may_be_refused(code):
    bench = Bench()
    bench.own_error = BrokerError(code)
    bench.write(C)
    assert bench.codes == [code]


def test_deleted_partitions_need_no_marker():
    """The partitions are deleted beforehand, while the marker is waiting, or while it is being retried."""
    bench = Bench()
    del bench.leaders[B]
    bench.write(B)
    bench.advance(10_000)
    assert bench.codes == [None], "the image may not be complete yet"
    bench.advance(1_000 * ABSENCES_MAX - 10_000)
    assert bench.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    bench.write(A)
    del bench.leaders[A]
    bench.turn()
    assert bench.codes[1:] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    bench.leaders[A] = 2
    bench.write(A)
    asked = bench.take()
    asked.end(response(asked, {A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    assert bench.codes[2:] == [None]
    del bench.leaders[A]
    bench.advance(20)
    assert (bench.codes[2:], bench.asked) == ([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [])


def test_markers_wait_for_the_image():
    """After a restart of the whole cluster, a coordinator is elected before its image contains any topic."""
    bench = Bench(leaders={})
    bench.write(A)
    bench.advance(10_000 * ABSENCES_MAX)
    assert (bench.codes, bench.asked) == ([None], [])
    bench.leaders[STATE] = OWN
    bench.advance(10_000)
    assert bench.codes == [None], "the controller announces partitions in several requests"
    bench.leaders[A] = 2
    bench.advance(1_000)
    asked = bench.take()
    assert sent(asked) == [(MARKER, A)]
    asked.end(response(asked))
    assert bench.codes == [ErrorCode.NONE]


def test_markers_wait_for_the_image_as_long_when_the_clock_has_jumped():
    """A machine's clock is often set just after startup."""
    bench = Bench(leaders={STATE: OWN})
    bench.write(A)
    bench.advance(1_000)
    bench.timers.shift(3_600_000)
    bench.now_ms += 3_600_000
    bench.advance(1_000)
    assert bench.codes == [None]
    bench.leaders[A] = 2
    bench.advance(1_000)
    assert sent(bench.take()) == [(MARKER, A)]


@pytest.mark.parametrize("is_dead", [False, True])
def test_markers_wait_for_a_leader(is_dead):
    bench = Bench()
    if is_dead:
        bench.alive = {1, 3}
    else:
        bench.leaders[A] = -1
    bench.write(A)
    bench.advance(5_000)
    assert (bench.asked, bench.codes) == ([], [None])
    bench.alive.add(2)
    bench.leaders[A] = 3
    bench.advance(1_000)
    assert bench.take().broker_id == 3


def test_waiting_markers_follow_the_leader():
    bench = Bench()
    bench.write(A)
    first = bench.take()
    bench.write(B)
    bench.leaders[B] = 3
    first.end(response(first))
    bench.turn()
    assert partitions(bench.take(3)) == [B]
    bench.write(A)
    assert partitions(bench.take(2)) == [A], "the channel to broker 2 is free"


def test_one_transaction_of_a_producer_in_a_request():
    """A response identifies only producers, so the second transaction has to wait, and others may overtake it."""
    bench = Bench()
    later, other = MARKER._replace(coordinator_epoch=6), MARKER._replace(producer_id=8)
    for marker in (MARKER, later, other):
        bench.write(A, marker)
    first = bench.take()
    assert sent(first) == [(MARKER, A), (other, A)]
    first.end(response(first, {A: ErrorCode.TRANSACTION_COORDINATOR_FENCED}))
    assert bench.codes == [ErrorCode.TRANSACTION_COORDINATOR_FENCED, None, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert sent(bench.take()) == [(later, A)]


def test_waiting_transaction_of_a_producer_keeps_its_place(monkeypatch):
    monkeypatch.setattr(module, "MARKERS_MAX", 2)
    bench = Bench()
    later = MARKER._replace(coordinator_epoch=6)
    for marker in (MARKER, later, MARKER._replace(producer_id=8), MARKER._replace(producer_id=9)):
        bench.write(A, marker)
    first = bench.take()
    assert [marker.producer_id for marker, _ in sent(first)] == [7, 8]
    first.end(response(first))
    assert [marker.producer_id for marker, _ in sent(bench.take())] == [7, 9]


def test_abandoned_markers_are_not_sent():
    """The markers are waiting for their turn, for a request in flight, or for another attempt."""
    bench = Bench()
    bench.write(A)()
    bench.turn()
    assert bench.asked == []
    cancel = bench.write(A)
    asked = bench.take()
    bench.write(B)()
    cancel()
    asked.end(ConnectionLost("reset"))
    bench.advance(60_000)
    cancel = bench.write(A)
    asked = bench.take()
    asked.end(response(asked, {A: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    cancel()
    bench.advance(60_000)
    bench.own_error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    cancel = bench.write(C)
    bench.own_error = None
    cancel()
    bench.advance(60_000)
    assert (bench.asked, len(bench.own), bench.codes) == ([], 1, [None] * 5)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_abandoned_markers_have_no_outcome(code, caplog):
    caplog.set_level("INFO", "kafkawire.broker")
    bench = Bench()
    cancel = bench.write(A)
    asked = bench.take()
    cancel()
    asked.end(response(asked, {A: code}))
    assert (bench.codes, caplog.messages) == ([None], [])


def test_response_that_leaves_markers_out(caplog):
    bench = Bench()
    bench.write(A)
    bench.take().end(WriteTxnMarkersResponse([]))
    assert "the response from broker 2 omitted the marker" in caplog.messages[0]
    bench.advance(20)
    assert partitions(bench.take()) == [A]


@pytest.mark.defect
def test_failing_callback_holds_up_no_other(caplog):
    bench = Bench()

    def fail(error: BrokerError | None) -> None:
        raise ZeroDivisionError

    bench.channels.write(A, MARKER, 0, fail, 0)
    bench.write(B)
    asked = bench.take()
    asked.end(response(asked))
    assert bench.codes == [ErrorCode.NONE]
    assert caplog.messages == ["failed to process the outcome of a marker"]


PARTITIONS = st.sampled_from([A, B, C])
CODES = st.sampled_from([ErrorCode.NONE, *PASSING, *FINAL, *UNEXPECTED])
EVENTS: Kinds = {
    "write": (PARTITIONS, st.integers(1, 3)),
    "write more": (PARTITIONS, st.integers(1, 3)),
    "abandon": (st.integers(0, 20),),
    "answer": (st.sampled_from([2, 3]), st.lists(st.tuples(PARTITIONS, CODES), max_size=2)),
    "lose": (st.sampled_from([2, 3]),),
    "lead": (PARTITIONS, st.sampled_from([None, -1, 1, 2, 3])),
    "die": (st.sampled_from([2, 3]),),
    "pass": (st.sampled_from([0, 20, 1_000]),),
}


class Story(Bench):
    """Channels with random events."""

    def __init__(self) -> None:
        super().__init__()
        self.cancels: list[Any] = []
        self.abandoned: set[int] = set()

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, "do_" + name.removesuffix(" more"))(*arguments)
        assert all(len(each) <= 1 for each in self.outcomes)

    def do_write(self, partition: Any, producer_id: int) -> None:
        self.cancels.append(self.write(partition, MARKER._replace(producer_id=producer_id)))

    def do_abandon(self, index: int) -> None:
        if index < len(self.cancels):
            self.cancels[index]()
            self.abandoned.add(index)

    def do_answer(self, broker_id: int, codes: list[Any]) -> None:
        for asked in [each for each in self.asked if each.broker_id == broker_id]:
            self.asked.remove(asked)
            asked.end(response(asked, dict(codes)))

    def do_lose(self, broker_id: int) -> None:
        for asked in [each for each in self.asked if each.broker_id == broker_id]:
            self.asked.remove(asked)
            asked.end(ConnectionLost("reset"))

    def do_lead(self, partition: Any, leader: int | None) -> None:
        self.leaders.pop(partition, None)
        if leader is not None:
            self.leaders[partition] = leader

    def do_die(self, broker_id: int) -> None:
        self.alive ^= {broker_id}

    def do_pass(self, milliseconds: int) -> None:
        self.advance(milliseconds)


@run_stories(60)
@given(steps(EVENTS, longest=40))
def test_stories(story: list[Step]) -> None:
    bench = Story()
    for step in story:
        bench.act(step)
    bench.alive, bench.leaders = {1, 2, 3}, {A: 2, B: 3, C: 1, STATE: 1}
    for _ in range(20):
        bench.advance(1_000)
        for broker_id in (2, 3):
            bench.do_answer(broker_id, [])
    for index, outcomes in enumerate(bench.outcomes):
        assert outcomes or index in bench.abandoned, "a marker has no outcome"
    bench.advance(60_000)
    assert (bench.asked, bench.timers.next_deadline_ms) == ([], None)
