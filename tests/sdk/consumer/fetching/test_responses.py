"""Whatever a response says about a partition (leader, follower, error, damage) affects only that partition.

Method: run a consumer's I/O side against simulated brokers with logs, on a simulated clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, ConnectionLost, NoOffset, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.consumer.batches import made, marker
from tests.sdk.consumer.simulated_logs import reading
from tests.sdk.consumer.user_side import T0, T1
from tests.sdk.simulation import SILENT, Later, Silent, address


def test_the_new_leader_is_taken_from_the_response() -> None:
    cluster = reading(T0)
    cluster.run(100)
    asked = cluster.metadata_asked
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"a")
    assert cluster.read(50) == [(0, 0)]
    assert cluster.metadata_asked == asked


def test_a_broker_that_only_the_response_names() -> None:
    """The response also gives the new leader's address (KIP-951)."""
    cluster = reading(T0)
    cluster.run(100)
    cluster.nodes = [1]
    cluster.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    usual = cluster.simulation.handlers[1, FetchRequest]

    def naming(request: FetchRequest, version: int) -> FetchResponse:
        response = usual(request, version)
        assert isinstance(response, FetchResponse)
        response.node_endpoints = [FetchResponse.NodeEndpoint(9, *address(2), "rack")]
        for topic in response.responses:
            for data in topic.partitions:
                data.current_leader = FetchResponse.LeaderIdAndEpoch(9, 2)
        return response

    cluster.simulation.handlers[1, FetchRequest] = naming
    cluster.simulation.handlers[9, FetchRequest] = cluster.simulation.handlers[2, FetchRequest]
    log = cluster.logs[T0]
    log.leader, log.epoch = 2, 2
    log.append(b"a")
    assert cluster.read(50) == [(0, 0)]
    broker = cluster.simulation.router.metadata.brokers[9]
    assert (broker.node_id, broker.address, broker.rack) == (9, address(2), "rack")


def test_a_broker_that_has_moved_to_another_address() -> None:
    """After a restart, node 2 leads the partition, and listens at the address that node 3 had."""
    cluster = reading(T0)
    cluster.run(100)
    cluster.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    usual = cluster.simulation.handlers[1, FetchRequest]

    def naming(request: FetchRequest, version: int) -> FetchResponse:
        response = usual(request, version)
        assert isinstance(response, FetchResponse)
        response.node_endpoints = [FetchResponse.NodeEndpoint(2, *address(3))]
        return response

    cluster.simulation.handlers[1, FetchRequest] = naming
    cluster.simulation.handlers[3, FetchRequest] = cluster.simulation.handlers.pop((2, FetchRequest))
    log = cluster.logs[T0]
    log.leader, log.epoch = 2, 2
    log.append(b"a")
    assert cluster.read(50) == [(0, 0)]


def test_a_response_that_comes_after_a_seek_tells_of_the_new_leader_too() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a", b"b")
    assert cluster.read(100) == [(0, 0), (0, 1)]
    waiting = Later()
    usual = cluster.simulation.handlers[1, FetchRequest]
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: waiting
    cluster.run(600)
    request = cluster.fetches(1)[-1]
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    cluster.assignment.seek(T0, Position(0))
    cluster.run(10)
    waiting.answer(usual(request, 0))  # type: ignore[arg-type]  # a message
    assert cluster.read(50) == [(0, 0), (0, 1)]


