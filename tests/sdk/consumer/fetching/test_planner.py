"""Each broker is asked for the partitions that changed and have room; a partition in trouble waits alone and recovers.

Method: run a consumer's I/O side against simulated brokers with logs and fetch sessions, on a simulated clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import product

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    Closed,
    ConnectionLost,
    NoOffset,
    RecordTooLarge,
    UnsupportedVersion,
)
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.frames import FrameTooLarge
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.consumer.simulated_logs import Cluster, reading
from tests.sdk.consumer.user_side import T0, T1, T2


def test_requests_of_a_session_name_only_what_changed() -> None:
    cluster = reading(T0, T1, T2)
    cluster.logs[T1].append(b"a", b"b")
    assert cluster.read(100) == [(1, 0), (1, 1)]
    assert cluster.asked()[:3] == [{0: 0, 1: 0, 2: 0}, {1: 2}, {}]
    cluster.assignment.pause([T2])
    cluster.run(100)
    (forgotten,) = [each for request in cluster.fetches() for each in request.forgotten_topics_data]
    assert list(forgotten.partitions) == [2]
    assert [request.session_epoch for request in cluster.fetches()][:4] == [0, 1, 2, 3]


def test_a_broker_is_told_which_leader_it_is_taken_for() -> None:
    cluster = reading(T0, T1)
    cluster.assignment.seek(T0, Position(0))  # its epoch is unknown, so no leader is asked about it
    cluster.run(100)
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.simulation.router.metadata.invalidate()
    cluster.run(2_000)
    told = {
        each.partition: each.current_leader_epoch
        for request in cluster.fetches()
        for topic in request.topics
        for each in topic.partitions
    }
    assert told == {0: 2, 1: 1}


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_has_lost(code: ErrorCode) -> None:
    cluster = reading(T0, T1)
    cluster.run(100)
    identity, epoch, members = cluster.sessions[1]
    lost = code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cluster.sessions[1] = (identity + 100, epoch, members) if lost else (identity, epoch + 5, members)
    before = len(cluster.asked())
    cluster.logs[T0].append(b"a")
    assert cluster.read(100) == [(0, 0)]
    assert cluster.asked()[before : before + 3] == [{}, {0: 0, 1: 0}, {0: 1}]
    assert cluster.fetches()[before + 1].session_id == (0 if lost else identity)


def test_a_broken_connection_begins_a_session_anew() -> None:
    cluster = reading(T0, T1)
    cluster.run(100)
    cluster.simulation.break_connections(1)
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    assert {0: 0, 1: 0} in cluster.asked()[1:]


def test_a_broker_is_told_to_drop_the_session_of_a_fetch_that_failed() -> None:
    """The broker may still have the session, because the fetch may have arrived."""
    cluster = reading(T0)
    cluster.run(100)
    identity, before = cluster.sessions[1][0], len(cluster.fetches())
    cluster.simulation.break_connections(1)
    cluster.run(1_000)
    request = cluster.fetches()[before]
    assert (request.session_id, request.session_epoch) == (identity, 0)


def test_brokers_without_topic_ids_are_asked_by_name() -> None:
    cluster = reading(T0)
    cluster.simulation.newest[ApiKey.METADATA] = 9
    cluster.run(100)
    versions = {version for _, _, request, version in cluster.simulation.sent if request in cluster.fetches()}
    assert versions == {12}


def test_work_grows_with_records_not_with_partitions() -> None:
    """One of 3,000 partitions gets records; for each response, the planner looks only at that partition."""
    partitions = [TopicPartition("t", number) for number in range(3_000)]
    cluster = reading(*partitions, topics={"t": [1 + number % 3 for number in range(3_000)]})
    cluster.simulation.latency_ms = 20
    cluster.run(500)
    assert all(request.session_epoch > 0 for request in cluster.fetches()[6:])
    steps, fetches = cluster.planner.visited, len(cluster.fetches())
    for number in range(5):
        cluster.logs[partitions[number]].append(b"a")
        assert cluster.read(100) == [(number, 0)]
    assert cluster.planner.visited - steps <= 15
    assert sum(len(asked) for asked in cluster.asked()[fetches:]) <= 10


def test_a_partition_in_trouble_waits_alone() -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.run(100)
    for number in range(20):
        cluster.logs[T1].append(b"a")
        assert cluster.read(50) == [(1, number)]
    tried = sum(0 in asked for asked in cluster.asked())
    assert 3 <= tried <= 6
    assert cluster.metadata_asked <= 6
    cluster.logs[T0].error = ErrorCode.NONE
    cluster.logs[T0].append(b"a")
    assert (0, 0) in cluster.read(1_100)


def test_a_partition_without_a_leader_is_read_once_it_has_one(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0, T1, topics={"t": [None, 1]})
    cluster.logs[T1].append(b"a")
    assert cluster.read() == [(1, 0)]
    assert [record.getMessage() for record in caplog.records if "t-0" in record.getMessage()] == [
        "partition t-0 cannot be read now: it has no leader"
    ]
    cluster.logs[T0].leader = 2
    cluster.logs[T0].append(b"a")
    assert cluster.read(2_000) == [(0, 0)]


def test_nobody_waits_for_the_leader_of_a_partition_that_is_no_longer_assigned() -> None:
    cluster = reading(T0, T1, topics={"t": [None, 1]})
    cluster.run(5_000)
    cluster.assignment.assign([T1])
    cluster.run(1_000)
    asked = cluster.metadata_asked
    cluster.run(10_000)
    assert cluster.metadata_asked == asked


def test_a_partition_that_its_topic_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(TopicPartition("t", 9))
    assert cluster.read() == []
    assert "partition t-9 cannot be read now: topic t has partitions 0 to 2" in caplog.messages


def test_each_reason_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """That some brokers do not know a topic yet must not hide that one of its partitions will never exist."""
    cluster = reading(TopicPartition("new", 0), TopicPartition("new", 9))
    cluster.read()
    created = Cluster({"new": [1]})
    cluster.logs |= created.logs
    cluster.ids |= created.ids
    cluster.read(5_000)
    assert [line for line in caplog.messages if "cannot be read now" in line] == [
        "partition new-0 cannot be read now: the cluster has no such partition",
        "partition new-9 cannot be read now: topic new has partitions 0 to 0",
    ]


def test_a_partition_that_does_not_exist_yet(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0, TopicPartition("new", 0))
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    assert "partition new-0 cannot be read now: the cluster has no such partition" in caplog.messages
    created = Cluster({"new": [1]})
    cluster.logs |= created.logs
    cluster.ids |= created.ids
    cluster.logs[TopicPartition("new", 0)].append(b"a")
    assert cluster.read(2_000) == [(0, 0)]


def deny_metadata(cluster: Cluster, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> Callable[[], None]:
    """Make the metadata of topic "secret" an error; return a function that ends this."""
    usual = cluster.simulation.handlers[MetadataRequest]

    def answer(request: MetadataRequest, version: int) -> MetadataResponse:
        response = usual(request, version)
        assert isinstance(response, MetadataResponse)
        for topic in response.topics:
            if topic.name == "secret":
                topic.error_code = code
        return response

    cluster.simulation.handlers[MetadataRequest] = answer
    return lambda: cluster.simulation.handlers.update({MetadataRequest: usual})


@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_topic_whose_metadata_is_denied_is_raised_now_and_then_and_delays_no_other(is_assigned: bool) -> None:
    secret = TopicPartition("secret", 0)
    cluster = reading(T0, *([secret] if is_assigned else []), topics={"t": [1], "secret": [1]})
    if not is_assigned:  # as in a group, whose leader cannot assign the partitions
        cluster.planner.subscribe(frozenset({"t", "secret"}), keeps_known=True)
    grant = deny_metadata(cluster)
    cluster.simulation.router.metadata.invalidate()
    cluster.logs[T0].append(b"a")
    found, errors = cluster.read_on(20_000)
    assert found == [(0, 0)]
    assert {text for _, text in errors} == {"TOPIC_AUTHORIZATION_FAILED: topic secret"}
    assert len(errors) == 5  # after about 0, 1, 3, 7 and 15 s
    grant()
    cluster.logs[secret].append(b"b")
    found, errors = cluster.read_on(2_000)
    assert (found, errors) == ([(0, 0)] if is_assigned else [], [])


def test_a_topic_that_will_never_be_known_stops_its_partitions() -> None:
    cluster = reading(T0, TopicPartition("secret", 0))
    deny_metadata(cluster, ErrorCode.INVALID_TOPIC_EXCEPTION)
    cluster.logs[T0].append(b"a")
    text = "INVALID_TOPIC_EXCEPTION: topic secret; the partition is not read until resume(partition) or seek"
    found, errors = cluster.read_on(10_000)
    assert (found, [text for _, text in errors]) == ([(0, 0)], [text])


def test_a_partition_that_is_no_longer_denied_by_the_metadata_is_read_at_once() -> None:
    """The pauses after its fetches were denied may be long by then."""
    secret = TopicPartition("secret", 0)
    cluster = reading(secret, topics={"secret": [1]})
    cluster.run(100)
    cluster.logs[secret].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.read_on(40_000)
    grant = deny_metadata(cluster)
    cluster.simulation.router.metadata.invalidate()
    cluster.read_on(3_000)
    grant()
    cluster.logs[secret].error = ErrorCode.NONE
    cluster.logs[secret].append(b"a")
    assert cluster.read_on(2_000)[0] == [(0, 0)]


def test_a_broker_that_is_gone_is_forgotten_and_comes_back_with_a_session_of_its_own() -> None:
    cluster = reading(T0)
    cluster.run(100)
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.nodes = [2, 3]
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    cluster.simulation.router.metadata.invalidate()
    cluster.run(1_000)
    assert set(cluster.planner._nodes) == {2}
    cluster.nodes = [1, 2, 3]
    cluster.simulation.router.metadata.invalidate()
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 1, 3
    before = len(cluster.fetches(1))
    cluster.logs[T0].append(b"b")
    assert cluster.read(2_000) == [(0, 1)]
    assert cluster.fetches(1)[before].session_epoch == 0


def test_nothing_is_sent_after_the_end() -> None:
    cluster = reading(T0)
    cluster.run(100)
    cluster.simulation.close()
    before = len(cluster.simulation.requests(FetchRequest))
    cluster.planner.poll(cluster.simulation.now_ms)
    cluster.planner.poll(cluster.simulation.now_ms + 60_000)
    assert len(cluster.simulation.requests(FetchRequest)) == before


def test_a_topic_that_is_created_again(caplog: pytest.LogCaptureFixture) -> None:
    """The old positions mean nothing in the new topic, so they are reset, with one log line per partition."""
    cluster = reading(T0)
    cluster.logs[T0].append(b"a", b"b")
    assert cluster.read() == [(0, 0), (0, 1)]
    cluster.recreate("t")
    cluster.logs[T0].append(b"new")
    assert cluster.read(3_000) == [(0, 0)]
    assert [message for message in caplog.messages if "was deleted and created again" in message] == [
        "topic t was deleted and created again",  # every client notices this
        "t-0: topic t was deleted and created again: reset to earliest",
    ]


def test_what_was_read_of_a_deleted_topic_is_not_committed_for_the_next_one() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a", b"b", b"c")
    assert cluster.read() == [(0, 0), (0, 1), (0, 2)]
    cluster.reader.finish()
    assert cluster.assignment.to_commit()[T0].offset == 3
    cluster.recreate("t")
    cluster.run(3_000)
    assert cluster.assignment.to_commit().get(T0, OffsetAndMetadata(0)).offset == 0
    cluster.logs[T0].append(b"d", b"e")
    assert cluster.read(3_000) == [(0, 0), (0, 1)]
    cluster.reader.finish()
    assert cluster.assignment.to_commit()[T0].offset == 2


def test_a_topic_that_is_created_again_without_a_policy(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is read from the old offset or committed until the group has an offset in the new topic."""
    commits = {T0: OffsetAndMetadata(0), T1: OffsetAndMetadata(0)}
    cluster = reading(T0, T1, auto_offset_reset="none", commits=commits)
    for partition in (T0, T1):
        cluster.logs[partition].append(b"a", b"b")
    assert len(cluster.read()) == 4
    cluster.recreate("t")
    del commits[T0]
    commits[T1] = OffsetAndMetadata(1)
    for partition in (T0, T1):
        cluster.logs[partition].append(b"c", b"d", b"e")
    with pytest.raises(NoOffset, match="t-0 has no committed offset, and auto_offset_reset is none"):
        cluster.read(3_000)
    assert "t-0: topic t was deleted and created again" in caplog.messages
    assert cluster.read(3_000) == [(1, 1), (1, 2)]
    assert T0 not in cluster.assignment.to_commit()
    commits[T0] = OffsetAndMetadata(2)
    cluster.assignment.resume([T0])
    assert cluster.read() == [(0, 2)]


