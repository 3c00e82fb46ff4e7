"""A client pushes the metrics that brokers ask for, when they ask for them, and nothing else.

Method: simulate a cluster whose brokers ask, refuse, throttle and stall, and recognise pushed metrics by their names;
test_otlp.py covers the encoding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import ClientOptions, ConsumerOptions, ProducerOptions, read_options
from kafkawire.sdk.client.telemetry import LAST_PUSH_MS, Telemetry
from kafkawire.sdk.errors import Closed, LocalProtocolError, RequestTimedOut, UnsupportedVersion
from kafkawire.sdk.metrics.sensor import Sensor
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.compression.table import decompress
from kafkawire.sdk.routing.call import Purpose
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.simulation import SILENT, Simulation, address, backoff, cluster, options

CLIENT_ID = b"0123456789abcdef"
HOUR_MS = 3_600_000
ALL = "*"
TOTALS = "org.apache.kafka.consumer.fetch.manager"


class Setting:
    """A client, and a simulated cluster that asks it for metrics.

    Attributes:
        wants: the fields of the next subscription.
        codes: the error codes of the next responses to pushes.
        bytes: a sensor that is pushed as fetch.manager.bytes.consumed.total and related metrics.
    """

    def __init__(
        self, kind: type[ClientOptions] = ConsumerOptions, given: Mapping[str, Any] | None = None, **wants: Any
    ) -> None:
        chosen = {"group_id": "g", "client_rack": "rack-7"} if given is None else given
        read = options(kind, **chosen)
        self.router = Router(read, backoff())
        self.fraction = 0.5
        self.simulation = Simulation(self.router)
        self.telemetry = Telemetry(self.router, read, lambda: self.fraction, lambda: self.simulation.now_ms + 10**12)
        self.simulation.machines.append(self.telemetry)
        self.wants = {
            "client_instance_id": CLIENT_ID,
            "subscription_id": 7,
            "push_interval_ms": 60_000,
            "telemetry_max_bytes": 10**6,
            "requested_metrics": [TOTALS],
            **wants,
        }
        self.codes: list[ErrorCode] = []
        self.bytes: Sensor = self.router.metrics.sensor("consumer-fetch-manager-metrics", "bytes-consumed")
        handlers = self.simulation.handlers
        handlers[MetadataRequest] = cluster([1, 2], {"t": [1]})
        found = FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator("g", 2, *address(2))])
        handlers[FindCoordinatorRequest] = lambda request, version: found
        handlers[GetTelemetrySubscriptionsRequest] = lambda request, version: GetTelemetrySubscriptionsResponse(
            **self.wants
        )
        handlers[PushTelemetryRequest] = self._push

    def _push(self, request: Any, version: int) -> Message:
        return PushTelemetryResponse(error_code=self.codes.pop(0) if self.codes else 0)

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.simulation.run(duration_ms)

    def asked(self) -> list[tuple[int, GetTelemetrySubscriptionsRequest]]:
        """Return each request for a subscription, with its time."""
        return [(at, each) for at, _, each, _ in self.simulation.sent if type(each) is GetTelemetrySubscriptionsRequest]

    def pushes(self) -> list[tuple[int, PushTelemetryRequest]]:
        """Return each push, with its time."""
        return [(at, each) for at, _, each, _ in self.simulation.sent if type(each) is PushTelemetryRequest]


def total(push: PushTelemetryRequest) -> Any:
    """Return the value, start time and end time of bytes-consumed-total in a push."""
    pb = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs opentelemetry-proto")
    (resource,) = pb.MetricsData.FromString(bytes(push.metrics)).resource_metrics
    for metric in resource.scope_metrics[0].metrics:
        if metric.name.endswith("bytes.consumed.total"):
            return metric.sum.data_points[0]
    raise AssertionError("the push has no total")


def test_what_is_asked_for_is_pushed_at_its_interval() -> None:
    setting = Setting()
    setting.run(200_000)
    ((_, ask),) = setting.asked()
    assert ask.client_instance_id == ZERO_UUID
    assert [round(at, -3) for at, _ in setting.pushes()] == [61_000, 121_000, 181_000]
    push = setting.pushes()[0][1]
    assert (push.client_instance_id, push.subscription_id, push.terminating, push.compression_type) == (
        CLIENT_ID,
        7,
        False,
        Compression.NONE,
    )
    content = bytes(push.metrics)
    assert b"org.apache.kafka.consumer.fetch.manager.bytes.consumed.total" in content
    assert b"connection" not in content
    assert b"rack-7" in content
    assert b"group_id" in content


def test_a_broker_that_names_no_interval_gets_metrics_now_and_then() -> None:
    setting = Setting(push_interval_ms=0)
    setting.run(1_000_000)
    first, second, third = (round(at, -3) for at, _ in setting.pushes())
    assert second - first == third - second == 300_000


@pytest.mark.parametrize(("fraction", "first_ms"), [(0.0, 30_000), (0.999, 89_940)])
def test_clients_that_start_together_do_not_push_together(fraction: float, first_ms: int) -> None:
    setting = Setting()
    setting.fraction = fraction
    setting.run(100_000)
    assert first_ms <= setting.pushes()[0][0] - setting.asked()[0][0] <= first_ms + 100


@pytest.mark.parametrize("every", [ALL, ""])  # Kafka 4.3 uses "*", KIP-714 an empty prefix
def test_all_metrics(every: str) -> None:
    setting = Setting(requested_metrics=[every])
    setting.run(100_000)
    assert b"org.apache.kafka.consumer.connection.count" in bytes(setting.pushes()[0][1].metrics)


def test_nothing_is_wanted_now() -> None:
    setting = Setting(requested_metrics=[])
    setting.run(150_000)
    assert setting.pushes() == []
    assert not setting.telemetry.is_subscribed
    assert [round(at, -4) for at, _ in setting.asked()] == [0, 60_000, 120_000]
    assert {request.client_instance_id for _, request in setting.asked()[1:]} == {CLIENT_ID}


@pytest.mark.parametrize("kind", [Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY])
def test_compression(kind: Compression) -> None:
    """The client uses the first type that the broker accepts and the client supports."""
    setting = Setting(accepted_compression_types=[99, kind, 0], requested_metrics=[ALL])
    setting.run(100_000)
    push = setting.pushes()[0][1]
    assert push.compression_type == kind
    assert b"org.apache.kafka.consumer" in decompress(kind, push.metrics)


def test_cumulative_and_delta_sums() -> None:
    for is_delta, expected in ((False, [10, 15, 15]), (True, [10, 5, 0])):
        setting = Setting(delta_temporality=is_delta)
        setting.bytes.record(10, 1_000)
        setting.run(65_000)
        setting.bytes.record(5, setting.simulation.now_ms)
        setting.run(120_000)
        assert [total(push).as_double for _, push in setting.pushes()] == expected


def test_each_delta_begins_where_the_one_before_ends() -> None:
    setting = Setting(delta_temporality=True)
    setting.bytes.record(10, 1_000)
    setting.run(200_000)
    first, second, third = (total(push) for _, push in setting.pushes())
    assert first.start_time_unix_nano < first.time_unix_nano == second.start_time_unix_nano
    assert second.start_time_unix_nano < second.time_unix_nano == third.start_time_unix_nano


def test_deltas_of_a_push_that_failed_are_in_the_next() -> None:
    setting = Setting(delta_temporality=True)
    setting.codes = [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    setting.bytes.record(10, 1_000)
    setting.run(300_000)
    assert [total(push).as_double for _, push in setting.pushes()][:3] == [10, 10, 0]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_a_subscription_that_has_changed(code: ErrorCode) -> None:
    setting = Setting()
    setting.codes = [code]
    setting.run(50_000)
    setting.wants["subscription_id"] = 8
    setting.run(100_000)
    (_, first), (again_ms, again) = setting.asked()
    assert (first.client_instance_id, again.client_instance_id) == (ZERO_UUID, CLIENT_ID)
    assert again_ms - setting.pushes()[0][0] < 100
    assert [push.subscription_id for _, push in setting.pushes()] == [7, 8]


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_push_that_is_refused_for_now(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.codes = [code]
    setting.run(130_000)
    assert len(setting.asked()) == 2
    assert setting.asked()[1][0] - setting.pushes()[0][0] >= 60_000
    assert f"metrics were not pushed: {code.name}" in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD])
def test_a_push_that_is_refused_for_good(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.codes = [code]
    setting.run(HOUR_MS)
    assert (len(setting.asked()), len(setting.pushes())) == (1, 1)
    assert "no longer pushed" in caplog.text


def test_a_broker_that_refuses_every_subscription() -> None:
    """The client keeps asking, but infrequently."""
    setting = Setting(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
    setting.run(HOUR_MS)
    assert 10 <= len(setting.asked()) <= 13


def test_brokers_that_do_not_offer_it(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    calls: list[Any] = []
    submit = setting.router.submit

    def refuse(call: Any, now_ms: int) -> None:
        if call.response is GetTelemetrySubscriptionsResponse:
            calls.append(call)
            call.settle(None, UnsupportedVersion("not offered"), now_ms)
        else:
            submit(call, now_ms)

    setting.router.submit = refuse  # type: ignore[method-assign]  # the driver looks up the version before it sends
    setting.run(HOUR_MS)
    assert len(calls) == 1
    assert setting.telemetry.due_ms(setting.simulation.now_ms) is None
    assert "pushed" not in caplog.text


def test_more_than_the_broker_takes() -> None:
    setting = Setting(telemetry_max_bytes=3_000)
    for number in range(100):
        tags = (("topic", f"topic-{number}"),)
        setting.router.metrics.sensor("consumer-fetch-manager-metrics", "bytes-consumed", tags=tags).record(1, 0)
    setting.run(100_000)
    content = bytes(setting.pushes()[0][1].metrics)
    assert b"bytes.consumed.total" in content
    assert b"topic-" not in content


def test_the_last_push() -> None:
    setting = Setting(delta_temporality=True)
    setting.run(10_000)
    assert setting.telemetry.is_subscribed
    done: Promise[None] = Promise()
    setting.telemetry.finish(done, setting.simulation.now_ms)
    setting.run(10)
    assert done.done
    ((_, push),) = setting.pushes()
    assert push.terminating
    setting.run(HOUR_MS)
    assert len(setting.pushes()) == 1


def test_the_last_push_to_a_broker_that_stalls() -> None:
    setting = Setting()
    setting.simulation.handlers[PushTelemetryRequest] = lambda request, version: SILENT
    setting.run(65_000)
    done: Promise[None] = Promise()
    setting.telemetry.finish(done, setting.simulation.now_ms)
    setting.run(LAST_PUSH_MS - 1)
    assert not done.done
    setting.run(2)
    assert done.done


def test_a_last_push_that_cannot_begin_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting()
    setting.run(10_000)
    done: Promise[None] = Promise()
    with monkeypatch.context() as patch:
        patch.setattr("kafkawire.sdk.routing.router.MAX_CALLS", 0)
        with pytest.raises(LocalProtocolError):
            setting.telemetry.finish(done, setting.simulation.now_ms)
    setting.run(LAST_PUSH_MS)
    assert done.done


@pytest.mark.parametrize(
    ("kind", "given", "node", "purpose"),
    [
        (ProducerOptions, {}, 1, Purpose.DATA),
        (ConsumerOptions, {"group_id": "g"}, 2, Purpose.GROUP),  # the coordinator
        (ConsumerOptions, {}, 1, Purpose.GROUP),
    ],
)
def test_whom_it_talks_to(kind: type[ClientOptions], given: dict[str, str], node: int, purpose: Purpose) -> None:
    """Pushes use a connection on which no waiting fetch delays them."""
    setting = Setting(kind, given)
    setting.run(100_000)
    assert [each for _, each, request, _ in setting.simulation.sent if isinstance(request, PushTelemetryRequest)] == [
        node
    ]
    assert [link.purpose for link in setting.router._links.all if link.address == address(node)][-1] is purpose


def test_a_consumer_opens_no_connection_to_learn_that_nothing_is_wanted() -> None:
    setting = Setting(ConsumerOptions, {}, requested_metrics=[])
    setting.run(100_000)
    assert len(setting.asked()) == 2
    assert {link.purpose for link in setting.router._links.all} == {Purpose.DATA}


def test_there_is_no_last_push_without_a_subscription_nor_after_the_end() -> None:
    setting = Setting(requested_metrics=[])
    setting.run(1_000)
    done: Promise[None] = Promise()
    setting.telemetry.finish(done, setting.simulation.now_ms)
    assert done.done
    setting = Setting()
    setting.run(1_000)
    unsettled: Promise[None] = Promise()
    setting.telemetry.finish(unsettled, setting.simulation.now_ms)
    setting.simulation.close()
    assert unsettled.done


@pytest.mark.parametrize("io", ["loop", "thread"])
@pytest.mark.parametrize("is_on", [True, False])
def test_a_whole_client(io: str, is_on: bool) -> None:
    """The client pushes once more when it ends, but only if pushing is allowed."""

    async def run() -> None:
        supported = {key: api.versions for key, api in APIS.items() if "broker" in api.listeners}
        broker = ScriptedBroker({"t": 1}, supported)
        wanted = GetTelemetrySubscriptionsResponse(
            client_instance_id=CLIENT_ID, push_interval_ms=60_000, requested_metrics=[ALL], telemetry_max_bytes=10**6
        )
        broker.responders[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS] = lambda request: wanted
        broker.responders[ApiKey.PUSH_TELEMETRY] = lambda request: PushTelemetryResponse()
        given = {"io": io, "enable_metrics_push": is_on}
        client = ClientCore("consumer", read_options(ConsumerOptions, str(BROKER), given), broker.network)
        await client.start()
        while is_on and not client._telemetry.is_subscribed:
            await asyncio.sleep(0)
        await client.finish(Closed("done"))
        pushes = broker.asked(ApiKey.PUSH_TELEMETRY)
        assert len(pushes) == int(is_on)
        assert len(broker.asked(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)) == int(is_on)

    asyncio.run(run())


# The instance id.


def instance_id(setting: Setting) -> Promise[str]:
    promise: Promise[str] = Promise()
    setting.telemetry.ask_instance_id(promise, setting.simulation.now_ms)
    return promise


def test_the_instance_id_is_told_once_it_is_known() -> None:
    setting = Setting(requested_metrics=[])
    early, impatient = instance_id(setting), instance_id(setting)
    impatient.fail(RequestTimedOut("too late"))
    assert not early.done
    another = instance_id(setting)
    assert setting.telemetry._askers == [early, another], "those without patience are forgotten"
    setting.run(10_000)
    for promise in (early, another, instance_id(setting)):
        assert promise.wait() == format_uuid(CLIENT_ID)


def test_brokers_that_give_no_instance_id() -> None:
    setting = Setting()
    early = instance_id(setting)
    setting.telemetry._failed(UnsupportedVersion("not offered"), 0)
    for promise in (early, instance_id(setting)):
        with pytest.raises(UnsupportedVersion, match="not offered"):
            promise.wait()


def test_a_client_that_ends_without_an_instance_id() -> None:
    setting = Setting()
    early = instance_id(setting)
    setting.telemetry.fail(Closed("it has ended"), 0)
    with pytest.raises(Closed, match="it has ended"):
        early.wait()
    with pytest.raises(Closed, match="it has ended"):
        instance_id(setting).wait()


def test_an_instance_id_outlives_telemetry() -> None:
    setting = Setting()
    setting.codes = [ErrorCode.INVALID_REQUEST]
    setting.run(100_000)
    assert setting.telemetry.due_ms(setting.simulation.now_ms) is None
    assert instance_id(setting).wait() == format_uuid(CLIENT_ID)
