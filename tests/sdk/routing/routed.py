"""Calls for the router, options for a broker that calls others, and coordinators that refuse their first requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Target
from kafkawire.sdk.transport.wire import Address

__all__ = ["PeerOptions", "errors_first", "heartbeat"]


@dataclass(frozen=True)
class PeerOptions:
    """The options of a broker that talks to other brokers."""

    KIND: ClassVar[str] = "peer"

    bootstrap_servers: tuple[Address, ...] = (Address("peer", 9092),)
    api_timeout_ms: int = 1_000
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 1_000
    connections_max_idle_ms: int = 1_000


def heartbeat(target: Target, deadline_ms: int = 61_000, **more: Any) -> Call:
    """Return a call whose attributes hold its outcome."""

    def check(response: Message) -> KafkaWireError | None:
        assert isinstance(response, HeartbeatResponse)
        return BrokerError(response.error_code, "heartbeat") if response.error_code else None

    return Call(
        target,
        lambda _: (HeartbeatRequest("g"), None),
        HeartbeatResponse,
        deadline_ms,
        more.pop("on_done", lambda call, now_ms: None),
        check=check,
        **more,
    )


def errors_first(count: int, code: int = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) -> Callable[[Any, int], Message]:
    """Return a handler that refuses this many heartbeats before it accepts any."""
    left = [code] * count
    return lambda request, version: HeartbeatResponse(error_code=left.pop() if left else 0)