def test_what_is_fetched_ahead_is_bounded() -> None:
    cluster = reading(T0, T1, max_partition_fetch_bytes=1_000, fetch_max_bytes=5_000)
    for _ in range(8):
        cluster.logs[T0].append(b"x" * 900)
    cluster.run(5_000)
    fetched = cluster.queue.size_bytes
    assert cluster.asked()[1:].count({0: 8}) == 0
    assert cluster.queue.starved
    cluster.logs[T1].append(b"y")
    cluster.run(1_000)
    assert cluster.queue.size_bytes == fetched
    assert (1, 0) in cluster.read()
    assert cluster.queue.size_bytes == 0


def test_what_is_fetched_ahead_of_one_partition_is_bounded() -> None:
    """Two fetches are enough for the partition; the rest of `fetch_max_bytes` is for other partitions."""
    cluster = reading(T0, max_partition_fetch_bytes=1_000)
    for _ in range(20):
        cluster.logs[T0].append(b"x" * 900)  # the simulated broker has no limit, so each append makes one fetch
        cluster.run(20)
    assert 1_000 < cluster.queue.size_bytes < 3_000
    assert cluster.queue.starved, "taking data must wake the I/O side"
    found: list[tuple[int, int]] = []
    while len(found) < 20 and cluster.queue.size_bytes:
        found += cluster.read()
        cluster.run(100)
    assert found == [(0, number) for number in range(20)]


