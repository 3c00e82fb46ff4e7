"""Throttling of clients that exceed their quotas: their responses say so, and their connections are muted (KIP-219).

A response is sent immediately, whatever its version; the broker then reads nothing from the connection for the throttle
time, which newer clients also wait on their own. If several quotas are exceeded, the longest time applies.

The request quota limits the time that the event loop spends on a client's requests: decoding, handling, reading, and
encoding the response. While a response is delayed, nothing counts, not even work on it that another client's request
causes. In Kafka, it is the time of the threads for requests and for the network.

Source: KIP-13, KIP-124, KIP-219; `RequestHandlerHelper`, `KafkaApis.handleProduceRequest` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.handling_time import HandlingTime
from kafkawire.reference_broker.security.quotas.client_quota import Client
from kafkawire.reference_broker.security.quotas.mutations import Permits
from kafkawire.reference_broker.security.quotas.quotas import Quotas
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["Throttling"]

#: Requests between brokers, which the request quota does not limit. Nor does it limit logins, which do not get here.
_EXEMPT: Final = frozenset(
    {
        ApiKey.ALTER_PARTITION,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.WRITE_TXN_MARKERS,
    }
)

_FIELD: Final = "throttle_time_ms"

_NS_PER_MS: Final = 1_000_000


class Throttling:
    """Applies the quotas to requests.

    Args:
        quotas: the quotas.
        clock_ns: returns the time in nanoseconds; it must not be set back, since that would throttle clients for long.
    """

    def __init__(self, quotas: Quotas, clock_ns: Callable[[], int]) -> None:
        self._quotas = quotas
        self._clock_ns = clock_ns
        self._produce, self._fetch, self._request = (
            quotas.produce.limits,
            quotas.fetch.limits,
            quotas.request.limits,
        )

    def begin(self) -> HandlingTime | None:
        """Return the time of a request that begins; None if no quota depends on it."""
        return HandlingTime(self._clock_ns) if self._request.is_enabled else None

    # For handlers.

    def permits(self, call: Call, *, strict_since: int) -> Permits:
        """Return what a request may change in the cluster; see `MutationQuota`.

        Args:
            call: the context of the request.
            strict_since: the first version in which requests are refused while the quota is exceeded.
        """
        is_strict = call.version >= strict_since
        call.permits = self._quotas.mutations.permits(_client_of(call), self._now_ms, is_strict=is_strict)
        return call.permits

    def automatic_permits(self, call: Call) -> Permits:
        """Return which topics a request may create without having asked for it; nothing is throttled because of them.

        Apache Kafka 4.3 refuses to create them while the quota is exceeded, and 3.9 with ZooKeeper does not.
        """
        is_strict = not self._quotas.is_registry
        return self._quotas.mutations.permits(_client_of(call), self._now_ms, is_strict=is_strict)

    @property
    def limits_fetches(self) -> bool:
        """Whether a fetch may be throttled."""
        return self._fetch.is_enabled or self._request.is_enabled

    @property
    def limits_fetched_bytes(self) -> bool:
        """Whether a fetch may be throttled because of its size."""
        return self._fetch.is_enabled

    def fetch_bytes_max(self, call: Call) -> int | None:
        """Return the size above which the response to a fetch would always be throttled; None for no such size."""
        most = self._quotas.fetch.most_at_once(_client_of(call), self._now_ms())
        return None if most is None else int(most)

    def count_fetch(self, call: Call, size_bytes: int) -> bool:
        """Count a fetch that is about to be answered.

        Args:
            call: the context of the request; its `throttle_ms` is set.
            size_bytes: the size of the response.

        Returns:
            Whether the client is throttled. It then gets an empty response, whose size does not count.
        """
        call.is_counted = True
        client, now_ms = _client_of(call), self._now_ms()
        request_ms = self._request_ms(call, now_ms)
        call.throttle_ms = max(request_ms, self._quotas.fetch.record(client, size_bytes, now_ms))
        if call.throttle_ms:
            self._quotas.fetch.record_silently(client, -size_bytes, now_ms)
        return call.throttle_ms > 0

    def count_share_fetch(self, call: Call, size_bytes: int) -> None:
        """Count a share fetch that is about to be answered, in full: its records have been acquired for the client.

        Args:
            call: the context of the request; its `throttle_ms` is set.
            size_bytes: the size of the response.
        """
        throttle_ms = self._quotas.fetch.record(_client_of(call), size_bytes, self._now_ms())
        call.throttle_ms = max(call.throttle_ms, throttle_ms)

    # For sessions.

    def is_needed(self, call: Call) -> bool:
        """Return whether any quota concerns a request."""
        return self._produce.is_enabled or call.time is not None or call.permits is not None or call.throttle_ms > 0

    def answered(self, call: Call, size_bytes: int, response: Message | None) -> None:
        """Count a request that is about to be answered.

        Args:
            call: the context of the request; its `throttle_ms` is set.
            size_bytes: the size of the request.
            response: the response, which is told how long the client is throttled; None if the client expects none.
        """
        if not call.is_counted:
            self._count(call, size_bytes, has_response=response is not None)
        if call.throttle_ms and response is not None and _has_field(type(response), call.version):
            setattr(response, _FIELD, call.throttle_ms)

    def _count(self, call: Call, size_bytes: int, *, has_response: bool) -> None:
        now_ms, key = self._now_ms(), call.api.key
        throttle_ms = call.throttle_ms
        if call.permits is not None:
            throttle_ms = max(throttle_ms, call.permits.throttle_ms(now_ms))
        if key == ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, self._quotas.produce.record(_client_of(call), size_bytes, now_ms))
        if has_response and key not in _EXEMPT:
            throttle_ms = max(throttle_ms, self._request_ms(call, now_ms))
        else:
            call.time = None
        call.throttle_ms = throttle_ms

    def encoded(self, call: Call) -> None:
        """Count the time spent on encoding a response, which matters for the client's next request."""
        if call.time is not None:
            self._quotas.request.record_silently(_client_of(call), call.time.take_percent(), self._now_ms())

    def _request_ms(self, call: Call, now_ms: int) -> int:
        time = call.time
        return 0 if time is None else self._quotas.request.record(_client_of(call), time.take_percent(), now_ms)

    def _now_ms(self) -> int:
        return self._clock_ns() // _NS_PER_MS


def _client_of(call: Call) -> Client:
    return Client(call.peer.principal.name, call.client_id)


@cache
def _has_field(kind: type[Message], version: int) -> bool:
    return any(field.name == _FIELD and version in field.versions for field in kind.FIELDS)
