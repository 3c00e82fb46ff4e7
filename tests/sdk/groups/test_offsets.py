"""Commits are merged, signed with the current membership, retried while this may help, and ended in time.

Method: run the state machine alone on a simulated client, with a member whose signature the test sets.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    KafkaWireError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.groups import pending_commits
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced, Outcome, Rebalanced
from kafkawire.sdk.groups.commit_waiters import MAX_COMMITS
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.committing import T0, T1, T2, Client, sent
from tests.sdk.groups.members import refusal
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import SILENT, backoff


@pytest.mark.parametrize("newest", [2, 5, 6, 7, 8, 9, 10])
def test_offsets_are_committed_in_every_version(newest: int) -> None:
    client = Client()
    client.simulation.newest[ApiKey.OFFSET_COMMIT] = newest
    client.simulation.run(100)
    outcomes = client.commit({T0: 7, T1: 8})
    client.simulation.run(100)
    stored = {T0: OffsetAndMetadata(7, "m", 3), T1: OffsetAndMetadata(8, "m", 3)}
    assert outcomes == [Committed(stored)]
    assert client.reader.stored == stored
    (request,) = client.requests
    assert (request.generation_id_or_member_epoch, request.member_id) == (5, "m")
    assert bool(request.topics[0].name) is (newest < 10)
    assert request.topics[0].partitions[0].committed_leader_epoch == (3 if newest >= 6 else -1)


def test_names_are_used_while_the_id_of_a_topic_is_not_known() -> None:
    client = Client()
    client.router.metadata.wanted = set()
    outcomes = client.commit({T0: 7})
    client.simulation.run(100)
    assert client.requests[0].topics[0].name == "t"
    assert isinstance(outcomes[0], Committed)


def test_commits_that_wait_become_one_and_the_latest_offset_counts() -> None:
    client = Client()
    client.answer = lambda request: SILENT if len(client.requests) == 1 else client.by_partition(request)
    first = client.commit({T0: 1})
    client.simulation.run(100)
    later = [client.commit({T0: offset, T1: offset}) for offset in range(2, 50)]
    client.simulation.run(100)
    assert len(client.requests) == 1
    client.simulation.break_connections(2)
    client.simulation.run(1_000)
    assert [sent(request) for request in client.requests] == [{0: 1}, {0: 49, 1: 49}]
    assert isinstance(first[0], Committed)
    assert first[0].offsets[T0].offset == 49
    assert all(isinstance(each[0], Committed) for each in later)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ],
)
def test_a_commit_is_tried_again_after_pauses(code: ErrorCode) -> None:
    client = Client()
    client.codes = {0: [code] * 3}
    outcomes = client.commit({T0: 1, T1: 2})
    client.simulation.run(4_000)
    assert isinstance(outcomes[0], Committed)
    assert [sent(request) for request in client.requests] == [{0: 1, 1: 2}, {0: 1}, {0: 1}, {0: 1}]
    times = [time for time, _, request, _ in client.simulation.sent if isinstance(request, OffsetCommitRequest)]
    assert [later - time >= pause for time, later, pause in zip(times, times[1:], (100, 200, 400), strict=False)] == [
        True
    ] * 3
    assert client.signer.rejections == []


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ],
)
def test_a_partition_that_cannot_be_committed_fails_at_once_and_holds_up_no_other(code: ErrorCode) -> None:
    client = Client()
    client.codes = {0: [code]}
    bad, good = client.commit({T0: 1}), client.commit({T1: 2})
    client.simulation.run(50)
    assert isinstance(bad[0], BrokerError)
    assert bad[0].code is code
    assert isinstance(good[0], Committed)
    assert client.reader.stored.keys() == {T1}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    ],
)
def test_a_refused_signature_is_reported_and_the_commit_signed_anew(code: ErrorCode) -> None:
    client = Client()
    client.codes = {0: [code]}
    outcomes = client.commit({T0: 1})
    client.simulation.run(50)
    assert client.signer.rejections == [(GroupMetadata("g", 5, "m"), code)]
    assert outcomes == []
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.simulation.run(500)
    assert isinstance(outcomes[0], Committed)
    assert client.requests[-1].generation_id_or_member_epoch == 6


def test_a_fenced_instance_fails() -> None:
    client = Client()
    client.codes = {0: [ErrorCode.FENCED_INSTANCE_ID]}
    outcomes = client.commit({T0: 1})
    client.simulation.run(50)
    assert isinstance(outcomes[0], BrokerError)
    assert outcomes[0].code is ErrorCode.FENCED_INSTANCE_ID
    assert client.signer.rejections


def test_a_commit_is_signed_when_it_is_written() -> None:
    client = Client()
    outcomes = client.commit({T0: 1})
    client.offsets.poll(client.simulation.now_ms)  # the commit waits until its coordinator is found
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.simulation.run(100)
    assert isinstance(outcomes[0], Committed)
    assert [request.generation_id_or_member_epoch for request in client.requests] == [6]


def test_nothing_is_sent_while_nobody_can_sign() -> None:
    client = Client(interval_ms=100)
    client.reader.read()
    client.signer.signature = None
    outcomes = client.commit({T0: 1})
    client.simulation.run(2_000)
    assert client.requests == []
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.simulation.run(200)
    assert isinstance(outcomes[0], Committed)


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("cause", [None, BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)])
def test_what_is_given_up_is_not_committed_later(is_sent: bool, cause: KafkaWireError | None) -> None:
    client = Client()
    client.answer = lambda request: SILENT if is_sent else client.by_partition(request)
    outcomes = client.commit({T0: 1, T1: 2})
    if is_sent:
        client.simulation.run(100)
    client.offsets.release([T0], client.simulation.now_ms, cause)
    client.answer = client.by_partition
    client.simulation.break_connections(2)
    client.simulation.run(1_000)
    stored = {T1: OffsetAndMetadata(2, "m", 3)}
    expected = Rebalanced(stored, frozenset([T0])) if cause is None else Fenced(stored, frozenset([T0]), cause)
    assert outcomes == [expected]
    assert sent(client.requests[-1]) == {1: 2}


@pytest.mark.parametrize("end", ["lost", "lost in flight", "created again"])
def test_the_end_of_a_commit_may_give_up_others(end: str) -> None:
    """A member is fenced during a revocation's last commit, which releases all revoked partitions."""
    client = Client()
    client.simulation.run(100)
    client.answer = lambda request: SILENT
    client.signer.signature = None if end == "created again" else client.signer.signature
    ended: list[Outcome | KafkaWireError] = []

    def let_go(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
        ended.append(outcome)
        client.offsets.release([T0, T1], now_ms)

    now_ms = client.simulation.now_ms
    client.offsets.commit({T0: OffsetAndMetadata(1)}, now_ms + 5_000, let_go, now_ms)
    ended_too = client.commit({T1: 2})
    if end == "created again":
        topic = client.router.metadata.topics["t"]
        client.router.metadata.topics["t"] = topic._replace(topic_id=b"another topic t.")
        client.signer.signature = GroupMetadata("g", 6, "m")
        client.simulation.run(100)
    else:
        if end == "lost in flight":
            client.simulation.run(100)
        client.offsets.release(None, client.simulation.now_ms, BrokerError(ErrorCode.UNKNOWN_MEMBER_ID))
    assert (len(ended), len(ended_too)) == (1, 1)
    expected = BrokerError if end == "created again" else Fenced
    assert [type(each) for each in (*ended, *ended_too)] == [expected, expected]


def test_a_call_about_nothing_is_not_sent() -> None:
    client = Client()
    outcomes = client.commit({T0: 1})
    client.offsets.poll(client.simulation.now_ms)
    client.offsets.release(None, client.simulation.now_ms)
    client.signer.signature = None
    client.simulation.run(1_000)
    assert outcomes == [Rebalanced({}, frozenset([T0]))]
    assert client.requests == []


def test_a_commit_that_was_given_up_in_flight_does_not_hold_up_the_next() -> None:
    client = Client()
    client.answer = lambda request: SILENT
    first = client.commit({T0: 1})
    client.simulation.run(100)
    client.offsets.release([T0], client.simulation.now_ms)
    client.answer = client.by_partition
    second = client.commit({T1: 2})
    client.simulation.run(100)
    assert isinstance(first[0], Rebalanced)
    assert isinstance(second[0], Committed)


def test_a_member_does_not_commit_for_others() -> None:
    client = Client()
    foreign = TopicPartition("t", 9)
    outcomes = client.commit({T0: 1, foreign: 1})
    client.simulation.run(100)
    assert outcomes == [Rebalanced({T0: OffsetAndMetadata(1, "m", 3)}, frozenset([foreign]))]


def test_what_is_assigned_is_asked_once_for_a_commit_of_many_partitions() -> None:
    """A consumer builds a new set of all its partitions for each call."""

    class Counting(MemoryReader):
        asked = 0

        @property
        def assigned(self) -> frozenset[TopicPartition]:
            self.asked += 1
            return super().assigned

    client = Client()
    client.offsets = Offsets(client.router, backoff(), "g", reader := Counting(), None, 10_000)
    client.offsets.member = client.signer
    reader.assign([T0, T1, T2])
    reader.asked = 0
    client.commit({T0: 1, T1: 1, T2: 1})
    assert reader.asked == 1


def test_a_reader_outside_a_group_commits_for_any_partition() -> None:
    client = Client(is_member=False)
    outcomes = client.commit({TopicPartition("t", 9): 1})
    client.simulation.run(100)
    assert isinstance(outcomes[0], Committed)
    assert (client.requests[0].generation_id_or_member_epoch, client.requests[0].member_id) == (-1, "")


def test_a_reader_outside_a_group_is_refused_by_a_group_with_members() -> None:
    client = Client(is_member=False)
    client.codes = {0: [ErrorCode.UNKNOWN_MEMBER_ID]}
    outcomes = client.commit({T0: 1})
    client.simulation.run(100)
    assert isinstance(outcomes[0], BrokerError)
    assert outcomes[0].code is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_commit_ends_by_its_own_deadline() -> None:
    client = Client()
    client.answer = lambda request: SILENT
    ended: dict[int, int] = {}

    def note(timeout_ms: int) -> Callable[[Outcome | KafkaWireError, int], None]:
        def done(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            assert isinstance(outcome, RequestTimedOut)
            assert "t-0" in str(outcome)
            ended[timeout_ms] = now_ms - 1_000

        return done

    for timeout_ms in (5_000, 200, 1_000):
        client.offsets.commit({T0: OffsetAndMetadata(1)}, 1_000 + timeout_ms, note(timeout_ms), 1_000)
    client.simulation.run(60_000)
    assert ended == {200: 200, 1_000: 1_000, 5_000: 5_000}
    assert client.offsets.due_ms(client.simulation.now_ms) is None


def test_the_error_of_a_late_commit_tells_what_it_met() -> None:
    client = Client()
    client.codes = {0: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100}
    outcomes = client.commit({T0: 1}, 1_000)
    client.simulation.run(2_000)
    assert isinstance(outcomes[0], RequestTimedOut)
    assert isinstance(outcomes[0].__cause__, BrokerError)
    assert "COORDINATOR_LOAD" in str(outcomes[0])
    client.simulation.run(10_000)
    assert client.requests[-1] is client.requests[-1]
    assert len(client.requests) < 10


def test_a_commit_that_a_throttling_coordinator_holds_up_says_so() -> None:
    client = Client()
    client.commit({T0: 1})
    client.simulation.run(100)
    for link in client.simulation.router._links.all:
        link.throttled(5_000, client.simulation.now_ms)
    outcomes = client.commit({T0: 2}, 300)
    client.simulation.run(1_000)
    assert "throttled by node-1:9092 for 5000 ms" in str(outcomes[0])


def test_a_partition_that_the_response_leaves_out_fails() -> None:
    client = Client()
    client.answer = lambda request: OffsetCommitResponse()
    outcomes = client.commit({T0: 1})
    client.simulation.run(100)
    assert isinstance(outcomes[0], RemoteProtocolError)


def test_finished_records_are_committed_periodically() -> None:
    client = Client(interval_ms=1_000)
    client.reader.read()
    client.simulation.run(950)
    assert client.requests == [], "the first commit must come one interval after the start"
    client.simulation.run(150)
    assert sent(client.requests[0]) == {0: 1, 1: 1, 2: 1}
    client.simulation.run(5_000)
    assert len(client.requests) == 1, "nothing may be committed twice"
    client.reader.read()
    client.simulation.run(1_100)
    assert sent(client.requests[1]) == {0: 2, 1: 2, 2: 2}


def test_automatic_commits_do_not_pile_up() -> None:
    client = Client(interval_ms=100)
    client.answer = lambda request: SILENT
    client.reader.read()
    client.simulation.run(5_000)
    assert len(client.requests) == len(client.offsets._commits.waiters) == 1
    client.answer = client.by_partition
    client.simulation.break_connections(2)
    client.simulation.run(2_000)
    assert client.reader.stored[T0].offset == 1


def test_an_automatic_commit_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(interval_ms=100)
    client.answer = lambda request: refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    client.reader.read()
    client.simulation.run(2_000)
    failed = [message for message in caplog.messages if "group g: the automatic commit failed: GROUP_AUTH" in message]
    assert len(failed) == 1, "the error must be logged rarely, however often it occurs"


def test_too_many_commits_are_refused() -> None:
    client = Client()
    client.signer.signature = None
    outcomes = [client.commit({T0: offset}) for offset in range(MAX_COMMITS)]
    refused = client.commit({T0: 1})
    assert isinstance(refused[0], LocalProtocolError)
    assert str(MAX_COMMITS) in str(refused[0])
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.simulation.run(100)
    assert all(isinstance(each[0], Committed) for each in outcomes)


def test_a_commit_of_nothing_is_done_once_and_at_once() -> None:
    client = Client()
    outcomes = client.commit({})
    assert outcomes == [Committed({})]
    client.simulation.run(10_000)
    assert outcomes == [Committed({})]
    assert client.offsets.due_ms(client.simulation.now_ms) is None


def test_a_commit_that_came_too_late_is_not_made_afterwards() -> None:
    client = Client()
    signature, client.signer.signature = client.signer.signature, None
    late, later = client.commit({T0: 1}, 100), client.commit({T1: 1}, 5_000)
    client.simulation.run(200)
    assert [type(outcome) for outcome in late] == [RequestTimedOut]
    client.signer.signature = signature
    client.simulation.run(200)
    assert [sent(request) for request in client.requests] == [{1: 1}]
    assert isinstance(later[0], Committed)


def test_deadlines_of_ended_commits_are_forgotten() -> None:
    client = Client()
    client.signer.signature = None
    client.commit({T1: 1}, 400_000)
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.answer = lambda request: SILENT
    client.simulation.run(10)
    for offset in range(1_000):
        client.commit({T0: offset}, 500_000)
        client.offsets.release([T0], client.simulation.now_ms)
    assert len(client.offsets._commits.waiters._deadlines) < 200


def test_commits_end_in_time_after_others_were_forgotten() -> None:
    client = Client()
    client.signer.signature = None
    ended: list[tuple[int, int]] = []
    for number in range(300):
        deadline_ms = 2_000 + number * 37 % 300  # in no particular order
        partition = T0 if number % 10 else T1
        client.offsets.commit(
            {partition: OffsetAndMetadata(1)},
            deadline_ms,
            lambda outcome, now_ms, deadline_ms=deadline_ms: ended.append((deadline_ms, now_ms)),  # type: ignore[misc]  # its default
            1_000,
        )
    client.offsets.release([T0], 1_000)
    ended.clear()
    client.simulation.run(5_000)
    assert len(ended) == 30
    assert all(deadline_ms == now_ms for deadline_ms, now_ms in ended)


def test_a_membership_that_has_failed_fails_its_commits() -> None:
    client = Client()
    client.signer.failure = BrokerError(ErrorCode.FENCED_INSTANCE_ID)
    assert client.commit({T0: 1}) == [client.signer.failure]
    client.simulation.run(1_000)
    assert client.requests == []


def test_the_end_of_the_client_ends_every_commit() -> None:
    client = Client(interval_ms=100)
    client.answer = lambda request: SILENT
    first = client.commit({T0: 1})
    client.simulation.run(50)
    second = client.commit({T1: 1})
    client.simulation.close()
    assert isinstance(first[0], Closed)
    assert isinstance(second[0], Closed)
    assert len(first) == len(second) == 1
    assert client.offsets.due_ms(client.simulation.now_ms) is None


@pytest.mark.parametrize("end", ["refused", "late", "given up", "too many"])
def test_an_automatic_commit_that_fails_is_followed_by_the_next(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(interval_ms=1_000)
    client.reader.read(3)
    if end == "refused":
        client.codes = {number: [ErrorCode.TOPIC_AUTHORIZATION_FAILED] for number in range(3)}
    elif end in ("late", "given up"):
        client.answer = lambda request: SILENT
    else:
        monkeypatch.setattr(pending_commits, "MAX_COMMITS", 0)
    client.simulation.run(1_500)
    if end == "given up":
        client.offsets.release(None, client.simulation.now_ms)
    client.simulation.run(11_000 if end == "late" else 100)
    assert client.reader.stored == {}
    client.answer = client.by_partition
    monkeypatch.undo()
    client.reader.read(1)
    client.simulation.run(12_000)
    assert {offset.offset for offset in client.reader.stored.values()} == {4}


def test_a_coordinator_that_stores_something_has_recovered() -> None:
    """A final refusal for one partition shows that the outage has ended, and no later error mentions the outage."""
    client = Client()
    client.codes = {0: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100}
    late = client.commit({T0: 1}, 2_000)
    client.simulation.run(5_000)
    assert str(late[0]).startswith("group g did not commit t-0 in time; COORDINATOR_LOAD_IN_PROGRESS")
    client.codes = {1: [ErrorCode.TOPIC_AUTHORIZATION_FAILED]}
    outcomes = client.commit({T0: 1, T1: 1})
    client.simulation.run(100)
    assert isinstance(outcomes[0], BrokerError)
    client.answer = lambda request: SILENT
    late = client.commit({T2: 1}, 50)
    client.simulation.run(100)
    assert str(late[0]) == "group g did not commit t-2 in time"


def test_a_commit_starts_over_after_another_has_failed() -> None:
    """It does not wait for that commit's pause, and its error does not mention that commit's errors."""
    client = Client()
    client.codes = {0: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100}
    client.commit({T0: 1}, 2_000)
    client.simulation.run(60_000)
    client.codes = {1: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]}
    sent_before = len(client.requests)
    outcomes = client.commit({T1: 1}, 1_000)
    client.simulation.run(110)
    assert len(client.requests) == sent_before + 2
    assert isinstance(outcomes[0], Committed)
    client.answer = lambda request: SILENT
    late = client.commit({T2: 1}, 50)
    client.simulation.run(100)
    assert str(late[0]) == "group g did not commit t-2 in time"


def test_a_commit_from_outside_a_group_that_has_members_says_so() -> None:
    client = Client(is_member=False)
    client.codes = {0: [ErrorCode.UNKNOWN_MEMBER_ID]}
    outcomes = client.commit({T0: 1})
    client.simulation.run(100)
    text = "UNKNOWN_MEMBER_ID: commit of t-0 in group g: the group has members, and only they may commit"
    assert str(outcomes[0]).startswith(text)