def test_a_follower_that_names_the_new_leader() -> None:
    cluster = reading(T0)
    cluster.logs[T0].replica = 3
    cluster.run(100)
    cluster.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    cluster.logs[T0].replica = -1
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"a")
    assert cluster.read(1_000) == [(0, 0)]
    assert len(cluster.fetches(1)) == 1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_response_that_is_a_passing_error_is_asked_for_again(code: ErrorCode) -> None:
    cluster = reading(T0, T1)
    cluster.run(100)
    usual, asked = cluster.simulation.handlers[1, FetchRequest], cluster.metadata_asked
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: FetchResponse(error_code=code)
    before = len(cluster.fetches())
    assert cluster.read(1_000) == []
    assert 3 <= len(cluster.fetches()) - before <= 6, "there must be pauses between attempts"
    assert (cluster.metadata_asked > asked) == (code is ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.simulation.handlers[1, FetchRequest] = usual
    cluster.logs[T0].append(b"a")
    assert cluster.read(2_000) == [(0, 0)]


def test_a_response_that_is_a_lasting_error_is_raised_and_fetching_goes_on() -> None:
    cluster = reading(T0)
    usual = cluster.simulation.handlers[1, FetchRequest]
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: FetchResponse(error_code=code)
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED: fetch from node 1"):
        cluster.read(50)
    cluster.simulation.handlers[1, FetchRequest] = usual
    cluster.logs[T0].append(b"a")
    assert cluster.read(2_000) == [(0, 0)]


def test_what_cannot_be_fetched_at_all_is_raised() -> None:
    """The client itself raises the error, because the broker is too old to read from."""
    cluster = reading(T0)
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: UnsupportedVersion("too old")
    with pytest.raises(UnsupportedVersion, match="too old"):
        cluster.read(50)


def test_a_follower_nearby() -> None:
    cluster = reading(T0, client_rack="a")
    cluster.logs[T0].replica = 3
    cluster.logs[T0].append(b"a")
    assert cluster.read(100) == [(0, 0)]
    assert len(cluster.fetches(1)) <= 2
    assert {request.rack_id for request in cluster.fetches()} == {"a"}
    cluster.logs[T0].replica = -1  # the follower is out of sync, so the leader decides what happens next
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


def test_a_denied_fetch_is_raised_each_time_and_repeated_with_growing_pauses() -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].append(b"a")
    cluster.run(100)
    cluster.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found, errors = cluster.read_on(90_000)
    assert found == [(0, 0)]
    assert {text for _, text in errors} == {"TOPIC_AUTHORIZATION_FAILED: fetch from t-0 at offset 1"}
    times_ms = [passed_ms for passed_ms, _ in errors]
    pauses_ms = [later - sooner for sooner, later in pairwise(times_ms)]
    assert len(pauses_ms) == 6
    for pause_ms, expected_ms in zip(pauses_ms, (1_000, 2_000, 4_000, 8_000, 16_000, 30_000), strict=True):
        assert expected_ms * 0.75 <= pause_ms <= expected_ms * 1.25
    cluster.logs[T1].append(b"b")
    assert cluster.read_on(1_000)[0] == [(1, 0)]
    cluster.logs[T0].error = ErrorCode.NONE
    cluster.logs[T0].append(b"c")
    assert cluster.read_on(30_000) == ([(0, 1)], [])
    cluster.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(cluster.read_on(2_000)[1]) == 2  # the pauses are short again


def test_denials_do_not_pile_up_while_the_application_is_busy() -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = cluster.logs[T1].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.run(60_000)
    assert len(cluster.queue.errors) == 2
    assert len(cluster.read_on(10)[1]) == 2
    cluster.run(60_000)
    assert len(cluster.queue.errors) == 2
    cluster.logs[T0].error = cluster.logs[T1].error = ErrorCode.NONE
    cluster.run(60_000)
    assert not cluster.queue.errors


