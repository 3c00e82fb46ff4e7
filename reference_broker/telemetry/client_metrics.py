"""Clients subscribe to the metrics that operators want, and push them; the broker keeps the latest values (KIP-714).

    GetTelemetrySubscriptions ──▶ ClientMetrics ──▶ Subscriptions
    PushTelemetry ──▶ ClientMetrics ──otlp──▶ LatestValues ◀── samples()

Each client has an instance id and an instance here, which holds the times of its last requests. The number of instances
is limited. They are forgotten when their connection closes, or when they have been silent for some intervals.

Source: Apache Kafka, `ClientMetricsManager`, `ClientMetricsInstance`. The receiver, a plugin in Kafka, is built in.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.telemetry.latest_values import ClientSample, LatestValues, Room
from kafkawire.reference_broker.telemetry.otlp import metric_points
from kafkawire.reference_broker.telemetry.subscriptions import Attributes, Subscriptions, Wanted, subscription_id
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import RESERVED_UUIDS, ZERO_UUID, format_uuid
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.compression.table import decompress

__all__ = ["INSTANCES_MAX", "ClientMetrics", "ClientOrigin", "Push", "Subscribed"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum number of client instances, as in Kafka; the least recently used one is forgotten.
INSTANCES_MAX: Final = 16_384

#: How long an instance is kept at least after its last request, as in Kafka; the other limit is three intervals.
_KEPT_MS: Final = 60_000
_KEPT_INTERVALS: Final = 3

#: How often instances are checked for silence.
_CHECK_INTERVAL_MS: Final = 60_000

#: Maximum size of decompressed metrics, since a small push may contain any amount of repeated bytes.
_DECOMPRESSED_BYTES_MAX: Final = 16 * 1024 * 1024

#: Errors after which a client may ask for its subscription at once.
_ASK_AGAIN: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})

#: What clients are named by Kafka that do not say who they are.
_UNKNOWN: Final = "unknown"

#: The attributes that become labels of a client's values, since they tell clients apart.
_LABELS: Final = ("client_id", "client_instance_id", "client_software_name", "client_software_version")


class ClientOrigin(NamedTuple):
    """Where a request comes from.

    Attributes:
        client_id: the name that the client has given itself.
        software_name: the name of its library; empty if it is unknown.
        software_version: the version of that library.
        address: its address, such as `127.0.0.1`.
        port: its port; None if it is unknown.
        farewells: called when the connection is closed, keyed by the module that registered them.
    """

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int | None
    farewells: dict[str, Callable[[], None]]


class Subscribed(NamedTuple):
    """The subscription of a client.

    Attributes:
        client_instance_id: the id that identifies the client from now on.
        subscription_id: see `subscription_id`.
        wanted: the metrics, and the interval.
    """

    client_instance_id: bytes
    subscription_id: int
    wanted: Wanted


class Push(NamedTuple):
    """A push.

    Attributes:
        client_instance_id: the client.
        subscription_id: the subscription, as the client knows it.
        is_terminating: whether it is the client's last push.
        compression: the number of the compression.
        metrics: the metrics.
    """

    client_instance_id: bytes
    subscription_id: int
    is_terminating: bool
    compression: int
    metrics: Buffer


class _Instance:
    """A client.

    Args:
        attributes: see `Attributes`.
        wanted: what it is asked to push.
        subscription: the id of its subscription.
        version: the version of the subscriptions when `wanted` was found.
        values: what it has pushed.
    """

    __slots__ = (
        "_asked_ms",
        "_pushed_ms",
        "attributes",
        "error",
        "is_terminating",
        "subscription",
        "used_ms",
        "values",
        "version",
        "wanted",
    )

    def __init__(
        self, attributes: Attributes, wanted: Wanted, subscription: int, version: int, values: LatestValues
    ) -> None:
        self.attributes = attributes
        self.wanted = wanted
        self.subscription = subscription
        self.version = version
        self.values = values
        self.error = ErrorCode.NONE
        self.is_terminating = False
        self.used_ms = 0
        self._asked_ms = 0
        self._pushed_ms = 0

    def may_ask(self, now_ms: int) -> bool:
        """Return whether an interval has passed since the last request, and note this one if so."""
        if now_ms - max(self._asked_ms, self._pushed_ms) < self.wanted.interval_ms:
            return False
        self._asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether a push is due, and note it if so; the first one comes early, since clients spread theirs."""
        is_first = self._asked_ms > self._pushed_ms
        if not is_first and now_ms - self._pushed_ms < self.wanted.interval_ms:
            return False
        self._pushed_ms = now_ms
        return True

    def is_silent(self, now_ms: int) -> bool:
        """Return whether the client has been silent for too long."""
        return now_ms - self.used_ms >= max(_KEPT_MS, _KEPT_INTERVALS * self.wanted.interval_ms)


