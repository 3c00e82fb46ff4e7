"""Count a client's connections and requests: bytes, latencies and throttling, for each node and each kind of request.

The router reports connections and responses; each connection reports the bytes that it sends and receives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.sdk.errors import AuthenticationFailed, KafkaWireError
from kafkawire.sdk.metrics.catalogue import CLIENT, COORDINATOR, FETCH, NODE, PRODUCER, SHARE_COORDINATOR, SHARE_FETCH
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.metrics.sensor import Sensor
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.routing.links import Link, LinkState
from kafkawire.sdk.routing.metadata import Metadata

__all__ = ["RequestMetrics", "TrafficMetrics"]


class _Measures(NamedTuple):
    """The measurements for one kind of request: its latency, and how long brokers delayed it."""

    group: str
    latency: tuple[str, ...]
    throttling: str | None = None


_HEARTBEAT: Final = _Measures(COORDINATOR, ("heartbeat", "heartbeat-response-time"))

#: Keyed by response name; a kind of client has no metrics for requests that it never sends.
_REQUESTS: Final[Mapping[str, Mapping[str, _Measures]]] = {
    "producer": {"ProduceResponse": _Measures(PRODUCER, ("request-latency",), "produce-throttle-time")},
    "consumer": {
        "FetchResponse": _Measures(FETCH, ("fetch", "fetch-latency"), "fetch-throttle-time"),
        "OffsetCommitResponse": _Measures(COORDINATOR, ("commit", "commit-latency")),
        "HeartbeatResponse": _HEARTBEAT,
        "ConsumerGroupHeartbeatResponse": _HEARTBEAT,
        "JoinGroupResponse": _Measures(COORDINATOR, ("join", "join-time")),
        "SyncGroupResponse": _Measures(COORDINATOR, ("sync", "sync-time")),
    },
    "share-consumer": {
        "ShareFetchResponse": _Measures(SHARE_FETCH, ("fetch", "fetch-latency"), "fetch-throttle-time"),
        "ShareGroupHeartbeatResponse": _Measures(SHARE_COORDINATOR, ("heartbeat", "heartbeat-response-time")),
    },
}

_SECOND_MS: Final = 1_000


class TrafficMetrics:
    """The bytes of all connections of a client; see `Traffic` in the transport.

    Args:
        registry: the client's registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._requests = registry.sensor(CLIENT, "request", "request-size", "outgoing-byte")
        self._responses = registry.sensor(CLIENT, "response", "incoming-byte")

    def sent(self, parts: Iterable[Buffer], now_ms: int) -> None:
        """Count a request, including its length field."""
        self._requests.record(sum(map(len, parts)), now_ms)

    def received(self, size_bytes: int, now_ms: int) -> None:
        """Count a response, excluding its length field."""
        self._responses.record(LENGTH_BYTES + size_bytes, now_ms)


class RequestMetrics:
    """The connections and requests of one client.

    Args:
        registry: the client's registry.
        kind: the kind of client.
        metadata: the metadata, which shows which node has an address.
        links: the client's links, a live view.
    """

    def __init__(self, registry: Registry, kind: str, metadata: Metadata, links: Collection[Link]) -> None:
        self._registry = registry
        self._metadata = metadata
        self._opened = registry.sensor(CLIENT, "connection-creation")
        self._closed = registry.sensor(CLIENT, "connection-close")
        self._refused = registry.sensor(CLIENT, "failed-authentication")
        self._nodes: dict[object, Sensor] = {}
        self._latencies: dict[str, Sensor] = {}
        self._throttling: dict[str, Sensor] = {}
        for response, measures in _REQUESTS.get(kind, {}).items():
            self._latencies[response] = registry.sensor(measures.group, *measures.latency)
            if measures.throttling is not None:
                self._throttling[response] = registry.sensor(measures.group, measures.throttling)
        registry.gauge(
            CLIENT,
            "connection-count",
            lambda now_ms: sum(link.state is LinkState.READY for link in list(links)),
        )
        registry.gauge(CLIENT, "metadata-age", lambda now_ms: (now_ms - metadata.refreshed_ms) / _SECOND_MS)

    def opened(self, now_ms: int) -> None:
        """Count a connection that has become ready."""
        self._opened.record(1, now_ms)

    def closed(self, state: LinkState, error: KafkaWireError | None, now_ms: int) -> None:
        """Count a connection that has ended or was rejected.

        Args:
            state: the previous state of the link.
            error: the reason; None if this client closed the connection.
            now_ms: the time.
        """
        if state is LinkState.READY:
            self._closed.record(1, now_ms)
        if isinstance(error, AuthenticationFailed):
            self._refused.record(1, now_ms)

    def answered(self, link: Link, response: object, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Count a response."""
        name = type(response).__name__
        sensor = self._latencies.get(name)
        if sensor is not None:
            sensor.record(latency_ms, now_ms)
        if throttling := self._throttling.get(name):
            throttling.record(throttle_ms, now_ms)
        node = self._nodes.get(link.address) or self._node(link)
        if node is not None:
            node.record(latency_ms, now_ms)

    def _node(self, link: Link) -> Sensor | None:
        """Return the sensor for a node; None for a bootstrap server whose node is unknown."""
        for broker in self._metadata.brokers.values():
            if broker.address == link.address:
                tags = (("node-id", f"node-{broker.node_id}"),)
                sensor = self._nodes[link.address] = self._registry.sensor(
                    NODE, "request-latency", "response", tags=tags
                )
                return sensor
        return None
