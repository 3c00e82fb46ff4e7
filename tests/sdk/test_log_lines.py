"""Every event in a running client is logged, with at least one line, and at most one per interval and subject.

Method: run clients on simulated clusters, each with one kind of trouble for up to an hour, and read the lines with
every kafkawire logger at DEBUG.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from kafkawire import Producer
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import AuthenticationFailed
from kafkawire.sdk.log_limit import INTERVAL_MS
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.router import Router
from tests.sdk.consumer.simulated_logs import reading
from tests.sdk.consumer.user_side import T0, T1
from tests.sdk.groups.members import Cluster as Group
from tests.sdk.groups.members import refusal
from tests.sdk.producer.simulated import SimulatedProducer
from tests.sdk.routing.routed import errors_first, heartbeat
from tests.sdk.scripted_broker import BROKER
from tests.sdk.simulation import Simulation, backoff, cluster, options
from tests.sdk.transport.sasl_broker import SaslBroker, with_broker

HOUR_MS = 3_600_000


class Lines:
    """The logged lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def of(self, area: str, text: str, level: str | None = None) -> list[str]:
        """Return the lines in an area that contain a text, and forget all lines so far."""
        found = [
            record.getMessage()
            for record in self._caplog.records
            if record.name == f"kafkawire.{area}" and text in record.getMessage() and level in (None, record.levelname)
        ]
        self._caplog.clear()
        return found


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.DEBUG, "kafkawire")
    return Lines(caplog)


def simulation() -> Simulation:
    """Return a simulated client with three brokers."""
    simulation = Simulation(Router(options(), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2, 3], {"t": [1, 2, 3]})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    simulation.router.metadata.wanted = {"t"}
    simulation.run(1_000)
    return simulation


