"""Positions are looked up if necessary, with one request per leader, and lost positions are noticed.

Method: run a consumer's I/O side against simulated brokers with logs, on a simulated clock.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, NoOffset
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import IsolationLevel, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.consumer.simulated_logs import WALL_MS, reading
from tests.sdk.consumer.user_side import T0, T1, T2
from tests.sdk.simulation import Later


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


def test_a_committed_offset_in_trouble_holds_up_its_own_partition_only() -> None:
    """T1's offset belongs to an open transaction, and the consumer may not read T2."""
    commits = {
        T0: OffsetAndMetadata(1),
        T1: BrokerError(ErrorCode.UNSTABLE_OFFSET_COMMIT, "t-1"),
        T2: BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t-2"),
    }
    cluster = reading(T0, T1, T2, commits=commits)
    for partition in (T0, T1, T2):
        cluster.logs[partition].append(b"a", b"b")
    assert cluster.read(500) == [(0, 1)]
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: t-2"):
        cluster.read()
    commits[T1] = OffsetAndMetadata(0)
    found, errors = cluster.read_on(3_000)
    assert (found, {text for _, text in errors}) == ([(1, 0), (1, 1)], {"TOPIC_AUTHORIZATION_FAILED: t-2"})
    commits[T2] = OffsetAndMetadata(1)
    assert cluster.read_on(10_000) == ([(2, 1)], [])


def test_a_committed_offset_that_is_found_after_a_seek_changes_nothing() -> None:
    cluster = reading(T0, commits={T0: OffsetAndMetadata(1)})
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].append(b"b")
    cluster.logs[T0].append(b"c")
    cluster.run(3)  # the offset has been requested, and arrives after 5 ms
    cluster.assignment.seek(T0, Position(2))
    assert cluster.read() == [(0, 2)]
    assert cluster.asked()[0] == {0: 2}


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


@pytest.mark.parametrize("question", [ListOffsetsRequest, OffsetForLeaderEpochRequest])
def test_a_position_is_checked_by_a_leader_that_comes_while_a_former_one_is_asked(question: type[Message]) -> None:
    """The old leader's answer says nothing about the new leader's log."""
    cluster = reading(T1)
    cluster.run(10)
    for node in cluster.nodes:
        cluster.simulation.router.reach(node, cluster.simulation.now_ms)
    cluster.run(10)
    log, later = cluster.logs[T0], Later()
    log.append(b"a")
    log.append(b"lost", b"lost")
    log.listed = 2
    cluster.assignment.assign([T0])
    if question is OffsetForLeaderEpochRequest:
        assert cluster.read(20) == [(0, 2)]
        log.leader, log.epoch = 2, 2
        cluster.simulation.router.metadata.invalidate()
    usual = cluster.simulation.handlers[question]
    cluster.simulation.handlers[question] = lambda request, version: later
    assert cluster.read(200) == []
    (request,) = cluster.simulation.requests(question)[-1:]
    answer = usual(request, 0)
    cluster.simulation.handlers[question] = usual
    log.leader, log.epoch, log.epoch_ends = 3, 3, (1, 1)
    del log.batches[1:]
    log.append(b"other")
    cluster.simulation.router.metadata.invalidate()
    cluster.run(500)
    assert isinstance(answer, Message)
    later.answer(answer)
    assert cluster.read(100) == [(0, 1)]
    (asked,) = cluster.simulation.requests(OffsetForLeaderEpochRequest, 3)
    assert asked.topics[0].partitions[0].current_leader_epoch == 3


def test_a_truncated_log(caplog: pytest.LogCaptureFixture) -> None:
    """Records after offset 1 were read and later lost, and another record took their place (KIP-320)."""
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


def test_brokers_that_tell_no_consumer_where_epochs_end_are_trusted() -> None:
    cluster = reading(T0)
    cluster.simulation.newest[ApiKey.OFFSET_FOR_LEADER_EPOCH] = 2
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"b")
    assert cluster.read() == [(0, 1)]
    assert cluster.simulation.requests(OffsetForLeaderEpochRequest) == []


