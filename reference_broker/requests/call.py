"""The context of a request, and the services that all requests share: timers, turns, and the broker's log."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.requests.handling_time import HandlingTime
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.quotas.mutations import Permits
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.round_robin import RoundRobin
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.connection import Request

__all__ = ["Call", "RequestServices"]


class RequestServices(NamedTuple):
    """Services shared by all requests.

    Attributes:
        timers: pending deadlines.
        computations: runs long computations.
        turns: the turns of connections with long requests.
        lines: the log, with repeated lines suppressed.
        repeated_bytes_max: the maximum number of response bytes that duplicates in the request may cause.
    """

    timers: Timers
    computations: Computations
    turns: RoundRobin
    lines: LogLimit
    repeated_bytes_max: int


class Call:
    """The context of a request.

    Attributes:
        services: what all requests share.
        api: the API of the request.
        version: the version of the request.
        client_id: the name by which the client identifies itself; "" if it has none.
        peer: the client, and the listener to which it connected.
        now_ms: the current time.
        throttle_ms: how long the connection is muted after the response (KIP-219); set by code that enforces a quota.
        is_counted: whether the request has already been counted towards the quotas.
        permits: what the request may change under the quota for such changes; None if it changes nothing.
        time: the time spent on the request; None if no quota depends on it.
    """

    __slots__ = (
        "api", "client_id", "is_counted", "now_ms", "peer", "permits", "services", "throttle_ms", "time", "version"
    )  # fmt: skip

    def __init__(self, services: RequestServices, request: Request, peer: Peer, now_ms: int) -> None:
        self.services = services
        self.api = request.api
        self.version = request.version
        self.client_id = request.client_id or ""
        self.peer = peer
        self.now_ms = now_ms
        self.throttle_ms = 0
        self.is_counted = False
        self.permits: Permits | None = None
        self.time: HandlingTime | None = None

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it: `/127.0.0.1`."""
        return self.peer.host

    @property
    def timers(self) -> Timers:
        """The broker's timers, for later work."""
        return self.services.timers