@pytest.mark.parametrize("how", ["seek", "unassign"])
def test_a_denial_that_was_not_raised_is_dropped_with_the_position(how: str) -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.run(1_000)
    cluster.logs[T0].error = ErrorCode.NONE
    if how == "seek":
        cluster.assignment.seek(T0, Position(0))
    else:
        cluster.assignment.assign([T1])
    assert cluster.read_on(100) == ([], [])


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.CORRUPT_MESSAGE])
def test_a_lasting_error_is_raised_once(code: ErrorCode) -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = code
    remedy = r"the partition is not read until resume\(partition\) or seek"
    with pytest.raises(BrokerError, match=f"{code.name}: fetch from t-0 at offset 0; {remedy}"):
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


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE],
)
def test_a_follower_that_refuses_while_the_leader_recommends_it_is_asked_after_pauses(code: ErrorCode) -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    cluster.logs[T0].replica = 3
    usual = cluster.simulation.handlers[3, FetchRequest]

    def refusing(request: FetchRequest, version: int) -> FetchResponse:
        kind, data = FetchResponse.FetchableTopicResponse, FetchResponse.PartitionData
        return FetchResponse(
            responses=[
                kind("", topic.topic_id, [data(each.partition, code) for each in topic.partitions])
                for topic in request.topics
            ]
        )

    cluster.simulation.handlers[3, FetchRequest] = refusing
    cluster.run(2_000)
    asked = len(cluster.fetches(3))
    cluster.run(10_000)
    assert 5 <= len(cluster.fetches(3)) - asked <= 15
    cluster.simulation.handlers[3, FetchRequest] = usual
    assert cluster.read(2_000) == [(0, 0)]


def test_a_sound_response_between_damaged_ones_makes_accidents_of_them() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    usual = cluster.simulation.handlers[1, FetchRequest]
    error = ConnectionLost("connection to node-1:9092 was lost")
    error.__cause__ = RemoteProtocolError("the response is damaged")
    left = 0

    def damaged(request: FetchRequest, version: int) -> Message | Exception | Silent | Later | None:
        nonlocal left
        left -= 1
        return error if left >= 0 else usual(request, version)

    cluster.simulation.handlers[1, FetchRequest] = damaged
    found = []
    for _ in range(3):
        left = 1
        found += cluster.read(2_000)
    assert found == [(0, 0)]
    left = 2
    with pytest.raises(RemoteProtocolError, match="the response is damaged"):
        cluster.read(2_000)


def test_aborted_transactions_may_come_in_any_order() -> None:
    """Brokers list aborted transactions as they find them, but the consumer follows the order of the records."""
    cluster = reading(T0, isolation_level="read_committed")
    cluster.logs[T0].batches = [
        made(0, b"a", producer=7),
        made(1, b"b", producer=8),
        marker(2, 8, is_commit=False),
        marker(3, 7, is_commit=False),
        made(4, b"c", producer=8),
        marker(5, 8, is_commit=False),
        made(6, b"d"),
    ]
    usual = cluster.simulation.handlers[1, FetchRequest]

    def listing(request: FetchRequest, version: int) -> FetchResponse:
        response = usual(request, version)
        assert isinstance(response, FetchResponse)
        for topic in response.responses:
            for each in topic.partitions:
                aborted = [(8, 4), (7, 0), (8, 1)]
                each.aborted_transactions = [FetchResponse.AbortedTransaction(*pair) for pair in aborted]
        return response

    cluster.simulation.handlers[1, FetchRequest] = listing
    assert cluster.read(100) == [(0, 6)]


def test_the_end_that_was_told_before_a_seek_is_told_again_after_it() -> None:
    """A response arrives before the I/O side knows about the seek, so the reading side ignores the response."""
    cluster = reading(T0)
    cluster.run(100)
    later: list[Callable[[int], None]] = []
    at_once, cluster.assignment._run = cluster.assignment._run, later.append
    cluster.assignment.seek(T0, Position(0))
    cluster.logs[T0].append(b"a", b"b")
    cluster.run(100)
    assert cluster.assignment[T0].end_offset == 0
    cluster.assignment._run = at_once
    for step in later:
        step(cluster.simulation.now_ms)
    cluster.run(100)
    assert cluster.assignment[T0].end_offset == 2


def test_a_second_outage_of_a_leader_is_logged_like_the_first(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0)
    for _ in range(2):
        for leader in (None, 1):
            cluster.logs[T0].leader = leader
            cluster.simulation.router.metadata.invalidate()
            cluster.run(20_000)
    lines = [line for line in caplog.messages if "partition t-0 cannot be read now: it has no leader" in line]
    assert len(lines) == 2
