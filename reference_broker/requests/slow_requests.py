"""The log of slow requests: one line for each, which says where its time went.

A wait that the client asked for does not make a request slow: the `max_wait_ms` of a fetch, or the other members of a
group for which JoinGroup and SyncGroup wait. Lines are limited for each API (`LogLimit`), and contain neither records
nor credentials.

Source: `RequestChannel` in Apache Kafka, whose request log has the same times.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.request_times import RequestTimes
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.values import quoted

__all__ = ["SlowRequests"]

_log = logging.getLogger("kafkawire.broker.requests")

_NS_PER_MS: Final = 1_000_000

#: Requests whose response is delayed until other members of the group have sent theirs.
_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})

#: Requests that wait for records, for as long as the client says.
_FOR_RECORDS: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})

#: How much of a client's id is shown; a client may send 32,767 bytes.
_CLIENT_ID_CHARACTERS_MAX: Final = 100


class _Size(NamedTuple):
    """How much a request asks for."""

    topics: int
    partitions: int

    @classmethod
    def of(cls, message: Any) -> _Size:
        """Count the structures in a request: those with partitions in them are topics."""
        topics = partitions = 0
        for field in message.FIELDS if isinstance(message, Message) else ():
            if field.array and isinstance(field.type, type) and (found := getattr(message, field.name)):
                topics += len(found)
                inner = [each.name for each in field.type.FIELDS if each.array and "partition" in each.name]
                partitions += sum(len(getattr(each, name) or ()) for each in found for name in inner)
        return cls(topics, partitions)


class SlowRequests:
    """Logs slow requests; a `RequestObserver`.

    Args:
        limit_ms: the option `slow_request_ms`: requests that take this long are slow.
    """

    def __init__(self, limit_ms: int) -> None:
        self._limit_ns = limit_ms * _NS_PER_MS
        self._lines = LogLimit(_log)

    def __call__(self, request: Request, call: Call, response: Message | None, times: RequestTimes) -> None:
        """Log a request if it was slow."""
        if times.total_ns < self._limit_ns or times.total_ns - _wanted_ns(request, times) < self._limit_ns:
            return
        size = _Size.of(request.message)
        self._lines.warning(
            request.api.key,
            times.sent_ns // _NS_PER_MS,
            "slow request: %s version %d with %d topics and %d partitions, client id %s, from %s, took %s ms: "
            "queue %s, local %s, remote %s, response %s; throttled for %d ms",
            request.api.name,
            request.version,
            size.topics,
            size.partitions,
            quoted(call.client_id, limit=_CLIENT_ID_CHARACTERS_MAX),
            call.peer,
            *map(_ms, (times.total_ns, times.queue_ns, times.local_ns, times.remote_ns, times.response_ns)),
            call.throttle_ms,
        )


def _wanted_ns(request: Request, times: RequestTimes) -> int:
    """Return how much of the delay the client asked for."""
    if request.api.key in _FOR_OTHERS:
        return times.remote_ns
    if request.api.key in _FOR_RECORDS:
        max_wait_ms: int = request.message.max_wait_ms
        return min(times.remote_ns, max(max_wait_ms, 0) * _NS_PER_MS)
    return 0


def _ms(time_ns: int) -> str:
    return f"{time_ns / _NS_PER_MS:.1f}"
