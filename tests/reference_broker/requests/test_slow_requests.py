"""A slow request is logged on one line with its times; waits that the client asked for do not count.

Method: give the observer requests with chosen times, and compare the lines.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire import sync
from kafkawire.reference_broker.requests.request_times import RequestTimes
from kafkawire.reference_broker.requests.slow_requests import SlowRequests
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.log_limit import INTERVAL_MS
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey

MS = 1_000_000
PartitionData = ProduceRequest.PartitionProduceData
PRODUCE = ProduceRequest(
    topic_data=[ProduceRequest.TopicProduceData("a", partition_data=[PartitionData(0), PartitionData(1)])]
)


def times(queue_ms: int, local_ms: int, remote_ms: int, response_ms: int, since_ms: int = 0) -> RequestTimes:
    made = RequestTimes(since_ms * MS, (since_ms + queue_ms) * MS)
    made.handled_ns = made.begun_ns + local_ms * MS
    made.answered_ns = made.handled_ns + remote_ms * MS
    made.sent_ns = made.answered_ns + response_ms * MS
    return made


@pytest.fixture
def log(bench, caplog):
    caplog.set_level(logging.INFO, "kafkawire.broker.requests")
    slow = SlowRequests(100)

    def observe(key, message, measured, client="console") -> list[str]:
        caplog.clear()
        request = Request(APIS[key], 9, 0, client, message, 10)
        slow(request, bench.call(request), None, measured)
        return [record.getMessage() for record in caplog.records]

    return observe


def test_the_line(log):
    (line,) = log(ApiKey.PRODUCE, PRODUCE, times(1, 2, 300, 4))
    assert line == (
        "slow request: Produce version 9 with 1 topics and 2 partitions, client id 'console', from User:ANONYMOUS at "
        "/host on PLAINTEXT, took 307.0 ms: queue 1.0, local 2.0, remote 300.0, response 4.0; throttled for 0 ms"
    )


@pytest.mark.parametrize(
    ("key", "message", "measured", "is_slow"),
    [
        (ApiKey.PRODUCE, PRODUCE, times(0, 99, 0, 0), False),
        (ApiKey.PRODUCE, PRODUCE, times(0, 100, 0, 0), True),
        (ApiKey.PRODUCE, PRODUCE, times(0, 0, 100, 0), True),
        (ApiKey.METADATA, MetadataRequest(None), times(50, 0, 0, 50), True),
        (ApiKey.FETCH, FetchRequest(max_wait_ms=500), times(0, 0, 500, 0), False),
        (ApiKey.FETCH, FetchRequest(max_wait_ms=500), times(0, 0, 600, 0), True),
        (ApiKey.FETCH, FetchRequest(max_wait_ms=-1), times(0, 0, 100, 0), True),
        (ApiKey.SHARE_FETCH, ShareFetchRequest(max_wait_ms=500), times(0, 0, 500, 0), False),
        (ApiKey.SHARE_FETCH, ShareFetchRequest(max_wait_ms=500), times(0, 0, 600, 0), True),
        (ApiKey.JOIN_GROUP, JoinGroupRequest(), times(0, 1, 60_000, 1), False),
        (ApiKey.JOIN_GROUP, JoinGroupRequest(), times(0, 100, 60_000, 1), True),
        (ApiKey.HEARTBEAT, HeartbeatRequest(), times(100, 0, 0, 0), True),
    ],
)
def test_what_is_slow(log, key, message, measured, is_slow):
    assert len(log(key, message, measured)) == is_slow


def test_lines_are_limited_for_each_api(log):
    assert len(log(ApiKey.PRODUCE, PRODUCE, times(0, 100, 0, 0))) == 1
    assert log(ApiKey.PRODUCE, PRODUCE, times(0, 100, 0, 0, since_ms=1)) == []
    assert len(log(ApiKey.METADATA, MetadataRequest(), times(0, 100, 0, 0))) == 1
    (line,) = log(ApiKey.PRODUCE, PRODUCE, times(0, 100, 0, 0, since_ms=INTERVAL_MS))
    assert line.endswith("(and 1 more like it)")


def test_a_hostile_client_id(log):
    (line,) = log(ApiKey.PRODUCE, PRODUCE, times(0, 100, 0, 0), client="\n\x1b[2J" + "x" * 30_000)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 500


def test_requests_over_the_wire(caplog):
    """Joining a group takes longer than the limit, but only because it waits for other members."""
    caplog.set_level(logging.INFO, "kafkawire.broker.requests")
    options: dict[str, Any] = {"slow_request_ms": 1, "group_initial_rebalance_delay_ms": 10}
    with BackgroundBroker(None, **options) as broker, sync.Producer(broker.bootstrap) as producer:
        producer.send("t", b"x").result()
        with sync.Consumer(broker.bootstrap, "t", group_id="g", auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"x"
    lines = [each.getMessage() for each in caplog.records if "slow request" in each.getMessage()]
    # Requests may well take a millisecond, but what they are about is never shown.
    assert all("queue" in line and "b'x'" not in line for line in lines)
