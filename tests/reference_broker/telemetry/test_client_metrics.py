"""Clients subscribe and push as with Apache Kafka, and are forgotten when they are gone.

Method: send the stories of `telemetry_cases.py`, and other requests, to a broker without sockets; let time pass, close
connections, and read the kept values.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.telemetry import client_metrics
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.compression.table import compress
from tests.reference_broker.broker_bench import LISTENER, BrokerBench
from tests.reference_broker.telemetry.otlp_content import content, gauge, point, sum_of
from tests.reference_broker.telemetry.telemetry_cases import CLIENT_ID, STORIES, Story, shown

INTERVAL_MS = 1_000


class Bench(BrokerBench):
    """A standalone broker whose clients call themselves `CLIENT_ID`."""

    def __init__(self, **options: object) -> None:
        super().__init__(MemoryDisk(), **options)
        self.connect()

    def connect(self) -> Peer:
        """Open another connection, and return it."""
        self.peer = Peer(LISTENER, "127.0.0.1", 4711)
        return self.peer

    def subscribe_all(self, **configs: str) -> None:
        """Have all clients asked for all metrics."""
        self.configure("all", {"metrics": "*", "interval.ms": str(INTERVAL_MS), **configs})

    def configure(self, name: str, configs: dict[str, str]) -> None:
        kind = ConfigResourceType.CLIENT_METRICS
        self.core.dynamic_configs.change(kind, name, lambda before: configs, lambda error: None)

    def get(self, client_instance_id: bytes = ZERO_UUID) -> Any:
        return self.ask(GetTelemetrySubscriptionsRequest(client_instance_id), client_id=CLIENT_ID)

    def push(self, subscribed: Any, metrics: bytes = b"", **fields: Any) -> ErrorCode:
        request = PushTelemetryRequest(
            subscribed.client_instance_id, subscribed.subscription_id, **{"metrics": metrics, **fields}
        )
        return ErrorCode(self.ask(request, client_id=CLIENT_ID).error_code)

    def values(self) -> dict[str, float]:
        return {sample.name: sample.value for sample in self.core.client_metrics.samples()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_stories(bench: Bench, story: Story) -> None:
    for name, configs in story.subscriptions.items():
        bench.configure(name, dict(configs))
    for step in story.steps:
        assert shown(bench.ask(step.request, client_id=CLIENT_ID)) == step.answer, step.name
        bench.advance(1)


def test_new_clients_get_different_ids(bench: Bench) -> None:
    ids = {bytes(bench.get().client_instance_id) for _ in range(3)}
    assert len(ids) == 3
    assert not any(format_uuid(each).startswith("-") for each in ids)


def test_pushes_at_the_interval(bench: Bench) -> None:
    bench.subscribe_all()
    subscribed = bench.get()
    assert subscribed.push_interval_ms == INTERVAL_MS
    bench.advance(INTERVAL_MS // 2)
    assert bench.push(subscribed) is ErrorCode.NONE, "clients spread their first pushes"
    bench.advance(INTERVAL_MS - 1)
    assert bench.push(subscribed) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.advance(1)
    assert bench.push(subscribed) is ErrorCode.NONE
    bench.advance(INTERVAL_MS)
    assert bench.get(subscribed.client_instance_id).error_code == ErrorCode.NONE


def test_values_are_kept(bench: Bench) -> None:
    bench.subscribe_all()
    bench.peer.software_name, bench.peer.software_version = "librdkafka", "2.5.3"
    subscribed = bench.get()
    for compression in (*Compression, Compression.NONE):
        data = content(gauge("g", point(float(compression), topic="t")), sum_of("s", point(2.0)))
        code = bench.push(subscribed, compress(compression, data), compression_type=compression)
        assert code is ErrorCode.NONE
        bench.advance(INTERVAL_MS)
    one, other = bench.core.client_metrics.samples()
    assert (one.name, one.value, one.is_counter) == ("g", 0.0, False)
    assert (other.name, other.value, other.is_counter) == ("s", 12.0, True)
    assert one.labels == (
        ("client_id", CLIENT_ID),
        ("client_instance_id", format_uuid(bytes(subscribed.client_instance_id))),
        ("client_software_name", "librdkafka"),
        ("client_software_version", "2.5.3"),
        ("topic", "t"),
    )


def test_a_client_cannot_pose_as_another(bench: Bench) -> None:
    bench.subscribe_all()
    assert bench.push(bench.get(), content(gauge("g", point(1.0, client_id="other")))) is ErrorCode.NONE
    (sample,) = bench.core.client_metrics.samples()
    assert dict(sample.labels)["client_id"] == CLIENT_ID


@pytest.mark.parametrize(
    "fields",
    [
        {"metrics": b"\xff"},
        {"metrics": b"no zstd", "compression_type": Compression.ZSTD},
        {"metrics": compress(Compression.ZSTD, bytes(17 * 1024 * 1024)), "compression_type": Compression.ZSTD},
    ],
)
def test_damaged_metrics(bench: Bench, fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    bench.subscribe_all()
    subscribed = bench.get()
    assert bench.push(subscribed, **fields) is ErrorCode.INVALID_RECORD
    assert "cannot be read" in caplog.text
    again = bench.get(subscribed.client_instance_id)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_changed_subscription_is_told_at_once(bench: Bench) -> None:
    subscribed = bench.get()
    assert subscribed.requested_metrics == ()
    bench.subscribe_all()
    assert bench.push(subscribed) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = bench.get(subscribed.client_instance_id)
    assert again.requested_metrics == ("*",)
    assert bench.push(again, content(gauge("g", point(1.0)))) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.advance(INTERVAL_MS)
    assert bench.push(again, content(gauge("g", point(1.0)))) is ErrorCode.NONE
    bench.configure("all", {})
    assert bench.get(again.client_instance_id).requested_metrics == ()
    assert bench.values() == {"g": 1.0}, "values stay as long as the client"


def test_subscriptions_are_read_at_the_start(bench: Bench) -> None:
    bench.subscribe_all()
    bench.crash()
    assert bench.get().requested_metrics == ("*",)


def test_a_client_is_forgotten_with_its_connection(bench: Bench) -> None:
    bench.subscribe_all()
    subscribed, first = bench.get(), bench.peer
    bench.push(subscribed, content(gauge("g", point(1.0))))
    bench.connect().lost()
    assert bench.values() == {"g": 1.0}
    first.lost()
    assert bench.values() == {}
    assert bench.get(subscribed.client_instance_id).error_code == ErrorCode.NONE, "it is a new client"


def test_a_silent_client_is_forgotten(bench: Bench) -> None:
    bench.subscribe_all()
    bench.push(bench.get(), content(gauge("g", point(1.0))))
    bench.advance(59_999)
    assert bench.values() == {"g": 1.0}
    bench.advance(1)
    assert bench.values() == {}
    bench.subscribe_all(**{"interval.ms": "300000"})
    bench.push(bench.get(), content(gauge("g", point(2.0))))
    for _ in range(14):
        bench.advance(60_000)
    assert bench.values() == {"g": 2.0}
    bench.advance(60_000)
    assert bench.values() == {}, "after three intervals"


def test_the_number_of_clients_is_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "INSTANCES_MAX", 2)
    bench.subscribe_all()
    first, second = bench.get(), bench.get()
    bench.push(first, content(gauge("first", point(1.0))))
    bench.push(second, content(gauge("second", point(1.0))))
    bench.get(first.client_instance_id)
    bench.get()
    assert bench.values() == {"first": 1.0}, "the least recently used client is forgotten"


def test_values_without_room(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.core.client_metrics._room.left_bytes = 1_500
    bench.subscribe_all()
    metrics = [gauge(f"m{number}", point(1.0)) for number in range(5)]
    assert bench.push(bench.get(), content(*metrics)) is ErrorCode.NONE
    assert [*bench.values()] == ["m0"]
    assert "4 metrics of a client are not kept" in caplog.text


def test_a_large_push_is_read_in_pieces() -> None:
    bench = Bench()
    bench.subscribe_all()
    subscribed = bench.get()
    metrics = content(*[gauge("m", point(float(number))) for number in range(1_000)])
    request = PushTelemetryRequest(subscribed.client_instance_id, subscribed.subscription_id, metrics=metrics)
    delayed = bench.begin(request)
    assert delayed.steps is not None
    steps = 0
    while delayed.steps is not None:
        delayed.step()
        steps += 1
    assert steps > 50
    assert delayed.response is not None
    assert bench.values() == {"m": 999.0}