def test_a_pause_is_waited_for_once() -> None:
    cluster = reading(T0)
    cluster.logs[T0].error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.run(100)
    planner, (fetch,) = cluster.planner, cluster.planner._partitions.values()
    waiting = len(planner._later)
    for _ in range(50):
        planner.consider(fetch, cluster.simulation.now_ms)
    assert len(planner._later) == waiting


def test_positions_of_partitions_that_are_gone_do_nothing() -> None:
    cluster = reading(T0, T1)
    cluster.run(3)
    cluster.assignment.assign([T1])
    cluster.logs[T0].append(b"a")
    cluster.logs[T1].append(b"a")
    assert cluster.read() == [(1, 0)]
    cluster.assignment.assign([])
    before = len(cluster.fetches())
    cluster.run(5_000)
    assert len(cluster.fetches()) <= before + 1


def test_new_partitions_are_read_from_their_beginning() -> None:
    cluster = Cluster({"t": [1]}, auto_offset_reset="latest", metadata_max_age_ms=1_000)
    cluster.planner.subscribe(frozenset({"t"}), keeps_known=True)
    cluster.subscription.subscribe(Subscription(["t"]))
    cluster.logs[T0].append(b"before")
    assert cluster.read() == []
    cluster.logs[T1] = type(cluster.logs[T0])(2)
    cluster.logs[T1].append(b"after")
    assert cluster.read(3_000) == [(1, 0)]