def test_a_leader_that_does_not_know_the_epoch(caplog: pytest.LogCaptureFixture) -> None:
    """The offset where the logs diverge is unknown, so the position is reset, and the leader is fetched from."""
    cluster = reading(T0)
    log = cluster.logs[T0]
    log.replica = 3
    log.append(b"a")
    assert cluster.read() == [(0, 0)]
    assert cluster.fetches(3)
    log.leader, log.epoch, log.epoch_ends = 2, 2, (-1, -1)
    cluster.simulation.router.metadata.invalidate()
    assert cluster.read() == [(0, 0)]
    assert cluster.fetches(2), "the leader must be asked, even if it redirects to a follower again"
    assert "t-0: epoch 1 is unknown to the leader: reset to earliest" in caplog.messages


def listed(code: ErrorCode) -> ListOffsetsResponse:
    partition = ListOffsetsResponse.ListOffsetsPartitionResponse(0, code)
    return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", [partition])])


def checked(code: ErrorCode) -> OffsetForLeaderEpochResponse:
    kind = OffsetForLeaderEpochResponse
    partition = kind.EpochEndOffset(code, 0)
    return kind(topics=[kind.OffsetForLeaderTopicResult("t", [partition])])


@pytest.mark.parametrize(
    ("api", "answer", "asks_metadata"),
    [
        (ListOffsetsRequest, ListOffsetsResponse(), False),
        (ListOffsetsRequest, listed(ErrorCode.UNKNOWN_SERVER_ERROR), False),
        (ListOffsetsRequest, listed(ErrorCode.OFFSET_NOT_AVAILABLE), False),
        (ListOffsetsRequest, listed(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(), False),
        (OffsetForLeaderEpochRequest, checked(ErrorCode.UNKNOWN_SERVER_ERROR), False),
        (OffsetForLeaderEpochRequest, checked(ErrorCode.FENCED_LEADER_EPOCH), True),
    ],
)
def test_a_look_up_that_fails_is_tried_again_after_a_pause(
    api: type[Message], answer: Message, asks_metadata: bool
) -> None:
    commits = {T0: OffsetAndMetadata(1, leader_epoch=1)} if api is OffsetForLeaderEpochRequest else None
    cluster = reading(T0, commits=commits)
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].append(b"b")
    usual = cluster.simulation.handlers[api]
    cluster.simulation.handlers[api] = lambda request, version: answer
    assert cluster.read(1_000) == []
    assert 3 <= len(cluster.simulation.requests(api)) <= 6
    assert (cluster.metadata_asked > 1) == asks_metadata
    cluster.simulation.handlers[api] = usual
    assert cluster.read(2_000) == ([(0, 1)] if commits else [(0, 0), (0, 1)])


@pytest.mark.parametrize("api", [ListOffsetsRequest, OffsetForLeaderEpochRequest])
def test_a_denied_look_up_is_raised_each_time_and_repeated_with_growing_pauses(api: type[Message]) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    commits = {T0: OffsetAndMetadata(1, leader_epoch=1)} if api is OffsetForLeaderEpochRequest else None
    cluster = reading(T0, commits=commits)
    usual = cluster.simulation.handlers[api]
    answer = listed(code) if commits is None else checked(code)
    cluster.simulation.handlers[api] = lambda request, version: answer
    found, errors = cluster.read_on(10_000)
    assert found == []
    assert all(text.startswith("TOPIC_AUTHORIZATION_FAILED: ") for _, text in errors)
    assert len(errors) == len(cluster.simulation.requests(api)) == 4  # after about 0, 1, 3 and 7 s
    cluster.simulation.handlers[api] = usual
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].append(b"b")
    found, errors = cluster.read_on(10_000)
    assert (found[-1], errors) == ((0, 1), [])


@pytest.mark.parametrize("api", [ListOffsetsRequest, OffsetForLeaderEpochRequest])
def test_a_look_up_that_is_refused_for_good_is_raised_once(api: type[Message]) -> None:
    code = ErrorCode.INVALID_REQUEST
    commits = {T0: OffsetAndMetadata(1, leader_epoch=1)} if api is OffsetForLeaderEpochRequest else None
    cluster = reading(T0, commits=commits)
    answer = listed(code) if commits is None else checked(code)
    cluster.simulation.handlers[api] = lambda request, version: answer
    with pytest.raises(BrokerError, match=r"INVALID_REQUEST.*; the partition is not read until resume\(partition\)"):
        cluster.read()
    assert cluster.read(5_000) == []
    assert len(cluster.simulation.requests(api)) == 1
