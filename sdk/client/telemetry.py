"""A machine that subscribes to and pushes the metrics that a cluster's operators request (KIP-714).

Brokers without a metrics receiver do not offer the two requests; telemetry is then permanently off and costs nothing.
The broker decides which metrics are sent, how often, and with which compression.

Source: KIP-714; Apache Kafka, `ClientTelemetryReporter`, `ClientTelemetryUtils`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final

from kafkawire.sdk.client.options import ClientOptions, ConsumerOptions
from kafkawire.sdk.client.otlp import Point, metrics_data, otlp_name
from kafkawire.sdk.errors import BrokerError, Closed, EncodeError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.compression.table import compress
from kafkawire.sdk.routing.call import ANY_BROKER, Answer, Call, Coordinator, Node, Purpose, Target
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise

__all__ = ["LAST_PUSH_MS", "Telemetry"]

logger = logging.getLogger("kafkawire.client")

#: How long a closing client waits for its last push; the metrics for its last minutes are not worth a longer wait.
LAST_PUSH_MS: Final = 250

#: The interval until a broker sets one, as in Kafka's clients.
_INTERVAL_MS: Final = 300_000

#: The first push comes after 0.5 to 1.5 intervals, to keep clients that start at the same time from pushing at the same
#: time.
_JITTER: Final = 0.5

#: The name by which a broker requests all metrics; the empty prefix has the same effect.
_ALL: Final = "*"

#: Errors after which the client must not ask again.
_FINAL: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION})

#: Errors that an immediate new subscription resolves.
_OUTDATED: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


class Telemetry:
    """Push the metrics of one client.

    Args:
        router: sends the requests; its metrics are pushed.
        options: the client's options.
        fraction: returns a random number in [0, 1).
        wall_ms: returns the wall-clock time.
    """

    def __init__(
        self, router: Router, options: ClientOptions, fraction: Callable[[], float], wall_ms: Callable[[], int]
    ) -> None:
        self._router = router
        self._options = options
        self._fraction = fraction
        self._wall_ms = wall_ms
        self._is_on = True
        self._call: Call | None = None
        self._due_ms = 0
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        self._instance_id = ZERO_UUID
        self._begun_ms = wall_ms()
        self._pushed_ms = self._begun_ms
        self._pushed: dict[MetricName, float] = {}
        self._last: tuple[Promise[None], int] | None = None
        #: The promises of callers that are waiting for the instance id.
        self._askers: list[Promise[str]] = []
        #: Why there will never be an instance id.
        self._refusal: KafkaWireError | None = None
        self._lines = LogLimit(logger)

    @property
    def is_subscribed(self) -> bool:
        """Whether a broker wants this client's metrics."""
        return self._is_on and self._subscription is not None

    def ask_instance_id(self, promise: Promise[str], now_ms: int) -> None:
        """Keep the promise with the id that a broker has given this client, as text, once there is one.

        It fails with `UnsupportedVersion` if the brokers do not offer telemetry, or with the error that ended it.
        """
        # Those whose patience has ended have failed their promises.
        self._askers = [*(asker for asker in self._askers if not asker.done), promise]
        self._tell_askers()

    def _tell_askers(self, error: KafkaWireError | None = None) -> None:
        """Answer the callers that are waiting for the instance id, if the id is known or will never be."""
        self._refusal = error or self._refusal
        has_id = self._instance_id != ZERO_UUID
        if not has_id and self._is_on:
            return
        askers, self._askers = self._askers, []
        for asker in askers:
            if has_id:
                asker.keep(format_uuid(self._instance_id))
            else:
                asker.fail(self._refusal or Closed("the client has ended"))

    def finish(self, promise: Promise[None], now_ms: int) -> None:
        """Push for the last time; the promise is kept after the push, or `LAST_PUSH_MS` later."""
        if not self.is_subscribed:
            self._is_on = False
            promise.keep(None)
            return
        if self._call is not None:
            self._call.cancel()
        self._last = promise, now_ms + LAST_PUSH_MS
        self._push(now_ms, is_last=True)

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Do the work that is due, once the cluster is known."""
        if self._last is not None:
            if now_ms >= self._last[1]:
                self._last[0].keep(None)
        elif self._is_on and self._call is None and self._router.metadata.changes and now_ms >= self._due_ms:
            if self._subscription is None:
                self._subscribe(now_ms)
            else:
                self._push(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if self._last is not None:
            return None if self._last[0].done else self._last[1]
        return self._due_ms if self._is_on and self._call is None and self._router.metadata.changes else None

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Stop, because the client has ended."""
        self._is_on = False
        self._tell_askers(error)
        if self._last is not None:
            self._last[0].keep(None)

    # Subscription.

    def _subscribe(self, now_ms: int) -> None:
        request = GetTelemetrySubscriptionsRequest(self._instance_id)
        self._submit((ANY_BROKER, Purpose.DATA), request, GetTelemetrySubscriptionsResponse, self._subscribed, now_ms)

    def _subscribed(self, call: Call[GetTelemetrySubscriptionsResponse], now_ms: int) -> None:
        self._call = None
        if call.error is not None:
            self._failed(call.error, now_ms)
            return
        response = call.answer
        self._instance_id = response.client_instance_id
        self._tell_askers()
        interval_ms = response.push_interval_ms if response.push_interval_ms > 0 else _INTERVAL_MS
        if not response.requested_metrics:
            self._due_ms = now_ms + interval_ms  # no metrics are wanted at present: ask again later
            return
        response.push_interval_ms = interval_ms
        pause_ms = int(interval_ms * (1 - _JITTER + 2 * _JITTER * self._fraction()))
        self._subscription = response
        self._due_ms = now_ms + pause_ms
        wanted = ", ".join(prefix or _ALL for prefix in response.requested_metrics)
        self._lines.info("wanted", now_ms, "metrics are pushed every %d ms: %s", interval_ms, wanted)

    # Pushes.

    def _push(self, now_ms: int, *, is_last: bool = False) -> None:
        subscription = self._subscription
        assert subscription is not None
        prefixes = tuple("" if prefix == _ALL else prefix for prefix in subscription.requested_metrics)
        values = {
            metric: value
            for metric, value in self._router.metrics.read(now_ms).items()
            if isfinite(value) and otlp_name(metric).startswith(prefixes)
        }
        time_ms = self._wall_ms()
        kind, content = self._content(subscription, values, time_ms)
        if len(content) > subscription.telemetry_max_bytes > 0:
            values = {metric: value for metric, value in values.items() if not metric.tags}
            kind, content = self._content(subscription, values, time_ms)
            limit_bytes = subscription.telemetry_max_bytes
            self._lines.info("size", now_ms, "the metrics exceed %d bytes, so only totals are pushed", limit_bytes)

        def pushed(call: Call[PushTelemetryResponse], now_ms: int) -> None:
            self._call = None
            if self._last is not None:
                self._is_on = False
                self._last[0].keep(None)
            elif call.error is not None:
                self._failed(call.error, now_ms)
            else:
                self._pushed, self._pushed_ms = values, time_ms
                self._due_ms = now_ms + subscription.push_interval_ms

        request = PushTelemetryRequest(self._instance_id, subscription.subscription_id, is_last, kind, content)
        self._submit(self._target(), request, PushTelemetryResponse, pushed, now_ms, LAST_PUSH_MS if is_last else None)

    def _content(
        self, subscription: GetTelemetrySubscriptionsResponse, values: Mapping[MetricName, float], time_ms: int
    ) -> tuple[int, bytes]:
        """Return the metrics, compressed with the broker's most preferred codec that this client supports."""
        is_delta = subscription.delta_temporality
        points = []
        for metric, value in values.items():
            is_sum = metric.name.endswith("-total")
            former = self._pushed.get(metric, 0) if is_sum and is_delta else 0
            points.append(Point(metric, value - former, is_sum))
        start_ms = self._pushed_ms if is_delta else self._begun_ms
        data = metrics_data(points, self._resource(), start_ms, time_ms, is_delta=is_delta)
        for kind in subscription.accepted_compression_types:
            try:
                return kind, compress(Compression(kind), data)
            except (ValueError, ImportError, EncodeError):
                continue  # not supported by this client
        return Compression.NONE, data

    def _resource(self) -> dict[str, str]:
        """Return those attributes of this client that a broker cannot learn in any other way."""
        options = {key: getattr(self._options, key, None) for key in ("client_rack", "group_id", "group_instance_id")}
        return {key: value for key, value in options.items() if value}

    # Subscription and pushes.

    def _submit(
        self,
        target: tuple[Target, Purpose],
        request: Message,
        response: type[Answer],
        on_done: Callable[[Call[Answer], int], None],
        now_ms: int,
        timeout_ms: int | None = None,
    ) -> None:
        deadline_ms = now_ms + (self._options.request_timeout_ms if timeout_ms is None else timeout_ms)
        self._call = Call(
            target[0],
            lambda _: (request, None),
            response,
            deadline_ms,
            on_done,
            check=_error_of,
            retries=False,
            purpose=target[1],
        )
        self._router.submit(self._call, now_ms)

    def _target(self) -> tuple[Target, Purpose]:
        """Return the broker that receives pushes; on a consumer's fetch connection, they would wait for fetches."""
        if not isinstance(self._options, ConsumerOptions):
            return ANY_BROKER, Purpose.DATA
        if self._options.group_id is not None:
            return Coordinator(CoordinatorType.GROUP, self._options.group_id), Purpose.GROUP
        return Node(min(self._router.metadata.brokers, default=-1)), Purpose.GROUP

    def _failed(self, error: KafkaWireError, now_ms: int) -> None:
        """Decide when to request the subscription again: immediately, after an interval, or never."""
        interval_ms = _INTERVAL_MS if self._subscription is None else self._subscription.push_interval_ms
        code = error.code if isinstance(error, BrokerError) else None
        if isinstance(error, UnsupportedVersion | Closed) or code is ErrorCode.UNSUPPORTED_VERSION:
            self._is_on = False
            self._tell_askers(error)
            return
        if code in _FINAL:
            self._is_on = False
            self._tell_askers(error)
            self._lines.warning("off", now_ms, "metrics are no longer pushed: %s", error)
            return
        self._lines.warning("failed", now_ms, "metrics were not pushed: %s", error)
        # If a broker rejects this client's subscription as unknown twice in a row, the client pauses before asking
        # again.
        at_once = code in _OUTDATED and self._subscription is not None
        self._due_ms = now_ms if at_once else now_ms + interval_ms
        self._subscription = None


def _error_of(response: Message) -> BrokerError | None:
    code = getattr(response, "error_code", 0)
    return BrokerError(code, "telemetry") if code else None