def test_a_group_decides_which_topics_the_metadata_keeps() -> None:
    """A classic group's leader also watches the topics that other members read."""
    cluster = reading(T0)
    metadata = cluster.simulation.router.metadata
    cluster.planner.subscribe(frozenset(), keeps_known=False)
    metadata.wanted = {"t", "of another member"}
    cluster.assignment.assign([T0, T1])
    cluster.run(100)
    assert metadata.wanted == {"t", "of another member"}


def test_the_end_wakes_readers() -> None:
    cluster = reading(T0)
    cluster.run(100)
    promise = cluster.queue.wait()
    cluster.simulation.close()
    assert promise.done
    with pytest.raises(Closed):
        cluster.reader.advance()


def test_a_partition_that_was_withheld_is_fetched_again_once_it_is_assigned() -> None:
    cluster = reading(T0, T1)
    cluster.assignment.withhold([T1])
    cluster.logs[T1].append(b"a")
    assert cluster.read() == []
    cluster.assignment.pause([T0])
    cluster.assignment.assign([T0, T1])
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(1, 0)]
    cluster.assignment.resume([T0])
    assert cluster.read() == [(0, 0)]


@pytest.mark.parametrize("heard", [*product(range(3), repeat=3)])
def test_what_is_assigned_again_is_fetched_whenever_the_other_thread_hears_of_it(heard: tuple[int, ...]) -> None:
    """After each change on the reading side, the I/O side takes some of the changes that are still waiting for it."""
    cluster = reading(T0, T1)
    cluster.logs[T1].append(b"a", b"b")
    steps: deque[Callable[[int], None]] = deque()
    cluster.assignment._run = steps.append
    changes = (
        lambda: cluster.assignment.withhold([T1]),
        lambda: cluster.assignment.seek(T1, Position(1)),
        lambda: cluster.assignment.assign([T0, T1]),
    )
    for change, count in zip(changes, heard, strict=True):
        change()
        for _ in range(min(count, len(steps))):
            steps.popleft()(cluster.simulation.now_ms)
    while steps:
        steps.popleft()(cluster.simulation.now_ms)
    assert cluster.read() == [(1, 1)]