class ClientMetrics:
    """The metrics of all clients.

    Args:
        configs: the subscriptions' configurations, keyed by name; see `changed`.
        options: the maximum size of a push.
        timers: timers of the broker.
        new_uuid: returns 16 random bytes for a client's id.
    """

    def __init__(
        self,
        configs: Mapping[str, Mapping[str, str]],
        options: BrokerOptions,
        timers: Timers,
        new_uuid: Callable[[], bytes],
    ) -> None:
        self._configs = configs
        self._options = options
        self._timers = timers
        self._new_uuid = new_uuid
        self._subscriptions = Subscriptions(configs)
        self._room = Room()
        #: The instances, the least recently used one first.
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._is_checking = False
        self._lines = LogLimit(_log)

    def changed(self, name: str) -> None:
        """Take over the changed configurations of a subscription; each client is told when it next asks or pushes."""
        self._subscriptions.change(name, self._configs.get(name, {}))

    def samples(self) -> Iterator[ClientSample]:
        """Yield the latest value of every metric of every client that is still connected."""
        for instance in self._instances.values():
            yield from instance.values

    # Requests.

    def subscribe(self, client_instance_id: bytes, origin: ClientOrigin, now_ms: int) -> Work[Subscribed | ErrorCode]:
        """Return a client's subscription, or THROTTLING_QUOTA_EXCEEDED if it asks too early.

        Args:
            client_instance_id: the id that the client has been given; zeros for a new client.
            origin: where the request comes from.
            now_ms: the current time.
        """
        if client_instance_id == ZERO_UUID:
            client_instance_id = self._new_id()
        instance = yield from self._instance(client_instance_id, origin, now_ms)
        if not instance.may_ask(now_ms) and instance.error not in _ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.error = ErrorCode.NONE
        return Subscribed(client_instance_id, instance.subscription, instance.wanted)

    def push(self, push: Push, origin: ClientOrigin, now_ms: int) -> Work[ErrorCode]:
        """Keep what a client pushes; return NONE, INVALID_REQUEST or another error.

        Args:
            push: the metrics.
            origin: where the request comes from.
            now_ms: the current time.
        """
        if push.client_instance_id in RESERVED_UUIDS:
            return ErrorCode.INVALID_REQUEST
        instance = yield from self._instance(push.client_instance_id, origin, now_ms)
        code = self._refusal(instance, push, now_ms)
        instance.is_terminating = push.is_terminating
        if code is ErrorCode.NONE and len(push.metrics):
            code = yield from self._take(instance, push, now_ms)
        instance.error = code
        return code

    def _refusal(self, instance: _Instance, push: Push, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression not in [*Compression]:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(push.metrics) > self._options.telemetry_max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _take(self, instance: _Instance, push: Push, now_ms: int) -> Work[ErrorCode]:
        labels = {name: value for name in _LABELS if (value := instance.attributes.get(name))}
        values, dropped = instance.values, instance.values.dropped
        try:
            content = decompress(Compression(push.compression), push.metrics, _DECOMPRESSED_BYTES_MAX)
            for point in metric_points(memoryview(content)):
                if point is not None:
                    values.take(point._replace(labels=tuple(sorted((dict(point.labels) | labels).items()))))
                yield
        except DecodeError as error:
            name = format_uuid(push.client_instance_id)
            self._lines.warning("damaged", now_ms, "metrics that client %s has pushed cannot be read: %s", name, error)
            return ErrorCode.INVALID_RECORD
        if values.dropped > dropped:
            text = "%d metrics of a client are not kept, since those of all clients take too much memory"
            self._lines.warning("room", now_ms, text, values.dropped - dropped)
        return ErrorCode.NONE

    # Instances.

    def _new_id(self) -> bytes:
        while True:
            found = self._new_uuid()
            if found not in RESERVED_UUIDS and found not in self._instances and not format_uuid(found).startswith("-"):
                return found

    def _instance(self, client_instance_id: bytes, origin: ClientOrigin, now_ms: int) -> Work[_Instance]:
        """Return a client's instance; if there is none, or the subscriptions have changed, a new one."""
        known = self._instances.get(client_instance_id)
        if known is None or known.version < self._subscriptions.version:
            version = self._subscriptions.version
            attributes = _attributes(client_instance_id, origin) if known is None else known.attributes
            wanted = yield from self._subscriptions.wanted(attributes)
            values = LatestValues(self._room) if known is None else known.values
            if known is None and client_instance_id in self._instances:
                values = self._instances[client_instance_id].values  # another connection was faster
            known = _Instance(attributes, wanted, subscription_id(wanted, client_instance_id), version, values)
            self._instances[client_instance_id] = known
            # As in Kafka, a connection takes along only the last instance that it has created.
            origin.farewells[__name__] = partial(self._forget, client_instance_id)
            while len(self._instances) > INSTANCES_MAX:
                self._forget(next(iter(self._instances)))
        self._instances.move_to_end(client_instance_id)
        known.used_ms = now_ms
        if not self._is_checking:
            self._is_checking = True
            self._timers.at(now_ms + _CHECK_INTERVAL_MS, self._check)
        return known

    def _forget(self, client_instance_id: bytes) -> None:
        instance = self._instances.pop(client_instance_id, None)
        if instance is not None:
            instance.values.clear()

    def _check(self, now_ms: int) -> None:
        """Forget silent clients; continue while there are any clients."""
        for client_instance_id, instance in [*self._instances.items()]:
            if instance.is_silent(now_ms):
                self._forget(client_instance_id)
        self._is_checking = bool(self._instances)
        if self._is_checking:
            self._timers.at(now_ms + _CHECK_INTERVAL_MS, self._check)


def _attributes(client_instance_id: bytes, origin: ClientOrigin) -> Attributes:
    return {
        "client_id": origin.client_id,
        "client_instance_id": format_uuid(client_instance_id),
        "client_software_name": origin.software_name or _UNKNOWN,
        "client_software_version": origin.software_version or _UNKNOWN,
        "client_source_address": origin.address,
        "client_source_port": None if origin.port is None else str(origin.port),
    }
