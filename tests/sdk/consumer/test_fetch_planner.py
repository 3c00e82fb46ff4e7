"""Each broker is asked for what changed and has room; a partition in trouble waits alone, and recovers.

Method: the I/O side of a consumer against simulated brokers with logs and fetch sessions, on a clock of its own.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, Closed, NoOffset, RemoteProtocolError
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import IsolationLevel, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.consumer.simulated_logs import WALL_MS, Cluster
from tests.sdk.consumer.user_side import T0, T1, T2


def reading(*partitions: TopicPartition, topics: dict[str, list[int | None]] | None = None, **given: object) -> Cluster:
    """Return a cluster with topic t of three partitions led by node 1, some of them assigned."""
    cluster = Cluster(topics or {"t": [1, 1, 1]}, **given)  # type: ignore[arg-type]  # options by name
    cluster.assignment.assign(partitions)
    return cluster


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


def test_brokers_without_topic_ids_are_asked_by_name() -> None:
    cluster = reading(T0)
    cluster.simulation.newest[ApiKey.METADATA] = 9
    cluster.run(100)
    versions = {version for _, _, request, version in cluster.simulation.sent if request in cluster.fetches()}
    assert versions == {12}


def test_work_grows_with_records_not_with_partitions() -> None:
    """Of 10,000 partitions one gets records: looking at it is all that is done for each response."""
    partitions = [TopicPartition("t", number) for number in range(10_000)]
    cluster = reading(*partitions, topics={"t": [1 + number % 3 for number in range(10_000)]})
    cluster.simulation.latency_ms = 20
    cluster.run(500)
    assert all(request.session_epoch > 0 for request in cluster.fetches()[6:])
    steps, fetches = cluster.planner.steps, len(cluster.fetches())
    for number in range(20):
        cluster.logs[partitions[number]].append(b"a")
        assert cluster.read(100) == [(number, 0)]
    assert cluster.planner.steps - steps <= 60
    assert sum(len(asked) for asked in cluster.asked()[fetches:]) <= 40


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


def test_the_new_leader_is_taken_from_the_response() -> None:
    cluster = reading(T0)
    cluster.run(100)
    asked = cluster.metadata_asked
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"a")
    assert cluster.read(50) == [(0, 0)]
    assert cluster.metadata_asked == asked


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


def test_a_partition_that_does_not_exist_yet(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0, TopicPartition("new", 0))
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    assert "partition new-0 cannot be read now: the cluster does not have it" in caplog.messages
    created = Cluster({"new": [1]})
    cluster.logs |= created.logs
    cluster.ids |= created.ids
    cluster.logs[TopicPartition("new", 0)].append(b"a")
    assert cluster.read(2_000) == [(0, 0)]


def test_a_follower_nearby() -> None:
    cluster = reading(T0, client_rack="a")
    cluster.logs[T0].replica = 3
    cluster.logs[T0].append(b"a")
    assert cluster.read(100) == [(0, 0)]
    assert len(cluster.fetches(1)) <= 2
    assert {request.rack_id for request in cluster.fetches()} == {"a"}
    cluster.logs[T0].replica = -1  # it is no longer in sync: the leader says what comes next
    cluster.logs[T0].append(b"b")
    assert cluster.read() == [(0, 1)]


def test_a_follower_that_dies() -> None:
    cluster = reading(T0)
    cluster.logs[T0].replica = 3
    cluster.run(100)
    cluster.simulation.down.add(3)
    cluster.logs[T0].replica = -1
    cluster.simulation.break_connections(3)
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]


def test_a_topic_that_is_created_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its positions mean nothing in the new topic: they are reset, and the log says so once for each."""
    cluster = reading(T0)
    cluster.logs[T0].append(b"a", b"b")
    assert cluster.read() == [(0, 0), (0, 1)]
    cluster.recreate("t")
    cluster.logs[T0].append(b"new")
    assert cluster.read(3_000) == [(0, 0)]
    told = [message for message in caplog.messages if "was deleted and created again" in message]
    assert told == ["t-0: topic t was deleted and created again: reset to earliest"]