def test_a_broker_that_is_too_old_to_be_read_from() -> None:
    """Every read that finds nothing raises the error, until the broker is upgraded."""
    cluster = reading(T0, T1, topics={"t": [1, 2]})
    simulation = cluster.simulation
    cluster.logs[T0].append(b"a")
    simulation.newest[ApiKey.FETCH] = 3
    for _ in range(3):
        cluster.run(1_000)
        with pytest.raises(UnsupportedVersion, match="Fetch"):
            cluster.reader.advance()
        assert not cluster.reader.advance()
        cluster.queue.cancel(cluster.queue.wait())
    assert not cluster.fetches()
    del simulation.newest[ApiKey.FETCH]
    simulation.break_connections(1)
    simulation.break_connections(2)
    cluster.queue.errors.clear()
    assert cluster.read() == [(0, 0)]
    assert cluster.queue.refusal is None


def test_a_login_that_is_refused_while_the_consumer_reads() -> None:
    """A read raises each refusal once, and waits in between; the client goes on by itself after the next login."""
    cluster = reading(T0, metadata_max_age_ms=600_000)
    cluster.logs[T0].append(b"a")
    assert cluster.read(100) == [(0, 0)]
    simulation = cluster.simulation
    simulation.opened.clear()
    simulation.down, simulation.refusal = {1, 2, 3}, AuthenticationFailed
    simulation.break_connections(1)
    raised = 0
    for _ in range(20):
        cluster.run(1_000)
        try:
            assert not cluster.reader.advance()
        except AuthenticationFailed:
            raised += 1
        assert not cluster.reader.advance(), "one attempt, one error"
        promise = cluster.queue.wait()
        assert not promise.done
        cluster.queue.cancel(promise)
    attempts = len(simulation.opened)
    assert raised == sum(node == 1 for _, node in simulation.opened)
    assert attempts <= 5, "1 + 2 + 4 + 8 seconds"
    simulation.down = set()
    cluster.logs[T0].append(b"b")
    assert cluster.read(30_000) == [(0, 1)]