def test_a_broker_that_cannot_be_reached_for_an_hour(lines: Lines) -> None:
    client = simulation()
    client.down = {1}
    client.break_connections(1)
    client.router.submit(heartbeat(Node(1), HOUR_MS), client.now_ms)
    client.run(100)
    lost = "connection to node-1:9092 was lost: reset by peer"
    assert lines.of("client", lost) == [f"{lost}, while idle"]
    assert lines.of("client", lost, "WARNING") == []
    client.run(HOUR_MS // 2)
    found = lines.of("client", "node-1:9092", "WARNING")
    assert HOUR_MS // 2 // INTERVAL_MS - 20 <= len(found) <= HOUR_MS // 2 // INTERVAL_MS
    assert all("more like it" in line for line in found[1:])


def test_a_recovery(lines: Lines) -> None:
    client = simulation()
    client.down = {1, 2, 3}
    client.break_connections(1)
    client.run(5_000)
    client.down = set()
    client.run(5_000)
    assert lines.of("client", "node-1:9092 can be reached again", "INFO") == ["node-1:9092 can be reached again"]


def test_a_connection_that_comes_and_goes(lines: Lines) -> None:
    client = simulation()
    for _ in range(100):
        client.break_connections(1)
        client.router.submit(heartbeat(Node(1), client.now_ms + HOUR_MS), client.now_ms)
        client.run(500)
    found = lines.of("client", "node-1")
    assert {"was lost" in line for line in found} == {True, False}
    assert len(found) <= 2 * (1 + 50_000 // INTERVAL_MS)


def test_a_retry_burst(lines: Lines) -> None:
    client = simulation()
    client.handlers[HeartbeatRequest] = errors_first(100)
    client.call(heartbeat(Node(1), HOUR_MS), 200_000)
    found = lines.of("client", "trying again")
    assert 1 < len(found) <= 1 + 100_000 // INTERVAL_MS
    assert "COORDINATOR_LOAD_IN_PROGRESS" in found[0]


def test_throttling(lines: Lines) -> None:
    for node, throttle_ms, level in ((1, 250, "INFO"), (2, 1_000, "WARNING")):
        client = simulation()
        response = HeartbeatResponse(throttle_time_ms=throttle_ms)
        client.handlers[HeartbeatRequest] = lambda request, version, response=response: response
        for _ in range(10):
            client.call(heartbeat(Node(node), HOUR_MS))
        text = f"node-{node}:9092 throttles this client, which exceeds a quota: no requests for {throttle_ms} ms"
        assert lines.of("client", text, level) == [text]


def test_a_refused_login(lines: Lines) -> None:
    client = Simulation(Router(options(), backoff()))
    client.down, client.refusal = {1}, AuthenticationFailed
    client.run(60_000)
    assert lines.of("security", "node-1:9092", "ERROR")
    assert lines.of("client", "") == []


def test_a_missing_topic_that_appears(lines: Lines) -> None:
    client = simulation()
    client.router.metadata.wanted = {"t", "new"}
    client.run(60_000)
    found = lines.of("client", "topic new", "WARNING")
    assert len(found) == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in found[0]
    client.handlers[MetadataRequest] = cluster([1, 2, 3], {"t": [1], "new": [1]})
    client.run(60_000)
    assert lines.of("client", "topic new") == ["topic new is known now"]


def test_an_offset_reset_and_a_topic_that_was_created_again(lines: Lines) -> None:
    consumer = reading(T0, T1)
    for log in consumer.logs.values():
        log.append(b"a")
    consumer.read()
    for each in (T0, T1):
        consumer.assignment.seek(each, Position(70))
    consumer.run(100)
    assert len(lines.of("consumer", "offset 70 is out of range: reset to earliest", "WARNING")) == 1
    consumer.recreate("t")
    consumer.run(2 * INTERVAL_MS)
    assert lines.of("client", "topic t was deleted and created again", "WARNING")


def test_partitions_in_trouble(lines: Lines) -> None:
    consumer = reading(T0, T1)
    consumer.run(1_000)
    for log in consumer.logs.values():
        log.error = ErrorCode.OFFSET_NOT_AVAILABLE
    consumer.run(60_000)
    assert 1 <= len(lines.of("consumer", "OFFSET_NOT_AVAILABLE", "WARNING")) <= 1 + 60_000 // INTERVAL_MS
    for log in consumer.logs.values():
        log.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    consumer.run(1_000)
    (found,) = lines.of("consumer", "TOPIC_AUTHORIZATION_FAILED", "ERROR")
    assert found.endswith("(1 in a row)")


def test_failed_batches_and_retries(lines: Lines) -> None:
    producer = SimulatedProducer({"t": [1], "u": [1]}, delivery_timeout_ms=5_000)
    producer.learn()
    producer.refuse = lambda topic, number, batch: ErrorCode.NOT_ENOUGH_REPLICAS
    for topic in "ttu":
        producer.send(topic, b"x", partition=0)
        producer.run(50)
    producer.run(3_000)
    found = lines.of("producer", "sending again", "WARNING")
    assert Counter(line.rpartition(" for ")[2] for line in found) == {"t-0": 1, "u-0": 1}
    producer.run(10_000)
    assert [line for line in lines.of("producer", "not acknowledged", "ERROR") if "NOT_ENOUGH_REPLICAS" in line]


@pytest.mark.parametrize("group", [Group.of_classic, Group.of_consumers])
def test_a_membership_from_its_join_to_its_end(lines: Lines, caplog: pytest.LogCaptureFixture, group: object) -> None:
    members = group()  # type: ignore[operator]  # one of the two
    assert isinstance(members, Group)
    first = members.member("a")
    members.settle(first)
    assert len(lines.of("group", "joined as")) == 1
    second = members.member("b")
    members.settle(first, second)
    told = [record.getMessage() for record in caplog.records if record.name == "kafkawire.group"]
    assert [line for line in told if "generation 2: revoking" in line or "generation 1: revoking" in line]
    assert [line for line in told if "assigned 3 partitions: t-" in line]
    caplog.clear()
    stopped = first.stop()
    members.until(lambda: stopped.done)
    assert lines.of("group", "group g: left", "INFO") == ["group g: left"]
    code = ErrorCode.UNKNOWN_MEMBER_ID
    refused = [code]
    members.settle(second)
    members.fault = lambda node, request: refusal(request, refused.pop()) if refused else None
    members.run(5_000)
    (found,) = lines.of("group", "lost 6 partitions", "WARNING")
    assert "UNKNOWN_MEMBER_ID" in found


def test_a_handler_that_is_too_slow(lines: Lines) -> None:
    members = Group.of_classic()
    member = members.member("a", max_poll_interval_ms=5_000)
    members.settle(member)
    member.reader.last_handed_out_ms = members.now_ms
    members.run(60_000)
    assert lines.of("group", "max_poll_interval_ms=5000: leaving", "WARNING") == [
        "group g: no record was read for max_poll_interval_ms=5000: leaving until the next read"
    ]


def test_commits_that_fail_for_a_while(lines: Lines) -> None:
    members = Group.of_classic()
    member = members.member("a", auto_commit_interval_ms=100)
    members.settle(member)
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 50
    members.fault = lambda node, request: (
        refusal(request, codes.pop()) if codes and type(request).__name__ == "OffsetCommitRequest" else None
    )
    member.reader.read(5)
    members.run(20_000)
    assert 1 <= len(lines.of("group", "committing again")) <= 1 + 20_000 // INTERVAL_MS


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A producer logs in with a wrong password, with every logger in the process at DEBUG."""
    caplog.set_level(logging.DEBUG)

    async def test(broker: SaslBroker) -> None:
        producer = Producer(
            str(BROKER),
            network=broker.network,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="alice",
            sasl_password="guess-guess",
        )
        with pytest.raises(AuthenticationFailed):
            await producer.start()

    with_broker(test)
    assert Lines(caplog).of("security", "wrong user or password", "ERROR")
    assert "guess" not in caplog.text