def test_an_offset_out_of_range(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    cluster.assignment.seek(T0, Position(70))
    assert cluster.read() == [(0, 0)]
    assert "t-0: offset 70 is out of range: reset to earliest" in caplog.messages


def test_an_offset_out_of_range_without_a_policy() -> None:
    cluster = reading(T0, auto_offset_reset="none")
    cluster.assignment.seek(T0, Position(70))
    with pytest.raises(NoOffset, match="t-0: offset 70 is out of range, and auto_offset_reset is none"):
        cluster.read()
    assert cluster.read() == []
    cluster.logs[T0].append(b"a")
    cluster.assignment.seek(T0, Position(0))
    assert cluster.read() == [(0, 0)]


def test_no_offset_is_raised_once_for_each_partition() -> None:
    cluster = reading(T0, T1, T2, auto_offset_reset="none", commits={T1: OffsetAndMetadata(1)})
    cluster.logs[T1].append(b"a", b"b")
    raised = []
    for _ in range(5):
        try:
            cluster.read()
        except NoOffset as error:
            raised.append(str(error)[:3])
    assert raised == ["t-0", "t-2"]
    assert cluster.assignment[T1].position == Position(2, 1)


@pytest.mark.parametrize(
    ("policy", "listed", "time_ms", "first"),
    [
        ("earliest", None, OffsetTimestamp.EARLIEST, 0),
        ("latest", None, OffsetTimestamp.LATEST, 2),
        ("by_duration:PT1H", 1, WALL_MS - 3_600_000, 1),
        ("by_duration:PT1H", -1, WALL_MS - 3_600_000, 2),
    ],
)
def test_reset_policies(policy: str, listed: int | None, time_ms: int, first: int) -> None:
    cluster = reading(T0, auto_offset_reset=policy, isolation_level="read_committed")
    cluster.logs[T0].append(b"a", b"b")
    cluster.logs[T0].listed = listed
    cluster.run(100)
    request = cluster.simulation.requests(ListOffsetsRequest)[0]
    assert request.topics[0].partitions[0].timestamp == time_ms
    assert request.isolation_level == IsolationLevel.READ_COMMITTED
    assert cluster.assignment[T0].position == Position(first, 1)


def test_look_ups_are_batched_by_leader() -> None:
    partitions = [TopicPartition("t", number) for number in range(300)]
    cluster = reading(*partitions, topics={"t": [1 + number % 3 for number in range(300)]})
    cluster.run(1_000)
    assert len(cluster.simulation.requests(ListOffsetsRequest)) == 3


def test_a_position_is_checked_when_the_leader_changes() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    assert cluster.simulation.requests(OffsetForLeaderEpochRequest) == []
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"b")
    assert cluster.read() == [(0, 1)]
    (request,) = cluster.simulation.requests(OffsetForLeaderEpochRequest)
    asked = request.topics[0].partitions[0]
    assert (asked.leader_epoch, asked.current_leader_epoch) == (1, 2)


def test_a_truncated_log(caplog: pytest.LogCaptureFixture) -> None:
    """What was read after offset 1 was lost; another record took its place (KIP-320)."""
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].append(b"lost", b"lost")
    assert cluster.read() == [(0, 0), (0, 1), (0, 2)]
    log = cluster.logs[T0]
    log.leader, log.epoch, log.epoch_ends = 2, 3, (1, 1)
    del log.batches[1:]
    log.append(b"other")
    assert cluster.read() == [(0, 1)]
    assert any("t-0: the log was truncated before offset 3, to 1" in message for message in caplog.messages)


def test_a_truncated_log_without_a_policy() -> None:
    cluster = reading(T0, auto_offset_reset="none", commits={T0: OffsetAndMetadata(3, leader_epoch=1)})
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].epoch_ends = (1, 1)
    with pytest.raises(NoOffset, match="t-0: the log was truncated before offset 3, to 1"):
        cluster.read()


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


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE])
def test_a_lasting_error_is_raised_once(code: ErrorCode) -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = code
    with pytest.raises(BrokerError, match=f"{code.name}: fetch from t-0 at offset 0"):
        cluster.read()
    cluster.logs[T1].append(b"a")
    assert cluster.read() == [(1, 0)]
    cluster.logs[T0].error = ErrorCode.NONE
    cluster.logs[T0].append(b"a")
    cluster.assignment.resume([T0])
    assert cluster.read() == [(0, 0)]


def test_a_response_without_a_whole_batch() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a" * 100)
    cluster.logs[T0].cut = 80
    with pytest.raises(RemoteProtocolError, match="fetch from t-0 at offset 0: batch at byte 0: partial"):
        cluster.read()
    assert cluster.read() == []


def test_errors_of_a_partition_are_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cluster = reading(T0)
    cluster.logs[T0].error = ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.run(60_000)
    assert 3 <= len([message for message in caplog.messages if "OFFSET_NOT_AVAILABLE" in message]) <= 8


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
    cluster.planner.subscribe(frozenset({"t"}))
    cluster.subscription.subscribe(["t"])
    cluster.logs[T0].append(b"before")
    assert cluster.read() == []
    cluster.logs[T1] = type(cluster.logs[T0])(2)
    cluster.logs[T1].append(b"after")
    assert cluster.read(3_000) == [(1, 0)]


def test_the_end_wakes_readers() -> None:
    cluster = reading(T0)
    cluster.run(100)
    promise = cluster.queue.wait()
    cluster.simulation.close()
    assert promise.done
    with pytest.raises(Closed):
        cluster.reader.advance()