def test_a_login_that_is_refused_for_a_look_up_stops_no_partition() -> None:
    cluster = reading(T1, metadata_max_age_ms=600_000)
    cluster.run(100)
    cluster.logs[T0].append(b"a")
    simulation = cluster.simulation
    simulation.down, simulation.refusal = {1, 2, 3}, AuthenticationFailed
    for node in cluster.nodes:
        simulation.break_connections(node)
    cluster.assignment.assign([T0])
    cluster.run(5_000)
    with pytest.raises(AuthenticationFailed):
        cluster.reader.advance()
    simulation.down = set()
    assert cluster.read(30_000) == [(0, 0)]


@pytest.mark.parametrize("others", [0, 1, 6])
def test_a_batch_that_no_response_can_carry_stops_its_own_partition_alone(others: int) -> None:
    partitions = [TopicPartition("t", number) for number in range(others + 1)]
    cluster = reading(*partitions, topics={"t": [1] * (others + 1)}, max_frame_bytes=300_000, fetch_max_bytes=250_000)
    for partition in partitions:
        cluster.logs[partition].append(b"a")
    usual = cluster.simulation.handlers[1, FetchRequest]

    def answer(request: FetchRequest, version: int) -> object:
        response = usual(request, version)
        large = [
            data
            for topic in getattr(response, "responses", ())
            for data in topic.partitions
            if data.partition_index == 0 and data.records and cluster.sessions[1][2][topic.topic_id, 0] == 0
        ]
        error = ConnectionLost("connection to node-1:9092 was lost")
        error.__cause__ = FrameTooLarge(600_146, 300_000)
        return error if large else response

    cluster.simulation.handlers[1, FetchRequest] = answer  # type: ignore[assignment]  # an error stands for a response
    found, errors = [], []
    for _ in range(1_000):
        try:
            found += cluster.read(10)
        except RecordTooLarge as error:
            errors.append(str(error))
    text = "t-0, offset 0: a response with only the next records has 600146 bytes, but max_frame_bytes is 300000"
    remedy = "raise max_frame_bytes, or seek past these records"
    assert errors == [f"{text}; {remedy}; the partition is not read until resume(partition) or seek"]
    assert sorted(found) == [(number, 0) for number in range(1, others + 1)]
    for partition in partitions[1:]:
        cluster.logs[partition].append(b"b")
    cluster.logs[T0].append(b"b")
    cluster.assignment.seek(T0, Position(1))
    assert sorted(cluster.read()) == [(number, 1) for number in range(others + 1)]
    assert [sorted(each) for each in cluster.asked()[-2:]] != [[0], [0]] or not others, (
        "the partition must be in a session again"
    )


@pytest.mark.parametrize(
    ("frame_bytes", "fetch_bytes", "asked_bytes"),
    [
        (100_000_000, 50_000_000, 50_000_000),
        (1_000_000, 1_000_000, 997_952),
        (300_000, 299_000, 297_952),
        (1_024, 500, 1),
    ],
)
def test_a_response_is_asked_for_that_fits_into_a_frame(frame_bytes: int, fetch_bytes: int, asked_bytes: int) -> None:
    cluster = reading(T0, T1, max_frame_bytes=frame_bytes, fetch_max_bytes=fetch_bytes)
    cluster.run(100)
    assert {request.max_bytes for request in cluster.fetches()} == {asked_bytes}
